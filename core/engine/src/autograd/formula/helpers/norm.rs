//! Derivatives of normalisations and losses where operators alone do not say them.

use super::Helper;
use super::elementwise::bools;
use crate::autograd::formula::eval::Value;
use crate::ivalue::{IValue, IntList};
use crate::{Result, Tensor, op};

pub const HELPERS: &[(&str, Helper)] = &[
    ("infinitely_differentiable_native_rms_norm_backward", rms_norm_backward),
    ("native_group_norm_backward_dispatcher", |a| {
        // grad, grad of mean, grad of rstd, input, mean, rstd, weight, N, C, HxW, group, mask
        group_norm_backward(a)
    }),
    ("binary_cross_entropy_target_backward", |a| {
        // grad, self, target, weight, reduction
        let (x, target) = (a[1].tensor()?, a[2].tensor()?);
        let log = |t: Tensor| -> Result<Tensor> { op::clamp_min.call((op::log.call((t,))?, -100.0)) };
        let slope = op::sub_Tensor.call((log(op::rsub_Scalar.call((x, 1))?)?, log(x.clone())?))?;
        loss_gradient(&a[0], slope, a[3].opt_tensor(), a[4].int()?, target)
    }),
    ("binary_cross_entropy_with_logits_backward", |a| {
        // grad, input, target, weight, pos_weight, reduction
        let (x, target) = (a[1].tensor()?, a[2].tensor()?);
        let s = op::sigmoid.call((x,))?;
        let slope = match a[4].opt_tensor() {
            Some(p) => {
                let t = op::mul_Tensor.call((p, target))?;
                let all = op::sub_Tensor.call((op::add_Scalar.call((&t, 1))?, target))?;
                op::sub_Tensor.call((op::mul_Tensor.call((all, s))?, t))?
            }
            None => op::sub_Tensor.call((s, target))?,
        };
        loss_gradient(&a[0], slope, a[3].opt_tensor(), a[5].int()?, x)
    }),
    ("binary_cross_entropy_with_logits_target_backward", |a| {
        // grad, input, target, weight, pos_weight, reduction
        let x = a[1].tensor()?;
        let slope = match a[4].opt_tensor() {
            Some(p) => {
                let plain = op::log_sigmoid.call((op::neg.call((x,))?,))?;
                op::sub_Tensor.call((plain, op::mul_Tensor.call((p, op::log_sigmoid.call((x,))?))?))?
            }
            None => op::neg.call((x,))?,
        };
        loss_gradient(&a[0], slope, a[3].opt_tensor(), a[5].int()?, a[2].tensor()?)
    }),
    ("_weight_norm_differentiable_backward", weight_norm_backward),
    ("layer_norm_double_backward", layer_norm_double_backward),
];

/// The gradient of a mean or a sum of terms, from the slope of each term.
fn loss_gradient(
    grad: &Value,
    slope: Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    like: &Tensor,
) -> Result<Value> {
    let mut out = op::mul_Tensor.call((slope, grad.tensor()?))?;
    if let Some(w) = weight {
        out = op::mul_Tensor.call((out, w))?;
    }
    // Reduction: 0 none, 1 mean, 2 sum.
    if reduction == 1 {
        out = op::div_Scalar.call((out, like.numel()))?;
    }
    Ok(out.into())
}

fn sum_over(t: &Tensor, dims: &IntList, keep: bool) -> Result<Tensor> {
    if dims.is_empty() { Ok(t.clone()) } else { op::sum_dim_IntList.call((t, dims.clone(), keep)) }
}

/// grad of output, grad of rstd, input, normalized_shape, rstd, weight, mask
fn rms_norm_backward(a: &[Value]) -> Result<Value> {
    let (x, rstd, mask) = (a[2].tensor()?, a[4].tensor()?, bools(&a[6])?);
    let n = a[3].ints()?.len();
    let rank = x.dim();
    let inner: IntList = ((rank - n) as i64..rank as i64).collect();
    let outer: IntList = (0..(rank - n) as i64).collect();
    let count: i64 = a[3].ints()?.iter().product();
    let dtype = x.dtype();
    let wide = rstd.dtype();
    let cast = |t: &Tensor| -> Result<Tensor> {
        if t.dtype() == wide { Ok(t.clone()) } else { op::_to_copy.call((t, wide)) }
    };
    let xf = cast(x)?;
    let unit = op::mul_Tensor.call((&xf, rstd))?;
    let (mut to_x, mut to_w) = (None, None);
    if let Some(go) = a[0].opt_tensor() {
        let go = cast(go)?;
        if mask[0] {
            let g = match a[5].opt_tensor() {
                Some(w) => op::mul_Tensor.call((&go, cast(w)?))?,
                None => go.clone(),
            };
            let along =
                op::div_Scalar.call((sum_over(&op::mul_Tensor.call((&g, &unit))?, &inner, true)?, count))?;
            let centred = op::sub_Tensor.call((g, op::mul_Tensor.call((&unit, along))?))?;
            to_x = Some(op::mul_Tensor.call((centred, rstd))?);
        }
        if mask.get(1).copied().unwrap_or(false) && a[5].is_defined() {
            to_w = Some(sum_over(&op::mul_Tensor.call((&go, &unit))?, &outer, false)?);
        }
    }
    if let (Some(gr), true) = (a[1].opt_tensor(), mask[0]) {
        // rstd = (mean x^2 + eps)^(-1/2): its slope is -rstd^3 x / n.
        let cube = op::pow_Tensor_Scalar.call((rstd, 3))?;
        let part = op::mul_Tensor.call((op::mul_Tensor.call((gr, cube))?, &xf))?;
        let part = op::div_Scalar.call((op::neg.call((part,))?, count))?;
        to_x = Some(match to_x {
            Some(s) => op::add_Tensor.call((s, part))?,
            None => part,
        });
    }
    let back = |t: Option<Tensor>, d: crate::DType| -> Result<Value> {
        Ok(match t {
            Some(t) if t.dtype() != d => op::_to_copy.call((t, d))?.into(),
            Some(t) => t.into(),
            None => Value::UNDEFINED,
        })
    };
    let w_dtype = a[5].opt_tensor().map_or(dtype, Tensor::dtype);
    Ok(Value::Tuple(vec![back(to_x, dtype)?, back(to_w, w_dtype)?]))
}

/// grad, grad of mean, grad of rstd, input, mean, rstd, weight, N, C, HxW, group, mask; written with operators.
fn group_norm_backward(a: &[Value]) -> Result<Value> {
    let (x, mean, rstd) = (a[3].tensor()?, a[4].tensor()?, a[5].tensor()?);
    let (n, c, hw, g) = (a[7].int()?, a[8].int()?, a[9].int()?, a[10].int()?);
    let mask = bools(&a[11])?;
    let d = c / g;
    let grouped = |t: &Tensor| op::reshape.call((t, [n, g, d * hw]));
    let stat = |t: &Tensor| op::reshape.call((t, [n, g, 1]));
    let (mean, rstd) = (stat(mean)?, stat(rstd)?);
    let centred = op::sub_Tensor.call((grouped(x)?, &mean))?;
    let unit = op::mul_Tensor.call((&centred, &rstd))?;
    let count = d * hw;
    let mut to_x: Option<Tensor> = None;
    let add = |sum: &mut Option<Tensor>, t: Tensor| -> Result<()> {
        *sum = Some(match sum.take() {
            Some(s) => op::add_Tensor.call((s, t))?,
            None => t,
        });
        Ok(())
    };
    let (mut to_w, mut to_b) = (Value::UNDEFINED, Value::UNDEFINED);
    if let Some(go) = a[0].opt_tensor() {
        let channels = op::reshape.call((go, [n, c, hw]))?;
        let weighted = match a[6].opt_tensor() {
            Some(w) => op::mul_Tensor.call((&channels, op::reshape.call((w, [1, c, 1]))?))?,
            None => channels.clone(),
        };
        let gg = grouped(&weighted)?;
        let m1 = op::mean_dim.call((&gg, [2], true))?;
        let m2 = op::mean_dim.call((op::mul_Tensor.call((&gg, &unit))?, [2], true))?;
        let inner =
            op::sub_Tensor.call((op::sub_Tensor.call((gg, m1))?, op::mul_Tensor.call((&unit, m2))?))?;
        add(&mut to_x, op::mul_Tensor.call((inner, &rstd))?)?;
        if mask[1] && a[6].is_defined() {
            let u = op::reshape.call((&unit, [n, c, hw]))?;
            to_w = op::sum_dim_IntList.call((op::mul_Tensor.call((&channels, u))?, [0, 2]))?.into();
        }
        if mask[2] {
            to_b = op::sum_dim_IntList.call((&channels, [0, 2]))?.into();
        }
    }
    if let Some(gm) = a[1].opt_tensor() {
        let part = op::div_Scalar.call((stat(gm)?, count))?;
        add(&mut to_x, op::expand.call((part, [n, g, count]))?)?;
    }
    if let Some(gr) = a[2].opt_tensor() {
        let cube = op::pow_Tensor_Scalar.call((&rstd, 3))?;
        let part = op::mul_Tensor.call((op::mul_Tensor.call((stat(gr)?, cube))?, &centred))?;
        add(&mut to_x, op::div_Scalar.call((op::neg.call((part,))?, count))?)?;
    }
    let to_x = match to_x {
        Some(t) if mask[0] => op::reshape.call((t, x.sizes()))?.into(),
        _ => Value::UNDEFINED,
    };
    Ok(Value::Tuple(vec![to_x, to_w, to_b]))
}

/// grad_w, v, g, norms, dim
fn weight_norm_backward(a: &[Value]) -> Result<Value> {
    let (grad, v, g, norms, dim) =
        (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?, a[3].tensor()?, a[4].int()?);
    let norms =
        if norms.dtype() == g.dtype() { norms.clone() } else { op::_to_copy.call((norms, g.dtype()))? };
    let last = v.dim() as i64 - 1;
    let over: IntList = if dim == 0 { (1..=last).collect() } else { (0..last).collect() };
    let dots = sum_over(&op::mul_Tensor.call((grad, v))?, &over, true)?;
    let dots = op::view.call((dots, norms.sizes()))?;
    let cube = op::mul_Tensor.call((op::mul_Tensor.call((&norms, &norms))?, &norms))?;
    let scaled = op::div_Tensor.call((grad, &norms))?;
    let along = op::mul_Tensor.call((v, op::div_Tensor.call((&dots, cube))?))?;
    let to_v = op::mul_Tensor.call((g, op::sub_Tensor.call((scaled, along))?))?;
    Ok(Value::Tuple(vec![to_v.into(), op::div_Tensor.call((dots, norms))?.into()]))
}

/// input, gamma, ggI, ggG, ggB, gO, mean, rstd, normalized_shape, mask; gives (input, gamma, gO).
///
/// With y = (x - mean) rstd and the first derivative gI = rstd (h - m(h) - y m(h y)), h = gO gamma, where m is the mean over
/// the normalised dimensions.
fn layer_norm_double_backward(a: &[Value]) -> Result<Value> {
    let x = a[0].tensor()?;
    let (go, mean, rstd) = (a[5].tensor()?, a[6].tensor()?, a[7].tensor()?);
    let gamma = a[1].opt_tensor();
    let n = a[8].ints()?.len();
    let rank = x.dim();
    let inner: IntList = ((rank - n) as i64..rank as i64).collect();
    let outer: IntList = (0..(rank - n) as i64).collect();
    let mut stat: IntList = IntList::from_slice(&x.sizes()[..rank - n]);
    stat.extend(std::iter::repeat_n(1, n));
    let (mean, rstd) = (op::reshape.call((mean, stat.clone()))?, op::reshape.call((rstd, stat))?);
    let mul = |p: &Tensor, q: &Tensor| op::mul_Tensor.call((p, q));
    let m = |t: &Tensor| op::mean_dim.call((t, inner.clone(), true));
    let y = mul(&op::sub_Tensor.call((x, mean))?, &rstd)?;
    let h = match gamma {
        Some(g) => mul(go, g)?,
        None => go.clone(),
    };
    let project = |t: &Tensor| -> Result<Tensor> {
        op::sub_Tensor.call((op::sub_Tensor.call((t, m(t)?))?, mul(&y, &m(&mul(t, &y)?)?)?))
    };
    let (mut to_x, mut to_g, mut to_go): (Option<Tensor>, Option<Tensor>, Option<Tensor>) =
        (None, None, None);
    let add = |sum: &mut Option<Tensor>, t: Tensor| -> Result<()> {
        *sum = Some(match sum.take() {
            Some(s) => op::add_Tensor.call((s, t))?,
            None => t,
        });
        Ok(())
    };
    if let Some(ggi) = a[2].opt_tensor() {
        let p = project(ggi)?;
        let flow = mul(&p, &rstd)?;
        if let Some(g) = gamma {
            add(&mut to_g, sum_over(&mul(&flow, go)?, &outer, false)?)?;
            add(&mut to_go, mul(&flow, g)?)?;
        } else {
            add(&mut to_go, flow)?;
        }
        // d(gI . ggI)/dx: rstd^2 times the projection of -(h m(ggi y) + ggi m(h y)), less y times the pairing.
        let hy = m(&mul(&h, &y)?)?;
        let gy = m(&mul(ggi, &y)?)?;
        let mixed = op::add_Tensor.call((mul(&h, &gy)?, mul(ggi, &hy)?))?;
        let pairing = m(&mul(&p, &h)?)?;
        let inner_term = op::add_Tensor.call((project(&mixed)?, mul(&y, &pairing)?))?;
        add(&mut to_x, op::neg.call((mul(&mul(&inner_term, &rstd)?, &rstd)?,))?)?;
    }
    if let Some(ggg) = a[3].opt_tensor() {
        add(&mut to_go, mul(&y, ggg)?)?;
        add(&mut to_x, mul(&project(&mul(go, ggg)?)?, &rstd)?)?;
    }
    if let Some(ggb) = a[4].opt_tensor() {
        add(&mut to_go, op::expand.call((ggb, go.sizes()))?)?;
    }
    let value = |t: Option<Tensor>| t.map_or(Value::I(IValue::None), Value::from);
    Ok(Value::Tuple(vec![value(to_x), value(to_g), value(to_go)]))
}
