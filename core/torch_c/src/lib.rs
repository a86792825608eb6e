#![allow(non_snake_case, reason = "functions carry the names of upstream's C API")]
//! The `torch._C` surface: argument parsing, the Tensor type, modes and submodules.

pub mod accelerator;
pub mod autocast;
mod autograd;
mod capability;
mod cpu;
pub mod dispatch;
mod dlpack;
mod docs;
mod dynamo;
mod enums;
pub mod error;
mod flags;
mod foreach;
mod functionalize;
mod functorch;
mod fx;
pub mod generator;
pub mod grad;
pub mod jit;
mod legacy_types;
mod misc;
mod numpy;
pub mod parser;
mod profiler;
mod return_types;
mod serialization;
pub mod storage;
mod stream;
pub mod surface;
pub mod tensor;
pub mod torch_dispatch;
pub mod torch_function;
pub mod types;

use pyo3::prelude::*;

/// Fills the module `torch._C`.
///
/// # Errors
/// Only when CPython itself fails, or the generated tables are damaged.
pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::guard(|| {
        error::install_warnings();
        torchnative_engine::ops::register_all();
        surface::create_modules(module)?;
        types::init(module)?;
        enums_and_flags(module)?;
        jit::init(module)?;
        fx::init(module)?;
        dispatch::init(module)?;
        grad::init(module)?;
        autocast::init(module)?;
        functorch::init(module)?;
        dynamo::init(module)?;
        misc::init(module)?;
        capability::init(module)?;
        cpu::init(module)?;
        profiler::init(module)?;
        stream::init(module)?;
        torch_dispatch::init(module)?;
        torch_function::init(module)?;
        return_types::init(module.py())?;
        storage::init(module)?;
        autograd::init(module)?;
        foreach::init(module)?;
        dlpack::init(module)?;
        serialization::init(module)?;
        tensor::init(module)?;
        torch_dispatch::init_tensors(module)?;
        generator::init(module)?;
        parser::init(module)?;
        docs::init(module)?;
        docs::clear(module.py())?;
        surface::fill(module.py())
    })
}

fn enums_and_flags(module: &Bound<'_, PyModule>) -> PyResult<()> {
    flags::init(module)?;
    accelerator::init(module)
}
