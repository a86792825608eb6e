//! `torch.Size`: a tuple of integers that stays a `Size` when sliced, added and repeated.
//!
//! Made with the C interface: a class that derives from `tuple` keeps its items inline, which PyO3's classes cannot.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyTuple, PyType};
use std::ffi::c_void;
use std::ptr::null_mut;

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The class `torch.Size`.
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    CLASS.get_or_try_init(py, || make_class(py)).map(|class| class.bind(py))
}

/// A `torch.Size` of these numbers.
pub fn new<'py>(py: Python<'py>, sizes: &[i64]) -> PyResult<Bound<'py, PyTuple>> {
    let made = allocate(py, class(py)?, sizes.len())?;
    for (i, size) in sizes.iter().enumerate() {
        // SAFETY: `made` is a fresh tuple of that length; `PyTuple_SetItem` takes over the new integer.
        unsafe {
            let item = ffi::PyLong_FromLongLong(*size);
            if item.is_null() || ffi::PyTuple_SetItem(made.as_ptr(), i as ffi::Py_ssize_t, item) < 0 {
                return Err(PyErr::fetch(py));
            }
        }
    }
    Ok(made)
}

/// A `torch.Size` of the items of an iterable, which must be integers.
pub fn from_iterable<'py>(items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    wrap(items.py(), &items.try_iter()?.collect::<PyResult<Vec<_>>>()?)
}

/// An uninitialised tuple of the class.
fn allocate<'py>(
    py: Python<'py>,
    class: &Bound<'py, PyType>,
    length: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    // SAFETY: every class has an allocator, which returns a new object of the class or sets an error.
    unsafe {
        let allocator = ffi::PyType_GetSlot(class.as_type_ptr(), ffi::Py_tp_alloc);
        let allocator = std::mem::transmute::<*mut c_void, ffi::allocfunc>(allocator);
        let made = allocator(class.as_type_ptr(), length as ffi::Py_ssize_t);
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
    }
}

fn wrap<'py>(py: Python<'py>, items: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyTuple>> {
    fill(py, class(py)?, items)
}

fn fill<'py>(
    py: Python<'py>,
    class: &Bound<'py, PyType>,
    items: &[Bound<'py, PyAny>],
) -> PyResult<Bound<'py, PyTuple>> {
    let made = allocate(py, class, items.len())?;
    for (i, item) in items.iter().enumerate() {
        let item = integer(i, item)?;
        // SAFETY: as in `new`.
        if unsafe { ffi::PyTuple_SetItem(made.as_ptr(), i as ffi::Py_ssize_t, item.into_ptr()) } < 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(made)
}

/// An item as it is stored: integers and symbolic integers as they are, whatever else has `__index__` by its number.
fn integer<'py>(position: usize, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if item.is_instance_of::<PyInt>() && !item.is_instance_of::<PyBool>() {
        return Ok(item.clone());
    }
    let kind = item.get_type();
    if kind.name()? == "SymInt" && kind.module()? == "torch" {
        return Ok(item.clone());
    }
    // SAFETY: `PyNumber_Index` returns a new reference or sets an error.
    match unsafe { Bound::from_owned_ptr_or_err(item.py(), ffi::PyNumber_Index(item.as_ptr())) } {
        Ok(number) => Ok(number),
        Err(_) => {
            let name = match kind.module()? {
                module if module == "builtins" => kind.name()?.to_string(),
                _ => kind.fully_qualified_name()?.to_string(),
            };
            Err(PyTypeError::new_err(format!(
                "torch.Size() takes an iterable of 'int' (item {position} is '{name}')"
            )))
        }
    }
}

fn number(item: &Bound<'_, PyAny>) -> PyResult<i64> {
    item.extract::<i64>().map_err(|_| PyValueError::new_err("Overflow when unpacking long long"))
}

fn repr(this: &Bound<'_, PyTuple>) -> PyResult<String> {
    let mut text = String::from("torch.Size([");
    for (i, item) in this.iter().enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        if item.is_instance_of::<PyInt>() {
            text.push_str(&number(&item)?.to_string());
        } else {
            text.push_str(item.repr()?.to_str()?);
        }
    }
    text.push_str("])");
    Ok(text)
}

fn numel(this: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
    let py = this.py();
    let mut product = 1i64.into_pyobject(py)?.into_any();
    for item in this.iter() {
        product = product.mul(item)?;
    }
    Ok(product.unbind())
}

fn add<'py>(left: &Bound<'py, PyAny>, right: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = left.py();
    let (Ok(first), Ok(second)) = (left.cast::<PyTuple>(), right.cast::<PyTuple>()) else {
        if left.is_instance_of::<PyTuple>() {
            return Err(PyTypeError::new_err(format!(
                "can only concatenate tuple (not {}) to torch.Size",
                right.get_type().name()?
            )));
        }
        return Ok(py.NotImplemented().into_bound(py));
    };
    let items: Vec<_> = first.iter().chain(second.iter()).collect();
    Ok(wrap(py, &items)?.into_any())
}

/// Turns a result into what CPython expects of a slot.
fn give(result: PyResult<*mut ffi::PyObject>, py: Python<'_>) -> *mut ffi::PyObject {
    result.unwrap_or_else(|error| {
        error.restore(py);
        null_mut()
    })
}

/// A tuple from the pointer of a slot.
///
/// # Safety
/// The pointer must be to a live `Size`.
unsafe fn borrowed<'py>(py: Python<'py>, this: *mut ffi::PyObject) -> Bound<'py, PyTuple> {
    // SAFETY: forwarded to the caller.
    unsafe { Bound::from_borrowed_ptr(py, this).cast_into_unchecked() }
}

// SAFETY of all slots below: CPython calls them attached, with live objects of the types the slots are for.

unsafe extern "C" fn slot_new(
    class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let py = unsafe { Python::assume_attached() };
    let make = || {
        let args = unsafe { borrowed(py, args) };
        let class = unsafe { Bound::from_borrowed_ptr(py, class.cast()).cast_into_unchecked::<PyType>() };
        if !kwargs.is_null() || args.len() > 1 {
            return Err(PyTypeError::new_err(format!(
                "Size expected at most 1 argument, got {}",
                args.len()
            )));
        }
        let items = match args.get_item(0) {
            Ok(iterable) => iterable.try_iter()?.collect::<PyResult<Vec<_>>>()?,
            Err(_) => Vec::new(),
        };
        Ok(fill(py, &class, &items)?.into_ptr())
    };
    give(make(), py)
}

unsafe extern "C" fn slot_repr(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let py = unsafe { Python::assume_attached() };
    let make = || Ok(repr(&unsafe { borrowed(py, this) })?.into_pyobject(py)?.into_ptr());
    give(make(), py)
}

unsafe extern "C" fn slot_add(left: *mut ffi::PyObject, right: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let py = unsafe { Python::assume_attached() };
    let (left, right) = unsafe { (Bound::from_borrowed_ptr(py, left), Bound::from_borrowed_ptr(py, right)) };
    give(add(&left, &right).map(Bound::into_ptr), py)
}

unsafe extern "C" fn slot_repeat(this: *mut ffi::PyObject, count: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    let py = unsafe { Python::assume_attached() };
    let make = || {
        let items: Vec<_> = unsafe { borrowed(py, this) }.iter().collect();
        let times = usize::try_from(count).unwrap_or(0);
        let repeated: Vec<_> = std::iter::repeat_n(&items, times).flatten().cloned().collect();
        Ok(wrap(py, &repeated)?.into_ptr())
    };
    give(make(), py)
}

unsafe extern "C" fn slot_subscript(
    this: *mut ffi::PyObject,
    index: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let py = unsafe { Python::assume_attached() };
    let make = || unsafe {
        let inherited = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_mp_subscript);
        let inherited = std::mem::transmute::<*mut c_void, ffi::binaryfunc>(inherited);
        let item = Bound::from_owned_ptr_or_err(py, inherited(this, index))?;
        if ffi::PySlice_Check(index) == 0 {
            return Ok(item.into_ptr());
        }
        let items: Vec<_> = item.cast::<PyTuple>()?.iter().collect();
        Ok(wrap(py, &items)?.into_ptr())
    };
    give(make(), py)
}

unsafe extern "C" fn method_numel(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let py = unsafe { Python::assume_attached() };
    give(numel(&unsafe { borrowed(py, this) }).map(Py::into_ptr), py)
}

unsafe extern "C" fn method_reduce(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let py = unsafe { Python::assume_attached() };
    let make = || {
        let this = unsafe { borrowed(py, this) };
        let items = PyTuple::new(py, this.iter())?;
        Ok((this.get_type(), (items,)).into_pyobject(py)?.into_ptr())
    };
    give(make(), py)
}

fn make_class(py: Python<'_>) -> PyResult<Py<PyType>> {
    let method = |name: &'static std::ffi::CStr, entry: ffi::PyCFunction| ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: entry },
        ml_flags: ffi::METH_NOARGS,
        ml_doc: std::ptr::null(),
    };
    let methods = Box::leak(Box::new([
        method(c"numel", method_numel),
        method(c"__reduce__", method_reduce),
        ffi::PyMethodDef::zeroed(),
    ]));
    let slot = |slot, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_new, slot_new as *mut c_void),
        slot(ffi::Py_tp_repr, slot_repr as *mut c_void),
        slot(ffi::Py_nb_add, slot_add as *mut c_void),
        slot(ffi::Py_sq_repeat, slot_repeat as *mut c_void),
        slot(ffi::Py_mp_subscript, slot_subscript as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(0, null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"torch.Size".as_ptr(),
        // Zero inherits the layout of `tuple`.
        basicsize: 0,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification is complete, and CPython copies all of it but the methods, which are leaked.
    unsafe {
        let base = (&raw mut ffi::PyTuple_Type).cast();
        let made = ffi::PyType_FromSpecWithBases(&raw mut spec, base);
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked::<PyType>().unbind())
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Size", class(module.py())?)
}
