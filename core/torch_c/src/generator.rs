//! `torch.Generator`.

use crate::error::IntoPy;
use crate::tensor::object;
use crate::types::device;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyTuple, PyType};
use std::sync::atomic::Ordering;
use torchnative_engine::tensor::factory;
use torchnative_engine::{DType, Device, DeviceType, Generator};

/// A random number generator.
#[pyclass(name = "Generator", module = "torch._C", subclass, frozen)]
pub struct PyGenerator {
    generator: Generator,
}

/// The seed of generators made without one.
const DEFAULT_SEED: u64 = torchnative_engine::random::DEFAULT_SEED;

/// The Python object of a generator: the one it has, or a new one.
pub fn to_py<'py>(py: Python<'py>, generator: &Generator) -> PyResult<Bound<'py, PyGenerator>> {
    let known = generator.pyobj().load(Ordering::Relaxed);
    if !known.is_null() {
        // SAFETY: the object takes itself off the generator when it dies, and dies attached.
        return Ok(unsafe { Bound::from_borrowed_ptr(py, known.cast()).cast_into_unchecked() });
    }
    let made = Bound::new(py, PyGenerator { generator: generator.clone() })?;
    generator.pyobj().store(made.as_ptr().cast(), Ordering::Relaxed);
    Ok(made)
}

/// The generator of a Python object, `None` for any other object.
pub fn from_py(object: &Bound<'_, PyAny>) -> Option<Generator> {
    let object = object.cast::<PyGenerator>().ok()?;
    let generator = object.get().generator.clone();
    // Whoever holds the generator finds its object again.
    generator.pyobj().store(object.as_ptr().cast(), Ordering::Relaxed);
    Some(generator)
}

impl Drop for PyGenerator {
    fn drop(&mut self) {
        self.generator.pyobj().store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// A seed as upstream reads it: 64 bits, signed or unsigned.
fn seed_of(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        return Err(PyRuntimeError::new_err(format!(
            "manual_seed expected a long, but got {}",
            value.get_type().name()?
        )));
    }
    match (value.extract::<u64>(), value.extract::<i64>()) {
        (Ok(seed), _) => Ok(seed),
        (_, Ok(seed)) => Ok(torchnative_engine::random::generator::seed_from_i64(seed)),
        _ => Err(PyValueError::new_err("Overflow when unpacking long long")),
    }
}

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device = None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let device = match device {
            None => Device::CPU,
            Some(given) => device::from_py(given)?.ok_or_else(|| {
                let kind = given.get_type();
                let kind = kind.name().map(|name| name.to_string()).unwrap_or_default();
                PyTypeError::new_err(format!(
                    "Generator(): argument 'device' (position 1) must be torch.device, not {kind}"
                ))
            })?,
        };
        let generator = match device.ty {
            DeviceType::Cpu => Generator::cpu(DEFAULT_SEED),
            DeviceType::PrivateUse1 if crate::accelerator::device_type().is_some() => {
                Generator::philox(device, DEFAULT_SEED)
            }
            other => {
                return Err(PyRuntimeError::new_err(format!(
                    "{} device type not an accelerator.",
                    device::type_name(other).to_uppercase()
                )));
            }
        };
        Ok(PyGenerator { generator })
    }

    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, device::PyDevice>> {
        device::to_py(py, self.generator.device())
    }

    #[getter]
    fn _cdata(slf: &Bound<'_, Self>) -> usize {
        slf.as_ptr() as usize
    }

    fn manual_seed<'py>(slf: &Bound<'py, Self>, seed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().generator.manual_seed(seed_of(seed)?);
        Ok(slf.clone())
    }

    fn seed(&self) -> u64 {
        self.generator.seed()
    }

    fn initial_seed(&self) -> u64 {
        self.generator.initial_seed()
    }

    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object::wrap(py, factory::from_slice(&self.generator.get_state()).into_py()?)
    }

    fn set_state<'py>(slf: &Bound<'py, Self>, state: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let Some(tensor) = object::get(state) else {
            return Err(PyTypeError::new_err(format!(
                "expected a torch.ByteTensor, but got {}",
                state.get_type().name()?
            )));
        };
        if tensor.dtype() != DType::Byte || !tensor.is_cpu() {
            return Err(PyTypeError::new_err("RNG state must be a torch.ByteTensor"));
        }
        let tensor = torchnative_engine::ops::copy::contiguous(tensor).into_py()?;
        // SAFETY: a contiguous tensor of bytes on the CPU, which nothing writes while this thread is attached.
        let bytes =
            unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast_const(), tensor.numel() as usize) };
        slf.get().generator.set_state(bytes).into_py()?;
        Ok(slf.clone())
    }

    fn clone_state(&self) -> PyResult<Self> {
        let generator = match self.generator.device().ty {
            DeviceType::Cpu => Generator::cpu(DEFAULT_SEED),
            _ => Generator::philox(self.generator.device(), DEFAULT_SEED),
        };
        generator.set_state(&self.generator.get_state()).into_py()?;
        Ok(PyGenerator { generator })
    }

    fn graphsafe_get_state(&self) -> PyResult<Self> {
        Err(PyNotImplementedError::new_err("graphsafe_get_state is not supported in this Generator"))
    }

    fn graphsafe_set_state(&self, _state: &Bound<'_, PyAny>) -> PyResult<Self> {
        Err(PyNotImplementedError::new_err("graphsafe_set_state is not supported in this Generator"))
    }

    fn get_offset(&self) -> PyResult<u64> {
        self.generator.get_offset().into_py()
    }

    fn set_offset<'py>(slf: &Bound<'py, Self>, offset: u64) -> PyResult<Bound<'py, Self>> {
        slf.get().generator.set_offset(offset).into_py()?;
        Ok(slf.clone())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let offset = match this.generator.device().ty {
            DeviceType::Cpu => None,
            _ => Some(this.get_offset()?),
        };
        let state = (this.initial_seed(), offset, this.get_state(py)?);
        Ok((slf.get_type(), (this.device(py)?,), state).into_pyobject(py)?.into_any())
    }

    fn __setstate__<'py>(slf: &Bound<'py, Self>, state: &Bound<'py, PyTuple>) -> PyResult<()> {
        slf.get().generator.manual_seed(seed_of(&state.get_item(0)?)?);
        let offset = state.get_item(1)?;
        if !offset.is_none() {
            slf.get().generator.set_offset(offset.extract()?).into_py()?;
        }
        Self::set_state(slf, &state.get_item(2)?).map(drop)
    }
}

/// Gives the class another metaclass, as the Python tree asks while it is imported.
#[pyfunction]
fn _set_generator_metaclass(metaclass: &Bound<'_, PyType>) -> PyResult<()> {
    let py = metaclass.py();
    let class = py.get_type::<PyGenerator>();
    if !metaclass.is_subclass_of::<PyType>()? {
        return Err(PyTypeError::new_err("a metaclass must derive from type"));
    }
    // SAFETY: the metaclass derives from `type` and adds no storage (checked by CPython's rules for layouts: it was
    // made by a class statement over `type`). The class keeps the reference that is taken here.
    unsafe {
        let object = class.as_ptr();
        let before = ffi::Py_TYPE(object);
        ffi::Py_INCREF(metaclass.as_ptr());
        (*object).ob_type = metaclass.as_type_ptr();
        if ffi::PyType_GetFlags(before) & ffi::Py_TPFLAGS_HEAPTYPE != 0 {
            ffi::Py_DECREF(before.cast());
        }
    }
    Ok(())
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyGenerator>()?;
    module.add("default_generator", to_py(module.py(), Generator::default_cpu())?)?;
    module.add_function(wrap_pyfunction!(_set_generator_metaclass, module)?)
}
