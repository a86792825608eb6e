//! Products of bfloat16 with the instructions of AVX-512 BF16, which multiply two neighbours along `k` at once and add both
//! products to an `f32`. They treat subnormal numbers as zero and round between the two additions, as upstream's
//! products do on the same CPU.
//!
//! Operands are handled as pairs: a `u32` holds elements `2p` and `2p + 1` of a row of `A` or of a column of `B`. Where the
//! CPU has matrix instructions ([`amx`]) the same packed operands, padded to whole tiles, go through those.

use super::{Mat, MatMut, PARALLEL_MIN, amx, skinny};
use crate::elem::Elem;
use crate::isa::{Avx512, F32x16, Level, Vector, level};
use crate::scratch;
use crate::threads::{get_num_threads, parallel_for};
use half::bf16;
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// Rows of the register tile.
const MR: usize = 12;
/// Columns of the register tile: two registers.
pub(crate) const NR: usize = 32;
/// Rows of a tile of `C`: a share of `A` that fits the second-level cache at the usual lengths of `k`.
const MC: usize = 96;
/// Pairs of a packed block of `B`: with the rows of a tile, what the second-level cache holds.
const BLOCK: usize = 96 << 10;
/// Pairs of packed `A` at most; larger products are cut.
const PACKED: usize = 6 << 20;
/// Rows of the matrix that [`dot`] handles at once.
const W_ROWS: usize = 4;

/// Whether this CPU has the instructions and may use them.
pub fn available() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    level() == Level::Avx512
        && *HAS.get_or_init(|| is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw"))
}

/// Whether products go through the matrix instructions.
pub(crate) fn tiles() -> bool {
    #[cfg(test)]
    if WITHOUT_TILES.load(std::sync::atomic::Ordering::Relaxed) {
        return false;
    }
    amx::available()
}

/// Lets tests reach the instructions that a CPU with tiles would not use.
#[cfg(test)]
pub(super) static WITHOUT_TILES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// The pairs that a packed row or panel has for `k` elements.
fn depth(k: usize, tiles: bool) -> usize {
    let pairs = k.div_ceil(2);
    if tiles { pairs.next_multiple_of(amx::DEPTH) } else { pairs }
}

fn run(threads: usize, tasks: usize, f: impl Fn(usize) + Sync) {
    if threads > 1 { parallel_for(tasks, f) } else { (0..tasks).for_each(f) }
}

/// Rows of pairs, not aligned: row `i` starts `i * rs` elements after `ptr`.
#[derive(Clone, Copy)]
pub(crate) struct Pairs {
    pub ptr: *const bf16,
    pub rs: isize,
}
// SAFETY: an address; what is read through it is up to the unsafe functions below.
unsafe impl Sync for Pairs {}

impl Pairs {
    fn from(&self, row: usize) -> Pairs {
        Pairs { ptr: self.ptr.wrapping_offset(row as isize * self.rs), rs: self.rs }
    }
}

/// A pointer that tasks share; each writes its own part.
#[derive(Clone, Copy)]
struct Shared(*mut u32);
// SAFETY: see above.
unsafe impl Sync for Shared {}
impl Shared {
    fn get(&self) -> *mut u32 {
        self.0
    }
}

/// See [`super::gemm`]; any shape, `k` not zero.
///
/// # Safety
/// As for [`super::gemm`], and [`available`].
pub unsafe fn gemm<O: Elem<Acc = f32>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: Mat<bf16>,
    b: Mat<bf16>,
    beta: f32,
    c: MatMut<O>,
) {
    let tiles = tiles();
    let pairs = depth(k, tiles);
    // Rows of whole pairs are read where they lie.
    if a.cs == 1 && k == 2 * pairs {
        // SAFETY: the caller's contract.
        return unsafe { blocks(m, n, k, alpha, Pairs { ptr: a.ptr, rs: a.rs }, b, beta, c, tiles) };
    }
    let chunk = (PACKED / pairs).clamp(1, m);
    for first in (0..m).step_by(chunk) {
        let rows = chunk.min(m - first);
        scratch::with(rows * pairs, |room: *mut u32| {
            let room = Shared(room);
            // SAFETY: room for `rows` rows of pairs, and the caller's contract.
            unsafe {
                for i in 0..rows {
                    pack_row(k, pairs, a.from(first + i, 0), room.get().wrapping_add(i * pairs));
                }
                let packed = Pairs { ptr: room.get().cast(), rs: 2 * pairs as isize };
                blocks(rows, n, k, alpha, packed, b, beta, c.from(first, 0), tiles);
            }
        });
    }
}

/// The product of rows of pairs, in blocks of columns: whoever takes one packs its part of `B`, which then stays in the
/// second-level cache while the rows pass.
unsafe fn blocks<O: Elem<Acc = f32>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: Pairs,
    b: Mat<bf16>,
    beta: f32,
    c: MatMut<O>,
    tiles: bool,
) {
    let pairs = depth(k, tiles);
    let threads = if m.saturating_mul(n).saturating_mul(k) >= PARALLEL_MIN { get_num_threads() } else { 1 };
    let wanted = if threads > 1 { 3 * threads } else { 1 };
    let most = (BLOCK / pairs / NR).max(1) * NR;
    let nc = most.min(n.div_ceil(wanted).next_multiple_of(NR));
    let cols = n.div_ceil(nc);
    // Few columns and many rows: the rows are split too, at the price of packing again.
    let splits = wanted.div_ceil(cols).min(m.div_ceil(4 * MR));
    let mc = m.div_ceil(splits).next_multiple_of(MR);
    let splits = m.div_ceil(mc);
    run(threads, cols * splits, |t| {
        let (first, j) = (t % splits * mc, t / splits * nc);
        let (last, cols) = (m.min(first + mc), nc.min(n - j));
        scratch::with(cols.next_multiple_of(NR) * pairs, |panels: *mut u32| {
            for q in (0..cols).step_by(NR) {
                let to = panels.wrapping_add(q * pairs);
                // SAFETY: the panel has room for NR columns; the columns exist.
                unsafe { pack(k, pairs, NR.min(cols - q), b.from(0, j + q), to) }
            }
            for i in (first..last).step_by(MC) {
                let (rows, a, c) = (MC.min(last - i), a.from(i), c.from(i, j));
                // SAFETY: the caller's contract.
                unsafe {
                    let tile = Tile { rows, cols, pairs, a, b: panels, alpha, beta, c };
                    if tiles { tile.multiply_tiles() } else { tile.multiply() }
                }
            }
        });
    });
}

/// One row of `A` as `pairs` pairs, padded with zeros.
pub(crate) unsafe fn pack_row(k: usize, pairs: usize, src: Mat<bf16>, dst: *mut u32) {
    let bits = |p: usize| {
        // SAFETY: the caller's contract.
        if p < k { unsafe { (*src.at(0, p)).to_bits() as u32 } } else { 0 }
    };
    for p in 0..pairs {
        // SAFETY: the caller's contract.
        unsafe { *dst.add(p) = bits(2 * p) | bits(2 * p + 1) << 16 }
    }
}

/// `cols` columns of `B` as one panel: `dst[p][j]`, padded with zeros to [`NR`] columns and `pairs` rows.
///
/// # Safety
/// `src` must be readable for `k` × `cols`, `dst` writable for a panel; [`available`].
#[target_feature(enable = "avx512f,avx512bw,avx2,fma,f16c,bmi2")]
pub(crate) unsafe fn pack(k: usize, pairs: usize, cols: usize, src: Mat<bf16>, dst: *mut u32) {
    // SAFETY: the caller's contract; whole pairs and whole registers only.
    unsafe {
        let mut done = 0;
        if cols == NR && src.rs == 1 {
            // Columns are contiguous: 16 × 16 pairs are transposed in registers.
            while 2 * (done + 16) <= k {
                for half in [0, 16] {
                    F32x16::transpose(
                        |j| F32x16::load(src.at(2 * done, half + j).cast()),
                        |p, row| row.store(dst.add((done + p) * NR + half).cast()),
                    );
                }
                done += 16;
            }
        } else if cols == NR && src.cs == 1 {
            // Rows are contiguous: two neighbours are interleaved.
            while 2 * (done + 1) <= k {
                for half in [0, 16] {
                    let low = _mm256_loadu_si256(src.at(2 * done, half).cast());
                    let high = _mm256_loadu_si256(src.at(2 * done + 1, half).cast());
                    let (low, high) = (_mm512_cvtepu16_epi32(low), _mm512_cvtepu16_epi32(high));
                    let pair = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
                    _mm512_storeu_si512(dst.add(done * NR + half).cast(), pair);
                }
                done += 1;
            }
        }
        for p in done..pairs {
            for j in 0..NR {
                let bits = |p: usize| {
                    if p < k && j < cols { (*src.at(p, j)).to_bits() as u32 } else { 0 }
                };
                *dst.add(p * NR + j) = bits(2 * p) | bits(2 * p + 1) << 16;
            }
        }
    }
}

/// A tile of `C` with its rows of `A` and panels of `B`.
struct Tile<O> {
    rows: usize,
    cols: usize,
    pairs: usize,
    a: Pairs,
    b: *const u32,
    alpha: f32,
    beta: f32,
    c: MatMut<O>,
}

impl<O: Elem<Acc = f32>> Tile<O> {
    /// # Safety
    /// The fields describe memory; [`available`].
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c,bmi2")]
    unsafe fn multiply(&self) {
        for j in (0..self.cols).step_by(NR) {
            let b = self.b.wrapping_add(j * self.pairs);
            let mut i = 0;
            while i < self.rows {
                // SAFETY: the pieces add up to `rows`.
                i += unsafe {
                    match self.rows - i {
                        MR.. => self.piece::<12>(i, j, b),
                        6..MR => self.piece::<6>(i, j, b),
                        4..6 => self.piece::<4>(i, j, b),
                        2..4 => self.piece::<2>(i, j, b),
                        _ => self.piece::<1>(i, j, b),
                    }
                };
            }
        }
    }

    /// `R` rows against one panel.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c,bmi2")]
    unsafe fn piece<const R: usize>(&self, i: usize, j: usize, b: *const u32) -> usize {
        let mut acc = [[_mm512_setzero_ps(); 2]; R];
        // SAFETY: the caller's contract.
        unsafe {
            let a: *const u32 = self.a.ptr.wrapping_offset(i as isize * self.a.rs).cast();
            for p in 0..self.pairs {
                let low = bf16s(_mm512_loadu_si512(b.add(p * NR).cast()));
                let high = bf16s(_mm512_loadu_si512(b.add(p * NR + 16).cast()));
                for (r, sums) in acc.iter_mut().enumerate() {
                    let pair = a.wrapping_byte_offset(2 * r as isize * self.a.rs).wrapping_add(p);
                    let x = bf16s(_mm512_set1_epi32(pair.read_unaligned() as i32));
                    sums[0] = _mm512_dpbf16_ps(sums[0], x, low);
                    sums[1] = _mm512_dpbf16_ps(sums[1], x, high);
                }
            }
            for (r, sums) in acc.into_iter().enumerate() {
                self.store_row(i + r, j, sums.map(F32x16::from_raw));
            }
        }
        R
    }

    /// The tile by matrix instructions.
    ///
    /// # Safety
    /// The fields describe memory, `pairs` is a multiple of [`amx::DEPTH`]; [`tiles`].
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c,bmi2")]
    unsafe fn multiply_tiles(&self) {
        let whole = self.rows / amx::ROWS * amx::ROWS;
        let rest = self.rows - whole;
        // The last rows are copied to where reading whole tiles is allowed.
        let room = if rest > 0 { amx::ROWS * self.pairs } else { 0 };
        scratch::with(room, |padded: *mut u32| {
            let mut sums = [[0f32; NR]; amx::ROWS];
            // SAFETY: the caller's contract; `padded` holds [`amx::ROWS`] rows when it is read.
            unsafe {
                for r in 0..if rest > 0 { amx::ROWS } else { 0 } {
                    let to = padded.add(r * self.pairs);
                    match r < rest {
                        true => to.copy_from_nonoverlapping(self.a.from(whole + r).ptr.cast(), self.pairs),
                        false => to.write_bytes(0, self.pairs),
                    }
                }
                let tail = Pairs { ptr: padded.cast_const().cast(), rs: 2 * self.pairs as isize };
                let tiles = amx::Config::load();
                for j in (0..self.cols).step_by(NR) {
                    let b = self.b.wrapping_add(j * self.pairs);
                    for i in (0..self.rows).step_by(amx::ROWS) {
                        let a = if i < whole { self.a.from(i) } else { tail };
                        tiles.multiply(a, b, self.pairs, sums.as_mut_ptr().cast(), NR, false);
                        for (r, row) in sums[..amx::ROWS.min(self.rows - i)].iter().enumerate() {
                            let row = [F32x16::load(row.as_ptr()), F32x16::load(row[16..].as_ptr())];
                            self.store_row(i + r, j, row);
                        }
                    }
                }
            }
        });
    }

    /// Stores the sums of one row of a panel.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c,bmi2")]
    unsafe fn store_row(&self, i: usize, j: usize, sums: [F32x16; 2]) {
        let (alpha, beta) = (F32x16::splat(self.alpha), F32x16::splat(self.beta));
        let cols = NR.min(self.cols - j);
        let whole = cols == NR && self.c.cs == 1;
        let mut spill = [0f32; NR];
        // SAFETY: the caller's contract.
        unsafe {
            for (half, sum) in sums.into_iter().enumerate() {
                let sum = sum.mul(alpha);
                let p = self.c.at(i, j + half * 16);
                if !whole {
                    sum.store(spill.as_mut_ptr().add(half * 16));
                } else if self.beta == 0.0 {
                    store(p, sum);
                } else {
                    let old = O::load::<Avx512>(p);
                    store(p, old.mul_add(beta, sum));
                }
            }
            for (col, &x) in spill[..if whole { 0 } else { cols }].iter().enumerate() {
                let p = self.c.at(i, j + col);
                *p = O::narrow(if self.beta == 0.0 { x } else { x + self.beta * (*p).widen() });
            }
        }
    }
}

/// Stores 16 sums, rounded to nearest even; NaN as scalar stores have it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c,bmi2")]
unsafe fn store<O: Elem<Acc = f32>>(p: *mut O, x: F32x16) {
    // SAFETY: the caller's contract.
    unsafe { O::store::<Avx512>(p, x) }
}

/// A register of integers seen as pairs of bfloat16.
#[inline(always)]
fn bf16s(x: __m512i) -> __m512bh {
    // SAFETY: both are 64 plain bytes.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(x) }
}

/// For few rows and `b` contiguous along `k`: each element of C is a dot product, read where it lies.
///
/// # Safety
/// As for [`super::gemm`], with `b.rs` one, and [`available`].
pub unsafe fn dot<O: Elem<Acc = f32>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: Mat<bf16>,
    b: Mat<bf16>,
    beta: f32,
    c: MatMut<O>,
) {
    let in_place = a.cs == 1;
    scratch::with(if in_place { 0 } else { m * k }, |room: *mut bf16| {
        let x = if in_place {
            a
        } else {
            for i in 0..m {
                for p in 0..k {
                    // SAFETY: room for m * k elements.
                    unsafe { *room.add(i * k + p) = *a.at(i, p) }
                }
            }
            Mat::new(room.cast_const(), k as isize, 1)
        };
        skinny::split(n, W_ROWS, m * k, |j0, j1| {
            let task = Dot { m, k, alpha, x, w: b.t(), beta, c };
            // SAFETY: the caller's contract.
            unsafe { task.columns(j0, j1) }
        });
    });
}

struct Dot<O> {
    m: usize,
    k: usize,
    alpha: f32,
    x: Mat<bf16>,
    /// The transposed right operand: row `j` makes column `j` of C.
    w: Mat<bf16>,
    beta: f32,
    c: MatMut<O>,
}

impl<O: Elem<Acc = f32>> Dot<O> {
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c,bmi2")]
    unsafe fn columns(&self, from: usize, to: usize) {
        let mut j = from;
        while j < to {
            let whole = to - j >= W_ROWS;
            let mut i = 0;
            while i < self.m {
                // SAFETY: the caller's contract.
                i += unsafe {
                    match (self.m - i, whole) {
                        (6.., true) => self.tile::<6, 4, 1>(i, j),
                        (4, true) => self.tile::<4, 4, 1>(i, j),
                        (3 | 5, true) => self.tile::<3, 4, 1>(i, j),
                        (2, true) => self.tile::<2, 4, 2>(i, j),
                        (_, true) => self.tile::<1, 4, 2>(i, j),
                        (_, false) => self.tile::<1, 1, 2>(i, j),
                    }
                };
            }
            j += if whole { W_ROWS } else { 1 };
        }
    }

    /// `X` × `W` dot products, each in `U` partial sums of a register.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c,bmi2")]
    unsafe fn tile<const X: usize, const W: usize, const U: usize>(&self, i: usize, j: usize) -> usize {
        let k = self.k;
        let x: [*const bf16; X] = std::array::from_fn(|r| self.x.at(i + r, 0));
        let w: [*const bf16; W] = std::array::from_fn(|r| self.w.at(j + r, 0));
        let ahead = W as isize * self.w.rs;
        let mut acc = [[[_mm512_setzero_ps(); W]; X]; U];
        let mut p = 0;
        // SAFETY: the caller's contract; the last, partial step reads under a mask.
        unsafe {
            while p + U * 32 <= k {
                for u in 0..U {
                    let q = p + u * 32;
                    // All of x stays in registers while w passes through one.
                    let mut xs = [bf16s(_mm512_setzero_si512()); X];
                    for s in 0..X {
                        xs[s] = bf16s(_mm512_loadu_si512(x[s].add(q).cast()));
                    }
                    for r in 0..W {
                        if X == 1 {
                            // Rows are too short for the hardware to see where the next ones are.
                            _mm_prefetch::<_MM_HINT_T0>(w[r].wrapping_offset(ahead).wrapping_add(q).cast());
                        }
                        let row = bf16s(_mm512_loadu_si512(w[r].add(q).cast()));
                        for s in 0..X {
                            acc[u][s][r] = _mm512_dpbf16_ps(acc[u][s][r], xs[s], row);
                        }
                    }
                }
                p += U * 32;
            }
            while p < k {
                let mask = u32::MAX >> (32 - (k - p).min(32));
                for r in 0..W {
                    let row = bf16s(_mm512_maskz_loadu_epi16(mask, w[r].add(p).cast()));
                    for s in 0..X {
                        let part = bf16s(_mm512_maskz_loadu_epi16(mask, x[s].add(p).cast()));
                        acc[0][s][r] = _mm512_dpbf16_ps(acc[0][s][r], part, row);
                    }
                }
                p += 32;
            }
            for s in 0..X {
                let mut total = [F32x16::zero(); W];
                for r in 0..W {
                    total[r] = F32x16::from_raw(acc[0][s][r]);
                    for u in 1..U {
                        total[r] = total[r].add(F32x16::from_raw(acc[u][s][r]));
                    }
                }
                let mut sums = [0f32; W];
                if W == 4 {
                    let four = [total[0], total[1 % W], total[2 % W], total[3 % W]];
                    sums.copy_from_slice(&F32x16::reduce_add4(four)[..W]);
                } else {
                    for r in 0..W {
                        sums[r] = total[r].reduce_add();
                    }
                }
                for (r, sum) in sums.into_iter().enumerate() {
                    let dst = self.c.at(i + s, j + r);
                    let value = self.alpha * sum;
                    *dst =
                        O::narrow(if self.beta == 0.0 { value } else { value + self.beta * (*dst).widen() });
                }
            }
        }
        X
    }
}
