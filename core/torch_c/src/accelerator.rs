//! The accelerator of the process: the out-of-tree device, once it has registered itself.

use crate::types::device;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyModule;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, RwLock};
use torchnative_engine::{Device, DeviceType};

const DEFAULT_NAME: &str = "privateuseone";
static NAME: LazyLock<RwLock<String>> = LazyLock::new(|| RwLock::new(DEFAULT_NAME.into()));
static PRESENT: AtomicBool = AtomicBool::new(false);

/// The name of the out-of-tree device.
pub fn privateuse1_name() -> String {
    NAME.read().map(|name| name.clone()).unwrap_or_else(|_| DEFAULT_NAME.into())
}

/// Renames the out-of-tree device, once.
pub fn rename(name: &str) -> PyResult<()> {
    let taken = DeviceType::ALL.iter().any(|(ty, known)| *ty != DeviceType::PrivateUse1 && *known == name);
    if taken {
        return Err(PyRuntimeError::new_err(format!(
            "Cannot register privateuse1 backend with in-tree device name: {name}"
        )));
    }
    let mut current = NAME.write().map_err(|_| PyRuntimeError::new_err("the device name is unusable"))?;
    if *current != DEFAULT_NAME && *current != name {
        return Err(PyRuntimeError::new_err(format!(
            "torch.register_privateuse1_backend() has already been set! Current backend: {current}"
        )));
    }
    name.clone_into(&mut current);
    torchnative_engine::device::rename_private(name);
    Ok(())
}

/// Says that the out-of-tree device has a backend.
pub fn set_present() {
    PRESENT.store(true, Ordering::Relaxed);
}

/// The type of the accelerator, if there is one.
pub fn device_type() -> Option<DeviceType> {
    PRESENT.load(Ordering::Relaxed).then_some(DeviceType::PrivateUse1)
}

fn none_available() -> PyErr {
    PyRuntimeError::new_err("Cannot access accelerator device when none is available.")
}

#[pyfunction]
fn _get_privateuse1_backend_name() -> String {
    privateuse1_name()
}

#[pyfunction]
fn _rename_privateuse1_backend(name: &str) -> PyResult<()> {
    rename(name)
}

/// The accelerator, or the CPU where there is none.
#[pyfunction]
#[pyo3(signature = (_check = None))]
fn _get_accelerator(py: Python<'_>, _check: Option<bool>) -> PyResult<Bound<'_, device::PyDevice>> {
    let device = device_type().map_or(Device::CPU, |ty| Device { ty, index: -1 });
    device::to_py(py, device)
}

#[pyfunction]
fn _accelerator_getAccelerator(py: Python<'_>) -> PyResult<Option<Bound<'_, device::PyDevice>>> {
    device_type().map(|ty| device::to_py(py, Device { ty, index: -1 })).transpose()
}

#[pyfunction]
fn _accelerator_hooks_device_count() -> i64 {
    i64::from(device_type().is_some())
}

#[pyfunction]
fn _accelerator_hooks_get_current_device() -> i64 {
    if device_type().is_some() { 0 } else { -1 }
}

#[pyfunction]
fn _accelerator_hooks_set_current_device(_index: i64) -> PyResult<()> {
    device_type().map(drop).ok_or_else(none_available)
}

#[pyfunction]
fn _accelerator_hooks_exchange_device(_index: i64) -> PyResult<i64> {
    device_type().map(|_| 0).ok_or_else(none_available)
}

#[pyfunction]
fn _accelerator_hooks_maybe_exchange_device(index: i64) -> PyResult<i64> {
    _accelerator_hooks_exchange_device(index)
}

#[pyfunction]
fn _accelerator_getDeviceIndex() -> PyResult<i64> {
    device_type().map(|_| 0).ok_or_else(none_available)
}

#[pyfunction]
fn _accelerator_setDeviceIndex(_index: i64) -> PyResult<()> {
    device_type().map(drop).ok_or_else(none_available)
}

#[pyfunction]
fn _accelerator_isAllocatorInitialized() -> bool {
    false
}

/// Waits by the device's own module.
#[pyfunction]
fn _accelerator_synchronizeDevice(py: Python<'_>, _index: i64) -> PyResult<()> {
    device_type().map(drop).ok_or_else(none_available)?;
    let module = py.import("torch")?.getattr(privateuse1_name().as_str())?;
    module.call_method0("synchronize").map(drop)
}

/// The DLPack device of a device: type and index.
#[pyfunction]
fn _torchDeviceToDLDevice(object: &Bound<'_, PyAny>) -> PyResult<(i32, i32)> {
    let device = device::from_py(object)?.ok_or_else(|| PyRuntimeError::new_err("Expected a device"))?;
    let code = match device.ty {
        DeviceType::Cpu => 1,
        DeviceType::Cuda => 2,
        DeviceType::PrivateUse1 => 12,
        _ => return Err(pyo3::exceptions::PyValueError::new_err(format!("Cannot pack tensors on {device}"))),
    };
    Ok((code, i32::from(device.index.max(0))))
}

/// Devices that upstream always has bindings for and that no build of ours drives.
mod absent {
    use super::*;

    #[pyfunction]
    pub fn _mps_is_available() -> bool {
        false
    }
    #[pyfunction]
    pub fn _mps_is_in_bad_fork() -> bool {
        false
    }
    #[pyfunction]
    pub fn _mps_is_on_macos_or_newer(_major: i64, _minor: i64) -> PyResult<bool> {
        Err(PyRuntimeError::new_err("Cannot execute isOnMacOSorNewer() without MPS backend."))
    }
    #[pyfunction]
    pub fn _mps_get_default_generator() -> PyResult<()> {
        Err(PyRuntimeError::new_err("Cannot execute getDefaultGenerator() without MPS backend."))
    }
    #[pyfunction]
    pub fn _mtia_isBuilt() -> bool {
        false
    }
    #[pyfunction]
    pub fn _mtia_isInBadFork() -> bool {
        false
    }
    #[pyfunction]
    pub fn _mtia_getDeviceCount() -> i64 {
        0
    }
    #[pyfunction]
    pub fn _mtia_init() {}
    #[pyfunction]
    pub fn _mtia_exchangeDevice(_index: i64) -> i64 {
        -1
    }
    #[pyfunction]
    pub fn _mtia_maybeExchangeDevice(_index: i64) -> i64 {
        -1
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(_get_privateuse1_backend_name, module)?,
        wrap_pyfunction!(_rename_privateuse1_backend, module)?,
        wrap_pyfunction!(_get_accelerator, module)?,
        wrap_pyfunction!(_accelerator_getAccelerator, module)?,
        wrap_pyfunction!(_accelerator_hooks_device_count, module)?,
        wrap_pyfunction!(_accelerator_hooks_get_current_device, module)?,
        wrap_pyfunction!(_accelerator_hooks_set_current_device, module)?,
        wrap_pyfunction!(_accelerator_hooks_exchange_device, module)?,
        wrap_pyfunction!(_accelerator_hooks_maybe_exchange_device, module)?,
        wrap_pyfunction!(_accelerator_getDeviceIndex, module)?,
        wrap_pyfunction!(_accelerator_setDeviceIndex, module)?,
        wrap_pyfunction!(_accelerator_isAllocatorInitialized, module)?,
        wrap_pyfunction!(_accelerator_synchronizeDevice, module)?,
        wrap_pyfunction!(_torchDeviceToDLDevice, module)?,
        wrap_pyfunction!(absent::_mps_is_available, module)?,
        wrap_pyfunction!(absent::_mps_is_in_bad_fork, module)?,
        wrap_pyfunction!(absent::_mps_is_on_macos_or_newer, module)?,
        wrap_pyfunction!(absent::_mps_get_default_generator, module)?,
        wrap_pyfunction!(absent::_mtia_isBuilt, module)?,
        wrap_pyfunction!(absent::_mtia_isInBadFork, module)?,
        wrap_pyfunction!(absent::_mtia_getDeviceCount, module)?,
        wrap_pyfunction!(absent::_mtia_init, module)?,
        wrap_pyfunction!(absent::_mtia_exchangeDevice, module)?,
        wrap_pyfunction!(absent::_mtia_maybeExchangeDevice, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
