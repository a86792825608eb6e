//! Derivatives of pointwise operators.

use super::{Helper, conj, real_if};
use crate::autograd::formula::eval::Value;
use crate::ivalue::IValue;
use crate::{DType, Result, Scalar, Tensor, op};

pub const HELPERS: &[(&str, Helper)] = &[
    ("mul_tensor_backward", |a| {
        // grad, other, dtype of self
        let out = match (a[1].opt_tensor(), &a[1]) {
            (Some(other), _) => op::mul_Tensor.call((a[0].tensor()?, conj(other)?))?,
            (None, number) => match number.scalar()? {
                Scalar::Complex(re, im) => op::mul_Scalar.call((a[0].tensor()?, Scalar::Complex(re, -im)))?,
                s => op::mul_Scalar.call((a[0].tensor()?, s))?,
            },
        };
        Ok(real_if(a[2].dtype()?, out)?.into())
    }),
    ("div_tensor_self_backward", div_self),
    ("div_tensor_other_backward", div_other),
    ("pow_backward", |a| Ok(pow_backward(a[0].tensor()?, a[1].tensor()?, a[2].scalar()?)?.into())),
    ("pow_backward_self", pow_backward_self),
    ("pow_backward_exponent", pow_backward_exponent),
    ("angle_backward", angle_backward),
    ("sgn_backward", sgn_backward),
    ("sinc_backward", sinc_backward),
    ("atan2_backward", atan2_backward),
    ("copysign_tensor_self_backward", copysign_backward),
    ("deg2rad_backward", |a| scaled(a, std::f64::consts::PI / 180.0)),
    ("rad2deg_backward", |a| scaled(a, 180.0 / std::f64::consts::PI)),
    ("clamp_backward", clamp_backward),
    ("clamp_backward_min_max", clamp_backward_min_max),
    ("log1p_backward", |a| {
        let one_more = op::add_Scalar.call((a[1].tensor()?, 1))?;
        Ok(op::div_Tensor.call((a[0].tensor()?, conj(&one_more)?))?.into())
    }),
    ("masked_fill_backward", |a| {
        let zero = op::scalar_tensor.call((0.0, a[0].tensor()?.dtype()))?;
        let kept = op::where_self.call((a[1].tensor()?, a[0].tensor()?, zero))?;
        Ok(op::sum.call((kept,))?.into())
    }),
    ("infinitely_differentiable_silu_backward", silu),
    ("infinitely_differentiable_mish_backward", mish),
    ("infinitely_differentiable_logit_backward", logit),
    ("infinitely_differentiable_native_dropout_backward", |a| {
        let g = op::mul_Tensor.call((a[0].tensor()?, a[1].tensor()?))?;
        Ok(op::mul_Scalar.call((g, a[2].scalar()?))?.into())
    }),
    ("native_dropout_double_backward", |a| {
        let g = op::mul_Tensor.call((a[0].tensor()?, a[2].tensor()?))?;
        Ok(op::mul_Scalar.call((g, a[3].scalar()?))?.into())
    }),
    ("_to_copy_backward", to_copy_backward),
    ("mvlgamma_backward", mvlgamma_backward),
    ("i1_backward", i1_backward),
    ("gelu_double_backward", gelu_double_backward),
    ("elu_double_backward", elu_double_backward),
    ("glu_double_backward", |a| glu_double_backward(a, false)),
    ("glu_double_backward_grad_output", |a| glu_double_backward(a, true)),
    ("softplus_double_backward", softplus_double_backward),
    ("log_sigmoid_double_backward", |a| {
        let z = op::sigmoid.call((a[1].tensor()?,))?;
        let one_less = op::sub_Scalar.call((&z, 1))?;
        let g = op::mul_Tensor.call((a[0].tensor()?, op::mul_Tensor.call((one_less, &z))?))?;
        Ok(g.into())
    }),
];

fn scaled(a: &[Value], factor: f64) -> Result<Value> {
    Ok(op::mul_Scalar.call((a[0].tensor()?, factor))?.into())
}

/// Whether a rounding mode was given: the quotient is then flat almost everywhere.
fn rounds(mode: Option<&Value>) -> bool {
    mode.is_some_and(Value::is_defined)
}

fn zeros_like(t: &Tensor) -> Result<Tensor> {
    op::zeros_like.call((t,))
}

/// grad, divisor (tensor or number), dtype of self, rounding mode
fn div_self(a: &[Value]) -> Result<Value> {
    let grad = a[0].tensor()?;
    if rounds(a.get(3)) {
        return Ok(zeros_like(grad)?.into());
    }
    let out = match a[1].opt_tensor() {
        Some(other) => op::div_Tensor.call((grad, conj(other)?))?,
        None => match a[1].scalar()? {
            Scalar::Complex(re, im) => op::div_Scalar.call((grad, Scalar::Complex(re, -im)))?,
            s => op::div_Scalar.call((grad, s))?,
        },
    };
    Ok(real_if(a[2].dtype()?, out)?.into())
}

/// grad, self, other, rounding mode
fn div_other(a: &[Value]) -> Result<Value> {
    let (grad, this, other) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    if rounds(a.get(3)) {
        return Ok(zeros_like(grad)?.into());
    }
    let quotient = op::div_Tensor.call((op::div_Tensor.call((this, other))?, other))?;
    let out = op::mul_Tensor.call((op::neg.call((grad,))?, conj(&quotient)?))?;
    Ok(real_if(other.dtype(), out)?.into())
}

fn pow_backward(grad: &Tensor, this: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if matches!(exponent, Scalar::Complex(re, im) if re == 0.0 && im == 0.0)
        || (!exponent.is_complex() && exponent.to_f64() == 0.0)
    {
        return zeros_like(this);
    }
    let less = match exponent {
        Scalar::Complex(re, im) => Scalar::Complex(re - 1.0, im),
        Scalar::Float(v) => Scalar::Float(v - 1.0),
        s => Scalar::Int(s.to_i64() - 1),
    };
    let power = op::pow_Tensor_Scalar.call((this, less))?;
    let slope = conj(&op::mul_Scalar.call((power, exponent))?)?;
    real_if(this.dtype(), op::mul_Tensor.call((grad, slope))?)
}

fn pow_backward_self(a: &[Value]) -> Result<Value> {
    let (grad, this, exponent) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    let power = op::pow_Tensor_Tensor.call((this, op::sub_Scalar.call((exponent, 1))?))?;
    let slope = conj(&op::mul_Tensor.call((exponent, power))?)?;
    let out = op::mul_Tensor.call((grad, slope))?;
    let zero = op::zeros.call(([0i64; 0], out.dtype(), IValue::None, out.device()))?;
    let flat = op::eq_Scalar.call((exponent, 0.0))?;
    Ok(real_if(this.dtype(), op::where_self.call((flat, zero, out))?)?.into())
}

/// grad, base (tensor or number), exponent, result. Where the base is zero and the exponent is not negative the slope is zero.
fn pow_backward_exponent(a: &[Value]) -> Result<Value> {
    let (grad, exponent, result) = (a[0].tensor()?, a[2].tensor()?, a[3].tensor()?);
    let nonnegative = |e: &Tensor| -> Result<Tensor> {
        if e.dtype().is_complex() {
            let (re, im) = (op::real.call((e,))?, op::imag.call((e,))?);
            op::logical_and.call((op::eq_Scalar.call((im, 0))?, op::ge_Scalar.call((re, 0))?))
        } else {
            op::ge_Scalar.call((e, 0))
        }
    };
    let out = match a[1].opt_tensor() {
        Some(base) => {
            let flat = op::logical_and.call((op::eq_Scalar.call((base, 0))?, nonnegative(exponent)?))?;
            let log = op::log.call((base,))?;
            let slope = op::mul_Tensor.call((grad, conj(&op::mul_Tensor.call((result, log))?)?))?;
            let zero = op::zeros.call(([0i64; 0], slope.dtype(), IValue::None, slope.device()))?;
            op::where_self.call((flat, zero, slope))?
        }
        None => {
            let base = a[1].scalar()?;
            let grad_log = |g: &Tensor| -> Result<Tensor> {
                let log = match base {
                    Scalar::Complex(re, im) => {
                        let l = crate::Complex::new(re, im).ln();
                        Scalar::Complex(l.re, l.im)
                    }
                    b if b.to_f64() < 0.0 && exponent.dtype().is_complex() => {
                        Scalar::Complex((-b.to_f64()).ln(), std::f64::consts::PI)
                    }
                    b => Scalar::Float(b.to_f64().ln()),
                };
                op::mul_Tensor.call((g, conj(&op::mul_Scalar.call((result, log))?)?))
            };
            let is_zero = match base {
                Scalar::Complex(re, im) => re == 0.0 && im == 0.0,
                b => b.to_f64() == 0.0,
            };
            if is_zero {
                let slope = grad_log(grad)?;
                let zero = op::zeros.call(([0i64; 0], slope.dtype(), IValue::None, slope.device()))?;
                op::where_self.call((nonnegative(exponent)?, zero, slope))?
            } else {
                grad_log(grad)?
            }
        }
    };
    Ok(real_if(exponent.dtype(), out)?.into())
}

fn angle_backward(a: &[Value]) -> Result<Value> {
    let (grad, this) = (a[0].tensor()?, a[1].tensor()?);
    if !this.dtype().is_complex() {
        return Ok(op::zeros_like.call((this,))?.into());
    }
    let (re, im) = (op::real.call((this,))?, op::imag.call((this,))?);
    let square = |t: &Tensor| op::mul_Tensor.call((t, t));
    let norm = op::add_Tensor.call((square(&re)?, square(&im)?))?;
    // d angle = (re d im - im d re) / |z|^2, as a complex gradient -im + i re.
    let direction = op::complex.call((op::neg.call((im,))?, re))?;
    let out = op::mul_Tensor.call((op::div_Tensor.call((grad, &norm))?, direction))?;
    let zero = op::eq_Scalar.call((this, 0.0))?;
    Ok(op::masked_fill_Scalar.call((out, zero, 0))?.into())
}

/// self, grad, result
fn sgn_backward(a: &[Value]) -> Result<Value> {
    let (x, grad, sgn) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    if !x.dtype().is_complex() && !grad.dtype().is_complex() {
        return Ok(zeros_like(sgn)?.into());
    }
    let abs = op::abs.call((x,))?;
    let along = op::mul_Tensor
        .call((op::real.call((op::mul_Tensor.call((op::conj.call((sgn,))?, grad))?,))?, sgn))?;
    let out = op::div_Tensor.call((op::sub_Tensor.call((grad, along))?, &abs))?;
    Ok(op::masked_fill_Scalar.call((out, op::eq_Scalar.call((&abs, 0.0))?, 0))?.into())
}

/// d sinc(x) = (cos(pi x) pi x - sin(pi x)) / (pi x^2), zero at zero.
fn sinc_backward(a: &[Value]) -> Result<Value> {
    let (grad, x) = (a[0].tensor()?, a[1].tensor()?);
    let pi = std::f64::consts::PI;
    let px = op::mul_Scalar.call((x, pi))?;
    let square = op::mul_Scalar.call((op::mul_Tensor.call((x, x))?, pi))?;
    let top =
        op::sub_Tensor.call((op::mul_Tensor.call((op::cos.call((&px,))?, &px))?, op::sin.call((&px,))?))?;
    let slope = conj(&op::div_Tensor.call((top, &square))?)?;
    let out = op::mul_Tensor.call((grad, slope))?;
    Ok(op::masked_fill_Scalar.call((out, op::eq_Scalar.call((&square, 0.0))?, 0))?.into())
}

/// grad, self, other, mask
fn atan2_backward(a: &[Value]) -> Result<Value> {
    let Some(grad) = a[0].opt_tensor() else { return Ok(Value::UNDEFINED) };
    let (y, x) = (a[1].tensor()?, a[2].tensor()?);
    let mask = bools(&a[3])?;
    let norm = op::add_Tensor.call((op::mul_Tensor.call((y, y))?, op::mul_Tensor.call((x, x))?))?;
    let recip =
        op::masked_fill_Scalar.call((op::reciprocal.call((&norm,))?, op::eq_Scalar.call((&norm, 0))?, 0))?;
    let side = |on: bool, by: &Tensor, sign: bool| -> Result<Value> {
        if !on {
            return Ok(Value::UNDEFINED);
        }
        let by = if sign { op::neg.call((by,))? } else { by.clone() };
        Ok(op::mul_Tensor.call((grad, op::mul_Tensor.call((by, &recip))?))?.into())
    };
    Ok(Value::Tuple(vec![side(mask[0], x, false)?, side(mask[1], y, true)?]))
}

pub fn bools(v: &Value) -> Result<Vec<bool>> {
    Ok(v.ivalue()?.bool_list()?.to_vec())
}

/// grad, self, result
fn copysign_backward(a: &[Value]) -> Result<Value> {
    let (grad, this, result) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    let ratio = op::div_Tensor.call((result, this))?;
    let ratio = op::masked_fill_Scalar.call((ratio, op::eq_Scalar.call((this, 0))?, 0))?;
    Ok(op::mul_Tensor.call((grad, ratio))?.into())
}

/// grad, self, min, max: the gradient passes where the value lies between the bounds.
fn clamp_backward(a: &[Value]) -> Result<Value> {
    let (grad, this) = (a[0].tensor()?, a[1].tensor()?);
    let compare = |bound: &Value, tensor: crate::OpId, scalar: crate::OpId| -> Result<Option<Tensor>> {
        Ok(match bound {
            v if !v.is_defined() => None,
            Value::I(IValue::Tensor(t)) => Some(tensor.call((this, t))?),
            v => Some(scalar.call((this, v.scalar()?))?),
        })
    };
    let above = compare(&a[2], op::ge_Tensor, op::ge_Scalar)?;
    let below = compare(&a[3], op::le_Tensor, op::le_Scalar)?;
    let inside = match (above, below) {
        (Some(x), Some(y)) => op::logical_and.call((x, y))?,
        (Some(x), None) | (None, Some(x)) => x,
        (None, None) => return Ok(grad.clone().into()),
    };
    let zero = op::scalar_tensor.call((0.0, grad.dtype(), IValue::None, grad.device()))?;
    Ok(op::where_self.call((inside, grad, zero))?.into())
}

/// grad, self, min, max, mask: the gradients of the bounds.
fn clamp_backward_min_max(a: &[Value]) -> Result<Value> {
    let (Some(grad), this) = (a[0].opt_tensor(), a[1].tensor()?) else { return Ok(Value::UNDEFINED) };
    let mask = bools(&a[4])?;
    let zero = op::scalar_tensor.call((0.0, grad.dtype(), IValue::None, grad.device()))?;
    let pass = |on: Tensor| -> Result<Value> { Ok(op::where_self.call((on, grad, &zero))?.into()) };
    let (min, max) = (a[2].opt_tensor(), a[3].opt_tensor());
    let mut out = vec![Value::UNDEFINED, Value::UNDEFINED];
    if let (Some(min), true) = (min, mask[0]) {
        let below = op::lt_Tensor.call((this, min))?;
        out[0] = pass(match max {
            // Where the bounds cross, the upper one is the result.
            Some(max) => op::logical_and.call((op::lt_Tensor.call((min, max))?, below))?,
            None => below,
        })?;
    }
    if let (Some(max), true) = (max, mask[1]) {
        let above = op::gt_Tensor.call((this, max))?;
        out[1] = pass(match min {
            Some(min) => op::logical_or.call((above, op::lt_Tensor.call((max, min))?))?,
            None => above,
        })?;
    }
    Ok(Value::Tuple(out))
}

/// grad, self: d x s(x) = s (1 + x (1 - s))
fn silu(a: &[Value]) -> Result<Value> {
    let (grad, x) = (a[0].tensor()?, a[1].tensor()?);
    let s = op::sigmoid.call((x,))?;
    let slope = op::mul_Tensor
        .call((&s, op::add_Scalar.call((op::mul_Tensor.call((x, op::rsub_Scalar.call((&s, 1))?))?, 1))?))?;
    Ok(op::mul_Tensor.call((grad, slope))?.into())
}

/// grad, self: d x tanh(softplus(x)) = t + x s(x) (1 - t^2)
fn mish(a: &[Value]) -> Result<Value> {
    let (grad, x) = (a[0].tensor()?, a[1].tensor()?);
    let s = op::sigmoid.call((x,))?;
    let t = op::tanh.call((op::softplus.call((x,))?,))?;
    let rest = op::rsub_Scalar.call((op::mul_Tensor.call((&t, &t))?, 1))?;
    let slope = op::add_Tensor.call((&t, op::mul_Tensor.call((op::mul_Tensor.call((x, s))?, rest))?))?;
    Ok(op::mul_Tensor.call((grad, slope))?.into())
}

/// grad, self, eps
fn logit(a: &[Value]) -> Result<Value> {
    let (grad, x) = (a[0].tensor()?, a[1].tensor()?);
    let slope = op::div_Tensor.call((grad, op::mul_Tensor.call((x, op::rsub_Scalar.call((x, 1.0))?))?))?;
    if !a[2].is_defined() {
        let inside = op::logical_and.call((op::ge_Scalar.call((x, 0.0))?, op::le_Scalar.call((x, 1.0))?))?;
        let nan = op::scalar_tensor.call((f64::NAN, slope.dtype(), IValue::None, slope.device()))?;
        return Ok(op::where_self.call((inside, slope, nan))?.into());
    }
    let eps = a[2].double()?;
    let inside =
        op::logical_and.call((op::ge_Scalar.call((x, eps))?, op::le_Scalar.call((x, 1.0 - eps))?))?;
    let zero = op::scalar_tensor.call((0.0, slope.dtype(), IValue::None, slope.device()))?;
    Ok(op::where_self.call((inside, slope, zero))?.into())
}

/// grad, options of self
fn to_copy_backward(a: &[Value]) -> Result<Value> {
    let grad = a[0].tensor()?;
    let Value::Options(dtype, layout, device) = a[1] else { return a[1].mismatch("options") };
    let grad = real_if(dtype, grad.clone())?;
    Ok(op::_to_copy.call((&grad, dtype, layout, device))?.into())
}

/// grad, self, p: the sum of digamma(x - i/2) for i below p.
fn mvlgamma_backward(a: &[Value]) -> Result<Value> {
    let (grad, x, p) = (a[0].tensor()?, a[1].tensor()?, a[2].int()?);
    let mut sum: Option<Tensor> = None;
    for i in 0..p {
        let term = op::digamma.call((op::sub_Scalar.call((x, i as f64 / 2.0))?,))?;
        sum = Some(match sum {
            Some(s) => op::add_Tensor.call((s, term))?,
            None => term,
        });
    }
    match sum {
        Some(s) => Ok(op::mul_Tensor.call((grad, s))?.into()),
        None => Ok(op::zeros_like.call((grad,))?.into()),
    }
}

/// grad, self, result: i0(x) - i1(x) / x, one half at zero.
fn i1_backward(a: &[Value]) -> Result<Value> {
    let (grad, x, result) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    let eps = if x.dtype() == DType::Double { f64::EPSILON } else { f32::EPSILON as f64 };
    let far = op::gt_Scalar.call((op::abs.call((x,))?, eps))?;
    let filler = op::scalar_tensor.call((eps, x.dtype(), IValue::None, x.device()))?;
    let safe = op::where_self.call((&far, x, filler))?;
    let slope = op::sub_Tensor
        .call((op::i0.call((&safe,))?, op::mul_Tensor.call((result, op::reciprocal.call((&safe,))?))?))?;
    let half = op::scalar_tensor.call((0.5, x.dtype(), IValue::None, x.device()))?;
    Ok(op::mul_Tensor.call((grad, op::where_self.call((far, slope, half))?))?.into())
}

/// ggI, gO, input, approximate
fn gelu_double_backward(a: &[Value]) -> Result<Value> {
    let (gg, go, x) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    let mul = |p: &Tensor, q: &Tensor| op::mul_Tensor.call((p, q));
    let sq = mul(x, x)?;
    let second = if a[3].ivalue()?.str()? == "tanh" {
        let beta = std::f64::consts::SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI * 0.5;
        let kappa = 0.044715;
        let cube = mul(&sq, x)?;
        let inner =
            op::mul_Scalar.call((op::add_Tensor.call((x, op::mul_Scalar.call((cube, kappa))?))?, beta))?;
        let t = op::tanh.call((inner,))?;
        let sech = op::rsub_Scalar.call((mul(&t, &t)?, 1))?;
        let d = op::mul_Scalar
            .call((op::add_Scalar.call((op::mul_Scalar.call((&sq, 3.0 * kappa))?, 1))?, beta))?;
        let dd = op::mul_Scalar.call((x, 6.0 * kappa * beta))?;
        // f' = (1 + t)/2 + x sech d / 2, and so f'' = sech d + x (sech dd - 2 t sech d^2) / 2
        let curve = op::sub_Tensor
            .call((mul(&sech, &dd)?, op::mul_Scalar.call((mul(&mul(&t, &sech)?, &mul(&d, &d)?)?, 2))?))?;
        op::add_Tensor.call((mul(&sech, &d)?, op::mul_Scalar.call((mul(x, &curve)?, 0.5))?))?
    } else {
        // f' = Phi + x phi, and so f'' = phi (2 - x^2)
        let density = op::mul_Scalar.call((
            op::exp.call((op::mul_Scalar.call((&sq, -0.5))?,))?,
            std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * 0.5,
        ))?;
        mul(&density, &op::rsub_Scalar.call((&sq, 2))?)?
    };
    Ok(mul(&mul(gg, go)?, &second)?.into())
}

/// grad, grad_output, alpha, scale, input_scale, is_result, self_or_result
fn elu_double_backward(a: &[Value]) -> Result<Value> {
    let (grad, go) = (a[0].tensor()?, a[1].tensor()?);
    let (alpha, scale, input_scale) = (a[2].double()?, a[3].double()?, a[4].double()?);
    let x = a[6].tensor()?;
    let product = op::mul_Tensor.call((grad, go))?;
    let curve = if a[5].boolean()? {
        op::mul_Scalar.call((op::add_Scalar.call((x, scale * alpha))?, input_scale * input_scale))?
    } else {
        op::mul_Scalar.call((
            op::exp.call((op::mul_Scalar.call((x, input_scale))?,))?,
            alpha * scale * input_scale * input_scale,
        ))?
    };
    let out = op::mul_Tensor.call((product, curve))?;
    let negative = op::lt_Scalar.call((x, 0))?;
    Ok(op::mul_Tensor.call((out, op::_to_copy.call((negative, grad.dtype()))?))?.into())
}

/// grad, input, beta, threshold
fn softplus_double_backward(a: &[Value]) -> Result<Value> {
    let (grad, x) = (a[0].tensor()?, a[1].tensor()?);
    let (beta, threshold) = (a[2].double()?, a[3].double()?);
    let scaled = op::mul_Scalar.call((x, beta))?;
    let s = op::sigmoid.call((&scaled,))?;
    let slope = op::mul_Tensor.call((&s, op::rsub_Scalar.call((&s, 1))?))?;
    let out = op::mul_Tensor.call((op::mul_Scalar.call((grad, beta))?, slope))?;
    let curved = op::lt_Scalar.call((scaled, threshold))?;
    Ok(op::mul_Tensor.call((out, op::_to_copy.call((curved, grad.dtype()))?))?.into())
}

/// grad, [grad_output,] input, dim: the derivative of `glu_backward` in its input, or in its gradient.
fn glu_double_backward(a: &[Value], in_output: bool) -> Result<Value> {
    let (gg, x) = (a[0].tensor()?, a[if in_output { 1 } else { 2 }].tensor()?);
    let dim = super::wrap(a[if in_output { 2 } else { 3 }].int()?, x.dim());
    let half = x.sizes()[dim as usize] / 2;
    let part = |t: &Tensor, i: i64| op::narrow.call((t, dim, i * half, half));
    let mul = |p: &Tensor, q: &Tensor| op::mul_Tensor.call((p, q));
    let (first, s) = (part(x, 0)?, op::sigmoid.call((part(x, 1)?,))?);
    let (g0, g1) = (part(gg, 0)?, part(gg, 1)?);
    let slope = mul(&s, &op::rsub_Scalar.call((&s, 1))?)?;
    if in_output {
        return Ok(op::add_Tensor.call((mul(&g0, &s)?, mul(&mul(&g1, &first)?, &slope)?))?.into());
    }
    let go = a[1].tensor()?;
    let curve = mul(&slope, &op::rsub_Scalar.call((op::mul_Scalar.call((&s, 2))?, 1))?)?;
    let to_first = mul(&mul(&g1, go)?, &slope)?;
    let to_gate =
        op::add_Tensor.call((mul(&mul(&g0, go)?, &slope)?, mul(&mul(&mul(&g1, go)?, &first)?, &curve)?))?;
    Ok(op::cat.call((vec![to_first, to_gate], dim))?.into())
}
