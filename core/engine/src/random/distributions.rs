//! Samplers: one struct a distribution, each turning generator output into elements the way upstream's kernels do.
//!
//! [`Sample::sample`] draws one element and is what a strided walk calls; [`Sample::fill`] fills contiguous memory
//! with the same stream, in bulk where that is faster. The one exception is the normal distribution, whose
//! contiguous stream is a different one (see [`super::normal`]): use [`Normal::fill_contiguous`].

use super::element::{Float, RandomElement};
use super::fma::{Kernel, dispatch, fma32};
use super::generator::CpuGenerator;
use super::{libm, normal};

/// A uniform float in [0, 1) from 24 of 32 random bits.
#[inline(always)]
pub fn uniform01_f32(random: u32) -> f32 {
    (random & 0x00ff_ffff) as i32 as f32 * (1.0 / 16_777_216.0)
}

/// A uniform double in [0, 1) from 53 of 64 random bits.
#[inline(always)]
pub fn uniform01_f64(random: u64) -> f64 {
    (random & ((1 << 53) - 1)) as i64 as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// A distribution over elements of type `T`.
pub trait Sample<T> {
    /// Draws one element.
    fn sample(&self, generator: &mut CpuGenerator) -> T;

    /// Draws `out.len()` elements in order.
    fn fill(&self, generator: &mut CpuGenerator, out: &mut [T])
    where
        Self: Sized,
    {
        dispatch(Each { sampler: self, generator, out });
    }
}

/// One sample after another, with hardware FMA where there is one.
struct Each<'a, S, T> {
    sampler: &'a S,
    generator: &'a mut CpuGenerator,
    out: &'a mut [T],
}

impl<T, S: Sample<T>> Kernel for Each<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<const HW: bool>(self) {
        for slot in self.out {
            *slot = self.sampler.sample(self.generator);
        }
    }
}

/// `uniform_`: reals in [from, to).
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    from: f64,
    to: f64,
}

impl Uniform {
    /// The bounds have been checked against the element type.
    pub fn new(from: f64, to: f64) -> Self {
        Self { from, to }
    }

    /// Rounding may reach the upper bound, which is excluded.
    #[inline(always)]
    fn exclude_upper<T: Float>(&self, value: T) -> T {
        if value == T::from_f64(self.to) { T::from_f64(self.from) } else { value }
    }

    #[inline(always)]
    fn single<const HW: bool, T: Float>(&self, random: u32) -> T {
        let (from, to) = (self.from as f32, self.to as f32);
        self.exclude_upper(T::from_f32(fma32::<HW>(uniform01_f32(random), to - from, from)))
    }

    #[inline(always)]
    fn double<T: Float>(&self, random: u64) -> T {
        self.exclude_upper(T::from_f64(uniform01_f64(random).mul_add(self.to - self.from, self.from)))
    }
}

impl<T: Float> Sample<T> for Uniform {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        if T::DOUBLE {
            self.double(generator.random64())
        } else {
            self.single::<false, T>(generator.random())
        }
    }

    fn fill(&self, generator: &mut CpuGenerator, out: &mut [T]) {
        dispatch(FillUniform { uniform: *self, generator, out });
    }
}

struct FillUniform<'a, T> {
    uniform: Uniform,
    generator: &'a mut CpuGenerator,
    out: &'a mut [T],
}

impl<T: Float> Kernel for FillUniform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const HW: bool>(self) {
        let Self { uniform, generator, out } = self;
        let mut words = [0u32; 512];
        if T::DOUBLE {
            for chunk in out.chunks_mut(words.len() / 2) {
                let words = &mut words[..2 * chunk.len()];
                generator.fill_random(words);
                for (slot, [high, low]) in chunk.iter_mut().zip(words.as_chunks().0) {
                    *slot = uniform.double((u64::from(*high) << 32) | u64::from(*low));
                }
            }
            return;
        }
        for chunk in out.chunks_mut(words.len()) {
            let words = &mut words[..chunk.len()];
            generator.fill_random(words);
            for (slot, word) in chunk.iter_mut().zip(words) {
                *slot = uniform.single::<HW, T>(*word);
            }
        }
    }
}

/// `normal_`.
#[derive(Clone, Copy, Debug)]
pub struct Normal {
    mean: f64,
    std: f64,
}

impl Normal {
    /// `std` is not negative.
    pub fn new(mean: f64, std: f64) -> Self {
        Self { mean, std }
    }

    /// The stream of contiguous tensors: blocks from sixteen elements on, pairs below.
    pub fn fill_contiguous<T: Float>(&self, generator: &mut CpuGenerator, out: &mut [T]) {
        if out.len() >= normal::MIN_BLOCK_LEN {
            normal::fill(generator, self.mean, self.std, out);
        } else {
            self.fill(generator, out);
        }
    }

    /// One double-precision sample; the second of each pair waits in the generator.
    #[inline(always)]
    fn draw(&self, generator: &mut CpuGenerator) -> f64 {
        let standard = generator.take_next_double_normal().unwrap_or_else(|| {
            let u1 = uniform01_f64(generator.random64());
            let u2 = uniform01_f64(generator.random64());
            let radius = (-2.0 * libm::log1p(-u2)).sqrt();
            let (sin, cos) = libm::sin_cos(std::f64::consts::TAU * u1);
            generator.set_next_double_normal(radius * sin);
            radius * cos
        });
        standard.mul_add(self.std, self.mean)
    }
}

impl<T: RandomElement> Sample<T> for Normal {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        T::from_f64(self.draw(generator))
    }
}

/// `log_normal_`.
#[derive(Clone, Copy, Debug)]
pub struct LogNormal(Normal);

impl LogNormal {
    /// Mean and deviation of the logarithm.
    pub fn new(mean: f64, std: f64) -> Self {
        Self(Normal::new(mean, std))
    }
}

impl<T: RandomElement> Sample<T> for LogNormal {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        T::from_f64(libm::exp(self.0.draw(generator)))
    }
}

/// `cauchy_`.
#[derive(Clone, Copy, Debug)]
pub struct Cauchy {
    median: f64,
    sigma: f64,
}

impl Cauchy {
    /// Location and scale.
    pub fn new(median: f64, sigma: f64) -> Self {
        Self { median, sigma }
    }
}

impl<T: RandomElement> Sample<T> for Cauchy {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        let u = uniform01_f64(generator.random64());
        let tan = libm::tan(std::f64::consts::PI * (u - 0.5));
        T::from_f64(tan.mul_add(self.sigma, self.median))
    }
}

/// `exponential_`.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    scale: f64,
}

impl Exponential {
    /// The rate.
    pub fn new(lambda: f64) -> Self {
        Self { scale: -1.0 / lambda }
    }
}

impl<T: RandomElement> Sample<T> for Exponential {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        T::from_f64(self.scale * libm::log1p(-uniform01_f64(generator.random64())))
    }
}

/// `geometric_`.
#[derive(Clone, Copy, Debug)]
pub struct Geometric {
    log_failure: f64,
}

impl Geometric {
    /// The probability of success, in (0, 1).
    pub fn new(p: f64) -> Self {
        Self { log_failure: libm::log1p(-p) }
    }
}

impl<T: RandomElement> Sample<T> for Geometric {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        T::from_f64((libm::log(uniform01_f64(generator.random64())) / self.log_failure).ceil())
    }
}

/// `bernoulli_` and the masks of dropout.
///
/// A probability that is a Python number, or an element of a float64 tensor, is compared with 53 random bits; an
/// element of any other tensor with 24.
#[derive(Clone, Copy, Debug)]
pub enum Bernoulli {
    /// Compared in double precision.
    Double(f64),
    /// Compared in single precision.
    Single(f32),
}

impl Bernoulli {
    /// One trial.
    #[inline(always)]
    pub fn trial(&self, generator: &mut CpuGenerator) -> bool {
        match *self {
            Self::Double(p) => uniform01_f64(generator.random64()) < p,
            Self::Single(p) => uniform01_f32(generator.random()) < p,
        }
    }
}

impl<T: RandomElement> Sample<T> for Bernoulli {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        T::from_i64(i64::from(self.trial(generator)))
    }

    fn fill(&self, generator: &mut CpuGenerator, out: &mut [T]) {
        let Self::Double(p) = *self else {
            return dispatch(Each { sampler: self, generator, out });
        };
        let mut words = [0u32; 512];
        for chunk in out.chunks_mut(words.len() / 2) {
            let words = &mut words[..2 * chunk.len()];
            generator.fill_random(words);
            for (slot, [high, low]) in chunk.iter_mut().zip(words.as_chunks().0) {
                let u = uniform01_f64((u64::from(*high) << 32) | u64::from(*low));
                *slot = T::from_i64(i64::from(u < p));
            }
        }
    }
}

/// `random_(from, to)` and `randint`: integers in [base, base + range).
#[derive(Clone, Copy, Debug)]
pub struct RandomFromTo {
    range: u64,
    base: i64,
}

impl RandomFromTo {
    /// `range` is not zero.
    pub fn new(range: u64, base: i64) -> Self {
        Self { range: range.max(1), base }
    }
}

impl<T: RandomElement> Sample<T> for RandomFromTo {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        // From here on the remainder of 32 bits would be skewed by more than a few percent.
        let draw = if self.range >= 1 << 28 {
            generator.random64() % self.range
        } else {
            u64::from(generator.random() % self.range as u32)
        };
        T::from_i64((draw as i64).wrapping_add(self.base))
    }
}

/// `random_(-2**63, None)`: any 64-bit integer.
#[derive(Clone, Copy, Debug)]
pub struct RandomFull64;

impl<T: RandomElement> Sample<T> for RandomFull64 {
    #[inline(always)]
    fn sample(&self, generator: &mut CpuGenerator) -> T {
        T::from_i64(generator.random64() as i64)
    }
}

/// `random_()`: integers from zero to the largest the type represents exactly together with all smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct Random;

macro_rules! random_over {
    ($($t:ty: $draw:ident, $count:expr;)*) => {$(
        impl Sample<$t> for Random {
            #[inline(always)]
            fn sample(&self, generator: &mut CpuGenerator) -> $t {
                <$t as RandomElement>::from_i64((u64::from(generator.$draw()) % $count) as i64)
            }
        }
    )*};
}

random_over! {
    bool: random, 2;
    u8: random, 1 << 8;
    i8: random, 1 << 7;
    i16: random, 1 << 15;
    i32: random, 1 << 31;
    i64: random64, 1 << 63;
    f32: random, (1 << 24) + 1;
    f64: random64, (1 << 53) + 1;
    half::f16: random, (1 << 11) + 1;
    half::bf16: random, (1 << 8) + 1;
}

/// Moves the bounds of `random_(from, to)` on floating-point elements inwards to where rounding an integer of the
/// range to the element type cannot leave the range.
pub fn representable_bounds<T: Float>(from: i64, to: i64) -> (i64, i64) {
    let next = from.wrapping_add(1);
    let rounded = T::round_trip(next);
    let from = if rounded < from { rounded.wrapping_add(spacing::<T>(next)) } else { from };
    let last = to.wrapping_sub(1);
    let rounded = T::round_trip(last);
    let to = if rounded >= to { rounded.wrapping_sub(spacing::<T>(last)) } else { to };
    (from, to)
}

/// The distance between neighbours of `value` among numbers of `T`'s precision.
fn spacing<T: Float>(value: i64) -> i64 {
    let exponent = value.unsigned_abs().max(1).ilog2();
    1i64.checked_shl((exponent + 1).wrapping_sub(T::DIGITS)).unwrap_or(0)
}
