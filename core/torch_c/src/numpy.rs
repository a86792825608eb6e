//! NumPy arrays and tensors over the same memory, and NumPy's scalars as numbers. Arrays are read by their attributes; to
//! make one over given memory, NumPy's own table of C functions is asked.

use crate::error;
use crate::tensor::data::warn_once;
use crate::tensor::object;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicBool;
use torchnative_engine::{DType, DeviceType, IntList, Layout, Scalar, Storage, Tensor};

struct Types {
    array: Py<PyType>,
    generic: Py<PyType>,
    number: Py<PyType>,
    integer: Py<PyType>,
    boolean: Py<PyType>,
}

static TYPES: PyOnceLock<Types> = PyOnceLock::new();

/// NumPy's classes, once somebody has imported it: without it nothing can be an array.
fn types(py: Python<'_>) -> PyResult<Option<&Types>> {
    if let Some(t) = TYPES.get(py) {
        return Ok(Some(t));
    }
    let loaded = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.cast_into::<PyDict>()?;
    let Some(numpy) = loaded.get_item(intern!(py, "numpy"))? else { return Ok(None) };
    let class = |name: &str| -> PyResult<Option<Py<PyType>>> {
        match numpy.getattr(name) {
            Ok(c) => Ok(Some(c.cast_into::<PyType>()?.unbind())),
            // It is being imported.
            Err(_) => Ok(None),
        }
    };
    let (Some(array), Some(generic), Some(number), Some(integer), Some(boolean)) =
        (class("ndarray")?, class("generic")?, class("number")?, class("integer")?, class("bool_")?)
    else {
        return Ok(None);
    };
    let _ = TYPES.set(py, Types { array, generic, number, integer, boolean });
    Ok(TYPES.get(py))
}

fn is(o: &Bound<'_, PyAny>, class: impl Fn(&Types) -> &Py<PyType>) -> PyResult<bool> {
    match types(o.py())? {
        Some(t) => o.is_instance(class(t).bind(o.py())),
        None => Ok(false),
    }
}

/// Whether the object is a NumPy array.
pub fn is_array(o: &Bound<'_, PyAny>) -> PyResult<bool> {
    is(o, |t| &t.array)
}

/// Whether the object is a NumPy bool.
pub fn is_bool(o: &Bound<'_, PyAny>) -> PyResult<bool> {
    is(o, |t| &t.boolean)
}

/// Whether the object is a scalar of NumPy's.
pub fn is_scalar(o: &Bound<'_, PyAny>) -> PyResult<bool> {
    is(o, |t| &t.generic)
}

/// The number in a NumPy scalar, as upstream takes one for an argument: integers as they are, all others as floats.
/// `None` for any other object.
pub fn scalar(o: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    let Some(t) = types(o.py())? else { return Ok(None) };
    let py = o.py();
    if !o.is_instance(t.generic.bind(py))? {
        return Ok(None);
    }
    if o.is_instance(t.integer.bind(py))? {
        let index = o.call_method0(intern!(py, "__index__"))?;
        return Ok(Some(match (index.extract::<i64>(), index.extract::<u64>()) {
            (Ok(v), _) => Scalar::Int(v),
            (_, Ok(v)) => Scalar::UInt(v),
            _ => return Err(PyOverflowError::new_err("Overflow when unpacking long long")),
        }));
    }
    if o.is_instance(t.number.bind(py))? || o.is_instance(t.boolean.bind(py))? {
        return Ok(Some(Scalar::Float(o.call_method0(intern!(py, "__float__"))?.extract()?)));
    }
    Ok(None)
}

/// The dtype of a NumPy array or scalar; `None` for any other object.
pub fn dtype_of(o: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    let Some(t) = types(o.py())? else { return Ok(None) };
    let py = o.py();
    if !o.is_instance(t.array.bind(py))? && !o.is_instance(t.generic.bind(py))? {
        return Ok(None);
    }
    // Text is a sequence too, and has its own error.
    if o.is_instance_of::<PyString>() {
        return Ok(None);
    }
    dtype(&o.getattr(intern!(py, "dtype"))?).map(Some)
}

/// The dtype of a NumPy dtype object.
fn dtype(d: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = d.py();
    let kind: String = d.getattr(intern!(py, "kind"))?.extract()?;
    let size: usize = d.getattr(intern!(py, "itemsize"))?.extract()?;
    Ok(match (kind.as_str(), size) {
        ("b", 1) => DType::Bool,
        ("i", 1) => DType::Char,
        ("i", 2) => DType::Short,
        ("i", 4) => DType::Int,
        ("i", 8) => DType::Long,
        ("u", 1) => DType::Byte,
        ("u", 2) => DType::UInt16,
        ("u", 4) => DType::UInt32,
        ("u", 8) => DType::UInt64,
        ("f", 2) => DType::Half,
        ("f", 4) => DType::Float,
        ("f", 8) => DType::Double,
        ("c", 8) => DType::ComplexFloat,
        ("c", 16) => DType::ComplexDouble,
        _ => {
            let class = d.getattr(intern!(py, "type"))?.getattr("__name__")?;
            return Err(PyTypeError::new_err(format!(
                "can't convert np.ndarray of type numpy.{class}. The only supported types are: float64, float32, float16, complex64, \
                 complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
            )));
        }
    })
}

/// An object that is let go of at once, from whatever thread drops it last.
struct Kept(Option<Py<PyAny>>);

impl Drop for Kept {
    fn drop(&mut self) {
        let object = self.0.take();
        error::attached(move || drop(object));
    }
}

/// A tensor over the memory of an array, which it keeps.
///
/// # Errors
/// TypeError for another object or element type; ValueError for strides and byte orders that tensors do not have.
pub fn from_array(array: &Bound<'_, PyAny>, warn_if_read_only: bool) -> PyResult<Tensor> {
    let py = array.py();
    if !is_array(array)? {
        return Err(PyTypeError::new_err(format!(
            "expected np.ndarray (got {})",
            crate::tensor::data::kind(array)
        )));
    }
    let interface = array.getattr(intern!(py, "__array_interface__"))?.cast_into::<PyDict>()?;
    let part = |name: &str| {
        interface.get_item(name)?.ok_or_else(|| error::runtime(format!("the array has no {name}")))
    };
    let (address, read_only): (usize, bool) = part("data")?.extract()?;
    if read_only && warn_if_read_only {
        static DONE: AtomicBool = AtomicBool::new(false);
        warn_once(
            py,
            &DONE,
            c"The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to this \
              tensor will result in undefined behavior. You may want to copy the array to protect its data or make it writable before \
              converting it to a tensor. This type of warning will be suppressed for the rest of this program.",
        )?;
    }
    let sizes: IntList = part("shape")?.extract::<Vec<i64>>()?.into_iter().collect();
    let strides: Vec<i64> = array.getattr(intern!(py, "strides"))?.extract()?;
    let descr = array.getattr(intern!(py, "dtype"))?;
    let itemsize: i64 = descr.getattr(intern!(py, "itemsize"))?.extract()?;
    let mut elements = IntList::new();
    // One past the last byte, counted from the first.
    let mut span = itemsize;
    for (&size, &stride) in sizes.iter().zip(&strides) {
        if stride < 0 {
            return Err(PyValueError::new_err(
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently \
                 supported. (You can probably work around this by making a copy of your array  with array.copy().) ",
            ));
        }
        if itemsize == 0 || stride % itemsize != 0 {
            return Err(PyValueError::new_err(
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.",
            ));
        }
        elements.push(stride / itemsize);
        span += (size - 1).max(0) * stride;
    }
    if sizes.contains(&0) {
        span = 0;
    }
    let order: String = descr.getattr(intern!(py, "byteorder"))?.extract()?;
    if order == if cfg!(target_endian = "little") { ">" } else { "<" } {
        return Err(PyValueError::new_err(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not \
             supported.",
        ));
    }
    let dtype = dtype(&descr)?;
    // SAFETY: the array keeps its memory; strides are not negative, so the span begins at its address.
    let storage = unsafe {
        Storage::from_foreign(address as *mut u8, span as usize, Box::new(Kept(Some(array.clone().unbind()))))
    };
    Ok(Tensor::from_storage(storage, dtype, sizes, elements, 0))
}

/// `PyArray_New(subtype, nd, dims, type_num, strides, data, itemsize, flags, obj)`
type New = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *const isize,
    c_int,
    *const isize,
    *mut c_void,
    c_int,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
/// `PyArray_SetBaseObject(array, base)`; takes over the reference to the base.
type SetBase = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

struct Functions {
    new: New,
    set_base: SetBase,
}

/// Positions in NumPy's table of C functions, the same in all its versions.
const NEW: usize = 93;
const SET_BASE: usize = 282;
const ALIGNED_AND_WRITEABLE: c_int = 0x0100 | 0x0400;

fn functions(py: Python<'_>) -> PyResult<&'static Functions> {
    static FUNCTIONS: PyOnceLock<Functions> = PyOnceLock::new();
    FUNCTIONS.get_or_try_init(py, || {
        let module = py
            .import("numpy._core._multiarray_umath")
            .or_else(|_| py.import("numpy.core._multiarray_umath"))
            .map_err(|_| error::runtime("Numpy is not available"))?;
        let capsule = module.getattr("_ARRAY_API")?;
        // SAFETY: NumPy's own capsule: an array of pointers that lives as long as the process, with these functions at
        // these places.
        unsafe {
            let table = ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) as *const *const c_void;
            if table.is_null() {
                return Err(PyErr::fetch(py));
            }
            Ok(Functions {
                new: std::mem::transmute::<*const c_void, New>(*table.add(NEW)),
                set_base: std::mem::transmute::<*const c_void, SetBase>(*table.add(SET_BASE)),
            })
        }
    })
}

/// NumPy's number of an element type.
fn type_number(d: DType) -> Option<c_int> {
    // A `long` has 64 bits here, or else 32, and then 64 bits are a `long long`.
    let long = cfg!(all(target_pointer_width = "64", not(windows)));
    Some(match d {
        DType::Bool => 0,
        DType::Char => 1,
        DType::Byte => 2,
        DType::Short => 3,
        DType::UInt16 => 4,
        DType::Int => {
            if long {
                5
            } else {
                7
            }
        }
        DType::UInt32 => {
            if long {
                6
            } else {
                8
            }
        }
        DType::Long => {
            if long {
                7
            } else {
                9
            }
        }
        DType::UInt64 => {
            if long {
                8
            } else {
                10
            }
        }
        DType::Float => 11,
        DType::Double => 12,
        DType::ComplexFloat => 14,
        DType::ComplexDouble => 15,
        DType::Half => 23,
        _ => return None,
    })
}

/// `Tensor.numpy(*, force=False)`: an array over the tensor's memory, which it keeps.
pub fn numpy_method<'py>(
    slf: &Bound<'py, PyAny>,
    t: &Tensor,
    args: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    if !args.is_empty() {
        return Err(PyTypeError::new_err(format!(
            "numpy() takes 0 positional arguments but {} {} given",
            args.len(),
            if args.len() == 1 { "was" } else { "were" }
        )));
    }
    let mut force = false;
    for (k, v) in keywords {
        if k != "force" {
            return Err(PyTypeError::new_err(format!("numpy() got an unexpected keyword argument '{k}'")));
        }
        if !v.is_instance_of::<pyo3::types::PyBool>() {
            return Err(PyTypeError::new_err(format!(
                "numpy(): argument 'force' must be bool, not {}",
                crate::tensor::data::kind(v)
            )));
        }
        force = v.is_truthy()?;
    }
    if t.layout() != Layout::Strided {
        return Err(PyTypeError::new_err(format!(
            "can't convert {:?} layout tensor to numpy. Use Tensor.to_dense() first.",
            t.layout()
        )));
    }
    if force {
        let plain = crate::tensor::object::wrap(slf.py(), plain(t)?)?;
        let t = object::get(&plain).ok_or_else(|| error::runtime("the tensor is not initialised"))?;
        return to_array(&plain, t);
    }
    let ty = t.device().ty;
    if ty != DeviceType::Cpu {
        return Err(PyTypeError::new_err(format!(
            "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            match ty {
                DeviceType::PrivateUse1 | DeviceType::Meta => crate::types::device::type_name(ty),
                _ => t.device().to_string(),
            }
        )));
    }
    let refuse = |what: &str, instead: &str| {
        Err(error::runtime(format!(
            "Can't call numpy() on Tensor that {what}. Use tensor.{instead}.numpy() instead."
        )))
    };
    if t.requires_grad() {
        return refuse("requires grad", "detach()");
    }
    if t.is_conj() {
        return refuse("has conjugate bit set", "resolve_conj()");
    }
    if t.is_neg() {
        return refuse("has negative bit set", "resolve_neg()");
    }
    to_array(slf, t)
}

/// A tensor's values on the CPU, out of the graph, with no lazy conjugation or negation.
fn plain(t: &Tensor) -> PyResult<Tensor> {
    use crate::error::IntoPy;
    use torchnative_engine::{Device, op};
    let t = op::detach.call((t,)).into_py()?;
    let t = crate::tensor::data::convert(&t, t.dtype(), Device::CPU, false)?;
    let t = op::resolve_conj.call((&t,)).into_py()?;
    op::resolve_neg.call((&t,)).into_py()
}

/// A new array over a CPU tensor; the Python object becomes its base.
fn to_array<'py>(object: &Bound<'py, PyAny>, t: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let Some(number) = type_number(t.dtype()) else {
        return Err(PyTypeError::new_err(format!(
            "Got unsupported ScalarType {}",
            t.dtype().scalar_type_name()
        )));
    };
    let numpy = py.import(intern!(py, "numpy"))?;
    let Some(types) = types(py)? else {
        return Err(error::runtime(format!("Numpy is not available: {numpy} has no ndarray")));
    };
    let functions = functions(py)?;
    let narrow = |v: i64| isize::try_from(v).map_err(|_| error::runtime("the tensor is too large"));
    let sizes = t.sizes().iter().map(|&v| narrow(v)).collect::<PyResult<Vec<_>>>()?;
    let strides =
        t.strides().iter().map(|&v| narrow(v * t.itemsize() as i64)).collect::<PyResult<Vec<_>>>()?;
    // Empty tensors may have no memory; NumPy takes null for a wish to allocate, which is as well.
    let storage = t.storage();
    // SAFETY: NumPy's functions as declared; the tensor, and with it the memory, is kept by the array's base.
    unsafe {
        let made = (functions.new)(
            types.array.as_ptr().cast(),
            sizes.len() as c_int,
            sizes.as_ptr(),
            number,
            strides.as_ptr(),
            t.data_ptr().cast(),
            0,
            ALIGNED_AND_WRITEABLE,
            std::ptr::null_mut(),
        );
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        if !t.data_ptr().is_null() {
            ffi::Py_INCREF(object.as_ptr());
            if (functions.set_base)(made.as_ptr(), object.as_ptr()) < 0 {
                return Err(PyErr::fetch(py));
            }
        }
        // The array would be left with freed memory.
        storage.forbid_resize();
        Ok(made)
    }
}

/// `torch.from_numpy(array)`
pub fn from_numpy<'py>(args: &[Bound<'py, PyAny>], named: usize) -> PyResult<Tensor> {
    match args {
        [array] if named == 0 => from_array(array, true),
        _ => Err(PyTypeError::new_err(format!(
            "torch._VariableFunctionsClass.from_numpy() {}",
            if named > 0 {
                "takes no keyword arguments".into()
            } else {
                format!("takes exactly one argument ({} given)", args.len())
            }
        ))),
    }
}
