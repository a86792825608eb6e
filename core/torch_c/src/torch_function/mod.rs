//! `__torch_function__`: whether a call goes to an override, and the call of the overrides.

mod functions;
mod handle;
mod state;

pub use functions::{disable_all, init};
pub use handle::{Overloaded, Overrides, ask_arguments, ask_mode, handle, nobody};
pub use state::{enabled, mode_enabled, skip_next as skips_next};

use crate::tensor::object;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};
use smallvec::SmallVec;
use std::ptr;

/// What a call has to look at before it runs: read from the thread once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Consult {
    /// Overrides are off, or this call was asked to skip them.
    Nothing,
    /// The types of the arguments decide.
    Types,
    /// A mode takes the call, whatever the arguments are.
    Mode,
}

/// What this call has to consult; a pending request to skip one call ends here.
#[inline]
pub fn consult() -> Consult {
    state::consult()
}

/// The builtin that stands for "no override" in a class.
static DISABLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn attribute_name(py: Python<'_>) -> &Bound<'_, PyString> {
    pyo3::intern!(py, "__torch_function__")
}

/// Whether objects of this type never have overrides: tensors of exactly `torch.Tensor` or `Parameter`, numbers, and
/// Python's own containers.
#[inline]
fn is_plain(py: Python<'_>, ty: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: comparisons of addresses of static types.
    unsafe {
        object::is_exact(py, ty)
            || ty == &raw mut ffi::PyLong_Type
            || ty == &raw mut ffi::PyFloat_Type
            || ty == &raw mut ffi::PyBool_Type
            || ty == &raw mut ffi::PyUnicode_Type
            || ty == ffi::Py_TYPE(ffi::Py_None())
            || ty == &raw mut ffi::PyTuple_Type
            || ty == &raw mut ffi::PyList_Type
            || ty == &raw mut ffi::PyComplex_Type
            || ty == &raw mut ffi::PyDict_Type
            || ty == &raw mut ffi::PySet_Type
            || ty == &raw mut ffi::PyFrozenSet_Type
            || ty == &raw mut ffi::PyBytes_Type
            || ty == &raw mut ffi::PySlice_Type
            || ty == ffi::Py_TYPE(ffi::Py_Ellipsis())
            || ty == ffi::Py_TYPE(ffi::Py_NotImplemented())
    }
}

/// Whether the object overrides, the thread's state aside.
pub fn overrides(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    !is_plain(py, object.get_type_ptr()) && has_attribute(object)
}

#[cold]
fn has_attribute(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    let mut found: *mut ffi::PyObject = ptr::null_mut();
    // SAFETY: a live object and a name; the result is owned when it is not null.
    unsafe {
        if ffi::PyObject_GetOptionalAttr(object.as_ptr(), attribute_name(py).as_ptr(), &raw mut found) < 0 {
            ffi::PyErr_Clear();
            return false;
        }
        match Bound::from_owned_ptr_or_opt(py, found) {
            Some(found) if DISABLED.get(py).is_some_and(|disabled| disabled.is(&found)) => {
                object::learn_parameter_class(&object.get_type());
                false
            }
            Some(_) => true,
            None => false,
        }
    }
}

/// Whether an argument, or an element of an argument that is a list or tuple, overrides.
#[inline]
pub fn argument_overrides(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    let ty = object.get_type_ptr();
    // SAFETY: comparisons of addresses of static types; sizes and items of live lists and tuples.
    unsafe {
        if object::is_exact(py, ty) || ty == &raw mut ffi::PyLong_Type {
            return false;
        }
        if ty == &raw mut ffi::PyTuple_Type {
            return (0..ffi::PyTuple_Size(object.as_ptr()))
                .any(|i| overrides(&Bound::from_borrowed_ptr(py, ffi::PyTuple_GetItem(object.as_ptr(), i))));
        }
        if ty == &raw mut ffi::PyList_Type {
            return (0..ffi::PyList_Size(object.as_ptr()))
                .any(|i| overrides(&Bound::from_borrowed_ptr(py, ffi::PyList_GetItem(object.as_ptr(), i))));
        }
    }
    overrides(object)
}

/// Whether the object is consulted now: upstream's `check_has_torch_function`, modes included.
#[inline]
pub fn has(object: &Bound<'_, PyAny>) -> bool {
    match consult() {
        Consult::Nothing => false,
        Consult::Mode => true,
        Consult::Types => overrides(object),
    }
}

fn tuple<'a, 'py: 'a>(
    py: Python<'py>,
    items: impl Iterator<Item = &'a Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, items.collect::<SmallVec<[_; 8]>>())
}

/// Which arguments of a method have a say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Considered {
    /// The tensor alone.
    Tensor,
    /// The tensor and every argument.
    All,
}

/// Runs the override of a method that is bound by hand; `None` when the method itself has to run.
///
/// # Errors
/// What the override raises.
pub fn method<'py>(
    slf: &Bound<'py, PyAny>,
    name: &str,
    positional: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
    considered: Considered,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let arguments = || positional.iter().chain(keywords.iter().map(|(_, o)| o));
    match consult() {
        Consult::Nothing => return Ok(None),
        Consult::Mode => {}
        Consult::Types => {
            let mut others = arguments().filter(|_| considered == Considered::All);
            if !overrides(slf) && !others.any(argument_overrides) {
                return Ok(None);
            }
        }
    }
    let py = slf.py();
    let mut overloaded = Overloaded::default();
    if enabled() {
        overloaded.append_if(slf)?;
        if considered == Considered::All {
            arguments().try_for_each(|o| overloaded.append_nested(o))?;
        }
    }
    let function = object::tensor_class(py)?.getattr(name)?;
    let args = tuple(py, std::iter::once(slf).chain(positional))?;
    let kwargs = PyDict::new(py);
    for (key, value) in keywords {
        kwargs.set_item(key, value)?;
    }
    let kwargs = (!kwargs.is_empty()).then_some(&kwargs);
    handle(py, &overloaded, &function, &args, kwargs, Some(("torch.Tensor", name))).map(Some)
}

/// Runs the override of a free function that is bound by hand, for which modes and keyword arguments count: the data
/// it is given is data.
///
/// # Errors
/// What the override raises.
pub fn function<'py>(
    py: Python<'py>,
    name: &str,
    positional: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let others = || keywords.iter().filter(|(key, _)| key != "data" && key != "obj").map(|(_, o)| o);
    match consult() {
        Consult::Nothing => return Ok(None),
        Consult::Mode => {}
        Consult::Types if others().any(overrides) => {}
        Consult::Types => return Ok(None),
    }
    let mut overloaded = Overloaded::default();
    if enabled() {
        others().filter(|o| object::get(o).is_none()).try_for_each(|o| overloaded.append_if(o))?;
    }
    let function = py.import("torch._C")?.getattr("_VariableFunctions")?.getattr(name)?;
    let kwargs = PyDict::new(py);
    for (key, value) in keywords {
        kwargs.set_item(key, value)?;
    }
    let kwargs = (!kwargs.is_empty()).then_some(&kwargs);
    let args = PyTuple::new(py, positional)?;
    handle(py, &overloaded, &function, &args, kwargs, Some(("torch", name))).map(Some)
}

/// Runs the override of reading, writing or deleting a property (`__get__`, `__set__`, `__delete__`).
///
/// # Errors
/// What the override raises.
#[cold]
pub fn property<'py>(
    slf: &Bound<'py, PyAny>,
    property: &str,
    access: &str,
    value: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let mut overloaded = Overloaded::default();
    // Upstream asks the tensor's class even where only a mode takes the call.
    overloaded.append(slf)?;
    let function = object::tensor_class(py)?.getattr(property)?.getattr(access)?;
    let args = tuple(py, std::iter::once(slf).chain(value))?;
    let module = format!("torch.Tensor.{property}");
    handle(py, &overloaded, &function, &args, None, Some((&module, access)))
}

/// Runs the override of `x[index]` or `x[index] = value`; `None` when there is none.
///
/// # Errors
/// What the override raises.
pub fn indexing<'py>(
    slf: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
    value: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match consult() {
        Consult::Nothing => return Ok(None),
        Consult::Mode => {}
        Consult::Types => {
            let nested = |o: &Bound<'py, PyAny>| match o.cast::<PyTuple>() {
                Ok(tuple) => tuple.iter().any(|item| argument_overrides(&item)),
                Err(_) => argument_overrides(o),
            };
            if !overrides(slf) && !nested(index) && !value.is_some_and(overrides) {
                return Ok(None);
            }
        }
    }
    let py = slf.py();
    let mut overloaded = Overloaded::default();
    if enabled() {
        overloaded.append_if(slf)?;
        match index.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().try_for_each(|item| overloaded.append_nested(&item))?,
            Err(_) => overloaded.append_nested(index)?,
        }
        if let Some(value) = value {
            overloaded.append_if(value)?;
        }
    }
    let name = if value.is_some() { "__setitem__" } else { "__getitem__" };
    let function = object::tensor_class(py)?.getattr(name)?;
    let args = tuple(py, [slf, index].into_iter().chain(value))?;
    handle(py, &overloaded, &function, &args, None, Some(("torch.Tensor", name))).map(Some)
}
