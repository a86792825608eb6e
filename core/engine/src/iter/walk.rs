//! Walking an iteration.

use super::TensorIterator;
use crate::cpu::parallel;
use smallvec::SmallVec;

/// Steps below which an iteration is not split over threads (upstream's `GRAIN_SIZE`).
pub const GRAIN_SIZE: usize = 32768;

/// Data pointers of one run of the inner loop, outputs first.
pub type Ptrs = SmallVec<[*mut u8; 4]>;

/// The inner loop: pointers, byte strides, length.
type Step<'a> = dyn FnMut(&[*mut u8], &[i64], usize) + 'a;

/// Pointers that cross threads: each thread works on its own range.
struct Shared(Ptrs);
// SAFETY: ranges of one iteration do not write the same bytes.
unsafe impl Sync for Shared {}
impl Shared {
    fn get(&self) -> &Ptrs {
        &self.0
    }
}

impl TensorIterator {
    fn base_pointers(&self) -> Ptrs {
        self.operands
            .iter()
            .map(|o| o.tensor.as_ref().map_or(std::ptr::null_mut(), |t| t.data_ptr()))
            .collect()
    }
    /// Byte strides of the fastest dimension, outputs first.
    pub fn inner_strides(&self) -> SmallVec<[i64; 4]> {
        self.operands.iter().map(|o| o.strides[0]).collect()
    }

    /// Runs `f(pointers, byte strides, n)` over all elements, on several threads when there are many.
    pub fn for_each(&self, f: impl Fn(&[*mut u8], &[i64], usize) + Sync) {
        self.for_each_grain(GRAIN_SIZE, f)
    }

    /// As `for_each`, in this thread and in order.
    pub fn serial_for_each(&self, mut f: impl FnMut(&[*mut u8], &[i64], usize)) {
        let n = self.numel() as usize;
        self.range(&self.base_pointers(), 0, n, &mut f)
    }

    /// As `for_each`, split when each thread gets at least `grain` elements.
    pub fn for_each_grain(&self, grain: usize, f: impl Fn(&[*mut u8], &[i64], usize) + Sync) {
        let n = self.numel() as usize;
        if n == 0 {
            return;
        }
        let base = Shared(self.base_pointers());
        if n < grain || parallel::num_threads() == 1 {
            self.range(base.get(), 0, n, &mut |p, s, k| f(p, s, k));
            return;
        }
        parallel::for_range(0, n, grain, |begin, end| {
            self.range(base.get(), begin, end, &mut |p, s, k| f(p, s, k))
        });
    }

    /// Walks the linear range `begin..end` (fastest dimension first).
    fn range(&self, base: &Ptrs, begin: usize, end: usize, f: &mut Step<'_>) {
        if begin >= end {
            return;
        }
        let inner = self.inner_strides();
        let n0 = self.shape[0] as usize;
        if self.shape.len() == 1 {
            let ptrs: Ptrs = base
                .iter()
                .zip(&inner)
                .map(|(p, s)| p.wrapping_offset(begin as isize * *s as isize))
                .collect();
            f(&ptrs, &inner, end - begin);
            return;
        }
        let dims = self.shape.len();
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, dims);
        let mut rest = begin;
        for d in 0..dims {
            index[d] = rest % self.shape[d] as usize;
            rest /= self.shape[d] as usize;
        }
        let mut ptrs: Ptrs = base.clone();
        for (o, p) in self.operands.iter().zip(ptrs.iter_mut()) {
            let off: i64 = (0..dims).map(|d| index[d] as i64 * o.strides[d]).sum();
            *p = p.wrapping_offset(off as isize);
        }
        let mut left = end - begin;
        loop {
            let run = (n0 - index[0]).min(left);
            f(&ptrs, &inner, run);
            left -= run;
            if left == 0 {
                return;
            }
            // Back to the start of the row, then one step in the first dimension that has one left.
            for (o, p) in self.operands.iter().zip(ptrs.iter_mut()) {
                *p = p.wrapping_offset(-(index[0] as isize) * o.strides[0] as isize);
            }
            index[0] = 0;
            for d in 1..dims {
                index[d] += 1;
                let wrapped = index[d] == self.shape[d] as usize;
                for (o, p) in self.operands.iter().zip(ptrs.iter_mut()) {
                    let back = if wrapped { index[d] as isize - 1 } else { 0 };
                    let step = if wrapped { -back } else { 1 };
                    *p = p.wrapping_offset(step * o.strides[d] as isize);
                }
                if !wrapped {
                    break;
                }
                index[d] = 0;
            }
        }
    }
}
