//! The functions of `torch._C` about the stack of dispatch modes.

use super::stack;
use crate::enums;
use crate::tensor::object;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::cell::Cell;
use torchnative_engine::dispatch::DispatchKey;

thread_local! {
    static ONLY_LIFT_CPU: Cell<bool> = const { Cell::new(false) };
}

/// The kind of a `_TorchDispatchModeKey`.
fn kind(key: &Bound<'_, PyAny>) -> PyResult<usize> {
    let class = key.py().import("torch._C")?.getattr("_TorchDispatchModeKey")?;
    let number = if key.is_instance(&class)? { enums::number(key)? } else { -1 };
    usize::try_from(number)
        .ok()
        .filter(|kind| *kind < stack::KINDS)
        .ok_or_else(|| PyTypeError::new_err("a torch._C._TorchDispatchModeKey is expected"))
}

/// The kind of a mode that is one of the tree's own.
fn kind_of_mode(mode: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    match mode.getattr_opt("_mode_key")? {
        Some(key) if !key.is_none() => kind(&key).map(Some),
        _ => Ok(None),
    }
}

#[pyfunction]
fn _push_on_torch_dispatch_stack(mode: &Bound<'_, PyAny>) -> PyResult<()> {
    if mode.is_none() {
        return Ok(());
    }
    match kind_of_mode(mode)? {
        Some(kind) => stack::set(mode.clone().unbind(), kind),
        None => {
            stack::push(mode.clone().unbind());
            Ok(())
        }
    }
}

#[pyfunction]
#[pyo3(signature = (mode_key = None))]
fn _pop_torch_dispatch_stack(mode_key: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
    match mode_key {
        None => stack::pop().map(|(mode, _)| mode),
        Some(key) => {
            let kind = kind(key)?;
            stack::unset(kind).ok_or_else(|| {
                let name = stack::KIND_NAMES[kind];
                PyRuntimeError::new_err(format!("Attempted to unset {name}, but there wasn't one active."))
            })
        }
    }
}

#[pyfunction]
fn _len_torch_dispatch_stack() -> usize {
    stack::len()
}

#[pyfunction]
fn _get_dispatch_stack_at(py: Python<'_>, level: usize) -> PyResult<Py<PyAny>> {
    stack::at(py, level).ok_or_else(|| PyRuntimeError::new_err("Tried to get stack at idx that's too big"))
}

#[pyfunction]
fn _set_dispatch_mode(mode: &Bound<'_, PyAny>) -> PyResult<()> {
    match kind_of_mode(mode)? {
        Some(kind) => stack::set(mode.clone().unbind(), kind),
        None => Err(PyRuntimeError::new_err("set_dispatch_mode() called with a mode that has no _mode_key")),
    }
}

#[pyfunction]
fn _get_dispatch_mode(py: Python<'_>, mode_key: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    mode_key.map_or(Ok(None), |key| Ok(stack::get(py, kind(key)?)))
}

#[pyfunction]
fn _unset_dispatch_mode(mode_key: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    mode_key.map_or(Ok(None), |key| Ok(stack::unset(kind(key)?)))
}

/// Whether tensors on other devices than the CPU are passed through `lift_fresh` as they are.
#[pyfunction]
fn _only_lift_cpu_tensors() -> bool {
    ONLY_LIFT_CPU.get()
}

#[pyfunction]
fn _set_only_lift_cpu_tensors(value: bool) {
    ONLY_LIFT_CPU.set(value);
}

/// Whether the tensor has the key of fake tensors, which only upstream's fake tensors in C++ have; Python's are a class.
#[pyfunction]
fn _is_fake_tensor(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    match object::get(tensor) {
        Some(tensor) => Ok(tensor.key_set().has_functionality(DispatchKey::Fake)),
        None => Err(PyTypeError::new_err(format!("a Tensor is expected, not {}", tensor.get_type().name()?))),
    }
}

/// Upstream makes sure that a build with CUDA but without a GPU has a guard for the device; here no device needs one.
#[pyfunction]
fn _ensureCUDADeviceGuardSet() {}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    super::kernel::install();
    super::metadata::init(module)?;
    for function in [
        wrap_pyfunction!(_push_on_torch_dispatch_stack, module)?,
        wrap_pyfunction!(_pop_torch_dispatch_stack, module)?,
        wrap_pyfunction!(_len_torch_dispatch_stack, module)?,
        wrap_pyfunction!(_get_dispatch_stack_at, module)?,
        wrap_pyfunction!(_set_dispatch_mode, module)?,
        wrap_pyfunction!(_get_dispatch_mode, module)?,
        wrap_pyfunction!(_unset_dispatch_mode, module)?,
        wrap_pyfunction!(_ensureCUDADeviceGuardSet, module)?,
        wrap_pyfunction!(_is_fake_tensor, module)?,
        wrap_pyfunction!(_only_lift_cpu_tensors, module)?,
        wrap_pyfunction!(_set_only_lift_cpu_tensors, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
