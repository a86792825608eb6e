//! The thread's dispatch modes: those of users in a stack, and under them one of each kind that the tree itself uses.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use torchnative_engine::dispatch::{DispatchKey, tls};

/// Number of kinds of the tree's own modes (`_TorchDispatchModeKey`): fake, proxy, functional.
pub const KINDS: usize = 3;
pub const KIND_NAMES: [&str; KINDS] = ["FakeTensorMode", "ProxyTorchDispatchMode", "FunctionalTensorMode"];

struct Modes {
    users: Vec<Py<PyAny>>,
    own: [Option<Py<PyAny>>; KINDS],
}

thread_local! {
    static MODES: RefCell<Modes> = const { RefCell::new(Modes { users: Vec::new(), own: [const { None }; KINDS] }) };
}

impl Modes {
    fn len(&self) -> usize {
        self.users.len() + self.own.iter().flatten().count()
    }
}

/// Changes the stack; calls reach the Python key while any mode is on it.
fn change<T>(f: impl FnOnce(&mut Modes) -> T) -> T {
    let (result, before, after) = MODES.with_borrow_mut(|modes| {
        let before = modes.len();
        let result = f(modes);
        (result, before, modes.len())
    });
    if (before == 0) != (after == 0) {
        tls::set_key_included(DispatchKey::Python, after > 0);
        tls::set_key_included(DispatchKey::PythonTLSSnapshot, after > 0);
    }
    result
}

pub fn len() -> usize {
    MODES.with_borrow(Modes::len)
}

/// Whether calls go to a mode: there is one, and Python's overrides are not excluded.
pub fn enabled() -> bool {
    len() > 0 && !tls::is_excluded(DispatchKey::Python)
}

pub fn push(mode: Py<PyAny>) {
    change(|modes| modes.users.push(mode));
}

/// Takes the topmost mode, with its kind when it is one of the tree's own.
pub fn pop() -> PyResult<(Py<PyAny>, Option<usize>)> {
    change(|modes| {
        if let Some(mode) = modes.users.pop() {
            return Ok((mode, None));
        }
        for kind in (0..KINDS).rev() {
            if let Some(mode) = modes.own[kind].take() {
                return Ok((mode, Some(kind)));
            }
        }
        Err(PyRuntimeError::new_err("trying to pop from empty mode stack"))
    })
}

/// The mode at a depth counted from the bottom, the tree's own first.
pub fn at(py: Python<'_>, level: usize) -> Option<Py<PyAny>> {
    MODES.with_borrow(|modes| {
        modes.own.iter().flatten().chain(&modes.users).nth(level).map(|mode| mode.clone_ref(py))
    })
}

pub fn get(py: Python<'_>, kind: usize) -> Option<Py<PyAny>> {
    MODES.with_borrow(|modes| modes.own[kind].as_ref().map(|mode| mode.clone_ref(py)))
}

/// Makes a mode the one of its kind.
///
/// # Errors
/// When there is one already.
pub fn set(mode: Py<PyAny>, kind: usize) -> PyResult<()> {
    change(|modes| {
        if modes.own[kind].is_some() {
            return Err(PyRuntimeError::new_err(format!(
                "trying to set the current {}, but one already exists",
                KIND_NAMES[kind]
            )));
        }
        modes.own[kind] = Some(mode);
        Ok(())
    })
}

pub fn unset(kind: usize) -> Option<Py<PyAny>> {
    change(|modes| modes.own[kind].take())
}

/// Takes the topmost mode off while its override runs, and puts it back.
pub struct Stash<'py> {
    mode: Bound<'py, PyAny>,
    kind: Option<usize>,
}

impl<'py> Stash<'py> {
    pub fn take(py: Python<'py>) -> PyResult<Self> {
        pop().map(|(mode, kind)| Stash { mode: mode.into_bound(py), kind })
    }

    pub fn mode(&self) -> &Bound<'py, PyAny> {
        &self.mode
    }
}

impl Drop for Stash<'_> {
    fn drop(&mut self) {
        let mode = self.mode.clone().unbind();
        match self.kind {
            None => push(mode),
            // The override may have left another mode of the kind behind: it stays.
            Some(kind) => drop(set(mode, kind)),
        }
    }
}
