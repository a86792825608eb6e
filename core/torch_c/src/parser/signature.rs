//! One signature: its parameters, and where the operator's arguments come from.

use torchnative_engine::ivalue::IntList;
use torchnative_engine::{DType, Device, IValue, MemoryFormat, OpId, generated};

/// What a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Tensor,
    Scalar,
    Int,
    Double,
    Bool,
    Str,
    IntList,
    DoubleList,
    TensorList,
    OptTensorList,
    ScalarList,
    BoolList,
    DType,
    Layout,
    Device,
    Generator,
    MemoryFormat,
    Stream,
    Storage,
    Object,
}

/// A parameter of a signature.
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    /// As upstream's messages print the type.
    pub type_name: &'static str,
    /// `IntArrayRef[2]`: a single int stands for this many.
    pub len: usize,
    pub allow_none: bool,
    pub keyword_only: bool,
    /// Absent when the parameter is required.
    pub default: Option<IValue>,
    pub default_text: Option<&'static str>,
}

/// Where an operator's argument comes from.
pub enum Source {
    Parameter(usize),
    Element(usize, usize),
    SelfTensor,
    Constant(IValue),
    SchemaDefault,
    /// The parameter, or this dtype when None.
    DTypeOr(usize, DType),
    /// The parameter, or the default device when None.
    DeviceOrDefault(usize),
}

/// An operator with the sources of its arguments.
pub struct Target {
    pub op: OpId,
    pub sources: Vec<Source>,
    pub return_type: Option<&'static str>,
}

/// What a signature takes.
pub struct Parameters {
    pub parameters: Vec<Parameter>,
    /// How many of them may be given by position.
    pub positional: usize,
    /// Tried last, and not named in messages.
    pub deprecated: bool,
}

impl Parameters {
    /// Parses `name(int64_t a, *, bool b=False)`.
    pub(super) fn parse(text: &'static str, deprecated: bool) -> Option<Parameters> {
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let (mut parameters, mut positional, mut keyword_only) = (Vec::new(), 0, false);
        for part in split(&text[open + 1..close]) {
            if part == "*" {
                keyword_only = true;
                continue;
            }
            if !keyword_only {
                positional += 1;
            }
            parameters.push(parameter(part, keyword_only)?);
        }
        Some(Parameters { parameters, positional, deprecated })
    }
}

/// A parsed line of the table.
pub struct Signature {
    takes: Parameters,
    pub target: Target,
    pub out_target: Option<Target>,
    /// Position of the `out` parameter.
    pub out: Option<usize>,
    pub reflected: bool,
    pub returns_first: bool,
    /// The last five parameters are the tensor options; the position of `requires_grad`.
    pub requires_grad: Option<usize>,
}

impl std::ops::Deref for Signature {
    type Target = Parameters;
    fn deref(&self) -> &Parameters {
        &self.takes
    }
}

impl Signature {
    pub(super) fn parse(line: &'static str) -> Option<Signature> {
        let c: Vec<&'static str> = line.split('\t').collect();
        let (text, flags) = (c[1], c[2]);
        let takes = Parameters::parse(text, flags.contains('d'))?;
        let parameters = &takes.parameters;
        let target = target(c[3], c[4], c[5])?;
        let out_target = if c[6] == "-" { None } else { Some(target_of(c[6], c[7], c[8])?) };
        let out = parameters.iter().position(|p| p.name == "out");
        let requires_grad =
            flags.contains('g').then(|| parameters.iter().position(|p| p.name == "requires_grad")).flatten();
        Some(Signature {
            takes,
            target,
            out_target,
            out,
            reflected: flags.contains('r'),
            returns_first: flags.contains('l'),
            requires_grad,
        })
    }
}

fn target_of(op: &'static str, sources: &'static str, ret: &'static str) -> Option<Target> {
    target(op, sources, ret)
}

fn target(op: &'static str, sources: &'static str, ret: &'static str) -> Option<Target> {
    let id = generated::find(op)?;
    let sources = if sources == "-" || sources.is_empty() {
        Vec::new()
    } else {
        sources.split(',').map(source).collect::<Option<Vec<_>>>()?
    };
    Some(Target { op: id, sources, return_type: (ret != "-").then_some(ret) })
}

fn source(word: &'static str) -> Option<Source> {
    Some(match word {
        "s" => Source::SelfTensor,
        "_" => Source::SchemaDefault,
        w if w.starts_with('=') => Source::Constant(constant(&w[1..])),
        w => {
            if let Some((n, d)) = w.split_once(':') {
                let n = n.parse().ok()?;
                return Some(match d {
                    "default_device" => Source::DeviceOrDefault(n),
                    "long" => Source::DTypeOr(n, DType::Long),
                    other => Source::DTypeOr(n, DType::from_torch_name(other)?),
                });
            }
            if let Some((n, k)) = w.split_once('.') {
                return Some(Source::Element(n.parse().ok()?, k.parse().ok()?));
            }
            Source::Parameter(w.parse().ok()?)
        }
    })
}

fn constant(text: &str) -> IValue {
    match text {
        "True" | "true" => IValue::Bool(true),
        "False" | "false" => IValue::Bool(false),
        "None" => IValue::None,
        t => t
            .parse::<i64>()
            .map(IValue::Int)
            .or_else(|_| t.parse::<f64>().map(IValue::Double))
            .unwrap_or(IValue::None),
    }
}

/// Splits at commas outside of brackets and quotes.
fn split(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut start, mut quoted) = (0, 0, false);
    let mut out = Vec::new();
    for (i, ch) in text.char_indices() {
        match ch {
            '"' | '\'' => quoted = !quoted,
            '{' | '<' | '(' | '[' if !quoted => depth += 1,
            '}' | '>' | ')' | ']' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                out.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        out.push(last);
    }
    out
}

fn parameter(text: &'static str, keyword_only: bool) -> Option<Parameter> {
    let (head, default_text) = match text.split_once('=') {
        Some((h, d)) => (h, Some(d)),
        None => (text, None),
    };
    let (ty, name) = head.rsplit_once(' ')?;
    let (ty, allow_none) = match ty.strip_suffix('?') {
        Some(t) => (t, true),
        None => (ty, false),
    };
    let (kind, type_name, len) = kind(ty)?;
    let default = default_text.map(|d| default(d, kind, len));
    // A default of None makes None acceptable.
    let allow_none = allow_none || matches!(default, Some(IValue::None));
    Some(Parameter { name, kind, type_name, len, allow_none, keyword_only, default, default_text })
}

fn kind(ty: &'static str) -> Option<(Kind, &'static str, usize)> {
    let (base, len) = match ty.strip_suffix(']').and_then(|t| t.rsplit_once('[')) {
        Some((b, n)) => (b, n.parse().ok()?),
        None => (ty, 0),
    };
    Some(match base {
        "Tensor" => (Kind::Tensor, "Tensor", 0),
        "Scalar" => (Kind::Scalar, "Number", 0),
        "int64_t" | "SymInt" | "DeviceIndex" => (Kind::Int, "int", 0),
        "double" => (Kind::Double, "float", 0),
        "bool" => (Kind::Bool, "bool", 0),
        "c10::string_view" => (Kind::Str, "str", 0),
        "IntArrayRef" | "SymIntArrayRef" => (Kind::IntList, "tuple of ints", len),
        "ArrayRef<double>" => (Kind::DoubleList, "tuple of floats", len),
        "TensorList" => (Kind::TensorList, "tuple of Tensors", len),
        "c10::List<::std::optional<Tensor>>" => (Kind::OptTensorList, "tuple of Tensors", len),
        "ScalarList" | "ArrayRef<Scalar>" => (Kind::ScalarList, "tuple of Scalars", len),
        "ScalarType" => (Kind::DType, "torch.dtype", 0),
        "Layout" => (Kind::Layout, "torch.layout", 0),
        "Device" => (Kind::Device, "torch.device", 0),
        "Generator" => (Kind::Generator, "torch.Generator", 0),
        "MemoryFormat" => (Kind::MemoryFormat, "torch.memory_format", 0),
        "Stream" => (Kind::Stream, "Stream", 0),
        "Storage" => (Kind::Storage, "torch.Storage", 0),
        "PyObject" => (Kind::Object, "object", 0),
        b if b.starts_with("::std::array<bool") => (Kind::BoolList, "tuple of bools", 0),
        _ => return None,
    })
}

fn default(text: &'static str, kind: Kind, len: usize) -> IValue {
    let braces = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
    let ints =
        || -> IntList { braces.unwrap_or(text).split(',').filter_map(|x| x.trim().parse().ok()).collect() };
    match (text, kind) {
        ("None" | "nullptr" | "::std::nullopt", _) => IValue::None,
        ("True" | "true", _) => IValue::Bool(true),
        ("False" | "false", _) => IValue::Bool(false),
        (_, Kind::IntList) => match braces {
            Some(_) => IValue::IntList(ints()),
            None => text.parse().map_or(IValue::None, |v| IValue::IntList(IntList::from_elem(v, len.max(1)))),
        },
        (_, Kind::DoubleList) => IValue::DoubleList(
            braces.unwrap_or(text).split(',').filter_map(|x| x.trim().parse().ok()).collect(),
        ),
        (_, Kind::Double) => text.parse().map_or(IValue::None, IValue::Double),
        (_, Kind::Str) => IValue::Str(text.trim_matches(['"', '\'']).into()),
        ("at::Reduction::None", _) => IValue::Int(0),
        ("at::Reduction::Mean", _) => IValue::Int(1),
        ("at::Reduction::Sum", _) => IValue::Int(2),
        ("c10::MemoryFormat::Contiguous", _) => IValue::MemoryFormat(MemoryFormat::Contiguous),
        ("c10::MemoryFormat::Preserve", _) => IValue::MemoryFormat(MemoryFormat::Preserve),
        (t, Kind::Device) => Device::parse(t.trim_matches('"')).map_or(IValue::None, IValue::Device),
        (t, Kind::DType) => {
            let name = t.rsplit("::").next().unwrap_or(t).trim_start_matches('k');
            DType::ALL
                .iter()
                .find(|d| d.scalar_type_name() == name)
                .map_or(IValue::None, |d| IValue::DType(*d))
        }
        (t, _) => constant(t),
    }
}
