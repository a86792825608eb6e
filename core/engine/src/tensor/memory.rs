//! Memory overlap checks (`ATen/MemoryOverlap.h`) and resizing of outputs.

use crate::ivalue::IntList;
use crate::tensor::shape;
use crate::{Result, Tensor, check};

/// Whether a tensor's own elements overlap, as far as strides tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    No,
    Yes,
    TooHard,
}

/// `has_internal_overlap`
pub fn internal_overlap(t: &Tensor) -> Overlap {
    if t.is_non_overlapping_and_dense() {
        return Overlap::No;
    }
    for (s, st) in t.sizes().iter().zip(t.strides()) {
        if *s > 1 && *st == 0 {
            return Overlap::Yes;
        }
    }
    Overlap::TooHard
}

/// `assert_no_internal_overlap`
///
/// # Errors
/// An in-place target that writes one location more than once.
pub fn assert_no_internal_overlap(t: &Tensor) -> Result<()> {
    check!(
        internal_overlap(t) != Overlap::Yes,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation."
    );
    Ok(())
}

/// How two tensors share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    Full,
    Partial,
    No,
    TooHard,
}

/// `get_overlap_status`
pub fn overlap(a: &Tensor, b: &Tensor) -> Sharing {
    if a.is_same(b) {
        return Sharing::Full;
    }
    if a.numel() == 0 || b.numel() == 0 {
        return Sharing::No;
    }
    if !a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense() {
        return Sharing::TooHard;
    }
    if a.storage().ptr_eq(b.storage()) && !a.data_ptr().is_null() {
        let (a0, b0) = (a.data_ptr() as usize, b.data_ptr() as usize);
        let (a1, b1) = (a0 + a.numel() as usize * a.itemsize(), b0 + b.numel() as usize * b.itemsize());
        if a0 == b0 && a1 == b1 {
            return if a.strides() == b.strides() { Sharing::Full } else { Sharing::Partial };
        }
        if a0 < b1 && b0 < a1 {
            return Sharing::Partial;
        }
    }
    Sharing::No
}

/// `assert_no_partial_overlap`
///
/// # Errors
/// An output that shares some, but not the same, memory with an input.
pub fn assert_no_partial_overlap(a: &Tensor, b: &Tensor) -> Result<()> {
    check!(
        overlap(a, b) != Sharing::Partial,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
         location. Please clone() the tensor before performing the operation."
    );
    Ok(())
}

/// `assert_no_overlap`: an output that must not share any memory with an input.
///
/// # Errors
/// They share memory.
pub fn assert_no_overlap(a: &Tensor, b: &Tensor) -> Result<()> {
    check!(
        !matches!(overlap(a, b), Sharing::Partial | Sharing::Full),
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
         location. Please clone() the tensor before performing the operation."
    );
    Ok(())
}

/// `resize_`: changes sizes to row-major, growing the storage when needed.
///
/// # Errors
/// A storage that cannot grow.
pub fn resize(t: &Tensor, sizes: &[i64], strides: Option<&[i64]>) -> Result<()> {
    if t.sizes() == sizes && strides.is_none_or(|s| s == t.strides()) {
        return Ok(());
    }
    check!(sizes.iter().all(|&s| s >= 0), "Trying to create tensor with negative dimension: {sizes:?}");
    let strides = match strides {
        Some(strides) => IntList::from_slice(strides),
        None => shape::checked_contiguous_strides(sizes)?,
    };
    let need = shape::storage_nbytes(sizes, &strides, t.itemsize(), t.storage_offset())?;
    if need > t.storage().size() {
        t.storage().resize(need)?;
    }
    let offset = t.storage_offset();
    t.set_geometry(IntList::from_slice(sizes), strides, offset);
    Ok(())
}

/// `resize_output`: makes an `out=` tensor fit; returns whether it changed. A non-empty tensor of another shape draws
/// upstream's deprecation warning.
///
/// # Errors
/// A storage that cannot grow.
pub fn resize_output(out: &Tensor, sizes: &[i64], strides: Option<&[i64]>) -> Result<bool> {
    if out.sizes() == sizes {
        return Ok(false);
    }
    if out.numel() != 0 {
        crate::warn::warn(
            crate::warn::Category::User,
            &format!(
                "An output with one or more elements was resized since it had shape {:?}, which does not match the required \
                 output shape {sizes:?}. This behavior is deprecated, and in a future PyTorch release outputs will not be \
                 resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to \
                 zero elements with t.resize_(0).",
                out.sizes()
            ),
        )?;
    }
    resize(out, sizes, strides)?;
    Ok(true)
}
