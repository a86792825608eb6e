//! Tensors of subclasses: over the data of another tensor, or with geometry alone.

use super::class;
use crate::dispatch::keys::PyDispatchKeySet;
use crate::error::IntoPy;
use crate::tensor::object;
use crate::types::{device, dtype, layout};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use torchnative_engine::dispatch::{DispatchKeySet, tls};
use torchnative_engine::iter::default_dtype;
use torchnative_engine::tensor::{HostPolicy, shape};
use torchnative_engine::{Device, IntList, Layout, Storage, Tensor, op};

fn class_argument<'a, 'py>(cls: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyType>> {
    cls.cast::<PyType>().map_err(|_| {
        let got = cls.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("cls must be a type (got {got})"))
    })
}

fn policy(text: Option<&str>, device: bool, layout: bool) -> PyResult<HostPolicy> {
    let (sizes, strides) = match text {
        None => (false, false),
        Some("strides") => (false, true),
        Some("sizes") => (true, true),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "Unknown sizes_strides_policy: {other}; expected 'strides' or 'sizes'"
            )));
        }
    };
    // A tensor's geometry and layout are read from its record everywhere: a class that answers for them would not be asked.
    if sizes || strides || layout {
        return Err(PyNotImplementedError::new_err(
            "dispatch_sizes_strides_policy and dispatch_layout are not implemented in torchnative",
        ));
    }
    Ok(HostPolicy { sizes, strides, device, layout, ..HostPolicy::default() })
}

fn device_argument(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Device>> {
    match object {
        None => Ok(None),
        Some(object) => match device::from_py(object)? {
            Some(device) => Ok(Some(device)),
            None => Err(PyTypeError::new_err(format!(
                "device must be torch.device, not {}",
                object.get_type().name()?
            ))),
        },
    }
}

/// `Tensor._make_subclass`: an object of the class over the data of a tensor, detached from its graph.
#[pyfunction]
#[pyo3(signature = (cls, data, require_grad = false, *, dispatch_sizes_strides_policy = None, dispatch_device = false,
                    dispatch_layout = false, device_for_backend_keys = None),
       text_signature = None)]
#[allow(clippy::too_many_arguments, reason = "upstream's signature")]
fn _make_subclass<'py>(
    cls: &Bound<'py, PyAny>,
    data: &Bound<'py, PyAny>,
    require_grad: bool,
    dispatch_sizes_strides_policy: Option<&str>,
    dispatch_device: bool,
    dispatch_layout: bool,
    device_for_backend_keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class_argument(cls)?;
    let Some(tensor) = object::get(data) else {
        return Err(PyTypeError::new_err(format!(
            "_make_subclass(): argument 'data' (position 2) must be Tensor, not {}",
            data.get_type().name()?
        )));
    };
    let keys = tensor.key_set();
    let new = if keys.intersects(DispatchKeySet::PYTHON) {
        let _grad = tls::StateGuard::no_grad();
        op::detach.call((tensor,)).into_py()?
    } else {
        tensor.alias_with(tensor.sizes().into(), tensor.strides().into(), tensor.storage_offset())
    };
    new.set_requires_grad(require_grad).into_py()?;
    new.set_host_policy(policy(dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)?);
    if let Some(device) = device_argument(device_for_backend_keys)? {
        new.set_host_device(device);
    }
    object::wrap_as(class, new)
}

/// `Tensor._make_wrapper_subclass`: an object of the class with geometry, dtype and device, and no data.
#[pyfunction]
#[pyo3(signature = (cls, size, *, strides = None, storage_offset = None, memory_format = None, dtype = None,
                    layout = None, device = None, pin_memory = false, requires_grad = false,
                    dispatch_sizes_strides_policy = None, dispatch_device = false, dispatch_layout = false,
                    _extra_dispatch_keys = None, storage_size = None),
       text_signature = None)]
#[allow(clippy::too_many_arguments, reason = "upstream's signature")]
fn _make_wrapper_subclass<'py>(
    cls: &Bound<'py, PyAny>,
    size: Vec<i64>,
    strides: Option<Vec<i64>>,
    storage_offset: Option<i64>,
    memory_format: Option<&Bound<'py, PyAny>>,
    dtype: Option<&Bound<'py, PyAny>>,
    layout: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    pin_memory: bool,
    requires_grad: bool,
    dispatch_sizes_strides_policy: Option<&str>,
    dispatch_device: bool,
    dispatch_layout: bool,
    _extra_dispatch_keys: Option<&Bound<'py, PyDispatchKeySet>>,
    storage_size: Option<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class_argument(cls)?;
    if !class::overrides(class)? {
        return Err(PyTypeError::new_err(format!("{} must define __torch_dispatch__", class.name()?)));
    }
    if pin_memory {
        return Err(PyNotImplementedError::new_err(
            "pinned memory is not implemented in torchnative (_make_wrapper_subclass)",
        ));
    }
    let dtype = match dtype {
        None => default_dtype(),
        Some(object) => dtype::from_py(object).ok_or_else(|| {
            PyTypeError::new_err(format!("dtype must be torch.dtype, not {}", object.get_type()))
        })?,
    };
    let device = device_argument(device)?.unwrap_or(Device::CPU);
    let layout = layout.and_then(layout::layout_from_py).unwrap_or(Layout::Strided);
    let format = memory_format.and_then(layout::format_from_py);
    if let Some(negative) = size.iter().find(|size| **size < 0) {
        return Err(crate::error::runtime(format!(
            "Trying to create tensor with negative dimension {negative}: {size:?}"
        )));
    }
    let strides = match (strides, format) {
        (Some(strides), _) if strides.len() != size.len() => {
            return Err(crate::error::runtime(format!(
                "mismatch in length of strides and shape: {} and {}",
                strides.len(),
                size.len()
            )));
        }
        (Some(strides), _) => IntList::from_vec(strides),
        (None, Some(format)) => shape::strides_for(&size, format).into_py()?,
        (None, None) => shape::contiguous_strides(&size),
    };
    let offset = storage_offset.unwrap_or(0);
    let nbytes = match storage_size {
        Some(nbytes) => nbytes,
        None => needed(&size, &strides, offset, dtype.itemsize() as i64)?,
    };
    let nbytes = u64::try_from(nbytes)
        .map_err(|_| crate::error::runtime(format!("a storage of {nbytes} bytes cannot be made")))?;
    let storage = Storage::without_data(nbytes, device);
    let new = Tensor::from_storage(storage, dtype, IntList::from_vec(size), strides, offset);
    new.set_layout(layout);
    if let Some(extra) = _extra_dispatch_keys {
        new.set_key_set(new.key_set() | extra.get().set);
    }
    new.set_requires_grad(requires_grad).into_py()?;
    new.set_host_policy(policy(dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)?);
    object::wrap_as(class, new)
}

/// The bytes that a geometry spans.
fn needed(sizes: &[i64], strides: &[i64], offset: i64, itemsize: i64) -> PyResult<i64> {
    let overflow = || crate::error::runtime("Storage size calculation overflowed");
    if sizes.contains(&0) {
        return Ok(0);
    }
    let mut last = offset;
    for (size, stride) in sizes.iter().zip(strides) {
        let step = (size - 1).checked_mul(*stride).ok_or_else(overflow)?;
        last = last.checked_add(step).ok_or_else(overflow)?;
    }
    last.checked_add(1).and_then(|count| count.checked_mul(itemsize)).ok_or_else(overflow)
}

/// Makes reading the address of the tensor's data an error, as long as its class answers for it.
#[pyfunction]
fn _set_throw_on_mutable_data_ptr(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    match object::get(tensor) {
        Some(tensor) => {
            tensor.set_host_policy(HostPolicy { throws_on_data_ptr: true, ..tensor.host_policy() });
            Ok(())
        }
        None => Err(PyTypeError::new_err("a Tensor is expected")),
    }
}

/// Upstream warns once where the address is read; here it is read by nobody else than the caller.
#[pyfunction]
fn _set_warn_deprecated_on_mutable_data_ptr(_tensor: &Bound<'_, PyAny>) {}

/// Adds the static methods to `TensorBase`, and the functions to `torch._C`.
pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = object::base_class(py)?;
    let staticmethod = py.import("builtins")?.getattr("staticmethod")?;
    for function in [wrap_pyfunction!(_make_subclass, py)?, wrap_pyfunction!(_make_wrapper_subclass, py)?] {
        base.setattr(
            function.getattr("__name__")?.cast::<pyo3::types::PyString>()?,
            staticmethod.call1((function,))?,
        )?;
    }
    module.add_function(wrap_pyfunction!(_set_throw_on_mutable_data_ptr, module)?)?;
    module.add_function(wrap_pyfunction!(_set_warn_deprecated_on_mutable_data_ptr, module)?)
}
