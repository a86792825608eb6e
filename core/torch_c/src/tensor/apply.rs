//! `apply_`, `map_` and `map2_`: a Python function on each element of a tensor of the CPU.

use super::{object, value};
use crate::error::{self, IntoPy};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use torchnative_engine::{Tensor, op};

fn writable<'a>(name: &str, slf: &'a Bound<'_, PyAny>, others: &[&Tensor]) -> PyResult<&'a Tensor> {
    let t = object::get(slf).ok_or_else(|| PyTypeError::new_err("the tensor is not initialised"))?;
    if t.requires_grad() || others.iter().any(|o| o.requires_grad()) {
        return Err(error::runtime(format!(
            "Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )));
    }
    Ok(t)
}

/// Writes `f` of the elements at each place, in the order of the indices.
fn write<'py>(
    slf: &Bound<'py, PyAny>,
    t: &Tensor,
    sources: &[Tensor],
    f: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    if t.is_meta() {
        return Ok(slf.clone());
    }
    if !t.device().is_cpu() {
        return Err(PyTypeError::new_err("apply_ is only implemented on CPU tensors"));
    }
    let element = |of: &Tensor, index: &[i64]| {
        let steps = index.iter().zip(of.strides()).map(|(i, s)| i * s).sum::<i64>();
        of.alias_with(Default::default(), Default::default(), of.storage_offset() + steps)
    };
    let mut index = vec![0i64; t.dim()];
    for _ in 0..t.numel() {
        let arguments = sources
            .iter()
            .map(|of| value::scalar_to_py(py, value::item(&element(of, &index)).into_py()?))
            .collect::<PyResult<Vec<_>>>()?;
        let result = f.call1(pyo3::types::PyTuple::new(py, arguments)?)?;
        let number = super::data::number(&result, t.dtype())?;
        op::fill__Scalar.call((&element(t, &index), number)).into_py()?;
        for (i, size) in index.iter_mut().zip(t.sizes()).rev() {
            *i += 1;
            if *i < *size {
                break;
            }
            *i = 0;
        }
    }
    t.bump_version();
    Ok(slf.clone())
}

/// `apply_(callable)`.
///
/// # Errors
/// What the function raises, and `TypeError` where what it returns is no number of the dtype.
pub fn apply_<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let ([f], []) = (args, keywords) else {
        return Err(PyTypeError::new_err(match keywords {
            [] => format!("TensorBase.apply_() takes exactly one argument ({} given)", args.len()),
            _ => "TensorBase.apply_() takes no keyword arguments".to_owned(),
        }));
    };
    let t = writable("apply_", slf, &[])?;
    write(slf, t, std::slice::from_ref(t), f)
}

/// `map_(other, callable)` and `map2_(x, y, callable)`: the others are broadcast to the tensor.
///
/// # Errors
/// As [`apply_`]; `TypeError` where another tensor has another type.
pub fn map_<'py>(
    name: &str,
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let names: &[&str] = if name == "map_" { &["other", "callable"] } else { &["x", "y", "callable"] };
    let mut given = Vec::new();
    for (i, wanted) in names.iter().enumerate() {
        let by_name = || keywords.iter().find(|(k, _)| k == wanted).map(|(_, o)| o);
        given.push(args.get(i).or_else(by_name).ok_or_else(|| {
            PyTypeError::new_err(format!("{name}() missing 1 required positional arguments: \"{wanted}\""))
        })?);
    }
    let Some((f, others)) = given.split_last() else { unreachable!("a list of names") };
    let others: Vec<&Tensor> = others.iter().filter_map(|o| object::get(o)).collect();
    let t = writable(name, slf, &others)?;
    let mut sources = vec![t.clone()];
    for (other, wanted) in others.into_iter().zip(names) {
        if (other.dtype(), other.device().ty) != (t.dtype(), t.device().ty) {
            let argument = if name == "map_" { "" } else { "argument " };
            return Err(PyTypeError::new_err(format!(
                "{name}: expected {} for {argument}'{wanted}' (got {})",
                crate::legacy_types::name_of(t),
                crate::legacy_types::name_of(other)
            )));
        }
        sources.push(op::expand.call((other, t.sizes(), false)).into_py()?);
    }
    write(slf, t, &sources, f)
}
