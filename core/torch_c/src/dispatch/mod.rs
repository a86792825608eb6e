//! The dispatcher as Python sees it: keys, guards, operators, libraries and calls by schema.

pub mod call;
mod convert;
mod decompose;
mod guards;
pub mod keys;
pub mod library;
mod operators;

use pyo3::prelude::*;

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keys::init(module)?;
    guards::init(module)?;
    operators::init(module)?;
    call::init(module)?;
    decompose::init(module)?;
    library::init(module)
}
