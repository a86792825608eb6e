//! `__torch_dispatch__`: the stack of modes, and the kernel that calls overrides below autograd.

mod class;
mod functions;
mod kernel;
mod metadata;
mod stack;
mod subclass;

pub use class::overrides;
pub use functions::init;
pub use kernel::{entry, overload};
pub use stack::enabled as mode_enabled;
pub use subclass::init as init_tensors;

use crate::error::IntoPy;
use pyo3::prelude::*;
use torchnative_engine::dispatch::{DispatchKey, DispatchKeySet, tls};
use torchnative_engine::{Tensor, op};

/// Whether reading the tensor's numbers has to go through the dispatcher, because a mode or its class may answer.
pub fn concerns(tensor: &Tensor) -> bool {
    (tensor.key_set().has_functionality(DispatchKey::Python) || tls::is_included(DispatchKey::Python))
        && !tls::is_excluded(DispatchKey::Python)
}

/// Makes a tensor out of sight of modes and classes, and shows them the finished one (`lift_fresh`).
///
/// # Errors
/// What making it raises, or a mode.
pub fn fresh(make: impl FnOnce() -> PyResult<Tensor>) -> PyResult<Tensor> {
    if !tls::is_included(DispatchKey::Python) || tls::is_excluded(DispatchKey::Python) {
        return make();
    }
    let made = {
        let _out_of_sight = tls::StateGuard::exclude(DispatchKeySet::PYTHON);
        make()?
    };
    op::lift_fresh.call((made,)).into_py()
}

/// Whether tensors are only pretended here: a `FakeTensorMode` is on.
pub fn pretending(py: Python<'_>) -> bool {
    stack::get(py, 0).is_some()
}
