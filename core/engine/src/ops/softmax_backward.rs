//! Gradients of `softmax` and `log_softmax`.

use super::copy;
use crate::dispatch::{OutSpec, Registry, Specs};
use crate::dtype::Convert;
use crate::ivalue::Args;
use crate::tensor::shape;
use crate::{Element, Result, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::_softmax_backward_data, spec, |a, o| fill(a, false, o));
    r.structured(op::_log_softmax_backward_data, spec, |a, o| fill(a, true, o));
}

/// _softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
fn spec(a: Args<'_>) -> Result<Specs> {
    let (grad, output) = (a.tensor(0)?, a.tensor(1)?);
    check!(grad.sizes() == output.sizes(), "grad and output must have the same sizes");
    shape::wrap_dim(a.int(2)?, grad.dim())?;
    let dtype = a.opt_dtype(3)?.unwrap_or(grad.dtype());
    Ok(OutSpec::new(grad.sizes(), dtype, grad.device()).into())
}

fn fill(a: Args<'_>, log: bool, out: &[Tensor]) -> Result<()> {
    let (grad, y) = (copy::contiguous(a.tensor(0)?)?, copy::contiguous(a.tensor(1)?)?);
    if grad.numel() == 0 {
        return Ok(());
    }
    let (n, inner) = if grad.dim() == 0 {
        (1, 1)
    } else {
        let d = shape::wrap_dim(a.int(2)?, grad.dim())?;
        (grad.sizes()[d] as usize, grad.sizes()[d + 1..].iter().product::<i64>() as usize)
    };
    let result =
        if out[0].dtype() == grad.dtype() { out[0].clone() } else { op::empty_like.call((&grad,))? };
    dispatch!("softmax_backward", grad.dtype(), floating, T => lines::<T>(&grad, &y, &result, n, inner, log));
    if !result.is_same(&out[0]) {
        copy::copy_into(&out[0], &result)?;
    }
    Ok(())
}

/// Along lines of `n` elements, `inner` apart: `(g - sum g y) y`, or `g - exp(y) sum g`.
fn lines<T: Element + Convert>(grad: &Tensor, y: &Tensor, out: &Tensor, n: usize, inner: usize, log: bool) {
    let count = grad.numel() as usize / n;
    // SAFETY: all three are contiguous, of type T and the same size; lines do not meet.
    let (g, y) = unsafe { (grad.as_slice::<T>(), y.as_slice::<T>()) };
    let out = out.data_ptr() as usize;
    crate::cpu::parallel::for_range(0, count, (1 << 14) / n.max(1) + 1, |from, to| {
        for line in from..to {
            let base = line / inner * n * inner + line % inner;
            let at = |i: usize| base + i * inner;
            let mut sum = 0f64;
            for i in 0..n {
                let term: f64 = convert::<T>(g[at(i)]);
                sum += if log { term } else { term * convert::<T>(y[at(i)]) };
            }
            for i in 0..n {
                let (gi, yi): (f64, f64) = (convert::<T>(g[at(i)]), convert::<T>(y[at(i)]));
                let v = if log { gi - yi.exp() * sum } else { (gi - sum) * yi };
                // SAFETY: within the output's elements; see above.
                unsafe { (out as *mut T).add(at(i)).write(crate::dtype::convert::<f64, T>(v)) }
            }
        }
    });
}

fn convert<T: Element + Convert>(v: T) -> f64 {
    crate::dtype::convert::<T, f64>(v)
}
