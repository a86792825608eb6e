//! Sine, cosine and tangent.

use super::minus_product;
use super::tables::SIN_COS;

/// Adding this to a number below 2^38 leaves the number rounded to a multiple of 1/128 in the low bits.
const ROUND_128: f64 = 52_776_558_133_248.0;
const SIN3: f64 = f64::from_bits(0xbfc5555555555515);
const SIN5: f64 = f64::from_bits(0x3f811110e829872f);
const COS4: f64 = f64::from_bits(0xbfa5555555555535);
const COS6: f64 = f64::from_bits(0x3f56c16bedd9e239);
/// The sine's Taylor-like polynomial for |x| < 0.126, from x^3 on.
const SIN_SMALL: [f64; 5] = [
    f64::from_bits(0xbfc5555555555555),
    f64::from_bits(0x3f81111111110ece),
    f64::from_bits(0xbf2a01a019db08b8),
    f64::from_bits(0x3ec71de27b9a7ed9),
    f64::from_bits(0xbe5addffc2fcdf59),
];
const HALF_PI_HI: f64 = std::f64::consts::FRAC_PI_2;
const HALF_PI_LO: f64 = f64::from_bits(0x3c91a62633145c07);
/// Pi/2 in four parts; the first two have trailing zeros.
const REDUCE: [f64; 4] = [
    f64::from_bits(0x3ff921fb58000000),
    f64::from_bits(0xbe4dde973c000000),
    f64::from_bits(0xbc8cb3b398000000),
    f64::from_bits(0xbacd747f23e32ed7),
];

/// Sine and cosine for |x| < 1e8, which covers every angle the samplers make.
#[inline(always)]
pub fn sin_cos(x: f64) -> (f64, f64) {
    debug_assert!(x.abs() < 1e8);
    let ax = x.abs();
    let top = (ax.to_bits() >> 32) as u32;
    if top < 0x3feb_6000 {
        // |x| < 0.855469; below 2^-27 the result is (x, 1).
        return if top < 0x3e40_0000 { (x, 1.0) } else { (sin_part(x, 0.0), cos_part(x, 0.0)) };
    }
    if top < 0x4003_68fd {
        // |x| < 2.426265: the complement.
        let y = HALF_PI_HI - ax;
        let a = y + HALF_PI_LO;
        let da = (y - a) + HALF_PI_LO;
        return (cos_part(a, da).copysign(x), sin_part(a, da));
    }
    let shifted = x.mul_add(std::f64::consts::FRAC_2_PI, 6_755_399_441_055_744.0);
    let quarter = shifted.to_bits() & 3;
    let n = shifted - 6_755_399_441_055_744.0;
    let y = minus_product(n, REDUCE[1], minus_product(n, REDUCE[0], x));
    let t = minus_product(n, REDUCE[2], y);
    let rest = minus_product(n, REDUCE[2], y - t);
    let a = minus_product(n, REDUCE[3], t);
    let da = rest + minus_product(n, REDUCE[3], t - a);
    let (a, da) = if quarter == 1 || quarter == 2 { (-a, -da) } else { (a, da) };
    let s = sin_part(a, da);
    let c = cos_part(a, da);
    let c = if quarter & 2 != 0 { -c } else { c };
    if quarter & 1 != 0 { (c, s) } else { (s, c) }
}

/// Splits |x| into a multiple of 1/128, looked up, and a rest below 1/256.
#[inline(always)]
fn split(x: f64) -> ([f64; 4], f64) {
    let ax = x.abs();
    let rounded = ax + ROUND_128;
    // The reduced argument never exceeds 0.8555, entry 110; the bound only tells the compiler.
    let row = SIN_COS[(rounded.to_bits() as usize & 127).min(110)].map(f64::from_bits);
    (row, ax - (rounded - ROUND_128))
}

/// sin(x + dx), dx below half an ulp of x.
#[inline(always)]
fn sin_part(x: f64, dx: f64) -> f64 {
    if x.abs() < 0.126 {
        let xx = x * x;
        let [s1, s2, s3, s4, s5] = SIN_SMALL;
        let p = s5.mul_add(xx, s4).mul_add(xx, s3).mul_add(xx, s2).mul_add(xx, s1);
        return x + xx.mul_add(p.mul_add(x, -(dx * 0.5)), dx);
    }
    let dx = if x <= 0.0 { -dx } else { dx };
    let ([sn, ssn, cs, ccs], r) = split(x);
    let xx = r * r;
    let s = (r * xx).mul_add(xx.mul_add(SIN5, SIN3), dx) + r;
    let c = r.mul_add(dx, xx * xx.mul_add(COS6, COS4).mul_add(xx, 0.5));
    let correction = s.mul_add(cs, minus_product(c, sn, s.mul_add(ccs, ssn)));
    (sn + correction).abs().copysign(x)
}

/// cos(x + dx).
#[inline(always)]
fn cos_part(x: f64, dx: f64) -> f64 {
    let dx = if x < 0.0 { -dx } else { dx };
    let ([sn, ssn, cs, ccs], r) = split(x);
    let r = r + dx;
    let xx = r * r;
    let s = (r * xx).mul_add(xx.mul_add(SIN5, SIN3), r);
    let c = xx * xx.mul_add(COS6, COS4).mul_add(xx, 0.5);
    cs + minus_product(s, sn, minus_product(c, cs, minus_product(s, ssn, ccs)))
}

/// Tangent for |x| <= pi/2, correctly rounded but for about one argument in 2^25.
///
/// glibc's is not correctly rounded: its last bit differs from this for one argument in four hundred. `cauchy_` on
/// float64 is the only stream that can tell.
#[inline(always)]
pub fn tan(x: f64) -> f64 {
    debug_assert!(x.abs() <= HALF_PI_HI);
    let ax = x.abs();
    if ax < 1e-8 {
        return x;
    }
    // Beyond pi/4, the cotangent of the complement, which has to be known to more than two doubles near pi/2.
    let invert = ax > std::f64::consts::FRAC_PI_4;
    let y = if invert {
        const HALF_PI_LOWEST: f64 = f64::from_bits(0xb91f1976b7ed8fbc);
        let d = two_sum(HALF_PI_HI - ax, HALF_PI_LO);
        two_sum(d.0, d.1 + HALF_PI_LOWEST)
    } else {
        (ax, 0.0)
    };
    let ([sn, ssn, cs, ccs], r) = split(y.0);
    let r = two_sum(r, y.1);
    let square = mul(r, r);
    let s = square.0;
    // sin r = r + r p and cos r = 1 + q.
    const SIXTH: (f64, f64) = (-1.0 / 6.0, -9.25185853854297e-18);
    let p = two_sum_pair(mul(square, SIXTH), s * s * (1.0 / 120.0 - s * (1.0 / 5040.0 - s / 362_880.0)));
    let q =
        two_sum_pair((-0.5 * s, -0.5 * square.1), s * s * (1.0 / 24.0 - s * (1.0 / 720.0 - s / 40_320.0)));
    let sin_r = add(r, mul(r, p));
    let (sin_t, cos_t) = ((sn, ssn), (cs, ccs));
    let sin = add(sin_t, add(mul(sin_t, q), mul(cos_t, sin_r)));
    let cos = add(cos_t, add(mul(cos_t, q), mul((-sn, -ssn), sin_r)));
    let (num, den) = if invert { (cos, sin) } else { (sin, cos) };
    let first = num.0 / den.0;
    let rest = minus_product(first, den.0, num.0) + minus_product(first, den.1, num.1);
    (first + rest / den.0).copysign(x)
}

type Pair = (f64, f64);

#[inline(always)]
fn two_sum(a: f64, b: f64) -> Pair {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

#[inline(always)]
fn two_sum_pair(a: Pair, b: f64) -> Pair {
    let s = two_sum(a.0, b);
    two_sum(s.0, s.1 + a.1)
}

#[inline(always)]
fn add(a: Pair, b: Pair) -> Pair {
    let s = two_sum(a.0, b.0);
    two_sum(s.0, s.1 + (a.1 + b.1))
}

#[inline(always)]
fn mul(a: Pair, b: Pair) -> Pair {
    let p = a.0 * b.0;
    let e = a.0.mul_add(b.0, -p) + (a.0 * b.1 + a.1 * b.0);
    two_sum(p, e)
}
