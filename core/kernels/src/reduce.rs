//! Sums whose error grows with the logarithm of their length, as upstream's cascade sums do.

use crate::chunk::{load, store, total};
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Task, dispatch};
use crate::scratch;
use crate::threads::{get_num_threads, parallel_for, parallel_ranges};

/// Independent partial sums.
const CHUNK: usize = 64;
/// Elements summed plainly, into `CHUNK` partial sums. Short, because equal elements all err to the same side.
const RUN: usize = 16 * CHUNK;
/// Elements whose runs are summed plainly.
const BLOCK: usize = 4 * RUN;
/// Elements a thread takes at a time. Fixed, so that the result does not depend on the number of threads.
const PIECE: usize = 16 * BLOCK;

/// Combines numbers pairwise as they arrive, like the carries of a binary counter.
struct Cascade<F> {
    levels: [F; 48],
    count: usize,
}

impl<F: Float> Cascade<F> {
    #[inline(always)]
    fn new() -> Self {
        Cascade { levels: [F::ZERO; 48], count: 0 }
    }
    #[inline(always)]
    fn add(&mut self, mut x: F) {
        let mut level = 0;
        while self.count >> level & 1 == 1 {
            x = self.levels[level] + x;
            level += 1;
        }
        self.levels[level] = x;
        self.count += 1;
    }
    #[inline(always)]
    fn finish(self) -> F {
        let mut sum = F::ZERO;
        for level in 0..48 {
            if self.count >> level & 1 == 1 {
                sum = self.levels[level] + sum;
            }
        }
        sum
    }
}

/// The sum of `n` contiguous elements.
///
/// # Safety
/// `x` must be readable for `n` elements.
pub unsafe fn sum<E: Elem>(n: usize, x: *const E) -> E::Acc {
    // SAFETY: the caller's contract.
    unsafe { sum_of::<E, false>(n, x) }
}

/// The sum of the squares of `n` contiguous elements.
///
/// # Safety
/// `x` must be readable for `n` elements.
pub unsafe fn sum_squares<E: Elem>(n: usize, x: *const E) -> E::Acc {
    // SAFETY: the caller's contract.
    unsafe { sum_of::<E, true>(n, x) }
}

unsafe fn sum_of<E: Elem, const SQUARE: bool>(n: usize, x: *const E) -> E::Acc {
    if n <= PIECE {
        return dispatch(Sum::<E, SQUARE> { n, x });
    }
    let pieces = n.div_ceil(PIECE);
    scratch::with(pieces, |parts: *mut E::Acc| {
        let (from, to) = (x as usize, parts as usize);
        let one = |i: usize| {
            let start = i * PIECE;
            // SAFETY: the piece lies within the caller's buffer; each part is written once.
            unsafe {
                let part =
                    dispatch(Sum::<E, SQUARE> { n: PIECE.min(n - start), x: (from as *const E).add(start) });
                *(to as *mut E::Acc).add(i) = part;
            }
        };
        parallel_for(pieces, one);
        let mut cascade = Cascade::new();
        for i in 0..pieces {
            // SAFETY: all were written.
            cascade.add(unsafe { *parts.add(i) });
        }
        cascade.finish()
    })
}

struct Sum<E, const SQUARE: bool> {
    n: usize,
    x: *const E,
}
impl<E: Elem, const SQUARE: bool> Task for Sum<E, SQUARE> {
    type Out = E::Acc;
    #[inline(always)]
    fn run<I: Isa>(self) -> E::Acc {
        let mut cascade = Cascade::new();
        for start in (0..self.n).step_by(BLOCK) {
            let end = (start + BLOCK).min(self.n);
            let mut block = [E::Acc::ZERO; CHUNK];
            for run in (start..end).step_by(RUN) {
                let stop = (run + RUN).min(end);
                let mut sums = [E::Acc::ZERO; CHUNK];
                for i in (run..stop).step_by(CHUNK) {
                    // SAFETY: `sum`'s contract.
                    let v = unsafe { load::<I, E, CHUNK>(self.x.add(i), CHUNK.min(stop - i), E::Acc::ZERO) };
                    for j in 0..CHUNK {
                        sums[j] =
                            if SQUARE { Float::mul_add::<I>(v[j], v[j], sums[j]) } else { sums[j] + v[j] };
                    }
                }
                for j in 0..CHUNK {
                    block[j] += sums[j];
                }
            }
            cascade.add(total(block));
        }
        cascade.finish()
    }
}

/// The sum of each of `rows` rows of `n` contiguous elements, `ld` apart, scaled by `scale`, into `y`.
///
/// # Safety
/// `x` must be readable for the rows and `y` writable for `rows` elements.
pub unsafe fn sum_rows<E: Elem, O: Elem<Acc = E::Acc>>(
    rows: usize,
    n: usize,
    x: *const E,
    ld: usize,
    scale: E::Acc,
    y: *mut O,
) {
    let (from, to) = (x as usize, y as usize);
    let one = |r: usize| {
        // SAFETY: the caller's contract.
        unsafe { *(to as *mut O).add(r) = O::narrow(scale * sum(n, (from as *const E).add(r * ld))) }
    };
    if rows >= get_num_threads() {
        parallel_ranges(rows, PIECE.div_ceil(n.max(1)), |r0, r1| (r0..r1).for_each(one));
    } else {
        (0..rows).for_each(one);
    }
}

/// The sum over the rows of `rows` × `n`, `ld` apart, scaled by `scale`, into the `n` elements of `y`.
///
/// # Safety
/// `x` must be readable for the rows and `y` writable for `n` elements.
pub unsafe fn sum_columns<E: Elem, O: Elem<Acc = E::Acc>>(
    rows: usize,
    n: usize,
    x: *const E,
    ld: usize,
    scale: E::Acc,
    y: *mut O,
) {
    let (from, to) = (x as usize, y as usize);
    parallel_ranges(n.div_ceil(CHUNK), (PIECE / CHUNK).div_ceil(rows.max(1)), |c0, c1| {
        for c in c0..c1 {
            let j = c * CHUNK;
            // SAFETY: the columns lie within the caller's buffers.
            unsafe {
                let (x, y) = ((from as *const E).add(j), (to as *mut O).add(j));
                dispatch(Columns { rows, count: CHUNK.min(n - j), x, ld, scale, y });
            }
        }
    });
}

struct Columns<E: Elem, O> {
    rows: usize,
    count: usize,
    x: *const E,
    ld: usize,
    scale: E::Acc,
    y: *mut O,
}
impl<E: Elem, O: Elem<Acc = E::Acc>> Task for Columns<E, O> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        // Three levels of partial sums keep the error small for up to some hundred thousand rows.
        let mut levels = [[E::Acc::ZERO; CHUNK]; 3];
        for r in 0..self.rows {
            // SAFETY: `sum_columns`'s contract.
            let v = unsafe { load::<I, E, CHUNK>(self.x.add(r * self.ld), self.count, E::Acc::ZERO) };
            for j in 0..CHUNK {
                levels[0][j] += v[j];
            }
            if r % 32 == 31 {
                let full = levels[0];
                levels[0] = [E::Acc::ZERO; CHUNK];
                for j in 0..CHUNK {
                    levels[1][j] += full[j];
                }
            }
            if r % 2048 == 2047 {
                let full = levels[1];
                levels[1] = [E::Acc::ZERO; CHUNK];
                for j in 0..CHUNK {
                    levels[2][j] += full[j];
                }
            }
        }
        for j in 0..self.count {
            let sum = levels[2][j] + levels[1][j] + levels[0][j];
            // SAFETY: `sum_columns`'s contract.
            unsafe { *self.y.add(j) = O::narrow(self.scale * sum) };
        }
    }
}

/// The greatest (or least) of `n` ≥ 1 contiguous elements and where it comes first; a NaN is beyond all.
///
/// # Safety
/// `x` must be readable for `n` elements.
pub unsafe fn extreme<E: Elem>(n: usize, x: *const E, least: bool) -> (E::Acc, usize) {
    let best =
        if least { dispatch(Extreme::<E, true> { n, x }) } else { dispatch(Extreme::<E, false> { n, x }) };
    // SAFETY: the caller's contract.
    let at = |i: usize| unsafe { (*x.add(i)).widen() };
    let found = match best {
        Some(v) => (0..n).find(|i| at(*i) == v),
        None => (0..n).find(|i| at(*i) != at(*i)),
    };
    let place = found.unwrap_or(0);
    (at(place), place)
}

struct Extreme<E, const LEAST: bool> {
    n: usize,
    x: *const E,
}
impl<E: Elem, const LEAST: bool> Task for Extreme<E, LEAST> {
    /// The value, or nothing when there is a NaN.
    type Out = Option<E::Acc>;
    #[allow(clippy::eq_op, reason = "NaN alone differs from itself")]
    #[inline(always)]
    fn run<I: Isa>(self) -> Option<E::Acc> {
        // SAFETY: `extreme`'s contract: there is a first element.
        let first = unsafe { (*self.x).widen() };
        let mut best = [first; CHUNK];
        let mut wrong = [E::Acc::ZERO; CHUNK];
        for i in (0..self.n).step_by(CHUNK) {
            // SAFETY: as above.
            let v = unsafe { load::<I, E, CHUNK>(self.x.add(i), CHUNK.min(self.n - i), first) };
            for j in 0..CHUNK {
                let better = if LEAST { v[j] < best[j] } else { v[j] > best[j] };
                best[j] = if better { v[j] } else { best[j] };
                wrong[j] = if v[j] == v[j] { wrong[j] } else { E::Acc::ONE };
            }
        }
        let mut top = best[0];
        for b in best {
            let better = if LEAST { b < top } else { b > top };
            top = if better { b } else { top };
        }
        (total(wrong) == E::Acc::ZERO).then_some(top)
    }
}

/// The greatest (or least) of each column of `rows` ≥ 1 contiguous rows of `n`, NaN where a column has one, into `y`.
///
/// # Safety
/// `x` must be readable for `rows * n` elements and `y` writable for `n`.
pub unsafe fn extreme_columns<E: Elem>(rows: usize, n: usize, x: *const E, least: bool, y: *mut E) {
    let (from, to) = (x as usize, y as usize);
    parallel_ranges(n.div_ceil(CHUNK), (PIECE / CHUNK).div_ceil(rows.max(1)), |c0, c1| {
        for c in c0..c1 {
            let j = c * CHUNK;
            // SAFETY: the columns lie within the caller's buffers.
            unsafe {
                let (x, y) = ((from as *const E).add(j), (to as *mut E).add(j));
                let count = CHUNK.min(n - j);
                if least {
                    dispatch(ExtremeColumns::<E, true> { rows, count, x, ld: n, y });
                } else {
                    dispatch(ExtremeColumns::<E, false> { rows, count, x, ld: n, y });
                }
            }
        }
    });
}

struct ExtremeColumns<E, const LEAST: bool> {
    rows: usize,
    count: usize,
    x: *const E,
    ld: usize,
    y: *mut E,
}
impl<E: Elem, const LEAST: bool> Task for ExtremeColumns<E, LEAST> {
    type Out = ();
    #[allow(clippy::eq_op, reason = "NaN alone differs from itself")]
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Self { rows, count, x, ld, y } = self;
        // SAFETY: `extreme_columns`' contract.
        unsafe {
            let mut best = load::<I, E, CHUNK>(x, count, E::Acc::ZERO);
            for r in 1..rows {
                let v = load::<I, E, CHUNK>(x.add(r * ld), count, E::Acc::ZERO);
                for j in 0..CHUNK {
                    let better = if LEAST { v[j] < best[j] } else { v[j] > best[j] };
                    let taken = if better || v[j] != v[j] { v[j] } else { best[j] };
                    best[j] = if best[j] != best[j] { best[j] } else { taken };
                }
            }
            store::<I, E, CHUNK>(y, count, &best);
        }
    }
}
