//! Which classes override `__torch_dispatch__`.

use crate::tensor::object;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Whether tensors of the class hand their operators to it.
pub fn overrides(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    if object::is_exact(py, class.as_type_ptr()) {
        return Ok(false);
    }
    let disabled = intern!(py, "_disabled_torch_dispatch_impl");
    match class.getattr_opt(intern!(py, "__torch_dispatch__"))? {
        Some(found) => Ok(!found.is(&py.import(intern!(py, "torch._C"))?.getattr(disabled)?)),
        None => Ok(false),
    }
}
