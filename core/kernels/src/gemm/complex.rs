//! Complex products, as four real ones of the separated parts.

use super::{Mat, MatMut, gemm};
use crate::elem::Float;
use crate::scratch;

/// `c = alpha * a @ b + beta * c`; a complex number is its real and imaginary part, and `c` is not read where `beta`
/// is zero. `conj_a` and `conj_b` take the conjugate of that operand.
///
/// # Safety
/// As for [`super::gemm`].
pub unsafe fn gemm_complex<F: Float>(
    m: usize,
    n: usize,
    k: usize,
    alpha: [F; 2],
    a: Mat<[F; 2]>,
    conj_a: bool,
    b: Mat<[F; 2]>,
    conj_b: bool,
    beta: [F; 2],
    c: MatMut<[F; 2]>,
) {
    scratch::with(2 * (m * k + k * n + m * n), |room: *mut F| {
        // SAFETY: the room is cut into the planes below; the operands are the caller's contract.
        unsafe {
            let (ar, ai) = (room, room.add(m * k));
            let (br, bi) = (ai.add(m * k), ai.add(m * k + k * n));
            let (cr, ci) = (bi.add(k * n), bi.add(k * n + m * n));
            separate(m, k, a, conj_a, ar, ai);
            separate(k, n, b, conj_b, br, bi);
            let rows = |p: *mut F, cols: usize| Mat::new(p.cast_const(), cols as isize, 1);
            let (re, im) = (MatMut::new(cr, n as isize, 1), MatMut::new(ci, n as isize, 1));
            gemm(m, n, k, F::ONE, rows(ar, k), rows(br, n), F::ZERO, re);
            gemm(m, n, k, -F::ONE, rows(ai, k), rows(bi, n), F::ONE, re);
            gemm(m, n, k, F::ONE, rows(ar, k), rows(bi, n), F::ZERO, im);
            gemm(m, n, k, F::ONE, rows(ai, k), rows(br, n), F::ONE, im);
            let unit = alpha[0] == F::ONE && alpha[1] == F::ZERO;
            let fresh = beta[0] == F::ZERO && beta[1] == F::ZERO;
            for i in 0..m {
                for j in 0..n {
                    let sum = [*re.at(i, j), *im.at(i, j)];
                    let sum = if unit { sum } else { times(alpha, sum) };
                    let p = c.at(i, j);
                    *p = if fresh {
                        sum
                    } else {
                        let old = times(beta, *p);
                        [sum[0] + old[0], sum[1] + old[1]]
                    };
                }
            }
        }
    });
}

fn times<F: Float>(x: [F; 2], y: [F; 2]) -> [F; 2] {
    [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]]
}

unsafe fn separate<F: Float>(rows: usize, cols: usize, src: Mat<[F; 2]>, conj: bool, re: *mut F, im: *mut F) {
    for i in 0..rows {
        for j in 0..cols {
            // SAFETY: the caller's contract.
            unsafe {
                let [x, y] = *src.at(i, j);
                *re.add(i * cols + j) = x;
                *im.add(i * cols + j) = if conj { -y } else { y };
            }
        }
    }
}
