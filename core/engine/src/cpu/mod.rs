//! CPU kernels, and how they use threads.

pub mod parallel;
