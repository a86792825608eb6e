//! The dispatcher as Python sees it: keys, guards, operators, libraries and calls by schema.

mod guards;
pub mod keys;

use pyo3::prelude::*;

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keys::init(module)?;
    guards::init(module)
}
