//! `x[index]` and `x[index] = value`.

use super::{object, value};
use crate::error::{self, IntoPy};
use crate::torch_function;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyEllipsis, PyFloat, PySlice, PyTuple};
use std::ffi::c_int;
use std::ptr;
use torchnative_engine::tensor::factory;
use torchnative_engine::warn::{Category, warn};
use torchnative_engine::{DType, IValue, Tensor, op};

pub(super) unsafe extern "C" fn length(object: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: called with the GIL held and a live object.
    let py = unsafe { Python::assume_attached() };
    match unsafe { object::get_raw(py, object) } {
        Some(t) if t.dim() > 0 => t.sizes()[0] as ffi::Py_ssize_t,
        Some(_) => {
            PyTypeError::new_err("len() of a 0-d tensor").restore(py);
            -1
        }
        None => {
            PyTypeError::new_err("the tensor is not initialised").restore(py);
            -1
        }
    }
}

pub(super) unsafe extern "C" fn get_item(
    slf: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called with the GIL held and live objects.
    let py = unsafe { Python::assume_attached() };
    let (slf, key) =
        unsafe { (Bound::<PyAny>::from_borrowed_ptr(py, slf), Bound::<PyAny>::from_borrowed_ptr(py, key)) };
    let run = || {
        if let Some(result) = torch_function::indexing(&slf, &key, None)? {
            return Ok(result);
        }
        let t = object::get(&slf).ok_or_else(|| PyTypeError::new_err("the tensor is not initialised"))?;
        let (view, tensors) = apply(t, &key, true)?;
        let out = match tensors {
            None => view,
            Some(indices) => op::index_Tensor.call((&view, indices)).into_py()?,
        };
        // `x[...]` is a new view, never the tensor itself.
        let out = if out.is_same(t) { op::alias.call((t,)).into_py()? } else { out };
        object::wrap(py, out)
    };
    match error::guard(run) {
        Ok(o) => o.into_ptr(),
        Err(e) => {
            e.restore(py);
            ptr::null_mut()
        }
    }
}

pub(super) unsafe extern "C" fn set_item(
    slf: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
    v: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: called with the GIL held and live objects; the value is null for `del`.
    let py = unsafe { Python::assume_attached() };
    let run = || {
        if v.is_null() {
            return Err(PyTypeError::new_err("Tensor does not support deleting items"));
        }
        let (slf, key, v) = unsafe {
            (
                Bound::<PyAny>::from_borrowed_ptr(py, slf),
                Bound::<PyAny>::from_borrowed_ptr(py, key),
                Bound::<PyAny>::from_borrowed_ptr(py, v),
            )
        };
        if torch_function::indexing(&slf, &key, Some(&v))?.is_some() {
            return Ok(());
        }
        let t = object::get(&slf).ok_or_else(|| PyTypeError::new_err("the tensor is not initialised"))?;
        let number = match object::get(&v) {
            Some(_) => None,
            // Upstream takes NumPy's integers and booleans for numbers here, its floats not.
            None => value::scalar_from_py(&v)?.filter(|s| {
                s.is_integral()
                    || s.is_bool()
                    || v.is_instance_of::<PyFloat>()
                    || v.is_instance_of::<PyComplex>()
            }),
        };
        let source = match object::get(&v) {
            Some(s) => s.clone(),
            None => match number {
                Some(s) => {
                    let source = factory::empty(&[], t.dtype(), t.device()).into_py()?;
                    op::fill__Scalar.call((&source, s)).into_py()?
                }
                None => {
                    return Err(PyTypeError::new_err(format!(
                        "can't assign a {} to a torch.{}Tensor",
                        super::data::kind(&v),
                        t.dtype().scalar_type_name()
                    )));
                }
            },
        };
        let (view, tensors) = apply(t, &key, false)?;
        match tensors {
            // A number fills also what shares its memory with itself.
            None if object::get(&v).is_none() => {
                op::fill__Scalar.call((&view, number.expect("a number made the source"))).into_py()?;
            }
            None => {
                let source = strip_leading_ones(&source, view.dim())?;
                op::copy_.call((&view, &source)).into_py()?;
            }
            Some(indices) => {
                let source = if source.dtype() == view.dtype() {
                    source
                } else {
                    op::_to_copy.call((&source, view.dtype())).into_py()?
                };
                op::index_put_.call((&view, indices, &source)).into_py()?;
            }
        }
        Ok(())
    };
    match error::guard(run) {
        Ok(()) => 0,
        Err(e) => {
            e.restore(py);
            -1
        }
    }
}

/// Assigning `[1, 1, n]` to `[n]` drops the leading ones (`slicePrefix1sSize`).
fn strip_leading_ones(source: &Tensor, dims: usize) -> PyResult<Tensor> {
    let mut sizes = source.sizes();
    while sizes.len() > dims && sizes.first() == Some(&1) {
        sizes = &sizes[1..];
    }
    if sizes.len() == source.dim() { Ok(source.clone()) } else { op::view.call((source, sizes)).into_py() }
}

fn too_many(dims: usize) -> PyErr {
    PyIndexError::new_err(format!("too many indices for tensor of dimension {dims}"))
}

/// Sequences this long are never taken for tuples.
const LONGEST_TUPLE: usize = 32;

/// The indices of a key. A list that holds a sequence, a tensor, a slice, an ellipsis or None is a tuple in disguise
/// (`treatSequenceAsTuple`), which upstream warns about.
fn as_tuple<'py>(key: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(t) = key.cast::<PyTuple>() {
        return Ok(t.iter().collect());
    }
    if !is_list(key)? || key.len()? >= LONGEST_TUPLE {
        return Ok(vec![key.clone()]);
    }
    let items = key.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    for item in &items {
        if object::get(item).is_some()
            // SAFETY: a live object, attached.
            || unsafe { ffi::PySequence_Check(item.as_ptr()) } != 0
            || item.is_instance_of::<PySlice>()
            || item.is_instance_of::<PyEllipsis>()
            || item.is_none()
        {
            warn(
                Category::User,
                "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use \
                 x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which \
                 will result either in an error or a different result",
            )
            .into_py()?;
            return Ok(items);
        }
    }
    Ok(vec![key.clone()])
}

/// Whether the object is a sequence that is no tensor and no array of NumPy's.
fn is_list(o: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(super::data::is_sequence(o) && !crate::numpy::is_array(o)?)
}

fn select(t: &Tensor, dim: usize, index: i64, real_dim: usize) -> PyResult<Tensor> {
    let size = t.sizes()[dim];
    if index < -size || index >= size {
        return Err(PyIndexError::new_err(format!(
            "index {index} is out of bounds for dimension {real_dim} with size {size}"
        )));
    }
    op::select_int.call((t, dim, index)).into_py()
}

/// Applies the parts of an index that are views; the tensors that remain are for `index` or `index_put_`.
fn apply(
    t: &Tensor,
    key: &Bound<'_, PyAny>,
    _reading: bool,
) -> PyResult<(Tensor, Option<Vec<Option<Tensor>>>)> {
    let items = as_tuple(key)?;
    let mut specified = 0;
    for i in &items {
        specified += match object::get(i) {
            Some(x) if matches!(x.dtype(), DType::Bool | DType::Byte) && x.dim() > 0 => x.dim(),
            Some(x) if x.dtype() == DType::Bool => 0,
            Some(_) => 1,
            None if i.is_none() || i.is_instance_of::<PyEllipsis>() || i.is_instance_of::<PyBool>() => 0,
            None => 1,
        };
    }
    if specified > t.dim() {
        return Err(too_many(t.dim()));
    }
    let mut view = t.clone();
    let mut dim = 0;
    let mut real_dim = 0;
    let mut tensors: Vec<Option<Tensor>> = Vec::new();
    let mut any = false;
    let put = |tensors: &mut Vec<Option<Tensor>>, dim: usize, x: Tensor| {
        if tensors.len() <= dim {
            tensors.resize(dim + 1, None);
        }
        tensors[dim] = Some(x);
    };
    for i in &items {
        if let Some(x) = object::get(i) {
            if x.dim() == 0 && x.dtype().is_integral(false) {
                // A 0-d integer tensor selects.
                let n = value::item(x).into_py()?.to_i64();
                view = select(&view, dim, n, real_dim)?;
                real_dim += 1;
                continue;
            }
            if x.dim() == 0 && x.dtype() == DType::Bool {
                view = op::unsqueeze.call((&view, dim)).into_py()?;
                let on = value::item(x).into_py()?.to_bool();
                put(&mut tensors, dim, bool_index(on)?);
                dim += 1;
                any = true;
                continue;
            }
            let n = if matches!(x.dtype(), DType::Bool | DType::Byte) { x.dim() } else { 1 };
            put(&mut tensors, dim, x.clone());
            any = true;
            dim += n;
            real_dim += n;
        } else if i.is_none() {
            view = op::unsqueeze.call((&view, dim)).into_py()?;
            dim += 1;
        } else if i.is_instance_of::<PyEllipsis>() {
            let skip = t.dim() - specified;
            dim += skip;
            real_dim += skip;
        } else if let Ok(b) = i.cast::<PyBool>() {
            view = op::unsqueeze.call((&view, dim)).into_py()?;
            put(&mut tensors, dim, bool_index(b.is_true())?);
            dim += 1;
            any = true;
        } else if let Ok(s) = i.cast::<PySlice>() {
            view = slice(&view, dim, s)?;
            dim += 1;
            real_dim += 1;
        } else if is_list(i)? || is_array(i)? {
            let x = super::data::index_from(i)?;
            let n = if x.dtype() == DType::Bool { x.dim() } else { 1 };
            put(&mut tensors, dim, x);
            any = true;
            dim += n;
            real_dim += n;
        } else if crate::parser::is_int(i) || i.hasattr("__index__")? {
            let n: i64 = i.call_method0("__index__")?.extract()?;
            if view.dim() == 0 {
                return Err(PyIndexError::new_err(
                    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim \
                     tensor to a number",
                ));
            }
            view = select(&view, dim, n, real_dim)?;
            real_dim += 1;
        } else {
            return Err(PyIndexError::new_err(format!(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
                super::data::kind(i)
            )));
        }
    }
    Ok((view, any.then_some(tensors)))
}

/// Whether the object is an array of NumPy's; those of one integer are numbers.
fn is_array(o: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(crate::numpy::is_array(o)? && o.getattr("ndim")?.extract::<usize>()? > 0)
}

fn bool_index(on: bool) -> PyResult<Tensor> {
    factory::from_slice(if on { &[0i64][..] } else { &[][..] }).into_py()
}

fn slice(t: &Tensor, dim: usize, s: &Bound<'_, PySlice>) -> PyResult<Tensor> {
    let part = |name: &str| -> PyResult<Option<i64>> {
        let o = s.getattr(name)?;
        if o.is_none() {
            return Ok(None);
        }
        if let Some(x) = object::get(&o) {
            return Ok(Some(value::item(x).and_then(|v| v.to::<i64>()).into_py()?));
        }
        // Bounds past the integers' range mean the end.
        let i = o.call_method0("__index__")?;
        Ok(Some(i.extract::<i64>().unwrap_or(if i.lt(0)? { i64::MIN } else { i64::MAX })))
    };
    let (start, stop, step) = (part("start")?, part("stop")?, part("step")?);
    if step == Some(0) {
        return Err(pyo3::exceptions::PyValueError::new_err("step must be greater than zero"));
    }
    if step.is_some_and(|s| s < 0) {
        return Err(pyo3::exceptions::PyValueError::new_err("step must be greater than zero"));
    }
    if start.is_none() && stop.is_none() && step.is_none_or(|s| s == 1) {
        return Ok(t.clone());
    }
    op::slice_Tensor.call((t, dim, IValue::from(start), IValue::from(stop), step.unwrap_or(1))).into_py()
}
