//! `torch._C._SchemaInfo`: what a schema says about writing its arguments.

use super::schema::{PyFunctionSchema, SchemaRef};
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError};
use pyo3::prelude::*;

/// Answers questions about a schema.
#[pyclass(name = "_SchemaInfo", module = "torch._C", frozen)]
struct SchemaInfo {
    schema: SchemaRef,
}

impl SchemaInfo {
    fn writes(&self, index: usize) -> PyResult<bool> {
        match self.schema.arguments.get(index) {
            Some(argument) => Ok(argument.is_write()),
            None => Err(PyRuntimeError::new_err("Invalid index for schema.")),
        }
    }
}

#[pymethods]
impl SchemaInfo {
    #[new]
    fn new(schema: &Bound<'_, PyFunctionSchema>) -> Self {
        SchemaInfo { schema: schema.borrow().model().clone() }
    }

    /// Whether the operator writes an argument: any, the one of a name, or the one at an index.
    #[pyo3(signature = (argument = None))]
    fn is_mutable(&self, argument: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let Some(argument) = argument else {
            return Ok(self.schema.arguments.iter().any(|argument| argument.is_write()));
        };
        if let Ok(name) = argument.extract::<&str>() {
            return match self.schema.arguments.iter().position(|argument| argument.name == name) {
                Some(index) => self.writes(index),
                None => Err(PyRuntimeError::new_err(format!("Schema has no argument named {name}"))),
            };
        }
        if let Ok(index) = argument.extract::<usize>() {
            return self.writes(index);
        }
        self.writes(argument.getattr("index")?.extract()?)
    }

    fn has_argument(&self, name: &str) -> bool {
        self.schema.arguments.iter().any(|argument| argument.name == name)
    }

    #[pyo3(signature = (*_args))]
    fn may_alias(&self, _args: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(PyNotImplementedError::new_err(
            "torch._C._SchemaInfo.may_alias is not implemented in torchnative",
        ))
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SchemaInfo>()
}
