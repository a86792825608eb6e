//! `FunctionSchema`, `Argument` and the functions that parse and look up schemas.

use super::types;
use crate::types::device;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use torchnative_engine::generated;
use torchnative_engine::schema::{self, AliasInfo, Argument, Default, FunctionSchema};

/// A schema, of the tables or made at run time.
#[derive(Clone)]
pub enum SchemaRef {
    Static(&'static FunctionSchema),
    Shared(Arc<FunctionSchema>),
}

impl std::ops::Deref for SchemaRef {
    type Target = FunctionSchema;
    fn deref(&self) -> &FunctionSchema {
        match self {
            SchemaRef::Static(schema) => schema,
            SchemaRef::Shared(schema) => schema,
        }
    }
}

/// The declaration of an operator overload.
#[pyclass(name = "FunctionSchema", module = "torch._C", subclass, frozen)]
pub struct PyFunctionSchema {
    schema: SchemaRef,
}

/// The Python object of a schema.
pub fn to_py(py: Python<'_>, schema: SchemaRef) -> PyResult<Bound<'_, PyFunctionSchema>> {
    Bound::new(py, PyFunctionSchema { schema })
}

impl PyFunctionSchema {
    /// The engine's model of the schema.
    pub fn model(&self) -> &SchemaRef {
        &self.schema
    }

    fn list<'py>(&self, py: Python<'py>, returns: bool) -> PyResult<Bound<'py, PyList>> {
        let count = if returns { self.schema.returns.len() } else { self.schema.arguments.len() };
        let place = |index| match returns {
            true => Place::Return(self.schema.clone(), index),
            false => Place::Argument(self.schema.clone(), index),
        };
        let items = (0..count).map(|index| PyArgument { place: place(index) });
        PyList::new(py, items.map(|item| Bound::new(py, item)).collect::<PyResult<Vec<_>>>()?)
    }
}

#[pymethods]
impl PyFunctionSchema {
    #[new]
    #[pyo3(signature = (name, overload_name, arguments, returns, is_vararg, is_varret, *_rest, **_named))]
    fn new(
        name: String,
        overload_name: String,
        arguments: Vec<Bound<'_, PyArgument>>,
        returns: Vec<Bound<'_, PyArgument>>,
        is_vararg: bool,
        is_varret: bool,
        _rest: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Self {
        let models =
            |items: &[Bound<'_, PyArgument>]| items.iter().map(|item| item.get().model().clone()).collect();
        let schema = FunctionSchema {
            name,
            overload_name,
            arguments: models(&arguments),
            returns: models(&returns),
            is_vararg,
            is_varret,
        };
        PyFunctionSchema { schema: SchemaRef::Shared(Arc::new(schema)) }
    }

    /// Derived classes take more arguments than the base.
    #[pyo3(signature = (*_args, **_named))]
    fn __init__(&self, _args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) {}

    #[getter]
    fn name(&self) -> &str {
        &self.schema.name
    }
    #[getter]
    fn overload_name(&self) -> &str {
        &self.schema.overload_name
    }
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, false)
    }
    #[getter]
    fn returns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, true)
    }
    #[getter]
    fn is_mutable(&self) -> bool {
        self.schema.is_mutable()
    }
    fn _is_view_op(&self) -> bool {
        self.schema.is_view_op()
    }

    /// Whether a call written for `old` still works with this schema: arguments may be added at the end, with defaults.
    fn is_backward_compatible_with(&self, old: &Bound<'_, PyFunctionSchema>) -> bool {
        let (new, old) = (&self.schema, &old.get().schema);
        let same_ends = new.name == old.name
            && new.overload_name == old.overload_name
            && new.is_vararg == old.is_vararg
            && new.is_varret == old.is_varret
            && new.returns.len() == old.returns.len()
            && new.arguments.len() >= old.arguments.len();
        same_ends
            && new
                .returns
                .iter()
                .zip(&old.returns)
                .all(|(x, y)| types::is_subtype(&x.ty, &y.ty) && x.alias == y.alias)
            && old.arguments.iter().enumerate().all(|(i, before)| {
                new.arguments.iter().enumerate().any(|(j, after)| {
                    after.name == before.name
                        && (i == j || after.kwarg_only)
                        && types::is_subtype(&before.ty, &after.ty)
                        && (before.default.is_none() || before.default == after.default)
                })
            })
            && new.arguments.iter().all(|after| {
                old.arguments.iter().any(|before| before.name == after.name) || after.has_default()
            })
    }

    fn __str__(&self) -> String {
        self.schema.to_string()
    }
    fn __repr__(&self) -> String {
        self.schema.to_string()
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyFunctionSchema>().is_ok_and(|other| *other.get().schema == *self.schema)
    }
    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.schema.to_string().hash(&mut hasher);
        hasher.finish()
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.import("torch._C")?.getattr("parse_schema")?, (self.schema.to_string(),)))
    }
}

/// One argument or return of a schema.
#[pyclass(name = "Argument", module = "torch._C", frozen)]
pub struct PyArgument {
    place: Place,
}

/// Where the model of an argument is.
enum Place {
    Argument(SchemaRef, usize),
    Return(SchemaRef, usize),
    Own(Argument),
}

impl PyArgument {
    fn model(&self) -> &Argument {
        match &self.place {
            Place::Argument(schema, index) => &schema.arguments[*index],
            Place::Return(schema, index) => &schema.returns[*index],
            Place::Own(argument) => argument,
        }
    }
}

#[pymethods]
impl PyArgument {
    #[new]
    #[pyo3(signature = (name, r#type, length, default_value, kwarg_only, alias_info))]
    fn new(
        name: String,
        r#type: &Bound<'_, types::JitType>,
        length: Option<u32>,
        default_value: &Bound<'_, PyAny>,
        kwarg_only: bool,
        alias_info: Option<&Bound<'_, PyAliasInfo>>,
    ) -> PyResult<Self> {
        let default = if default_value.is_none() { None } else { Some(default_from_py(default_value)?) };
        let argument = Argument {
            name,
            ty: r#type.get().model().clone(),
            list_len: length,
            default,
            kwarg_only,
            alias: alias_info.map(|info| info.get().info.clone()),
        };
        Ok(PyArgument { place: Place::Own(argument) })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.model().name
    }
    /// The type as TorchScript sees it, where symbolic integers and enums are `int`.
    #[getter]
    fn r#type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        types::to_py(py, &self.model().ty.fake())
    }
    #[getter]
    fn real_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        types::to_py(py, &self.model().ty)
    }
    #[getter(N)]
    fn length(&self) -> Option<u32> {
        self.model().list_len
    }
    #[getter]
    fn default_value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.model().default {
            Some(default) => default_to_py(py, default),
            None => Ok(py.None().into_bound(py)),
        }
    }
    fn has_default_value(&self) -> bool {
        self.model().has_default()
    }
    #[getter]
    fn kwarg_only(&self) -> bool {
        self.model().kwarg_only
    }
    #[getter]
    fn is_out(&self) -> bool {
        !matches!(self.place, Place::Return(..)) && self.model().is_out()
    }
    #[getter]
    fn is_write(&self) -> bool {
        self.model().is_write()
    }
    #[getter]
    fn alias_info(&self) -> Option<PyAliasInfo> {
        self.model().alias.clone().map(|info| PyAliasInfo { info })
    }
}

/// Which memory an argument may share.
#[pyclass(name = "_AliasInfo", module = "torch._C", frozen)]
pub struct PyAliasInfo {
    info: AliasInfo,
}

#[pymethods]
impl PyAliasInfo {
    #[new]
    fn new(is_write: bool, before_set: Vec<String>, after_set: Vec<String>) -> Self {
        PyAliasInfo { info: AliasInfo { before_set, after_set, is_write, element: None } }
    }
    #[getter]
    fn is_write(&self) -> bool {
        self.info.is_write
    }
    #[getter]
    fn before_set<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        PySet::new(py, &self.info.before_set)
    }
    #[getter]
    fn after_set<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        PySet::new(py, &self.info.after_set)
    }
}

/// A default value as Python sees it.
pub fn default_to_py<'py>(py: Python<'py>, default: &Default) -> PyResult<Bound<'py, PyAny>> {
    let complex = |(re, im): &(f64, f64)| PyComplex::from_doubles(py, *re, *im);
    Ok(match default {
        Default::None => py.None().into_bound(py),
        Default::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Default::Int(value) => value.into_pyobject(py)?.into_any(),
        Default::Float(value) => value.into_pyobject(py)?.into_any(),
        Default::Complex(re, im) => complex(&(*re, *im)).into_any(),
        Default::Str(value) => PyString::new(py, value).into_any(),
        Default::Device(value) => device::to_py(py, device::parse(value)?)?.into_any(),
        Default::BoolList(values) => PyList::new(py, values)?.into_any(),
        Default::IntList(values) => PyList::new(py, values)?.into_any(),
        Default::FloatList(values) => PyList::new(py, values)?.into_any(),
        Default::ComplexList(values) => PyList::new(py, values.iter().map(complex))?.into_any(),
    })
}

/// A default value from Python.
fn default_from_py(value: &Bound<'_, PyAny>) -> PyResult<Default> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Default::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Default::Int(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Default::Float(value.extract()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Default::Str(text.to_str()?.to_owned()));
    }
    if let Ok(items) = value.extract::<Vec<i64>>() {
        return Ok(Default::IntList(items));
    }
    if let Ok(items) = value.extract::<Vec<f64>>() {
        return Ok(Default::FloatList(items));
    }
    Err(PyNotImplementedError::new_err(format!(
        "a default of type {} is not implemented in torchnative",
        value.get_type().name()?
    )))
}

/// Parses a schema in the notation of operator declarations.
#[pyfunction]
#[pyo3(signature = (schema, allow_typevars = true))]
fn parse_schema<'py>(
    py: Python<'py>,
    schema: &str,
    allow_typevars: bool,
) -> PyResult<Bound<'py, PyFunctionSchema>> {
    to_py(py, SchemaRef::Shared(Arc::new(parse(schema, allow_typevars)?)))
}

/// Parses a schema; a malformed one is a `RuntimeError` that shows the place.
pub fn parse(text: &str, allow_typevars: bool) -> PyResult<FunctionSchema> {
    let parsed = if allow_typevars { schema::parse_schema(text) } else { schema::parse_schema_strict(text) };
    parsed.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The schema of an overload in upstream's tables.
pub fn find_static(name: &str, overload: &str) -> Option<&'static FunctionSchema> {
    generated::overloads(name).iter().find(|known| known.name() == overload).map(|known| known.schema())
}

/// Every schema of the tables: what upstream's registry holds before Python adds to it.
#[pyfunction]
fn _jit_get_all_schemas<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    let known = generated::packets()
        .flat_map(generated::overloads)
        .map(|overload| SchemaRef::Static(overload.schema()));
    PyList::new(py, known.map(|schema| to_py(py, schema)).collect::<PyResult<Vec<_>>>()?)
}

#[pyfunction]
fn _jit_get_custom_class_schemas(py: Python<'_>) -> Bound<'_, PyTuple> {
    PyTuple::empty(py)
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFunctionSchema>()?;
    module.add_class::<PyArgument>()?;
    module.add_class::<PyAliasInfo>()?;
    module.add_function(wrap_pyfunction!(parse_schema, module)?)?;
    module.add_function(wrap_pyfunction!(_jit_get_all_schemas, module)?)?;
    module.add_function(wrap_pyfunction!(_jit_get_custom_class_schemas, module)?)
}
