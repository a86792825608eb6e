//! `torch.library`: operators and kernels that Python adds.

use super::call::{arguments_to_py, results_from_py};
use super::keys::{key_from_py, set_to_py};
use super::operators::split;
use crate::enums;
use crate::error::{IntoPy, from_py};
use crate::jit::schema;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use torchnative_engine::dispatch::operator::{BoxedFn, set_fallback};
use torchnative_engine::dispatch::{DispatchKey, Kernel, Operator};

/// What Python has added, by qualified operator name.
#[derive(Default)]
struct Added {
    /// Overloads of names.
    overloads: HashMap<String, Vec<String>>,
    tags: HashMap<String, Vec<i64>>,
    kernels: HashSet<(String, DispatchKey)>,
    /// Kernels for operators that do not exist yet.
    waiting: HashMap<String, Vec<(DispatchKey, Kernel)>>,
    fallbacks: HashSet<DispatchKey>,
}

static ADDED: Mutex<Option<Added>> = Mutex::new(None);

fn added<T>(f: impl FnOnce(&mut Added) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Added>> =
        ADDED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    f(guard.get_or_insert_default())
}

/// The overloads that were defined at run time for a name.
pub fn defined_overloads(name: &str) -> Vec<String> {
    added(|a| a.overloads.get(name).cloned()).unwrap_or_default()
}

/// The tags an operator was defined with.
pub fn tags(full_name: &str) -> Vec<i64> {
    added(|a| a.tags.get(full_name).cloned()).unwrap_or_default()
}

/// Whether the operator's kernel at the key came from Python.
pub fn is_python(full_name: &str, key: DispatchKey) -> bool {
    added(|a| a.kernels.contains(&(full_name.to_owned(), key)))
}

/// Whether Python registered what runs at a functionality for all operators.
pub fn has_fallback(functionality: DispatchKey) -> bool {
    added(|a| a.fallbacks.contains(&functionality))
}

/// What has to be undone when a library goes away, latest last.
enum Undo {
    Definition(&'static Operator),
    Kernel(&'static Operator, DispatchKey, Option<Kernel>),
}

/// A set of definitions and kernels with a common life.
#[pyclass(name = "_DispatchModule", module = "torch._C")]
struct Library {
    namespace: String,
    key: Option<DispatchKey>,
    /// The file that made the library.
    file: String,
    undo: Vec<Undo>,
}

impl Library {
    fn qualify(&self, name: &str) -> PyResult<String> {
        match name.split_once("::") {
            None => Ok(format!("{}::{name}", self.namespace)),
            Some((namespace, _)) if namespace == self.namespace || self.namespace == "_" => {
                Ok(name.to_owned())
            }
            Some((namespace, _)) => Err(PyRuntimeError::new_err(format!(
                "Explicitly provided namespace ({namespace}) in operator name does not match namespace of enclosing library ({})",
                self.namespace
            ))),
        }
    }

    fn register(&mut self, full_name: &str, key: DispatchKey, kernel: Kernel) {
        let (name, overload) = split(full_name);
        added(|a| a.kernels.insert((full_name.to_owned(), key)));
        match Operator::find(name, overload) {
            Some(operator) => {
                self.undo.push(Undo::Kernel(operator, key, operator.registered(key).cloned()));
                operator.register(key, kernel);
            }
            None => added(|a| a.waiting.entry(full_name.to_owned()).or_default().push((key, kernel))),
        }
    }
}

/// A kernel that calls a Python function.
fn python_kernel(function: Py<PyAny>, with_keyset: bool) -> Kernel {
    let run: Arc<BoxedFn> = Arc::new(move |operator, keys, stack| {
        Python::attach(|py| {
            let (mut positional, keywords) = arguments_to_py(py, operator, stack)?;
            if with_keyset {
                positional.insert(0, set_to_py(py, keys)?.into_any());
            }
            let returned = function.bind(py).call(PyTuple::new(py, positional)?, Some(&keywords))?;
            results_from_py(operator, &returned, stack)
        })
        .map_err(from_py)
    });
    Kernel::Boxed(run)
}

fn is_fallthrough(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let library = function.py().import("torch.library")?;
    Ok(library.getattr_opt("fallthrough_kernel")?.is_some_and(|kernel| kernel.is(function)))
}

fn kernel_of(function: &Bound<'_, PyAny>, with_keyset: bool) -> PyResult<Kernel> {
    Ok(if is_fallthrough(function)? {
        Kernel::Fallthrough
    } else {
        python_kernel(function.clone().unbind(), with_keyset)
    })
}

#[pymethods]
impl Library {
    /// Defines an operator and returns its name.
    #[pyo3(signature = (schema, alias_analysis = "", tags = Vec::new()))]
    fn define(
        &mut self,
        schema: &str,
        alias_analysis: &str,
        tags: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let _ = alias_analysis;
        let parsed = schema::parse(schema, true)?;
        let given = match parsed.overload_name.as_str() {
            "" => parsed.name.clone(),
            overload => format!("{}.{overload}", parsed.name),
        };
        let qualified = self.qualify(&parsed.name)?;
        let text = match schema.split_once("::") {
            Some((before, _)) if !before.contains('(') => schema.to_owned(),
            _ => format!("{}::{}", self.namespace, schema.trim_start()),
        };
        let operator = Operator::define(&text).into_py()?;
        let full_name = operator.qualified_name();
        let numbers = tags.iter().map(enums::number).collect::<PyResult<Vec<_>>>()?;
        let waiting = added(|a| {
            a.overloads.entry(qualified).or_default().push(parsed.overload_name.clone());
            a.tags.insert(full_name.clone(), numbers);
            a.waiting.remove(&full_name)
        });
        for (key, kernel) in waiting.unwrap_or_default() {
            operator.register(key, kernel);
        }
        self.undo.push(Undo::Definition(operator));
        Ok(given)
    }

    /// Registers a Python kernel.
    #[pyo3(name = "impl", signature = (name, dispatch, func, with_keyset = false))]
    fn implement(
        &mut self,
        name: &str,
        dispatch: &Bound<'_, PyAny>,
        func: &Bound<'_, PyAny>,
        with_keyset: bool,
    ) -> PyResult<()> {
        let key = match dispatch.extract::<&str>() {
            Ok("") => self.key.unwrap_or(DispatchKey::CompositeImplicitAutograd),
            _ => key_from_py(dispatch)?,
        };
        let full_name = self.qualify(name)?;
        // The shape functions of the tree step in where the engine has none: its own are those its kernels use.
        let (base, overload) = split(&full_name);
        let is_trees_meta = key == DispatchKey::Meta && self.file.ends_with("_meta_registrations.py");
        if is_trees_meta
            && Operator::find(base, overload).is_some_and(|operator| operator.registered(key).is_some())
        {
            return Ok(());
        }
        let kernel = kernel_of(func, with_keyset)?;
        self.register(&full_name, key, kernel);
        Ok(())
    }

    /// Registers what runs at a key for every operator without a kernel of its own there.
    #[pyo3(signature = (dispatch, func, with_keyset = false))]
    fn fallback(
        &mut self,
        dispatch: &Bound<'_, PyAny>,
        func: &Bound<'_, PyAny>,
        with_keyset: bool,
    ) -> PyResult<()> {
        let key = key_from_py(dispatch)?;
        let kernel = if is_fallthrough(func)? {
            Kernel::Fallthrough
        } else {
            fallback_kernel(func.clone().unbind(), with_keyset)
        };
        added(|a| a.fallbacks.insert(key.parts().0));
        set_fallback(key, kernel);
        Ok(())
    }

    #[pyo3(signature = (dispatch = ""))]
    fn fallback_fallthrough(slf: Bound<'_, Self>, dispatch: &str) -> PyResult<Py<PyAny>> {
        let key = match DispatchKey::parse(dispatch).or(slf.borrow().key) {
            Some(key) => key,
            None => return Err(PyRuntimeError::new_err(format!("could not parse dispatch key: {dispatch}"))),
        };
        added(|a| a.fallbacks.insert(key.parts().0));
        set_fallback(key, Kernel::Fallthrough);
        Ok(slf.into_any().unbind())
    }

    /// What runs at `ADInplaceOrView` for operators that write or view is what runs there for all of them.
    fn register_ad_inplace_or_view_fallback(&self, name: &str) -> PyResult<()> {
        self.qualify(name).map(drop)
    }

    /// Takes back all that was registered through this library.
    fn reset(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Definition(operator) => {
                    added(|a| {
                        if let Some(overloads) = a.overloads.get_mut(&operator.name) {
                            overloads.retain(|overload| *overload != operator.overload);
                        }
                    });
                    operator.undefine();
                }
                Undo::Kernel(operator, key, before) => match before {
                    Some(kernel) => operator.register(key, kernel),
                    None => {
                        added(|a| a.kernels.remove(&(operator.qualified_name(), key)));
                        operator.deregister(key);
                    }
                },
            }
        }
    }
}

/// A kernel for all operators: the Python function gets the operator first.
fn fallback_kernel(function: Py<PyAny>, with_keyset: bool) -> Kernel {
    let run: Arc<BoxedFn> = Arc::new(move |operator, keys, stack| {
        Python::attach(|py| {
            let (mut positional, keywords) = arguments_to_py(py, operator, stack)?;
            positional.insert(0, overload_object(py, operator)?);
            if with_keyset {
                positional.insert(0, set_to_py(py, keys)?.into_any());
            }
            let returned = function.bind(py).call(PyTuple::new(py, positional)?, Some(&keywords))?;
            results_from_py(operator, &returned, stack)
        })
        .map_err(from_py)
    });
    Kernel::Boxed(run)
}

/// `torch.ops.<namespace>.<name>.<overload>`.
pub fn overload_object<'py>(py: Python<'py>, operator: &Operator) -> PyResult<Bound<'py, PyAny>> {
    let (namespace, name) = operator.name.split_once("::").unwrap_or(("aten", &operator.name));
    let overload = if operator.overload.is_empty() { "default" } else { &operator.overload };
    py.import("torch._ops")?.getattr("ops")?.getattr(namespace)?.getattr(name)?.getattr(overload)
}

#[pyfunction]
#[pyo3(signature = (kind, name, dispatch, file = "/dev/null", linenum = 0))]
fn _dispatch_library(kind: &str, name: &str, dispatch: &str, file: &str, linenum: u32) -> PyResult<Library> {
    let _ = linenum;
    if !["DEF", "IMPL", "FRAGMENT"].contains(&kind) {
        return Err(PyRuntimeError::new_err(format!("could not parse {kind}")));
    }
    let key = match dispatch {
        "" => None,
        text => Some(
            DispatchKey::parse(text)
                .ok_or_else(|| PyRuntimeError::new_err(format!("could not parse dispatch key: {text}")))?,
        ),
    };
    Ok(Library { namespace: name.to_owned(), key, file: file.to_owned(), undo: Vec::new() })
}

#[pyfunction]
fn _dispatch_pystub(_name: &str, _overload: &str) -> Option<(String, String)> {
    None
}

#[pyfunction]
fn _dispatch_clear_leaked_python_filenames() {}

#[pyfunction]
fn _dispatch_find_dangling_impls() -> Vec<String> {
    added(|a| a.waiting.keys().cloned().collect())
}

#[pyfunction]
fn _dispatch_check_all_invariants() {}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Library>()?;
    for function in [
        wrap_pyfunction!(_dispatch_library, module)?,
        wrap_pyfunction!(_dispatch_pystub, module)?,
        wrap_pyfunction!(_dispatch_clear_leaked_python_filenames, module)?,
        wrap_pyfunction!(_dispatch_find_dangling_impls, module)?,
        wrap_pyfunction!(_dispatch_check_all_invariants, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
