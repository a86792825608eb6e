//! The profiler's names while no profiler runs: regions can be marked, nobody records them, and starting one is refused.

use crate::error::{self, IntoPy};
use crate::surface;
use crate::tensor::value;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet};
use std::sync::Arc;
use std::time::Instant;
use torchnative_engine::dispatch::{DispatchKey, Kernel, Operator, Returns};
use torchnative_engine::ivalue::Args;
use torchnative_engine::{ErrorKind, IValue};

#[pyfunction]
fn _profiler_enabled() -> bool {
    false
}

#[pyfunction]
fn _profiler_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    surface::find(py, "torch._C._profiler")?.getattr("ActiveProfilerType")?.getattr("NONE")
}

/// Whether the library that collects device traces is part of the build.
#[pyfunction]
fn kineto_available() -> bool {
    false
}

#[pyfunction]
fn _is_kineto_stopped() -> bool {
    false
}

#[pyfunction]
fn _kineto_step() {}

/// What a profiler could record: nothing.
#[pyfunction]
fn _supported_activities(py: Python<'_>) -> PyResult<Bound<'_, PySet>> {
    PySet::empty(py)
}

/// Nanoseconds since the first call.
#[pyfunction]
fn _get_approximate_time() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A marked region that does without the dispatcher.
#[pyclass(name = "RecordFunctionFast", module = "torch._C._profiler", frozen)]
struct RecordFunctionFast;

#[pymethods]
impl RecordFunctionFast {
    #[new]
    #[pyo3(signature = (name, input_values = None, keyword_values = None))]
    fn new(
        name: &str,
        input_values: Option<&Bound<'_, PyAny>>,
        keyword_values: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let _ = name;
        let is_sequence = |o: &&Bound<'_, PyAny>| {
            o.is_instance_of::<pyo3::types::PyList>() || o.is_instance_of::<pyo3::types::PyTuple>()
        };
        if input_values.is_some_and(|o| !is_sequence(&o)) {
            return Err(PyTypeError::new_err("input_values must be a list or tuple"));
        }
        if keyword_values.is_some_and(|o| !o.is_instance_of::<PyDict>()) {
            return Err(PyTypeError::new_err("keyword_values must be dict"));
        }
        Ok(RecordFunctionFast)
    }

    fn __enter__(&self) {}

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {}
}

const ENTER: &str = "profiler::_record_function_enter_new(str name, str? args=None) -> \
                     __torch__.torch.classes.profiler._RecordFunction";
const EXIT: &str = "profiler::_record_function_exit._RecordFunction(\
                    __torch__.torch.classes.profiler._RecordFunction record) -> ()";

/// The handle of a marked region, made by `profiler::_record_function_enter_new`.
#[pyclass(name = "_RecordFunction", module = "torch.classes.profiler", frozen)]
struct Region;

fn enter(_: Args<'_>) -> torchnative_engine::Result<Returns> {
    Python::attach(|py| match Py::new(py, Region) {
        Ok(region) => Ok(IValue::Opaque(Arc::new(value::Opaque(region.into_any()))).into()),
        Err(e) => Err(error::from_py(e)),
    })
}

fn exit(args: Args<'_>) -> torchnative_engine::Result<Returns> {
    let is_region = match args.0.first() {
        Some(IValue::Opaque(o)) => o
            .downcast_ref::<value::Opaque>()
            .is_some_and(|o| Python::attach(|py| o.0.bind(py).is_instance_of::<Region>())),
        _ => false,
    };
    if is_region {
        return Ok(().into());
    }
    Err(torchnative_engine::Error::new(
        ErrorKind::Runtime,
        "profiler::_record_function_exit() Expected a value of type '__torch__.torch.classes.profiler._RecordFunction' for argument \
         'record'",
    ))
}

pub fn init(root: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = root.py();
    for (schema, kernel) in [(ENTER, enter as fn(Args<'_>) -> _), (EXIT, exit)] {
        let operator = Operator::define(schema).into_py()?;
        operator.register(DispatchKey::CompositeExplicitAutograd, Kernel::Args(kernel));
    }
    let autograd = &surface::find(py, "torch._C._autograd")?;
    for function in [
        wrap_pyfunction!(_profiler_enabled, autograd)?,
        wrap_pyfunction!(_profiler_type, autograd)?,
        wrap_pyfunction!(kineto_available, autograd)?,
        wrap_pyfunction!(_is_kineto_stopped, autograd)?,
        wrap_pyfunction!(_kineto_step, autograd)?,
        wrap_pyfunction!(_supported_activities, autograd)?,
    ] {
        autograd.add_function(function)?;
    }
    let profiler = &surface::find(py, "torch._C._profiler")?;
    profiler.add("_RecordFunctionFast", py.get_type::<RecordFunctionFast>())?;
    profiler.add_function(wrap_pyfunction!(_get_approximate_time, profiler)?)
}
