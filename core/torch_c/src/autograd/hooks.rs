//! Hooks on tensors and nodes. Each kind of hook is a dict of Python functions that its `RemovableHandle`s edit; the
//! engine sees one function that runs what the dict holds.

use super::{grad_from_py, grad_to_py, grads_from_py, in_python, node};
use crate::error::IntoPy;
use crate::tensor::object;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use torchnative_engine::Tensor;
use torchnative_engine::autograd::node::{AccumulateHook, GradsHook, PostHook, next_hook_key};
use torchnative_engine::autograd::{Grads, Node};

/// The dicts of hooks on a tensor.
#[derive(Default)]
struct TensorHooks {
    backward: Option<Py<PyAny>>,
    accumulated: Option<Py<PyAny>>,
}

fn of(t: &Tensor) -> &mut TensorHooks {
    let m = t.autograd_meta_mut();
    let boxed = m.hooks.get_or_insert_with(|| Box::new(TensorHooks::default()));
    match boxed.downcast_mut::<TensorHooks>() {
        Some(h) => h,
        None => unreachable!("only this module stores hooks"),
    }
}

/// The functions in a dict of hooks, taken before they run: a hook may remove itself.
fn functions<'py>(py: Python<'py>, dict: &Py<PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let dict = dict.bind(py);
    if dict.is_none() {
        return Ok(Vec::new());
    }
    dict.call_method0("values")?.try_iter()?.collect()
}

/// A hook's result in place of the gradient it saw.
fn replaced(py: Python<'_>, old: &Option<Tensor>, result: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    let _ = py;
    let new = grad_from_py(result, "a gradient hook")?;
    if let (Some(old), Some(new)) = (old, &new) {
        if old.sizes() != new.sizes() {
            return Err(crate::error::runtime("hook has changed the size of value"));
        }
        if old.dtype() != new.dtype() && old.dtype().is_complex() != new.dtype().is_complex() {
            return Err(crate::error::runtime("hook has changed the type of value"));
        }
    }
    Ok(new)
}

fn tensor_hook(dict: Py<PyAny>) -> GradsHook {
    Arc::new(move |grads: &Grads| {
        in_python(|py| {
            let mut grad = grads.first().cloned().flatten();
            if grad.is_none() {
                return Ok(None);
            }
            let mut changed = false;
            for f in functions(py, &dict)? {
                let result = f.call1((grad_to_py(py, &grad)?,))?;
                if !result.is_none() {
                    grad = replaced(py, &grad, &result)?;
                    changed = true;
                }
            }
            Ok(changed.then(|| Grads::from_iter([grad])))
        })
    })
}

/// `Tensor._backward_hooks`
pub fn backward_hooks<'py>(py: Python<'py>, t: &Tensor) -> Bound<'py, PyAny> {
    if t.autograd_meta().is_none_or(|m| m.hooks.is_none()) {
        return py.None().into_bound(py);
    }
    match &of(t).backward {
        Some(d) => d.bind(py).clone(),
        None => py.None().into_bound(py),
    }
}

/// Sets `Tensor._backward_hooks`: from now on a leaf's gradient passes through the dict's functions.
pub fn set_backward_hooks(t: &Tensor, dict: Option<&Bound<'_, PyAny>>) {
    let dict = dict.filter(|d| !d.is_none());
    if dict.is_none() && t.autograd_meta().is_none() {
        return;
    }
    of(t).backward = dict.map(|d| d.clone().unbind());
    let hooks = &mut t.autograd_meta_mut().leaf_hooks.tensor_pre;
    hooks.clear();
    hooks.extend(dict.map(|d| (0, next_hook_key(), tensor_hook(d.clone().unbind()))));
}

/// `Tensor._post_accumulate_grad_hooks`
pub fn accumulate_hooks<'py>(py: Python<'py>, t: &Tensor) -> Bound<'py, PyAny> {
    if t.autograd_meta().is_none_or(|m| m.hooks.is_none()) {
        return py.None().into_bound(py);
    }
    match &of(t).accumulated {
        Some(d) => d.bind(py).clone(),
        None => py.None().into_bound(py),
    }
}

/// Sets `Tensor._post_accumulate_grad_hooks`.
pub fn set_accumulate_hooks(t: &Tensor, dict: Option<&Bound<'_, PyAny>>) {
    let dict = dict.filter(|d| !d.is_none());
    if dict.is_none() && t.autograd_meta().is_none() {
        return;
    }
    of(t).accumulated = dict.map(|d| d.clone().unbind());
    let hooks = &mut t.autograd_meta_mut().leaf_hooks.accumulated;
    hooks.clear();
    if let Some(d) = dict {
        let d = d.clone().unbind();
        let hook: AccumulateHook = Arc::new(move |t: &Tensor| {
            in_python(|py| {
                for f in functions(py, &d)? {
                    f.call1((object::wrap(py, t.clone())?,))?;
                }
                Ok(())
            })
        });
        hooks.push((next_hook_key(), hook));
    }
}

/// `grad_fn._register_hook_dict(tensor)`: the tensor's dict of hooks sees the gradient of that output.
pub fn register_dict(node: &Node, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(t) = object::get(tensor) else {
        return Err(pyo3::exceptions::PyTypeError::new_err("_register_hook_dict expected a variable"));
    };
    let dict = backward_hooks(tensor.py(), t);
    if !dict.is_none() {
        let nr = t.autograd_meta().map_or(0, |m| m.output_nr);
        let hook = tensor_hook(dict.unbind());
        node.hooks(|h| h.tensor_pre.push((nr, next_hook_key(), hook)));
    }
    Ok(())
}

/// Adds a function to a dict of hooks; answers the dict and the handle that removes it.
fn added<'py>(
    py: Python<'py>,
    dict: Option<Py<PyAny>>,
    hook: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    // A handle keeps a weak reference to its dict, which a plain dict does not allow.
    let dict = match dict {
        Some(d) => d.into_bound(py),
        None => py.import("collections")?.getattr("OrderedDict")?.call0()?,
    };
    let handle = py.import("torch.utils.hooks")?.getattr("RemovableHandle")?.call1((&dict,))?;
    dict.set_item(handle.getattr("id")?, hook)?;
    Ok((dict, handle))
}

fn tuple<'py>(py: Python<'py>, grads: &Grads) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, grads.iter().map(|g| grad_to_py(py, g)).collect::<PyResult<Vec<_>>>()?)
}

/// `Node.register_hook`: sees the gradients of the inputs, and those of the outputs, after the node ran.
pub fn register_post<'py>(n: &Arc<Node>, hook: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = hook.py();
    let known = node::notes(n, |s| s.post.as_ref().map(|d| d.clone_ref(py)));
    let is_new = known.is_none();
    let (dict, handle) = added(py, known, hook)?;
    if is_new {
        let kept = dict.clone().unbind();
        let f: PostHook = Arc::new(move |inputs: &Grads, outputs: &Grads| {
            in_python(|py| {
                let mut now = inputs.clone();
                let mut changed = false;
                for f in functions(py, &kept)? {
                    let result = f.call1((tuple(py, &now)?, tuple(py, outputs)?))?;
                    if !result.is_none() {
                        let new = grads_from_py(&result, "a node's hook")?;
                        if new.len() != now.len() {
                            return Err(crate::error::runtime(format!(
                                "hook has changed the number of values: expected {}, got {}",
                                now.len(),
                                new.len()
                            )));
                        }
                        now = new;
                        changed = true;
                    }
                }
                Ok(changed.then_some(now))
            })
        });
        n.hooks(|h| h.post.push((next_hook_key(), f)));
        node::notes(n, |s| s.post = Some(dict.unbind()));
    }
    Ok(handle)
}

/// `Node.register_prehook`: sees the gradients of the outputs before the node runs.
pub fn register_pre<'py>(n: &Arc<Node>, hook: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = hook.py();
    let known = node::notes(n, |s| s.pre.as_ref().map(|d| d.clone_ref(py)));
    let is_new = known.is_none();
    let (dict, handle) = added(py, known, hook)?;
    if is_new {
        let kept = dict.clone().unbind();
        let f: GradsHook = Arc::new(move |grads: &Grads| {
            in_python(|py| {
                let mut now = grads.clone();
                let mut changed = false;
                for f in functions(py, &kept)? {
                    let result = f.call1((tuple(py, &now)?,))?;
                    if !result.is_none() {
                        now = grads_from_py(&result, "a node's pre-hook")?;
                        changed = true;
                    }
                }
                Ok(changed.then_some(now))
            })
        });
        n.hooks(|h| h.pre.push((next_hook_key(), f)));
        node::notes(n, |s| s.pre = Some(dict.unbind()));
    }
    Ok(handle)
}

/// `Tensor.retain_grad`
pub fn retain_grad(t: &Tensor) -> PyResult<()> {
    t.retain_grad().into_py()
}
