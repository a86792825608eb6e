//! Tensors over given storages: `set_` in its forms, `from_file`.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IValue, IntList};
use crate::storage::Mapping;
use crate::tensor::shape;
use crate::{DType, Result, Storage, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::set__source_Storage, |a| {
        let t = a.tensor(0)?;
        let s = storage(a, 1)?;
        let n = (s.size() / t.itemsize() as u64) as i64;
        set(t, s, 0, &[n], &[1])
    });
    r.any_device(op::set__source_Storage_storage_offset, |a| {
        set(a.tensor(0)?, storage(a, 1)?, a.int(2)?, a.int_list(3)?, a.int_list(4)?)
    });
    r.implicit(op::set__source_Tensor_storage_offset, |a| {
        let source = IValue::Storage(a.tensor(1)?.storage().clone());
        let rest = (a.tensor(0)?, source, a.int(2)?, a.int_list(3)?, a.int_list(4)?);
        Ok(op::set__source_Storage_storage_offset.call(rest)?.into())
    });
    r.any_device(op::set__source_Tensor, set_tensor).any_device(op::set_, |a| {
        let t = a.tensor(0)?;
        set(t, Storage::new(0, t.device())?, 0, &[0], &[1])
    });
    r.cpu(op::from_file, from_file);
}

fn storage(a: Args<'_>, i: usize) -> Result<Storage> {
    match &a.0[i] {
        IValue::Storage(s) => Ok(s.clone()),
        other => bail!(Type, "set_(): expected a storage but got {}", other.kind()),
    }
}

/// Puts a tensor over a storage of its device, which grows when it is too small. No strides: row-major.
fn set(t: &Tensor, s: Storage, offset: i64, sizes: &[i64], strides: &[i64]) -> Result<Returns> {
    check!(
        s.device().ty == t.device().ty,
        "Attempted to set the storage of a tensor on device \"{}\" to a storage on different device \"{}\".  This is no \
         longer allowed; the devices must match.",
        t.device(),
        s.device()
    );
    check!(offset >= 0, "Tensor: invalid storage offset {offset}");
    check!(sizes.iter().all(|&s| s >= 0), "Trying to create tensor with negative dimension: {sizes:?}");
    let strides =
        if strides.is_empty() { shape::contiguous_strides(sizes) } else { IntList::from_slice(strides) };
    check!(
        strides.len() == sizes.len(),
        "unequal size length ({}) and stride length ({})",
        sizes.len(),
        strides.len()
    );
    check!(
        strides.iter().all(|&s| s >= 0),
        "Storage size calculation overflowed with sizes={sizes:?} and strides={:?}",
        &strides[..]
    );
    let need = shape::storage_nbytes(sizes, &strides, t.itemsize(), offset)?;
    if need > s.size() {
        s.resize(need)?;
    }
    t.set_storage(s);
    t.set_geometry(IntList::from_slice(sizes), strides, offset);
    Ok(t.into())
}

fn set_tensor(a: Args<'_>) -> Result<Returns> {
    let (t, source) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        t.dtype() == source.dtype(),
        "Could not set tensor of type {} to a tensor of type {}",
        source.dtype().torch_name_cpp(),
        t.dtype().torch_name_cpp()
    );
    set(t, source.storage().clone(), source.storage_offset(), source.sizes(), source.strides())
}

/// `from_file(filename, shared=None, size=0, *, dtype, layout, device, pin_memory)`: a 1-d tensor over a mapped file.
fn from_file(a: Args<'_>) -> Result<Returns> {
    let path = match &a.0[0] {
        IValue::Str(s) => s.clone(),
        other => bail!(Type, "from_file(): expected a file name but got {}", other.kind()),
    };
    let shared = !matches!(a.0[1], IValue::None) && a.bool(1)?;
    let size = if matches!(a.0[2], IValue::None) { 0 } else { a.int(2)? };
    let dtype: DType = a.opt_dtype(3)?.unwrap_or_else(crate::iter::default_dtype);
    check!(!matches!(a.0[6], IValue::Bool(true)), "tensors constructed from a file cannot be pinned");
    let nbytes = size.checked_mul(dtype.itemsize() as i64);
    let Some(nbytes) = nbytes else { bail!(Runtime, "from_file(): size {size} is too large") };
    let storage = Storage::from_mapping(Mapping::file(&path, shared, nbytes)?);
    Ok(Tensor::from_storage(storage, dtype, IntList::from_slice(&[size]), IntList::from_slice(&[1]), 0)
        .into())
}
