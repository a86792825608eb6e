//! `torch._C._add_docstr`: gives a documentation string to an object of the extension.
//!
//! Builtin functions and descriptors read their text from the `PyMethodDef` or `PyGetSetDef` they were made
//! from. The stable ABI has no accessor for that pointer, so its offset is found out at run time on a function
//! made for the purpose; where the layout is not what CPython has had since 3.0, texts are not set.
//!
//! Definitions must therefore live in writable memory (a leaked box, not a plain `static`).

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use std::ffi::{CString, c_char};
use std::mem::size_of;
use std::ptr::null_mut;

/// Where the definition pointer lies in a builtin function and in a descriptor.
struct Offsets {
    function: usize,
    descriptor: usize,
}

static OFFSETS: PyOnceLock<Option<Offsets>> = PyOnceLock::new();

unsafe extern "C" fn probe(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    null_mut()
}

/// Reads the pointer `offset` bytes into an object.
///
/// # Safety
/// The object must be at least `offset` + a pointer long.
unsafe fn pointer_at(object: *mut ffi::PyObject, offset: usize) -> *mut u8 {
    // SAFETY: forwarded to the caller.
    unsafe { *(object.cast::<u8>().add(offset).cast::<*mut u8>()) }
}

fn find_offsets(py: Python<'_>) -> PyResult<Option<Offsets>> {
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: c"probe".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: probe },
        ml_flags: ffi::METH_NOARGS,
        ml_doc: std::ptr::null(),
    }));
    let offsets = Offsets {
        function: size_of::<ffi::PyObject>(),
        descriptor: size_of::<ffi::PyObject>() + 3 * size_of::<usize>(),
    };
    // SAFETY: both objects are made here from a leaked definition, and read within their type's stated size.
    unsafe {
        let function =
            Bound::from_owned_ptr_or_err(py, ffi::PyCFunction_NewEx(definition, null_mut(), null_mut()))?;
        let object = py.get_type::<PyAny>();
        let descriptor =
            Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(object.as_type_ptr(), definition))?;
        for (made, offset) in [(&function, offsets.function), (&descriptor, offsets.descriptor)] {
            let size: usize = made.get_type().getattr("__basicsize__")?.extract()?;
            if size < offset + size_of::<usize>()
                || pointer_at(made.as_ptr(), offset) != (&raw mut *definition).cast()
            {
                return Ok(None);
            }
        }
    }
    Ok(Some(offsets))
}

/// Takes off the texts that the Rust sources gave to functions, classes and members: the Python tree documents
/// them, and takes a text that is there already for a mistake.
pub fn clear(py: Python<'_>) -> PyResult<()> {
    let Some(offsets) = OFFSETS.get_or_try_init(py, || find_offsets(py))? else { return Ok(()) };
    for module in crate::surface::modules(py) {
        for value in module.dict().values() {
            if let Ok(class) = value.cast::<PyType>() {
                clear_class(class, offsets)?;
            } else {
                clear_one(&value, offsets)?;
            }
        }
    }
    Ok(())
}

fn clear_class(class: &Bound<'_, PyType>, offsets: &Offsets) -> PyResult<()> {
    let py = class.py();
    // Classes of the interpreter are not ours to change.
    if class.setattr("__doc__", py.None()).is_err() {
        return Ok(());
    }
    for item in class.getattr("__dict__")?.call_method0("items")?.try_iter()? {
        let (name, value): (String, Bound<'_, PyAny>) = item?.extract()?;
        // These two are made from definitions of the interpreter.
        if name != "__dict__" && name != "__weakref__" {
            clear_one(&value, offsets)?;
        }
    }
    Ok(())
}

fn clear_one(object: &Bound<'_, PyAny>, offsets: &Offsets) -> PyResult<()> {
    let kind = object.get_type();
    if kind.name()? == "staticmethod" {
        return clear_one(&object.getattr("__func__")?, offsets);
    }
    // SAFETY: as in `_add_docstr`: the exact types were verified, and the definitions are this extension's own.
    unsafe {
        match kind.name()?.to_str()? {
            "builtin_function_or_method" => {
                let definition = pointer_at(object.as_ptr(), offsets.function).cast::<ffi::PyMethodDef>();
                if !(*definition).ml_doc.is_null() {
                    (*definition).ml_doc = std::ptr::null();
                }
            }
            "method_descriptor" => {
                let definition = pointer_at(object.as_ptr(), offsets.descriptor).cast::<ffi::PyMethodDef>();
                if !(*definition).ml_doc.is_null() {
                    (*definition).ml_doc = std::ptr::null();
                }
            }
            "getset_descriptor" => {
                let definition = pointer_at(object.as_ptr(), offsets.descriptor).cast::<ffi::PyGetSetDef>();
                if !(*definition).doc.is_null() {
                    (*definition).doc = std::ptr::null();
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Sets `__doc__` once; a second text for the same object is an error.
#[pyfunction]
fn _add_docstr<'py>(object: Bound<'py, PyAny>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let kind = object.get_type();
    let kind_name = kind.name()?;
    let kind_name = kind_name.to_str()?;
    let already =
        |name: String| Err(PyRuntimeError::new_err(format!("{kind_name} '{name}' already has a docstring")));
    match kind_name {
        "builtin_function_or_method" | "builtin_method" | "method_descriptor" | "getset_descriptor" => {
            let Some(offsets) = OFFSETS.get_or_try_init(py, || find_offsets(py))? else { return Ok(object) };
            let name: String = object.getattr("__name__")?.extract()?;
            let text = CString::new(text.to_str()?)?;
            let is_function = kind_name.starts_with("builtin");
            // SAFETY: the object's exact type is one of CPython's three, whose layout `find_offsets` verified; definitions
            // of this extension are writable, and the text is leaked.
            unsafe {
                let definition = pointer_at(
                    object.as_ptr(),
                    if is_function { offsets.function } else { offsets.descriptor },
                );
                let slot: *mut *const c_char = if kind_name == "getset_descriptor" {
                    &raw mut (*definition.cast::<ffi::PyGetSetDef>()).doc
                } else {
                    &raw mut (*definition.cast::<ffi::PyMethodDef>()).ml_doc
                };
                if !(*slot).is_null() && **slot != 0 {
                    return already(name);
                }
                *slot = text.into_raw();
            }
        }
        _ if object.is_instance_of::<PyType>() => {
            let class = object.cast::<PyType>()?;
            let present = class.getattr("__doc__")?;
            if !present.is_none() && !present.extract::<String>()?.is_empty() {
                return already(class.name()?.to_string());
            }
            class.setattr("__doc__", text)?;
        }
        _ => match object.getattr("__doc__") {
            Ok(present) if !present.is_none() => {
                let name = object.getattr("__name__").and_then(|n| n.extract()).unwrap_or_default();
                return already(name);
            }
            _ => object.setattr("__doc__", text).map_err(|_| {
                PyTypeError::new_err(format!("don't know how to add docstring to type '{kind_name}'"))
            })?,
        },
    }
    Ok(object)
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_add_docstr, module)?)
}
