//! `_fx_map_aggregate` and `_fx_map_arg`: maps over nested tuples, lists, dicts and slices.

use super::node::NodeBase;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple, PyType};

static IMMUTABLE_LIST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static IMMUTABLE_DICT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
const COLLECTIONS: &str = "torch.fx.immutable_collections";

/// Maps every leaf; lists and dicts become `torch.fx`'s immutable ones, named tuples keep their class.
pub fn aggregate<'py>(
    value: &Bound<'py, PyAny>,
    leaf: &mut dyn FnMut(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    // SAFETY: the check only bounds recursion; a nested structure too deep for the C stack raises RecursionError.
    unsafe {
        if ffi::Py_EnterRecursiveCall(c" while mapping the arguments of a node".as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    let mut map = || -> PyResult<Bound<'py, PyAny>> {
        if let Ok(tuple) = value.cast::<PyTuple>() {
            let items = tuple.iter().map(|item| aggregate(&item, leaf)).collect::<PyResult<Vec<_>>>()?;
            let items = PyTuple::new(py, items)?;
            return if value.is_exact_instance_of::<PyTuple>() || !value.hasattr("_fields")? {
                Ok(items.into_any())
            } else {
                value.get_type().call1(items)
            };
        }
        if let Ok(list) = value.cast::<PyList>() {
            let items = list.iter().map(|item| aggregate(&item, leaf)).collect::<PyResult<Vec<_>>>()?;
            return IMMUTABLE_LIST
                .import(py, COLLECTIONS, "immutable_list")?
                .call1((PyList::new(py, items)?,));
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            let mapped = PyDict::new(py);
            for (key, item) in dict.iter() {
                mapped.set_item(key, aggregate(&item, leaf)?)?;
            }
            return IMMUTABLE_DICT.import(py, COLLECTIONS, "immutable_dict")?.call1((mapped,));
        }
        if value.is_instance_of::<PySlice>() {
            let mut parts = Vec::with_capacity(3);
            for name in ["start", "stop", "step"] {
                parts.push(aggregate(&value.getattr(name)?, leaf)?);
            }
            return py.get_type::<PySlice>().call1(PyTuple::new(py, parts)?);
        }
        leaf(value)
    };
    let mapped = map();
    // SAFETY: pairs with the call above.
    unsafe { ffi::Py_LeaveRecursiveCall() };
    mapped
}

#[pyfunction]
fn _fx_map_aggregate<'py>(
    value: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    aggregate(value, &mut |leaf| function.call1((leaf,)))
}

#[pyfunction]
fn _fx_map_arg<'py>(value: &Bound<'py, PyAny>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    aggregate(value, &mut |leaf| {
        if leaf.is_instance_of::<NodeBase>() { function.call1((leaf,)) } else { Ok(leaf.clone()) }
    })
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_fx_map_aggregate, module)?)?;
    module.add_function(wrap_pyfunction!(_fx_map_arg, module)?)
}
