//! Running sums, products and extremes of one line.

use crate::Complex;
use crate::cpu::rows::Real;
use crate::dtype::Element;
use half::{bf16, f16};

/// A number whose running sums and products are kept in a wider type, rounded for each result.
pub(crate) trait Running: Element {
    type A: Copy + std::ops::Mul<Output = Self::A>;
    const ZERO: Self::A;
    const ONE: Self::A;
    /// Whether the accumulator is so much wider that the order of additions does not show in results.
    const LOOSE: bool;
    fn up(self) -> Self::A;
    fn down(a: Self::A) -> Self;
    fn plus(a: Self::A, b: Self::A) -> Self::A;
    fn times(a: Self::A, b: Self::A) -> Self::A;
}
macro_rules! running {
    ($($t:ty as $a:ty: $zero:expr, $one:expr, $up:expr, $down:expr, $add:expr, $mul:expr;)*) => {$(impl Running for $t {
        type A = $a;
        const ZERO: $a = $zero;
        const ONE: $a = $one;
        const LOOSE: bool = matches!(<$t as Element>::DTYPE, crate::DType::Float);
        #[inline(always)]
        fn up(self) -> $a { $up(self) }
        #[inline(always)]
        fn down(a: $a) -> Self { $down(a) }
        #[inline(always)]
        fn plus(a: $a, b: $a) -> $a { $add(a, b) }
        #[inline(always)]
        fn times(a: $a, b: $a) -> $a { $mul(a, b) }
    })*};
}
type C32 = Complex<f32>;
type C64 = Complex<f64>;
running! {
    f32 as f64: 0.0, 1.0, f64::from, |x| x as f32, |a, b| a + b, |a, b| a * b;
    f64 as f64: 0.0, 1.0, |x| x, |x| x, |a, b| a + b, |a, b| a * b;
    f16 as f32: 0.0, 1.0, f16::to_f32, f16::from_f32, |a, b| a + b, |a, b| a * b;
    bf16 as f32: 0.0, 1.0, bf16::to_f32, bf16::from_f32, |a, b| a + b, |a, b| a * b;
    C32 as C64: C64::new(0.0, 0.0), C64::new(1.0, 0.0), |x: C32| C64::new(x.re.into(), x.im.into()),
        |x: C64| C32::new(x.re as f32, x.im as f32), |a, b| a + b, |a, b| a * b;
    C64 as C64: C64::new(0.0, 0.0), C64::new(1.0, 0.0), |x| x, |x| x, |a, b| a + b, |a, b| a * b;
    u8 as i64: 0, 1, i64::from, |x| x as u8, i64::wrapping_add, i64::wrapping_mul;
    i8 as i64: 0, 1, i64::from, |x| x as i8, i64::wrapping_add, i64::wrapping_mul;
    i16 as i64: 0, 1, i64::from, |x| x as i16, i64::wrapping_add, i64::wrapping_mul;
    i32 as i64: 0, 1, i64::from, |x| x as i32, i64::wrapping_add, i64::wrapping_mul;
    i64 as i64: 0, 1, |x| x, |x| x, i64::wrapping_add, i64::wrapping_mul;
}

pub(crate) fn sums<T: Running>(x: &[T], y: &mut [T]) {
    let mut a = T::ZERO;
    // Four at a time: only one addition in four waits for the one before.
    let whole = if T::LOOSE { x.len() / 4 * 4 } else { 0 };
    for (v, o) in x[..whole].chunks_exact(4).zip(y[..whole].chunks_exact_mut(4)) {
        let two = T::plus(v[0].up(), v[1].up());
        let three = T::plus(two, v[2].up());
        let four = T::plus(two, T::plus(v[2].up(), v[3].up()));
        o[0] = T::down(T::plus(a, v[0].up()));
        o[1] = T::down(T::plus(a, two));
        o[2] = T::down(T::plus(a, three));
        a = T::plus(a, four);
        o[3] = T::down(a);
    }
    for (v, o) in x[whole..].iter().zip(&mut y[whole..]) {
        a = T::plus(a, v.up());
        *o = T::down(a);
    }
}

pub(crate) fn products<T: Running>(x: &[T], y: &mut [T]) {
    let mut a = T::ONE;
    for (v, o) in x.iter().zip(y) {
        a = T::times(a, v.up());
        *o = T::down(a);
    }
}

/// Running greatest (or least) elements and where they are, the last of equals; NaN stays.
pub(crate) fn extremes<T: Real>(x: &[T], least: bool, values: &mut [T], places: &mut [i64]) {
    let Some(first) = x.first() else { return };
    let (mut best, mut at) = (*first, 0);
    for (i, v) in x.iter().enumerate() {
        let beats = if least { *v <= best } else { *v >= best };
        if v.nan() || (!best.nan() && beats) {
            (best, at) = (*v, i as i64);
        }
        (values[i], places[i]) = (best, at);
    }
}

/// `log(exp(a) + exp(b))` of real numbers.
pub(crate) fn log_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if b.is_nan() {
        (b, b)
    } else if a < b {
        (a, b)
    } else {
        (b, a)
    };
    if low != high || low.is_finite() { (low - high).exp().ln_1p() + high } else { a }
}

/// `log(exp(a) + exp(b))` of complex numbers; the larger real part is taken out.
pub(crate) fn log_add_exp_complex(a: C64, b: C64) -> C64 {
    if a.re.is_nan() || a.im.is_nan() || b.re.is_nan() || b.im.is_nan() {
        return C64::new(f64::NAN, f64::NAN);
    }
    let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
    if low.re == f64::NEG_INFINITY {
        return high;
    }
    let w = (low - high).exp() + 1.0;
    w.ln() + high
}

/// Running logarithms of sums of exponentials; halves carry single precision from step to step.
pub(crate) fn log_sums<T: Real>(x: &[T], y: &mut [T], single: bool) {
    let mut a = f64::NEG_INFINITY;
    for (v, o) in x.iter().zip(y) {
        a = log_add_exp(v.wide(), a);
        if single {
            a = f64::from(a as f32);
        }
        *o = T::of(a);
    }
}
