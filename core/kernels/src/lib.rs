//! CPU inner loops of torchnative.
//!
//! Everything here works on raw pointers, sizes and strides (counted in elements, signed) or on slices, and knows
//! nothing of tensors. It is a crate of its own so that the development profile can compile it at full
//! optimisation while the engine stays quick to build.
//!
//! * [`gemm`]: matrix products of every element type, from one row to large blocked products.
//! * [`attention`](mod@attention): scaled dot-product attention that never holds the scores.
//! * [`conv`]: the gathering that makes convolution a matrix product, and depthwise convolution.
//! * [`vmath`], [`pointwise`]: elementary functions and contiguous loops over them; conversions.
//! * [`rows`], [`reduce`], [`channels`]: softmax, normalisation and sums.
//! * [`rows`], [`reduce`]: softmax, normalisation and sums.
//! * [`resample`](mod@resample): interpolation along a dimension.
//! * [`transpose`](mod@transpose): copies between row and column order.
//! * [`threads`]: the thread pool behind `torch.set_num_threads`.
//! * [`isa`]: one vector interface over AVX-512, AVX2, NEON, WebAssembly SIMD and portable arrays; kernels are
//!   written once against it and selected at run time.

pub mod attention;
pub mod channels;
mod chunk;
pub mod conv;
pub mod elem;
pub mod gemm;
pub mod isa;
pub mod pointwise;
pub mod reduce;
pub mod resample;
pub mod rows;
pub mod scratch;
#[cfg(test)]
mod tests;
pub mod threads;
pub mod transpose;
pub mod vmath;

pub use half::{bf16, f16};
pub use threads::{get_num_threads, set_num_threads};
