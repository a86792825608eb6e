//! Integer products, exact modulo two to the width of the type.

use super::{Mat, MatMut, PARALLEL_MIN};
use crate::scratch;
use crate::threads::parallel_ranges;

/// An integer element. Sums are kept in `Acc`, at least as wide, and truncated when stored: the same as wrapping at
/// every step.
pub trait Integer: Copy + Send + Sync + 'static {
    type Acc: Copy + Send + Sync + 'static;
    const ZERO: Self::Acc;
    fn widen(self) -> Self::Acc;
    fn narrow(x: Self::Acc) -> Self;
    /// `a * b + c`, wrapping.
    fn mul_add(a: Self::Acc, b: Self::Acc, c: Self::Acc) -> Self::Acc;
    fn from_i64(x: i64) -> Self::Acc;
}

macro_rules! integer {
    ($($t:ty as $acc:ty),*) => {$(
        impl Integer for $t {
            type Acc = $acc;
            const ZERO: $acc = 0;
            #[inline(always)]
            fn widen(self) -> $acc {
                self as $acc
            }
            #[inline(always)]
            fn narrow(x: $acc) -> $t {
                x as $t
            }
            #[inline(always)]
            fn mul_add(a: $acc, b: $acc, c: $acc) -> $acc {
                a.wrapping_mul(b).wrapping_add(c)
            }
            #[inline(always)]
            fn from_i64(x: i64) -> $acc {
                x as $acc
            }
        }
    )*};
}
integer!(i8 as i32, u8 as i32, i16 as i32, u16 as i32, i32 as i32, u32 as i32, i64 as i64, u64 as i64);

/// Columns of `b` handled at once.
const COLS: usize = 64;

/// `c = alpha * a @ b + beta * c` in wrapping arithmetic; `c` is not read where `beta` is zero.
///
/// # Safety
/// As for [`super::gemm`].
pub unsafe fn gemm_integer<T: Integer>(
    m: usize,
    n: usize,
    k: usize,
    alpha: i64,
    a: Mat<T>,
    b: Mat<T>,
    beta: i64,
    c: MatMut<T>,
) {
    let (scale, keep) = (T::from_i64(alpha), T::from_i64(beta));
    let rows_worth_a_task = PARALLEL_MIN.div_ceil((n * k).max(1));
    for j0 in (0..n).step_by(COLS) {
        let cols = COLS.min(n - j0);
        scratch::with(k * COLS, |panel: *mut T::Acc| {
            for p in 0..k {
                for j in 0..cols {
                    // SAFETY: the caller's contract; the panel holds k * COLS values.
                    unsafe { *panel.add(p * COLS + j) = (*b.at(p, j0 + j)).widen() };
                }
                for j in cols..COLS {
                    // SAFETY: as above.
                    unsafe { *panel.add(p * COLS + j) = T::ZERO };
                }
            }
            let panel = Mat::new(panel.cast_const(), COLS as isize, 1);
            parallel_ranges(m, rows_worth_a_task, |i0, i1| {
                for i in i0..i1 {
                    let mut sums = [T::ZERO; COLS];
                    for p in 0..k {
                        // SAFETY: the caller's contract; every row of the panel was written.
                        let (x, row) =
                            unsafe { ((*a.at(i, p)).widen(), &*(panel.at(p, 0) as *const [T::Acc; COLS])) };
                        for j in 0..COLS {
                            sums[j] = T::mul_add(x, row[j], sums[j]);
                        }
                    }
                    for j in 0..cols {
                        // SAFETY: the caller's contract.
                        unsafe {
                            let dst = c.at(i, j0 + j);
                            let old =
                                if beta == 0 { T::ZERO } else { T::mul_add((*dst).widen(), keep, T::ZERO) };
                            *dst = T::narrow(T::mul_add(sums[j], scale, old));
                        }
                    }
                }
            });
        });
    }
}
