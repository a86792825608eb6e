//! Sampling an image at given places.

use crate::Tensor;
use crate::cpu::parallel;
use num_traits::Float;

/// How values between pixels come about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interpolation {
    Linear,
    Nearest,
    Cubic,
}

/// What lies outside of the image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// The sampling of one dimension.
#[derive(Clone, Copy)]
struct Axis {
    size: i64,
    padding: Padding,
    align: bool,
    /// In two dimensions positions are scaled first and shifted then, as upstream's kernel rounds them.
    flat: bool,
}

fn number<F: Float>(x: f64) -> F {
    // Small constants and sizes convert to every float.
    F::from(x).unwrap_or_else(F::nan)
}

impl Axis {
    /// The pixel position of a coordinate in [-1, 1].
    fn position<F: Float>(&self, x: F) -> F {
        let (one, two, size) = (F::one(), number::<F>(2.0), number::<F>(self.size as f64));
        if self.flat {
            let half = number::<F>(0.5);
            return if self.align {
                (x + one) * ((size - one) / two)
            } else {
                (x + one) * (size / two) - half
            };
        }
        if self.align { (x + one) / two * (size - one) } else { ((x + one) * size - one) / two }
    }

    /// The position brought into the image, as the padding has it.
    fn settle<F: Float>(&self, x: F) -> F {
        let last = number::<F>((self.size - 1) as f64);
        let clip = |x: F| if x > F::zero() { if x < last { x } else { last } } else { F::zero() };
        match self.padding {
            Padding::Zeros => x,
            Padding::Border => clip(x),
            Padding::Reflection => {
                let (low, high) = if self.align { (0, 2 * (self.size - 1)) } else { (-1, 2 * self.size - 1) };
                if low == high {
                    return F::zero();
                }
                let (low, span) = (number::<F>(low as f64 / 2.0), number::<F>((high - low) as f64 / 2.0));
                let x = (x - low).abs();
                let (rest, flips) = (x % span, (x / span).floor());
                let odd = flips % number(2.0) != F::zero();
                clip(if odd { span - rest + low } else { rest + low })
            }
        }
    }

    /// The pixel, if it is one.
    fn pixel<F: Float>(&self, x: F) -> Option<i64> {
        let i = x.to_i64()?;
        (i >= 0 && i < self.size).then_some(i)
    }

    /// The pixels that a coordinate mixes, and their weights.
    fn taps<F: Float>(&self, x: F, how: Interpolation, out: &mut Vec<(Option<i64>, F)>) {
        out.clear();
        let x = self.position(x);
        match how {
            Interpolation::Nearest => {
                let x = self.settle(x);
                // Halves go to the even neighbour.
                let (down, frac) = (x.floor(), x - x.floor());
                let half = number::<F>(0.5);
                let even = down % number(2.0) == F::zero();
                let up = frac > half || (frac == half && !even);
                out.push((self.pixel(if up { down + F::one() } else { down }), F::one()));
            }
            Interpolation::Linear => {
                let x = self.settle(x);
                let down = x.floor();
                let t = x - down;
                out.push((self.pixel(down), F::one() - t));
                out.push((self.pixel(down + F::one()), t));
            }
            Interpolation::Cubic => {
                let down = x.floor();
                let w = cubic(x - down);
                for (k, w) in w.into_iter().enumerate() {
                    let at = down + number(k as f64 - 1.0);
                    out.push((self.pixel(self.settle(at)), w));
                }
            }
        }
    }
}

/// Weights of the four neighbours of a position `t` beyond the second.
fn cubic<F: Float>(t: F) -> [F; 4] {
    let n = number::<F>;
    let a = -0.75;
    let near = |x: F| ((n(a + 2.0) * x - n(a + 3.0)) * x * x) + F::one();
    let far = |x: F| ((n(a) * x - n(5.0 * a)) * x + n(8.0 * a)) * x - n(4.0 * a);
    [far(t + F::one()), near(t), near(F::one() - t), far(n(2.0) - t)]
}

/// `out[n, c, …] = x[n, c, at grid[n, …, :]]`. Dimensions are `rank` (two or three); the grid holds the last dimension's coordinate
/// first. All tensors have element type `F`; the result is fresh and row-major.
pub(crate) fn sample<F: Float + Send + Sync>(
    x: &Tensor,
    grid: &Tensor,
    rank: usize,
    how: Interpolation,
    padding: Padding,
    align: bool,
    out: &Tensor,
) {
    let (xs, gs, os) = (x.strides(), grid.strides(), out.sizes());
    let (batch, channels) = (os[0], os[1]);
    let places: i64 = os[2..].iter().product();
    let axes: Vec<Axis> =
        x.sizes()[2..].iter().map(|&size| Axis { size, padding, align, flat: rank == 2 }).collect();
    let (xp, gp, op) = (x.data_ptr() as usize, grid.data_ptr() as usize, out.data_ptr() as usize);
    let grain = (1usize << 12).div_ceil(channels.max(1) as usize);
    parallel::for_range(0, (batch * places) as usize, grain, |from, to| {
        let mut taps: Vec<Vec<(Option<i64>, F)>> = vec![Vec::new(); rank];
        let mut mixed: Vec<(i64, F)> = Vec::new();
        for p in from as i64..to as i64 {
            let (n, place) = (p / places, p % places);
            let mut at = n * gs[0];
            let mut rest = place;
            for d in (0..rank).rev() {
                at += rest % os[d + 2] * gs[d + 1];
                rest /= os[d + 2];
            }
            for d in 0..rank {
                let i = at + (rank - 1 - d) as i64 * gs[rank + 1];
                // SAFETY: a coordinate of the grid.
                let coordinate = unsafe { *(gp as *const F).wrapping_offset(i as isize) };
                axes[d].taps(coordinate, how, &mut taps[d]);
            }
            mixed.clear();
            mixed.push((n * xs[0], F::one()));
            for d in 0..rank {
                let before = std::mem::take(&mut mixed);
                for (offset, w) in before {
                    for (pixel, v) in &taps[d] {
                        if let Some(i) = pixel {
                            mixed.push((offset + i * xs[d + 2], w * *v));
                        }
                    }
                }
            }
            for c in 0..channels {
                let mut sum = F::zero();
                for (offset, w) in &mixed {
                    // SAFETY: pixels are inside the image.
                    sum = sum
                        + *w * unsafe { *(xp as *const F).wrapping_offset((offset + c * xs[1]) as isize) };
                }
                let o = (n * channels + c) * places + place;
                // SAFETY: this place's results.
                unsafe { *(op as *mut F).wrapping_offset(o as isize) = sum };
            }
        }
    });
}
