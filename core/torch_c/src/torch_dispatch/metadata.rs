//! Functions that read and set parts of a tensor's record which the tree's fake tensors copy.

use crate::parser;
use crate::surface;
use crate::tensor::object;
use crate::types::layout;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use torchnative_engine::autograd::CreationMeta;
use torchnative_engine::dispatch::DispatchKey;
use torchnative_engine::{MemoryFormat, Tensor};

fn tensor<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a Tensor> {
    match object::get(object) {
        Some(tensor) => Ok(tensor),
        None => Err(PyTypeError::new_err(format!("a Tensor is expected, not {}", object.get_type().name()?))),
    }
}

/// Marks the tensor as the conjugate of what its storage says, or not.
#[pyfunction]
fn _set_conj(t: &Bound<'_, PyAny>, conj: bool) -> PyResult<()> {
    tensor(t)?.set_key(DispatchKey::Conjugate, conj);
    Ok(())
}

/// Marks the tensor as the negative of what its storage says, or not.
#[pyfunction]
fn _set_neg(t: &Bound<'_, PyAny>, neg: bool) -> PyResult<()> {
    tensor(t)?.set_key(DispatchKey::Negative, neg);
    Ok(())
}

#[pyfunction]
fn _has_storage(t: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor(t).map(|_| true)
}

/// Functionalization is never on, and its setting what it is at the start.
#[pyfunction]
fn _functionalization_reapply_views_tls() -> bool {
    false
}

/// Whether numbers stand for tensors in calls of a function of this name.
#[pyfunction]
fn _should_allow_numbers_as_tensors(name: &str) -> bool {
    parser::numbers_as_tensors(name)
}

#[pyfunction]
fn _get_creation_meta<'py>(t: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let meta = tensor(t)?.autograd_meta().map_or(CreationMeta::Default, |meta| meta.creation_meta);
    let class = surface::find(t.py(), "torch._C._autograd")?.getattr("CreationMeta")?;
    class.getattr(match meta {
        CreationMeta::Default => "DEFAULT",
        CreationMeta::InCustomFunction => "IN_CUSTOM_FUNCTION",
        CreationMeta::MultiOutputNode => "MULTI_OUTPUT_NODE",
        CreationMeta::NoGradMode => "NO_GRAD_MODE",
        CreationMeta::InferenceMode => "INFERENCE_MODE",
    })
}

#[pyfunction]
fn _set_creation_meta(t: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    tensor(t)?.autograd_meta_mut().creation_meta = match crate::enums::number(value)? {
        1 => CreationMeta::InCustomFunction,
        2 => CreationMeta::MultiOutputNode,
        3 => CreationMeta::NoGradMode,
        4 => CreationMeta::InferenceMode,
        _ => CreationMeta::Default,
    };
    Ok(())
}

/// Whether a tensor among the arguments, or in a list among them, requires grad.
#[pyfunction]
#[pyo3(signature = (*args, **kwargs))]
fn _any_requires_grad(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    fn requires(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Some(tensor) = object::get(object) {
            return Ok(tensor.requires_grad());
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            for item in object.try_iter()? {
                if requires(&item?)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
    let named = kwargs.map(|kwargs| kwargs.values().iter().collect::<Vec<_>>()).unwrap_or_default();
    for argument in args.iter().chain(named) {
        if requires(&argument)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts a write to each of the tensors.
#[pyfunction]
fn _increment_version(written: &Bound<'_, PyAny>) -> PyResult<()> {
    for item in written.try_iter()? {
        tensor(&item?)?.bump_version();
    }
    Ok(())
}

/// Collects the tensors of a value, those in lists and dictionaries included.
fn tensors(object: &Bound<'_, PyAny>, found: &mut Vec<Tensor>) -> PyResult<()> {
    if let Some(tensor) = object::get(object) {
        found.push(tensor.clone());
    } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        for item in object.try_iter()? {
            tensors(&item?, found)?;
        }
    } else if let Ok(dict) = object.cast::<PyDict>() {
        for item in dict.values() {
            tensors(&item, found)?;
        }
    }
    Ok(())
}

/// Whether a result shares its storage with an argument or with another result.
#[pyfunction]
fn _any_output_is_alias_to_input_or_output(
    args: &Bound<'_, PyAny>,
    kwargs: &Bound<'_, PyAny>,
    outs: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let (mut seen, mut results) = (Vec::new(), Vec::new());
    tensors(args, &mut seen)?;
    tensors(kwargs, &mut seen)?;
    tensors(outs, &mut results)?;
    for result in results {
        if seen.iter().any(|other| other.storage().ptr_eq(result.storage())) {
            return Ok(true);
        }
        seen.push(result);
    }
    Ok(false)
}

/// Which of upstream's convolution kernels does what the one here does.
#[pyfunction]
#[pyo3(signature = (input, weight, bias = None, stride = None, padding = None, dilation = None, transposed = false,
                    output_padding = None, groups = 1, bias_sizes = None))]
#[allow(clippy::too_many_arguments, reason = "upstream's signature")]
fn _select_conv_backend<'py>(
    input: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
    bias: Option<&Bound<'py, PyAny>>,
    stride: Option<&Bound<'py, PyAny>>,
    padding: Option<&Bound<'py, PyAny>>,
    dilation: Option<&Bound<'py, PyAny>>,
    transposed: bool,
    output_padding: Option<&Bound<'py, PyAny>>,
    groups: i64,
    bias_sizes: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = (weight, bias, stride, padding, dilation, output_padding, groups, bias_sizes);
    let class = input.py().import("torch._C")?.getattr("_ConvBackend")?;
    class.getattr(match (tensor(input)?.dim(), transposed) {
        (5, false) => "Slow3d",
        (5, true) => "SlowTranspose3d",
        (_, false) => "Slow2d",
        (_, true) => "SlowTranspose2d",
    })
}

/// The memory format of a convolution's result: its arguments' channels last is kept.
#[pyfunction]
fn _conv_determine_backend_memory_format<'py>(
    input: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
    _backend: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let either = |format| {
        Ok::<_, PyErr>(
            tensor(input)?.suggest_memory_format() == format
                || tensor(weight)?.suggest_memory_format() == format,
        )
    };
    if either(MemoryFormat::ChannelsLast3d)? {
        return Err(PyNotImplementedError::new_err(
            "the memory format of a convolution in three dimensions with its channels last is not implemented in torchnative",
        ));
    }
    let format = if either(MemoryFormat::ChannelsLast)? {
        MemoryFormat::ChannelsLast
    } else {
        MemoryFormat::Contiguous
    };
    Ok(layout::format_to_py(input.py(), format).into_any())
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let autograd = surface::find(module.py(), "torch._C._autograd")?;
    autograd.add_function(wrap_pyfunction!(_get_creation_meta, &autograd)?)?;
    autograd.add_function(wrap_pyfunction!(_set_creation_meta, &autograd)?)?;
    for function in [
        wrap_pyfunction!(_set_conj, module)?,
        wrap_pyfunction!(_set_neg, module)?,
        wrap_pyfunction!(_any_output_is_alias_to_input_or_output, module)?,
        wrap_pyfunction!(_any_requires_grad, module)?,
        wrap_pyfunction!(_increment_version, module)?,
        wrap_pyfunction!(_conv_determine_backend_memory_format, module)?,
        wrap_pyfunction!(_select_conv_backend, module)?,
        wrap_pyfunction!(_has_storage, module)?,
        wrap_pyfunction!(_functionalization_reapply_views_tls, module)?,
        wrap_pyfunction!(_should_allow_numbers_as_tensors, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
