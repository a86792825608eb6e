//! `torch.Stream` and `torch.Event` of devices that do their work in order: everything asked of them has already happened.

use crate::error;
use crate::types::device;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use torchnative_engine::{Device, DeviceType};

/// The device asked for, or the accelerator.
fn device_or_accelerator(object: Option<&Bound<'_, PyAny>>) -> PyResult<Device> {
    let wanted = match object {
        Some(object) => device::from_py(object)?
            .ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("device must be a torch.device"))?,
        None => match crate::accelerator::device_type() {
            Some(ty) => Device { ty, index: -1 },
            None => return Err(error::runtime("Cannot access accelerator device when none is available.")),
        },
    };
    supported(wanted)?;
    Ok(Device { index: -1, ..wanted })
}

/// Whether streams of a device are known here.
fn supported(device: Device) -> PyResult<()> {
    match device.ty {
        DeviceType::Cpu | DeviceType::Meta => Ok(()),
        _ => Err(PyNotImplementedError::new_err(format!(
            "streams and events of device '{device}' are not implemented in torchnative"
        ))),
    }
}

fn without_events(device: Device) -> PyErr {
    error::runtime(format!("{} backend doesn't support events.", Device { index: -1, ..device }))
}

/// A queue of a device's work.
#[pyclass(name = "Stream", module = "torch", subclass, frozen)]
pub struct Stream {
    device: Device,
    stream_id: i64,
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (device = None, *, priority = 0, stream_id = None, device_index = None, device_type = None))]
    fn new(
        device: Option<&Bound<'_, PyAny>>,
        priority: i64,
        stream_id: Option<i64>,
        device_index: Option<i8>,
        device_type: Option<i64>,
    ) -> PyResult<Self> {
        let _ = priority;
        if let (Some(stream_id), Some(index), Some(number)) = (stream_id, device_index, device_type) {
            let ty = DeviceType::ALL.iter().map(|(ty, _)| *ty).find(|ty| *ty as i64 == number);
            let ty = ty.ok_or_else(|| error::runtime(format!("{number} is no device type")))?;
            supported(Device { ty, index })?;
            return Ok(Stream { device: Device { ty, index }, stream_id });
        }
        Ok(Stream { device: device_or_accelerator(device)?, stream_id: 0 })
    }

    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(device::to_py(py, self.device)?.into_any())
    }
    #[getter]
    fn device_index(&self) -> i8 {
        self.device.index
    }
    #[getter]
    fn device_type(&self) -> i64 {
        self.device.ty as i64
    }
    #[getter]
    fn stream_id(&self) -> i64 {
        self.stream_id
    }
    #[getter]
    fn native_handle(&self) -> PyResult<i64> {
        Err(error::runtime("Backend doesn't support getting stream native handle."))
    }

    fn query(&self) -> bool {
        true
    }
    fn synchronize(&self) {}
    fn is_capturing(&self) -> bool {
        false
    }

    fn wait_event(&self, _event: PyRef<'_, Event>) {}

    fn wait_stream(&self, stream: PyRef<'_, Stream>) -> PyResult<()> {
        Err(without_events(stream.device))
    }

    #[pyo3(signature = (event = None))]
    fn record_event(&self, event: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = event;
        Err(without_events(self.device))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {}

    fn __repr__(&self) -> String {
        let Device { ty, index } = self.device;
        format!(
            "torch.Stream device_type={}, device_index={index}, stream_id={}",
            Device { ty, index: -1 },
            self.stream_id
        )
    }

    fn __hash__(&self) -> isize {
        let hash = (self.device.ty as i64) << 32 ^ i64::from(self.device.index) << 16 ^ self.stream_id;
        if isize::BITS == 64 { hash as isize } else { (hash ^ hash >> 32) as isize }
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<Stream>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let same = self.device == other.device && self.stream_id == other.stream_id;
        match op {
            CompareOp::Eq => same.into_py_any(py),
            CompareOp::Ne => (!same).into_py_any(py),
            _ => Ok(py.NotImplemented()),
        }
    }
}

/// A point in a stream.
#[pyclass(name = "Event", module = "torch", subclass, frozen)]
pub struct Event {
    device: Device,
    enable_timing: bool,
}

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (device = None, *, enable_timing = false, blocking = false, interprocess = false, external = false))]
    fn new(
        device: Option<&Bound<'_, PyAny>>,
        enable_timing: bool,
        blocking: bool,
        interprocess: bool,
        external: bool,
    ) -> PyResult<Self> {
        let _ = (blocking, interprocess, external);
        Ok(Event { device: device_or_accelerator(device)?, enable_timing })
    }

    #[staticmethod]
    fn from_ipc_handle(_device: &Bound<'_, PyAny>, _handle: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(no_ipc())
    }

    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(device::to_py(py, self.device)?.into_any())
    }
    #[getter]
    fn event_id(&self) -> i64 {
        0
    }

    #[pyo3(signature = (stream = None))]
    fn record(&self, stream: Option<PyRef<'_, Stream>>) -> PyResult<()> {
        Err(without_events(stream.map_or(self.device, |s| s.device)))
    }
    #[pyo3(signature = (stream = None))]
    fn wait(&self, stream: Option<PyRef<'_, Stream>>) {
        let _ = stream;
    }
    fn query(&self) -> bool {
        true
    }
    fn synchronize(&self) {}

    fn elapsed_time(&self, other: PyRef<'_, Event>) -> PyResult<f64> {
        if !(self.enable_timing && other.enable_timing) {
            return Err(PyValueError::new_err(
                "Both events must be created with argument 'enable_timing=True'.",
            ));
        }
        Err(PyValueError::new_err("Both events must be recorded before calculating elapsed time."))
    }

    fn ipc_handle(&self) -> PyResult<()> {
        Err(no_ipc())
    }

    fn __repr__(&self) -> String {
        let Device { ty, index } = self.device;
        format!(
            "torch.Event device_type={}, device_index={index}, event_flag={}, event_id=0",
            Device { ty, index: -1 },
            i64::from(self.enable_timing)
        )
    }
}

fn no_ipc() -> PyErr {
    PyNotImplementedError::new_err("sharing an event between processes is not implemented in torchnative")
}

/// The one stream of the accelerator: its work is in order.
#[pyfunction]
fn _accelerator_getStream(index: i64) -> PyResult<Stream> {
    let ty = crate::accelerator::device_type()
        .ok_or_else(|| error::runtime("Cannot access accelerator device when none is available."))?;
    Ok(Stream { device: Device { ty, index: index.max(0) as i8 }, stream_id: 0 })
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Stream>()?;
    module.add_function(wrap_pyfunction!(_accelerator_getStream, module)?)?;
    module.add_class::<Event>()
}
