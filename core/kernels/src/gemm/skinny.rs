//! Products of a few rows with a large matrix, bound by how fast that matrix can be read: it is read once, where it
//! lies, and widened in registers.

use super::{Mat, MatMut, PARALLEL_MIN, pack};
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Task, Vector, dispatch};
use crate::scratch;
use crate::threads::{get_num_threads, parallel_for};

/// Most rows that [`dot`] is better for than packing.
pub const MAX_ROWS: usize = 12;
/// Most rows that [`axpy`] is better for than packing.
pub const MAX_AXPY_ROWS: usize = 8;
/// Rows of the matrix that [`dot`] handles at once.
const W_ROWS: usize = 4;
/// Columns whose sums [`axpy`] holds in the first-level cache.
const AXPY_COLS: usize = 1024;

/// Splits `0..n` into ranges that are multiples of `step` and claims them by thread.
pub(super) fn split(n: usize, step: usize, work_per_item: usize, f: impl Fn(usize, usize) + Sync) {
    let threads = get_num_threads();
    if threads == 1 || n.saturating_mul(work_per_item) < PARALLEL_MIN {
        return f(0, n);
    }
    // Eight claims a thread keep all busy to the end; below a quarter of the threshold a claim is not worth making.
    let least = (PARALLEL_MIN / 4).div_ceil(work_per_item.max(1));
    let size = n.div_ceil(8 * threads).max(least).next_multiple_of(step);
    parallel_for(n.div_ceil(size), |i| f(i * size, ((i + 1) * size).min(n)));
}

/// Calls `f` with `a` as contiguous rows of accumulators: itself where it is that already.
unsafe fn with_rows<E: Elem>(m: usize, k: usize, a: Mat<E>, f: impl FnOnce(*const E::Acc, usize)) {
    if E::IS_ACC && a.cs == 1 && (m == 1 || a.rs >= k as isize) {
        return f(a.ptr.cast(), if m == 1 { k } else { a.rs as usize });
    }
    scratch::with(m * k, |rows: *mut E::Acc| {
        dispatch(CopyRows { m, k, src: a, dst: rows });
        f(rows, k)
    });
}

/// Copies `m` × `k` of `src` to contiguous rows, widened.
pub struct CopyRows<E: Elem> {
    pub m: usize,
    pub k: usize,
    pub src: Mat<E>,
    pub dst: *mut E::Acc,
}
impl<E: Elem> Task for CopyRows<E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        // SAFETY: whoever made the task made room for m * k values.
        unsafe { pack::copy_rows::<I, E>(self.m, self.k, self.src, self.dst, self.k) }
    }
}

/// For `b` contiguous along `k`: each element of C is a dot product.
///
/// # Safety
/// As for [`super::gemm`], with `b.rs` one.
pub unsafe fn dot<A: Elem<Acc = E::Acc>, E: Elem, O: Elem<Acc = E::Acc>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<A>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
) {
    // SAFETY: the caller's contract.
    unsafe {
        with_rows(m, k, a, |x, ldx| {
            let x = Mat::new(x, ldx as isize, 1);
            split(n, 4, m * k, |j0, j1| {
                let (n, w, c) = (j1 - j0, b.t().from(j0, 0), c.from(0, j0));
                let widen = !E::IS_ACC && m > 2;
                scratch::with(if widen { W_ROWS * k } else { 0 }, |room| {
                    dispatch(Dot { m, n, k, alpha, x, w, beta, c, widen, room });
                });
            });
        });
    }
}

struct Dot<E: Elem, O: Elem<Acc = E::Acc>> {
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    x: Mat<E::Acc>,
    /// The transposed right operand: row `j` makes column `j` of C.
    w: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
    /// Whether to widen `w` into `room` first: worth it when several tiles read it.
    widen: bool,
    /// Room for `W_ROWS` rows.
    room: *mut E::Acc,
}

impl<E: Elem, O: Elem<Acc = E::Acc>> Task for Dot<E, O> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let mut j = 0;
        while j < self.n {
            // SAFETY: the rows and columns below lie within the operands.
            unsafe {
                let step = if self.n - j >= W_ROWS { W_ROWS } else { 1 };
                let w = self.w.from(j, 0);
                let wide = Mat::new(self.room.cast_const(), self.k as isize, 1);
                if self.widen {
                    pack::copy_rows::<I, E>(step, self.k, w, self.room, self.k);
                }
                match (step == 1, self.widen) {
                    (false, false) => self.rows::<I, E, W_ROWS>(j, w),
                    (false, true) => self.rows::<I, E::Acc, W_ROWS>(j, wide),
                    (true, false) => self.rows::<I, E, 1>(j, w),
                    (true, true) => self.rows::<I, E::Acc, 1>(j, wide),
                }
                j += step;
            }
        }
    }
}

impl<E: Elem, O: Elem<Acc = E::Acc>> Dot<E, O> {
    /// All rows of `x` against the `W` rows of `w` that make columns `j..j + W`, in register tiles of up to three by four.
    #[inline(always)]
    unsafe fn rows<I: Isa, S: Elem<Acc = E::Acc>, const W: usize>(&self, j: usize, w: Mat<S>) {
        let mut i = 0;
        while i < self.m {
            // SAFETY: the caller's contract.
            unsafe {
                match self.m - i {
                    1 => i += self.tile::<I, S, 1, W, 2>(i, j, w),
                    2 | 4 => i += self.tile::<I, S, 2, W, 1>(i, j, w),
                    _ => i += self.tile::<I, S, 3, W, 1>(i, j, w),
                }
            }
        }
    }

    /// `X` × `W` dot products, each in `U` partial sums of a register.
    #[inline(always)]
    unsafe fn tile<I: Isa, S: Elem<Acc = E::Acc>, const X: usize, const W: usize, const U: usize>(
        &self,
        i: usize,
        j: usize,
        w: Mat<S>,
    ) -> usize {
        let lanes = <E::Acc as Float>::Vec::<I>::LANES;
        let k = self.k;
        let x: [*const E::Acc; X] = std::array::from_fn(|r| self.x.at(i + r, 0));
        let rows: [*const S; W] = std::array::from_fn(|r| w.at(r, 0));
        let mut acc = [[[<E::Acc as Float>::Vec::<I>::zero(); W]; X]; U];
        let ahead = W as isize * w.rs;
        let mut p = 0;
        // SAFETY: the caller's contract; `p` stays below `k`.
        unsafe {
            while p + U * lanes <= k {
                for u in 0..U {
                    let q = p + u * lanes;
                    // All of x stays in registers while w passes through one: three by four fills sixteen.
                    let mut xv = [<E::Acc as Float>::Vec::<I>::zero(); X];
                    for s in 0..X {
                        xv[s] = <E::Acc as Float>::Vec::<I>::load(x[s].add(q));
                    }
                    for r in 0..W {
                        if X == 1 && u == 0 && size_of::<S>() == 2 {
                            // Rows of halves are too short for the hardware to see where the next ones are.
                            I::prefetch(rows[r].wrapping_offset(ahead).wrapping_add(q));
                        }
                        let wv = S::load::<I>(rows[r].add(q));
                        for s in 0..X {
                            acc[u][s][r] = xv[s].mul_add(wv, acc[u][s][r]);
                        }
                    }
                }
                p += U * lanes;
            }
            let mut sums = [[E::Acc::ZERO; W]; X];
            for s in 0..X {
                let mut total = acc[0][s];
                for u in 1..U {
                    for r in 0..W {
                        total[r] = total[r].add(acc[u][s][r]);
                    }
                }
                if W == 4 {
                    let four = [total[0], total[1 % W], total[2 % W], total[3 % W]];
                    sums[s].copy_from_slice(&<E::Acc as Float>::Vec::<I>::reduce_add4(four)[..W]);
                } else {
                    for r in 0..W {
                        sums[s][r] = total[r].reduce_add();
                    }
                }
                for q in p..k {
                    for r in 0..W {
                        sums[s][r] = (*x[s].add(q)).mul_add::<I>((*rows[r].add(q)).widen(), sums[s][r]);
                    }
                }
                for r in 0..W {
                    let dst = self.c.at(i + s, j + r);
                    let value = self.alpha * sums[s][r];
                    let keep = self.beta != E::Acc::ZERO;
                    *dst = O::narrow(if keep { value + self.beta * (*dst).widen() } else { value });
                }
            }
        }
        X
    }
}

/// For `b` contiguous along `n`: each row of C is a sum of scaled rows of `b`.
///
/// # Safety
/// As for [`super::gemm`], with `b.cs` one and at most [`MAX_AXPY_ROWS`] rows.
pub unsafe fn axpy<A: Elem<Acc = E::Acc>, E: Elem, O: Elem<Acc = E::Acc>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<A>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
) {
    // SAFETY: the caller's contract.
    unsafe {
        with_rows(m, k, a, |x, ldx| {
            let x = Mat::new(x, ldx as isize, 1);
            split(n, 64, m * k, |j0, j1| {
                scratch::with(m * AXPY_COLS, |sums: *mut E::Acc| {
                    for j in (j0..j1).step_by(AXPY_COLS) {
                        let n = AXPY_COLS.min(j1 - j);
                        dispatch(Axpy { m, n, k, alpha, x, b: b.from(0, j), beta, c: c.from(0, j), sums });
                    }
                });
            });
        });
    }
}

struct Axpy<E: Elem, O: Elem<Acc = E::Acc>> {
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    x: Mat<E::Acc>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
    /// Room for `m` rows of `AXPY_COLS` sums.
    sums: *mut E::Acc,
}

impl<E: Elem, O: Elem<Acc = E::Acc>> Task for Axpy<E, O> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        // SAFETY: `axpy` made the room and cut the columns.
        unsafe {
            for i in 0..self.m {
                std::slice::from_raw_parts_mut(self.sums.add(i * AXPY_COLS), self.n).fill(E::Acc::ZERO);
            }
            let mut p = 0;
            while p + 4 <= self.k {
                self.add::<I, 4>(p);
                p += 4;
            }
            while p < self.k {
                self.add::<I, 1>(p);
                p += 1;
            }
            for i in 0..self.m {
                for j in 0..self.n {
                    let dst = self.c.at(i, j);
                    let value = self.alpha * *self.sums.add(i * AXPY_COLS + j);
                    let keep = self.beta != E::Acc::ZERO;
                    *dst = O::narrow(if keep { value + self.beta * (*dst).widen() } else { value });
                }
            }
        }
    }
}

impl<E: Elem, O: Elem<Acc = E::Acc>> Axpy<E, O> {
    /// Adds rows `p..p + P` of `b`, scaled, to every row of sums.
    #[inline(always)]
    unsafe fn add<I: Isa, const P: usize>(&self, p: usize) {
        let lanes = <E::Acc as Float>::Vec::<I>::LANES;
        // SAFETY: the caller's contract.
        unsafe {
            let rows: [*const E; P] = std::array::from_fn(|q| self.b.at(p + q, 0));
            let mut x = [[E::Acc::ZERO; P]; MAX_AXPY_ROWS];
            for i in 0..self.m {
                x[i] = std::array::from_fn(|q| *self.x.at(i, p + q));
            }
            let mut j = 0;
            while j + lanes <= self.n {
                let mut row = [<E::Acc as Float>::Vec::<I>::zero(); P];
                for q in 0..P {
                    row[q] = E::load::<I>(rows[q].add(j));
                }
                for i in 0..self.m {
                    let dst = self.sums.add(i * AXPY_COLS + j);
                    let mut sum = <E::Acc as Float>::Vec::<I>::load(dst);
                    for q in 0..P {
                        sum = <E::Acc as Float>::Vec::<I>::splat(x[i][q]).mul_add(row[q], sum);
                    }
                    sum.store(dst);
                }
                j += lanes;
            }
            while j < self.n {
                for i in 0..self.m {
                    let dst = self.sums.add(i * AXPY_COLS + j);
                    for q in 0..P {
                        *dst = x[i][q].mul_add::<I>((*rows[q].add(j)).widen(), *dst);
                    }
                }
                j += 1;
            }
        }
    }
}
