//! `torch._C._webgpu`: the device's counters and memory, for the Python module `torchnative.webgpu`.

use crate::device::{self, Open, peek, with};
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn raise(e: torchnative_engine::Error) -> PyErr {
    torchnative_c::error::to_py(e)
}

/// Says that the device is there: from now on it is the accelerator.
#[pyfunction]
fn activate() {
    torchnative_c::accelerator::set_present();
}

/// Why the device cannot be used; None when it can. Opens it.
#[pyfunction]
fn reason() -> Option<String> {
    with(|_| Ok(())).err().map(|e| e.to_string())
}

/// Counters and memory; zeros before the first use.
#[pyfunction]
fn stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let (s, pool) = peek(|r| (r.stats, (r.pool.allocated, r.pool.reserved, r.pool.peak))).unwrap_or_default();
    let out = PyDict::new(py);
    for (name, value) in [
        ("dispatches", s.dispatches),
        ("submits", s.submits),
        ("bytes_up", s.bytes_up),
        ("bytes_down", s.bytes_down),
        ("pipelines", s.pipelines),
        ("readbacks", s.readbacks),
        ("allocated", pool.0),
        ("reserved", pool.1),
        ("peak", pool.2),
    ] {
        out.set_item(name, value)?;
    }
    Ok(out)
}

/// Sets the counters to zero and the peak to what is allocated.
#[pyfunction]
fn reset_stats() {
    peek(|r| {
        r.stats = Default::default();
        r.pool.peak = r.pool.allocated;
    });
}

/// Waits until the device has done all its work.
#[pyfunction]
fn synchronize(py: Python<'_>) -> PyResult<()> {
    py.detach(|| with(|r| r.synchronize())).map_err(raise)
}

/// Destroys buffers that hold nothing.
#[pyfunction]
fn empty_cache() -> PyResult<()> {
    peek(|r| r.empty_cache()).unwrap_or(Ok(())).map_err(pyo3::exceptions::PyRuntimeError::new_err)
}

/// What the adapter offers.
#[pyfunction]
fn limits(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    use crate::program::Queue;
    let l = with(|r| Ok(r.limits().clone())).map_err(raise)?;
    let out = PyDict::new(py);
    out.set_item("max_buffer_size", l.max_buffer_size)?;
    out.set_item("max_storage_buffer_binding_size", l.max_storage_buffer_binding_size)?;
    out.set_item("max_storage_buffers_per_shader_stage", l.max_storage_buffers_per_shader_stage)?;
    out.set_item("max_compute_workgroups_per_dimension", l.max_compute_workgroups_per_dimension)?;
    out.set_item("max_compute_invocations_per_workgroup", l.max_compute_invocations_per_workgroup)?;
    out.set_item("max_compute_workgroup_storage_size", l.max_compute_workgroup_storage_size)?;
    out.set_item("min_subgroup_size", l.min_subgroup_size)?;
    out.set_item("max_subgroup_size", l.max_subgroup_size)?;
    out.set_item("shader_f16", l.shader_f16)?;
    out.set_item("subgroups", l.subgroups)?;
    Ok(out)
}

/// Makes the device known and adds its submodule; `open` opens an executor on first use.
///
/// # Errors
/// When another device took the place.
pub fn init(module: &Bound<'_, PyModule>, open: Open) -> PyResult<()> {
    device::install(open).map_err(raise)?;
    let py = module.py();
    let own = PyModule::new(py, "_webgpu")?;
    for function in [
        wrap_pyfunction!(activate, &own)?,
        wrap_pyfunction!(reason, &own)?,
        wrap_pyfunction!(stats, &own)?,
        wrap_pyfunction!(reset_stats, &own)?,
        wrap_pyfunction!(synchronize, &own)?,
        wrap_pyfunction!(empty_cache, &own)?,
        wrap_pyfunction!(limits, &own)?,
    ] {
        own.add_function(function)?;
    }
    // Not `add`, which would make a list of all that `import *` takes.
    module.setattr("_webgpu", own)
}
