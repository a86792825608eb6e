//! Evaluating formulas.

use super::Formula;
use super::parse::{Expr, parse};
use super::{helpers, resolve};
use crate::autograd::{Grads, Node, TypeAndSize};
use crate::ivalue::{IValue, IntList};
use crate::{DType, Device, Layout, Result, Scalar, Tensor, bail, op};
use std::sync::Arc;

/// A value of a formula.
#[derive(Clone)]
pub enum Value {
    I(IValue),
    /// `self.options()`
    Options(DType, Layout, Device),
    /// What a tensor looked like (`self_info`, `grad_output_info`).
    Info(Arc<TypeAndSize>),
    Tuple(Vec<Value>),
}

impl<T: Into<IValue>> From<T> for Value {
    fn from(v: T) -> Value {
        Value::I(v.into())
    }
}

impl Value {
    pub const UNDEFINED: Value = Value::I(IValue::None);

    pub fn into_opt_tensor(self) -> Result<Option<Tensor>> {
        match self {
            Value::I(IValue::Tensor(t)) => Ok(Some(t)),
            Value::I(IValue::None) => Ok(None),
            other => other.mismatch("a tensor"),
        }
    }
    pub fn into_opt_tensors(self) -> Result<Vec<Option<Tensor>>> {
        match self {
            Value::I(IValue::TensorList(v)) => Ok(v.into_iter().map(Some).collect()),
            Value::I(IValue::OptTensorList(v)) => Ok(v),
            Value::I(IValue::None) => Ok(Vec::new()),
            Value::I(IValue::Tensor(t)) => Ok(vec![Some(t)]),
            Value::Tuple(v) => v.into_iter().map(Value::into_opt_tensor).collect(),
            other => other.mismatch("a list of tensors"),
        }
    }
    pub fn into_tuple(self, n: usize) -> Result<Vec<Value>> {
        match self {
            Value::Tuple(v) if v.len() >= n => Ok(v),
            Value::I(IValue::None) => Ok(vec![Value::UNDEFINED; n]),
            Value::I(IValue::TensorList(v)) if v.len() >= n => Ok(v.into_iter().map(Value::from).collect()),
            Value::I(IValue::OptTensorList(v)) if v.len() >= n => {
                Ok(v.into_iter().map(|t| Value::I(t.map_or(IValue::None, IValue::Tensor))).collect())
            }
            other => other.mismatch(&format!("{n} results")),
        }
    }
    pub fn tensor(&self) -> Result<&Tensor> {
        match self {
            Value::I(IValue::Tensor(t)) => Ok(t),
            other => other.mismatch("a tensor"),
        }
    }
    pub fn opt_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::I(IValue::Tensor(t)) => Some(t),
            _ => None,
        }
    }
    pub fn ivalue(&self) -> Result<&IValue> {
        match self {
            Value::I(v) => Ok(v),
            other => other.mismatch("a value"),
        }
    }
    pub fn is_defined(&self) -> bool {
        !matches!(self, Value::I(IValue::None))
    }
    pub fn int(&self) -> Result<i64> {
        self.ivalue()?.int()
    }
    pub fn double(&self) -> Result<f64> {
        match self {
            Value::I(IValue::Scalar(s)) => Ok(s.to_f64()),
            other => other.ivalue()?.double(),
        }
    }
    pub fn boolean(&self) -> Result<bool> {
        match self {
            Value::I(IValue::Tensor(t)) => Ok(helpers::item(t)?.to_bool()),
            other => other.ivalue()?.bool(),
        }
    }
    pub fn scalar(&self) -> Result<Scalar> {
        self.ivalue()?.scalar()
    }
    pub fn ints(&self) -> Result<IntList> {
        match self {
            Value::I(IValue::Int(v)) => Ok(IntList::from_elem(*v, 1)),
            other => Ok(IntList::from_slice(other.ivalue()?.int_list()?)),
        }
    }
    pub fn opt_ints(&self) -> Result<Option<IntList>> {
        if self.is_defined() { self.ints().map(Some) } else { Ok(None) }
    }
    pub fn dtype(&self) -> Result<DType> {
        match self {
            Value::I(v) => match v.opt_dtype()? {
                Some(d) => Ok(d),
                None => self.mismatch("a dtype"),
            },
            other => other.mismatch("a dtype"),
        }
    }
    fn kind(&self) -> &'static str {
        match self {
            Value::I(v) => v.kind(),
            Value::Options(..) => "TensorOptions",
            Value::Info(_) => "TypeAndSize",
            Value::Tuple(_) => "tuple",
        }
    }
    #[cold]
    pub fn mismatch<T>(&self, want: &str) -> Result<T> {
        bail!(Internal, "expected {want} in a formula but found {}", self.kind())
    }
}

/// The names a formula sees.
pub struct Scope<'a> {
    pub formula: &'a Formula,
    pub node: &'a Arc<Node>,
    pub grads: &'a Grads,
    /// Which of the clause's inputs are wanted.
    pub mask: &'a [bool],
}

fn grad(grads: &Grads, i: usize) -> Value {
    Value::I(grads.get(i).cloned().flatten().map_or(IValue::None, IValue::Tensor))
}

/// A property of an argument, by its expression in the table: `self.scalar_type()`.
///
/// # Errors
/// An expression outside the language.
pub fn property(source: &str, argument: &dyn Fn(&str) -> Option<IValue>) -> Result<Value> {
    evaluate(&parse(source)?, &|name| {
        argument(name).map_or_else(|| bail!(Internal, "{name} is no argument"), |v| Ok(Value::I(v)))
    })
}

impl Scope<'_> {
    fn name(&self, name: &str) -> Result<Value> {
        match name {
            // The first gradient that a formula may see.
            "grad" => return Ok(grad(self.grads, 0)),
            "grads" => {
                return Ok(Value::Tuple((0..self.grads.len()).map(|i| grad(self.grads, i)).collect()));
            }
            "grad_input_mask" => return Ok(Value::I(IValue::BoolList(self.mask.to_vec()))),
            "retain_variables" => {
                return Ok(Value::from(crate::autograd::engine::current().is_some_and(|c| c.keep_graph)));
            }
            _ => {}
        }
        if let Some(i) = self.formula.grad_index(name) {
            return Ok(grad(self.grads, i));
        }
        match self.formula.saved(self.node, name)? {
            Some(v) => Ok(v),
            None if self.formula.derivative.keeps.iter().any(|k| k.name == name) => Ok(Value::UNDEFINED),
            None => bail!(Internal, "a formula uses the unknown name {name}"),
        }
    }

    /// # Errors
    /// What the formula's operators raise.
    pub fn eval(&self, e: &Expr) -> Result<Value> {
        evaluate(e, &|name| self.name(name))
    }
}

type Names<'a> = &'a dyn Fn(&str) -> Result<Value>;

fn evaluate(e: &Expr, names: Names<'_>) -> Result<Value> {
    Ok(match e {
        Expr::Int(v) => Value::from(*v),
        Expr::Float(v) => Value::from(*v),
        Expr::Bool(v) => Value::from(*v),
        Expr::Str(s) => Value::I(IValue::Str(s.as_str().into())),
        Expr::Name(n) if n == "undefined" => Value::UNDEFINED,
        Expr::Name(n) => match constant(n) {
            Some(v) => v,
            None => names(n)?,
        },
        Expr::Braces(items) => braces(items.iter().map(|i| evaluate(i, names)).collect::<Result<Vec<_>>>()?)?,
        Expr::Choice(c, yes, no) => {
            let branch = if evaluate(c, names)?.boolean()? { yes } else { no };
            evaluate(branch, names)?
        }
        Expr::Unary('!', x) => Value::from(!evaluate(x, names)?.boolean()?),
        Expr::Unary(_, x) => negated(evaluate(x, names)?)?,
        Expr::Binary("&&", a, b) => {
            Value::from(evaluate(a, names)?.boolean()? && evaluate(b, names)?.boolean()?)
        }
        Expr::Binary("||", a, b) => {
            Value::from(evaluate(a, names)?.boolean()? || evaluate(b, names)?.boolean()?)
        }
        Expr::Binary(o, a, b) => binary(o, &evaluate(a, names)?, &evaluate(b, names)?)?,
        Expr::Index(x, i) => {
            let i = evaluate(i, names)?.int()? as usize;
            index(&evaluate(x, names)?, i)?
        }
        Expr::Method(x, name, args) => {
            let x = evaluate(x, names)?;
            let mut all = Vec::with_capacity(args.len() + 1);
            all.push(x);
            for a in args {
                all.push(evaluate(a, names)?);
            }
            method(name, all)?
        }
        Expr::Call(name, args) => {
            let args = args.iter().map(|a| evaluate(a, names)).collect::<Result<Vec<_>>>()?;
            match helpers::find(name) {
                Some(f) => f(&args)?,
                None => resolve::call(name, args)?,
            }
        }
    })
}

fn constant(name: &str) -> Option<Value> {
    Some(match name {
        "kJagged" => Value::I(IValue::Layout(Layout::Jagged)),
        "kFloat" => Value::I(IValue::DType(DType::Float)),
        "kBool" => Value::I(IValue::DType(DType::Bool)),
        "M_PI" => Value::from(std::f64::consts::PI),
        "M_LN2" => Value::from(std::f64::consts::LN_2),
        "M_SQRT2" => Value::from(std::f64::consts::SQRT_2),
        "M_2_SQRTPI" => Value::from(std::f64::consts::FRAC_2_SQRT_PI),
        _ => return None,
    })
}

fn braces(items: Vec<Value>) -> Result<Value> {
    match items.first() {
        Some(Value::I(IValue::Bool(_))) => {
            Ok(Value::I(IValue::BoolList(items.iter().map(Value::boolean).collect::<Result<_>>()?)))
        }
        Some(Value::I(IValue::Tensor(_) | IValue::None)) => Ok(Value::I(IValue::OptTensorList(
            items.into_iter().map(Value::into_opt_tensor).collect::<Result<_>>()?,
        ))),
        _ => Ok(Value::I(IValue::IntList(items.iter().map(Value::int).collect::<Result<_>>()?))),
    }
}

fn index(x: &Value, i: usize) -> Result<Value> {
    let found = match x {
        Value::Tuple(v) => v.get(i).cloned(),
        Value::I(IValue::TensorList(v)) => v.get(i).map(Value::from),
        Value::I(IValue::OptTensorList(v)) => {
            v.get(i).map(|t| Value::I(t.clone().map_or(IValue::None, IValue::Tensor)))
        }
        Value::I(IValue::IntList(v)) => v.get(i).map(|n| Value::from(*n)),
        Value::I(IValue::BoolList(v)) => v.get(i).map(|b| Value::from(*b)),
        _ => return x.mismatch("a list"),
    };
    match found {
        Some(v) => Ok(v),
        // A gradient past those that arrived.
        None if matches!(x, Value::Tuple(_)) => Ok(Value::UNDEFINED),
        None => bail!(Internal, "index {i} is out of range in a formula"),
    }
}

pub fn negated(x: Value) -> Result<Value> {
    Ok(match x {
        Value::I(IValue::Tensor(t)) => op::neg.call((&t,))?.into(),
        Value::I(IValue::Int(v)) => Value::from(-v),
        Value::I(IValue::Double(v)) => Value::from(-v),
        Value::I(v) => match v.scalar()? {
            Scalar::Complex(re, im) => Value::from(Scalar::Complex(-re, -im)),
            s => Value::from(-s.to_f64()),
        },
        other => return other.mismatch("a number"),
    })
}

fn binary(o: &str, a: &Value, b: &Value) -> Result<Value> {
    if let (Value::I(IValue::Layout(x)), Value::I(IValue::Layout(y))) = (a, b) {
        return Ok(Value::from((x == y) == (o == "==")));
    }
    if let (Value::I(IValue::Str(x)), Value::I(IValue::Str(y))) = (a, b) {
        return Ok(Value::from((x == y) == (o == "==")));
    }
    if matches!(a, Value::I(IValue::DType(_))) {
        return Ok(Value::from((a.dtype()? == b.dtype()?) == (o == "==")));
    }
    match (a.opt_tensor(), b.opt_tensor()) {
        (None, None) => numbers(o, a.scalar()?, b.scalar()?),
        (Some(x), None) if o == "-" => Ok(op::sub_Scalar.call((x, b.scalar()?))?.into()),
        (None, Some(y)) => {
            let s = a.scalar()?;
            Ok(match o {
                "+" => op::add_Scalar.call((y, s))?,
                "*" => op::mul_Scalar.call((y, s))?,
                "-" => op::rsub_Scalar.call((y, s))?,
                "/" => op::mul_Scalar.call((op::reciprocal.call((y,))?, s))?,
                "<" => op::gt_Scalar.call((y, s))?,
                "<=" => op::ge_Scalar.call((y, s))?,
                ">" => op::lt_Scalar.call((y, s))?,
                ">=" => op::le_Scalar.call((y, s))?,
                "==" => op::eq_Scalar.call((y, s))?,
                "!=" => op::ne_Scalar.call((y, s))?,
                _ => bail!(Internal, "number {o} tensor in a formula"),
            }
            .into())
        }
        _ => {
            let name = match o {
                "+" => "add",
                "-" => "sub",
                "*" => "mul",
                "/" => "div",
                "<" => "lt",
                "<=" => "le",
                ">" => "gt",
                ">=" => "ge",
                "==" => "eq",
                "!=" => "ne",
                "&" => "bitwise_and",
                "|" => "bitwise_or",
                _ => bail!(Internal, "{o} of tensors in a formula"),
            };
            resolve::call(name, vec![a.clone(), b.clone()])
        }
    }
}

/// Arithmetic of numbers, exact in integers and complex where an operand is.
pub fn numbers(o: &str, a: Scalar, b: Scalar) -> Result<Value> {
    use crate::Complex;
    let integral = |s: Scalar| matches!(s, Scalar::Int(_) | Scalar::Bool(_));
    if integral(a) && integral(b) {
        let (x, y) = (a.to_i64(), b.to_i64());
        return Ok(match o {
            "+" => Value::from(x + y),
            "-" => Value::from(x - y),
            "*" => Value::from(x * y),
            "/" if y != 0 => Value::from(x / y),
            "==" => Value::from(x == y),
            "!=" => Value::from(x != y),
            "<" => Value::from(x < y),
            "<=" => Value::from(x <= y),
            ">" => Value::from(x > y),
            ">=" => Value::from(x >= y),
            _ => bail!(Internal, "{o} of integers in a formula"),
        });
    }
    if let (Scalar::Complex(..), _) | (_, Scalar::Complex(..)) = (a, b) {
        let c = |s: Scalar| match s {
            Scalar::Complex(re, im) => Complex::new(re, im),
            s => Complex::new(s.to_f64(), 0.0),
        };
        let (x, y) = (c(a), c(b));
        let r = match o {
            "+" => x + y,
            "-" => x - y,
            "*" => x * y,
            "/" => x / y,
            "==" => return Ok(Value::from(x == y)),
            "!=" => return Ok(Value::from(x != y)),
            _ => bail!(Internal, "{o} of complex numbers in a formula"),
        };
        return Ok(Value::from(Scalar::Complex(r.re, r.im)));
    }
    let (x, y) = (a.to_f64(), b.to_f64());
    Ok(match o {
        "+" => Value::from(x + y),
        "-" => Value::from(x - y),
        "*" => Value::from(x * y),
        "/" => Value::from(x / y),
        "==" => Value::from(x == y),
        "!=" => Value::from(x != y),
        "<" => Value::from(x < y),
        "<=" => Value::from(x <= y),
        ">" => Value::from(x > y),
        ">=" => Value::from(x >= y),
        _ => bail!(Internal, "{o} of numbers in a formula"),
    })
}

/// Methods that ask for a property; all others are operators.
fn method(name: &str, mut args: Vec<Value>) -> Result<Value> {
    let x = &args[0];
    let value = match (name, x) {
        ("defined" | "has_value", x) => Value::from(x.is_defined()),
        ("value", x) => x.clone(),
        ("zeros", Value::Info(info)) => info.zeros()?.into(),
        ("options", Value::I(IValue::Tensor(t))) => Value::Options(t.dtype(), t.layout(), t.device()),
        ("dtype" | "scalar_type", Value::Options(d, ..)) => Value::I(IValue::DType(*d)),
        ("size", Value::I(IValue::TensorList(v))) if args.len() == 1 => Value::from(v.len() as i64),
        ("size", Value::I(IValue::OptTensorList(v))) if args.len() == 1 => Value::from(v.len() as i64),
        ("size", Value::I(IValue::IntList(v))) if args.len() == 1 => Value::from(v.len() as i64),
        ("back", Value::I(IValue::IntList(v))) => Value::from(v.last().copied().unwrap_or(0)),
        ("toDouble" | "toFloat", x) => Value::from(x.double()?),
        ("toComplexDouble", x) => x.clone(),
        ("isComplex", x) => Value::from(matches!(x.scalar()?, Scalar::Complex(..))),
        ("conj", Value::I(v)) if v.opt_tensor().is_none() => match v.scalar()? {
            Scalar::Complex(re, im) => Value::from(Scalar::Complex(re, -im)),
            _ => x.clone(),
        },
        (_, Value::I(IValue::Tensor(t))) => match name {
            "sizes" | "sym_sizes" => Value::I(IValue::IntList(t.sizes().into())),
            "strides" | "sym_strides" => Value::I(IValue::IntList(t.strides().into())),
            "size" | "sym_size" => Value::from(t.size(args[1].int()?)?),
            "dim" => Value::from(t.dim() as i64),
            "numel" | "sym_numel" => Value::from(t.numel()),
            "storage_offset" | "sym_storage_offset" => Value::from(t.storage_offset()),
            "scalar_type" | "dtype" => Value::I(IValue::DType(t.dtype())),
            "layout" => Value::I(IValue::Layout(t.layout())),
            "device" => Value::I(IValue::Device(t.device())),
            "is_complex" => Value::from(t.dtype().is_complex()),
            "requires_grad" => Value::from(t.requires_grad()),
            "suggest_memory_format" => Value::I(IValue::MemoryFormat(t.suggest_memory_format())),
            "is_contiguous" => Value::from(t.is_contiguous()),
            "to" => match args.get(1) {
                Some(Value::Options(d, l, v)) => {
                    if *d == t.dtype() && *v == t.device() {
                        t.clone().into()
                    } else {
                        op::_to_copy.call((t, *d, *l, *v))?.into()
                    }
                }
                Some(d) if d.dtype()? == t.dtype() => t.clone().into(),
                Some(d) => op::_to_copy.call((t, d.dtype()?))?.into(),
                None => return args[0].mismatch("to() with a dtype"),
            },
            "reshape_as" => {
                let sizes = args[1].tensor()?.sizes().to_vec();
                op::reshape.call((t, &sizes[..]))?.into()
            }
            _ => return resolve::call(name, args),
        },
        (_, Value::I(IValue::Int(_) | IValue::Double(_) | IValue::Scalar(_))) => {
            return helpers::number_method(name, &args);
        }
        _ => {
            let kind = args.swap_remove(0);
            return kind.mismatch(&format!("something with {name}()"));
        }
    };
    Ok(value)
}
