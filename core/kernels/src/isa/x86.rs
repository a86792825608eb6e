//! AVX2 and AVX-512.

use super::{Isa, Level, Task, Vector, Vector32};
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU8, Ordering};

static LEVEL: AtomicU8 = AtomicU8::new(0);

fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi2");
    let avx512 = avx2 && is_x86_feature_detected!("avx512f");
    let has = if avx512 {
        Level::Avx512
    } else if avx2 {
        Level::Avx2
    } else {
        Level::Baseline
    };
    // The variable upstream reads for the same purpose.
    let wanted = match std::env::var("ATEN_CPU_CAPABILITY").as_deref() {
        Ok("default") => Level::Baseline,
        Ok("avx2") => Level::Avx2,
        _ => Level::Avx512,
    };
    if (wanted as u8) < has as u8 { wanted } else { has }
}

#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Baseline,
        2 => Level::Avx2,
        3 => Level::Avx512,
        #[cfg(test)]
        4 => Level::Wide,
        _ => {
            let found = detect();
            LEVEL.store(found as u8, Ordering::Relaxed);
            found
        }
    }
}

#[cfg(test)]
pub fn set_level(level: Level) {
    let has = detect();
    #[cfg(test)]
    let has = if level == Level::Wide { level } else { has };
    let level = if (level as u8) < has as u8 { level } else { has };
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// # Safety
/// The CPU must have the features below.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn run_avx2<K: Task>(task: K) -> K::Out {
    task.run::<Avx2>()
}

/// # Safety
/// The CPU must have the features below.
#[target_feature(enable = "avx512f,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub unsafe fn run_avx512<K: Task>(task: K) -> K::Out {
    task.run::<Avx512>()
}

#[derive(Clone, Copy)]
pub struct Avx2;
impl Isa for Avx2 {
    type F32 = F32x8;
    type F64 = F64x4;
    const FMA: bool = true;
    // 12 accumulators, 2 registers of B and one of A fill the 16 registers.
    const MR: usize = 6;
    const NV: usize = 2;
    #[inline(always)]
    fn prefetch<T>(p: *const T) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
}

#[derive(Clone, Copy)]
pub struct Avx512;
impl Isa for Avx512 {
    type F32 = F32x16;
    type F64 = F64x8;
    const FMA: bool = true;
    const MR: usize = 12;
    const NV: usize = 2;
    #[inline(always)]
    fn prefetch<T>(p: *const T) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
}

macro_rules! arithmetic {
    ($t:ty, $lanes:expr, $set1:ident, $loadu:ident, $storeu:ident, $add:ident, $sub:ident, $mul:ident, $fma:ident, $max:ident) => {
        type T = $t;
        const LANES: usize = $lanes;
        #[inline(always)]
        fn splat(x: $t) -> Self {
            // SAFETY: only used inside tasks (see `Vector`); so are all the calls below.
            Self(unsafe { $set1(x) })
        }
        #[inline(always)]
        unsafe fn load(p: *const $t) -> Self {
            Self(unsafe { $loadu(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut $t) {
            unsafe { $storeu(p, self.0) }
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
            Self(unsafe { $fma(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn max(self, b: Self) -> Self {
            Self(unsafe { $max(self.0, b.0) })
        }
    };
}

#[derive(Clone, Copy)]
pub struct F32x8(__m256);

impl Vector for F32x8 {
    arithmetic!(
        f32,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_max_ps
    );

    #[inline(always)]
    fn reduce_add(self) -> f32 {
        // SAFETY: see `Vector`.
        unsafe {
            let x = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
        }
    }

    #[inline(always)]
    fn reduce_add4(v: [Self; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        // SAFETY: see `Vector`; the array has room for four values.
        unsafe {
            let ab = _mm256_hadd_ps(v[0].0, v[1].0);
            let cd = _mm256_hadd_ps(v[2].0, v[3].0);
            let abcd = _mm256_hadd_ps(ab, cd);
            let sum = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
            _mm_storeu_ps(out.as_mut_ptr(), sum);
        }
        out
    }

    #[inline(always)]
    fn transpose(load: impl Fn(usize) -> Self, mut store: impl FnMut(usize, Self)) {
        let mut rows = [Self::zero().0; 8];
        for i in 0..8 {
            rows[i] = load(i).0;
        }
        // SAFETY: see `Vector`.
        let columns = unsafe { transpose8(rows) };
        for j in 0..8 {
            store(j, F32x8(columns[j]));
        }
    }
}

/// Transposes 8 × 8 floats held in registers.
///
/// # Safety
/// Needs AVX.
#[inline(always)]
unsafe fn transpose8(r: [__m256; 8]) -> [__m256; 8] {
    // SAFETY: the caller's contract.
    unsafe {
        let t: [__m256; 8] = [
            _mm256_unpacklo_ps(r[0], r[1]),
            _mm256_unpackhi_ps(r[0], r[1]),
            _mm256_unpacklo_ps(r[2], r[3]),
            _mm256_unpackhi_ps(r[2], r[3]),
            _mm256_unpacklo_ps(r[4], r[5]),
            _mm256_unpackhi_ps(r[4], r[5]),
            _mm256_unpacklo_ps(r[6], r[7]),
            _mm256_unpackhi_ps(r[6], r[7]),
        ];
        // Columns j and j + 4 of rows 0..4, then of rows 4..8.
        let u: [__m256; 8] = [
            _mm256_shuffle_ps::<0x44>(t[0], t[2]),
            _mm256_shuffle_ps::<0xee>(t[0], t[2]),
            _mm256_shuffle_ps::<0x44>(t[1], t[3]),
            _mm256_shuffle_ps::<0xee>(t[1], t[3]),
            _mm256_shuffle_ps::<0x44>(t[4], t[6]),
            _mm256_shuffle_ps::<0xee>(t[4], t[6]),
            _mm256_shuffle_ps::<0x44>(t[5], t[7]),
            _mm256_shuffle_ps::<0xee>(t[5], t[7]),
        ];
        [
            _mm256_permute2f128_ps::<0x20>(u[0], u[4]),
            _mm256_permute2f128_ps::<0x20>(u[1], u[5]),
            _mm256_permute2f128_ps::<0x20>(u[2], u[6]),
            _mm256_permute2f128_ps::<0x20>(u[3], u[7]),
            _mm256_permute2f128_ps::<0x31>(u[0], u[4]),
            _mm256_permute2f128_ps::<0x31>(u[1], u[5]),
            _mm256_permute2f128_ps::<0x31>(u[2], u[6]),
            _mm256_permute2f128_ps::<0x31>(u[3], u[7]),
        ]
    }
}

/// Eight numbers below 2^16 in half the width.
///
/// # Safety
/// Needs AVX2.
#[inline(always)]
unsafe fn narrow8(x: __m256i) -> __m128i {
    // SAFETY: the caller's contract.
    unsafe { _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x)) }
}

impl Vector32 for F32x8 {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        unsafe {
            let raw = _mm_loadu_si128(p.cast());
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(raw))))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        unsafe { F32x8(_mm256_cvtph_ps(_mm_loadu_si128(p.cast()))) }
    }
    // Both stores round as `elem`'s scalar conversions do, NaN included.
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the caller's contract.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0));
            let quiet = _mm256_set1_epi32(0x7fc0);
            let halves = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(rounded), quiet, nan);
            _mm_storeu_si128(p.cast(), narrow8(halves));
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: the caller's contract.
        unsafe {
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0));
            let sign = _mm256_srli_epi32::<16>(_mm256_castps_si256(self.0));
            let quiet =
                _mm256_or_si256(_mm256_and_si256(sign, _mm256_set1_epi32(0x8000)), _mm256_set1_epi32(0x7e00));
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0);
            let nans = narrow8(_mm256_srli_epi32::<16>(nan));
            _mm_storeu_si128(p.cast(), _mm_blendv_epi8(halves, narrow8(quiet), nans));
        }
    }
}

#[derive(Clone, Copy)]
pub struct F64x4(__m256d);

impl Vector for F64x4 {
    arithmetic!(
        f64,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd,
        _mm256_fmadd_pd,
        _mm256_max_pd
    );

    #[inline(always)]
    fn transpose(load: impl Fn(usize) -> Self, mut store: impl FnMut(usize, Self)) {
        let r = [load(0).0, load(1).0, load(2).0, load(3).0];
        // SAFETY: see `Vector`.
        unsafe {
            let lo01 = _mm256_unpacklo_pd(r[0], r[1]);
            let hi01 = _mm256_unpackhi_pd(r[0], r[1]);
            let lo23 = _mm256_unpacklo_pd(r[2], r[3]);
            let hi23 = _mm256_unpackhi_pd(r[2], r[3]);
            store(0, F64x4(_mm256_permute2f128_pd::<0x20>(lo01, lo23)));
            store(1, F64x4(_mm256_permute2f128_pd::<0x20>(hi01, hi23)));
            store(2, F64x4(_mm256_permute2f128_pd::<0x31>(lo01, lo23)));
            store(3, F64x4(_mm256_permute2f128_pd::<0x31>(hi01, hi23)));
        }
    }
}

#[derive(Clone, Copy)]
pub struct F32x16(__m512);

impl F32x16 {
    /// For kernels that use instructions beyond the interface; inside tasks only (see `Vector`).
    #[inline(always)]
    pub(crate) fn from_raw(x: __m512) -> Self {
        F32x16(x)
    }
}

impl Vector for F32x16 {
    arithmetic!(
        f32,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        _mm512_max_ps
    );

    #[inline(always)]
    fn reduce_add(self) -> f32 {
        // SAFETY: see `Vector`.
        unsafe { _mm512_reduce_add_ps(self.0) }
    }

    #[inline(always)]
    fn reduce_add4(v: [Self; 4]) -> [f32; 4] {
        // No closures: see `transpose`.
        let mut halves = [F32x8::zero(); 4];
        for i in 0..4 {
            // SAFETY: see `Vector`.
            halves[i] = F32x8(unsafe { _mm256_add_ps(low(v[i].0), high(v[i].0)) });
        }
        F32x8::reduce_add4(halves)
    }

    #[inline(always)]
    fn transpose(load: impl Fn(usize) -> Self, mut store: impl FnMut(usize, Self)) {
        // SAFETY: see `Vector`.
        unsafe {
            let mut rows = [Self::zero().0; 16];
            for i in 0..16 {
                rows[i] = load(i).0;
            }
            // Four 8 × 8 quadrants; column j of the tile joins the upper and the lower quadrant's column. No closures
            // given to the library: what it makes of one is not always inlined, and then lacks the instruction set.
            for half in 0..2 {
                let (mut upper, mut lower) = ([low(rows[0]); 8], [low(rows[0]); 8]);
                for i in 0..8 {
                    if half == 0 {
                        (upper[i], lower[i]) = (low(rows[i]), low(rows[i + 8]));
                    } else {
                        (upper[i], lower[i]) = (high(rows[i]), high(rows[i + 8]));
                    }
                }
                (upper, lower) = (transpose8(upper), transpose8(lower));
                for j in 0..8 {
                    store(half * 8 + j, F32x16(join(upper[j], lower[j])));
                }
            }
        }
    }
}

/// # Safety
/// Needs AVX-512 F, as do `high` and `join`.
#[inline(always)]
unsafe fn low(x: __m512) -> __m256 {
    // SAFETY: the caller's contract.
    unsafe { _mm512_castps512_ps256(x) }
}
#[inline(always)]
unsafe fn high(x: __m512) -> __m256 {
    // SAFETY: the caller's contract.
    unsafe { _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(x))) }
}
#[inline(always)]
unsafe fn join(low: __m256, high: __m256) -> __m512 {
    // SAFETY: the caller's contract.
    unsafe {
        let low = _mm512_castps_pd(_mm512_castps256_ps512(low));
        _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(high)))
    }
}

impl Vector32 for F32x16 {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        unsafe {
            let raw = _mm256_loadu_si256(p.cast());
            F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(raw))))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: the caller's contract.
        unsafe { F32x16(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the caller's contract.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
            let quiet = _mm512_set1_epi32(0x7fc0);
            let halves = _mm512_mask_mov_epi32(_mm512_srli_epi32::<16>(rounded), nan, quiet);
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(halves));
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: the caller's contract.
        unsafe {
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
            let sign = _mm512_srli_epi32::<16>(_mm512_castps_si512(self.0));
            let quiet =
                _mm512_or_si512(_mm512_and_si512(sign, _mm512_set1_epi32(0x8000)), _mm512_set1_epi32(0x7e00));
            let halves = _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0));
            let halves = _mm512_mask_mov_epi32(halves, nan, quiet);
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(halves));
        }
    }
}

#[derive(Clone, Copy)]
pub struct F64x8(__m512d);

impl Vector for F64x8 {
    arithmetic!(
        f64,
        8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd,
        _mm512_fmadd_pd,
        _mm512_max_pd
    );
}
