//! Vectors as arrays, which the compiler maps to whatever registers the target guarantees.

use super::{Isa, Vector, Vector32};
use crate::elem::Float;

/// An array that acts as a register.
#[derive(Clone, Copy)]
pub struct Lanes<T, const N: usize>([T; N]);

impl<T: Float, const N: usize> Vector for Lanes<T, N> {
    type T = T;
    const LANES: usize = N;
    #[inline(always)]
    fn splat(x: T) -> Self {
        Lanes([x; N])
    }
    #[inline(always)]
    unsafe fn load(p: *const T) -> Self {
        // SAFETY: the caller's contract.
        Lanes(unsafe { (p as *const [T; N]).read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut T) {
        // SAFETY: the caller's contract.
        unsafe { (p as *mut [T; N]).write_unaligned(self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        Lanes(std::array::from_fn(|i| self.0[i] + b.0[i]))
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        Lanes(std::array::from_fn(|i| self.0[i] - b.0[i]))
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        Lanes(std::array::from_fn(|i| self.0[i] * b.0[i]))
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Lanes(std::array::from_fn(|i| self.0[i] * b.0[i] + c.0[i]))
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        Lanes(std::array::from_fn(|i| if self.0[i] > b.0[i] { self.0[i] } else { b.0[i] }))
    }
}

impl<const N: usize> Vector32 for Lanes<f32, N> {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        let raw = unsafe { (p as *const [u16; N]).read_unaligned() };
        Lanes(raw.map(|x| f32::from_bits((x as u32) << 16)))
    }
}

/// The instruction set every target has. Four lanes are one SSE2 register.
#[derive(Clone, Copy)]
pub struct Portable;

impl Isa for Portable {
    type F32 = Lanes<f32, 4>;
    type F64 = Lanes<f64, 2>;
    const FMA: bool = false;
    const MR: usize = 4;
    const NV: usize = 2;
}

/// The shape of AVX-512 (16 lanes, 12 rows) in portable code: runs that shape's code paths on any CPU in tests.
#[derive(Clone, Copy)]
pub struct Wide;

impl Isa for Wide {
    type F32 = Lanes<f32, 16>;
    type F64 = Lanes<f64, 8>;
    const FMA: bool = false;
    const MR: usize = 12;
    const NV: usize = 2;
}
