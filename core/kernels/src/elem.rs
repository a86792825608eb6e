//! Element types and the type each one accumulates in.

use crate::isa::{Isa, Vector, Vector32};
use half::{bf16, f16};

/// A type kernels compute in: `f32` or `f64`.
pub trait Float:
    Elem<Acc = Self>
    + PartialOrd
    + Default
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
{
    /// The register type that holds this float on instruction set `I`.
    type Vec<I: Isa>: Vector<T = Self>;
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;
    /// `self * b + c`, fused where `I` fuses.
    fn mul_add<I: Isa>(self, b: Self, c: Self) -> Self;
    fn ln(self) -> Self;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
}

/// A type stored in memory. Arithmetic happens in `Acc`; loads widen and stores round to nearest even.
pub trait Elem: Copy + Send + Sync + 'static {
    type Acc: Float;
    /// Whether `Self` is its own accumulator, so that memory can be read without conversion.
    const IS_ACC: bool;
    fn widen(self) -> Self::Acc;
    fn narrow(x: Self::Acc) -> Self;
    /// Loads `LANES` consecutive elements, widened.
    ///
    /// # Safety
    /// `p` must be readable for `LANES` elements and `I` must be supported by the running CPU.
    unsafe fn load<I: Isa>(p: *const Self) -> <Self::Acc as Float>::Vec<I>;
    /// Stores `LANES` consecutive elements, rounded.
    ///
    /// # Safety
    /// `p` must be writable for `LANES` elements and `I` must be supported by the running CPU.
    unsafe fn store<I: Isa>(p: *mut Self, v: <Self::Acc as Float>::Vec<I>);
}

macro_rules! float_elem {
    ($t:ty, $vec:ident) => {
        impl Float for $t {
            type Vec<I: Isa> = I::$vec;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = <$t>::NEG_INFINITY;
            #[inline(always)]
            fn mul_add<I: Isa>(self, b: Self, c: Self) -> Self {
                if I::FMA { <$t>::mul_add(self, b, c) } else { self * b + c }
            }
            #[inline(always)]
            fn ln(self) -> Self {
                <$t>::ln(self)
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
        impl Elem for $t {
            type Acc = $t;
            const IS_ACC: bool = true;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(x: $t) -> $t {
                x
            }
            #[inline(always)]
            unsafe fn load<I: Isa>(p: *const $t) -> I::$vec {
                // SAFETY: the caller's contract.
                unsafe { I::$vec::load(p) }
            }
            #[inline(always)]
            unsafe fn store<I: Isa>(p: *mut $t, v: I::$vec) {
                // SAFETY: the caller's contract.
                unsafe { v.store(p) }
            }
        }
    };
}
float_elem!(f32, F32);
float_elem!(f64, F64);

impl Elem for bf16 {
    type Acc = f32;
    const IS_ACC: bool = false;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn narrow(x: f32) -> bf16 {
        bf16::from_bits(f32_to_bf16_bits(x))
    }
    #[inline(always)]
    unsafe fn load<I: Isa>(p: *const bf16) -> I::F32 {
        // SAFETY: the caller's contract; bf16 is a transparent u16.
        unsafe { I::F32::load_bf16(p as *const u16) }
    }
    #[inline(always)]
    unsafe fn store<I: Isa>(p: *mut bf16, v: I::F32) {
        // SAFETY: as above.
        unsafe { v.store_bf16(p as *mut u16) }
    }
}

impl Elem for f16 {
    type Acc = f32;
    const IS_ACC: bool = false;
    #[inline(always)]
    fn widen(self) -> f32 {
        f16_bits_to_f32(self.to_bits())
    }
    #[inline(always)]
    fn narrow(x: f32) -> f16 {
        f16::from_bits(f32_to_f16_bits(x))
    }
    #[inline(always)]
    unsafe fn load<I: Isa>(p: *const f16) -> I::F32 {
        // SAFETY: the caller's contract; f16 is a transparent u16.
        unsafe { I::F32::load_f16(p as *const u16) }
    }
    #[inline(always)]
    unsafe fn store<I: Isa>(p: *mut f16, v: I::F32) {
        // SAFETY: as above.
        unsafe { v.store_f16(p as *mut u16) }
    }
}

/// Rounds to the nearest bfloat16, ties to even; every NaN becomes 0x7fc0, as upstream's scalar conversion does.
#[inline(always)]
pub fn f32_to_bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if x.is_nan() { 0x7fc0 } else { rounded }
}

/// Widens an IEEE half, exactly, without branches so that loops over it vectorise.
#[inline(always)]
pub fn f16_bits_to_f32(h: u16) -> f32 {
    let h = h as u32;
    let magnitude = (h & 0x7fff) << 13;
    // Multiplying by 2^112 moves the exponent bias from 15 to 127 and normalises subnormals.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(((h & 0x8000) << 16) | scaled | special)
}

/// Rounds to the nearest IEEE half, ties to even, overflowing to infinity; NaN becomes a signed 0x7e00.
#[inline(always)]
pub fn f32_to_f16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    // Subnormal results: adding 2^-1 * 2^(1-14) ... places the half's last bit at the float's last bit, so the
    // addition itself rounds to nearest even.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    // Normal results: rebias and round on the 13 dropped bits.
    let normal = magnitude.wrapping_sub(0x3800_0000).wrapping_add(0xfff + ((magnitude >> 13) & 1)) >> 13;
    let value = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let value = if magnitude >= 0x4780_0000 { 0x7c00 } else { value.min(0x7c00) };
    let value = if magnitude > 0x7f80_0000 { 0x7e00 } else { value };
    sign | value as u16
}
