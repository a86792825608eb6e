//! The functions that upstream's formulas call beside operators, under their upstream names. Each is written with
//! dispatched operators, so that it can be differentiated again.

mod double;
mod elementwise;
mod linalg;
mod linear;
mod norm;
mod reduction;
mod shape;

use super::eval::Value;
use crate::ivalue::{IValue, IntList};
use crate::{DType, Result, Scalar, Tensor, bail, op};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A helper: arguments to result.
pub type Helper = fn(&[Value]) -> Result<Value>;

static HELPERS: LazyLock<HashMap<&'static str, Helper>> = LazyLock::new(|| {
    let families: [&[(&'static str, Helper)]; 8] = [
        BASIC,
        double::HELPERS,
        elementwise::HELPERS,
        linalg::HELPERS,
        linear::HELPERS,
        norm::HELPERS,
        reduction::HELPERS,
        shape::HELPERS,
    ];
    families.into_iter().flatten().copied().collect()
});

/// The helper of a name.
pub fn find(name: &str) -> Option<Helper> {
    HELPERS.get(name).copied()
}

const BASIC: &[(&str, Helper)] = &[
    ("grad_mode", |_| Ok(Value::from(crate::dispatch::tls::grad_mode()))),
    ("not_implemented", not_implemented),
    ("not_implemented_list", not_implemented),
    ("filled", |a| Ok(Value::I(IValue::IntList(IntList::from_elem(a[1].int()?, a[0].int()? as usize))))),
    ("undefined_list", |a| Ok(Value::I(IValue::OptTensorList(vec![None; a[0].int()? as usize])))),
    ("reverse_list", |a| Ok(Value::I(IValue::IntList(a[0].ints()?.into_iter().rev().collect())))),
    ("negated", |a| Ok(Value::I(IValue::IntList(a[0].ints()?.into_iter().map(|v| -v).collect())))),
    ("optional_sizes", |a| {
        Ok(match a[0].opt_tensor() {
            Some(t) => Value::I(IValue::IntList(t.sizes().into())),
            None => Value::UNDEFINED,
        })
    }),
    ("strides_or_error", |a| Ok(Value::I(IValue::IntList(a[0].tensor()?.strides().into())))),
    ("wrap_opt_if", |a| Ok(if a[1].boolean()? { a[0].clone() } else { Value::UNDEFINED })),
    ("exp", |a| number_or_operator("exp", a, f64::exp)),
    ("log", |a| number_or_operator("log", a, f64::ln)),
    ("maybe_multiply", |a| Ok(maybe_multiply(a[0].tensor()?, a[1].scalar()?)?.into())),
    ("handle_r_to_c", handle_r_to_c),
    ("masked_fill_inplace_if_safe", |a| {
        Ok(op::masked_fill_Scalar.call((a[0].tensor()?, a[1].tensor()?, a[2].scalar()?))?.into())
    }),
];

fn not_implemented(a: &[Value]) -> Result<Value> {
    let name = a[0].ivalue()?.str()?;
    match a.get(1).map(|r| r.ivalue().and_then(|r| r.str())) {
        Some(Ok(reason)) if !reason.is_empty() => {
            bail!(NotImplemented, "the derivative for '{name}' is not implemented. {reason}")
        }
        _ => bail!(NotImplemented, "the derivative for '{name}' is not implemented."),
    }
}

fn number_or_operator(name: &str, a: &[Value], f: fn(f64) -> f64) -> Result<Value> {
    match &a[0] {
        Value::I(IValue::Tensor(_)) => super::resolve::call(name, a.to_vec()),
        v => Ok(Value::from(f(v.double()?))),
    }
}

/// Methods of numbers.
///
/// # Errors
/// A method that numbers do not have here.
pub fn number_method(name: &str, a: &[Value]) -> Result<Value> {
    let x = a[0].scalar()?;
    match name {
        "log" => Ok(Value::from(x.to_f64().ln())),
        "equal" => Ok(Value::from(x == a[1].scalar()?)),
        "isFloatingPoint" => Ok(Value::from(x.is_floating_point())),
        _ => bail!(Internal, "a number has no {name}() in a formula"),
    }
}

/// The gradient times a factor, unless the factor is one.
pub fn maybe_multiply(t: &Tensor, s: Scalar) -> Result<Tensor> {
    let one = match s {
        Scalar::Complex(re, im) => re == 1.0 && im == 0.0,
        s => s.to_f64() == 1.0,
    };
    if one { Ok(t.clone()) } else { op::mul_Scalar.call((t, s)) }
}

/// The real part of a complex gradient of a real tensor.
pub fn real_if(dtype: DType, grad: Tensor) -> Result<Tensor> {
    if !dtype.is_complex() && grad.dtype().is_complex() { op::real.call((&grad,)) } else { Ok(grad) }
}

/// `handle_r_to_c(dtype or tensor, gradient)`
fn handle_r_to_c(a: &[Value]) -> Result<Value> {
    let dtype = match a[0].opt_tensor() {
        Some(t) => t.dtype(),
        None => a[0].dtype()?,
    };
    if !a[1].is_defined() {
        return Ok(Value::UNDEFINED);
    }
    if let Value::Tuple(items) = &a[1] {
        let items = items.iter().map(|v| match v.opt_tensor() {
            Some(t) => Ok(Value::from(real_if(dtype, t.clone())?)),
            None => Ok(v.clone()),
        });
        return Ok(Value::Tuple(items.collect::<Result<_>>()?));
    }
    Ok(real_if(dtype, a[1].tensor()?.clone())?.into())
}

/// `x.conj()`, which is `x` for real tensors.
pub fn conj(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() { op::conj.call((t,)) } else { Ok(t.clone()) }
}

/// A dimension counted from the front.
pub fn wrap(dim: i64, rank: usize) -> i64 {
    if dim < 0 { dim + rank.max(1) as i64 } else { dim }
}

/// The single number in a tensor.
pub fn item(t: &Tensor) -> Result<Scalar> {
    match op::_local_scalar_dense.call_all((t,))?.first() {
        Some(v) => v.scalar(),
        None => bail!(Internal, "no number in a tensor"),
    }
}
