//! `grad_fn` objects: one Python class a node name, one object a node while somebody holds it.

use super::hooks;
use crate::error::{IntoPy, to_py};
use crate::surface;
use crate::tensor::value;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use std::any::Any;
use std::sync::Arc;
use torchnative_engine::IValue;
use torchnative_engine::autograd::formula::Value;
use torchnative_engine::autograd::{Edge, Kind, Node, TypeAndSize, record, set_history};

/// The base of all node classes. Its instances borrow nothing: they keep their node.
#[pyclass(name = "_Node", module = "torch._C._functions", subclass, weakref, frozen)]
pub struct PyNode {
    node: Arc<Node>,
}

/// Carries a node into the constructor of its class, which Python alone can therefore not call.
#[pyclass(frozen)]
struct Handle(Arc<Node>);

impl Drop for PyNode {
    fn drop(&mut self) {
        self.node.set_host_object(std::ptr::null_mut());
    }
}

/// The host's notes on a node.
#[derive(Default)]
pub struct Notes {
    pub metadata: Option<Py<PyDict>>,
    /// The dict of `register_hook`, and that of `register_prehook`.
    pub post: Option<Py<PyAny>>,
    pub pre: Option<Py<PyAny>>,
}

/// Changes the notes on a node.
pub fn notes<R>(node: &Node, f: impl FnOnce(&mut Notes) -> R) -> R {
    let mut slot = node.host_notes.lock().unwrap_or_else(|e| e.into_inner());
    let boxed: &mut Box<dyn Any + Send> = slot.get_or_insert_with(|| Box::new(Notes::default()));
    match boxed.downcast_mut::<Notes>() {
        Some(n) => f(n),
        None => f(&mut Notes::default()),
    }
}

/// The node of a `grad_fn` object, of either kind.
pub fn get(o: &Bound<'_, PyAny>) -> Option<Arc<Node>> {
    if let Ok(n) = o.cast::<PyNode>() {
        return Some(n.get().node.clone());
    }
    super::function::node_of(o)
}

/// The Python object of a node: the one it has, or a new one of its class.
pub fn wrap<'py>(py: Python<'py>, node: &Arc<Node>) -> PyResult<Bound<'py, PyAny>> {
    if let Some(ctx) = super::function::context_of(py, node) {
        return Ok(ctx);
    }
    let known = node.host_object();
    if !known.is_null() {
        // SAFETY: cleared when the object dies, so it is alive.
        return Ok(unsafe { Bound::from_borrowed_ptr(py, known.cast()) });
    }
    let class = class(py, &node.name)?;
    let object = class.call1((Py::new(py, Handle(node.clone()))?,))?;
    node.set_host_object(object.as_ptr().cast());
    Ok(object)
}

/// The class of a node name, made when first asked for and kept in `torch._C._functions`.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    let module = functions(py)?;
    if let Some(known) = module.dict().get_item(name)?
        && let Ok(t) = known.cast_into::<PyType>()
    {
        return Ok(t);
    }
    let namespace = PyDict::new(py);
    namespace.set_item("__module__", "builtins")?;
    let made = py
        .get_type::<PyType>()
        .call1((name, (py.get_type::<PyNode>(),), namespace))?
        .cast_into::<PyType>()?;
    module.dict().set_item(name, &made)?;
    Ok(made)
}

fn functions(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    surface::find(py, "torch._C._functions")
}

/// `torch._C._functions.__getattr__`: node classes by name.
#[pyfunction]
fn __getattr__<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static NAMES: PyOnceLock<std::collections::HashSet<&'static str>> = PyOnceLock::new();
    let names = NAMES.get_or_init(py, || surface::node_names().collect());
    if names.contains(name) {
        return Ok(class(py, name)?.into_any());
    }
    Err(PyAttributeError::new_err(format!("module 'torch._C._functions' has no attribute '{name}'")))
}

/// `(node or None, input number)`
fn edge_to_py<'py>(py: Python<'py>, edge: &Option<Edge>) -> PyResult<Bound<'py, PyTuple>> {
    match edge {
        Some(e) => PyTuple::new(py, [wrap(py, &e.node)?, e.input_nr.into_pyobject(py)?.into_any()]),
        None => PyTuple::new(py, [py.None().into_bound(py), 0i64.into_pyobject(py)?.into_any()]),
    }
}

/// What node objects of both kinds answer.
pub fn next_functions<'py>(py: Python<'py>, node: &Arc<Node>) -> PyResult<Bound<'py, PyTuple>> {
    let edges = node.next_edges();
    PyTuple::new(py, edges.iter().map(|e| edge_to_py(py, e)).collect::<PyResult<Vec<_>>>()?)
}

/// The dict of notes that users keep on a node.
pub fn metadata<'py>(py: Python<'py>, node: &Node) -> Bound<'py, PyDict> {
    notes(node, |n| n.metadata.get_or_insert_with(|| PyDict::new(py).unbind()).clone_ref(py)).into_bound(py)
}

/// What each output of the recorded operation looked like.
pub fn input_metadata<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyList>> {
    let items = PyList::empty(py);
    for i in 0..node.num_inputs() {
        match node.input_info(i) {
            None => items.append(py.None())?,
            Some(info) => items.append(Py::new(
                py,
                InputMetadata {
                    dtype: crate::types::dtype::to_py(py, info.dtype).into_any().unbind(),
                    device: crate::types::device::to_py(py, info.device)?.into_any().unbind(),
                    shape: crate::types::size::new(py, &info.sizes)?.into_any().unbind(),
                },
            )?)?,
        }
    }
    Ok(items)
}

/// `torch._C._autograd`'s description of a gradient's shape, dtype and device.
#[pyclass(name = "_InputMetadata", module = "torch._C._autograd", frozen, get_all)]
struct InputMetadata {
    dtype: Py<PyAny>,
    device: Py<PyAny>,
    shape: Py<PyAny>,
}

fn saved_value<'py>(py: Python<'py>, v: &Value) -> PyResult<Bound<'py, PyAny>> {
    match v {
        // Lists are shown as tuples.
        Value::I(
            v @ (IValue::IntList(_) | IValue::BoolList(_) | IValue::DoubleList(_) | IValue::OptTensorList(_)),
        ) => {
            Ok(PyTuple::new(py, value::to_py(py, v)?.try_iter()?.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        Value::I(v) => value::to_py(py, v),
        _ => Err(PyAttributeError::new_err("this saved value has no Python form")),
    }
}

#[pymethods]
impl PyNode {
    #[new]
    fn new(handle: &Bound<'_, PyAny>) -> PyResult<Self> {
        match handle.cast::<Handle>() {
            Ok(h) => Ok(PyNode { node: h.get().0.clone() }),
            Err(_) => Err(PyTypeError::new_err("cannot create graph nodes directly")),
        }
    }
    /// The name upstream prints: nodes without a class of their own are spelled as in C++.
    fn name(&self) -> String {
        match self.node.kind {
            Kind::AccumulateGrad(_) | Kind::CopySlices(_) => format!("torch::autograd::{}", self.node.name),
            _ => self.node.name.to_string(),
        }
    }
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        next_functions(py, &self.node)
    }
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        metadata(py, &self.node)
    }
    #[getter]
    fn requires_grad(&self) -> bool {
        true
    }
    #[getter]
    fn _input_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        input_metadata(py, &self.node)
    }
    fn _sequence_nr(&self) -> u64 {
        self.node.sequence_nr()
    }
    fn _set_sequence_nr(&self, nr: u64) {
        self.node.set_sequence_nr(nr)
    }
    fn register_hook<'py>(&self, hook: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        hooks::register_post(&self.node, hook)
    }
    fn register_prehook<'py>(&self, hook: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        hooks::register_pre(&self.node, hook)
    }
    fn _register_hook_dict(&self, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
        hooks::register_dict(&self.node, tensor)
    }
    /// The leaf of an accumulating node.
    #[getter]
    fn variable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.node.kind {
            Kind::AccumulateGrad(t) => crate::tensor::object::wrap(py, t.clone()),
            _ => Err(self.missing("variable")),
        }
    }
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let (py, name) = (name.py(), name.to_str()?);
        let Kind::Formula(f) = &self.node.kind else { return Err(self.missing(name)) };
        let Some(saved) = name.strip_prefix("_saved_") else { return Err(self.missing(name)) };
        if !f.saved_names().contains(&saved) {
            return Err(self.missing(name));
        }
        match f.saved(&self.node, saved).map_err(to_py)? {
            Some(v) => saved_value(py, &v),
            None => Ok(py.None().into_bound(py)),
        }
    }
    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let base = py.import("builtins")?.getattr("object")?.call_method1("__dir__", (slf,))?;
        let names = PyList::new(py, base.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
        if let Kind::Formula(f) = &slf.get().node.kind {
            for n in f.saved_names() {
                names.append(format!("_saved_{n}"))?;
            }
        }
        Ok(names)
    }
}

impl PyNode {
    fn missing(&self, name: &str) -> PyErr {
        PyAttributeError::new_err(format!("'{}' object has no attribute '{name}'", self.node.name))
    }
}

/// Raises when a gradient passes it: what `once_differentiable` puts behind its results.
#[pyclass(module = "torch._C._functions", frozen)]
struct DelayedError {
    message: String,
}

#[pymethods]
impl DelayedError {
    #[new]
    fn new(message: &Bound<'_, PyAny>, num_inputs: usize) -> PyResult<Self> {
        let _ = num_inputs;
        // The tree gives bytes.
        let message = match message.cast::<pyo3::types::PyBytes>() {
            Ok(b) => String::from_utf8_lossy(b.as_bytes()).into_owned(),
            Err(_) => message.extract()?,
        };
        Ok(DelayedError { message })
    }
    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = tensors.py();
        let mut inputs = Vec::new();
        for t in tensors.iter() {
            inputs.push(super::grad_from_py(&t, "DelayedError")?);
        }
        let edges = inputs.iter().map(|t| t.as_ref().and_then(record::gradient_edge)).collect();
        let node = Node::new("DelayedError", Kind::Error(self.message.clone()), edges);
        let mut out = Vec::new();
        for t in &inputs {
            out.push(match t {
                None => py.None().into_bound(py),
                Some(t) => {
                    let alias = torchnative_engine::op::detach.call((t,)).into_py()?;
                    let nr = node.add_input(Some(TypeAndSize::of(&alias)));
                    set_history(&alias, node.clone(), nr);
                    crate::tensor::object::wrap(py, alias)?
                }
            });
        }
        match out.len() {
            1 => Ok(out.swap_remove(0)),
            _ => Ok(PyTuple::new(py, out)?.into_any()),
        }
    }
}

/// Hands a tensor on whose gradient will not arrive: `gradcheck` tries derivatives with it.
#[pyclass(module = "torch._C._functions", frozen)]
struct UndefinedGrad;

#[pymethods]
impl UndefinedGrad {
    #[new]
    fn new() -> Self {
        UndefinedGrad
    }
    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        if tensors.len() != 1 {
            return Err(PyTypeError::new_err(format!("expected 1 arguments, got {} instead", tensors.len())));
        }
        let py = tensors.py();
        let Some(t) = super::grad_from_py(&tensors.get_item(0)?, "UndefinedGrad")? else {
            return Ok(py.None().into_bound(py));
        };
        let edge = record::gradient_edge(&t);
        let alias = torchnative_engine::op::detach.call((&t,)).into_py()?;
        if edge.is_some() {
            let node = Node::new("UndefinedGradBackward", Kind::UndefinedGrad, vec![edge]);
            let nr = node.add_input(Some(TypeAndSize::of(&alias)));
            set_history(&alias, node, nr);
        }
        crate::tensor::object::wrap(py, alias)
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let functions = functions(py)?;
    functions.dict().set_item("__getattr__", wrap_pyfunction!(__getattr__, &functions)?)?;
    functions.dict().set_item("DelayedError", py.get_type::<DelayedError>())?;
    functions.dict().set_item("UndefinedGrad", py.get_type::<UndefinedGrad>())?;
    Ok(())
}

/// The node that a `GradientEdge` (or a tuple like it) names.
pub fn edge_from_py(o: &Bound<'_, PyAny>) -> PyResult<Option<Edge>> {
    let Ok(pair) = o.cast::<PyTuple>() else { return Ok(None) };
    if pair.len() < 2 {
        return Ok(None);
    }
    match get(&pair.get_item(0)?) {
        Some(node) => Ok(Some(Edge { node, input_nr: pair.get_item(1)?.extract()? })),
        None => Err(PyTypeError::new_err("GradientEdge's first object must be an autograd.graph.Node")),
    }
}
