//! `random_` and what is made of it: `randint`, `randint_like`.

use super::factories::{new, resized};
use super::{byte_view, fill, functional};
use crate::dispatch::{Registry, Returns};
use crate::ivalue::Args;
use crate::ops::factories::like;
use crate::ops::options::item;
use crate::random::distributions::representable_bounds;
use crate::random::{Float, Random, RandomFromTo, RandomFull64};
use crate::warn::{self, Category};
use crate::{DType, Error, Generator, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::random_, random)
        .any_device(op::random__from, random_from)
        .any_device(op::random__to, random_to);
    functional!(r, random => random_, random_from => random__from, random_to => random__to);
    r.explicit(op::randint, |a| randint(a, 0, a.int(0)?, 1, None))
        .explicit(op::randint_generator, |a| randint(a, 0, a.int(0)?, 1, Some(2)))
        .explicit(op::randint_low, |a| randint(a, a.int(0)?, a.int(1)?, 2, None))
        .explicit(op::randint_low_generator, |a| randint(a, a.int(0)?, a.int(1)?, 2, Some(3)))
        .explicit(op::randint_out, |a| randint_out(a, 0, a.int(0)?, 1, None))
        .explicit(op::randint_generator_out, |a| randint_out(a, 0, a.int(0)?, 1, Some(2)))
        .explicit(op::randint_low_out, |a| randint_out(a, a.int(0)?, a.int(1)?, 2, None))
        .explicit(op::randint_low_generator_out, |a| randint_out(a, a.int(0)?, a.int(1)?, 2, Some(3)))
        .explicit(op::randint_like, |a| randint_like(a, 0, a.int(1)?, 2, None))
        .explicit(op::randint_like_generator, |a| randint_like(a, 0, a.int(1)?, 3, Some(2)))
        .explicit(op::randint_like_Tensor, |a| randint_like(a, 0, high(a.tensor(1)?)?, 2, None))
        .explicit(op::randint_like_Tensor_generator, |a| randint_like(a, 0, high(a.tensor(1)?)?, 3, Some(2)))
        .explicit(op::randint_like_low_dtype, |a| randint_like(a, a.int(1)?, a.int(2)?, 3, None))
        .explicit(op::randint_like_low_generator_dtype, |a| {
            randint_like(a, a.int(1)?, a.int(2)?, 4, Some(3))
        });
}

/// random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)
fn random(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    if t.numel() == 0 || t.is_meta() {
        return Ok(t.into());
    }
    if t.dtype() == DType::Bool {
        fill::<u8>(&byte_view(t), a.opt_generator(1), &RandomFromTo::new(2, 0))?;
    } else {
        dispatch!("random_kernel_cpu", t.dtype(), all, T => fill::<T>(t, a.opt_generator(1), &Random)?);
    }
    Ok(t.into())
}

/// random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)
fn random_from(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    fill_range(t, a.int(1)?, a.opt_int(2)?, a.opt_generator(3))?;
    Ok(t.into())
}

/// random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)
fn random_to(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    fill_range(t, 0, Some(a.int(1)?), a.opt_generator(2))?;
    Ok(t.into())
}

/// Fills with integers in [from, to), or up to the largest of the dtype.
fn fill_range(t: &Tensor, mut from: i64, to: Option<i64>, g: Option<&Generator>) -> Result<()> {
    if t.is_meta() {
        return Ok(());
    }
    let dtype = t.dtype();
    let range = match to {
        Some(mut to) => {
            check!(from < to, "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}");
            if dtype.is_floating_point() {
                dispatch!("random_update_from_to", dtype, floating, T => (from, to) = representable_bounds::<T>(from, to));
                check!(
                    from < to,
                    "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={from} >= to={to}"
                );
            }
            check_range(dtype, from, to - 1)?;
            to.wrapping_sub(from) as u64
        }
        None if from != i64::MIN => {
            let last = if dtype.is_floating_point() {
                let last = dispatch!("random_from_to_range_calc", dtype, floating, T => 1i64 << <T as Float>::DIGITS);
                dispatch!("random_update_from_to", dtype, floating, T => (from, _) = representable_bounds::<T>(from, i64::MAX));
                check!(
                    from < last,
                    "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got from={from} > to_inc={last}"
                );
                last
            } else {
                match integer_bounds(dtype) {
                    Some((_, last)) => last,
                    None => bail!(
                        Runtime,
                        "random_from_to_impl handles only integral, floating-point and boolean types"
                    ),
                }
            };
            check_range(dtype, from, last)?;
            (last as u64).wrapping_sub(from as u64).wrapping_add(1)
        }
        None => {
            if t.numel() == 0 {
                return Ok(());
            }
            return match dtype {
                DType::Long => fill::<i64>(t, g, &RandomFull64),
                DType::Double => fill::<f64>(t, g, &RandomFull64),
                DType::Float => fill::<f32>(t, g, &RandomFull64),
                DType::BFloat16 => fill::<half::bf16>(t, g, &RandomFull64),
                DType::Byte | DType::Char | DType::Short | DType::Int => bail!(
                    Runtime,
                    "random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16"
                ),
                other => Err(Error::dtype_not_implemented("random_full_64_bits_range_kernel_cpu", other)),
            };
        }
    };
    if t.numel() == 0 {
        return Ok(());
    }
    let sampler = RandomFromTo::new(range, from);
    let t = &byte_view(t);
    match t.dtype() {
        DType::UInt16 => fill::<u16>(t, g, &sampler),
        DType::UInt32 => fill::<u32>(t, g, &sampler),
        DType::UInt64 => fill::<u64>(t, g, &sampler),
        dtype => {
            dispatch!("random_from_to_kernel_cpu", dtype, all, T => fill::<T>(t, g, &sampler)?);
            Ok(())
        }
    }
}

/// The smallest and largest integer of an integral dtype, as far as int64 reaches.
fn integer_bounds(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::Byte => (0, 255),
        DType::Char => (-128, 127),
        DType::Short => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::Long => (i64::MIN, i64::MAX),
        DType::UInt16 => (0, i64::from(u16::MAX)),
        DType::UInt32 => (0, i64::from(u32::MAX)),
        DType::UInt64 => (0, i64::MAX),
        _ => return None,
    })
}

/// `check_from_to_in_range`
fn check_range(dtype: DType, from: i64, last: i64) -> Result<()> {
    let names = [("from", from), ("to - 1", last)];
    let shown = cpp_name(dtype);
    if dtype.is_floating_point() {
        let (max, digits) = dispatch!("check_random_fp_bounds", dtype, floating, T => (<T as Float>::MAX, <T as Float>::DIGITS));
        for (name, value) in names {
            check!((value as f64).abs() <= max, "{name} is out of bounds for {shown}");
        }
        let exact = 1i64 << digits;
        for (name, value) in names {
            if value < -exact || value > exact {
                warn::warn(
                    Category::User,
                    &format!(
                        "{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {shown} can support discrete uniform distribution only within this range. This warning will become an error in version 1.7 release, please fix the code in advance"
                    ),
                )?;
            }
        }
        return Ok(());
    }
    let Some((min, max)) = integer_bounds(dtype) else {
        bail!(Runtime, "check_random_bounds handles only integral, floating-point and boolean types");
    };
    for (name, value) in names {
        check!((min..=max).contains(&value), "{name} is out of bounds for {shown}");
    }
    Ok(())
}

fn cpp_name(dtype: DType) -> &'static str {
    match dtype {
        DType::UInt16 => "short unsigned int",
        DType::UInt32 => "unsigned int",
        DType::UInt64 => "long unsigned int",
        other => other.torch_name_cpp(),
    }
}

/// randint(…, SymInt[] size, *, Generator? generator, ScalarType? dtype=long, …) -> Tensor; the size is argument `at`.
fn randint(a: Args<'_>, low: i64, high: i64, at: usize, g: Option<usize>) -> Result<Returns> {
    let t = new(a, a.int_list(at)?, g.map_or(at + 1, |g| g + 1), Some(DType::Long))?;
    draw(&t, low, high, a, g)
}

fn randint_out(a: Args<'_>, low: i64, high: i64, at: usize, g: Option<usize>) -> Result<Returns> {
    let t = resized(a.tensor(a.len() - 1)?, a.int_list(at)?)?;
    draw(&t, low, high, a, g)
}

/// randint_like(Tensor self, …, *, Generator? generator, ScalarType? dtype=None, …) -> Tensor; the options start at `at`.
fn randint_like(a: Args<'_>, low: i64, high: i64, at: usize, g: Option<usize>) -> Result<Returns> {
    let t = like(a, at)?;
    draw(&t, low, high, a, g)
}

fn draw(t: &Tensor, low: i64, high: i64, a: Args<'_>, g: Option<usize>) -> Result<Returns> {
    let g = g.and_then(|at| a.opt_generator(at)).cloned();
    op::random__from.call((t, low, high, g))?;
    Ok(t.into())
}

/// The bound of `randint_like.Tensor`.
fn high(t: &Tensor) -> Result<i64> {
    check!(t.numel() == 1 && t.dim() == 0 && t.is_cpu(), "high must be a scalar tensor and on CPU");
    Ok(item(t)?.to_i64())
}
