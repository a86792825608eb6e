//! CPU kernels, and how they use threads.

pub(crate) mod attention;
pub(crate) mod complex;
pub(crate) mod conv;
pub(crate) mod dense;
pub(crate) mod fft;
pub(crate) mod gamma;
pub(crate) mod gather;
pub(crate) mod gemm;
pub(crate) mod grid;
pub(crate) mod integer;
pub(crate) mod keys;
pub(crate) mod linalg;
pub(crate) mod lines;
pub(crate) mod loss;
pub(crate) mod order;
pub mod parallel;
pub(crate) mod polynomials;
pub(crate) mod pool;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod special;
