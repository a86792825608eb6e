//! Natural logarithms.

use super::tables::LOG;
use super::{high_word, minus_product};

const LN2_HI: f64 = f64::from_bits(0x3fe62e42fefa3800);
const LN2_LO: f64 = f64::from_bits(0x3d2ef35793c76730);
/// log(1 + r) - r for |r| < 2^-8, from r^2 on.
const FAR: [f64; 5] = [
    f64::from_bits(0xbfe0000000000001),
    f64::from_bits(0x3fd555555551305b),
    f64::from_bits(0xbfcfffffffeb4590),
    f64::from_bits(0x3fc999b324f10111),
    f64::from_bits(0xbfc55575e506c89f),
];
/// log(1 + r) - r for |r| < 1/16, from r^2 on.
const NEAR: [f64; 11] = [
    -0.5,
    f64::from_bits(0x3fd5555555555577),
    f64::from_bits(0xbfcffffffffffdcb),
    f64::from_bits(0x3fc999999995dd0c),
    f64::from_bits(0xbfc55555556745a7),
    f64::from_bits(0x3fc24924a344de30),
    f64::from_bits(0xbfbfffffa4423d65),
    f64::from_bits(0x3fbc7184282ad6ca),
    f64::from_bits(0xbfb999eb43b068ff),
    f64::from_bits(0x3fb78182f7afd085),
    f64::from_bits(0xbfb5521375d145cd),
];
/// Where the table starts: significands in [0.6875, 1.375).
const OFFSET: u64 = 0x3fe6_0000_0000_0000;

/// The natural logarithm.
#[inline(always)]
pub fn log(x: f64) -> f64 {
    let mut bits = x.to_bits();
    const LO: u64 = (1.0f64 - 1.0 / 16.0).to_bits();
    const HI: u64 = 0x3ff1_0900_0000_0000;
    if (LO..HI).contains(&bits) {
        return log_near_one(x);
    }
    if !x.is_normal() || x < 0.0 {
        if x == 0.0 {
            return f64::NEG_INFINITY;
        }
        if !x.is_finite() || x < 0.0 {
            return if x == f64::INFINITY { x } else { f64::NAN };
        }
        bits = (x * 4_503_599_627_370_496.0).to_bits() - (52 << 52);
    }
    let shifted = bits.wrapping_sub(OFFSET);
    let [inverse, log_c] = LOG[(shifted >> 45) as usize & 127].map(f64::from_bits);
    let exponent = ((shifted as i64) >> 52) as f64;
    let z = f64::from_bits(bits.wrapping_sub(shifted & (0xfff << 52)));
    let r = z.mul_add(inverse, -1.0);
    let base = exponent.mul_add(LN2_HI, log_c);
    let hi = base + r;
    let lo = exponent.mul_add(LN2_LO, (base - hi) + r);
    let r2 = r * r;
    let lo = r2.mul_add(FAR[0], lo);
    let p = r.mul_add(FAR[4], FAR[3]).mul_add(r2, FAR[2].mul_add(r, FAR[1]));
    (r * r2).mul_add(p, lo) + hi
}

#[inline(always)]
fn log_near_one(x: f64) -> f64 {
    if x == 1.0 {
        return 0.0;
    }
    let b = &NEAR;
    let r = x - 1.0;
    let r2 = r * r;
    let r3 = r * r2;
    let p0 = r2.mul_add(b[3], b[2].mul_add(r, b[1]));
    let p1 = r2.mul_add(b[6], b[5].mul_add(r, b[4]));
    let p2 = r2.mul_add(b[9], b[8].mul_add(r, b[7]));
    let p = r3.mul_add(b[10], p2).mul_add(r3, p1).mul_add(r3, p0);
    // r^2/2 in two parts, from the upper half of r squared exactly.
    const SPLIT: f64 = 134_217_728.0;
    let upper = minus_product(SPLIT, r, r.mul_add(SPLIT, r));
    let lower = r - upper;
    let square = upper * upper;
    let hi = square.mul_add(b[0], r);
    let lo = square.mul_add(b[0], r - hi);
    let lo = (b[0] * lower).mul_add(r + upper, lo);
    hi + p.mul_add(r3, lo)
}

const L_HI: f64 = f64::from_bits(0x3fe62e42fee00000);
const L_LO: f64 = f64::from_bits(0x3dea39ef35793c76);
/// (log(1 + f) - 2s) / s in powers of s^2, where s = f / (2 + f).
const LP: [f64; 7] = [
    0.6666666666666735,
    0.3999999999940942,
    0.2857142874366239,
    0.22222198432149784,
    0.1818357216161805,
    0.15313837699209373,
    0.14798198605116586,
];

/// log(1 + x).
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    let hx = high_word(x) as i32;
    let ax = hx & 0x7fff_ffff;
    // The argument is reduced to 2^k (1 + f); c corrects for the rounding of 1 + x.
    let (mut k, mut f, mut c, mut hu) = (0i32, x, 0.0f64, 1i32);
    let mut reduce = true;
    if hx < 0x3fda_827a {
        if ax >= 0x3ff0_0000 {
            return if x == -1.0 { f64::NEG_INFINITY } else { f64::NAN };
        }
        if ax < 0x3e20_0000 {
            return if ax < 0x3c90_0000 { x } else { minus_product(x * x, 0.5, x) };
        }
        reduce = !(hx > 0 || hx <= 0xbfd2_bec3_u32 as i32);
    } else if hx >= 0x7ff0_0000 {
        return x + x;
    }
    if reduce {
        let mut u = x;
        if hx < 0x4340_0000 {
            u = 1.0 + x;
            k = (high_word(u) as i32 >> 20) - 1023;
            c = if k > 0 { 1.0 - (u - x) } else { x - (u - 1.0) } / u;
        } else {
            k = (high_word(u) as i32 >> 20) - 1023;
        }
        hu = high_word(u) as i32 & 0x000f_ffff;
        let low = u.to_bits() & 0xffff_ffff;
        if hu < 0x6a09e {
            u = f64::from_bits(((hu as u64 | 0x3ff0_0000) << 32) | low);
        } else {
            k += 1;
            u = f64::from_bits(((hu as u64 | 0x3fe0_0000) << 32) | low);
            hu = (0x0010_0000 - hu) >> 2;
        }
        f = u - 1.0;
    }
    let half_square = (0.5 * f) * f;
    let scale = f64::from(k);
    if hu == 0 {
        if f == 0.0 {
            return if k == 0 { 0.0 } else { scale.mul_add(L_HI, scale.mul_add(L_LO, c)) };
        }
        let r = minus_product(f, 0.6666666666666666, 1.0) * half_square;
        return if k == 0 { f - r } else { scale.mul_add(L_HI, -((r - scale.mul_add(L_LO, c)) - f)) };
    }
    let s = f / (2.0 + f);
    let z = s * s;
    let z2 = z * z;
    let z4 = z2 * z2;
    let z6 = z2 * z4;
    let r = z.mul_add(LP[0], z2 * LP[2].mul_add(z, LP[1]));
    let r = z4.mul_add(LP[4].mul_add(z, LP[3]), r);
    let r = z6.mul_add(LP[6].mul_add(z, LP[5]), r);
    let t = s * (r + half_square);
    if k == 0 {
        f - (half_square - t)
    } else {
        scale.mul_add(L_HI, -((half_square - (scale.mul_add(L_LO, c) + t)) - f))
    }
}
