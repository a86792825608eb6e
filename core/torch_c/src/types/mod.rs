//! The small value types of `torch`: dtype, device, layout, memory format, quantisation scheme, Size, finfo and iinfo.

pub mod device;
pub mod dtype;
pub mod info;
pub mod layout;
pub mod size;

use pyo3::prelude::*;

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    dtype::init(module)?;
    device::init(module)?;
    layout::init(module)?;
    info::init(module)?;
    size::init(module)
}

/// Puts dtypes, layouts, memory formats and schemes on the `torch` package, as `_initExtension` does.
pub fn export(torch: &Bound<'_, PyModule>) -> PyResult<()> {
    dtype::export(torch)?;
    layout::export(torch)
}
