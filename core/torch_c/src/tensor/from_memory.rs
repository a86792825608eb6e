//! `torch.tensor`, `as_tensor`, `asarray`, `frombuffer`, `Tensor.new_tensor`: tensors of Python data, over its memory
//! where that can be.

use super::data::{self, Request, kind, new_from_data, warn_once};
use super::object;
use crate::error::{self, IntoPy};
use crate::storage::Buffer;
use crate::types::{device, dtype};
use crate::{dlpack, numpy};
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule};
use std::sync::atomic::AtomicBool;
use torchnative_engine::{DType, Device, IntList, Storage, Tensor, op};

type Args<'a, 'py> = &'a [Bound<'py, PyAny>];
type Keywords<'a, 'py> = &'a [(String, Bound<'py, PyAny>)];

/// Arguments bound to names; each is given once, and none is unknown.
struct Given<'a, 'py> {
    function: &'static str,
    names: &'static [&'static str],
    values: Vec<Option<&'a Bound<'py, PyAny>>>,
}

impl<'a, 'py> Given<'a, 'py> {
    /// The first `positional` names take positional arguments; the first `required` must be given.
    fn bind(
        function: &'static str,
        names: &'static [&'static str],
        (positional, required): (usize, usize),
        args: Args<'a, 'py>,
        keywords: Keywords<'a, 'py>,
    ) -> PyResult<Self> {
        let mut values: Vec<Option<&Bound<'py, PyAny>>> = vec![None; names.len()];
        if args.len() > positional {
            let takes = if required > positional {
                format!("takes from {required} to {positional} positional arguments")
            } else {
                format!("takes {positional} positional argument{}", if positional == 1 { "" } else { "s" })
            };
            return Err(PyTypeError::new_err(format!("{function}() {takes} but {} were given", args.len())));
        }
        for (slot, o) in values.iter_mut().zip(args) {
            *slot = Some(o);
        }
        for (k, v) in keywords {
            match names.iter().position(|n| n == k) {
                Some(i) if values[i].is_none() => values[i] = Some(v),
                Some(_) => {
                    return Err(PyTypeError::new_err(format!(
                        "{function}() got multiple values for argument '{k}'"
                    )));
                }
                None => {
                    return Err(PyTypeError::new_err(format!(
                        "{function}() got an unexpected keyword argument '{k}'"
                    )));
                }
            }
        }
        let missing: Vec<String> = names[..required]
            .iter()
            .zip(&values)
            .filter(|(_, v)| v.is_none())
            .map(|(n, _)| format!("\"{n}\""))
            .collect();
        if !missing.is_empty() {
            return Err(PyTypeError::new_err(format!(
                "{function}() missing {} required positional arguments: {}",
                missing.len(),
                missing.join(", ")
            )));
        }
        Ok(Given { function, names, values })
    }
    /// The value of a required parameter, None included.
    fn required(&self, i: usize) -> PyResult<&'a Bound<'py, PyAny>> {
        self.values[i].ok_or_else(|| error::runtime(format!("{}() lost an argument", self.function)))
    }
    /// The value of a name that was given and is not None.
    fn get(&self, name: &str) -> Option<&'a Bound<'py, PyAny>> {
        let i = self.names.iter().position(|n| *n == name)?;
        self.values[i].filter(|v| !v.is_none())
    }
    fn must_be(&self, name: &str, what: &str, o: &Bound<'_, PyAny>) -> PyErr {
        PyTypeError::new_err(format!(
            "{}(): argument '{name}' must be {what}, not {}",
            self.function,
            kind(o)
        ))
    }
    fn dtype(&self) -> PyResult<Option<DType>> {
        self.get("dtype")
            .map(|o| {
                dtype::from_py(o)
                    .or_else(|| crate::parser::python_type(o))
                    .ok_or_else(|| self.must_be("dtype", "torch.dtype", o))
            })
            .transpose()
    }
    fn device(&self) -> PyResult<Option<Device>> {
        self.get("device")
            .map(|o| device::usable_from_py(o)?.ok_or_else(|| self.must_be("device", "torch.device", o)))
            .transpose()
    }
    fn flag(&self, name: &str) -> PyResult<Option<bool>> {
        self.get(name)
            .map(|o| match o.cast::<PyBool>() {
                Ok(b) => Ok(b.is_true()),
                Err(_) => Err(self.must_be(name, "bool", o)),
            })
            .transpose()
    }
    fn number(&self, name: &str, default: i64) -> PyResult<i64> {
        match self.get(name) {
            None => Ok(default),
            Some(o) if crate::parser::is_int(o) => o.call_method0("__index__")?.extract(),
            Some(o) => Err(self.must_be(name, "int", o)),
        }
    }
}

fn require_grad(t: &Tensor) -> PyResult<()> {
    if !t.dtype().is_floating_point() && !t.dtype().is_complex() {
        return Err(error::runtime("Only Tensors of floating point and complex dtype can require gradients"));
    }
    t.set_requires_grad(true).into_py()
}

fn refuse_pinning(on: Option<bool>) -> PyResult<()> {
    if on.unwrap_or(false) {
        return Err(error::runtime(
            "Cannot pin memory: there is no device here that pinned memory would serve.",
        ));
    }
    Ok(())
}

fn warn_of_copies(py: Python<'_>, o: &Bound<'_, PyAny>, name: &'static std::ffi::CStr) -> PyResult<()> {
    if object::get(o).is_none() {
        return Ok(());
    }
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), name, 1)
}

/// `torch.tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)`: always a copy, and a leaf.
pub fn tensor<'py>(
    py: Python<'py>,
    args: Args<'_, 'py>,
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAMES: &[&str] = &["data", "dtype", "device", "pin_memory", "requires_grad"];
    let given = Given::bind("tensor", NAMES, (1, 1), args, kw)?;
    let (dtype, device) = (given.dtype()?, given.device()?);
    let requires_grad = given.flag("requires_grad")?.unwrap_or(false);
    refuse_pinning(given.flag("pin_memory")?)?;
    let o = given.required(0)?;
    warn_of_copies(
        py,
        o,
        c"To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or \
          sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
    )?;
    let t = new_from_data(o, Request { dtype, device, copy: true })?;
    if requires_grad {
        require_grad(&t)?;
    }
    object::wrap(py, t)
}

/// `torch.as_tensor(data, dtype=None, device=None)`: over the data's memory when it can be.
pub fn as_tensor<'py>(
    py: Python<'py>,
    args: Args<'_, 'py>,
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given::bind("as_tensor", &["data", "dtype", "device"], (1, 1), args, kw)?;
    let o = given.required(0)?;
    let request = Request { dtype: given.dtype()?, device: given.device()?, copy: false };
    object::wrap(py, new_from_data(o, request)?)
}

/// `Tensor.new_tensor(data, *, dtype=None, device=None, requires_grad=False)`: as `torch.tensor`, with this tensor's dtype
/// and device.
pub fn new_tensor<'py>(
    slf: &Bound<'py, PyAny>,
    t: &Tensor,
    args: Args<'_, 'py>,
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAMES: &[&str] = &["data", "dtype", "device", "pin_memory", "requires_grad"];
    let given = Given::bind("new_tensor", NAMES, (1, 1), args, kw)?;
    let o = given.required(0)?;
    let requires_grad = given.flag("requires_grad")?.unwrap_or(false);
    refuse_pinning(given.flag("pin_memory")?)?;
    warn_of_copies(
        slf.py(),
        o,
        c"To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or \
          sourceTensor.detach().clone().requires_grad_(True), rather than tensor.new_tensor(sourceTensor).",
    )?;
    let request = Request {
        dtype: Some(given.dtype()?.unwrap_or(t.dtype())),
        device: Some(given.device()?.unwrap_or(t.device())),
        copy: true,
    };
    let made = new_from_data(o, request)?;
    if requires_grad {
        require_grad(&made)?;
    }
    object::wrap(slf.py(), made)
}

fn is_buffer(o: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object, attached.
    unsafe { ffi::PyObject_CheckBuffer(o.as_ptr()) != 0 }
}

/// `torch.asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)`
pub fn asarray<'py>(
    py: Python<'py>,
    args: Args<'_, 'py>,
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAMES: &[&str] = &["obj", "dtype", "device", "copy", "requires_grad"];
    let given = Given::bind("asarray", NAMES, (1, 1), args, kw)?;
    let o = given.required(0)?;
    let (dtype, device) = (given.dtype()?, given.device()?);
    let (copy, requires_grad) = (given.flag("copy")?, given.flag("requires_grad")?);
    let scalar = numpy::is_scalar(o)?;
    let shared = if let Some(t) = object::get(o) {
        Some(t.clone())
    } else if numpy::is_array(o)? {
        Some(numpy::from_array(o, copy != Some(true))?)
    } else if scalar && numpy::dtype_of(o)?.is_some() {
        // A scalar has no memory to share; an array is made of it.
        if copy == Some(false) {
            return Err(error::runtime(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ",
            ));
        }
        Some(numpy::from_array(&py.import("numpy")?.call_method1("array", (o,))?, false)?)
    } else if let Some((storage, typed)) = crate::storage::from_py(o)? {
        // Bytes without a dtype are read as numbers of the widest type.
        let d = dtype.or(typed).unwrap_or(DType::Long);
        let n = (storage.nbytes() / d.itemsize()) as i64;
        Some(Tensor::from_storage(storage, d, IntList::from_slice(&[n]), IntList::from_slice(&[1]), 0))
    } else if o.is_instance_of::<PyCapsule>() {
        Some(dlpack::from_capsule(o)?)
    } else if is_buffer(o) && !scalar {
        Some(over_buffer(o, dtype.unwrap_or_else(|| buffer_dtype(o)), -1, 0)?)
    } else if o.hasattr("__dlpack__")? {
        let made = py.import("torch.utils.dlpack")?.call_method1("from_dlpack", (o,))?;
        object::get(&made).cloned()
    } else {
        None
    };
    let Some(t) = shared else {
        if copy == Some(false) {
            return Err(PyValueError::new_err("can't alias arbitrary sequence into a tensor."));
        }
        let t = new_from_data(o, Request { dtype, device, copy: false })?;
        if requires_grad == Some(true) {
            require_grad(&t)?;
        }
        return object::wrap(py, t);
    };
    let (to_dtype, to_device) = (dtype.unwrap_or(t.dtype()), device.unwrap_or(t.device()));
    let wrong_device = to_device.ty != t.device().ty;
    let wrong_dtype = to_dtype != t.dtype();
    let mut made = match copy {
        Some(false) if wrong_device => {
            return Err(PyValueError::new_err(format!(
                "can't alias tensor from device '{}' to '{to_device}'.",
                t.device()
            )));
        }
        Some(false) if wrong_dtype => {
            return Err(PyValueError::new_err(format!(
                "can't alias tensor with dtype '{}' into dtype '{}'.",
                t.dtype().scalar_type_name(),
                to_dtype.scalar_type_name()
            )));
        }
        _ if wrong_device || wrong_dtype => data::convert(&t, to_dtype, to_device, true)?,
        Some(true) => op::clone.call((&t,)).into_py()?,
        _ => t,
    };
    match requires_grad {
        None if made.requires_grad() => {
            static DONE: AtomicBool = AtomicBool::new(false);
            warn_once(
                py,
                &DONE,
                c"torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass \
                  requires_grad=False explicitly to get the old behavior and silence this warning.",
            )?;
        }
        Some(false) if made.requires_grad() => made = op::detach.call((&made,)).into_py()?,
        Some(true) if !made.requires_grad() => require_grad(&made)?,
        _ => {}
    }
    object::wrap(py, made)
}

/// The dtype of a buffer that is read without one: what its format says, bytes when it says nothing.
fn buffer_dtype(o: &Bound<'_, PyAny>) -> DType {
    let format = o
        .py()
        .import("builtins")
        .and_then(|b| b.getattr("memoryview")?.call1((o,)))
        .and_then(|view| view.getattr("format")?.extract::<String>());
    match format.as_deref().map(|f| f.trim_start_matches(['@', '=', '<'])) {
        Ok("?") => DType::Bool,
        Ok("b") => DType::Char,
        Ok("h") => DType::Short,
        Ok("i") => DType::Int,
        Ok("l") if size_of::<std::ffi::c_long>() == 4 => DType::Int,
        Ok("l" | "q") => DType::Long,
        Ok("e") => DType::Half,
        Ok("f") => DType::Float,
        Ok("d") => DType::Double,
        _ => DType::Byte,
    }
}

/// `torch.frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)`
pub fn frombuffer<'py>(
    py: Python<'py>,
    args: Args<'_, 'py>,
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAMES: &[&str] = &["buffer", "dtype", "count", "offset", "requires_grad"];
    let given = Given::bind("frombuffer", NAMES, (1, 2), args, kw)?;
    let dtype = match given.dtype()? {
        Some(d) => d,
        None => {
            return Err(PyTypeError::new_err(
                "frombuffer(): argument 'dtype' must be torch.dtype, not NoneType",
            ));
        }
    };
    let (count, offset) = (given.number("count", -1)?, given.number("offset", 0)?);
    let requires_grad = given.flag("requires_grad")?.unwrap_or(false);
    let o = given.required(0)?;
    let t = over_buffer(o, dtype, count, offset)?;
    if requires_grad {
        require_grad(&t)?;
    }
    object::wrap(py, t)
}

/// A 1-d tensor over the memory of a buffer. The object cannot give the memory up while the tensor exists.
fn over_buffer(o: &Bound<'_, PyAny>, dtype: DType, count: i64, offset: i64) -> PyResult<Tensor> {
    if !is_buffer(o) {
        return Err(PyValueError::new_err("object does not implement Python buffer protocol."));
    }
    let (buffer, read_only) = match Buffer::get(o, true) {
        Ok(b) => (b, false),
        Err(_) => match Buffer::get(o, false) {
            Ok(b) => (b, true),
            Err(e) => {
                let why = e.value(o.py()).to_string();
                return Err(error::runtime(format!(
                    "could not retrieve a contiguous buffer from the given object ({why})"
                )));
            }
        },
    };
    if read_only {
        static DONE: AtomicBool = AtomicBool::new(false);
        warn_once(
            o.py(),
            &DONE,
            c"The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can write to the \
              underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer to protect its data or \
              make it writable before converting it to a tensor. This type of warning will be suppressed for the rest of this program.",
        )?;
    }
    let len = buffer.bytes().len() as i64;
    let size = dtype.itemsize() as i64;
    if len == 0 || count == 0 {
        return Err(PyValueError::new_err(format!(
            "both buffer length ({len}) and count ({count}) must not be 0"
        )));
    }
    if offset < 0 || offset >= len {
        return Err(PyValueError::new_err(format!(
            "offset ({offset} bytes) must be non-negative and no greater than buffer length ({len} bytes) minus 1"
        )));
    }
    let present = len - offset;
    if count < 0 && present % size != 0 {
        return Err(PyValueError::new_err(format!(
            "buffer length ({present} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
        )));
    }
    let n = if count < 0 { present / size } else { count };
    if n.checked_mul(size).is_none_or(|need| need > present) {
        return Err(PyValueError::new_err(format!(
            "requested buffer length ({n} * {size} bytes) after offset ({offset} bytes) must not be greater than actual buffer length \
             ({len} bytes)"
        )));
    }
    let at = buffer.data().wrapping_add(offset as usize);
    // SAFETY: checked to lie within the buffer, which the storage keeps.
    let storage = unsafe { Storage::from_foreign(at, (n * size) as usize, Box::new(buffer)) };
    Ok(Tensor::from_storage(storage, dtype, IntList::from_slice(&[n]), IntList::from_slice(&[1]), 0))
}
