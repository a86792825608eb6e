//! Random number generation with upstream's exact CPU streams.
//!
//! Everything here works on plain slices and scalars: no tensor, no dispatcher. The operators in `ops/random.rs`
//! walk tensors and call into this module.
//!
//! * [`mt19937`] and [`philox`] are the engines, [`generator`] the state around them (seeding, the byte layout of
//!   `torch.get_rng_state()`, the cached second normal sample); [`crate::Generator`] is the shared handle.
//! * [`distributions`] turns engine output into samples. [`normal`] holds the Box–Muller block transform,
//!   [`permutation`] the shuffle, [`multinomial`] the cumulative search.
//! * [`libm`] evaluates `log`, `log1p`, `sincos`, `exp` and `tan` with a fixed sequence of operations and [`fma`]
//!   an exact fused multiply-add, because the streams must have the same bits on every target and no two C
//!   libraries round these alike.
//!
//! Bit-identity is defined against upstream's x86-64 build running its AVX2 kernels, which is what upstream's wheels
//! run on every x86-64 machine of the last decade (its AVX-512 builds of these kernels are disabled for `normal_`
//! and draw the same integers elsewhere).

pub mod distributions;
pub mod element;
pub mod fma;
pub mod generator;
pub mod libm;
pub mod mt19937;
pub mod multinomial;
pub mod normal;
pub mod permutation;
pub mod philox;

pub use distributions::{
    Bernoulli, Cauchy, Exponential, Geometric, LogNormal, Normal, Random, RandomFromTo, RandomFull64, Sample,
    Uniform, uniform01_f64,
};
pub use element::{Float, RandomElement};
pub use generator::{CpuGenerator, DEFAULT_SEED, GeneratorState, PhiloxGenerator};
pub use mt19937::Mt19937;
pub use philox::Philox4x32;
