//! The greatest and the least: `max`, `min`, `amax`, `amin`, `aminmax`, `argmax`, `argmin`.

use super::reduce::{deliver, out_dtype, reduced_sizes, with_dim};
use crate::cpu::dense::{self, Want};
use crate::cpu::lines;
use crate::cpu::rows::{self, Out, for_rows};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::tensor::{memory, shape};
use crate::{DType, OpId, Result, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::max, |a| whole_meta(a, "max"), |a, o| whole(a, false, o))
        .structured(op::min, |a| whole_meta(a, "min"), |a, o| whole(a, true, o))
        .structured(op::max_dim, |a| dim_meta(a, "max"), |a, o| selected(a, false, o))
        .structured(op::min_dim, |a| dim_meta(a, "min"), |a, o| selected(a, true, o))
        .structured(op::amax, |a| values_meta(a, "amax"), |a, o| values(a, false, o))
        .structured(op::amin, |a| values_meta(a, "amin"), |a, o| values(a, true, o))
        .structured(op::argmax, |a| position_meta(a, "argmax"), |a, o| position(a, false, o))
        .structured(op::argmin, |a| position_meta(a, "argmin"), |a, o| position(a, true, o))
        .structured(op::aminmax, both_meta, both);
    r.any_device(op::amax_out, |a| values_out(a, op::amax))
        .any_device(op::amin_out, |a| values_out(a, op::amin));
    r.implicit(op::max_out, |a| Ok(op::maximum_out.call((a.tensor(0)?, a.tensor(1)?, a.tensor(2)?))?.into()));
    r.implicit(op::min_out, |a| Ok(op::minimum_out.call((a.tensor(0)?, a.tensor(1)?, a.tensor(2)?))?.into()));
    r.any_device(op::aminmax_out, |a| {
        let (min, max) = (a.tensor(3)?, a.tensor(4)?);
        check!(
            matches!(memory::overlap(min, max), memory::Sharing::No | memory::Sharing::TooHard),
            Value;
            "aminmax(): the `min` and `max` out= tensors must not overlap."
        );
        out_dtype(Some(a.tensor(0)?.dtype()), min)?;
        out_dtype(Some(a.tensor(0)?.dtype()), max)?;
        let v = op::aminmax.call_all((a.tensor(0)?, a.opt_int(1)?, a.bool(2)?))?;
        deliver(min, v[0].tensor()?)?;
        deliver(max, v[1].tensor()?)?;
        Ok((min, max).into())
    });
    r.any_device(op::_aminmax, |a| {
        let v = op::aminmax.call_all((a.tensor(0)?,))?;
        Ok(Returns(v.into_iter().collect()))
    });
    r.any_device(op::_aminmax_dim, |a| {
        let v = op::aminmax.call_all((a.tensor(0)?, a.int(1)?, a.bool(2)?))?;
        Ok(Returns(v.into_iter().collect()))
    });
}

/// Kernels compare real numbers only.
fn check_real(name: &str, t: &Tensor) -> Result<()> {
    check!(!t.dtype().is_complex(), Type; "{name}(): does not support complex input");
    Ok(())
}

/// A dimension that a selection is made along; it must have elements.
fn chosen_dim(name: &str, t: &Tensor, dim: i64) -> Result<usize> {
    let d = shape::wrap_dim(dim, t.dim())?;
    check!(
        t.dim() == 0 || t.sizes()[d] != 0,
        Index;
        "{name}(): Expected reduction dim {d} to have non-zero size."
    );
    Ok(d)
}

fn mask(t: &Tensor, d: usize) -> u64 {
    if t.dim() == 0 { 0 } else { 1 << d }
}

/// max(Tensor self) -> Tensor
fn whole_meta(a: Args<'_>, name: &str) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(
        t.numel() > 0,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the \
         'dim' argument."
    );
    Ok(OutSpec::like(t, IntList::new()).into())
}

fn whole(a: Args<'_>, least: bool, out: &[Tensor]) -> Result<()> {
    let name = if least { "min_all" } else { "max_all" };
    extremes(
        a.tensor(0)?,
        u64::MAX,
        name,
        if least { Some(&out[0]) } else { None },
        (!least).then_some(&out[0]),
    )
}

/// max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
fn dim_meta(a: Args<'_>, name: &str) -> Result<Specs> {
    let t = a.tensor(0)?;
    check_real(name, t)?;
    let d = chosen_dim(name, t, a.int(1)?)?;
    let sizes = reduced_sizes(t, mask(t, d), a.bool(2)?);
    Ok(Specs::from_iter([OutSpec::like(t, sizes.clone()), OutSpec::new(sizes, DType::Long, t.device())]))
}

fn selected(a: Args<'_>, least: bool, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    let [t, v, i] = with_dim([t, &out[0], &out[1]], d, t.dim(), a.bool(2)?);
    if dense::extreme(&t, mask(&t, d), least, Want::Both(&v, &i))? {
        return Ok(());
    }
    let name = if least { "min_cpu" } else { "max_cpu" };
    dispatch!(name, t.dtype(), all_bool, T => lines::map2::<T, T, i64>(&t, d, &v, &i, |x, v, i| {
        let at = rows::extreme(x, least);
        v[0] = x[at];
        i[0] = at as i64;
    }))
}

/// amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
fn values_meta(a: Args<'_>, name: &str) -> Result<Specs> {
    let t = a.tensor(0)?;
    let dims = a.opt_int_list(1)?.unwrap_or(&[]);
    if t.numel() == 0 {
        check!(
            !dims.is_empty(),
            "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with \
             the 'dim' argument."
        );
        for d in dims {
            chosen_dim(name, t, *d)?;
        }
    }
    let mask = shape::dim_mask(Some(dims), t.dim(), false)?;
    Ok(OutSpec::like(t, reduced_sizes(t, mask, a.bool(2)?)).into())
}

fn values(a: Args<'_>, least: bool, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = shape::dim_mask(a.opt_int_list(1)?, t.dim(), false)?;
    let name = if least { "min_values_cpu" } else { "max_values_cpu" };
    extremes(t, mask, name, least.then_some(&out[0]), (!least).then_some(&out[0]))
}

fn values_out(a: Args<'_>, id: OpId) -> Result<Returns> {
    let (t, out) = (a.tensor(0)?, a.tensor(3)?);
    check!(
        t.dtype() == out.dtype(),
        "Expected the dtype for input and out to match, but got {} for input's dtype and {} for out's dtype.",
        t.dtype(),
        out.dtype()
    );
    let v = id.call((t, a.opt_int_list(1)?, a.bool(2)?))?;
    deliver(out, &v)
}

/// The least and the greatest of each run over the dimensions in `mask`, where they are asked for.
fn extremes(t: &Tensor, mask: u64, name: &str, min: Option<&Tensor>, max: Option<&Tensor>) -> Result<()> {
    match (min, max) {
        (Some(o), None) if dense::extreme(t, mask, true, Want::Value(o))? => return Ok(()),
        (None, Some(o)) if dense::extreme(t, mask, false, Want::Value(o))? => return Ok(()),
        _ => {}
    }
    dispatch!(name, t.dtype(), all_bool, T => {
        let (min, max) = (min.map(Out::<T>::of), max.map(Out::<T>::of));
        for_rows::<T>(t, mask, |i, x| {
            // SAFETY: one write to each result.
            unsafe {
                if let Some(o) = min {
                    o.set(i, rows::least(x));
                }
                if let Some(o) = max {
                    o.set(i, rows::greatest(x));
                }
            }
        })
    })
}

/// argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
fn position_meta(a: Args<'_>, name: &str) -> Result<Specs> {
    let t = a.tensor(0)?;
    check_real(name, t)?;
    check!(t.dtype() != DType::Bool, NotImplemented; "{name}(): does not support bool input");
    let mask = match a.opt_int(1)? {
        Some(d) => mask(t, chosen_dim(name, t, d)?),
        None => {
            check!(
                t.numel() > 0,
                Index;
                "{name}(): Expected reduction dim to be specified for input.numel() == 0."
            );
            u64::MAX
        }
    };
    Ok(OutSpec::new(reduced_sizes(t, mask, a.bool(2)?), DType::Long, t.device()).into())
}

fn position(a: Args<'_>, least: bool, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = match a.opt_int(1)? {
        Some(d) => mask(t, shape::wrap_dim(d, t.dim())?),
        None => u64::MAX,
    };
    if dense::extreme(t, mask, least, Want::Place(&out[0]))? {
        return Ok(());
    }
    let o = Out::<i64>::of(&out[0]);
    let name = if least { "argmin_cpu" } else { "argmax_cpu" };
    dispatch!(name, t.dtype(), all, T => for_rows::<T>(t, mask, |i, x| {
        // SAFETY: one write to each result.
        unsafe { o.set(i, rows::extreme(x, least) as i64) }
    }))
}

/// aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)
fn both_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(!t.dtype().is_complex(), Type; "aminmax not implemented for {}", t.dtype());
    let mask = match a.opt_int(1)? {
        Some(dim) => {
            let d = shape::wrap_dim(dim, t.dim())?;
            check!(
                t.dim() == 0 || t.sizes()[d] != 0,
                Index;
                "aminmax: Expected reduction dim {d} to have non-zero size."
            );
            mask(t, d)
        }
        None => {
            check!(
                t.numel() > 0,
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            );
            u64::MAX
        }
    };
    let s = OutSpec::like(t, reduced_sizes(t, mask, a.bool(2)?));
    Ok(Specs::from_iter([s.clone(), s]))
}

fn both(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = match a.opt_int(1)? {
        Some(d) => mask(t, shape::wrap_dim(d, t.dim())?),
        None => u64::MAX,
    };
    extremes(t, mask, "aminmax_cpu", Some(&out[0]), Some(&out[1]))
}
