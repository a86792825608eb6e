//! `torch._C._webgpu`: the device's counters and memory, for the Python module `torchnative.webgpu`.

use crate::device::{self, Open, peek, with};
use crate::recorder::Download;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError};
use torchnative_c::tensor::object;
use torchnative_engine::Tensor;

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
    py.detach(device::synchronize).map_err(raise)
}

/// Destroys buffers that hold nothing.
#[pyfunction]
fn empty_cache() -> PyResult<()> {
    peek(|r| r.empty_cache()).unwrap_or(Ok(())).map_err(pyo3::exceptions::PyRuntimeError::new_err)
}

/// Gives the device up with all that its tensors hold; the next use opens it anew.
#[pyfunction]
fn reset() {
    device::reset();
}

/// Loses the device as a driver that resets does, for tests.
#[pyfunction]
fn _lose() {
    peek(|r| r.destroy());
}

/// A read that was begun, to be waited for elsewhere.
#[pyclass(frozen)]
struct Reading(Mutex<Option<Download>>);

#[pymethods]
impl Reading {
    /// Copies what was read into a contiguous tensor of the CPU; once.
    fn finish(&self, target: &Bound<'_, PyAny>) -> PyResult<()> {
        let download = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(download), Some(t)) = (download, object::get(target)) else {
            return Err(PyRuntimeError::new_err("the read was finished already"));
        };
        let bytes = contiguous(t, true)?;
        // SAFETY: the CPU's memory of a contiguous tensor.
        let into = unsafe { std::slice::from_raw_parts_mut(t.data_ptr(), bytes) };
        device::finish(download, into).map_err(raise)
    }
}

/// The bytes of a contiguous tensor.
fn contiguous(t: &Tensor, cpu: bool) -> PyResult<usize> {
    if !t.is_contiguous() || t.device().is_cpu() != cpu {
        return Err(PyRuntimeError::new_err("a contiguous tensor is expected"));
    }
    usize::try_from(t.numel() * t.itemsize() as i64)
        .map_err(|_| PyRuntimeError::new_err("the tensor does not fit the memory of the host"))
}

/// Begins to read a contiguous tensor of the device.
#[pyfunction]
fn begin_read(tensor: &Bound<'_, PyAny>) -> PyResult<Reading> {
    let Some(t) = object::get(tensor) else {
        return Err(PyRuntimeError::new_err("a tensor is expected"));
    };
    let len = contiguous(t, false)?;
    let slice = device::slice(t).map_err(raise)?;
    let offset = t.storage_offset() as u64 * t.itemsize() as u64;
    let download = with(|r| r.download(slice, offset, len)).map_err(raise)?;
    Ok(Reading(Mutex::new(Some(download))))
}

/// What the adapter calls itself.
#[pyfunction]
fn adapter_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let about = with(|r| Ok(r.about().to_vec())).map_err(raise)?;
    let out = PyDict::new(py);
    for (name, value) in about {
        out.set_item(name, value)?;
    }
    Ok(out)
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
        wrap_pyfunction!(begin_read, &own)?,
        wrap_pyfunction!(reset, &own)?,
        wrap_pyfunction!(_lose, &own)?,
        wrap_pyfunction!(adapter_info, &own)?,
    ] {
        own.add_function(function)?;
    }
    // Not `add`, which would make a list of all that `import *` takes.
    module.setattr("_webgpu", own)
}
