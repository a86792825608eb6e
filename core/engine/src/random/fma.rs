//! Fused multiply-add with one set of bits on every target, and code compiled twice: for CPUs that have the
//! instruction and for those that do not.
//!
//! Upstream's x86-64 kernels are compiled with FMA contraction, so many of their sums round once. WebAssembly has no
//! such instruction and baseline x86-64 neither; there the single-precision operation is emulated exactly in double
//! precision (vectorisable, no calls) and the double-precision one goes to the C library's exact `fma`.

/// `a * b + c`, rounded once. `HW` says that the surrounding code is compiled for hardware FMA.
#[inline(always)]
pub fn fma32<const HW: bool>(a: f32, b: f32, c: f32) -> f32 {
    if HW { a.mul_add(b, c) } else { emulated_fma32(a, b, c) }
}

/// The product of two floats is exact in double. The sum is rounded to odd, which survives the second rounding to
/// float (Boldo and Melquiond, 2008), subnormal results included.
#[inline(always)]
fn emulated_fma32(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    // Infinities and NaNs have a NaN error: neither comparison holds and they pass through.
    let inexact = (error > 0.0) | (error < 0.0);
    let even = bits & 1 == 0;
    let grow = (error > 0.0) == (sum > 0.0);
    let odd = if grow { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact & even { odd } else { bits }) as f32
}

/// Work that [`dispatch`] compiles for both kinds of CPU.
pub trait Kernel {
    /// What it returns.
    type Output;
    /// Does the work; implementations are `#[inline(always)]` so that they inherit the caller's CPU features.
    fn run<const HW: bool>(self) -> Self::Output;
}

/// Runs `kernel` in the version this CPU can execute.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the features the function is compiled for were just detected.
        return unsafe { run_avx2(kernel) };
    }
    if cfg!(target_arch = "aarch64") { kernel.run::<true>() } else { kernel.run::<false>() }
}

/// # Safety
/// The CPU must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<true>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Mt19937;

    #[test]
    fn emulation_is_exact() {
        let special = [
            0.0f32,
            -0.0,
            1.0,
            -1.0,
            f32::MIN_POSITIVE,
            1e-45,
            -1e-45,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
            1.0 + f32::EPSILON,
        ];
        for a in special {
            for b in special {
                for c in special {
                    check(a, b, c);
                }
            }
        }
        let mut engine = Mt19937::new(1);
        for i in 0..200_000 {
            let (a, b) = (f32::from_bits(engine.next_u32()), f32::from_bits(engine.next_u32()));
            // Random exponents seldom interact: every other time choose an addend near the product.
            let near = -(a * b) * (1.0 + (engine.next_u32() % 64) as f32 * f32::EPSILON);
            let c = if i % 2 == 0 { near } else { f32::from_bits(engine.next_u32()) };
            check(a, b, c);
            let scale = |v: u32| (v & 0xffffff) as f32 / 16_777_216.0;
            let (a, b, c) = (scale(engine.next_u32()), scale(engine.next_u32()), scale(engine.next_u32()));
            check(a, b, c);
            check(a, b, c * 1e-8);
        }
    }

    fn check(a: f32, b: f32, c: f32) {
        let (want, got) = (a.mul_add(b, c), fma32::<false>(a, b, c));
        assert!(want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan()), "{a:e} {b:e} {c:e}");
    }
}
