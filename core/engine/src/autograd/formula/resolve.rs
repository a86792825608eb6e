//! Which overload a call in a formula means.

use super::eval::Value;
use crate::dispatch::{Operator, call_op, operator};
use crate::ivalue::{IValue, IntList, Stack};
use crate::schema::{Argument, OpId, Type};
use crate::{Result, bail, generated};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The overloads of each name that return new tensors or write in place; those with `out` arguments are left out.
static OVERLOADS: LazyLock<HashMap<&'static str, Vec<OpId>>> = LazyLock::new(|| {
    let mut m: HashMap<&'static str, Vec<OpId>> = HashMap::new();
    for info in generated::ops() {
        if info.kind != generated::Kind::Out {
            m.entry(info.name).or_default().push(info.id);
        }
    }
    m
});

/// Calls the operator of a name, choosing the overload by the arguments.
///
/// # Errors
/// No overload takes them; what the operator raises.
pub fn call(name: &str, args: Vec<Value>) -> Result<Value> {
    for id in OVERLOADS.get(name).into_iter().flatten() {
        let op = operator(*id);
        if let Some(stack) = bind(op, &args)? {
            return run(op, stack);
        }
    }
    if OVERLOADS.contains_key(name) {
        bail!(Internal, "no overload of {name} takes the arguments of a formula");
    }
    bail!(NotImplemented, "the derivative helper '{name}' is not implemented")
}

fn run(op: &'static Operator, mut stack: Stack) -> Result<Value> {
    call_op(op, &mut stack)?;
    Ok(match stack.len() {
        1 => Value::I(stack.swap_remove(0)),
        _ => Value::Tuple(stack.into_iter().map(Value::I).collect()),
    })
}

fn bind(op: &'static Operator, args: &[Value]) -> Result<Option<Stack>> {
    let schema = &op.signature()?.schema;
    let mut stack = Stack::new();
    let mut given = args.iter().peekable();
    let mut options = None;
    for (i, a) in schema.arguments.iter().enumerate() {
        if options.is_none()
            && let Some(Value::Options(d, l, v)) = given.peek()
        {
            options = Some((*d, *l, *v));
            given.next();
        }
        if let Some((dtype, layout, device)) = options {
            match a.name.as_str() {
                "dtype" => stack.push(IValue::DType(dtype)),
                "layout" => stack.push(IValue::Layout(layout)),
                "device" => stack.push(IValue::Device(device)),
                _ => match &op.signature()?.defaults[i] {
                    Some(v) => stack.push(v.clone()),
                    None => return Ok(None),
                },
            }
            continue;
        }
        match given.next() {
            Some(v) => match fit(a, v) {
                Some(v) => stack.push(v),
                None => return Ok(None),
            },
            None => match &op.signature()?.defaults[i] {
                Some(v) => stack.push(v.clone()),
                None => return Ok(None),
            },
        }
    }
    Ok(given.next().is_none().then_some(stack))
}

/// The value as an argument of a type; `None` when it does not fit.
fn fit(a: &Argument, v: &Value) -> Option<IValue> {
    let optional = matches!(a.ty, Type::Optional(_));
    let ty = a.ty.unwrap_optional();
    let v = match v {
        Value::I(v) => v,
        Value::Tuple(items) => {
            let tensors: Option<Vec<_>> = items.iter().map(|i| i.opt_tensor().cloned()).collect();
            return matches!(ty, Type::List(_)).then(|| tensors.map(IValue::TensorList)).flatten();
        }
        _ => return None,
    };
    if v.is_none() {
        return (optional || *ty == Type::Tensor).then_some(IValue::None);
    }
    match (ty, v) {
        (Type::Tensor, IValue::Tensor(_)) => Some(v.clone()),
        (Type::Tensor, _) => None,
        (Type::List(t), IValue::OptTensorList(items)) if **t == Type::Tensor => {
            items.iter().cloned().collect::<Option<Vec<_>>>().map(IValue::TensorList)
        }
        (Type::List(_), IValue::TensorList(_) | IValue::OptTensorList(_)) => Some(v.clone()),
        (Type::List(t), IValue::Int(n)) if a.list_len.is_some() && **t != Type::Tensor => {
            Some(IValue::IntList(IntList::from_elem(*n, 1)))
        }
        (Type::List(t), IValue::IntList(_) | IValue::BoolList(_) | IValue::DoubleList(_)) => {
            (**t != Type::Tensor).then(|| v.clone())
        }
        (Type::List(_), _) => None,
        (_, IValue::Tensor(_) | IValue::TensorList(_) | IValue::OptTensorList(_)) => None,
        (_, IValue::IntList(_)) => None,
        (Type::Int, IValue::Double(_)) => None,
        (Type::Int | Type::Float | Type::Bool, IValue::Str(_) | IValue::DType(_)) => None,
        (Type::Str, IValue::Int(_) | IValue::Bool(_) | IValue::Double(_)) => None,
        (Type::ScalarType, IValue::DType(_)) => Some(v.clone()),
        (Type::ScalarType, _) => None,
        _ => Some(v.clone()),
    }
}
