//! The legacy tensor types `torch.FloatTensor`, `torch.cuda.sparse.LongTensor` and kin: classes of the metaclass
//! `torch.tensortype` that stand for a device type, a layout and a dtype, and make tensors of it.

use crate::error::{self, IntoPy};
use crate::tensor::{legacy, object};
use crate::types::{device, dtype, layout};
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PySet, PyString, PyTuple, PyType};
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use torchnative_engine::iter::default_dtype;
use torchnative_engine::{DType, Device, DeviceType, IValue, Layout, Tensor, op};

/// What a legacy type stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LegacyType {
    pub device: DeviceType,
    pub layout: Layout,
    pub dtype: DType,
}

struct Entry {
    what: LegacyType,
    name: String,
    class: Py<PyType>,
}

static TYPES: PyOnceLock<Vec<Entry>> = PyOnceLock::new();
static META: PyOnceLock<Py<PyType>> = PyOnceLock::new();

const DTYPES: [DType; 10] = [
    DType::Byte,
    DType::Char,
    DType::Double,
    DType::Float,
    DType::Int,
    DType::Long,
    DType::Short,
    DType::Half,
    DType::Bool,
    DType::BFloat16,
];
const PLACES: [(&str, DeviceType, Layout); 4] = [
    ("torch", DeviceType::Cpu, Layout::Strided),
    ("torch.cuda", DeviceType::Cuda, Layout::Strided),
    ("torch.sparse", DeviceType::Cpu, Layout::Sparse),
    ("torch.cuda.sparse", DeviceType::Cuda, Layout::Sparse),
];

fn entry(py: Python<'_>, class: *mut ffi::PyObject) -> Option<&Entry> {
    TYPES.get(py)?.iter().find(|e| e.class.as_ptr() == class)
}

/// What an object stands for, when it is a legacy type.
pub fn from_py(object: &Bound<'_, PyAny>) -> Option<LegacyType> {
    entry(object.py(), object.as_ptr()).map(|e| e.what)
}

/// `Tensor.type()`: the name of the legacy type of a tensor, whether or not there is such a class.
pub fn name_of(t: &Tensor) -> String {
    let place = match (t.device().ty, t.layout()) {
        (DeviceType::Cpu, _) => String::new(),
        (ty, _) => format!("{}.", device::type_name(ty)),
    };
    let kind = match t.layout() {
        Layout::Sparse => "sparse.",
        Layout::SparseCsr => "sparse_csr.",
        Layout::Mkldnn => "mkldnn.",
        _ if t.dtype().is_quantized() => "quantized.",
        _ => "",
    };
    format!("torch.{place}{kind}{}Tensor", t.dtype().scalar_type_name())
}

/// Reads a name that `Tensor.type()` gives.
fn parse(name: &str) -> PyResult<LegacyType> {
    let invalid = || PyValueError::new_err(format!("invalid type: '{name}'"));
    if name == "torch.Tensor" {
        return Ok(LegacyType { device: DeviceType::Cpu, layout: Layout::Strided, dtype: default_dtype() });
    }
    let (place, last) = name.rsplit_once('.').ok_or_else(invalid)?;
    let short = last.strip_suffix("Tensor").ok_or_else(invalid)?;
    let dtype = DType::ALL.iter().copied().find(|d| d.scalar_type_name() == short).ok_or_else(invalid)?;
    let (device, layout) = match PLACES.iter().find(|(p, ..)| *p == place) {
        Some((_, device, layout)) => (*device, *layout),
        None => match place.strip_prefix("torch.") {
            Some(own) if own == crate::accelerator::privateuse1_name() => {
                (DeviceType::PrivateUse1, Layout::Strided)
            }
            _ => return Err(invalid()),
        },
    };
    Ok(LegacyType { device, layout, dtype })
}

/// `Tensor.type(dtype=None, non_blocking=False)`: the name of the type, or the tensor converted to another one.
pub fn type_method<'py>(
    slf: &Bound<'py, PyAny>,
    t: &Tensor,
    to: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let Some(to) = to else {
        return Ok(PyString::new(py, &name_of(t)).into_any());
    };
    let (dtype, ty) = if let Some(d) = dtype::from_py(to) {
        (d, t.device().ty)
    } else {
        let what = if let Some(what) = from_py(to) {
            what
        } else if let Ok(name) = to.cast::<PyString>() {
            parse(name.to_str()?)?
        } else if let Ok(class) = to.cast::<PyType>() {
            let name = class.name()?.to_string();
            // Builtin classes carry no module in the name that messages show.
            match class.module() {
                Ok(module) if module != "builtins" => parse(&format!("{module}.{name}"))?,
                _ => parse(&name)?,
            }
        } else {
            return Err(PyTypeError::new_err("dtype must be a type, str, or dtype object"));
        };
        (what.dtype, what.device)
    };
    if ty == DeviceType::Cuda {
        py.import("torch.cuda")?.call_method0("_lazy_init")?;
    }
    if dtype == t.dtype() && ty == t.device().ty {
        return Ok(slf.clone());
    }
    let to = if ty == t.device().ty { t.device() } else { Device { ty, index: -1 } };
    object::wrap(py, op::_to_copy.call((t, dtype, IValue::None, to)).into_py()?)
}

/// `torch.set_default_tensor_type`: the dtype of a dense floating point type becomes the default.
///
/// # Errors
/// TypeError for anything else, and for types of a device that this build does not have.
pub fn default_of(given: &Bound<'_, PyAny>) -> PyResult<DType> {
    let Some(entry) = entry(given.py(), given.as_ptr()) else {
        return Err(PyTypeError::new_err(
            "invalid type object: only floating-point types are supported as the default type",
        ));
    };
    check_available(entry)?;
    if !entry.what.dtype.is_floating_point() {
        return Err(PyTypeError::new_err("only floating-point types are supported as the default type"));
    }
    if entry.what.layout != Layout::Strided {
        return Err(PyTypeError::new_err("only dense types are supported as the default type"));
    }
    Ok(entry.what.dtype)
}

fn check_available(e: &Entry) -> PyResult<()> {
    if e.what.device == DeviceType::Cuda {
        return Err(PyTypeError::new_err(format!(
            "type {} not available. Torch not compiled with CUDA enabled.",
            e.name
        )));
    }
    Ok(())
}

fn result<T>(py: Python<'_>, failure: T, body: impl FnOnce() -> PyResult<T>) -> T {
    match error::guard(body) {
        Ok(v) => v,
        Err(e) => {
            e.restore(py);
            failure
        }
    }
}

unsafe extern "C" fn new(
    class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls attached, with live objects; kwargs may be null.
    let py = unsafe { Python::assume_attached() };
    result(py, ptr::null_mut(), || {
        let (args, kwargs) = unsafe {
            (
                Bound::<PyAny>::from_borrowed_ptr(py, args).cast_into::<PyTuple>()?,
                Bound::<PyAny>::from_borrowed_ptr_or_opt(py, kwargs),
            )
        };
        let e = entry(py, class.cast()).ok_or_else(|| PyTypeError::new_err("not a tensor type"))?;
        check_available(e)?;
        let t = legacy::make(&args, kwargs.as_ref(), e.what, legacy::Form::Typed)?;
        object::wrap(py, t).map(Bound::into_ptr)
    })
}

/// `isinstance(x, torch.FloatTensor)`
unsafe extern "C" fn instance_check(class: *mut ffi::PyObject, x: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    let py = unsafe { Python::assume_attached() };
    let is = match (entry(py, class), unsafe { object::get_raw(py, x) }) {
        (Some(e), Some(t)) => {
            e.what == LegacyType { device: t.device().ty, layout: t.layout(), dtype: t.dtype() }
        }
        _ => false,
    };
    PyBool::new(py, is).to_owned().into_ptr()
}

unsafe extern "C" fn property(class: *mut ffi::PyObject, closure: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above; the closure is a number.
    let py = unsafe { Python::assume_attached() };
    result(py, ptr::null_mut(), || {
        let what = entry(py, class).ok_or_else(|| PyAttributeError::new_err("not a tensor type"))?.what;
        let flag = |on: bool| PyBool::new(py, on).to_owned().into_any();
        Ok(match closure as usize {
            0 => dtype::to_py(py, what.dtype).into_any(),
            1 => layout::layout_to_py(py, what.layout).into_any(),
            2 => flag(what.device == DeviceType::Cuda),
            3 => flag(what.layout == Layout::Sparse),
            _ => flag(false),
        }
        .into_ptr())
    })
}

/// Attributes of the type, then those of `torch.Tensor`: `torch.FloatTensor.abs` is a method of tensors.
unsafe extern "C" fn get_attribute(
    class: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above; the slot of `type` is never null.
    let py = unsafe { Python::assume_attached() };
    unsafe {
        let slot = ffi::PyType_GetSlot(&raw mut ffi::PyType_Type, ffi::Py_tp_getattro);
        let own: ffi::getattrofunc = std::mem::transmute::<*mut c_void, ffi::getattrofunc>(slot);
        let found = own(class, name);
        if !found.is_null() || ffi::PyErr_ExceptionMatches(ffi::PyExc_AttributeError) == 0 {
            return found;
        }
    }
    let missing = PyErr::take(py);
    result(py, ptr::null_mut(), || {
        let name = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, name) }.cast_into::<PyString>()?;
        object::tensor_class(py)?.getattr(&name).map(Bound::into_ptr).map_err(|e| missing.unwrap_or(e))
    })
}

/// The types cannot be changed; only their making writes to them.
unsafe extern "C" fn set_attribute(
    class: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    _value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: as above.
    let py = unsafe { Python::assume_attached() };
    result(py, -1, || {
        let name = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, name) };
        let class = entry(py, class).map_or("tensortype", |e| e.name.as_str());
        Err(PyTypeError::new_err(format!("cannot set '{name}' attribute of immutable type '{class}'")))
    })
}

fn metaclass(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let get = |name: &'static std::ffi::CStr, i: usize| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(property),
        set: None,
        doc: ptr::null(),
        closure: i as *mut c_void,
    };
    // SAFETY: all-zero definitions end the lists.
    let (end, last) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let getset = Box::leak(Box::new([
        get(c"dtype", 0),
        get(c"layout", 1),
        get(c"is_cuda", 2),
        get(c"is_sparse", 3),
        get(c"is_sparse_csr", 4),
        get(c"is_xpu", 5),
        end,
    ]));
    let methods = Box::leak(Box::new([
        ffi::PyMethodDef {
            ml_name: c"__instancecheck__".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: instance_check },
            ml_flags: ffi::METH_O,
            ml_doc: ptr::null(),
        },
        last,
    ]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let slots = Box::leak(Box::new([
        slot(ffi::Py_tp_getset, getset.as_mut_ptr().cast()),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getattro, get_attribute as *mut c_void),
        slot(ffi::Py_tp_setattro, set_attribute as *mut c_void),
        slot(0, ptr::null_mut()),
    ]));
    let spec = Box::leak(Box::new(ffi::PyType_Spec {
        name: c"torch.tensortype".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as _,
        slots: slots.as_mut_ptr(),
    }));
    // SAFETY: the spec and what it points to live for ever; `type` may be derived from.
    unsafe {
        let made = ffi::PyType_FromSpecWithBases(spec, (&raw mut ffi::PyType_Type).cast());
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into::<PyType>()?)
    }
}

fn make_type<'py>(meta: &Bound<'py, PyType>, name: &str) -> PyResult<Bound<'py, PyType>> {
    let py = meta.py();
    let name = Box::leak(CString::new(name)?.into_boxed_c_str());
    let slots = Box::leak(Box::new([
        ffi::PyType_Slot { slot: ffi::Py_tp_new, pfunc: new as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ]));
    let spec = Box::leak(Box::new(ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size_of::<ffi::PyObject>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as _,
        slots: slots.as_mut_ptr(),
    }));
    // SAFETY: as in `metaclass`; the metaclass derives from `type` and keeps its constructor.
    unsafe {
        let made = ffi::PyType_FromMetaclass(meta.as_type_ptr(), ptr::null_mut(), spec, ptr::null_mut());
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into::<PyType>()?)
    }
}

/// Puts the types on `torch`, `torch.cuda`, `torch.sparse` and `torch.cuda.sparse`, and into `torch._tensor_classes`.
pub fn export(torch: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = torch.py();
    let meta = metaclass(py)?;
    let classes = torch.getattr("_tensor_classes")?.cast_into::<PySet>()?;
    let mut entries = Vec::new();
    for (place, device, layout) in PLACES {
        let module = py.import(place)?;
        for dtype in DTYPES {
            if dtype == DType::Bool && layout == Layout::Sparse {
                continue;
            }
            let short = format!("{}Tensor", dtype.scalar_type_name());
            let name = format!("{place}.{short}");
            let class = make_type(&meta, &name)?;
            module.setattr(short.as_str(), &class)?;
            classes.add(&class)?;
            entries.push(Entry { what: LegacyType { device, layout, dtype }, name, class: class.unbind() });
        }
    }
    let _ = META.set(py, meta.unbind());
    let _ = TYPES.set(py, entries);
    Ok(())
}
