//! `torch.return_types`: the named tuples of functions with several results.

use crate::surface;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

fn leak(text: &str) -> PyResult<&'static CStr> {
    Ok(Box::leak(CString::new(text)?.into_boxed_c_str()))
}

/// Prints a field a line, as upstream does.
unsafe extern "C" fn repr(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by CPython, attached, with an instance of one of the classes below.
    let py = unsafe { Python::assume_attached() };
    let this = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, this) };
    let text = || -> PyResult<String> {
        let class = this.get_type();
        let names: Vec<String> = class.getattr("__match_args__")?.extract()?;
        let mut fields = Vec::with_capacity(names.len());
        for (name, value) in names.iter().zip(this.cast::<PyTuple>()?.iter()) {
            fields.push(format!("{name}={}", value.repr()?));
        }
        Ok(format!("torch.return_types.{}(\n{})", class.name()?, fields.join(",\n")))
    };
    match text().and_then(|text| Ok(text.into_pyobject(py)?.into_any())) {
        Ok(text) => text.into_ptr(),
        Err(error) => {
            error.restore(py);
            null_mut()
        }
    }
}

fn define<'py>(py: Python<'py>, name: &str, fields: &str) -> PyResult<Bound<'py, PyType>> {
    let mut list = Vec::new();
    for field in fields.split(',') {
        list.push(ffi::PyStructSequence_Field { name: leak(field)?.as_ptr(), doc: null() });
    }
    let count = list.len();
    list.push(ffi::PyStructSequence_Field { name: null(), doc: null() });
    let description = Box::leak(Box::new(ffi::PyStructSequence_Desc {
        name: leak(&format!("torch.return_types.{name}"))?.as_ptr(),
        doc: null(),
        fields: Box::leak(list.into_boxed_slice()).as_mut_ptr(),
        n_in_sequence: count as i32,
    }));
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: c"__repr__".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: repr },
        ml_flags: ffi::METH_NOARGS,
        ml_doc: null(),
    }));
    // SAFETY: the description and the definition live for ever.
    unsafe {
        let class = ffi::PyStructSequence_NewType(description);
        let class = Bound::<PyAny>::from_owned_ptr_or_err(py, class.cast())?.cast_into::<PyType>()?;
        let method = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        class.setattr("__repr__", Bound::from_owned_ptr_or_err(py, method)?)?;
        Ok(class)
    }
}

pub fn init(py: Python<'_>) -> PyResult<()> {
    let dict = surface::find(py, "torch._C._return_types")?.dict();
    for (name, fields) in surface::return_types() {
        dict.set_item(name, define(py, name, fields)?)?;
    }
    Ok(())
}
