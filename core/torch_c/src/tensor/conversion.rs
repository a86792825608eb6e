//! The arguments of `Tensor.to` and `Module.to`.

use super::{object, value};
use crate::error;
use crate::parser::HandBound;
use crate::types::{device, dtype, layout};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString, PyTuple};
use torchnative_engine::{DType, Device, MemoryFormat, Scalar};

/// What a call of `to` asks for; absent parts stay as they are.
#[derive(Default)]
pub struct To {
    pub device: Option<Device>,
    pub dtype: Option<DType>,
    pub non_blocking: bool,
    pub copy: bool,
    pub format: Option<MemoryFormat>,
}

/// The three signatures, each with its positional parameters in order.
const SIGNATURES: [&[&str]; 3] = [
    &["device", "dtype", "non_blocking", "copy"],
    &["dtype", "non_blocking", "copy"],
    &["tensor", "non_blocking", "copy"],
];

impl To {
    /// Parses `to(device, dtype, …)`, `to(dtype, …)` or `to(tensor, …)`, the first that fits.
    ///
    /// # Errors
    /// `TypeError` when none does; what a malformed device raises.
    pub fn parse<'py>(args: &[Bound<'py, PyAny>], keywords: &[(String, Bound<'py, PyAny>)]) -> PyResult<To> {
        for (i, names) in SIGNATURES.iter().enumerate() {
            if let Some(found) = Self::matched(names, i == 0, args, keywords)? {
                return Ok(found);
            }
        }
        Err(mismatch(args, keywords))
    }

    fn matched(
        names: &[&str],
        optional: bool,
        args: &[Bound<'_, PyAny>],
        keywords: &[(String, Bound<'_, PyAny>)],
    ) -> PyResult<Option<To>> {
        if args.len() > names.len() {
            return Ok(None);
        }
        let mut to = To::default();
        let mut first_given = false;
        let mut device_given = None;
        let named = keywords.iter().map(|(name, value)| (name.as_str(), value, true));
        for (name, value, by_name) in names.iter().zip(args).map(|(n, v)| (*n, v, false)).chain(named) {
            if by_name && name != "memory_format" {
                match names.iter().position(|n| *n == name) {
                    Some(i) if i >= args.len() => {}
                    _ => return Ok(None),
                }
            }
            first_given |= name == names[0];
            let fits = match name {
                "device" if value.is_none() => true,
                "device" if is_device(value) => {
                    device_given = Some(value);
                    true
                }
                "dtype" if value.is_none() => optional,
                "dtype" => {
                    to.dtype = dtype::from_py(value);
                    to.dtype.is_some()
                }
                "tensor" => match object::get(value) {
                    Some(t) => {
                        (to.device, to.dtype) = (Some(t.device()), Some(t.dtype()));
                        true
                    }
                    // A number stands for a tensor of its kind.
                    None => match value::scalar_from_py(value)? {
                        Some(Scalar::Float(_)) => {
                            (to.device, to.dtype) = (Some(Device::CPU), Some(DType::Double));
                            true
                        }
                        Some(Scalar::Complex(..)) => {
                            (to.device, to.dtype) = (Some(Device::CPU), Some(DType::ComplexDouble));
                            true
                        }
                        _ => false,
                    },
                },
                "non_blocking" | "copy" => match value.cast::<PyBool>() {
                    Ok(on) if name == "copy" => {
                        to.copy = on.is_true();
                        true
                    }
                    Ok(on) => {
                        to.non_blocking = on.is_true();
                        true
                    }
                    Err(_) => false,
                },
                "memory_format" if value.is_none() => true,
                "memory_format" => {
                    to.format = layout::format_from_py(value);
                    to.format.is_some()
                }
                _ => false,
            };
            if !fits {
                return Ok(None);
            }
        }
        if !optional && !first_given {
            return Ok(None);
        }
        // A text that names no device is an error of its own, once the call is known to mean this signature.
        if let Some(value) = device_given {
            to.device = device::usable_from_py(value)?;
        }
        Ok(Some(to))
    }
}

fn is_device(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>()
        || (value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>())
        || matches!(device::from_py(value), Ok(Some(_)))
}

/// Upstream's error; its text comes from the signatures.
fn mismatch(args: &[Bound<'_, PyAny>], keywords: &[(String, Bound<'_, PyAny>)]) -> PyErr {
    static TO: HandBound = HandBound::new(
        "to",
        &[
            "to(Device device=None, ScalarType dtype=None, bool non_blocking=False, bool copy=False, *, MemoryFormat? memory_format=None)",
            "to(ScalarType dtype, bool non_blocking=False, bool copy=False, *, MemoryFormat? memory_format=None)",
            "to(Tensor tensor, bool non_blocking=False, bool copy=False, *, MemoryFormat? memory_format=None)",
        ],
    );
    match TO.check(args, keywords) {
        Err(e) => e,
        Ok(()) => PyTypeError::new_err("to(): invalid arguments"),
    }
}

/// `torch._C._nn._parse_to`: the arguments of `Module.to` as `(device, dtype, non_blocking, memory_format)`.
unsafe extern "C" fn parse_to(
    _module: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the GIL held.
    let py = unsafe { Python::assume_attached() };
    let body = || -> PyResult<Py<PyAny>> {
        // SAFETY: CPython's vector call.
        let (args, keywords) = unsafe { crate::parser::unpack(py, args, nargs, kwnames)? };
        let to = To::parse(&args, &keywords)?;
        if to.copy {
            return Err(error::runtime(".to() does not accept copy argument"));
        }
        let items = [
            to.device.map(|d| Ok::<_, PyErr>(device::to_py(py, d)?.into_any())).transpose()?,
            to.dtype.map(|d| dtype::to_py(py, d).into_any()),
            Some(PyBool::new(py, to.non_blocking).to_owned().into_any()),
            to.format.map(|f| layout::format_to_py(py, f).into_any()),
        ];
        Ok(PyTuple::new(py, items)?.into_any().unbind())
    };
    match error::guard(body) {
        Ok(o) => o.into_ptr(),
        Err(e) => {
            e.restore(py);
            std::ptr::null_mut()
        }
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::surface::add_raw_function(
        &crate::surface::find(module.py(), "torch._C._nn")?,
        c"_parse_to",
        ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: parse_to },
        ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
    )
}
