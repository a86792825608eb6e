//! Hand-bound functions that make tensors.

use super::{from_memory, object};
use crate::error;
use crate::parser;
use crate::torch_function;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::CStr;
use torchnative_engine::Tensor;

type Function = for<'a, 'py> fn(
    Python<'py>,
    &'a [Bound<'py, PyAny>],
    &'a [(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>>;
/// Functions of `torch._C._VariableFunctions`, by name.
static FUNCTIONS: [(&CStr, Function); 9] = [
    (c"tensor", |py, a, k| from_memory::tensor(py, a, k)),
    (c"as_tensor", |py, a, k| from_memory::as_tensor(py, a, k)),
    (c"asarray", |py, a, k| from_memory::asarray(py, a, k)),
    (c"frombuffer", |py, a, k| from_memory::frombuffer(py, a, k)),
    (c"nonzero", |_, a, k| match a.split_first() {
        Some((input, rest)) => super::methods::nonzero(input, rest, k),
        None => match k.iter().position(|(name, _)| name == "input") {
            Some(i) => {
                let rest: Vec<_> = k.iter().filter(|(name, _)| name != "input").cloned().collect();
                super::methods::nonzero(&k[i].1, &[], &rest)
            }
            None => Err(PyTypeError::new_err("nonzero() missing 1 required positional arguments: \"input\"")),
        },
    }),
    (c"numel", |py, a, k| {
        let t = only("numel", a, k)?;
        Ok(tensor_of("numel", &t)?.numel().into_pyobject(py)?.into_any())
    }),
    (c"get_device", |py, a, k| {
        let t = only("get_device", a, k)?;
        Ok(i64::from(tensor_of("get_device", &t)?.device().index).into_pyobject(py)?.into_any())
    }),
    (c"range", |py, a, k| {
        let message = c"torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with \
                        Python's range builtin. Instead, use torch.arange, which produces values in [start, end).";
        PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), message, 1)?;
        let range = py.import("torch")?.getattr("ops")?.getattr("aten")?.getattr("range")?.getattr("step")?;
        let keywords = pyo3::types::PyDict::new(py);
        let mut grad = false;
        for (name, v) in k {
            match name.as_str() {
                "requires_grad" => grad = v.extract()?,
                _ => keywords.set_item(name, v)?,
            }
        }
        let out = range.call(pyo3::types::PyTuple::new(py, a)?, Some(&keywords))?;
        if grad { out.call_method1("requires_grad_", (true,)) } else { Ok(out) }
    }),
    (c"from_numpy", |py, a, k| object::wrap(py, crate::numpy::from_numpy(a, k.len())?)),
];

/// The only argument of a function of one tensor.
fn only<'py>(
    name: &str,
    args: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    match (args, keywords) {
        ([t], []) => Ok(t.clone()),
        ([], [(k, t)]) if k == "input" => Ok(t.clone()),
        ([], []) => {
            Err(PyTypeError::new_err(format!("{name}() missing 1 required positional arguments: \"input\"")))
        }
        _ => Err(PyTypeError::new_err(format!(
            "{name}() takes 1 positional argument but {} were given",
            args.len()
        ))),
    }
}

fn tensor_of<'a>(name: &str, o: &'a Bound<'_, PyAny>) -> PyResult<&'a Tensor> {
    match object::get(o) {
        Some(t) => Ok(t),
        None => Err(PyTypeError::new_err(format!(
            "{name}(): argument 'input' (position 1) must be Tensor, not {}",
            o.get_type().name()?
        ))),
    }
}

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
    let entries: [parser::Entry; FUNCTIONS.len()] = [
        enter::<0>, enter::<1>, enter::<2>, enter::<3>, enter::<4>, enter::<5>, enter::<6>, enter::<7>,
        enter::<8>,
    ];
    FUNCTIONS.iter().zip(entries).map(|((name, _), entry)| static_definition(name, entry)).collect()
}

/// Nothing of `torch._C` itself so far.
pub fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
