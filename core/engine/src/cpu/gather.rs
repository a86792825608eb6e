//! Moving elements by a table of positions for each dimension: padding, nearest-neighbour scaling.

use crate::cpu::parallel;
use crate::ops::elements::by_size;
use crate::{Result, Tensor};

/// Elements that are worth a thread's while.
const GRAIN: usize = 1 << 15;

/// `out[i, j, …] = x[tables[0][i], tables[1][j], …]`. `out` is fresh, of the tables' lengths and of `x`'s dtype.
///
/// # Errors
/// Only for an element of an unknown size.
pub(crate) fn gather(x: &Tensor, tables: &[Vec<i64>], out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    // The result's memory is written in order.
    let mut order: Vec<usize> = (0..out.dim()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse((out.strides()[d], out.sizes()[d])));
    let offsets: Vec<Vec<i64>> =
        order.iter().map(|&d| tables[d].iter().map(|i| i * x.strides()[d]).collect()).collect();
    let steps: Vec<i64> = order.iter().map(|&d| out.strides()[d]).collect();
    let Some((inner, outer)) = offsets.split_last() else {
        // SAFETY: two single elements.
        unsafe { std::ptr::copy_nonoverlapping(x.data_ptr(), out.data_ptr(), out.itemsize()) };
        return Ok(());
    };
    let step = steps[outer.len()] as isize;
    let rows: usize = outer.iter().map(Vec::len).product();
    let (src, dst) = (x.data_ptr() as usize, out.data_ptr() as usize);
    by_size!(out.itemsize(), T => {
        parallel::for_range(0, rows, GRAIN.div_ceil(inner.len()), |from, to| {
            for row in from..to {
                let (mut rest, mut a, mut b) = (row, 0i64, 0i64);
                for d in (0..outer.len()).rev() {
                    let i = rest % outer[d].len();
                    rest /= outer[d].len();
                    a += outer[d][i];
                    b += i as i64 * steps[d];
                }
                let a = (src as *const T).wrapping_offset(a as isize);
                let b = (dst as *mut T).wrapping_offset(b as isize);
                for (i, o) in inner.iter().enumerate() {
                    // SAFETY: tables hold positions inside `x`; rows are apart from one another.
                    unsafe { *b.wrapping_offset(i as isize * step) = *a.wrapping_offset(*o as isize) };
                }
            }
        });
    });
    Ok(())
}
