//! Hand-bound functions that make tensors, and `_make_subclass`.

use super::{from_memory, object};
use crate::error::{self, IntoPy};
use crate::parser;
use crate::types::{device, dtype};
use crate::{torch_dispatch, torch_function};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use torchnative_engine::dtype::promote_types;
use torchnative_engine::iter::default_dtype;
use torchnative_engine::tensor::factory;
use torchnative_engine::{DType, Device, Scalar, Tensor, dispatch, op};

/// Sizes of nested sequences, from their first elements.
fn sizes_of(o: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let mut sizes = Vec::new();
    let mut at = o.clone();
    while is_sequence(&at) {
        let n = at.len()?;
        sizes.push(n as i64);
        if sizes.len() > 128 {
            return Err(PyValueError::new_err(format!("too many dimensions '{}'", at.get_type().name()?)));
        }
        if n == 0 {
            break;
        }
        at = at.get_item(0)?;
    }
    if let Some(t) = object::get(&at)
        && !sizes.is_empty()
    {
        sizes.extend(t.sizes());
    }
    Ok(sizes)
}

fn is_sequence(o: &Bound<'_, PyAny>) -> bool {
    o.is_instance_of::<PyList>()
        || o.is_instance_of::<PyTuple>()
        || (object::get(o).is_none()
            && !o.is_instance_of::<PyString>()
            && o.hasattr("__len__").unwrap_or(false)
            && o.hasattr("__getitem__").unwrap_or(false)
            && !o.is_instance_of::<PyDict>())
}

/// Collects the numbers of nested sequences in row-major order, checking that they are rectangular.
fn collect(o: &Bound<'_, PyAny>, sizes: &[i64], dim: usize, out: &mut Vec<Scalar>) -> PyResult<()> {
    if dim == sizes.len() {
        if let Some(t) = object::get(o) {
            out.push(value::item(t).into_py()?);
            return Ok(());
        }
        return match value::scalar_from_py(o)? {
            Some(s) => {
                out.push(s);
                Ok(())
            }
            None if is_sequence(o) || o.is_instance_of::<PyString>() => {
                Err(PyValueError::new_err(format!("too many dimensions '{}'", o.get_type().name()?)))
            }
            None => Err(PyTypeError::new_err(format!("Could not infer dtype of {}", o.get_type().name()?))),
        };
    }
    if !is_sequence(o) && object::get(o).is_none() {
        return Err(PyTypeError::new_err(format!("not a sequence: '{}'", o.get_type().name()?)));
    }
    let n = o.len()? as i64;
    if n != sizes[dim] {
        return Err(PyValueError::new_err(format!(
            "expected sequence of length {} at dim {dim} (got {n})",
            sizes[dim]
        )));
    }
    for i in 0..n {
        collect(&o.get_item(i)?, sizes, dim + 1, out)?;
    }
    Ok(())
}

fn infer(values: &[Scalar]) -> PyResult<DType> {
    let mut d: Option<DType> = None;
    for v in values {
        let own = match v {
            Scalar::Float(_) => default_dtype(),
            Scalar::Complex(..) => default_dtype().to_complex().unwrap_or(DType::ComplexFloat),
            other => other.dtype(),
        };
        d = Some(match d {
            None => own,
            Some(x) => promote_types(x, own).into_py()?,
        });
    }
    Ok(d.unwrap_or(default_dtype()))
}

/// A new CPU tensor of nested sequences of numbers.
pub fn sequence_to_tensor(o: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    if let Some(t) = object::get(o) {
        return op::_to_copy.call((t, dtype.unwrap_or(t.dtype()))).into_py();
    }
    let sizes = sizes_of(o)?;
    let mut values = Vec::new();
    if !sizes.contains(&0) {
        collect(o, &sizes, 0, &mut values)?;
    }
    let d = match dtype {
        Some(d) => d,
        None => infer(&values)?,
    };
    let t = factory::empty(&sizes, d, Device::CPU).into_py()?;
    let fill = || -> torchnative_engine::Result<()> {
        dispatch!("tensor", d, copyable, T => {
            // SAFETY: fresh, contiguous, of that dtype, with as many elements.
            let out = unsafe { t.as_mut_slice::<T>() };
            for (slot, v) in out.iter_mut().zip(&values) {
                *slot = v.to::<T>()?;
            }
        });
        Ok(())
    };
    fill().into_py()?;
    Ok(t)
}

fn options(
    args: &[Bound<'_, PyAny>],
    kw: &[(String, Bound<'_, PyAny>)],
    from: usize,
    name: &str,
) -> PyResult<(Option<DType>, Option<Device>, bool)> {
    let mut found = (args.get(from).and_then(dtype::from_py), None, false);
    for (k, v) in kw {
        match k.as_str() {
            "dtype" if !v.is_none() => {
                found.0 = Some(dtype::from_py(v).ok_or_else(|| {
                    PyTypeError::new_err(format!("{name}(): argument 'dtype' must be torch.dtype"))
                })?)
            }
            "device" if !v.is_none() => found.1 = device::from_py(v)?,
            "requires_grad" => found.2 = v.is_truthy()?,
            "dtype" | "device" | "pin_memory" | "data" | "copy" => {}
            other => {
                return Err(PyTypeError::new_err(format!(
                    "{name}() got an unexpected keyword argument '{other}'"
                )));
            }
        }
    }
    Ok(found)
}

fn data<'a, 'py>(
    args: &'a [Bound<'py, PyAny>],
    kw: &'a [(String, Bound<'py, PyAny>)],
    name: &str,
) -> PyResult<&'a Bound<'py, PyAny>> {
    args.first().or_else(|| kw.iter().find(|(k, _)| k == "data").map(|(_, v)| v)).ok_or_else(|| {
        PyTypeError::new_err(format!("{name}() missing 1 required positional arguments: \"data\""))
    })
}

/// The tensor on a device, moved when need be.
pub(super) fn place(t: Tensor, to: Option<Device>) -> PyResult<Tensor> {
    match to {
        Some(d) if d.ty != t.device().ty => {
            op::_to_copy.call((&t, t.dtype(), torchnative_engine::IValue::None, d)).into_py()
        }
        _ => Ok(t),
    }
}

/// A new tensor of Python data on a device. Modes see it once it is there, not how it is filled.
fn from_data(o: &Bound<'_, PyAny>, dtype: Option<DType>, device: Option<Device>) -> PyResult<Tensor> {
    if let Some(t) = object::get(o)
        && torch_dispatch::concerns(t)
    {
        let detached = op::detach.call((t,)).into_py()?;
        let to = device.unwrap_or(t.device());
        let none = torchnative_engine::IValue::None;
        return op::_to_copy.call((&detached, dtype.unwrap_or(t.dtype()), none, to)).into_py();
    }
    torch_dispatch::fresh(|| place(sequence_to_tensor(o, dtype)?, device))
}

fn tensor_<'py>(
    py: Python<'py>,
    args: &[Bound<'py, PyAny>],
    kw: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let (dtype, device, requires_grad) = options(args, kw, 1, "tensor")?;
    let t = from_data(data(args, kw, "tensor")?, dtype, device)?;
    if requires_grad {
        t.set_requires_grad(true).into_py()?;
    }
    object::wrap(py, t)
}

fn as_tensor<'py>(
    py: Python<'py>,
    args: &[Bound<'py, PyAny>],
    kw: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let (dtype, device, _) = options(args, kw, 1, "as_tensor")?;
    let o = data(args, kw, "as_tensor")?;
    if let Some(t) = object::get(o)
        && dtype.is_none_or(|d| d == t.dtype())
        && device.is_none_or(|d| d.ty == t.device().ty)
    {
        return Ok(o.clone());
    }
    object::wrap(py, from_data(o, dtype, device)?)
use crate::torch_function;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::CStr;

/// `_make_subclass(cls, data, require_grad=False)`: an object of the class over the data of a tensor.
fn make_subclass<'py>(
    _py: Python<'py>,
    args: &[Bound<'py, PyAny>],
    kw: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let (Some(class), Some(d)) =
        (args.first(), args.get(1).or_else(|| kw.iter().find(|(k, _)| k == "data").map(|(_, v)| v)))
    else {
        return Err(PyTypeError::new_err("_make_subclass() missing required positional arguments"));
    };
    let class = class.cast::<PyType>().map_err(|_| PyTypeError::new_err("cls must be a type"))?;
    let t = object::get(d)
        .ok_or_else(|| PyTypeError::new_err("_make_subclass(): argument 'data' must be Tensor"))?;
    let requires_grad =
        match args.get(2).or_else(|| kw.iter().find(|(k, _)| k == "require_grad").map(|(_, v)| v)) {
            Some(o) => o.is_truthy()?,
            None => false,
        };
    let new = t.alias_with(t.sizes().into(), t.strides().into(), t.storage_offset());
    new.set_requires_grad(requires_grad).into_py()?;
    object::wrap_as(class, new)
}

type Function = for<'a, 'py> fn(
    Python<'py>,
    &'a [Bound<'py, PyAny>],
    &'a [(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>>;
static FUNCTIONS: [Function; 2] = [|py, a, k| tensor_(py, a, k), |py, a, k| as_tensor(py, a, k)];
/// Functions of `torch._C._VariableFunctions`, by name.
static FUNCTIONS: [(&CStr, Function); 5] = [
    (c"tensor", |py, a, k| from_memory::tensor(py, a, k)),
    (c"as_tensor", |py, a, k| from_memory::as_tensor(py, a, k)),
    (c"asarray", |py, a, k| from_memory::asarray(py, a, k)),
    (c"frombuffer", |py, a, k| from_memory::frombuffer(py, a, k)),
    (c"from_numpy", |py, a, k| object::wrap(py, crate::numpy::from_numpy(a, k.len())?)),
];
/// Static methods of `TensorBase`, by name.
static BASE_FUNCTIONS: [(&CStr, Function); 1] = [(c"_make_subclass", |py, a, k| make_subclass(py, a, k))];

unsafe extern "C" fn enter<const BASE: bool, const I: usize>(
    _slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython's vector call, with the GIL held.
    let py = unsafe { Python::assume_attached() };
    let body = || {
        let (positional, keywords) = unsafe { parser::unpack(py, args, nargs, kwnames)? };
        if BASE {
            return BASE_FUNCTIONS[I].1(py, &positional, &keywords).map(Bound::unbind);
        }
        let (name, function) = FUNCTIONS[I];
        if let Ok(name) = name.to_str()
            && name != "from_numpy"
            && let Some(result) = torch_function::function(py, name, &positional, &keywords)?
        {
            return Ok(result.unbind());
        }
        function(py, &positional, &keywords).map(Bound::unbind)
    };
    match error::guard(body) {
        Ok(o) => o.into_ptr(),
        Err(e) => {
            e.restore(py);
            std::ptr::null_mut()
        }
    }
}

fn static_definition(name: &'static std::ffi::CStr, entry: parser::Entry) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: entry },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS | ffi::METH_STATIC,
        ml_doc: std::ptr::null(),
    }
}

/// Hand-bound functions of `torch._C._VariableFunctions`.
pub fn static_definitions() -> Vec<ffi::PyMethodDef> {
    let entries: [parser::Entry; FUNCTIONS.len()] =
        [enter::<false, 0>, enter::<false, 1>, enter::<false, 2>, enter::<false, 3>, enter::<false, 4>];
    FUNCTIONS.iter().zip(entries).map(|((name, _), entry)| static_definition(name, entry)).collect()
}

/// Static methods of `TensorBase`.
pub(super) fn base_definitions() -> Vec<ffi::PyMethodDef> {
    vec![static_definition(BASE_FUNCTIONS[0].0, enter::<true, 0>)]
}

/// Nothing of `torch._C` itself so far.
pub fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
