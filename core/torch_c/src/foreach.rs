//! Grouping of parallel lists of tensors, as the multi-tensor paths of `torch.optim` ask for it.

use crate::error;
use crate::tensor::object;
use crate::types::{device, dtype};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

type Rows<'py> = Vec<Vec<Bound<'py, PyAny>>>;

/// Splits parallel lists by the device and dtype of the first list's tensors: `{(device, dtype): (lists, indices)}`.
///
/// Other lists are empty or as long as the first; their entries may be `None`.
///
/// # Errors
/// Lists of other lengths, or a first list with entries that are no tensors.
#[pyfunction]
#[pyo3(signature = (tensorlistlist, with_indices = false))]
fn _group_tensors_by_device_and_dtype<'py>(
    tensorlistlist: &Bound<'py, PyAny>,
    with_indices: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let py = tensorlistlist.py();
    let lists: Rows<'py> = tensorlistlist
        .try_iter()?
        .map(|list| list?.try_iter()?.collect::<PyResult<Vec<_>>>())
        .collect::<PyResult<_>>()?;
    let Some(first) = lists.first().filter(|l| !l.is_empty()) else {
        return Err(error::runtime("_group_tensors_by_device_and_dtype: the first list must not be empty"));
    };
    for list in &lists[1..] {
        if !list.is_empty() && list.len() != first.len() {
            return Err(error::runtime(
                "Tensors of the same index must be on the same device and the same dtype",
            ));
        }
    }
    let mut keys = Vec::new();
    let mut groups: Vec<(Rows<'py>, Vec<usize>)> = Vec::new();
    for (i, o) in first.iter().enumerate() {
        let Some(t) = object::get(o) else {
            return Err(PyTypeError::new_err(
                "Tensors of the first list of nested Tensor lists are supposed to be defined",
            ));
        };
        let key = (t.device(), t.dtype());
        let at = keys.iter().position(|k| *k == key).unwrap_or_else(|| {
            keys.push(key);
            groups.push((vec![Vec::new(); lists.len()], Vec::new()));
            keys.len() - 1
        });
        let (rows, indices) = &mut groups[at];
        for (row, list) in rows.iter_mut().zip(&lists) {
            row.extend(list.get(i).cloned());
        }
        indices.push(i);
    }
    let out = PyDict::new(py);
    for ((d, t), (rows, indices)) in keys.into_iter().zip(groups) {
        let key = PyTuple::new(py, [device::to_py(py, d)?.into_any(), dtype::to_py(py, t).into_any()])?;
        let rows = rows.into_iter().map(|r| PyList::new(py, r)).collect::<PyResult<Vec<_>>>()?;
        let indices = if with_indices { PyList::new(py, indices)? } else { PyList::empty(py) };
        let group = PyTuple::new(py, [PyList::new(py, rows)?.into_any(), indices.into_any()])?;
        out.set_item(key, group)?;
    }
    Ok(out)
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_group_tensors_by_device_and_dtype, module)?)
}
