//! `torch._C._functorch` without transforms: no level is ever entered, and no tensor is wrapped.

use crate::surface;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static INPLACE_REQUIRES_GRAD: Cell<bool> = const { Cell::new(false) };
    static SINGLE_LEVEL_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

#[pyfunction]
fn peek_interpreter_stack() -> Option<bool> {
    None
}

#[pyfunction]
fn get_interpreter_stack() -> Option<bool> {
    None
}

#[pyfunction]
fn maybe_current_level() -> Option<i64> {
    None
}

#[pyfunction]
fn get_dynamic_layer_stack_depth() -> i64 {
    0
}

#[pyfunction]
fn maybe_get_level(_tensor: &Bound<'_, PyAny>) -> i64 {
    -1
}

#[pyfunction]
fn maybe_get_bdim(_tensor: &Bound<'_, PyAny>) -> i64 {
    -1
}

#[pyfunction]
fn get_unwrapped(_tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    Err(PyRuntimeError::new_err("No wrappers present!"))
}

#[pyfunction]
fn unwrap_if_dead(tensor: Bound<'_, PyAny>) -> Bound<'_, PyAny> {
    tensor
}

/// The questions about a tensor that are all answered with no.
macro_rules! never {
    ($($name:ident),* $(,)?) => {
        $(
            #[pyfunction]
            fn $name(_tensor: &Bound<'_, PyAny>) -> bool {
                false
            }
        )*

        fn add_questions(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
}

never!(
    is_functorch_wrapped_tensor,
    is_gradtrackingtensor,
    is_batchedtensor,
    is_legacy_batchedtensor,
    is_functionaltensor,
    is_dead_tensor_wrapper,
);

#[pyfunction]
fn get_inplace_requires_grad_allowed() -> bool {
    INPLACE_REQUIRES_GRAD.get()
}

#[pyfunction]
fn set_inplace_requires_grad_allowed(on: bool) {
    INPLACE_REQUIRES_GRAD.set(on);
}

#[pyfunction]
fn get_single_level_autograd_function_allowed() -> bool {
    SINGLE_LEVEL_FUNCTION.get()
}

#[pyfunction]
fn set_single_level_autograd_function_allowed(on: bool) {
    SINGLE_LEVEL_FUNCTION.set(on);
}

#[pyfunction]
fn _are_functorch_transforms_active() -> bool {
    false
}

pub fn init(root: &Bound<'_, PyModule>) -> PyResult<()> {
    root.add_function(wrap_pyfunction!(_are_functorch_transforms_active, root)?)?;
    let module = &surface::find(root.py(), "torch._C._functorch")?;
    add_questions(module)?;
    for function in [
        wrap_pyfunction!(peek_interpreter_stack, module)?,
        wrap_pyfunction!(get_interpreter_stack, module)?,
        wrap_pyfunction!(maybe_current_level, module)?,
        wrap_pyfunction!(get_dynamic_layer_stack_depth, module)?,
        wrap_pyfunction!(maybe_get_level, module)?,
        wrap_pyfunction!(maybe_get_bdim, module)?,
        wrap_pyfunction!(get_unwrapped, module)?,
        wrap_pyfunction!(unwrap_if_dead, module)?,
        wrap_pyfunction!(get_inplace_requires_grad_allowed, module)?,
        wrap_pyfunction!(set_inplace_requires_grad_allowed, module)?,
        wrap_pyfunction!(get_single_level_autograd_function_allowed, module)?,
        wrap_pyfunction!(set_single_level_autograd_function_allowed, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
