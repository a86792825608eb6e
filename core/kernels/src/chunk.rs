//! A fixed number of values at a time: loops over arrays of known length become straight vector code, and the last,
//! shorter chunk is padded instead of handled apart.

use crate::elem::{Elem, Float};
use crate::isa::{Isa, Vector};

/// Loads `count` ≤ `N` values, widened; the rest of the array is `fill`. `N` is a multiple of every register's length.
///
/// # Safety
/// `p` must be readable for `count` values.
#[inline(always)]
pub unsafe fn load<I: Isa, E: Elem, const N: usize>(p: *const E, count: usize, fill: E::Acc) -> [E::Acc; N] {
    let lanes = <E::Acc as Float>::Vec::<I>::LANES;
    let mut x = [fill; N];
    // SAFETY: the caller's contract.
    unsafe {
        if count >= N {
            for i in (0..N).step_by(lanes) {
                E::load::<I>(p.add(i)).store(x.as_mut_ptr().add(i));
            }
        } else {
            for i in 0..count {
                x[i] = (*p.add(i)).widen();
            }
        }
    }
    x
}

/// Stores the first `count` ≤ `N` values, rounded.
///
/// # Safety
/// `p` must be writable for `count` values.
#[inline(always)]
pub unsafe fn store<I: Isa, E: Elem, const N: usize>(p: *mut E, count: usize, x: &[E::Acc; N]) {
    let lanes = <E::Acc as Float>::Vec::<I>::LANES;
    // SAFETY: the caller's contract.
    unsafe {
        if count >= N {
            for i in (0..N).step_by(lanes) {
                E::store::<I>(p.add(i), <E::Acc as Float>::Vec::<I>::load(x.as_ptr().add(i)));
            }
        } else {
            for i in 0..count {
                *p.add(i) = E::narrow(x[i]);
            }
        }
    }
}

/// The sum of an array, by halves.
#[inline(always)]
pub fn total<F: Float, const N: usize>(mut x: [F; N]) -> F {
    let mut n = N;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            x[i] += x[i + n];
        }
    }
    x[0]
}

/// The largest value of an array; NaN only if it comes first.
#[inline(always)]
pub fn largest<F: Float, const N: usize>(mut x: [F; N]) -> F {
    let mut n = N;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            x[i] = if x[i + n] > x[i] { x[i + n] } else { x[i] };
        }
    }
    x[0]
}
