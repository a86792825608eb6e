//! Type promotion (`c10::ResultTypeState`, Note [Result type computation]).

use crate::dtype::promote_types;
use crate::{DType, Result, Scalar, Tensor};
use std::sync::atomic::{AtomicU8, Ordering};

static DEFAULT: AtomicU8 = AtomicU8::new(DType::Float as u8);

/// `torch.get_default_dtype()`
pub fn default_dtype() -> DType {
    DType::from_number(DEFAULT.load(Ordering::Relaxed) as i64).unwrap_or(DType::Float)
}
/// `torch.set_default_dtype`; the caller has checked that it is a floating type.
pub fn set_default_dtype(d: DType) {
    DEFAULT.store(d as u8, Ordering::Relaxed)
}
fn default_complex() -> DType {
    default_dtype().to_complex().unwrap_or(DType::ComplexFloat)
}

/// The three priorities of promotion: tensors with dimensions, 0-d tensors, Python numbers.
#[derive(Clone, Copy, Default)]
pub struct ResultType {
    dim: Option<DType>,
    zero: Option<DType>,
    wrapped: Option<DType>,
}

fn promote(a: Option<DType>, b: Option<DType>) -> Result<Option<DType>> {
    match (a, b) {
        (None, x) | (x, None) => Ok(x),
        (Some(a), Some(b)) => promote_types(a, b).map(Some),
    }
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>> {
    let Some(h) = higher else { return Ok(lower) };
    if h.is_complex() {
        return Ok(higher);
    }
    if h.is_floating_point() {
        // A float keeps its width and becomes complex beside a complex of lower priority.
        return Ok(if lower.is_some_and(|l| l.is_complex()) { h.to_complex().or(lower) } else { higher });
    }
    if h == DType::Bool || lower.is_some_and(|l| l.is_floating_point() || l.is_complex()) {
        return promote(higher, lower);
    }
    Ok(higher)
}

impl ResultType {
    /// Takes a tensor into account.
    ///
    /// # Errors
    /// Dtypes that do not promote with each other.
    pub fn add(&mut self, t: &Tensor) -> Result<()> {
        let mut d = t.dtype();
        if t.is_wrapped_number() {
            d = number_type(d);
        }
        let slot = if t.dim() > 0 {
            &mut self.dim
        } else if t.is_wrapped_number() {
            &mut self.wrapped
        } else {
            &mut self.zero
        };
        *slot = promote(*slot, Some(d))?;
        Ok(())
    }
    /// Takes a Python number into account.
    ///
    /// # Errors
    /// None in practice: numbers promote with each other.
    pub fn add_scalar(&mut self, s: Scalar) -> Result<()> {
        self.wrapped = promote(self.wrapped, Some(number_type(s.dtype())))?;
        Ok(())
    }
    /// The common type.
    ///
    /// # Errors
    /// Dtypes that do not promote with each other.
    pub fn finish(self) -> Result<DType> {
        Ok(combine(self.dim, combine(self.zero, self.wrapped)?)?.unwrap_or(default_dtype()))
    }
}

fn number_type(d: DType) -> DType {
    if d.is_complex() {
        default_complex()
    } else if d.is_floating_point() {
        default_dtype()
    } else {
        d
    }
}

/// `at::result_type` over tensors.
///
/// # Errors
/// Dtypes that do not promote with each other.
pub fn result_type<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<DType> {
    let mut r = ResultType::default();
    for t in tensors {
        r.add(t)?;
    }
    r.finish()
}

/// `at::result_type` of a tensor and a number.
///
/// # Errors
/// Dtypes that do not promote with each other.
pub fn result_type_scalar(t: &Tensor, s: Scalar) -> Result<DType> {
    let mut r = ResultType::default();
    r.add(t)?;
    r.add_scalar(s)?;
    r.finish()
}
