//! Storages in the files of the legacy format: the number of elements, then the bytes.

use super::{data, swap};
use crate::error;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use torchnative_engine::{Device, Storage};

/// Bytes written or read at once.
const CHUNK: usize = 1 << 22;

pub(super) fn on_cpu(storage: &Storage) -> PyResult<()> {
    if storage.device().is_cpu() {
        return Ok(());
    }
    Err(pyo3::exceptions::PyNotImplementedError::new_err(format!(
        "reading and writing the bytes of storages on device '{}' is not implemented",
        storage.device()
    )))
}

/// Writes a storage in little-endian order, after its number of elements when asked.
pub fn write(
    storage: &Storage,
    file: &Bound<'_, PyAny>,
    save_size: bool,
    element_size: usize,
) -> PyResult<()> {
    let host;
    let storage = if storage.allocation().is_some() {
        host = super::allocate(storage.size(), Device::CPU)?;
        super::set::copy(&host, storage)?;
        &host
    } else {
        on_cpu(storage)?;
        storage
    };
    let py = file.py();
    let write = |bytes: &[u8]| file.call_method1(intern!(py, "write"), (PyBytes::new(py, bytes),)).map(drop);
    if save_size {
        let n = storage.nbytes() / element_size.max(1);
        write(&(n as i64).to_le_bytes())?;
    }
    let mut at = 0;
    while at < storage.nbytes() {
        // Taken anew for each chunk: the file's code may resize the storage.
        // SAFETY: copied before any Python code runs.
        let bytes = unsafe { data(storage) };
        let end = bytes.len().min(at + CHUNK / element_size.max(1) * element_size.max(1));
        if cfg!(target_endian = "big") {
            let mut part = bytes[at..end].to_vec();
            swap(&mut part, element_size);
            write(&part)?;
        } else {
            write(&bytes[at..end])?;
        }
        at = end;
    }
    Ok(())
}

/// Reads what `write` wrote, into a given storage or a new one, from a position of the file or where it stands.
pub fn read(
    file: &Bound<'_, PyAny>,
    offset: Option<i64>,
    element_size: usize,
    into: Option<&Storage>,
) -> PyResult<Storage> {
    if let Some(storage) = into
        && storage.allocation().is_none()
    {
        on_cpu(storage)?;
    }
    if let Some(offset) = offset {
        file.call_method1("seek", (offset,))?;
    }
    let size = exactly(file, 8)?;
    let size = i64::from_le_bytes(size.as_slice().try_into().map_err(|_| error::runtime("unexpected EOF"))?);
    let nbytes = usize::try_from(size).ok().and_then(|n| n.checked_mul(element_size));
    let Some(nbytes) = nbytes else {
        return Err(error::runtime(format!("a storage of {size} elements cannot be read")));
    };
    if let Some(storage) = into
        && storage.nbytes() != nbytes
    {
        return Err(error::runtime(format!(
            "storage has wrong byte size: expected {} got {nbytes}",
            storage.nbytes()
        )));
    }
    // Read before memory is taken: the number may be anything in a damaged file.
    let mut bytes = exactly(file, nbytes)?;
    if cfg!(target_endian = "big") {
        swap(&mut bytes, element_size);
    }
    let storage = match into {
        Some(storage) if storage.allocation().is_none() => storage.clone(),
        _ => super::allocate(nbytes as u64, Device::CPU)?,
    };
    // SAFETY: written at once.
    let out = unsafe { data(&storage) };
    if out.len() != bytes.len() {
        return Err(error::runtime("the storage was resized while it was read"));
    }
    out.copy_from_slice(&bytes);
    if let Some(own) = into.filter(|own| !own.ptr_eq(&storage)) {
        super::set::copy(own, &storage)?;
        return Ok(own.clone());
    }
    Ok(storage)
}

fn exactly(file: &Bound<'_, PyAny>, n: usize) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < n {
        let part = file.call_method1(intern!(file.py(), "read"), ((n - bytes.len()).min(CHUNK),))?;
        let view = super::Buffer::get(&part, false)?;
        if view.bytes().is_empty() {
            return Err(error::runtime(format!(
                "unexpected EOF, expected {} more bytes. The file might be corrupted.",
                n - bytes.len()
            )));
        }
        bytes.extend_from_slice(view.bytes());
    }
    Ok(bytes)
}
