//! Rounding, signs, magnitudes and tests of kinds of numbers.

use crate::dispatch::{Registry, Returns};
use crate::iter::TensorIterator;
use crate::iter::blocks::{Work, map1, opmath};
use crate::iter::loops;
use crate::ivalue::Args;
use crate::{Complex, DType, Result, Tensor, check, dispatch, op};
use num_traits::Float;

macro_rules! roundings {
    ($r:ident: $($id:ident $name:literal $kernel:literal $f:ident;)*) => {$(
        $r.pointwise(
            op::$id,
            |a, out| {
                let t = a.tensor(0)?;
                check!(
                    !t.dtype().is_complex() || $name == "round",
                    NotImplemented;
                    concat!($name, " is not supported for complex inputs")
                );
                TensorIterator::unary_op(out, t)
            },
            |it, _| {
                if it.common_dtype().is_integral(false) {
                    return unchanged(it, $kernel);
                }
                opmath!($kernel, it.common_dtype(), floating, W => map1(it, |x: W| x.$f()))
            },
        );
    )*};
}

/// Copies integers, which these functions leave as they are.
fn unchanged(it: &TensorIterator, name: &str) -> Result<()> {
    dispatch!(name, it.common_dtype(), integral_bool, T => loops::unary(it, |x: T| x));
    Ok(())
}

pub(crate) fn register(r: &mut Registry) {
    roundings! { r:
        ceil "ceil" "ceil_vml_cpu" ceil;
        floor "floor" "floor_vml_cpu" floor;
        trunc "trunc" "trunc_vml_cpu" trunc;
        round "round" "round_vml_cpu" round_ties_even;
    }
    r.alias(op::fix, op::trunc);
    let unary = |a: Args<'_>, out: Option<&Tensor>| TensorIterator::unary_op(out, a.tensor(0)?);
    r.pointwise(
        op::frac,
        unary,
        |it, _| opmath!("frac_cpu", it.common_dtype(), floating, W => map1(it, |x: W| x - x.trunc())),
    );
    r.pointwise(op::round_decimals, unary, round_decimals);
    r.pointwise(op::abs, real_result, abs);
    r.alias(op::absolute, op::abs);
    r.pointwise(op::angle, angle_build, angle);
    r.pointwise(
        op::sign,
        |a, out| {
            let t = a.tensor(0)?;
            check!(
                !t.dtype().is_complex(),
                NotImplemented;
                "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
            );
            TensorIterator::unary_op(out, t)
        },
        sign,
    );
    r.pointwise(op::sgn, unary, |it, a| match it.common_dtype() {
        DType::ComplexDouble => map1(it, unit::<f64>),
        DType::ComplexFloat | DType::ComplexHalf => map1(it, unit::<f32>),
        _ => sign(it, a),
    });
    r.pointwise(op::neg, neg_build, neg);
    r.alias(op::negative, op::neg);
    r.implicit(op::positive, |a| {
        let t = a.tensor(0)?;
        check!(
            t.dtype() != DType::Bool,
            NotImplemented;
            "The `+` operator, on a bool tensor is not supported."
        );
        Ok(t.into())
    });
    r.pointwise(
        op::signbit,
        |a, out| {
            check!(
                !a.tensor(0)?.dtype().is_complex(),
                NotImplemented;
                "signbit is not implemented for complex tensors."
            );
            check_bool(out, "signbit")?;
            test_build(a, out)
        },
        |it, _| match it.input_dtype(0) {
            DType::Bool => map1(it, |_: bool| false),
            d if d.is_integral(false) => map1(it, |x: i64| x < 0),
            d => opmath!("signbit_cpu", d, floating, W => map1(it, |x: W| x.is_sign_negative())),
        },
    );
    r.pointwise(op::isnan, test_build, |it, _| match it.input_dtype(0) {
        DType::Bool => map1(it, |_: bool| false),
        d if d.is_integral(false) => map1(it, |_: i64| false),
        DType::ComplexDouble => map1(it, |z: Complex<f64>| z.re.is_nan() || z.im.is_nan()),
        DType::ComplexFloat | DType::ComplexHalf => {
            map1(it, |z: Complex<f32>| z.re.is_nan() || z.im.is_nan())
        }
        d => opmath!("isnan", d, floating, W => map1(it, |x: W| x.is_nan())),
    });
    infinities! { r: isposinf INFINITY "isposinf"; isneginf NEG_INFINITY "isneginf"; }
    r.explicit(op::isinf, isinf).implicit(op::isfinite, isfinite).implicit(op::isreal, isreal);
    r.pointwise(op::nan_to_num, unary, nan_to_num);
    r.explicit(op::deg2rad, |a| scaled(a, "deg2rad", std::f64::consts::PI / 180.0));
    r.explicit(op::rad2deg, |a| scaled(a, "rad2deg", 180.0 / std::f64::consts::PI));
}

macro_rules! infinities {
    ($r:ident: $($id:ident $value:ident $name:literal;)*) => {$(
        $r.pointwise(
            op::$id,
            |a, out| {
                check!(
                    !a.tensor(0)?.dtype().is_complex(),
                    Type;
                    concat!($name, " does not support complex inputs.")
                );
                check_bool(out, $name)?;
                test_build(a, out)
            },
            |it, _| match it.input_dtype(0) {
                DType::Bool => map1(it, |_: bool| false),
                d if d.is_integral(false) => map1(it, |_: i64| false),
                d => opmath!($name, d, floating, W => map1(it, |x: W| x == W::$value)),
            },
        );
    )*};
}
use infinities;

fn check_bool(out: Option<&Tensor>, name: &str) -> Result<()> {
    check!(out.is_none_or(|o| o.dtype() == DType::Bool), "{name} does not support non-boolean outputs.");
    Ok(())
}

/// A bool result.
fn test_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIterator::config().output(out).input(a.tensor(0)?).output_dtype(DType::Bool).cast_outputs().build()
}

/// A result in the dtype of a complex number's parts.
fn real_result(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let t = a.tensor(0)?;
    if !t.dtype().is_complex() {
        return TensorIterator::unary_op(out, t);
    }
    check!(out.is_none_or(|o| !o.is_same(t)), "In-place abs is not supported for complex tensors.");
    TensorIterator::config().output(out).input(t).output_dtype(t.dtype().to_real()).cast_outputs().build()
}

fn abs(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.input_dtype(0) {
        DType::ComplexDouble => map1(it, |z: Complex<f64>| z.re.hypot(z.im)),
        DType::ComplexFloat | DType::ComplexHalf => map1(it, |z: Complex<f32>| z.re.hypot(z.im)),
        d if d.is_integral(false) => map1(it, |x: i64| x.wrapping_abs()),
        d => opmath!("abs_cpu", d, floating, W => map1(it, |x: W| x.abs())),
    }
}

fn angle_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let t = a.tensor(0)?;
    if t.dtype().is_complex() {
        return TensorIterator::config()
            .output(out)
            .input(t)
            .output_dtype(t.dtype().to_real())
            .cast_outputs()
            .build();
    }
    TensorIterator::unary_float_op(out, t)
}

fn angle(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.input_dtype(0) {
        DType::ComplexDouble => map1(it, |z: Complex<f64>| z.im.atan2(z.re)),
        DType::ComplexFloat => map1(it, |z: Complex<f32>| z.im.atan2(z.re)),
        d => opmath!("angle_cpu", d, floating, W => map1(it, |x: W| {
            if x.is_nan() { x } else if x < 0.0 { std::f64::consts::PI as W } else { 0.0 }
        })),
    }
}

fn sign(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.common_dtype() {
        DType::Bool => unchanged(it, "sign_cpu"),
        d if d.is_integral(false) => map1(it, |x: i64| x.signum()),
        d => opmath!("sign_cpu", d, floating, W => {
            map1(it, |x: W| (x > 0.0) as u8 as W - (x < 0.0) as u8 as W)
        }),
    }
}

/// `z / |z|`, zero for zero.
fn unit<T: Float>(z: Complex<T>) -> Complex<T> {
    let modulus = z.re.hypot(z.im);
    if modulus == T::zero() { Complex::new(T::zero(), T::zero()) } else { z.unscale(modulus) }
}

fn neg_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let t = a.tensor(0)?;
    check!(
        t.dtype() != DType::Bool,
        NotImplemented;
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` \
         or `logical_not()` operator instead."
    );
    TensorIterator::unary_op(out, t)
}

fn neg(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(false) => {
            dispatch!("neg_cpu", d, integral, T => loops::unary(it, |x: T| x.wrapping_neg()));
            Ok(())
        }
        d => opmath!("neg_cpu", d, floating_complex, W => map1(it, |x: W| -x)),
    }
}

fn round_decimals(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let decimals = a.int(1)?;
    opmath!("round_cpu", it.common_dtype(), floating, W => {
        let ten = (10f64.powi(decimals.unsigned_abs().min(400) as i32)) as W;
        if decimals < 0 {
            map1(it, move |x: W| (x / ten).round_ties_even() * ten)
        } else {
            map1(it, move |x: W| (x * ten).round_ties_even() / ten)
        }
    })
}

fn isinf(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    if t.dtype().is_integral(true) {
        return Ok(op::zeros_like.call((t, DType::Bool))?.into());
    }
    if t.dtype().is_complex() {
        let (re, im) = (op::isinf.call((op::real.call((t,))?,))?, op::isinf.call((op::imag.call((t,))?,))?);
        return Ok(op::bitwise_or__Tensor.call((re, im))?.into());
    }
    Ok(op::eq_Scalar.call((op::abs.call((t,))?, f64::INFINITY))?.into())
}

fn isfinite(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    if t.dtype().is_integral(true) {
        return Ok(op::ones_like.call((t, DType::Bool))?.into());
    }
    if t.dtype().is_complex() {
        let (re, im) =
            (op::isfinite.call((op::real.call((t,))?,))?, op::isfinite.call((op::imag.call((t,))?,))?);
        return Ok(op::bitwise_and__Tensor.call((re, im))?.into());
    }
    let number = op::eq_Tensor.call((t, t))?;
    let bounded = op::ne_Scalar.call((op::abs.call((t,))?, f64::INFINITY))?;
    Ok(op::mul_Tensor.call((number, bounded))?.into())
}

fn isreal(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    if t.dtype().is_complex() {
        return Ok(op::eq_Scalar.call((op::imag.call((t,))?, 0))?.into());
    }
    Ok(op::ones_like.call((t, DType::Bool))?.into())
}

fn nan_to_num(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let (nan, high, low) = (a.opt_double(1)?.unwrap_or(0.0), a.opt_double(2)?, a.opt_double(3)?);
    let d = it.common_dtype();
    if d.is_integral(true) {
        return unchanged(it, "nan_to_num");
    }
    let greatest = match d.to_real() {
        DType::Half => 65504.0,
        DType::BFloat16 => crate::half::bf16::MAX.to_f64(),
        DType::Double => f64::MAX,
        _ => f32::MAX as f64,
    };
    fn clean<T: Float>(x: T, nan: T, high: T, low: T) -> T {
        if x.is_nan() {
            nan
        } else if x == T::infinity() {
            high
        } else if x == T::neg_infinity() {
            low
        } else {
            x
        }
    }
    fn run<T: Float + Work>(it: &TensorIterator, nan: T, high: T, low: T) -> Result<()>
    where
        Complex<T>: Work,
    {
        if it.common_dtype().is_complex() {
            return map1(it, move |z: Complex<T>| {
                Complex::new(clean(z.re, nan, high, low), clean(z.im, nan, high, low))
            });
        }
        map1(it, move |x: T| clean(x, nan, high, low))
    }
    let (high, low) = (high.unwrap_or(greatest), low.unwrap_or(-greatest));
    match d {
        DType::Double | DType::ComplexDouble => run::<f64>(it, nan, high, low),
        DType::Float | DType::Half | DType::BFloat16 | DType::ComplexFloat => {
            run::<f32>(it, nan as f32, high as f32, low as f32)
        }
        other => Err(crate::Error::dtype_not_implemented("nan_to_num", other)),
    }
}

/// The argument in the default float type where it is an integer, times a factor.
fn scaled(a: Args<'_>, name: &str, factor: f64) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        !t.dtype().is_complex(),
        NotImplemented;
        "{name} is not supported for complex tensors."
    );
    Ok(op::mul_Tensor.call((t, crate::tensor::factory::wrapped_scalar(factor.into())?))?.into())
}
