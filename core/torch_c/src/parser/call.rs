//! From a Python call to the dispatcher and back.

use super::convert;
use super::mismatch;
use super::overrides;
use super::signature::{Kind, Parameter, Parameters, Signature, Source, Target};
use super::table::{Function, functions};
use crate::error::{self, IntoPy};
use crate::tensor::{object, value};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use torchnative_engine::{Device, IValue, IntList, Stack, dispatch, schema::Type};

/// A Python call, borrowed from CPython's vector.
pub struct Call<'a, 'py> {
    pub function: &'static Function,
    /// The tensor of a method.
    pub slf: Option<Bound<'py, PyAny>>,
    pub positional: &'a [Bound<'py, PyAny>],
    pub keywords: &'a [(String, Bound<'py, PyAny>)],
}

/// What a matched signature binds, by parameter; absent ones take their default.
struct Bound_<'py> {
    values: SmallVec<[Option<Bound<'py, PyAny>>; 8]>,
}

pub(super) fn enter(
    index: usize,
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    let body = || -> PyResult<Py<PyAny>> {
        let function = &functions()[index];
        // SAFETY: CPython's vector call.
        let (positional, keywords) = unsafe { super::unpack(py, args, nargs, kwnames)? };
        // SAFETY: methods get their tensor, functions null or their module.
        let slf = function.is_method().then(|| unsafe { Bound::<PyAny>::from_borrowed_ptr(py, slf) });
        run(py, &Call { function, slf, positional: &positional, keywords: &keywords }).map(Bound::unbind)
    };
    match error::guard(body) {
        Ok(o) => o.into_ptr(),
        Err(e) => {
            e.restore(py);
            std::ptr::null_mut()
        }
    }
}

pub(super) fn run<'py>(py: Python<'py>, call: &Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let consulted = overrides::concern(call);
    let signatures = call.function.signatures();
    let numbers = call.function.numbers;
    for s in signatures {
        if let Some(bound) = matches(py, s, call, numbers, consulted)? {
            if consulted && let Some(result) = overrides::run(py, call, s, &bound.values)? {
                return Ok(result);
            }
            return invoke(py, call, s, &bound);
        }
    }
    if signatures.first().is_some_and(|s| s.reflected) {
        return Ok(py.NotImplemented().into_bound(py));
    }
    Err(mismatch::explain(signatures, call, numbers))
}

/// Tries a signature; `None` when it does not fit.
fn matches<'py>(
    py: Python<'py>,
    s: &Signature,
    call: &Call<'_, 'py>,
    numbers: bool,
    consulted: bool,
) -> PyResult<Option<Bound_<'py>>> {
    let mut values: SmallVec<[Option<Bound<'py, PyAny>>; 8]> = SmallVec::from_elem(None, s.parameters.len());
    let n = call.positional.len();
    let spread = spreads(s, call.positional, consulted);
    let mut used = 0;
    if spread {
        values[0] = Some(PyTuple::new(py, call.positional)?.into_any());
    } else {
        if n > s.positional {
            return Ok(None);
        }
        for (v, o) in values.iter_mut().zip(call.positional) {
            *v = Some(o.clone());
        }
    }
    for (name, o) in call.keywords {
        let name = name.as_str();
        let found = s.parameters.iter().position(|p| p.name == name || numpy_alias(p) == Some(name));
        match found {
            Some(i) if values[i].is_none() => {
                values[i] = Some(o.clone());
                used += 1;
            }
            _ => return Ok(None),
        }
    }
    debug_assert!(used <= call.keywords.len());
    for (i, (p, v)) in s.parameters.iter().zip(&values).enumerate() {
        match v {
            Some(o) if convert::fits(p, o, numbers) => {}
            Some(o) if p.name == "out" && o.is_none() => {}
            Some(o) if consulted && overrides::fits(p, o) => {}
            Some(o) => return mismatch::element(i, p, o).map_or(Ok(None), Err),
            None if p.default.is_some() => {}
            None => return Ok(None),
        }
    }
    Ok(Some(Bound_ { values }))
}

/// Whether a lone leading list of ints is spread over the positional arguments: `view(2, 3)`. As for a list, the first
/// one decides.
pub(super) fn spreads(s: &Parameters, positional: &[Bound<'_, PyAny>], consulted: bool) -> bool {
    let Some(first) = positional.first().filter(|_| s.positional == 1) else { return false };
    let p = &s.parameters[0];
    p.kind == Kind::IntList
        && !convert::fits(p, first, false)
        && (convert::is_index(first) || (consulted && overrides::stands_for_int(first)))
}

/// NumPy's names of common parameters.
pub(super) fn numpy_alias(p: &Parameter) -> Option<&'static str> {
    match p.name {
        "dim" => Some("axis"),
        "keepdim" => Some("keepdims"),
        "input" => Some("x"),
        "other" => Some("x2"),
        _ => None,
    }
}

fn invoke<'py>(
    py: Python<'py>,
    call: &Call<'_, 'py>,
    s: &Signature,
    bound: &Bound_<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let out = s.out.and_then(|i| bound.values[i].as_ref()).filter(|o| !o.is_none());
    let target = match (out, &s.out_target) {
        (Some(_), Some(t)) => t,
        _ => &s.target,
    };
    let op = dispatch::operator(target.op);
    let signature = op.signature().into_py()?;
    let mut stack = Stack::new();
    for (i, source) in target.sources.iter().enumerate() {
        let v = argument(py, call, s, bound, source, target, i)?;
        // A list parameter of the schema takes a single number as a list.
        let v = match (v, signature.schema.arguments.get(i).map(|a| a.ty.unwrap_optional())) {
            (IValue::Int(n), Some(Type::List(t))) if **t != Type::Tensor => {
                IValue::IntList(IntList::from_elem(n, 1))
            }
            // A list that may be left out is empty, where the operator does not tell the two apart.
            (IValue::None, Some(Type::List(_)))
                if !matches!(signature.schema.arguments[i].ty, Type::Optional(_)) =>
            {
                signature.defaults[i].clone().unwrap_or_else(|| IValue::IntList(IntList::new()))
            }
            (v, _) => v,
        };
        stack.push(v);
    }
    if let (Some(out), true) = (out, s.out_target.is_some()) {
        check_out(call.function.name, s, bound, out)?;
    }
    let first = s.returns_first.then(|| stack.first().cloned()).flatten();
    dispatch::call_op(op, &mut stack).into_py()?;
    if let Some(first) = first {
        return value::to_py(py, &first);
    }
    let result = wrap(py, target, &stack, signature.schema.returns.len())?;
    if let Some(i) = s.requires_grad
        && let Some(o) = &bound.values[i]
        && o.is_truthy()?
        && let Some(t) = object::get(&result)
    {
        t.set_requires_grad(true).into_py()?;
    }
    Ok(result)
}

fn check_out(name: &str, s: &Signature, bound: &Bound_<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(t) = object::get(out) else { return Ok(()) };
    for (p, v) in s.parameters.iter().zip(&bound.values) {
        let Some(o) = v else { continue };
        if o.is_none() {
            continue;
        }
        if p.kind == Kind::DType
            && s.requires_grad.is_some()
            && let IValue::DType(d) = convert::convert(name, p, o)?
            && d != t.dtype()
        {
            return Err(PyRuntimeError::new_err(format!(
                "dtype {} does not match dtype of out parameter ({})",
                d.torch_name(),
                t.dtype().torch_name()
            )));
        }
    }
    Ok(())
}

fn parameter_value<'py>(name: &str, s: &Signature, bound: &Bound_<'py>, i: usize) -> PyResult<IValue> {
    let p = &s.parameters[i];
    match &bound.values[i] {
        Some(o) => convert::convert(name, p, o),
        None => Ok(p.default.clone().unwrap_or(IValue::None)),
    }
}

fn argument<'py>(
    _py: Python<'py>,
    call: &Call<'_, 'py>,
    s: &Signature,
    bound: &Bound_<'py>,
    source: &Source,
    target: &Target,
    position: usize,
) -> PyResult<IValue> {
    Ok(match source {
        Source::SelfTensor => match call.slf.as_ref().and_then(object::get) {
            Some(t) => IValue::Tensor(t.clone()),
            None => return Err(PyTypeError::new_err(format!("{}() needs a tensor", call.function.name))),
        },
        Source::Parameter(i) => parameter_value(call.function.name, s, bound, *i)?,
        Source::Element(i, k) => match &bound.values[*i] {
            Some(o) => value::from_py(&o.get_item(*k)?)?,
            None => IValue::None,
        },
        Source::Constant(v) => v.clone(),
        Source::SchemaDefault => dispatch::operator(target.op).signature().into_py()?.defaults[position]
            .clone()
            .unwrap_or(IValue::None),
        Source::DTypeOr(i, d) => match parameter_value(call.function.name, s, bound, *i)? {
            IValue::None => IValue::DType(*d),
            v => v,
        },
        Source::DeviceOrDefault(i) => match parameter_value(call.function.name, s, bound, *i)? {
            IValue::None => IValue::Device(Device::CPU),
            v => v,
        },
    })
}

/// The Python result: a value, a tuple, or a named tuple of `torch.return_types`.
fn wrap<'py>(py: Python<'py>, target: &Target, stack: &Stack, returns: usize) -> PyResult<Bound<'py, PyAny>> {
    match stack.len() {
        0 => Ok(py.None().into_bound(py)),
        1 if returns <= 1 => wrap_value(py, &stack[0]),
        _ => {
            let items = stack.iter().map(|v| wrap_value(py, v)).collect::<PyResult<Vec<_>>>()?;
            let tuple = PyTuple::new(py, items)?;
            match target.return_type {
                Some(name) => py.import("torch._C")?.getattr("_return_types")?.getattr(name)?.call1((tuple,)),
                None => Ok(tuple.into_any()),
            }
        }
    }
}

/// One result; lists of tensors come back as tuples.
fn wrap_value<'py>(py: Python<'py>, v: &IValue) -> PyResult<Bound<'py, PyAny>> {
    match v {
        IValue::TensorList(v) => {
            let items = v.iter().map(|t| object::wrap(py, t.clone())).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
        v => value::to_py(py, v),
    }
}

impl<'py> Call<'_, 'py> {
    /// Arguments as Python's `args` and `kwargs`, with the tensor of a method first.
    pub fn as_python(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let args: Vec<_> = self.slf.iter().chain(self.positional).cloned().collect();
        let kwargs = PyDict::new(py);
        for (k, v) in self.keywords {
            kwargs.set_item(k, v)?;
        }
        Ok((PyTuple::new(py, args)?, kwargs))
    }
}
