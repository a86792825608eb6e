//! Gradients of pooling.

use super::pool::{Shape, adaptive_windows};
use crate::cpu::pool::{Divisor, Windows, spread_mean};
use crate::dispatch::{OutSpec, Registry, Specs};
use crate::ivalue::Args;
use crate::ops::{copy, options};
use crate::tensor::{factory, shape};
use crate::{DType, Error, MemoryFormat, Result, Scalar, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::max_pool2d_with_indices_backward, |a| like(a, 1), |a, o| by_indices(a, 7, 2, o))
        .structured(op::max_pool3d_with_indices_backward, |a| like(a, 1), |a, o| by_indices(a, 7, 3, o))
        .structured(op::adaptive_max_pool2d_backward, |a| like(a, 1), |a, o| by_indices(a, 2, 2, o))
        .structured(op::adaptive_max_pool3d_backward, |a| like(a, 1), |a, o| by_indices(a, 2, 3, o))
        .structured(op::avg_pool2d_backward, |a| like(a, 1), |a, o| avg(a, 2, o))
        .structured(op::avg_pool3d_backward, |a| like(a, 1), |a, o| avg(a, 3, o))
        .structured(op::_adaptive_avg_pool2d_backward, |a| like(a, 1), |a, o| adaptive_avg(a, 2, o))
        .structured(op::_adaptive_avg_pool3d_backward, |a| like(a, 1), |a, o| adaptive_avg(a, 3, o));
}

/// A gradient in the input's shape and layout.
fn like(a: Args<'_>, i: usize) -> Result<Specs> {
    let t = a.tensor(i)?;
    check!(
        a.tensor(0)?.dtype() == t.dtype(),
        "expected dtype {} for `grad_output` but got dtype {}",
        t.dtype().scalar_type_name(),
        a.tensor(0)?.dtype().scalar_type_name()
    );
    let spec = OutSpec::like(t, t.sizes());
    Ok(match t.suggest_memory_format() {
        MemoryFormat::Contiguous => spec,
        f => spec.strides(shape::strides_for(t.sizes(), f)?),
    }
    .into())
}

/// Each gradient goes where its value came from.
fn by_indices(a: Args<'_>, indices: usize, rank: usize, out: &[Tensor]) -> Result<()> {
    let (grad, t, indices) = (a.tensor(0)?, a.tensor(1)?, a.tensor(indices)?);
    check!(
        grad.sizes() == indices.sizes(),
        "Expected the gradient and the indices of one shape, but got {:?} and {:?}",
        grad.sizes(),
        indices.sizes()
    );
    if t.numel() == 0 || grad.numel() == 0 {
        return options::fill(&out[0], Scalar::Int(0));
    }
    let planes: i64 = t.sizes()[..t.dim() - rank].iter().product();
    let rows = |t: &Tensor| op::reshape.call((t, [planes, -1]));
    let zeros = op::zeros.call(([planes, t.numel() / planes], t.dtype()))?;
    let sums = op::scatter_add_.call((zeros, 1, rows(indices)?, rows(grad)?))?;
    copy::copy_into(&out[0], &op::view.call((sums, t.sizes()))?)
}

/// Spreads gradients of means over their windows, in single precision for half precision.
fn spread(grad: &Tensor, rank: usize, w: &Windows, divisor: Divisor, name: &str, out: &Tensor) -> Result<()> {
    let wide = match grad.dtype() {
        DType::Double => DType::Double,
        DType::Float | DType::Half | DType::BFloat16 => DType::Float,
        other => return Err(Error::dtype_not_implemented(name, other)),
    };
    let grad = copy::convert(grad, wide)?;
    let sums = factory::empty(out.sizes(), wide, out.device())?;
    options::fill(&sums, Scalar::Int(0))?;
    if wide == DType::Double {
        spread_mean::<f64>(&grad, rank, w, divisor, &sums);
    } else {
        spread_mean::<f32>(&grad, rank, w, divisor, &sums);
    }
    copy::copy_into(out, &sums)
}

/// (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
fn avg(a: Args<'_>, rank: usize, out: &[Tensor]) -> Result<()> {
    let (grad, t) = (a.tensor(0)?, a.tensor(1)?);
    let name = if rank == 2 { "avg_pool2d_backward" } else { "avg_pool3d_backward_out_frame" };
    let p = Shape::read(Args(&a.0[1..]), name, rank, None, 4)?;
    check!(a.opt_int(7)? != Some(0), "divisor must be not zero");
    let sizes = p.out_sizes(t, rank)?;
    check!(
        sizes[..] == *grad.sizes(),
        "Expected a gradient of shape {:?}, but got {:?}",
        &sizes[..],
        grad.sizes()
    );
    let divisor = match a.opt_int(7)? {
        Some(n) => Divisor::Fixed(n),
        None if a.bool(6)? => Divisor::Padded,
        None => Divisor::Present,
    };
    spread(grad, rank, &p.windows(t, &sizes, rank), divisor, name, &out[0])
}

/// (grad_output, self)
fn adaptive_avg(a: Args<'_>, rank: usize, out: &[Tensor]) -> Result<()> {
    let (grad, t) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        grad.dim() == t.dim() && t.dim() > rank,
        "Expected a gradient of {} dimensions, but got {:?}",
        t.dim(),
        grad.sizes()
    );
    let w = adaptive_windows(t, &grad.sizes()[t.dim() - rank..], rank);
    let name = if rank == 2 { "adaptive_avg_pool2d_backward" } else { "adaptive_avg_pool3d_backward" };
    spread(grad, rank, &w, Divisor::EachDimension, name, &out[0])
}
