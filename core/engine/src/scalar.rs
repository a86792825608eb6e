//! `Scalar`: a Python number on its way into an operator.

use crate::dtype::{Convert, DType, Wide};

/// A number with the kind it had in Python.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    Float(f64),
    Complex(f64, f64),
}

impl Scalar {
    pub fn is_floating_point(self) -> bool {
        matches!(self, Scalar::Float(_))
    }
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(..))
    }
    pub fn is_bool(self) -> bool {
        matches!(self, Scalar::Bool(_))
    }
    /// Int, not bool.
    pub fn is_integral(self) -> bool {
        matches!(self, Scalar::Int(_) | Scalar::UInt(_))
    }
    /// The dtype of a tensor made of this number alone (`Scalar::type`): Double, Long, Bool or ComplexDouble.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::Long,
            Scalar::UInt(_) => DType::UInt64,
            Scalar::Float(_) => DType::Double,
            Scalar::Complex(..) => DType::ComplexDouble,
        }
    }
    pub fn wide(self) -> Wide {
        match self {
            Scalar::Bool(v) => Wide::I(v as i64),
            Scalar::Int(v) => Wide::I(v),
            Scalar::UInt(v) => Wide::U(v),
            Scalar::Float(v) => Wide::F(v),
            Scalar::Complex(re, im) => Wide::C(re, im),
        }
    }
    /// Converts without an overflow check (C++ `static_cast`).
    pub fn cast<T: Convert>(self) -> T {
        T::from_wide(self.wide())
    }
    /// `Scalar::to<T>`: converts with upstream's overflow check.
    ///
    /// # Errors
    /// "value cannot be converted to type … without overflow".
    pub fn to<T: Convert>(self) -> crate::Result<T> {
        self.check_fits(T::DTYPE)?;
        Ok(self.cast())
    }
    /// Upstream's overflow check of a conversion.
    ///
    /// # Errors
    /// "value cannot be converted to type … without overflow".
    pub fn check_fits(self, to: DType) -> crate::Result<()> {
        if self.overflows(to) {
            crate::bail!(Runtime, "value cannot be converted to type {} without overflow", cpp_name(to));
        }
        Ok(())
    }
    /// Whether the value lies outside of the dtype's range.
    pub fn overflows(self, to: DType) -> bool {
        let range = |lo: i128, hi: i128| match self {
            Scalar::Bool(_) => false,
            Scalar::Int(v) => (v as i128) < lo || (v as i128) > hi,
            Scalar::UInt(v) => (v as i128) > hi,
            // Comparison in floating point, as upstream's: NaN and infinity do not fit.
            Scalar::Float(v) => !(v >= lo as f64 && v <= hi as f64),
            Scalar::Complex(re, im) => im != 0.0 || !(re >= lo as f64 && re <= hi as f64),
        };
        let finite = |max: f64| match self {
            Scalar::Float(v) => v.is_finite() && v.abs() > max,
            Scalar::Complex(re, im) => {
                (re.is_finite() && re.abs() > max) || (im.is_finite() && im.abs() > max)
            }
            Scalar::Int(v) => (v as f64).abs() > max,
            _ => false,
        };
        match to {
            // Unsigned targets accept negative integers, which wrap.
            DType::Byte => range(-255, 255),
            DType::UInt16 => range(-65535, 65535),
            DType::UInt32 => range(-(u32::MAX as i128), u32::MAX as i128),
            DType::UInt64 => range(-(u64::MAX as i128), u64::MAX as i128),
            DType::Char => range(i8::MIN as i128, i8::MAX as i128),
            DType::Short => range(i16::MIN as i128, i16::MAX as i128),
            DType::Int => range(i32::MIN as i128, i32::MAX as i128),
            DType::Long => range(i64::MIN as i128, i64::MAX as i128),
            DType::Half | DType::ComplexHalf => finite(65504.0) || self.loses_imaginary(to),
            DType::BFloat16 => finite(3.389_531_389_251_535_5e38) || self.loses_imaginary(to),
            DType::Float | DType::ComplexFloat => finite(f32::MAX as f64) || self.loses_imaginary(to),
            DType::Double => self.loses_imaginary(to),
            _ => false,
        }
    }
    fn loses_imaginary(self, to: DType) -> bool {
        matches!(self, Scalar::Complex(_, im) if im != 0.0) && !to.is_complex()
    }
    pub fn to_f64(self) -> f64 {
        self.cast()
    }
    pub fn to_i64(self) -> i64 {
        self.cast()
    }
    pub fn to_bool(self) -> bool {
        self.cast()
    }
    pub fn is_negative(self) -> bool {
        match self {
            Scalar::Int(v) => v < 0,
            Scalar::Float(v) => v < 0.0,
            _ => false,
        }
    }
    /// Whether it equals an integer exactly.
    pub fn equals_int(self, n: i64) -> bool {
        match self {
            Scalar::Bool(v) => v as i64 == n,
            Scalar::Int(v) => v == n,
            Scalar::UInt(v) => n >= 0 && v == n as u64,
            Scalar::Float(v) => v == n as f64,
            Scalar::Complex(re, im) => re == n as f64 && im == 0.0,
        }
    }
}

fn cpp_name(d: DType) -> &'static str {
    match d {
        DType::Byte => "uint8_t",
        DType::Char => "int8_t",
        DType::Short => "int16_t",
        DType::Int => "int32_t",
        DType::Long => "int64_t",
        DType::Half => "c10::Half",
        DType::BFloat16 => "c10::BFloat16",
        DType::Float => "float",
        DType::Double => "double",
        DType::UInt16 => "uint16_t",
        DType::UInt32 => "uint32_t",
        DType::UInt64 => "uint64_t",
        DType::Bool => "bool",
        DType::ComplexFloat => "c10::complex<float>",
        DType::ComplexDouble => "c10::complex<double>",
        DType::ComplexHalf => "c10::complex<c10::Half>",
        other => other.scalar_type_name(),
    }
}

macro_rules! from { ($($t:ty => $v:ident),*) => {$(impl From<$t> for Scalar { fn from(v: $t) -> Self { Scalar::$v(v.into()) } })*}; }
from!(bool => Bool, i32 => Int, i64 => Int, f32 => Float, f64 => Float);
