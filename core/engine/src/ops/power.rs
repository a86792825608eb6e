//! Powers.

use super::division::narrow;
use super::pointwise::number;
use crate::cpu::{complex, integer};
use crate::dispatch::{Registry, Returns};
use crate::iter::TensorIterator;
use crate::iter::blocks::{map1, map2};
use crate::ivalue::Args;
use crate::{Complex, DType, Error, Result, Scalar, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.pointwise(
        op::pow_Tensor_Tensor,
        |a, out| TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?),
        |it, _| pow_tensors(it),
    );
    r.pointwise(op::pow_Tensor_Scalar, scalar_build, |it, a| pow_scalar(it, a.scalar(1)?));
    r.pointwise(
        op::pow_Scalar,
        |a, out| TensorIterator::binary_op(out, &number(a, 0)?, a.tensor(1)?),
        |it, a| {
            if a.scalar(0)?.equals_int(1) && it.common_dtype() != DType::Bool {
                return fill(it, Scalar::Int(1));
            }
            pow_tensors(it)
        },
    );
    r.implicit(op::square, |a| Ok(op::pow_Tensor_Scalar.call((a.tensor(0)?, 2))?.into()));
    r.implicit(op::square_, |a| Ok(op::pow__Scalar.call((a.tensor(0)?, 2))?.into()));
    r.implicit(op::float_power_Tensor_Tensor, |a| float_power(a, op::pow_Tensor_Tensor));
    r.implicit(op::float_power_Tensor_Scalar, |a| float_power(a, op::pow_Tensor_Scalar));
    r.implicit(op::float_power_Scalar, |a| float_power(a, op::pow_Scalar));
    r.implicit(op::float_power_Tensor_Tensor_out, |a| float_power_out(a, op::pow_Tensor_Tensor_out));
    r.implicit(op::float_power_Tensor_Scalar_out, |a| float_power_out(a, op::pow_Tensor_Scalar_out));
    r.implicit(op::float_power_Scalar_out, |a| float_power_out(a, op::pow_Scalar_out));
    r.implicit(op::float_power__Tensor, |a| float_power_in_place(a, op::pow__Tensor));
    r.implicit(op::float_power__Scalar, |a| float_power_in_place(a, op::pow__Scalar));
}

fn scalar_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let (base, exponent) = (a.tensor(0)?, a.scalar(1)?);
    check!(
        !(base.dtype().is_integral(true) && exponent.is_integral() && exponent.is_negative()),
        "Integers to negative integer powers are not allowed."
    );
    TensorIterator::binary_op(out, base, &number(a, 1)?)
}

fn fill(it: &TensorIterator, value: Scalar) -> Result<()> {
    super::options::fill(it.tensor(0), value)
}

/// An exponent for which upstream has a formula of its own.
fn float_pow(it: &TensorIterator, d: DType, e: f64) -> Result<()> {
    // BFloat16 is rounded between the steps, as upstream's vector type is.
    let step = if d == DType::BFloat16 { narrow(d) } else { |x| x };
    if d == DType::Double {
        return match e {
            0.5 => map1(it, f64::sqrt),
            2.0 => map1(it, |x: f64| x * x),
            3.0 => map1(it, |x: f64| x * x * x),
            -0.5 => map1(it, |x: f64| 1.0 / x.sqrt()),
            -1.0 => map1(it, |x: f64| 1.0 / x),
            -2.0 => map1(it, |x: f64| 1.0 / (x * x)),
            e => map1(it, move |x: f64| x.powf(e)),
        };
    }
    match e {
        0.5 => map1(it, f32::sqrt),
        2.0 => map1(it, |x: f32| x * x),
        3.0 if d == DType::BFloat16 => map1(it, move |x: f32| step(x * x) * x),
        3.0 => map1(it, |x: f32| x * x * x),
        -0.5 => map1(it, |x: f32| 1.0 / x.sqrt()),
        -1.0 => map1(it, |x: f32| 1.0 / x),
        -2.0 => map1(it, move |x: f32| 1.0 / step(x * x)),
        e => {
            // The exponent as an element of the dtype.
            let e = narrow(d)(e as f32);
            map1(it, move |x: f32| x.powf(e))
        }
    }
}

fn pow_scalar(it: &TensorIterator, e: Scalar) -> Result<()> {
    if e.equals_int(0) {
        return fill(it, Scalar::Int(1));
    }
    if e.equals_int(1) {
        return crate::ops::copy::copy_into(it.tensor(0), it.tensor(1));
    }
    match it.common_dtype() {
        d @ (DType::Float | DType::Double | DType::Half | DType::BFloat16) => {
            let e: f64 = e.to()?;
            Scalar::Float(e).check_fits(d)?;
            float_pow(it, d, e)
        }
        d if d.is_integral(false) => {
            e.check_fits(d)?;
            let e: i64 = e.to()?;
            map1(it, move |x: i64| integer::pow(x, e))
        }
        DType::ComplexDouble | DType::ComplexFloat => complex_pow_scalar(it, e.cast()),
        d => Err(Error::dtype_not_implemented("pow", d)),
    }
}

fn complex_pow_scalar(it: &TensorIterator, e: Complex<f64>) -> Result<()> {
    let f = move |z: Complex<f64>| {
        if e.im == 0.0 {
            if e.re == 0.5 {
                return complex::sqrt(z);
            } else if e.re == 2.0 {
                return z * z;
            } else if e.re == 3.0 {
                return z * z * z;
            } else if e.re == -0.5 {
                return complex::rsqrt(z);
            } else if e.re == -1.0 {
                return complex::reciprocal(z);
            } else if e.re == -2.0 {
                return complex::reciprocal(z * z);
            }
        }
        complex::pow(z, e)
    };
    if it.common_dtype() == DType::ComplexDouble {
        map1(it, f)
    } else {
        map1(it, move |z| single(f(double(z))))
    }
}

pub(crate) fn double(z: Complex<f32>) -> Complex<f64> {
    Complex::new(z.re as f64, z.im as f64)
}

pub(crate) fn single(z: Complex<f64>) -> Complex<f32> {
    Complex::new(z.re as f32, z.im as f32)
}

fn pow_tensors(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        DType::Double => map2(it, f64::powf),
        DType::Float | DType::Half | DType::BFloat16 => map2(it, f32::powf),
        DType::ComplexDouble => map2(it, complex::pow),
        DType::ComplexFloat => {
            map2(it, |z: Complex<f32>, w: Complex<f32>| single(complex::pow(double(z), double(w))))
        }
        d if d.is_integral(false) => map2(it, integer::pow),
        d => Err(Error::dtype_not_implemented("pow", d)),
    }
}

fn is_complex(a: Args<'_>, i: usize) -> Result<bool> {
    Ok(match a.opt_tensor(i) {
        Some(t) => t.dtype().is_complex(),
        None => a.scalar(i)?.is_complex(),
    })
}

fn float_power_dtype(a: Args<'_>) -> Result<DType> {
    Ok(if is_complex(a, 0)? || is_complex(a, 1)? { DType::ComplexDouble } else { DType::Double })
}

/// Argument `i` of a dtype: tensors are converted, numbers too.
fn converted(a: Args<'_>, i: usize, d: DType) -> Result<crate::IValue> {
    Ok(match a.opt_tensor(i) {
        Some(t) => op::to_dtype.call((t, d))?.into(),
        None if d.is_complex() => {
            let z: Complex<f64> = a.scalar(i)?.cast();
            Scalar::Complex(z.re, z.im).into()
        }
        None => Scalar::Float(a.scalar(i)?.to_f64()).into(),
    })
}

fn float_power(a: Args<'_>, target: crate::OpId) -> Result<Returns> {
    let d = float_power_dtype(a)?;
    Ok(target.call((converted(a, 0, d)?, converted(a, 1, d)?))?.into())
}

fn float_power_out(a: Args<'_>, target: crate::OpId) -> Result<Returns> {
    let (d, out) = (float_power_dtype(a)?, a.tensor(2)?);
    check!(
        out.dtype() == d,
        "the output given to float_power has dtype {} but the operation's result requires dtype {d}",
        out.dtype()
    );
    Ok(target.call((converted(a, 0, d)?, converted(a, 1, d)?, out))?.into())
}

fn float_power_in_place(a: Args<'_>, target: crate::OpId) -> Result<Returns> {
    let (d, base) = (float_power_dtype(a)?, a.tensor(0)?);
    check!(
        base.dtype() == d,
        "the base given to float_power_ has dtype {} but the operation's result requires dtype {d}",
        base.dtype()
    );
    Ok(target.call((base, converted(a, 1, d)?))?.into())
}
