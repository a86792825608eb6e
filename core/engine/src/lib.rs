//! Tensors, dispatch, operators and CPU kernels with PyTorch's semantics.

pub mod generated;
pub mod schema;
