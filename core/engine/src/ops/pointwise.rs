//! Arithmetic of two tensors: `add`, `sub`, `mul`, `div` and their forms with numbers.

use crate::cpu::complex;
use crate::dispatch::{Registry, Returns};
use crate::iter::blocks::{map2_scalar, opmath};
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::{Complex, DType, Error, Result, Scalar, Tensor, check, dispatch, op};

/// Registers overloads whose second argument is a number by way of the overload that takes a tensor.
macro_rules! with_numbers {
    ($r:ident: $($number:ident => $tensor:ident),*) => {$(
        $r.explicit(op::$number, |a| {
            let other = crate::ops::pointwise::number(a, 1)?;
            Ok(op::$tensor.call((a.tensor(0)?, other))?.into())
        });
    )*};
}
pub(crate) use with_numbers;

pub(crate) fn register(r: &mut Registry) {
    r.pointwise(op::add_Tensor, add_build, add_run);
    r.pointwise(op::sub_Tensor, sub_build, sub_run);
    r.pointwise(op::mul_Tensor, |a, out| TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?), mul_run);
    r.pointwise(
        op::div_Tensor,
        |a, out| TensorIterator::binary_float_op(out, a.tensor(0)?, a.tensor(1)?),
        |it, _| div_run(it),
    );
    r.explicit(op::add_Scalar, |a| {
        Ok(op::add_Tensor.call((a.tensor(0)?, number(a, 1)?, a.scalar(2)?))?.into())
    });
    r.explicit(op::add__Scalar, |a| {
        Ok(op::add__Tensor.call((a.tensor(0)?, number(a, 1)?, a.scalar(2)?))?.into())
    });
    r.explicit(op::sub_Scalar, |a| {
        Ok(op::sub_Tensor.call((a.tensor(0)?, number(a, 1)?, a.scalar(2)?))?.into())
    });
    r.explicit(op::sub__Scalar, |a| {
        Ok(op::sub__Tensor.call((a.tensor(0)?, number(a, 1)?, a.scalar(2)?))?.into())
    });
    with_numbers! { r:
        mul_Scalar => mul_Tensor, mul__Scalar => mul__Tensor,
        div_Scalar => div_Tensor, div__Scalar => div__Tensor
    }
    r.explicit(op::rsub_Scalar, |a| {
        Ok(op::sub_Tensor.call((number(a, 1)?, a.tensor(0)?, a.scalar(2)?))?.into())
    });
    r.pointwise(
        op::rsub_Tensor,
        |a, out| sub_checked(a.tensor(1)?, a.tensor(0)?, a.scalar(2)?, out),
        |it, a| sub_run_alpha(it, a.scalar(2)?),
    );
    for (name, target) in [
        (op::multiply_Tensor, op::mul_Tensor),
        (op::multiply_Scalar, op::mul_Scalar),
        (op::subtract_Tensor, op::sub_Tensor),
        (op::subtract_Scalar, op::sub_Scalar),
        (op::divide_Tensor, op::div_Tensor),
        (op::divide_Scalar, op::div_Scalar),
        (op::true_divide_Tensor, op::div_Tensor),
        (op::true_divide_Scalar, op::div_Scalar),
    ] {
        r.alias(name, target);
    }
}

/// The number that is argument `i`, as a tensor of a number's priority in type promotion.
pub(crate) fn number(a: Args<'_>, i: usize) -> Result<Tensor> {
    crate::tensor::factory::wrapped_scalar(a.scalar(i)?)
}

/// Argument `i`: a tensor, or a number as a tensor of a number's priority.
pub(crate) fn operand(a: Args<'_>, i: usize) -> Result<Tensor> {
    match a.opt_tensor(i) {
        Some(t) => Ok(t.clone()),
        None => number(a, i),
    }
}

/// Calls `target` with argument 0 as a tensor, and the tensor that is argument 1.
pub(crate) fn number_first(a: Args<'_>, target: crate::OpId) -> Result<Returns> {
    Ok(target.call((number(a, 0)?, a.tensor(1)?))?.into())
}

pub(crate) fn div_run(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        DType::ComplexDouble => map2_scalar(it, complex::div::<f64>),
        DType::ComplexFloat => map2_scalar(it, complex::div::<f32>),
        DType::ComplexHalf => Err(Error::dtype_not_implemented("div_cpu", DType::ComplexHalf)),
        d => opmath!("div_true_cpu", d, floating, W => map2_scalar(it, |x: W, y: W| x / y)),
    }
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
    sub_checked(a.tensor(0)?, a.tensor(1)?, a.scalar(2)?, out)
}

fn sub_checked(x: &Tensor, y: &Tensor, alpha: Scalar, out: Option<&Tensor>) -> Result<TensorIterator> {
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
    let it = TensorIterator::binary_op(out, x, y)?;
    check_alpha(it.common_dtype(), alpha)?;
    Ok(it)
}

fn sub_run(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    sub_run_alpha(it, a.scalar(2)?)
}

fn sub_run_alpha(it: &TensorIterator, alpha: Scalar) -> Result<()> {
    let alpha = match alpha {
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
            Ok(())
        }
        d if d.is_integral(false) => {
            dispatch!("add", d, integral, T => {
                let k: T = alpha.to()?;
                loops::binary(it, move |x: T, y: T| x.wrapping_add(k.wrapping_mul(y)));
            });
            Ok(())
        }
        d => opmath!("add", d, floating_complex, W => {
            alpha.check_fits(d)?;
            // As an element of the dtype.
            let alpha = if d.is_reduced_floating() {
                Scalar::Float(super::division::narrow(d)(alpha.to_f64() as f32) as f64)
            } else {
                alpha
            };
            let k: W = alpha.to()?;
            if alpha.equals_int(1) {
                map2_scalar(it, |x: W, y: W| x + y)
            } else if alpha.equals_int(-1) {
                map2_scalar(it, |x: W, y: W| x - y)
            } else {
                map2_scalar(it, move |x: W, y: W| x + k * y)
            }
        }),
    }
}

fn mul_run(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.common_dtype() {
        DType::Bool => loops::binary(it, |x: bool, y: bool| x && y),
        d if d.is_integral(false) => {
            dispatch!("mul", d, integral, T => loops::binary(it, |x: T, y: T| x.wrapping_mul(y)))
        }
        DType::ComplexFloat | DType::ComplexHalf => {
            return map2_scalar(it, |x: Complex<f32>, y: Complex<f32>| x * y);
        }
        DType::ComplexDouble => return map2_scalar(it, |x: Complex<f64>, y: Complex<f64>| x * y),
        d => return opmath!("mul", d, floating, W => map2_scalar(it, |x: W, y: W| x * y)),
    }
    Ok(())
}
