//! CPU kernels, and how they use threads.

pub(crate) mod attention;
pub(crate) mod gemm;
pub mod parallel;
pub(crate) mod rows;
