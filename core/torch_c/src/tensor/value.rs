//! Call values between Python and the engine.

use super::object;
use crate::error::IntoPy;
use crate::types::{device, dtype, layout};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;
use torchnative_engine::{IValue, IntList, Result as EngineResult, Scalar, Tensor, dtype::Convert};

/// A Python object that only passes through the engine.
pub struct Opaque(pub Py<PyAny>);

/// The Python object of a call value.
pub fn to_py<'py>(py: Python<'py>, v: &IValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match v {
        IValue::None => py.None().into_bound(py),
        IValue::Tensor(t) => object::wrap(py, t.clone())?,
        IValue::Int(v) => v.into_pyobject(py)?.into_any(),
        IValue::Bool(v) => PyBool::new(py, *v).to_owned().into_any(),
        IValue::Double(v) => PyFloat::new(py, *v).into_any(),
        IValue::Scalar(s) => scalar_to_py(py, *s)?,
        IValue::Str(s) => PyString::new(py, s).into_any(),
        IValue::IntList(v) => PyList::new(py, v.iter())?.into_any(),
        IValue::DoubleList(v) => PyList::new(py, v)?.into_any(),
        IValue::BoolList(v) => PyList::new(py, v)?.into_any(),
        IValue::TensorList(v) => {
            let items = v.iter().map(|t| object::wrap(py, t.clone())).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        IValue::OptTensorList(v) => {
            let items = v
                .iter()
                .map(|t| t.as_ref().map_or(Ok(py.None().into_bound(py)), |t| object::wrap(py, t.clone())))
                .collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        IValue::ScalarList(v) => {
            let items = v.iter().map(|s| scalar_to_py(py, *s)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        IValue::DType(d) => dtype::to_py(py, *d).into_any(),
        IValue::Layout(l) => layout::layout_to_py(py, *l).into_any(),
        IValue::Device(d) => device::to_py(py, *d)?.into_any(),
        IValue::MemoryFormat(m) => layout::format_to_py(py, *m).into_any(),
        IValue::Generator(g) => crate::generator::to_py(py, g)?.into_any(),
        IValue::Storage(s) => crate::storage::wrap(py, s.clone())?,
        IValue::List(v) => {
            let items = v.iter().map(|x| to_py(py, x)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        IValue::Opaque(o) => match o.downcast_ref::<Opaque>() {
            Some(o) => o.0.bind(py).clone(),
            None => return Err(PyTypeError::new_err("a value of an unknown language")),
        },
    })
}

/// The Python number of a scalar.
pub fn scalar_to_py<'py>(py: Python<'py>, s: Scalar) -> PyResult<Bound<'py, PyAny>> {
    Ok(match s {
        Scalar::Bool(v) => PyBool::new(py, v).to_owned().into_any(),
        Scalar::Int(v) => v.into_pyobject(py)?.into_any(),
        Scalar::UInt(v) => v.into_pyobject(py)?.into_any(),
        Scalar::Float(v) => PyFloat::new(py, v).into_any(),
        Scalar::Complex(re, im) => PyComplex::from_doubles(py, re, im).into_any(),
    })
}

/// The scalar of a Python number (int, float, bool, complex, or a NumPy number); `None` for anything else.
pub fn scalar_from_py(o: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if let Ok(b) = o.cast::<PyBool>() {
        return Ok(Some(Scalar::Bool(b.is_true())));
    }
    if o.cast::<PyInt>().is_ok() {
        if let Ok(v) = o.extract::<i64>() {
            return Ok(Some(Scalar::Int(v)));
        }
        if let Ok(v) = o.extract::<u64>() {
            return Ok(Some(Scalar::UInt(v)));
        }
        return Err(pyo3::exceptions::PyOverflowError::new_err("Overflow when unpacking long long"));
    }
    if o.cast::<PyFloat>().is_ok() {
        return Ok(Some(Scalar::Float(o.extract()?)));
    }
    if let Ok(c) = o.cast::<PyComplex>() {
        let (re, im): (f64, f64) = (c.getattr("real")?.extract()?, c.getattr("imag")?.extract()?);
        return Ok(Some(Scalar::Complex(re, im)));
    }
    crate::numpy::scalar(o)
}

/// The number in a one-element tensor (`item()`).
pub fn item(t: &Tensor) -> EngineResult<Scalar> {
    if !t.is_wrapped_number() && crate::torch_dispatch::concerns(t) {
        let result = torchnative_engine::op::item.call_all((t,))?;
        return match result.first() {
            Some(v) => v.scalar(),
            None => torchnative_engine::bail!(Internal, "aten::item returned nothing"),
        };
    }
    torchnative_engine::check!(
        t.numel() == 1,
        "a Tensor with {} elements cannot be converted to Scalar",
        t.numel()
    );
    let t = if t.storage().allocation().is_some() {
        torchnative_engine::ops::copy::to_cpu(t)?
    } else {
        torchnative_engine::check!(t.is_cpu(), "Tensor.item() cannot be called on {} tensors", t.device());
        torchnative_engine::ops::copy::contiguous(t)?
    };
    use torchnative_engine::dtype::Wide;
    // SAFETY: one element of that dtype, on the CPU.
    let wide = torchnative_engine::dispatch!("item", t.dtype(), copyable, T => unsafe { (t.data_ptr() as *const T).read() }.to_wide());
    Ok(match wide {
        Wide::I(v) if t.dtype() == torchnative_engine::DType::Bool => Scalar::Bool(v != 0),
        Wide::I(v) => Scalar::Int(v),
        Wide::U(v) => i64::try_from(v).map_or(Scalar::UInt(v), Scalar::Int),
        Wide::F(v) => Scalar::Float(v),
        Wide::C(re, im) => Scalar::Complex(re, im),
    })
}

/// A call value from any Python object, by its Python type alone (for boxed calls and `torch.library`).
pub fn from_py(o: &Bound<'_, PyAny>) -> PyResult<IValue> {
    if o.is_none() {
        return Ok(IValue::None);
    }
    if let Some(t) = object::get(o) {
        return Ok(IValue::Tensor(t.clone()));
    }
    if let Some(s) = scalar_from_py(o)? {
        return Ok(s.into());
    }
    if let Ok(s) = o.cast::<PyString>() {
        return Ok(IValue::Str(s.to_str()?.into()));
    }
    if let Some(d) = dtype::from_py(o) {
        return Ok(IValue::DType(d));
    }
    if let Some(l) = layout::layout_from_py(o) {
        return Ok(IValue::Layout(l));
    }
    if let Some(m) = layout::format_from_py(o) {
        return Ok(IValue::MemoryFormat(m));
    }
    if let Ok(d) = o.cast::<device::PyDevice>() {
        return Ok(device::from_py(d.as_any())?.map_or(IValue::None, IValue::Device));
    }
    if let Some((storage, _)) = crate::storage::from_py(o)? {
        return Ok(IValue::Storage(storage));
    }
    if o.cast::<PyList>().is_ok() || o.cast::<PyTuple>().is_ok() {
        let items = o.try_iter()?.map(|x| from_py(&x?)).collect::<PyResult<Vec<_>>>()?;
        return Ok(list(items));
    }
    Ok(IValue::Opaque(Arc::new(Opaque(o.clone().unbind()))))
}

/// The most specific list of some values.
pub fn list(items: Vec<IValue>) -> IValue {
    if items.is_empty() {
        return IValue::List(items);
    }
    if items.iter().all(|v| matches!(v, IValue::Int(_))) {
        return IValue::IntList(items.iter().filter_map(|v| v.int().ok()).collect::<IntList>());
    }
    if items.iter().all(|v| matches!(v, IValue::Tensor(_))) {
        return IValue::TensorList(items.iter().filter_map(|v| v.opt_tensor().cloned()).collect());
    }
    if items.iter().all(|v| matches!(v, IValue::Tensor(_) | IValue::None)) {
        return IValue::OptTensorList(items.iter().map(|v| v.opt_tensor().cloned()).collect());
    }
    if items.iter().all(|v| matches!(v, IValue::Bool(_))) {
        return IValue::BoolList(items.iter().filter_map(|v| v.bool().ok()).collect());
    }
    if items.iter().all(|v| matches!(v, IValue::Double(_) | IValue::Int(_))) {
        return IValue::DoubleList(items.iter().filter_map(|v| v.double().ok()).collect());
    }
    IValue::List(items)
}

/// `Ok(object)` of an engine result that is a tensor.
pub fn wrap_result<'py>(py: Python<'py>, r: EngineResult<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    object::wrap(py, r.into_py()?)
}
