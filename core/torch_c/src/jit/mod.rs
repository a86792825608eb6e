//! What the Python tree needs of TorchScript: types, schemas and syntax tree nodes. The compiler itself is not here.

mod compilation;
pub mod schema;
mod schema_info;
pub mod tree_views;
pub mod types;

use pyo3::prelude::*;

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    types::init(module)?;
    schema_info::init(module)?;
    schema::init(module)?;
    compilation::init(module)?;
    tree_views::init(module.py())
}
