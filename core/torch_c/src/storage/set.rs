//! Tensors and their storages: `untyped_storage()`, `set_(…)`, copies between storages.

use super::from_py;
use crate::error::{self, IntoPy};
use crate::parser::is_int;
use crate::tensor::object;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use torchnative_engine::{DType, IValue, IntList, Layout, Storage, Tensor, op};

/// The tensor of an argument.
pub fn tensor_of<'a>(o: &'a Bound<'_, PyAny>) -> PyResult<&'a Tensor> {
    object::get(o).ok_or_else(|| PyTypeError::new_err(format!("expected Tensor, not {}", super::kind(o))))
}

/// `Tensor.untyped_storage()`
pub fn untyped_storage<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    if t.layout() != Layout::Strided {
        let kind = match t.layout() {
            Layout::Sparse => "SparseTensorImpl",
            Layout::Mkldnn => "OpaqueTensorImpl",
            _ => "SparseCsrTensorImpl",
        };
        return Err(PyNotImplementedError::new_err(format!("Cannot access storage of {kind}")));
    }
    super::wrap(py, t.storage().clone())
}

/// Copies the bytes of a storage into another of the same size, across devices when need be.
pub fn copy(to: &Storage, from: &Storage) -> PyResult<()> {
    let n = to.nbytes();
    if n != from.nbytes() {
        return Err(error::runtime(format!(
            "size does not match, self was {n} bytes but src was {} bytes",
            from.nbytes()
        )));
    }
    if n == 0 {
        return Ok(());
    }
    let bytes = |s: &Storage| {
        let sizes = IntList::from_slice(&[n as i64]);
        Tensor::from_storage(s.clone(), DType::Byte, sizes, IntList::from_slice(&[1]), 0)
    };
    op::copy_.call((&bytes(to), &bytes(from))).into_py()?;
    Ok(())
}

fn list(o: &Bound<'_, PyAny>) -> Option<IntList> {
    if !(o.is_instance_of::<PyTuple>() || o.is_instance_of::<PyList>()) {
        return None;
    }
    let mut v = IntList::new();
    for x in o.try_iter().ok()? {
        let x = x.ok()?;
        if !is_int(&x) {
            return None;
        }
        v.push(x.call_method0("__index__").ok()?.extract().ok()?);
    }
    Some(v)
}

/// `Tensor.set_()`, `set_(source)`, `set_(source, storage_offset, size, stride=None)` with a storage or a tensor.
pub fn set_method<'py>(
    slf: &Bound<'py, PyAny>,
    t: &Tensor,
    args: &[Bound<'py, PyAny>],
    keywords: &[(String, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyAny>> {
    const NAMES: [&str; 4] = ["source", "storage_offset", "size", "stride"];
    let mut given: [Option<&Bound<'py, PyAny>>; 4] = [None; 4];
    let mismatch = || {
        let mut got: Vec<String> = args.iter().map(shown).collect();
        got.extend(keywords.iter().map(|(k, o)| format!("{k}={}", shown(o))));
        PyTypeError::new_err(format!(
            "set_() received an invalid combination of arguments - got ({}), but expected one of:\n * ()\n * (torch.Storage source)\n \
             * (torch.Storage source, int storage_offset, tuple of ints size, tuple of ints stride = None)\n * (Tensor source)\n * \
             (Tensor source, int storage_offset, tuple of ints size, tuple of ints stride = None)\n",
            got.join(", ")
        ))
    };
    if args.len() > NAMES.len() {
        return Err(mismatch());
    }
    for (slot, o) in given.iter_mut().zip(args) {
        *slot = Some(o);
    }
    for (k, v) in keywords {
        match NAMES.iter().position(|n| n == k) {
            Some(i) if given[i].is_none() => given[i] = Some(v),
            _ => return Err(mismatch()),
        }
    }
    let place = match given {
        [_, None, None, None] => None,
        [Some(_), Some(offset), Some(size), stride] => {
            let strides = match stride.filter(|o| !o.is_none()) {
                None => IntList::new(),
                Some(o) => list(o).ok_or_else(mismatch)?,
            };
            let offset = is_int(offset).then(|| offset.extract::<i64>()).ok_or_else(mismatch)??;
            Some((offset, list(size).ok_or_else(mismatch)?, strides))
        }
        _ => return Err(mismatch()),
    };
    match (given[0], place) {
        (None, _) => op::set_.call((t,)).into_py()?,
        (Some(source), place) => {
            if let Some(other) = object::get(source) {
                match place {
                    None => op::set__source_Tensor.call((t, other)).into_py()?,
                    Some((offset, sizes, strides)) => op::set__source_Tensor_storage_offset
                        .call((t, other, offset, IValue::IntList(sizes), IValue::IntList(strides)))
                        .into_py()?,
                }
            } else {
                let Some((storage, dtype)) = from_py(source)? else { return Err(mismatch()) };
                check_type(t, dtype)?;
                match place {
                    None => op::set__source_Storage.call((t, IValue::Storage(storage))).into_py()?,
                    Some((offset, sizes, strides)) => op::set__source_Storage_storage_offset
                        .call((
                            t,
                            IValue::Storage(storage),
                            offset,
                            IValue::IntList(sizes),
                            IValue::IntList(strides),
                        ))
                        .into_py()?,
                }
            }
        }
    };
    Ok(slf.clone())
}

fn shown(o: &Bound<'_, PyAny>) -> String {
    let name = super::kind(o);
    match o.get_type().module() {
        Ok(m) if m != "builtins" && object::get(o).is_none() => format!("{m}.{name}"),
        _ => name,
    }
}

fn check_type(t: &Tensor, dtype: Option<DType>) -> PyResult<()> {
    match dtype {
        Some(d) if d != t.dtype() => Err(error::runtime(format!(
            "Expected a Storage of type {} or an UntypedStorage, but got type {} for argument 1 'storage'",
            t.dtype().torch_name_cpp(),
            d.scalar_type_name()
        ))),
        _ => Ok(()),
    }
}
