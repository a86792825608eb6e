//! `torch._C.PyTorchFileWriter` and `PyTorchFileReader`: the zip archives of `torch.save`. Records are stored as they are,
//! each at a multiple of an alignment, so that a file can be mapped.

mod reader;
mod writer;

use crate::{error, storage};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use torchnative_engine::dispatch::DispatchKey;

/// Signatures of a zip archive's parts.
const LOCAL_HEADER: u32 = 0x0403_4b50;
const DATA_DESCRIPTOR: u32 = 0x0807_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const ZIP64_END: u32 = 0x0606_4b50;
const ZIP64_LOCATOR: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;

/// Bytes of a local header before the name.
const LOCAL_HEADER_SIZE: u64 = 30;
/// Sizes and offsets from here on are kept in a zip64 field.
const LIMIT: u64 = u32::MAX as u64;
/// The versions of the format that are read, and the one that is written.
const OLDEST_VERSION: u64 = 1;
const NEWEST_VERSION: u64 = 10;
const WRITTEN_VERSION: u64 = 3;

/// The extra field of a local header: a zip64 field when something is large, then padding up to the alignment.
fn local_extra(cursor: u64, name_len: usize, size: u64, alignment: u64) -> Vec<u8> {
    let mut extra = Vec::new();
    if size >= LIMIT || cursor >= LIMIT {
        let len = if size >= LIMIT { 16 } else { 0 } + if cursor >= LIMIT { 8 } else { 0 };
        extra.extend(1u16.to_le_bytes());
        extra.extend((len as u16).to_le_bytes());
        if size >= LIMIT {
            extra.extend(size.to_le_bytes());
            extra.extend(size.to_le_bytes());
        }
        if cursor >= LIMIT {
            extra.extend(cursor.to_le_bytes());
        }
    }
    let start = cursor + LOCAL_HEADER_SIZE + name_len as u64 + extra.len() as u64 + 4;
    let padding = start.next_multiple_of(alignment) - start;
    extra.extend(b"FB");
    extra.extend((padding as u16).to_le_bytes());
    extra.resize(extra.len() + padding as usize, b'Z');
    extra
}

/// Upstream's error for an archive that cannot be read: what was tried, and why it failed.
#[cold]
fn damaged(doing: &str, why: &str) -> PyErr {
    error::runtime(format!(
        "PytorchStreamReader failed {doing}: {why}. This is an internal miniz error. If you are seeing this error, there is a high \
         likelihood that your checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, was \
         transferred incorrectly, or the file was modified after saving."
    ))
}

/// What a tensor is besides its storage and geometry: read as its conjugate, or negated.
#[pyfunction]
fn _get_tensor_metadata<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let t = storage::tensor_of(tensor)?;
    let metadata = PyDict::new(tensor.py());
    for (name, on) in [("conj", t.is_conj()), ("neg", t.is_neg())] {
        if on {
            metadata.set_item(name, true)?;
        }
    }
    Ok(metadata)
}

#[pyfunction]
fn _set_tensor_metadata(tensor: &Bound<'_, PyAny>, metadata: &Bound<'_, PyDict>) -> PyResult<()> {
    let t = storage::tensor_of(tensor)?;
    for (name, on) in metadata.iter() {
        let (name, on): (String, bool) = (name.extract()?, on.extract()?);
        let key = match name.as_str() {
            "conj" if t.dtype().is_complex() => DispatchKey::Conjugate,
            "neg" => DispatchKey::Negative,
            _ => {
                return Err(error::runtime(format!(
                    "Unexpected key `{name}` passed to setTensorMetadata for a tensor of dtype {}.",
                    t.dtype().torch_name()
                )));
            }
        };
        t.set_key(key, on);
    }
    Ok(())
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_get_tensor_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(_set_tensor_metadata, module)?)?;
    module.add_class::<writer::PyTorchFileWriter>()?;
    module.add_class::<reader::PyTorchFileReader>()
}
