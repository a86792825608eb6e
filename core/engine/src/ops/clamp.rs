//! Bounds and extremes of two: `clamp`, `maximum`, `minimum`, `fmax`, `fmin`.

use crate::dispatch::Registry;
use crate::iter::blocks::{map1, map2, map3, opmath};
use crate::iter::{ResultType, TensorIterator, loops};
use crate::ivalue::Args;
use crate::{DType, Result, Scalar, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.pointwise(
        op::clamp,
        |a, out| {
            check!(
                !a.is_none(1) || !a.is_none(2),
                "torch.clamp: At least one of 'min' or 'max' must not be None"
            );
            scalar_build(a.tensor(0)?, &[a.opt_scalar(1)?, a.opt_scalar(2)?], out)
        },
        |it, a| {
            let name = match (a.is_none(1), a.is_none(2)) {
                (false, true) => "clamp_min_scalar_cpu",
                (true, false) => "clamp_max_scalar_cpu",
                _ => "clamp_scalar_cpu",
            };
            clamp_numbers(it, a.opt_scalar(1)?, a.opt_scalar(2)?, name)
        },
    );
    r.pointwise(
        op::clamp_min,
        |a, out| scalar_build(a.tensor(0)?, &[Some(a.scalar(1)?)], out),
        |it, a| clamp_numbers(it, Some(a.scalar(1)?), None, "clamp_min_scalar_cpu"),
    );
    r.pointwise(
        op::clamp_max,
        |a, out| scalar_build(a.tensor(0)?, &[Some(a.scalar(1)?)], out),
        |it, a| clamp_numbers(it, None, Some(a.scalar(1)?), "clamp_max_scalar_cpu"),
    );
    r.pointwise(op::clamp_Tensor, tensor_build, tensor_run);
    r.pointwise(op::clamp_min_Tensor, bound_build, |it, _| maximum(it));
    r.pointwise(op::clamp_max_Tensor, bound_build, |it, _| minimum(it));
    r.alias(op::clip, op::clamp).alias(op::clip_Tensor, op::clamp_Tensor);
    r.pointwise(op::maximum, |a, out| extreme_build(a, out, "maximum"), |it, _| maximum(it));
    r.pointwise(op::minimum, |a, out| extreme_build(a, out, "minimum"), |it, _| minimum(it));
    r.pointwise(op::fmax, |a, out| extreme_build(a, out, "fmax"), |it, _| fmax(it));
    r.pointwise(op::fmin, |a, out| extreme_build(a, out, "fmin"), |it, _| fmin(it));
    r.alias(op::max_other, op::maximum).alias(op::min_other, op::minimum);
}

fn refuse_complex(t: &Tensor) -> Result<()> {
    check!(!t.dtype().is_complex(), NotImplemented; "clamp is not supported for complex types");
    Ok(())
}

/// An iteration over the tensor in the type it shares with its bounds.
fn scalar_build(t: &Tensor, bounds: &[Option<Scalar>], out: Option<&Tensor>) -> Result<TensorIterator> {
    refuse_complex(t)?;
    let mut state = ResultType::default();
    state.add(t)?;
    for b in bounds.iter().flatten() {
        state.add_scalar(*b)?;
        check!(!b.is_complex(), NotImplemented; "clamp is not supported for complex types");
    }
    let common = state.finish()?;
    check!(
        common == t.dtype() || out.is_none_or(|o| !o.is_same(t)),
        "result type {common} can't be cast to the desired output type {}",
        t.dtype().torch_name_cpp()
    );
    TensorIterator::unary_op(out, &op::to_dtype.call((t, common))?)
}

fn clamp_numbers(it: &TensorIterator, min: Option<Scalar>, max: Option<Scalar>, name: &str) -> Result<()> {
    let d = it.common_dtype();
    // NaN as a bound makes everything NaN.
    let nan = |s: &Option<Scalar>| s.is_some_and(|s| s.to_f64().is_nan());
    if d.is_floating_point() && (nan(&min) || nan(&max)) {
        return super::options::fill(it.tensor(0), Scalar::Float(f64::NAN));
    }
    if d.is_integral(false) {
        let (lowest, highest) = range(d);
        if let Some(m) = min {
            check!(
                m.to_i64() <= highest,
                "Clamp min value {} is outside the representable range of {d}",
                m.to_i64()
            );
        }
        if let Some(m) = max {
            check!(
                m.to_i64() >= lowest,
                "Clamp max value {} is outside the representable range of {d}",
                m.to_i64()
            );
        }
        let low = min.map_or(lowest, |m| m.to_i64().max(lowest));
        let high = max.map_or(highest, |m| m.to_i64().min(highest));
        dispatch!(name, d, integral, T => {
            let (low, high) = (low as T, high as T);
            loops::unary(it, move |x: T| x.max(low).min(high));
        });
        return Ok(());
    }
    // The bounds as elements of the dtype.
    let element = |s: Option<Scalar>, none: f64| -> Result<f64> {
        let Some(s) = s else { return Ok(none) };
        Ok(match d {
            DType::Half => s.to::<crate::half::f16>()?.to_f64(),
            DType::BFloat16 => s.to::<crate::half::bf16>()?.to_f64(),
            DType::Float => s.to::<f32>()? as f64,
            _ => s.to_f64(),
        })
    };
    let (low, high) = (element(min, f64::NEG_INFINITY)?, element(max, f64::INFINITY)?);
    opmath!(name, d, floating, W => {
        let (low, high) = (low as W, high as W);
        map1(it, move |x: W| {
            // Comparisons that NaN passes through.
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        })
    })
}

/// The least and the greatest value of an integer dtype.
fn range(d: DType) -> (i64, i64) {
    match d {
        DType::Byte => (0, u8::MAX as i64),
        DType::Char => (i8::MIN as i64, i8::MAX as i64),
        DType::Short => (i16::MIN as i64, i16::MAX as i64),
        DType::Int => (i32::MIN as i64, i32::MAX as i64),
        _ => (i64::MIN, i64::MAX),
    }
}

fn tensor_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let t = a.tensor(0)?;
    check!(!a.is_none(1) || !a.is_none(2), "torch.clamp: At least one of 'min' or 'max' must not be None");
    refuse_complex(t)?;
    let mut config = TensorIterator::config().output(out).input(t);
    for i in [1, 2] {
        if let Some(bound) = a.opt_tensor(i) {
            refuse_complex(bound)?;
            config = config.input(bound);
        }
    }
    config.promote().cast_outputs().safe_casting().cpu_scalars().build()
}

fn tensor_run(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    match (a.is_none(1), a.is_none(2)) {
        (false, true) => maximum(it),
        (true, false) => minimum(it),
        _ => match it.common_dtype() {
            d if d.is_integral(false) => map3(it, |x: i64, low: i64, high: i64| x.max(low).min(high)),
            d => opmath!("clamp_cpu", d, floating, W => map3(it, |x: W, low: W, high: W| {
                if low.is_nan() { low } else if high.is_nan() { high } else {
                    let x = if x < low { low } else { x };
                    if x > high { high } else { x }
                }
            })),
        },
    }
}

fn bound_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?)
}

fn extreme_build(a: Args<'_>, out: Option<&Tensor>, name: &str) -> Result<TensorIterator> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        !x.dtype().is_complex() && !y.dtype().is_complex(),
        Type;
        "{name} not implemented for complex tensors."
    );
    TensorIterator::binary_op(out, x, y)
}

fn maximum(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        DType::Bool => map2(it, |x: bool, y: bool| x | y),
        d if d.is_integral(false) => {
            dispatch!("maximum_cpu", d, integral, T => loops::binary(it, |x: T, y: T| x.max(y)));
            Ok(())
        }
        d => {
            opmath!("maximum_cpu", d, floating, W => map2(it, |x: W, y: W| if x < y || y.is_nan() { y } else { x }))
        }
    }
}

fn minimum(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        DType::Bool => map2(it, |x: bool, y: bool| x & y),
        d if d.is_integral(false) => {
            dispatch!("minimum_cpu", d, integral, T => loops::binary(it, |x: T, y: T| x.min(y)));
            Ok(())
        }
        d => {
            opmath!("minimum_cpu", d, floating, W => map2(it, |x: W, y: W| if y < x || y.is_nan() { y } else { x }))
        }
    }
}

fn fmax(it: &TensorIterator) -> Result<()> {
    if it.common_dtype().is_integral(true) {
        return maximum(it);
    }
    opmath!("fmax_cpu", it.common_dtype(), floating, W => map2(it, |x: W, y: W| x.max(y)))
}

fn fmin(it: &TensorIterator) -> Result<()> {
    if it.common_dtype().is_integral(true) {
        return minimum(it);
    }
    opmath!("fmin_cpu", it.common_dtype(), floating, W => map2(it, |x: W, y: W| x.min(y)))
}
