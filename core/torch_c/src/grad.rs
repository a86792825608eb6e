//! Switches of autograd: grad mode and its kin, anomaly mode, inference mode.

use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::sync::atomic::{AtomicBool, Ordering};
use torchnative_engine::dispatch::tls;

/// Whether backward reports the forward call that led to a failure.
pub static ANOMALY: AtomicBool = AtomicBool::new(false);
/// Whether anomaly mode also looks for NaN.
pub static ANOMALY_NAN: AtomicBool = AtomicBool::new(true);
/// Whether accumulated gradients take their tensor's layout.
static LAYOUT: AtomicBool = AtomicBool::new(true);

fn switch(function: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.cast::<PyBool>() {
        Ok(value) => Ok(value.is_true()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{function}(): argument 'enabled' (position 1) must be bool, not {}",
            value.get_type().name()?
        ))),
    }
}

macro_rules! switches {
    ($($getter:ident, $setter:ident, $shown:literal, $get:path, $set:path;)*) => {
        $(
            #[pyfunction]
            fn $getter() -> bool {
                $get()
            }

            #[pyfunction]
            fn $setter(enabled: &Bound<'_, PyAny>) -> PyResult<()> {
                $set(switch($shown, enabled)?);
                Ok(())
            }
        )*

        fn add_switches(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(
                module.add_function(wrap_pyfunction!($getter, module)?)?;
                module.add_function(wrap_pyfunction!($setter, module)?)?;
            )*
            Ok(())
        }
    };
}

switches! {
    is_grad_enabled, _set_grad_enabled, "set_grad_enabled", tls::grad_mode, tls::set_grad_mode;
    _is_fwd_grad_enabled, _set_fwd_grad_enabled, "_set_fwd_grad_enabled", tls::fw_grad_mode, tls::set_fw_grad_mode;
    _is_multithreading_enabled, _set_multithreading_enabled, "set_multithreading_enabled", tls::multithreading,
        tls::set_multithreading;
    _is_view_replay_enabled, _set_view_replay_enabled, "set_view_replay_enabled", tls::view_replay, tls::set_view_replay;
    _is_grad_layout_enforcement_enabled, _set_grad_layout_enforcement_enabled, "set_grad_layout_enforcement_enabled",
        layout, set_layout;
}

fn layout() -> bool {
    LAYOUT.load(Ordering::Relaxed)
}

fn set_layout(on: bool) {
    LAYOUT.store(on, Ordering::Relaxed);
}

#[pyfunction]
fn is_inference_mode_enabled() -> bool {
    tls::inference_mode()
}

#[pyfunction]
fn is_anomaly_enabled() -> bool {
    ANOMALY.load(Ordering::Relaxed)
}

#[pyfunction]
fn is_anomaly_check_nan_enabled() -> bool {
    ANOMALY_NAN.load(Ordering::Relaxed)
}

#[pyfunction]
#[pyo3(signature = (enabled, check_nan = true))]
fn set_anomaly_enabled(enabled: bool, check_nan: bool) -> PyResult<()> {
    if enabled {
        return Err(PyNotImplementedError::new_err("anomaly detection is not implemented in torchnative"));
    }
    ANOMALY.store(enabled, Ordering::Relaxed);
    ANOMALY_NAN.store(check_nan, Ordering::Relaxed);
    Ok(())
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_switches(module)?;
    for function in [
        wrap_pyfunction!(is_inference_mode_enabled, module)?,
        wrap_pyfunction!(is_anomaly_enabled, module)?,
        wrap_pyfunction!(is_anomaly_check_nan_enabled, module)?,
        wrap_pyfunction!(set_anomaly_enabled, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
