//! Questions about operators: overloads, schemas, tags and kernels.

use super::call::{self, Handle};
use super::keys::{PyDispatchKeySet, key_from_py};
use super::library;
use crate::enums;
use crate::jit::schema::{PyFunctionSchema, SchemaRef, find_static, to_py};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use torchnative_engine::dispatch::{DispatchKey, Kernel, Operator};
use torchnative_engine::generated;

/// The overload names of an operator name, in upstream's order; those made at run time come last.
pub fn overload_names(name: &str) -> Vec<String> {
    let mut names: Vec<String> =
        generated::overloads(name).iter().map(|overload| overload.name().to_owned()).collect();
    for overload in library::defined_overloads(name) {
        if !names.contains(&overload) {
            names.push(overload);
        }
    }
    names
}

/// The schema object of an operator.
pub fn schema_of<'py>(
    py: Python<'py>,
    operator: &'static Operator,
) -> PyResult<Bound<'py, PyFunctionSchema>> {
    match operator.id {
        Some(id) => to_py(py, SchemaRef::Static(generated::schema(id))),
        None => to_py(py, SchemaRef::Static(&crate::error::IntoPy::into_py(operator.signature())?.schema)),
    }
}

fn find_schema<'py>(
    py: Python<'py>,
    name: &str,
    overload: &str,
) -> PyResult<Option<Bound<'py, PyFunctionSchema>>> {
    if let Some(schema) = find_static(name, overload) {
        return to_py(py, SchemaRef::Static(schema)).map(Some);
    }
    Operator::find(name, overload).map(|operator| schema_of(py, operator)).transpose()
}

#[pyfunction]
fn _get_schema<'py>(py: Python<'py>, name: &str, overload: &str) -> PyResult<Bound<'py, PyFunctionSchema>> {
    find_schema(py, name, overload)?.ok_or_else(|| PyRuntimeError::new_err("Found no matching schema"))
}

#[pyfunction]
fn _jit_get_schemas_for_operator<'py>(
    py: Python<'py>,
    name: &str,
) -> PyResult<Vec<Bound<'py, PyFunctionSchema>>> {
    let names = overload_names(name);
    names.iter().filter_map(|overload| find_schema(py, name, overload).transpose()).collect()
}

type Functions<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>);

/// The functions that call an overload, and its tags; `None` where there is no such overload.
#[pyfunction]
fn _get_operation_overload<'py>(
    py: Python<'py>,
    name: &str,
    overload: &str,
) -> PyResult<Option<Functions<'py>>> {
    if let Some(operator) = Operator::find(name, overload) {
        let (function, at_key) = call::overload_functions(py, operator)?;
        return Ok(Some((function, at_key, tags(py, operator)?)));
    }
    if find_static(name, overload).is_none() {
        return Ok(None);
    }
    let full_name = if overload.is_empty() { name.to_owned() } else { format!("{name}.{overload}") };
    let (function, at_key) = call::foreign_functions(py, &full_name)?;
    Ok(Some((function, at_key, Vec::new())))
}

fn tags<'py>(py: Python<'py>, operator: &Operator) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match operator.id {
        Some(id) => {
            let class = py.import("torch._C")?.getattr("Tag")?;
            generated::info(id).tags().into_iter().filter_map(|tag| class.getattr(tag).ok()).map(Ok).collect()
        }
        None => library::tags(&operator.qualified_name())
            .into_iter()
            .map(|tag| enums::member(py, "Tag", tag))
            .collect(),
    }
}

/// A function and the names of its overloads.
type Packet<'py> = (Option<Bound<'py, PyAny>>, Option<Vec<String>>);

/// The function that calls an operator by name, and its overloads; two `None`s where there is no such operator.
#[pyfunction]
fn _jit_get_operation<'py>(py: Python<'py>, name: &str) -> PyResult<Packet<'py>> {
    let names = overload_names(name);
    if names.is_empty() {
        return Ok((None, None));
    }
    Ok((Some(call::packet_function(py, name)?), Some(names)))
}

/// Splits `aten::add.Tensor`.
pub fn split(full_name: &str) -> (&str, &str) {
    full_name.split_once('.').unwrap_or((full_name, ""))
}

/// An operator the dispatcher knows.
enum Known {
    Operator(&'static Operator),
    /// Registered upstream outside of the YAML, and not here.
    Foreign,
}

fn find(full_name: &str) -> PyResult<Known> {
    let (name, overload) = split(full_name);
    if let Some(operator) = Operator::find(name, overload) {
        return Ok(Known::Operator(operator));
    }
    match generated::find_extra(full_name) {
        Some(extra) if extra.is_dispatched => Ok(Known::Foreign),
        _ => Err(PyRuntimeError::new_err(format!("operator {full_name} does not exist"))),
    }
}

#[pyfunction]
fn _dispatch_has_kernel(full_name: &str) -> bool {
    match find(full_name) {
        Ok(Known::Operator(operator)) => operator.id.is_some() || operator.has_any_kernel(),
        Ok(Known::Foreign) => true,
        Err(_) => false,
    }
}

/// Whether upstream has a kernel at exactly this key, or Python registered one here.
///
/// Upstream's own operators answer by upstream's registrations: the tree decides by them what to decompose.
fn has_kernel(operator: &Operator, key: DispatchKey) -> bool {
    let registered = operator.registered(key).is_some();
    let Some(id) = operator.id else { return registered };
    let info = generated::info(id);
    if registered && library::is_python(&operator.qualified_name(), key) {
        return true;
    }
    match key {
        DispatchKey::CompositeImplicitAutograd => info.kernel == generated::Kernel::CompositeImplicit,
        DispatchKey::CompositeExplicitAutograd => info.kernel == generated::Kernel::CompositeExplicit,
        DispatchKey::CompositeExplicitAutogradNonFunctional => {
            info.kernel == generated::Kernel::CompositeExplicitNonFunctional
        }
        DispatchKey::CPU => info.kernel == generated::Kernel::Cpu,
        DispatchKey::Meta => registered || info.is_structured() || info.is_structured_delegate(),
        _ => registered,
    }
}

#[pyfunction]
fn _dispatch_has_kernel_for_dispatch_key(full_name: &str, key: &Bound<'_, PyAny>) -> PyResult<bool> {
    let key = key_from_py(key)?;
    Ok(match find(full_name)? {
        Known::Operator(operator) => has_kernel(operator, key),
        Known::Foreign => false,
    })
}

#[pyfunction]
fn _dispatch_has_kernel_for_any_dispatch_key(
    full_name: &str,
    keys: &Bound<'_, PyDispatchKeySet>,
) -> PyResult<bool> {
    Ok(match find(full_name)? {
        Known::Operator(operator) => keys.get().set.keys().into_iter().any(|key| has_kernel(operator, key)),
        Known::Foreign => false,
    })
}

#[pyfunction]
fn _dispatch_has_computed_kernel_for_dispatch_key(full_name: &str, key: &Bound<'_, PyAny>) -> PyResult<bool> {
    let key = key_from_py(key)?;
    Ok(match find(full_name)? {
        Known::Operator(operator) => operator.reaches_kernel(key),
        Known::Foreign => false,
    })
}

#[pyfunction]
fn _dispatch_kernel_for_dispatch_key_is_fallthrough(
    full_name: &str,
    key: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let key = key_from_py(key)?;
    match find(full_name)? {
        Known::Operator(operator) => match operator.registered(key) {
            Some(kernel) => Ok(matches!(kernel, Kernel::Fallthrough)),
            None => Err(PyRuntimeError::new_err(format!("no kernel for {} on {full_name}", key.name()))),
        },
        Known::Foreign => {
            Err(PyRuntimeError::new_err(format!("no kernel for {} on {full_name}", key.name())))
        }
    }
}

/// Whether operators without a kernel of their own at the key have one of the key's.
#[pyfunction]
fn _dispatch_has_backend_fallback(key: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (functionality, _) = key_from_py(key)?.parts();
    let engines_own = [
        DispatchKey::BackendSelect,
        DispatchKey::Python,
        DispatchKey::PythonTLSSnapshot,
        DispatchKey::PythonDispatcher,
        DispatchKey::PreDispatch,
        DispatchKey::ADInplaceOrView,
        DispatchKey::AutogradOther,
        DispatchKey::AutogradFunctionality,
        DispatchKey::Conjugate,
        DispatchKey::Negative,
        DispatchKey::ZeroTensor,
        DispatchKey::Functionalize,
        DispatchKey::FuncTorchDynamicLayerFrontMode,
        DispatchKey::FuncTorchDynamicLayerBackMode,
        DispatchKey::FuncTorchBatched,
        DispatchKey::FuncTorchVmapMode,
        DispatchKey::FuncTorchGradWrapper,
        DispatchKey::AutocastCPU,
    ];
    Ok(engines_own.contains(&functionality) || library::has_fallback(functionality))
}

#[pyfunction]
fn _dispatch_find_schema_or_throw<'py>(
    py: Python<'py>,
    name: &str,
    overload: &str,
) -> PyResult<Bound<'py, Handle>> {
    match Operator::find(name, overload) {
        Some(operator) => call::handle(py, operator),
        None => {
            let full_name = if overload.is_empty() { name.to_owned() } else { format!("{name}.{overload}") };
            Err(PyRuntimeError::new_err(format!("Could not find schema for {full_name}")))
        }
    }
}

/// The functions upstream would make to skip boxing: calls here are not slower through the dispatcher.
#[pyfunction]
fn _dispatch_make_pyobj_dispatch_fns<'py>(
    _handle: Bound<'py, PyAny>,
    dispatch: Bound<'py, PyAny>,
    redispatch: Bound<'py, PyAny>,
) -> (Bound<'py, PyAny>, Bound<'py, PyAny>) {
    (dispatch, redispatch)
}

fn all_operators() -> impl Iterator<Item = &'static Operator> {
    let own = generated::ops().iter().map(|info| torchnative_engine::dispatch::operator(info.id));
    own.chain(Operator::dynamic())
}

#[pyfunction]
fn _dispatch_get_all_op_names() -> Vec<String> {
    all_operators().map(Operator::qualified_name).collect()
}

#[pyfunction]
#[pyo3(signature = (key = ""))]
fn _dispatch_get_registrations_for_dispatch_key(key: &str) -> PyResult<Vec<String>> {
    if key.is_empty() {
        return Ok(_dispatch_get_all_op_names());
    }
    let wanted = DispatchKey::parse(key)
        .ok_or_else(|| PyRuntimeError::new_err(format!("could not parse dispatch key: {key}")))?;
    Ok(all_operators()
        .filter(|operator| has_kernel(operator, wanted))
        .map(Operator::qualified_name)
        .collect())
}

#[pyfunction]
fn _dispatch_dump(full_name: &str) -> PyResult<String> {
    let Known::Operator(operator) = find(full_name)? else { return Ok(format!("name: {full_name}\n")) };
    let schema = &crate::error::IntoPy::into_py(operator.signature())?.schema;
    let mut text = format!("name: {full_name}\nschema: {schema}\nalias analysis kind: FROM_SCHEMA\n");
    for key in operator.registered_keys() {
        text += &format!("{}: registered\n", key.name());
    }
    Ok(text)
}

/// Registries of upstream's fake tensors in C++: kept for the answers, not consulted by a kernel.
mod fake {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Mutex;

    type Names = HashSet<(&'static str, String, String)>;
    static OPERATORS: Mutex<Option<Names>> = Mutex::new(None);

    fn note(kind: &'static str, name: String, overload: String) {
        let mut known = OPERATORS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.get_or_insert_default().insert((kind, name, overload));
    }

    #[pyfunction]
    pub fn _fake_dispatch_register_decomp(name: String, overload: String) {
        note("decomp", name, overload);
    }
    #[pyfunction]
    pub fn _fake_dispatch_register_meta(name: String, overload: String) {
        note("meta", name, overload);
    }
    #[pyfunction]
    pub fn _fake_dispatch_register_op_impl(name: String, overload: String) {
        note("op_impl", name, overload);
    }
    #[pyfunction]
    pub fn _fake_dispatch_register_prim_meta(name: String, overload: String) {
        note("prim_meta", name, overload);
    }
    #[pyfunction]
    pub fn _fake_dispatch_deregister_op_impl(name: String, overload: String) {
        let mut known = OPERATORS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.get_or_insert_default().remove(&("op_impl", name, overload));
    }
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(_get_schema, module)?,
        wrap_pyfunction!(_jit_get_schemas_for_operator, module)?,
        wrap_pyfunction!(_get_operation_overload, module)?,
        wrap_pyfunction!(_jit_get_operation, module)?,
        wrap_pyfunction!(_dispatch_has_kernel, module)?,
        wrap_pyfunction!(_dispatch_has_kernel_for_dispatch_key, module)?,
        wrap_pyfunction!(_dispatch_has_kernel_for_any_dispatch_key, module)?,
        wrap_pyfunction!(_dispatch_has_computed_kernel_for_dispatch_key, module)?,
        wrap_pyfunction!(_dispatch_kernel_for_dispatch_key_is_fallthrough, module)?,
        wrap_pyfunction!(_dispatch_has_backend_fallback, module)?,
        wrap_pyfunction!(_dispatch_find_schema_or_throw, module)?,
        wrap_pyfunction!(_dispatch_make_pyobj_dispatch_fns, module)?,
        wrap_pyfunction!(_dispatch_get_all_op_names, module)?,
        wrap_pyfunction!(_dispatch_get_registrations_for_dispatch_key, module)?,
        wrap_pyfunction!(_dispatch_dump, module)?,
        wrap_pyfunction!(fake::_fake_dispatch_register_decomp, module)?,
        wrap_pyfunction!(fake::_fake_dispatch_register_meta, module)?,
        wrap_pyfunction!(fake::_fake_dispatch_register_op_impl, module)?,
        wrap_pyfunction!(fake::_fake_dispatch_register_prim_meta, module)?,
        wrap_pyfunction!(fake::_fake_dispatch_deregister_op_impl, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
