//! The state of autocast: for each device type whether it is on and to which dtype it casts.

use crate::types::{device, dtype};
use pyo3::exceptions::{PyDeprecationWarning, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use torchnative_engine::dispatch::{DispatchKey, tls};
use torchnative_engine::{DType, DeviceType};

/// The device types of autocast with their keys and first dtypes, in upstream's order.
const SUPPORTED: [(DeviceType, DispatchKey, DType); 10] = [
    (DeviceType::Cpu, DispatchKey::AutocastCPU, DType::BFloat16),
    (DeviceType::Cuda, DispatchKey::AutocastCUDA, DType::Half),
    (DeviceType::Mtia, DispatchKey::AutocastMTIA, DType::Half),
    (DeviceType::Maia, DispatchKey::AutocastMAIA, DType::Half),
    (DeviceType::Xpu, DispatchKey::AutocastXPU, DType::Half),
    (DeviceType::Ipu, DispatchKey::AutocastIPU, DType::Half),
    (DeviceType::Hpu, DispatchKey::AutocastHPU, DType::BFloat16),
    (DeviceType::Xla, DispatchKey::AutocastXLA, DType::BFloat16),
    (DeviceType::PrivateUse1, DispatchKey::AutocastPrivateUse1, DType::Half),
    (DeviceType::Mps, DispatchKey::AutocastMPS, DType::Half),
];

thread_local! {
    static DTYPES: RefCell<[DType; SUPPORTED.len()]> = const {
        let mut dtypes = [DType::Half; SUPPORTED.len()];
        let mut i = 0;
        while i < SUPPORTED.len() {
            dtypes[i] = SUPPORTED[i].2;
            i += 1;
        }
        RefCell::new(dtypes)
    };
    static NESTING: Cell<i64> = const { Cell::new(0) };
    static CACHE: Cell<bool> = const { Cell::new(true) };
}

fn index(ty: DeviceType) -> PyResult<usize> {
    SUPPORTED.iter().position(|(known, ..)| *known == ty).ok_or_else(|| {
        PyRuntimeError::new_err(format!(
            "unknown device type for autocast in get_autocast_dispatch_key_from_device_type: {}",
            device::type_name(ty)
        ))
    })
}

fn parse(name: &str) -> PyResult<DeviceType> {
    Ok(device::parse(name)?.ty)
}

/// Whether autocast is on for a device type in this thread.
pub fn is_on(ty: DeviceType) -> PyResult<bool> {
    Ok(!tls::is_excluded(SUPPORTED[index(ty)?].1))
}

fn set_on(ty: DeviceType, on: bool) -> PyResult<()> {
    tls::set_key_excluded(SUPPORTED[index(ty)?].1, !on);
    Ok(())
}

/// The dtype autocast casts to on a device type in this thread.
pub fn target(ty: DeviceType) -> PyResult<DType> {
    let index = index(ty).map_err(|_| PyRuntimeError::new_err("unsupported scalarType"))?;
    Ok(DTYPES.with_borrow(|dtypes| dtypes[index]))
}

fn set_target(ty: DeviceType, given: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(dtype) = dtype::from_py(given) else {
        return Err(PyTypeError::new_err(format!(
            "dtype must be a torch.dtype, not {}",
            given.get_type().name()?
        )));
    };
    let index = index(ty)?;
    DTYPES.with_borrow_mut(|dtypes| dtypes[index] = dtype);
    Ok(())
}

#[pyfunction]
#[pyo3(signature = (device_type = None))]
fn is_autocast_enabled(device_type: Option<&str>) -> PyResult<bool> {
    is_on(device_type.map_or(Ok(DeviceType::Cuda), parse)?)
}

/// Takes a device type and a switch, or the switch alone for CUDA.
#[pyfunction]
#[pyo3(signature = (device_type, enabled = None))]
fn set_autocast_enabled(device_type: &Bound<'_, PyAny>, enabled: Option<bool>) -> PyResult<()> {
    match enabled {
        Some(on) => set_on(parse(device_type.extract()?)?, on),
        None => set_on(DeviceType::Cuda, device_type.extract()?),
    }
}

#[pyfunction]
fn get_autocast_dtype<'py>(py: Python<'py>, device_type: &str) -> PyResult<Bound<'py, dtype::PyDtype>> {
    Ok(dtype::to_py(py, target(parse(device_type)?)?))
}

#[pyfunction]
fn set_autocast_dtype(device_type: &str, dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    set_target(parse(device_type)?, dtype)
}

#[pyfunction]
fn _is_any_autocast_enabled() -> bool {
    SUPPORTED.iter().any(|(_, key, _)| !tls::is_excluded(*key))
}

#[pyfunction]
fn _is_autocast_available(device_type: &str) -> PyResult<bool> {
    Ok(index(parse(device_type)?).is_ok())
}

#[pyfunction]
fn _autocast_supported_devices() -> Vec<String> {
    SUPPORTED.iter().map(|(ty, ..)| device::type_name(*ty)).collect()
}

#[pyfunction]
fn autocast_increment_nesting() -> i64 {
    NESTING.set(NESTING.get() + 1);
    NESTING.get()
}

#[pyfunction]
fn autocast_decrement_nesting() -> i64 {
    NESTING.set(NESTING.get() - 1);
    NESTING.get()
}

#[pyfunction]
fn is_autocast_cache_enabled() -> bool {
    CACHE.get()
}

#[pyfunction]
fn set_autocast_cache_enabled(enabled: bool) {
    CACHE.set(enabled);
}

/// Casts of weights are not kept here, so there is nothing to forget.
#[pyfunction]
fn clear_autocast_cache() {}

/// The functions of single devices, which upstream keeps with a warning.
macro_rules! deprecated {
    ($($is:ident, $set:ident, $get_dtype:ident, $set_dtype:ident, $ty:ident, $name:literal;)*) => {
        $(
            #[pyfunction]
            fn $is(py: Python<'_>) -> PyResult<bool> {
                warn(py, stringify!($is), "is_autocast_enabled", $name)?;
                is_on(DeviceType::$ty)
            }
            #[pyfunction]
            fn $set(py: Python<'_>, enabled: bool) -> PyResult<()> {
                warn(py, stringify!($set), "set_autocast_enabled", $name)?;
                set_on(DeviceType::$ty, enabled)
            }
            #[pyfunction]
            fn $get_dtype(py: Python<'_>) -> PyResult<Bound<'_, dtype::PyDtype>> {
                warn(py, stringify!($get_dtype), "get_autocast_dtype", $name)?;
                Ok(dtype::to_py(py, target(DeviceType::$ty)?))
            }
            #[pyfunction]
            fn $set_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
                warn(dtype.py(), stringify!($set_dtype), "set_autocast_dtype", $name)?;
                set_target(DeviceType::$ty, dtype)
            }
        )*

        fn add_deprecated(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(
                module.add_function(wrap_pyfunction!($is, module)?)?;
                module.add_function(wrap_pyfunction!($set, module)?)?;
                module.add_function(wrap_pyfunction!($get_dtype, module)?)?;
                module.add_function(wrap_pyfunction!($set_dtype, module)?)?;
            )*
            Ok(())
        }
    };
}

deprecated! {
    is_autocast_cpu_enabled, set_autocast_cpu_enabled, get_autocast_cpu_dtype, set_autocast_cpu_dtype, Cpu, "cpu";
    is_autocast_ipu_enabled, set_autocast_ipu_enabled, get_autocast_ipu_dtype, set_autocast_ipu_dtype, Ipu, "ipu";
    is_autocast_xla_enabled, set_autocast_xla_enabled, get_autocast_xla_dtype, set_autocast_xla_dtype, Xla, "xla";
}

#[pyfunction]
fn get_autocast_gpu_dtype(py: Python<'_>) -> PyResult<Bound<'_, dtype::PyDtype>> {
    warn(py, "get_autocast_gpu_dtype", "get_autocast_dtype", "cuda")?;
    Ok(dtype::to_py(py, target(DeviceType::Cuda)?))
}

#[pyfunction]
fn set_autocast_gpu_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    warn(dtype.py(), "set_autocast_gpu_dtype", "set_autocast_dtype", "cuda")?;
    set_target(DeviceType::Cuda, dtype)
}

fn warn(py: Python<'_>, old: &str, new: &str, device: &str) -> PyResult<()> {
    let message = std::ffi::CString::new(format!(
        "torch.{old}() is deprecated. Please use torch.{new}('{device}') instead."
    ))?;
    PyErr::warn(py, &py.get_type::<PyDeprecationWarning>(), &message, 1)
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_deprecated(module)?;
    for function in [
        wrap_pyfunction!(is_autocast_enabled, module)?,
        wrap_pyfunction!(set_autocast_enabled, module)?,
        wrap_pyfunction!(get_autocast_dtype, module)?,
        wrap_pyfunction!(set_autocast_dtype, module)?,
        wrap_pyfunction!(_is_any_autocast_enabled, module)?,
        wrap_pyfunction!(_is_autocast_available, module)?,
        wrap_pyfunction!(_autocast_supported_devices, module)?,
        wrap_pyfunction!(autocast_increment_nesting, module)?,
        wrap_pyfunction!(autocast_decrement_nesting, module)?,
        wrap_pyfunction!(is_autocast_cache_enabled, module)?,
        wrap_pyfunction!(set_autocast_cache_enabled, module)?,
        wrap_pyfunction!(clear_autocast_cache, module)?,
        wrap_pyfunction!(get_autocast_gpu_dtype, module)?,
        wrap_pyfunction!(set_autocast_gpu_dtype, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
