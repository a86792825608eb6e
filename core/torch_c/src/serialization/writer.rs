//! Writing archives, record by record, without ever going back.

use super::{
    CENTRAL_HEADER, DATA_DESCRIPTOR, END, LIMIT, LOCAL_HEADER, WRITTEN_VERSION, ZIP64_END, ZIP64_LOCATOR,
    local_extra,
};
use crate::error;
use crate::storage;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use torchnative_engine::Storage;

/// Bytes handed to the destination at once.
const CHUNK: usize = 1 << 22;
/// Sizes follow the data, and names are UTF-8.
const FLAGS: u16 = 0x0808;

enum Destination {
    File(File),
    Buffer(Py<PyAny>),
}

struct Record {
    name: String,
    crc: u32,
    size: u64,
    offset: u64,
}

/// Writes the archive of `torch.save`.
#[pyclass(module = "torch")]
pub struct PyTorchFileWriter {
    destination: Destination,
    cursor: u64,
    archive: String,
    records: Vec<Record>,
    names: HashSet<String>,
    alignment: u64,
    compute_crc: bool,
    version: u64,
    id: String,
    finished: bool,
}

/// What a record's bytes come from.
enum Source<'a> {
    Bytes(&'a [u8]),
    Storage(&'a Storage),
    Zeros,
}

impl PyTorchFileWriter {
    fn write(&mut self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        match &mut self.destination {
            Destination::File(file) => file.write_all(bytes).map_err(|e| {
                error::runtime(format!(
                    "PytorchStreamWriter failed writing file: {e}. The device may be out of space."
                ))
            })?,
            Destination::Buffer(buffer) => {
                let written =
                    buffer.bind(py).call_method1(intern!(py, "write"), (PyBytes::new(py, bytes),))?;
                if let Ok(n) = written.extract::<usize>()
                    && n != bytes.len()
                {
                    return Err(error::runtime(format!(
                        "PytorchStreamWriter failed writing file: {n} of {} bytes were written",
                        bytes.len()
                    )));
                }
            }
        }
        self.cursor += bytes.len() as u64;
        Ok(())
    }

    fn record(&mut self, py: Python<'_>, name: &str, source: Source<'_>, size: u64) -> PyResult<()> {
        if self.finished {
            return Err(error::runtime("!finalized_ INTERNAL ASSERT FAILED: the archive is written already"));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(error::runtime(format!(
                "false INTERNAL ASSERT FAILED: Tried to serialize file twice: {name}"
            )));
        }
        let full = format!("{}/{name}", self.archive);
        let Ok(name_len) = u16::try_from(full.len()) else {
            return Err(PyValueError::new_err(format!("the name of record {name} is too long")));
        };
        let offset = self.cursor;
        let extra = local_extra(offset, full.len(), size, self.alignment);
        let mut header = Vec::with_capacity(64 + full.len() + extra.len());
        header.extend(LOCAL_HEADER.to_le_bytes());
        header.extend(0u16.to_le_bytes());
        header.extend(FLAGS.to_le_bytes());
        // Stored; no time, no date; the checksum and the sizes follow the data.
        header.extend([0; 18]);
        header.extend(name_len.to_le_bytes());
        header.extend((extra.len() as u16).to_le_bytes());
        header.extend(full.as_bytes());
        header.extend(&extra);
        self.write(py, &header)?;

        let mut crc = crc32fast::Hasher::new();
        let mut at = 0u64;
        let mut chunk = Vec::new();
        while at < size {
            let n = (size - at).min(CHUNK as u64) as usize;
            let part: &[u8] = match source {
                Source::Bytes(bytes) => &bytes[at as usize..at as usize + n],
                Source::Zeros => {
                    chunk.resize(n, 0);
                    &chunk
                }
                Source::Storage(storage) => {
                    // Copied anew each time: the buffer's code may resize the storage.
                    chunk.clear();
                    if storage.allocation().is_some() {
                        return Err(error::runtime(
                            "the bytes of a device's storage are written by way of the CPU",
                        ));
                    }
                    // SAFETY: copied before any Python code runs.
                    let bytes = unsafe { storage::data(storage) };
                    match bytes.get(at as usize..at as usize + n) {
                        Some(part) => chunk.extend_from_slice(part),
                        None => return Err(error::runtime("the storage shrank while it was written")),
                    }
                    &chunk
                }
            };
            if self.compute_crc {
                crc.update(part);
            }
            self.write(py, part)?;
            at += n as u64;
        }
        let crc = if self.compute_crc { crc.finalize() } else { 0 };
        let mut descriptor = Vec::with_capacity(24);
        descriptor.extend(DATA_DESCRIPTOR.to_le_bytes());
        descriptor.extend(crc.to_le_bytes());
        for _ in 0..2 {
            if size >= LIMIT {
                descriptor.extend(size.to_le_bytes());
            } else {
                descriptor.extend((size as u32).to_le_bytes());
            }
        }
        self.write(py, &descriptor)?;
        self.records.push(Record { name: full, crc, size, offset });
        Ok(())
    }

    /// Two numbers that identify the contents: of the names, and of the checksums.
    fn identify(&self) -> String {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let seed = 0xcbf2_9ce4_8422_2325;
        let names = self.records.iter().flat_map(|r| r.name.bytes()).fold(seed, mix);
        let sums = self.records.iter().flat_map(|r| r.crc.to_le_bytes()).fold(seed, mix);
        format!("{names:020}{sums:020}")
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.finished {
            return Err(error::runtime("!finalized_ INTERNAL ASSERT FAILED: the archive is written already"));
        }
        let version = format!("{}\n", self.version);
        self.record(py, "version", Source::Bytes(version.as_bytes()), version.len() as u64)?;
        if !self.names.contains("byteorder") {
            let order = if cfg!(target_endian = "little") { "little" } else { "big" };
            self.record(py, "byteorder", Source::Bytes(order.as_bytes()), order.len() as u64)?;
        }
        self.id = self.identify();
        let id = self.id.clone();
        self.record(py, ".data/serialization_id", Source::Bytes(id.as_bytes()), id.len() as u64)?;
        self.finished = true;
        let start = self.cursor;
        let mut directory = Vec::new();
        for r in &self.records {
            let mut extra = Vec::new();
            if r.size >= LIMIT {
                extra.extend(r.size.to_le_bytes());
                extra.extend(r.size.to_le_bytes());
            }
            if r.offset >= LIMIT {
                extra.extend(r.offset.to_le_bytes());
            }
            let narrow = |v: u64| (v.min(LIMIT) as u32).to_le_bytes();
            directory.extend(CENTRAL_HEADER.to_le_bytes());
            directory.extend([0; 4]);
            directory.extend(FLAGS.to_le_bytes());
            directory.extend([0; 6]);
            directory.extend(r.crc.to_le_bytes());
            directory.extend(narrow(r.size));
            directory.extend(narrow(r.size));
            directory.extend((r.name.len() as u16).to_le_bytes());
            let extra_len = if extra.is_empty() { 0 } else { extra.len() as u16 + 4 };
            directory.extend(extra_len.to_le_bytes());
            directory.extend([0; 10]);
            directory.extend(narrow(r.offset));
            directory.extend(r.name.as_bytes());
            if !extra.is_empty() {
                directory.extend(1u16.to_le_bytes());
                directory.extend((extra.len() as u16).to_le_bytes());
                directory.extend(extra);
            }
        }
        let (count, size) = (self.records.len() as u64, directory.len() as u64);
        let end = start + size;
        directory.extend(ZIP64_END.to_le_bytes());
        directory.extend(44u64.to_le_bytes());
        // Made by and needed: version 4.5, the one that has these fields.
        directory.extend(0x031eu16.to_le_bytes());
        directory.extend(45u16.to_le_bytes());
        directory.extend([0; 8]);
        for v in [count, count, size, start] {
            directory.extend(v.to_le_bytes());
        }
        directory.extend(ZIP64_LOCATOR.to_le_bytes());
        directory.extend(0u32.to_le_bytes());
        directory.extend(end.to_le_bytes());
        directory.extend(1u32.to_le_bytes());
        directory.extend(END.to_le_bytes());
        directory.extend([0; 4]);
        let short = (count.min(u64::from(u16::MAX)) as u16).to_le_bytes();
        directory.extend(short);
        directory.extend(short);
        directory.extend((size.min(LIMIT) as u32).to_le_bytes());
        directory.extend((start.min(LIMIT) as u32).to_le_bytes());
        directory.extend([0; 2]);
        self.write(py, &directory)?;
        if let Destination::File(file) = &mut self.destination {
            file.flush()?;
        }
        Ok(())
    }
}

#[pymethods]
impl PyTorchFileWriter {
    #[new]
    #[pyo3(signature = (name_or_buffer, compute_crc32 = true, storage_alignment = 64))]
    fn new(name_or_buffer: &Bound<'_, PyAny>, compute_crc32: bool, storage_alignment: u64) -> PyResult<Self> {
        if storage_alignment == 0 || storage_alignment > 1 << 15 {
            return Err(PyValueError::new_err(format!(
                "storage_alignment must be between 1 and {}, not {storage_alignment}",
                1 << 15
            )));
        }
        let mut archive = "archive".to_owned();
        let destination = if let Ok(name) = name_or_buffer.cast::<PyString>() {
            let name = name.to_str()?;
            let path = Path::new(name);
            if let Some(parent) = path.parent()
                && !parent.as_os_str().is_empty()
                && !parent.is_dir()
            {
                return Err(error::runtime(format!("Parent directory {} does not exist.", parent.display())));
            }
            let last = path.file_name().and_then(|n| n.to_str()).unwrap_or("archive");
            archive = last.rsplit_once('.').map_or(last, |(stem, _)| stem).to_owned();
            match File::create(path) {
                Ok(file) => Destination::File(file),
                Err(e) => return Err(error::runtime(format!("File {name} cannot be opened: {e}"))),
            }
        } else if name_or_buffer.hasattr("write")? {
            Destination::Buffer(name_or_buffer.clone().unbind())
        } else {
            return Err(PyTypeError::new_err(format!(
                "PyTorchFileWriter(): argument must be a file name or an object with a method write, not {}",
                crate::tensor::data::kind(name_or_buffer)
            )));
        };
        Ok(PyTorchFileWriter {
            destination,
            cursor: 0,
            archive,
            records: Vec::new(),
            names: HashSet::new(),
            alignment: storage_alignment,
            compute_crc: compute_crc32,
            version: WRITTEN_VERSION,
            id: String::new(),
            finished: false,
        })
    }

    fn write_record(&mut self, name: &str, data: &Bound<'_, PyAny>, size: u64) -> PyResult<()> {
        let py = data.py();
        let short = |have: u64| {
            PyValueError::new_err(format!("record {name} has {have} bytes, but {size} were to be written"))
        };
        if let Ok(text) = data.cast::<PyString>() {
            let bytes = text.to_str()?.as_bytes();
            if size > bytes.len() as u64 {
                return Err(short(bytes.len() as u64));
            }
            return self.record(py, name, Source::Bytes(bytes), size);
        }
        if let Ok(bytes) = data.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            if size > bytes.len() as u64 {
                return Err(short(bytes.len() as u64));
            }
            return self.record(py, name, Source::Bytes(bytes), size);
        }
        if let Some((storage, _)) = storage::from_py(data)? {
            if size > 0 && !storage.device().is_cpu() {
                return Err(PyNotImplementedError::new_err(format!(
                    "writing a storage on device '{}' is not implemented",
                    storage.device()
                )));
            }
            if size > storage.size() {
                return Err(short(storage.size()));
            }
            return self.record(py, name, Source::Storage(&storage), size);
        }
        if data.is_instance_of::<PyInt>() {
            return Err(PyNotImplementedError::new_err(
                "PyTorchFileWriter.write_record() of a bare address is not implemented in torchnative: give the storage",
            ));
        }
        Err(PyTypeError::new_err(format!(
            "write_record(): argument 'data' must be str, bytes or a storage, not {}",
            crate::tensor::data::kind(data)
        )))
    }

    /// A record of zeros: room for data that comes later.
    fn write_record_metadata(&mut self, py: Python<'_>, name: &str, size: u64) -> PyResult<()> {
        self.record(py, name, Source::Zeros, size)
    }

    fn write_end_of_file(&mut self, py: Python<'_>) -> PyResult<()> {
        self.finish(py)
    }

    fn set_min_version(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    fn archive_name(&self) -> &str {
        &self.archive
    }

    fn serialization_id(&self) -> &str {
        &self.id
    }

    fn get_all_written_records(&self) -> HashSet<String> {
        self.names.clone()
    }
}
