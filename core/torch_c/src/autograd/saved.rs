//! `torch.autograd.graph.saved_tensors_hooks`: pairs of functions that pack saved tensors and take them back.

use super::in_python;
use crate::error::{self, IntoPy};
use crate::tensor::object;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use torchnative_engine::Tensor;
use torchnative_engine::autograd::saved::{SavedHooks, SavedVariable, set_pack_hook};
use torchnative_engine::autograd::{Kind, Node};

#[derive(Default)]
struct State {
    stack: Vec<(Py<PyAny>, Py<PyAny>)>,
    disabled: Option<String>,
    tracing: bool,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::default());
}

struct Packed {
    object: Py<PyAny>,
    unpack: Py<PyAny>,
}

impl SavedHooks for Packed {
    fn unpack(&self) -> torchnative_engine::Result<Tensor> {
        in_python(|py| {
            let t = self.unpack.bind(py).call1((self.object.bind(py),))?;
            match object::get(&t) {
                Some(t) => Ok(t.clone()),
                None => {
                    Err(PyTypeError::new_err("Output of saved tensor unpack_hook expected to be a Tensor"))
                }
            }
        })
    }
}

fn pack(t: &Tensor) -> torchnative_engine::Result<Option<Arc<dyn SavedHooks>>> {
    if STATE.with(|s| s.borrow().stack.is_empty()) {
        return Ok(None);
    }
    in_python(|py| {
        let pair = STATE.with(|s| s.borrow().stack.last().map(|(p, u)| (p.clone_ref(py), u.clone_ref(py))));
        let Some((pack, unpack)) = pair else { return Ok(None) };
        let before = t.version();
        let object = pack.bind(py).call1((object::wrap(py, t.clone())?,))?.unbind();
        if t.version() != before {
            return Err(error::runtime(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be \
                 modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you \
                 need to perform in-place operations on the input to a pack hook.",
            ));
        }
        Ok(Some(Arc::new(Packed { object, unpack }) as Arc<dyn SavedHooks>))
    })
}

#[pyfunction]
fn _push_saved_tensors_default_hooks(pack: Py<PyAny>, unpack: Py<PyAny>) -> PyResult<()> {
    STATE.with(|s| {
        let mut s = s.borrow_mut();
        if let Some(message) = &s.disabled {
            return Err(error::runtime(message.clone()));
        }
        s.stack.push((pack, unpack));
        Ok(())
    })
}

#[pyfunction]
fn _pop_saved_tensors_default_hooks() -> PyResult<()> {
    match STATE.with(|s| s.borrow_mut().stack.pop()) {
        Some(pair) => {
            drop(pair);
            Ok(())
        }
        None => Err(error::runtime("there are no saved tensors hooks to take away")),
    }
}

#[pyfunction]
fn _saved_tensors_hooks_is_enabled() -> bool {
    STATE.with(|s| s.borrow().disabled.is_none())
}

#[pyfunction]
fn _saved_tensors_hooks_enable() {
    STATE.with(|s| s.borrow_mut().disabled = None);
}

#[pyfunction]
#[pyo3(signature = (error_message, fail_if_non_empty = true))]
fn _saved_tensors_hooks_disable(error_message: String, fail_if_non_empty: bool) -> PyResult<()> {
    STATE.with(|s| {
        let mut s = s.borrow_mut();
        if fail_if_non_empty && !s.stack.is_empty() {
            return Err(error::runtime(error_message));
        }
        s.disabled = Some(error_message);
        Ok(())
    })
}

#[pyfunction]
fn _saved_tensors_hooks_get_disabled_error_message() -> Option<String> {
    STATE.with(|s| s.borrow().disabled.clone())
}

#[pyfunction]
fn _saved_tensors_hooks_set_tracing(is_tracing: bool) -> bool {
    STATE.with(|s| std::mem::replace(&mut s.borrow_mut().tracing, is_tracing))
}

#[pyfunction]
#[pyo3(signature = (ignore_is_tracing = false))]
fn _top_saved_tensors_default_hooks(
    py: Python<'_>,
    ignore_is_tracing: bool,
) -> Option<(Py<PyAny>, Py<PyAny>)> {
    STATE.with(|s| {
        let s = s.borrow();
        if s.tracing && !ignore_is_tracing {
            return None;
        }
        s.stack.last().map(|(p, u)| (p.clone_ref(py), u.clone_ref(py)))
    })
}

/// A tensor kept as an operation keeps its inputs: by the saved-tensor hooks, with a check that it was not written since.
#[pyclass(module = "torch._C._autograd", frozen)]
struct SavedTensor {
    saved: SavedVariable,
    is_output: bool,
}

#[pymethods]
impl SavedTensor {
    #[new]
    fn new() -> PyResult<Self> {
        Err(error::runtime("Trying to create a SavedTensor object from Python is forbidden."))
    }
    /// The tensor, with its history.
    fn unpack(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.is_output {
            // It was kept for a node that does not exist.
            return Err(error::runtime(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please use \
                 out-of-place `.detach()` instead",
            ));
        }
        let nobody = Node::new("SavedTensor", Kind::Error(String::new()), Vec::new());
        Ok(object::wrap(py, self.saved.unpack(&nobody).into_py()?)?.unbind())
    }
}

#[pyfunction]
#[pyo3(signature = (tensor, is_output, is_inplace_on_view = false))]
fn _make_saved_tensor(
    tensor: &Bound<'_, PyAny>,
    is_output: bool,
    is_inplace_on_view: bool,
) -> PyResult<SavedTensor> {
    let t = object::get(tensor).ok_or_else(|| PyTypeError::new_err("_make_saved_tensor expects a Tensor"))?;
    let saved = SavedVariable::new(t, is_output, is_inplace_on_view).into_py()?;
    Ok(SavedTensor { saved, is_output })
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    set_pack_hook(pack);
    let m = crate::surface::find(module.py(), "torch._C._autograd")?;
    for f in [
        wrap_pyfunction!(_push_saved_tensors_default_hooks, &m)?,
        wrap_pyfunction!(_pop_saved_tensors_default_hooks, &m)?,
        wrap_pyfunction!(_saved_tensors_hooks_is_enabled, &m)?,
        wrap_pyfunction!(_saved_tensors_hooks_enable, &m)?,
        wrap_pyfunction!(_saved_tensors_hooks_disable, &m)?,
        wrap_pyfunction!(_saved_tensors_hooks_get_disabled_error_message, &m)?,
        wrap_pyfunction!(_saved_tensors_hooks_set_tracing, &m)?,
        wrap_pyfunction!(_top_saved_tensors_default_hooks, &m)?,
        wrap_pyfunction!(_make_saved_tensor, &m)?,
    ] {
        m.add_function(f)?;
    }
    m.add_class::<SavedTensor>()?;
    Ok(())
}
