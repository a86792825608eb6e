//! `torch._C._dynamo.eval_frame` without frame evaluation: the switches exist, a compiler callback is refused.

use crate::{enums, surface};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyList, PyType};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

thread_local! {
    /// `None` or `False`; a compiler never gets here.
    static CALLBACK: RefCell<Option<bool>> = const { RefCell::new(None) };
    static ISOLATE: Cell<i64> = const { Cell::new(-1) };
}
static SKIP_GUARDS: AtomicBool = AtomicBool::new(false);
static LRU_CACHE: AtomicBool = AtomicBool::new(true);
static FULLGRAPH_FRAMES: AtomicI64 = AtomicI64::new(-1);
static FULLGRAPH_NESTED: AtomicBool = AtomicBool::new(false);
static GRAPHS_DYNAMIC: AtomicBool = AtomicBool::new(false);
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

/// What the evaluator should do with a frame of some code, and with the frames that it calls.
#[pyclass(name = "_FrameExecStrategy", module = "torch._C._dynamo.eval_frame")]
struct FrameExecStrategy {
    #[pyo3(get)]
    cur_action: Py<PyAny>,
    #[pyo3(get)]
    recursive_action: Py<PyAny>,
}

#[pymethods]
impl FrameExecStrategy {
    #[new]
    #[pyo3(signature = (cur_action = None, recursive_action = None))]
    fn new(
        py: Python<'_>,
        cur_action: Option<Bound<'_, PyAny>>,
        recursive_action: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (cur_action, recursive_action) = match (cur_action, recursive_action) {
            (None, None) => (default_action(py)?, default_action(py)?),
            (Some(cur), Some(recursive)) => (checked_action(&cur)?, checked_action(&recursive)?),
            _ => return Err(PyTypeError::new_err("__init__(): incompatible constructor arguments")),
        };
        Ok(FrameExecStrategy { cur_action, recursive_action })
    }

    #[setter]
    fn set_cur_action(&mut self, action: &Bound<'_, PyAny>) -> PyResult<()> {
        self.cur_action = checked_action(action)?;
        Ok(())
    }

    #[setter]
    fn set_recursive_action(&mut self, action: &Bound<'_, PyAny>) -> PyResult<()> {
        self.recursive_action = checked_action(action)?;
        Ok(())
    }
}

fn actions(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "torch._C._dynamo.eval_frame", "_FrameAction")
}

fn default_action(py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(actions(py)?.getattr(intern!(py, "DEFAULT"))?.unbind())
}

fn checked_action(action: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if action.is_instance(actions(action.py())?)? && enums::number(action).is_ok() {
        return Ok(action.clone().unbind());
    }
    Err(PyTypeError::new_err("expected a member of torch._C._dynamo.eval_frame._FrameAction"))
}

fn check_code(code: &Bound<'_, PyAny>) -> PyResult<()> {
    static CODE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match code.is_instance(CODE.import(code.py(), "types", "CodeType")?)? {
        true => Ok(()),
        false => Err(PyTypeError::new_err("expected a code object")),
    }
}

/// Frames run uncompiled whatever their strategy is, so there is nothing to remember.
#[pyfunction]
fn set_code_exec_strategy(code: &Bound<'_, PyAny>, _strategy: PyRef<'_, FrameExecStrategy>) -> PyResult<()> {
    check_code(code)
}

/// The compiled versions of some code: none.
#[pyfunction]
fn _debug_get_cache_entry_list<'py>(code: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    check_code(code)?;
    Ok(PyList::empty(code.py()))
}

#[pyfunction]
fn _debug_get_precompile_entries<'py>(code: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    _debug_get_cache_entry_list(code)
}

#[pyfunction]
fn _get_cache_entries_for_region<'py>(
    code: &Bound<'py, PyAny>,
    _isolate_recompiles_id: i64,
) -> PyResult<Bound<'py, PyList>> {
    _debug_get_cache_entry_list(code)
}

#[pyfunction]
fn _get_total_cache_entry_count(code: &Bound<'_, PyAny>) -> PyResult<usize> {
    check_code(code).map(|()| 0)
}

#[pyfunction]
fn _reset_precompile_entries(code: &Bound<'_, PyAny>) -> PyResult<()> {
    check_code(code)
}

/// A switch of the cache of compiled versions, which is empty.
#[pyfunction]
fn _set_lru_cache(on: bool) -> bool {
    LRU_CACHE.swap(on, Ordering::Relaxed)
}

#[pyfunction]
fn set_fullgraph_compiled_frame_count(count: i64) -> i64 {
    FULLGRAPH_FRAMES.swap(count, Ordering::Relaxed)
}

#[pyfunction]
fn set_fullgraph_error_on_nested_compile(on: bool) -> bool {
    FULLGRAPH_NESTED.swap(on, Ordering::Relaxed)
}

/// A frame that upstream's tests take for untraceable.
#[pyfunction]
fn unsupported<'py>(_first: &Bound<'py, PyAny>, second: Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    second
}

/// Sets who compiles backward graphs and returns who did, with the wish for dynamic shapes.
#[pyfunction]
fn set_autograd_compiler(compiler: &Bound<'_, PyAny>, dynamic: bool) -> PyResult<(Option<bool>, bool)> {
    if compiler.is_none() {
        return Ok((None, GRAPHS_DYNAMIC.swap(dynamic, Ordering::Relaxed)));
    }
    Err(PyNotImplementedError::new_err(
        "compiled autograd is not implemented in torchnative: no backward graph can be compiled",
    ))
}

/// The cache of compiled backward graphs is empty.
#[pyfunction]
fn clear_cache() {}

#[pyfunction]
fn is_cache_empty() -> bool {
    true
}

/// A log that only a compiled graph would write.
#[pyfunction]
fn set_verbose_logger(_logger: &Bound<'_, PyAny>) -> bool {
    true
}

/// Stands for a missing value where a frame's stack is listed.
#[pyclass(name = "NullStackValue", module = "torch._C._dynamo.eval_frame", frozen)]
struct NullStackValue;

#[pymethods]
impl NullStackValue {
    fn __repr__(&self) -> &'static str {
        "<NULL>"
    }
}

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
        wrap_pyfunction!(set_code_exec_strategy, module)?,
        wrap_pyfunction!(_debug_get_cache_entry_list, module)?,
        wrap_pyfunction!(_debug_get_precompile_entries, module)?,
        wrap_pyfunction!(_get_cache_entries_for_region, module)?,
        wrap_pyfunction!(_get_total_cache_entry_count, module)?,
        wrap_pyfunction!(_reset_precompile_entries, module)?,
        wrap_pyfunction!(_set_lru_cache, module)?,
        wrap_pyfunction!(set_fullgraph_compiled_frame_count, module)?,
        wrap_pyfunction!(set_fullgraph_error_on_nested_compile, module)?,
        wrap_pyfunction!(unsupported, module)?,
    ] {
        module.add_function(function)?;
    }
    module.add_class::<FrameExecStrategy>()?;
    module.add_class::<NullStackValue>()?;
    module.add("NULL_STACK_VALUE", Py::new(root.py(), NullStackValue)?)?;
    // The tree knows this module by another name than the module itself.
    let parent = surface::find(root.py(), "torch._C._dynamo")?;
    let compiler = &surface::find(root.py(), "torch._C._dynamo.autograd_compiler")?;
    for function in [
        wrap_pyfunction!(set_autograd_compiler, compiler)?,
        wrap_pyfunction!(clear_cache, compiler)?,
        wrap_pyfunction!(is_cache_empty, compiler)?,
        wrap_pyfunction!(set_verbose_logger, compiler)?,
    ] {
        compiler.add_function(function)?;
    }
    parent.setattr("compiled_autograd", parent.getattr("autograd_compiler")?)?;
    parent.delattr("autograd_compiler")?;
    let guards = &surface::find(root.py(), "torch._C._dynamo.guards")?;
    guards.add_function(wrap_pyfunction!(set_is_in_mode_without_ignore_compile_internals, guards)?)
}
