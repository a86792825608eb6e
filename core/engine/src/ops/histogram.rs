//! Counting by value: `histc`, `histogram`, `histogramdd`, `bincount`.

use super::copy::{contiguous, convert};
use super::options::{fill, item};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IValue, IntList};
use crate::tensor::factory;
use crate::{DType, Result, Scalar, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::histc, histc_meta, histc);
    r.cpu(op::histogram_bin_ct, |a| {
        let t = op::reshape.call((a.tensor(0)?, [a.tensor(0)?.numel(), 1]))?;
        let weight = flat_weight(a.opt_tensor(3))?;
        let edges = even_edges(&t, &[a.int(1)?], range(a, 2)?)?;
        let hist = count(&t, &edges, weight.as_ref(), a.bool(4)?, true)?;
        Ok((hist, edges.into_iter().next()).into())
    });
    r.cpu(op::histogram_bins_tensor, |a| {
        let t = op::reshape.call((a.tensor(0)?, [a.tensor(0)?.numel(), 1]))?;
        let weight = flat_weight(a.opt_tensor(2))?;
        let edges = vec![op::clone.call((a.tensor(1)?,))?];
        let hist = count(&t, &edges, weight.as_ref(), a.bool(3)?, false)?;
        Ok((hist, edges.into_iter().next()).into())
    });
    r.cpu(op::_histogramdd_bin_edges, |a| Ok(even_edges(a.tensor(0)?, a.int_list(1)?, range(a, 2)?)?.into()));
    r.cpu(op::_histogramdd_from_bin_cts, |a| {
        let edges = even_edges(a.tensor(0)?, a.int_list(1)?, range(a, 2)?)?;
        Ok(count(a.tensor(0)?, &edges, a.opt_tensor(3), a.bool(4)?, true)?.into())
    });
    r.cpu(op::_histogramdd_from_bin_tensors, |a| {
        Ok(count(a.tensor(0)?, a.tensor_list(1)?, a.opt_tensor(2), a.bool(3)?, false)?.into())
    });
    r.implicit(op::histogramdd, |a| by_counts(a, a.int_list(1)?));
    r.implicit(op::histogramdd_int_bins, |a| {
        let n = a.tensor(0)?.size(-1)?;
        by_counts(a, &vec![a.int(1)?; n as usize])
    });
    r.implicit(op::histogramdd_TensorList_bins, |a| {
        let bins = a.tensor_list(1)?;
        let args = (a.tensor(0)?, bins, a.opt_tensor(3), a.bool(4)?);
        let hist = op::_histogramdd_from_bin_tensors.call(args)?;
        Ok((hist, bins.to_vec()).into())
    });
    r.cpu(op::bincount, bincount);
}

fn range(a: Args<'_>, i: usize) -> Result<Option<&[f64]>> {
    if a.is_none(i) { Ok(None) } else { a.0[i].double_list().map(Some) }
}

fn flat_weight(w: Option<&Tensor>) -> Result<Option<Tensor>> {
    w.map(|w| op::reshape.call((w, [w.numel()]))).transpose()
}

fn by_counts(a: Args<'_>, bins: &[i64]) -> Result<Returns> {
    let (t, weight, density) = (a.tensor(0)?, a.opt_tensor(3), a.bool(4)?);
    let args: crate::ivalue::Stack = [
        IValue::from(t),
        IValue::from(bins.to_vec()),
        a.0[2].clone(),
        IValue::from(weight),
        IValue::from(density),
    ]
    .into_iter()
    .collect();
    let edges = op::_histogramdd_bin_edges.call_list(args.clone())?;
    let hist = op::_histogramdd_from_bin_cts.call(args)?;
    Ok((hist, edges).into())
}

/// Evenly spaced edges along each coordinate of an `…` × `n` list of points.
fn even_edges(t: &Tensor, bins: &[i64], range: Option<&[f64]>) -> Result<Vec<Tensor>> {
    check!(
        t.dim() >= 2,
        "torch.histogramdd: input tensor should have at least 2 dimensions, but got {}",
        t.dim()
    );
    let n = t.size(-1)? as usize;
    check!(
        bins.len() == n,
        "torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got {}",
        bins.len()
    );
    let mut outer = vec![(0.0, 1.0); n];
    if let Some(r) = range {
        check!(
            r.len() == 2 * n,
            "torch.histogramdd: for a {n}-dimensional histogram range should have {} elements, but got {}",
            2 * n,
            r.len()
        );
        outer = r.chunks(2).map(|p| (p[0], p[1])).collect();
    } else if t.numel() > 0 {
        check!(
            matches!(t.dtype(), DType::Float | DType::Double),
            NotImplemented;
            "\"histogramdd\" not implemented for '{}'",
            t.dtype()
        );
        let points = contiguous(&convert(t, DType::Double)?)?;
        // SAFETY: a contiguous tensor of doubles.
        let x = unsafe { points.as_slice::<f64>() };
        for (d, o) in outer.iter_mut().enumerate() {
            let column = || x.iter().skip(d).step_by(n).copied();
            let nan = column().any(f64::is_nan);
            let fold =
                |f: fn(f64, f64) -> f64, from: f64| if nan { f64::NAN } else { column().fold(from, f) };
            *o = (fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY));
        }
    }
    let mut edges = Vec::with_capacity(n);
    for (d, (low, high)) in outer.into_iter().enumerate() {
        check!(
            low.is_finite() && high.is_finite(),
            "torch.histogramdd: dimension {d}'s range [{low}, {high}] is not finite"
        );
        check!(
            low <= high,
            "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {d}"
        );
        check!(bins[d] > 0, "torch.histogram(): bins must be > 0, but got {} for dimension {d}", bins[d]);
        let (low, high) = if low == high { (low - 0.5, high + 0.5) } else { (low, high) };
        edges.push(op::linspace.call((low, high, bins[d] + 1, t.dtype(), (), t.device()))?);
    }
    Ok(edges)
}

/// The bin of a value, the last edge belonging to the last bin.
fn bin(edges: &[f64], v: f64, even: bool, exact: bool, single: bool) -> Option<usize> {
    let last = edges.len() - 1;
    // NaN is in no bin.
    if !(v >= edges[0] && v <= edges[last]) {
        return None;
    }
    let above = |from: usize, to: usize| from + edges[from..to].partition_point(|e| *e <= v);
    let mut at = if even {
        // In the input's precision, as upstream guesses the bin.
        let guess = if single {
            let (v, low, high) = (v as f32, edges[0] as f32, edges[last] as f32);
            ((v - low) * last as f32 / (high - low)) as usize
        } else {
            ((v - edges[0]) * last as f64 / (edges[last] - edges[0])) as usize
        };
        if exact { above(guess.saturating_sub(1), (guess + 2).min(last + 1)).max(1) - 1 } else { guess }
    } else {
        above(0, last + 1) - 1
    };
    if at >= last {
        at = last.max(1) - 1;
    }
    Some(at)
}

/// Counts points (or adds up their weights) in the cells between edges.
fn count(t: &Tensor, edges: &[Tensor], weight: Option<&Tensor>, density: bool, even: bool) -> Result<Tensor> {
    check!(
        t.dim() >= 2,
        "torch.histogramdd: input tensor should have at least 2 dimensions, but got {}",
        t.dim()
    );
    let n = t.size(-1)? as usize;
    check!(
        edges.len() == n,
        "torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got {}",
        edges.len()
    );
    for (d, e) in edges.iter().enumerate() {
        check!(
            e.dtype() == t.dtype(),
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {} \
             and bins for dimension {d} with dtype {}",
            t.dtype().torch_name_cpp(),
            e.dtype().torch_name_cpp()
        );
        check!(
            e.dim() == 1,
            "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor for \
             dimension {d}",
            e.dim()
        );
        check!(
            e.numel() > 0,
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for \
             dimension {d}"
        );
        check!(
            e.numel() > 1,
            "torch.histogram(): bins must be > 0, but got {} for dimension {d}",
            e.numel() - 1
        );
    }
    if let Some(w) = weight {
        check!(
            w.dtype() == t.dtype(),
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, \
             but got input({}), and weight({})",
            t.dtype().torch_name_cpp(),
            w.dtype().torch_name_cpp()
        );
        let scalar = [1];
        let sizes = if w.dim() == 0 { &scalar[..] } else { w.sizes() };
        check!(
            sizes == &t.sizes()[..t.dim() - 1],
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding \
             its innermost dimension, but got input with shape {:?} and weight with shape {:?}",
            t.sizes(),
            w.sizes()
        );
    }
    check!(
        matches!(t.dtype(), DType::Float | DType::Double),
        NotImplemented;
        "\"histogramdd\" not implemented for '{}'",
        t.dtype()
    );
    let hist = binned(t, n, edges, weight, even, true)?;
    if !density {
        return Ok(hist);
    }
    // Per unit of volume, and in all one.
    let mut out = op::div_Tensor.call((&hist, op::sum.call((&hist,))?))?;
    for (d, e) in edges.iter().enumerate() {
        let widths = op::diff.call((e,))?;
        let mut sizes = vec![1; n];
        sizes[d] = widths.numel();
        out = op::div_Tensor.call((out, op::reshape.call((widths, sizes))?))?;
    }
    Ok(out)
}

/// The counts themselves, kept in double precision until they are done.
fn binned(
    t: &Tensor,
    n: usize,
    edges: &[Tensor],
    weight: Option<&Tensor>,
    even: bool,
    exact: bool,
) -> Result<Tensor> {
    let doubles = |t: &Tensor| contiguous(&convert(t, DType::Double)?);
    let points = doubles(t)?;
    let weight = weight.map(doubles).transpose()?;
    let edge_tensors = edges.iter().map(doubles).collect::<Result<Vec<_>>>()?;
    // SAFETY: contiguous tensors of doubles.
    let (x, w, edges): (_, _, Vec<&[f64]>) = unsafe {
        (
            points.as_slice::<f64>(),
            weight.as_ref().map(|w| w.as_slice::<f64>()),
            edge_tensors.iter().map(|e| e.as_slice::<f64>()).collect(),
        )
    };
    let sizes: IntList = edges.iter().map(|e| e.len() as i64 - 1).collect();
    let mut cells = vec![0.0f64; sizes.iter().product::<i64>() as usize];
    let single = t.dtype() == DType::Float;
    if n > 0 {
        for (i, point) in x.chunks_exact(n).enumerate() {
            let cell = point.iter().zip(&edges).try_fold(0, |cell, (v, e)| {
                bin(e, *v, even, exact, single).map(|b| cell * (e.len() - 1) + b)
            });
            if let Some(cell) = cell {
                cells[cell] += w.map_or(1.0, |w| w[i]);
            }
        }
    }
    let out = factory::from_slice(&cells)?;
    out.set_sizes_contiguous(&sizes);
    convert(&out, t.dtype())
}

/// histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor
fn histc_meta(a: Args<'_>) -> Result<Specs> {
    let (t, bins) = (a.tensor(0)?, a.int(1)?);
    check!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    Ok(OutSpec::like(t, IntList::from_slice(&[bins])).into())
}

fn histc(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    check!(
        t.dtype().is_floating_point() && !t.dtype().is_float8(),
        NotImplemented;
        "\"histogram_cpu\" not implemented for '{}'",
        t.dtype()
    );
    let (mut low, mut high) = (a.scalar(2)?.to_f64(), a.scalar(3)?.to_f64());
    if low == high && t.numel() > 0 {
        let extremes = op::aminmax.call_all((t,))?;
        (low, high) = (item(extremes[0].tensor()?)?.to_f64(), item(extremes[1].tensor()?)?.to_f64());
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    check!(low.is_finite() && high.is_finite(), "torch.histc: range of [{low}, {high}] is not finite");
    check!(low < high, "torch.histc: max must be larger than min");
    let edges = op::linspace.call((low, high, a.int(1)? + 1, t.dtype(), (), t.device()))?;
    let points = contiguous(t)?;
    let flat = points.alias_with(
        IntList::from_slice(&[t.numel(), 1]),
        IntList::from_slice(&[1, 1]),
        points.storage_offset(),
    );
    super::copy::copy_into(&out[0], &binned(&flat, 1, &[edges], None, true, false)?)
}

/// bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor
fn bincount(a: Args<'_>) -> Result<Returns> {
    let (t, weights, least) = (a.tensor(0)?, a.opt_tensor(1), a.int(2)?);
    check!(least >= 0, "minlength should be >= 0");
    check!(
        t.dtype().is_integral(false),
        NotImplemented;
        "\"bincount_cpu\" not implemented for '{}'",
        t.dtype()
    );
    if t.dim() == 1 && t.numel() == 0 {
        let out = factory::empty(&[least], DType::Long, t.device())?;
        fill(&out, Scalar::Int(0))?;
        return Ok(out.into());
    }
    let x = contiguous(&convert(t, DType::Long)?)?;
    // SAFETY: a contiguous tensor of int64.
    let x = unsafe { x.as_slice::<i64>() };
    check!(
        t.dim() == 1 && x.iter().all(|v| *v >= 0),
        "bincount only supports 1-d non-negative integral inputs."
    );
    if let Some(w) = weights {
        check!(
            w.dim() == 1 && w.numel() == t.numel(),
            "weights should be 1-d and have the same length as input"
        );
    }
    let n = x.iter().max().map_or(0, |m| m + 1).max(least);
    let dtype = match weights.map(|w| w.dtype()) {
        None => DType::Long,
        Some(DType::Float) => DType::Float,
        Some(_) => DType::Double,
    };
    let out = factory::empty(&[n], dtype, t.device())?;
    fill(&out, Scalar::Int(0))?;
    let weights = weights.map(|w| contiguous(&convert(w, dtype)?)).transpose()?;
    if let Some(w) = weights {
        dispatch!("bincount_cpu", dtype, float64_32, T => {
            // SAFETY: contiguous tensors of T.
            let (w, o) = unsafe { (w.as_slice::<T>(), out.as_mut_slice::<T>()) };
            for (v, w) in x.iter().zip(w) {
                o[*v as usize] += *w;
            }
        });
    } else {
        // SAFETY: a contiguous tensor of int64.
        let o = unsafe { out.as_mut_slice::<i64>() };
        for v in x {
            o[*v as usize] += 1;
        }
    }
    Ok(out.into())
}
