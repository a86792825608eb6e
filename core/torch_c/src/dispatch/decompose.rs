//! Operators without a kernel here, run through the decompositions that the tree ships (`torch._decomp`).

use super::call::{arguments_to_py, results_from_py};
use crate::error::from_py;
use crate::torch_dispatch::overload;
use crate::torch_function;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;
use torchnative_engine::dispatch::{DispatchKeySet, Operator, set_decomposition_hook, tls};
use torchnative_engine::{Result, Stack};

/// What is known of an operator that was looked up.
struct Known {
    /// Absent when the tree has no decomposition for it.
    function: Option<Py<PyAny>>,
    uses: u64,
}

/// By the operator's address: operators live for ever.
static KNOWN: Mutex<Option<HashMap<usize, Known>>> = Mutex::new(None);

thread_local! {
    /// The operators whose decompositions are running, outermost first.
    static RUNNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// How often a decomposition may come back to its own operator: with other arguments that is in order, for ever it is not.
const LIMIT: usize = 3;

fn known<T>(f: impl FnOnce(&mut HashMap<usize, Known>) -> T) -> T {
    let mut guard = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    f(guard.get_or_insert_default())
}

/// The tree's decomposition of an operator.
fn look_up<'py>(py: Python<'py>, operator: &'static Operator) -> PyResult<Option<Bound<'py, PyAny>>> {
    let key = std::ptr::from_ref(operator) as usize;
    let found = known(|k| k.get(&key).map(|known| known.function.as_ref().map(|f| f.clone_ref(py))));
    if let Some(found) = found {
        return Ok(found.map(|function| function.into_bound(py)));
    }
    let table = py.import("torch._decomp")?.getattr("decomposition_table")?.cast_into::<PyDict>()?;
    let function = table.get_item(overload(py, operator)?)?;
    known(|k| k.insert(key, Known { function: function.clone().map(Bound::unbind), uses: 0 }));
    Ok(function)
}

/// Ends a running decomposition.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}

fn hook(operator: &'static Operator, keys: DispatchKeySet, call: &mut Stack) -> Option<Result<()>> {
    let key = std::ptr::from_ref(operator) as usize;
    let depth = RUNNING.with_borrow(|running| running.iter().filter(|other| **other == key).count());
    if depth >= LIMIT {
        return None;
    }
    Python::attach(|py| match look_up(py, operator) {
        Err(error) => Some(Err(from_py(error))),
        Ok(None) => None,
        Ok(Some(function)) => {
            RUNNING.with_borrow_mut(|running| running.push(key));
            let _leave = Leave;
            known(|k| {
                k.entry(key).and_modify(|known| known.uses += 1);
            });
            Some(run(py, operator, &function, keys, call).map_err(from_py))
        }
    })
}

fn run(
    py: Python<'_>,
    operator: &'static Operator,
    function: &Bound<'_, PyAny>,
    keys: DispatchKeySet,
    call: &mut Stack,
) -> PyResult<()> {
    // What was above this call has been done for it, and is not done again for its parts: casts, and graphs unless the
    // decomposition is what records them.
    let mut above = DispatchKeySet::AUTOCAST;
    if !keys.intersects(DispatchKeySet::AUTOGRAD) {
        above = above | DispatchKeySet::AUTOGRAD;
    }
    let _guard = tls::StateGuard::exclude(above);
    let _plain = torch_function::disable_all();
    let (positional, keywords) = arguments_to_py(py, operator, call)?;
    let returned = function.call(PyTuple::new(py, positional)?, Some(&keywords))?;
    results_from_py(operator, &returned, call)
}

/// The operators that ran through a decomposition, and how often.
#[pyfunction]
fn _torchnative_decompositions(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = PyDict::new(py);
    let used: Vec<(usize, u64)> = known(|k| {
        k.iter().filter(|(_, known)| known.uses > 0).map(|(key, known)| (*key, known.uses)).collect()
    });
    for (key, uses) in used {
        // SAFETY: keys are addresses of operators, which live for ever.
        let operator = unsafe { &*(key as *const Operator) };
        counts.set_item(operator.qualified_name(), uses)?;
    }
    Ok(counts)
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    set_decomposition_hook(hook);
    module.add_function(wrap_pyfunction!(_torchnative_decompositions, module)?)
}
