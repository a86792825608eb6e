//! `multinomial` with replacement: one row of weights, searched through its cumulative sums.
//!
//! Sampling without replacement, and single samples, are made of tensor operators (weights divided by exponential
//! samples, then the largest) and live with the operator.

use super::distributions::uniform01_f64;
use super::generator::CpuGenerator;
use crate::{Result, bail};

/// What cumulative sums are kept in: `f64` for double weights, `f32` for all others.
pub trait Weight: Copy + Into<f64> + PartialOrd + std::ops::AddAssign + std::ops::DivAssign {
    /// The empty sum.
    const ZERO: Self;
    /// The total after normalisation.
    const ONE: Self;
}

impl Weight for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

impl Weight for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

/// Draws `out.len()` indices with probabilities proportional to `weights`. `cumulative` is scratch space, reused
/// from row to row.
pub fn sample_row<W: Weight>(
    generator: &mut CpuGenerator,
    weights: impl Iterator<Item = W>,
    cumulative: &mut Vec<W>,
    out: &mut [i64],
) -> Result<()> {
    cumulative.clear();
    let mut sum = W::ZERO;
    for weight in weights {
        let value: f64 = weight.into();
        if value.is_nan() || value < 0.0 {
            bail!(Runtime, "invalid multinomial distribution (encountering probability entry < 0)");
        }
        if value.is_infinite() {
            bail!(
                Runtime,
                "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
            );
        }
        sum += weight;
        cumulative.push(sum);
    }
    if sum.into() <= 0.0 || cumulative.is_empty() {
        bail!(Runtime, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    for entry in cumulative.iter_mut() {
        *entry /= sum;
    }
    if let Some(last) = cumulative.last_mut() {
        *last = W::ONE;
    }
    for index in out {
        let u = uniform01_f64(generator.random64());
        *index = cumulative.partition_point(|&p| p.into() < u) as i64;
    }
    Ok(())
}
