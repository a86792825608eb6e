//! Engine errors and panics as Python exceptions.

use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyIndexError, PyMemoryError, PyNotImplementedError, PyOverflowError,
    PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use torchnative_engine::error::{Error, ErrorKind};

/// Turns results of the engine into Python's.
pub trait IntoPy<T> {
    /// The value, or the Python exception that the error stands for.
    fn into_py(self) -> PyResult<T>;
}

impl<T> IntoPy<T> for Result<T, Error> {
    fn into_py(self) -> PyResult<T> {
        self.map_err(to_py)
    }
}

/// The Python exception of an engine error.
#[cold]
pub fn to_py(error: Error) -> PyErr {
    let message = error.message;
    match error.kind {
        ErrorKind::Runtime => PyRuntimeError::new_err(message),
        ErrorKind::Type => PyTypeError::new_err(message),
        ErrorKind::Value => PyValueError::new_err(message),
        ErrorKind::Index => PyIndexError::new_err(message),
        ErrorKind::NotImplemented => PyNotImplementedError::new_err(message),
        ErrorKind::OutOfMemory => own("OutOfMemoryError", &OUT_OF_MEMORY, message),
        ErrorKind::Memory => PyMemoryError::new_err(message),
        ErrorKind::LinAlg => own("_LinAlgError", &LIN_ALG, message),
        ErrorKind::Buffer => PyBufferError::new_err(message),
        ErrorKind::Attribute => PyAttributeError::new_err(message),
        ErrorKind::Overflow => PyOverflowError::new_err(message),
        ErrorKind::Internal => PyRuntimeError::new_err(format!("INTERNAL ASSERT FAILED: {message}")),
        ErrorKind::Foreign(payload) => match payload.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(_) => PyRuntimeError::new_err("INTERNAL ASSERT FAILED: an error of an unknown language"),
        },
    }
}

/// A Python exception on its way through the engine, to come out of [`to_py`] as it went in.
#[cold]
pub fn from_py(error: PyErr) -> Error {
    Error::foreign(Box::new(error))
}

static OUT_OF_MEMORY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static LIN_ALG: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An exception of one of `torch._C`'s own classes.
fn own(name: &str, class: &PyOnceLock<Py<PyType>>, message: String) -> PyErr {
    Python::attach(|py| match class.import(py, "torch._C", name) {
        Ok(class) => PyErr::from_type(class.clone(), message),
        Err(error) => error,
    })
}

/// The payload of a panic that stands for memory that ran out where Rust has no way to say so.
pub struct Exhausted {
    /// How much was asked for.
    pub bytes: usize,
}

/// The text of a panic, as an exception that leaves the interpreter usable.
#[cold]
pub fn from_panic(payload: Box<dyn Any + Send>) -> PyErr {
    if let Some(Exhausted { bytes }) = payload.downcast_ref() {
        return PyMemoryError::new_err(format!("not enough memory: {bytes} bytes were asked for"));
    }
    let text = match payload.downcast_ref::<&'static str>() {
        Some(text) => (*text).to_owned(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "unknown panic".into()),
    };
    PyRuntimeError::new_err(format!("INTERNAL ASSERT FAILED: {text}"))
}

/// Runs the body of an entry point; a panic in it becomes a `RuntimeError`.
pub fn guard<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(from_panic(payload)))
}

/// Runs the body attached to the interpreter, as drops of Python objects need it. While the interpreter ends nothing can be
/// attached any more: then the body is not run, and what it would have freed goes with the process.
pub fn attached(body: impl FnOnce()) {
    let mut body = Some(body);
    let ran = Python::try_attach(|_| {
        if let Some(body) = body.take() {
            body();
        }
    });
    if ran.is_none() {
        std::mem::forget(body);
    }
}

/// A `RuntimeError` with a message.
#[cold]
pub fn runtime(message: impl Into<String>) -> PyErr {
    PyRuntimeError::new_err(message.into())
}

/// Hands the engine's warnings to Python's `warnings`, whose filters decide what becomes of them.
pub fn install_warnings() {
    use torchnative_engine::warn::{Category, set_handler};
    set_handler(|category, message| {
        Python::attach(|py| {
            let class = match category {
                Category::User => py.get_type::<pyo3::exceptions::PyUserWarning>(),
                Category::Deprecation => py.get_type::<pyo3::exceptions::PyDeprecationWarning>(),
            };
            let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
            PyErr::warn(py, &class, &text, 1).map_err(from_py)
        })
    });
}
