//! Calls by schema: `torch.ops.ns.op`, its overloads, and the functions that redispatch.

use super::convert::{NumbersAsTensors, ivalue_to_py, py_to_ivalue};
use super::keys::{PyDispatchKeySet, key_from_py};
use crate::error::{self, IntoPy};
use crate::parser;
use crate::tensor::value;
use crate::torch_function::{self, Consult, Overloaded};
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::ffi::CString;
use std::ptr::null_mut;
use torchnative_engine::dispatch::{self, DispatchKey, DispatchKeySet, Kernel, Operator};
use torchnative_engine::generated;
use torchnative_engine::schema::{FunctionSchema, Type};
use torchnative_engine::{Args, IValue, Stack};

const PYTHON: DispatchKeySet = DispatchKeySet::PYTHON;

type Keywords<'a, 'py> = &'a [(String, Bound<'py, PyAny>)];

/// What a type is called where a value does not fit it.
fn type_text(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map(|name| name.to_string()).unwrap_or_default()
}

/// Binds Python arguments to a schema, filling in defaults.
///
/// # Errors
/// Upstream's messages for missing, unknown and unfit arguments.
fn bind(
    schema: &FunctionSchema,
    defaults: &[Option<IValue>],
    positional: &[Bound<'_, PyAny>],
    keywords: Keywords<'_, '_>,
) -> PyResult<Stack> {
    let name = &schema.name;
    let allowed = schema.arguments.iter().filter(|argument| !argument.kwarg_only).count();
    let all = schema.arguments.len();
    if positional.len() + keywords.len() > all && !schema.is_vararg {
        return Err(PyRuntimeError::new_err(format!(
            "{name}() expected at most {all} argument(s) but received {} argument(s). Declaration: {schema}",
            positional.len() + keywords.len()
        )));
    }
    if positional.len() > allowed && !schema.is_vararg {
        return Err(PyRuntimeError::new_err(format!(
            "{name}() expected at most {allowed} argument(s) but received {} argument(s). Declaration: {schema}",
            positional.len()
        )));
    }
    let base = name.rsplit("::").next().unwrap_or(name);
    let _numbers = NumbersAsTensors::allow(parser::numbers_as_tensors(base));
    let mut stack = Stack::with_capacity(schema.arguments.len());
    let mut used = 0;
    for (position, argument) in schema.arguments.iter().enumerate() {
        let given = match positional.get(position) {
            Some(given) if !argument.kwarg_only => Some(given),
            _ => match keywords.iter().find(|(keyword, _)| *keyword == argument.name) {
                Some((_, given)) => {
                    used += 1;
                    Some(given)
                }
                None => None,
            },
        };
        match (given, defaults.get(position).and_then(Option::as_ref)) {
            (Some(object), _) => {
                let converted = py_to_ivalue(object, &argument.ty, argument.list_len);
                stack.push(converted.map_err(|cause| unfit(object, schema, position, &cause))?);
            }
            (None, Some(default)) => stack.push(default.clone()),
            (None, None) => {
                return Err(PyRuntimeError::new_err(format!(
                    "{name}() is missing value for argument '{}'. Declaration: {schema}",
                    argument.name
                )));
            }
        }
    }
    if used < keywords.len() {
        let is_known = |keyword: &String| schema.arguments.iter().any(|argument| argument.name == *keyword);
        return Err(PyRuntimeError::new_err(match keywords.iter().find(|(keyword, _)| !is_known(keyword)) {
            Some((keyword, _)) => {
                format!("Unknown keyword argument '{keyword}' for operator '{name}'. Schema: {schema}")
            }
            None => format!("{name}() got multiple values for an argument. Declaration: {schema}"),
        }));
    }
    Ok(stack)
}

#[cold]
fn unfit(object: &Bound<'_, PyAny>, schema: &FunctionSchema, position: usize, cause: &PyErr) -> PyErr {
    let argument = &schema.arguments[position];
    let shown = object.repr().map(|text| text.to_string()).unwrap_or_default();
    let details = cause.value(object.py()).to_string();
    PyRuntimeError::new_err(format!(
        "{}() Expected a value of type '{}' for argument '{}' but instead found type '{}'.\nPosition: {position}\nValue: {shown}\nDeclaration: {schema}\nCast error details: {details}",
        schema.name,
        argument.ty.fake().annotation(),
        argument.name,
        type_text(object),
    ))
}

/// The Python result of a call: nothing, a value, or a tuple of values.
fn unbind<'py>(py: Python<'py>, schema: &FunctionSchema, stack: &Stack) -> PyResult<Bound<'py, PyAny>> {
    let ty = |index: usize| schema.returns.get(index).map_or(&Type::Any, |returned| &returned.ty);
    match stack.len() {
        0 => Ok(py.None().into_bound(py)),
        1 => ivalue_to_py(py, &stack[0], ty(0)),
        _ => {
            let parts = stack.iter().enumerate().map(|(index, part)| ivalue_to_py(py, part, ty(index)));
            Ok(PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
    }
}

/// Which kernel a call reaches.
#[derive(Clone, Copy)]
enum Reach {
    /// The one the arguments and this thread's state lead to.
    Dispatch,
    /// The one a given set leads to.
    Set(DispatchKeySet),
    /// The one of a given key, aliases included.
    Key(DispatchKey),
}

fn call<'py>(
    py: Python<'py>,
    operator: &'static Operator,
    reach: Reach,
    positional: &[Bound<'py, PyAny>],
    keywords: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let signature = operator.signature().into_py()?;
    let mut stack = bind(&signature.schema, &signature.defaults, positional, keywords)?;
    run(operator, reach, &mut stack)?;
    unbind(py, &signature.schema, &stack)
}

fn run(operator: &'static Operator, reach: Reach, stack: &mut Stack) -> PyResult<()> {
    let key = match reach {
        Reach::Dispatch => return dispatch::call_op(operator, stack).into_py(),
        Reach::Set(set) => return dispatch::redispatch(operator, set, stack).into_py(),
        Reach::Key(key) if !key.is_alias() => {
            return dispatch::redispatch(operator, DispatchKeySet::of(key), stack).into_py();
        }
        Reach::Key(key) => key,
    };
    match operator.registered(key) {
        Some(kernel) => run_kernel(operator, key, kernel, DispatchKeySet::EMPTY, stack),
        None => Err(no_kernel(operator, key)),
    }
}

#[cold]
fn no_kernel(operator: &Operator, key: DispatchKey) -> PyErr {
    PyNotImplementedError::new_err(format!(
        "the {} kernel of {} is not implemented in torchnative",
        key.name(),
        operator.qualified_name()
    ))
}

/// Runs one kernel, past the table of the operator.
fn run_kernel(
    operator: &'static Operator,
    key: DispatchKey,
    kernel: &Kernel,
    keys: DispatchKeySet,
    stack: &mut Stack,
) -> PyResult<()> {
    match kernel {
        Kernel::Args(kernel) => {
            let results = kernel(Args(stack)).into_py()?;
            stack.clear();
            stack.extend(results.0);
            Ok(())
        }
        Kernel::Boxed(kernel) => kernel(operator, keys, stack).into_py(),
        // The others are the engine's own, which nothing but the engine's table runs.
        _ if key.is_alias() => Err(no_kernel(operator, key)),
        _ => dispatch::redispatch(operator, DispatchKeySet::of(key), stack).into_py(),
    }
}

/// An operator overload as the `self` of the functions that call it.
#[pyclass(name = "_DispatchOperatorHandle", module = "torch._C", frozen)]
pub struct Handle {
    operator: &'static Operator,
}

/// The handle of an operator.
pub fn handle<'py>(py: Python<'py>, operator: &'static Operator) -> PyResult<Bound<'py, Handle>> {
    Bound::new(py, Handle { operator })
}

#[pymethods]
impl Handle {
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(super::operators::schema_of(py, self.operator)?.into_any())
    }

    fn debug(&self) -> String {
        format!("registered by torchnative: {}", self.operator.qualified_name())
    }

    #[pyo3(signature = (keyset, *args, **kwargs))]
    fn redispatch_boxed<'py>(
        &self,
        py: Python<'py>,
        keyset: &Bound<'py, PyDispatchKeySet>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (positional, keywords) = unpack(args, kwargs)?;
        let set = Reach::Set(keyset.get().set);
        error::guard(|| call(py, self.operator, set, &positional, &keywords))
    }
}

/// The kernel an operator had at a key when this was made, whatever is registered later.
#[pyclass(name = "_SafeKernelFunction", module = "torch._C", frozen)]
struct SafeKernel {
    operator: &'static Operator,
    key: DispatchKey,
    kernel: Kernel,
}

#[pymethods]
impl SafeKernel {
    #[getter]
    fn op_handle<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Handle>> {
        handle(py, self.operator)
    }

    #[pyo3(signature = (keyset, *args, **kwargs))]
    fn call_boxed<'py>(
        &self,
        py: Python<'py>,
        keyset: &Bound<'py, PyDispatchKeySet>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (positional, keywords) = unpack(args, kwargs)?;
        error::guard(|| {
            let signature = self.operator.signature().into_py()?;
            let mut stack = bind(&signature.schema, &signature.defaults, &positional, &keywords)?;
            run_kernel(self.operator, self.key, &self.kernel, keyset.get().set, &mut stack)?;
            unbind(py, &signature.schema, &stack)
        })
    }
}

#[pyfunction]
fn _dispatch_get_computed_kernel_for_dispatch_key(
    full_name: &str,
    key: &Bound<'_, PyAny>,
) -> PyResult<SafeKernel> {
    let (name, overload) = super::operators::split(full_name);
    let Some(operator) = Operator::find(name, overload) else {
        return Err(PyRuntimeError::new_err(format!("operator {full_name} does not exist")));
    };
    let key = key_from_py(key)?;
    Ok(SafeKernel { operator, key, kernel: operator.compute(key) })
}

type Unpacked<'py> = (Vec<Bound<'py, PyAny>>, Vec<(String, Bound<'py, PyAny>)>);

/// Arguments of a Python call, taken apart.
pub fn unpack<'py>(
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
) -> PyResult<Unpacked<'py>> {
    let keywords = kwargs
        .into_iter()
        .flat_map(|kwargs| kwargs.iter())
        .map(|(key, value)| Ok((key.extract()?, value)))
        .collect::<PyResult<_>>()?;
    Ok((args.iter().collect(), keywords))
}

/// An operator name with all its overloads.
#[pyclass(name = "_OperatorPacket", module = "torch._C", frozen)]
struct Packet {
    name: String,
}

/// Chooses the first overload that takes the arguments.
///
/// # Errors
/// The objections of all overloads, as upstream lists them.
fn resolve<'py>(
    py: Python<'py>,
    name: &str,
    positional: &[Bound<'py, PyAny>],
    keywords: Keywords<'_, 'py>,
) -> PyResult<(&'static Operator, Stack)> {
    let mut objections = String::new();
    let overloads = super::operators::overload_names(name);
    for overload in &overloads {
        let Some(operator) = Operator::find(name, overload) else { continue };
        let signature = operator.signature().into_py()?;
        match bind(&signature.schema, &signature.defaults, positional, keywords) {
            Ok(stack) => return Ok((operator, stack)),
            Err(objection) if overloads.len() == 1 => return Err(objection),
            Err(objection) => objections += &format!("{}\n\n", objection.value(py)),
        }
    }
    // Overloads that only TorchScript's interpreter has.
    if generated::overloads(name).iter().any(|overload| matches!(overload, generated::Overload::Extra(_))) {
        return Err(PyNotImplementedError::new_err(format!(
            "no overload of {name} that torchnative implements takes these arguments:\n{objections}"
        )));
    }
    Err(PyRuntimeError::new_err(format!(
        "Overloaded torch operator invoked from Python failed to match any schema:\n{objections}"
    )))
}

/// The name of the overload that a call of the packet would choose.
#[pyfunction]
#[pyo3(signature = (name, *args, **kwargs))]
fn _jit_resolve_packet<'py>(
    py: Python<'py>,
    name: &str,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
) -> PyResult<String> {
    let (positional, keywords) = unpack(args, kwargs)?;
    let (operator, _) = resolve(py, name, &positional, &keywords)?;
    Ok(if operator.overload.is_empty() { "default".into() } else { operator.overload.clone() })
}

/// Runs the body of a FASTCALL entry with its arguments taken apart.
///
/// # Safety
/// The pointers are those CPython passes to a METH_FASTCALL | METH_KEYWORDS function, attached.
unsafe fn enter(
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
    this: *mut ffi::PyObject,
    body: impl for<'py> FnOnce(
        Python<'py>,
        Bound<'py, PyAny>,
        &[Bound<'py, PyAny>],
        Keywords<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: forwarded to the caller.
    let py = unsafe { Python::assume_attached() };
    let result = error::guard(|| {
        // SAFETY: as above.
        let (positional, keywords) = unsafe { parser::unpack(py, args, count, names)? };
        let this = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, this) };
        body(py, this, &positional, &keywords)
    });
    match result {
        Ok(object) => object.into_ptr(),
        Err(error) => {
            error.restore(py);
            null_mut()
        }
    }
}

/// Runs the override of a call of `torch.ops.ns.op` or one of its overloads; `None` when there is none.
fn override_of<'a, 'py>(
    py: Python<'py>,
    name: &dyn Fn() -> (&'a str, Option<&'a str>),
    positional: &[Bound<'py, PyAny>],
    keywords: Keywords<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let arguments = || positional.iter().chain(keywords.iter().map(|(_, o)| o));
    match torch_function::consult() {
        Consult::Nothing => return Ok(None),
        Consult::Mode => {}
        Consult::Types if arguments().any(torch_function::argument_overrides) => {}
        Consult::Types => return Ok(None),
    }
    let mut overloaded = Overloaded::default();
    if torch_function::enabled() {
        arguments().try_for_each(|o| overloaded.append_nested(o))?;
    }
    let (name, overload) = name();
    let (namespace, name) = name.split_once("::").unwrap_or(("", name));
    let mut function = py.import("torch")?.getattr("ops")?.getattr(namespace)?.getattr(name)?;
    if let Some(overload) = overload {
        function = function.getattr(if overload.is_empty() { "default" } else { overload })?;
    }
    let kwargs = pyo3::types::PyDict::new(py);
    for (key, value) in keywords {
        kwargs.set_item(key, value)?;
    }
    let module = format!("torch.ops{namespace}");
    let args = PyTuple::new(py, positional)?;
    torch_function::handle(py, &overloaded, &function, &args, Some(&kwargs), Some((&module, name))).map(Some)
}

/// Whether the call of a packet went to an override, and its result.
#[pyfunction]
#[pyo3(signature = (op_packet, *args, **kwargs))]
fn _maybe_call_torch_function_for_op_packet<'py>(
    py: Python<'py>,
    op_packet: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
) -> PyResult<(bool, Bound<'py, PyAny>)> {
    let (positional, keywords) = unpack(args, kwargs)?;
    let name: String = op_packet.getattr("_qualified_op_name")?.extract()?;
    match override_of(py, &|| (&name, None), &positional, &keywords)? {
        Some(result) => Ok((true, result)),
        None => Ok((false, py.None().into_bound(py))),
    }
}

unsafe extern "C" fn call_overload(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython as the flags of the definition say.
    unsafe {
        enter(args, count, names, this, |py, this, positional, keywords| {
            let operator = this.cast::<Handle>()?.get().operator;
            let name = || (operator.name.as_str(), Some(operator.overload.as_str()));
            if let Some(result) = override_of(py, &name, positional, keywords)? {
                return Ok(result);
            }
            call(py, operator, Reach::Dispatch, positional, keywords)
        })
    }
}

unsafe extern "C" fn call_overload_at_key(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython as the flags of the definition say.
    unsafe {
        enter(args, count, names, this, |py, this, positional, keywords| {
            let operator = this.cast::<Handle>()?.get().operator;
            let Some((key, rest)) = positional.split_first() else {
                return Err(PyTypeError::new_err("a dispatch key must come first"));
            };
            call(py, operator, Reach::Key(key_from_py(key)?), rest, keywords)
        })
    }
}

unsafe extern "C" fn call_packet(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython as the flags of the definition say.
    unsafe {
        enter(args, count, names, this, |py, this, positional, keywords| {
            let packet = this.cast::<Packet>()?.get();
            if let Some(result) = override_of(py, &|| (packet.name.as_str(), None), positional, keywords)? {
                return Ok(result);
            }
            let (operator, mut stack) = resolve(py, &packet.name, positional, keywords)?;
            run(operator, Reach::Dispatch, &mut stack)?;
            unbind(py, &operator.signature().into_py()?.schema, &stack)
        })
    }
}

unsafe extern "C" fn call_foreign(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython as the flags of the definition say.
    unsafe {
        enter(args, count, names, this, |_, this, _, _| {
            let name = &this.cast::<Packet>()?.get().name;
            Err(PyNotImplementedError::new_err(format!("{name} is not implemented in torchnative")))
        })
    }
}

fn builtin<'py>(this: &Bound<'py, PyAny>, name: &str, entry: parser::Entry) -> PyResult<Bound<'py, PyAny>> {
    let name: &'static std::ffi::CStr = Box::leak(CString::new(name)?.into_boxed_c_str());
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: entry },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: std::ptr::null(),
    }));
    // SAFETY: the definition is leaked; the function takes its own reference to `this`.
    unsafe {
        Bound::from_owned_ptr_or_err(this.py(), ffi::PyCFunction_NewEx(definition, this.as_ptr(), null_mut()))
    }
}

/// The function that calls an overload, and the one that calls its kernel of a given key.
pub fn overload_functions<'py>(
    py: Python<'py>,
    operator: &'static Operator,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let this = handle(py, operator)?.into_any();
    Ok((builtin(&this, "", call_overload)?, builtin(&this, "", call_overload_at_key)?))
}

/// As [`overload_functions`], for an overload that is known by its schema alone: both refuse by name.
pub fn foreign_functions<'py>(
    py: Python<'py>,
    full_name: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let this = Bound::new(py, Packet { name: full_name.into() })?.into_any();
    Ok((builtin(&this, "", call_foreign)?, builtin(&this, "", call_foreign)?))
}

/// The function that calls whichever overload takes the arguments.
pub fn packet_function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let this = Bound::new(py, Packet { name: name.into() })?.into_any();
    builtin(&this, name.rsplit("::").next().unwrap_or(name), call_packet)
}

/// Arguments of a boxed call as Python's: defaults at the end are left out, as upstream leaves them out.
pub fn arguments_to_py<'py>(
    py: Python<'py>,
    operator: &Operator,
    stack: &Stack,
) -> PyResult<(Vec<Bound<'py, PyAny>>, Bound<'py, pyo3::types::PyDict>)> {
    let signature = operator.signature().into_py()?;
    let schema = &signature.schema;
    let keywords = pyo3::types::PyDict::new(py);
    let is_default = |index: usize| {
        signature
            .defaults
            .get(index)
            .and_then(Option::as_ref)
            .is_some_and(|default| same(default, &stack[index]))
    };
    let count = schema.arguments.iter().filter(|argument| !argument.kwarg_only).count().min(stack.len());
    let mut kept = count;
    while kept > 0 && is_default(kept - 1) {
        kept -= 1;
    }
    let positional = (0..kept)
        .map(|index| argument_to_py(py, &stack[index], &schema.arguments[index].ty))
        .collect::<PyResult<Vec<_>>>()?;
    for (index, argument) in schema.arguments.iter().enumerate().take(stack.len()).skip(count) {
        if !is_default(index) {
            let name = PyString::new(py, &argument.name);
            keywords.set_item(name, argument_to_py(py, &stack[index], &argument.ty)?)?;
        }
    }
    Ok((positional, keywords))
}

/// An argument as Python's; a number that was made a tensor on the way in is a number again.
fn argument_to_py<'py>(py: Python<'py>, argument: &IValue, ty: &Type) -> PyResult<Bound<'py, PyAny>> {
    match argument {
        IValue::Tensor(tensor) if tensor.is_wrapped_number() && !tensor.key_set().intersects(PYTHON) => {
            value::scalar_to_py(py, value::item(tensor).into_py()?)
        }
        other => ivalue_to_py(py, other, ty),
    }
}

/// Whether a value is the default, as far as values of its kind compare.
fn same(default: &IValue, value: &IValue) -> bool {
    match (default, value) {
        (IValue::None, IValue::None) => true,
        (IValue::Int(a), IValue::Int(b)) => a == b,
        (IValue::Bool(a), IValue::Bool(b)) => a == b,
        (IValue::Double(a), IValue::Double(b)) => a == b,
        (IValue::Int(a), IValue::Double(b)) | (IValue::Double(b), IValue::Int(a)) => *a as f64 == *b,
        (IValue::Str(a), IValue::Str(b)) => a == b,
        (IValue::IntList(a), IValue::IntList(b)) => a == b,
        (IValue::DoubleList(a), IValue::DoubleList(b)) => a == b,
        (IValue::BoolList(a), IValue::BoolList(b)) => a == b,
        (IValue::DType(a), IValue::DType(b)) => a == b,
        (IValue::Layout(a), IValue::Layout(b)) => a == b,
        (IValue::MemoryFormat(a), IValue::MemoryFormat(b)) => a == b,
        _ => false,
    }
}

/// What Python returned, as the results of a boxed call.
pub fn results_from_py(operator: &Operator, returned: &Bound<'_, PyAny>, stack: &mut Stack) -> PyResult<()> {
    let schema = &operator.signature().into_py()?.schema;
    stack.clear();
    match &schema.returns[..] {
        [] => {}
        [only] => stack.push(result_from_py(returned, &only.ty)?),
        several => {
            let parts = returned.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            if parts.len() != several.len() {
                return Err(PyRuntimeError::new_err(format!(
                    "{} returns {} values but its Python kernel returned {}",
                    operator.qualified_name(),
                    several.len(),
                    parts.len()
                )));
            }
            for (part, wanted) in parts.iter().zip(several) {
                stack.push(result_from_py(part, &wanted.ty)?);
            }
        }
    }
    Ok(())
}

/// As upstream, a result of the wrong kind is a `RuntimeError`.
fn result_from_py(returned: &Bound<'_, PyAny>, ty: &Type) -> PyResult<IValue> {
    // A gradient that was not asked for, say.
    if returned.is_none() && *ty == Type::Tensor {
        return Ok(IValue::None);
    }
    py_to_ivalue(returned, ty, None).map_err(|error| {
        match error.is_instance_of::<PyTypeError>(returned.py()) {
            true => PyRuntimeError::new_err(error.value(returned.py()).to_string()),
            false => error,
        }
    })
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Handle>()?;
    module.add_class::<SafeKernel>()?;
    module.add_function(wrap_pyfunction!(_dispatch_get_computed_kernel_for_dispatch_key, module)?)?;
    module.add_function(wrap_pyfunction!(_maybe_call_torch_function_for_op_packet, module)?)?;
    module.add_function(wrap_pyfunction!(_jit_resolve_packet, module)?)
}
