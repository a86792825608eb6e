//! Interpolation along one dimension: every output position is a weighted sum of a few input positions.

use crate::elem::Float;
use crate::isa::{Isa, Task, dispatch};
use crate::threads::parallel_ranges;

/// Elements written that are worth a thread's while.
const GRAIN: usize = 1 << 13;

/// For each output position its input positions and their weights.
#[derive(Clone, Debug, Default)]
pub struct Taps<W> {
    /// Where each output position's entries start; one more than there are positions.
    pub starts: Vec<usize>,
    pub index: Vec<usize>,
    pub weight: Vec<W>,
}

impl<W> Taps<W> {
    pub fn new() -> Self {
        Taps { starts: vec![0], index: Vec::new(), weight: Vec::new() }
    }
    /// Output positions.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Adds an output position.
    pub fn push(&mut self, taps: impl IntoIterator<Item = (usize, W)>) {
        for (i, w) in taps {
            self.index.push(i);
            self.weight.push(w);
        }
        self.starts.push(self.index.len());
    }
}

/// Addresses shared by threads that write different rows.
#[derive(Clone, Copy)]
struct Ends<T>(*const T, *mut T);
// SAFETY: see above.
unsafe impl<T> Sync for Ends<T> {}
impl<T> Ends<T> {
    fn at(&self, a: usize, b: usize) -> (*const T, *mut T) {
        (self.0.wrapping_add(a), self.1.wrapping_add(b))
    }
}

/// Interpolates the middle dimension of an `outer` × `n` × `inner` array into `outer` × `taps.len()` × `inner`.
pub fn resample<F: Float>(x: &[F], outer: usize, n: usize, inner: usize, taps: &Taps<F>, y: &mut [F]) {
    let m = taps.len();
    assert!(
        x.len() == outer * n * inner && y.len() == outer * m * inner && taps.index.iter().all(|i| *i < n)
    );
    let ends = Ends(x.as_ptr(), y.as_mut_ptr());
    if inner == 1 {
        parallel_ranges(outer, GRAIN.div_ceil(m.max(1)), |from, to| {
            for o in from..to {
                let (x, y) = ends.at(o * n, o * m);
                dispatch(Line { x, y, taps });
            }
        });
        return;
    }
    parallel_ranges(outer * m, GRAIN.div_ceil(inner.max(1)), |from, to| {
        for row in from..to {
            let (o, j) = (row / m, row % m);
            let (x, y) = ends.at(o * n * inner, row * inner);
            let range = taps.starts[j]..taps.starts[j + 1];
            // SAFETY: the slices were measured above; rows are apart.
            dispatch(Row { x, y, inner, index: &taps.index[range.clone()], weight: &taps.weight[range] });
        }
    });
}

struct Row<'a, F> {
    x: *const F,
    y: *mut F,
    inner: usize,
    index: &'a [usize],
    weight: &'a [F],
}

impl<F: Float> Task for Row<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        // SAFETY: `resample` checked positions and lengths.
        unsafe {
            let out = std::slice::from_raw_parts_mut(self.y, self.inner);
            out.fill(F::ZERO);
            for (i, w) in self.index.iter().zip(self.weight) {
                let row = std::slice::from_raw_parts(self.x.add(*i * self.inner), self.inner);
                for (o, v) in out.iter_mut().zip(row) {
                    *o += *w * *v;
                }
            }
        }
    }
}

/// All output positions of a line of single elements.
struct Line<'a, F> {
    x: *const F,
    y: *mut F,
    taps: &'a Taps<F>,
}

impl<F: Float> Task for Line<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let t = self.taps;
        let mut k = 0;
        for (j, end) in t.starts[1..].iter().enumerate() {
            let mut sum = F::ZERO;
            // SAFETY: `resample` checked positions and lengths.
            unsafe {
                while k < *end {
                    sum += *t.weight.get_unchecked(k) * *self.x.add(*t.index.get_unchecked(k));
                    k += 1;
                }
                *self.y.add(j) = sum;
            }
        }
    }
}

/// [`resample`] of bytes by fixed-point weights: sums are rounded at bit `precision` and clamped.
pub fn resample_bytes(
    x: &[u8],
    outer: usize,
    n: usize,
    inner: usize,
    taps: &Taps<i32>,
    precision: u32,
    y: &mut [u8],
) {
    let m = taps.len();
    assert!(
        x.len() == outer * n * inner && y.len() == outer * m * inner && taps.index.iter().all(|i| *i < n)
    );
    let ends = Ends(x.as_ptr(), y.as_mut_ptr());
    parallel_ranges(outer * m, GRAIN.div_ceil(inner.max(1)), |from, to| {
        for row in from..to {
            let (o, j) = (row / m, row % m);
            let (x, y) = ends.at(o * n * inner, row * inner);
            let range = taps.starts[j]..taps.starts[j + 1];
            let (index, weight) = (&taps.index[range.clone()], &taps.weight[range]);
            for c in 0..inner {
                let mut sum = if precision > 0 { 1i32 << (precision - 1) } else { 0 };
                // SAFETY: as above.
                unsafe {
                    for (i, w) in index.iter().zip(weight) {
                        sum += *w * i32::from(*x.add(*i * inner + c));
                    }
                    *y.add(c) = (sum >> precision).clamp(0, 255) as u8;
                }
            }
        }
    });
}
