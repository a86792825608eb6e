//! The register tile: a few rows of `A` against one panel of `B`.

use super::MatMut;
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Vector};

/// Values in the largest tile of any instruction set.
pub const MAX_TILE: usize = 12 * 32;

/// The operands of one tile.
#[derive(Clone, Copy)]
pub struct Tile<F> {
    pub k: usize,
    /// Element `(i, p)` of A is at `i * a_rs + p * a_cs`.
    pub a: *const F,
    pub a_rs: isize,
    pub a_cs: isize,
    /// Row `p` of B starts at `p * b_rs` and is contiguous.
    pub b: *const F,
    pub b_rs: isize,
}

/// `c = alpha * a @ b + beta * c` for `rows` ≤ `I::MR` rows and `cols` ≤ `I::NV * LANES` columns. All of the panel's
/// columns are computed; those from `cols` on are not stored.
///
/// # Safety
/// `a` must be readable for `rows` × `k`, `b` for `k` rows of a whole panel, `c` writable for `rows` × `cols`.
#[inline(always)]
pub unsafe fn tile<I: Isa, F: Float, O: Elem<Acc = F>>(
    rows: usize,
    cols: usize,
    mut t: Tile<F>,
    alpha: F,
    beta: F,
    mut c: MatMut<O>,
) {
    // A whole tile at once, or the rest in pieces: the sizes must be known to the compiler.
    let mut left = rows;
    while left > 0 {
        // SAFETY: the pieces add up to `rows`.
        let done = unsafe {
            if I::MR >= 12 && left >= 12 {
                columns::<I, F, O, 12>(cols, t, alpha, beta, c)
            } else if I::MR >= 6 && left >= 6 {
                columns::<I, F, O, 6>(cols, t, alpha, beta, c)
            } else if left >= 4 {
                columns::<I, F, O, 4>(cols, t, alpha, beta, c)
            } else if left >= 2 {
                columns::<I, F, O, 2>(cols, t, alpha, beta, c)
            } else {
                columns::<I, F, O, 1>(cols, t, alpha, beta, c)
            }
        };
        left -= done;
        t.a = t.a.wrapping_offset(done as isize * t.a_rs);
        c = c.from(done, 0);
    }
}

#[inline(always)]
unsafe fn columns<I: Isa, F: Float, O: Elem<Acc = F>, const R: usize>(
    cols: usize,
    t: Tile<F>,
    alpha: F,
    beta: F,
    c: MatMut<O>,
) -> usize {
    // SAFETY: the caller's contract.
    unsafe {
        // The last panel may need no more than its first register.
        if I::NV == 4 && cols > 2 * F::Vec::<I>::LANES {
            fixed::<I, F, O, R, 4>(cols, t, alpha, beta, c)
        } else if cols > F::Vec::<I>::LANES {
            fixed::<I, F, O, R, 2>(cols, t, alpha, beta, c)
        } else {
            fixed::<I, F, O, R, 1>(cols, t, alpha, beta, c)
        }
    }
    R
}

#[inline(always)]
unsafe fn fixed<I: Isa, F: Float, O: Elem<Acc = F>, const R: usize, const NV: usize>(
    cols: usize,
    t: Tile<F>,
    alpha: F,
    beta: F,
    c: MatMut<O>,
) {
    let lanes = F::Vec::<I>::LANES;
    let mut acc = [[F::Vec::<I>::zero(); NV]; R];
    let (mut a, mut b) = (t.a, t.b);
    for _ in 0..t.k {
        // SAFETY: the caller's contract.
        unsafe {
            let mut row = [F::Vec::<I>::zero(); NV];
            for j in 0..NV {
                row[j] = F::Vec::<I>::load(b.add(j * lanes));
            }
            for i in 0..R {
                let x = F::Vec::<I>::splat(*a.wrapping_offset(i as isize * t.a_rs));
                for j in 0..NV {
                    acc[i][j] = x.mul_add(row[j], acc[i][j]);
                }
            }
        }
        a = a.wrapping_offset(t.a_cs);
        b = b.wrapping_offset(t.b_rs);
    }
    let scale = F::Vec::<I>::splat(alpha);
    // SAFETY: the caller's contract; the spill has room for the largest tile.
    unsafe {
        if cols == NV * lanes && c.cs == 1 {
            if beta == F::ZERO {
                for i in 0..R {
                    for j in 0..NV {
                        O::store::<I>(c.at(i, j * lanes), acc[i][j].mul(scale));
                    }
                }
            } else {
                let keep = F::Vec::<I>::splat(beta);
                for i in 0..R {
                    for j in 0..NV {
                        let p = c.at(i, j * lanes);
                        let old = O::load::<I>(p).mul(keep);
                        O::store::<I>(p, acc[i][j].mul_add(scale, old));
                    }
                }
            }
            return;
        }
        let mut spill = [F::ZERO; MAX_TILE];
        for i in 0..R {
            for j in 0..NV {
                acc[i][j].mul(scale).store(spill.as_mut_ptr().add((i * NV + j) * lanes));
            }
        }
        for i in 0..R {
            for j in 0..cols {
                let p = c.at(i, j);
                let x = spill[i * NV * lanes + j];
                *p = O::narrow(if beta == F::ZERO { x } else { x + beta * (*p).widen() });
            }
        }
    }
}
