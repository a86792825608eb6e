//! Functionalization, of which the tree asks at many places whether it is going on: it never is.

use crate::surface;
use crate::tensor::object;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

fn tensor(object: &Bound<'_, PyAny>, function: &str) -> PyResult<()> {
    match object::get(object) {
        Some(_) => Ok(()),
        None => Err(PyTypeError::new_err(format!(
            "{function}(): argument 't' must be Tensor, not {}",
            object.get_type().name()?
        ))),
    }
}

/// Whether the tensor wraps another one to record its mutations; no tensor does.
#[pyfunction]
fn _is_functional_tensor(t: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor(t, "_is_functional_tensor").map(|()| false)
}

#[pyfunction]
fn _is_functional_tensor_base(t: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor(t, "_is_functional_tensor_base").map(|()| false)
}

/// Functions of the `torch` module that work on functional tensors, and refuse.
const REFUSED: &[&str] = &[
    "_disable_functionalization",
    "_enable_functionalization",
    "_freeze_functional_tensor",
    "_from_functional_tensor",
    "_functionalize_are_all_mutations_hidden_from_autograd",
    "_functionalize_are_all_mutations_under_no_grad_or_inference_mode",
    "_functionalize_commit_update",
    "_functionalize_enable_reapply_views",
    "_functionalize_get_storage_size",
    "_functionalize_has_data_mutation",
    "_functionalize_has_metadata_mutation",
    "_functionalize_inductor_storage_resized_counter",
    "_functionalize_is_multi_output_view",
    "_functionalize_is_symbolic",
    "_functionalize_mark_mutation_hidden_from_autograd",
    "_functionalize_mark_storage_changed",
    "_functionalize_mutation_counter",
    "_functionalize_replace",
    "_functionalize_storage_changed_counter",
    "_functionalize_sync",
    "_functionalize_unsafe_set",
    "_functionalize_was_inductor_storage_resized",
    "_functionalize_was_shallow_copy_data",
    "_functionalize_was_storage_changed",
    "_mirror_autograd_meta_to",
    "_to_functional_tensor",
];

/// Adds the functions to the `torch` module.
pub fn export(torch: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = torch.py();
    torch.setattr("_is_functional_tensor", wrap_pyfunction!(_is_functional_tensor, py)?)?;
    torch.setattr("_is_functional_tensor_base", wrap_pyfunction!(_is_functional_tensor_base, py)?)?;
    for name in REFUSED {
        torch.setattr(*name, surface::refusal(py, "torch", name, name)?)?;
    }
    Ok(())
}
