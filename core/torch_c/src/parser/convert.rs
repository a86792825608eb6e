//! Whether a Python object fits a parameter, and its call value.

use super::mismatch;
use super::signature::{Kind, Parameter};
use crate::error::IntoPy;
use crate::tensor::{object, value};
use crate::types::{device, dtype, layout};
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};
use torchnative_engine::tensor::factory;
use torchnative_engine::{IValue, IntList, Scalar};

/// Functions whose Tensor parameters take Python numbers (`should_allow_numbers_as_tensors`).
const NUMBERS_AS_TENSORS: &[&str] = &[
    "add",
    "add_",
    "add_out",
    "div",
    "div_",
    "div_out",
    "divide",
    "divide_",
    "divide_out",
    "mul",
    "mul_",
    "mul_out",
    "multiply",
    "multiply_",
    "multiply_out",
    "sub",
    "sub_",
    "sub_out",
    "subtract",
    "subtract_",
    "subtract_out",
    "true_divide",
    "true_divide_",
    "true_divide_out",
    "to",
    "_to_copy",
    "copy_",
    "copy",
    "floor_divide",
    "floor_divide_",
    "floor_divide_out",
    "_conj",
];

/// Whether the function takes numbers where its signature says Tensor.
pub fn numbers_as_tensors(name: &str) -> bool {
    NUMBERS_AS_TENSORS.contains(&name)
}

fn is_number(o: &Bound<'_, PyAny>) -> bool {
    o.is_instance_of::<PyFloat>()
        || o.is_instance_of::<PyInt>()
        || value::scalar_from_py(o).is_ok_and(|s| s.is_some())
}

/// An int that is not a bool, a NumPy integer, or a 0-d integer tensor.
pub fn is_int(o: &Bound<'_, PyAny>) -> bool {
    if o.is_instance_of::<PyInt>() {
        return !o.is_instance_of::<PyBool>();
    }
    if let Some(t) = object::get(o) {
        return t.dim() == 0 && t.dtype().is_integral(true) && !t.requires_grad();
    }
    !o.is_instance_of::<PyFloat>() && matches!(value::scalar_from_py(o), Ok(Some(Scalar::Int(_))))
}

/// What a list of ints may begin with: an object with `__index__` that is no bool. Tensors of one integer are such.
pub fn is_index(o: &Bound<'_, PyAny>) -> bool {
    if o.is_instance_of::<PyInt>() {
        return !o.is_instance_of::<PyBool>();
    }
    if let Some(t) = object::get(o) {
        return t.numel() == 1 && t.dtype().is_integral(true);
    }
    // SAFETY: a live object, attached; arrays have the slot and raise in it.
    unsafe {
        ffi::PyIndex_Check(o.as_ptr()) != 0
            && Bound::from_owned_ptr_or_err(o.py(), ffi::PyNumber_Index(o.as_ptr())).is_ok()
    }
}

/// Whether the object is a tuple or list that is empty or begins with an int: what follows is looked at when it is taken.
fn is_int_list(o: &Bound<'_, PyAny>) -> bool {
    let first = match (o.cast::<PyTuple>(), o.cast::<PyList>()) {
        (Ok(t), _) => t.iter().next(),
        (_, Ok(l)) => l.iter().next(),
        _ => return false,
    };
    first.is_none_or(|x| is_index(&x))
}

fn sequence_all(o: &Bound<'_, PyAny>, f: impl Fn(&Bound<'_, PyAny>) -> bool) -> bool {
    if let Ok(t) = o.cast::<PyTuple>() {
        return t.iter().all(|x| f(&x));
    }
    if let Ok(l) = o.cast::<PyList>() {
        return l.iter().all(|x| f(&x));
    }
    false
}

/// Whether the object may be given for the parameter.
pub fn fits(p: &Parameter, o: &Bound<'_, PyAny>, numbers: bool) -> bool {
    if p.allow_none && o.is_none() {
        return true;
    }
    match p.kind {
        Kind::Tensor => object::get(o).is_some() || (numbers && !p.allow_none && is_number(o)),
        Kind::Scalar => match object::get(o) {
            Some(t) => t.dim() == 0 && !t.requires_grad(),
            None => is_number(o),
        },
        Kind::Int => is_int(o),
        Kind::Double => match object::get(o) {
            Some(t) => t.dim() == 0 && !t.requires_grad(),
            None => is_number(o),
        },
        Kind::Bool => o.is_instance_of::<PyBool>(),
        Kind::Str => o.is_instance_of::<PyString>(),
        Kind::IntList => (p.len > 0 && is_int(o)) || is_int_list(o),
        Kind::DoubleList => (p.len > 0 && is_number(o)) || sequence_all(o, is_number),
        Kind::TensorList => sequence_all(o, |x| object::get(x).is_some()),
        Kind::OptTensorList => sequence_all(o, |x| x.is_none() || object::get(x).is_some()),
        Kind::ScalarList => sequence_all(o, is_number),
        Kind::BoolList => sequence_all(o, |x| x.is_instance_of::<PyBool>()),
        Kind::DType => dtype::from_py(o).is_some() || python_type(o).is_some(),
        Kind::Layout => layout::layout_from_py(o).is_some(),
        Kind::Device => o.is_instance_of::<PyString>() || o.cast::<device::PyDevice>().is_ok() || is_int(o),
        Kind::Generator => o.is_instance_of::<crate::generator::PyGenerator>(),
        Kind::MemoryFormat => layout::format_from_py(o).is_some(),
        Kind::Object => true,
        Kind::Stream | Kind::Storage => {
            o.get_type().name().is_ok_and(|n| n.to_string_lossy().ends_with("Storage"))
        }
    }
}

/// The dtype that `float`, `int`, `bool` or `complex` stand for.
pub fn python_type(o: &Bound<'_, PyAny>) -> Option<torchnative_engine::DType> {
    use torchnative_engine::DType;
    let py = o.py();
    if o.is(py.get_type::<PyFloat>()) {
        return Some(DType::Double);
    }
    if o.is(py.get_type::<PyBool>()) {
        return Some(DType::Bool);
    }
    if o.is(py.get_type::<PyInt>()) {
        return Some(DType::Long);
    }
    if o.is(py.get_type::<pyo3::types::PyComplex>()) {
        return Some(DType::ComplexDouble);
    }
    None
}

const OVERFLOW: &str = "Overflow when unpacking long long";

/// An element of a list of ints.
fn element(o: &Bound<'_, PyAny>) -> PyResult<i64> {
    if o.is_exact_instance_of::<PyInt>() {
        return int(o);
    }
    // SAFETY: a live object, attached; null comes with an exception.
    let number = unsafe { Bound::from_owned_ptr_or_err(o.py(), ffi::PyNumber_Index(o.as_ptr())) };
    match number {
        Ok(number) => int(&number),
        Err(_) => Err(PyValueError::new_err(format!(
            "type must be tuple of ints,but got {}",
            mismatch::type_name(o)
        ))),
    }
}

fn int(o: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Some(t) = object::get(o) {
        return value::item(t).and_then(|v| v.to::<i64>()).into_py();
    }
    o.extract::<i64>().map_err(|e| {
        if e.is_instance_of::<PyOverflowError>(o.py()) { PyValueError::new_err(OVERFLOW) } else { e }
    })
}

fn scalar(o: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Some(t) = object::get(o) {
        return value::item(t).into_py();
    }
    let number = value::scalar_from_py(o).map_err(|e| {
        let large = e.is_instance_of::<PyOverflowError>(o.py());
        if large { PyOverflowError::new_err("int too big to convert") } else { e }
    });
    number?.ok_or_else(|| PyTypeError::new_err("expected a number"))
}

fn items<'py, T>(o: &Bound<'py, PyAny>, f: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    o.try_iter()?.map(|x| f(&x?)).collect()
}

/// The call value of an object that fits the parameter of the function `name`.
pub fn convert(name: &str, p: &Parameter, o: &Bound<'_, PyAny>) -> PyResult<IValue> {
    if o.is_none() && p.allow_none {
        return Ok(IValue::None);
    }
    Ok(match p.kind {
        Kind::Tensor => match object::get(o) {
            Some(t) => IValue::Tensor(t.clone()),
            None => IValue::Tensor(factory::wrapped_scalar(scalar(o)?).into_py()?),
        },
        Kind::Scalar => scalar(o)?.into(),
        Kind::Int => IValue::Int(int(o)?),
        Kind::Double => IValue::Double(scalar(o)?.to::<f64>().into_py()?),
        Kind::Bool => IValue::Bool(o.extract()?),
        Kind::Str => IValue::Str(o.extract::<String>()?.as_str().into()),
        Kind::IntList => {
            if p.len > 0 && is_int(o) {
                IValue::IntList(IntList::from_elem(int(o)?, p.len))
            } else {
                let mut v = IntList::new();
                for (i, x) in o.try_iter()?.enumerate() {
                    let x = x?;
                    v.push(element(&x).map_err(|e| {
                        if !e.is_instance_of::<PyValueError>(x.py()) {
                            return e;
                        }
                        PyTypeError::new_err(format!(
                            "{name}(): argument '{}' failed to unpack the object at pos {} with error \"{}\"",
                            p.name,
                            i + 1,
                            e.value(x.py())
                        ))
                    })?);
                }
                IValue::IntList(v)
            }
        }
        Kind::DoubleList => {
            if p.len > 0 && is_number(o) {
                IValue::DoubleList(vec![scalar(o)?.to::<f64>().into_py()?; p.len])
            } else {
                IValue::DoubleList(items(o, |x| scalar(x)?.to::<f64>().into_py())?)
            }
        }
        Kind::TensorList => IValue::TensorList(items(o, |x| {
            object::get(x).cloned().ok_or_else(|| PyTypeError::new_err("expected Tensor as element"))
        })?),
        Kind::OptTensorList => IValue::OptTensorList(items(o, |x| Ok(object::get(x).cloned()))?),
        Kind::ScalarList => IValue::ScalarList(items(o, scalar)?),
        Kind::BoolList => IValue::BoolList(items(o, |x| x.extract::<bool>())?),
        Kind::DType => match dtype::from_py(o).or_else(|| python_type(o)) {
            Some(d) => IValue::DType(d),
            None => return Err(PyTypeError::new_err("expected a torch.dtype")),
        },
        Kind::Layout => layout::layout_from_py(o).map_or(IValue::None, IValue::Layout),
        Kind::Device => match device::usable_from_py(o)? {
            Some(d) => IValue::Device(d),
            None => return Err(PyRuntimeError::new_err("expected a device")),
        },
        Kind::MemoryFormat => layout::format_from_py(o).map_or(IValue::None, IValue::MemoryFormat),
        Kind::Generator => crate::generator::from_py(o).map_or(IValue::None, IValue::Generator),
        Kind::Stream | Kind::Storage | Kind::Object => value::from_py(o)?,
    })
}
