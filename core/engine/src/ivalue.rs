//! `IValue`: one argument or result of a boxed operator call, and `Stack`, a list of them.

use crate::{DType, Device, Layout, MemoryFormat, Result, Scalar, Storage, Tensor, bail};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// A short list of integers: sizes, strides, dimensions.
pub type IntList = SmallVec<[i64; 6]>;
/// Arguments, then results, of a boxed call.
pub type Stack = SmallVec<[IValue; 10]>;

/// One value of a boxed call.
#[derive(Clone, Default)]
pub enum IValue {
    #[default]
    None,
    Tensor(Tensor),
    Int(i64),
    Bool(bool),
    Double(f64),
    /// A number too wide for `Int` and `Double`: complex, or above `i64::MAX`.
    Scalar(Scalar),
    Str(Arc<str>),
    IntList(IntList),
    DoubleList(Vec<f64>),
    BoolList(Vec<bool>),
    TensorList(Vec<Tensor>),
    /// `Tensor?[]`
    OptTensorList(Vec<Option<Tensor>>),
    ScalarList(Vec<Scalar>),
    DType(DType),
    Layout(Layout),
    Device(Device),
    MemoryFormat(MemoryFormat),
    Generator(crate::Generator),
    Storage(Storage),
    /// A tuple or a list of anything else.
    List(Vec<IValue>),
    /// An object of the host language that only passes through.
    Opaque(Arc<dyn Any + Send + Sync>),
}

impl IValue {
    pub fn is_none(&self) -> bool {
        matches!(self, IValue::None)
    }
    /// The kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            IValue::None => "None",
            IValue::Tensor(_) => "Tensor",
            IValue::Int(_) => "int",
            IValue::Bool(_) => "bool",
            IValue::Double(_) => "float",
            IValue::Scalar(_) => "Scalar",
            IValue::Str(_) => "str",
            IValue::IntList(_) => "List[int]",
            IValue::DoubleList(_) => "List[float]",
            IValue::BoolList(_) => "List[bool]",
            IValue::TensorList(_) => "List[Tensor]",
            IValue::OptTensorList(_) => "List[Optional[Tensor]]",
            IValue::ScalarList(_) => "List[Scalar]",
            IValue::DType(_) => "ScalarType",
            IValue::Layout(_) => "Layout",
            IValue::Device(_) => "Device",
            IValue::MemoryFormat(_) => "MemoryFormat",
            IValue::Generator(_) => "Generator",
            IValue::Storage(_) => "Storage",
            IValue::List(_) => "List",
            IValue::Opaque(_) => "PyObject",
        }
    }
    #[cold]
    fn mismatch<T>(&self, want: &str) -> Result<T> {
        bail!(Internal, "expected {want} in a boxed call but found {}", self.kind())
    }
    pub fn tensor(&self) -> Result<&Tensor> {
        match self {
            IValue::Tensor(t) => Ok(t),
            other => other.mismatch("Tensor"),
        }
    }
    pub fn opt_tensor(&self) -> Option<&Tensor> {
        match self {
            IValue::Tensor(t) => Some(t),
            _ => None,
        }
    }
    pub fn int(&self) -> Result<i64> {
        match self {
            IValue::Int(v) => Ok(*v),
            IValue::Bool(v) => Ok(*v as i64),
            other => other.mismatch("int"),
        }
    }
    pub fn opt_int(&self) -> Result<Option<i64>> {
        if self.is_none() { Ok(None) } else { self.int().map(Some) }
    }
    pub fn bool(&self) -> Result<bool> {
        match self {
            IValue::Bool(v) => Ok(*v),
            IValue::Int(v) => Ok(*v != 0),
            other => other.mismatch("bool"),
        }
    }
    pub fn double(&self) -> Result<f64> {
        match self {
            IValue::Double(v) => Ok(*v),
            IValue::Int(v) => Ok(*v as f64),
            IValue::Bool(v) => Ok(*v as i64 as f64),
            other => other.mismatch("float"),
        }
    }
    pub fn opt_double(&self) -> Result<Option<f64>> {
        if self.is_none() { Ok(None) } else { self.double().map(Some) }
    }
    pub fn scalar(&self) -> Result<Scalar> {
        match self {
            IValue::Int(v) => Ok(Scalar::Int(*v)),
            IValue::Bool(v) => Ok(Scalar::Bool(*v)),
            IValue::Double(v) => Ok(Scalar::Float(*v)),
            IValue::Scalar(s) => Ok(*s),
            other => other.mismatch("Scalar"),
        }
    }
    pub fn opt_scalar(&self) -> Result<Option<Scalar>> {
        if self.is_none() { Ok(None) } else { self.scalar().map(Some) }
    }
    pub fn str(&self) -> Result<&str> {
        match self {
            IValue::Str(s) => Ok(s),
            other => other.mismatch("str"),
        }
    }
    pub fn opt_str(&self) -> Option<&str> {
        match self {
            IValue::Str(s) => Some(s),
            _ => None,
        }
    }
    pub fn int_list(&self) -> Result<&[i64]> {
        match self {
            IValue::IntList(v) => Ok(v),
            IValue::List(v) if v.is_empty() => Ok(&[]),
            other => other.mismatch("List[int]"),
        }
    }
    pub fn opt_int_list(&self) -> Result<Option<&[i64]>> {
        if self.is_none() { Ok(None) } else { self.int_list().map(Some) }
    }
    pub fn double_list(&self) -> Result<&[f64]> {
        match self {
            IValue::DoubleList(v) => Ok(v),
            IValue::List(v) if v.is_empty() => Ok(&[]),
            other => other.mismatch("List[float]"),
        }
    }
    pub fn bool_list(&self) -> Result<&[bool]> {
        match self {
            IValue::BoolList(v) => Ok(v),
            IValue::List(v) if v.is_empty() => Ok(&[]),
            other => other.mismatch("List[bool]"),
        }
    }
    pub fn tensor_list(&self) -> Result<&[Tensor]> {
        match self {
            IValue::TensorList(v) => Ok(v),
            IValue::List(v) if v.is_empty() => Ok(&[]),
            other => other.mismatch("List[Tensor]"),
        }
    }
    /// `Tensor?[]`, or a plain list of tensors.
    pub fn opt_tensor_list(&self) -> Result<Vec<Option<&Tensor>>> {
        match self {
            IValue::OptTensorList(v) => Ok(v.iter().map(Option::as_ref).collect()),
            IValue::TensorList(v) => Ok(v.iter().map(Some).collect()),
            IValue::List(v) if v.is_empty() => Ok(Vec::new()),
            other => other.mismatch("List[Optional[Tensor]]"),
        }
    }
    pub fn opt_dtype(&self) -> Result<Option<DType>> {
        match self {
            IValue::None => Ok(None),
            IValue::DType(d) => Ok(Some(*d)),
            IValue::Int(n) => match DType::from_number(*n) {
                Some(d) => Ok(Some(d)),
                None => bail!(Runtime, "{n} is not a ScalarType"),
            },
            other => other.mismatch("ScalarType"),
        }
    }
    pub fn opt_device(&self) -> Option<Device> {
        match self {
            IValue::Device(d) => Some(*d),
            _ => None,
        }
    }
    pub fn opt_layout(&self) -> Option<Layout> {
        match self {
            IValue::Layout(l) => Some(*l),
            _ => None,
        }
    }
    pub fn opt_memory_format(&self) -> Option<MemoryFormat> {
        match self {
            IValue::MemoryFormat(m) => Some(*m),
            _ => None,
        }
    }
    pub fn opt_generator(&self) -> Option<&crate::Generator> {
        match self {
            IValue::Generator(g) => Some(g),
            _ => None,
        }
    }
    /// Calls `f` with every tensor inside.
    #[inline]
    pub fn for_each_tensor(&self, f: &mut impl FnMut(&Tensor)) {
        match self {
            IValue::Tensor(t) => f(t),
            IValue::TensorList(v) => v.iter().for_each(f),
            IValue::OptTensorList(v) => v.iter().flatten().for_each(f),
            IValue::List(v) => v.iter().for_each(|x| x.for_each_tensor(f)),
            _ => {}
        }
    }
}

macro_rules! from {
    ($($t:ty, $v:ident => $e:expr;)*) => {$(
        impl From<$t> for IValue { fn from($v: $t) -> IValue { $e } }
    )*};
}
from! {
    Tensor, t => IValue::Tensor(t);
    &Tensor, t => IValue::Tensor(t.clone());
    Option<Tensor>, t => t.map_or(IValue::None, IValue::Tensor);
    Option<&Tensor>, t => t.map_or(IValue::None, |t| IValue::Tensor(t.clone()));
    i64, v => IValue::Int(v);
    i32, v => IValue::Int(v as i64);
    usize, v => IValue::Int(v as i64);
    bool, v => IValue::Bool(v);
    f64, v => IValue::Double(v);
    Scalar, s => match s {
        Scalar::Bool(v) => IValue::Bool(v),
        Scalar::Int(v) => IValue::Int(v),
        Scalar::Float(v) => IValue::Double(v),
        other => IValue::Scalar(other),
    };
    &str, s => IValue::Str(s.into());
    &[i64], v => IValue::IntList(IntList::from_slice(v));
    IntList, v => IValue::IntList(v);
    Vec<i64>, v => IValue::IntList(IntList::from_vec(v));
    &[Tensor], v => IValue::TensorList(v.to_vec());
    Vec<Tensor>, v => IValue::TensorList(v);
    Vec<Option<Tensor>>, v => IValue::OptTensorList(v);
    DType, d => IValue::DType(d);
    Device, d => IValue::Device(d);
    Layout, l => IValue::Layout(l);
    MemoryFormat, m => IValue::MemoryFormat(m);
    Option<DType>, d => d.map_or(IValue::None, IValue::DType);
    Option<i64>, d => d.map_or(IValue::None, IValue::Int);
    Option<f64>, d => d.map_or(IValue::None, IValue::Double);
    Option<bool>, d => d.map_or(IValue::None, IValue::Bool);
    Option<Device>, d => d.map_or(IValue::None, IValue::Device);
    Option<Layout>, d => d.map_or(IValue::None, IValue::Layout);
    Option<MemoryFormat>, d => d.map_or(IValue::None, IValue::MemoryFormat);
    Option<Scalar>, d => d.map_or(IValue::None, IValue::from);
    Option<&[i64]>, d => d.map_or(IValue::None, IValue::from);
    Option<crate::Generator>, d => d.map_or(IValue::None, IValue::Generator);
    (), _d => IValue::None;
}
impl<const N: usize> From<[i64; N]> for IValue {
    fn from(v: [i64; N]) -> IValue {
        IValue::IntList(IntList::from_slice(&v))
    }
}

/// The arguments of an operator, in schema order with defaults filled in; read by position.
#[derive(Clone, Copy)]
pub struct Args<'a>(pub &'a [IValue]);

macro_rules! args {
    ($($name:ident -> $t:ty;)*) => {
        impl<'a> Args<'a> {$(
            #[doc = concat!("`", stringify!($name), "` of argument `i`.")]
            #[inline]
            pub fn $name(&self, i: usize) -> $t { self.0[i].$name() }
        )*}
    };
}
args! {
    tensor -> Result<&'a Tensor>;
    opt_tensor -> Option<&'a Tensor>;
    int -> Result<i64>;
    opt_int -> Result<Option<i64>>;
    bool -> Result<bool>;
    double -> Result<f64>;
    opt_double -> Result<Option<f64>>;
    scalar -> Result<Scalar>;
    opt_scalar -> Result<Option<Scalar>>;
    str -> Result<&'a str>;
    opt_str -> Option<&'a str>;
    int_list -> Result<&'a [i64]>;
    opt_int_list -> Result<Option<&'a [i64]>>;
    double_list -> Result<&'a [f64]>;
    bool_list -> Result<&'a [bool]>;
    tensor_list -> Result<&'a [Tensor]>;
    opt_tensor_list -> Result<Vec<Option<&'a Tensor>>>;
    opt_dtype -> Result<Option<DType>>;
    opt_device -> Option<Device>;
    opt_layout -> Option<Layout>;
    opt_memory_format -> Option<MemoryFormat>;
    opt_generator -> Option<&'a crate::Generator>;
}
impl Args<'_> {
    pub fn is_none(&self, i: usize) -> bool {
        self.0[i].is_none()
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
