//! The Box–Muller transform in blocks of sixteen, which is how contiguous tensors of sixteen or more elements are
//! filled with normal samples.
//!
//! A block holds sixteen uniforms; element j and element j + 8 make one pair. A length that is not a multiple of
//! sixteen is finished by drawing sixteen fresh uniforms and overwriting the last sixteen elements, of which some
//! had already been written. float32 and float64 tensors are first filled with uniforms to the very end, so the
//! incomplete block's uniforms are drawn and lost; the half types draw block by block and lose none.
//!
//! In single precision upstream evaluates the logarithm, sine and cosine with Moshier's Cephes polynomials in AVX2
//! registers, in double precision with the C library; both contract to FMA where this code says so.

// Coefficients are kept as published.
#![allow(clippy::excessive_precision)]

use super::distributions::uniform01_f32;
use super::element::Float;
use super::fma::{Kernel, dispatch, fma32};
use super::generator::CpuGenerator;
use super::libm;

const BLOCK: usize = 16;
const PAIRS: usize = BLOCK / 2;

/// Shortest contiguous length that takes the block path.
pub const MIN_BLOCK_LEN: usize = BLOCK;

/// Fills `out`, at least [`MIN_BLOCK_LEN`] long, with normal samples.
pub fn fill<T: Float>(generator: &mut CpuGenerator, mean: f64, std: f64, out: &mut [T]) {
    debug_assert!(out.len() >= MIN_BLOCK_LEN);
    if T::DOUBLE {
        dispatch(Double { generator, mean, std, out });
    } else {
        dispatch(Single { generator, mean: mean as f32, std: std as f32, out });
    }
}

struct Single<'a, T> {
    generator: &'a mut CpuGenerator,
    mean: f32,
    std: f32,
    out: &'a mut [T],
}

impl<T: Float> Kernel for Single<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const HW: bool>(self) {
        let Self { generator, mean, std, out } = self;
        let tail = out.len() % BLOCK;
        // A few blocks at a time, so that the engine runs over whole stretches of its state.
        let mut words = [0u32; 32 * BLOCK];
        let len = out.len();
        for chunk in out[..len - tail].chunks_mut(words.len()) {
            let words = &mut words[..chunk.len()];
            generator.fill_random(words);
            for (words, out) in words.as_chunks().0.iter().zip(chunk.as_chunks_mut().0) {
                block32::<HW, T>(words, mean, std, out);
            }
        }
        if tail != 0 {
            if T::OWN_ARITHMETIC {
                generator.fill_random(&mut words[..tail]);
            }
            let words = words.first_chunk_mut::<BLOCK>().expect("longer than a block");
            generator.fill_random(words);
            let out = out.last_chunk_mut().expect("at least one block");
            block32::<HW, T>(words, mean, std, out);
        }
    }
}

#[inline(always)]
fn block32<const HW: bool, T: Float>(words: &[u32; BLOCK], mean: f32, std: f32, out: &mut [T; BLOCK]) {
    let mut first = [0f32; PAIRS];
    let mut second = [0f32; PAIRS];
    for j in 0..PAIRS {
        let (u, v) = (uniform01_f32(words[j]), uniform01_f32(words[j + PAIRS]));
        let radius = (-2.0 * log32::<HW>(1.0 - u)).sqrt();
        // Single-precision 2 pi; u and v lie in [0, 1).
        let (sin, cos) = sin_cos32::<HW>(std::f32::consts::TAU * v);
        first[j] = fma32::<HW>(radius * cos, std, mean);
        second[j] = fma32::<HW>(radius * sin, std, mean);
    }
    for j in 0..PAIRS {
        out[j] = T::from_f32(first[j]);
        out[j + PAIRS] = T::from_f32(second[j]);
    }
}

/// The logarithm of a normal number in (0, 1].
#[inline(always)]
fn log32<const HW: bool>(x: f32) -> f32 {
    const P: [f32; 9] = [
        7.0376836292E-2,
        -1.1514610310E-1,
        1.1676998740E-1,
        -1.2420140846E-1,
        1.4249322787E-1,
        -1.6668057665E-1,
        2.0000714765E-1,
        -2.4999993993E-1,
        3.3333331174E-1,
    ];
    // ln 2 in two parts.
    const LN2_LO: f32 = -2.12194440e-4;
    const LN2_HI: f32 = 0.693359375;
    let bits = x.to_bits();
    let exponent = ((bits >> 23) as i32 - 0x7f) as f32 + 1.0;
    let significand = f32::from_bits((bits & 0x807f_ffff) | 0x3f00_0000);
    let below = significand < std::f32::consts::FRAC_1_SQRT_2;
    let e = exponent - if below { 1.0 } else { 0.0 };
    let x = (significand - 1.0) + if below { significand } else { 0.0 };
    let z = x * x;
    let mut y = P[0];
    for p in &P[1..] {
        y = fma32::<HW>(y, x, *p);
    }
    let y = fma32::<HW>(x * y, z, e * LN2_LO);
    let x = x + fma32::<HW>(-z, 0.5, y);
    fma32::<HW>(e, LN2_HI, x)
}

/// Sine and cosine of an angle in [0, 8192).
#[inline(always)]
fn sin_cos32<const HW: bool>(angle: f32) -> (f32, f32) {
    const FOUR_OVER_PI: f32 = 1.273_239_5;
    // -pi/4 in three parts.
    const REDUCE: [f32; 3] = [-0.78515625, -2.418_756_5e-4, -3.774_895e-8];
    const SIN: [f32; 3] = [-1.9515295891E-4, 8.3321608736E-3, -1.6666654611E-1];
    const COS: [f32; 3] = [2.443315711809948E-5, -1.388731625493765E-3, 4.166664568298827E-2];
    let octant = ((angle * FOUR_OVER_PI) as i32 + 1) & !1;
    let y = octant as f32;
    let x = fma32::<HW>(y, REDUCE[0], angle);
    let x = fma32::<HW>(y, REDUCE[1], x);
    let x = fma32::<HW>(y, REDUCE[2], x);
    let z = x * x;
    let c = z * fma32::<HW>(fma32::<HW>(COS[0], z, COS[1]), z, COS[2]);
    let c = fma32::<HW>(z, c, -(z * 0.5)) + 1.0;
    let s = z * fma32::<HW>(fma32::<HW>(SIN[0], z, SIN[1]), z, SIN[2]);
    let s = fma32::<HW>(x, s, x);
    let (sin, cos) = if octant & 2 == 0 { (s, c) } else { (c, s) };
    let flip = |v: f32, sign: i32| f32::from_bits(v.to_bits() ^ ((sign as u32) << 29));
    // Adding zero turns -0 into +0, as merging the two polynomials by addition does upstream.
    (flip(sin + 0.0, octant & 4), flip(cos + 0.0, !(octant - 2) & 4))
}

struct Double<'a, T> {
    generator: &'a mut CpuGenerator,
    mean: f64,
    std: f64,
    out: &'a mut [T],
}

impl<T: Float> Kernel for Double<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const HW: bool>(self) {
        let Self { generator, mean, std, out } = self;
        let (blocks, tail) = out.as_chunks_mut::<BLOCK>();
        for block in blocks {
            block64(generator, mean, std, block);
        }
        if !tail.is_empty() {
            for _ in 0..tail.len() {
                generator.random64();
            }
            block64(generator, mean, std, out.last_chunk_mut().expect("at least one block"));
        }
    }
}

#[inline(always)]
fn block64<T: Float>(generator: &mut CpuGenerator, mean: f64, std: f64, out: &mut [T; BLOCK]) {
    let mut uniforms = [0f64; BLOCK];
    for u in &mut uniforms {
        *u = super::distributions::uniform01_f64(generator.random64());
    }
    for j in 0..PAIRS {
        let radius = (-2.0 * libm::log(1.0 - uniforms[j])).sqrt();
        let (sin, cos) = libm::sin_cos(std::f64::consts::TAU * uniforms[j + PAIRS]);
        out[j] = T::from_f64((radius * cos).mul_add(std, mean));
        out[j + PAIRS] = T::from_f64((radius * sin).mul_add(std, mean));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_and_hardware_fma_agree() {
        fn run<const HW: bool>(mean: f32, std: f32) -> Vec<u32> {
            let mut out = vec![0f32; 50_003];
            let generator = &mut CpuGenerator::new(11);
            Single { generator, mean, std, out: &mut out }.run::<HW>();
            out.into_iter().map(f32::to_bits).collect()
        }
        // `mul_add` is exact with or without the instruction, only slower without.
        for (mean, std) in [(0.0, 1.0), (-0.7, 3.3), (0.0, 1e-38), (1e38, 1e38)] {
            assert!(run::<true>(mean, std) == run::<false>(mean, std), "mean {mean}, std {std}");
        }
    }
}
