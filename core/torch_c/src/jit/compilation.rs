//! The compilation unit of TorchScript, empty for ever, and the classes that C++ would register.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Where compiled functions and classes would be.
#[pyclass(name = "CompilationUnit", module = "torch.jit", subclass, frozen)]
struct CompilationUnit;

#[pymethods]
impl CompilationUnit {
    #[new]
    #[pyo3(signature = (lang = None, _frames_up = 0))]
    fn new(lang: Option<&str>, _frames_up: i64) -> PyResult<Self> {
        match lang {
            Some(source) if !source.trim().is_empty() => Err(not_here("compiling TorchScript source")),
            _ => Ok(CompilationUnit),
        }
    }

    fn find_function(&self, _name: &str) -> Option<bool> {
        None
    }

    fn get_functions(&self) -> Vec<bool> {
        Vec::new()
    }

    fn get_interface(&self, _name: &Bound<'_, PyAny>) -> Option<bool> {
        None
    }

    fn get_class(&self, _name: &Bound<'_, PyAny>) -> Option<bool> {
        None
    }

    fn set_optimized(&self, _on: bool) {}
}

fn not_here(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("{what} is not implemented in torchnative"))
}

/// A class of C++ by its name alone.
#[pyclass(name = "ScriptClass", module = "torch._C", frozen)]
struct ScriptClass {
    name: String,
}

#[pymethods]
impl ScriptClass {
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __call__(&self, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        Err(not_here(&format!("the class {}", self.name)))
    }
}

/// The classes upstream registers that the Python tree asks for by name.
const CLASSES: &[&str] = &["aten.OpaqueObject"];

#[pyfunction]
fn _get_custom_class_python_wrapper(namespace: &str, name: &str) -> PyResult<ScriptClass> {
    let name = format!("{namespace}.{name}");
    if CLASSES.contains(&name.as_str()) {
        return Ok(ScriptClass { name });
    }
    Err(PyRuntimeError::new_err(format!(
        "Tried to instantiate class '{name}', but it does not exist! Ensure that it is registered via torch::class_"
    )))
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CompilationUnit>()?;
    module.add_class::<ScriptClass>()?;
    module.add_function(wrap_pyfunction!(_get_custom_class_python_wrapper, module)?)
}
