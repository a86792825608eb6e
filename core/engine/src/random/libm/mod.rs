//! Elementary functions in double precision with one set of bits on every target.
//!
//! Upstream's samplers call the C library, so their last bits are that library's. On upstream's reference platform
//! (x86-64 Linux) it is glibc with FMA, and each function here evaluates the method glibc documents (table lookup
//! and short polynomial, with those coefficients) rounding where glibc rounds: agreement is bit for bit except for
//! [`tan`], see there. musl (Emscripten's), Apple's and Microsoft's libraries round differently, which is why
//! Rust's `f64::ln` and friends are not used for random streams.
//!
//! Everything is `#[inline(always)]`, so code reached through [`super::fma::dispatch`] gets hardware FMA.

mod exp;
mod log;
mod tables;
mod trig;

pub use exp::exp;
pub use log::{log, log1p};
pub use trig::{sin_cos, tan};

/// The sign of a fused product-minus-sum is spelt as glibc's code has it: `c - a * b`.
#[inline(always)]
fn minus_product(a: f64, b: f64, c: f64) -> f64 {
    (-a).mul_add(b, c)
}

#[inline(always)]
fn high_word(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}
