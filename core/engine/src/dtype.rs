//! Element types: `DType` (upstream's `c10::ScalarType`, same numbers), the `Element` trait of storable Rust types and
//! the conversions between them.

use half::{bf16, f16};
use num_complex::Complex;

macro_rules! dtypes {
    ($($variant:ident = $num:literal, $scalar:literal, $torch:literal, $size:literal;)*) => {
        /// An element type; the discriminant is upstream's `ScalarType` number.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType { $($variant = $num,)* }

        impl DType {
            /// Every dtype, in upstream's order.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// Upstream's `ScalarType` number.
            pub fn from_number(n: i64) -> Option<DType> {
                match n { $($num => Some(DType::$variant),)* _ => None }
            }
            /// The C++ name, as upstream's messages print it (`Float`).
            pub fn scalar_type_name(self) -> &'static str {
                match self { $(DType::$variant => $scalar,)* }
            }
            /// The attribute of `torch` (`float32`).
            pub fn torch_name(self) -> &'static str {
                match self { $(DType::$variant => $torch,)* }
            }
            /// Bytes an element occupies.
            pub const fn itemsize(self) -> usize {
                match self { $(DType::$variant => $size,)* }
            }
            /// Finds a dtype by its `torch` attribute, without the prefix.
            pub fn from_torch_name(name: &str) -> Option<DType> {
                match name { $($torch => Some(DType::$variant),)* _ => None }
            }
        }
    };
}

dtypes! {
    Byte = 0, "Byte", "uint8", 1;
    Char = 1, "Char", "int8", 1;
    Short = 2, "Short", "int16", 2;
    Int = 3, "Int", "int32", 4;
    Long = 4, "Long", "int64", 8;
    Half = 5, "Half", "float16", 2;
    Float = 6, "Float", "float32", 4;
    Double = 7, "Double", "float64", 8;
    ComplexHalf = 8, "ComplexHalf", "complex32", 4;
    ComplexFloat = 9, "ComplexFloat", "complex64", 8;
    ComplexDouble = 10, "ComplexDouble", "complex128", 16;
    Bool = 11, "Bool", "bool", 1;
    QInt8 = 12, "QInt8", "qint8", 1;
    QUInt8 = 13, "QUInt8", "quint8", 1;
    QInt32 = 14, "QInt32", "qint32", 4;
    BFloat16 = 15, "BFloat16", "bfloat16", 2;
    QUInt4x2 = 16, "QUInt4x2", "quint4x2", 1;
    QUInt2x4 = 17, "QUInt2x4", "quint2x4", 1;
    Bits1x8 = 18, "Bits1x8", "bits1x8", 1;
    Bits2x4 = 19, "Bits2x4", "bits2x4", 1;
    Bits4x2 = 20, "Bits4x2", "bits4x2", 1;
    Bits8 = 21, "Bits8", "bits8", 1;
    Bits16 = 22, "Bits16", "bits16", 2;
    Float8E5M2 = 23, "Float8_e5m2", "float8_e5m2", 1;
    Float8E4M3FN = 24, "Float8_e4m3fn", "float8_e4m3fn", 1;
    Float8E5M2FNUZ = 25, "Float8_e5m2fnuz", "float8_e5m2fnuz", 1;
    Float8E4M3FNUZ = 26, "Float8_e4m3fnuz", "float8_e4m3fnuz", 1;
    UInt16 = 27, "UInt16", "uint16", 2;
    UInt32 = 28, "UInt32", "uint32", 4;
    UInt64 = 29, "UInt64", "uint64", 8;
    UInt1 = 30, "UInt1", "uint1", 1;
    UInt2 = 31, "UInt2", "uint2", 1;
    UInt3 = 32, "UInt3", "uint3", 1;
    UInt4 = 33, "UInt4", "uint4", 1;
    UInt5 = 34, "UInt5", "uint5", 1;
    UInt6 = 35, "UInt6", "uint6", 1;
    UInt7 = 36, "UInt7", "uint7", 1;
    Int1 = 37, "Int1", "int1", 1;
    Int2 = 38, "Int2", "int2", 1;
    Int3 = 39, "Int3", "int3", 1;
    Int4 = 40, "Int4", "int4", 1;
    Int5 = 41, "Int5", "int5", 1;
    Int6 = 42, "Int6", "int6", 1;
    Int7 = 43, "Int7", "int7", 1;
    Float8E8M0FNU = 44, "Float8_e8m0fnu", "float8_e8m0fnu", 1;
    Float4E2M1FNx2 = 45, "Float4_e2m1fn_x2", "float4_e2m1fn_x2", 1;
    BComplex32 = 46, "BComplex32", "bcomplex32", 4;
}

use DType::*;

impl DType {
    /// `isFloatingType`: f16, bf16, f32, f64 and the float8/float4 family.
    pub const fn is_floating_point(self) -> bool {
        matches!(
            self,
            Half | Float
                | Double
                | BFloat16
                | Float8E5M2
                | Float8E4M3FN
                | Float8E5M2FNUZ
                | Float8E4M3FNUZ
                | Float8E8M0FNU
                | Float4E2M1FNx2
        )
    }
    pub const fn is_complex(self) -> bool {
        matches!(self, ComplexHalf | ComplexFloat | ComplexDouble | BComplex32)
    }
    /// `isIntegralType`: the integer types, and bool when `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        matches!(self, Byte | Char | Short | Int | Long | UInt16 | UInt32 | UInt64)
            || (include_bool && matches!(self, Bool))
    }
    pub const fn is_float8(self) -> bool {
        matches!(self, Float8E5M2 | Float8E4M3FN | Float8E5M2FNUZ | Float8E4M3FNUZ | Float8E8M0FNU)
    }
    /// f16 or bf16.
    pub const fn is_reduced_floating(self) -> bool {
        matches!(self, Half | BFloat16)
    }
    pub const fn is_quantized(self) -> bool {
        matches!(self, QInt8 | QUInt8 | QInt32 | QUInt4x2 | QUInt2x4)
    }
    /// `uint16`, `uint32`, `uint64`: storable and convertible, promoted with nothing.
    pub const fn is_barebones_unsigned(self) -> bool {
        matches!(self, UInt16 | UInt32 | UInt64)
    }
    /// `isSignedType`.
    pub const fn is_signed(self) -> bool {
        !matches!(
            self,
            Byte | Bool
                | UInt16
                | UInt32
                | UInt64
                | UInt1
                | UInt2
                | UInt3
                | UInt4
                | UInt5
                | UInt6
                | UInt7
                | QUInt8
        )
    }
    /// `toRealValueType`: the type of a complex number's parts, itself otherwise.
    pub const fn to_real(self) -> DType {
        match self {
            ComplexHalf => Half,
            BComplex32 => BFloat16,
            ComplexFloat => Float,
            ComplexDouble => Double,
            other => other,
        }
    }
    /// `toComplexType`: the complex type with parts of this type.
    pub const fn to_complex(self) -> Option<DType> {
        match self {
            BFloat16 => Some(BComplex32),
            Half => Some(ComplexHalf),
            Float => Some(ComplexFloat),
            Double => Some(ComplexDouble),
            ComplexHalf | ComplexFloat | ComplexDouble | BComplex32 => Some(self),
            _ => None,
        }
    }
    /// `toOpMathType`: where kernels on the CPU accumulate.
    pub const fn to_opmath(self) -> DType {
        match self {
            BFloat16 | Half | Float8E5M2 | Float8E4M3FN | Float8E5M2FNUZ | Float8E4M3FNUZ | Float8E8M0FNU => {
                Float
            }
            ComplexHalf | BComplex32 => ComplexFloat,
            other => other,
        }
    }
}

impl std::fmt::Display for DType {
    /// Prints `torch.float32`'s C++ name, as upstream's messages do.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.scalar_type_name())
    }
}

/// `c10::promoteTypes`: the least type that holds both.
///
/// # Errors
/// Float8 and the barebones unsigned types promote only with themselves (or bool, for the unsigned ones; floating
/// and complex types absorb the unsigned ones).
pub fn promote_types(a: DType, b: DType) -> crate::Result<DType> {
    if a == b {
        return Ok(a);
    }
    // Order of the table below; upstream's promotion lattice over the classic types.
    const fn index(t: DType) -> Option<usize> {
        Some(match t {
            Byte => 0,
            Char => 1,
            Short => 2,
            Int => 3,
            Long => 4,
            Half => 5,
            Float => 6,
            Double => 7,
            ComplexHalf => 8,
            ComplexFloat => 9,
            ComplexDouble => 10,
            Bool => 11,
            BFloat16 => 12,
            _ => return None,
        })
    }
    const U1: DType = Byte;
    const I1: DType = Char;
    const I2: DType = Short;
    const I4: DType = Int;
    const I8: DType = Long;
    const F2: DType = Half;
    const F4: DType = Float;
    const F8: DType = Double;
    const C2: DType = ComplexHalf;
    const C4: DType = ComplexFloat;
    const C8: DType = ComplexDouble;
    const B1: DType = Bool;
    const BF: DType = BFloat16;
    const TABLE: [[DType; 13]; 13] = [
        [U1, I2, I2, I4, I8, F2, F4, F8, C2, C4, C8, U1, BF],
        [I2, I1, I2, I4, I8, F2, F4, F8, C2, C4, C8, I1, BF],
        [I2, I2, I2, I4, I8, F2, F4, F8, C2, C4, C8, I2, BF],
        [I4, I4, I4, I4, I8, F2, F4, F8, C2, C4, C8, I4, BF],
        [I8, I8, I8, I8, I8, F2, F4, F8, C2, C4, C8, I8, BF],
        [F2, F2, F2, F2, F2, F2, F4, F8, C2, C4, C8, F2, F4],
        [F4, F4, F4, F4, F4, F4, F4, F8, C4, C4, C8, F4, F4],
        [F8, F8, F8, F8, F8, F8, F8, F8, C8, C8, C8, F8, F8],
        [C2, C2, C2, C2, C2, C2, C4, C8, C2, C4, C8, C2, C4],
        [C4, C4, C4, C4, C4, C4, C4, C8, C4, C4, C8, C4, C4],
        [C8, C8, C8, C8, C8, C8, C8, C8, C8, C8, C8, C8, C8],
        [U1, I1, I2, I4, I8, F2, F4, F8, C2, C4, C8, B1, BF],
        [BF, BF, BF, BF, BF, F4, F4, F8, C4, C4, C8, BF, BF],
    ];
    if let (Some(i), Some(j)) = (index(a), index(b)) {
        return Ok(TABLE[i][j]);
    }
    for (x, y) in [(a, b), (b, a)] {
        if x.is_float8() {
            crate::bail!(
                Runtime,
                "Promotion for Float8 Types is not supported, attempted to promote {a} and {b}"
            );
        }
        if x.is_barebones_unsigned() {
            if y.is_floating_point() || y.is_complex() {
                return Ok(y);
            }
            if y == Bool {
                return Ok(x);
            }
            crate::bail!(
                Runtime,
                "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a} and {b}"
            );
        }
    }
    crate::bail!(Runtime, "promoteTypes with {a} and {b} is not supported")
}

/// `c10::canCast`: whether a result of type `from` may be written to `to`.
pub const fn can_cast(from: DType, to: DType) -> bool {
    if from.is_complex() && !to.is_complex() {
        return false;
    }
    if from.is_floating_point() && to.is_integral(false) {
        return false;
    }
    matches!(from, Bool) || !matches!(to, Bool)
}

macro_rules! float8 {
    ($($name:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[repr(transparent)]
        pub struct $name(pub u8);
    )*};
}
float8! {
    F8E5M2, "`float8_e5m2`: bias 15, IEEE-like infinities and NaN.";
    F8E4M3FN, "`float8_e4m3fn`: bias 7, no infinities, NaN at 0x7f.";
    F8E5M2FNUZ, "`float8_e5m2fnuz`: bias 16, no negative zero, NaN at 0x80.";
    F8E4M3FNUZ, "`float8_e4m3fnuz`: bias 8, no negative zero, NaN at 0x80.";
    F8E8M0FNU, "`float8_e8m0fnu`: an exponent alone, NaN at 0xff.";
}

/// Decodes a small float of `eb` exponent bits and `mb` mantissa bits.
fn small_float_to_f32(bits: u8, eb: u32, mb: u32, bias: i32) -> f32 {
    let sign = if bits & 0x80 != 0 { -1.0f32 } else { 1.0 };
    let exp = ((bits >> mb) & ((1 << eb) - 1)) as i32;
    let man = (bits & ((1 << mb) - 1)) as f32;
    let scale = (1u32 << mb) as f32;
    if exp == 0 {
        sign * (man / scale) * 2f32.powi(1 - bias)
    } else {
        sign * (1.0 + man / scale) * 2f32.powi(exp - bias)
    }
}

/// Rounds to nearest even into a small float; `max` is the greatest finite code (without sign). Returns `None` on overflow.
fn f32_to_small_float(v: f32, mb: u32, bias: i32, max: u8) -> Option<u8> {
    let a = v.abs();
    let bits = a.to_bits();
    let e = (bits >> 23) as i32 - 127;
    let min_exp = 1 - bias;
    // Scale so that one unit is the last place of the target, then let the f32 adder round to nearest even.
    let e = e.max(min_exp);
    let ulp = 2f64.powi(e - mb as i32);
    let q = (a as f64 / ulp).round_ties_even() as u32;
    let code = if e == min_exp && q < (1 << mb) { q } else { (((e + bias) as u32) << mb) + (q - (1 << mb)) };
    if code > max as u32 { None } else { Some(code as u8) }
}

impl F8E5M2 {
    pub fn to_f32(self) -> f32 {
        f16::from_bits((self.0 as u16) << 8).to_f32()
    }
    pub fn from_f32(v: f32) -> Self {
        let sign = if v.is_sign_negative() { 0x80 } else { 0 };
        if v.is_nan() {
            return Self(sign | 0x7f);
        }
        Self(sign | if v.is_infinite() { 0x7c } else { f32_to_small_float(v, 2, 15, 0x7b).unwrap_or(0x7c) })
    }
}
impl F8E4M3FN {
    pub fn to_f32(self) -> f32 {
        if self.0 & 0x7f == 0x7f { f32::NAN } else { small_float_to_f32(self.0, 4, 3, 7) }
    }
    pub fn from_f32(v: f32) -> Self {
        let sign = if v.is_sign_negative() { 0x80 } else { 0 };
        Self(sign | if v.is_finite() { f32_to_small_float(v, 3, 7, 0x7e).unwrap_or(0x7f) } else { 0x7f })
    }
}
impl F8E5M2FNUZ {
    pub fn to_f32(self) -> f32 {
        if self.0 == 0x80 { f32::NAN } else { small_float_to_f32(self.0, 5, 2, 16) }
    }
    pub fn from_f32(v: f32) -> Self {
        fnuz(v, 2, 16).map_or(Self(0x80), Self)
    }
}
impl F8E4M3FNUZ {
    pub fn to_f32(self) -> f32 {
        if self.0 == 0x80 { f32::NAN } else { small_float_to_f32(self.0, 4, 3, 8) }
    }
    pub fn from_f32(v: f32) -> Self {
        fnuz(v, 3, 8).map_or(Self(0x80), Self)
    }
}
fn fnuz(v: f32, mb: u32, bias: i32) -> Option<u8> {
    if !v.is_finite() {
        return None;
    }
    let code = f32_to_small_float(v, mb, bias, 0x7f)?;
    // There is no negative zero: its code is NaN.
    Some(if code != 0 && v.is_sign_negative() { code | 0x80 } else { code })
}
impl F8E8M0FNU {
    pub fn to_f32(self) -> f32 {
        match self.0 {
            0xff => f32::NAN,
            0 => f32::from_bits(0x0040_0000),
            e => f32::from_bits((e as u32) << 23),
        }
    }
    /// Rounds the magnitude to the nearest power of two, ties to even exponents as upstream.
    pub fn from_f32(v: f32) -> Self {
        let bits = v.to_bits();
        let exp = (bits >> 23) & 0xff;
        if exp == 0xff {
            return Self(0xff);
        }
        let guard = bits & 0x40_0000 != 0;
        let rest = bits & 0x3f_ffff != 0;
        let up = guard && (exp > 0 || rest);
        Self((exp + u32::from(up)).min(0xff) as u8)
    }
}

/// A Rust type that a tensor can store.
pub trait Element: Copy + Send + Sync + 'static {
    const DTYPE: DType;
}

macro_rules! element {
    ($($t:ty => $d:ident),*) => {$( impl Element for $t { const DTYPE: DType = DType::$d; } )*};
}
element! {
    u8 => Byte, i8 => Char, i16 => Short, i32 => Int, i64 => Long, f16 => Half, f32 => Float, f64 => Double,
    Complex<f16> => ComplexHalf, Complex<f32> => ComplexFloat, Complex<f64> => ComplexDouble, bool => Bool,
    bf16 => BFloat16, u16 => UInt16, u32 => UInt32, u64 => UInt64, F8E5M2 => Float8E5M2, F8E4M3FN => Float8E4M3FN,
    F8E5M2FNUZ => Float8E5M2FNUZ, F8E4M3FNUZ => Float8E4M3FNUZ, F8E8M0FNU => Float8E8M0FNU
}

/// A value between two element types: conversions go through the widest type of their kind.
#[derive(Clone, Copy, Debug)]
pub enum Wide {
    I(i64),
    U(u64),
    F(f64),
    C(f64, f64),
}

/// f64 to int64 as x86's `cvttsd2si` does: what does not fit (NaN too) becomes the least integer.
#[inline]
pub fn f64_to_i64(v: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v) { v as i64 } else { i64::MIN }
}
/// f64 to int32 as x86's `cvttsd2si` does.
#[inline]
pub fn f64_to_i32(v: f64) -> i32 {
    if v > -2_147_483_649.0 && v < 2_147_483_648.0 { v as i32 } else { i32::MIN }
}
/// f64 to uint64 as compilers do it on x86: modulo 2^64 below zero, from the upper half by subtraction.
#[inline]
pub fn f64_to_u64(v: f64) -> u64 {
    if v >= 9_223_372_036_854_775_808.0 {
        (f64_to_i64(v - 9_223_372_036_854_775_808.0) as u64) ^ (1 << 63)
    } else {
        f64_to_i64(v) as u64
    }
}

/// Conversion between element types with C++ `static_cast` semantics (x86's where C++ leaves it open).
pub trait Convert: Element {
    fn to_wide(self) -> Wide;
    fn from_wide(w: Wide) -> Self;
}

macro_rules! convert_int {
    ($($t:ty),*) => {$(impl Convert for $t {
        #[inline(always)]
        fn to_wide(self) -> Wide { Wide::I(self as i64) }
        #[inline(always)]
        fn from_wide(w: Wide) -> Self {
            match w { Wide::I(v) => v as $t, Wide::U(v) => v as $t, Wide::F(v) | Wide::C(v, _) => f64_to_i32(v) as $t }
        }
    })*};
}
convert_int!(u8, i8, i16, i32, u16);
impl Convert for i64 {
    #[inline(always)]
    fn to_wide(self) -> Wide {
        Wide::I(self)
    }
    #[inline(always)]
    fn from_wide(w: Wide) -> Self {
        match w {
            Wide::I(v) => v,
            Wide::U(v) => v as i64,
            Wide::F(v) | Wide::C(v, _) => f64_to_i64(v),
        }
    }
}
impl Convert for u32 {
    #[inline(always)]
    fn to_wide(self) -> Wide {
        Wide::I(self as i64)
    }
    #[inline(always)]
    fn from_wide(w: Wide) -> Self {
        match w {
            Wide::I(v) => v as u32,
            Wide::U(v) => v as u32,
            Wide::F(v) | Wide::C(v, _) => f64_to_i64(v) as u32,
        }
    }
}
impl Convert for u64 {
    #[inline(always)]
    fn to_wide(self) -> Wide {
        Wide::U(self)
    }
    #[inline(always)]
    fn from_wide(w: Wide) -> Self {
        match w {
            Wide::I(v) => v as u64,
            Wide::U(v) => v,
            Wide::F(v) | Wide::C(v, _) => f64_to_u64(v),
        }
    }
}
impl Convert for bool {
    #[inline(always)]
    fn to_wide(self) -> Wide {
        Wide::I(self as i64)
    }
    #[inline(always)]
    fn from_wide(w: Wide) -> Self {
        match w {
            Wide::I(v) => v != 0,
            Wide::U(v) => v != 0,
            Wide::F(v) => v != 0.0,
            Wide::C(re, im) => re != 0.0 || im != 0.0,
        }
    }
}
macro_rules! convert_float {
    ($($t:ty, $to:expr, $from:expr);*) => {$(impl Convert for $t {
        #[inline(always)]
        fn to_wide(self) -> Wide { Wide::F($to(self)) }
        #[inline(always)]
        fn from_wide(w: Wide) -> Self {
            match w {
                // Integers reach narrow floats by way of f32, as upstream's Half and BFloat16 constructors take a float.
                Wide::I(v) => $from(v), Wide::U(v) => $from(v), Wide::F(v) | Wide::C(v, _) => $from(v),
            }
        }
    })*};
}
/// Numbers that convert to f32 and f64 by `as`.
trait AsFloat {
    fn f32(self) -> f32;
    fn f64(self) -> f64;
}
macro_rules! as_float { ($($t:ty),*) => {$(impl AsFloat for $t {
    #[inline(always)]
    fn f32(self) -> f32 { self as f32 }
    #[inline(always)]
    fn f64(self) -> f64 { self as f64 }
})*}; }
as_float!(i64, u64, f64);
convert_float! {
    f64, |v: f64| v, AsFloat::f64;
    f32, |v: f32| v as f64, AsFloat::f32;
    f16, |v: f16| v.to_f32() as f64, |v| f16::from_f32(AsFloat::f32(v));
    bf16, |v: bf16| v.to_f32() as f64, |v| bf16::from_f32(AsFloat::f32(v));
    F8E5M2, |v: F8E5M2| v.to_f32() as f64, |v| F8E5M2::from_f32(AsFloat::f32(v));
    F8E4M3FN, |v: F8E4M3FN| v.to_f32() as f64, |v| F8E4M3FN::from_f32(AsFloat::f32(v));
    F8E5M2FNUZ, |v: F8E5M2FNUZ| v.to_f32() as f64, |v| F8E5M2FNUZ::from_f32(AsFloat::f32(v));
    F8E4M3FNUZ, |v: F8E4M3FNUZ| v.to_f32() as f64, |v| F8E4M3FNUZ::from_f32(AsFloat::f32(v));
    F8E8M0FNU, |v: F8E8M0FNU| v.to_f32() as f64, |v| F8E8M0FNU::from_f32(AsFloat::f32(v))
}
macro_rules! convert_complex {
    ($($t:ty),*) => {$(impl Convert for Complex<$t> {
        #[inline(always)]
        fn to_wide(self) -> Wide {
            let part = |v: $t| match v.to_wide() { Wide::F(x) => x, _ => 0.0 };
            Wide::C(part(self.re), part(self.im))
        }
        #[inline(always)]
        fn from_wide(w: Wide) -> Self {
            match w {
                Wide::C(re, im) => Complex::new(<$t>::from_wide(Wide::F(re)), <$t>::from_wide(Wide::F(im))),
                other => Complex::new(<$t>::from_wide(other), <$t>::from_wide(Wide::F(0.0))),
            }
        }
    })*};
}
convert_complex!(f16, f32, f64);

/// Converts one element.
#[inline(always)]
pub fn convert<A: Convert, B: Convert>(a: A) -> B {
    B::from_wide(a.to_wide())
}

/// Binds `$T` to the Rust type of a dtype from a named set, or returns upstream's "not implemented for" error.
///
/// Sets: `integral`, `floating` (f32, f64, f16, bf16), `float64_32` (f32, f64), `complex` (64, 128), `all` (integral + floating),
/// `all_bool`, `floating_complex`, `all_complex` (all_bool + complex), `copyable` (every convertible type).
///
/// `dispatch!("softmax", dtype, floating, T => rows::<T>(x))` evaluates the body (of any type).
#[macro_export]
macro_rules! dispatch {
    (@m $name:expr, $d:expr, $T:ident, $body:expr, $($v:ident => $t:ty),+) => {
        match $d {
            $( $crate::DType::$v => { #[allow(dead_code)] type $T = $t; $body } )+
            other => return Err($crate::error::Error::dtype_not_implemented($name, other)),
        }
    };
    ($n:expr, $d:expr, integral, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Byte => u8, Char => i8, Short => i16, Int => i32, Long => i64) };
    ($n:expr, $d:expr, integral_bool, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Byte => u8, Char => i8, Short => i16, Int => i32, Long => i64, Bool => bool) };
    ($n:expr, $d:expr, float64_32, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Float => f32, Double => f64) };
    ($n:expr, $d:expr, floating, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Float => f32, Double => f64, Half => $crate::half::f16, BFloat16 => $crate::half::bf16) };
    ($n:expr, $d:expr, complex, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        ComplexFloat => $crate::Complex<f32>, ComplexDouble => $crate::Complex<f64>) };
    ($n:expr, $d:expr, floating_complex, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Float => f32, Double => f64, Half => $crate::half::f16, BFloat16 => $crate::half::bf16,
        ComplexFloat => $crate::Complex<f32>, ComplexDouble => $crate::Complex<f64>) };
    ($n:expr, $d:expr, all, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Byte => u8, Char => i8, Short => i16, Int => i32, Long => i64,
        Float => f32, Double => f64, Half => $crate::half::f16, BFloat16 => $crate::half::bf16) };
    ($n:expr, $d:expr, all_bool, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Byte => u8, Char => i8, Short => i16, Int => i32, Long => i64, Bool => bool,
        Float => f32, Double => f64, Half => $crate::half::f16, BFloat16 => $crate::half::bf16) };
    ($n:expr, $d:expr, all_complex, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Byte => u8, Char => i8, Short => i16, Int => i32, Long => i64, Bool => bool,
        Float => f32, Double => f64, Half => $crate::half::f16, BFloat16 => $crate::half::bf16,
        ComplexFloat => $crate::Complex<f32>, ComplexDouble => $crate::Complex<f64>) };
    ($n:expr, $d:expr, copyable, $T:ident => $b:expr) => { $crate::dispatch!(@m $n, $d, $T, $b,
        Byte => u8, Char => i8, Short => i16, Int => i32, Long => i64, Bool => bool,
        Float => f32, Double => f64, Half => $crate::half::f16, BFloat16 => $crate::half::bf16,
        ComplexFloat => $crate::Complex<f32>, ComplexDouble => $crate::Complex<f64>,
        ComplexHalf => $crate::Complex<$crate::half::f16>, UInt16 => u16, UInt32 => u32, UInt64 => u64,
        Float8E5M2 => $crate::dtype::F8E5M2, Float8E4M3FN => $crate::dtype::F8E4M3FN,
        Float8E5M2FNUZ => $crate::dtype::F8E5M2FNUZ, Float8E4M3FNUZ => $crate::dtype::F8E4M3FNUZ,
        Float8E8M0FNU => $crate::dtype::F8E8M0FNU) };
}

impl DType {
    /// The C++ type's name, as `caffe2::TypeMeta` prints it in messages about out tensors.
    pub fn torch_name_cpp(self) -> &'static str {
        match self {
            Byte => "unsigned char",
            Char => "signed char",
            Short => "short int",
            Int => "int",
            Long => "long int",
            Half => "c10::Half",
            Float => "float",
            Double => "double",
            ComplexHalf => "c10::complex<c10::Half>",
            ComplexFloat => "c10::complex<float>",
            ComplexDouble => "c10::complex<double>",
            Bool => "bool",
            BFloat16 => "c10::BFloat16",
            other => other.scalar_type_name(),
        }
    }
}
