//! Making tensors: `empty`, `empty_strided`, `full`, scalars.

use crate::dtype::Convert;
use crate::ivalue::IntList;
use crate::tensor::shape;
use crate::{DType, Device, MemoryFormat, Result, Scalar, Storage, Tensor, check, dispatch};

/// Uninitialised, row-major.
pub fn empty(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    // The size of the memory is judged first, as upstream does.
    if !sizes.contains(&0) && sizes.iter().all(|s| *s > 0) {
        let numel = sizes.iter().try_fold(1i64, |n, s| n.checked_mul(*s));
        let nbytes = numel.and_then(|n| n.checked_mul(dtype.itemsize() as i64));
        check!(nbytes.is_some(), "Storage size calculation overflowed with sizes={sizes:?}");
    }
    empty_strided_unchecked(sizes, shape::checked_contiguous_strides(sizes)?, dtype, device)
}

/// Uninitialised, of a memory format.
pub fn empty_format(sizes: &[i64], dtype: DType, device: Device, format: MemoryFormat) -> Result<Tensor> {
    empty_strided_unchecked(sizes, shape::strides_for(sizes, format)?, dtype, device)
}

/// Uninitialised, with given strides (not negative).
///
/// # Errors
/// Sizes or strides that are negative, do not match in number, or overflow.
pub fn empty_strided(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    check!(
        sizes.len() == strides.len(),
        "dimensionality of sizes ({}) must match dimensionality of strides ({})",
        sizes.len(),
        strides.len()
    );
    check!(
        strides.iter().all(|&s| s >= 0),
        "empty_strided: strides must be non-negative, but got {strides:?}"
    );
    empty_strided_unchecked(sizes, IntList::from_slice(strides), dtype, device)
}

fn empty_strided_unchecked(sizes: &[i64], strides: IntList, dtype: DType, device: Device) -> Result<Tensor> {
    if let Some(s) = sizes.iter().find(|s| **s < 0) {
        crate::bail!(Runtime, "Trying to create tensor with negative dimension {s}: {sizes:?}");
    }
    let nbytes = shape::storage_nbytes(sizes, &strides, dtype.itemsize(), 0)?;
    let device = if device.is_cpu() || device.is_meta() {
        device
    } else {
        crate::storage::device::of(device)?.check_dtype(dtype)?;
        // The one device there is: tensors carry its index.
        Device { index: device.index.max(0), ..device }
    };
    let storage = Storage::new(nbytes, device)?;
    Ok(Tensor::from_storage(storage, dtype, IntList::from_slice(sizes), strides, 0))
}

/// Uninitialised like another tensor: dense tensors keep their strides, others their stride order.
pub fn empty_like(t: &Tensor, dtype: DType, format: MemoryFormat) -> Result<Tensor> {
    if format != MemoryFormat::Preserve {
        return empty_format(t.sizes(), dtype, t.device(), format);
    }
    let strides = if t.is_non_overlapping_and_dense() {
        IntList::from_slice(t.strides())
    } else {
        shape::infer_dense_strides(t.sizes(), t.strides())
    };
    empty_strided_unchecked(t.sizes(), strides, dtype, t.device())
}

/// A 0-d CPU tensor of a number, in the given dtype.
pub fn scalar_tensor(s: Scalar, dtype: DType) -> Result<Tensor> {
    let t = empty(&[], dtype, Device::CPU)?;
    // SAFETY: a fresh 0-d tensor of that dtype.
    dispatch!("scalar_tensor", dtype, copyable, T => unsafe { *(t.data_ptr() as *mut T) = s.cast() });
    Ok(t)
}

/// `wrapped_scalar_tensor`: the tensor that stands for a Python number in type promotion.
pub fn wrapped_scalar(s: Scalar) -> Result<Tensor> {
    let t = scalar_tensor(s, s.dtype())?;
    t.set_wrapped_number(true);
    Ok(t)
}

/// A contiguous 1-d CPU tensor of values.
pub fn from_slice<T: Convert>(values: &[T]) -> Result<Tensor> {
    let t = empty(&[values.len() as i64], T::DTYPE, Device::CPU)?;
    // SAFETY: fresh, contiguous, same length and type.
    unsafe { t.as_mut_slice::<T>() }.copy_from_slice(values);
    Ok(t)
}
