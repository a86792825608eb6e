//! Walking strided tensors and moving elements by size alone.

use crate::ivalue::IntList;
use crate::{DType, Result, Tensor, check};

/// Binds `$T` to a plain type of the given size, for moves that do not look at the value.
macro_rules! by_size {
    ($size:expr, $T:ident => $body:expr) => {
        match $size {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            16 => {
                type $T = [u64; 2];
                $body
            }
            n => crate::bail!(Internal, "an element of {n} bytes"),
        }
    };
}
pub(crate) use by_size;

/// Offsets, in elements, of every position of a strided region in row-major order.
pub(crate) fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<i64> {
    let mut out = vec![0i64];
    for (n, st) in sizes.iter().zip(strides) {
        let mut next = Vec::with_capacity(out.len() * *n as usize);
        for base in &out {
            next.extend((0..*n).map(|i| base + i * st));
        }
        out = next;
    }
    out
}

/// Calls `f` with the offsets of every row of a shape: all positions of the dimensions other than `dim`, for several
/// tensors' strides at once.
pub(crate) fn rows<const N: usize>(
    sizes: &[i64],
    strides: [&[i64]; N],
    dim: usize,
    mut f: impl FnMut([i64; N]),
) {
    let dims: Vec<usize> = (0..sizes.len()).filter(|d| *d != dim).collect();
    if dims.iter().any(|d| sizes[*d] == 0) {
        return;
    }
    let mut index = IntList::from_elem(0, dims.len());
    let mut at = [0i64; N];
    loop {
        f(at);
        let mut k = dims.len();
        loop {
            if k == 0 {
                return;
            }
            k -= 1;
            let d = dims[k];
            index[k] += 1;
            for (a, s) in at.iter_mut().zip(&strides) {
                *a += s[d];
            }
            if index[k] < sizes[d] {
                break;
            }
            for (a, s) in at.iter_mut().zip(&strides) {
                *a -= s[d] * sizes[d];
            }
            index[k] = 0;
        }
    }
}

/// The values of an index tensor as int64, row-major.
///
/// # Errors
/// A dtype other than int64 and int32 (the caller has its own message for that).
pub(crate) fn index_values(t: &Tensor) -> Result<Vec<i64>> {
    check!(t.dtype().is_integral(false), "an index of dtype {}", t.dtype());
    let t = super::copy::contiguous(&super::copy::convert(t, DType::Long)?)?;
    // SAFETY: a contiguous tensor of int64.
    Ok(unsafe { t.as_slice::<i64>() }.to_vec())
}

/// Sizes and strides with one dimension at least, as upstream's kernels treat 0-d tensors.
pub(crate) fn at_least_1d(t: &Tensor) -> Tensor {
    if t.dim() > 0 {
        return t.clone();
    }
    t.alias_with(IntList::from_slice(&[1]), IntList::from_slice(&[1]), t.storage_offset())
}
