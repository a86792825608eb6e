//! Statistics made of other operators: `cov`, `corrcoef`, `quantile`, `nanquantile`.

use super::options::item;
use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, OpId, Result, Scalar, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::cov, |a| cov(a.tensor(0)?, a.int(1)?, a.opt_tensor(2), a.opt_tensor(3)).map(Into::into));
    r.implicit(op::corrcoef, corrcoef);
    r.implicit(op::quantile, |a| quantile(a, a.tensor(1)?, false))
        .implicit(op::nanquantile, |a| quantile(a, a.tensor(1)?, true))
        .implicit(op::quantile_scalar, |a| quantile(a, &number(a)?, false))
        .implicit(op::nanquantile_scalar, |a| quantile(a, &number(a)?, true));
    r.implicit(op::quantile_out, |a| into(a, op::quantile))
        .implicit(op::nanquantile_out, |a| into(a, op::nanquantile));
    r.implicit(op::quantile_scalar_out, |a| into_scalar(a, op::quantile_scalar))
        .implicit(op::nanquantile_scalar_out, |a| into_scalar(a, op::nanquantile_scalar));
}

fn truth(t: &Tensor) -> Result<bool> {
    Ok(item(t)?.to_bool())
}

/// The weights of observations: how often each was made, how much each counts.
fn check_weights(t: &Tensor, name: &str, n: i64, integral: bool) -> Result<()> {
    check!(
        t.dim() <= 1,
        "cov(): expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
        t.dim()
    );
    let kind = if integral { "integral" } else { "floating point" };
    check!(
        if integral { t.dtype().is_integral(false) } else { t.dtype().is_floating_point() },
        "cov(): expected {name} to have {kind} dtype but got {name} with {} dtype",
        t.dtype()
    );
    check!(
        t.numel() == n,
        "cov(): expected {name} to have the same numel as there are observations in the input but got {} != {n}",
        t.numel()
    );
    check!(
        n == 0 || truth(&op::ge_Scalar.call((op::min.call((t,))?, 0))?)?,
        "cov(): {name} cannot be negative"
    );
    Ok(())
}

/// cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor
fn cov(t: &Tensor, correction: i64, often: Option<&Tensor>, much: Option<&Tensor>) -> Result<Tensor> {
    check!(
        t.dim() <= 2,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        t.dim()
    );
    check!(t.dtype() != DType::Bool, NotImplemented; "cov(): bool dtype is not supported for input");
    let x = if t.dim() < 2 { op::view.call((t, [1, -1]))? } else { t.clone() };
    let n = x.size(1)?;
    let mut w: Option<Tensor> = None;
    if let Some(f) = often {
        check_weights(f, "fweights", n, true)?;
        w = Some(f.clone());
    }
    if let Some(m) = much {
        check_weights(m, "aweights", n, false)?;
        w = Some(match w {
            Some(f) => op::mul_Tensor.call((f, m))?,
            None => m.clone(),
        });
    }
    let total = match &w {
        Some(w) => op::sum.call((w,))?,
        None => op::scalar_tensor.call((n, DType::Long, (), x.device(), ()))?,
    };
    check!(
        w.is_none() || truth(&op::ne_Scalar.call((&total, 0))?)?,
        "cov(): weights sum to zero, can't be normalized"
    );
    let weighted = |x: &Tensor| match &w {
        Some(w) => op::mul_Tensor.call((x, w)),
        None => Ok(x.clone()),
    };
    let mean = op::div_Tensor.call((op::sum_dim_IntList.call((weighted(&x)?, [1], false))?, &total))?;
    let mut norm = match (&w, much) {
        (Some(w), Some(m)) if correction != 0 => {
            let square = op::mul_Scalar.call((op::sum.call((op::mul_Tensor.call((w, m))?,))?, correction))?;
            op::sub_Tensor.call((&total, op::div_Tensor.call((square, &total))?))?
        }
        _ => op::sub_Scalar.call((&total, correction))?,
    };
    if truth(&op::le_Scalar.call((&norm, 0))?)? {
        crate::warn::warn(
            crate::warn::Category::User,
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
        )?;
        norm = op::zeros_like.call((norm,))?;
    }
    let x = op::sub_Tensor.call((&x, op::unsqueeze.call((mean, 1))?))?;
    let right = op::conj.call((op::t.call((weighted(&x)?,))?,))?;
    op::squeeze.call((op::div_Tensor.call((op::mm.call((x, right))?, norm))?,))
}

/// corrcoef(Tensor self) -> Tensor
fn corrcoef(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        t.dim() <= 2,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        t.dim()
    );
    let c = op::cov.call((t,))?;
    if c.dim() == 0 {
        return Ok(op::div_Tensor.call((&c, &c))?.into());
    }
    let d = op::diagonal.call((&c,))?;
    let d = if d.dtype().is_complex() { op::real.call((d,))? } else { d };
    let deviation = op::sqrt.call((d,))?;
    let c = op::div_Tensor.call((c, op::view.call((&deviation, [-1, 1]))?))?;
    let c = op::div_Tensor.call((c, op::view.call((&deviation, [1, -1]))?))?;
    let clip = |t: Tensor| op::clip.call((t, -1, 1));
    Ok(if c.dtype().is_complex() {
        op::complex.call((clip(op::real.call((&c,))?)?, clip(op::imag.call((&c,))?)?))?
    } else {
        clip(c)?
    }
    .into())
}

/// The quantile asked for as a number.
fn number(a: Args<'_>) -> Result<Tensor> {
    let (t, q) = (a.tensor(0)?, a.double(1)?);
    check!((0.0..=1.0).contains(&q), "quantile() q must be in the range [0, 1] but got {q}");
    op::scalar_tensor.call((q, t.dtype(), (), t.device(), ()))
}

fn into(a: Args<'_>, id: OpId) -> Result<Returns> {
    let v = id.call((a.tensor(0)?, a.tensor(1)?, a.opt_int(2)?, a.bool(3)?, a.str(4)?))?;
    written(a.tensor(5)?, a.tensor(0)?, &v)
}

fn into_scalar(a: Args<'_>, id: OpId) -> Result<Returns> {
    let v = id.call((a.tensor(0)?, a.double(1)?, a.opt_int(2)?, a.bool(3)?, a.str(4)?))?;
    written(a.tensor(5)?, a.tensor(0)?, &v)
}

fn written(out: &Tensor, t: &Tensor, v: &Tensor) -> Result<Returns> {
    check!(out.dtype() == t.dtype(), "quantile() out tensor must be same dtype as the input tensor");
    super::reduce::deliver(out, v)
}

/// quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor
fn quantile(a: Args<'_>, q: &Tensor, skip_nan: bool) -> Result<Returns> {
    let (t, dim, keepdim, mode) = (a.tensor(0)?, a.opt_int(2)?, a.bool(3)?, a.str(4)?);
    check!(
        ["linear", "lower", "higher", "midpoint", "nearest"].contains(&mode),
        "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {mode}"
    );
    let d = shape::wrap_dim(dim.unwrap_or(0), t.dim())?;
    check!(t.numel() > 0, "quantile() input tensor must be non-empty");
    check!(q.dim() <= 1, "quantile() q must be a scalar or 1D tensor");
    check!(
        matches!(t.dtype(), DType::Float | DType::Double),
        "quantile() input tensor must be either float or double dtype"
    );
    check!(t.dtype() == q.dtype(), "quantile() q tensor must be same dtype as the input tensor");
    check!(t.device() == q.device(), "quantile() q tensor must be on the same device as the input tensor");
    if q.is_cpu() {
        let inside = op::logical_and.call((op::ge_Scalar.call((q, 0))?, op::le_Scalar.call((q, 1))?))?;
        check!(truth(&op::all.call((inside,))?)?, "quantile() q values must be in the range [0, 1]");
    }
    // What remains of the input's dimensions, and the values in order along a last one.
    let mut rest = IntList::new();
    if dim.is_some() && t.dim() > 0 {
        rest = t.sizes().into();
        if keepdim {
            rest[d] = 1;
        } else {
            rest.remove(d);
        }
    } else if keepdim {
        rest = IntList::from_elem(1, t.dim());
    }
    let lined = match dim {
        None => op::flatten_using_ints.call((t,))?,
        Some(_) if t.dim() == 0 || d + 1 == t.dim() => t.clone(),
        Some(_) => op::transpose_int.call((op::unsqueeze.call((t, -1))?, d, -1))?,
    };
    let sorted = op::sort.call_all((lined,))?.swap_remove(0);
    let sorted = sorted.tensor()?;
    let n = if sorted.dim() == 0 { 1 } else { sorted.size(-1)? };
    check!(n <= 1 << 24, "quantile() input tensor is too large");
    let mut sizes = rest.clone();
    sizes.push(n);
    let sorted = op::reshape.call((sorted, sizes))?;
    let nan = op::isnan.call((&sorted,))?;
    let ranks = if skip_nan {
        let there = op::sum_dim_IntList.call((op::logical_not.call((nan,))?, [-1], true))?;
        let ranks = op::mul_Tensor.call((q, op::sub_Scalar.call((there, 1))?))?;
        let negative = op::lt_Scalar.call((&ranks, 0))?;
        op::masked_fill_Scalar.call((ranks, negative, 0))?
    } else {
        // One NaN makes the last rank of all, where NaN is.
        let any = op::any_dim.call((nan, -1, true))?;
        let pair = op::broadcast_tensors.call_list((vec![op::mul_Scalar.call((q, n - 1))?, any],))?;
        op::masked_fill_Scalar.call((&pair[0], &pair[1], n - 1))?
    };
    let ranks = match mode {
        "lower" => op::floor.call((ranks,))?,
        "higher" => op::ceil.call((ranks,))?,
        "nearest" => op::round.call((ranks,))?,
        _ => ranks,
    };
    let long = |t: &Tensor| op::to_dtype.call((t, DType::Long));
    let below = long(&ranks)?;
    let mut values = op::gather.call((&sorted, -1, &below))?;
    if mode == "linear" || mode == "midpoint" {
        let weights = if mode == "midpoint" {
            op::full_like.call((&ranks, Scalar::Float(0.5)))?
        } else {
            op::sub_Tensor.call((&ranks, &below))?
        };
        let above = op::gather.call((&sorted, -1, long(&op::ceil.call((&ranks,))?)?))?;
        values = op::lerp_Tensor.call((values, above, weights))?;
    }
    Ok(if q.dim() == 0 {
        op::squeeze_dim.call((values, -1))?
    } else {
        let front = op::transpose_int.call((op::unsqueeze.call((values, 0))?, 0, -1))?;
        op::squeeze_dim.call((front, -1))?
    }
    .into())
}
