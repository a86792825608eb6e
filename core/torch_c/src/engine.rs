//! `_ImperativeEngine`: the handle by which Python starts backward passes.

use pyo3::prelude::*;

/// The autograd engine of the process; every instance is the same.
#[pyclass(name = "_ImperativeEngine", module = "torch._C", subclass, frozen)]
struct ImperativeEngine;

#[pymethods]
impl ImperativeEngine {
    #[new]
    fn new() -> Self {
        ImperativeEngine
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ImperativeEngine>()
}
