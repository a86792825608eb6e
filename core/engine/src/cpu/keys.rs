//! Integers that order as the values they stand for, so that sorting compares whole words and carries positions along.

use crate::cpu::order::Ordered;
use half::{bf16, f16};

/// A value with an unsigned image in the same order: NaN above all, zeros of either sign alike.
pub(crate) trait Key: Ordered {
    /// Whether the image needs more than 32 bits.
    const WIDE: bool;
    fn key(self) -> u64;
}

macro_rules! unsigned {
    ($($t:ty: $wide:literal;)*) => {$(impl Key for $t {
        const WIDE: bool = $wide;
        #[inline(always)]
        fn key(self) -> u64 { self as u64 }
    })*};
}
unsigned! { bool: false; u8: false; u16: false; u32: false; u64: true; }

macro_rules! signed {
    ($($t:ty as $u:ty: $wide:literal;)*) => {$(impl Key for $t {
        const WIDE: bool = $wide;
        #[inline(always)]
        fn key(self) -> u64 { (self as $u ^ (1 << (<$u>::BITS - 1))) as u64 }
    })*};
}
signed! { i8 as u8: false; i16 as u16: false; i32 as u32: false; i64 as u64: true; }

macro_rules! floating {
    ($($t:ty as $u:ty: $wide:literal, $zero:expr;)*) => {$(impl Key for $t {
        const WIDE: bool = $wide;
        #[inline(always)]
        fn key(self) -> u64 {
            if self.nan() {
                return <$u>::MAX as u64;
            }
            let bits: $u = if self == $zero { 0 } else { self.to_bits() };
            let sign = 1 << (<$u>::BITS - 1);
            (if bits & sign != 0 { !bits } else { bits | sign }) as u64
        }
    })*};
}
floating! { f32 as u32: false, 0.0; f64 as u64: true, 0.0; f16 as u16: false, f16::ZERO; bf16 as u16: false, bf16::ZERO; }

/// Sorts, equal elements keeping their order, and writes values and where they were.
pub(crate) fn sort<T: Key>(x: &[T], descending: bool, values: &mut [T], places: &mut [i64]) {
    // Positions take the lower half of a word.
    debug_assert!(x.len() <= u32::MAX as usize);
    let turn = if descending { u64::MAX } else { 0 };
    if T::WIDE {
        let mut keys: Vec<u128> =
            x.iter().zip(0u128..).map(|(v, i)| (((v.key() ^ turn) as u128) << 32) | i).collect();
        keys.sort_unstable();
        for (k, (v, p)) in keys.into_iter().zip(values.iter_mut().zip(places)) {
            let i = (k & 0xffff_ffff) as usize;
            (*v, *p) = (x[i], i as i64);
        }
    } else {
        let turn = turn & 0xffff_ffff;
        let mut keys: Vec<u64> = x.iter().zip(0u64..).map(|(v, i)| ((v.key() ^ turn) << 32) | i).collect();
        keys.sort_unstable();
        for (k, (v, p)) in keys.into_iter().zip(values.iter_mut().zip(places)) {
            let i = (k & 0xffff_ffff) as usize;
            (*v, *p) = (x[i], i as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::order;

    fn agrees<T: Key + std::fmt::Debug>(x: &[T]) {
        for descending in [false, true] {
            let mut items: Vec<(T, i64)> = x.iter().copied().zip(0..).collect();
            order::stable_sort(&mut items, if descending { order::greater } else { order::less });
            let (mut v, mut p) = (x.to_vec(), vec![0; x.len()]);
            sort(x, descending, &mut v, &mut p);
            assert_eq!(p, items.iter().map(|i| i.1).collect::<Vec<_>>(), "{x:?}");
        }
    }

    #[test]
    fn keys_order_as_values() {
        let nan = f32::NAN;
        agrees(&[1.0f32, -0.0, nan, 0.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, -nan, 1e-40, -1e-40, 1.0]);
        agrees(&[1.0f64, -0.0, f64::NAN, 0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, 1.0]);
        agrees(&[1.0f32, -0.0, nan, 0.0, -3.0].map(half::bf16::from_f32));
        agrees(&[1.0f32, -0.0, nan, 0.0, -3.0].map(half::f16::from_f32));
        agrees(&[3i64, -1, i64::MIN, i64::MAX, 0, -1]);
        agrees(&[3i8, -1, i8::MIN, i8::MAX, 0, -1]);
        agrees(&[3u64, 1, u64::MAX, 0, 3]);
        agrees(&[true, false, true]);
    }
}
