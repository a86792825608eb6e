//! `_NodeBase`: a node of a `torch.fx` graph, in a doubly linked list with keys that order it.

use super::map::aggregate;
use pyo3::exceptions::{PyAssertionError, PyAttributeError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBool, PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

/// The part of a graph's node that is not written in Python.
#[pyclass(name = "_NodeBase", module = "torch._C", subclass)]
pub struct NodeBase {
    #[pyo3(get, set)]
    graph: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    name: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    op: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    target: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    r#type: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    _input_nodes: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    users: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    _repr_fn: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    meta: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    _erased: bool,
    args: Option<Py<PyAny>>,
    kwargs: Option<Py<PyAny>>,
    /// `None` stands for the node itself, so that a node alone holds no reference to itself.
    prev: Option<Py<NodeBase>>,
    next: Option<Py<NodeBase>>,
    sort_key: Vec<i64>,
}

type Node<'py> = Bound<'py, NodeBase>;

fn prev<'py>(node: &Node<'py>) -> Node<'py> {
    node.borrow().prev.as_ref().map_or_else(|| node.clone(), |prev| prev.bind(node.py()).clone())
}

fn next<'py>(node: &Node<'py>) -> Node<'py> {
    node.borrow().next.as_ref().map_or_else(|| node.clone(), |next| next.bind(node.py()).clone())
}

fn link(first: &Node<'_>, second: &Node<'_>) {
    let alone = first.is(second);
    first.borrow_mut().next = (!alone).then(|| second.clone().unbind());
    second.borrow_mut().prev = (!alone).then(|| first.clone().unbind());
}

/// A key between those of two neighbours.
fn key_between(before: &[i64], after: &[i64]) -> Vec<i64> {
    let step = |keys: &[i64], length: usize, by: i64| {
        let mut key = keys[..=length].to_vec();
        if let Some(last) = key.last_mut() {
            *last += by;
        }
        key
    };
    match before.len().cmp(&after.len()) {
        std::cmp::Ordering::Greater => step(before, after.len(), 1),
        std::cmp::Ordering::Less => step(after, before.len(), -1),
        std::cmp::Ordering::Equal => [before, &[0]].concat(),
    }
}

fn dict<'py>(py: Python<'py>, slot: &Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
    match slot {
        Some(dict) => Ok(dict.bind(py).cast::<PyDict>()?.clone()),
        None => Err(PyRuntimeError::new_err("a node was not initialised")),
    }
}

#[pymethods]
impl NodeBase {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        NodeBase {
            graph: None,
            name: None,
            op: None,
            target: None,
            r#type: None,
            _input_nodes: None,
            users: None,
            _repr_fn: None,
            meta: None,
            _erased: false,
            args: None,
            kwargs: None,
            prev: None,
            next: None,
            sort_key: Vec::new(),
        }
    }

    fn __init__(
        slf: &Bound<'_, Self>,
        graph: Py<PyAny>,
        name: Py<PyAny>,
        op: Py<PyAny>,
        target: Py<PyAny>,
        return_type: Py<PyAny>,
    ) {
        let py = slf.py();
        let mut node = slf.borrow_mut();
        node.graph = Some(graph);
        node.name = Some(name);
        node.op = Some(op);
        node.target = Some(target);
        node.r#type = Some(return_type);
        node._input_nodes = Some(PyDict::new(py).into_any().unbind());
        node.users = Some(PyDict::new(py).into_any().unbind());
        node._repr_fn = None;
        node.meta = Some(PyDict::new(py).into_any().unbind());
        node._erased = false;
        node.prev = None;
        node.next = None;
        node.sort_key.clear();
    }

    #[getter]
    fn _args(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.args.as_ref().map(|args| args.clone_ref(py)).ok_or_else(|| PyAttributeError::new_err("_args"))
    }
    #[setter]
    fn set__args(&mut self, args: Py<PyAny>) {
        self.args = Some(args);
    }
    #[getter]
    fn _kwargs(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.kwargs
            .as_ref()
            .map(|kwargs| kwargs.clone_ref(py))
            .ok_or_else(|| PyAttributeError::new_err("_kwargs"))
    }
    #[setter]
    fn set__kwargs(&mut self, kwargs: Py<PyAny>) {
        self.kwargs = Some(kwargs);
    }
    #[getter]
    fn _prev<'py>(slf: &Bound<'py, Self>) -> Node<'py> {
        prev(slf)
    }
    #[setter]
    fn set__prev(slf: &Bound<'_, Self>, node: &Bound<'_, NodeBase>) {
        let alone = slf.is(node);
        slf.borrow_mut().prev = (!alone).then(|| node.clone().unbind());
    }
    #[getter]
    fn _next<'py>(slf: &Bound<'py, Self>) -> Node<'py> {
        next(slf)
    }
    #[setter]
    fn set__next(slf: &Bound<'_, Self>, node: &Bound<'_, NodeBase>) {
        let alone = slf.is(node);
        slf.borrow_mut().next = (!alone).then(|| node.clone().unbind());
    }
    #[getter]
    fn _sort_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.sort_key)
    }
    #[setter]
    fn set__sort_key(&mut self, key: Vec<i64>) {
        self.sort_key = key;
    }

    /// Sets the arguments, and keeps the users of the nodes among them.
    fn _update_args_kwargs<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyAny>,
        kwargs: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = slf.py();
        let inputs = dict(py, &slf.borrow()._input_nodes)?;
        for old in inputs.keys() {
            let users = dict(py, &old.cast::<NodeBase>()?.borrow().users)?;
            if users.contains(slf)? {
                users.del_item(slf)?;
            }
        }
        inputs.clear();
        let mut visit = |leaf: &Bound<'py, PyAny>| {
            if let Ok(node) = leaf.cast::<NodeBase>() {
                if !inputs.contains(node)? {
                    inputs.set_item(node, py.None())?;
                }
                let users = dict(py, &node.borrow().users)?;
                if !users.contains(slf)? {
                    users.set_item(slf, py.None())?;
                }
            }
            Ok(leaf.clone())
        };
        let args = aggregate(args, &mut visit)?;
        let kwargs = aggregate(kwargs, &mut visit)?;
        let mut node = slf.borrow_mut();
        node.args = Some(args.unbind());
        node.kwargs = Some(kwargs.unbind());
        Ok(())
    }

    /// Replaces one node among the arguments by another.
    fn _replace_input_with<'py>(
        slf: &Bound<'py, Self>,
        old: &Bound<'py, PyAny>,
        new: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = slf.py();
        let (args, kwargs) = {
            let node = slf.borrow();
            (node._args(py)?.into_bound(py), node._kwargs(py)?.into_bound(py))
        };
        let mut swap = |leaf: &Bound<'py, PyAny>| Ok(if leaf.is(old) { new.clone() } else { leaf.clone() });
        let args = aggregate(&args, &mut swap)?;
        let kwargs = aggregate(&kwargs, &mut swap)?;
        Self::_update_args_kwargs(slf, &args, &kwargs)
    }

    fn _remove_from_list(slf: &Bound<'_, Self>) {
        link(&prev(slf), &next(slf));
    }

    /// Moves another node of the graph to just before this one.
    fn _prepend(slf: &Bound<'_, Self>, node: &Bound<'_, NodeBase>) -> PyResult<()> {
        if slf.is(node) {
            return Ok(());
        }
        let py = slf.py();
        let same_graph = match (&slf.borrow().graph, &node.borrow().graph) {
            (Some(mine), Some(other)) => mine.bind(py).is(other.bind(py)),
            _ => false,
        };
        if !same_graph {
            return Err(PyAssertionError::new_err("Attempting to move a Node into a different Graph"));
        }
        Self::_remove_from_list(node);
        let before = prev(slf);
        link(&before, node);
        link(node, slf);
        let key = key_between(&before.borrow().sort_key, &slf.borrow().sort_key);
        node.borrow_mut().sort_key = key;
        Ok(())
    }

    fn __richcmp__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let py = slf.py();
        let answer = match (op, other.cast::<NodeBase>()) {
            (CompareOp::Eq, _) => slf.is(other),
            (CompareOp::Ne, _) => !slf.is(other),
            (_, Ok(other)) if slf.is(other) => matches!(op, CompareOp::Le | CompareOp::Ge),
            (_, Ok(other)) => op.matches(slf.borrow().sort_key.cmp(&other.borrow().sort_key)),
            (_, Err(_)) => return py.NotImplemented(),
        };
        PyBool::new(py, answer).to_owned().into_any().unbind()
    }

    fn __hash__(slf: &Bound<'_, Self>) -> usize {
        slf.as_ptr() as usize >> 4
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let objects = [
            &self.graph,
            &self.name,
            &self.op,
            &self.target,
            &self.r#type,
            &self._input_nodes,
            &self.users,
            &self._repr_fn,
            &self.meta,
            &self.args,
            &self.kwargs,
        ];
        objects.into_iter().try_for_each(|object| visit.call(object))?;
        visit.call(&self.prev)?;
        visit.call(&self.next)
    }

    fn __clear__(&mut self) {
        *self = NodeBase {
            graph: None,
            name: None,
            op: None,
            target: None,
            r#type: None,
            _input_nodes: None,
            users: None,
            _repr_fn: None,
            meta: None,
            _erased: true,
            args: None,
            kwargs: None,
            prev: None,
            next: None,
            sort_key: Vec::new(),
        };
    }
}

/// Walks the nodes of a graph from its root, in either direction.
#[pyclass(name = "_NodeIter", module = "torch._C")]
struct NodeIter {
    root: Py<NodeBase>,
    current: Py<NodeBase>,
    reversed: bool,
}

#[pymethods]
impl NodeIter {
    #[new]
    fn new(root: Bound<'_, NodeBase>, reversed: bool) -> Self {
        NodeIter { current: root.clone().unbind(), root: root.unbind(), reversed }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<Node<'py>> {
        loop {
            let current = self.current.bind(py);
            let following = if self.reversed { prev(current) } else { next(current) };
            self.current = following.clone().unbind();
            if following.is(&self.root) {
                return None;
            }
            if !following.borrow()._erased {
                return Some(following);
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.root)?;
        visit.call(&self.current)
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NodeBase>()?;
    module.add_class::<NodeIter>()
}
