//! In-place samplers of one element type: `uniform_`, `normal_`, `cauchy_`, `log_normal_`, `exponential_`, `geometric_`.

use super::{as_real, cpp, fill, functional, generator};
use crate::dispatch::{Registry, Returns};
use crate::ivalue::Args;
use crate::random::{Cauchy, Exponential, Float, Geometric, LogNormal, Normal, Sample, Uniform};
use crate::tensor::memory;
use crate::{DType, Generator, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::uniform_, uniform)
        .any_device(op::normal_, normal)
        .any_device(op::cauchy_, cauchy)
        .any_device(op::log_normal_, log_normal)
        .any_device(op::exponential_, exponential)
        .any_device(op::geometric_, geometric);
    functional!(r,
        uniform => uniform_,
        normal_functional => normal_,
        cauchy => cauchy_,
        log_normal => log_normal_,
        exponential => exponential_,
        geometric => geometric_,
    );
}

/// uniform_(Tensor(a!) self, float from=0, float to=1, *, Generator? generator=None) -> Tensor(a!)
fn uniform(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let (from, to) = (a.double(1)?, a.double(2)?);
    if t.is_meta() || (t.dtype().is_complex() && t.numel() == 0) {
        return Ok(t.into());
    }
    let target = as_real(t);
    dispatch!("check_uniform_bounds", target.dtype(), floating, T => {
        let (from, to) = uniform_bounds::<T>(target.dtype(), from, to)?;
        if t.numel() != 0 {
            fill::<T>(&target, a.opt_generator(3), &Uniform::new(from, to))?;
        }
    });
    Ok(t.into())
}

fn uniform_bounds<T: Float>(dtype: DType, from: f64, to: f64) -> Result<(f64, f64)> {
    for (name, bound) in [("from", from), ("to", to)] {
        // Not finite fails as well.
        check!(bound.abs() <= T::MAX, "{name} is out of bounds for {}", dtype.torch_name_cpp());
    }
    check!(
        from <= to,
        "uniform_ expects to return a [from, to) range, but found from={} > to={}",
        cpp(from),
        cpp(to)
    );
    check!(
        to - from <= T::MAX,
        "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={} and from={} which result in to-from to exceed the limit",
        dtype.scalar_type_name(),
        cpp(to),
        cpp(from)
    );
    Ok((from, to))
}

/// normal_(Tensor(a!) self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)
fn normal(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    fill_normal(t, a.double(1)?, a.double(2)?, a.opt_generator(3))?;
    Ok(t.into())
}

/// `normal_` without the dispatcher.
pub(super) fn fill_normal(t: &Tensor, mean: f64, std: f64, g: Option<&Generator>) -> Result<()> {
    check_std(std)?;
    if t.numel() == 0 || t.is_meta() {
        return Ok(());
    }
    // A complex sample has the deviation shared by its two parts.
    let std = if t.dtype().is_complex() { std / std::f64::consts::SQRT_2 } else { std };
    let target = as_real(t);
    let sampler = Normal::new(mean, std);
    dispatch!("normal_kernel_cpu", target.dtype(), floating, T => {
        if target.is_contiguous() {
            memory::assert_no_internal_overlap(&target)?;
            // SAFETY: contiguous, on the CPU, of type T; the caller holds the target for writing.
            generator(g).with_cpu(|g| sampler.fill_contiguous(g, unsafe { target.as_mut_slice::<T>() }))?;
        } else {
            fill::<T>(&target, g, &sampler)?;
        }
    });
    Ok(())
}

/// `CHECK_NORMAL_STD`
pub(super) fn check_std(std: f64) -> Result<()> {
    check!(std >= 0.0, "normal expects std >= 0.0, but found std {}", cpp(std));
    Ok(())
}

/// cauchy_(Tensor(a!) self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor(a!)
fn cauchy(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let (median, sigma) = (a.double(1)?, a.double(2)?);
    check!(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma={}", cpp(sigma));
    check!(
        t.dtype().is_floating_point(),
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        t.dtype().torch_name_cpp()
    );
    floating("cauchy_cpu", t, a.opt_generator(3), &Cauchy::new(median, sigma))
}

/// log_normal_(Tensor(a!) self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor(a!)
fn log_normal(a: Args<'_>) -> Result<Returns> {
    let (mean, std) = (a.double(1)?, a.double(2)?);
    check!(std > 0.0, "log_normal_ expects std > 0.0, but found std={}", cpp(std));
    floating("log_normal_cpu", a.tensor(0)?, a.opt_generator(3), &LogNormal::new(mean, std))
}

/// exponential_(Tensor(a!) self, float lambd=1, *, Generator? generator=None) -> Tensor(a!)
fn exponential(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let lambda = a.double(1)?;
    check!(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda={}", cpp(lambda));
    if t.numel() != 0 && !t.dtype().is_floating_point() {
        bail!(
            Runtime,
            "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
            t.dtype().scalar_type_name()
        );
    }
    floating("exponential_cpu", t, a.opt_generator(2), &Exponential::new(lambda))
}

/// geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)
fn geometric(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let p = a.double(1)?;
    check!(p > 0.0 && p < 1.0, "geometric_ expects p to be in (0, 1), but got p={}", cpp(p));
    if t.numel() != 0 && !t.is_meta() {
        dispatch!("geometric_cpu", t.dtype(), all, T => {
            fill::<T>(t, a.opt_generator(2), &Geometric::new(p))?;
        });
    }
    Ok(t.into())
}

/// Fills a floating-point tensor; there is nothing to do for an empty or a meta one.
fn floating<S>(name: &str, t: &Tensor, g: Option<&Generator>, sampler: &S) -> Result<Returns>
where
    S: Sample<f32> + Sample<f64> + Sample<half::f16> + Sample<half::bf16>,
{
    if t.numel() != 0 && !t.is_meta() {
        dispatch!(name, t.dtype(), floating, T => fill::<T>(t, g, sampler)?);
    }
    Ok(t.into())
}
