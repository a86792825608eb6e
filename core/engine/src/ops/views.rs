//! Views: tensors of other geometry over the same storage. They touch no data, so one kernel serves every device.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{MemoryFormat, Result, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::view, |a| Ok(view(a.tensor(0)?, a.int_list(1)?)?.into()));
    r.explicit(op::_unsafe_view, |a| Ok(view(a.tensor(0)?, a.int_list(1)?)?.into()));
    r.implicit(op::reshape, reshape);
    r.explicit(op::_reshape_alias, |a| {
        let t = a.tensor(0)?;
        Ok(alias(t, a.int_list(1)?, a.int_list(2)?, t.storage_offset()).into())
    });
    r.explicit(op::as_strided, as_strided).explicit(op::as_strided_, as_strided_);
    r.explicit(op::expand, expand).explicit(op::alias, |a| Ok(same(a.tensor(0)?).into()));
    r.explicit(op::transpose_int, |a| {
        let t = a.tensor(0)?;
        Ok(put(t, transposed(t, a.int(1)?, a.int(2)?)?).into())
    });
    r.explicit(op::transpose_, |a| {
        let t = a.tensor(0)?;
        set(t, transposed(t, a.int(1)?, a.int(2)?)?)
    });
    r.explicit(op::t, |a| Ok(put(a.tensor(0)?, t_geometry(a.tensor(0)?, "t")?).into()));
    r.explicit(op::t_, |a| set(a.tensor(0)?, t_geometry(a.tensor(0)?, "t_")?));
    r.explicit(op::permute, |a| Ok(permute(a.tensor(0)?, a.int_list(1)?)?.into()));
    r.explicit(op::squeeze, |a| Ok(put(a.tensor(0)?, squeezed(a.tensor(0)?, u64::MAX)).into()));
    r.explicit(op::squeeze_dim, |a| {
        let t = a.tensor(0)?;
        Ok(put(t, squeezed(t, 1 << shape::wrap_dim(a.int(1)?, t.dim())?)).into())
    });
    r.explicit(op::squeeze_dims, |a| {
        let t = a.tensor(0)?;
        Ok(put(t, squeezed(t, squeeze_mask(t, a.int_list(1)?)?)).into())
    });
    r.explicit(op::squeeze_, |a| set(a.tensor(0)?, squeezed(a.tensor(0)?, u64::MAX)));
    r.explicit(op::squeeze__dim, |a| {
        let t = a.tensor(0)?;
        set(t, squeezed(t, 1 << shape::wrap_dim(a.int(1)?, t.dim())?))
    });
    r.explicit(op::squeeze__dims, |a| {
        let t = a.tensor(0)?;
        set(t, squeezed(t, squeeze_mask(t, a.int_list(1)?)?))
    });
    r.explicit(op::unsqueeze, |a| Ok(put(a.tensor(0)?, unsqueezed(a.tensor(0)?, a.int(1)?)?).into()));
    r.explicit(op::unsqueeze_, |a| set(a.tensor(0)?, unsqueezed(a.tensor(0)?, a.int(1)?)?));
    r.explicit(op::select_int, |a| Ok(select(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into()));
    r.explicit(op::slice_Tensor, |a| {
        Ok(slice(a.tensor(0)?, a.int(1)?, a.opt_int(2)?, a.opt_int(3)?, a.int(4)?)?.into())
    });
    r.explicit(op::unfold, unfold).explicit(op::diagonal, diagonal);
    r.explicit(op::split_Tensor, |a| Ok(split(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into()));
    r.explicit(op::unsafe_split_Tensor, |a| Ok(split(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into()));
    r.explicit(op::split_with_sizes, |a| Ok(split_sizes(a.tensor(0)?, a.int_list(1)?, a.int(2)?)?.into()));
    r.explicit(op::unsafe_split_with_sizes, |a| {
        Ok(split_sizes(a.tensor(0)?, a.int_list(1)?, a.int(2)?)?.into())
    });
    r.explicit(op::unbind_int, unbind);
}

/// Sizes, strides and storage offset.
type Geometry = (IntList, IntList, i64);

/// An alias with the same geometry.
pub(crate) fn same(t: &Tensor) -> Tensor {
    alias(t, t.sizes(), t.strides(), t.storage_offset())
}

fn alias(t: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Tensor {
    t.alias_with(IntList::from_slice(sizes), IntList::from_slice(strides), offset)
}

fn put(t: &Tensor, g: Geometry) -> Tensor {
    t.alias_with(g.0, g.1, g.2)
}

/// In-place views give the tensor itself another geometry.
fn set(t: &Tensor, g: Geometry) -> Result<Returns> {
    t.set_geometry(g.0, g.1, g.2);
    Ok(t.into())
}

/// `view`: another shape over the same memory.
///
/// # Errors
/// A shape of another number of elements, or one that would need a copy.
pub(crate) fn view(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = shape::infer_size(size, t.numel())?;
    if t.numel() == 0 {
        shape::checked_contiguous_strides(&sizes)?;
    }
    let Some(strides) = shape::view_strides(t.sizes(), t.strides(), &sizes) else {
        bail!(
            Runtime,
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
             contiguous subspaces). Use .reshape(...) instead."
        )
    };
    Ok(t.alias_with(sizes, strides, t.storage_offset()))
}

fn reshape(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let sizes = shape::infer_size(a.int_list(1)?, t.numel())?;
    if t.numel() == 0 {
        shape::checked_contiguous_strides(&sizes)?;
    }
    if shape::view_strides(t.sizes(), t.strides(), &sizes).is_some() {
        return Ok(op::view.call((t, sizes))?.into());
    }
    let copy = op::clone.call((t, MemoryFormat::Contiguous))?;
    Ok(op::_unsafe_view.call((copy, sizes))?.into())
}

fn strided_geometry(a: Args<'_>) -> Result<Geometry> {
    let t = a.tensor(0)?;
    let (sizes, strides) = (a.int_list(1)?, a.int_list(2)?);
    let offset = a.opt_int(3)?.unwrap_or(t.storage_offset());
    check!(sizes.len() == strides.len(), "mismatch in length of strides and shape");
    check!(
        strides.iter().all(|&s| s >= 0),
        "as_strided: Negative strides are not supported at the moment, got strides: {strides:?}"
    );
    check!(
        sizes.iter().all(|&s| s >= 0),
        "Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"
    );
    check!(offset >= 0, "Tensor: invalid storage offset {offset}");
    let need = shape::storage_nbytes(sizes, strides, t.itemsize(), offset)?;
    check!(
        need <= t.storage().size() || t.is_meta(),
        "setStorage: sizes {sizes:?}, strides {strides:?}, storage offset {offset}, and itemsize {} requiring a storage size of \
         {need} are out of bounds for storage of size {}",
        t.itemsize(),
        t.storage().size()
    );
    Ok((IntList::from_slice(sizes), IntList::from_slice(strides), offset))
}

fn as_strided(a: Args<'_>) -> Result<Returns> {
    Ok(put(a.tensor(0)?, strided_geometry(a)?).into())
}

fn as_strided_(a: Args<'_>) -> Result<Returns> {
    set(a.tensor(0)?, strided_geometry(a)?)
}

fn expand(a: Args<'_>) -> Result<Returns> {
    Ok(expanded(a.tensor(0)?, a.int_list(1)?)?.into())
}

/// `expand` without dispatch.
///
/// # Errors
/// A size that cannot be expanded.
pub(crate) fn expanded(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    let (sizes, strides) = shape::expand_strides(t.sizes(), t.strides(), size)?;
    Ok(t.alias_with(sizes, strides, t.storage_offset()))
}

fn transposed(t: &Tensor, d0: i64, d1: i64) -> Result<Geometry> {
    let (i, j) = (shape::wrap_dim(d0, t.dim())?, shape::wrap_dim(d1, t.dim())?);
    let (mut sizes, mut strides) = (IntList::from_slice(t.sizes()), IntList::from_slice(t.strides()));
    if t.dim() > 0 {
        sizes.swap(i, j);
        strides.swap(i, j);
    }
    Ok((sizes, strides, t.storage_offset()))
}

fn t_geometry(t: &Tensor, name: &str) -> Result<Geometry> {
    check!(t.dim() <= 2, "{name}() expects a tensor with <= 2 dimensions, but self is {}D", t.dim());
    transposed(t, 0, if t.dim() < 2 { 0 } else { 1 })
}

/// `permute` without dispatch.
///
/// # Errors
/// Dimensions out of range, missing or given twice.
pub(crate) fn permute(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    check!(
        dims.len() == t.dim(),
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of \
         dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        t.dim(),
        dims.len()
    );
    let mut seen = 0u64;
    let (mut sizes, mut strides) = (IntList::new(), IntList::new());
    for &d in dims {
        let d = shape::wrap_dim(d, t.dim())?;
        check!(seen & (1 << d) == 0, "permute(): duplicate dims are not allowed.");
        seen |= 1 << d;
        sizes.push(t.sizes()[d]);
        strides.push(t.strides()[d]);
    }
    Ok(t.alias_with(sizes, strides, t.storage_offset()))
}

fn squeeze_mask(t: &Tensor, dims: &[i64]) -> Result<u64> {
    shape::dim_mask(Some(dims), t.dim(), true)
}

fn squeezed(t: &Tensor, mask: u64) -> Geometry {
    let keep = |d: &usize| t.sizes()[*d] != 1 || mask & (1 << d) == 0;
    let dims: Vec<usize> = (0..t.dim()).filter(keep).collect();
    (
        dims.iter().map(|&d| t.sizes()[d]).collect(),
        dims.iter().map(|&d| t.strides()[d]).collect(),
        t.storage_offset(),
    )
}

fn unsqueezed(t: &Tensor, dim: i64) -> Result<Geometry> {
    let d = shape::wrap_dim(dim, t.dim() + 1)?;
    let (mut sizes, mut strides) = (IntList::from_slice(t.sizes()), IntList::from_slice(t.strides()));
    let stride = if d < t.dim() { sizes[d] * strides[d] } else { 1 };
    sizes.insert(d, 1);
    strides.insert(d, stride);
    Ok((sizes, strides, t.storage_offset()))
}

/// `select.int` without dispatch.
///
/// # Errors
/// An index out of range.
pub(crate) fn select(t: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    check!(t.dim() > 0, Index; "select() cannot be applied to a 0-dim tensor.");
    let d = shape::wrap_dim(dim, t.dim())?;
    let size = t.sizes()[d];
    check!(
        (-size..size).contains(&index),
        Index;
        "select(): index {index} out of range for tensor of size {:?} at dimension {d}",
        t.sizes()
    );
    let index = if index < 0 { index + size } else { index };
    let (mut sizes, mut strides) = (IntList::from_slice(t.sizes()), IntList::from_slice(t.strides()));
    let offset = t.storage_offset() + index * strides[d];
    sizes.remove(d);
    strides.remove(d);
    Ok(t.alias_with(sizes, strides, offset))
}

/// `slice.Tensor` without dispatch.
///
/// # Errors
/// A step below one, a dimension out of range.
pub(crate) fn slice(t: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    check!(t.dim() > 0, Index; "slice() cannot be applied to a 0-dim tensor.");
    let d = shape::wrap_dim(dim, t.dim())?;
    check!(step > 0, "slice step must be positive");
    let size = t.sizes()[d];
    let clamp = |v: i64, low: i64| if v < 0 { (v.saturating_add(size)).max(low) } else { v.min(size) };
    let start = clamp(start.unwrap_or(0), 0).max(0);
    let end = clamp(end.unwrap_or(i64::MAX), start).max(start);
    let (mut sizes, mut strides) = (IntList::from_slice(t.sizes()), IntList::from_slice(t.strides()));
    let offset = t.storage_offset() + start * strides[d];
    let length = end - start;
    sizes[d] = length / step + i64::from(length % step != 0);
    strides[d] = strides[d].wrapping_mul(step);
    Ok(t.alias_with(sizes, strides, offset))
}

/// unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)
fn unfold(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    let (size, step) = (a.int(2)?, a.int(3)?);
    let max = if t.dim() == 0 { 1 } else { t.sizes()[d] };
    check!(size >= 0, "size is {size} but must be >= 0");
    check!(size <= max, "maximum size for tensor at dimension {d} is {max} but size is {size}");
    check!(step > 0, "step is {step} but must be > 0");
    let (mut sizes, mut strides) = (IntList::from_slice(t.sizes()), IntList::from_slice(t.strides()));
    sizes.push(size);
    strides.push(if t.dim() == 0 { 1 } else { t.strides()[d] });
    if t.dim() > 0 {
        sizes[d] = (max - size) / step + 1;
        strides[d] *= step;
    }
    Ok(t.alias_with(sizes, strides, t.storage_offset()).into())
}

/// diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)
fn diagonal(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let offset = a.int(1)?;
    let (d1, d2) = (shape::wrap_dim(a.int(2)?, t.dim())?, shape::wrap_dim(a.int(3)?, t.dim())?);
    check!(d1 != d2, "diagonal dimensions cannot be identical {}, {}", a.int(2)?, a.int(3)?);
    let (s1, s2) = (t.sizes()[d1], t.sizes()[d2]);
    let length = if offset >= 0 { s1.min(s2 - offset) } else { (s1 + offset).min(s2) }.max(0);
    let mut start = t.storage_offset();
    if length > 0 {
        start += if offset >= 0 { offset * t.strides()[d2] } else { -offset * t.strides()[d1] };
    }
    let (mut sizes, mut strides) = (IntList::new(), IntList::new());
    for d in (0..t.dim()).filter(|d| *d != d1 && *d != d2) {
        sizes.push(t.sizes()[d]);
        strides.push(t.strides()[d]);
    }
    sizes.push(length);
    strides.push(t.strides()[d1] + t.strides()[d2]);
    Ok(t.alias_with(sizes, strides, start).into())
}

fn part(t: &Tensor, d: usize, start: i64, length: i64) -> Tensor {
    let mut sizes = IntList::from_slice(t.sizes());
    sizes[d] = length;
    t.alias_with(sizes, IntList::from_slice(t.strides()), t.storage_offset() + start * t.strides()[d])
}

fn split(t: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    check!(t.dim() != 0, "split expects at least a 1-dimensional tensor");
    check!(size >= 0, "split expects split_size be non-negative, but got split_size={size}");
    let d = shape::wrap_dim(dim, t.dim())?;
    let total = t.sizes()[d];
    check!(
        size > 0 || total == 0,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
    );
    let pieces = if size == 0 { 1 } else { ((total + size - 1) / size).max(1) };
    Ok((0..pieces).map(|i| part(t, d, i * size, size.min(total - i * size))).collect())
}

fn split_sizes(t: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    check!(t.dim() != 0, "split expects at least a 1-dimensional tensor");
    let d = shape::wrap_dim(dim, t.dim())?;
    check!(
        sizes.iter().all(|&s| s >= 0),
        "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes:?}"
    );
    check!(
        sizes.iter().sum::<i64>() == t.sizes()[d],
        "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {dim}), but got \
         split_sizes={sizes:?}",
        t.sizes()[d]
    );
    let mut start = 0;
    let mut out = Vec::with_capacity(sizes.len());
    for &s in sizes {
        out.push(part(t, d, start, s));
        start += s;
    }
    Ok(out)
}

fn unbind(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let d = shape::wrap_dim_strict(a.int(1)?, t.dim())? as i64;
    let parts: Result<Vec<Tensor>> = (0..t.sizes()[d as usize]).map(|i| select(t, d, i)).collect();
    Ok(parts?.into())
}
