//! The argument parser of `torch.*`, `Tensor.*`, `torch._C._nn` and kin: upstream's signature rules over the generated
//! table of signatures. Calls arrive by METH_FASTCALL and resolve the overload without Python code.

mod call;
mod convert;
mod mismatch;
mod overrides;
mod signature;
mod table;
mod trampolines;

pub use call::Call;
pub use convert::{is_int, numbers_as_tensors, python_type};
pub use mismatch::{HandBound, type_name};
pub use trampolines::Entry;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyTuple};
use smallvec::SmallVec;
use std::ffi::CString;
use table::{Function, functions};

fn definition(f: &'static Function, flags: std::ffi::c_int) -> PyResult<ffi::PyMethodDef> {
    let name = Box::leak(CString::new(f.name)?.into_boxed_c_str());
    Ok(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: trampolines::entry(f.index) },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS | flags,
        ml_doc: std::ptr::null(),
    })
}

/// The definitions of all generated tensor methods.
pub fn method_definitions() -> PyResult<Vec<ffi::PyMethodDef>> {
    functions().iter().filter(|f| f.namespace == "Tensor").map(|f| definition(f, 0)).collect()
}

/// Adds `_VariableFunctions` and the functions of `_nn`, `_linalg`, `_fft`, `_special`, `_sparse`, `_nested`.
pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let mut torch = Vec::new();
    for f in functions() {
        match f.namespace {
            "Tensor" => {}
            "torch" => torch.push(definition(f, ffi::METH_STATIC)?),
            other => {
                let sub = crate::surface::find(py, &format!("torch._C._{other}"))?;
                let def = Box::leak(Box::new(definition(f, 0)?));
                // SAFETY: the definition lives for ever.
                let object = unsafe {
                    Bound::from_owned_ptr_or_err(
                        py,
                        ffi::PyCFunction_NewEx(def, std::ptr::null_mut(), sub.name()?.as_ptr()),
                    )?
                };
                sub.add(f.name, object)?;
            }
        }
    }
    torch.extend(crate::tensor::construct::static_definitions());
    // SAFETY: an all-zero definition ends the list.
    torch.push(unsafe { std::mem::zeroed() });
    let methods = Box::leak(torch.into_boxed_slice());
    let slots = Box::leak(Box::new([
        ffi::PyType_Slot { slot: ffi::Py_tp_methods, pfunc: methods.as_mut_ptr().cast() },
        ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() },
    ]));
    let spec = Box::leak(Box::new(ffi::PyType_Spec {
        name: c"torch._C._VariableFunctionsClass".as_ptr(),
        basicsize: size_of::<ffi::PyObject>() as _,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as _,
        slots: slots.as_mut_ptr(),
    }));
    // SAFETY: spec, slots and methods live for ever.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(spec))? };
    module.add("_VariableFunctionsClass", &class)?;
    module.add("_VariableFunctions", class.call0()?)
}

/// Positional and keyword arguments of a vector call.
pub type Unpacked<'py> = (SmallVec<[Bound<'py, PyAny>; 8]>, SmallVec<[(String, Bound<'py, PyAny>); 4]>);

/// Takes a FASTCALL vector apart.
///
/// # Safety
/// `args` holds `nargs` live objects and one more for each name of `kwnames` (a tuple, or null).
pub unsafe fn unpack<'py>(
    py: Python<'py>,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> PyResult<Unpacked<'py>> {
    // SAFETY: as the caller promises.
    let at = |i: isize| unsafe { Bound::<PyAny>::from_borrowed_ptr(py, *args.offset(i)) };
    let positional = (0..nargs).map(at).collect();
    let mut keywords = SmallVec::new();
    if !kwnames.is_null() {
        // SAFETY: a live tuple.
        let names = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, kwnames) }.cast_into::<PyTuple>()?;
        for (i, name) in names.iter().enumerate() {
            keywords.push((name.extract()?, at(nargs + i as isize)));
        }
    }
    Ok((positional, keywords))
}

/// The place of a generated tensor method in the table.
pub fn find_method(name: &str) -> Option<usize> {
    functions().iter().position(|f| f.namespace == "Tensor" && f.name == name)
}

/// Calls the generated tensor method at a place that [`find_method`] found.
///
/// # Errors
/// What the method raises.
pub fn call_method_at<'py>(
    index: usize,
    slf: &Bound<'py, PyAny>,
    positional: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let function = &functions()[index];
    call::run(slf.py(), &Call { function, slf: Some(slf.clone()), positional, keywords })
}

/// Calls a generated tensor method by name.
///
/// # Errors
/// What the method raises.
pub fn call_method<'py>(
    name: &str,
    slf: &Bound<'py, PyAny>,
    positional: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let Some(index) = find_method(name) else {
        return Err(pyo3::exceptions::PyAttributeError::new_err(format!(
            "'Tensor' object has no attribute '{name}'"
        )));
    };
    call_method_at(index, slf, positional, keywords)
}
