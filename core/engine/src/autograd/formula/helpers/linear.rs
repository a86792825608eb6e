//! Derivatives of products.

use super::{Helper, conj, maybe_multiply};
use crate::autograd::formula::eval::Value;
use crate::ivalue::{IValue, IntList};
use crate::{Result, Scalar, Tensor, op};

pub const HELPERS: &[(&str, Helper)] = &[
    ("mm_mat1_backward", |a| {
        // grad, mat2, sizes, strides, layout of mat1, alpha
        let (grad, mat2, sizes, strides) = (a[0].tensor()?, a[1].tensor()?, a[2].ints()?, a[3].ints()?);
        let alpha = conj_number(a[5].scalar()?);
        // The gradient is laid out as the operand is: column-major operands get theirs by a transposed product.
        if strides.len() == 2 && strides[0] == 1 && strides[1] == sizes[0] {
            let g = op::mm.call((conj(mat2)?, op::t.call((grad,))?))?;
            return Ok(maybe_multiply(&op::t.call((g,))?, alpha)?.into());
        }
        Ok(maybe_multiply(&op::mm.call((grad, conj(&op::t.call((mat2,))?)?))?, alpha)?.into())
    }),
    ("mm_mat2_backward", |a| {
        // grad, mat1, sizes, strides, layout of mat2, alpha
        let (grad, mat1, sizes, strides) = (a[0].tensor()?, a[1].tensor()?, a[2].ints()?, a[3].ints()?);
        let alpha = conj_number(a[5].scalar()?);
        if strides.len() == 2 && strides[0] == 1 && strides[1] == sizes[0] {
            let g = op::mm.call((op::t.call((grad,))?, conj(mat1)?))?;
            return Ok(maybe_multiply(&op::t.call((g,))?, alpha)?.into());
        }
        Ok(maybe_multiply(&op::mm.call((conj(&op::t.call((mat1,))?)?, grad))?, alpha)?.into())
    }),
    ("linear_double_backward", |a| {
        // grads, self, grad_output, weight
        let grads = a[0].clone().into_opt_tensors()?;
        let (x, go, w) = (a[1].tensor()?, a[2].tensor()?, a[3].tensor()?);
        let g = |i: usize| grads.get(i).cloned().flatten();
        let mut to_go: Option<Tensor> = None;
        let mut add = |t: Tensor| -> Result<()> {
            to_go = Some(match to_go.take() {
                Some(s) => op::add_Tensor.call((s, t))?,
                None => t,
            });
            Ok(())
        };
        if let Some(gx) = g(0) {
            add(op::linear.call((gx, w))?)?;
        }
        if let Some(gw) = g(1) {
            add(op::linear.call((x, gw))?)?;
        }
        if let Some(gb) = g(2) {
            add(op::expand.call((gb, go.sizes()))?)?;
        }
        let flat = |t: &Tensor| op::reshape.call((t, [-1, t.sizes()[t.dim() - 1]]));
        let to_x = match g(1) {
            Some(gw) => Value::from(op::matmul.call((go, gw))?),
            None => Value::UNDEFINED,
        };
        let to_w = match g(0) {
            Some(gx) => Value::from(op::mm.call((op::t.call((flat(go)?,))?, flat(&gx)?))?),
            None => Value::UNDEFINED,
        };
        Ok(Value::Tuple(vec![to_x, to_go.map_or(Value::UNDEFINED, Value::from), to_w]))
    }),
    ("_trilinear_backward", trilinear_backward),
    ("_grouped_mm_mat1_backward", |a| grouped(a, true)),
    ("_grouped_mm_mat2_backward", |a| grouped(a, false)),
];

fn conj_number(s: Scalar) -> Scalar {
    match s {
        Scalar::Complex(re, im) => Scalar::Complex(re, -im),
        s => s,
    }
}

/// grad_out, i1, i2, i3, expand1, expand2, expand3, sumdim, mask
fn trilinear_backward(a: &[Value]) -> Result<Value> {
    let Some(grad) = a[0].opt_tensor() else { return Ok(Value::UNDEFINED) };
    let mask = super::elementwise::bools(&a[8])?;
    let (e1, e2, e3, sum) = (a[4].ints()?, a[5].ints()?, a[6].ints()?, a[7].ints()?);
    let call = |on: bool, x: &Value, y: &Value, ex: &IntList, ey: &IntList, own: &IntList| -> Result<Value> {
        if !on {
            return Ok(Value::UNDEFINED);
        }
        let args =
            (grad, conj(x.tensor()?)?, conj(y.tensor()?)?, sum.clone(), ex.clone(), ey.clone(), own.clone());
        Ok(op::_trilinear.call(args)?.into())
    };
    Ok(Value::Tuple(vec![
        call(mask[0], &a[2], &a[3], &e2, &e3, &e1)?,
        call(mask[1], &a[1], &a[3], &e1, &e3, &e2)?,
        call(mask[2], &a[1], &a[2], &e1, &e2, &e3)?,
    ]))
}

/// grad, the other operand, sizes, strides, layout, offs, alpha: the same product with the other operand transposed.
fn grouped(a: &[Value], first: bool) -> Result<Value> {
    let (grad, other) = (a[0].tensor()?, a[1].tensor()?);
    let offs = a.iter().skip(2).find_map(Value::opt_tensor).cloned();
    let turned = op::transpose_int.call((other, -2, -1))?;
    let offs = offs.map_or(IValue::None, IValue::Tensor);
    Ok(if first {
        op::_grouped_mm.call((grad, turned, offs))?
    } else {
        op::_grouped_mm.call((turned, grad, offs))?
    }
    .into())
}
