//! `torch.autograd.Function`: operations whose derivative is written in Python.

use super::{grad_to_py, in_python, node};
use crate::error::{self, IntoPy};
use crate::tensor::object;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use torchnative_engine::autograd::node::HostBackward;
use torchnative_engine::autograd::saved::{RELEASED, SavedVariable, TypeAndSize};
use torchnative_engine::autograd::view::{CreationMeta, check_inplace, rebase_history};
use torchnative_engine::autograd::{Grads, Kind, Node, record, set_history};
use torchnative_engine::dispatch::tls::{self, StateGuard};
use torchnative_engine::{Tensor, op};

#[derive(Default)]
struct State {
    to_save: Option<Py<PyAny>>,
    saved_for_forward: Option<Py<PyAny>>,
    non_differentiable: Option<Py<PyAny>>,
    dirty: Option<Py<PyAny>>,
    needs_input_grad: Option<Py<PyAny>>,
    materialize_grads: bool,
    saved: Vec<Option<SavedVariable>>,
    released: bool,
    /// Which arguments of `forward` were tensors.
    is_tensor: Vec<bool>,
    node: Weak<Node>,
}

/// The context of one call of a custom function, and its graph node's Python object.
#[pyclass(name = "_FunctionBase", module = "torch._C", subclass, weakref, frozen)]
pub struct FunctionBase {
    state: Mutex<State>,
}

/// The engine's side of a context.
struct Backward {
    context: Py<FunctionBase>,
}

impl FunctionBase {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn node(&self) -> PyResult<Arc<Node>> {
        self.state().node.upgrade().ok_or_else(|| {
            error::runtime("Attribute is invalid for this instance of _C._FunctionBase. Accessing this attribute directly on an \
                            instance of autograd.Function is a legacy access pattern that is no longer supported.")
        })
    }
}

/// The node of a context, when it has one.
pub fn node_of(o: &Bound<'_, PyAny>) -> Option<Arc<Node>> {
    o.cast::<FunctionBase>().ok()?.get().state().node.upgrade()
}

/// The context that is the Python object of a node.
pub fn context_of<'py>(py: Python<'py>, node: &Node) -> Option<Bound<'py, PyAny>> {
    let Kind::Host(h) = &node.kind else { return None };
    let b = h.as_any().downcast_ref::<Backward>()?;
    Some(b.context.bind(py).clone().into_any())
}

impl HostBackward for Backward {
    fn apply(&self, node: &Arc<Node>, mut grads: Grads) -> torchnative_engine::Result<Grads> {
        let (materialize, is_tensor) = {
            let s = Python::attach(|_| self.context.get().state().materialize_grads);
            (s, self.context.get().state().is_tensor.clone())
        };
        grads.resize(node.num_inputs(), None);
        if materialize {
            for (i, g) in grads.iter_mut().enumerate() {
                if g.is_none()
                    && let Some(info) = node.input_info(i)
                {
                    *g = Some(info.zeros()?);
                }
            }
        }
        in_python(|py| {
            let args = grads.iter().map(|g| grad_to_py(py, g)).collect::<PyResult<Vec<_>>>()?;
            let result = self.context.bind(py).getattr("apply")?.call1(PyTuple::new(py, args)?)?;
            let result = match result.cast_into::<PyTuple>() {
                Ok(t) => t,
                Err(e) => PyTuple::new(py, [e.into_inner()])?,
            };
            outputs(&node.name, &result, &is_tensor)
        })
    }

    fn release(&self) {
        let old = {
            let mut s = self.context.get().state();
            s.released = true;
            std::mem::take(&mut s.saved)
        };
        drop(old);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The gradients of the arguments that were tensors.
fn outputs(name: &str, result: &Bound<'_, PyTuple>, is_tensor: &[bool]) -> PyResult<Grads> {
    let mut n = result.len();
    // Superfluous gradients at the end may be None.
    while n > is_tensor.len() && result.get_item(n - 1)?.is_none() {
        n -= 1;
    }
    if n != is_tensor.len() {
        return Err(error::runtime(format!(
            "function {name} returned an incorrect number of gradients (expected {}, got {n})",
            is_tensor.len()
        )));
    }
    let mut out = Grads::new();
    for (i, is) in is_tensor.iter().enumerate() {
        let g = result.get_item(i)?;
        if !is {
            if !g.is_none() {
                return Err(error::runtime(format!(
                    "function {name} returned a gradient different from None at position {}, but the corresponding forward input \
                     was not a Variable",
                    i + 1
                )));
            }
            continue;
        }
        out.push(match object::get(&g) {
            Some(t) => Some(t.clone()),
            None if g.is_none() => None,
            None => {
                return Err(PyTypeError::new_err(format!(
                    "expected Variable or None (got {})",
                    g.get_type().name()?
                )));
            }
        });
    }
    Ok(out)
}

/// The tensors that a tuple attribute names, for `mark_dirty` and kin.
fn marked(py: Python<'_>, v: &Option<Py<PyAny>>, what: &str) -> PyResult<Vec<Tensor>> {
    let Some(v) = v else { return Ok(Vec::new()) };
    let v = v.bind(py);
    if v.is_none() {
        return Ok(Vec::new());
    }
    let Ok(items) = v.cast::<PyTuple>() else {
        return Err(PyTypeError::new_err(format!(
            "autograd internal error: saved {what} attribute is expected to be a tuple but is {}",
            v.get_type().name()?
        )));
    };
    let mut out = Vec::new();
    for (i, o) in items.iter().enumerate() {
        match object::get(&o) {
            Some(t) => out.push(t.clone()),
            None if what == "dirty" => {
                return Err(PyTypeError::new_err(format!(
                    "mark_dirty can only accept variables, but argument {i} is of type {}",
                    o.get_type().name()?
                )));
            }
            None => {
                return Err(PyTypeError::new_err(format!(
                    "mark_non_differentiable only accepts variable arguments, but got {}",
                    o.get_type().name()?
                )));
            }
        }
    }
    Ok(out)
}

struct Inputs<'py> {
    args: Bound<'py, PyTuple>,
    tensors: Vec<Tensor>,
    is_tensor: Vec<bool>,
    records: bool,
}

fn unpack<'py>(args: &Bound<'py, PyTuple>) -> Inputs<'py> {
    let mut tensors = Vec::new();
    let mut is_tensor = Vec::new();
    for a in args.iter() {
        let t = object::get(&a);
        is_tensor.push(t.is_some());
        tensors.extend(t.cloned());
    }
    let records = tls::grad_mode() && tensors.iter().any(Tensor::requires_grad);
    Inputs { args: args.clone(), tensors, is_tensor, records }
}

#[pymethods]
impl FunctionBase {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        FunctionBase { state: Mutex::new(State { materialize_grads: true, ..State::default() }) }
    }

    /// Runs `forward` without recording, and ties its results to a node that runs `backward`.
    #[classmethod]
    #[pyo3(signature = (*args, **kwargs))]
    fn apply<'py>(
        cls: &Bound<'py, PyType>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = cls.py();
        if kwargs.is_some_and(|k| !k.is_empty()) {
            return Err(PyTypeError::new_err("apply() takes no keyword arguments"));
        }
        let context = cls.getattr("_backward_cls")?.call0()?.cast_into::<FunctionBase>()?;
        let inputs = unpack(args);
        let needs: Vec<bool> = args
            .iter()
            .map(|a| object::get(&a).is_some_and(|t| tls::grad_mode() && t.requires_grad()))
            .collect();
        {
            let mut s = context.get().state();
            s.needs_input_grad = Some(PyTuple::new(py, &needs)?.into_any().unbind());
            s.is_tensor.clone_from(&inputs.is_tensor);
        }
        let node = if inputs.records {
            let edges = inputs.tensors.iter().map(record::gradient_edge).collect();
            let name = context.get_type().name()?.to_string();
            let node =
                Node::new(name, Kind::Host(Box::new(Backward { context: context.clone().unbind() })), edges);
            context.get().state().node = Arc::downgrade(&node);
            Some(node)
        } else {
            None
        };
        let output = {
            let _guard = StateGuard::new();
            tls::set_grad_mode(false);
            let base = py.import("torch.autograd.function")?.getattr("_SingleLevelFunction")?;
            let separate = !cls.getattr("setup_context")?.is(&base.getattr("setup_context")?);
            if separate {
                let output = cls.getattr("forward")?.call1(&inputs.args)?;
                cls.getattr("setup_context")?.call1((&context, &inputs.args, &output))?;
                output
            } else {
                let mut all = vec![context.clone().into_any()];
                all.extend(inputs.args.iter());
                cls.getattr("forward")?.call1(PyTuple::new(py, all)?)?
            }
        };
        finish(py, context.get(), node, &inputs, output)
    }

    fn name(&self) -> PyResult<String> {
        Ok(self.node()?.name.to_string())
    }
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        node::next_functions(py, &self.node()?)
    }
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(node::metadata(py, &*self.node()?))
    }
    #[getter]
    fn _input_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyList>> {
        node::input_metadata(py, &*self.node()?)
    }
    #[getter]
    fn requires_grad(&self) -> bool {
        self.state().node.strong_count() > 0
    }
    fn _sequence_nr(&self) -> PyResult<u64> {
        Ok(self.node()?.sequence_nr())
    }
    fn _set_sequence_nr(&self, nr: u64) -> PyResult<()> {
        self.node()?.set_sequence_nr(nr);
        Ok(())
    }
    fn register_hook<'py>(&self, hook: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        super::hooks::register_post(&self.node()?, hook)
    }
    fn register_prehook<'py>(&self, hook: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        super::hooks::register_pre(&self.node()?, hook)
    }
    fn _register_hook_dict(&self, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
        super::hooks::register_dict(&*self.node()?, tensor)
    }

    /// The tensors that `save_for_backward` kept.
    #[getter]
    fn saved_tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        // During `forward` they are what `save_for_forward` was given.
        let (waiting, released) = {
            let s = self.state();
            (s.saved_for_forward.as_ref().filter(|_| s.saved.is_empty()).map(|v| v.clone_ref(py)), s.released)
        };
        if let Some(v) = waiting {
            return Ok(v.into_bound(py).cast_into::<PyTuple>()?);
        }
        if released {
            return Err(error::runtime(RELEASED));
        }
        let node = self.state().node.upgrade();
        let unpacked = {
            let s = self.state();
            let mut out = Vec::new();
            for v in &s.saved {
                out.push(match (v, &node) {
                    (Some(v), Some(n)) => Some(v.unpack(n).into_py()?),
                    _ => None,
                });
            }
            out
        };
        PyTuple::new(py, unpacked.iter().map(|t| grad_to_py(py, t)).collect::<PyResult<Vec<_>>>()?)
    }
    #[getter]
    fn saved_variables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.saved_tensors(py)
    }
    fn maybe_clear_saved_tensors(&self) {
        let old = {
            let mut s = self.state();
            s.released = true;
            std::mem::take(&mut s.saved)
        };
        drop(old);
    }
    #[getter]
    fn to_save(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state().to_save.as_ref().map(|v| v.clone_ref(py))
    }
    #[setter]
    fn set_to_save(&self, v: Py<PyAny>) {
        let old = self.state().to_save.replace(v);
        drop(old);
    }
    #[getter]
    fn saved_for_forward(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state().saved_for_forward.as_ref().map(|v| v.clone_ref(py))
    }
    #[setter]
    fn set_saved_for_forward(&self, v: Py<PyAny>) {
        let old = self.state().saved_for_forward.replace(v);
        drop(old);
    }
    #[getter]
    fn non_differentiable(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state().non_differentiable.as_ref().map(|v| v.clone_ref(py))
    }
    #[setter]
    fn set_non_differentiable(&self, v: Py<PyAny>) {
        let old = self.state().non_differentiable.replace(v);
        drop(old);
    }
    #[getter]
    fn dirty_tensors(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state().dirty.as_ref().map(|v| v.clone_ref(py))
    }
    #[setter]
    fn set_dirty_tensors(&self, v: Py<PyAny>) {
        let old = self.state().dirty.replace(v);
        drop(old);
    }
    #[getter]
    fn needs_input_grad(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state().needs_input_grad.as_ref().map(|v| v.clone_ref(py))
    }
    #[setter]
    fn set_needs_input_grad(&self, v: Py<PyAny>) {
        let old = self.state().needs_input_grad.replace(v);
        drop(old);
    }
    #[getter]
    fn materialize_grads(&self) -> bool {
        self.state().materialize_grads
    }
    #[setter]
    fn set_materialize_grads(&self, on: bool) {
        self.state().materialize_grads = on;
    }
}

/// Ties the results of `forward` to the node, and keeps what was saved.
fn finish<'py>(
    py: Python<'py>,
    context: &FunctionBase,
    node: Option<Arc<Node>>,
    inputs: &Inputs<'py>,
    output: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (items, lone) = match output.cast::<PyTuple>() {
        Ok(t) => (t.iter().collect::<Vec<_>>(), false),
        Err(_) => (vec![output.clone()], true),
    };
    let (dirty, flat) = {
        let s = context.state();
        (marked(py, &s.dirty, "dirty")?, marked(py, &s.non_differentiable, "non_differentiable")?)
    };
    let is_in = |list: &[Tensor], t: &Tensor| list.iter().any(|o| o.is_same(t));
    for d in &dirty {
        if !items.iter().filter_map(object::get).any(|t| t.is_same(d)) {
            return Err(error::runtime(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are \
                 modified inplace must all be outputs of the Function.",
            ));
        }
    }
    let several = items.len() > 1;
    let mut out = Vec::new();
    for (nr, o) in items.into_iter().enumerate() {
        let Some(t) = object::get(&o).cloned() else {
            if let Some(n) = &node {
                n.add_input(None);
            }
            out.push(o);
            continue;
        };
        let (given, written) = (is_in(&inputs.tensors, &t), is_in(&dirty, &t));
        let differentiable = !is_in(&flat, &t) && (t.dtype().is_floating_point() || t.dtype().is_complex());
        if written {
            t.bump_version();
        }
        let alias = |t: &Tensor| -> PyResult<Tensor> {
            let _guard = StateGuard::no_grad();
            op::view_as.call((t, t)).into_py()
        };
        let Some(n) = &node else {
            // Nothing is recorded; a result that is an argument is another tensor all the same.
            out.push(if given && !written { object::wrap(py, alias(&t)?)? } else { o });
            continue;
        };
        if !differentiable {
            n.add_input(None);
            let plain = if t.requires_grad() { op::detach.call((&t,)).into_py()? } else { t.clone() };
            out.push(if plain.is_same(&t) && given && !written {
                object::wrap(py, alias(&t)?)?
            } else if plain.is_same(&t) {
                o
            } else {
                object::wrap(py, plain)?
            });
            continue;
        }
        if written {
            check_inplace(&t, true).into_py()?;
            rebase_history(&t, n.clone());
            out.push(o);
            continue;
        }
        let result = if given { alias(&t)? } else { t.clone() };
        if result.view_base().is_some() {
            result.autograd_meta_mut().creation_meta =
                if several { CreationMeta::MultiOutputNode } else { CreationMeta::InCustomFunction };
        }
        n.add_input(Some(TypeAndSize::of(&result)));
        set_history(&result, n.clone(), nr as u32);
        out.push(if result.is_same(&t) { o } else { object::wrap(py, result)? });
    }
    if let Some(n) = &node {
        save(py, context, n)?;
    } else {
        let old = context.state().to_save.take();
        drop(old);
    }
    match lone {
        true => Ok(out.swap_remove(0)),
        false => Ok(PyTuple::new(py, out)?.into_any()),
    }
}

/// Keeps the tensors given to `save_for_backward`.
fn save(py: Python<'_>, context: &FunctionBase, node: &Arc<Node>) -> PyResult<()> {
    let Some(v) = context.state().to_save.take() else { return Ok(()) };
    let v = v.into_bound(py);
    if v.is_none() {
        return Ok(());
    }
    let Ok(items) = v.cast::<PyTuple>() else {
        return Err(PyTypeError::new_err(format!(
            "saved_for_backward was expected to be a tuple, but got {}",
            v.get_type().name()?
        )));
    };
    let mut saved = Vec::new();
    for (i, o) in items.iter().enumerate() {
        saved.push(match object::get(&o) {
            Some(t) => {
                let is_output = t.grad_fn().is_some_and(|g| Arc::ptr_eq(&g, node));
                Some(SavedVariable::new(t, is_output, false).into_py()?)
            }
            None if o.is_none() => None,
            None => {
                return Err(PyTypeError::new_err(format!(
                    "save_for_backward can only save variables, but argument {i} is of type {}",
                    o.get_type().name()?
                )));
            }
        });
    }
    context.state().saved = saved;
    Ok(())
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FunctionBase>()
}
