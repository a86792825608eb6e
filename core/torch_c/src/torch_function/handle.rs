//! The order of overrides, and their calls.

use super::{overrides, state};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUserWarning};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use smallvec::SmallVec;

/// Which of the two protocols is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Overrides {
    Function,
    Dispatch,
}

impl Overrides {
    pub fn name(self) -> &'static str {
        match self {
            Overrides::Function => "__torch_function__",
            Overrides::Dispatch => "__torch_dispatch__",
        }
    }
}

/// Arguments of distinct types that override, in the order in which they are asked: subclasses before their bases,
/// otherwise from left to right.
#[derive(Default)]
pub struct Overloaded<'py>(pub SmallVec<[Bound<'py, PyAny>; 2]>);

/// The class that an overloaded argument stands for: itself when it is one.
fn class_of<'py>(argument: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
    match argument.cast::<PyType>() {
        Ok(class) => class.clone(),
        Err(_) => argument.get_type(),
    }
}

impl<'py> Overloaded<'py> {
    /// Adds an argument that overrides, unless its type is there already.
    pub fn append(&mut self, object: &Bound<'py, PyAny>) -> PyResult<()> {
        self.append_class(object, &object.get_type())
    }

    fn append_class(&mut self, object: &Bound<'py, PyAny>, class: &Bound<'py, PyType>) -> PyResult<()> {
        if self.0.iter().any(|known| class_of(known).is(class)) {
            return Ok(());
        }
        let mut at = self.0.len();
        for (i, known) in self.0.iter().enumerate() {
            if class.is_subclass(&class_of(known))? {
                at = i;
                break;
            }
        }
        self.0.insert(at, object.clone());
        Ok(())
    }

    /// Adds the object if it overrides.
    pub fn append_if(&mut self, object: &Bound<'py, PyAny>) -> PyResult<()> {
        if overrides(object) { self.append(object) } else { Ok(()) }
    }

    /// Adds the object and, when it is a list or tuple, its elements, as far as they override.
    pub fn append_nested(&mut self, object: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return tuple.iter().try_for_each(|item| self.append_if(&item));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return list.iter().try_for_each(|item| self.append_if(&item));
        }
        self.append_if(object)
    }

    /// The classes, as overrides are told them.
    pub fn types(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.iter().map(class_of))
    }
}

/// Puts a mode back that was taken off its stack while its override runs.
struct Stash<'py>(Bound<'py, PyAny>);

impl<'py> Stash<'py> {
    fn take(py: Python<'py>) -> Option<Self> {
        state::pop().map(|mode| Stash(mode.into_bound(py)))
    }
}

impl Drop for Stash<'_> {
    fn drop(&mut self) {
        state::push(self.0.clone().unbind());
    }
}

/// Asks the mode, then the arguments, to run `function`; the first answer that is not `NotImplemented` counts.
///
/// `named` is how messages name the function: its module and its name.
///
/// # Errors
/// What an override raises; `TypeError` when nobody implements the function.
pub fn handle<'py>(
    py: Python<'py>,
    overloaded: &Overloaded<'py>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    named: Option<(&str, &str)>,
) -> PyResult<Bound<'py, PyAny>> {
    let types = overloaded.types(py)?;
    let mut mode = None;
    if state::mode_enabled()
        && let Some(stash) = Stash::take(py)
    {
        mode = Some(stash.0.clone());
        let answer = ask_mode(py, &stash.0, function, &types, args, kwargs, Overrides::Function)?;
        if !answer.is(py.NotImplemented()) {
            return Ok(answer);
        }
    }
    ask_arguments(py, overloaded, function, &types, args, kwargs, Overrides::Function)?
        .map_or_else(|| Err(nobody(py, overloaded, function, mode, named, Overrides::Function)), Ok)
}

/// Calls a mode's override.
pub fn ask_mode<'py>(
    py: Python<'py>,
    mode: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    types: &Bound<'py, PyTuple>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    protocol: Overrides,
) -> PyResult<Bound<'py, PyAny>> {
    let name = protocol.name();
    let method = mode.getattr(name)?;
    if !method.getattr_opt(intern!(py, "__self__"))?.is_some_and(|owner| owner.is(mode)) {
        return Err(PyRuntimeError::new_err(format!(
            "Defining your mode's `{name}` as a classmethod is not supported, please make it a plain method"
        )));
    }
    match kwargs {
        Some(kwargs) => method.call1((function, types, args, kwargs)),
        None => method.call1((function, types, args)),
    }
}

/// Calls the overrides of arguments until one answers; `None` when none does.
pub fn ask_arguments<'py>(
    py: Python<'py>,
    overloaded: &Overloaded<'py>,
    function: &Bound<'py, PyAny>,
    types: &Bound<'py, PyTuple>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    protocol: Overrides,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let name = protocol.name();
    for argument in &overloaded.0 {
        let method = argument.getattr(name)?;
        if method.getattr_opt(intern!(py, "__self__"))?.is_some_and(|owner| owner.is(argument)) {
            let text = format!(
                "Defining your `{name}` as a plain method is deprecated and will be an error in future, please define it as a \
                 classmethod."
            );
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &std::ffi::CString::new(text)?, 1)?;
        }
        let answer = match kwargs {
            Some(kwargs) => method.call1((function, types, args, kwargs))?,
            None => method.call1((function, types, args))?,
        };
        if !answer.is(py.NotImplemented()) {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

/// The error when every override declined.
#[cold]
pub fn nobody<'py>(
    _py: Python<'py>,
    overloaded: &Overloaded<'py>,
    function: &Bound<'py, PyAny>,
    mode: Option<Bound<'py, PyAny>>,
    named: Option<(&str, &str)>,
    protocol: Overrides,
) -> PyErr {
    let text = |object: PyResult<Bound<'_, PyAny>>| object.map_or_else(|_| "?".into(), |o| o.to_string());
    let named = match named {
        Some((module, name)) => format!("{module}.{name}"),
        None => format!("{}.{}", text(function.getattr("__module__")), text(function.getattr("__name__"))),
    };
    let mut message = format!(
        "Multiple dispatch failed for '{named}'; all {} handlers returned NotImplemented:\n\n",
        protocol.name()
    );
    let shown =
        |object: &Bound<'_, PyAny>| object.repr().map_or_else(|_| "?".into(), |text| text.to_string());
    if let Some(mode) = mode {
        message += &format!("  - mode object {}\n", shown(&mode));
    }
    for argument in &overloaded.0 {
        message += &format!("  - tensor subclass {}\n", shown(class_of(argument).as_any()));
    }
    message += "\nFor more information, try re-running with TORCH_LOGS=not_implemented";
    PyTypeError::new_err(message)
}
