//! `multinomial`.

use super::{fill, generator};
use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::random::{Exponential, Float, multinomial};
use crate::tensor::{factory, memory};
use crate::{DType, Element, Generator, MemoryFormat, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::multinomial, |a| {
        let out = factory::empty(&[0], DType::Long, a.tensor(0)?.device())?;
        into(&out, a)
    })
    .any_device(op::multinomial_out, |a| into(a.tensor(4)?, a));
}

/// Categories are counted in single precision.
const MAX_CATEGORIES: i64 = 1 << 24;

/// multinomial.out(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None, Tensor(a!) out)
fn into(out: &Tensor, a: Args<'_>) -> Result<Returns> {
    let (weights, samples, replacement, g) = (a.tensor(0)?, a.int(1)?, a.bool(2)?, a.opt_generator(3));
    check!(out.device() == weights.device(), "multinomial arguments must have the same device");
    check!((1..=2).contains(&weights.dim()), "prob_dist must be 1 or 2 dim");
    check!(
        weights.dtype().is_floating_point(),
        "multinomial only supports floating-point dtypes for input, got: {}",
        weights.dtype().scalar_type_name()
    );
    check!(
        out.dtype() == DType::Long,
        "multinomial expects Long tensor out, got: {}",
        out.dtype().scalar_type_name()
    );
    let mut sizes = IntList::from_slice(&weights.sizes()[..weights.dim() - 1]);
    sizes.push(samples);
    if weights.is_meta() {
        memory::resize(out, &sizes, None)?;
        return Ok(out.into());
    }
    check!(samples > 0, "cannot sample n_sample <= 0 samples");
    let categories = weights.size(-1)?;
    check!(
        replacement || samples <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    check!(categories <= MAX_CATEGORIES, "number of categories cannot exceed 2^24");
    memory::resize(out, &sizes, None)?;
    if out.numel() == 0 {
        return Ok(out.into());
    }
    // Both kernels read rows and write a row-major result.
    let rows = crate::ops::copy::contiguous(weights)?;
    let target =
        if out.is_contiguous() { out.clone() } else { factory::empty(&sizes, DType::Long, out.device())? };
    let categories = categories as usize;
    if replacement && samples > 1 {
        dispatch!("multinomial", rows.dtype(), floating, T => {
            with_replacement::<T>(&rows, categories, samples as usize, &target, g)?
        });
    } else {
        dispatch!("multinomial", rows.dtype(), floating, T => {
            without_replacement::<T>(weights, &rows, categories, samples, &target, g)?
        });
    }
    if !target.is_same(out) {
        crate::ops::copy::copy_into(out, &target)?;
    }
    Ok(out.into())
}

fn with_replacement<T: Float + Element>(
    rows: &Tensor,
    categories: usize,
    samples: usize,
    out: &Tensor,
    g: Option<&Generator>,
) -> Result<()> {
    // SAFETY: contiguous CPU tensors of type T and int64; the target is not shared with the weights.
    let (weights, out) = unsafe { (rows.as_slice::<T>(), out.as_mut_slice::<i64>()) };
    let empty: &[T] = &[];
    let row = |i: usize| if categories == 0 { empty } else { &weights[i * categories..(i + 1) * categories] };
    generator(g).with_cpu(|g| {
        let (mut single, mut double) = (Vec::new(), Vec::new());
        for (i, out) in out.chunks_mut(samples).enumerate() {
            if T::DOUBLE {
                multinomial::sample_row(g, row(i).iter().map(|w| w.to_f64()), &mut double, out)?;
            } else {
                multinomial::sample_row(g, row(i).iter().map(|w| w.to_f64() as f32), &mut single, out)?;
            }
        }
        Ok(())
    })?
}

/// The largest of weight / exponential sample: one category is drawn with the probability of its weight, and the
/// order of the others is that of a draw without replacement.
fn without_replacement<T: Float + Element + Default>(
    weights: &Tensor,
    rows: &Tensor,
    categories: usize,
    samples: i64,
    out: &Tensor,
    g: Option<&Generator>,
) -> Result<()> {
    check!(
        categories > 0,
        Index; "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
    );
    // SAFETY: a contiguous CPU tensor of type T.
    let w = unsafe { rows.as_slice::<T>() };
    check!(
        w.iter().all(|w| w.to_f64() >= 0.0 && w.to_f64().is_finite()),
        "probability tensor contains either `inf`, `nan` or element < 0"
    );
    check!(
        w.chunks(categories).all(|row| row.iter().any(|w| w.to_f64() > 0.0)),
        "invalid multinomial distribution (sum of probabilities <= 0)"
    );
    // The samples are drawn in the order of the weights' memory.
    let drawn = factory::empty_like(weights, weights.dtype(), MemoryFormat::Preserve)?;
    fill::<T>(&drawn, g, &Exponential::new(1.0))?;
    let race = crate::ops::copy::contiguous(&drawn)?;
    {
        // SAFETY: a contiguous CPU tensor of type T that this function made.
        let race = unsafe { race.as_mut_slice::<T>() };
        for (q, w) in race.iter_mut().zip(w) {
            *q = if T::DOUBLE {
                T::from_f64(w.to_f64() / q.to_f64())
            } else {
                T::from_f32(w.to_f64() as f32 / q.to_f64() as f32)
            };
        }
    }
    if samples > 1 {
        let top = op::topk.call_all((&race, samples))?;
        return match top.get(1).and_then(|v| v.opt_tensor()) {
            Some(indices) => crate::ops::copy::copy_into(out, indices),
            None => bail!(Internal, "topk returned no indices"),
        };
    }
    // SAFETY: as above; the target is a contiguous CPU tensor of int64.
    let (race, out) = unsafe { (race.as_slice::<T>(), out.as_mut_slice::<i64>()) };
    for (row, out) in race.chunks(categories).zip(out) {
        *out = first_largest(row) as i64;
    }
    Ok(())
}

/// `argmax`: the first of equals, a NaN before all numbers.
fn first_largest<T: Float>(row: &[T]) -> usize {
    let mut best = 0;
    let mut value = row[0].to_f64();
    for (i, candidate) in row.iter().enumerate().skip(1) {
        let candidate = candidate.to_f64();
        if value.is_nan() {
            break;
        }
        if candidate > value || candidate.is_nan() {
            (best, value) = (i, candidate);
        }
    }
    best
}
