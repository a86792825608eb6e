//! A few query rows: keys and values are read once, where they lie.

use super::{Attention, Mask};
use crate::chunk::{largest, load, store, total};
use crate::elem::{Elem, Float};
use crate::gemm::{Mat, MatMut, skinny};
use crate::isa::{Isa, Task, dispatch};
use crate::scratch;
use crate::vmath::Math;

/// Most rows, over all heads that share keys, that are better off this way.
pub const MAX_ROWS: usize = skinny::MAX_AXPY_ROWS;
const CHUNK: usize = 64;

/// All query rows that use key head `kv`; keys and values must be contiguous along their width.
pub unsafe fn pair<E: Elem>(args: &Attention<E>, b: usize, kv: usize)
where
    E::Acc: Math,
{
    let group = args.heads / args.kv_heads;
    let (rows, n, zero) = (group * args.rows, args.keys, E::Acc::ZERO);
    let sizes = [rows * args.width, rows * n, n, rows * args.value_width];
    scratch::with(sizes.iter().sum(), |room: *mut E::Acc| {
        // SAFETY: the room is cut to these sizes; the operands are the caller's contract.
        unsafe {
            let (q, scores) = (room, room.add(sizes[0]));
            let (bias, sums) = (scores.add(sizes[1]), scores.add(sizes[1] + sizes[2]));
            for r in 0..rows {
                for c in 0..args.width {
                    let x = args.q.at(b, kv * group + r / args.rows, r % args.rows, c);
                    *q.add(r * args.width + c) = (*x).widen();
                }
            }
            let k = Mat::new(args.k.at(b, kv, 0, 0), 1, args.k.strides[2]);
            let (q, s) =
                (Mat::new(q.cast_const(), args.width as isize, 1), MatMut::new(scores, n as isize, 1));
            skinny::dot::<E::Acc, E, E::Acc>(rows, n, args.width, args.scale, q, k, zero, s);
            for r in 0..rows {
                let (h, i) = (kv * group + r / args.rows, r % args.rows);
                let visible = if args.causal { n.min(i + 1) } else { n };
                let masked = !matches!(args.mask, Mask::None);
                if masked {
                    args.bias((b, h), (i, 1), (0, visible), bias, n);
                }
                let bias = if masked { bias.cast_const() } else { std::ptr::null() };
                let (top, sum) = dispatch(Weigh { n, visible, scores: scores.add(r * n), bias });
                args.store_logsumexp(b, h, i, top, sum);
            }
            let v = Mat::new(args.v.at(b, kv, 0, 0), args.v.strides[2], 1);
            let width = args.value_width as isize;
            let p = Mat::new(scores.cast_const(), n as isize, 1);
            let o = MatMut::new(sums, width, 1);
            skinny::axpy::<E::Acc, E, E::Acc>(rows, args.value_width, n, E::Acc::ONE, p, v, zero, o);
            for r in 0..rows {
                let dst = args.out_at(b, kv * group + r / args.rows, r % args.rows);
                for c in 0..args.value_width {
                    *dst.offset(c as isize * args.out_strides[3]) = E::narrow(*o.at(r, c));
                }
            }
        }
    });
}

/// Softmax of one row of scores in place; returns the largest score and the sum of exponentials.
struct Weigh<F> {
    n: usize,
    visible: usize,
    scores: *mut F,
    bias: *const F,
}
impl<F: Math> Task for Weigh<F> {
    type Out = (F, F);
    #[inline(always)]
    fn run<I: Isa>(self) -> (F, F) {
        let Weigh { n, visible, scores, bias } = self;
        let low = F::NEG_INFINITY;
        // SAFETY: both rows hold `n` values.
        unsafe {
            let mut top = [low; CHUNK];
            for j in (0..visible).step_by(CHUNK) {
                let count = CHUNK.min(visible - j);
                let mut v = load::<I, F, CHUNK>(scores.add(j), count, low);
                if !bias.is_null() {
                    let b = load::<I, F, CHUNK>(bias.add(j), count, F::ZERO);
                    for c in 0..CHUNK {
                        v[c] += b[c];
                    }
                    store::<I, F, CHUNK>(scores.add(j), count, &v);
                }
                for c in 0..CHUNK {
                    top[c] = if v[c] > top[c] { v[c] } else { top[c] };
                }
            }
            let top = largest(top);
            let base = if top == low { F::ZERO } else { top };
            let mut sums = [F::ZERO; CHUNK];
            for j in (0..n).step_by(CHUNK) {
                let count = CHUNK.min(visible.saturating_sub(j));
                let mut v = load::<I, F, CHUNK>(scores.add(j), count, low);
                for c in 0..CHUNK {
                    v[c] = (v[c] - base).exp::<I>();
                    sums[c] += v[c];
                }
                store::<I, F, CHUNK>(scores.add(j), CHUNK.min(n - j), &v);
            }
            let sum = total(sums);
            let scale = F::ONE / if sum == F::ZERO { F::ONE } else { sum };
            for j in (0..n).step_by(CHUNK) {
                let count = CHUNK.min(n - j);
                let mut v = load::<I, F, CHUNK>(scores.add(j), count, F::ZERO);
                for c in 0..CHUNK {
                    v[c] = v[c] * scale;
                }
                store::<I, F, CHUNK>(scores.add(j), count, &v);
            }
            (top, sum)
        }
    }
}
