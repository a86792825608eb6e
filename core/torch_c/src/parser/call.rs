//! From a Python call to the dispatcher and back.

use super::convert;
use super::overrides;
use super::signature::{Kind, Parameter, Signature, Source, Target};
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
    Err(mismatch(signatures, call, numbers))
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
    // A lone leading list of ints may be spread over the positional arguments: view(2, 3).
    let spread = s.positional == 1
        && s.parameters[0].kind == Kind::IntList
        && n >= 1
        && call.positional.iter().all(|o| convert::is_int(o) || (consulted && overrides::stands_for_int(o)))
        && (s.parameters[0].len == 0 || n > 1);
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
    for (p, v) in s.parameters.iter().zip(&values) {
        match v {
            Some(o) if convert::fits(p, o, numbers) => {}
            Some(o) if p.name == "out" && o.is_none() => {}
            Some(o) if consulted && overrides::fits(p, o) => {}
            Some(_) => return Ok(None),
            None if p.default.is_some() => {}
            None => return Ok(None),
        }
    }
    Ok(Some(Bound_ { values }))
}

/// NumPy's names of common parameters.
fn numpy_alias(p: &Parameter) -> Option<&'static str> {
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

fn type_name(o: &Bound<'_, PyAny>) -> String {
    if object::get(o).is_some() {
        let name = o.get_type().name().map_or_else(|_| "Tensor".into(), |n| n.to_string());
        return name;
    }
    crate::tensor::data::kind(o)
}

/// Prints a signature as upstream's messages do: `(Tensor other, *, Number alpha = 1)`.
fn show(s: &Signature) -> String {
    let mut out = String::from("(");
    let mut keyword_only = false;
    for (i, p) in s.parameters.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        if p.keyword_only && !keyword_only {
            out.push_str("*, ");
            keyword_only = true;
        }
        out.push_str(p.type_name);
        out.push(' ');
        out.push_str(p.name);
        if let Some(d) = p.default_text {
            out.push_str(" = ");
            out.push_str(d);
        }
    }
    out.push(')');
    out
}

/// Upstream's TypeError for a call that no signature takes.
#[cold]
fn mismatch(signatures: &[Signature], call: &Call<'_, '_>, numbers: bool) -> PyErr {
    let name = call.function.name;
    if let [s] = signatures {
        return PyTypeError::new_err(single(s, call, numbers));
    }
    // One signature that takes as many arguments, deprecated ones aside, is the one that was meant.
    let given = call.positional.len() + call.keywords.len();
    let mut plausible = signatures.iter().filter(|s| !s.deprecated && given <= s.parameters.len());
    if let (Some(s), None) = (plausible.next(), plausible.next()) {
        return PyTypeError::new_err(single(s, call, numbers));
    }
    let mut got: Vec<String> = call.positional.iter().map(type_name).collect();
    got.extend(call.keywords.iter().map(|(k, o)| format!("{k}={}", type_name(o))));
    let expected: Vec<String> =
        signatures.iter().filter(|s| !s.deprecated).map(|s| format!(" * {}\n", show(s))).collect();
    PyTypeError::new_err(format!(
        "{name}() received an invalid combination of arguments - got ({}), but expected one of:\n{}",
        got.join(", "),
        expected.concat()
    ))
}

fn single(s: &Signature, call: &Call<'_, '_>, numbers: bool) -> String {
    let name = call.function.name;
    let n = call.positional.len();
    if n > s.positional {
        let plural = if s.positional == 1 { "" } else { "s" };
        return format!("{name}() takes {} positional argument{plural} but {n} were given", s.positional);
    }
    let mut missing = Vec::new();
    for (i, p) in s.parameters.iter().enumerate() {
        let given = call.positional.get(i).filter(|_| !p.keyword_only);
        let named =
            call.keywords.iter().find(|(k, _)| k == p.name || numpy_alias(p) == Some(k)).map(|(_, o)| o);
        match (given, named) {
            (Some(_), Some(_)) => return format!("{name}() got multiple values for argument '{}'", p.name),
            (Some(o), None) if !convert::fits(p, o, numbers) && !overrides::fits(p, o) => {
                return format!(
                    "{name}(): argument '{}' (position {}) must be {}, not {}",
                    p.name,
                    i + 1,
                    p.type_name,
                    type_name(o)
                );
            }
            (None, Some(o)) if !convert::fits(p, o, numbers) && !overrides::fits(p, o) => {
                return format!(
                    "{name}(): argument '{}' must be {}, not {}",
                    p.name,
                    p.type_name,
                    type_name(o)
                );
            }
            (None, None) if p.default.is_none() => missing.push(format!("\"{}\"", p.name)),
            _ => {}
        }
    }
    if !missing.is_empty() {
        return format!(
            "{name}() missing {} required positional arguments: {}",
            missing.len(),
            missing.join(", ")
        );
    }
    match call.keywords.iter().find(|(k, _)| !s.parameters.iter().any(|p| p.name == k)) {
        Some((k, _)) => format!("{name}() got an unexpected keyword argument '{k}'"),
        None => format!("{name}(): invalid arguments"),
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
