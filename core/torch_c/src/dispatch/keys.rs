//! `DispatchKey` and `DispatchKeySet`.

use crate::enums;
use crate::tensor::object;
use crate::types::device;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBool, PyString};
use torchnative_engine::DeviceType;
use torchnative_engine::dispatch::{DispatchKey, DispatchKeySet, key, tls};

/// The enum member of a key.
pub fn key_to_py(py: Python<'_>, key: DispatchKey) -> PyResult<Bound<'_, PyAny>> {
    enums::member(py, "DispatchKey", i64::from(key.0))
}

/// A key given as an enum member or by name.
pub fn key_from_py(object: &Bound<'_, PyAny>) -> PyResult<DispatchKey> {
    if let Ok(name) = object.cast::<PyString>() {
        return parse(name.to_str()?);
    }
    match enums::number(object).map(u16::try_from) {
        Ok(Ok(number)) => Ok(DispatchKey(number)),
        _ => Err(PyTypeError::new_err(format!("expected a DispatchKey, not {}", object.get_type().name()?))),
    }
}

fn parse(name: &str) -> PyResult<DispatchKey> {
    DispatchKey::parse(name)
        .ok_or_else(|| PyRuntimeError::new_err(format!("could not parse dispatch key: {name}")))
}

/// A set of dispatch keys.
#[pyclass(name = "DispatchKeySet", module = "torch._C", frozen)]
pub struct PyDispatchKeySet {
    /// The engine's model of the set.
    pub set: DispatchKeySet,
}

/// The Python object of a key set.
pub fn set_to_py(py: Python<'_>, set: DispatchKeySet) -> PyResult<Bound<'_, PyDispatchKeySet>> {
    Bound::new(py, PyDispatchKeySet { set })
}

#[pymethods]
impl PyDispatchKeySet {
    #[new]
    fn new(key: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(PyDispatchKeySet { set: DispatchKeySet::of(key_from_py(key)?) })
    }

    fn __or__(&self, other: &Bound<'_, PyDispatchKeySet>) -> Self {
        PyDispatchKeySet { set: self.set | other.get().set }
    }
    fn __and__(&self, other: &Bound<'_, PyDispatchKeySet>) -> Self {
        PyDispatchKeySet { set: self.set & other.get().set }
    }
    fn __sub__(&self, other: &Bound<'_, PyDispatchKeySet>) -> Self {
        PyDispatchKeySet { set: self.set.minus(other.get().set) }
    }
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(PyDispatchKeySet { set: self.set.add(key_from_py(key)?) })
    }
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(PyDispatchKeySet { set: self.set.remove(key_from_py(key)?) })
    }
    fn has(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.set.has(key_from_py(key)?))
    }
    #[pyo3(name = "highestPriorityTypeId")]
    fn highest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        key_to_py(py, self.set.highest())
    }
    fn raw_repr(&self) -> u64 {
        self.set.0
    }
    #[staticmethod]
    fn from_raw_repr(bits: u64) -> Self {
        PyDispatchKeySet { set: DispatchKeySet(bits) }
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.set)
    }
    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let py = other.py();
        let same = other.cast::<PyDispatchKeySet>().is_ok_and(|other| other.get().set == self.set);
        match op {
            CompareOp::Eq => PyBool::new(py, same).to_owned().into_any().unbind(),
            CompareOp::Ne => PyBool::new(py, !same).to_owned().into_any().unbind(),
            _ => py.NotImplemented(),
        }
    }
    fn __hash__(&self) -> PyResult<isize> {
        Err(PyTypeError::new_err("unhashable type: 'torch._C.DispatchKeySet'"))
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (u64,))> {
        Ok((slf.get_type().getattr("from_raw_repr")?, (slf.get().set.0,)))
    }
}

#[pyfunction]
fn _dispatch_key_name(key: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(key_from_py(key)?.name())
}

#[pyfunction]
fn _dispatch_key_parse<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    key_to_py(py, parse(name)?)
}

#[pyfunction]
fn _parse_dispatch_key<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    DispatchKey::parse(name).map(|key| key_to_py(py, key)).transpose()
}

#[pyfunction]
fn _dispatch_key_for_device(device_type: &str) -> PyResult<String> {
    let device = device::parse(device_type)?;
    let name = match device.ty {
        DeviceType::Cpu | DeviceType::Meta | DeviceType::PrivateUse1 => {
            DispatchKey::for_device(device.ty).name()
        }
        other => other.name().to_uppercase(),
    };
    Ok(name)
}

#[pyfunction]
fn _dispatch_keys<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDispatchKeySet>> {
    set_to_py(tensor.py(), keys_of(tensor)?)
}

fn keys_of(object: &Bound<'_, PyAny>) -> PyResult<DispatchKeySet> {
    match object::get(object) {
        Some(tensor) => Ok(tensor.key_set()),
        None => Err(PyTypeError::new_err(format!("expected a Tensor, not {}", object.get_type().name()?))),
    }
}

#[pyfunction]
fn _dispatch_key_set(tensor: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(format!("{:?}", keys_of(tensor)?))
}

#[pyfunction]
fn _dispatch_keyset_full(py: Python<'_>) -> PyResult<Bound<'_, PyDispatchKeySet>> {
    set_to_py(py, DispatchKeySet::FULL)
}

#[pyfunction]
fn _dispatch_keyset_full_after<'py>(key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDispatchKeySet>> {
    set_to_py(key.py(), DispatchKeySet::full_after(key_from_py(key)?.parts().0))
}

#[pyfunction]
fn _dispatch_keyset_to_string(set: &Bound<'_, PyDispatchKeySet>) -> String {
    set.get().__repr__()
}

#[pyfunction]
fn _dispatch_is_alias_key(key: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(key_from_py(key)?.is_alias())
}

/// Whether a runtime key is among those an alias key stands for.
#[pyfunction]
fn _dispatch_is_included_in_alias(key: &Bound<'_, PyAny>, alias: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(included_in_alias(key_from_py(key)?, key_from_py(alias)?))
}

/// See [`_dispatch_is_included_in_alias`].
pub fn included_in_alias(key: DispatchKey, alias: DispatchKey) -> bool {
    if !alias.is_alias() {
        return key == alias;
    }
    let functionality = key.parts().0;
    let is_autograd = matches!(
        functionality,
        DispatchKey::AutogradFunctionality | DispatchKey::AutogradOther | DispatchKey::AutogradNestedTensor
    );
    let is_nested =
        functionality == DispatchKey::NestedTensor || functionality == DispatchKey::AutogradNestedTensor;
    let is_backend = key == DispatchKey::Undefined
        || matches!(
            functionality,
            DispatchKey::Dense | DispatchKey::Quantized | DispatchKey::Sparse | DispatchKey::SparseCsr
        )
        || functionality == DispatchKey::NestedTensor
        || [
            DispatchKey::FPGA,
            DispatchKey::Vulkan,
            DispatchKey::Metal,
            DispatchKey::CustomRNGKeyId,
            DispatchKey::MkldnnCPU,
        ]
        .contains(&key);
    match alias {
        DispatchKey::Autograd => is_autograd,
        DispatchKey::CompositeImplicitAutograd => (is_backend || is_autograd) && !is_nested,
        DispatchKey::CompositeImplicitAutogradNestedTensor => is_nested,
        DispatchKey::CompositeExplicitAutograd => is_backend,
        DispatchKey::CompositeExplicitAutogradNonFunctional => {
            is_backend && !matches!(functionality, DispatchKey::Sparse | DispatchKey::SparseCsr)
        }
        DispatchKey::FuncTorchBatchedDecomposition => key == DispatchKey::FuncTorchBatched,
        _ => false,
    }
}

#[pyfunction]
fn _dispatch_num_backends() -> u16 {
    key::NUM_BACKENDS
}

#[pyfunction]
fn _to_functionality_key<'py>(key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    key_to_py(key.py(), key_from_py(key)?.parts().0)
}

#[pyfunction]
fn _functionality_to_backend_keys<'py>(key: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let (py, key) = (key.py(), key_from_py(key)?);
    match key::PER_BACKEND.iter().position(|(functionality, _)| *functionality == key) {
        Some(block) => {
            (0..key::NUM_BACKENDS).map(|b| key_to_py(py, DispatchKey::runtime(block as u16, b))).collect()
        }
        None => Ok(vec![key_to_py(py, key)?]),
    }
}

#[pyfunction]
fn _dispatch_get_backend_keyset_from_autograd<'py>(
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDispatchKeySet>> {
    let py = key.py();
    let set = match key_from_py(key)?.parts() {
        (DispatchKey::AutogradFunctionality, Some(backend)) => {
            DispatchKeySet::of(DispatchKey::runtime(0, backend))
        }
        (DispatchKey::AutogradNestedTensor, _) => per_backend(DispatchKey::NestedTensor),
        (DispatchKey::AutogradOther, _) => autograd_other_backends(),
        _ => DispatchKeySet::EMPTY,
    };
    set_to_py(py, set)
}

/// A functionality on every backend.
fn per_backend(functionality: DispatchKey) -> DispatchKeySet {
    DispatchKeySet(DispatchKeySet::bits(&[functionality]).0 | key::BACKEND_MASK)
}

fn autograd_other_backends() -> DispatchKeySet {
    DispatchKeySet::bits(&[
        DispatchKey::FPGA,
        DispatchKey::Vulkan,
        DispatchKey::Metal,
        DispatchKey::CustomRNGKeyId,
        DispatchKey::MkldnnCPU,
    ]) | per_backend(DispatchKey::Quantized)
        | per_backend(DispatchKey::Sparse)
        | per_backend(DispatchKey::SparseCsr)
}

/// The sets that are attributes of the module.
fn constants() -> [(&'static str, DispatchKeySet); 4] {
    let below = |key: DispatchKey| DispatchKeySet::full_after(key);
    let backends = ["CPU", "CUDA", "XLA", "MPS", "XPU", "HPU", "PrivateUse1"];
    let mut wrapped = DispatchKeySet::bits(&[DispatchKey::Negative, DispatchKey::Conjugate]);
    for block in [DispatchKey::Dense, DispatchKey::Sparse, DispatchKey::SparseCsr] {
        wrapped = wrapped | DispatchKeySet::bits(&[block]);
    }
    for (number, name) in key::BACKENDS.iter().enumerate() {
        if backends.contains(name) {
            wrapped.0 |= 1 << number;
        }
    }
    let dispatcher = DispatchKeySet::bits(&[DispatchKey::PythonDispatcher]);
    [
        ("_after_autograd_keyset", below(DispatchKey::AutogradOther) | dispatcher),
        ("_after_ADInplaceOrView_keyset", below(DispatchKey::ADInplaceOrView) | dispatcher),
        ("_dispatch_autogradother_backends", autograd_other_backends()),
        ("_additional_keys_to_prop_for_wrapper_tensors", wrapped),
    ]
}

// --- This thread's keys.

#[pyfunction]
fn _dispatch_tls_local_include_set(py: Python<'_>) -> PyResult<Bound<'_, PyDispatchKeySet>> {
    set_to_py(py, tls::included())
}

#[pyfunction]
fn _dispatch_tls_local_exclude_set(py: Python<'_>) -> PyResult<Bound<'_, PyDispatchKeySet>> {
    set_to_py(py, tls::excluded())
}

#[pyfunction]
fn _dispatch_tls_is_dispatch_key_included(key: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(tls::is_included(key_from_py(key)?))
}

#[pyfunction]
fn _dispatch_tls_is_dispatch_key_excluded(key: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(tls::is_excluded(key_from_py(key)?))
}

#[pyfunction]
fn _dispatch_tls_set_dispatch_key_included(key: &Bound<'_, PyAny>, on: bool) -> PyResult<()> {
    tls::set_key_included(key_from_py(key)?, on);
    Ok(())
}

#[pyfunction]
fn _dispatch_tls_set_dispatch_key_excluded(key: &Bound<'_, PyAny>, on: bool) -> PyResult<()> {
    tls::set_key_excluded(key_from_py(key)?, on);
    Ok(())
}

#[pyfunction]
fn _meta_in_tls_dispatch_include() -> bool {
    tls::included().has(DispatchKey::Meta)
}

#[pyfunction]
fn _set_meta_in_tls_dispatch_include(on: bool) {
    let meta = DispatchKeySet::of(DispatchKey::Meta);
    tls::set_included(if on { tls::included() | meta } else { DispatchKeySet(tls::included().0 & !meta.0) });
}

/// Whether a tensor's keys say that Python handles its operators.
#[pyfunction]
fn _dispatch_isTensorSubclassLike(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let like = DispatchKeySet::bits(&[
        DispatchKey::Batched,
        DispatchKey::FuncTorchBatched,
        DispatchKey::FuncTorchGradWrapper,
        DispatchKey::Functionalize,
        DispatchKey::Python,
        DispatchKey::Sparse,
        DispatchKey::SparseCsr,
    ]);
    let set = keys_of(tensor)?;
    Ok(set.intersects(like) || set.has(DispatchKey::Meta))
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<PyDispatchKeySet>()?;
    for (name, set) in constants() {
        module.add(name, set_to_py(py, set)?)?;
    }
    for function in [
        wrap_pyfunction!(_dispatch_key_name, module)?,
        wrap_pyfunction!(_dispatch_key_parse, module)?,
        wrap_pyfunction!(_parse_dispatch_key, module)?,
        wrap_pyfunction!(_dispatch_key_for_device, module)?,
        wrap_pyfunction!(_dispatch_keys, module)?,
        wrap_pyfunction!(_dispatch_key_set, module)?,
        wrap_pyfunction!(_dispatch_keyset_full, module)?,
        wrap_pyfunction!(_dispatch_keyset_full_after, module)?,
        wrap_pyfunction!(_dispatch_keyset_to_string, module)?,
        wrap_pyfunction!(_dispatch_is_alias_key, module)?,
        wrap_pyfunction!(_dispatch_is_included_in_alias, module)?,
        wrap_pyfunction!(_dispatch_num_backends, module)?,
        wrap_pyfunction!(_to_functionality_key, module)?,
        wrap_pyfunction!(_functionality_to_backend_keys, module)?,
        wrap_pyfunction!(_dispatch_get_backend_keyset_from_autograd, module)?,
        wrap_pyfunction!(_dispatch_tls_local_include_set, module)?,
        wrap_pyfunction!(_dispatch_tls_local_exclude_set, module)?,
        wrap_pyfunction!(_dispatch_tls_is_dispatch_key_included, module)?,
        wrap_pyfunction!(_dispatch_tls_is_dispatch_key_excluded, module)?,
        wrap_pyfunction!(_dispatch_tls_set_dispatch_key_included, module)?,
        wrap_pyfunction!(_dispatch_tls_set_dispatch_key_excluded, module)?,
        wrap_pyfunction!(_meta_in_tls_dispatch_include, module)?,
        wrap_pyfunction!(_set_meta_in_tls_dispatch_include, module)?,
        wrap_pyfunction!(_dispatch_isTensorSubclassLike, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
