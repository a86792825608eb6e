//! Division with rounding, and remainders.

use super::pointwise::{div_run, number_first, with_numbers};
use crate::cpu::integer;
use crate::dispatch::Registry;
use crate::iter::TensorIterator;
use crate::iter::blocks::{map2, map2_scalar};
use crate::ivalue::Args;
use crate::{DType, Error, Result, Tensor, bail, op};
use num_traits::Float;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn register(r: &mut Registry) {
    r.pointwise(op::div_Tensor_mode, mode_build, mode_run);
    r.explicit(op::div_Scalar_mode, |a| {
        let other = super::pointwise::number(a, 1)?;
        Ok(op::div_Tensor_mode
            .call((a.tensor(0)?, other, a.opt_str(2).map_or(().into(), crate::IValue::from)))?
            .into())
    });
    r.explicit(op::div__Scalar_mode, |a| {
        let other = super::pointwise::number(a, 1)?;
        Ok(op::div__Tensor_mode
            .call((a.tensor(0)?, other, a.opt_str(2).map_or(().into(), crate::IValue::from)))?
            .into())
    });
    let binary =
        |a: Args<'_>, out: Option<&Tensor>| TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?);
    r.pointwise(op::floor_divide, binary, |it, _| div_floor(it));
    r.pointwise(op::remainder_Tensor, binary, |it, _| remainder(it));
    r.pointwise(op::fmod_Tensor, binary, |it, _| fmod(it));
    r.pointwise(op::gcd, binary, |it, _| match it.common_dtype() {
        d if d.is_integral(false) => map2(it, integer::gcd),
        d => Err(Error::dtype_not_implemented("gcd_cpu", d)),
    });
    r.pointwise(op::lcm, binary, |it, _| match it.common_dtype() {
        d if d.is_integral(false) => map2(it, integer::lcm),
        d => Err(Error::dtype_not_implemented("lcm_cpu", d)),
    });
    with_numbers! { r:
        floor_divide_Scalar => floor_divide, floor_divide__Scalar => floor_divide__Tensor,
        remainder_Scalar => remainder_Tensor, remainder__Scalar => remainder__Tensor,
        fmod_Scalar => fmod_Tensor, fmod__Scalar => fmod__Tensor
    }
    r.explicit(op::remainder_Scalar_Tensor, |a| number_first(a, op::remainder_Tensor));
    for (name, target) in
        [(op::divide_Tensor_mode, op::div_Tensor_mode), (op::divide_Scalar_mode, op::div_Scalar_mode)]
    {
        r.alias(name, target);
    }
}

fn mode_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    match a.opt_str(2) {
        None => TensorIterator::binary_float_op(out, a.tensor(0)?, a.tensor(1)?),
        Some("trunc" | "floor") => TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?),
        Some(other) => bail!(
            Runtime,
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ),
    }
}

fn mode_run(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    match a.opt_str(2) {
        None => div_run(it),
        Some("trunc") => div_trunc(it),
        _ => div_floor(it),
    }
}

/// Integer division by `f`, whose divisor is never zero; a zero divisor is an error after the loop.
fn integers(it: &TensorIterator, f: impl Fn(i64, i64) -> i64 + Sync) -> Result<()> {
    let zero = AtomicBool::new(false);
    map2(it, |x: i64, y: i64| {
        if y == 0 {
            zero.store(true, Ordering::Relaxed);
            return 0;
        }
        f(x, y)
    })?;
    if zero.into_inner() {
        bail!(Runtime, "ZeroDivisionError");
    }
    Ok(())
}

/// Rounds to a half-precision dtype and back; the identity for others.
pub(crate) fn narrow(d: DType) -> fn(f32) -> f32 {
    use crate::half::{bf16, f16};
    match d {
        DType::Half => |x| f16::from_f32(x).to_f32(),
        DType::BFloat16 => |x| bf16::from_f32(x).to_f32(),
        _ => |x| x,
    }
}

fn div_trunc(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(false) => integers(it, i64::wrapping_div),
        DType::Double => map2(it, |x: f64, y: f64| (x / y).trunc()),
        DType::Float => map2(it, |x: f32, y: f32| (x / y).trunc()),
        d @ (DType::Half | DType::BFloat16) => {
            if one_number(it) {
                return map2_scalar(it, |x: f32, y: f32| (x / y).trunc());
            }
            // Between two tensors upstream rounds the quotient first.
            let round = narrow(d);
            map2(it, move |x: f32, y: f32| round(x / y).trunc())
        }
        d => Err(Error::dtype_not_implemented("div_trunc_cpu", d)),
    }
}

/// Whether the divisor is one element.
fn one_number(it: &TensorIterator) -> bool {
    it.tensor(2).numel() == 1
}

/// The quotient rounded down, consistent with `remainder`; `round` follows every step.
fn floored<T: Float>(a: T, b: T, round: impl Fn(T) -> T) -> T {
    if b == T::zero() {
        return round(a / b);
    }
    let rest = a % b;
    let mut quotient = round(round(a - rest) / b);
    if rest != T::zero() && (b < T::zero()) != (rest < T::zero()) {
        quotient = round(quotient - T::one());
    }
    if quotient == T::zero() {
        return T::zero().copysign(a / b);
    }
    let floor = quotient.floor();
    let half = T::one() / (T::one() + T::one());
    if round(quotient - floor) > half { round(floor + T::one()) } else { floor }
}

fn div_floor(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(false) => integers(it, integer::div_floor),
        DType::Double => map2(it, |x: f64, y: f64| floored(x, y, |v| v)),
        DType::Float => map2(it, |x: f32, y: f32| floored(x, y, |v| v)),
        d @ (DType::Half | DType::BFloat16) => {
            if one_number(it) {
                return map2_scalar(it, |x: f32, y: f32| floored(x, y, |v| v));
            }
            let round = narrow(d);
            map2(it, move |x: f32, y: f32| floored(x, y, round))
        }
        d => Err(Error::dtype_not_implemented("div_floor_cpu", d)),
    }
}

fn with_divisors_sign<T: Float>(a: T, b: T) -> T {
    let rest = a % b;
    if rest != T::zero() && (b < T::zero()) != (rest < T::zero()) { rest + b } else { rest }
}

fn remainder(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(false) => integers(it, integer::remainder),
        DType::Double => map2(it, with_divisors_sign::<f64>),
        DType::Float | DType::Half | DType::BFloat16 => map2(it, with_divisors_sign::<f32>),
        d => Err(Error::dtype_not_implemented("remainder_cpu", d)),
    }
}

fn fmod(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(false) => integers(it, i64::wrapping_rem),
        DType::Double => map2(it, |x: f64, y: f64| x % y),
        DType::Float | DType::Half | DType::BFloat16 => map2(it, |x: f32, y: f32| x % y),
        d => Err(Error::dtype_not_implemented("fmod_cpu", d)),
    }
}
