//! NEON, which every aarch64 target has.

use super::{Isa, Vector, Vector32};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub struct Neon;
impl Isa for Neon {
    type F32 = F32x4;
    type F64 = F64x2;
    const FMA: bool = true;
    // 24 accumulators, 4 registers of B and one of A out of 32.
    const MR: usize = 6;
    const NV: usize = 4;
}

macro_rules! arithmetic {
    ($t:ty, $lanes:expr, $dup:ident, $ld:ident, $st:ident, $add:ident, $sub:ident, $mul:ident, $fma:ident, $max:ident, $addv:ident) => {
        type T = $t;
        const LANES: usize = $lanes;
        #[inline(always)]
        fn splat(x: $t) -> Self {
            // SAFETY: NEON is part of the target, here and below.
            Self(unsafe { $dup(x) })
        }
        #[inline(always)]
        unsafe fn load(p: *const $t) -> Self {
            Self(unsafe { $ld(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut $t) {
            unsafe { $st(p, self.0) }
        }
        #[inline(always)]
        fn add(self, b: Self) -> Self {
            Self(unsafe { $add(self.0, b.0) })
        }
        #[inline(always)]
        fn sub(self, b: Self) -> Self {
            Self(unsafe { $sub(self.0, b.0) })
        }
        #[inline(always)]
        fn mul(self, b: Self) -> Self {
            Self(unsafe { $mul(self.0, b.0) })
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            Self(unsafe { $fma(c.0, self.0, b.0) })
        }
        #[inline(always)]
        fn max(self, b: Self) -> Self {
            Self(unsafe { $max(self.0, b.0) })
        }
        #[inline(always)]
        fn reduce_add(self) -> $t {
            unsafe { $addv(self.0) }
        }
    };
}

#[derive(Clone, Copy)]
pub struct F32x4(float32x4_t);

impl Vector for F32x4 {
    arithmetic!(
        f32,
        4,
        vdupq_n_f32,
        vld1q_f32,
        vst1q_f32,
        vaddq_f32,
        vsubq_f32,
        vmulq_f32,
        vfmaq_f32,
        vmaxq_f32,
        vaddvq_f32
    );

    #[inline(always)]
    fn reduce_add4(v: [Self; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        // SAFETY: NEON is part of the target; the array has room for four values.
        unsafe {
            let sums = vpaddq_f32(vpaddq_f32(v[0].0, v[1].0), vpaddq_f32(v[2].0, v[3].0));
            vst1q_f32(out.as_mut_ptr(), sums);
        }
        out
    }

    #[inline(always)]
    fn transpose(load: impl Fn(usize) -> Self, mut store: impl FnMut(usize, Self)) {
        // SAFETY: NEON is part of the target.
        unsafe {
            let (r0, r1, r2, r3) = (load(0).0, load(1).0, load(2).0, load(3).0);
            let even01 = vreinterpretq_f64_f32(vtrn1q_f32(r0, r1));
            let odd01 = vreinterpretq_f64_f32(vtrn2q_f32(r0, r1));
            let even23 = vreinterpretq_f64_f32(vtrn1q_f32(r2, r3));
            let odd23 = vreinterpretq_f64_f32(vtrn2q_f32(r2, r3));
            store(0, F32x4(vreinterpretq_f32_f64(vtrn1q_f64(even01, even23))));
            store(1, F32x4(vreinterpretq_f32_f64(vtrn1q_f64(odd01, odd23))));
            store(2, F32x4(vreinterpretq_f32_f64(vtrn2q_f64(even01, even23))));
            store(3, F32x4(vreinterpretq_f32_f64(vtrn2q_f64(odd01, odd23))));
        }
    }
}

impl Vector32 for F32x4 {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        unsafe { F32x4(vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p)))) }
    }
}

#[derive(Clone, Copy)]
pub struct F64x2(float64x2_t);

impl Vector for F64x2 {
    arithmetic!(
        f64,
        2,
        vdupq_n_f64,
        vld1q_f64,
        vst1q_f64,
        vaddq_f64,
        vsubq_f64,
        vmulq_f64,
        vfmaq_f64,
        vmaxq_f64,
        vaddvq_f64
    );
}
