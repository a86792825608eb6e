//! Runs of elements along reduced dimensions: the frame of reductions, scans, sorts and normalisations.

use crate::cpu::parallel;
use crate::dtype::Element;
use crate::ivalue::IntList;
use crate::ops::copy;
use crate::{Complex, Result, Tensor};
use half::{bf16, f16};

/// Runs that are gathered together when their elements alternate in memory.
const BLOCK: usize = 16;
/// Elements that one thread takes at least.
const GRAIN: usize = 32768;

/// Memory that tasks write, each its own part.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);
// SAFETY: every element is written by one task (the contract of `set`).
unsafe impl<T> Send for Out<T> {}
unsafe impl<T> Sync for Out<T> {}

impl<T: Element> Out<T> {
    /// The elements of a contiguous tensor.
    pub fn of(t: &Tensor) -> Out<T> {
        debug_assert!(t.is_contiguous() && t.dtype() == T::DTYPE);
        Out(t.data_ptr() as *mut T)
    }
    /// The elements of a tensor whose memory has no gaps, in the order of memory.
    pub fn of_dense(t: &Tensor) -> Out<T> {
        debug_assert!(t.is_non_overlapping_and_dense() && t.dtype() == T::DTYPE);
        Out(t.data_ptr() as *mut T)
    }
    /// The address of the first element.
    #[inline(always)]
    pub fn pointer(self) -> *const T {
        self.0
    }
    /// The address of element `i`.
    #[inline(always)]
    fn at(self, i: isize) -> *mut T {
        self.0.wrapping_offset(i)
    }
    /// Writes element `i`.
    ///
    /// # Safety
    /// `i` is inside the tensor and belongs to the calling task.
    #[inline(always)]
    pub unsafe fn set(self, i: usize, v: T) {
        // SAFETY: the caller's contract.
        unsafe { self.0.add(i).write(v) }
    }
}

/// The permuted dimensions as an alias: kept ones first.
fn permuted(t: &Tensor, order: &[usize]) -> Tensor {
    let sizes: IntList = order.iter().map(|&d| t.sizes()[d]).collect();
    let strides: IntList = order.iter().map(|&d| t.strides()[d]).collect();
    let p = t.alias_with(sizes, strides, t.storage_offset());
    p.set_key_set(t.key_set());
    p
}

/// Calls `f(i, run)` for each run over the dimensions in `mask` (in row-major order inside the run), numbered in row-major
/// order over the other dimensions. Runs are handed out to threads.
///
/// # Errors
/// Only when memory is exhausted.
pub(crate) fn for_rows<T: Element>(t: &Tensor, mask: u64, f: impl Fn(usize, &[T]) + Sync) -> Result<()> {
    debug_assert!(t.dtype() == T::DTYPE);
    if t.is_conj() || t.is_neg() {
        return for_rows(&copy::contiguous(t)?, mask, f);
    }
    let kept: Vec<usize> = (0..t.dim()).filter(|d| mask & (1 << d) == 0).collect();
    let reduced: Vec<usize> = (0..t.dim()).filter(|d| mask & (1 << d) != 0 && t.sizes()[*d] != 1).collect();
    let (sizes, strides) = (t.sizes(), t.strides());
    let n: usize = (0..t.dim()).filter(|d| mask & (1 << d) != 0).map(|d| sizes[d] as usize).product();
    let count: usize = kept.iter().map(|&d| sizes[d] as usize).product();
    if count == 0 {
        return Ok(());
    }
    if n == 0 {
        (0..count).for_each(|i| f(i, &[]));
        return Ok(());
    }
    let merges = reduced.windows(2).all(|w| strides[w[0]] == strides[w[1]] * sizes[w[1]]);
    if !merges {
        let order: Vec<usize> = kept.iter().chain(&reduced).copied().collect();
        let dense = copy::contiguous(&permuted(t, &order))?;
        let mask = (kept.len()..order.len()).fold(0u64, |m, d| m | (1 << d));
        return for_rows(&dense, mask, f);
    }
    let step = reduced.last().map_or(1, |&d| strides[d]) as isize;
    let base = Out(t.data_ptr() as *mut T);
    // The offset of run i, by its digits over the kept dimensions.
    let offset = |mut i: usize| -> isize {
        let mut at = 0;
        for &d in kept.iter().rev() {
            let s = sizes[d] as usize;
            at += (i % s) as isize * strides[d] as isize;
            i /= s;
        }
        at
    };
    let grain = GRAIN.div_ceil(n);
    if step == 1 || n == 1 {
        parallel::for_range(0, count, grain, |b, e| {
            for i in b..e {
                // SAFETY: a run of n consecutive elements inside the tensor.
                f(i, unsafe { std::slice::from_raw_parts(base.at(offset(i)), n) });
            }
        });
        return Ok(());
    }
    let (width, side) = kept.last().map_or((1, 0), |&d| (sizes[d] as usize, strides[d] as isize));
    let blocks = width.div_ceil(BLOCK);
    parallel::for_range(0, count / width * blocks, grain.div_ceil(BLOCK), |b, e| {
        let mut buf: Vec<T> = Vec::with_capacity(n * BLOCK.min(width));
        for block in b..e {
            let first = block / blocks * width + block % blocks * BLOCK;
            let w = BLOCK.min(width - block % blocks * BLOCK);
            let p = base.at(offset(first));
            let room = buf.as_mut_ptr();
            for j in 0..n {
                for c in 0..w {
                    // SAFETY: elements of run `first + c` inside the tensor; the buffer has room for n * w.
                    unsafe {
                        room.add(c * n + j)
                            .write(p.wrapping_offset(j as isize * step + c as isize * side).read())
                    }
                }
            }
            for c in 0..w {
                // SAFETY: written above.
                f(first + c, unsafe { std::slice::from_raw_parts(room.add(c * n), n) });
            }
        }
    });
    Ok(())
}

/// A real number that kernels compute with in a wider type.
pub(crate) trait Real: Element + PartialOrd {
    fn wide(self) -> f64;
    fn of(x: f64) -> Self;
    fn nan(self) -> bool;
}
macro_rules! real {
    ($($t:ty: $wide:expr, $of:expr, $nan:expr;)*) => {$(impl Real for $t {
        #[inline(always)]
        fn wide(self) -> f64 { $wide(self) }
        #[inline(always)]
        fn of(x: f64) -> Self { $of(x) }
        #[inline(always)]
        fn nan(self) -> bool { $nan(self) }
    })*};
}
real! {
    f32: f64::from, |x| x as f32, f32::is_nan;
    f64: |x| x, |x| x, f64::is_nan;
    f16: |x: f16| f64::from(x.to_f32()), |x| f16::from_f32(x as f32), f16::is_nan;
    bf16: |x: bf16| f64::from(x.to_f32()), |x| bf16::from_f32(x as f32), bf16::is_nan;
    u8: f64::from, |x| x as u8, |_| false;
    i8: f64::from, |x| x as i8, |_| false;
    i16: f64::from, |x| x as i16, |_| false;
    i32: f64::from, |x| x as i32, |_| false;
    i64: |x| x as f64, |x| x as i64, |_| false;
    bool: |x| f64::from(u8::from(x)), |x| x != 0.0, |_| false;
}

/// A number with a sum and a product, accumulated in `A`.
pub(crate) trait Sum: Element {
    type A: Copy;
    const UNIT: Self::A;
    const ZERO: Self::A;
    fn up(self) -> Self::A;
    fn down(a: Self::A) -> Self;
    fn plus(a: Self::A, b: Self::A) -> Self::A;
    fn times(a: Self::A, b: Self::A) -> Self::A;
    fn divide(a: Self::A, n: f64) -> Self::A;
}
macro_rules! sum {
    ($($t:ty as $a:ty: $zero:expr, $one:expr, $up:expr, $down:expr, $add:expr, $mul:expr, $div:expr;)*) => {$(impl Sum for $t {
        type A = $a;
        const ZERO: $a = $zero;
        const UNIT: $a = $one;
        #[inline(always)]
        fn up(self) -> $a { $up(self) }
        #[inline(always)]
        fn down(a: $a) -> Self { $down(a) }
        #[inline(always)]
        fn plus(a: $a, b: $a) -> $a { $add(a, b) }
        #[inline(always)]
        fn times(a: $a, b: $a) -> $a { $mul(a, b) }
        #[inline(always)]
        fn divide(a: $a, n: f64) -> $a { $div(a, n) }
    })*};
}
type C32 = Complex<f32>;
type C64 = Complex<f64>;
sum! {
    f32 as f32: 0.0, 1.0, |x| x, |x| x, |a, b| a + b, |a, b| a * b, |a, n: f64| a / n as f32;
    f64 as f64: 0.0, 1.0, |x| x, |x| x, |a, b| a + b, |a, b| a * b, |a, n| a / n;
    f16 as f32: 0.0, 1.0, f16::to_f32, f16::from_f32, |a, b| a + b, |a, b| a * b, |a, n: f64| a / n as f32;
    bf16 as f32: 0.0, 1.0, bf16::to_f32, bf16::from_f32, |a, b| a + b, |a, b| a * b, |a, n: f64| a / n as f32;
    C32 as C32: C32::new(0.0, 0.0), C32::new(1.0, 0.0), |x| x, |x| x, |a, b| a + b, |a, b| a * b, |a: C32, n: f64| a / n as f32;
    C64 as C64: C64::new(0.0, 0.0), C64::new(1.0, 0.0), |x| x, |x| x, |a, b| a + b, |a, b| a * b, |a: C64, n: f64| a / n;
    u8 as i64: 0, 1, i64::from, |x| x as u8, i64::wrapping_add, i64::wrapping_mul, |a, _| a;
    i8 as i64: 0, 1, i64::from, |x| x as i8, i64::wrapping_add, i64::wrapping_mul, |a, _| a;
    i16 as i64: 0, 1, i64::from, |x| x as i16, i64::wrapping_add, i64::wrapping_mul, |a, _| a;
    i32 as i64: 0, 1, i64::from, |x| x as i32, i64::wrapping_add, i64::wrapping_mul, |a, _| a;
    i64 as i64: 0, 1, |x| x, |x| x, i64::wrapping_add, i64::wrapping_mul, |a, _| a;
    bool as i64: 0, 1, i64::from, |x| x != 0, i64::wrapping_add, i64::wrapping_mul, |a, _| a;
}

/// A pairwise sum: the error grows with the logarithm of the length.
pub(crate) fn sum<T: Sum>(x: &[T]) -> T::A {
    const BASE: usize = 256;
    const LANES: usize = 16;
    if x.len() > BASE {
        let half = (x.len() / 2).next_multiple_of(BASE).min(x.len() - 1);
        return T::plus(sum(&x[..half]), sum(&x[half..]));
    }
    let mut lanes = [T::ZERO; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for c in chunks {
        for (a, v) in lanes.iter_mut().zip(c) {
            *a = T::plus(*a, v.up());
        }
    }
    for (a, v) in lanes.iter_mut().zip(rest) {
        *a = T::plus(*a, v.up());
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = T::plus(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Mean and sum of squared deviations, in double precision.
pub(crate) fn moments<T: Real>(x: &[T]) -> (f64, f64) {
    let n = x.len() as f64;
    // Several sums at a time, so that none waits for the other.
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    for c in x.chunks(LANES) {
        for (s, v) in sums.iter_mut().zip(c) {
            *s += v.wide();
        }
    }
    let mean = sums.iter().sum::<f64>() / n;
    let (mut squares, mut rests) = ([0.0; LANES], [0.0; LANES]);
    for c in x.chunks(LANES) {
        for ((q, r), v) in squares.iter_mut().zip(&mut rests).zip(c) {
            let d = v.wide() - mean;
            *q += d * d;
            *r += d;
        }
    }
    let (m2, rest) = (squares.iter().sum::<f64>(), rests.iter().sum::<f64>());
    // The rounding of the mean is taken out again.
    (mean, m2 - rest * rest / n)
}

/// The position of the first greatest (or, with `least`, least) element; NaN is beyond all.
pub(crate) fn extreme<T: Real>(x: &[T], least: bool) -> usize {
    let mut at = 0;
    for i in 0..x.len() {
        if x[i].nan() {
            return i;
        }
        if if least { x[i] < x[at] } else { x[i] > x[at] } {
            at = i;
        }
    }
    at
}

/// The greatest element, NaN when there is one. The run is not empty.
pub(crate) fn greatest<T: Real>(x: &[T]) -> T {
    fold(x, |a, v| v > a)
}

/// The least element, NaN when there is one. The run is not empty.
pub(crate) fn least<T: Real>(x: &[T]) -> T {
    fold(x, |a, v| v < a)
}

/// The element that `better` prefers to all others, or a NaN.
#[inline(always)]
fn fold<T: Real>(x: &[T], better: impl Fn(T, T) -> bool) -> T {
    let mut best = x[0];
    for v in &x[1..] {
        if best.nan() {
            break;
        }
        if better(best, *v) || v.nan() {
            best = *v;
        }
    }
    best
}
