#![allow(non_snake_case, reason = "the module is named `_C` upstream")]
// The build sets RUSTC_BOOTSTRAP for this crate alone, so a stable compiler takes it too.
#![cfg_attr(target_os = "emscripten", feature(alloc_error_hook))]
//! The extension module `torch._C` for Pyodide.

mod webgpu;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_C")]
fn torch_c(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(target_os = "emscripten")]
    std::alloc::set_alloc_error_hook(exhausted);
    // Upstream imports this module before anything that needs what the platform lacks.
    module.py().import("torchnative._emscripten")?.call_method0("prepare")?;
    module.add_function(wrap_pyfunction!(_torchnative_panic, module)?)?;
    module.add_function(wrap_pyfunction!(_torchnative_exhaust, module)?)?;
    torchnative_c::init(module)?;
    torchnative_webgpu::python::init(module, webgpu::open)
}

/// Memory that ran out inside the core, a vector's for example. Rust would end the interpreter, and 4 GiB are soon
/// full here; as a panic it becomes a `MemoryError` on the way out.
#[cfg(target_os = "emscripten")]
fn exhausted(layout: std::alloc::Layout) {
    // Without the panic hook, which would print.
    std::panic::resume_unwind(Box::new(torchnative_c::error::Exhausted { bytes: layout.size() }));
}

/// Panics, so that the tests can see a panic arrive as a Python exception on this target too.
#[pyfunction]
fn _torchnative_panic(message: &str) {
    panic!("{message}");
}

/// Grows a vector until memory runs out, for the tests.
#[pyfunction]
fn _torchnative_exhaust() -> PyResult<usize> {
    torchnative_c::error::guard(|| {
        let mut blocks = Vec::new();
        loop {
            let block: Vec<u8> = Vec::with_capacity(64 << 20);
            blocks.push(block);
        }
    })
}
