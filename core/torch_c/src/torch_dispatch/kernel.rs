//! The kernels of the Python keys: they hand a call to the topmost mode, or to the classes of its tensors.

use super::stack;
use crate::dispatch::call::{arguments_to_py, results_from_py};
use crate::error::from_py;
use crate::tensor::object;
use crate::torch_function::{Overloaded, Overrides, ask_arguments, ask_mode, nobody};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use torchnative_engine::dispatch::operator::set_fallback;
use torchnative_engine::dispatch::{
    DispatchKey, DispatchKeySet, Kernel, Operator, operator, redispatch, tls,
};
use torchnative_engine::schema::OpId;
use torchnative_engine::{Result, Stack, op};

/// The keys an outermost call was made with.
#[derive(Clone, Copy)]
pub struct Entry {
    pub included: DispatchKeySet,
    pub excluded: DispatchKeySet,
}

thread_local! {
    static ENTRY: Cell<Option<Entry>> = const { Cell::new(None) };
}

/// The thread's keys when the call was made inside of which Python's override runs now.
///
/// # Errors
/// Outside of an override.
pub fn entry() -> PyResult<Entry> {
    ENTRY.get().ok_or_else(|| {
        PyRuntimeError::new_err(
            "Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed.",
        )
    })
}

/// Puts the entry state back.
struct LeaveEntry(Option<Entry>);

impl Drop for LeaveEntry {
    fn drop(&mut self) {
        ENTRY.set(self.0);
    }
}

/// The kernel of `PythonTLSSnapshot`: notes the thread's keys, for overrides that dispatch from the top again.
fn note_entry(operator: &'static Operator, keys: DispatchKeySet, call: &mut Stack) -> Result<()> {
    let before = ENTRY.get();
    let _leave = LeaveEntry(before);
    if before.is_none() {
        ENTRY.set(Some(Entry { included: tls::included(), excluded: tls::excluded() }));
    }
    redispatch(operator, keys & DispatchKeySet::full_after(DispatchKey::PythonTLSSnapshot), call)
}

/// The kernel of `Python`.
fn run_override(operator: &'static Operator, _keys: DispatchKeySet, call: &mut Stack) -> Result<()> {
    // What comes above has been done for this call; a call without tensors passed nothing.
    let mut has_tensors = false;
    call.iter().for_each(|value| value.for_each_tensor(&mut |_| has_tensors = true));
    let _below = has_tensors
        .then(|| tls::StateGuard::exclude(DispatchKeySet::AUTOGRAD | DispatchKeySet::INPLACE_OR_VIEW));
    Python::attach(|py| dispatch(py, operator, call)).map_err(from_py)
}

fn dispatch(py: Python<'_>, operator: &'static Operator, call: &mut Stack) -> PyResult<()> {
    let mut overloaded = Overloaded::default();
    let mut tensors = Vec::new();
    for value in call.iter() {
        value.for_each_tensor(&mut |tensor| {
            if tensor.key_set().has_functionality(DispatchKey::Python) {
                tensors.push(tensor.clone());
            }
        });
    }
    for tensor in tensors {
        overloaded.append(&object::wrap(py, tensor)?)?;
    }
    let function = overload(py, operator)?;
    let (args, kwargs) = arguments_to_py(py, operator, call)?;
    let args = PyTuple::new(py, args)?;
    let types = overloaded.types(py)?;
    let protocol = Overrides::Dispatch;
    let mut mode = None;
    if stack::enabled() {
        let stash = stack::Stash::take(py)?;
        mode = Some(stash.mode().clone());
        let answer = match rule(&function, operator, &stash.mode().get_type())? {
            Some(rule) => rule.call1((stash.mode(), &function, &types, &args, &kwargs))?,
            None => ask_mode(py, stash.mode(), &function, &types, &args, Some(&kwargs), protocol)?,
        };
        if !answer.is(py.NotImplemented()) {
            return results_from_py(operator, &answer, call);
        }
    }
    for argument in &overloaded.0 {
        let class = argument.get_type();
        if let Some(rule) = rule(&function, operator, &class)? {
            let answer = rule.call1((class, &function, &types, &args, &kwargs))?;
            if !answer.is(py.NotImplemented()) {
                return results_from_py(operator, &answer, call);
            }
        }
    }
    match ask_arguments(py, &overloaded, &function, &types, &args, Some(&kwargs), protocol)? {
        Some(answer) => results_from_py(operator, &answer, call),
        None => Err(nobody(py, &overloaded, &function, mode, None, protocol)),
    }
}

/// What `torch.library.register_torch_dispatch` registered for an operator and a class of modes or tensors.
fn rule<'py>(
    function: &Bound<'py, PyAny>,
    operator: &Operator,
    class: &Bound<'py, PyType>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if operator.id.is_some() {
        return Ok(None);
    }
    let registry = function.py().import("torch._library.simple_registry")?;
    let found = registry.getattr("find_torch_dispatch_rule")?.call1((function, class))?;
    Ok((!found.is_none()).then_some(found))
}

/// `torch.ops.ns.name.overload` of an operator, looked up once.
pub fn overload<'py>(py: Python<'py>, operator: &'static Operator) -> PyResult<Bound<'py, PyAny>> {
    static KNOWN: Mutex<Option<HashMap<usize, Py<PyAny>>>> = Mutex::new(None);
    let key = std::ptr::from_ref(operator) as usize;
    let known = || KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(found) = known().get_or_insert_default().get(&key) {
        return Ok(found.bind(py).clone());
    }
    let (namespace, name) = operator.name.split_once("::").unwrap_or(("", &operator.name));
    let packet = py.import("torch")?.getattr("ops")?.getattr(namespace)?.getattr(name)?;
    let found = packet.getattr(if operator.overload.is_empty() { "default" } else { &operator.overload })?;
    known().get_or_insert_default().insert(key, found.clone().unbind());
    Ok(found)
}

/// Operators that upstream answers from the tensor's record without dispatching.
const ANSWERED: &[OpId] = &[
    op::_is_zerotensor,
    op::dim,
    op::get_device,
    op::is_complex,
    op::is_conj,
    op::is_contiguous,
    op::is_contiguous_memory_format,
    op::is_floating_point,
    op::is_inference,
    op::is_neg,
    op::is_signed,
    op::numel,
    op::size_int,
    op::storage_offset,
    op::stride_int,
    op::sym_numel,
    op::sym_size_int,
    op::sym_storage_offset,
    op::sym_stride_int,
];

/// Installs the kernels. Comes before the first call of an operator.
pub fn install() {
    set_fallback(DispatchKey::Python, Kernel::Boxed(Arc::new(run_override)));
    set_fallback(DispatchKey::PythonTLSSnapshot, Kernel::Boxed(Arc::new(note_entry)));
    for id in ANSWERED {
        for key in [DispatchKey::Python, DispatchKey::PythonTLSSnapshot] {
            operator(*id).register(key, Kernel::Fallthrough);
        }
    }
}
