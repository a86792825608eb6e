//! The constructors of old: `torch.Tensor(…)`, `torch.FloatTensor(…)` and `Tensor.new(…)`.

use super::{data, object};
use crate::error::{self, IntoPy};
use crate::legacy_types::LegacyType;
use crate::parser::is_int;
use crate::types::{device, size};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};
use torchnative_engine::iter::default_dtype;
use torchnative_engine::tensor::factory;
use torchnative_engine::{DType, Device, DeviceType, Layout, Tensor, op};

/// Which constructor is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `torch.Tensor(…)`: the default dtype, but any tensor is taken as it is.
    Base,
    /// `torch.FloatTensor(…)`
    Typed,
    /// `Tensor.new(…)`
    New,
}

/// `torch.Tensor(…)` and its subclasses.
pub fn construct<'py>(
    class: &Bound<'py, PyType>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if class.is(object::base_class(class.py())?) {
        return Err(PyTypeError::new_err("Cannot create a direct instance of torch._C.TensorBase"));
    }
    let what = LegacyType { device: DeviceType::Cpu, layout: Layout::Strided, dtype: default_dtype() };
    object::wrap_as(class, make(args, kwargs, what, Form::Base)?)
}

/// `Tensor.new(…)`: a tensor of the same dtype, device and layout.
pub fn new_method<'py>(
    slf: &Bound<'py, PyAny>,
    t: &Tensor,
    args: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let kwargs = PyDict::new(py);
    for (k, v) in keywords {
        kwargs.set_item(k, v)?;
    }
    let what = LegacyType { device: t.device().ty, layout: t.layout(), dtype: t.dtype() };
    object::wrap(py, make(&PyTuple::new(py, args)?, Some(&kwargs), what, Form::New)?)
}

fn options_text(dtype: DType, device: Device, layout: Layout) -> String {
    let dtype = dtype.torch_name_cpp();
    format!(
        "TensorOptions(dtype={dtype}, device={}, layout={layout:?}, requires_grad=false (default), pinned_memory=false \
         (default), memory_format=(nullopt))",
        device::type_name(device.ty)
    )
}

fn same_type(t: &Tensor, what: LegacyType) -> PyResult<()> {
    let own = LegacyType { device: t.device().ty, layout: t.layout(), dtype: t.dtype() };
    if own == what {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "expected {} (got {})",
        options_text(what.dtype, Device { ty: what.device, index: -1 }, what.layout),
        options_text(t.dtype(), t.device(), t.layout())
    )))
}

fn shown(o: &Bound<'_, PyAny>) -> String {
    let class = o.get_type();
    let name = class.name().map_or_else(|_| "object".into(), |n| n.to_string());
    match class.module() {
        Ok(m) if m == "torch" && object::get(o).is_none() => format!("torch.{name}"),
        _ => name,
    }
}

fn mismatch(args: &Bound<'_, PyTuple>, named: &[(String, Bound<'_, PyAny>)]) -> PyErr {
    let mut got: Vec<String> = args.iter().map(|o| shown(&o)).collect();
    got.extend(named.iter().map(|(k, o)| format!("{k}={}", shown(o))));
    // A lone keyword leaves upstream's tuple comma behind.
    let comma = if args.is_empty() && got.len() == 1 { ", " } else { "" };
    PyTypeError::new_err(format!(
        "new() received an invalid combination of arguments - got ({}{comma}), but expected one of:\n * (*, torch.device device = \
         None)\n * (torch.Storage storage)\n * (Tensor other)\n * (tuple of ints size, *, torch.device device = None)\n * (object \
         data, *, torch.device device = None)\n",
        got.join(", ")
    ))
}

fn sizes(items: impl Iterator<Item = PyResult<i64>>) -> PyResult<Vec<i64>> {
    items.collect()
}

fn size_at(o: &Bound<'_, PyAny>, position: usize) -> PyResult<i64> {
    // Only the first item decides that these are sizes; later ones may be bools.
    match o.call_method0("__index__") {
        Ok(n) => n.extract(),
        Err(_) => Err(PyTypeError::new_err(format!(
            "new(): argument 'size' failed to unpack the object at pos {position} with error \"type must be tuple of ints,but got \
             {}\"",
            shown(o)
        ))),
    }
}

fn empty(what: LegacyType, sizes: &[i64]) -> PyResult<Tensor> {
    let device = Device { ty: what.device, index: -1 };
    if what.layout == Layout::Strided {
        return factory::empty(sizes, what.dtype, device).into_py();
    }
    op::zeros.call((sizes.to_vec(), what.dtype, what.layout, device)).into_py()
}

fn from_data(o: &Bound<'_, PyAny>, what: LegacyType) -> PyResult<Tensor> {
    if o.is_instance_of::<PyString>() || o.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", shown(o))));
    }
    // SAFETY: a live object, attached.
    if unsafe { pyo3::ffi::PySequence_Check(o.as_ptr()) } == 0 {
        return Err(PyTypeError::new_err(format!("new(): data must be a sequence (got {})", shown(o))));
    }
    let device = Some(Device { ty: what.device, index: -1 });
    data::new_from_data(o, data::Request { dtype: Some(what.dtype), device, copy: false })
}

/// Makes the tensor that a legacy constructor's arguments ask for.
///
/// # Errors
/// TypeError when no form takes the arguments, or a given tensor is of another type; RuntimeError for a device of another
/// type than the constructor's.
pub fn make(
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyAny>>,
    what: LegacyType,
    form: Form,
) -> PyResult<Tensor> {
    let mut named: Vec<(String, Bound<'_, PyAny>)> = Vec::new();
    if let Some(kwargs) = kwargs {
        for (k, v) in kwargs.cast::<PyDict>()?.iter() {
            named.push((k.extract()?, v));
        }
    }
    let take = |name: &str| named.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
    let given_device = take("device").filter(|d| !d.is_none());
    let forms = named.iter().filter(|(k, _)| k != "device").count();
    if forms > 1
        || (forms == 1 && !args.is_empty())
        || named.iter().any(|(k, _)| !["device", "size", "data", "other", "storage"].contains(&k.as_str()))
    {
        return Err(mismatch(args, &named));
    }
    if let Some(d) = &given_device {
        let Some(d) = device::usable_from_py(d)? else { return Err(mismatch(args, &named)) };
        if d.ty != what.device {
            return Err(error::runtime(format!(
                "legacy constructor expects device type: {} but device type: {} was passed",
                device::type_name(what.device),
                device::type_name(d.ty)
            )));
        }
    }
    let other = |t: &Tensor| {
        if given_device.is_some() {
            let (form, better) = match form {
                Form::New => ("new(tensor", ""),
                _ => ("torch.Tensor(tensor", ""),
            };
            return Err(error::runtime(format!(
                "Legacy tensor {} of the form {form}, device=device) is not supported.  Use torch.tensor(...) or \
                 torch.as_tensor(...) instead.{better}",
                if form.starts_with("new") { "new" } else { "constructor" }
            )));
        }
        // The base constructor takes tensors of every type, as `deepcopy` and pickling need.
        if form != Form::Base {
            same_type(t, what)?;
        }
        op::alias.call((t,)).into_py()
    };
    if let Some(o) = take("size") {
        let items = o.try_iter()?.enumerate().map(|(i, x)| size_at(&x?, i + 1));
        return empty(what, &sizes(items)?);
    }
    if let Some(o) = take("other") {
        return other(object::get(&o).ok_or_else(|| mismatch(args, &named))?);
    }
    if let Some(o) = take("data") {
        return from_data(&o, what);
    }
    if args.is_empty() {
        return match take("storage") {
            Some(o) => from_storage(&o, what)?.ok_or_else(|| mismatch(args, &named)),
            None => empty(what, &[0]),
        };
    }
    let first = args.get_item(0)?;
    if is_int(&first) && object::get(&first).is_none() {
        return empty(what, &sizes(args.iter().enumerate().map(|(i, o)| size_at(&o, i + 1)))?);
    }
    if args.len() > 1 {
        return Err(mismatch(args, &named));
    }
    if let Some(t) = object::get(&first) {
        return other(t);
    }
    if let Some(t) = from_storage(&first, what)? {
        return Ok(t);
    }
    if first.is_instance(size::class(first.py())?)? {
        return empty(what, &first.extract::<Vec<i64>>()?);
    }
    from_data(&first, what)
}

/// A 1-d tensor over a storage, when the object is one.
fn from_storage(o: &Bound<'_, PyAny>, what: LegacyType) -> PyResult<Option<Tensor>> {
    let Some((storage, typed)) = crate::storage::from_py(o)? else { return Ok(None) };
    if let Some(d) = typed
        && d != what.dtype
    {
        return Err(error::runtime(format!(
            "Expected a Storage of type {} or an UntypedStorage, but got type {} for argument 1 'storage'",
            what.dtype.scalar_type_name(),
            d.scalar_type_name()
        )));
    }
    let n = (storage.size() / what.dtype.itemsize() as u64) as i64;
    Ok(Some(Tensor::from_storage(storage, what.dtype, [n][..].into(), [1][..].into(), 0)))
}
