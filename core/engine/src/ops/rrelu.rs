//! `rrelu`: a leaky `relu` whose slopes are drawn in training.

use super::copy::{contiguous, copy_into};
use crate::dispatch::{Registry, Returns};
use crate::dtype::{Convert, convert};
use crate::ivalue::Args;
use crate::random::uniform01_f64;
use crate::tensor::factory;
use crate::{DType, Error, Generator, MemoryFormat, Result, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::rrelu, |a| with_new_noise(a, op::rrelu_with_noise));
    r.implicit(op::rrelu_, |a| with_new_noise(a, op::rrelu_with_noise_));
    r.any_device(op::rrelu_with_noise, |a| {
        let t = a.tensor(0)?;
        let out = factory::empty_like(t, t.dtype(), MemoryFormat::Preserve)?;
        with_noise(a, &out)
    });
    r.any_device(op::rrelu_with_noise_, |a| with_noise(a, a.tensor(0)?));
    r.explicit(op::rrelu_with_noise_backward, backward);
}

/// rrelu(Tensor self, Scalar lower, Scalar upper, bool training, Generator? generator) -> Tensor
fn with_new_noise(a: Args<'_>, target: crate::OpId) -> Result<Returns> {
    let (t, lower, upper) = (a.tensor(0)?, a.scalar(1)?, a.scalar(2)?);
    check!(lower.to_f64() <= upper.to_f64(), "Lower bound should be less than or equal to the upper bound");
    let noise = op::empty_like.call((t,))?;
    let generator = a.opt_generator(4).cloned();
    Ok(target.call((t, noise, lower, upper, a.bool(3)?, generator))?.into())
}

/// rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower, Scalar upper, bool training, Generator? generator)
fn with_noise(a: Args<'_>, out: &Tensor) -> Result<Returns> {
    let (t, noise) = (a.tensor(0)?, a.tensor(1)?);
    let (lower, upper) = (a.scalar(2)?.to_f64(), a.scalar(3)?.to_f64());
    check!(
        t.sizes() == noise.sizes(),
        "noise tensor shape must match self tensor shape. Got self.shape = {:?} noise.shape = {:?}",
        t.sizes(),
        noise.sizes()
    );
    if !a.bool(4)? {
        return Ok(op::leaky_relu_out.call((t, (lower + upper) / 2.0, out))?.into());
    }
    if t.is_meta() {
        return Ok(out.into());
    }
    if t.dtype() == DType::Half {
        return Err(Error::dtype_not_implemented("rrelu_with_noise_out_cpu", DType::Half));
    }
    let x = contiguous(t)?;
    let result = factory::empty(t.sizes(), t.dtype(), t.device())?;
    let slopes = factory::empty(t.sizes(), t.dtype(), t.device())?;
    let generator = a.opt_generator(5).unwrap_or_else(|| Generator::default_cpu());
    generator.with_cpu(|g| -> Result<()> {
        dispatch!("rrelu_with_noise_out_cpu", t.dtype(), floating, T => {
            // SAFETY: three contiguous tensors of that dtype and of as many elements.
            let (x, y, s) = unsafe { (x.as_slice::<T>(), result.as_mut_slice::<T>(), slopes.as_mut_slice::<T>()) };
            // The bounds in the type that the arithmetic is in.
            let (low, high) = if std::mem::size_of::<T>() == 8 {
                (lower, upper)
            } else {
                (lower as f32 as f64, upper as f32 as f64)
            };
            draw(x, y, s, || uniform01_f64(g.random64()) * (high - low) + low);
        });
        Ok(())
    })??;
    copy_into(noise, &slopes)?;
    copy_into(out, &result)?;
    Ok(out.into())
}

/// Draws a slope for each element that is not above zero, in order.
fn draw<T: Convert>(x: &[T], y: &mut [T], slopes: &mut [T], mut slope: impl FnMut() -> f64) {
    let double = std::mem::size_of::<T>() == 8;
    for ((x, y), s) in x.iter().zip(y).zip(slopes) {
        let v: f64 = convert(*x);
        if v <= 0.0 {
            let r = slope();
            let r = if double { r } else { r as f32 as f64 };
            *y = convert(if double { v * r } else { (v as f32 * r as f32) as f64 });
            *s = convert(r);
        } else {
            *y = *x;
            *s = convert(1.0f64);
        }
    }
}

/// In training the slopes that were drawn; else those of a leaky `relu` of the mean slope.
fn backward(a: Args<'_>) -> Result<Returns> {
    let (lower, upper) = (a.scalar(3)?.to_f64(), a.scalar(4)?.to_f64());
    if a.bool(5)? && upper - lower > 1e-6 {
        return Ok(op::mul_Tensor.call((a.tensor(0)?, a.tensor(2)?))?.into());
    }
    let slope = (lower + upper) / 2.0;
    Ok(op::leaky_relu_backward.call((a.tensor(0)?, a.tensor(1)?, slope, a.bool(6)?))?.into())
}
