//! `torch._C.StorageBase`: the Python object of a storage. One object a storage: the engine keeps it alive while it holds
//! the storage in more handles than the object's own.

mod bytes;
mod file;
mod set;
mod sharing;

pub use bytes::{Buffer, swap};
pub use set::{set_method, tensor_of, untyped_storage};

use crate::error::{self, IntoPy};
use crate::parser::is_int;
use crate::types::device;
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PySlice, PyTuple, PyType};
use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};
use torchnative_engine::storage::{StorageImpl, WeakStorage};
use torchnative_engine::{DType, Device, DeviceType, Storage};

/// The base of `torch.UntypedStorage`.
#[pyclass(name = "StorageBase", module = "torch._C", subclass)]
pub struct PyStorage {
    // Replaced once, before anybody else sees the object.
    storage: UnsafeCell<Storage>,
}

// SAFETY: the cell is written only while the object is being made.
unsafe impl Sync for PyStorage {}

impl Drop for PyStorage {
    fn drop(&mut self) {
        let storage = self.storage.get_mut();
        storage.set_pyobj(std::ptr::null_mut());
        if let Ok(mut shown) = SHOWN.lock() {
            shown.remove(&storage.cdata());
        }
    }
}

/// The addresses that `_cdata` gave out and whose object lives.
static SHOWN: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);
/// The weak references that `_weak_ref` gave out and `_free_weak_ref` has not taken back.
static WEAK: LazyLock<Mutex<Vec<usize>>> = LazyLock::new(Mutex::default);
static UNTYPED: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// `torch.UntypedStorage`
fn untyped_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    UNTYPED.import(py, "torch.storage", "UntypedStorage")
}

/// A handle on the storage of an object; whoever holds it finds the object again.
fn handle(object: &Bound<'_, PyStorage>) -> Storage {
    // SAFETY: see `PyStorage`.
    let storage = unsafe { &*object.borrow().storage.get() };
    if storage.pyobj_ptr().is_null() {
        storage.set_pyobj(object.as_ptr().cast());
    }
    storage.clone()
}

/// The Python object of a storage: the one it has, or a new `torch.UntypedStorage`.
pub fn wrap(py: Python<'_>, storage: Storage) -> PyResult<Bound<'_, PyAny>> {
    let known = storage.pyobj_ptr();
    if !known.is_null() {
        // SAFETY: the slot holds a live object; the reference is taken before the handle is dropped.
        return Ok(unsafe { Bound::from_borrowed_ptr(py, known.cast()) });
    }
    let class = untyped_class(py)?;
    let object = class.call_method1("__new__", (class,))?;
    {
        let base = object.cast::<PyStorage>()?.borrow();
        // SAFETY: a new object that nobody else has.
        let slot = unsafe { &mut *base.storage.get() };
        *slot = storage;
        slot.set_pyobj(object.as_ptr().cast());
    }
    Ok(object)
}

/// The storage of a Python object, with its dtype when it is a typed one; `None` for any other object.
pub fn from_py(object: &Bound<'_, PyAny>) -> PyResult<Option<(Storage, Option<DType>)>> {
    if let Ok(o) = object.cast::<PyStorage>() {
        return Ok(Some((handle(o), None)));
    }
    let py = object.py();
    static TYPED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    // Types that cannot be typed storages are told apart without an import.
    if !object.get_type().name().is_ok_and(|n| n.to_string_lossy().ends_with("Storage"))
        || !object.is_instance(TYPED.import(py, "torch.storage", "TypedStorage")?)?
    {
        return Ok(None);
    }
    let untyped = object.getattr("_untyped_storage")?;
    let dtype = crate::types::dtype::from_py(&object.getattr("dtype")?);
    Ok(Some((handle(untyped.cast::<PyStorage>()?), dtype)))
}

/// The class of an object, as messages show it.
pub(crate) fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "object".into(), |n| n.to_string())
}

const NAME: &str = "torch.UntypedStorage";

fn mismatch(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyErr {
    let mut got: Vec<String> = args.iter().map(|o| kind(&o)).collect();
    for (k, v) in kwargs.into_iter().flat_map(|k| k.iter()) {
        got.push(format!("{k}={}", kind(&v)));
    }
    PyTypeError::new_err(format!(
        "{NAME}() received an invalid combination of arguments - got ({}), but expected one of:\n * (*, int allocator = None, \
         torch.device device = None)\n * (int size, *, int allocator = None, torch.device device = None)\n * (object sequence, *, \
         int allocator = None, torch.device device = None)\n",
        got.join(", ")
    ))
}

fn size_of(n: &Bound<'_, PyAny>) -> PyResult<u64> {
    let n: i64 = n.call_method0("__index__")?.extract()?;
    u64::try_from(n).map_err(|_| {
        error::runtime(format!(
            "[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been called with negative \
             number: {}",
            n as u64
        ))
    })
}

/// A byte from a Python int; larger numbers wrap, as in C.
fn byte(value: &Bound<'_, PyAny>) -> PyResult<Option<u8>> {
    if !value.is_instance_of::<PyInt>() {
        return Ok(None);
    }
    Ok(Some(match value.extract::<i64>() {
        Ok(v) => v as u8,
        Err(_) => value.extract::<u64>()? as u8,
    }))
}

fn allocate(nbytes: u64, device: Device) -> PyResult<Storage> {
    if device.ty == DeviceType::Cuda {
        Python::attach(|py| py.import("torch.cuda")?.call_method0("_lazy_init").map(drop))?;
    }
    Storage::new(nbytes, device).into_py()
}

/// The bytes of a CPU storage.
///
/// # Safety
/// Nothing else writes them while the slice is used; the storage is not resized meanwhile.
#[allow(clippy::mut_from_ref, reason = "a storage's bytes are shared by design")]
pub(crate) unsafe fn data(storage: &Storage) -> &mut [u8] {
    let p = storage.data_ptr();
    if p.is_null() {
        return &mut [];
    }
    unsafe { std::slice::from_raw_parts_mut(p, storage.nbytes()) }
}

/// Start and length of a slice with step one.
fn range(slice: &Bound<'_, PySlice>, nbytes: usize) -> PyResult<(usize, usize)> {
    let at = slice.indices(nbytes as isize)?;
    if at.step != 1 {
        return Err(error::runtime(format!(
            "Trying to slice with a step of {}, but only a step of 1 is supported",
            at.step
        )));
    }
    Ok((at.start as usize, at.slicelength))
}

fn weak(reference: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    if !reference.is_instance_of::<PyInt>() {
        return Err(error::runtime(format!("{name}(): arg must be an 'int'")));
    }
    let address: usize = reference.extract()?;
    match WEAK.lock() {
        Ok(known) if known.contains(&address) => Ok(address),
        _ => Err(error::runtime(format!("{name}(): {address} is no weak reference to a storage"))),
    }
}

#[pymethods]
impl PyStorage {
    #[new]
    #[classmethod]
    #[pyo3(signature = (*args, **kwargs))]
    fn make(
        cls: &Bound<'_, PyType>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        if cls.is(cls.py().get_type::<PyStorage>()) {
            return Err(error::runtime(
                "Cannot directly construct StorageBase; subclass it and then construct that",
            ));
        }
        let (mut size, mut sequence, mut to) = (None, None, Device::CPU);
        match args.len() {
            0 => {}
            1 if is_int(&args.get_item(0)?) => size = Some(args.get_item(0)?),
            1 => sequence = Some(args.get_item(0)?),
            _ => return Err(mismatch(args, kwargs)),
        }
        for (k, v) in kwargs.into_iter().flat_map(|k| k.iter()) {
            match k.extract::<String>()?.as_str() {
                "allocator" if v.is_none() => {}
                "allocator" => {
                    return Err(PyNotImplementedError::new_err(format!(
                        "{NAME}() with an allocator is not implemented in torchnative"
                    )));
                }
                "device" if v.is_none() => {}
                "device" => to = device::from_py(&v)?.ok_or_else(|| mismatch(args, kwargs))?,
                "size" if args.is_empty() && is_int(&v) => size = Some(v),
                "sequence" if args.is_empty() => sequence = Some(v),
                _ => return Err(mismatch(args, kwargs)),
            }
        }
        let storage = match (size, sequence) {
            (Some(_), Some(_)) => return Err(mismatch(args, kwargs)),
            (None, None) => allocate(0, to)?,
            (Some(n), None) => allocate(size_of(&n)?, to)?,
            (None, Some(items)) => {
                // SAFETY: a live object, attached.
                let is_sequence = unsafe { ffi::PySequence_Check(items.as_ptr()) } != 0;
                if !is_sequence || crate::tensor::object::get(&items).is_some() {
                    return Err(error::runtime(format!(
                        "{NAME}(): Expected a sequence type, but got {}",
                        kind(&items)
                    )));
                }
                let storage = allocate(items.len()? as u64, to)?;
                for i in 0..items.len()? {
                    let item = items.get_item(i)?;
                    let Some(v) = byte(&item)? else {
                        return Err(error::runtime(format!(
                            "{NAME}(): tried to construct a storage from a sequence ({}), but one of the items was of type {} \
                             instead of int",
                            kind(&items),
                            kind(&item)
                        )));
                    };
                    // SAFETY: a new storage; Python code in between cannot reach it.
                    if let Some(slot) = unsafe { data(&storage) }.get_mut(i) {
                        *slot = v;
                    }
                }
                storage
            }
        };
        Ok(PyStorage { storage: UnsafeCell::new(storage) })
    }

    fn __len__(slf: &Bound<'_, Self>) -> usize {
        handle(slf).nbytes()
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, storage) = (slf.py(), handle(slf));
        file::on_cpu(&storage)?;
        let nbytes = storage.nbytes();
        if is_int(index) && crate::tensor::object::get(index).is_none() {
            let mut i: i64 = index.call_method0("__index__")?.extract()?;
            if i < 0 {
                i += nbytes as i64;
            }
            return match usize::try_from(i) {
                // SAFETY: read at once.
                Ok(at) if at < nbytes => Ok(unsafe { data(&storage) }.get(at).into_pyobject(py)?.into_any()),
                _ => {
                    Err(PyIndexError::new_err(format!("index {i} out of range for storage of size {nbytes}")))
                }
            };
        }
        let Ok(slice) = index.cast::<PySlice>() else {
            return Err(PyTypeError::new_err(format!("can't index a {NAME} with {}", kind(index))));
        };
        let (start, len) = range(slice, nbytes)?;
        // A part of a storage is a storage over the same memory, kept by the whole.
        let at = storage.data_ptr();
        let at = if at.is_null() { at } else { at.wrapping_add(start) };
        // SAFETY: within the storage, which the part owns.
        wrap(py, unsafe { Storage::from_foreign(at, len, Box::new(storage)) })
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(v) = byte(value)? else {
            return Err(error::runtime(format!(
                "can only set storage content with a int types, but got {} instead",
                kind(value)
            )));
        };
        let storage = handle(slf);
        file::on_cpu(&storage)?;
        // SAFETY: written at once.
        let bytes = unsafe { data(&storage) };
        if is_int(index) && crate::tensor::object::get(index).is_none() {
            let i: i64 = index.call_method0("__index__")?.extract()?;
            let slot = usize::try_from(i).ok().and_then(|i| bytes.get_mut(i));
            *slot.ok_or_else(|| error::runtime("out of bounds"))? = v;
            return Ok(());
        }
        let Ok(slice) = index.cast::<PySlice>() else {
            return Err(error::runtime(format!("can't index a {NAME} with {}", kind(index))));
        };
        let (start, len) = range(slice, bytes.len())?;
        bytes[start..start + len].fill(v);
        Ok(())
    }

    #[pyo3(signature = (src, non_blocking = None))]
    fn copy_<'py>(
        slf: &Bound<'py, Self>,
        src: &Bound<'py, PyAny>,
        non_blocking: Option<bool>,
    ) -> PyResult<Bound<'py, Self>> {
        let _ = non_blocking;
        let to = handle(slf);
        let Some((from, _)) = from_py(src)? else {
            return Err(PyTypeError::new_err(format!(
                "copy_(): argument 'src' (position 1) must be torch.Storage, not {}",
                kind(src)
            )));
        };
        set::copy(&to, &from)?;
        Ok(slf.clone())
    }

    fn element_size(&self) -> usize {
        1
    }

    fn fill_<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let Some(v) = byte(value)? else {
            return Err(error::runtime(format!("fill_ expects int, but got {}", kind(value))));
        };
        let storage = handle(slf);
        file::on_cpu(&storage)?;
        // SAFETY: written at once.
        unsafe { data(&storage) }.fill(v);
        Ok(slf.clone())
    }

    /// An empty storage on the same device.
    #[pyo3(name = "new")]
    fn new_empty<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        wrap(slf.py(), allocate(0, handle(slf).device())?)
    }

    fn resize_<'py>(slf: &Bound<'py, Self>, size: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        if !size.is_instance_of::<PyInt>() || size.is_instance_of::<PyBool>() {
            return Err(error::runtime(format!("resize_ expects an int, but got {}", kind(size))));
        }
        handle(slf).resize(size_of(size)?).into_py()?;
        Ok(slf.clone())
    }

    fn nbytes(slf: &Bound<'_, Self>) -> u64 {
        handle(slf).size()
    }

    fn data_ptr(slf: &Bound<'_, Self>) -> usize {
        let storage = handle(slf);
        // A number that tells memory of a device apart, which must not be followed.
        if storage.allocation().is_some() { storage.cdata() } else { storage.data_ptr() as usize }
    }

    fn resizable(slf: &Bound<'_, Self>) -> bool {
        handle(slf).resizable()
    }

    #[getter]
    fn device<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, device::PyDevice>> {
        device::to_py(slf.py(), handle(slf).device())
    }

    #[getter]
    fn _cdata(slf: &Bound<'_, Self>) -> usize {
        let address = handle(slf).cdata();
        if let Ok(mut shown) = SHOWN.lock() {
            shown.insert(address);
        }
        address
    }

    fn _byteswap(slf: &Bound<'_, Self>, elem_size: &Bound<'_, PyAny>) -> PyResult<()> {
        if !elem_size.is_instance_of::<PyInt>() {
            return Err(error::runtime("_byteswap(): arg must be an 'int'"));
        }
        let size: i64 = elem_size.extract()?;
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(error::runtime("elem_size must be 1, 2, 4, or 8"));
        }
        let storage = handle(slf);
        file::on_cpu(&storage)?;
        // SAFETY: written at once.
        bytes::swap(unsafe { data(&storage) }, size as usize);
        Ok(())
    }

    fn _weak_ref(slf: &Bound<'_, Self>) -> PyResult<usize> {
        let address = handle(slf).downgrade().into_raw() as usize;
        WEAK.lock().map_err(|_| error::runtime("the list of weak references is unusable"))?.push(address);
        Ok(address)
    }

    #[staticmethod]
    fn _free_weak_ref(reference: &Bound<'_, PyAny>) -> PyResult<()> {
        if reference.is_none() {
            return Ok(());
        }
        let address = weak(reference, "_free_weak_ref")?;
        if let Ok(mut known) = WEAK.lock()
            && let Some(i) = known.iter().position(|p| *p == address)
        {
            known.swap_remove(i);
            // SAFETY: each entry of the list stands for one reference that was given out.
            drop(unsafe { WeakStorage::from_raw(address as *const StorageImpl) });
        }
        Ok(())
    }

    #[staticmethod]
    fn _expired(reference: &Bound<'_, PyAny>) -> PyResult<bool> {
        let address = weak(reference, "_expired")?;
        // SAFETY: the reference stays the list's.
        let weak =
            std::mem::ManuallyDrop::new(unsafe { WeakStorage::from_raw(address as *const StorageImpl) });
        Ok(weak.expired())
    }

    #[staticmethod]
    fn _new_with_weak_ptr<'py>(reference: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let address = weak(reference, "_new_with_weak_ptr")?;
        // SAFETY: as above.
        let weak =
            std::mem::ManuallyDrop::new(unsafe { WeakStorage::from_raw(address as *const StorageImpl) });
        weak.upgrade().map(|s| wrap(reference.py(), s)).transpose()
    }

    #[staticmethod]
    #[pyo3(signature = (*args, **kwargs))]
    fn from_buffer<'py>(
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        bytes::from_buffer(py, args, kwargs)
    }

    #[staticmethod]
    #[pyo3(signature = (filename, shared = false, nbytes = 0))]
    fn from_file<'py>(
        py: Python<'py>,
        filename: &Bound<'py, PyAny>,
        shared: bool,
        nbytes: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Ok(path) = filename.extract::<String>() else {
            return Err(PyTypeError::new_err(format!("argument 1 must be str, not {}", kind(filename))));
        };
        let mapping = torchnative_engine::storage::Mapping::file(&path, shared, nbytes).into_py()?;
        wrap(py, Storage::from_mapping(mapping))
    }

    fn _write_file(
        slf: &Bound<'_, Self>,
        file: &Bound<'_, PyAny>,
        _is_real_file: bool,
        save_size: bool,
        element_size: usize,
    ) -> PyResult<()> {
        file::write(&handle(slf), file, save_size, element_size)
    }

    #[staticmethod]
    fn _new_with_file<'py>(file: &Bound<'py, PyAny>, element_size: usize) -> PyResult<Bound<'py, PyAny>> {
        wrap(file.py(), file::read(file, None, element_size, None)?)
    }

    #[pyo3(signature = (file, offset, _is_real_file, element_size))]
    fn _set_from_file<'py>(
        slf: &Bound<'py, Self>,
        file: &Bound<'py, PyAny>,
        offset: Option<i64>,
        _is_real_file: bool,
        element_size: usize,
    ) -> PyResult<Bound<'py, Self>> {
        file::read(file, offset, element_size, Some(&handle(slf)))?;
        Ok(slf.clone())
    }

    fn _get_filename(slf: &Bound<'_, Self>) -> Option<String> {
        Some(handle(slf).mapping()?.path()?.to_owned())
    }

    fn is_shared(slf: &Bound<'_, Self>) -> bool {
        handle(slf).mapping().is_some()
    }

    fn _share_fd_cpu_(slf: &Bound<'_, Self>) -> PyResult<(i32, usize)> {
        sharing::by_descriptor(&handle(slf))
    }

    #[staticmethod]
    fn _new_shared_fd_cpu(py: Python<'_>, fd: i32, size: usize) -> PyResult<Bound<'_, PyAny>> {
        wrap(py, sharing::open_descriptor(fd, size)?)
    }

    #[staticmethod]
    fn _new_using_fd_cpu(py: Python<'_>, size: usize) -> PyResult<Bound<'_, PyAny>> {
        wrap(py, sharing::new_by_descriptor(size)?)
    }

    fn _share_filename_cpu_<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, usize)> {
        let storage = handle(slf);
        let name = sharing::by_name(&storage)?;
        // Upstream's first part finds the process that removes names left behind; here the last user removes them.
        let manager = PyBytes::new(slf.py(), b"");
        Ok((manager, PyBytes::new(slf.py(), name.as_bytes()), storage.nbytes()))
    }

    #[staticmethod]
    fn _new_shared_filename_cpu<'py>(
        py: Python<'py>,
        _manager: &Bound<'py, PyAny>,
        handle: &[u8],
        size: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        wrap(py, sharing::open_name(handle, size)?)
    }

    #[staticmethod]
    fn _new_using_filename_cpu(py: Python<'_>, size: usize) -> PyResult<Bound<'_, PyAny>> {
        wrap(py, sharing::new_by_name(size)?)
    }

    fn _shared_incref(slf: &Bound<'_, Self>) {
        sharing::count_user(&handle(slf), 1);
    }

    fn _shared_decref<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        sharing::count_user(&handle(slf), -1);
        slf.clone()
    }

    fn _get_shared_fd(slf: &Bound<'_, Self>) -> PyResult<i32> {
        sharing::descriptor(&handle(slf))
            .ok_or_else(|| error::runtime("couldn't retrieve a shared file descriptor"))
    }

    fn _share_cuda_(&self) -> PyResult<()> {
        Err(error::runtime("_share_cuda_: only available on CUDA"))
    }

    /// Weak references stay valid here; upstream mends them after a change of its representation.
    fn _fix_weakref(&self) {}
}

/// Whether the engine has memory behind a tensor: sparse layouts have none of their own.
#[pyfunction]
fn _has_storage(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(set::tensor_of(tensor)?.layout() == torchnative_engine::Layout::Strided)
}

#[pyfunction]
fn _storage_id(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(set::tensor_of(tensor)?.storage().cdata())
}

#[pyfunction]
fn _storage_address(tensor: &Bound<'_, PyAny>) -> PyResult<usize> {
    _storage_id(tensor)
}

/// The number of handles on the storage at an address that `_cdata` gave.
#[pyfunction]
#[pyo3(name = "_storage_Use_Count")]
fn _storage_use_count(address: usize) -> PyResult<usize> {
    let known = SHOWN.lock().is_ok_and(|shown| shown.contains(&address));
    if !known {
        return Err(error::runtime(format!("{address} is no address of a storage")));
    }
    // SAFETY: the object whose `_cdata` this is lives, and with it the storage; the borrowed handle is not dropped.
    let storage = std::mem::ManuallyDrop::new(unsafe { Storage::from_address(address) });
    Ok(storage.use_count())
}

/// Storages whose memory may not be looked at belong to fake tensors, which keep theirs on the meta device here.
#[pyfunction]
fn _storage_throw_on_immutable_data_ptr(_address: usize) -> bool {
    false
}

#[pyfunction]
fn _storage_throw_on_mutable_data_ptr(_address: usize) -> bool {
    false
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStorage>()?;
    for function in [
        wrap_pyfunction!(_has_storage, module)?,
        wrap_pyfunction!(_storage_id, module)?,
        wrap_pyfunction!(_storage_address, module)?,
        wrap_pyfunction!(_storage_use_count, module)?,
        wrap_pyfunction!(_storage_throw_on_immutable_data_ptr, module)?,
        wrap_pyfunction!(_storage_throw_on_mutable_data_ptr, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
