//! Normalisation by channels of a contiguous `outer` × `channels` × `inner` array: statistics of each channel (or of
//! groups of them) and the scaling that follows.

use crate::chunk::{load, store, total};
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Task, dispatch};
use crate::threads::parallel_ranges;

const CHUNK: usize = 64;
/// Elements that are worth a thread's while.
const GRAIN: usize = 16384;
/// Elements whose partial sums are kept in `E::Acc` before they go to double precision.
const BLOCK: usize = 16 * CHUNK;

/// Addresses shared by threads that write different parts.
struct Shared<T>(T);
// SAFETY: see above.
unsafe impl<T> Sync for Shared<T> {}

/// Means and biased variances, in double precision.
pub type Moments = (f64, f64);

struct Sums<E: Elem> {
    n: usize,
    x: *const E,
    mean: E::Acc,
}
impl<E: Elem> Task for Sums<E> {
    /// The sums of the deviations from `mean` and of their squares.
    type Out = (f64, f64);
    #[inline(always)]
    fn run<I: Isa>(self) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for start in (0..self.n).step_by(BLOCK) {
            let end = (start + BLOCK).min(self.n);
            let mut s = [E::Acc::ZERO; CHUNK];
            let mut q = [E::Acc::ZERO; CHUNK];
            for i in (start..end).step_by(CHUNK) {
                // SAFETY: the run is readable. What pads it deviates by nothing.
                let v = unsafe { load::<I, E, CHUNK>(self.x.add(i), CHUNK.min(end - i), self.mean) };
                for j in 0..CHUNK {
                    let d = v[j] - self.mean;
                    s[j] += d;
                    q[j] = Float::mul_add::<I>(d, d, q[j]);
                }
            }
            sum += total(s.map(|v| v.to_f64()));
            squares += total(q.map(|v| v.to_f64()));
        }
        (sum, squares)
    }
}

/// Mean and biased variance of `pieces` runs of `n` elements, `step` apart.
///
/// # Safety
/// The runs must be readable.
unsafe fn moments<E: Elem>(pieces: usize, step: usize, n: usize, x: *const E) -> Moments {
    let pass = |mean: E::Acc| {
        (0..pieces).fold((0.0, 0.0), |a, p| {
            // SAFETY: the caller's contract.
            let b = dispatch(Sums { n, x: unsafe { x.add(p * step) }, mean });
            (a.0 + b.0, a.1 + b.1)
        })
    };
    let count = (pieces * n) as f64;
    let mean = pass(E::Acc::ZERO).0 / count;
    // Deviations are from the mean as `E::Acc` has it; what that lost comes off the variance.
    let (rest, squares) = pass(E::Acc::from_f64(mean));
    let shift = rest / count;
    (mean, (squares / count - shift * shift).max(0.0))
}

/// Mean and biased variance of each channel, into `out`.
///
/// # Safety
/// `x` must be readable for `outer * channels * inner` elements, `out` writable for `channels`.
pub unsafe fn channel_moments<E: Elem>(
    outer: usize,
    channels: usize,
    inner: usize,
    x: *const E,
    out: *mut Moments,
) {
    let shared = Shared((x, out));
    parallel_ranges(channels, GRAIN.div_ceil((outer * inner).max(1)), |c0, c1| {
        let Shared((x, out)) = &shared;
        for c in c0..c1 {
            // SAFETY: the caller's contract; each channel is written once.
            unsafe { *out.add(c) = moments(outer, channels * inner, inner, x.add(c * inner)) };
        }
    });
}

/// Mean and biased variance of each of `rows` runs of `n` elements, into `out`.
///
/// # Safety
/// `x` must be readable for `rows * n` elements, `out` writable for `rows`.
pub unsafe fn row_moments<E: Elem>(rows: usize, n: usize, x: *const E, out: *mut Moments) {
    let shared = Shared((x, out));
    parallel_ranges(rows, GRAIN.div_ceil(n.max(1)), |r0, r1| {
        let Shared((x, out)) = &shared;
        for r in r0..r1 {
            // SAFETY: the caller's contract; each row is written once.
            unsafe { *out.add(r) = moments(1, 0, n, x.add(r * n)) };
        }
    });
}

/// `y = scale * x + shift`, both numbers chosen by `which(run)` for each of `runs` runs of `n` elements.
///
/// # Safety
/// `x` must be readable and `y` writable for `runs * n` elements; `scale` and `shift` readable at every `which(run)`.
pub unsafe fn scale_runs<E: Elem>(
    runs: usize,
    n: usize,
    x: *const E,
    scale: *const E::Acc,
    shift: *const E::Acc,
    which: impl Fn(usize) -> usize + Sync,
    y: *mut E,
) {
    let shared = Shared((x, scale, shift, y));
    parallel_ranges(runs, GRAIN.div_ceil(n.max(1)), |r0, r1| {
        let Shared((x, scale, shift, y)) = &shared;
        for r in r0..r1 {
            let c = which(r);
            // SAFETY: the caller's contract.
            unsafe {
                let (scale, shift) = (*scale.add(c), *shift.add(c));
                dispatch(Scale { n, x: x.add(r * n), scale, shift, y: y.add(r * n) });
            }
        }
    });
}

struct Scale<E: Elem> {
    n: usize,
    x: *const E,
    scale: E::Acc,
    shift: E::Acc,
    y: *mut E,
}
impl<E: Elem> Task for Scale<E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in (0..self.n).step_by(CHUNK) {
            let count = CHUNK.min(self.n - i);
            // SAFETY: the run lies within the caller's buffers.
            unsafe {
                let mut v = load::<I, E, CHUNK>(self.x.add(i), count, E::Acc::ZERO);
                for j in 0..CHUNK {
                    v[j] = v[j] * self.scale + self.shift;
                }
                store::<I, E, CHUNK>(self.y.add(i), count, &v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_channels() {
        let x: Vec<f32> = (0..2 * 3 * 100).map(|i| 1000.0 + (i * 7 % 13) as f32).collect();
        let mut out = vec![(0.0, 0.0); 3];
        // SAFETY: sizes agree.
        unsafe { channel_moments(2, 3, 100, x.as_ptr(), out.as_mut_ptr()) };
        for (c, (mean, var)) in out.into_iter().enumerate() {
            let v: Vec<f64> =
                (0..2).flat_map(|o| &x[(o * 3 + c) * 100..][..100]).map(|v| f64::from(*v)).collect();
            let want = v.iter().sum::<f64>() / 200.0;
            let squares = v.iter().map(|v| (v - want).powi(2)).sum::<f64>() / 200.0;
            assert!(
                (mean - want).abs() < 1e-6 && (var - squares).abs() < 1e-4,
                "{mean} {want} {var} {squares}"
            );
        }
    }
}
