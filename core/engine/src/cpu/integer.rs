//! Integer arithmetic with upstream's rules, over every width through `i64`.

use crate::DType;

/// Bits of an integer dtype.
pub fn bits(d: DType) -> u32 {
    d.itemsize() as u32 * 8
}

/// The quotient rounded down; the divisor is not zero.
pub fn div_floor(a: i64, b: i64) -> i64 {
    let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
    if r != 0 && (r < 0) != (b < 0) { q - 1 } else { q }
}

/// The remainder with the divisor's sign; the divisor is not zero.
pub fn remainder(a: i64, b: i64) -> i64 {
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

/// `base^exponent` with wrap-around; a negative exponent gives the integer part of the fraction.
pub fn pow(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut b, mut e) = (1i64, base, exponent);
    while e > 0 {
        if e & 1 == 1 {
            result = result.wrapping_mul(b);
        }
        e >>= 1;
        b = b.wrapping_mul(b);
    }
    result
}

/// The greatest common divisor, of the magnitudes.
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.wrapping_abs(), b.wrapping_abs());
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a
}

/// The least common multiple, of the magnitudes.
pub fn lcm(a: i64, b: i64) -> i64 {
    match gcd(a, b) {
        0 => 0,
        g => a.wrapping_div(g).wrapping_mul(b).wrapping_abs(),
    }
}

/// `a << b`: zero where all bits leave, or for a negative distance.
pub fn shift_left(d: DType, a: i64, b: i64) -> i64 {
    if b < 0 || b >= bits(d) as i64 { 0 } else { a.wrapping_shl(b as u32) }
}

/// `a >> b`: the sign where all bits leave, or for a negative distance.
pub fn shift_right(d: DType, a: i64, b: i64) -> i64 {
    let width = bits(d) as i64;
    let max = if d.is_signed() { width - 1 } else { width };
    a >> (if b < 0 || b >= max { max } else { b }).min(63)
}
