//! Derivatives of reductions and scans.

use super::{Helper, conj, item, real_if, wrap};
use crate::autograd::formula::eval::Value;
use crate::ivalue::{IValue, IntList};
use crate::{Result, Tensor, bail, op};

pub const HELPERS: &[(&str, Helper)] = &[
    ("sum_backward", |a| {
        // grad, sizes, dim, keepdim
        let grad = restore(a[0].tensor()?, a[2].opt_ints()?, a[3].boolean()?, a[1].ints()?.len())?;
        Ok(op::expand.call((grad, a[1].ints()?))?.into())
    }),
    ("nansum_backward", |a| {
        // grad, self, dim, keepdim
        let this = a[1].tensor()?;
        let grad = restore(a[0].tensor()?, a[2].opt_ints()?, a[3].boolean()?, this.dim())?;
        let wide = op::expand.call((grad, this.sizes()))?;
        let number = op::logical_not.call((op::isnan.call((this,))?,))?;
        Ok(op::mul_Tensor.call((wide, number))?.into())
    }),
    ("mean_backward", |a| {
        // grad, shape, dim, numel, keepdim
        let (shape, dims) = (a[1].ints()?, a[2].opt_ints()?);
        let n: i64 = match &dims {
            Some(d) if !d.is_empty() => {
                d.iter().map(|d| shape.get(wrap(*d, shape.len()) as usize).copied().unwrap_or(1)).product()
            }
            _ => a[3].int()?,
        };
        let grad = restore(a[0].tensor()?, dims, a[4].boolean()?, shape.len())?;
        Ok(op::div_Scalar.call((op::expand.call((grad, shape))?, n))?.into())
    }),
    ("restore_reduced_dims", |a| {
        // tensor, dims, keepdim: without the rank, each dimension is put back where it stood
        let (t, dims) = (a[0].tensor()?, a[1].ints()?);
        if a[2].boolean()? {
            return Ok(t.clone().into());
        }
        let rank = t.dim() + dims.len();
        Ok(restore(t, Some(dims), false, rank)?.into())
    }),
    ("scale_grad_by_count", |a| {
        // grad, mask, dims
        let (grad, mask) = (a[0].tensor()?, a[1].tensor()?);
        let masked = op::mul_Tensor.call((grad, mask))?;
        let count = op::sum_dim_IntList.call((mask, a[2].ints()?, true))?;
        Ok(op::div_Tensor.call((masked, count))?.into())
    }),
    ("evenly_distribute_backward", |a| {
        // grad, input, value
        let (grad, x, value) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
        let equal = op::eq_Tensor.call((x, value))?;
        let both_nan = op::logical_and.call((op::isnan.call((x,))?, op::isnan.call((value,))?))?;
        let mask = op::logical_or.call((equal, both_nan))?;
        let share = op::div_Tensor.call((grad, op::sum.call((&mask,))?))?;
        Ok(op::mul_Tensor.call((mask, share))?.into())
    }),
    ("aminmax_backward", |a| {
        // self, dim, keepdim, grad_min, grad_max, min, max
        let this = a[0].tensor()?;
        let dims = if a[1].is_defined() { Some(a[1].ints()?) } else { None };
        let keep = a[2].boolean()?;
        let mut sum: Option<Tensor> = None;
        for (grad, value) in [(&a[3], &a[5]), (&a[4], &a[6])] {
            let Some(grad) = grad.opt_tensor() else { continue };
            let all: IntList = (0..this.dim() as i64).collect();
            let over = dims.clone().unwrap_or(all);
            let (g, v) = (
                restore(grad, Some(over.clone()), keep, this.dim())?,
                restore(value.tensor()?, Some(over.clone()), keep, this.dim())?,
            );
            let mask = op::eq_Tensor.call((v, this))?;
            let part = op::div_Tensor
                .call((op::mul_Tensor.call((g, &mask))?, op::sum_dim_IntList.call((&mask, over, true))?))?;
            sum = Some(match sum {
                Some(s) => op::add_Tensor.call((s, part))?,
                None => part,
            });
        }
        Ok(sum.map_or(Value::UNDEFINED, Value::from))
    }),
    ("var_backward", |a| {
        Ok(var_backward(a[0].tensor()?, a[1].tensor()?, a[2].opt_ints()?, &a[3], a[4].boolean()?)?.into())
    }),
    ("std_backward", |a| {
        // result, grad, self, dim, correction, keepdim
        Ok(std_backward(
            a[0].tensor()?,
            a[1].tensor()?,
            a[2].tensor()?,
            a[3].opt_ints()?,
            &a[4],
            a[5].boolean()?,
        )?
        .into())
    }),
    ("var_mean_backward", |a| {
        // grad of var, grad of mean, self, dim, correction, keepdim
        let (this, dims, keep) = (a[2].tensor()?, a[3].opt_ints()?, a[5].boolean()?);
        let var = match a[0].opt_tensor() {
            Some(g) => Some(var_backward(g, this, dims.clone(), &a[4], keep)?),
            None => None,
        };
        joined(var, a[1].opt_tensor(), this, dims, keep)
    }),
    ("std_mean_backward", |a| {
        // grad of std, grad of mean, self, std, dim, correction, keepdim
        let (this, dims, keep) = (a[2].tensor()?, a[4].opt_ints()?, a[6].boolean()?);
        let std = match a[0].opt_tensor() {
            Some(g) => Some(std_backward(a[3].tensor()?, g, this, dims.clone(), &a[5], keep)?),
            None => None,
        };
        joined(std, a[1].opt_tensor(), this, dims, keep)
    }),
    ("prod_backward", prod_backward),
    ("cumsum_backward", |a| Ok(cumsum_backward(a[0].tensor()?, a[1].int()?)?.into())),
    ("cumprod_backward", cumprod_backward),
    ("logcumsumexp_backward", logcumsumexp_backward),
    ("cummaxmin_backward", |a| {
        // grad, input, indices, dim
        let (grad, x) = (a[0].tensor()?, a[1].tensor()?);
        if x.numel() == 0 {
            return Ok(x.clone().into());
        }
        let zeros = op::zeros.call((x.sizes(), grad.dtype(), IValue::None, grad.device()))?;
        Ok(op::scatter_add.call((zeros, a[3].int()?, a[2].tensor()?, grad))?.into())
    }),
    ("logsumexp_backward", |a| {
        // grad, self, result, dim, keepdim
        let (this, keep, dims) = (a[1].tensor()?, a[4].boolean()?, a[3].ints()?);
        let grad = restore(a[0].tensor()?, Some(dims.clone()), keep, this.dim())?;
        let result = restore(a[2].tensor()?, Some(dims), keep, this.dim())?;
        let share = op::exp.call((op::sub_Tensor.call((this, result))?,))?;
        Ok(op::mul_Tensor.call((grad, conj(&share)?))?.into())
    }),
    ("norm_backward", |a| {
        // grad, self, p, result, [dim, keepdim]
        let p = if a[2].is_defined() { a[2].scalar()?.to_f64() } else { 2.0 };
        let dims = if a.len() > 4 { a[4].opt_ints()? } else { None };
        let keep = if a.len() > 5 { a[5].boolean()? } else { true };
        Ok(norm_backward(a[0].tensor()?, a[1].tensor()?, p, a[3].tensor()?, dims, keep)?.into())
    }),
    ("linalg_vector_norm_backward", |a| {
        // grad, self, ord, result, dim, keepdim
        let p = a[2].scalar()?.to_f64();
        Ok(norm_backward(
            a[0].tensor()?,
            a[1].tensor()?,
            p,
            a[3].tensor()?,
            a[4].opt_ints()?,
            a[5].boolean()?,
        )?
        .into())
    }),
    ("renorm_backward", renorm_backward),
    ("softmax_double_backward", |a| {
        // grad, grad_output, dim, output
        let (grad, go, dim, out) = (a[0].tensor()?, a[1].tensor()?, a[2].int()?, a[3].tensor()?);
        let dot =
            |x: &Tensor, y: &Tensor| op::sum_dim_IntList.call((op::mul_Tensor.call((x, y))?, [dim], true));
        let left = op::mul_Tensor.call((go, grad))?;
        let mid = op::mul_Tensor.call((dot(out, go)?, grad))?;
        let right = op::mul_Tensor.call((go, dot(out, grad)?))?;
        Ok(op::sub_Tensor.call((op::sub_Tensor.call((left, mid))?, right))?.into())
    }),
];

/// Puts back the dimensions that a reduction removed; all of them when none is named.
pub fn restore(t: &Tensor, dims: Option<IntList>, keepdim: bool, rank: usize) -> Result<Tensor> {
    if keepdim || rank == 0 {
        return Ok(t.clone());
    }
    let mut over: IntList = match dims {
        Some(d) if !d.is_empty() => d.iter().map(|d| wrap(*d, rank)).collect(),
        _ => (0..rank as i64).collect(),
    };
    over.sort_unstable();
    let mut out = t.clone();
    for d in over {
        out = op::unsqueeze.call((&out, d))?;
    }
    Ok(out)
}

fn correction(v: &Value) -> Result<f64> {
    if v.is_defined() { Ok(v.scalar()?.to_f64()) } else { Ok(1.0) }
}

fn count(t: &Tensor, dims: &Option<IntList>) -> i64 {
    match dims {
        Some(d) if !d.is_empty() => {
            d.iter().map(|d| t.sizes().get(wrap(*d, t.dim()) as usize).copied().unwrap_or(1)).product()
        }
        _ => t.numel(),
    }
}

fn mean(t: &Tensor, dims: &Option<IntList>) -> Result<Tensor> {
    let all: IntList = match dims {
        Some(d) if !d.is_empty() => d.clone(),
        _ => (0..t.dim() as i64).collect(),
    };
    op::mean_dim.call((t, all, true))
}

fn var_backward(
    grad: &Tensor,
    this: &Tensor,
    dims: Option<IntList>,
    c: &Value,
    keep: bool,
) -> Result<Tensor> {
    let freedom = count(this, &dims) as f64 - correction(c)?;
    let grad = restore(grad, dims.clone(), keep, this.dim())?;
    if freedom <= 0.0 {
        // The variance is infinite where anything moves, and undefined where nothing does.
        let centred = op::sub_Tensor.call((this, mean(this, &dims)?))?;
        let nan = op::scalar_tensor.call((f64::NAN, this.dtype(), IValue::None, this.device()))?;
        let inf = op::mul_Scalar.call((op::mul_Tensor.call((&grad, centred))?, f64::INFINITY))?;
        let still = op::expand.call((op::eq_Scalar.call((grad, 0))?, this.sizes()))?;
        return op::where_self.call((still, nan, inf));
    }
    let centred = op::sub_Tensor.call((this, mean(this, &dims)?))?;
    op::mul_Tensor.call((op::mul_Scalar.call((grad, 2.0 / freedom))?, centred))
}

fn std_backward(
    result: &Tensor,
    grad: &Tensor,
    this: &Tensor,
    dims: Option<IntList>,
    c: &Value,
    keep: bool,
) -> Result<Tensor> {
    let slope = op::div_Tensor.call((grad, op::mul_Scalar.call((result, 2))?))?;
    let slope = op::masked_fill_Scalar.call((slope, op::eq_Scalar.call((result, 0))?, 0))?;
    var_backward(&slope, this, dims, c, keep)
}

fn joined(
    spread: Option<Tensor>,
    mean_grad: Option<&Tensor>,
    this: &Tensor,
    dims: Option<IntList>,
    keep: bool,
) -> Result<Value> {
    let centre = match mean_grad {
        None => None,
        Some(g) => {
            let n = count(this, &dims);
            let wide = op::expand.call((restore(g, dims, keep, this.dim())?, this.sizes()))?;
            Some(op::div_Scalar.call((wide, n))?)
        }
    };
    Ok(match (spread, centre) {
        (Some(a), Some(b)) => op::add_Tensor.call((a, b))?.into(),
        (Some(a), None) | (None, Some(a)) => a.into(),
        (None, None) => Value::UNDEFINED,
    })
}

/// grad, input, result, [dim, keepdim]
fn prod_backward(a: &[Value]) -> Result<Value> {
    let (mut grad, x, mut result) = (a[0].tensor()?.clone(), a[1].tensor()?, a[2].tensor()?.clone());
    if x.dim() == 0 {
        return Ok(op::clone.call((grad,))?.into());
    }
    if a.len() > 3 {
        let dim = wrap(a[3].int()?, x.dim());
        if !a[4].boolean()? {
            grad = op::unsqueeze.call((&grad, dim))?;
            result = op::unsqueeze.call((&result, dim))?;
        }
        return Ok(prod_along(&grad, x, &result, dim)?.into());
    }
    if x.is_meta() || !item(&op::any.call((op::eq_Scalar.call((x, 0))?,))?)?.to_bool() {
        let quotient = op::div_Tensor.call((result, x))?;
        return Ok(op::mul_Tensor.call((grad, conj(&quotient)?))?.into());
    }
    let flat = op::reshape.call((op::contiguous.call((x,))?, [-1]))?;
    let out = prod_safe(&grad, &flat, 0)?;
    Ok(op::view.call((out, x.sizes()))?.into())
}

fn prod_along(grad: &Tensor, x: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if x.is_meta() || !item(&op::any.call((op::eq_Scalar.call((x, 0))?,))?)?.to_bool() {
        let quotient = op::div_Tensor.call((result, x))?;
        return op::mul_Tensor.call((grad, conj(&quotient)?));
    }
    prod_safe(grad, x, dim)
}

/// The product of all others, by products from both sides: right where elements are zero.
fn prod_safe(grad: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let n = x.sizes()[dim as usize];
    if n == 1 {
        return op::expand.call((grad, x.sizes()));
    }
    let ones_shape = {
        let mut s = IntList::from_slice(x.sizes());
        s[dim as usize] = 1;
        s
    };
    let ones = op::ones.call((ones_shape, x.dtype(), IValue::None, x.device()))?;
    let before = op::cumprod
        .call((op::cat.call((vec![ones.clone(), op::narrow.call((x, dim, 0, n - 1))?], dim))?, dim))?;
    let rest = op::flip.call((op::narrow.call((x, dim, 1, n - 1))?, [dim]))?;
    let after = op::flip.call((op::cumprod.call((op::cat.call((vec![ones, rest], dim))?, dim))?, [dim]))?;
    op::mul_Tensor.call((grad, conj(&op::mul_Tensor.call((before, after))?)?))
}

fn cumsum_backward(grad: &Tensor, dim: i64) -> Result<Tensor> {
    if grad.numel() <= 1 || grad.size(dim).map_or(true, |n| n == 1) {
        return Ok(grad.clone());
    }
    op::flip.call((op::cumsum.call((op::flip.call((grad, [dim]))?, dim))?, [dim]))
}

/// grad, input, dim, output
fn cumprod_backward(a: &[Value]) -> Result<Value> {
    let (grad, x, output) = (a[0].tensor()?, a[1].tensor()?, a[3].tensor()?);
    if x.numel() <= 1 {
        return Ok(grad.clone().into());
    }
    let dim = wrap(a[2].int()?, x.dim());
    let n = x.sizes()[dim as usize];
    if n == 1 {
        return Ok(grad.clone().into());
    }
    let x_conj = conj(x)?;
    let w = op::mul_Tensor.call((conj(output)?, grad))?;
    let zero = op::eq_Scalar.call((x, 0))?;
    if !item(&op::any.call((&zero,))?)?.to_bool() && !crate::dispatch::tls::grad_mode() {
        return Ok(op::div_Tensor.call((cumsum_backward(&w, dim)?, x_conj))?.into());
    }
    // Each element's own sum: the products of all others, over the outputs it takes part in. Quadratic, and right at zeros
    // and when differentiated again.
    let ones_shape = |k: i64| {
        let mut s = IntList::from_slice(x.sizes());
        s[dim as usize] = k;
        s
    };
    let mut parts = Vec::new();
    for k in 0..n {
        let ones = op::ones.call((ones_shape(1), x.dtype(), IValue::None, x.device()))?;
        let prods = if k == 0 {
            let rest = op::cumprod.call((op::narrow.call((x, dim, 1, n - 1))?, dim))?;
            op::cat.call((vec![ones, rest], dim))?
        } else {
            let before = op::prod_dim_int.call((op::narrow.call((x, dim, 0, k))?, dim, true))?;
            if k == n - 1 {
                before
            } else {
                let rest = op::cumprod.call((op::narrow.call((x, dim, k + 1, n - k - 1))?, dim))?;
                op::cat.call((vec![before.clone(), op::mul_Tensor.call((&before, rest))?], dim))?
            }
        };
        let g = op::narrow.call((grad, dim, k, n - k))?;
        parts.push(op::sum_dim_IntList.call((op::mul_Tensor.call((g, conj(&prods)?))?, [dim], true))?);
    }
    Ok(op::cat.call((parts, dim))?.into())
}

/// grad, self, result, dim
fn logcumsumexp_backward(a: &[Value]) -> Result<Value> {
    let (grad, x, result) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    if grad.dim() == 0 || grad.numel() == 0 {
        return Ok(grad.clone().into());
    }
    let dim = a[3].int()?;
    let reverse = |t: &Tensor| -> Result<Tensor> {
        let flipped = op::logcumsumexp.call((op::flip.call((t, [dim]))?, dim))?;
        op::flip.call((flipped, [dim]))
    };
    if x.dtype().is_complex() {
        bail!(NotImplemented, "the derivative for 'logcumsumexp' of complex tensors is not implemented.");
    }
    // Not minus infinity, whose own derivative would be undefined.
    let least = match grad.dtype() {
        crate::DType::Double => f64::MIN,
        crate::DType::Half => -65504.0,
        crate::DType::BFloat16 => -3.389_531_389_251_535_5e38,
        _ => f32::MIN as f64,
    };
    let low = op::scalar_tensor.call((least, grad.dtype(), IValue::None, grad.device()))?;
    let size = op::log.call((op::abs.call((grad,))?,))?;
    let side = |on: Tensor| -> Result<Tensor> {
        let log = op::where_self.call((on, &size, &low))?;
        op::exp.call((op::add_Tensor.call((reverse(&op::sub_Tensor.call((log, result))?)?, x))?,))
    };
    let positive = side(op::gt_Scalar.call((grad, 0))?)?;
    let negative = side(op::lt_Scalar.call((grad, 0))?)?;
    Ok(op::sub_Tensor.call((positive, negative))?.into())
}

fn norm_backward(
    grad: &Tensor,
    this: &Tensor,
    p: f64,
    norm: &Tensor,
    dims: Option<IntList>,
    keep: bool,
) -> Result<Tensor> {
    let grad = restore(grad, dims.clone(), keep, this.dim())?;
    let norm = restore(norm, dims.clone(), keep, this.dim())?;
    let zero_norm = |t: Tensor| -> Result<Tensor> {
        op::masked_fill_Scalar.call((t, op::eq_Scalar.call((&norm, 0))?, 0))
    };
    let out = if p == 0.0 {
        op::zeros_like.call((this,))?
    } else if p == 1.0 {
        op::mul_Tensor.call((op::sgn.call((this,))?, &grad))?
    } else if p == 2.0 {
        op::mul_Tensor.call((&grad, zero_norm(op::div_Tensor.call((this, &norm))?)?))?
    } else if p.is_infinite() {
        let abs = op::abs.call((this,))?;
        let hit = op::logical_or.call((op::eq_Tensor.call((&abs, &norm))?, op::isnan.call((&abs,))?))?;
        let over: IntList = match &dims {
            Some(d) if !d.is_empty() => d.clone(),
            _ => (0..this.dim() as i64).collect(),
        };
        let n = op::sum_dim_IntList.call((&hit, over, true))?;
        let share = op::div_Tensor.call((&grad, n))?;
        op::mul_Tensor.call((op::mul_Tensor.call((op::sgn.call((this,))?, share))?, hit))?
    } else if p < 1.0 {
        let power = op::pow_Tensor_Scalar.call((op::abs.call((this,))?, p - 1.0))?;
        let part = op::mul_Tensor.call((op::sgn.call((this,))?, power))?;
        let part = op::masked_fill_Scalar.call((part, op::eq_Scalar.call((this, 0))?, 0))?;
        op::mul_Tensor
            .call((part, op::mul_Tensor.call((&grad, op::pow_Tensor_Scalar.call((&norm, 1.0 - p))?))?))?
    } else if p < 2.0 {
        let power = op::pow_Tensor_Scalar.call((op::abs.call((this,))?, p - 1.0))?;
        let part = op::mul_Tensor.call((op::sgn.call((this,))?, power))?;
        let scale = zero_norm(op::div_Tensor.call((&grad, op::pow_Tensor_Scalar.call((&norm, p - 1.0))?))?)?;
        op::mul_Tensor.call((part, scale))?
    } else {
        let part =
            op::mul_Tensor.call((this, op::pow_Tensor_Scalar.call((op::abs.call((this,))?, p - 2.0))?))?;
        let scale = zero_norm(op::div_Tensor.call((&grad, op::pow_Tensor_Scalar.call((&norm, p - 1.0))?))?)?;
        op::mul_Tensor.call((part, scale))?
    };
    real_if(this.dtype(), out)
}

/// grad, self, p, dim, maxnorm
fn renorm_backward(a: &[Value]) -> Result<Value> {
    let (grad, x, p, maxnorm) =
        (a[0].tensor()?, a[1].tensor()?, a[2].scalar()?.to_f64(), a[4].scalar()?.to_f64());
    let dim = wrap(a[3].int()?, x.dim());
    let over: IntList = (0..x.dim() as i64).filter(|d| *d != dim).collect();
    let norm = op::linalg_vector_norm.call((x, p, over.clone(), true))?;
    let g = op::mul_Tensor.call((conj(x)?, grad))?;
    let g = op::sum_dim_IntList.call((g, over.clone(), true))?;
    let nb = norm_backward(&g, x, p, &norm, Some(over), true)?;
    let inv = op::reciprocal.call((op::add_Scalar.call((&norm, 1e-7))?,))?;
    let inner = op::sub_Tensor.call((grad, op::mul_Tensor.call((&inv, nb))?))?;
    let scaled = op::mul_Tensor.call((op::mul_Scalar.call((inv, maxnorm))?, inner))?;
    Ok(op::where_self.call((op::gt_Scalar.call((norm, maxnorm))?, scaled, grad))?.into())
}
