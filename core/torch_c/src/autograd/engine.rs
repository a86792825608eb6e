//! `_ImperativeEngine`: the handle by which Python starts backward passes.

use super::{grad_from_py, in_python, node};
use crate::error::{self, IntoPy};
use crate::tensor::object;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use torchnative_engine::Tensor;
use torchnative_engine::autograd::engine::{Task, current, queue_callback, run, will_execute};
use torchnative_engine::autograd::record::{accumulator, gradient_edge};
use torchnative_engine::autograd::{Edge, Kind, Node};

/// The autograd engine of the process; every instance is the same.
#[pyclass(name = "_ImperativeEngine", module = "torch._C", subclass, frozen)]
struct ImperativeEngine;

#[pymethods]
impl ImperativeEngine {
    #[new]
    fn new() -> Self {
        ImperativeEngine
    }

    /// Runs backward from `tensors`; answers the gradients of `inputs` unless they are accumulated.
    #[pyo3(signature = (tensors, grad_tensors, keep_graph, create_graph, inputs = None, allow_unreachable = false,
        accumulate_grad = false))]
    fn run_backward<'py>(
        &self,
        py: Python<'py>,
        tensors: &Bound<'py, PyTuple>,
        grad_tensors: &Bound<'py, PyTuple>,
        keep_graph: bool,
        create_graph: bool,
        inputs: Option<&Bound<'py, PyTuple>>,
        allow_unreachable: bool,
        accumulate_grad: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        if tensors.len() != grad_tensors.len() {
            return Err(error::runtime(format!(
                "got {} tensors and {} gradients",
                tensors.len(),
                grad_tensors.len()
            )));
        }
        error::guard(|| {
            let mut roots = Vec::new();
            for (i, (t, g)) in tensors.iter().zip(grad_tensors.iter()).enumerate() {
                let edge = match node::edge_from_py(&t)? {
                    Some(edge) => edge,
                    None => match object::get(&t).map(gradient_edge) {
                        Some(Some(edge)) => edge,
                        Some(None) => {
                            return Err(error::runtime(format!(
                                "element {i} of tensors does not require grad and does not have a grad_fn"
                            )));
                        }
                        None => {
                            return Err(PyTypeError::new_err(format!(
                                "element {i} of tensors tuple is not a Tensor or a GradientEdge"
                            )));
                        }
                    },
                };
                let grad = grad_from_py(&g, &format!("element {i} of gradients tuple"))?;
                roots.push((edge, grad));
            }
            let mut edges = Vec::new();
            let mut kept: Vec<Tensor> = Vec::new();
            for input in inputs.into_iter().flat_map(|i| i.iter()) {
                edges.push(input_edge(&input, accumulate_grad, &mut kept)?);
            }
            let task = Task { roots, keep_graph, create_graph, inputs: &edges, accumulate: accumulate_grad };
            let grads = crate::misc::keeping_thread_objects(py, || run(task).into_py())?;
            drop(kept);
            if inputs.is_none() || accumulate_grad {
                return Ok(PyTuple::empty(py).into_any());
            }
            let mut out = Vec::new();
            for (i, g) in grads.iter().enumerate() {
                if g.is_none() && !allow_unreachable {
                    return Err(error::runtime(format!(
                        "The differentiated Tensor at index {i} appears to not have been used in the graph. Set \
                         allow_unused=True if this is the desired behavior."
                    )));
                }
                out.push(super::grad_to_py(py, g)?);
            }
            Ok(PyTuple::new(py, out)?.into_any())
        })
    }

    /// Runs a function at the end of the pass that is running.
    fn queue_callback(&self, f: Py<PyAny>) -> PyResult<()> {
        queue_callback(Box::new(move || in_python(|py| f.call0(py).map(|_| ())))).into_py()
    }

    fn is_checkpoint_valid(&self) -> bool {
        // A pass that is asked for particular inputs cannot recompute others.
        current().is_none_or(|c| c.is_full())
    }
}

fn input_edge(input: &Bound<'_, PyAny>, accumulate: bool, kept: &mut Vec<Tensor>) -> PyResult<Edge> {
    if let Some(edge) = node::edge_from_py(input)? {
        return Ok(edge);
    }
    let Some(t) = object::get(input) else {
        return Err(PyTypeError::new_err(
            "all inputs have to be Tensors or GradientEdges, but got something else",
        ));
    };
    if !t.requires_grad() {
        return Err(error::runtime("One of the differentiated Tensors does not require grad"));
    }
    kept.push(t.clone());
    if let Some(node) = t.grad_fn() {
        if accumulate {
            t.retain_grad().into_py()?;
        }
        return Ok(Edge { node, input_nr: t.autograd_meta().map_or(0, |m| m.output_nr) });
    }
    if accumulate || t.autograd_meta().is_some_and(|m| m.grad_accumulator.strong_count() > 0) {
        return Ok(Edge { node: accumulator(t), input_nr: 0 });
    }
    // A leaf that no graph uses: nothing reaches this node.
    Ok(Edge { node: Node::new("Identity", Kind::Error("unused".into()), Vec::new()), input_nr: 0 })
}

#[pyfunction]
fn _current_graph_task_id() -> i64 {
    current().map_or(-1, |c| c.id)
}

#[pyfunction]
fn _current_autograd_node(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    match current().and_then(|c| c.node) {
        Some(n) => node::wrap(py, &n),
        None => Ok(py.None().into_bound(py)),
    }
}

#[pyfunction]
fn _will_engine_execute_node(n: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(n) = node::get(n) else {
        return Err(PyTypeError::new_err("_will_engine_execute_node expects an grad_fn"));
    };
    will_execute(&n).ok_or_else(|| {
        PyRuntimeError::new_err("_get_should_execute_nodes should only be called during the backward pass")
    })
}

#[pyfunction]
fn _get_current_graph_task_keep_graph() -> bool {
    current().is_none_or(|c| c.keep_graph)
}

#[pyfunction]
fn _get_sequence_nr() -> u64 {
    torchnative_engine::autograd::node::peek_sequence_nr()
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ImperativeEngine>()?;
    module.add_function(wrap_pyfunction!(_current_graph_task_id, module)?)?;
    module.add_function(wrap_pyfunction!(_current_autograd_node, module)?)?;
    module.add_function(wrap_pyfunction!(_will_engine_execute_node, module)?)?;
    let autograd = crate::surface::find(module.py(), "torch._C._autograd")?;
    autograd.add_function(wrap_pyfunction!(_get_current_graph_task_keep_graph, &autograd)?)?;
    autograd.add_function(wrap_pyfunction!(_get_sequence_nr, &autograd)?)
}
