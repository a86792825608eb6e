//! Properties of tensors.

use super::object;
use crate::error::{self, IntoPy};
use crate::torch_function;
use crate::types::{device, dtype, layout, size};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use torchnative_engine::{DeviceType, Layout, Tensor, op};

type Getter = for<'py> fn(Python<'py>, &Tensor) -> PyResult<Bound<'py, PyAny>>;
type Setter = fn(&Tensor, Option<&Bound<'_, PyAny>>) -> PyResult<()>;

struct Property {
    name: &'static CStr,
    get: Getter,
    set: Option<Setter>,
}

const fn read(name: &'static CStr, get: Getter) -> Property {
    Property { name, get, set: None }
}

fn flag(py: Python<'_>, on: bool) -> PyResult<Bound<'_, PyAny>> {
    Ok(PyBool::new(py, on).to_owned().into_any())
}
fn number(py: Python<'_>, v: i64) -> PyResult<Bound<'_, PyAny>> {
    Ok(v.into_pyobject(py)?.into_any())
}
fn optional<'py>(py: Python<'py>, t: Option<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    t.map_or_else(|| Ok(py.None().into_bound(py)), |t| object::wrap(py, t))
}

static PROPERTIES: &[Property] = &[
    read(c"dtype", |py, t| Ok(dtype::to_py(py, t.dtype()).into_any())),
    read(c"device", |py, t| Ok(device::to_py(py, t.device())?.into_any())),
    read(c"layout", |py, t| Ok(layout::layout_to_py(py, t.layout()).into_any())),
    read(c"shape", |py, t| Ok(size::new(py, t.sizes())?.into_any())),
    read(c"ndim", |py, t| number(py, t.dim() as i64)),
    read(c"itemsize", |py, t| number(py, t.itemsize() as i64)),
    read(c"nbytes", |py, t| number(py, t.numel() * t.itemsize() as i64)),
    read(c"output_nr", |py, t| number(py, t.autograd_meta().map_or(0, |m| m.output_nr as i64))),
    read(c"_has_symbolic_sizes_strides", |py, _| flag(py, false)),
    Property {
        name: c"grad_dtype",
        get: |py, t| Ok(dtype::to_py(py, t.dtype()).into_any()),
        set: Some(|t, v| match v.and_then(dtype::from_py) {
            Some(d) if d == t.dtype() => Ok(()),
            _ => Err(pyo3::exceptions::PyNotImplementedError::new_err(
                "gradients of another dtype than their tensor's are not implemented in torchnative (grad_dtype)",
            )),
        }),
    },
    read(c"_version", |py, t| number(py, t.version() as i64)),
    read(c"_cdata", |py, t| number(py, t.id() as i64)),
    read(c"is_leaf", |py, t| flag(py, t.is_leaf())),
    read(c"retains_grad", |py, t| flag(py, t.retains_grad())),
    read(c"is_cpu", |py, t| flag(py, t.is_cpu())),
    read(c"is_meta", |py, t| flag(py, t.is_meta())),
    read(c"is_cuda", |py, t| flag(py, t.device().ty == DeviceType::Cuda)),
    read(c"is_mps", |py, t| flag(py, t.device().ty == DeviceType::Mps)),
    read(c"is_xpu", |py, t| flag(py, t.device().ty == DeviceType::Xpu)),
    read(c"is_xla", |py, t| flag(py, t.device().ty == DeviceType::Xla)),
    read(c"is_ipu", |py, t| flag(py, t.device().ty == DeviceType::Ipu)),
    read(c"is_hpu", |py, t| flag(py, t.device().ty == DeviceType::Hpu)),
    read(c"is_maia", |py, t| flag(py, t.device().ty == DeviceType::Maia)),
    read(c"is_mtia", |py, t| flag(py, t.device().ty == DeviceType::Mtia)),
    read(c"is_vulkan", |py, t| flag(py, t.device().ty == DeviceType::Vulkan)),
    read(c"is_mkldnn", |py, t| flag(py, t.layout() == Layout::Mkldnn)),
    read(c"is_sparse", |py, t| flag(py, t.layout() == Layout::Sparse)),
    read(c"is_sparse_csr", |py, t| flag(py, t.layout() == Layout::SparseCsr)),
    read(c"is_nested", |py, t| flag(py, t.layout() == Layout::Jagged)),
    read(c"is_quantized", |py, t| flag(py, t.dtype().is_quantized())),
    read(c"_base", |py, t| optional(py, t.view_base().cloned())),
    read(c"T", |py, t| object::wrap(py, op::numpy_T.call((t,)).into_py()?)),
    read(c"mT", |py, t| object::wrap(py, op::mT.call((t,)).into_py()?)),
    read(c"H", |py, t| object::wrap(py, op::matrix_H.call((t,)).into_py()?)),
    read(c"mH", |py, t| object::wrap(py, op::mH.call((t,)).into_py()?)),
    read(c"real", |py, t| object::wrap(py, op::real.call((t,)).into_py()?)),
    read(c"imag", |py, t| object::wrap(py, op::imag.call((t,)).into_py()?)),
    read(c"grad_fn", |py, t| match t.grad_fn() {
        None => Ok(py.None().into_bound(py)),
        Some(n) => crate::autograd::node::wrap(py, &n),
    }),
    read(c"name", |py, t| match t.autograd_meta().and_then(|m| m.name.clone()) {
        None => Ok(py.None().into_bound(py)),
        Some(n) => Ok(n.into_pyobject(py)?.into_any()),
    }),
    Property {
        name: c"requires_grad",
        get: |py, t| flag(py, t.requires_grad()),
        set: Some(|t, v| match v {
            Some(v) if v.is_instance_of::<PyBool>() => t.set_requires_grad(v.extract()?).into_py(),
            _ => Err(PyTypeError::new_err("requires_grad must be a bool")),
        }),
    },
    Property {
        name: c"grad",
        get: |py, t| optional(py, t.grad()),
        set: Some(|t, v| {
            let new = match v.filter(|v| !v.is_none()) {
                None => None,
                Some(v) => match object::get(v) {
                    None => {
                        return Err(PyTypeError::new_err(
                            "assigned grad expected to be a Tensor or None but got grad of another type",
                        ));
                    }
                    Some(g) if g.is_same(t) => {
                        return Err(error::runtime("can't assign Variable as its own grad"));
                    }
                    Some(g) if g.sizes() != t.sizes() => {
                        return Err(error::runtime("assigned grad has data of a different size"));
                    }
                    Some(g) if g.dtype() != t.dtype() => {
                        return Err(error::runtime("assigned grad has data of a different type"));
                    }
                    Some(g) => Some(g.clone()),
                },
            };
            t.set_grad(new);
            Ok(())
        }),
    },
    Property {
        name: c"data",
        get: |py, t| {
            if crate::torch_dispatch::concerns(t) {
                let _detached = torchnative_engine::dispatch::tls::StateGuard::no_grad();
                return object::wrap(py, op::detach.call((t,)).into_py()?);
            }
            let d = t.alias_with(t.sizes().into(), t.strides().into(), t.storage_offset());
            object::wrap(py, d)
        },
        set: Some(set_data),
    },
    Property {
        name: c"_backward_hooks",
        get: |py, t| Ok(crate::autograd::hooks::backward_hooks(py, t)),
        set: Some(|t, v| {
            crate::autograd::hooks::set_backward_hooks(t, v);
            Ok(())
        }),
    },
    Property {
        name: c"_post_accumulate_grad_hooks",
        get: |py, t| Ok(crate::autograd::hooks::accumulate_hooks(py, t)),
        set: Some(|t, v| {
            crate::autograd::hooks::set_accumulate_hooks(t, v);
            Ok(())
        }),
    },
];

/// `tensor.data = other`: the tensor takes over the other's memory and geometry; its identity and version stay.
fn set_data(t: &Tensor, v: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(v) = v else {
        return Err(error::runtime("Deleting tensor data is not allowed. Delete tensor instead!"));
    };
    let Some(d) = object::get(v) else {
        return Err(PyTypeError::new_err(format!(
            "Variable data has to be a tensor, but got {}",
            v.get_type().name()?
        )));
    };
    // Dense tensors of all devices with memory are of one kind; meta and sparse ones are kinds of their own.
    let kind = |t: &Tensor| (t.layout(), if t.is_meta() { Some(t.device().ty) } else { None });
    if kind(t) != kind(d) {
        return Err(error::runtime(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.",
        ));
    }
    if t.requires_grad() && !(d.dtype().is_floating_point() || d.dtype().is_complex()) {
        return Err(error::runtime(
            "data set to a tensor that requires gradients must be floating point or complex dtype",
        ));
    }
    t.shallow_copy_from(d);
    Ok(())
}

unsafe extern "C" fn getter(object: *mut ffi::PyObject, closure: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: called with the GIL held; the closure is the property's index.
    let py = unsafe { Python::assume_attached() };
    let body = || {
        // SAFETY: a live object.
        let slf = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, object) };
        if torch_function::has(&slf) {
            let name = PROPERTIES[closure as usize].name.to_str().unwrap_or_default();
            return torch_function::property(&slf, name, "__get__", None).map(Bound::unbind);
        }
        let t = unsafe { object::get_raw(py, object) }
            .ok_or_else(|| PyTypeError::new_err("the tensor is not initialised"))?;
        (PROPERTIES[closure as usize].get)(py, t).map(Bound::unbind)
    };
    match error::guard(body) {
        Ok(o) => o.into_ptr(),
        Err(e) => {
            e.restore(py);
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn setter(
    object: *mut ffi::PyObject,
    v: *mut ffi::PyObject,
    closure: *mut c_void,
) -> c_int {
    // SAFETY: called with the GIL held; the value is null for `del`.
    let py = unsafe { Python::assume_attached() };
    let body = || {
        let t = unsafe { object::get_raw(py, object) }
            .ok_or_else(|| PyTypeError::new_err("the tensor is not initialised"))?;
        // SAFETY: live objects; the value may be null.
        let (slf, v) = unsafe {
            (Bound::<PyAny>::from_borrowed_ptr(py, object), Bound::<PyAny>::from_borrowed_ptr_or_opt(py, v))
        };
        if torch_function::has(&slf) {
            let name = PROPERTIES[closure as usize].name.to_str().unwrap_or_default();
            let access = if v.is_some() { "__set__" } else { "__delete__" };
            return torch_function::property(&slf, name, access, v.as_ref()).map(drop);
        }
        match PROPERTIES[closure as usize].set {
            Some(set) => set(t, v.as_ref()),
            None => Err(pyo3::exceptions::PyAttributeError::new_err("can't set attribute")),
        }
    };
    match error::guard(body) {
        Ok(()) => 0,
        Err(e) => {
            e.restore(py);
            -1
        }
    }
}

/// The property definitions of `TensorBase`.
pub fn definitions() -> Vec<ffi::PyGetSetDef> {
    let mut v: Vec<_> = PROPERTIES
        .iter()
        .enumerate()
        .map(|(i, p)| ffi::PyGetSetDef {
            name: p.name.as_ptr(),
            get: Some(getter),
            set: p.set.map(|_| setter as ffi::setter),
            doc: ptr::null(),
            closure: i as *mut c_void,
        })
        .collect();
    // SAFETY: an all-zero definition ends the list.
    v.push(unsafe { std::mem::zeroed() });
    v
}
