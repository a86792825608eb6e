//! Reading archives: the directory at once, records when they are asked for.

use super::{
    CENTRAL_HEADER, END, LIMIT, LOCAL_HEADER, LOCAL_HEADER_SIZE, NEWEST_VERSION, OLDEST_VERSION, ZIP64_END,
    ZIP64_LOCATOR, damaged, local_extra,
};
use crate::error::{self, IntoPy};
use crate::storage::{self, Buffer};
use crate::tensor::object;
use crate::types::dtype;
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Mutex;
use torchnative_engine::{DType, Device, IntList, Storage, Tensor};

/// Bytes asked for at once.
const CHUNK: usize = 1 << 22;
/// The end record with the longest comment.
const TAIL: u64 = 22 + 0xffff;

enum Source {
    File(Mutex<File>),
    /// A Python object and the position where the archive begins.
    Buffer(Py<PyAny>, u64),
}

struct Record {
    name: String,
    method: u16,
    encrypted: bool,
    compressed: u64,
    size: u64,
    header: u64,
}

/// Reads the archive of `torch.save`.
#[pyclass(module = "torch", frozen)]
pub struct PyTorchFileReader {
    source: Source,
    len: u64,
    archive: String,
    records: Vec<Record>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

const READING: &str = "reading zip archive";
const CORRUPTED: &str = "invalid header or archive is corrupted";

impl Source {
    /// Hands the bytes from `at` on to `take`, in pieces; false when they end too soon.
    fn pieces(&self, py: Python<'_>, at: u64, n: u64, mut take: impl FnMut(&[u8])) -> PyResult<bool> {
        let mut left = n;
        match self {
            Source::File(file) => {
                let mut file = file.lock().map_err(|_| error::runtime("the file is unusable"))?;
                file.seek(SeekFrom::Start(at))?;
                let mut chunk = vec![0; left.min(CHUNK as u64) as usize];
                while left > 0 {
                    let want = left.min(CHUNK as u64) as usize;
                    // Directories open, but do not read.
                    match file.read(&mut chunk[..want]) {
                        Ok(0) | Err(_) => return Ok(false),
                        Ok(got) => {
                            take(&chunk[..got]);
                            left -= got as u64;
                        }
                    }
                }
            }
            Source::Buffer(buffer, start) => {
                let buffer = buffer.bind(py);
                buffer.call_method1(intern!(py, "seek"), (start + at,))?;
                while left > 0 {
                    let want = left.min(CHUNK as u64);
                    let part = buffer.call_method1(intern!(py, "read"), (want,))?;
                    let view = Buffer::get(&part, false)?;
                    let bytes = view.bytes();
                    if bytes.is_empty() {
                        return Ok(false);
                    }
                    let got = bytes.len().min(want as usize);
                    take(&bytes[..got]);
                    left -= got as u64;
                }
            }
        }
        Ok(true)
    }
}

impl PyTorchFileReader {
    fn bytes(&self, py: Python<'_>, at: u64, n: u64, doing: &str) -> PyResult<Vec<u8>> {
        // Nothing that the archive says is believed before the file is known to be as long.
        if at.checked_add(n).is_none_or(|end| end > self.len) {
            return Err(damaged(doing, "file read failed"));
        }
        let mut bytes = Vec::with_capacity(n as usize);
        if !self.source.pieces(py, at, n, |part| bytes.extend_from_slice(part))? {
            return Err(damaged(doing, "file read failed"));
        }
        Ok(bytes)
    }

    /// Finds and reads the directory.
    fn read_directory(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.len < 22 {
            return Err(damaged(READING, "not a ZIP archive"));
        }
        let missing = || damaged(READING, "failed finding central directory");
        let tail_at = self.len.saturating_sub(TAIL);
        let tail = self.bytes(py, tail_at, self.len - tail_at, READING).map_err(|_| missing())?;
        let end = (0..=tail.len() - 22).rev().find(|&i| u32_at(&tail, i) == Some(END)).ok_or_else(missing)?;
        let corrupted = || damaged(READING, CORRUPTED);
        let short = |at: usize| u32_at(&tail, end + at).map(u64::from).ok_or_else(corrupted);
        let mut count = u64::from(u16_at(&tail, end + 10).ok_or_else(corrupted)?);
        let (mut size, mut start) = (short(12)?, short(16)?);
        // The zip64 end record, when a locator in front of the end record says where it is.
        if end >= 20 && u32_at(&tail, end - 20) == Some(ZIP64_LOCATOR) {
            let at = u64_at(&tail, end - 12).ok_or_else(corrupted)?;
            let record = self.bytes(py, at, 56, READING)?;
            if u32_at(&record, 0) != Some(ZIP64_END) {
                return Err(corrupted());
            }
            let field = |at: usize| u64_at(&record, at).ok_or_else(corrupted);
            (count, size, start) = (field(32)?, field(40)?, field(48)?);
        }
        let directory = self.bytes(py, start, size, READING)?;
        let mut at = 0;
        for _ in 0..count {
            let record = parse(&directory, &mut at).ok_or_else(corrupted)?;
            self.records.push(record);
        }
        let Some(first) = self.records.first() else {
            return Err(error::runtime("archive does not contain any files"));
        };
        let Some((archive, _)) = first.name.split_once('/') else {
            return Err(error::runtime(format!("file in archive is not in a subdirectory: {}", first.name)));
        };
        self.archive = archive.to_owned();
        self.check_version(py)
    }

    fn check_version(&self, py: Python<'_>) -> PyResult<()> {
        let name = if self.find(".data/version").is_some() { ".data/version" } else { "version" };
        let text = self.contents(py, self.get(name)?)?;
        let version = std::str::from_utf8(&text).ok().and_then(|t| t.trim().parse::<u64>().ok());
        let Some(version) = version else {
            return Err(PyValueError::new_err("Couldn't parse the version of the archive as an integer."));
        };
        if version < OLDEST_VERSION {
            return Err(error::runtime(format!(
                "Attempted to read a PyTorch file with version {version}, but the minimum supported version for reading is \
                 {OLDEST_VERSION}. Your PyTorch script module file is too old. Please regenerate it with latest version of PyTorch to \
                 mitigate this issue."
            )));
        }
        if version > NEWEST_VERSION {
            return Err(error::runtime(format!(
                "Attempted to read a PyTorch file with version {version}, but the maximum supported version for reading is \
                 {NEWEST_VERSION}. The version of your PyTorch installation may be too old, please upgrade PyTorch to latest version to \
                 mitigate this issue."
            )));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|r| self.short(r) == Some(name))
    }

    /// The name of a record without the archive's.
    fn short<'a>(&self, r: &'a Record) -> Option<&'a str> {
        r.name.strip_prefix(&self.archive)?.strip_prefix('/')
    }

    fn get(&self, name: &str) -> PyResult<&Record> {
        self.find(name).ok_or_else(|| damaged(&format!("locating file {name}"), "file not found"))
    }

    /// Where a record's bytes begin: behind its local header, whose length only the header tells.
    fn data_offset(&self, py: Python<'_>, r: &Record) -> PyResult<u64> {
        let doing = format!("reading file {}", r.name);
        let header = self.bytes(py, r.header, LOCAL_HEADER_SIZE, &doing)?;
        if u32_at(&header, 0) != Some(LOCAL_HEADER) {
            return Err(damaged(&doing, CORRUPTED));
        }
        let length = |at| u16_at(&header, at).map(u64::from).unwrap_or(0);
        Ok(r.header + LOCAL_HEADER_SIZE + length(26) + length(28))
    }

    fn contents(&self, py: Python<'_>, r: &Record) -> PyResult<Vec<u8>> {
        let doing = format!("reading file {}", r.name);
        if r.encrypted {
            return Err(damaged(&doing, "unsupported encryption"));
        }
        let at = self.data_offset(py, r)?;
        let bytes = self.bytes(py, at, r.compressed, &doing)?;
        match r.method {
            0 if r.compressed == r.size => Ok(bytes),
            0 => Err(damaged(&doing, CORRUPTED)),
            // Archives that other programs packed again.
            8 => {
                let inflated = py
                    .import("zlib")?
                    .call_method1("decompress", (PyBytes::new(py, &bytes), -15))
                    .map_err(|e| damaged(&doing, &format!("decompression failed ({e})")))?;
                let inflated = inflated.cast_into::<PyBytes>()?.as_bytes().to_vec();
                if inflated.len() as u64 != r.size {
                    return Err(damaged(&doing, "decompression failed"));
                }
                Ok(inflated)
            }
            _ => Err(damaged(&doing, "unsupported method")),
        }
    }

    /// A record as a storage, read into place.
    fn storage(&self, py: Python<'_>, r: &Record, nbytes: u64) -> PyResult<Storage> {
        let doing = format!("reading file {}", r.name);
        if r.size < nbytes {
            return Err(error::runtime(format!(
                "record {} has {} bytes, but {nbytes} were expected. The file might be corrupted.",
                r.name, r.size
            )));
        }
        if r.method != 0 || r.encrypted {
            let contents = self.contents(py, r)?;
            let storage = Storage::new(nbytes, Device::CPU).into_py()?;
            // SAFETY: a new storage.
            unsafe { storage::data(&storage) }.copy_from_slice(&contents[..nbytes as usize]);
            return Ok(storage);
        }
        let at = self.data_offset(py, r)?;
        if at.checked_add(nbytes).is_none_or(|end| end > self.len) {
            return Err(damaged(&doing, "file read failed"));
        }
        let storage = Storage::new(nbytes, Device::CPU).into_py()?;
        let mut filled = 0;
        let whole = self.source.pieces(py, at, nbytes, |part| {
            // SAFETY: a new storage that nobody else has; the pieces are no longer than asked for.
            let out = unsafe { storage::data(&storage) };
            out[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
        })?;
        if !whole {
            return Err(damaged(&doing, "file read failed"));
        }
        Ok(storage)
    }
}

/// Reads an entry of the directory and moves on to the next.
fn parse(directory: &[u8], at: &mut usize) -> Option<Record> {
    let entry = directory.get(*at..)?;
    if u32_at(entry, 0)? != CENTRAL_HEADER {
        return None;
    }
    let (flags, method) = (u16_at(entry, 8)?, u16_at(entry, 10)?);
    let (name_len, extra_len, comment_len) =
        (u16_at(entry, 28)? as usize, u16_at(entry, 30)? as usize, u16_at(entry, 32)? as usize);
    let mut compressed = u64::from(u32_at(entry, 20)?);
    let mut size = u64::from(u32_at(entry, 24)?);
    let mut header = u64::from(u32_at(entry, 42)?);
    let name = std::str::from_utf8(entry.get(46..46 + name_len)?).ok()?.to_owned();
    let mut extra = entry.get(46 + name_len..46 + name_len + extra_len)?;
    while extra.len() >= 4 {
        let (id, len) = (u16_at(extra, 0)?, u16_at(extra, 2)? as usize);
        let field = extra.get(4..4 + len)?;
        if id == 1 {
            // Only what did not fit is here, in this order.
            let mut from = 0;
            for value in [&mut size, &mut compressed, &mut header] {
                if *value == LIMIT {
                    *value = u64_at(field, from)?;
                    from += 8;
                }
            }
        }
        extra = &extra[4 + len..];
    }
    *at += 46 + name_len + extra_len + comment_len;
    Some(Record { name, method, encrypted: flags & 1 != 0, compressed, size, header })
}

#[pymethods]
impl PyTorchFileReader {
    #[new]
    fn new(name_or_buffer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = name_or_buffer.py();
        let (source, len) = if let Ok(name) = name_or_buffer.cast::<PyString>() {
            let name = name.to_str()?;
            let file = File::open(name).map_err(|e| {
                let code = e.raw_os_error().unwrap_or(0);
                let why = e.to_string();
                let why = why.split(" (os error").next().unwrap_or_default();
                error::runtime(format!(
                    "open file failed because of errno {code} on fopen: {why}, file path: {name}"
                ))
            })?;
            let len = file.metadata()?.len();
            (Source::File(Mutex::new(file)), len)
        } else {
            let start: u64 = name_or_buffer.call_method0("tell")?.extract()?;
            name_or_buffer.call_method1("seek", (0, 2))?;
            let end: u64 = name_or_buffer.call_method0("tell")?.extract()?;
            (Source::Buffer(name_or_buffer.clone().unbind(), start), end.saturating_sub(start))
        };
        let mut reader = PyTorchFileReader { source, len, archive: String::new(), records: Vec::new() };
        reader.read_directory(py)?;
        Ok(reader)
    }

    fn get_record<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.contents(py, self.get(name)?)?))
    }

    fn has_record(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn get_record_size(&self, name: &str) -> PyResult<u64> {
        Ok(self.get(name)?.size)
    }

    fn get_record_offset(&self, py: Python<'_>, name: &str) -> PyResult<u64> {
        self.data_offset(py, self.get(name)?)
    }

    fn get_record_header_offset(&self, name: &str) -> PyResult<u64> {
        Ok(self.get(name)?.header)
    }

    /// Where a record's bytes would begin if its header were written at a position.
    fn get_record_offset_no_read(
        &self,
        cursor: u64,
        name: &str,
        size: u64,
        storage_alignment: u64,
    ) -> PyResult<u64> {
        if storage_alignment == 0 || storage_alignment > 1 << 15 {
            return Err(PyValueError::new_err(format!(
                "a storage alignment of {storage_alignment} is impossible"
            )));
        }
        let name_len = self.archive.len() + 1 + name.len();
        let extra = local_extra(cursor, name_len, size, storage_alignment);
        Ok(cursor + LOCAL_HEADER_SIZE + name_len as u64 + extra.len() as u64)
    }

    fn get_all_records(&self) -> Vec<String> {
        self.records.iter().map(|r| self.short(r).unwrap_or(&r.name).to_owned()).collect()
    }

    /// A tensor without elements over a record's storage.
    fn get_storage_from_record<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        numel: u64,
        data_type: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The tree gives the class of untyped storages where it means bytes.
        let dtype = dtype::from_py(data_type).unwrap_or(DType::Byte);
        let Some(nbytes) = numel.checked_mul(dtype.itemsize() as u64) else {
            return Err(PyNotImplementedError::new_err(format!(
                "a storage of {numel} elements is too large"
            )));
        };
        let storage = self.storage(py, self.get(name)?, nbytes)?;
        let t = Tensor::from_storage(storage, dtype, IntList::from_slice(&[0]), IntList::from_slice(&[1]), 0);
        object::wrap(py, t)
    }

    fn serialization_id(&self, py: Python<'_>) -> PyResult<String> {
        match self.find(".data/serialization_id") {
            Some(r) => Ok(String::from_utf8_lossy(&self.contents(py, r)?).into_owned()),
            None => Ok(String::new()),
        }
    }
}
