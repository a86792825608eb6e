//! Process-wide settings: `_get_*` and `_set_*` pairs that store what they are given.

use crate::enums;
use crate::types::{device, dtype};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUserWarning};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use torchnative_engine::settings::{self, Setting};
use torchnative_engine::{DType, Device};

/// A setting that is on or off.
pub struct Flag {
    getter: &'static CStr,
    setter: &'static CStr,
    /// The name upstream's message gives the setter.
    shown: &'static str,
    value: AtomicBool,
}

impl Flag {
    const fn new(getter: &'static CStr, setter: &'static CStr, shown: &'static str, value: bool) -> Flag {
        Flag { getter, setter, shown, value: AtomicBool::new(value) }
    }

    /// Whether the setting is on.
    pub fn get(&self) -> bool {
        self.value.load(Ordering::Relaxed)
    }

    /// Turns the setting on or off.
    pub fn set(&self, on: bool) {
        self.value.store(on, Ordering::Relaxed);
        for (flag, setting) in ENGINE_SETTINGS {
            if std::ptr::eq(self, flag) {
                setting.set(on);
            }
        }
    }
}

/// Flags that operators consult.
static ENGINE_SETTINGS: [(&Flag, &Setting); 3] = [
    (&SDP_FLASH, &settings::SDP_FLASH),
    (&SDP_MATH, &settings::SDP_MATH),
    (&SDP_MATH_REDUCTION, &settings::SDP_MATH_REDUCTION),
];

macro_rules! flags {
    ($($name:ident = $getter:literal, $setter:literal, $shown:literal, $value:literal;)*) => {
        $(#[doc = concat!("What `", stringify!($name), "` is set to.")]
        pub static $name: Flag = Flag::new($getter, $setter, $shown, $value);)*
        const FLAGS: &[&Flag] = &[$(&$name,)*];
    };
}

flags! {
    CUDNN_ENABLED = c"_get_cudnn_enabled", c"_set_cudnn_enabled", "set_enabled_cudnn", true;
    CUDNN_BENCHMARK = c"_get_cudnn_benchmark", c"_set_cudnn_benchmark", "set_benchmark_cudnn", false;
    CUDNN_DETERMINISTIC = c"_get_cudnn_deterministic", c"_set_cudnn_deterministic", "set_deterministic_cudnn", false;
    CUDNN_TF32 = c"_get_cudnn_allow_tf32", c"_set_cudnn_allow_tf32", "set_allow_tf32_cublas", true;
    MIOPEN_IMMEDIATE = c"_get_miopen_immediate", c"_set_miopen_immediate", "set_immediate_miopen", false;
    MKLDNN_ENABLED = c"_get_mkldnn_enabled", c"_set_mkldnn_enabled", "set_enabled_mkldnn", false;
    MKLDNN_DETERMINISTIC = c"_get_mkldnn_deterministic", c"_set_mkldnn_deterministic", "set_deterministic_mkldnn", false;
    NNPACK_ENABLED = c"_get_nnpack_enabled", c"_set_nnpack_enabled", "set_enabled_NNPACK", true;
    CUBLAS_TF32 = c"_get_cublas_allow_tf32", c"_set_cublas_allow_tf32", "set_allow_tf32_cublas", false;
    CUBLAS_FP16_ACCUMULATION = c"_get_cublas_allow_fp16_accumulation", c"_set_cublas_allow_fp16_accumulation",
        "set_allow_fp16_accumulation_cublas", false;
    CUBLASLT_GROUPED_GEMM = c"_get_cublaslt_prefer_grouped_gemm", c"_set_cublaslt_prefer_grouped_gemm",
        "_set_cublaslt_prefer_grouped_gemm", false;
    CPU_FP16_REDUCTION = c"_get_cpu_allow_fp16_reduced_precision_reduction",
        c"_set_cpu_allow_fp16_reduced_precision_reduction", "set_allow_fp16_reduction_cpu", false;
    SDP_FLASH = c"_get_flash_sdp_enabled", c"_set_sdp_use_flash", "set_sdp_use_math", true;
    SDP_MEM_EFFICIENT = c"_get_mem_efficient_sdp_enabled", c"_set_sdp_use_mem_efficient", "set_sdp_use_math", true;
    SDP_MATH = c"_get_math_sdp_enabled", c"_set_sdp_use_math", "set_sdp_use_math", true;
    SDP_CUDNN = c"_get_cudnn_sdp_enabled", c"_set_sdp_use_cudnn", "set_sdp_use_cudnn", true;
    SDP_OVERRIDEABLE = c"_get_overrideable_sdp_enabled", c"_set_sdp_use_overrideable", "set_sdp_use_overrideable", true;
    SDP_FA3 = c"_get_fa3_sdp_enabled", c"_set_sdp_use_fa3", "set_sdp_use_fa3", false;
    SDP_FA4 = c"_get_fa4_sdp_enabled", c"_set_sdp_use_fa4", "set_sdp_use_fa4", false;
    SDP_MATH_REDUCTION = c"_get_math_sdp_allow_fp16_bf16_reduction", c"_set_math_sdp_allow_fp16_bf16_reduction",
        "set_math_sdp_allow_fp16_bf16_reduction", false;
    FILL_UNINITIALIZED = c"_get_deterministic_fill_uninitialized_memory", c"_set_deterministic_fill_uninitialized_memory",
        "expected a bool", true;
    WARN_ALWAYS = c"_get_warnAlways", c"_set_warnAlways", "setWarnOnlyOnce", false;
    BROADCAST_WARN = c"_get_backcompat_broadcast_warn", c"_set_backcompat_broadcast_warn",
        "set_backcompat_broadcast_warn", false;
    KEEPDIM_WARN = c"_get_backcompat_keepdim_warn", c"_set_backcompat_keepdim_warn", "set_backcompat_keepdim_warn", false;
    CHECK_SPARSE = c"_check_sparse_tensor_invariants", c"_set_check_sparse_tensor_invariants",
        "_set_check_sparse_tensor_invariants", false;
    ONLY_LIFT_CPU = c"_only_lift_cpu_tensors", c"_set_only_lift_cpu_tensors", "set_only_lift_cpu_tensors", false;
    NATIVE_AOT = c"_get_native_aot_enabled", c"_set_native_aot_enabled", "_set_native_aot_enabled", true;
    NATIVE_AOT_MASKED = c"_get_native_aot_unconditional_masked", c"_set_native_aot_unconditional_masked",
        "_set_native_aot_unconditional_masked", false;
    DTENSOR_REPLICATION = c"_get_dtensor_allow_implicit_replication", c"_set_dtensor_allow_implicit_replication",
        "_set_dtensor_allow_implicit_replication", false;
    GRAPH_OPTIMIZE = c"_get_graph_executor_optimize", c"_set_graph_executor_optimize", "_set_graph_executor_optimize", true;
    INLINE_EVERYTHING = c"_jit_get_inline_everything_mode", c"_jit_set_inline_everything_mode",
        "_jit_set_inline_everything_mode", false;
    TRACER_WARN = c"_jit_get_tracer_state_warn", c"_jit_set_tracer_state_warn", "_jit_set_tracer_state_warn", true;
    TEXPR_FUSER = c"_jit_texpr_fuser_enabled", c"_jit_set_texpr_fuser_enabled", "_jit_set_texpr_fuser_enabled", true;
    TEXPR_REDUCTIONS = c"_jit_texpr_reductions_enabled", c"_jit_set_texpr_reductions_enabled",
        "_jit_set_texpr_reductions_enabled", false;
    TEXPR_DYNAMIC = c"_jit_texpr_dynamic_shape_enabled", c"_jit_set_texpr_dynamic_shape_enabled",
        "_jit_set_texpr_dynamic_shape_enabled", false;
    TEXPR_FALLBACK = c"_jit_texpr_fallback_allowed", c"_jit_texpr_set_fallback_allowed",
        "_jit_texpr_set_fallback_allowed", false;
    TE_BLOCK_CODE = c"_jit_get_te_generate_block_code", c"_jit_set_te_generate_block_code",
        "_jit_set_te_generate_block_code", false;
    TE_LLVM = c"_jit_get_te_must_use_llvm_cpu", c"_jit_set_te_must_use_llvm_cpu", "_jit_set_te_must_use_llvm_cpu", true;
    SYMBOLIC_SHAPES = c"_jit_symbolic_shapes_test_mode_enabled", c"_jit_set_symbolic_shapes_test_mode",
        "_jit_set_symbolic_shapes_test_mode", false;
    LLGA = c"_jit_llga_enabled", c"_jit_set_llga_enabled", "_jit_set_llga_enabled", false;
    ACCUMULATE_GRAD_WARN = c"_warn_on_accumulate_grad_stream_mismatch", c"_set_warn_on_accumulate_grad_stream_mismatch",
        "set_warn_on_accumulate_grad_stream_mismatch", true;
}

unsafe extern "C" fn get_flag(capsule: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the capsule was made by `pair` around a static `Flag`.
    unsafe {
        let flag = ffi::PyCapsule_GetPointer(capsule, null()).cast::<Flag>();
        if flag.is_null() { std::ptr::null_mut() } else { ffi::PyBool_FromLong((*flag).get().into()) }
    }
}

unsafe extern "C" fn set_flag(capsule: *mut ffi::PyObject, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the capsule was made by `pair` around a static `Flag`; CPython calls this attached, with a live object.
    unsafe {
        let py = Python::assume_attached();
        let flag = ffi::PyCapsule_GetPointer(capsule, null()).cast::<Flag>();
        if flag.is_null() {
            return std::ptr::null_mut();
        }
        if ffi::PyBool_Check(value) == 0 {
            let kind = Bound::from_borrowed_ptr(py, value).get_type();
            let kind = kind.name().map(|name| name.to_string()).unwrap_or_default();
            PyRuntimeError::new_err(format!("{} expects a bool, but got {kind}", (*flag).shown)).restore(py);
            return std::ptr::null_mut();
        }
        (*flag).set(value == ffi::Py_True());
        py.None().into_ptr()
    }
}

fn pair(module: &Bound<'_, PyModule>, flag: &'static Flag) -> PyResult<()> {
    let py = module.py();
    let module_name = PyString::new(py, "torch._C");
    let entries = [
        (flag.getter, get_flag as ffi::PyCFunction, ffi::METH_NOARGS),
        (flag.setter, set_flag as ffi::PyCFunction, ffi::METH_O),
    ];
    for (name, entry, flags) in entries {
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: entry },
            ml_flags: flags,
            ml_doc: null(),
        }));
        // SAFETY: the flag is static and the definition leaked; both outlive the function.
        let function = unsafe {
            let capsule = ffi::PyCapsule_New((&raw const *flag).cast_mut().cast::<c_void>(), null(), None);
            let capsule = Bound::from_owned_ptr_or_err(py, capsule)?;
            Bound::from_owned_ptr_or_err(
                py,
                ffi::PyCFunction_NewEx(definition, capsule.as_ptr(), module_name.as_ptr()),
            )?
        };
        module.setattr(name.to_string_lossy().as_ref(), function)?;
    }
    Ok(())
}

// --- Deterministic algorithms.

/// Whether operators without a deterministic kernel must refuse.
pub static DETERMINISTIC: AtomicBool = AtomicBool::new(false);
/// Whether they only warn.
pub static DETERMINISTIC_WARN_ONLY: AtomicBool = AtomicBool::new(false);

fn expect_bool(function: &str, argument: &str, position: usize, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.cast::<PyBool>() {
        Ok(value) => Ok(value.is_true()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{function}(): argument '{argument}' (position {position}) must be bool, not {}",
            value.get_type().name()?
        ))),
    }
}

#[pyfunction]
#[pyo3(signature = (mode, *, warn_only = None))]
fn _set_deterministic_algorithms(mode: &Bound<'_, PyAny>, warn_only: Option<bool>) -> PyResult<()> {
    let mode = expect_bool("_set_deterministic_algorithms", "mode", 1, mode)?;
    DETERMINISTIC.store(mode, Ordering::Relaxed);
    DETERMINISTIC_WARN_ONLY.store(mode && warn_only.unwrap_or(false), Ordering::Relaxed);
    Ok(())
}

#[pyfunction]
fn _get_deterministic_algorithms() -> bool {
    DETERMINISTIC.load(Ordering::Relaxed)
}

#[pyfunction]
fn _get_deterministic_algorithms_warn_only() -> bool {
    DETERMINISTIC_WARN_ONLY.load(Ordering::Relaxed)
}

/// Whether warnings that are shown once are shown every time.
pub fn warn_always() -> bool {
    WARN_ALWAYS.get()
}

// --- Default dtype and device.

static DEFAULT_DTYPE: AtomicUsize = AtomicUsize::new(DType::Float as usize);

/// The dtype of floating point tensors made without one.
pub fn default_dtype() -> DType {
    DType::from_number(DEFAULT_DTYPE.load(Ordering::Relaxed) as i64).unwrap_or(DType::Float)
}

#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> Bound<'_, dtype::PyDtype> {
    dtype::to_py(py, default_dtype())
}

/// Lets `torch.Storage` be the storage class of the default dtype.
///
/// # Errors
/// TypeError when the dtype has none, as float8 types have.
pub fn export_storage(torch: &Bound<'_, PyModule>, dtype: DType) -> PyResult<()> {
    let name = format!("{}Storage", dtype.scalar_type_name());
    match torch.getattr(name.as_str()) {
        Ok(class) => torch.setattr("Storage", class),
        Err(_) => Err(PyTypeError::new_err(format!("couldn't find storage object {name}"))),
    }
}

#[pyfunction]
fn _set_default_dtype(given: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(dtype) = dtype::from_py(given) else {
        return Err(PyTypeError::new_err(
            "invalid dtype object: only floating-point types are supported as the default type",
        ));
    };
    if !dtype.is_floating_point() {
        return Err(PyTypeError::new_err("only floating-point types are supported as the default type"));
    }
    export_storage(&given.py().import("torch")?, dtype)?;
    DEFAULT_DTYPE.store(dtype as usize, Ordering::Relaxed);
    torchnative_engine::iter::set_default_dtype(dtype);
    Ok(())
}

/// Takes a legacy tensor class (`torch.FloatTensor`); of its two meanings, dtype and device, only the CPU's exists here.
#[pyfunction]
fn _set_default_tensor_type(given: &Bound<'_, PyAny>) -> PyResult<()> {
    PyErr::warn(
        given.py(),
        &given.py().get_type::<PyUserWarning>(),
        c"torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        1,
    )?;
    let dtype = crate::legacy_types::default_of(given)?;
    _set_default_dtype(&dtype::to_py(given.py(), dtype))
}

#[pyfunction]
fn _get_default_device(_py: Python<'_>) -> String {
    device::type_name(Device::CPU.ty)
}

// --- Threads.

static THREADS: AtomicI64 = AtomicI64::new(0);
static INTEROP_THREADS: AtomicI64 = AtomicI64::new(0);

fn cores() -> i64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as i64)
}

fn threads(setting: &AtomicI64) -> i64 {
    match setting.load(Ordering::Relaxed) {
        0 => cores(),
        n => n,
    }
}

fn positive(function: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        return Err(PyRuntimeError::new_err(format!(
            "{function} expects an int, but got {}",
            value.get_type().name()?
        )));
    }
    match value.extract::<i64>()? {
        n if n > 0 => Ok(n),
        _ => Err(PyRuntimeError::new_err(format!("{function} expects a positive integer"))),
    }
}

#[pyfunction]
fn get_num_threads() -> i64 {
    threads(&THREADS)
}

#[pyfunction]
fn set_num_threads(count: &Bound<'_, PyAny>) -> PyResult<()> {
    let count = positive("set_num_threads", count)?;
    THREADS.store(count, Ordering::Relaxed);
    torchnative_engine::cpu::parallel::set_num_threads(count as usize);
    Ok(())
}

#[pyfunction]
fn init_num_threads() {}

#[pyfunction]
fn get_num_interop_threads() -> i64 {
    threads(&INTEROP_THREADS)
}

#[pyfunction]
fn set_num_interop_threads(count: &Bound<'_, PyAny>) -> PyResult<()> {
    let count = positive("set_num_interop_threads", count)?;
    if INTEROP_THREADS.compare_exchange(0, count, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return Err(PyRuntimeError::new_err(
            "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads called",
        ));
    }
    Ok(())
}

/// Denormal numbers are always kept: the processor's mode is not switched, which is what `False` says.
#[pyfunction]
fn set_flush_denormal(mode: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !mode.is_instance_of::<PyBool>() {
        return Err(PyRuntimeError::new_err(format!(
            "flush_denormal expects a bool, but got {}",
            mode.get_type().name()?
        )));
    }
    Ok(false)
}

// --- Precision, backends, priorities.

struct Settings {
    matmul_precision: &'static str,
    precision: HashMap<(&'static str, &'static str), String>,
    numbers: HashMap<&'static str, i64>,
    sdp_order: [i64; 5],
    depthwise: String,
    sm_carveout: Option<i64>,
    onednn_tf32: Option<bool>,
    fp16_reduction: (bool, bool),
    bf16_reduction: (bool, bool),
    logging: String,
    fallback_mode: String,
}

static SETTINGS: LazyLock<Mutex<Settings>> = LazyLock::new(|| {
    Mutex::new(Settings {
        matmul_precision: "highest",
        precision: HashMap::from([(("cuda", "conv"), "tf32".into()), (("cuda", "rnn"), "tf32".into())]),
        numbers: HashMap::from([("benchmark_limit", 10), ("profiled_runs", 1), ("bailout_depth", 20)]),
        sdp_order: [1, 2, 0, 3, 4],
        depthwise: "auto".into(),
        sm_carveout: None,
        onednn_tf32: None,
        fp16_reduction: (true, true),
        bf16_reduction: (true, true),
        logging: String::new(),
        fallback_mode: "warn".into(),
    })
});

fn settings<T>(f: impl FnOnce(&mut Settings) -> T) -> T {
    f(&mut SETTINGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

#[pyfunction]
fn _get_float32_matmul_precision() -> &'static str {
    settings(|s| s.matmul_precision)
}

#[pyfunction]
fn _set_float32_matmul_precision(given: &Bound<'_, PyAny>) -> PyResult<()> {
    let Ok(text) = given.cast::<PyString>() else {
        let kind = given.get_type();
        return Err(PyRuntimeError::new_err(format!(
            "set_float32_matmul_precision expects a str, but got {}",
            kind.name()?
        )));
    };
    let text = text.to_str()?;
    match ["highest", "high", "medium"].into_iter().find(|known| *known == text) {
        Some(known) => settings(|s| s.matmul_precision = known),
        None => {
            let message = std::ffi::CString::new(format!(
                "{text} is not one of 'highest', 'high', or 'medium'; the currentsetFloat32MatmulPrecision call has no effect."
            ))?;
            PyErr::warn(given.py(), &given.py().get_type::<PyUserWarning>(), &message, 1)?;
        }
    }
    Ok(())
}

const BACKENDS: [&str; 3] = ["generic", "cuda", "mkldnn"];
const OPERATIONS: [&str; 4] = ["all", "conv", "rnn", "matmul"];

fn known(kind: &str, names: &[&'static str], given: &str) -> PyResult<&'static str> {
    names
        .iter()
        .find(|name| **name == given)
        .copied()
        .ok_or_else(|| PyRuntimeError::new_err(format!("Unknown {kind}: {given}")))
}

#[pyfunction]
fn _get_fp32_precision_getter(backend: &str, operation: &str) -> PyResult<String> {
    let key = (known("backend", &BACKENDS, backend)?, known("op", &OPERATIONS, operation)?);
    Ok(settings(|s| s.precision.get(&key).cloned()).unwrap_or_else(|| "none".into()))
}

#[pyfunction]
fn _set_fp32_precision_setter(backend: &str, operation: &str, precision: &str) -> PyResult<String> {
    let key = (known("backend", &BACKENDS, backend)?, known("op", &OPERATIONS, operation)?);
    let precision = known("precision", &["ieee", "tf32", "bf16", "none"], precision)?;
    settings(|s| s.precision.insert(key, precision.into()));
    Ok(precision.into())
}

#[pyfunction]
fn _get_sdp_priority_order() -> Vec<i64> {
    settings(|s| s.sdp_order.to_vec())
}

#[pyfunction]
fn _set_sdp_priority_order(order: Vec<i64>) {
    settings(|s| s.sdp_order.iter_mut().zip(order).for_each(|(slot, value)| *slot = value));
}

#[pyfunction]
fn _get_cudnn_depthwise_kernel() -> String {
    settings(|s| s.depthwise.clone())
}

#[pyfunction]
fn _set_cudnn_depthwise_kernel(mode: &str) -> PyResult<()> {
    if !["auto", "cudnn", "native"].contains(&mode) {
        return Err(PyRuntimeError::new_err(format!(
            "Unknown cuDNN depthwise kernel mode: {mode}. Expected one of: auto, cudnn, native"
        )));
    }
    settings(|s| s.depthwise = mode.into());
    Ok(())
}

#[pyfunction]
fn _get_sm_carveout_experimental() -> Option<i64> {
    settings(|s| s.sm_carveout)
}

#[pyfunction]
#[pyo3(signature = (carveout = None))]
fn _set_sm_carveout_experimental(carveout: Option<i64>) {
    settings(|s| s.sm_carveout = carveout);
}

#[pyfunction]
fn _get_onednn_allow_tf32() -> Option<bool> {
    settings(|s| s.onednn_tf32)
}

#[pyfunction]
fn _set_onednn_allow_tf32(on: bool) {
    settings(|s| s.onednn_tf32 = Some(on));
}

#[pyfunction]
fn _get_cublas_allow_fp16_reduced_precision_reduction() -> (bool, bool) {
    settings(|s| s.fp16_reduction)
}

#[pyfunction]
#[pyo3(signature = (on, split_k = true))]
fn _set_cublas_allow_fp16_reduced_precision_reduction(on: bool, split_k: bool) {
    settings(|s| s.fp16_reduction = (on, split_k));
}

#[pyfunction]
fn _get_cublas_allow_bf16_reduced_precision_reduction() -> (bool, bool) {
    settings(|s| s.bf16_reduction)
}

#[pyfunction]
#[pyo3(signature = (on, split_k = true))]
fn _set_cublas_allow_bf16_reduced_precision_reduction(on: bool, split_k: bool) {
    settings(|s| s.bf16_reduction = (on, split_k));
}

#[pyfunction]
fn _cuda_get_cudnn_benchmark_limit() -> i64 {
    settings(|s| s.numbers["benchmark_limit"])
}

#[pyfunction]
fn _cuda_set_cudnn_benchmark_limit(limit: i64) {
    settings(|s| s.numbers.insert("benchmark_limit", limit));
}

#[pyfunction]
fn _jit_get_num_profiled_runs() -> i64 {
    settings(|s| s.numbers["profiled_runs"])
}

#[pyfunction]
fn _jit_set_num_profiled_runs(runs: i64) -> i64 {
    settings(|s| s.numbers.insert("profiled_runs", runs)).unwrap_or(runs)
}

#[pyfunction]
fn _jit_set_bailout_depth(depth: i64) -> i64 {
    settings(|s| s.numbers.insert("bailout_depth", depth)).unwrap_or(depth)
}

#[pyfunction]
fn _jit_get_logging_option() -> String {
    settings(|s| s.logging.clone())
}

#[pyfunction]
fn _jit_set_logging_option(option: String) {
    settings(|s| s.logging = option);
}

#[pyfunction]
fn _get_autograd_fallback_mode() -> String {
    settings(|s| s.fallback_mode.clone())
}

#[pyfunction]
fn _set_autograd_fallback_mode(mode: &str) -> PyResult<()> {
    if !["nothing", "warn", "error"].contains(&mode) {
        return Err(PyRuntimeError::new_err(format!("Unsupported AutogradFallbackMode: {mode}")));
    }
    settings(|s| s.fallback_mode = mode.into());
    Ok(())
}

/// Preferences among libraries that are not here: kept and given back.
fn preferred<'py>(py: Python<'py>, class: &'static str) -> PyResult<Bound<'py, PyAny>> {
    enums::member(py, class, settings(|s| s.numbers.get(class).copied()).unwrap_or(0))
}

#[pyfunction]
fn _get_blas_preferred_backend(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    preferred(py, "_BlasBackend")
}

#[pyfunction]
fn _get_blas_default_backend(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    enums::member(py, "_BlasBackend", 0)
}

#[pyfunction]
fn _set_blas_preferred_backend(backend: &Bound<'_, PyAny>) -> PyResult<()> {
    let backend = enums::number(backend)?;
    settings(|s| s.numbers.insert("_BlasBackend", backend));
    Ok(())
}

#[pyfunction]
fn _get_linalg_preferred_backend(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    preferred(py, "_LinalgBackend")
}

#[pyfunction]
fn _set_linalg_preferred_backend(backend: &Bound<'_, PyAny>) -> PyResult<()> {
    let backend = enums::number(backend)?;
    settings(|s| s.numbers.insert("_LinalgBackend", backend));
    Ok(())
}

#[pyfunction]
fn _get_rocm_fa_preferred_backend(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    preferred(py, "_ROCmFABackend")
}

#[pyfunction]
fn _set_rocm_fa_preferred_backend(backend: &Bound<'_, PyAny>) -> PyResult<()> {
    let backend = enums::number(backend)?;
    settings(|s| s.numbers.insert("_ROCmFABackend", backend));
    Ok(())
}

/// No quantised engine is compiled in: the list holds `NoQEngine` alone.
#[pyfunction]
fn _supported_qengines() -> Vec<i64> {
    vec![0]
}

#[pyfunction]
fn _get_qengine() -> i64 {
    0
}

#[pyfunction]
fn _set_qengine(engine: i64) -> PyResult<()> {
    match engine {
        0 => Ok(()),
        1..=4 => Err(PyRuntimeError::new_err(format!("quantized engine {engine} is not supported"))),
        _ => Err(PyRuntimeError::new_err(format!("Unrecognized Quantized Engine: {engine}"))),
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for flag in FLAGS {
        pair(module, flag)?;
    }
    for function in [
        wrap_pyfunction!(_set_deterministic_algorithms, module)?,
        wrap_pyfunction!(_get_deterministic_algorithms, module)?,
        wrap_pyfunction!(_get_deterministic_algorithms_warn_only, module)?,
        wrap_pyfunction!(get_default_dtype, module)?,
        wrap_pyfunction!(_set_default_dtype, module)?,
        wrap_pyfunction!(_set_default_tensor_type, module)?,
        wrap_pyfunction!(_get_default_device, module)?,
        wrap_pyfunction!(get_num_threads, module)?,
        wrap_pyfunction!(set_num_threads, module)?,
        wrap_pyfunction!(init_num_threads, module)?,
        wrap_pyfunction!(get_num_interop_threads, module)?,
        wrap_pyfunction!(set_num_interop_threads, module)?,
        wrap_pyfunction!(set_flush_denormal, module)?,
        wrap_pyfunction!(_get_float32_matmul_precision, module)?,
        wrap_pyfunction!(_set_float32_matmul_precision, module)?,
        wrap_pyfunction!(_get_fp32_precision_getter, module)?,
        wrap_pyfunction!(_set_fp32_precision_setter, module)?,
        wrap_pyfunction!(_get_sdp_priority_order, module)?,
        wrap_pyfunction!(_set_sdp_priority_order, module)?,
        wrap_pyfunction!(_get_cudnn_depthwise_kernel, module)?,
        wrap_pyfunction!(_set_cudnn_depthwise_kernel, module)?,
        wrap_pyfunction!(_get_sm_carveout_experimental, module)?,
        wrap_pyfunction!(_set_sm_carveout_experimental, module)?,
        wrap_pyfunction!(_get_onednn_allow_tf32, module)?,
        wrap_pyfunction!(_set_onednn_allow_tf32, module)?,
        wrap_pyfunction!(_get_cublas_allow_fp16_reduced_precision_reduction, module)?,
        wrap_pyfunction!(_set_cublas_allow_fp16_reduced_precision_reduction, module)?,
        wrap_pyfunction!(_get_cublas_allow_bf16_reduced_precision_reduction, module)?,
        wrap_pyfunction!(_set_cublas_allow_bf16_reduced_precision_reduction, module)?,
        wrap_pyfunction!(_cuda_get_cudnn_benchmark_limit, module)?,
        wrap_pyfunction!(_cuda_set_cudnn_benchmark_limit, module)?,
        wrap_pyfunction!(_jit_get_num_profiled_runs, module)?,
        wrap_pyfunction!(_jit_set_num_profiled_runs, module)?,
        wrap_pyfunction!(_jit_set_bailout_depth, module)?,
        wrap_pyfunction!(_jit_get_logging_option, module)?,
        wrap_pyfunction!(_jit_set_logging_option, module)?,
        wrap_pyfunction!(_get_autograd_fallback_mode, module)?,
        wrap_pyfunction!(_set_autograd_fallback_mode, module)?,
        wrap_pyfunction!(_get_blas_preferred_backend, module)?,
        wrap_pyfunction!(_get_blas_default_backend, module)?,
        wrap_pyfunction!(_set_blas_preferred_backend, module)?,
        wrap_pyfunction!(_get_linalg_preferred_backend, module)?,
        wrap_pyfunction!(_set_linalg_preferred_backend, module)?,
        wrap_pyfunction!(_get_rocm_fa_preferred_backend, module)?,
        wrap_pyfunction!(_set_rocm_fa_preferred_backend, module)?,
        wrap_pyfunction!(_supported_qengines, module)?,
        wrap_pyfunction!(_get_qengine, module)?,
        wrap_pyfunction!(_set_qengine, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
