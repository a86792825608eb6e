//! Lines along one dimension, read and written: the frame of scans, sorts and selections, whose results lie along the
//! same dimension as what they read.

use crate::cpu::parallel;
use crate::dtype::Element;
use crate::ivalue::IntList;
use crate::ops::copy;
use crate::{Result, Tensor};

/// Lines that are gathered together when their elements alternate in memory.
const BLOCK: usize = 16;
/// Elements that one thread takes at least.
const GRAIN: usize = 16384;

/// The elements of a tensor along one dimension.
struct Side {
    base: usize,
    len: usize,
    step: isize,
    /// Strides over the other dimensions.
    strides: IntList,
}

impl Side {
    fn new(t: &Tensor, dim: usize) -> Side {
        let strides = (0..t.dim()).filter(|d| *d != dim).map(|d| t.strides()[d]).collect();
        Side {
            base: t.data_ptr() as usize,
            len: t.sizes()[dim] as usize,
            step: t.strides()[dim] as isize,
            strides,
        }
    }
    /// Where line `i` begins.
    fn at<T>(&self, sizes: &[i64], mut i: usize) -> *mut T {
        let mut offset = 0;
        for (n, s) in sizes.iter().zip(&self.strides).rev() {
            offset += (i % *n as usize) as isize * *s as isize;
            i /= *n as usize;
        }
        (self.base as *mut T).wrapping_offset(offset)
    }
    fn dense(&self) -> bool {
        self.step == 1 || self.len <= 1
    }
}

/// A zeroed buffer.
fn room<T: Element>(n: usize) -> Vec<T> {
    let mut v = Vec::<T>::with_capacity(n);
    // SAFETY: zero bytes are a valid value of every element type; the capacity is there.
    unsafe {
        std::ptr::write_bytes(v.as_mut_ptr(), 0, n);
        v.set_len(n);
    }
    v
}

/// A line as a slice: in place when it is dense, from `buf` else.
///
/// # Safety
/// `p` begins a line of `side` inside its tensor.
unsafe fn read<'a, T: Element>(side: &Side, p: *mut T, buf: &'a mut [T]) -> &'a [T] {
    if side.len == 0 {
        return &[];
    }
    if side.dense() {
        // SAFETY: the caller's contract.
        return unsafe { std::slice::from_raw_parts(p, side.len) };
    }
    for (i, b) in buf.iter_mut().enumerate() {
        // SAFETY: as above.
        *b = unsafe { p.wrapping_offset(i as isize * side.step).read() };
    }
    buf
}

/// The slice that a line's results go to: the line itself when it is dense, `buf` else.
///
/// # Safety
/// As `read`, and nobody else uses the line.
unsafe fn target<'a, T: Element>(side: &Side, p: *mut T, buf: &'a mut [T]) -> &'a mut [T] {
    if side.len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's contract.
    if side.dense() { unsafe { std::slice::from_raw_parts_mut(p, side.len) } } else { buf }
}

/// Writes a buffered line to its place.
///
/// # Safety
/// As `target`.
unsafe fn put_back<T: Element>(side: &Side, p: *mut T, buf: &[T]) {
    if !side.dense() {
        for (i, b) in buf.iter().enumerate() {
            // SAFETY: the caller's contract.
            unsafe { p.wrapping_offset(i as isize * side.step).write(*b) }
        }
    }
}

/// Gathers `w` neighbouring lines into rows of `buf`.
///
/// # Safety
/// The lines that begin at `p`, `p + step`, … are inside the tensor.
unsafe fn gather<T: Element>(side: &Side, p: *mut T, step: isize, w: usize, buf: &mut [T]) {
    for j in 0..side.len {
        for c in 0..w {
            // SAFETY: the caller's contract.
            buf[c * side.len + j] =
                unsafe { p.wrapping_offset(j as isize * side.step + c as isize * step).read() };
        }
    }
}

/// Writes rows of `buf` to `w` neighbouring lines.
///
/// # Safety
/// As `gather`, and nobody else uses the lines.
unsafe fn scatter<T: Element>(side: &Side, p: *mut T, step: isize, w: usize, buf: &[T]) {
    for j in 0..side.len {
        for c in 0..w {
            // SAFETY: the caller's contract.
            unsafe {
                p.wrapping_offset(j as isize * side.step + c as isize * step).write(buf[c * side.len + j]);
            }
        }
    }
}

/// Calls `f(line, a, b)` for every line of `t` along `dim`, where `a` and `b` are the lines of the outputs at the same
/// place; their sizes along `dim` may differ from `t`'s, the other sizes are the same. Lines are handed out to threads.
///
/// # Errors
/// Only when memory is exhausted.
pub(crate) fn map2<T: Element, A: Element, B: Element>(
    t: &Tensor,
    dim: usize,
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(&[T], &mut [A], &mut [B]) + Sync,
) -> Result<()> {
    debug_assert!(t.dtype() == T::DTYPE && a.dtype() == A::DTYPE && b.dtype() == B::DTYPE);
    if t.is_conj() || t.is_neg() {
        return map2(&copy::contiguous(t)?, dim, a, b, f);
    }
    let sizes: IntList = (0..t.dim()).filter(|d| *d != dim).map(|d| t.sizes()[d]).collect();
    let count: usize = sizes.iter().product::<i64>() as usize;
    if count == 0 {
        return Ok(());
    }
    let (ts, aa, bb) = (Side::new(t, dim), Side::new(a, dim), Side::new(b, dim));
    let most = ts.len.max(aa.len).max(bb.len).max(1);
    let grain = GRAIN.div_ceil(most);
    if sizes.is_empty() || (ts.dense() && aa.dense() && bb.dense()) {
        parallel::for_range(0, count, grain, |first, end| {
            let mut bufs = (room(ts.len), room(aa.len), room(bb.len));
            for i in first..end {
                let (p, pa, pb) = (ts.at(&sizes, i), aa.at(&sizes, i), bb.at(&sizes, i));
                // SAFETY: lines inside the tensors; each output line belongs to this task.
                unsafe {
                    f(read(&ts, p, &mut bufs.0), target(&aa, pa, &mut bufs.1), target(&bb, pb, &mut bufs.2));
                    put_back(&aa, pa, &bufs.1);
                    put_back(&bb, pb, &bufs.2);
                }
            }
        });
        return Ok(());
    }
    let width = sizes[sizes.len() - 1] as usize;
    let steps = [&ts, &aa, &bb].map(|s| s.strides[s.strides.len() - 1] as isize);
    let blocks = width.div_ceil(BLOCK);
    parallel::for_range(0, count / width * blocks, grain.div_ceil(BLOCK), |first, end| {
        let w = BLOCK.min(width);
        let mut bufs = (room::<T>(ts.len * w), room::<A>(aa.len * w), room::<B>(bb.len * w));
        for block in first..end {
            let line = block / blocks * width + block % blocks * BLOCK;
            let w = BLOCK.min(width - block % blocks * BLOCK);
            let (p, pa, pb) = (ts.at(&sizes, line), aa.at(&sizes, line), bb.at(&sizes, line));
            // SAFETY: lines inside the tensors; each output line belongs to this task.
            unsafe { gather(&ts, p, steps[0], w, &mut bufs.0) };
            for c in 0..w {
                f(
                    &bufs.0[c * ts.len..(c + 1) * ts.len],
                    &mut bufs.1[c * aa.len..(c + 1) * aa.len],
                    &mut bufs.2[c * bb.len..(c + 1) * bb.len],
                );
            }
            // SAFETY: as above.
            unsafe {
                scatter(&aa, pa, steps[1], w, &bufs.1);
                scatter(&bb, pb, steps[2], w, &bufs.2);
            }
        }
    });
    Ok(())
}

/// [`map2`] with one output.
///
/// # Errors
/// Only when memory is exhausted.
pub(crate) fn map<T: Element, A: Element>(
    t: &Tensor,
    dim: usize,
    a: &Tensor,
    f: impl Fn(&[T], &mut [A]) + Sync,
) -> Result<()> {
    // A second output without elements along the dimension.
    let mut sizes = IntList::from_slice(a.sizes());
    sizes[dim] = 0;
    let none = a.alias_with(sizes, IntList::from_slice(a.strides()), a.storage_offset());
    map2::<T, A, A>(t, dim, a, &none, |x, a, _| f(x, a))
}
