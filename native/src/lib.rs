#![allow(non_snake_case, reason = "the module is named `_C` upstream")]
//! The extension module `torch._C`.

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_C")]
fn torch_c(module: &Bound<'_, PyModule>) -> PyResult<()> {
    torchnative_c::init(module)?;
    torchnative_webgpu::python::init(module, torchnative_webgpu::native::open)
}
