//! Derivatives of operators that are derivatives themselves (`..._double_backward`), and of reductions by index.

use super::elementwise::bools;
use super::{Helper, conj};
use crate::autograd::formula::eval::Value;
use crate::ivalue::{IValue, IntList};
use crate::{Result, Scalar, Tensor, op};

pub const HELPERS: &[(&str, Helper)] = &[
    ("max_pool_double_backward", max_pool),
    ("mse_loss_double_backward", |a| {
        // grad, input, reduction
        Ok(mean_if(scale(a[0].tensor()?, 2)?, a[2].int()?, a[1].tensor()?)?.into())
    }),
    ("smooth_l1_loss_double_backward", |a| {
        // grad, input, target, reduction, beta
        let slope = scale(
            &inside(a[0].tensor()?, a[1].tensor()?, a[2].tensor()?, a[4].double()?)?,
            1.0 / a[4].double()?,
        )?;
        Ok(mean_if(slope, a[3].int()?, a[1].tensor()?)?.into())
    }),
    ("huber_loss_double_backward", |a| {
        // grad, input, target, reduction, delta
        let slope = inside(a[0].tensor()?, a[1].tensor()?, a[2].tensor()?, a[4].double()?)?;
        Ok(mean_if(slope, a[3].int()?, a[1].tensor()?)?.into())
    }),
    ("huber_loss_double_backward_grad_output", |a| {
        // grad, grad_output, input, target, reduction, delta
        let back = |g: &Tensor| {
            op::huber_loss_backward.call((g, a[2].tensor()?, a[3].tensor()?, a[4].int()?, a[5].double()?))
        };
        to_grad_output(a[0].tensor()?, a[1].tensor()?, a[4].int()?, back)
    }),
    ("soft_margin_loss_double_backward", |a| {
        // grad, input, target, reduction
        let (x, target) = (a[1].tensor()?, a[2].tensor()?);
        let z = op::exp.call((op::neg.call((mul(x, target)?,))?,))?;
        let one_more = op::add_Scalar.call((&z, 1))?;
        let slope = div(&mul(&mul(target, target)?, &z)?, &mul(&one_more, &one_more)?)?;
        Ok(mean_if(mul(a[0].tensor()?, &slope)?, a[3].int()?, x)?.into())
    }),
    ("soft_margin_loss_double_backward_grad_output", |a| {
        // grad, grad_output, input, target, reduction
        let back =
            |g: &Tensor| op::soft_margin_loss_backward.call((g, a[2].tensor()?, a[3].tensor()?, a[4].int()?));
        to_grad_output(a[0].tensor()?, a[1].tensor()?, a[4].int()?, back)
    }),
    ("binary_cross_entropy_double_backward", |a| {
        // grad_output, grad, input, target, weight, reduction
        let (x, target) = (a[2].tensor()?, a[3].tensor()?);
        let bent = add(&sub(&mul(x, x)?, &scale(&mul(x, target)?, 2)?)?, target)?;
        let (low, high) = clear_of_ends(x)?;
        let (low, high) = (mul(&low, &low)?, mul(&high, &high)?);
        let slope = mul(&div(&bent, &mul(&low, &high)?)?, &mul(a[0].tensor()?, a[1].tensor()?)?)?;
        Ok(mean_if(weighted(slope, a[4].opt_tensor())?, a[5].int()?, x)?.into())
    }),
    ("binary_cross_entropy_double_backward_grad_output", |a| {
        // grad, input, target, weight, reduction
        let (x, target) = (a[1].tensor()?, a[2].tensor()?);
        let (low, high) = clear_of_ends(x)?;
        let slope = div(&sub(x, target)?, &mul(&low, &high)?)?;
        let slope = weighted(mul(&slope, a[0].tensor()?)?, a[3].opt_tensor())?;
        Ok(match a[4].int()? {
            0 => slope,
            1 => op::mean.call((slope,))?,
            _ => op::sum.call((slope,))?,
        }
        .into())
    }),
    ("binary_cross_entropy_double_backward_target", |a| {
        // grad, grad_output, self, target, weight, reduction
        let x = a[2].tensor()?;
        let (low, high) = clear_of_ends(x)?;
        let both = op::neg.call((mul(a[0].tensor()?, a[1].tensor()?)?,))?;
        let slope = div(&both, &mul(&low, &high)?)?;
        Ok(mean_if(weighted(slope, a[4].opt_tensor())?, a[5].int()?, x)?.into())
    }),
    ("batchnorm_double_backward", batch_norm),
    ("embedding_dense_double_backward", embedding),
    ("scatter_reduce_backward", scatter_reduce),
    ("_euclidean_dist_backward", euclidean_dist),
    ("polar_backward", polar),
    ("fft_r2c_backward", |a| {
        // grad, dim, normalization, onesided, size of the last dimension
        let (grad, dims, size) = (a[0].tensor()?, a[1].ints()?, a[4].int()?);
        let last = dims[dims.len() - 1];
        let mut grad = grad.clone();
        if a[3].boolean()? && grad.size(last)? < size {
            // The half that was left out is zero in the gradient.
            let rank = grad.dim();
            let d = crate::tensor::shape::wrap_dim(last, rank)?;
            let mut pad = IntList::from_elem(0, 2 * (rank - d));
            let end = pad.len() - 1;
            pad[end] = size - grad.size(last)?;
            grad = op::constant_pad_nd.call((grad, pad))?;
        }
        let back = op::_fft_c2c.call((grad, dims, a[2].int()?, false))?;
        Ok(op::real.call((back,))?.into())
    }),
    ("fft_c2r_backward", |a| {
        // grad, dim, normalization
        let (grad, dims) = (a[0].tensor()?, a[1].ints()?);
        let last = dims[dims.len() - 1];
        let half = op::_fft_r2c.call((grad, dims, a[2].int()?, true))?;
        let (n, k) = (grad.size(last)?, half.size(last)?);
        if n <= k {
            return Ok(half.into());
        }
        // What has a mirror image counts twice.
        let d = crate::tensor::shape::wrap_dim(last, half.dim())?;
        let mut sizes = IntList::from_elem(1, half.dim());
        sizes[d] = k;
        let places = op::arange.call((Scalar::Int(k), crate::DType::Long, IValue::None, half.device()))?;
        let mirrored = op::logical_and
            .call((op::ge_Scalar.call((&places, 1))?, op::le_Scalar.call((&places, n - k))?))?;
        let twice = op::add_Scalar.call((op::to_dtype.call((mirrored, grad.dtype()))?, 1))?;
        Ok(mul(&half, &op::view.call((twice, sizes))?)?.into())
    }),
];

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::add_Tensor.call((a, b))
}
fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::sub_Tensor.call((a, b))
}
fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::mul_Tensor.call((a, b))
}
fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::div_Tensor.call((a, b))
}
fn scale(a: &Tensor, s: impl Into<Scalar>) -> Result<Tensor> {
    op::mul_Scalar.call((a, s.into()))
}

/// The share of one term in a mean. Reduction: 0 none, 1 mean, 2 sum.
fn mean_if(slope: Tensor, reduction: i64, like: &Tensor) -> Result<Tensor> {
    if reduction == 1 { op::div_Scalar.call((slope, like.numel())) } else { Ok(slope) }
}

fn weighted(slope: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    match weight {
        Some(w) => mul(&slope, w),
        None => Ok(slope),
    }
}

/// `grad` where input and target are nearer than `width`, zero elsewhere.
fn inside(grad: &Tensor, x: &Tensor, target: &Tensor, width: f64) -> Result<Tensor> {
    let near = op::lt_Scalar.call((op::abs.call((sub(x, target)?,))?, width))?;
    mul(grad, &near)
}

/// The derivative of a loss's gradient in the incoming gradient, in which it is linear.
fn to_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    reduction: i64,
    back: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Value> {
    if reduction == 0 {
        return Ok(back(grad)?.into());
    }
    let slope = back(&op::ones_like.call((grad_output,))?)?;
    Ok(op::sum.call((mul(&slope, grad)?,))?.into())
}

/// `x` and `1 - x`, kept from zero as upstream keeps them.
fn clear_of_ends(x: &Tensor) -> Result<(Tensor, Tensor)> {
    const EPS: f64 = 1e-12;
    let low = op::add_Scalar.call((x, EPS))?;
    let high = op::add_Scalar.call((op::rsub_Scalar.call((x, 1))?, EPS))?;
    Ok((low, high))
}

/// grad, indices, number of pooled dimensions: the gradient of each output is that of the input it was taken from.
fn max_pool(a: &[Value]) -> Result<Value> {
    let (grad, indices, dims) = (a[0].tensor()?, a[1].tensor()?, a[2].int()?);
    if indices.numel() == 0 {
        return Ok(op::new_zeros.call((grad, IntList::from_slice(indices.sizes())))?.into());
    }
    let flat = |t: &Tensor| op::flatten_using_ints.call((t, -dims, -1));
    let taken = op::gather.call((flat(grad)?, -1, flat(indices)?))?;
    Ok(op::view.call((taken, IntList::from_slice(indices.sizes())))?.into())
}

/// input, weight, ggI, ggW, ggB, grad_output, running_mean, running_var, training, eps, save_mean, save_invstd, mask; answers
/// the gradients of input, weight and grad_output.
///
/// With `a = ggI`, `b = grad_output`, `x` normalised, `s` the reciprocal deviation, `M` elements a channel and `mean` over them,
/// in training `dx = weight s (b - mean b - x mean(b x))`, `dw = sum(b x)`, `db = sum(b)`; otherwise `x` and `s` do not depend on
/// the input but by `x = (input - mean) s`.
fn batch_norm(v: &[Value]) -> Result<Value> {
    let (input, grad) = (v[0].tensor()?, v[5].tensor()?);
    let (weight, gg_input, gg_weight, gg_bias) =
        (v[1].opt_tensor(), v[2].opt_tensor(), v[3].opt_tensor(), v[4].opt_tensor());
    let (training, eps, mask) = (v[8].boolean()?, v[9].double()?, bools(&v[12])?);
    let channels = input.sizes()[1];
    let mut sizes = IntList::from_elem(1, input.dim());
    sizes[1] = channels;
    let over: IntList = (0..input.dim() as i64).filter(|d| *d != 1).collect();
    let spread = |t: &Tensor| op::view.call((t, sizes.clone()));
    let sum = |t: &Tensor| op::sum_dim_IntList.call((t, over.clone(), true));
    let count = input.numel() / channels.max(1);
    let mean = |t: &Tensor| op::div_Scalar.call((sum(t)?, count));
    let (centre, s) = if training {
        (spread(v[10].tensor()?)?, spread(v[11].tensor()?)?)
    } else {
        let wide = op::add_Scalar.call((v[7].tensor()?, eps))?;
        (spread(v[6].tensor()?)?, spread(&op::rsqrt.call((wide,))?)?)
    };
    // Differentiable in the input also where a third derivative is asked for.
    let (centre, s) = if training && crate::dispatch::tls::grad_mode() {
        let centre = mean(input)?;
        let apart = sub(input, &centre)?;
        (centre, op::rsqrt.call((op::add_Scalar.call((mean(&mul(&apart, &apart)?)?, eps))?,))?)
    } else {
        (centre, s)
    };
    let x = mul(&sub(input, &centre)?, &s)?;
    let gamma = weight.map(spread).transpose()?;
    let times_gamma = |t: Tensor| match &gamma {
        Some(g) => mul(&t, g),
        None => Ok(t),
    };
    // t - mean t - x mean(t x): what a direction keeps when mean and deviation are taken out.
    let kept = |t: &Tensor| -> Result<Tensor> {
        if !training {
            return Ok(t.clone());
        }
        let along = mul(&x, &mean(&mul(t, &x)?)?)?;
        sub(&sub(t, &mean(t)?)?, &along)
    };
    let join = |sum: Option<Tensor>, part: Tensor| -> Result<Option<Tensor>> {
        Ok(Some(match sum {
            Some(sum) => add(&sum, &part)?,
            None => part,
        }))
    };
    let (mut to_input, mut to_weight, mut to_grad) = (None, None, None);
    if let Some(gg) = gg_input {
        if mask[0] && training {
            let (alpha, beta) = (mean(&mul(gg, &x)?)?, mean(&mul(grad, &x)?)?);
            let product = mean(&mul(gg, &kept(grad)?)?)?;
            let bent =
                add(&mul(&x, &product)?, &add(&mul(&kept(gg)?, &beta)?, &mul(&kept(grad)?, &alpha)?)?)?;
            let part = times_gamma(op::neg.call((mul(&bent, &mul(&s, &s)?)?,))?)?;
            to_input = join(to_input, part)?;
        }
        if mask[1] && weight.is_some() {
            let all = sum(&mul(&mul(gg, &s)?, &kept(grad)?)?)?;
            to_weight = Some(op::view.call((all, [channels]))?);
        }
        if mask[2] {
            to_grad = join(to_grad, times_gamma(mul(&kept(gg)?, &s)?)?)?;
        }
    }
    if let Some(gg) = gg_weight {
        let gg = spread(gg)?;
        if mask[0] {
            to_input = join(to_input, mul(&mul(&kept(grad)?, &s)?, &gg)?)?;
        }
        if mask[2] {
            to_grad = join(to_grad, mul(&x, &gg)?)?;
        }
    }
    if let (Some(gg), true) = (gg_bias, mask[2]) {
        let wide = op::expand.call((spread(gg)?, IntList::from_slice(grad.sizes())))?;
        to_grad = join(to_grad, wide)?;
    }
    let value = |t: Option<Tensor>| t.map_or(Value::UNDEFINED, Value::from);
    Ok(Value::Tuple(vec![value(to_input), value(to_weight), value(to_grad)]))
}

/// grad, indices, padding index: the rows of the gradient that the indices took.
fn embedding(a: &[Value]) -> Result<Value> {
    let (grad, indices, padding) = (a[0].tensor()?, a[1].tensor()?, a[2].int()?);
    let flat = op::reshape.call((indices, [-1i64]))?;
    let mut rows = op::index_select.call((grad, 0, &flat))?;
    if padding >= 0 {
        let padded = op::unsqueeze.call((op::eq_Scalar.call((&flat, padding))?, 1))?;
        rows = op::masked_fill_Scalar.call((rows, padded, 0))?;
    }
    let mut sizes = IntList::from_slice(indices.sizes());
    sizes.extend(grad.sizes()[1..].iter().copied());
    Ok(op::view.call((rows, sizes))?.into())
}

/// grad, self, dim, index, src, reduce, include_self, result; answers the gradients of self and src.
fn scatter_reduce(a: &[Value]) -> Result<Value> {
    let (grad, this, dim, index, src) =
        (a[0].tensor()?, a[1].tensor()?, a[2].int()?, a[3].tensor()?, a[4].tensor()?);
    let (reduce, include, result) = (a[5].ivalue()?.str()?.to_owned(), a[6].boolean()?, a[7].tensor()?);
    let gather = |t: &Tensor| op::gather.call((t, dim, index));
    let scatter_add = |t: &Tensor, s: &Tensor| op::scatter_add.call((t, dim, index, s));
    let again = |t: &Tensor, s: &Tensor| {
        op::scatter_reduce_two.call((t, dim, index, s, IValue::from(reduce.as_str()), include))
    };
    let (to_self, to_src) = match reduce.as_str() {
        "sum" => (grad.clone(), gather(grad)?),
        "mean" => {
            let start = if include { op::ones_like.call((grad,))? } else { op::zeros_like.call((grad,))? };
            let count = scatter_add(&start, &op::ones_like.call((src,))?)?;
            let none = op::eq_Scalar.call((&count, 0))?;
            let share = div(grad, &op::masked_fill_Scalar.call((count, none, 1))?)?;
            let to_src = gather(&share)?;
            (share, to_src)
        }
        "prod" => {
            // A zero among the factors leaves the product of the others as its slope.
            let filled = op::masked_fill_Scalar.call((this, op::eq_Scalar.call((this, 0))?, 1))?;
            let to_self = div(&mul(grad, &again(&filled, src)?)?, &filled)?;
            let zero = op::eq_Scalar.call((src, 0))?;
            let zeros = gather(&scatter_add(
                &op::zeros_like.call((this,))?,
                &op::to_dtype.call((&zero, this.dtype()))?,
            )?)?;
            let single = op::logical_and.call((&zero, op::eq_Scalar.call((&zeros, 1))?))?;
            let others = again(this, &op::masked_fill_Scalar.call((src, &single, 1))?)?;
            let ordinary =
                div(&gather(&mul(grad, result)?)?, &op::masked_fill_Scalar.call((src, &zero, 1))?)?;
            (to_self, op::where_self.call((single, gather(&mul(grad, &others)?)?, ordinary))?)
        }
        _ => {
            // The greatest or least: shared evenly among those equal to it.
            let value = gather(result)?;
            let own = op::to_dtype.call((op::eq_Tensor.call((this, result))?, grad.dtype()))?;
            let theirs = op::to_dtype.call((op::eq_Tensor.call((src, value))?, grad.dtype()))?;
            let start = if include { own.clone() } else { op::scatter_value.call((&own, dim, index, 0))? };
            let share = div(grad, &scatter_add(&start, &theirs)?)?;
            (mul(&own, &share)?, mul(&theirs, &gather(&share)?)?)
        }
    };
    let to_self = if include { to_self } else { op::scatter_value.call((to_self, dim, index, 0))? };
    Ok(Value::Tuple(vec![to_self.into(), to_src.into()]))
}

/// grad, x1, x2, result of `_euclidean_dist`.
fn euclidean_dist(a: &[Value]) -> Result<Value> {
    let (grad, x1, x2, result) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?, a[3].tensor()?);
    let ratio = div(grad, result)?;
    let ratio = op::masked_fill_Scalar.call((ratio, op::eq_Scalar.call((result, 0))?, 0))?;
    let to_x1 =
        sub(&mul(x1, &op::sum_dim_IntList.call((&ratio, [-1i64], true))?)?, &op::matmul.call((&ratio, x2))?)?;
    let columns = op::unsqueeze.call((op::sum_dim_IntList.call((&ratio, [-2i64], false))?, -1))?;
    let turned = op::transpose_int.call((&ratio, -2, -1))?;
    let to_x2 = sub(&mul(x2, &columns)?, &op::matmul.call((turned, x1))?)?;
    Ok(Value::Tuple(vec![to_x1.into(), to_x2.into()]))
}

/// grad, result of `polar`: the gradients of the modulus and the angle.
fn polar(a: &[Value]) -> Result<Value> {
    let (grad, result) = (a[0].tensor()?, a[1].tensor()?);
    let back = conj(grad)?;
    let to_abs = op::real.call((mul(&back, &op::sgn.call((result,))?)?,))?;
    let turned = op::mul_Scalar.call((result, Scalar::Complex(0.0, 1.0)))?;
    let to_angle = op::real.call((mul(&back, &turned)?,))?;
    Ok(Value::Tuple(vec![to_abs.into(), to_angle.into()]))
}
