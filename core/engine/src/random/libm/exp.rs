//! The exponential function.

use super::tables::EXP2;

const INV_LN2: f64 = f64::from_bits(0x40671547652b82fe);
const NEG_LN2_HI: f64 = f64::from_bits(0xbf762e42fefa0000);
const NEG_LN2_LO: f64 = f64::from_bits(0xbd0cf79abc9e3b3a);
const SHIFT: f64 = 6_755_399_441_055_744.0;
/// exp(r) - 1 - r for |r| < ln 2 / 256, from r^2 on.
const C: [f64; 4] = [
    f64::from_bits(0x3fdffffffffffdbd),
    f64::from_bits(0x3fc555555555543c),
    f64::from_bits(0x3fa55555cf172b91),
    f64::from_bits(0x3f81111167a4d017),
];

/// e to the power x.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let exponent = (x.to_bits() >> 52) & 0x7ff;
    if exponent < 0x3c9 || x.is_nan() {
        return 1.0 + x;
    }
    if exponent >= 0x409 {
        return if x > 0.0 { f64::INFINITY } else { 0.0 };
    }
    let shifted = x.mul_add(INV_LN2, SHIFT);
    let steps = shifted.to_bits();
    let count = shifted - SHIFT;
    let r = count.mul_add(NEG_LN2_LO, count.mul_add(NEG_LN2_HI, x));
    let [tail, bits] = EXP2[steps as usize & 127];
    let bits = bits.wrapping_add(steps << 45);
    let r2 = r * r;
    let low = C[1].mul_add(r, C[0]).mul_add(r2, f64::from_bits(tail) + r);
    let p = (r2 * r2).mul_add(r.mul_add(C[3], C[2]), low);
    if exponent >= 0x408 {
        return near_the_limits(p, bits, steps);
    }
    let scale = f64::from_bits(bits);
    scale.mul_add(p, scale)
}

/// |x| >= 512: the scale alone may overflow or be subnormal.
#[cold]
fn near_the_limits(p: f64, bits: u64, steps: u64) -> f64 {
    if steps & 0x8000_0000 == 0 {
        let scale = f64::from_bits(bits.wrapping_sub(1009 << 52));
        return f64::from_bits((1009 + 1023) << 52) * scale.mul_add(p, scale);
    }
    let scale = f64::from_bits(bits.wrapping_add(1022 << 52));
    let product = p * scale;
    let mut y = scale + product;
    if y < 1.0 {
        // Round once, at the place where the subnormal result rounds.
        let lo = (scale - y) + product;
        let hi = 1.0 + y;
        let lo = ((1.0 - hi) + y) + lo;
        y = (hi + lo) - 1.0;
        if y == 0.0 {
            y = 0.0;
        }
    }
    f64::MIN_POSITIVE * y
}
