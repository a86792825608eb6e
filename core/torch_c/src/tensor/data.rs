//! Tensors of Python data: numbers, nested sequences, NumPy arrays, other tensors (`internal_new_from_data`).

use super::object;
use crate::error::{self, IntoPy};
use crate::{numpy, torch_dispatch};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::atomic::{AtomicBool, Ordering};
use torchnative_engine::dtype::{Convert, promote_types};
use torchnative_engine::iter::default_dtype;
use torchnative_engine::tensor::factory;
use torchnative_engine::{DType, Device, IValue, Scalar, Tensor, dispatch, op};

/// How data becomes a tensor.
#[derive(Clone, Copy)]
pub struct Request {
    /// The dtype; inferred from the data when absent.
    pub dtype: Option<DType>,
    /// Where to; a tensor's own device, else the CPU, when absent.
    pub device: Option<Device>,
    /// Whether tensors and arrays are copied even when they could be shared.
    pub copy: bool,
}

/// Warns once in the life of the process (`TORCH_WARN_ONCE`).
pub fn warn_once(py: Python<'_>, done: &AtomicBool, text: &std::ffi::CStr) -> PyResult<()> {
    if done.swap(true, Ordering::Relaxed) && !crate::flags::warn_always() {
        return Ok(());
    }
    PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), text, 1)
}

/// The class of an object, as messages show it.
pub fn kind(o: &Bound<'_, PyAny>) -> String {
    let class = o.get_type();
    let name = class.name().map_or_else(|_| "object".into(), |n| n.to_string());
    match class.module() {
        Ok(m) if m == "numpy" => format!("numpy.{name}"),
        _ => name,
    }
}

fn is_text(o: &Bound<'_, PyAny>) -> bool {
    o.is_instance_of::<PyString>() || o.is_instance_of::<PyBytes>()
}

/// Whether the object is indexed by numbers; tensors are not taken for sequences.
pub fn is_sequence(o: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object, attached.
    unsafe { ffi::PySequence_Check(o.as_ptr()) != 0 && object::get(o).is_none() }
}

/// Calls `f` with each item of a sequence.
fn each<'py>(
    o: &Bound<'py, PyAny>,
    n: usize,
    mut f: impl FnMut(Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    if let Ok(list) = o.cast::<PyList>() {
        for i in 0..n {
            f(list.get_item(i)?)?;
        }
    } else if let Ok(tuple) = o.cast::<PyTuple>() {
        for i in 0..n {
            f(tuple.get_item(i)?)?;
        }
    } else {
        for i in 0..n {
            f(o.get_item(i)?)?;
        }
    }
    Ok(())
}

fn complex_default() -> DType {
    default_dtype().to_complex().unwrap_or(DType::ComplexFloat)
}

/// The dtype of data (`infer_scalar_type`).
fn infer(o: &Bound<'_, PyAny>) -> PyResult<DType> {
    if o.is_exact_instance_of::<PyFloat>() {
        return Ok(default_dtype());
    }
    if o.is_instance_of::<PyBool>() {
        return Ok(DType::Bool);
    }
    if o.is_instance_of::<PyInt>() {
        return Ok(DType::Long);
    }
    if let Some(t) = object::get(o) {
        return Ok(t.dtype());
    }
    if let Some(d) = numpy::dtype_of(o)? {
        return Ok(d);
    }
    // NumPy's float64 derives from Python's float.
    if o.is_instance_of::<PyFloat>() {
        return Ok(default_dtype());
    }
    if o.is_instance_of::<PyComplex>() {
        return Ok(complex_default());
    }
    if is_text(o) {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", kind(o))));
    }
    if is_sequence(o) {
        let n = o.len()?;
        let mut found: Option<DType> = None;
        each(o, n, |item| {
            if item.is(o) {
                return Err(PyTypeError::new_err("new(): self-referential lists are incompatible"));
            }
            let d = infer(&item)?;
            found = Some(match found {
                None => d,
                Some(x) if x == d => x,
                Some(x) => promote_types(x, d).into_py()?,
            });
            Ok(())
        })?;
        return Ok(found.unwrap_or_else(default_dtype));
    }
    Err(error::runtime(format!("Could not infer dtype of {}", kind(o))))
}

/// An index tensor of a list or an array: masks stay masks, all else is positions.
pub fn index_from(o: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let d = match infer(o)? {
        d @ (DType::Bool | DType::Byte) => d,
        _ => DType::Long,
    };
    new_from_data(o, Request { dtype: Some(d), device: None, copy: false })
}

/// Sizes of nested sequences, from their first elements.
fn sizes_of(o: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let mut sizes = Vec::new();
    let mut at = o.clone();
    while is_sequence(&at) {
        let n = at.len()?;
        sizes.push(n as i64);
        if sizes.len() > 128 {
            return Err(PyValueError::new_err(format!("too many dimensions '{}'", kind(&at))));
        }
        if n == 0 {
            break;
        }
        let Ok(first) = at.get_item(0) else {
            return Err(PyValueError::new_err(format!(
                "could not determine the shape of object type '{}'",
                kind(&at)
            )));
        };
        at = first;
    }
    Ok(sizes)
}

/// The number in an object, read as the dtype reads it.
pub(super) fn number(o: &Bound<'_, PyAny>, d: DType) -> PyResult<Scalar> {
    if d.is_complex() {
        return complex(o);
    }
    if d.is_floating_point() {
        return real(o);
    }
    if d == DType::Bool {
        if o.is_instance_of::<PyBool>()
            || o.is_instance_of::<PyInt>()
            || o.is_instance_of::<PyFloat>()
            || o.is_instance_of::<PyComplex>()
            || numpy::is_bool(o)?
        {
            return Ok(Scalar::Bool(o.is_truthy()?));
        }
        return Ok(Scalar::Bool(o.call_method0("__index__").map_err(|e| not_an_integer(o, e))?.is_truthy()?));
    }
    if d == DType::UInt64 {
        if !o.is_instance_of::<PyInt>() {
            return Err(PyTypeError::new_err("an integer is required"));
        }
        return Ok(Scalar::UInt(o.extract()?));
    }
    if o.is_instance_of::<PyFloat>() {
        let v: f64 = o.extract()?;
        check_range(v, d)?;
        return Ok(Scalar::Int(v as i64));
    }
    let int = if o.is_instance_of::<PyInt>() {
        o.clone()
    } else {
        o.call_method0("__index__").map_err(|e| not_an_integer(o, e))?
    };
    let v: i64 = int.extract().map_err(|e: PyErr| {
        if e.is_instance_of::<PyOverflowError>(o.py()) {
            PyValueError::new_err("Overflow when unpacking long long")
        } else {
            e
        }
    })?;
    if d != DType::Long {
        check_range(v as f64, d)?;
    }
    Ok(Scalar::Int(v))
}

fn not_an_integer(o: &Bound<'_, PyAny>, e: PyErr) -> PyErr {
    if e.is_instance_of::<pyo3::exceptions::PyAttributeError>(o.py()) {
        return PyTypeError::new_err(format!("'{}' object cannot be interpreted as an integer", kind(o)));
    }
    e
}

fn real(o: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    // SAFETY: a live object, attached.
    let v = unsafe { ffi::PyFloat_AsDouble(o.as_ptr()) };
    if v == -1.0
        && let Some(e) = PyErr::take(o.py())
    {
        return Err(e);
    }
    Ok(Scalar::Float(v))
}

fn complex(o: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let parts = |c: &Bound<'_, PyAny>| -> PyResult<Scalar> {
        Ok(Scalar::Complex(c.getattr("real")?.extract()?, c.getattr("imag")?.extract()?))
    };
    if o.is_instance_of::<PyComplex>() {
        return parts(o);
    }
    if o.hasattr("__complex__")? {
        return parts(&o.call_method0("__complex__")?);
    }
    match real(o)? {
        Scalar::Float(v) => Ok(Scalar::Complex(v, 0.0)),
        other => Ok(other),
    }
}

/// Whether a number fits an integer type; unsigned types take negative numbers and wrap them.
fn check_range(v: f64, d: DType) -> PyResult<()> {
    let bits = d.itemsize() as i32 * 8;
    let (low, high) = if d.is_signed() {
        (-2f64.powi(bits - 1), 2f64.powi(bits - 1))
    } else {
        (-2f64.powi(bits) + 1.0, 2f64.powi(bits))
    };
    if v >= low && v < high {
        return Ok(());
    }
    Err(error::runtime(format!("value cannot be converted to type {} without overflow", d.torch_name())))
}

/// Writes a number where an element lies.
///
/// # Safety
/// `at` points to an element of the dtype.
unsafe fn write(at: *mut u8, d: DType, v: Scalar) -> torchnative_engine::Result<()> {
    dispatch!("tensor", d, copyable, T => unsafe { at.cast::<T>().write(store::<T>(v)) });
    Ok(())
}

fn store<T: Convert>(v: Scalar) -> T {
    v.cast()
}

struct Target<'a> {
    sizes: &'a [i64],
    dtype: DType,
    itemsize: usize,
    at: *mut u8,
}

/// Stores nested sequences in row-major order, checking that they are rectangular.
fn fill(o: &Bound<'_, PyAny>, dim: usize, target: &mut Target<'_>) -> PyResult<()> {
    let Some(&size) = target.sizes.get(dim) else {
        let v = number(o, target.dtype)?;
        // SAFETY: the tensor has as many elements as the sizes say, and no more leaves are visited.
        unsafe { write(target.at, target.dtype, v) }.into_py()?;
        target.at = target.at.wrapping_add(target.itemsize);
        return Ok(());
    };
    if !is_sequence(o) && object::get(o).is_none() {
        return Err(PyTypeError::new_err("not a sequence"));
    }
    let n = o.len()?;
    if n as i64 != size {
        return Err(PyValueError::new_err(format!(
            "expected sequence of length {size} at dim {dim} (got {n})"
        )));
    }
    each(o, n, |item| fill(&item, dim + 1, target))
}

/// A new CPU tensor of nested sequences of numbers.
pub fn from_sequence(o: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    let sizes = sizes_of(o)?;
    let d = match dtype {
        Some(d) => d,
        None => infer(o)?,
    };
    if let Ok(list) = o.cast::<PyList>()
        && !list.is_empty()
        && numpy::is_array(&list.get_item(0)?)?
    {
        static DONE: AtomicBool = AtomicBool::new(false);
        warn_once(
            o.py(),
            &DONE,
            c"Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a single \
              numpy.ndarray with numpy.array() before converting to a tensor.",
        )?;
    }
    let t = factory::empty(&sizes, d, Device::CPU).into_py()?;
    if t.numel() > 0 {
        let mut target = Target { sizes: &sizes, dtype: d, itemsize: d.itemsize(), at: t.data_ptr() };
        fill(o, 0, &mut target)?;
    }
    Ok(t)
}

/// The tensor in a dtype and on a device; itself when nothing changes and no copy is asked for.
pub fn convert(t: &Tensor, dtype: DType, device: Device, copy: bool) -> PyResult<Tensor> {
    if !copy && t.dtype() == dtype && t.device().ty == device.ty {
        return Ok(t.clone());
    }
    op::_to_copy.call((t, dtype, IValue::None, device)).into_py()
}

/// A tensor of any data.
///
/// # Errors
/// TypeError, ValueError and RuntimeError in upstream's words when the data is no numbers, or not rectangular.
pub fn new_from_data(o: &Bound<'_, PyAny>, request: Request) -> PyResult<Tensor> {
    let Request { dtype, device, copy } = request;
    if is_text(o) {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", kind(o))));
    }
    if let Some(t) = object::get(o) {
        let t = if copy { op::detach.call((t,)).into_py()? } else { t.clone() };
        return convert(&t, dtype.unwrap_or(t.dtype()), device.unwrap_or(t.device()), copy);
    }
    if numpy::is_array(o)? {
        return torch_dispatch::fresh(|| {
            let t = numpy::from_array(o, !copy)?;
            convert(&t, dtype.unwrap_or(t.dtype()), device.unwrap_or(Device::CPU), copy)
        });
    }
    if !is_sequence(o) && !is_number(o) && o.hasattr("__dlpack__")? && numpy::dtype_of(o)?.is_none() {
        let made = o.py().import("torch.utils.dlpack")?.call_method1("from_dlpack", (o,))?;
        let t = object::get(&made).ok_or_else(|| error::runtime("from_dlpack gave no tensor"))?;
        return convert(t, dtype.unwrap_or(t.dtype()), device.unwrap_or(t.device()), copy);
    }
    // Modes see the tensor once it is there, not how it is filled.
    torch_dispatch::fresh(|| {
        let t = from_sequence(o, dtype)?;
        convert(&t, t.dtype(), device.unwrap_or(Device::CPU), false)
    })
}

fn is_number(o: &Bound<'_, PyAny>) -> bool {
    o.is_instance_of::<PyFloat>() || o.is_instance_of::<PyInt>() || o.is_instance_of::<PyComplex>()
}
