//! `torch.device`.

use crate::error::IntoPy;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyString, PyTuple};
use torchnative_engine::{Device, DeviceType};

/// A device type with an optional index.
#[pyclass(name = "device", module = "torch", frozen)]
pub struct PyDevice {
    device: Device,
}

/// A new device object.
pub fn to_py(py: Python<'_>, device: Device) -> PyResult<Bound<'_, PyDevice>> {
    Bound::new(py, PyDevice { device })
}

/// What a device argument may be: a device object, a string, or an index of the accelerator.
///
/// `None` for any other object.
pub fn from_py(object: &Bound<'_, PyAny>) -> PyResult<Option<Device>> {
    if let Ok(device) = object.cast::<PyDevice>() {
        return Ok(Some(device.get().device));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return parse(text.to_str()?).map(Some);
    }
    if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() {
        let index: i64 = object.extract()?;
        if index < 0 {
            return Err(PyRuntimeError::new_err("Device index must not be negative"));
        }
        return match crate::accelerator::device_type() {
            Some(ty) => Ok(Some(Device { ty, index: index as i8 })),
            None => Err(PyRuntimeError::new_err("Cannot access accelerator device when none is available.")),
        };
    }
    Ok(None)
}

/// What a device argument of a function that makes tensors may be: as `from_py`, and the device's module says first whether it
/// can be used (`torch.cuda._lazy_init`), unless tensors are only pretended (`FakeTensorMode`).
///
/// # Errors
/// What the device's module raises, `AssertionError` for `cuda`.
pub fn usable_from_py(object: &Bound<'_, PyAny>) -> PyResult<Option<Device>> {
    let device = from_py(object)?;
    let module = match device.map(|d| d.ty) {
        Some(DeviceType::Cuda) => "torch.cuda",
        Some(DeviceType::Xpu) => "torch.xpu",
        Some(DeviceType::Mtia) => "torch.mtia",
        _ => return Ok(device),
    };
    if !crate::torch_dispatch::pretending(object.py()) {
        object.py().import(module)?.call_method0("_lazy_init")?;
    }
    Ok(device)
}

/// Parses a device string, the name of the out-of-tree device included.
pub fn parse(text: &str) -> PyResult<Device> {
    let renamed = crate::accelerator::privateuse1_name();
    if let Some(rest) = text.strip_prefix(renamed.as_str())
        && (rest.is_empty() || rest.starts_with(':'))
    {
        return Device::parse(&format!("privateuseone{rest}")).into_py();
    }
    Device::parse(text).into_py()
}

/// The name of a device type; the out-of-tree device answers to the name it was given.
pub fn type_name(ty: DeviceType) -> String {
    match ty {
        DeviceType::PrivateUse1 => crate::accelerator::privateuse1_name(),
        other => other.name().to_owned(),
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut given: [Option<Bound<'_, PyAny>>; 2] = [None, None];
        for (slot, value) in given.iter_mut().zip(args.iter()) {
            *slot = Some(value);
        }
        let mut unknown = args.len() > 2;
        let mut named_device = false;
        for (key, value) in kwargs.into_iter().flat_map(|kwargs| kwargs.iter()) {
            match key.extract::<String>()?.as_str() {
                "device" if given[0].is_none() => {
                    named_device = true;
                    given[0] = Some(value);
                }
                "type" if given[0].is_none() => given[0] = Some(value),
                "index" if given[1].is_none() => given[1] = Some(value),
                _ => unknown = true,
            }
        }
        let mismatch = || mismatch(args, kwargs);
        let [first, index] = given;
        let Some(first) = first.filter(|_| !(unknown || named_device && index.is_some())) else {
            return Err(mismatch());
        };
        let Some(index) = index.filter(|index| !index.is_none()) else {
            return match from_py(&first)? {
                Some(device) => Ok(PyDevice { device }),
                None => Err(mismatch()),
            };
        };
        let Ok(text) = first.cast::<PyString>() else {
            return Err(PyTypeError::new_err(format!(
                "device(): argument 'type' (position 1) must be str, not {}",
                type_text(&first)
            )));
        };
        let text = text.to_str()?;
        let device = parse(text)?;
        if device.index >= 0 {
            return Err(PyRuntimeError::new_err(format!(
                "type (string) must not include an index because index was passed explicitly: {text}"
            )));
        }
        if !index.is_instance_of::<PyInt>() {
            return Err(PyTypeError::new_err(format!(
                "device(): argument 'index' (position 2) must be int, not {}",
                type_text(&index)
            )));
        }
        let index: i64 = index.extract()?;
        if index < 0 {
            return Err(PyRuntimeError::new_err("Device index must not be negative"));
        }
        // Upstream stores the index in a signed byte and does not check the range.
        Ok(PyDevice { device: Device { ty: device.ty, index: index as i8 } })
    }

    #[getter]
    fn r#type(&self) -> String {
        type_name(self.device.ty)
    }

    #[getter]
    fn index(&self) -> Option<i64> {
        (self.device.index >= 0).then_some(i64::from(self.device.index))
    }

    fn __repr__(&self) -> String {
        let name = type_name(self.device.ty);
        match self.device.index {
            index if index >= 0 => format!("device(type='{name}', index={index})"),
            _ => format!("device(type='{name}')"),
        }
    }

    fn __str__(&self) -> String {
        let name = type_name(self.device.ty);
        match self.device.index {
            index if index >= 0 => format!("{name}:{index}"),
            _ => name,
        }
    }

    fn __hash__(&self) -> u64 {
        ((self.device.ty as u64) << 16) | u64::from(self.device.index as u8)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: pyo3::pyclass::CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<PyDevice>() else { return Ok(py.NotImplemented()) };
        let same = self.device == other.get().device;
        let answer = match op {
            pyo3::pyclass::CompareOp::Eq => same,
            pyo3::pyclass::CompareOp::Ne => !same,
            _ => return Err(PyTypeError::new_err("comparison not implemented")),
        };
        Ok(PyBool::new(py, answer).to_owned().into_any().unbind())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let name = this.r#type();
        let args = match this.index() {
            Some(index) => (name, index).into_pyobject(py)?,
            None => (name,).into_pyobject(py)?,
        };
        Ok((slf.get_type(), args).into_pyobject(py)?.into_any())
    }

    /// Makes this the device of factory calls, through upstream's own mode.
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let mode = py.import("torch.utils._device")?.getattr("DeviceContext")?.call1((slf,))?;
        py.import("torch._C")?.getattr("_push_on_torch_function_stack")?.call1((mode,))?;
        Ok(slf.clone())
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(slf: &Bound<'_, Self>, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        slf.py().import("torch._C")?.getattr("_pop_torch_function_stack")?.call0()?;
        Ok(())
    }
}

fn type_text(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type();
    let name = kind.name().map(|name| name.to_string()).unwrap_or_default();
    match kind.module() {
        Ok(module) if module != "builtins" => format!("{module}.{name}"),
        _ => name,
    }
}

fn mismatch(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyErr {
    let mut shown: Vec<String> = args.iter().map(|value| type_text(&value)).collect();
    for (key, value) in kwargs.into_iter().flat_map(|kwargs| kwargs.iter()) {
        shown.push(format!("{key}={}", type_text(&value)));
    }
    let note = match &shown[..] {
        [only] if kwargs.is_none() => {
            format!("\n      didn't match because some of the arguments have invalid types: (!{only}!)")
        }
        _ => String::new(),
    };
    PyTypeError::new_err(format!(
        "device() received an invalid combination of arguments - got ({}), but expected one of:\n * (torch.device device){note}\n * (str type, int index = -1)\n",
        shown.join(", ")
    ))
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDevice>()
}
