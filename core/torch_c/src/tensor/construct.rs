//! Hand-bound functions that make tensors.

use super::{from_memory, object};
use crate::error;
use crate::parser;
use crate::torch_function;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::CStr;

type Function = for<'a, 'py> fn(
    Python<'py>,
    &'a [Bound<'py, PyAny>],
    &'a [(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>>;
/// Functions of `torch._C._VariableFunctions`, by name.
static FUNCTIONS: [(&CStr, Function); 5] = [
    (c"tensor", |py, a, k| from_memory::tensor(py, a, k)),
    (c"as_tensor", |py, a, k| from_memory::as_tensor(py, a, k)),
    (c"asarray", |py, a, k| from_memory::asarray(py, a, k)),
    (c"frombuffer", |py, a, k| from_memory::frombuffer(py, a, k)),
    (c"from_numpy", |py, a, k| object::wrap(py, crate::numpy::from_numpy(a, k.len())?)),
];

unsafe extern "C" fn enter<const I: usize>(
    _slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython's vector call, with the GIL held.
    let py = unsafe { Python::assume_attached() };
    let body = || {
        let (positional, keywords) = unsafe { parser::unpack(py, args, nargs, kwnames)? };
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
        [enter::<0>, enter::<1>, enter::<2>, enter::<3>, enter::<4>];
    FUNCTIONS.iter().zip(entries).map(|((name, _), entry)| static_definition(name, entry)).collect()
}

/// Nothing of `torch._C` itself so far.
pub fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
