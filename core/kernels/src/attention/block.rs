//! Many query rows: register tiles over packed blocks of keys and values.

use super::{Attention, Mask};
use crate::chunk::{largest, load, store, total};
use crate::elem::{Elem, Float};
use crate::gemm::micro::{Tile, tile};
use crate::gemm::skinny::CopyRows;
use crate::gemm::{Mat, MatMut, blocked, pack};
use crate::isa::{Isa, Task, Vector, dispatch};
use crate::scratch;
use crate::vmath::Math;

/// Query rows that go through a block of keys together: a multiple of every register tile's rows.
const ROWS: usize = 48;
/// Keys in a block.
pub const KEYS: usize = 128;
/// Blocks of rows that share a packed block of keys at most.
pub const BLOCKS: usize = 6;
/// Scores handled at a time.
pub const CHUNK: usize = 32;

/// How operands are packed and multiplied.
pub trait Products<E: Elem> {
    /// Query rows in a block.
    const ROWS: usize;
    /// Columns in a panel.
    fn panel() -> usize;
    /// The room, in accumulators, for a row of `k` values along which products are summed.
    fn along(k: usize) -> usize;
    /// The room for the weights of a block, where they are not multiplied as they lie in the scores.
    fn weights() -> usize;
    /// Packs `m` rows of queries.
    ///
    /// # Safety
    /// `src` must be readable for `m` × `k`, `dst` writable for [`Self::ROWS`] rows of [`Self::along`]`(k)`.
    unsafe fn rows(m: usize, k: usize, src: Mat<E>, dst: *mut E::Acc);
    /// Packs a matrix of `k` rows and `n` columns in panels.
    ///
    /// # Safety
    /// `src` must be readable for `k` × `n`, `dst` writable for [`Self::along`]`(k)` × the columns of whole panels.
    unsafe fn panels(k: usize, n: usize, src: Mat<E>, dst: *mut E::Acc);
    /// Puts one block of rows through one packed block of keys and values.
    ///
    /// # Safety
    /// The fields describe memory of the sizes above.
    unsafe fn step(step: Step<E::Acc>);
}

/// Blocks `first..last` of the query rows that use key head `kv`. Blocks are counted head by head.
///
/// # Safety
/// As for [`super::attention`].
pub unsafe fn run<E: Elem, P: Products<E>>(
    args: &Attention<E>,
    b: usize,
    kv: usize,
    first: usize,
    last: usize,
) where
    E::Acc: Math,
{
    let group = args.heads / args.kv_heads;
    let per_head = args.rows.div_ceil(P::ROWS);
    let (e, ev) = (P::along(args.width), args.value_width.next_multiple_of(P::panel()));
    let keys = KEYS.next_multiple_of(P::panel());
    let blocks = last - first;
    let sizes = [
        keys * e,
        P::along(KEYS) * ev,
        P::ROWS * keys,
        P::ROWS * keys,
        P::weights(),
        blocks * P::ROWS * e,
        blocks * P::ROWS * ev,
        blocks * P::ROWS * 2,
    ];
    scratch::with(sizes.iter().sum(), |room: *mut E::Acc| {
        let mut next = room;
        let [kp, vp, scores, bias, weights, q, sums, stats] = sizes.map(|n| {
            let p = next;
            next = next.wrapping_add(n);
            p
        });
        // SAFETY: the room is cut to these sizes; the operands are the caller's contract.
        unsafe {
            std::slice::from_raw_parts_mut(sums, blocks * P::ROWS * ev).fill(E::Acc::ZERO);
            for r in 0..blocks * P::ROWS {
                *stats.add(2 * r) = E::Acc::NEG_INFINITY;
                *stats.add(2 * r + 1) = E::Acc::ZERO;
            }
            // The head and the rows of each block.
            let place = |n: usize| {
                let i = (first + n) % per_head * P::ROWS;
                (kv * group + (first + n) / per_head, i, P::ROWS.min(args.rows - i))
            };
            let mut seen = 0;
            for n in 0..blocks {
                let (h, i, rows) = place(n);
                let src = Mat::new(args.q.at(b, h, i, 0), args.q.strides[2], args.q.strides[3]);
                P::rows(rows, args.width, src, q.add(n * P::ROWS * e));
                seen = seen.max(if args.causal { args.keys.min(i + rows) } else { args.keys });
            }
            for j in (0..seen).step_by(KEYS) {
                let cols = KEYS.min(seen - j);
                let k = Mat::new(args.k.at(b, kv, j, 0), args.k.strides[3], args.k.strides[2]);
                let v = Mat::new(args.v.at(b, kv, j, 0), args.v.strides[2], args.v.strides[3]);
                P::panels(args.width, cols, k, kp);
                P::panels(cols, args.value_width, v, vp);
                for n in 0..blocks {
                    let (h, i, rows) = place(n);
                    if args.causal && i + rows <= j {
                        continue;
                    }
                    let masked = !matches!(args.mask, Mask::None);
                    if masked {
                        args.bias((b, h), (i, rows), (j, cols), bias, keys);
                    }
                    P::step(Step {
                        rows,
                        cols,
                        e,
                        ev,
                        ld: keys,
                        scale: args.scale,
                        q: q.add(n * P::ROWS * e),
                        k: kp,
                        v: vp,
                        scores,
                        bias: if masked { bias } else { std::ptr::null() },
                        weights,
                        causal: if args.causal { i as isize - j as isize } else { isize::MAX },
                        sums: sums.add(n * P::ROWS * ev),
                        stats: stats.add(n * P::ROWS * 2),
                    });
                }
            }
            for n in 0..blocks {
                let (h, i, rows) = place(n);
                for r in 0..rows {
                    let (top, sum) =
                        (*stats.add((n * P::ROWS + r) * 2), *stats.add((n * P::ROWS + r) * 2 + 1));
                    args.store_logsumexp(b, h, i + r, top, sum);
                    let (src, dst) = (sums.add((n * P::ROWS + r) * ev), args.out_at(b, h, i + r));
                    let scale = if sum == E::Acc::ZERO { E::Acc::ONE } else { sum };
                    dispatch(Finish { n: args.value_width, src, scale, dst, step: args.out_strides[3] });
                }
            }
        }
    });
}

/// Operands widened to the accumulator, products by register tiles.
pub struct Widened;

impl<E: Elem> Products<E> for Widened
where
    E::Acc: Math,
{
    const ROWS: usize = ROWS;
    fn panel() -> usize {
        blocked::tile_shape::<E::Acc>().1
    }
    fn along(k: usize) -> usize {
        k
    }
    fn weights() -> usize {
        0
    }
    unsafe fn rows(m: usize, k: usize, src: Mat<E>, dst: *mut E::Acc) {
        dispatch(CopyRows { m, k, src, dst });
    }
    unsafe fn panels(k: usize, n: usize, src: Mat<E>, dst: *mut E::Acc) {
        dispatch(Panels { k, n, src, dst });
    }
    unsafe fn step(step: Step<E::Acc>) {
        dispatch(step);
    }
}

struct Panels<E: Elem> {
    k: usize,
    n: usize,
    src: Mat<E>,
    dst: *mut E::Acc,
}
impl<E: Elem> Task for Panels<E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let nr = I::NV * <E::Acc as Float>::Vec::<I>::LANES;
        // SAFETY: `run` made the room.
        unsafe { pack::panels::<I, E>(self.k, self.n, self.src, self.dst, self.k * nr) }
    }
}

/// Divides a row of sums by the sum of its weights.
pub struct Finish<E: Elem> {
    pub n: usize,
    pub src: *const E::Acc,
    pub scale: E::Acc,
    pub dst: *mut E,
    pub step: isize,
}
impl<E: Elem> Task for Finish<E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in (0..self.n).step_by(CHUNK) {
            let count = CHUNK.min(self.n - i);
            // SAFETY: the row holds `n` values.
            unsafe {
                let mut v = load::<I, E::Acc, CHUNK>(self.src.add(i), count, E::Acc::ZERO);
                for x in &mut v {
                    *x = *x / self.scale;
                }
                if self.step == 1 {
                    store::<I, E, CHUNK>(self.dst.add(i), count, &v);
                } else {
                    for j in 0..count {
                        *self.dst.offset((i + j) as isize * self.step) = E::narrow(v[j]);
                    }
                }
            }
        }
    }
}

/// One block of rows against one packed block of keys and values.
pub struct Step<F> {
    pub rows: usize,
    pub cols: usize,
    /// The length of a packed row of queries, and of a row of sums.
    pub e: usize,
    pub ev: usize,
    /// Distance of rows of scores and bias.
    pub ld: usize,
    pub scale: F,
    pub q: *const F,
    pub k: *const F,
    pub v: *const F,
    pub scores: *mut F,
    pub bias: *const F,
    /// Room for the weights, where they are not multiplied as they lie in `scores`.
    pub weights: *mut F,
    /// Row `r` sees columns up to `r + causal`.
    pub causal: isize,
    pub sums: *mut F,
    /// The largest score and the sum of weights of each row.
    pub stats: *mut F,
}

impl<F: Math> Task for Step<F> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let nr = I::NV * F::Vec::<I>::LANES;
        let (rows, cols, e, ev, ld) = (self.rows, self.cols, self.e, self.ev, self.ld);
        // SAFETY: `run` made the room; panels are padded to whole ones.
        unsafe {
            for j in (0..cols).step_by(nr) {
                for i in (0..rows).step_by(I::MR) {
                    let (a, b) = (self.q.add(i * e), self.k.add(j * e));
                    let t = Tile { k: e, a, a_rs: e as isize, a_cs: 1, b, b_rs: nr as isize };
                    let c = MatMut::new(self.scores.add(i * ld + j), ld as isize, 1);
                    tile::<I, F, F>(I::MR.min(rows - i), nr, t, self.scale, F::ZERO, c);
                }
            }
            for r in 0..rows {
                self.weigh::<I>(r);
            }
            for j in (0..ev).step_by(nr) {
                for i in (0..rows).step_by(I::MR) {
                    let (a, b) = (self.scores.add(i * ld), self.v.add(j * cols));
                    let t = Tile { k: cols, a, a_rs: ld as isize, a_cs: 1, b, b_rs: nr as isize };
                    let c = MatMut::new(self.sums.add(i * ev + j), ev as isize, 1);
                    tile::<I, F, F>(I::MR.min(rows - i), nr, t, F::ONE, F::ONE, c);
                }
            }
        }
    }
}

impl<F: Math> Step<F> {
    /// Turns a row of scores into weights and rescales what the row has summed so far.
    #[inline(always)]
    pub unsafe fn weigh<I: Isa>(&self, r: usize) {
        let low = F::NEG_INFINITY;
        let visible = self.causal.saturating_add(r as isize + 1).clamp(0, self.cols as isize) as usize;
        // SAFETY: the caller's contract.
        unsafe {
            let row = self.scores.add(r * self.ld);
            let mut top = [low; CHUNK];
            for j in (0..visible).step_by(CHUNK) {
                let count = CHUNK.min(visible - j);
                let mut v = load::<I, F, CHUNK>(row.add(j), count, low);
                if !self.bias.is_null() {
                    let bias = load::<I, F, CHUNK>(self.bias.add(r * self.ld + j), count, F::ZERO);
                    for c in 0..CHUNK {
                        v[c] += bias[c];
                    }
                    store::<I, F, CHUNK>(row.add(j), count, &v);
                }
                for c in 0..CHUNK {
                    top[c] = if v[c] > top[c] { v[c] } else { top[c] };
                }
            }
            let before = *self.stats.add(2 * r);
            let here = largest(top);
            let top = if here > before { here } else { before };
            // With every key excluded so far all weights are e^-inf = 0, relative to anything finite.
            let base = if top == low { F::ZERO } else { top };
            let mut sum = [F::ZERO; CHUNK];
            for j in (0..self.cols).step_by(CHUNK) {
                let count = CHUNK.min(visible.saturating_sub(j));
                let mut v = load::<I, F, CHUNK>(row.add(j), count, low);
                for c in 0..CHUNK {
                    v[c] = (v[c] - base).exp::<I>();
                    sum[c] += v[c];
                }
                store::<I, F, CHUNK>(row.add(j), CHUNK.min(self.cols - j), &v);
            }
            let shrink = (before - base).exp::<I>();
            *self.stats.add(2 * r) = top;
            let old = *self.stats.add(2 * r + 1);
            *self.stats.add(2 * r + 1) = old * shrink + total(sum);
            if shrink != F::ONE {
                let lanes = F::Vec::<I>::LANES;
                let factor = F::Vec::<I>::splat(shrink);
                let sums = self.sums.add(r * self.ev);
                for j in (0..self.ev).step_by(lanes) {
                    F::Vec::<I>::load(sums.add(j)).mul(factor).store(sums.add(j));
                }
            }
        }
    }
}
