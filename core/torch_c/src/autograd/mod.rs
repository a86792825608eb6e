//! Autograd as Python sees it: graph nodes, hooks, custom functions and the start of backward passes.

mod engine;
mod function;
pub mod hooks;
pub mod node;
mod saved;

use pyo3::prelude::*;
use torchnative_engine::Tensor;
use torchnative_engine::autograd::Grads;

use crate::error;
use crate::tensor::object;

/// Fills `torch._C` and `torch._C._autograd` with what concerns graphs.
pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    node::init(module)?;
    engine::init(module)?;
    function::init(module)?;
    saved::init(module)
}

/// A gradient as Python sees it: a tensor or `None`.
fn grad_to_py<'py>(py: Python<'py>, grad: &Option<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    match grad {
        Some(t) => object::wrap(py, t.clone()),
        None => Ok(py.None().into_bound(py)),
    }
}

/// A tensor or `None`; anything else is a `TypeError` that names what was expected.
fn grad_from_py(o: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Tensor>> {
    if o.is_none() {
        return Ok(None);
    }
    match object::get(o) {
        Some(t) => Ok(Some(t.clone())),
        None => Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "{what} expected a Tensor or None, but got {}",
            o.get_type().name()?
        ))),
    }
}

/// The gradients in a tuple, or in a lone tensor.
fn grads_from_py(o: &Bound<'_, PyAny>, what: &str) -> PyResult<Grads> {
    if let Ok(items) = o.cast::<pyo3::types::PyTuple>() {
        return items.iter().map(|i| grad_from_py(&i, what)).collect();
    }
    Ok(Grads::from_iter([grad_from_py(o, what)?]))
}

/// Runs Python from inside the engine: exceptions travel through it and come out as they were.
fn in_python<T>(f: impl FnOnce(Python<'_>) -> PyResult<T>) -> torchnative_engine::Result<T> {
    Python::attach(|py| f(py).map_err(error::from_py))
}
