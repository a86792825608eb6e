//! The functions and classes of `torch._C` that ask for overrides, turn them off and hold the stack of modes.

use super::state::{self, State};
use super::{Consult, DISABLED, consult, overrides};
use crate::enums;
use crate::parser;
use crate::surface::add_raw_function;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::ptr;
use torchnative_engine::dispatch::{DispatchKey, DispatchKeySet, tls};

/// Restores the state when dropped.
struct Restore(State);

impl Drop for Restore {
    fn drop(&mut self) {
        state::set_state(self.0);
    }
}

/// Turns overrides and modes off until the result is dropped.
pub fn disable_all() -> impl Drop {
    set(State::AllDisabled)
}

fn set(state: State) -> Restore {
    let before = state::state();
    state::set_state(state);
    Restore(before)
}

/// Runs the body of an entry that answers with a boolean or an object.
///
/// # Safety
/// Called by CPython, attached.
unsafe fn answer(body: impl for<'py> FnOnce(Python<'py>) -> PyResult<Py<PyAny>>) -> *mut ffi::PyObject {
    // SAFETY: forwarded to the caller.
    let py = unsafe { Python::assume_attached() };
    match crate::error::guard(|| body(py)) {
        Ok(object) => object.into_ptr(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

fn boolean(py: Python<'_>, on: bool) -> Py<PyAny> {
    pyo3::types::PyBool::new(py, on).to_owned().into_any().unbind()
}

unsafe extern "C" fn has_unary(_: *mut ffi::PyObject, object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: METH_O: one live object.
    unsafe { answer(|py| Ok(boolean(py, super::has(&Bound::from_borrowed_ptr(py, object))))) }
}

unsafe extern "C" fn has_variadic(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: METH_FASTCALL: `count` live objects.
    unsafe {
        answer(|py| {
            Ok(boolean(
                py,
                match consult() {
                    Consult::Nothing => false,
                    // As upstream, which asks its arguments one by one.
                    Consult::Mode => count > 0,
                    Consult::Types => {
                        (0..count).any(|i| overrides(&Bound::from_borrowed_ptr(py, *args.offset(i))))
                    }
                },
            ))
        })
    }
}

unsafe extern "C" fn has_sequence(_: *mut ffi::PyObject, object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: METH_O: one live object.
    unsafe {
        answer(|py| {
            let object = Bound::<PyAny>::from_borrowed_ptr(py, object);
            let consult = consult();
            let any = |mut items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| match consult {
                Consult::Nothing => false,
                Consult::Mode => items.next().is_some(),
                Consult::Types => Iterator::any(&mut items, |item| overrides(&item)),
            };
            if let Ok(tuple) = object.cast::<PyTuple>() {
                return Ok(boolean(py, any(&mut tuple.iter())));
            }
            if let Ok(list) = object.cast::<PyList>() {
                return Ok(boolean(py, any(&mut list.iter())));
            }
            let items = object
                .try_iter()
                .map_err(|_| PyTypeError::new_err("expected a sequence"))?
                .collect::<PyResult<Vec<_>>>()?;
            Ok(boolean(py, any(&mut items.into_iter())))
        })
    }
}

/// A function with its arguments.
type Given<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

/// The arguments of the two functions that stand for "no override": `func, types[, args[, kwargs]]`.
fn protocol_arguments<'py>(positional: &[Bound<'py, PyAny>]) -> PyResult<Given<'py>> {
    let given = positional.len();
    let (function, py) = match positional {
        [function, _, ..] if given <= 4 => (function.clone(), function.py()),
        _ => {
            let bound = if given < 2 { "at least 2" } else { "at most 4" };
            let plural = if given == 1 { "" } else { "s" };
            return Err(PyTypeError::new_err(format!(
                "function takes {bound} argument{plural} ({given} given)"
            )));
        }
    };
    let args = match positional.get(2) {
        None => PyTuple::empty(py),
        Some(args) => match (args.cast::<PyTuple>(), args.cast::<PyList>()) {
            (Ok(tuple), _) => tuple.clone(),
            (_, Ok(list)) => list.to_tuple(),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "expected List or Tuple (got {})",
                    args.get_type().name()?
                )));
            }
        },
    };
    let kwargs = match positional.get(3).filter(|kwargs| !kwargs.is_none()) {
        None => None,
        Some(kwargs) => Some(kwargs.cast::<PyDict>()?.clone()),
    };
    Ok((function, args, kwargs))
}

unsafe extern "C" fn disabled_function(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: METH_FASTCALL.
    unsafe {
        answer(|py| {
            let (positional, _) = parser::unpack(py, args, count, ptr::null_mut())?;
            let (function, args, kwargs) = protocol_arguments(&positional)?;
            let _off = set(state::without_subclasses());
            function.call(args, kwargs.as_ref()).map(Bound::unbind)
        })
    }
}

unsafe extern "C" fn disabled_dispatch(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: METH_FASTCALL.
    unsafe {
        answer(|py| {
            let (positional, _) = parser::unpack(py, args, count, ptr::null_mut())?;
            let (function, args, kwargs) = protocol_arguments(&positional)?;
            // What comes after the Python key: it and everything above it stays out until the call is over.
            let _below = tls::StateGuard::exclude(
                DispatchKeySet::FULL.minus(DispatchKeySet::full_after(DispatchKey::Python)),
            );
            function.call(args, kwargs.as_ref()).map(Bound::unbind)
        })
    }
}

unsafe extern "C" fn skip_one_hop(
    _: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: METH_FASTCALL.
    unsafe {
        answer(|py| {
            if count != 4 {
                return Err(PyTypeError::new_err(format!(
                    "function takes exactly 4 arguments ({count} given)"
                )));
            }
            let (positional, _) = parser::unpack(py, args, count, ptr::null_mut())?;
            let (function, args, kwargs) = protocol_arguments(&positional)?;
            if state::skip_next() {
                return Err(PyRuntimeError::new_err(
                    "you cannot skip two levels of __torch_function__, you need to run one level of __torch_function__ before \
                     being able to skip again.",
                ));
            }
            state::set_skip_next(true);
            let result = function.call(args, kwargs.as_ref());
            let unused = state::skip_next();
            state::set_skip_next(false);
            let result = result?;
            if unused {
                return Err(PyRuntimeError::new_err(
                    "skip_one_hop_torch_function called on a function that doesn't use has_torch_function! ",
                ));
            }
            Ok(result.unbind())
        })
    }
}

macro_rules! switches {
    ($($class:ident = $name:literal, |$old:ident| $new:expr, $enter_late:literal;)*) => {
        $(
            #[doc = concat!("`torch._C.", $name, "`: a context in which overrides are in another state.")]
            #[pyclass(name = $name, module = "torch._C")]
            struct $class {
                before: Option<State>,
            }

            #[pymethods]
            impl $class {
                #[new]
                fn new() -> Self {
                    let mut this = $class { before: None };
                    if !$enter_late {
                        this.__enter__();
                    }
                    this
                }

                fn __enter__(&mut self) {
                    if $enter_late || self.before.is_none() {
                        let $old = state::state();
                        self.before = Some($old);
                        state::set_state($new);
                    }
                }

                #[pyo3(signature = (*_args))]
                fn __exit__(&mut self, _args: &Bound<'_, PyTuple>) {
                    if let Some(before) = self.before.take() {
                        state::set_state(before);
                    }
                }
            }
        )*
    };
}

switches! {
    DisableTorchFunctionSubclass = "DisableTorchFunctionSubclass",
        |_old| state::without_subclasses(), true;
    DisableTorchFunction = "DisableTorchFunction", |_old| State::AllDisabled, true;
    EnableTorchFunction = "_EnableTorchFunction", |_old| State::Enabled, false;
}

impl Drop for EnableTorchFunction {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            state::set_state(before);
        }
    }
}

#[pyfunction]
fn _is_torch_function_enabled() -> bool {
    state::enabled()
}

#[pyfunction]
fn _is_torch_function_all_disabled() -> bool {
    state::state() == State::AllDisabled
}

#[pyfunction]
fn _is_torch_function_mode_enabled() -> bool {
    state::mode_enabled()
}

#[pyfunction]
fn _get_torch_function_state(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    enums::member(py, "_TorchFunctionState", state::state() as i64)
}

#[pyfunction]
fn _set_torch_function_state(value: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = value.py().import("torch._C")?.getattr("_TorchFunctionState")?;
    if !value.is_instance(&class)? {
        return Err(PyTypeError::new_err(format!(
            "_set_torch_function_state(): incompatible function arguments. The following argument types are supported:\n    1. \
             (arg0: torch._C._TorchFunctionState) -> None\n\nInvoked with: {}",
            value.repr()?
        )));
    }
    state::set_state(match enums::number(value)? {
        0 => State::Enabled,
        1 => State::SubclassesDisabled,
        _ => State::AllDisabled,
    });
    Ok(())
}

#[pyfunction]
fn _peek_should_skip_torch_function() -> bool {
    state::skip_next()
}

#[pyfunction]
fn _set_skip_next_torch_function(value: bool) {
    state::set_skip_next(value);
}

#[pyfunction]
fn _push_on_torch_function_stack(mode: &Bound<'_, PyAny>) {
    if !mode.is_none() {
        state::push(mode.clone().unbind());
    }
}

#[pyfunction]
fn _pop_torch_function_stack() -> PyResult<Py<PyAny>> {
    state::pop().ok_or_else(|| PyRuntimeError::new_err("trying to pop from empty mode stack"))
}

#[pyfunction]
fn _len_torch_function_stack() -> usize {
    state::len()
}

#[pyfunction]
fn _get_function_stack_at(py: Python<'_>, level: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let level: i64 = level.extract().map_err(|_| {
        let got = level.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("get_stack_at(): argument 'level' (position 1) must be int, not {got}"))
    })?;
    usize::try_from(level)
        .ok()
        .and_then(|level| state::at(py, level))
        .ok_or_else(|| PyRuntimeError::new_err("Tried to get stack at idx that's too big"))
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    use ffi::PyMethodDefPointer as Entry;
    add_raw_function(module, c"_has_torch_function", Entry { PyCFunction: has_sequence }, ffi::METH_O)?;
    add_raw_function(module, c"_has_torch_function_unary", Entry { PyCFunction: has_unary }, ffi::METH_O)?;
    for (name, entry) in [
        (c"_has_torch_function_variadic", has_variadic as ffi::PyCFunctionFast),
        (c"_disabled_torch_function_impl", disabled_function),
        (c"_disabled_torch_dispatch_impl", disabled_dispatch),
        (c"_skip_one_hop_torch_function", skip_one_hop),
    ] {
        add_raw_function(module, name, Entry { PyCFunctionFast: entry }, ffi::METH_FASTCALL)?;
    }
    let _ = DISABLED.set(module.py(), module.getattr("_disabled_torch_function_impl")?.unbind());
    module.add_class::<DisableTorchFunction>()?;
    module.add_class::<DisableTorchFunctionSubclass>()?;
    module.add_class::<EnableTorchFunction>()?;
    for function in [
        wrap_pyfunction!(_is_torch_function_enabled, module)?,
        wrap_pyfunction!(_is_torch_function_all_disabled, module)?,
        wrap_pyfunction!(_is_torch_function_mode_enabled, module)?,
        wrap_pyfunction!(_get_torch_function_state, module)?,
        wrap_pyfunction!(_set_torch_function_state, module)?,
        wrap_pyfunction!(_peek_should_skip_torch_function, module)?,
        wrap_pyfunction!(_set_skip_next_torch_function, module)?,
        wrap_pyfunction!(_push_on_torch_function_stack, module)?,
        wrap_pyfunction!(_pop_torch_function_stack, module)?,
        wrap_pyfunction!(_len_torch_function_stack, module)?,
        wrap_pyfunction!(_get_function_stack_at, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
