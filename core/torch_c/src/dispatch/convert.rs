//! Python values as call values, by the types of a schema, and back.

use crate::error::IntoPy;
use crate::tensor::{object, value};
use crate::types::{device, dtype, layout};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::cell::Cell;
use std::sync::Arc;
use torchnative_engine::schema::Type;
use torchnative_engine::tensor::factory;
use torchnative_engine::{DType, IValue, IntList, Layout, MemoryFormat, Scalar};

fn opaque(object: &Bound<'_, PyAny>) -> IValue {
    IValue::Opaque(Arc::new(value::Opaque(object.clone().unbind())))
}

fn cannot(object: &Bound<'_, PyAny>, to: &str) -> PyErr {
    let text = object.str().map(|text| text.to_string()).unwrap_or_default();
    PyTypeError::new_err(format!("Unable to cast {text} to {to}"))
}

fn integer(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    if object.is_instance_of::<PyFloat>() {
        return Err(cannot(object, "int"));
    }
    object.extract()
}

fn float(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    if object.is_instance_of::<PyString>() {
        return Err(cannot(object, "float"));
    }
    object.extract()
}

/// A number of any kind; tensors without dimensions count as their number.
fn scalar(object: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Scalar::Bool(flag.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return match object.extract::<i64>() {
            Ok(value) => Ok(Scalar::Int(value)),
            Err(error) => object.extract::<u64>().map(Scalar::UInt).map_err(|_| error),
        };
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Scalar::Float(object.extract()?));
    }
    if let Ok(value) = object.cast::<PyComplex>() {
        use pyo3::types::PyComplexMethods;
        return Ok(Scalar::Complex(value.real(), value.imag()));
    }
    if object::get(object).is_some_and(|tensor| tensor.dim() == 0) {
        return scalar(&object.call_method0("item")?);
    }
    // NumPy's numbers.
    if let Ok(index) = object.call_method0("__index__") {
        return scalar(&index);
    }
    if object.hasattr("__float__")? && object::get(object).is_none() {
        return Ok(Scalar::Float(object.extract()?));
    }
    Err(PyTypeError::new_err(format!("Cannot cast {} to number", object.str()?)))
}

fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Some(found) = dtype::from_py(object) {
        return Ok(found);
    }
    let number = integer(object).map_err(|_| cannot(object, "torch.dtype"))?;
    DType::from_number(number).ok_or_else(|| cannot(object, "torch.dtype"))
}

fn list<T>(object: &Bound<'_, PyAny>, item: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    if let Ok(list) = object.cast::<PyList>() {
        return list.iter().map(|element| item(&element)).collect();
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return tuple.iter().map(|element| item(&element)).collect();
    }
    Err(cannot(object, "a list"))
}

/// The call value of a Python object where a schema wants `ty`; `list_len` is the length a single value expands to.
pub fn py_to_ivalue(object: &Bound<'_, PyAny>, ty: &Type, list_len: Option<u32>) -> PyResult<IValue> {
    Ok(match ty {
        Type::Tensor => match object::get(object) {
            Some(tensor) => IValue::Tensor(tensor.clone()),
            None => return number_as_tensor(object),
        },
        Type::Optional(_) if object.is_none() => IValue::None,
        Type::Optional(inner) => py_to_ivalue(object, inner, list_len)?,
        Type::Int | Type::SymInt => IValue::Int(match dtype::from_py(object) {
            // Enumerations are plain integers to TorchScript.
            Some(dtype) => dtype as i64,
            None => match layout::layout_from_py(object) {
                Some(layout) => layout as i64,
                None => match layout::format_from_py(object) {
                    Some(format) => format as i64,
                    None => integer(object)?,
                },
            },
        }),
        Type::Bool | Type::SymBool => match object.cast::<PyBool>() {
            Ok(flag) => IValue::Bool(flag.is_true()),
            Err(_) => return Err(cannot(object, "bool")),
        },
        Type::Float => IValue::Double(float(object)?),
        Type::Complex => match scalar(object)? {
            complex @ Scalar::Complex(..) => IValue::Scalar(complex),
            Scalar::Float(re) => IValue::Scalar(Scalar::Complex(re, 0.0)),
            other => IValue::Scalar(Scalar::Complex(other.cast::<f64>(), 0.0)),
        },
        Type::Scalar => IValue::from(scalar(object)?),
        Type::Str => match object.cast::<PyString>() {
            Ok(text) => IValue::Str(text.to_str()?.into()),
            Err(_) => return Err(cannot(object, "str")),
        },
        Type::ScalarType => IValue::DType(dtype_of(object)?),
        Type::Layout => match layout::layout_from_py(object) {
            Some(found) => IValue::Layout(found),
            None => {
                let number = integer(object).map_err(|_| cannot(object, "torch.layout"))?;
                let found = Layout::ALL.into_iter().find(|layout| *layout as i64 == number);
                IValue::Layout(found.ok_or_else(|| cannot(object, "torch.layout"))?)
            }
        },
        Type::MemoryFormat => match layout::format_from_py(object) {
            Some(found) => IValue::MemoryFormat(found),
            None => {
                let number = integer(object).map_err(|_| cannot(object, "torch.memory_format"))?;
                let found = MemoryFormat::ALL.into_iter().find(|format| *format as i64 == number);
                IValue::MemoryFormat(found.ok_or_else(|| cannot(object, "torch.memory_format"))?)
            }
        },
        Type::Device => match device::from_py(object)? {
            Some(found) => IValue::Device(found),
            None => return Err(cannot(object, "torch.device")),
        },
        Type::Generator => match crate::generator::from_py(object) {
            Some(found) => IValue::Generator(found),
            None => return Err(cannot(object, "torch.Generator")),
        },
        Type::List(element) => list_value(object, element, list_len)?,
        Type::Tuple(types) => {
            let items = list(object, |item| Ok(item.clone().unbind()))?;
            if items.len() != types.len() {
                return Err(cannot(object, "a tuple"));
            }
            let py = object.py();
            let items = items.iter().zip(types).map(|(item, ty)| py_to_ivalue(item.bind(py), ty, None));
            IValue::List(items.collect::<PyResult<_>>()?)
        }
        Type::None if object.is_none() => IValue::None,
        Type::None => return Err(cannot(object, "None")),
        Type::Dict(..) if !object.is_instance_of::<PyDict>() => return Err(cannot(object, "Dict")),
        // Whatever the engine has no value of its own for goes through as it is.
        _ => match object::get(object) {
            Some(tensor) => IValue::Tensor(tensor.clone()),
            None => opaque(object),
        },
    })
}

thread_local! {
    static NUMBERS: Cell<bool> = const { Cell::new(false) };
}

/// Lets numbers stand for tensors, or not, until it is dropped.
pub struct NumbersAsTensors(bool);

impl NumbersAsTensors {
    pub fn allow(on: bool) -> Self {
        NumbersAsTensors(NUMBERS.replace(on))
    }
}

impl Drop for NumbersAsTensors {
    fn drop(&mut self) {
        NUMBERS.set(self.0);
    }
}

/// Numbers stand for tensors in calls of the operators of arithmetic.
fn number_as_tensor(object: &Bound<'_, PyAny>) -> PyResult<IValue> {
    if !NUMBERS.get() {
        return Err(cannot(object, "Tensor"));
    }
    let is_number = object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyComplex>()
        || object.is_instance_of::<PyBool>();
    if !is_number {
        return Err(cannot(object, "Tensor"));
    }
    let tensor = factory::wrapped_scalar(scalar(object)?).into_py()?;
    Ok(IValue::Tensor(tensor))
}

fn list_value(object: &Bound<'_, PyAny>, element: &Type, list_len: Option<u32>) -> PyResult<IValue> {
    // `int[2]` takes a single number, which stands for two.
    if let Some(length) = list_len.map(|length| length as usize) {
        match element {
            Type::Int | Type::SymInt if object.is_instance_of::<PyInt>() => {
                return Ok(IValue::IntList(IntList::from_elem(integer(object)?, length)));
            }
            Type::Float if object.is_instance_of::<PyFloat>() => {
                return Ok(IValue::DoubleList(vec![float(object)?; length]));
            }
            Type::Bool if object.is_instance_of::<PyBool>() => {
                return Ok(IValue::BoolList(vec![object.extract()?; length]));
            }
            _ => {}
        }
    }
    Ok(match element {
        Type::Int | Type::SymInt => IValue::IntList(IntList::from_vec(list(object, integer)?)),
        Type::Float => IValue::DoubleList(list(object, float)?),
        Type::Bool => IValue::BoolList(list(object, |item| item.extract())?),
        Type::Scalar => IValue::ScalarList(list(object, scalar)?),
        Type::Tensor => IValue::TensorList(list(object, |item| {
            object::get(item).cloned().ok_or_else(|| cannot(item, "Tensor"))
        })?),
        Type::Optional(inner) if **inner == Type::Tensor => IValue::OptTensorList(list(object, |item| {
            if item.is_none() {
                return Ok(None);
            }
            object::get(item).cloned().map(Some).ok_or_else(|| cannot(item, "Tensor"))
        })?),
        other => IValue::List(list(object, |item| py_to_ivalue(item, other, None))?),
    })
}

/// The Python object of a call value, where the schema says `ty`: a list that stands for a tuple becomes one.
pub fn ivalue_to_py<'py>(py: Python<'py>, call_value: &IValue, ty: &Type) -> PyResult<Bound<'py, PyAny>> {
    let IValue::List(items) = call_value else { return value::to_py(py, call_value) };
    match ty.unwrap_optional() {
        Type::Tuple(types) => {
            let parts = items.iter().zip(types).map(|(item, ty)| ivalue_to_py(py, item, ty));
            Ok(PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        other => {
            let element = other.list_element().cloned().unwrap_or(Type::Any);
            let parts = items.iter().map(|item| ivalue_to_py(py, item, &element));
            Ok(PyList::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
    }
}
