//! Overrides of parsed calls: which arguments have them, and what Python calls the function.

use super::call::Call;
use super::convert;
use super::signature::{Kind, Parameter, Signature};
use crate::tensor::object;
use crate::torch_function::{self, Consult, Overloaded};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Whether a call may have to go to an override; decided before its arguments are parsed.
#[inline]
pub fn concern(call: &Call<'_, '_>) -> bool {
    match torch_function::consult() {
        Consult::Nothing => false,
        Consult::Mode => true,
        Consult::Types => {
            call.slf.as_ref().is_some_and(torch_function::overrides)
                || call.positional.iter().any(torch_function::argument_overrides)
                || call.keywords.iter().any(|(_, o)| torch_function::argument_overrides(o))
        }
    }
}

fn items<'py>(o: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if let Ok(tuple) = o.cast::<PyTuple>() {
        return Some(tuple.iter().collect());
    }
    o.cast::<PyList>().ok().map(|list| list.iter().collect())
}

/// Whether an object that is no integer stands where one is expected, because it overrides.
pub fn stands_for_int(o: &Bound<'_, PyAny>) -> bool {
    torch_function::overrides(o) && object::get(o).is_none()
}

/// Whether an object that does not fit the parameter is taken for it because it, or an element of it, overrides.
pub fn fits(p: &Parameter, o: &Bound<'_, PyAny>) -> bool {
    if torch_function::overrides(o) {
        return object::get(o).is_none() || p.kind == Kind::Tensor;
    }
    let Some(items) = items(o) else { return false };
    let any = items.iter().any(torch_function::overrides);
    any && match p.kind {
        Kind::TensorList => items.iter().all(|x| object::get(x).is_some() || torch_function::overrides(x)),
        Kind::OptTensorList => {
            items.iter().all(|x| x.is_none() || object::get(x).is_some() || torch_function::overrides(x))
        }
        Kind::IntList => items.iter().all(|x| convert::is_index(x) || stands_for_int(x)),
        _ => false,
    }
}

/// Runs the overrides of a call that was matched; `None` when there are none after all.
pub fn run<'py>(
    py: Python<'py>,
    call: &Call<'_, 'py>,
    s: &Signature,
    values: &[Option<Bound<'py, PyAny>>],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut overloaded = Overloaded::default();
    if torch_function::enabled() {
        if let Some(slf) = &call.slf {
            overloaded.append_if(slf)?;
        }
        for (p, value) in s.parameters.iter().zip(values) {
            let Some(o) = value else { continue };
            match p.kind {
                Kind::Tensor | Kind::TensorList | Kind::OptTensorList | Kind::IntList => {
                    overloaded.append_nested(o)?;
                }
                _ if torch_function::overrides(o) && object::get(o).is_none() => overloaded.append(o)?,
                _ => {}
            }
        }
    }
    if overloaded.0.is_empty() && !torch_function::mode_enabled() {
        return Ok(None);
    }
    let name = call.function.name;
    let function = match call.function.namespace {
        "Tensor" => object::tensor_class(py)?.getattr(name)?,
        "torch" => py.import("torch._C")?.getattr("_VariableFunctions")?.getattr(name)?,
        other => crate::surface::find(py, &format!("torch._C._{other}"))?.getattr(name)?,
    };
    let (args, kwargs) = call.as_python(py)?;
    let kwargs = (!kwargs.is_empty()).then_some(&kwargs);
    let named = Some((call.function.python_module(), name));
    torch_function::handle(py, &overloaded, &function, &args, kwargs, named).map(Some)
}
