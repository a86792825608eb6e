//! The element types samples are stored as, with the conversions upstream's kernels make (`static_cast`, as its
//! x86-64 build evaluates it).

use half::{bf16, f16};

/// A type that samples can be stored as.
pub trait RandomElement: Copy + 'static {
    /// From a double. Out-of-range values of integer types become what x86-64's conversion makes of them, on every
    /// target (C++ leaves it undefined, and `geometric_` reaches it).
    fn from_f64(value: f64) -> Self;
    /// From a 64-bit integer: truncated to integer types, rounded to floating-point ones.
    fn from_i64(value: i64) -> Self;
}

/// A floating-point element.
pub trait Float: RandomElement + PartialEq {
    /// Significant bits, the implicit one included.
    const DIGITS: u32;
    /// The largest finite value.
    const MAX: f64;
    /// Whether arithmetic on this type happens in double precision (otherwise in single).
    const DOUBLE: bool;
    /// Whether arithmetic happens in the type itself, not in a wider one.
    const OWN_ARITHMETIC: bool;
    /// From a float.
    fn from_f32(value: f32) -> Self;
    /// Exactly, to double.
    fn to_f64(self) -> f64;
    /// What becomes of an integer that is stored as this type and read back.
    fn round_trip(value: i64) -> i64 {
        x86_to_i64(Self::from_i64(value).to_f64())
    }
}

macro_rules! narrow_integers {
    ($($t:ty),*) => {$(
        impl RandomElement for $t {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                x86_to_i32(value) as $t
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as $t
            }
        }
    )*};
}
narrow_integers!(u8, i8, i16, i32, u16);

macro_rules! wide_integers {
    ($($t:ty),*) => {$(
        impl RandomElement for $t {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                x86_to_i64(value) as $t
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as $t
            }
        }
    )*};
}
wide_integers!(i64, u32, u64);

impl RandomElement for bool {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value != 0.0
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value != 0
    }
}

/// `cvttsd2si` to 32 bits: what does not fit becomes `i32::MIN`.
#[inline(always)]
fn x86_to_i32(value: f64) -> i32 {
    if value > -2_147_483_649.0 && value < 2_147_483_648.0 { value as i32 } else { i32::MIN }
}

/// `cvttsd2si` to 64 bits.
#[inline(always)]
fn x86_to_i64(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

macro_rules! floats {
    ($($t:ty, $digits:expr, $max:expr, $double:expr, $own:expr, |$x:ident| $to64:expr, |$d:ident| $from64:expr,
       |$s:ident| $from32:expr, |$i:ident| $from_int:expr;)*) => {$(
        impl RandomElement for $t {
            #[inline(always)]
            fn from_f64($d: f64) -> Self {
                $from64
            }
            #[inline(always)]
            fn from_i64($i: i64) -> Self {
                $from_int
            }
        }
        impl Float for $t {
            const DIGITS: u32 = $digits;
            const MAX: f64 = $max;
            const DOUBLE: bool = $double;
            const OWN_ARITHMETIC: bool = $own;
            #[inline(always)]
            fn from_f32($s: f32) -> Self {
                $from32
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                let $x = self;
                $to64
            }
        }
    )*};
}

floats! {
    f32, 24, f32::MAX as f64, false, true, |x| f64::from(x), |d| d as f32, |s| s, |i| i as f32;
    f64, 53, f64::MAX, true, true, |x| x, |d| d, |s| f64::from(s), |i| i as f64;
    // Upstream's half types convert through float, rounding twice on the way from double.
    f16, 11, 65504.0, false, false, |x| f64::from(x.to_f32()), |d| f16::from_f32(d as f32), |s| f16::from_f32(s),
        |i| f16::from_f32(i as f32);
    bf16, 8, 3.3895313892515355e38, false, false, |x| f64::from(x.to_f32()), |d| bf16::from_f32(d as f32),
        |s| bf16::from_f32(s), |i| bf16::from_f32(i as f32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_what_x86_gives() {
        assert_eq!(u8::from_f64(300.7), 44);
        assert_eq!(u8::from_f64(f64::INFINITY), 0);
        assert_eq!(i32::from_f64(3e9), i32::MIN);
        assert_eq!(i64::from_f64(f64::NAN), i64::MIN);
        assert_eq!(i64::from_f64(-3.9), -3);
        assert_eq!(i8::from_i64(200), -56);
    }

    #[test]
    fn halves_round_through_float() {
        assert_eq!(f16::from_i64(2049).to_f32(), 2048.0);
        assert_eq!(bf16::from_f64(1.0 + 1.0 / 256.0).to_f32(), 1.0);
        assert_eq!(<bf16 as Float>::MAX, bf16::MAX.to_f64());
        assert_eq!(<f16 as Float>::MAX, f16::MAX.to_f64());
    }
}
