//! Reductions of dense floating tensors over leading or trailing dimensions: the vector kernels' part of what
//! `cpu::rows` does in general.

use crate::cpu::parallel;
use crate::cpu::rows::Out;
use crate::dtype::Element;
use crate::{DType, Result, Tensor, dispatch};
use torchnative_kernels::elem::{Elem, Float};
use torchnative_kernels::reduce;

/// A row-major tensor as `outer` × `n` × `inner`, the middle being reduced.
struct Shape {
    outer: usize,
    n: usize,
    inner: usize,
}

/// How a reduction over the dimensions in `mask` looks in memory, when it is that simple.
fn shape(t: &Tensor, mask: u64) -> Option<Shape> {
    if t.is_neg() || t.is_conj() || t.numel() == 0 {
        return None;
    }
    let all = (0..t.dim()).all(|d| mask & (1 << d) != 0 || t.sizes()[d] == 1);
    if all && t.is_non_overlapping_and_dense() {
        // All of it, in whatever order it lies.
        return Some(Shape { outer: 1, n: t.numel() as usize, inner: 1 });
    }
    if !t.is_contiguous() {
        return None;
    }
    let mut s = Shape { outer: 1, n: 1, inner: 1 };
    for (d, &size) in t.sizes().iter().enumerate() {
        if size == 1 {
            continue;
        }
        let size = size as usize;
        if mask & (1 << d) != 0 {
            if s.inner != 1 {
                return None;
            }
            s.n *= size;
        } else if s.n == 1 {
            s.outer *= size;
        } else {
            s.inner *= size;
        }
    }
    Some(s)
}

/// Sums (or, `mean`, averages) over the dimensions in `mask`; says whether it did.
///
/// # Errors
/// None; the signature is that of its callers.
pub(crate) fn sum(t: &Tensor, mask: u64, mean: bool, out: &Tensor) -> Result<bool> {
    if !matches!(t.dtype(), DType::Float | DType::Double | DType::BFloat16 | DType::Half) {
        return Ok(false);
    }
    let Some(s) = shape(t, mask) else { return Ok(false) };
    dispatch!("sum_cpu", t.dtype(), floating, T => sum_typed::<T>(t, &s, mean, out));
    Ok(true)
}

fn sum_typed<T: Elem + Element>(t: &Tensor, s: &Shape, mean: bool, out: &Tensor) {
    let x = t.data_ptr() as *const T;
    let one = <T as Elem>::Acc::ONE;
    let count = <T as Elem>::Acc::from_f64(s.n as f64);
    let o = Out::<T>::of(out);
    let rows = s.outer * s.inner;
    let put = |i: usize, v: <T as Elem>::Acc| {
        // SAFETY: one write to each result.
        unsafe { o.set(i, T::narrow(if mean { v / count } else { v })) }
    };
    if rows == 1 {
        // SAFETY: `n` elements of T.
        put(0, unsafe { reduce::sum(s.n, x) });
        return;
    }
    if T::IS_ACC && !mean {
        let y = out.data_ptr() as *mut T;
        // SAFETY: dense tensors of T with `outer * n * inner` and `outer * inner` elements.
        unsafe {
            if s.inner == 1 {
                reduce::sum_rows::<T, T>(s.outer, s.n, x, s.n, one, y);
            } else {
                for k in 0..s.outer {
                    let (x, y) = (x.add(k * s.n * s.inner), y.add(k * s.inner));
                    reduce::sum_columns::<T, T>(s.n, s.inner, x, s.inner, one, y);
                }
            }
        }
        return;
    }
    let mut wide = vec![<T as Elem>::Acc::ZERO; rows];
    let y = wide.as_mut_ptr();
    // SAFETY: as above; the results go to a buffer of accumulators.
    unsafe {
        if s.inner == 1 {
            reduce::sum_rows::<T, <T as Elem>::Acc>(s.outer, s.n, x, s.n, one, y);
        } else {
            for k in 0..s.outer {
                let (x, y) = (x.add(k * s.n * s.inner), y.add(k * s.inner));
                reduce::sum_columns::<T, <T as Elem>::Acc>(s.n, s.inner, x, s.inner, one, y);
            }
        }
    }
    wide.into_iter().enumerate().for_each(|(i, v)| put(i, v));
}

/// Square roots of sums of squares over trailing dimensions in `mask`; says whether it took them.
///
/// # Errors
/// None; the signature is that of its callers.
pub(crate) fn euclidean(t: &Tensor, mask: u64, out: &Tensor) -> Result<bool> {
    if t.dtype() != out.dtype()
        || !matches!(t.dtype(), DType::Float | DType::Double | DType::BFloat16 | DType::Half)
    {
        return Ok(false);
    }
    let Some(s) = shape(t, mask) else { return Ok(false) };
    if s.inner != 1 {
        return Ok(false);
    }
    dispatch!("norm_cpu", t.dtype(), floating, T => {
        let (x, o) = (Out::<T>::of_dense(t), Out::<T>::of(out));
        let one = |i: usize| {
            // SAFETY: run `i` lies inside the tensor; one write to each result.
            unsafe {
                let sum = reduce::sum_squares(s.n, x.pointer().add(i * s.n));
                o.set(i, T::narrow(<T as Elem>::Acc::from_f64(sum.to_f64().sqrt())));
            }
        };
        if s.outer == 1 {
            one(0);
        } else {
            parallel::for_range(0, s.outer, 16384usize.div_ceil(s.n), |b, e| (b..e).for_each(&one));
        }
    });
    Ok(true)
}

/// What is wanted of the extreme elements.
#[derive(Clone, Copy)]
pub(crate) enum Want<'a> {
    Value(&'a Tensor),
    Place(&'a Tensor),
    Both(&'a Tensor, &'a Tensor),
}

/// The greatest (or least) elements over trailing dimensions in `mask`; says whether it did.
///
/// # Errors
/// None; the signature is that of its callers.
pub(crate) fn extreme(t: &Tensor, mask: u64, least: bool, want: Want<'_>) -> Result<bool> {
    if !matches!(t.dtype(), DType::Float | DType::Double | DType::BFloat16 | DType::Half) {
        return Ok(false);
    }
    let Some(s) = shape(t, mask) else { return Ok(false) };
    if s.inner != 1
        && let Want::Value(v) = want
    {
        dispatch!("max_cpu", t.dtype(), floating, T => {
            for k in 0..s.outer {
                // SAFETY: dense tensors of T with `outer * n * inner` and `outer * inner` elements.
                unsafe {
                    let x = Out::<T>::of(t).pointer().add(k * s.n * s.inner);
                    let y = (v.data_ptr() as *mut T).add(k * s.inner);
                    reduce::extreme_columns::<T>(s.n, s.inner, x, least, y);
                }
            }
        });
        return Ok(true);
    }
    // Places are counted in row-major order.
    if s.inner != 1 || (!matches!(want, Want::Value(_)) && !t.is_contiguous()) {
        return Ok(false);
    }
    dispatch!("max_cpu", t.dtype(), floating, T => {
        let x = Out::<T>::of_dense(t);
        let (values, places) = match want {
            Want::Value(v) => (Some(Out::<T>::of(v)), None),
            Want::Place(p) => (None, Some(Out::<i64>::of(p))),
            Want::Both(v, p) => (Some(Out::<T>::of(v)), Some(Out::<i64>::of(p))),
        };
        parallel::for_range(0, s.outer, 16384usize.div_ceil(s.n), |first, end| {
            for i in first..end {
                // SAFETY: run `i` lies inside the tensor; one write to each result.
                unsafe {
                    let (v, at) = reduce::extreme(s.n, x.pointer().add(i * s.n), least);
                    if let Some(o) = values {
                        o.set(i, T::narrow(v));
                    }
                    if let Some(o) = places {
                        o.set(i, at as i64);
                    }
                }
            }
        });
    });
    Ok(true)
}
