//! Copies of operands in the order in which tiles read them, widened on the way.

use super::Mat;
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Vector};

/// Copies `k` × `n` of `src` into panels of `NR` columns: `dst[panel][p][j]`, the last panel padded with zeros.
/// `panel` is the distance between panels.
///
/// # Safety
/// `src` must be readable and `dst` writable for that many elements.
#[inline(always)]
pub unsafe fn panels<I: Isa, E: Elem>(k: usize, n: usize, src: Mat<E>, dst: *mut E::Acc, panel: usize) {
    let lanes = <E::Acc as Float>::Vec::<I>::LANES;
    let nr = I::NV * lanes;
    let mut j = 0;
    while j < n {
        let cols = nr.min(n - j);
        // SAFETY: the caller's contract.
        unsafe {
            let dst = dst.add(j / nr * panel);
            let src = src.from(0, j);
            if cols < nr {
                ragged::<E>(k, cols, nr, src, dst);
            } else if src.cs == 1 {
                rows::<I, E>(k, src, dst);
            } else if src.rs == 1 {
                transposed::<I, E>(k, src, dst);
            } else {
                ragged::<E>(k, cols, nr, src, dst);
            }
        }
        j += nr;
    }
}

/// One panel of any strides and any width up to `nr`.
#[inline(always)]
unsafe fn ragged<E: Elem>(k: usize, cols: usize, nr: usize, src: Mat<E>, dst: *mut E::Acc) {
    for p in 0..k {
        // SAFETY: the caller's contract.
        unsafe {
            let row = dst.add(p * nr);
            for j in 0..cols {
                *row.add(j) = (*src.at(p, j)).widen();
            }
            for j in cols..nr {
                *row.add(j) = E::Acc::ZERO;
            }
        }
    }
}

/// One whole panel whose rows are contiguous in `src`.
#[inline(always)]
unsafe fn rows<I: Isa, E: Elem>(k: usize, src: Mat<E>, dst: *mut E::Acc) {
    let lanes = <E::Acc as Float>::Vec::<I>::LANES;
    for p in 0..k {
        for v in 0..I::NV {
            // SAFETY: the caller's contract.
            unsafe { E::load::<I>(src.at(p, v * lanes)).store(dst.add((p * I::NV + v) * lanes)) };
        }
    }
}

/// One whole panel whose columns are contiguous in `src`, transposed in registers.
#[inline(always)]
unsafe fn transposed<I: Isa, E: Elem>(k: usize, src: Mat<E>, dst: *mut E::Acc) {
    let lanes = <E::Acc as Float>::Vec::<I>::LANES;
    let nr = I::NV * lanes;
    let whole = k - k % lanes;
    for p in (0..whole).step_by(lanes) {
        for v in 0..I::NV {
            // SAFETY: the caller's contract.
            <E::Acc as Float>::Vec::<I>::transpose(
                |i| unsafe { E::load::<I>(src.at(p, v * lanes + i)) },
                |i, column| unsafe { column.store(dst.add((p + i) * nr + v * lanes)) },
            );
        }
    }
    for p in whole..k {
        for j in 0..nr {
            // SAFETY: the caller's contract.
            unsafe { *dst.add(p * nr + j) = (*src.at(p, j)).widen() };
        }
    }
}

/// Copies `m` × `k` of `src` to rows `ld` apart: for operands that are contiguous along `k`.
///
/// # Safety
/// `src` must be readable and `dst` writable for that many elements.
#[inline(always)]
pub unsafe fn copy_rows<I: Isa, E: Elem>(m: usize, k: usize, src: Mat<E>, dst: *mut E::Acc, ld: usize) {
    let lanes = <E::Acc as Float>::Vec::<I>::LANES;
    for i in 0..m {
        // SAFETY: the caller's contract.
        unsafe {
            let row = dst.add(i * ld);
            let mut p = 0;
            if src.cs == 1 {
                while p + lanes <= k {
                    E::load::<I>(src.at(i, p)).store(row.add(p));
                    p += lanes;
                }
            }
            while p < k {
                *row.add(p) = (*src.at(i, p)).widen();
                p += 1;
            }
        }
    }
}

/// Copies `m` × `k` of `src` into panels of `MR` rows: `dst[panel][p][i]`, for operands that are contiguous along `m`.
/// Rows past the end are left as they are.
///
/// # Safety
/// As for [`copy_rows`], with room for whole panels.
#[inline(always)]
pub unsafe fn copy_columns<I: Isa, E: Elem>(m: usize, k: usize, src: Mat<E>, dst: *mut E::Acc, panel: usize) {
    let mut i = 0;
    while i < m {
        let rows = I::MR.min(m - i);
        // SAFETY: the caller's contract.
        unsafe {
            let dst = dst.add(i / I::MR * panel);
            for p in 0..k {
                let from = src.at(i, p);
                let to = dst.add(p * I::MR);
                if rows == I::MR && src.rs == 1 {
                    // A length the compiler knows.
                    for r in 0..I::MR {
                        *to.add(r) = (*from.add(r)).widen();
                    }
                } else {
                    for r in 0..rows {
                        *to.add(r) = (*from.wrapping_offset(r as isize * src.rs)).widen();
                    }
                }
            }
        }
        i += I::MR;
    }
}
