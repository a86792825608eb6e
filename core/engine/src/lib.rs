//! Tensors, dispatch, operators and CPU kernels with PyTorch's semantics.

pub mod autograd;
pub mod cpu;
pub mod device;
pub mod dispatch;
pub mod dtype;
pub mod error;
pub mod generated;
mod generator;
pub mod iter;
pub mod ivalue;
pub mod ops;
pub mod random;
pub mod scalar;
pub mod schema;
pub mod settings;
pub mod storage;
pub mod tensor;
pub mod warn;

pub use device::{Device, DeviceType, Layout, MemoryFormat};
pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Result};
pub use generator::Generator;
pub use half;
pub use ivalue::{Args, IValue, IntList, Stack};
pub use num_complex::Complex;
pub use scalar::Scalar;
pub use schema::OpId;
pub use storage::Storage;
pub use tensor::Tensor;

/// Operator ids, one constant for each overload: `op::add_Tensor`.
pub use generated::op_ids as op;
