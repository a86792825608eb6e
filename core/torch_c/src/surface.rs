//! The names of `torch._C` that have no implementation here.
//!
//! `generated/surface.tsv` lists every name upstream's extension has in a build without accelerators. Whatever
//! the rest of this crate has not bound by the time [`fill`] runs is bound here: functions and constructors
//! refuse by name, enums and constants are complete.

use crate::enums;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyModule, PyString, PyTuple, PyType};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

const TABLE: &str = include_str!("generated/surface.tsv");

/// Creates the submodules the table names, each an attribute of its parent and an entry of `sys.modules`.
pub fn create_modules(root: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = root.py();
    let loaded = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    loaded.set_item("torch._C", root)?;
    for row in rows('M') {
        let name = row[0];
        let Some((parent, last)) = name.rsplit_once('.') else { continue };
        if name == "torch._C" {
            continue;
        }
        let module = PyModule::new(py, name)?;
        find(py, parent)?.setattr(last, &module)?;
        loaded.set_item(name, &module)?;
    }
    Ok(())
}

/// Binds what is still missing.
pub fn fill(py: Python<'_>) -> PyResult<()> {
    for row in rows('M') {
        // PyO3 keeps a list of what it was told to add; `import *` must see every name.
        let dict = find(py, row[0]).map(|module| module.dict());
        if let Ok(dict) = dict
            && dict.contains(intern!(py, "__all__"))?
        {
            dict.del_item(intern!(py, "__all__"))?;
        }
    }
    for line in TABLE.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["V", module, name, kind, text] => constant(py, module, name, kind, text)?,
            ["E", module, name, shown, export, members] => {
                enumeration(py, module, name, shown, export, members)?
            }
            // Autograd nodes are made when asked for: there are hundreds of them.
            ["C", "torch._C._functions", ..] => {}
            ["C", module, name, shown, qualname, base, metaclass, members] => {
                let dict = find(py, module)?.dict();
                match dict.get_item(name)? {
                    None => dict.set_item(
                        name,
                        class(py, module, name, (shown, qualname), base, metaclass == "bound", members)?,
                    )?,
                    Some(known) => complete(&known, module, name, members)?,
                }
            }
            ["F", module, name] => {
                let dict = find(py, module)?.dict();
                if !dict.contains(name)? {
                    dict.set_item(name, refusal(py, module, name, name)?)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The names of the autograd node classes, `AddBackward0` and kin.
pub fn node_names() -> impl Iterator<Item = &'static str> {
    rows('C').filter(|row| row[0] == "torch._C._functions").map(|row| row[1])
}

/// The named tuples of `torch.return_types`, each with its fields, comma separated.
pub fn return_types() -> impl Iterator<Item = (&'static str, &'static str)> {
    rows('R').map(|row| (row[0], row[1]))
}

/// All modules of the extension.
pub fn modules(py: Python<'_>) -> impl Iterator<Item = Bound<'_, PyModule>> {
    rows('M').filter_map(move |row| find(py, row[0]).ok())
}

fn rows(kind: char) -> impl Iterator<Item = Vec<&'static str>> {
    TABLE
        .lines()
        .filter_map(move |line| line.strip_prefix(kind)?.strip_prefix('\t'))
        .map(|line| line.split('\t').collect())
}

/// A submodule by its full name.
pub fn find<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let loaded = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    Ok(loaded.get_item(name)?.cast_into::<PyModule>()?)
}

fn constant(py: Python<'_>, module: &str, name: &str, kind: &str, text: &str) -> PyResult<()> {
    let dict = find(py, module)?.dict();
    if dict.contains(name)? {
        return Ok(());
    }
    let parse_error = |_| PyNotImplementedError::new_err(format!("malformed constant {module}.{name}"));
    match kind {
        "bool" => dict.set_item(name, text == "True"),
        "int" => dict.set_item(name, text.parse::<i64>().map_err(|e| parse_error(e.to_string()))?),
        "float" => dict.set_item(name, text.parse::<f64>().map_err(|e| parse_error(e.to_string()))?),
        _ => dict.set_item(name, text),
    }
}

fn enumeration(
    py: Python<'_>,
    module: &str,
    name: &str,
    shown: &str,
    export: &str,
    members: &str,
) -> PyResult<()> {
    let dict = find(py, module)?.dict();
    if dict.contains(name)? {
        return Ok(());
    }
    let pairs = members.split(',').filter_map(|pair| {
        let (member, value) = pair.split_once('=')?;
        Some((member, value.parse().ok()?))
    });
    let class = enums::define(py, name, shown, pairs)?;
    if export == "export" {
        for (member, value) in class.getattr("__members__")?.cast::<PyDict>()?.iter() {
            dict.set_item(member, value)?;
        }
    }
    dict.set_item(name, class)
}

/// A class that can be named, annotated with, tested against and derived from, but not made.
fn class<'py>(
    py: Python<'py>,
    module: &str,
    name: &str,
    (shown, qualname): (&str, &str),
    base: &str,
    is_bound: bool,
    members: &str,
) -> PyResult<Bound<'py, PyType>> {
    let base = base_class(py, module, base)?;
    let namespace = PyDict::new(py);
    namespace.set_item("__module__", shown)?;
    namespace.set_item("__qualname__", qualname)?;
    let is_exception = base.is_subclass_of::<pyo3::exceptions::PyBaseException>()?;
    if !is_exception {
        namespace.set_item("__new__", refusal(py, module, "__new__", name)?)?;
    }
    for member in members.split(',').filter(|m| !m.is_empty()) {
        let (attribute, value) = refused_member(py, module, name, member)?;
        namespace.set_item(attribute, value)?;
    }
    let last = qualname.rsplit('.').next().unwrap_or(name);
    let metaclass = if is_exception || !is_bound { py.get_type::<PyType>() } else { metaclass(py)?.clone() };
    let made = metaclass.call1((last, PyTuple::new(py, [base])?, namespace))?;
    Ok(made.cast_into()?)
}

/// A member that refuses: a property, or a function that is called without the object.
fn refused_member<'py, 'a>(
    py: Python<'py>,
    module: &str,
    class: &str,
    member: &'a str,
) -> PyResult<(&'a str, Bound<'py, PyAny>)> {
    let (kind, attribute) = member.split_at(2);
    let function = refusal(py, module, attribute, &format!("{class}.{attribute}"))?;
    if kind != "p:" {
        return Ok((attribute, function));
    }
    let property = py.import(intern!(py, "builtins"))?.getattr(intern!(py, "property"))?;
    Ok((attribute, property.call1((function,))?))
}

/// Adds the members that a class of ours does not have.
fn complete(class: &Bound<'_, PyAny>, module: &str, name: &str, members: &str) -> PyResult<()> {
    for member in members.split(',').filter(|m| !m.is_empty()) {
        if !class.hasattr(&member[2..])? {
            let (attribute, value) = refused_member(class.py(), module, name, member)?;
            class.setattr(attribute, value)?;
        }
    }
    Ok(())
}

/// The class of upstream's bound classes: the tree combines it with other metaclasses.
fn metaclass(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static METACLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let made = METACLASS.get_or_try_init(py, || {
        let namespace = PyDict::new(py);
        namespace.set_item("__module__", "pybind11_builtins")?;
        let bases = PyTuple::new(py, [py.get_type::<PyType>()])?;
        let class = py.get_type::<PyType>().call1(("pybind11_type", bases, namespace))?;
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py))
}

fn base_class<'py>(py: Python<'py>, module: &str, base: &str) -> PyResult<Bound<'py, PyType>> {
    for owner in [module, "torch._C", "builtins"] {
        if let Some(found) = find(py, owner)?.dict().get_item(base)? {
            return Ok(found.cast_into()?);
        }
    }
    // A base that lives in the Python tree says nothing about this class.
    Ok(py.get_type::<PyAny>())
}

/// A builtin function that raises `NotImplementedError` with its own full name.
pub fn refusal<'py>(py: Python<'py>, module: &str, name: &str, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let message = leak(&format!("{module}.{path} is not implemented in torchnative"))?;
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: leak(name)?.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionWithKeywords: refuse },
        ml_flags: ffi::METH_VARARGS | ffi::METH_KEYWORDS,
        ml_doc: std::ptr::null(),
    }));
    let module = PyString::new(py, module);
    // SAFETY: the capsule holds a pointer to a leaked string; the definition is leaked too, and outlives the function.
    unsafe {
        let capsule = ffi::PyCapsule_New(message.as_ptr() as *mut c_void, std::ptr::null::<c_char>(), None);
        let capsule = Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked::<PyCapsule>();
        let function = ffi::PyCFunction_NewEx(definition, capsule.as_ptr(), module.as_ptr());
        Bound::from_owned_ptr_or_err(py, function)
    }
}

unsafe extern "C" fn refuse(
    capsule: *mut ffi::PyObject,
    _args: *mut ffi::PyObject,
    _kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython, attached, with the capsule `refusal` made: its pointer is a C string that lives for ever.
    unsafe {
        let message = ffi::PyCapsule_GetPointer(capsule, std::ptr::null());
        if !message.is_null() {
            ffi::PyErr_SetString(ffi::PyExc_NotImplementedError, message as *const c_char);
        }
    }
    std::ptr::null_mut()
}

fn leak(text: &str) -> PyResult<&'static CStr> {
    Ok(Box::leak(CString::new(text)?.into_boxed_c_str()))
}

/// Makes a module function from a raw entry point, with a definition that lives as long as the process.
///
/// Hot functions are bound this way; the others are `#[pyfunction]`s.
pub fn add_raw_function(
    module: &Bound<'_, PyModule>,
    name: &'static CStr,
    entry: ffi::PyMethodDefPointer,
    flags: c_int,
) -> PyResult<()> {
    let py = module.py();
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: entry,
        ml_flags: flags,
        ml_doc: std::ptr::null(),
    }));
    let module_name = module.name()?;
    // SAFETY: the definition is leaked; CPython takes its own references to the module and its name.
    let function = unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyCFunction_NewEx(definition, module.as_ptr(), module_name.as_ptr()),
        )?
    };
    module.setattr(name.to_string_lossy().as_ref(), function)
}
