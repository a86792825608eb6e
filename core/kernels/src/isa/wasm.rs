//! WebAssembly SIMD (`simd128`), chosen when the module is compiled.

use super::{Isa, Vector, Vector32};
use std::arch::wasm32::*;

#[derive(Clone, Copy)]
pub struct Simd128;
impl Isa for Simd128 {
    type F32 = F32x4;
    type F64 = F64x2;
    const FMA: bool = false;
    // The engine maps these to the 16 registers of SSE: 8 accumulators leave room for the products.
    const MR: usize = 4;
    const NV: usize = 2;
}

macro_rules! arithmetic {
    ($t:ty, $lanes:expr, $splat:ident, $add:ident, $sub:ident, $mul:ident, $pmax:ident) => {
        type T = $t;
        const LANES: usize = $lanes;
        #[inline(always)]
        fn splat(x: $t) -> Self {
            Self($splat(x))
        }
        #[inline(always)]
        unsafe fn load(p: *const $t) -> Self {
            // SAFETY: the caller's contract.
            Self(unsafe { v128_load(p.cast()) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut $t) {
            // SAFETY: the caller's contract.
            unsafe { v128_store(p.cast(), self.0) }
        }
        #[inline(always)]
        fn add(self, b: Self) -> Self {
            Self($add(self.0, b.0))
        }
        #[inline(always)]
        fn sub(self, b: Self) -> Self {
            Self($sub(self.0, b.0))
        }
        #[inline(always)]
        fn mul(self, b: Self) -> Self {
            Self($mul(self.0, b.0))
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            Self($add($mul(self.0, b.0), c.0))
        }
        #[inline(always)]
        fn max(self, b: Self) -> Self {
            Self($pmax(self.0, b.0))
        }
    };
}

#[derive(Clone, Copy)]
pub struct F32x4(v128);

impl Vector for F32x4 {
    arithmetic!(f32, 4, f32x4_splat, f32x4_add, f32x4_sub, f32x4_mul, f32x4_pmax);

    #[inline(always)]
    fn reduce_add4(v: [Self; 4]) -> [f32; 4] {
        let mut sum = f32x4_splat(0.0);
        Self::transpose(|i| v[i], |_, column| sum = f32x4_add(sum, column.0));
        let mut out = [0.0; 4];
        // SAFETY: the array has room for four values.
        unsafe { v128_store(out.as_mut_ptr().cast(), sum) };
        out
    }

    #[inline(always)]
    fn transpose(load: impl Fn(usize) -> Self, mut store: impl FnMut(usize, Self)) {
        let (r0, r1, r2, r3) = (load(0).0, load(1).0, load(2).0, load(3).0);
        let lo01 = i32x4_shuffle::<0, 4, 1, 5>(r0, r1);
        let hi01 = i32x4_shuffle::<2, 6, 3, 7>(r0, r1);
        let lo23 = i32x4_shuffle::<0, 4, 1, 5>(r2, r3);
        let hi23 = i32x4_shuffle::<2, 6, 3, 7>(r2, r3);
        store(0, F32x4(i64x2_shuffle::<0, 2>(lo01, lo23)));
        store(1, F32x4(i64x2_shuffle::<1, 3>(lo01, lo23)));
        store(2, F32x4(i64x2_shuffle::<0, 2>(hi01, hi23)));
        store(3, F32x4(i64x2_shuffle::<1, 3>(hi01, hi23)));
    }
}

impl Vector32 for F32x4 {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        F32x4(i32x4_shl(unsafe { i32x4_load_extend_u16x4(p) }, 16))
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        let h = unsafe { i32x4_load_extend_u16x4(p) };
        // The scalar conversion of `elem::f16_bits_to_f32`, four at a time.
        let magnitude = i32x4_shl(v128_and(h, i32x4_splat(0x7fff)), 13);
        let sign = i32x4_shl(v128_and(h, i32x4_splat(0x8000)), 16);
        let scaled = f32x4_mul(magnitude, i32x4_splat(0x7780_0000));
        let special = v128_and(i32x4_ge(magnitude, i32x4_splat(0x0f80_0000)), i32x4_splat(0x7f80_0000));
        F32x4(v128_or(v128_or(scaled, sign), special))
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // The scalar conversion of `elem::f32_to_bf16_bits`, four at a time.
        let odd = v128_and(u32x4_shr(self.0, 16), i32x4_splat(1));
        let rounded = u32x4_shr(i32x4_add(self.0, i32x4_add(odd, i32x4_splat(0x7fff))), 16);
        let halves = v128_bitselect(i32x4_splat(0x7fc0), rounded, f32x4_ne(self.0, self.0));
        // SAFETY: the caller's contract.
        unsafe { v128_store64_lane::<0>(u16x8_narrow_i32x4(halves, halves), p.cast()) };
    }
}

#[derive(Clone, Copy)]
pub struct F64x2(v128);

impl Vector for F64x2 {
    arithmetic!(f64, 2, f64x2_splat, f64x2_add, f64x2_sub, f64x2_mul, f64x2_pmax);
}
