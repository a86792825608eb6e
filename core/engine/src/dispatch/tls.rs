//! Thread-local dispatch state: included and excluded keys, grad mode, inference mode.

use super::key::{DispatchKey, DispatchKeySet};
use std::cell::Cell;

#[derive(Clone, Copy)]
struct State {
    included: DispatchKeySet,
    excluded: DispatchKeySet,
    grad_mode: bool,
    fw_grad_mode: bool,
    multithreading: bool,
    view_replay: bool,
    inference: bool,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State {
        included: DispatchKeySet::DEFAULT_INCLUDED,
        excluded: DispatchKeySet::AUTOCAST,
        grad_mode: true,
        fw_grad_mode: true,
        multithreading: true,
        view_replay: false,
        inference: false,
    }) };
}

fn update(f: impl FnOnce(&mut State)) {
    STATE.with(|s| {
        let mut v = s.get();
        f(&mut v);
        s.set(v);
    })
}

/// The keys that every call includes in this thread.
pub fn included() -> DispatchKeySet {
    STATE.with(|s| s.get().included)
}
/// The keys that every call leaves out in this thread.
pub fn excluded() -> DispatchKeySet {
    STATE.with(|s| s.get().excluded)
}
/// `(ks | included) - excluded`, read in one access.
#[inline]
pub fn apply(ks: DispatchKeySet) -> DispatchKeySet {
    STATE.with(|s| {
        let v = s.get();
        (ks | v.included).minus(v.excluded)
    })
}
/// Whether every call runs on the meta device in this thread.
#[inline]
pub fn meta_included() -> bool {
    STATE.with(|s| s.get().included.0 & (1 << DispatchKey::backend_of(crate::DeviceType::Meta)) != 0)
}
pub fn set_included(ks: DispatchKeySet) {
    update(|s| s.included = ks)
}
pub fn set_excluded(ks: DispatchKeySet) {
    update(|s| s.excluded = ks)
}
/// Whether a key's functionality is included (or excluded) in this thread.
pub fn is_included(k: DispatchKey) -> bool {
    included().has_functionality(k.parts().0)
}
pub fn is_excluded(k: DispatchKey) -> bool {
    excluded().has_functionality(k.parts().0)
}
pub fn set_key_included(k: DispatchKey, on: bool) {
    let bits = DispatchKeySet::bits(&[k.parts().0]);
    update(|s| s.included = if on { s.included | bits } else { s.included.minus(bits) })
}
pub fn set_key_excluded(k: DispatchKey, on: bool) {
    let bits = DispatchKeySet::bits(&[k.parts().0]);
    update(|s| s.excluded = if on { s.excluded | bits } else { s.excluded.minus(bits) })
}

macro_rules! flag {
    ($($get:ident, $set:ident, $field:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub fn $get() -> bool { STATE.with(|s| s.get().$field) }
        #[doc = concat!("Sets what `", stringify!($get), "` answers.")]
        pub fn $set(on: bool) { update(|s| s.$field = on) }
    )*};
}
flag! {
    grad_mode, set_grad_mode, grad_mode, "Whether operations record a graph.";
    fw_grad_mode, set_fw_grad_mode, fw_grad_mode, "Whether forward-mode derivatives are computed.";
    multithreading, set_multithreading, multithreading, "Whether backward may use threads.";
    view_replay, set_view_replay, view_replay, "Whether views are replayed rather than restrided.";
    inference_mode, set_inference_flag, inference, "Whether new tensors are inference tensors.";
}

/// Enters or leaves inference mode: grad mode, forward grad mode and the view tracking key follow it.
pub fn set_inference_mode(on: bool) {
    update(|s| {
        s.inference = on;
        s.grad_mode = !on;
        s.fw_grad_mode = !on;
        let view = DispatchKeySet::INPLACE_OR_VIEW;
        let auto = DispatchKeySet::AUTOGRAD;
        if on {
            s.included = s.included.minus(view);
            s.excluded = s.excluded | auto;
        } else {
            s.included = s.included | view;
            s.excluded = s.excluded.minus(auto);
        }
    })
}

/// Restores the whole thread-local state when dropped.
pub struct StateGuard(State);

impl StateGuard {
    pub fn new() -> Self {
        StateGuard(STATE.with(|s| s.get()))
    }
    /// Saves the state, then excludes a set of keys.
    pub fn exclude(ks: DispatchKeySet) -> Self {
        let g = Self::new();
        update(|s| s.excluded = s.excluded | ks);
        g
    }
    /// Saves the state, then turns grad mode off.
    pub fn no_grad() -> Self {
        let g = Self::new();
        update(|s| s.grad_mode = false);
        g
    }
}
/// The whole thread-local state, to be put back later.
#[derive(Clone, Copy)]
pub struct Snapshot(State);

impl Snapshot {
    pub fn now() -> Self {
        Snapshot(STATE.with(|s| s.get()))
    }
    pub fn restore(self) {
        STATE.with(|s| s.set(self.0));
    }
}

impl Default for StateGuard {
    fn default() -> Self {
        Self::new()
    }
}
impl Drop for StateGuard {
    fn drop(&mut self) {
        STATE.with(|s| s.set(self.0))
    }
}
