//! Sizes and strides: contiguity, broadcasting, dimension wrapping, view strides.

use crate::ivalue::IntList;
use crate::{MemoryFormat, Result, bail, check};

/// Row-major strides (zero-size dimensions count as one, as upstream's).
pub fn contiguous_strides(sizes: &[i64]) -> IntList {
    let mut strides = IntList::from_elem(1, sizes.len());
    let mut acc = 1i64;
    for i in (0..sizes.len()).rev() {
        strides[i] = acc;
        acc = acc.wrapping_mul(sizes[i].max(1));
    }
    strides
}

/// Row-major strides of a tensor that is made or viewed.
///
/// # Errors
/// A stride that does not fit 64 bits.
pub fn checked_contiguous_strides(sizes: &[i64]) -> Result<IntList> {
    let fits = sizes.iter().skip(1).rev().try_fold(1i64, |acc, s| acc.checked_mul((*s).max(1)));
    check!(fits.is_some(), "Stride calculation overflowed");
    Ok(contiguous_strides(sizes))
}

/// Strides of a channels-last tensor of 4 (NCHW) or 5 (NCDHW) dimensions.
pub fn channels_last_strides(sizes: &[i64]) -> IntList {
    let mut strides = IntList::from_elem(1, sizes.len());
    let mut acc = 1;
    let order: &[usize] = if sizes.len() == 5 { &[1, 4, 3, 2, 0] } else { &[1, 3, 2, 0] };
    for &d in order {
        strides[d] = acc;
        acc *= sizes[d].max(1);
    }
    strides
}

/// The strides of a new tensor of a memory format.
///
/// # Errors
/// When the format does not fit the number of dimensions.
pub fn strides_for(sizes: &[i64], format: MemoryFormat) -> Result<IntList> {
    match format {
        MemoryFormat::Contiguous => checked_contiguous_strides(sizes),
        MemoryFormat::ChannelsLast => {
            check!(sizes.len() == 4, "required rank 4 tensor to use channels_last format");
            Ok(channels_last_strides(sizes))
        }
        MemoryFormat::ChannelsLast3d => {
            check!(sizes.len() == 5, "required rank 5 tensor to use channels_last_3d format");
            Ok(channels_last_strides(sizes))
        }
        MemoryFormat::Preserve => bail!(Runtime, "unsupported memory format option Preserve"),
    }
}

pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    for i in (0..sizes.len()).rev() {
        if sizes[i] == 0 {
            return true;
        }
        if sizes[i] != 1 {
            if strides[i] != expected {
                return sizes.contains(&0);
            }
            expected *= sizes[i];
        }
    }
    true
}

/// Exactly channels-last contiguous, for `rank` 4 or 5.
pub fn is_channels_last_contiguous(sizes: &[i64], strides: &[i64], rank: usize) -> bool {
    if sizes.len() != rank {
        return false;
    }
    if sizes.contains(&0) {
        return true;
    }
    let order: &[usize] = if rank == 5 { &[1, 4, 3, 2, 0] } else { &[1, 3, 2, 0] };
    let mut expected = 1;
    for &d in order {
        if sizes[d] != 1 {
            if strides[d] != expected {
                return false;
            }
            expected *= sizes[d];
        }
    }
    true
}

/// Whether the strides are in channels-last order (`is_channels_last_strides_{2d,3d}`), even if not dense.
pub fn is_channels_last_strides(sizes: &[i64], strides: &[i64], rank: usize) -> bool {
    if sizes.len() != rank || strides[1] == 0 {
        return false;
    }
    let order: &[usize] = if rank == 5 { &[1, 4, 3, 2, 0] } else { &[1, 3, 2, 0] };
    let mut min = 0;
    for &d in order {
        if sizes[d] == 0 || strides[d] < min {
            return false;
        }
        // A stride order that is ambiguous (N111, or a 1x1 image) counts as contiguous.
        if d == 0 && min == strides[1] {
            return false;
        }
        min = strides[d];
        if sizes[d] > 1 {
            min *= sizes[d];
        }
    }
    true
}

pub fn is_non_overlapping_and_dense(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.len() == 1 {
        return sizes[0] < 2 || strides[0] == 1;
    }
    let mut perm: IntList = (0..sizes.len() as i64).collect();
    // Dimensions of size 0 and 1 go last: their strides mean nothing.
    perm.sort_by(|&a, &b| {
        let (a, b) = (a as usize, b as usize);
        if sizes[a] < 2 {
            return if sizes[b] < 2 { std::cmp::Ordering::Equal } else { std::cmp::Ordering::Greater };
        }
        if sizes[b] < 2 {
            return std::cmp::Ordering::Less;
        }
        strides[a].cmp(&strides[b])
    });
    let mut expected = 1;
    for &d in &perm {
        let d = d as usize;
        if sizes[d] < 2 {
            return true;
        }
        if strides[d] != expected {
            return false;
        }
        expected *= sizes[d];
    }
    true
}

/// Wraps a dimension into `0..max(rank, 1)`.
///
/// # Errors
/// IndexError in upstream's words.
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let n = (rank as i64).max(1);
    check!(
        (-n..n).contains(&dim),
        Index;
        "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
        -n,
        n - 1
    );
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

/// Wraps a dimension of a tensor that must have at least one.
pub fn wrap_dim_strict(dim: i64, rank: usize) -> Result<usize> {
    check!(rank > 0, Index; "Dimension specified as {dim} but tensor has no dimensions");
    wrap_dim(dim, rank)
}

/// The bitmask of a list of dimensions; an empty list, or none, means all.
///
/// # Errors
/// Out of range, or a dimension twice.
pub fn dim_mask(dims: Option<&[i64]>, rank: usize, allow_empty: bool) -> Result<u64> {
    check!(rank <= 64, "tensor has too many (>64) dims");
    let all = if rank == 64 { u64::MAX } else { (1 << rank) - 1 };
    let Some(dims) = dims else { return Ok(all) };
    if dims.is_empty() && !allow_empty {
        return Ok(all);
    }
    let mut mask = 0u64;
    for &d in dims {
        let w = wrap_dim(d, rank)?;
        check!(mask & (1 << w) == 0, "dim {w} appears multiple times in the list of dims");
        mask |= 1 << w;
    }
    Ok(mask)
}

/// `infer_size`: the broadcast of two shapes.
///
/// # Errors
/// Upstream's message about the non-singleton dimension.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<IntList> {
    let n = a.len().max(b.len());
    let mut out = IntList::from_elem(1, n);
    for i in (0..n).rev() {
        let at = |s: &[i64]| (i + s.len()).checked_sub(n).map_or(1, |j| s[j]);
        let (x, y) = (at(a), at(b));
        check!(
            x == y || x == 1 || y == 1,
            "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
        );
        out[i] = if x == 1 { y } else { x };
    }
    Ok(out)
}

/// `expand`'s strides: broadcast dimensions get stride 0.
///
/// # Errors
/// RuntimeError when a size cannot be expanded.
pub fn expand_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Result<(IntList, IntList)> {
    let n = target.len();
    check!(
        n >= sizes.len(),
        "expand({:?}, size={target:?}): the number of sizes provided ({n}) must be greater or equal to the number of \
         dimensions in the tensor ({})",
        sizes,
        sizes.len()
    );
    let mut out_sizes = IntList::from_elem(0, n);
    let mut out_strides = IntList::from_elem(0, n);
    for i in (0..n).rev() {
        let src = (i + sizes.len()).checked_sub(n);
        let (size, stride) = match src {
            Some(j) => (sizes[j], strides[j]),
            None => (1, if i + 1 < n { out_sizes[i + 1] * out_strides[i + 1] } else { 1 }),
        };
        let mut want = target[i];
        if want == -1 {
            check!(
                src.is_some(),
                "The expanded size of the tensor ({want}) isn't allowed in a leading, non-existing dimension {i}"
            );
            want = size;
        }
        check!(want >= 0, "expand: requested size {want} is negative at dimension {i}");
        if size != want {
            check!(
                size == 1,
                "The expanded size of the tensor ({want}) must match the existing size ({size}) at non-singleton \
                 dimension {i}.  Target sizes: {target:?}.  Tensor sizes: {sizes:?}"
            );
            out_strides[i] = 0;
        } else {
            out_strides[i] = stride;
        }
        out_sizes[i] = want;
    }
    Ok((out_sizes, out_strides))
}

/// Resolves one −1 in a view's shape.
///
/// # Errors
/// Upstream's messages for impossible shapes.
pub fn infer_size(shape: &[i64], numel: i64) -> Result<IntList> {
    let mut out = IntList::from_slice(shape);
    let mut infer = None;
    let mut product = 1i64;
    for (i, &s) in shape.iter().enumerate() {
        if s == -1 {
            check!(infer.is_none(), "only one dimension can be inferred");
            infer = Some(i);
        } else {
            check!(s >= 0, "invalid shape dimension {s} at index {i} of shape {shape:?}");
            product = product.saturating_mul(s);
        }
    }
    if let Some(i) = infer {
        check!(
            product != 0,
            "cannot reshape tensor of {numel} elements into shape {shape:?} because the unspecified dimension size -1 \
             can be any value and is ambiguous"
        );
        check!(numel % product == 0, "shape '{shape:?}' is invalid for input of size {numel}");
        out[i] = numel / product;
    } else {
        check!(product == numel, "shape '{shape:?}' is invalid for input of size {numel}");
    }
    Ok(out)
}

/// `computeStride`: the strides with which `view(new)` shares memory, when there are any.
pub fn view_strides(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<IntList> {
    if sizes.is_empty() {
        return Some(IntList::from_elem(1, new.len()));
    }
    let numel: i64 = sizes.iter().product();
    if numel == 0 && sizes == new {
        return Some(IntList::from_slice(strides));
    }
    let mut out = IntList::from_elem(0, new.len());
    if numel == 0 {
        for d in (0..new.len()).rev() {
            out[d] = if d + 1 == new.len() { 1 } else { new[d + 1].max(1) * out[d + 1] };
        }
        return Some(out);
    }
    let mut view_d = new.len() as i64 - 1;
    let mut base = strides[strides.len() - 1];
    let mut chunk = 1;
    let mut view_numel = 1;
    for d in (0..sizes.len()).rev() {
        chunk *= sizes[d];
        // A chunk ends where the next dimension does not continue it in memory.
        if d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk * base) {
            while view_d >= 0 && (view_numel < chunk || new[view_d as usize] == 1) {
                out[view_d as usize] = view_numel * base;
                view_numel *= new[view_d as usize];
                view_d -= 1;
            }
            if view_numel != chunk {
                return None;
            }
            if d > 0 {
                base = strides[d - 1];
                chunk = 1;
                view_numel = 1;
            }
        }
    }
    if view_d == -1 { Some(out) } else { None }
}

/// `infer_dense_strides`: dense strides in the order of another tensor's (`empty_like` with preserve format).
pub fn infer_dense_strides(sizes: &[i64], strides: &[i64]) -> IntList {
    let n = sizes.len();
    if n <= 1 {
        return IntList::from_elem(1, n);
    }
    let mut perm: IntList = (0..n as i64).rev().collect();
    let should_swap = |a: usize, b: usize| -> i32 {
        let (sa, sb) = (strides[a], strides[b]);
        if sa == 0 || sb == 0 {
            return 0;
        }
        if sa != sb {
            return if sa < sb { -1 } else { 1 };
        }
        if sizes[a] > sizes[b] { 1 } else { 0 }
    };
    // Insertion sort, ambiguous pairs (stride 0) keep their order.
    for i in 1..n {
        let mut dim1 = i;
        for dim0 in (0..i).rev() {
            match should_swap(perm[dim0] as usize, perm[dim1] as usize) {
                1 => {
                    perm.swap(dim0, dim1);
                    dim1 = dim0;
                }
                -1 => break,
                _ => {}
            }
        }
    }
    let mut out = IntList::from_elem(0, n);
    let mut acc = 1;
    for &p in &perm {
        out[p as usize] = acc;
        acc *= sizes[p as usize].max(1);
    }
    out
}

/// Bytes that a strided region needs, from its first element on.
///
/// # Errors
/// Negative sizes or strides, or a size past 63 bits. What memory cannot hold, its allocation refuses.
pub fn storage_nbytes(sizes: &[i64], strides: &[i64], itemsize: usize, offset: i64) -> Result<u64> {
    let mut last = 0i128;
    for (s, st) in sizes.iter().zip(strides) {
        if *s == 0 {
            return Ok(0);
        }
        last += (*s as i128 - 1) * *st as i128;
    }
    let bytes = (offset as i128 + last + 1) * itemsize as i128;
    check!(
        bytes >= 0 && bytes <= i64::MAX as i128,
        "Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"
    );
    Ok(bytes as u64)
}

/// Prints `[2, 3]` as upstream prints shapes.
pub fn fmt_sizes(s: &[i64]) -> String {
    format!("{s:?}")
}
