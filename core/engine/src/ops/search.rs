//! Looking values up: `searchsorted`, `bucketize`, `isin`.

use super::copy::{contiguous, convert};
use crate::cpu::order::{Ordered, less};
use crate::cpu::parallel;
use crate::cpu::rows::Out;
use crate::dispatch::{OutSpec, Registry, Specs};
use crate::iter::result_type;
use crate::ivalue::Args;
use crate::tensor::factory;
use crate::{DType, Result, Scalar, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(
        op::searchsorted_Tensor,
        |a| sorted_meta(a, a.tensor(1)?),
        |a, o| sorted(a, a.tensor(1)?, o),
    )
    .structured(
        op::searchsorted_Scalar,
        |a| sorted_meta(a, &number(a.scalar(1)?)?),
        |a, o| sorted(a, &number(a.scalar(1)?)?, o),
    );
    r.structured(op::bucketize_Tensor, |a| buckets_meta(a, a.tensor(0)?), |a, o| buckets(a, a.tensor(0)?, o));
    r.any_device(op::bucketize_Scalar, |a| {
        Ok(op::bucketize_Tensor.call((number(a.scalar(0)?)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?))?.into())
    });
    r.structured(
        op::isin_Tensor_Tensor,
        |a| isin_meta(a.tensor(0)?, a.tensor(1)?),
        |a, o| isin(a.tensor(0)?, a.tensor(1)?, a.bool(3)?, o),
    )
    .structured(
        op::isin_Tensor_Scalar,
        |a| isin_meta(a.tensor(0)?, &number(a.scalar(1)?)?),
        |a, o| isin(a.tensor(0)?, &number(a.scalar(1)?)?, a.bool(3)?, o),
    )
    .structured(
        op::isin_Scalar_Tensor,
        |a| isin_meta(&number(a.scalar(0)?)?, a.tensor(1)?),
        |a, o| isin(&number(a.scalar(0)?)?, a.tensor(1)?, a.bool(3)?, o),
    );
}

fn number(s: Scalar) -> Result<Tensor> {
    factory::wrapped_scalar(s)
}

/// searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None,
/// Tensor? sorter=None) -> Tensor
fn sorted_meta(a: Args<'_>, values: &Tensor) -> Result<Specs> {
    let (edges, right) = (a.tensor(0)?, a.bool(3)?);
    if let Some(side) = a.opt_str(4) {
        check!(
            side == "left" || side == "right",
            "torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        );
        check!(
            !right || side == "right",
            "torch.searchsorted(): side and right can't be set to opposites, got side of {side} while right was True"
        );
    }
    check_edges(edges, values, a.opt_tensor(5))?;
    let dtype = if a.bool(2)? { DType::Int } else { DType::Long };
    Ok(OutSpec::new(values.sizes(), dtype, edges.device()).into())
}

fn check_edges(edges: &Tensor, values: &Tensor, sorter: Option<&Tensor>) -> Result<()> {
    if let Some(s) = sorter {
        check!(
            s.sizes() == edges.sizes(),
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {:?}and got \
             sorter tensor {:?}",
            edges.sizes(),
            s.sizes()
        );
        check!(
            s.dtype() == DType::Long,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
            s.dtype()
        );
    }
    check!(
        values.dim() > 0 || (values.numel() == 1 && edges.dim() == 1),
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got \
         boundaries tensor dim({}) and input value's dim({}) numel({})",
        edges.dim(),
        values.dim(),
        values.numel()
    );
    check!(
        edges.dim() != 0,
        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
    );
    let before = |t: &Tensor| t.sizes()[..t.dim().max(1) - 1].to_vec();
    check!(
        edges.dim() == 1 || (edges.dim() == values.dim() && before(edges) == before(values)),
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor \
         and input value tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
        edges.sizes(),
        values.sizes()
    );
    Ok(())
}

fn sorted(a: Args<'_>, values: &Tensor, out: &[Tensor]) -> Result<()> {
    let right = a.bool(3)? || a.opt_str(4) == Some("right");
    search(a.tensor(0)?, values, right, a.opt_tensor(5), &out[0])
}

/// bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
fn buckets_meta(a: Args<'_>, values: &Tensor) -> Result<Specs> {
    let edges = a.tensor(1)?;
    check!(edges.dim() == 1, "boundaries tensor must be 1 dimension, but got dim({})", edges.dim());
    check_edges(edges, values, None)?;
    let dtype = if a.bool(2)? { DType::Int } else { DType::Long };
    Ok(OutSpec::new(values.sizes(), dtype, edges.device()).into())
}

fn buckets(a: Args<'_>, values: &Tensor, out: &[Tensor]) -> Result<()> {
    search(a.tensor(1)?, values, a.bool(3)?, None, &out[0])
}

/// How many of `n` ordered elements come before the value: those less than it or, `right`, not greater.
fn position<T: PartialOrd>(n: usize, at: impl Fn(usize) -> T, value: T, right: bool) -> usize {
    let (mut first, mut end) = (0, n);
    while first < end {
        let middle = first + (end - first) / 2;
        let v = at(middle);
        // NaN compares with nothing, so it counts as before.
        let stays = if right { v > value } else { v >= value };
        if stays { end = middle } else { first = middle + 1 }
    }
    first
}

fn search(edges: &Tensor, values: &Tensor, right: bool, sorter: Option<&Tensor>, out: &Tensor) -> Result<()> {
    let common = if edges.dtype() == values.dtype() { edges.dtype() } else { result_type([edges, values])? };
    let edges = contiguous(&convert(edges, common)?)?;
    let values = contiguous(&convert(values, common)?)?;
    let sorter = sorter.map(contiguous).transpose()?;
    let n = edges.sizes()[edges.dim() - 1] as usize;
    let width =
        if edges.dim() == 1 { values.numel() } else { values.sizes()[values.dim() - 1] }.max(1) as usize;
    if let Some(s) = &sorter {
        // SAFETY: a contiguous tensor of int64.
        let places = unsafe { s.as_slice::<i64>() };
        check!(
            places.iter().all(|p| (0..n as i64).contains(p)),
            "torch.searchsorted(): sorter index out of range"
        );
    }
    dispatch!("searchsorted_out_cpu", common, all, T => {
        // SAFETY: contiguous tensors of T and of int64.
        let (e, v) = unsafe { (edges.as_slice::<T>(), values.as_slice::<T>()) };
        let places = sorter.as_ref().map(|s| unsafe { s.as_slice::<i64>() });
        let find = |i: usize| {
            let row = if edges.dim() == 1 { 0 } else { i / width * n };
            match places {
                Some(p) => position(n, |j| e[row + p[row + j] as usize], v[i], right),
                None => position(n, |j| e[row + j], v[i], right),
            }
        };
        parallel::for_range(0, v.len(), 4096, |b, end| {
            for i in b..end {
                // SAFETY: one write to each result; the dtype was looked at.
                unsafe {
                    if out.dtype() == DType::Int {
                        Out::<i32>::of(out).set(i, find(i) as i32);
                    } else {
                        Out::<i64>::of(out).set(i, find(i) as i64);
                    }
                }
            }
        });
    });
    Ok(())
}

/// isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor
fn isin_meta(elements: &Tensor, tests: &Tensor) -> Result<Specs> {
    for t in [elements, tests] {
        check!(
            !matches!(t.dtype(), DType::Bool) && !t.dtype().is_complex(),
            NotImplemented;
            "Unsupported input type encountered for isin(): {}",
            t.dtype()
        );
    }
    let device = if elements.dim() == 0 { tests.device() } else { elements.device() };
    Ok(OutSpec::new(elements.sizes(), DType::Bool, device).into())
}

fn isin(elements: &Tensor, tests: &Tensor, invert: bool, out: &[Tensor]) -> Result<()> {
    let common = result_type([elements, tests])?;
    let elements = contiguous(&convert(elements, common)?)?;
    let tests = contiguous(&convert(tests, common)?)?;
    dispatch!("isin_default_cpu", common, all, T => {
        // SAFETY: contiguous tensors of T, and one of bools.
        let (e, t, o) = unsafe { (elements.as_slice::<T>(), tests.as_slice::<T>(), out[0].as_mut_slice::<bool>()) };
        let mut known = t.to_vec();
        known.sort_by(|a, b| compare(*a, *b));
        for (v, o) in e.iter().zip(o) {
            // NaN equals nothing, itself included.
            let found = !Ordered::nan(*v) && known.binary_search_by(|k| compare(*k, *v)).is_ok();
            *o = found != invert;
        }
    });
    Ok(())
}

fn compare<T: Ordered>(a: T, b: T) -> std::cmp::Ordering {
    if less(a, b) {
        std::cmp::Ordering::Less
    } else if less(b, a) {
        std::cmp::Ordering::Greater
    } else {
        std::cmp::Ordering::Equal
    }
}
