//! Large products: pack both operands, then multiply tile by tile.
//!
//! Both operands are packed first, by all threads; then all threads multiply tiles of `C`, each running through the
//! whole of `k`. A tile's share of packed `A` stays in the second-level cache while panels of `B` pass through the first.

use super::micro::{Tile, tile};
use super::{Mat, MatMut, PARALLEL_MIN, pack};
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Task, Vector, dispatch};
use crate::scratch;
use crate::threads::{get_num_threads, parallel_for};

/// Longest run of `k` that is accumulated in registers: a panel of `B` this long fills half the first-level cache.
const KC: usize = 384;
/// Rows of a tile of `C`: with `KC`, a share of `A` that fits the second-level cache.
const MC: usize = 96;
/// Columns of a tile of `C`.
const NC: usize = 512;
/// Values in each packed operand at most; larger products are cut.
const PACKED: usize = if cfg!(target_family = "wasm") { 1 << 20 } else { 6 << 20 };
/// Longest `k` packed at once.
const K_CHUNK: usize = 16 * KC;
/// `A` is read where it lies while it is no larger than this many values.
const A_IN_PLACE: usize = 16 << 10;

/// See [`super::gemm`]; any shape, `k` not zero.
///
/// # Safety
/// As for [`super::gemm`].
pub unsafe fn gemm<E: Elem, O: Elem<Acc = E::Acc>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<E>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
) {
    let (zero, one) = (E::Acc::ZERO, E::Acc::ONE);
    // SAFETY: the caller's contract; the chunks below lie within the operands.
    unsafe {
        if k > K_CHUNK && !O::IS_ACC {
            // Chunks of `k` meet in C: keep them in full precision until the last.
            let rows = (PACKED / n).clamp(1, m);
            for i in (0..m).step_by(rows) {
                let rows = rows.min(m - i);
                scratch::with(rows * n, |sum: *mut E::Acc| {
                    let sum = MatMut::new(sum, n as isize, 1);
                    gemm::<E, E::Acc>(rows, n, k, alpha, a.from(i, 0), b, zero, sum);
                    finish::<E::Acc, O>(rows, n, sum, beta, c.from(i, 0));
                });
            }
            return;
        }
        for p in (0..k).step_by(K_CHUNK) {
            let depth = K_CHUNK.min(k - p);
            let beta = if p == 0 { beta } else { one };
            let (rows, cols) = (multiple(PACKED / depth, MC), multiple(PACKED / depth, NC));
            for j in (0..n).step_by(cols) {
                for i in (0..m).step_by(rows) {
                    let (rows, cols) = (rows.min(m - i), cols.min(n - j));
                    let (a, b, c) = (a.from(i, p), b.from(p, j), c.from(i, j));
                    packed(rows, cols, depth, alpha, a, b, beta, c);
                }
            }
        }
    }
}

/// `x` rounded down to a multiple of `step`, at least `step`.
fn multiple(x: usize, step: usize) -> usize {
    (x / step).max(1) * step
}

/// `c = sum + beta * c`.
unsafe fn finish<F: Float, O: Elem<Acc = F>>(m: usize, n: usize, sum: MatMut<F>, beta: F, c: MatMut<O>) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: the caller's contract.
            unsafe {
                let x = *sum.at(i, j);
                let p = c.at(i, j);
                *p = O::narrow(if beta == F::ZERO { x } else { x + beta * (*p).widen() });
            }
        }
    }
}

/// How packed operands are laid out, shared by the tasks that write and read them.
struct Plan<F> {
    k: usize,
    /// Length of every block of `k` but the last.
    kc: usize,
    alpha: F,
    /// Element `(i, p)` of block `t` of A is at `t * a_block + i / MR * a_panel + i % MR * a_rs + p * a_cs`.
    a: *const F,
    a_block: isize,
    a_panel: isize,
    a_rs: isize,
    a_cs: isize,
    /// Row `p` of panel `j` of block `t` of B starts at `t * b_block + j * b_panel + p * b_rs`.
    b: *const F,
    b_block: isize,
    b_panel: isize,
    b_rs: isize,
}

// SAFETY: addresses; the tasks that use them write apart from each other.
unsafe impl<F> Sync for Plan<F> {}

unsafe fn packed<E: Elem, O: Elem<Acc = E::Acc>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: E::Acc,
    a: Mat<E>,
    b: Mat<E>,
    beta: E::Acc,
    c: MatMut<O>,
) {
    let (mr, nr) = tile_shape::<E::Acc>();
    let blocks = k.div_ceil(KC);
    let kc = k.div_ceil(blocks).next_multiple_of(8).min(k);
    let blocks = k.div_ceil(kc);
    let threads = if m.saturating_mul(n).saturating_mul(k) >= PARALLEL_MIN { get_num_threads() } else { 1 };

    let a_in_place = E::IS_ACC && (m * k <= A_IN_PLACE || n <= 2 * nr);
    let b_in_place = E::IS_ACC && b.cs == 1 && n.is_multiple_of(nr) && (m <= mr || k * n <= A_IN_PLACE / 4);
    let by_rows = a.rs != 1 || a.cs == 1;
    let a_panel = mr * kc;
    let a_block = if by_rows { m * kc } else { m.next_multiple_of(mr) * kc };
    let b_panel = kc * nr;
    let b_block = n.div_ceil(nr) * b_panel;

    scratch::with(if a_in_place { 0 } else { a_block * blocks }, |ap: *mut E::Acc| {
        scratch::with(if b_in_place { 0 } else { b_block * blocks }, |bp: *mut E::Acc| {
            let mut plan = Plan::<E::Acc> {
                k,
                kc,
                alpha,
                a: ap,
                a_block: a_block as isize,
                a_panel: a_panel as isize,
                a_rs: if by_rows { kc as isize } else { 1 },
                a_cs: if by_rows { 1 } else { mr as isize },
                b: bp,
                b_block: b_block as isize,
                b_panel: b_panel as isize,
                b_rs: nr as isize,
            };
            if a_in_place {
                plan.a = a.ptr.cast();
                plan.a_block = kc as isize * a.cs;
                plan.a_panel = mr as isize * a.rs;
                (plan.a_rs, plan.a_cs) = (a.rs, a.cs);
            }
            if b_in_place {
                plan.b = b.ptr.cast();
                plan.b_block = kc as isize * b.rs;
                plan.b_panel = nr as isize;
                plan.b_rs = b.rs;
            }

            // Packing, in pieces of whole panels that are worth a claim.
            let a_rows = (16384 / kc).next_multiple_of(mr);
            let b_cols = (16384 / kc).next_multiple_of(nr);
            let a_pieces = if a_in_place { 0 } else { m.div_ceil(a_rows) };
            let b_pieces = if b_in_place { 0 } else { n.div_ceil(b_cols) };
            let (ap, bp) = (Shared(ap), Shared(bp));
            let pack = |piece: usize| {
                let block = piece / (a_pieces + b_pieces);
                let piece = piece % (a_pieces + b_pieces);
                let p = block * kc;
                let depth = kc.min(k - p);
                if piece < b_pieces {
                    let j = piece * b_cols;
                    let dst = bp.get().wrapping_add(block * b_block + j / nr * b_panel);
                    dispatch(PackB {
                        k: depth,
                        n: b_cols.min(n - j),
                        src: b.from(p, j),
                        dst,
                        panel: b_panel,
                    });
                } else {
                    let i = (piece - b_pieces) * a_rows;
                    let dst = ap.get().wrapping_add(block * a_block + i / mr * a_panel);
                    let rows = a_rows.min(m - i);
                    dispatch(PackA {
                        m: rows,
                        k: depth,
                        src: a.from(i, p),
                        dst,
                        by_rows,
                        ld: kc,
                        panel: a_panel,
                    });
                }
            };
            run(threads, blocks * (a_pieces + b_pieces), pack);

            let (mc, nc) = tile_size(m, n, mr, nr, threads);
            let tiles_m = m.div_ceil(mc);
            let plan = &plan;
            run(threads, tiles_m * n.div_ceil(nc), |t| {
                let (i, j) = (t % tiles_m * mc, t / tiles_m * nc);
                let (rows, cols) = (mc.min(m - i), nc.min(n - j));
                let c = c.from(i, j);
                if O::IS_ACC || blocks == 1 {
                    dispatch(Multiply { plan, i, j, rows, cols, beta, c });
                } else {
                    // Several blocks of k and a result that cannot hold their sum exactly: sum beside it.
                    scratch::with(rows * cols, |sum: *mut E::Acc| {
                        let sum = MatMut::new(sum, cols as isize, 1);
                        dispatch(Multiply { plan, i, j, rows, cols, beta: E::Acc::ZERO, c: sum });
                        // SAFETY: the caller's contract.
                        unsafe { finish::<E::Acc, O>(rows, cols, sum, beta, c) };
                    });
                }
            });
        });
    });
}

/// A pointer that tasks share; each writes its own part.
struct Shared<T>(*mut T);
// SAFETY: see above.
unsafe impl<T> Sync for Shared<T> {}
impl<T> Shared<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

fn run(threads: usize, tasks: usize, f: impl Fn(usize) + Sync) {
    if threads > 1 { parallel_for(tasks, f) } else { (0..tasks).for_each(f) }
}

/// The size of the tiles of C that threads claim: small enough that all threads finish together.
fn tile_size(m: usize, n: usize, mr: usize, nr: usize, threads: usize) -> (usize, usize) {
    let (mut mc, mut nc) = (MC.next_multiple_of(mr), NC.next_multiple_of(nr));
    mc = mc.min(m.next_multiple_of(mr));
    nc = nc.min(n.next_multiple_of(nr));
    if threads > 1 {
        let wanted = 4 * threads;
        while m.div_ceil(mc) * n.div_ceil(nc) < wanted {
            if nc >= 2 * mc && nc >= 4 * nr {
                nc = (nc / 2).next_multiple_of(nr);
            } else if mc >= 4 * mr {
                mc = (mc / 2).next_multiple_of(mr);
            } else {
                break;
            }
        }
    }
    (mc, nc)
}

/// The rows and columns of the register tile.
pub fn tile_shape<F: Float>() -> (usize, usize) {
    dispatch(Shape::<F>(std::marker::PhantomData))
}

struct Shape<F>(std::marker::PhantomData<F>);
impl<F: Float> Task for Shape<F> {
    type Out = (usize, usize);
    #[inline(always)]
    fn run<I: Isa>(self) -> (usize, usize) {
        (I::MR, I::NV * F::Vec::<I>::LANES)
    }
}

struct PackA<E: Elem> {
    m: usize,
    k: usize,
    src: Mat<E>,
    dst: *mut E::Acc,
    by_rows: bool,
    ld: usize,
    panel: usize,
}
impl<E: Elem> Task for PackA<E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        // SAFETY: `packed` sized the buffers and the pieces.
        unsafe {
            if self.by_rows {
                pack::copy_rows::<I, E>(self.m, self.k, self.src, self.dst, self.ld);
            } else {
                pack::copy_columns::<I, E>(self.m, self.k, self.src, self.dst, self.panel);
            }
        }
    }
}

struct PackB<E: Elem> {
    k: usize,
    n: usize,
    src: Mat<E>,
    dst: *mut E::Acc,
    panel: usize,
}
impl<E: Elem> Task for PackB<E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        // SAFETY: `packed` sized the buffers and the pieces.
        unsafe { pack::panels::<I, E>(self.k, self.n, self.src, self.dst, self.panel) }
    }
}

struct Multiply<'a, F: Float, O: Elem<Acc = F>> {
    plan: &'a Plan<F>,
    i: usize,
    j: usize,
    rows: usize,
    cols: usize,
    beta: F,
    c: MatMut<O>,
}

impl<F: Float, O: Elem<Acc = F>> Task for Multiply<'_, F, O> {
    type Out = ();
    /// Runs the register tile over the whole tile and all blocks of `k`.
    #[inline(always)]
    fn run<I: Isa>(self) {
        let plan = self.plan;
        let nr = I::NV * F::Vec::<I>::LANES;
        for (block, p) in (0..plan.k).step_by(plan.kc).enumerate() {
            let a = plan.a.wrapping_offset(block as isize * plan.a_block);
            let b = plan.b.wrapping_offset(block as isize * plan.b_block);
            let beta = if block == 0 { self.beta } else { F::ONE };
            for j in (0..self.cols).step_by(nr) {
                let b = b.wrapping_offset(((self.j + j) / nr) as isize * plan.b_panel);
                for i in (0..self.rows).step_by(I::MR) {
                    let t = Tile {
                        k: plan.kc.min(plan.k - p),
                        a: a.wrapping_offset(((self.i + i) / I::MR) as isize * plan.a_panel),
                        a_rs: plan.a_rs,
                        a_cs: plan.a_cs,
                        b,
                        b_rs: plan.b_rs,
                    };
                    let (rows, cols) = (I::MR.min(self.rows - i), nr.min(self.cols - j));
                    // SAFETY: the plan describes memory of these sizes.
                    unsafe { tile::<I, F, O>(rows, cols, t, plan.alpha, beta, self.c.from(i, j)) };
                }
            }
        }
    }
}
