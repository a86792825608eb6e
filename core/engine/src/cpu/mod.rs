//! CPU kernels, and how they use threads.

pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod gemm;
pub(crate) mod lines;
pub(crate) mod order;
pub mod parallel;
pub(crate) mod rows;
pub(crate) mod scan;
