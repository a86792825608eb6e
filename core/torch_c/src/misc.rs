//! Functions of the module that belong to no family: initialisation, logging, small helpers, build flags.

use crate::types;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::RefCell;
use std::ffi::CString;

/// The second half of the module's start: what needs the `torch` package to exist.
#[pyfunction]
fn _initExtension(py: Python<'_>, _shm_manager: &Bound<'_, PyAny>) -> PyResult<()> {
    let torch = py.import("torch")?;
    crate::functionalize::export(&torch)?;
    // The storage of the default dtype.
    torch.setattr("Storage", torch.getattr("FloatStorage")?)?;
    types::export(&torch)?;
    crate::legacy_types::export(&torch)?;
    crate::flags::export_storage(&torch, crate::flags::default_dtype())
}

#[pyfunction]
fn _init_names(_classes: &Bound<'_, PyAny>) {}

/// Upstream registers the classes of a subsystem late; here they are there from the start.
#[pyfunction]
fn _jit_init() -> bool {
    true
}

#[pyfunction]
fn _autograd_init() -> bool {
    true
}

/// Adds to `torch.multiprocessing` what it has in C.
#[pyfunction]
fn _multiprocessing_init(py: Python<'_>) -> PyResult<()> {
    let module = py.import("torch.multiprocessing")?;
    module.setattr("_prctl_pr_set_pdeathsig", wrap_pyfunction!(_prctl_pr_set_pdeathsig, py)?)
}

/// Asks the kernel to send a signal to this process when its parent dies, where the kernel can.
#[pyfunction]
fn _prctl_pr_set_pdeathsig(signal: i32) -> PyResult<()> {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn prctl(option: i32, ...) -> i32;
        }
        const PR_SET_PDEATHSIG: i32 = 1;
        // SAFETY: the option takes one number and touches no memory.
        if unsafe { prctl(PR_SET_PDEATHSIG, signal as std::ffi::c_ulong) } < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    let _ = signal;
    Ok(())
}

/// Upstream's tracer learns here that warnings come from Python.
#[pyfunction]
fn _tracer_warn_use_python() {}

#[pyfunction]
fn _get_thread_name() -> String {
    std::thread::current().name().unwrap_or("python").to_owned()
}

/// Names the thread for the system's tools, where they show such a name.
#[pyfunction]
fn _set_thread_name(name: &str) -> PyResult<()> {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn prctl(option: i32, ...) -> i32;
        }
        const PR_SET_NAME: i32 = 15;
        let name = CString::new(name)?;
        // SAFETY: the kernel copies at most sixteen bytes of a C string.
        unsafe { prctl(PR_SET_NAME, name.as_ptr()) };
    }
    let _ = name;
    Ok(())
}

/// Usage is not reported to anyone.
#[pyfunction]
fn _log_api_usage_once(_event: &Bound<'_, PyAny>) {}

#[pyfunction]
#[pyo3(signature = (_event, _metadata = None))]
fn _log_api_usage_metadata(_event: &Bound<'_, PyAny>, _metadata: Option<&Bound<'_, PyAny>>) {}

/// Reads a variable of the process, which Python's copy of the environment may not show.
#[pyfunction]
fn _getenv(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[pyfunction]
fn _get_cpp_backtrace(_skip: i64, _frames: i64) -> String {
    String::new()
}

#[pyfunction]
fn _get_symbolize_mode() -> &'static str {
    "fast"
}

/// The names of capabilities upstream answers with the level of SIMD its kernels were built for.
#[pyfunction]
fn _get_cpu_capability() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        return "AVX2";
    }
    if cfg!(target_family = "wasm") { "SIMD128" } else { "DEFAULT" }
}

#[pyfunction]
fn _show_config() -> String {
    format!(
        "PyTorch on torchnative {}:\n  - Rust core, {} build\n  - CPU capability usage: {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        _get_cpu_capability()
    )
}

#[pyfunction]
fn _cxx_flags() -> &'static str {
    ""
}

#[pyfunction]
fn _parallel_info() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "std::thread::available_parallelism() : {threads}\nATen parallel backend: {}\n",
        if cfg!(target_family = "wasm") { "none" } else { "rayon" }
    )
}

/// Broadcasts two shapes.
#[pyfunction]
fn _infer_size<'py>(first: &Bound<'py, PyAny>, second: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let py = first.py();
    let class = types::size::class(py)?;
    for (position, shape) in [first, second].into_iter().enumerate() {
        if !shape.is_instance(class)? {
            return Err(PyRuntimeError::new_err(format!(
                "expected a torch.Size as argument {}",
                position + 1
            )));
        }
    }
    let (a, b): (Vec<i64>, Vec<i64>) = (first.extract()?, second.extract()?);
    let length = a.len().max(b.len());
    let mut sizes = vec![1; length];
    for (i, size) in sizes.iter_mut().enumerate() {
        let at = |shape: &[i64]| (i + shape.len()).checked_sub(length).map_or(1, |index| shape[index]);
        let (x, y) = (at(&a), at(&b));
        if x != y && x != 1 && y != 1 {
            return Err(PyRuntimeError::new_err(format!(
                "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
            )));
        }
        *size = if x == 1 { y } else { x };
    }
    types::size::new(py, &sizes)
}

#[pyfunction]
#[pyo3(signature = (message, category = None, stacklevel = 1))]
fn _warn(message: &Bound<'_, PyAny>, category: Option<Bound<'_, PyAny>>, stacklevel: i32) -> PyResult<()> {
    let py = message.py();
    let category = category.unwrap_or_else(|| py.get_type::<PyUserWarning>().into_any());
    PyErr::warn(py, &category, &CString::new(message.str()?.to_str()?)?, stacklevel)
}

// --- TorchScript's tracer and executor, which never run.

#[pyfunction]
fn _get_tracing_state() -> Option<bool> {
    None
}

#[pyfunction]
fn _set_tracing_state(state: &Bound<'_, PyAny>) -> PyResult<()> {
    if state.is_none() {
        return Ok(());
    }
    Err(pyo3::exceptions::PyNotImplementedError::new_err("torch.jit.trace is not implemented in torchnative"))
}

#[pyfunction]
fn _is_tracing() -> bool {
    false
}

#[pyfunction]
#[pyo3(signature = (_mode = true))]
fn _jit_set_profiling_executor(_mode: bool) -> bool {
    true
}

#[pyfunction]
fn _jit_set_profiling_mode(_mode: bool) -> bool {
    true
}

// --- Objects this thread keeps for Python code.

thread_local! {
    static OBJECTS: RefCell<Option<Py<PyDict>>> = const { RefCell::new(None) };
}

fn thread_objects(py: Python<'_>) -> Bound<'_, PyDict> {
    OBJECTS.with_borrow_mut(|slot| slot.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py).clone())
}

/// Runs `f` and puts the thread's objects back as they were: what a nested backward pass keeps and removes is its own.
///
/// # Errors
/// What `f` raises, exhausted memory.
pub fn keeping_thread_objects<T>(py: Python<'_>, f: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let before = thread_objects(py).copy()?.unbind();
    let result = f();
    OBJECTS.with_borrow_mut(|slot| *slot = Some(before));
    result
}

#[pyfunction]
fn _stash_obj_in_tls(key: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    thread_objects(object.py()).set_item(key, object)
}

#[pyfunction]
fn _get_obj_in_tls<'py>(py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    match thread_objects(py).get_item(key)? {
        Some(object) => Ok(object),
        None => Err(PyRuntimeError::new_err(format!("no object was kept in this thread under {key:?}"))),
    }
}

#[pyfunction]
fn _is_key_in_tls(py: Python<'_>, key: &str) -> PyResult<bool> {
    thread_objects(py).contains(key)
}

#[pyfunction]
fn _remove_obj_from_tls(py: Python<'_>, key: &str) -> PyResult<()> {
    let objects = thread_objects(py);
    if !objects.contains(key)? {
        return Err(PyKeyError::new_err(key.to_owned()));
    }
    objects.del_item(key)
}

thread_local! {
    static EXEC_GROUP: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

/// Keeps the group of backward passes that share what checkpoints recompute (`GraphExecGroup`).
#[pyfunction]
fn _set_graph_exec_group(group: Option<Py<PyAny>>) {
    let old = EXEC_GROUP.with_borrow_mut(|slot| std::mem::replace(slot, group));
    drop(old);
}

#[pyfunction]
fn _get_graph_exec_group(py: Python<'_>) -> Option<Py<PyAny>> {
    EXEC_GROUP.with_borrow(|slot| slot.as_ref().map(|group| group.clone_ref(py)))
}

// --- Worker processes of data loaders.

thread_local! {
    static WORKERS: RefCell<Vec<(i64, Vec<i32>)>> = const { RefCell::new(Vec::new()) };
}

#[pyfunction]
fn _set_worker_signal_handlers() {}

#[pyfunction]
fn _set_worker_pids(loader: i64, pids: Vec<i32>) {
    WORKERS.with_borrow_mut(|workers| workers.push((loader, pids)));
}

#[pyfunction]
fn _remove_worker_pids(loader: i64) {
    WORKERS.with_borrow_mut(|workers| workers.retain(|(known, _)| *known != loader));
}

/// Whether a worker of a loader has died; the loader itself finds out by its queue.
#[pyfunction]
fn _error_if_any_worker_fails() {}

// --- Classes of opaque Python objects that schemas may name.

thread_local! {
    static OPAQUE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

#[pyfunction]
fn _register_opaque_type(name: String) {
    OPAQUE.with_borrow_mut(|names| names.push(name));
}

#[pyfunction]
fn _unregister_opaque_type(name: &str) {
    OPAQUE.with_borrow_mut(|names| names.retain(|known| known != name));
}

#[pyfunction]
fn _is_opaque_type_registered(name: &str) -> bool {
    OPAQUE.with_borrow(|names| names.iter().any(|known| known == name))
}

/// DLPack's table of C functions is not offered: consumers use the capsule protocol.
#[pyfunction]
fn _dlpack_exchange_api() -> Option<bool> {
    None
}

#[pyfunction]
fn _const_dlpack_exchange_api() -> Option<bool> {
    None
}

/// What this build has; every other `_has_…` of upstream is hardware or a library that is not here.
const CAPABILITIES: &[(&str, bool)] = &[
    ("_has_cuda", false),
    ("_has_cudnn", false),
    ("_has_cusparselt", false),
    ("_has_eigen_sparse", false),
    ("_has_gds", false),
    ("_has_kleidiai", false),
    ("_has_magma", false),
    ("_has_mkldnn", false),
    ("_has_mkldnn_acl", false),
    ("_has_mps", false),
    ("_has_xpu", false),
    ("has_lapack", true),
    ("has_mkl", false),
    ("has_openmp", false),
    ("has_spectral", true),
];

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for (name, present) in CAPABILITIES {
        module.add(*name, *present)?;
    }
    for function in [
        wrap_pyfunction!(_initExtension, module)?,
        wrap_pyfunction!(_init_names, module)?,
        wrap_pyfunction!(_jit_init, module)?,
        wrap_pyfunction!(_autograd_init, module)?,
        wrap_pyfunction!(_multiprocessing_init, module)?,
        wrap_pyfunction!(_tracer_warn_use_python, module)?,
        wrap_pyfunction!(_get_thread_name, module)?,
        wrap_pyfunction!(_set_thread_name, module)?,
        wrap_pyfunction!(_log_api_usage_once, module)?,
        wrap_pyfunction!(_log_api_usage_metadata, module)?,
        wrap_pyfunction!(_getenv, module)?,
        wrap_pyfunction!(_get_cpp_backtrace, module)?,
        wrap_pyfunction!(_get_symbolize_mode, module)?,
        wrap_pyfunction!(_get_cpu_capability, module)?,
        wrap_pyfunction!(_show_config, module)?,
        wrap_pyfunction!(_cxx_flags, module)?,
        wrap_pyfunction!(_parallel_info, module)?,
        wrap_pyfunction!(_infer_size, module)?,
        wrap_pyfunction!(_warn, module)?,
        wrap_pyfunction!(_get_tracing_state, module)?,
        wrap_pyfunction!(_set_tracing_state, module)?,
        wrap_pyfunction!(_is_tracing, module)?,
        wrap_pyfunction!(_jit_set_profiling_executor, module)?,
        wrap_pyfunction!(_jit_set_profiling_mode, module)?,
        wrap_pyfunction!(_stash_obj_in_tls, module)?,
        wrap_pyfunction!(_set_graph_exec_group, module)?,
        wrap_pyfunction!(_get_graph_exec_group, module)?,
        wrap_pyfunction!(_get_obj_in_tls, module)?,
        wrap_pyfunction!(_is_key_in_tls, module)?,
        wrap_pyfunction!(_remove_obj_from_tls, module)?,
        wrap_pyfunction!(_set_worker_signal_handlers, module)?,
        wrap_pyfunction!(_set_worker_pids, module)?,
        wrap_pyfunction!(_remove_worker_pids, module)?,
        wrap_pyfunction!(_error_if_any_worker_fails, module)?,
        wrap_pyfunction!(_register_opaque_type, module)?,
        wrap_pyfunction!(_unregister_opaque_type, module)?,
        wrap_pyfunction!(_is_opaque_type_registered, module)?,
        wrap_pyfunction!(_dlpack_exchange_api, module)?,
        wrap_pyfunction!(_const_dlpack_exchange_api, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
