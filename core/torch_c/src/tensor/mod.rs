//! The Python `Tensor`: its object, properties, hand-bound methods, indexing and construction.

mod apply;
pub mod construct;
mod conversion;
pub mod data;
mod from_memory;
mod getset;
mod hand_bound;
pub mod legacy;
mod methods;
pub mod object;
pub mod subscript;
pub mod value;

use pyo3::prelude::*;

/// Adds `TensorBase`, `_TensorMeta` and the hand-bound functions.
pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let mut defs = crate::parser::method_definitions()?;
    defs.retain(|d| !methods::overrides(d));
    defs.extend(methods::definitions());
    // SAFETY: an all-zero definition ends the list, as CPython expects.
    defs.push(unsafe { std::mem::zeroed() });
    object::init(module, defs, getset::definitions())?;
    conversion::init(module)?;
    construct::init(module)
}
