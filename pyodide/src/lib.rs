#![allow(non_snake_case, reason = "the module is named `_C` upstream")]
//! The extension module `torch._C` for Pyodide.

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_C")]
fn torch_c(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Upstream imports this module before anything that needs what the platform lacks.
    module.py().import("torchnative._emscripten")?.call_method0("prepare")?;
    module.add_function(wrap_pyfunction!(_torchnative_panic, module)?)?;
    torchnative_c::init(module)
}

/// Panics, so that the tests can see a panic arrive as a Python exception on this target too.
#[pyfunction]
fn _torchnative_panic(message: &str) {
    panic!("{message}");
}
