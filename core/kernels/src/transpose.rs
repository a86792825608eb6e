//! Copies between layouts whose contiguous dimensions differ.

use crate::threads::parallel_ranges;

/// Side of the square that is copied at a time: both its rows and its columns fit the first-level cache.
const SIDE: usize = 32;

/// `dst[i * dst_rs + j] = src[i + j * src_cs]` for an element of `size` bytes: copies a matrix stored by columns to one
/// stored by rows. Strides are in elements.
///
/// # Safety
/// `src` must be readable and `dst` writable at those places, and they must not overlap.
pub unsafe fn transpose(
    rows: usize,
    cols: usize,
    size: usize,
    src: *const u8,
    src_cs: isize,
    dst: *mut u8,
    dst_rs: isize,
) {
    // SAFETY: the caller's contract; alignment is not assumed.
    unsafe {
        match size {
            1 => typed::<u8>(rows, cols, src.cast(), src_cs, dst.cast(), dst_rs),
            2 => typed::<[u8; 2]>(rows, cols, src.cast(), src_cs, dst.cast(), dst_rs),
            4 => typed::<[u8; 4]>(rows, cols, src.cast(), src_cs, dst.cast(), dst_rs),
            8 => typed::<[u8; 8]>(rows, cols, src.cast(), src_cs, dst.cast(), dst_rs),
            16 => typed::<[u8; 16]>(rows, cols, src.cast(), src_cs, dst.cast(), dst_rs),
            _ => {
                for i in 0..rows {
                    for j in 0..cols {
                        let from = src.offset((i as isize + j as isize * src_cs) * size as isize);
                        let to = dst.offset((i as isize * dst_rs + j as isize) * size as isize);
                        std::ptr::copy_nonoverlapping(from, to, size);
                    }
                }
            }
        }
    }
}

unsafe fn typed<T: Copy>(rows: usize, cols: usize, src: *const T, src_cs: isize, dst: *mut T, dst_rs: isize) {
    let (from, to) = (src as usize, dst as usize);
    let bands = rows.div_ceil(SIDE);
    parallel_ranges(bands, (32768 / SIDE).div_ceil(cols.max(1)), |b0, b1| {
        let (src, dst) = (from as *const T, to as *mut T);
        for i0 in (b0 * SIDE..(b1 * SIDE).min(rows)).step_by(SIDE) {
            for j0 in (0..cols).step_by(SIDE) {
                let (height, width) = (SIDE.min(rows - i0), SIDE.min(cols - j0));
                // SAFETY: the square lies within the caller's matrices.
                unsafe {
                    let src = src.offset(i0 as isize + j0 as isize * src_cs);
                    let dst = dst.offset(i0 as isize * dst_rs + j0 as isize);
                    if height == SIDE && width == SIDE {
                        square(src, src_cs, dst, dst_rs);
                    } else {
                        for j in 0..width {
                            for i in 0..height {
                                let x = src.offset(i as isize + j as isize * src_cs);
                                *dst.offset(i as isize * dst_rs + j as isize) = *x;
                            }
                        }
                    }
                }
            }
        }
    });
}

/// One whole square, in blocks of eight by eight that stay in registers.
#[inline]
unsafe fn square<T: Copy>(src: *const T, src_cs: isize, dst: *mut T, dst_rs: isize) {
    for i in (0..SIDE as isize).step_by(8) {
        for j in (0..SIDE as isize).step_by(8) {
            // SAFETY: the caller's contract.
            unsafe {
                let src = src.offset(i + j * src_cs);
                let dst = dst.offset(i * dst_rs + j);
                let mut block = [[*src; 8]; 8];
                for q in 0..8 {
                    let column = &*(src.offset(q as isize * src_cs) as *const [T; 8]);
                    for p in 0..8 {
                        block[p][q] = column[p];
                    }
                }
                for p in 0..8 {
                    *(dst.offset(p as isize * dst_rs) as *mut [T; 8]) = block[p];
                }
            }
        }
    }
}
