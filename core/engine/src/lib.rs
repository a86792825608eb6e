//! Tensors, dispatch, operators and CPU kernels with PyTorch's semantics.
