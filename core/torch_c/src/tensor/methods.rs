//! Methods that upstream binds by hand: operators' dunders, conversions, geometry, `item`, `tolist`.

use super::{object, value};
use crate::error::{self, IntoPy};
use crate::parser;
use crate::torch_function;
use crate::types::{layout as layouts, size};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyList, PyTuple};
use std::ffi::CStr;
use std::sync::OnceLock;
use torchnative_engine::dispatch::{DispatchKey, DispatchKeySet};
use torchnative_engine::{DType, Device, IValue, MemoryFormat, Tensor, op};

/// Keyword arguments of a call.
type Keywords<'a, 'py> = &'a [(String, Bound<'py, PyAny>)];
/// A hand-bound method: tensor, positional and keyword arguments.
type Method = for<'a, 'py> fn(
    &'a Bound<'py, PyAny>,
    &'a [Bound<'py, PyAny>],
    Keywords<'a, 'py>,
) -> PyResult<Bound<'py, PyAny>>;

fn tensor<'a>(slf: &'a Bound<'_, PyAny>) -> PyResult<&'a Tensor> {
    object::get(slf).ok_or_else(|| PyTypeError::new_err("the tensor is not initialised"))
}

/// The generated function behind a dunder; its TypeError becomes `NotImplemented`.
macro_rules! dunder {
    ($name:literal) => {
        |slf, args, keywords| {
            static PLACE: OnceLock<Option<usize>> = OnceLock::new();
            let result = match PLACE.get_or_init(|| parser::find_method($name)) {
                Some(index) => parser::call_method_at(*index, slf, args, keywords),
                None => parser::call_method($name, slf, args, keywords),
            };
            match result {
                Err(e) if e.is_instance_of::<PyTypeError>(slf.py()) => {
                    Ok(slf.py().NotImplemented().into_bound(slf.py()))
                }
                other => other,
            }
        }
    };
}

macro_rules! cast {
    ($d:ident) => {
        |slf, args, keywords| cast(slf, args, keywords, DType::$d)
    };
}

macro_rules! device_absent {
    ($name:literal) => {
        |_, _, _| {
            Err(pyo3::exceptions::PyAssertionError::new_err(concat!(
                "Torch not compiled with ",
                $name,
                " enabled"
            )))
        }
    };
}

/// The address of the data. Memory of a device has none here: a number that tells its tensors apart, which must not be
/// followed.
fn address(t: &Tensor) -> i64 {
    let storage = t.storage();
    if storage.allocation().is_some() {
        return storage.cdata() as i64 + t.storage_offset() * t.itemsize() as i64;
    }
    t.data_ptr() as i64
}

pub(super) static METHODS: &[(&CStr, Method)] = &[
    (c"__add__", dunder!("add")),
    (c"__radd__", dunder!("add")),
    (c"__iadd__", dunder!("add_")),
    (c"__sub__", dunder!("sub")),
    (c"__isub__", dunder!("sub_")),
    (c"__mul__", dunder!("mul")),
    (c"__rmul__", dunder!("mul")),
    (c"__imul__", dunder!("mul_")),
    (c"__div__", dunder!("div")),
    (c"__truediv__", dunder!("div")),
    (c"__idiv__", dunder!("div_")),
    (c"__itruediv__", dunder!("div_")),
    (c"__floordiv__", dunder!("floor_divide")),
    (c"__ifloordiv__", dunder!("floor_divide_")),
    (c"__mod__", dunder!("remainder")),
    (c"__imod__", dunder!("remainder_")),
    (c"__eq__", eq),
    (c"__ne__", dunder!("ne")),
    (c"__lt__", dunder!("lt")),
    (c"__le__", dunder!("le")),
    (c"__gt__", dunder!("gt")),
    (c"__ge__", dunder!("ge")),
    (c"__rand__", dunder!("bitwise_and")),
    (c"__ror__", dunder!("bitwise_or")),
    (c"__rxor__", dunder!("bitwise_xor")),
    (c"__matmul__", dunder!("matmul")),
    (c"__invert__", invert),
    (c"__bool__", |s, _, _| Ok(PyBool::new(s.py(), truth(tensor(s)?)?).to_owned().into_any())),
    (c"__nonzero__", |s, _, _| Ok(PyBool::new(s.py(), truth(tensor(s)?)?).to_owned().into_any())),
    (c"__float__", |s, _, _| {
        Ok(PyFloat::new(s.py(), value::item(only(tensor(s)?)?).and_then(|v| v.to::<f64>()).into_py()?)
            .into_any())
    }),
    (c"__complex__", complex),
    (c"__int__", integral),
    (c"__long__", integral),
    (c"__index__", index),
    (c"size", size_of),
    (c"stride", stride),
    (c"dim", |s, _, _| int(s, tensor(s)?.dim() as i64)),
    (c"ndimension", |s, _, _| int(s, tensor(s)?.dim() as i64)),
    (c"numel", |s, _, _| int(s, tensor(s)?.numel())),
    (c"nelement", |s, _, _| int(s, tensor(s)?.numel())),
    (c"storage_offset", |s, _, _| int(s, tensor(s)?.storage_offset())),
    (c"element_size", |s, _, _| int(s, tensor(s)?.itemsize() as i64)),
    (c"data_ptr", |s, _, _| int(s, address(tensor(s)?))),
    (c"const_data_ptr", |s, _, _| int(s, address(tensor(s)?))),
    (c"get_device", |s, _, _| int(s, tensor(s)?.device().index as i64)),
    (c"item", |s, _, _| value::scalar_to_py(s.py(), value::item(tensor(s)?).into_py()?)),
    (c"tolist", |s, _, _| to_list(s.py(), tensor(s)?)),
    (c"is_contiguous", is_contiguous),
    (c"contiguous", contiguous),
    (c"requires_grad_", requires_grad_),
    (c"retain_grad", |s, _, _| {
        crate::autograd::hooks::retain_grad(tensor(s)?)?;
        Ok(s.py().None().into_bound(s.py()))
    }),
    (c"_is_view", |s, _, _| Ok(PyBool::new(s.py(), tensor(s)?.view_base().is_some()).to_owned().into_any())),
    (c"to", to),
    (c"type", |s, a, k| crate::legacy_types::type_method(s, tensor(s)?, pick(a, k, 0, "dtype"))),
    (c"cpu", |s, _, _| convert(s, None, Some(Device::CPU), false, None)),
    (c"copy_", copy_),
    (c"nonzero", nonzero),
    (c"new_tensor", |s, a, k| super::from_memory::new_tensor(s, tensor(s)?, a, k)),
    (c"float", cast!(Float)),
    (c"double", cast!(Double)),
    (c"half", cast!(Half)),
    (c"bfloat16", cast!(BFloat16)),
    (c"int", cast!(Int)),
    (c"long", cast!(Long)),
    (c"short", cast!(Short)),
    (c"char", cast!(Char)),
    (c"byte", cast!(Byte)),
    (c"bool", cast!(Bool)),
    (c"cfloat", cast!(ComplexFloat)),
    (c"cdouble", cast!(ComplexDouble)),
    (c"numpy", |s, a, k| crate::numpy::numpy_method(s, tensor(s)?, a, k)),
    (c"apply_", super::apply::apply_),
    (c"map_", |s, a, k| super::apply::map_("map_", s, a, k)),
    // An object lives as long as its tensor is held, so no weak reference ever sees it come back.
    (c"_fix_weakref", |s, _, _| Ok(s.py().None().into_bound(s.py()))),
    (c"map2_", |s, a, k| super::apply::map_("map2_", s, a, k)),
    (c"new", |s, a, k| super::legacy::new_method(s, tensor(s)?, a, k)),
    (c"set_", |s, a, k| crate::storage::set_method(s, tensor(s)?, a, k)),
    (c"untyped_storage", |s, _, _| crate::storage::untyped_storage(s.py(), tensor(s)?)),
    (c"as_subclass", as_subclass),
    (c"cuda", device_absent!("CUDA")),
    (c"ipu", device_absent!("IPU")),
    (c"mtia", device_absent!("MTIA")),
    (c"xpu", device_absent!("XPU")),
];

fn call<'py>(slf: &Bound<'py, PyAny>, t: Tensor) -> PyResult<Bound<'py, PyAny>> {
    object::wrap(slf.py(), t)
}
fn int<'py>(slf: &Bound<'py, PyAny>, v: i64) -> PyResult<Bound<'py, PyAny>> {
    Ok(v.into_pyobject(slf.py())?.into_any())
}

/// The argument of a name, by position or keyword.
fn pick<'a, 'py>(
    args: &'a [Bound<'py, PyAny>],
    keywords: Keywords<'a, 'py>,
    i: usize,
    name: &str,
) -> Option<&'a Bound<'py, PyAny>> {
    args.get(i).or_else(|| keywords.iter().find(|(k, _)| k == name).map(|(_, v)| v)).filter(|v| !v.is_none())
}

/// `nonzero(*, as_tuple=False, out=None)`: positions as rows, or as one tensor a dimension.
pub fn nonzero<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(t) = object::get(slf) else {
        return Err(PyTypeError::new_err(format!(
            "nonzero(): argument 'input' (position 1) must be Tensor, not {}",
            slf.get_type().name()?
        )));
    };
    if !args.is_empty() {
        return Err(PyTypeError::new_err(format!(
            "nonzero() takes 1 positional argument but {} were given",
            args.len() + 1
        )));
    }
    if let Some((name, _)) = kw.iter().find(|(k, _)| k != "as_tuple" && k != "out") {
        return Err(PyTypeError::new_err(format!("nonzero() got an unexpected keyword argument '{name}'")));
    }
    if let Some(out) = pick(&[], kw, 0, "out") {
        let Some(target) = object::get(out) else {
            return Err(PyTypeError::new_err("nonzero(): argument 'out' must be Tensor"));
        };
        return call(slf, op::nonzero_out.call((t, target)).into_py()?);
    }
    if !pick(&[], kw, 0, "as_tuple").map_or(Ok(false), |o| o.extract())? {
        return call(slf, op::nonzero.call((t,)).into_py()?);
    }
    let parts = op::nonzero_numpy.call_list((t,)).into_py()?;
    let items = parts.into_iter().map(|t| object::wrap(slf.py(), t)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(slf.py(), items)?.into_any())
}

fn truth(t: &Tensor) -> PyResult<bool> {
    match t.numel() {
        0 => Err(error::runtime("Boolean value of Tensor with no values is ambiguous")),
        1 => Ok(value::item(t).into_py()?.to_bool()),
        _ => Err(error::runtime("Boolean value of Tensor with more than one value is ambiguous")),
    }
}

/// `==`, which alone of all operators takes NumPy arrays for tensors.
fn eq<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let plain: Method = dunder!("eq");
    if let [other] = args
        && crate::numpy::is_array(other)?
    {
        let other = call(slf, crate::numpy::from_array(other, true)?)?;
        return plain(slf, &[other], kw);
    }
    plain(slf, args, kw)
}

/// The number in a tensor of one element, for Python's conversions.
fn only(t: &Tensor) -> PyResult<&Tensor> {
    if t.numel() != 1 {
        return Err(pyo3::exceptions::PyValueError::new_err(
            "only one element tensors can be converted to Python scalars",
        ));
    }
    Ok(t)
}

fn invert<'py>(
    slf: &Bound<'py, PyAny>,
    _: &[Bound<'py, PyAny>],
    _: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let t = tensor(slf)?;
    if !t.dtype().is_integral(true) {
        return Err(PyTypeError::new_err(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors",
        ));
    }
    call(slf, op::bitwise_not.call((t,)).into_py()?)
}

fn complex<'py>(
    slf: &Bound<'py, PyAny>,
    _: &[Bound<'py, PyAny>],
    _: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    use torchnative_engine::Scalar;
    let (re, im) = match value::item(only(tensor(slf)?)?).into_py()? {
        Scalar::Complex(re, im) => (re, im),
        other => (other.to_f64(), 0.0),
    };
    Ok(PyComplex::from_doubles(slf.py(), re, im).into_any())
}

fn integral<'py>(
    slf: &Bound<'py, PyAny>,
    _: &[Bound<'py, PyAny>],
    _: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    use torchnative_engine::Scalar;
    match value::item(only(tensor(slf)?)?).into_py()? {
        // Python's own conversion raises on NaN and infinity, and is exact beyond 64 bits.
        Scalar::Float(v) => PyFloat::new(slf.py(), v).call_method0("__int__"),
        Scalar::UInt(v) => Ok(v.into_pyobject(slf.py())?.into_any()),
        other => int(slf, other.to().into_py()?),
    }
}

fn index<'py>(
    slf: &Bound<'py, PyAny>,
    _: &[Bound<'py, PyAny>],
    _: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let t = tensor(slf)?;
    if !t.dtype().is_integral(true) || t.numel() != 1 {
        return Err(PyTypeError::new_err(
            "only integer tensors of a single element can be converted to an index",
        ));
    }
    int(slf, value::item(t).into_py()?.to_i64())
}

fn size_of<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let t = tensor(slf)?;
    match pick(args, kw, 0, "dim") {
        Some(d) => int(slf, t.size(d.extract()?).into_py()?),
        None => Ok(size::new(slf.py(), t.sizes())?.into_any()),
    }
}

fn stride<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let t = tensor(slf)?;
    match pick(args, kw, 0, "dim") {
        Some(d) => {
            let d = torchnative_engine::tensor::shape::wrap_dim(d.extract()?, t.dim()).into_py()?;
            int(slf, t.strides().get(d).copied().unwrap_or(1))
        }
        None => Ok(PyTuple::new(slf.py(), t.strides())?.into_any()),
    }
}

/// Nested lists of Python numbers.
fn to_list<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    // Modes are not shown the elements one by one.
    let _out_of_sight = torchnative_engine::dispatch::tls::StateGuard::exclude(DispatchKeySet::PYTHON);
    let t = torchnative_engine::ops::copy::contiguous(t).into_py()?;
    if t.is_meta() {
        return Err(PyNotImplementedError::new_err("Cannot copy out of meta tensor; no data!"));
    }
    fn level<'py>(py: Python<'py>, t: &Tensor, dim: usize, offset: i64) -> PyResult<Bound<'py, PyAny>> {
        if dim == t.dim() {
            let one = t.alias_with(Default::default(), Default::default(), offset);
            return value::scalar_to_py(py, value::item(&one).into_py()?);
        }
        let items = (0..t.sizes()[dim])
            .map(|i| level(py, t, dim + 1, offset + i * t.strides()[dim]))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, items)?.into_any())
    }
    level(py, &t, 0, t.storage_offset())
}

fn format_of(o: Option<&Bound<'_, PyAny>>) -> PyResult<Option<MemoryFormat>> {
    match o {
        None => Ok(None),
        Some(o) => layouts::format_from_py(o).map(Some).ok_or_else(|| {
            PyTypeError::new_err(format!("memory_format must be torch.memory_format, not {}", o.get_type()))
        }),
    }
}

fn is_contiguous<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let format = format_of(pick(args, kw, 0, "memory_format"))?.unwrap_or(MemoryFormat::Contiguous);
    Ok(PyBool::new(slf.py(), tensor(slf)?.is_contiguous_format(format)).to_owned().into_any())
}

fn contiguous<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let format = format_of(pick(args, kw, 0, "memory_format"))?.unwrap_or(MemoryFormat::Contiguous);
    let t = tensor(slf)?;
    if t.is_contiguous_format(format) {
        return Ok(slf.clone());
    }
    call(slf, op::clone.call((t, format)).into_py()?)
}

fn requires_grad_<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let on = pick(args, kw, 0, "requires_grad").map_or(Ok(true), |o| o.extract())?;
    tensor(slf)?.set_requires_grad(on).into_py()?;
    Ok(slf.clone())
}

/// The tensor in another dtype or on another device; itself when nothing changes and no copy is asked for.
fn convert<'py>(
    slf: &Bound<'py, PyAny>,
    dtype: Option<DType>,
    device: Option<Device>,
    copy: bool,
    format: Option<MemoryFormat>,
) -> PyResult<Bound<'py, PyAny>> {
    let t = tensor(slf)?;
    let same = dtype.is_none_or(|d| d == t.dtype())
        && device.is_none_or(|d| d.ty == t.device().ty)
        && format.is_none_or(|f| f == MemoryFormat::Preserve || t.is_contiguous_format(f));
    if same && !copy {
        return Ok(slf.clone());
    }
    let args = (t, dtype, IValue::None, device, IValue::None, false, format);
    call(slf, op::_to_copy.call(args).into_py()?)
}

fn cast<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
    d: DType,
) -> PyResult<Bound<'py, PyAny>> {
    convert(slf, Some(d), None, false, format_of(pick(args, kw, 0, "memory_format"))?)
}

fn to<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let to = super::conversion::To::parse(args, kw)?;
    convert(slf, to.dtype, to.device, to.copy, to.format)
}

fn copy_<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let other = pick(args, kw, 0, "other");
    let src = match other.and_then(object::get) {
        Some(s) => s.clone(),
        None => {
            let number = other.map(value::scalar_from_py).transpose()?.flatten();
            let number = number.ok_or_else(|| PyTypeError::new_err("copy_() needs a tensor"))?;
            torchnative_engine::tensor::factory::wrapped_scalar(number).into_py()?
        }
    };
    op::copy_.call((tensor(slf)?, &src)).into_py()?;
    Ok(slf.clone())
}

/// A new object of a subclass over the same tensor data.
fn as_subclass<'py>(
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kw: Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = pick(args, kw, 0, "cls").ok_or_else(|| {
        PyTypeError::new_err("as_subclass() missing 1 required positional arguments: \"cls\"")
    })?;
    let class = class.cast::<pyo3::types::PyType>().map_err(|_| {
        PyTypeError::new_err(format!("cls must be a type (got {})", parser::type_name(class)))
    })?;
    object::wrap_as(class, op::alias.call((tensor(slf)?,)).into_py()?)
}

/// Keeps methods that read the data itself away from tensors whose class answers for them.
fn refuse_subclass(name: &CStr, slf: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(t) = object::get(slf) else { return Ok(()) };
    if !t.key_set().has_functionality(DispatchKey::Python) {
        return Ok(());
    }
    Err(error::runtime(match name.to_bytes() {
        b"tolist" => {
            format!(".tolist() is not supported for tensor subclasses, got {}", slf.get_type().name()?)
        }
        b"numpy" => ".numpy() is not supported for tensor subclasses.".to_owned(),
        b"apply_" | b"map_" | b"map2_" => {
            format!(".{}() is not supported for tensor subclasses.", name.to_str().unwrap_or_default())
        }
        b"data_ptr" | b"const_data_ptr" | b"mutable_data_ptr" if t.host_policy().throws_on_data_ptr => {
            "Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor). If you're using torch.compile/export/fx, \
             it is likely that we are erroneously tracing into a custom kernel. To fix this, please wrap the custom kernel into \
             an opaque custom op. Please see the following for details: \
             https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
                .to_owned()
        }
        _ => return Ok(()),
    }))
}

/// Runs the override of a hand-bound method, when there is one. Operators' dunders leave that to the function they call.
fn override_of<'py>(
    name: &CStr,
    slf: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    keywords: Keywords<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    use torch_function::Considered;
    let text = name.to_str().unwrap_or_default();
    let (name, considered) = match name.to_bytes() {
        b"as_subclass" => return Ok(None),
        b"__eq__" if torch_function::skips_next() => return Ok(None),
        b"__eq__" if !torch_function::has(slf) => return Ok(None),
        b"__nonzero__" => ("__bool__", Considered::Tensor),
        b"__long__" => ("__int__", Considered::Tensor),
        b"__eq__" | b"__invert__" | b"__bool__" | b"__float__" | b"__complex__" | b"__int__"
        | b"__index__" => (text, Considered::Tensor),
        b"type" | b"item" | b"new" | b"new_tensor" | b"set_" => (text, Considered::Tensor),
        other if other.starts_with(b"__") => return Ok(None),
        _ => (text, Considered::All),
    };
    torch_function::method(slf, name, args, keywords, considered)
}

unsafe extern "C" fn enter<const I: usize>(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the GIL held, live objects and a vector of the announced length.
    let py = unsafe { Python::assume_attached() };
    let body = || {
        let slf = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, slf) };
        let (positional, keywords) = unsafe { parser::unpack(py, args, nargs, kwnames)? };
        if let Some(result) = override_of(METHODS[I].0, &slf, &positional, &keywords)? {
            return Ok(result.unbind());
        }
        if let Some(takes) = super::hand_bound::taken_by(I) {
            takes.check(&positional, &keywords)?;
        }
        refuse_subclass(METHODS[I].0, &slf)?;
        METHODS[I].1(&slf, &positional, &keywords).map(Bound::unbind)
    };
    match error::guard(body) {
        Ok(o) => o.into_ptr(),
        Err(e) => {
            e.restore(py);
            std::ptr::null_mut()
        }
    }
}

macro_rules! entries {
    ($($i:literal)*) => {
        [$(if $i < METHODS.len() { enter::<$i> } else { enter::<0> },)*]
    };
}

#[rustfmt::skip]
static ENTRIES: [parser::Entry; 96] = entries!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
    48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
);
const _: () = assert!(METHODS.len() <= 96);

/// Whether a hand-bound method stands in for this generated one.
pub fn overrides(d: &ffi::PyMethodDef) -> bool {
    // SAFETY: names are C strings that live for ever.
    let name = unsafe { CStr::from_ptr(d.ml_name) };
    METHODS.iter().any(|(n, _)| *n == name)
}

/// The definitions of the hand-bound methods.
pub fn definitions() -> Vec<ffi::PyMethodDef> {
    METHODS
        .iter()
        .enumerate()
        .map(|(i, (name, _))| ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: ENTRIES[i] },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: std::ptr::null(),
        })
        .collect()
}
