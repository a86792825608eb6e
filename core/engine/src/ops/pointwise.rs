//! Arithmetic of two tensors: `add`, `sub`, `mul`, `div`.

use crate::dispatch::Registry;
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::{DType, Result, Scalar, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.pointwise(op::add_Tensor, add_build, add_run);
    r.pointwise(op::sub_Tensor, sub_build, sub_run);
    r.pointwise(op::mul_Tensor, |a, out| TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?), mul_run);
    r.pointwise(
        op::div_Tensor,
        |a, out| TensorIterator::binary_float_op(out, a.tensor(0)?, a.tensor(1)?),
        div_run,
    );
    r.explicit(op::add_Scalar, |a| Ok(op::add_Tensor.call((a.tensor(0)?, number(a)?, a.scalar(2)?))?.into()));
    r.explicit(op::sub_Scalar, |a| Ok(op::sub_Tensor.call((a.tensor(0)?, number(a)?, a.scalar(2)?))?.into()));
    r.explicit(op::mul_Scalar, |a| Ok(op::mul_Tensor.call((a.tensor(0)?, number(a)?))?.into()));
    r.explicit(op::div_Scalar, |a| Ok(op::div_Tensor.call((a.tensor(0)?, number(a)?))?.into()));
    r.explicit(op::rsub_Scalar, |a| {
        Ok(op::sub_Tensor.call((number(a)?, a.tensor(0)?, a.scalar(2)?))?.into())
    });
}

/// The number that is argument 1, as a tensor of a number's priority in type promotion.
fn number(a: Args<'_>) -> Result<Tensor> {
    crate::tensor::factory::wrapped_scalar(a.scalar(1)?)
}

fn div_run(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    dispatch!("div_true_cpu", it.common_dtype(), floating, T => loops::binary(it, |x: T, y: T| x / y));
    Ok(())
}

/// `alpha_check`: alpha must fit the result's kind.
fn check_alpha(common: DType, alpha: Scalar) -> Result<()> {
    check!(!alpha.is_bool() || common == DType::Bool, "Boolean alpha only supported for Boolean results.");
    check!(
        common.is_floating_point() || common.is_complex() || !alpha.is_floating_point(),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    check!(
        common.is_complex() || !alpha.is_complex(),
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    Ok(())
}

fn add_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let it = TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?)?;
    check_alpha(it.common_dtype(), a.scalar(2)?)?;
    Ok(it)
}

fn add_run(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    add_scaled(it, a.scalar(2)?)
}

fn sub_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        x.dtype() != DType::Bool || y.dtype() != DType::Bool,
        NotImplemented;
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
    );
    check!(
        x.dtype() != DType::Bool && y.dtype() != DType::Bool,
        NotImplemented;
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
         `logical_not()` operator instead."
    );
    add_build(a, out)
}

fn sub_run(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let alpha = match a.scalar(2)? {
        Scalar::Int(v) => Scalar::Int(v.wrapping_neg()),
        Scalar::Float(v) => Scalar::Float(-v),
        Scalar::Complex(re, im) => Scalar::Complex(-re, -im),
        Scalar::Bool(v) => Scalar::Int(-(v as i64)),
        Scalar::UInt(v) => Scalar::Int((v as i64).wrapping_neg()),
    };
    add_scaled(it, alpha)
}

/// `out = a + alpha * b`
fn add_scaled(it: &TensorIterator, alpha: Scalar) -> Result<()> {
    match it.common_dtype() {
        DType::Bool => {
            let on = alpha.to_bool();
            loops::binary(it, move |x: bool, y: bool| x || (on && y));
        }
        DType::Half | DType::BFloat16 => {
            let k: f32 = alpha.to()?;
            dispatch!("add", it.common_dtype(), floating, T => loops::binary(it, move |x: T, y: T| {
                <T as num_traits::NumCast>::from(to_f32(x) + k * to_f32(y)).unwrap_or(x)
            }));
        }
        d if d.is_integral(false) => dispatch!("add", d, integral, T => {
            let k: T = alpha.to()?;
            loops::binary(it, move |x: T, y: T| x.wrapping_add(k.wrapping_mul(y)));
        }),
        d => dispatch!("add", d, floating_complex, T => {
            let k: T = alpha.to()?;
            if alpha.equals_int(1) {
                loops::binary(it, |x: T, y: T| x + y);
            } else if alpha.equals_int(-1) {
                loops::binary(it, |x: T, y: T| x - y);
            } else {
                loops::binary(it, move |x: T, y: T| x + k * y);
            }
        }),
    }
    Ok(())
}

fn to_f32<T: num_traits::ToPrimitive>(x: T) -> f32 {
    x.to_f32().unwrap_or(f32::NAN)
}

fn mul_run(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.common_dtype() {
        DType::Bool => loops::binary(it, |x: bool, y: bool| x && y),
        d if d.is_integral(false) => {
            dispatch!("mul", d, integral, T => loops::binary(it, |x: T, y: T| x.wrapping_mul(y)))
        }
        d => dispatch!("mul", d, floating_complex, T => loops::binary(it, |x: T, y: T| x * y)),
    }
    Ok(())
}
