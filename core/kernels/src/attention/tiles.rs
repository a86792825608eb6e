//! Attention in bfloat16 with matrix instructions: scores are sums of products of pairs, and the weights are rounded to
//! bfloat16 before they meet the values, as upstream's kernel rounds them.

use super::block::{CHUNK, KEYS, Products, Step};
use crate::chunk::{load, store};
use crate::gemm::Mat;
use crate::gemm::amx::{self, Config};
use crate::gemm::pairs::{NR, Pairs, pack, pack_row};
use crate::isa::{Isa, Task, dispatch};
use half::bf16;

/// Operands packed as pairs. To be used only where [`crate::gemm::pairs::tiles`] holds.
pub struct Tiled;

impl Products<bf16> for Tiled {
    const ROWS: usize = 2 * amx::ROWS;
    fn panel() -> usize {
        NR
    }
    fn along(k: usize) -> usize {
        k.div_ceil(2).next_multiple_of(amx::DEPTH)
    }
    fn weights() -> usize {
        Self::ROWS * Self::along(KEYS)
    }
    unsafe fn rows(m: usize, k: usize, src: Mat<bf16>, dst: *mut f32) {
        let pairs = Self::along(k);
        for i in 0..Self::ROWS {
            let to = dst.wrapping_add(i * pairs).cast::<u32>();
            // SAFETY: the caller's contract. Rows that are not there are zeros: whole tiles are read.
            unsafe {
                match i < m {
                    true if src.cs == 1 && k == 2 * pairs => {
                        to.cast::<bf16>().copy_from_nonoverlapping(src.at(i, 0), k);
                    }
                    true => pack_row(k, pairs, src.from(i, 0), to),
                    false => to.write_bytes(0, pairs),
                }
            }
        }
    }
    unsafe fn panels(k: usize, n: usize, src: Mat<bf16>, dst: *mut f32) {
        let pairs = Self::along(k);
        for j in (0..n).step_by(NR) {
            let to = dst.wrapping_add(j * pairs).cast();
            // SAFETY: the caller's contract.
            unsafe { pack(k, pairs, NR.min(n - j), src.from(0, j), to) }
        }
    }
    unsafe fn step(step: Step<f32>) {
        dispatch(TiledStep(step));
    }
}

struct TiledStep(Step<f32>);

impl Task for TiledStep {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let step = self.0;
        let (rows, cols, ld) = (step.rows.next_multiple_of(amx::ROWS), step.cols, step.ld);
        let pairs = Tiled::along(cols);
        // SAFETY: `block::run` made the room; rows and panels are padded to whole tiles.
        unsafe {
            let tiles = Config::load();
            for i in (0..rows).step_by(amx::ROWS) {
                let a = Pairs { ptr: step.q.add(i * step.e).cast(), rs: 2 * step.e as isize };
                for j in (0..cols).step_by(NR) {
                    let (b, c) = (step.k.add(j * step.e).cast(), step.scores.add(i * ld + j));
                    tiles.multiply(a, b, step.e, c, ld, false);
                }
            }
            for r in 0..step.rows {
                let row = step.scores.add(r * ld);
                for j in (0..cols).step_by(CHUNK) {
                    let count = CHUNK.min(cols - j);
                    let mut v = load::<I, f32, CHUNK>(row.add(j), count, 0.0);
                    for x in &mut v {
                        *x *= step.scale;
                    }
                    store::<I, f32, CHUNK>(row.add(j), count, &v);
                }
                step.weigh::<I>(r);
                let weights = step.weights.add(r * pairs).cast::<bf16>();
                for j in (0..2 * pairs).step_by(CHUNK) {
                    let v = load::<I, f32, CHUNK>(row.add(j), CHUNK.min(cols.saturating_sub(j)), 0.0);
                    store::<I, bf16, CHUNK>(weights.add(j), CHUNK, &v);
                }
            }
            step.weights.add(step.rows * pairs).write_bytes(0, (rows - step.rows) * pairs);
            for i in (0..rows).step_by(amx::ROWS) {
                let a = Pairs { ptr: step.weights.add(i * pairs).cast(), rs: 2 * pairs as isize };
                for j in (0..step.ev).step_by(NR) {
                    let (b, c) = (step.v.add(j * pairs).cast(), step.sums.add(i * step.ev + j));
                    tiles.multiply(a, b, pairs, c, step.ev, true);
                }
            }
        }
    }
}
