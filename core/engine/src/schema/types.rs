//! The types of schema arguments.

use std::fmt;

/// The type of an argument or return, as written. Upstream calls it the real type; [`Type::fake`] is the one
/// its interpreter sees, where sizes and enumerations are integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Tensor,
    Int,
    SymInt,
    Float,
    Bool,
    SymBool,
    Complex,
    /// `Scalar`: int, float, bool or complex.
    Scalar,
    Str,
    ScalarType,
    Layout,
    MemoryFormat,
    Device,
    Generator,
    Storage,
    Stream,
    QScheme,
    Quantizer,
    None,
    Any,
    AnyEnum,
    AnyClass,
    Capsule,
    Optional(Box<Type>),
    List(Box<Type>),
    Tuple(Vec<Type>),
    Dict(Box<Type>, Box<Type>),
    Union(Vec<Type>),
    Future(Box<Type>),
    Await(Box<Type>),
    RRef(Box<Type>),
    /// A registered class: `__torch__.torch.classes.quantized.LinearPackedParamsBase`.
    Class(String),
    /// A type variable: any other word that starts in lower case, such as `t`.
    Var(String),
}

impl Type {
    /// The type of this name, of those that take no parameters and are no variables.
    pub(super) fn named(word: &str) -> Option<Type> {
        Some(match word {
            "Tensor" => Type::Tensor,
            // Upstream keeps these two as plain integers.
            "int" | "DeviceIndex" | "ConstQuantizerPtr" => Type::Int,
            "SymInt" => Type::SymInt,
            "float" => Type::Float,
            "bool" => Type::Bool,
            "SymBool" => Type::SymBool,
            "complex" => Type::Complex,
            "Scalar" => Type::Scalar,
            "str" => Type::Str,
            "ScalarType" => Type::ScalarType,
            "Layout" => Type::Layout,
            "MemoryFormat" => Type::MemoryFormat,
            "Device" => Type::Device,
            "Generator" => Type::Generator,
            "Storage" => Type::Storage,
            "Stream" => Type::Stream,
            "QScheme" => Type::QScheme,
            "Quantizer" => Type::Quantizer,
            "None" | "NoneType" => Type::None,
            "Any" => Type::Any,
            "AnyEnumType" => Type::AnyEnum,
            "AnyClassType" => Type::AnyClass,
            "Capsule" => Type::Capsule,
            _ => return None,
        })
    }

    /// The name of a type without parts.
    fn simple_name(&self) -> &str {
        match self {
            Type::Tensor => "Tensor",
            Type::Int => "int",
            Type::SymInt => "SymInt",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::SymBool => "SymBool",
            Type::Complex => "complex",
            Type::Scalar => "Scalar",
            Type::Str => "str",
            Type::ScalarType => "ScalarType",
            Type::Layout => "Layout",
            Type::MemoryFormat => "MemoryFormat",
            Type::Device => "Device",
            Type::Generator => "Generator",
            Type::Storage => "Storage",
            Type::Stream => "Stream",
            Type::QScheme => "QScheme",
            Type::Quantizer => "Quantizer",
            Type::None => "NoneType",
            Type::Any => "Any",
            Type::AnyEnum => "AnyEnumType",
            Type::AnyClass => "AnyClassType",
            Type::Capsule => "Capsule",
            Type::Class(name) | Type::Var(name) => name,
            Type::Optional(_) => "Optional",
            Type::List(_) => "List",
            Type::Tuple(_) => "Tuple",
            Type::Dict(..) => "Dict",
            Type::Union(_) => "Union",
            Type::Future(_) => "Future",
            Type::Await(_) => "Await",
            Type::RRef(_) => "RRef",
        }
    }

    /// What upstream's `Type.kind()` answers.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Type::Tensor => "TensorType",
            Type::Int => "IntType",
            Type::SymInt => "SymIntType",
            Type::Float => "FloatType",
            Type::Bool => "BoolType",
            Type::SymBool => "SymBoolType",
            Type::Complex => "ComplexType",
            Type::Scalar => "NumberType",
            Type::Str => "StringType",
            Type::ScalarType => "ScalarTypeType",
            Type::Layout => "LayoutType",
            Type::MemoryFormat => "MemoryFormatType",
            Type::Device => "DeviceObjType",
            Type::Generator => "GeneratorType",
            Type::Storage => "StorageType",
            Type::Stream => "StreamObjType",
            Type::QScheme => "QSchemeType",
            Type::Quantizer => "QuantizerType",
            Type::None => "NoneType",
            Type::Any => "AnyType",
            Type::AnyEnum => "AnyEnumType",
            Type::AnyClass => "AnyClassType",
            Type::Capsule => "CapsuleType",
            Type::Optional(_) => "OptionalType",
            Type::List(_) => "ListType",
            Type::Tuple(_) => "TupleType",
            Type::Dict(..) => "DictType",
            Type::Union(_) => "UnionType",
            Type::Future(_) => "FutureType",
            Type::Await(_) => "AwaitType",
            Type::RRef(_) => "RRefType",
            Type::Class(_) => "ClassType",
            Type::Var(_) => "VarType",
        }
    }

    /// The type as the TorchScript interpreter sees it: `SymInt`, `ScalarType`, `Layout` and `MemoryFormat` are `int`.
    pub fn fake(&self) -> Type {
        let boxed = |t: &Type| Box::new(t.fake());
        match self {
            Type::SymInt | Type::ScalarType | Type::Layout | Type::MemoryFormat => Type::Int,
            Type::Optional(t) => Type::Optional(boxed(t)),
            Type::List(t) => Type::List(boxed(t)),
            Type::Tuple(ts) => Type::Tuple(ts.iter().map(Type::fake).collect()),
            Type::Union(ts) => Type::Union(ts.iter().map(Type::fake).collect()),
            Type::Dict(k, v) => Type::Dict(boxed(k), boxed(v)),
            Type::Future(t) => Type::Future(boxed(t)),
            Type::Await(t) => Type::Await(boxed(t)),
            Type::RRef(t) => Type::RRef(boxed(t)),
            other => other.clone(),
        }
    }

    /// The types this one is made of.
    pub fn contained(&self) -> Vec<&Type> {
        match self {
            Type::Optional(t) | Type::List(t) | Type::Future(t) | Type::Await(t) | Type::RRef(t) => vec![t],
            Type::Tuple(ts) | Type::Union(ts) => ts.iter().collect(),
            Type::Dict(k, v) => vec![k, v],
            _ => Vec::new(),
        }
    }

    /// The type inside an optional, or the type itself.
    pub fn unwrap_optional(&self) -> &Type {
        match self {
            Type::Optional(t) => t,
            other => other,
        }
    }

    pub fn is_optional(&self) -> bool {
        matches!(self, Type::Optional(_))
    }

    /// The element type of a list or an optional list.
    pub fn list_element(&self) -> Option<&Type> {
        match self.unwrap_optional() {
            Type::List(t) => Some(t),
            _ => None,
        }
    }

    /// A tensor, an optional tensor, or a list of either.
    pub fn holds_tensors(&self) -> bool {
        match self {
            Type::Tensor => true,
            Type::Optional(t) | Type::List(t) => t.holds_tensors(),
            _ => false,
        }
    }

    /// The type in Python's notation, `Optional[List[int]]`: upstream's `annotation_str`.
    pub fn annotation(&self) -> String {
        let of = |t: &Type| t.annotation();
        let all = |ts: &[Type]| ts.iter().map(Type::annotation).collect::<Vec<_>>().join(", ");
        match self {
            Type::SymInt => "int".into(),
            Type::SymBool => "bool".into(),
            Type::Scalar => "number".into(),
            Type::Optional(t) | Type::List(t) | Type::Future(t) | Type::Await(t) | Type::RRef(t) => {
                format!("{}[{}]", self.simple_name(), of(t))
            }
            Type::Tuple(ts) | Type::Union(ts) => format!("{}[{}]", self.simple_name(), all(ts)),
            Type::Dict(k, v) => format!("Dict[{}, {}]", of(k), of(v)),
            other => other.simple_name().into(),
        }
    }
}

fn write_all(f: &mut fmt::Formatter<'_>, types: &[Type]) -> fmt::Result {
    for (i, t) in types.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{t}")?;
    }
    Ok(())
}

/// The type in schema notation, `int[]?`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Optional(t) => write!(f, "{t}?"),
            Type::List(t) => write!(f, "{t}[]"),
            Type::Tuple(ts) => {
                f.write_str("(")?;
                write_all(f, ts)?;
                f.write_str(")")
            }
            Type::Union(ts) => {
                f.write_str("Union(")?;
                write_all(f, ts)?;
                f.write_str(")")
            }
            Type::Dict(k, v) => write!(f, "Dict({k}, {v})"),
            Type::Future(t) | Type::Await(t) | Type::RRef(t) => write!(f, "{}({t})", self.simple_name()),
            other => f.write_str(other.simple_name()),
        }
    }
}
