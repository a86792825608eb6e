//! `torch._C.TensorBase`: the Python object of a tensor. One object a tensor: the engine keeps it alive while it holds
//! the tensor in more handles than the object's own.

use crate::torch_dispatch;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::ffi::{c_int, c_void};
use std::ptr;
use torchnative_engine::Tensor;
use torchnative_engine::dispatch::DispatchKey;
use torchnative_engine::tensor::{PyObjectHooks, TensorImpl, set_pyobject_hooks};

#[repr(C)]
struct PyTensor {
    base: ffi::PyObject,
    /// Owned; null before initialisation and after clearing.
    slot: *mut TensorImpl,
}

static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static PARAMETER: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The `TensorBase` type.
pub fn base_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    BASE.get(py).map(|c| c.bind(py)).ok_or_else(|| PyRuntimeError::new_err("torch._C is not initialised"))
}

/// `torch.Tensor`, or `TensorBase` while `torch` is being imported.
pub fn tensor_class(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    if let Some(c) = CLASS.get(py) {
        return Ok(c.bind(py).clone());
    }
    let found = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.get_item("torch")?;
    if let Some(class) =
        found.and_then(|t| t.getattr("Tensor").ok()).and_then(|c| c.cast_into::<PyType>().ok())
    {
        let _ = CLASS.set(py, class.clone().unbind());
        return Ok(class);
    }
    base_class(py).cloned()
}

/// Whether this is exactly `torch.Tensor` or `torch.nn.Parameter`: the classes whose tensors never override.
#[inline]
pub fn is_exact(py: Python<'_>, ty: *mut ffi::PyTypeObject) -> bool {
    let same = |known: &PyOnceLock<Py<PyType>>| known.get(py).is_some_and(|c| c.as_ptr() == ty.cast());
    same(&CLASS) || same(&PARAMETER)
}

/// Remembers `torch.nn.Parameter` for [`is_exact`], when this is it.
pub fn learn_parameter_class(class: &Bound<'_, PyType>) {
    let py = class.py();
    let is_it = || -> PyResult<bool> {
        let loaded = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
        match loaded.get_item("torch.nn.parameter")? {
            Some(module) => Ok(module.getattr_opt("Parameter")?.is_some_and(|parameter| parameter.is(class))),
            None => Ok(false),
        }
    };
    if PARAMETER.get(py).is_none() && is_it().unwrap_or(false) {
        let _ = PARAMETER.set(py, class.clone().unbind());
    }
}

/// The tensor of a Python object, when it is one. The reference lives as long as the object is held.
#[inline]
pub fn get<'a>(object: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    // SAFETY: the object is alive for 'a.
    unsafe { get_raw(object.py(), object.as_ptr()) }
}

/// As [`get`], on a raw pointer.
///
/// # Safety
/// The object is alive for `'a`.
#[inline]
pub unsafe fn get_raw<'a>(py: Python<'_>, object: *mut ffi::PyObject) -> Option<&'a Tensor> {
    let base = BASE.get(py)?;
    unsafe {
        let ty = ffi::Py_TYPE(object);
        let is = ty == base.as_ptr().cast() || ffi::PyType_IsSubtype(ty, base.as_ptr().cast()) != 0;
        if !is || (*object.cast::<PyTensor>()).slot.is_null() {
            return None;
        }
        Some(Tensor::borrow_raw(&(*object.cast::<PyTensor>()).slot))
    }
}

/// The Python object of a tensor: the one it has, or a new `torch.Tensor`.
pub fn wrap(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let known = tensor.pyobj();
    if !known.is_null() {
        // SAFETY: the slot holds a live object; the incref comes before the handle is dropped.
        return Ok(unsafe { Bound::from_borrowed_ptr(py, known.cast()) });
    }
    let class = tensor_class(py)?;
    wrap_as(&class, tensor)
}

/// A new Python object of the given class (a subtype of `TensorBase`) for a tensor that has none.
pub fn wrap_as<'py>(class: &Bound<'py, PyType>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let dispatches = torch_dispatch::overrides(class)?;
    if !tensor.pyobj().is_null() {
        return Err(PyRuntimeError::new_err("the tensor is already associated to a Python object"));
    }
    if dispatches {
        tensor.set_key(DispatchKey::Python, true);
        tensor.set_key(DispatchKey::PythonTLSSnapshot, true);
    }
    // SAFETY: the class derives from TensorBase, so its instances start with PyTensor.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class.as_type_ptr(), 0);
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        let shared = tensor.use_count() > 1;
        tensor.set_pyobj(object.as_ptr().cast());
        (*object.as_ptr().cast::<PyTensor>()).slot = tensor.into_raw();
        if shared {
            ffi::Py_INCREF(object.as_ptr());
        }
        Ok(object)
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        clear(object);
        let ty = ffi::Py_TYPE(object);
        let free = ffi::PyType_GetSlot(ty, ffi::Py_tp_free);
        if !free.is_null() {
            let free: ffi::freefunc = std::mem::transmute::<*mut c_void, ffi::freefunc>(free);
            free(object.cast());
        }
        ffi::Py_DECREF(ty.cast());
    }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    unsafe {
        let this = object.cast::<PyTensor>();
        let slot = ptr::replace(&raw mut (*this).slot, ptr::null_mut());
        if !slot.is_null() {
            let tensor = Tensor::from_raw(slot);
            tensor.set_pyobj(ptr::null_mut());
            if tensor.autograd_meta().is_some() {
                // A graph may hold Python objects, which PyO3 releases at once only where it knows the thread is attached.
                crate::error::attached(move || drop(tensor));
            } else {
                drop(tensor);
            }
        }
    }
    0
}

unsafe extern "C" fn traverse(object: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    unsafe { visit(ffi::Py_TYPE(object).cast(), arg) }
}

/// `TensorBase()` itself cannot be made; `torch.Tensor(...)` is the legacy constructor.
unsafe extern "C" fn new(
    class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    Python::attach(|py| {
        let run = || -> PyResult<Bound<'_, PyAny>> {
            // SAFETY: CPython passes live objects; kwargs may be null.
            let (class, args, kwargs) = unsafe {
                (
                    Bound::<PyAny>::from_borrowed_ptr(py, class.cast()).cast_into::<PyType>()?,
                    Bound::<PyAny>::from_borrowed_ptr(py, args).cast_into::<PyTuple>()?,
                    Bound::<PyAny>::from_borrowed_ptr_or_opt(py, kwargs),
                )
            };
            super::legacy::construct(&class, &args, kwargs.as_ref())
        };
        match crate::error::guard(run) {
            Ok(o) => o.into_ptr(),
            Err(e) => {
                e.restore(py);
                ptr::null_mut()
            }
        }
    })
}

/// Creates `_TensorMeta`: a `type` that looks at every class made from `torch.Tensor`.
fn metaclass(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let slots = Box::leak(Box::new([
        ffi::PyType_Slot { slot: ffi::Py_tp_init, pfunc: init_class as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ]));
    let spec = Box::leak(Box::new(ffi::PyType_Spec {
        name: c"torch._C._TensorMeta".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as _,
        slots: slots.as_mut_ptr(),
    }));
    let base = py.get_type::<PyType>();
    // SAFETY: spec and slots live for ever; the size is inherited from `type`.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(spec, base.as_ptr())) }
}

unsafe extern "C" fn init_class(
    class: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: called by CPython with the GIL held; `type` has an initialiser of this kind.
    let py = unsafe { Python::assume_attached() };
    let made = unsafe {
        let init = ffi::PyType_GetSlot(&raw mut ffi::PyType_Type, ffi::Py_tp_init);
        let init: ffi::initproc = std::mem::transmute::<*mut c_void, ffi::initproc>(init);
        init(class, args, kwargs)
    };
    if made < 0 {
        return made;
    }
    // SAFETY: a live class.
    let class = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, class) };
    match crate::error::guard(|| settle_overrides(class.cast::<PyType>()?)) {
        Ok(()) => 0,
        Err(e) => {
            e.restore(py);
            -1
        }
    }
}

/// A class that overrides `__torch_dispatch__` and says nothing of `__torch_function__` turns the latter off.
fn settle_overrides(class: &Bound<'_, PyType>) -> PyResult<()> {
    let py = class.py();
    if BASE.get(py).is_none() {
        return Ok(());
    }
    let tensor = tensor_class(py)?;
    if tensor.is(base_class(py)?) {
        return Ok(());
    }
    if !class.is_subclass(&tensor)? {
        return Err(PyRuntimeError::new_err("Cannot subclass _TensorBase directly"));
    }
    let dispatch = pyo3::intern!(py, "__torch_dispatch__");
    if class.getattr(dispatch)?.is(&tensor.getattr(dispatch)?) {
        return Ok(());
    }
    let name = pyo3::intern!(py, "__torch_function__");
    let plain =
        |method: Bound<'_, PyAny>| Ok::<_, PyErr>(method.getattr_opt("__func__")?.unwrap_or(method).unbind());
    if plain(class.getattr(name)?)?.is(&plain(tensor.getattr(name)?)?) {
        class.setattr(name, py.import("torch._C")?.getattr("_disabled_torch_function_impl")?)?;
    }
    Ok(())
}

/// Creates the metaclass and the type, and installs the engine's hooks.
pub fn init(
    module: &Bound<'_, PyModule>,
    methods: Vec<ffi::PyMethodDef>,
    getset: Vec<ffi::PyGetSetDef>,
) -> PyResult<()> {
    let py = module.py();
    set_pyobject_hooks(PyObjectHooks {
        // SAFETY: called under the GIL with a live object.
        incref: |p| unsafe { ffi::Py_INCREF(p.cast()) },
        decref: |p| unsafe { ffi::Py_DECREF(p.cast()) },
    });
    let meta = metaclass(py)?;
    module.add("_TensorMeta", &meta)?;

    let methods = Box::leak(methods.into_boxed_slice());
    let getset = Box::leak(getset.into_boxed_slice());
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let slots: &'static mut [ffi::PyType_Slot] = Box::leak(Box::new([
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, getset.as_mut_ptr().cast()),
        slot(ffi::Py_mp_length, super::subscript::length as *mut c_void),
        slot(ffi::Py_mp_subscript, super::subscript::get_item as *mut c_void),
        slot(ffi::Py_mp_ass_subscript, super::subscript::set_item as *mut c_void),
        slot(0, ptr::null_mut()),
    ]));
    let spec = Box::leak(Box::new(ffi::PyType_Spec {
        name: c"torch._C.TensorBase".as_ptr(),
        basicsize: size_of::<PyTensor>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC) as _,
        slots: slots.as_mut_ptr(),
    }));
    // SAFETY: spec and slots live for ever; the metaclass derives from type.
    let class = unsafe {
        let ty = ffi::PyType_FromMetaclass(meta.as_ptr().cast(), module.as_ptr(), spec, ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, ty)?.cast_into::<PyType>()?
    };
    let _ = BASE.set(py, class.clone().unbind());
    module.add("_TensorBase", &class)?;
    module.add("TensorBase", class)
}
