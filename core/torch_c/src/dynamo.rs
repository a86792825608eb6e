//! `torch._C._dynamo.eval_frame` without frame evaluation: the switches exist, a compiler callback is refused.

use crate::surface;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

thread_local! {
    /// `None` or `False`; a compiler never gets here.
    static CALLBACK: RefCell<Option<bool>> = const { RefCell::new(None) };
    static ISOLATE: Cell<i64> = const { Cell::new(-1) };
}
static SKIP_GUARDS: AtomicBool = AtomicBool::new(false);
static RECURSION_LIMIT: AtomicI64 = AtomicI64::new(-1);

/// Sets who compiles frames and returns who did.
#[pyfunction]
fn set_eval_frame<'py>(callback: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = callback.py();
    let new = match callback.cast::<PyBool>() {
        Ok(off) if !off.is_true() => Some(false),
        _ if callback.is_none() => None,
        _ => {
            return Err(PyNotImplementedError::new_err(
                "torch.compile is not implemented in torchnative: no frame can be compiled",
            ));
        }
    };
    match CALLBACK.with_borrow_mut(|current| std::mem::replace(current, new)) {
        Some(off) => Ok(PyBool::new(py, off).to_owned().into_any()),
        None => Ok(py.None().into_bound(py)),
    }
}

#[pyfunction]
fn get_eval_frame_callback() -> Option<bool> {
    CALLBACK.with_borrow(|current| *current)
}

#[pyfunction]
#[pyo3(name = "set_skip_guard_eval_unsafe")]
fn set_skip_guard_eval(on: bool) -> bool {
    SKIP_GUARDS.swap(on, Ordering::Relaxed)
}

#[pyfunction]
fn get_eval_frame_isolate_recompiles_id() -> i64 {
    ISOLATE.get()
}

#[pyfunction]
fn set_eval_frame_isolate_recompiles_id(id: i64) -> i64 {
    ISOLATE.replace(id)
}

#[pyfunction]
fn get_c_recursion_limit() -> i64 {
    RECURSION_LIMIT.load(Ordering::Relaxed)
}

#[pyfunction]
fn set_c_recursion_limit(limit: i64) {
    RECURSION_LIMIT.store(limit, Ordering::Relaxed);
}

/// Hooks that only a compiled frame would call.
#[pyfunction]
fn set_guard_error_hook(_hook: &Bound<'_, PyAny>) {}

#[pyfunction]
fn set_guard_complete_hook(py: Python<'_>, _hook: &Bound<'_, PyAny>) -> Py<PyAny> {
    py.None()
}

/// No code has compiled versions to forget.
#[pyfunction]
fn reset_code(_code: &Bound<'_, PyAny>) {}

#[pyfunction]
fn set_is_in_mode_without_ignore_compile_internals(_on: bool) {}

pub fn init(root: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &surface::find(root.py(), "torch._C._dynamo.eval_frame")?;
    for function in [
        wrap_pyfunction!(set_eval_frame, module)?,
        wrap_pyfunction!(get_eval_frame_callback, module)?,
        wrap_pyfunction!(set_skip_guard_eval, module)?,
        wrap_pyfunction!(get_eval_frame_isolate_recompiles_id, module)?,
        wrap_pyfunction!(set_eval_frame_isolate_recompiles_id, module)?,
        wrap_pyfunction!(get_c_recursion_limit, module)?,
        wrap_pyfunction!(set_c_recursion_limit, module)?,
        wrap_pyfunction!(set_guard_error_hook, module)?,
        wrap_pyfunction!(set_guard_complete_hook, module)?,
        wrap_pyfunction!(reset_code, module)?,
    ] {
        module.add_function(function)?;
    }
    let guards = &surface::find(root.py(), "torch._C._dynamo.guards")?;
    guards.add_function(wrap_pyfunction!(set_is_in_mode_without_ignore_compile_internals, guards)?)
}
