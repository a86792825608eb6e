//! TorchScript's types: `torch._C.TensorType`, `ListType` and their kin.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBool;
use torchnative_engine::schema::Type;

/// A type; the base of the classes of all types.
#[pyclass(name = "Type", module = "torch._C", subclass, frozen)]
pub struct JitType {
    ty: Type,
}

/// The name `Type::Class` has for a Python object of any class.
const PY_OBJECT: &str = "PyObject";

impl JitType {
    /// The engine's model of the type.
    pub fn model(&self) -> &Type {
        &self.ty
    }
}

/// The type in Python's notation.
fn annotation(ty: &Type) -> String {
    match ty {
        Type::Tuple(items) if items.is_empty() => "Tuple[()]".into(),
        other => other.annotation(),
    }
}

/// Whether a value of type `a` can stand where `b` is wanted.
pub fn is_subtype(a: &Type, b: &Type) -> bool {
    if a == b || matches!(b, Type::Any) {
        return true;
    }
    match (a, b) {
        (Type::Union(items), _) => items.iter().all(|item| is_subtype(item, b)),
        (_, Type::Union(items)) => items.iter().any(|item| is_subtype(a, item)),
        (Type::None, Type::Optional(_)) => true,
        (Type::Optional(inner), Type::Optional(outer)) => is_subtype(inner, outer),
        (_, Type::Optional(outer)) => is_subtype(a, outer),
        (Type::Int | Type::Float | Type::Complex, Type::Scalar) => true,
        (Type::Tuple(left), Type::Tuple(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(x, y)| is_subtype(x, y))
        }
        (Type::Future(left), Type::Future(right))
        | (Type::Await(left), Type::Await(right))
        | (Type::RRef(left), Type::RRef(right)) => is_subtype(left, right),
        _ => false,
    }
}

#[pymethods]
impl JitType {
    fn kind(&self) -> &'static str {
        match &self.ty {
            Type::Class(name) if name == PY_OBJECT => "PyObjectType",
            other => other.kind_name(),
        }
    }

    /// The type in schema notation.
    fn str(&self) -> String {
        self.ty.to_string()
    }

    #[getter]
    fn annotation_str(&self) -> String {
        annotation(&self.ty)
    }

    fn __repr__(&self) -> String {
        annotation(&self.ty)
    }

    #[pyo3(name = "isSubtypeOf")]
    fn is_subtype_of(&self, other: &Bound<'_, JitType>) -> bool {
        is_subtype(&self.ty, &other.get().ty)
    }

    fn is_interface_type(&self) -> bool {
        false
    }

    fn requires_grad(&self) -> bool {
        matches!(self.ty, Type::Tensor) || self.ty.contained().iter().any(|ty| matches!(ty, Type::Tensor))
    }

    #[pyo3(name = "containedTypes")]
    fn contained_types<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.ty.contained().into_iter().map(|ty| to_py(py, ty)).collect()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let py = other.py();
        let same = other.cast::<JitType>().is_ok_and(|other| other.get().ty == self.ty);
        match op {
            CompareOp::Eq => PyBool::new(py, same).to_owned().into_any().unbind(),
            CompareOp::Ne => PyBool::new(py, !same).to_owned().into_any().unbind(),
            _ => py.NotImplemented(),
        }
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
        // Upstream's types compare by structure and hash by nothing.
        Err(PyTypeError::new_err(format!("unhashable type: '{}'", slf.get_type().fully_qualified_name()?)))
    }
}

/// Classes of the types without parts, each with a single instance that `get` gives.
macro_rules! singletons {
    ($($class:ident = $name:literal, $ty:expr;)*) => {
        $(
            #[doc = concat!("`torch._C.", $name, "`.")]
            #[pyclass(name = $name, module = "torch._C", extends = JitType, frozen)]
            pub struct $class;

            #[pymethods]
            impl $class {
                #[staticmethod]
                fn get(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
                    static INSTANCE: pyo3::sync::PyOnceLock<Py<PyAny>> = pyo3::sync::PyOnceLock::new();
                    INSTANCE
                        .get_or_try_init(py, || {
                            let base = PyClassInitializer::from(JitType { ty: $ty });
                            Ok(Bound::new(py, base.add_subclass($class))?.into_any().unbind())
                        })
                        .map(|instance| instance.bind(py).clone())
                }
            }
        )*

        fn singleton<'py>(py: Python<'py>, ty: &Type) -> Option<PyResult<Bound<'py, PyAny>>> {
            $(if *ty == $ty {
                return Some($class::get(py));
            })*
            None
        }

        fn add_singletons(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_class::<$class>()?;)*
            Ok(())
        }
    };
}

singletons! {
    AnyType = "AnyType", Type::Any;
    BoolType = "BoolType", Type::Bool;
    ComplexType = "ComplexType", Type::Complex;
    DeviceObjType = "DeviceObjType", Type::Device;
    FloatType = "FloatType", Type::Float;
    IntType = "IntType", Type::Int;
    NoneType = "NoneType", Type::None;
    NumberType = "NumberType", Type::Scalar;
    PyObjectType = "PyObjectType", Type::Class(PY_OBJECT.into());
    StreamObjType = "StreamObjType", Type::Stream;
    StringType = "StringType", Type::Str;
    SymBoolType = "SymBoolType", Type::SymBool;
    SymIntType = "SymIntType", Type::SymInt;
    GeneratorType = "_GeneratorType", Type::Generator;
}

/// `torch._C.TensorType`; only the type that any tensor has.
#[pyclass(name = "TensorType", module = "torch._C", extends = JitType, frozen)]
pub struct TensorType;

#[pymethods]
impl TensorType {
    #[staticmethod]
    fn get(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        to_py(py, &Type::Tensor)
    }

    #[staticmethod]
    #[pyo3(name = "getInferred")]
    fn get_inferred(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        to_py(py, &Type::Tensor)
    }
}

/// Classes of the types around one other type.
macro_rules! wrappers {
    ($($class:ident = $name:literal, $variant:ident;)*) => {
        $(
            #[doc = concat!("`torch._C.", $name, "`.")]
            #[pyclass(name = $name, module = "torch._C", extends = JitType, frozen)]
            pub struct $class;

            #[pymethods]
            impl $class {
                #[new]
                fn new(element: &Bound<'_, JitType>) -> PyClassInitializer<Self> {
                    let ty = Type::$variant(Box::new(element.get().ty.clone()));
                    PyClassInitializer::from(JitType { ty }).add_subclass($class)
                }

                #[pyo3(name = "getElementType")]
                fn element<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                    match &slf.as_super().get().ty {
                        Type::$variant(element) => to_py(slf.py(), element),
                        other => Err(PyRuntimeError::new_err(format!("{other} has no element type"))),
                    }
                }
            }
        )*
    };
}

wrappers! {
    FutureType = "FutureType", Future;
    AwaitType = "AwaitType", Await;
    RRefType = "RRefType", RRef;
}

/// `torch._C.ListType`.
#[pyclass(name = "ListType", module = "torch._C", extends = JitType, frozen)]
pub struct ListType;

fn list_of(py: Python<'_>, element: Type) -> PyResult<Bound<'_, PyAny>> {
    to_py(py, &Type::List(Box::new(element)))
}

#[pymethods]
impl ListType {
    #[new]
    fn new(element: &Bound<'_, JitType>) -> PyClassInitializer<Self> {
        let ty = Type::List(Box::new(element.get().ty.clone()));
        PyClassInitializer::from(JitType { ty }).add_subclass(ListType)
    }

    #[pyo3(name = "getElementType")]
    fn element<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        slf.as_super().get().contained_types(slf.py())
    }

    #[staticmethod]
    #[pyo3(name = "ofInts")]
    fn ints(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        list_of(py, Type::Int)
    }
    #[staticmethod]
    #[pyo3(name = "ofTensors")]
    fn tensors(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        list_of(py, Type::Tensor)
    }
    #[staticmethod]
    #[pyo3(name = "ofFloats")]
    fn floats(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        list_of(py, Type::Float)
    }
    #[staticmethod]
    #[pyo3(name = "ofComplexDoubles")]
    fn complexes(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        list_of(py, Type::Complex)
    }
    #[staticmethod]
    #[pyo3(name = "ofBools")]
    fn bools(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        list_of(py, Type::Bool)
    }
    #[staticmethod]
    #[pyo3(name = "ofStrings")]
    fn strings(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        list_of(py, Type::Str)
    }
}

/// `torch._C.OptionalType`.
#[pyclass(name = "OptionalType", module = "torch._C", extends = JitType, frozen)]
pub struct OptionalType;

#[pymethods]
impl OptionalType {
    #[new]
    fn new(element: &Bound<'_, JitType>) -> PyClassInitializer<Self> {
        let ty = match &element.get().ty {
            already @ Type::Optional(_) => already.clone(),
            other => Type::Optional(Box::new(other.clone())),
        };
        PyClassInitializer::from(JitType { ty }).add_subclass(OptionalType)
    }

    #[staticmethod]
    #[pyo3(name = "ofTensor")]
    fn tensor(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        to_py(py, &Type::Optional(Box::new(Type::Tensor)))
    }

    #[pyo3(name = "getElementType")]
    fn element<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_py(slf.py(), slf.as_super().get().ty.unwrap_optional())
    }
}

/// `torch._C.DictType`.
#[pyclass(name = "DictType", module = "torch._C", extends = JitType, frozen)]
pub struct DictType;

#[pymethods]
impl DictType {
    #[new]
    fn new(key: &Bound<'_, JitType>, value: &Bound<'_, JitType>) -> PyResult<PyClassInitializer<Self>> {
        let key = key.get().ty.clone();
        let hashable = matches!(
            key,
            Type::Int
                | Type::Bool
                | Type::Float
                | Type::Complex
                | Type::Str
                | Type::Tensor
                | Type::Device
                | Type::Any
        );
        if !hashable {
            return Err(PyRuntimeError::new_err(format!(
                "Cannot create dict for key type '{}', only int, float, complex, Tensor, device and string keys are supported",
                key
            )));
        }
        let ty = Type::Dict(Box::new(key), Box::new(value.get().ty.clone()));
        Ok(PyClassInitializer::from(JitType { ty }).add_subclass(DictType))
    }

    #[pyo3(name = "getKeyType")]
    fn key<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_py(slf.py(), slf.as_super().get().ty.contained()[0])
    }

    #[pyo3(name = "getValueType")]
    fn value<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_py(slf.py(), slf.as_super().get().ty.contained()[1])
    }
}

/// `torch._C.TupleType`.
#[pyclass(name = "TupleType", module = "torch._C", extends = JitType, frozen)]
pub struct TupleType;

fn models(items: &[Bound<'_, JitType>]) -> Vec<Type> {
    items.iter().map(|item| item.get().ty.clone()).collect()
}

#[pymethods]
impl TupleType {
    #[new]
    fn new(items: Vec<Bound<'_, JitType>>) -> PyClassInitializer<Self> {
        PyClassInitializer::from(JitType { ty: Type::Tuple(models(&items)) }).add_subclass(TupleType)
    }

    fn elements<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        slf.as_super().get().contained_types(slf.py())
    }
}

/// `torch._C.UnionType`.
#[pyclass(name = "UnionType", module = "torch._C", extends = JitType, frozen)]
pub struct UnionType;

#[pymethods]
impl UnionType {
    #[new]
    fn new(items: Vec<Bound<'_, JitType>>) -> PyClassInitializer<Self> {
        let mut flat: Vec<Type> = Vec::new();
        for item in models(&items) {
            match item {
                Type::Union(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        flat.sort_by_key(annotation);
        flat.dedup();
        PyClassInitializer::from(JitType { ty: Type::Union(flat) }).add_subclass(UnionType)
    }
}

/// The Python object of a type, of the class that its kind has.
pub fn to_py<'py>(py: Python<'py>, ty: &Type) -> PyResult<Bound<'py, PyAny>> {
    if let Some(found) = singleton(py, ty) {
        return found;
    }
    let base = PyClassInitializer::from(JitType { ty: ty.clone() });
    Ok(match ty {
        Type::Tensor => {
            static INSTANCE: pyo3::sync::PyOnceLock<Py<TensorType>> = pyo3::sync::PyOnceLock::new();
            INSTANCE
                .get_or_try_init(py, || Py::new(py, base.add_subclass(TensorType)))?
                .bind(py)
                .clone()
                .into_any()
        }
        Type::List(_) => Bound::new(py, base.add_subclass(ListType))?.into_any(),
        Type::Optional(_) => Bound::new(py, base.add_subclass(OptionalType))?.into_any(),
        Type::Dict(..) => Bound::new(py, base.add_subclass(DictType))?.into_any(),
        Type::Tuple(_) => Bound::new(py, base.add_subclass(TupleType))?.into_any(),
        Type::Union(_) => Bound::new(py, base.add_subclass(UnionType))?.into_any(),
        Type::Future(_) => Bound::new(py, base.add_subclass(FutureType))?.into_any(),
        Type::Await(_) => Bound::new(py, base.add_subclass(AwaitType))?.into_any(),
        Type::RRef(_) => Bound::new(py, base.add_subclass(RRefType))?.into_any(),
        _ => Bound::new(py, base)?.into_any(),
    })
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JitType>()?;
    add_singletons(module)?;
    module.add_class::<TensorType>()?;
    module.add_class::<ListType>()?;
    module.add_class::<OptionalType>()?;
    module.add_class::<DictType>()?;
    module.add_class::<TupleType>()?;
    module.add_class::<UnionType>()?;
    module.add_class::<FutureType>()?;
    module.add_class::<AwaitType>()?;
    module.add_class::<RRefType>()
}
