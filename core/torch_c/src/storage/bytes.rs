//! Bytes of Python objects: the buffer protocol, and storages decoded from buffers.

use crate::error;
use crate::types::dtype;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use torchnative_engine::{DType, Device, Storage};

/// A view of a Python object's bytes, contiguous; the object cannot move them while it exists.
pub struct Buffer {
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the view is only read here, and released attached.
unsafe impl Send for Buffer {}

impl Buffer {
    /// The bytes of an object.
    ///
    /// # Errors
    /// What the object raises: TypeError when it has none, BufferError when they are not contiguous (or, asked for,
    /// not writable).
    pub fn get(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Buffer> {
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags = if writable { ffi::PyBUF_WRITABLE } else { ffi::PyBUF_SIMPLE };
        // SAFETY: a live object and a view to fill, released when dropped.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Buffer { view })
    }
    pub fn data(&self) -> *mut u8 {
        self.view.buf.cast()
    }
    fn len(&self) -> usize {
        self.view.len as usize
    }
    pub fn bytes(&self) -> &[u8] {
        if self.view.buf.is_null() || self.view.len <= 0 {
            return &[];
        }
        // SAFETY: the view's memory stays while it is held.
        unsafe { std::slice::from_raw_parts(self.data(), self.len()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: filled by `get`, released once.
        error::attached(|| unsafe { ffi::PyBuffer_Release(&raw mut *self.view) });
    }
}

/// Reverses the bytes of each element.
pub fn swap(bytes: &mut [u8], element_size: usize) {
    if element_size > 1 {
        for element in bytes.chunks_exact_mut(element_size) {
            element.reverse();
        }
    }
}

/// `UntypedStorage.from_buffer(buffer, byte_order=None, count=-1, offset=0, dtype=None)`: a storage of the elements of a
/// buffer in a given byte order.
pub fn from_buffer<'py>(
    py: Python<'py>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAMES: [&str; 5] = ["buffer", "byte_order", "count", "offset", "dtype"];
    let mut given: [Option<Bound<'py, PyAny>>; 5] = Default::default();
    if args.len() > NAMES.len() {
        return Err(PyTypeError::new_err(format!(
            "function takes at most {} arguments ({} given)",
            NAMES.len(),
            args.len()
        )));
    }
    for (slot, o) in given.iter_mut().zip(args.iter()) {
        *slot = Some(o);
    }
    for (k, v) in kwargs.into_iter().flat_map(|k| k.iter()) {
        let k: String = k.extract()?;
        match NAMES.iter().position(|n| *n == k) {
            Some(i) if given[i].is_none() => given[i] = Some(v),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "this function got an unexpected keyword argument '{k}'"
                )));
            }
        }
    }
    let [buffer, order, count, offset, dtype] = given;
    let buffer =
        buffer.ok_or_else(|| PyTypeError::new_err("function missing required argument 'buffer' (pos 1)"))?;
    let order =
        match &order {
            None => None,
            Some(o) => Some(o.extract::<String>().map_err(|_| {
                PyTypeError::new_err(format!("argument 2 must be str, not {}", super::kind(o)))
            })?),
        };
    let number = |o: Option<Bound<'_, PyAny>>, default: i64| o.map_or(Ok(default), |o| o.extract::<i64>());
    let (count, offset) = (number(count, -1)?, number(offset, 0)?);
    let dtype = dtype.ok_or_else(|| error::runtime("argument 'dtype' cannot be None"))?;
    let dtype = dtype::from_py(&dtype)
        .ok_or_else(|| error::runtime("argument 'dtype' must be of type torch.dtype"))?;
    let size = dtype.itemsize();
    let swapped = match order.as_deref() {
        None if size == 1 && matches!(dtype, DType::Byte | DType::Char) => false,
        None => return Err(error::runtime("function missing required argument 'byte_order' (pos 2)")),
        Some("native") => false,
        Some("big") => cfg!(target_endian = "little"),
        Some("little") => cfg!(target_endian = "big"),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "invalid byte_order '{other}' (expected 'big', 'little', or 'native')"
            )));
        }
    };
    let view = Buffer::get(&buffer, false)?;
    let len = view.len() as i64;
    if offset < 0 || offset > len {
        return Err(PyValueError::new_err(format!(
            "offset must be non-negative and no greater than buffer length ({len}) , but got {offset}"
        )));
    }
    let present = len - offset;
    let count = if count < 0 {
        if present % size as i64 != 0 {
            return Err(PyValueError::new_err(format!(
                "buffer size ({len}) must be a multiple of element size ({size})"
            )));
        }
        present / size as i64
    } else {
        count
    };
    if count.checked_mul(size as i64).is_none_or(|need| need > present) {
        return Err(PyValueError::new_err(format!(
            "buffer has only {present} elements after offset {offset}, but specified a size of {count}"
        )));
    }
    let plain =
        matches!(dtype, DType::Byte | DType::Char | DType::Bool | DType::Short | DType::Int | DType::Long)
            || dtype.is_floating_point()
            || matches!(dtype, DType::ComplexFloat | DType::ComplexDouble);
    if !plain {
        return Err(error::runtime(format!("Unknown type: {}", dtype.scalar_type_name())));
    }
    let storage = super::allocate(count as u64 * size as u64, Device::CPU)?;
    decode(&storage, &view.bytes()[offset as usize..], dtype, swapped);
    super::wrap(py, storage)
}

fn decode(storage: &Storage, bytes: &[u8], dtype: DType, swapped: bool) {
    // SAFETY: a new storage.
    let out = unsafe { super::data(storage) };
    let n = out.len();
    out.copy_from_slice(&bytes[..n]);
    if swapped {
        // The parts of a complex number keep their order.
        swap(out, if dtype.is_complex() { dtype.itemsize() / 2 } else { dtype.itemsize() });
    }
    if dtype == DType::Bool {
        out.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
}
