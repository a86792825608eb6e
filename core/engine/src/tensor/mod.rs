//! `Tensor`: a counted handle of a strided view on a storage.

pub mod factory;
mod impl_;
pub mod memory;
pub mod shape;

pub use impl_::{HostPolicy, PyObjectHooks, Tensor, TensorImpl, pyobject_hooks, set_pyobject_hooks};
