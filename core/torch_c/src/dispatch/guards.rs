//! Guards of the thread's dispatch state: context managers that change it and put it back.

use super::keys::{PyDispatchKeySet, key_from_py};
use crate::torch_dispatch;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use torchnative_engine::dispatch::{DispatchKey, DispatchKeySet, tls};

/// The include and exclude sets, and the inference flag with what follows from it.
#[derive(Clone, Copy)]
struct Saved {
    included: DispatchKeySet,
    excluded: DispatchKeySet,
    grad: bool,
    forward_grad: bool,
    inference: bool,
}

impl Saved {
    fn now() -> Saved {
        Saved {
            included: tls::included(),
            excluded: tls::excluded(),
            grad: tls::grad_mode(),
            forward_grad: tls::fw_grad_mode(),
            inference: tls::inference_mode(),
        }
    }

    fn restore(self) {
        tls::set_inference_flag(self.inference);
        tls::set_grad_mode(self.grad);
        tls::set_fw_grad_mode(self.forward_grad);
        tls::set_included(self.included);
        tls::set_excluded(self.excluded);
    }
}

/// What a guard does to the state.
enum Change {
    Exclude(DispatchKeySet),
    Include(DispatchKeySet),
    Unexclude(DispatchKeySet),
    Uninclude(DispatchKeySet),
    Force(DispatchKeySet, DispatchKeySet),
    Inference(bool),
    Nothing,
}

/// How to take a change back. Guards need not end in the order in which they began, so one that adds or removes keys
/// takes back those keys alone.
#[derive(Clone, Copy)]
enum Undo {
    All(Saved),
    Unexclude(u64),
    Uninclude(u64),
    Exclude(u64),
    Include(u64),
}

fn add_excluded(keys: u64) {
    tls::set_excluded(tls::excluded() | DispatchKeySet(keys));
}
fn remove_excluded(keys: u64) {
    tls::set_excluded(DispatchKeySet(tls::excluded().0 & !keys));
}
fn add_included(keys: u64) {
    tls::set_included(tls::included() | DispatchKeySet(keys));
}
fn remove_included(keys: u64) {
    tls::set_included(DispatchKeySet(tls::included().0 & !keys));
}

impl Change {
    fn apply(&self) -> Undo {
        let saved = Saved::now();
        match *self {
            Change::Exclude(keys) => {
                let new = keys.0 & !saved.excluded.0;
                add_excluded(new);
                return Undo::Unexclude(new);
            }
            Change::Include(keys) => {
                let new = keys.0 & !saved.included.0;
                add_included(new);
                return Undo::Uninclude(new);
            }
            Change::Unexclude(keys) => {
                let there = keys.0 & saved.excluded.0;
                remove_excluded(there);
                return Undo::Exclude(there);
            }
            Change::Uninclude(keys) => {
                let there = keys.0 & saved.included.0;
                remove_included(there);
                return Undo::Include(there);
            }
            Change::Force(included, excluded) => {
                tls::set_included(included);
                tls::set_excluded(excluded);
            }
            Change::Inference(on) => {
                if on != tls::inference_mode() {
                    tls::set_inference_mode(on);
                }
            }
            Change::Nothing => {}
        }
        Undo::All(saved)
    }
}

impl Undo {
    fn run(self) {
        match self {
            Undo::All(saved) => saved.restore(),
            Undo::Unexclude(keys) => remove_excluded(keys),
            Undo::Uninclude(keys) => remove_included(keys),
            Undo::Exclude(keys) => add_excluded(keys),
            Undo::Include(keys) => add_included(keys),
        }
    }
}

/// A guard; the base of the classes of all guards.
#[pyclass(name = "_DispatchGuard", module = "torch._C", subclass)]
pub struct Guard {
    change: Change,
    undo: Option<Undo>,
}

impl Guard {
    /// A guard that takes effect when it is entered.
    fn lazy(change: Change) -> Guard {
        Guard { change, undo: None }
    }

    /// A guard that takes effect at once, and ends when it is left or dies.
    fn eager(change: Change) -> Guard {
        let undo = Some(change.apply());
        Guard { change, undo }
    }

    fn leave(&mut self) {
        if let Some(undo) = self.undo.take() {
            undo.run();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.leave();
    }
}

#[pymethods]
impl Guard {
    fn __enter__(&mut self) {
        if self.undo.is_none() {
            self.undo = Some(self.change.apply());
        }
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&mut self, _args: &Bound<'_, PyTuple>) {
        self.leave();
    }
}

macro_rules! guards {
    ($($class:ident = $name:literal, ($($arg:ident: $ty:ty),*), $kind:ident, $change:expr;)*) => {
        $(
            #[doc = concat!("`torch._C.", $name, "`.")]
            #[pyclass(name = $name, module = "torch._C", extends = Guard)]
            pub struct $class;

            #[pymethods]
            impl $class {
                #[new]
                fn new($($arg: $ty),*) -> PyResult<PyClassInitializer<Self>> {
                    Ok(PyClassInitializer::from(Guard::$kind($change)).add_subclass($class))
                }
            }
        )*

        pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_class::<$class>()?;)*
            Ok(())
        }
    };
}

const AUTOGRAD: DispatchKeySet = DispatchKeySet::AUTOGRAD;
const VIEWS: DispatchKeySet = DispatchKeySet::INPLACE_OR_VIEW;
const PYTHON: DispatchKeySet =
    DispatchKeySet::bits(&[DispatchKey::Python, DispatchKey::PythonTLSSnapshot, DispatchKey::PreDispatch]);
const DISPATCHER: DispatchKeySet = DispatchKeySet::bits(&[DispatchKey::PythonDispatcher]);
const PRE_DISPATCH: DispatchKeySet = DispatchKeySet::bits(&[DispatchKey::PreDispatch]);
const FUNCTORCH: DispatchKeySet = DispatchKeySet::bits(&[
    DispatchKey::FuncTorchDynamicLayerFrontMode,
    DispatchKey::FuncTorchDynamicLayerBackMode,
]);

type Keys<'a, 'py> = &'a Bound<'py, PyDispatchKeySet>;
type Key<'a, 'py> = &'a Bound<'py, PyAny>;

fn functionality(key: Key<'_, '_>) -> PyResult<DispatchKeySet> {
    Ok(DispatchKeySet::bits(&[key_from_py(key)?.parts().0]))
}

guards! {
    ExcludeDispatchKeyGuardPublic = "ExcludeDispatchKeyGuard", (keys: Keys<'_, '_>), eager, Change::Exclude(keys.get().set);
    ExcludeDispatchKeyGuard = "_ExcludeDispatchKeyGuard", (keys: Keys<'_, '_>), lazy, Change::Exclude(keys.get().set);
    IncludeDispatchKeyGuard = "_IncludeDispatchKeyGuard", (key: Key<'_, '_>), lazy,
        Change::Include(DispatchKeySet::of(key_from_py(key)?));
    ForceDispatchKeyGuard = "_ForceDispatchKeyGuard", (included: Keys<'_, '_>, excluded: Keys<'_, '_>), lazy,
        Change::Force(included.get().set, excluded.get().set);
    SetExcludeDispatchKeyGuard = "_SetExcludeDispatchKeyGuard", (key: Key<'_, '_>, on: bool), lazy,
        if on { Change::Exclude(functionality(key)?) } else { Change::Unexclude(functionality(key)?) };
    PreserveDispatchKeyGuard = "_PreserveDispatchKeyGuard", (), lazy, Change::Nothing;
    AutoDispatchBelowAutograd = "_AutoDispatchBelowAutograd", (), eager, Change::Exclude(AUTOGRAD);
    AutoDispatchBelowADInplaceOrView = "_AutoDispatchBelowADInplaceOrView", (), lazy, Change::Exclude(AUTOGRAD | VIEWS);
    DisableFuncTorch = "_DisableFuncTorch", (), eager, Change::Exclude(FUNCTORCH);
    DisableTorchDispatch = "_DisableTorchDispatch", (), eager, Change::Exclude(PYTHON);
    DisableAutocast = "_DisableAutocast", (), eager, Change::Exclude(DispatchKeySet::AUTOCAST);
    EnablePythonDispatcher = "_EnablePythonDispatcher", (), eager, Change::Include(DISPATCHER);
    DisablePythonDispatcher = "_DisablePythonDispatcher", (), eager, Change::Uninclude(DISPATCHER);
    EnablePreDispatch = "_EnablePreDispatch", (), lazy, Change::Include(PRE_DISPATCH);
    RestorePythonTLSSnapshot = "_RestorePythonTLSSnapshot", (), eager, {
        let entry = torch_dispatch::entry()?;
        Change::Force(entry.included, entry.excluded)
    };
    InferenceMode = "_InferenceMode", (enabled: bool), lazy, Change::Inference(enabled);
}
