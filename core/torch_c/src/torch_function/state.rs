//! The thread's overrides: whether they are on, the stack of modes, and a pending request to skip one call.

use super::Consult;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};

/// Upstream's `TorchFunctionState`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Enabled = 0,
    SubclassesDisabled = 1,
    AllDisabled = 2,
}

#[derive(Clone, Copy)]
struct Flags {
    state: State,
    skip_next: bool,
    has_modes: bool,
}

thread_local! {
    static FLAGS: Cell<Flags> =
        const { Cell::new(Flags { state: State::Enabled, skip_next: false, has_modes: false }) };
    static MODES: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
}

fn update(change: impl FnOnce(&mut Flags)) {
    FLAGS.with(|flags| {
        let mut value = flags.get();
        change(&mut value);
        flags.set(value);
    });
}

#[inline]
pub fn consult() -> Consult {
    FLAGS.with(|flags| {
        let now = flags.get();
        if now.skip_next {
            flags.set(Flags { skip_next: false, ..now });
            return Consult::Nothing;
        }
        if now.has_modes && now.state != State::AllDisabled {
            Consult::Mode
        } else if now.state == State::Enabled {
            Consult::Types
        } else {
            Consult::Nothing
        }
    })
}

pub fn state() -> State {
    FLAGS.with(|flags| flags.get().state)
}

pub fn set_state(state: State) {
    update(|flags| flags.state = state);
}

/// The state with at least the overrides of arguments off.
pub fn without_subclasses() -> State {
    match state() {
        State::AllDisabled => State::AllDisabled,
        _ => State::SubclassesDisabled,
    }
}

/// Whether overrides of arguments are on.
pub fn enabled() -> bool {
    state() == State::Enabled
}

/// Whether a mode takes calls.
pub fn mode_enabled() -> bool {
    FLAGS.with(|flags| flags.get().has_modes && flags.get().state != State::AllDisabled)
}

pub fn skip_next() -> bool {
    FLAGS.with(|flags| flags.get().skip_next)
}

pub fn set_skip_next(on: bool) {
    update(|flags| flags.skip_next = on);
}

pub fn push(mode: Py<PyAny>) {
    MODES.with_borrow_mut(|modes| modes.push(mode));
    update(|flags| flags.has_modes = true);
}

pub fn pop() -> Option<Py<PyAny>> {
    let (mode, left) = MODES.with_borrow_mut(|modes| (modes.pop(), modes.len()));
    update(|flags| flags.has_modes = left > 0);
    mode
}

pub fn len() -> usize {
    MODES.with_borrow(Vec::len)
}

/// The mode at a depth counted from the bottom.
pub fn at(py: Python<'_>, level: usize) -> Option<Py<PyAny>> {
    MODES.with_borrow(|modes| modes.get(level).map(|mode| mode.clone_ref(py)))
}
