//! `softmax`, `log_softmax` and their relatives. Rows along the last dimension and columns along others are computed by
//! `torchnative_kernels::rows`.

use super::copy;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::Args;
use crate::tensor::shape;
use crate::{OpId, Result, Tensor, check, dispatch, op};
use torchnative_kernels::rows;

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::_softmax, meta, |a, o| fill(a, false, o))
        .structured(op::_log_softmax, meta, |a, o| fill(a, true, o));
    for id in [op::softmax_int, op::special_softmax] {
        r.implicit(id, |a| with_dtype(a, op::_softmax));
    }
    for id in [op::log_softmax_int, op::special_log_softmax] {
        r.implicit(id, |a| with_dtype(a, op::_log_softmax));
    }
    r.explicit(op::_safe_softmax, safe);
}

/// softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
fn with_dtype(a: Args<'_>, id: OpId) -> Result<Returns> {
    let t = a.tensor(0)?;
    let t = match a.opt_dtype(2)? {
        Some(d) if d != t.dtype() => op::to_dtype.call((t, d))?,
        _ => t.clone(),
    };
    Ok(id.call((t, a.int(1)?, false))?.into())
}

/// _softmax(Tensor self, int dim, bool half_to_float) -> Tensor
fn meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    shape::wrap_dim(a.int(1)?, t.dim())?;
    // Upstream's other devices convert halves on the way.
    check!(!a.bool(2)? || t.is_meta(), "softmax with half to float conversion is not supported on CPU");
    let dtype = if a.bool(2)? { crate::DType::Float } else { t.dtype() };
    Ok(OutSpec::new(t.sizes(), dtype, t.device()).into())
}

fn fill(a: Args<'_>, log: bool, out: &[Tensor]) -> Result<()> {
    let t = copy::contiguous(a.tensor(0)?)?;
    let (n, inner) = if t.dim() == 0 {
        (1, 1)
    } else {
        let d = shape::wrap_dim(a.int(1)?, t.dim())?;
        (t.sizes()[d] as usize, t.sizes()[d + 1..].iter().product::<i64>() as usize)
    };
    let last = t.dim() == 0 || shape::wrap_dim(a.int(1)?, t.dim())? + 1 == t.dim();
    let name = match (last, log) {
        (true, false) => "softmax_lastdim_kernel_impl",
        (true, true) => "log_softmax_lastdim_kernel_impl",
        (false, false) => "softmax_kernel_impl",
        (false, true) => "log_softmax_kernel_impl",
    };
    let numel = t.numel() as usize;
    if numel == 0 {
        return Ok(());
    }
    dispatch!(name, t.dtype(), floating, T => {
        let (x, y) = (t.data_ptr() as *const T, out[0].data_ptr() as *mut T);
        // SAFETY: both are contiguous with `numel` elements.
        unsafe {
            if inner == 1 {
                rows::softmax::<T, T>(numel / n, n, log, x, y);
            } else {
                rows::softmax_middle::<T, T>(numel / (n * inner), n, inner, log, x, y);
            }
        }
    });
    Ok(())
}

/// _safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor: zeros where a line is all -inf.
fn safe(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let out = op::softmax_int.call((t, a.int(1)?, a.opt_dtype(2)?))?;
    let masked = op::eq_Scalar.call((t, f64::NEG_INFINITY))?;
    let rows = op::all_dim.call((masked, a.int(1)?, true))?;
    let zero = op::scalar_tensor.call((0.0, out.dtype(), (), out.device(), ()))?;
    Ok(op::where_self.call((rows, zero, out))?.into())
}
