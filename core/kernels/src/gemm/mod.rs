//! Matrix products `C = alpha * A @ B + beta * C` with arbitrary strides.
//!
//! [`gemm`] chooses between three ways to the same result:
//!
//! * one to twelve rows against a matrix stored along `k`, such as the weights of a linear layer at decoding, are
//!   dot products of rows, read once and never copied (`skinny::dot`);
//! * up to eight rows against a matrix stored along `n` are sums of scaled rows (`skinny::axpy`);
//! * everything else is packed into panels and multiplied in register tiles (`blocked`).
//!
//! Half precision operands are widened while they are packed or loaded, accumulate in `f32`, and are rounded once when
//! `C` is stored. The order of the additions that make one element of `C` never depends on the number of threads.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub(crate) mod blocked;
mod complex;
mod integer;
pub(crate) mod micro;
pub(crate) mod pack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod pairs;
pub(crate) mod skinny;
#[cfg(test)]
mod tests;

use crate::elem::{Elem, Float};
use crate::threads::{get_num_threads, parallel_for};

pub use complex::gemm_complex;
pub use integer::{Integer, gemm_integer};

/// A matrix in memory: element `(i, j)` is `i * rs + j * cs` elements after `ptr`.
#[derive(Clone, Copy, Debug)]
pub struct Mat<T> {
    pub ptr: *const T,
    pub rs: isize,
    pub cs: isize,
}

/// A matrix in memory that is written.
#[derive(Clone, Copy, Debug)]
pub struct MatMut<T> {
    pub ptr: *mut T,
    pub rs: isize,
    pub cs: isize,
}

// SAFETY: these are addresses; what is done with them is up to the unsafe functions that take them.
unsafe impl<T> Send for Mat<T> {}
unsafe impl<T> Sync for Mat<T> {}
unsafe impl<T> Send for MatMut<T> {}
unsafe impl<T> Sync for MatMut<T> {}

impl<T> Mat<T> {
    pub fn new(ptr: *const T, rs: isize, cs: isize) -> Self {
        Mat { ptr, rs, cs }
    }
    /// The address of element `(i, j)`.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize, j: usize) -> *const T {
        self.ptr.wrapping_offset(i as isize * self.rs + j as isize * self.cs)
    }
    /// The transposed matrix.
    #[inline(always)]
    pub fn t(self) -> Self {
        Mat { ptr: self.ptr, rs: self.cs, cs: self.rs }
    }
    /// The matrix that starts `n` elements further on.
    #[inline(always)]
    pub(crate) fn shift(self, n: isize) -> Self {
        Mat { ptr: self.ptr.wrapping_offset(n), ..self }
    }
    /// The matrix that starts at element `(i, j)`.
    #[inline(always)]
    pub(crate) fn from(self, i: usize, j: usize) -> Self {
        Mat { ptr: self.at(i, j), ..self }
    }
}

/// Whether two types are one.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is<A: 'static, B: 'static>() -> bool {
    std::any::TypeId::of::<A>() == std::any::TypeId::of::<B>()
}

impl<T> MatMut<T> {
    /// The same matrix, seen as one of another type of the same size.
    #[cfg(target_arch = "x86_64")]
    fn cast<U>(self) -> MatMut<U> {
        MatMut { ptr: self.ptr.cast(), rs: self.rs, cs: self.cs }
    }
    pub fn new(ptr: *mut T, rs: isize, cs: isize) -> Self {
        MatMut { ptr, rs, cs }
    }
    /// The address of element `(i, j)`.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize, j: usize) -> *mut T {
        self.ptr.wrapping_offset(i as isize * self.rs + j as isize * self.cs)
    }
    /// The transposed matrix.
    #[inline(always)]
    pub fn t(self) -> Self {
        MatMut { ptr: self.ptr, rs: self.cs, cs: self.rs }
    }
    /// The matrix that starts `n` elements further on.
    #[inline(always)]
    pub(crate) fn shift(self, n: isize) -> Self {
        MatMut { ptr: self.ptr.wrapping_offset(n), ..self }
    }
    /// The matrix that starts at element `(i, j)`.
    #[inline(always)]
    pub(crate) fn from(self, i: usize, j: usize) -> Self {
        MatMut { ptr: self.at(i, j), ..self }
    }
}

/// Products with fewer multiplications than this run on the calling thread (some ten microseconds of work).
pub(crate) const PARALLEL_MIN: usize = 1 << 18;

/// `c = alpha * a @ b + beta * c` for `a` of `m` × `k`, `b` of `k` × `n` and `c` of `m` × `n`.
///
/// With `beta` zero `c` is not read, so it may be uninitialised or hold NaN. Strides may be zero, negative or overlapping
/// for `a` and `b`.
///
/// # Safety
/// Every element addressed through `a` and `b` must be readable, every element of `c` writable, distinct and apart from
/// `a` and `b`.
pub unsafe fn gemm<E: Elem>(
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<E>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<E>,
) {
    // SAFETY: the caller's contract.
    unsafe { gemm_into::<E, E>(m, n, k, alpha, a, b, beta, c) }
}

/// [`gemm`] with a result of another type that shares the accumulator, such as `f32` from `bf16` operands.
///
/// # Safety
/// As for [`gemm`].
pub unsafe fn gemm_into<E: Elem, O: Elem<Acc = E::Acc>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<E>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
) {
    if m == 0 || n == 0 {
        return;
    }
    // SAFETY: the caller's contract, and transposing both sides of the equation keeps it.
    unsafe {
        if k == 0 {
            return scale(m, n, beta, c);
        }
        let few = m.min(n);
        let swap = if few <= skinny::MAX_ROWS && m != n { n < m } else { c.rs == 1 && c.cs != 1 };
        if swap {
            product(n, m, k, alpha, b.t(), a.t(), beta, c.t());
        } else {
            product(m, n, k, alpha, a, b, beta, c);
        }
    }
}

unsafe fn product<E: Elem, O: Elem<Acc = E::Acc>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<E>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
) {
    #[cfg(target_arch = "x86_64")]
    if is::<E, half::bf16>() && k >= 8 && pairs::available() {
        let few = m <= skinny::MAX_ROWS && b.rs == 1;
        let (x, y) = (Mat::new(a.ptr.cast(), a.rs, a.cs), Mat::new(b.ptr.cast(), b.rs, b.cs));
        // The accumulator of bfloat16 is f32: this changes no value.
        let (scale, keep) = (alpha.to_f64() as f32, beta.to_f64() as f32);
        // SAFETY: the caller's contract; the types are what the casts say.
        unsafe {
            if few && is::<O, half::bf16>() {
                return pairs::dot(m, n, k, scale, x, y, keep, c.cast::<half::bf16>());
            } else if few && is::<O, f32>() {
                return pairs::dot(m, n, k, scale, x, y, keep, c.cast::<f32>());
            } else if (m <= skinny::MAX_AXPY_ROWS && b.cs == 1) || m < 4 {
                // Reading the matrix once beats packing it.
            } else if is::<O, half::bf16>() {
                return pairs::gemm(m, n, k, scale, x, y, keep, c.cast::<half::bf16>());
            } else if is::<O, f32>() {
                return pairs::gemm(m, n, k, scale, x, y, keep, c.cast::<f32>());
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe {
        if m <= skinny::MAX_ROWS && (b.rs == 1 || k == 1) && k >= 4 {
            skinny::dot::<E, E, O>(m, n, k, alpha, a, b, beta, c);
        } else if m <= skinny::MAX_AXPY_ROWS && b.cs == 1 {
            skinny::axpy::<E, E, O>(m, n, k, alpha, a, b, beta, c);
        } else {
            blocked::gemm(m, n, k, alpha, a, b, beta, c);
        }
    }
}

/// `batch` products of one shape. `offsets(i)` gives how many elements product `i` lies after `a`, `b` and `c`.
///
/// # Safety
/// As for [`gemm`], for each product; the results must not overlap one another.
pub unsafe fn gemm_batched<E: Elem>(
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<E>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<E>,
    offsets: impl Fn(usize) -> (isize, isize, isize) + Sync,
) {
    let one = |i: usize| {
        let (oa, ob, oc) = offsets(i);
        let (a, b, c) = (a.shift(oa), b.shift(ob), c.shift(oc));
        // SAFETY: the caller's contract.
        unsafe { gemm(m, n, k, alpha, a, b, beta, c) }
    };
    let work = m.saturating_mul(n).saturating_mul(k);
    if batch >= 2 * get_num_threads() && work.saturating_mul(batch) >= PARALLEL_MIN {
        // Enough products to keep every thread busy with whole ones. Small ones are claimed in groups.
        let group = (PARALLEL_MIN / work.max(1)).clamp(1, batch.div_ceil(2 * get_num_threads()));
        parallel_for(batch.div_ceil(group), |g| {
            (g * group..((g + 1) * group).min(batch)).for_each(one);
        });
    } else {
        (0..batch).for_each(one);
    }
}

/// `c = beta * c`, without reading `c` where `beta` is zero.
unsafe fn scale<O: Elem>(m: usize, n: usize, beta: O::Acc, c: MatMut<O>) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: the caller's contract.
            unsafe {
                let p = c.at(i, j);
                let x = if beta == O::Acc::ZERO { O::Acc::ZERO } else { beta * (*p).widen() };
                *p = O::narrow(x);
            }
        }
    }
}
