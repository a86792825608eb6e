//! Scaled dot-product attention, forward, without ever holding the matrix of scores.
//!
//! Keys and values pass by in blocks; every query row keeps the largest score so far, the sum of the exponentials
//! relative to it, and the weighted sum of values, which are rescaled when a larger score appears. Query heads that
//! share a key head are rows of the same task, so that each block of keys is packed once for all of them. A handful of
//! rows, as in decoding, read keys and values where they lie instead.

mod block;
mod decode;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;

use crate::elem::{Elem, Float};
#[cfg(target_arch = "x86_64")]
use crate::gemm;
use crate::gemm::PARALLEL_MIN;
use crate::threads::{get_num_threads, parallel_for};
use crate::vmath::Math;
use block::Products;

/// A four-dimensional array in memory: the strides, in elements, of batch, head, row and column.
#[derive(Clone, Copy, Debug)]
pub struct View<T> {
    pub ptr: *const T,
    pub strides: [isize; 4],
}

impl<T> View<T> {
    #[inline(always)]
    fn at(&self, b: usize, h: usize, i: usize, j: usize) -> *const T {
        let [sb, sh, si, sj] = self.strides;
        self.ptr.wrapping_offset(b as isize * sb + h as isize * sh + i as isize * si + j as isize * sj)
    }
}

/// What is added to the scores.
#[derive(Clone, Copy, Debug)]
pub enum Mask<E: Elem> {
    None,
    /// Zero bytes exclude their key.
    Bool(View<u8>),
    /// Added to the scores.
    Additive(View<E>),
    /// Added to the scores, in the accumulator's type.
    Wide(View<E::Acc>),
}

/// The arguments of [`attention`].
#[derive(Clone, Copy, Debug)]
pub struct Attention<E: Elem> {
    pub batch: usize,
    /// Heads of the queries, a multiple of `kv_heads`: query head `h` uses key head `h / (heads / kv_heads)`.
    pub heads: usize,
    pub kv_heads: usize,
    /// Rows of queries, rows of keys and values.
    pub rows: usize,
    pub keys: usize,
    /// Width of queries and keys, width of values.
    pub width: usize,
    pub value_width: usize,
    pub scale: E::Acc,
    /// Query `i` sees keys up to `i`.
    pub causal: bool,
    pub q: View<E>,
    pub k: View<E>,
    pub v: View<E>,
    pub mask: Mask<E>,
    pub out: *mut E,
    pub out_strides: [isize; 4],
    /// The logarithm of the sum of the exponentials of each row of scores, or null.
    pub logsumexp: *mut E::Acc,
    /// Of batch, head and row.
    pub logsumexp_strides: [isize; 3],
}

// SAFETY: addresses; tasks write different rows.
unsafe impl<E: Elem> Sync for Attention<E> {}

/// Attention of every batch and head. A row whose keys are all excluded gives zeros.
///
/// # Safety
/// Every element that the sizes and strides address must be readable, or writable and apart from the rest for `out`
/// and `logsumexp`.
pub unsafe fn attention<E: Elem>(args: &Attention<E>)
where
    E::Acc: Math,
{
    if args.batch == 0 || args.heads == 0 || args.rows == 0 {
        return;
    }
    let group = args.heads / args.kv_heads;
    let pairs = args.batch * args.kv_heads;
    let in_place = args.k.strides[3] == 1 && args.v.strides[3] == 1;
    let work =
        (args.batch * args.heads * args.rows).saturating_mul(args.keys * (args.width + args.value_width) / 2);
    let threads = if work >= PARALLEL_MIN { get_num_threads() } else { 1 };
    if group * args.rows <= decode::MAX_ROWS && in_place {
        // SAFETY: the caller's contract.
        run(threads, pairs, &|p| unsafe { decode::pair(args, p / args.kv_heads, p % args.kv_heads) });
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if gemm::is::<E, half::bf16>() && gemm::pairs::available() && gemm::pairs::tiles() {
        // SAFETY: the type is what the cast says.
        let args = unsafe { &*std::ptr::from_ref(args).cast::<Attention<half::bf16>>() };
        // SAFETY: the caller's contract.
        return unsafe { in_blocks::<half::bf16, tiles::Tiled>(args, threads) };
    }
    // SAFETY: the caller's contract.
    unsafe { in_blocks::<E, block::Widened>(args, threads) }
}

/// Attention in blocks of rows, shared among threads.
unsafe fn in_blocks<E: Elem, P: Products<E>>(args: &Attention<E>, threads: usize)
where
    E::Acc: Math,
{
    let pairs = args.batch * args.kv_heads;
    let blocks = args.heads / args.kv_heads * args.rows.div_ceil(P::ROWS);
    let mut per_task = blocks.min(block::BLOCKS);
    while threads > 1 && per_task > 1 && pairs * blocks.div_ceil(per_task) < 2 * threads {
        per_task = per_task.div_ceil(2);
    }
    let tasks = blocks.div_ceil(per_task);
    run(threads, pairs * tasks, &|t| {
        let (pair, first) = (t / tasks, t % tasks * per_task);
        let last = (first + per_task).min(blocks);
        // SAFETY: the caller's contract.
        unsafe { block::run::<E, P>(args, pair / args.kv_heads, pair % args.kv_heads, first, last) };
    });
}

fn run(threads: usize, tasks: usize, f: &(dyn Fn(usize) + Sync)) {
    if threads > 1 { parallel_for(tasks, f) } else { (0..tasks).for_each(f) }
}

impl<E: Elem> Attention<E> {
    /// The address of a row of the result.
    fn out_at(&self, b: usize, h: usize, i: usize) -> *mut E {
        let [sb, sh, si, _] = self.out_strides;
        self.out.wrapping_offset(b as isize * sb + h as isize * sh + i as isize * si)
    }

    /// Stores the logarithm of a row's sum `sum` of exponentials relative to `top`.
    unsafe fn store_logsumexp(&self, b: usize, h: usize, i: usize, top: E::Acc, sum: E::Acc) {
        if !self.logsumexp.is_null() {
            let [sb, sh, si] = self.logsumexp_strides;
            let p = self.logsumexp.wrapping_offset(b as isize * sb + h as isize * sh + i as isize * si);
            // A row without keys: zero, as upstream has it.
            let value = if sum == E::Acc::ZERO { E::Acc::ZERO } else { top + Float::ln(sum) };
            // SAFETY: the caller's contract.
            unsafe { *p = value };
        }
    }

    /// Writes what the mask adds to the scores of `rows` × `cols` from query `i`, key `j` on, in rows `ld` apart.
    unsafe fn bias(
        &self,
        (b, h): (usize, usize),
        (i, rows): (usize, usize),
        (j, cols): (usize, usize),
        dst: *mut E::Acc,
        ld: usize,
    ) {
        // SAFETY: the caller's contract.
        unsafe {
            match &self.mask {
                Mask::None => {}
                Mask::Bool(m) => {
                    let add = |x: u8| if x != 0 { E::Acc::ZERO } else { E::Acc::NEG_INFINITY };
                    spread(m.at(b, h, i, j), m.strides, (rows, cols), dst, ld, add);
                }
                Mask::Additive(m) => spread(m.at(b, h, i, j), m.strides, (rows, cols), dst, ld, E::widen),
                Mask::Wide(m) => spread(m.at(b, h, i, j), m.strides, (rows, cols), dst, ld, |x| x),
            }
        }
    }
}

/// Copies a part of a mask, converted.
#[inline]
unsafe fn spread<T: Copy, F>(
    src: *const T,
    strides: [isize; 4],
    (rows, cols): (usize, usize),
    dst: *mut F,
    ld: usize,
    f: impl Fn(T) -> F,
) {
    let [_, _, si, sj] = strides;
    for r in 0..rows {
        let src = src.wrapping_offset(r as isize * si);
        let dst = dst.wrapping_add(r * ld);
        for c in 0..cols {
            // SAFETY: the caller's contract.
            unsafe { *dst.add(c) = f(*src.offset(c as isize * sj)) };
        }
    }
}
