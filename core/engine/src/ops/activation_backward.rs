//! The gradients of activation functions that are operators of their own.

use super::division::narrow;
use crate::dispatch::{OutSpec, Registry, Specs};
use crate::iter::TensorIterator;
use crate::iter::blocks::{array2, map2, map3, opmath};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{Complex, DType, Result, Tensor, check, op};
use torchnative_kernels::pointwise::{self as kernels, Operand};
use torchnative_kernels::vmath::{self, Function2};

pub(crate) fn register(r: &mut Registry) {
    let pair = |a: Args<'_>, out: Option<&Tensor>| TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?);
    r.pointwise(op::tanh_backward, pair, |it, _| match it.common_dtype() {
        DType::ComplexDouble => map2(it, |g: Complex<f64>, y: Complex<f64>| g * (1.0 - y * y).conj()),
        DType::ComplexFloat => map2(it, |g: Complex<f32>, y: Complex<f32>| g * (1.0 - y * y).conj()),
        d => opmath!("tanh_backward_cpu", d, floating, W => map2(it, |g: W, y: W| g * (1.0 - y * y))),
    });
    r.pointwise(op::sigmoid_backward, pair, |it, _| match it.common_dtype() {
        DType::ComplexDouble => map2(it, |g: Complex<f64>, y: Complex<f64>| g * ((1.0 - y) * y).conj()),
        DType::ComplexFloat => map2(it, |g: Complex<f32>, y: Complex<f32>| g * ((1.0 - y) * y).conj()),
        d => opmath!("sigmoid_backward_cpu", d, floating, W => map2(it, |g: W, y: W| g * (1.0 - y) * y)),
    });
    r.pointwise(op::silu_backward, pair, |it, _| vector2::<vmath::SiluBackward>(it, "silu_backward_cpu"));
    r.pointwise(op::gelu_backward, pair, |it, a| match a.str(2)? {
        "none" => vector2::<vmath::GeluBackward>(it, "GeluBackwardKernelImpl"),
        "tanh" => vector2::<vmath::GeluTanhBackward>(it, "GeluBackwardKernelImpl"),
        _ => crate::bail!(Runtime, "approximate argument must be either none or tanh."),
    });
    r.pointwise(op::mish_backward, pair, |it, _| {
        opmath!("mish_backward_cpu", it.common_dtype(), floating, W => map2(it, |g: W, x: W| {
            let (sigmoid, t) = (1.0 / (1.0 + (-x).exp()), x.exp().ln_1p().tanh());
            g * (t + x * sigmoid * (1.0 - t * t))
        }))
    });
    r.pointwise(op::threshold_backward, pair, |it, a| {
        let limit = a.scalar(2)?;
        match it.common_dtype() {
            d if d.is_integral(false) => {
                let limit = limit.to_i64();
                map2(it, move |g: i64, x: i64| if x <= limit { 0 } else { g })
            }
            d => opmath!("threshold_cpu", d, floating, W => {
                let limit = element(d, limit.to_f64()) as W;
                map2(it, move |g: W, x: W| if x <= limit { 0.0 } else { g })
            }),
        }
    });
    r.pointwise(op::hardtanh_backward, pair, |it, a| {
        let (low, high) = (a.scalar(2)?.to_f64(), a.scalar(3)?.to_f64());
        let d = it.common_dtype();
        opmath!("hardtanh_backward_cpu", d, floating, W => {
            let (low, high) = (element(d, low) as W, element(d, high) as W);
            map2(it, move |g: W, x: W| if x <= low || x >= high { 0.0 } else { g })
        })
    });
    r.pointwise(op::hardswish_backward, pair, |it, _| {
        opmath!("hardswish_backward_cpu", it.common_dtype(), floating, W => map2(it, |g: W, x: W| {
            if x <= -3.0 { 0.0 } else if x < 3.0 { g * (x / 3.0 + 0.5) } else { g }
        }))
    });
    r.pointwise(op::hardsigmoid_backward, pair, |it, _| {
        opmath!("hardsigmoid_backward", it.common_dtype(), floating, W => {
            // Upstream's constant is a single-precision one, whatever the dtype.
            let sixth = (1.0f32 / 6.0) as W;
            map2(it, move |g: W, x: W| if x > -3.0 && x < 3.0 { g * sixth } else { 0.0 })
        })
    });
    r.pointwise(op::leaky_relu_backward, leaky_build, |it, a| {
        let slope = a.scalar(2)?.to_f64();
        opmath!("leaky_relu_backward_cpu", it.common_dtype(), floating, W => {
            let slope = slope as W;
            map2(it, move |g: W, x: W| if x > 0.0 { g } else { g * slope })
        })
    });
    r.pointwise(op::elu_backward, elu_build, elu);
    r.pointwise(op::softplus_backward, pair, |it, a| {
        let (beta, limit) = (a.scalar(2)?.to_f64(), a.scalar(3)?.to_f64());
        opmath!("softplus_backward_cpu", it.common_dtype(), floating, W => {
            let (beta, limit) = (beta as W, limit as W);
            map2(it, move |g: W, x: W| {
                let z = (x * beta).exp();
                if x * beta > limit { g } else { g * z / (z + 1.0) }
            })
        })
    });
    r.pointwise(op::softshrink_backward, pair, shrink);
    r.pointwise(op::hardshrink_backward, pair, shrink);
    r.pointwise(op::logit_backward, pair, |it, a| {
        let eps = a.opt_double(2)?;
        opmath!("logit_backward_cpu", it.common_dtype(), floating, W => match eps {
            None => map2(it, |g: W, x: W| {
                if !(0.0..=1.0).contains(&x) {
                    W::NAN
                } else if x == 0.0 || x == 1.0 {
                    g * W::INFINITY
                } else {
                    g / (x * (1.0 - x))
                }
            }),
            Some(eps) => {
                let (low, high) = (eps as W, 1.0 - eps as W);
                map2(it, move |g: W, x: W| if x < low || x > high { 0.0 } else { g / (x * (1.0 - x)) })
            }
        })
    });
    r.pointwise(
        op::log_sigmoid_backward,
        |a, out| {
            TensorIterator::config()
                .output(out)
                .input(a.tensor(0)?)
                .input(a.tensor(1)?)
                .input(a.tensor(2)?)
                .build()
        },
        |it, _| {
            opmath!("log_sigmoid_backward_cpu", it.common_dtype(), floating, W => map3(it, |g: W, x: W, buffer: W| {
                let (most, sign) = if x < 0.0 { (1.0, 1.0) } else { (0.0, -1.0) };
                g * (most - sign * (buffer / (1.0 + buffer)))
            }))
        },
    );
    r.structured(op::_prelu_kernel_backward, prelu_specs, prelu);
    r.structured(op::glu_backward, glu_spec, glu);
}

/// A number as an element of a floating dtype.
fn element(d: DType, x: f64) -> f64 {
    if d.is_reduced_floating() { narrow(d)(x as f32) as f64 } else { x }
}

/// Applies a kernel's function of two.
fn vector2<G: Function2>(it: &TensorIterator, name: &str) -> Result<()> {
    opmath!(name, it.common_dtype(), floating, W => array2(it, |n, x: *const W, y: *const W, z: *mut W| {
        // SAFETY: arrays of n elements; the output is equal to an input or apart from it.
        unsafe { kernels::binary::<W, G>(n, x, Operand::Array(y), z) }
    }))
}

fn leaky_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    check!(
        !a.bool(3)? || a.scalar(2)?.to_f64() >= 0.0,
        "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This is caused by \
         calling in-place forward function with a negative slope, please call out-of-place version instead. File an issue at \
         https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu backward calculation with negative \
         slope"
    );
    TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?)
}

fn elu_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    check!(
        !a.bool(4)? || a.scalar(1)?.to_f64() >= 0.0,
        "In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused by calling \
         in-place forward function with a negative slope, please call out-of-place version instead."
    );
    TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(5)?)
}

fn elu(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let [alpha, scale, input_scale] = [a.scalar(1)?.to_f64(), a.scalar(2)?.to_f64(), a.scalar(3)?.to_f64()];
    let of_result = a.bool(4)?;
    opmath!("elu_backward_cpu", it.common_dtype(), floating, W => {
        let (negative, positive, inner) = ((alpha * scale) as W, scale as W, input_scale as W);
        map2(it, move |g: W, x: W| {
            if x <= 0.0 && of_result {
                g * inner * (x + negative)
            } else if x <= 0.0 {
                g * inner * negative * (x * inner).exp()
            } else {
                g * positive
            }
        })
    })
}

fn shrink(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let d = it.common_dtype();
    let lambda = element(d, a.scalar(2)?.to_f64());
    opmath!("shrink_backward_cpu", d, floating, W => {
        let lambda = lambda as W;
        map2(it, move |g: W, x: W| if x >= -lambda && x <= lambda { 0.0 } else { g })
    })
}

fn prelu_specs(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(1)?;
    let strides = if t.is_non_overlapping_and_dense() {
        IntList::from_slice(t.strides())
    } else {
        shape::infer_dense_strides(t.sizes(), t.strides())
    };
    let spec = OutSpec::like(t, t.sizes()).strides(strides);
    Ok(Specs::from_iter([spec.clone(), spec]))
}

fn prelu(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (grad, x, weight) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let this = TensorIterator::config()
        .output(Some(&out[0]))
        .input(grad)
        .input(x)
        .input(weight)
        .no_resize()
        .build()?;
    let of_weight =
        TensorIterator::config().output(Some(&out[1])).input(grad).input(x).no_resize().build()?;
    opmath!("prelu_cpu", x.dtype(), floating, W => {
        map3(&this, |g: W, x: W, w: W| if x > 0.0 { g } else { w * g })?;
        map2(&of_weight, |g: W, x: W| if x > 0.0 { 0.0 } else { x * g })
    })
}

fn glu_spec(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(1)?;
    check!(t.dim() > 0, "glu does not support 0-dimensional tensors");
    let dim = shape::wrap_dim(a.int(2)?, t.dim())?;
    let size = t.sizes()[dim];
    check!(size % 2 == 0, "Halving dimension must be even, but dimension {dim} is size {size}");
    Ok(OutSpec::like(t, t.sizes()).into())
}

fn glu(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (grad, t) = (a.tensor(0)?, a.tensor(1)?);
    let dim = shape::wrap_dim(a.int(2)?, t.dim())?;
    let half = t.sizes()[dim] / 2;
    let part = |t: &Tensor, i: i64| {
        let mut sizes = IntList::from_slice(t.sizes());
        sizes[dim] = half;
        let offset = t.storage_offset() + i * half * t.strides()[dim];
        t.alias_with(sizes, IntList::from_slice(t.strides()), offset)
    };
    check!(grad.sizes() == part(t, 0).sizes(), "glu_backward: a gradient of another shape than the result");
    let first = TensorIterator::config()
        .output(Some(&part(&out[0], 0)))
        .input(grad)
        .input(&part(t, 1))
        .no_resize()
        .build()?;
    let second = TensorIterator::config()
        .output(Some(&part(&out[0], 1)))
        .input(grad)
        .input(&part(t, 0))
        .input(&part(t, 1))
        .no_resize()
        .build()?;
    opmath!("glu_backward_cpu", t.dtype(), floating, W => {
        map2(&first, |g: W, y: W| g / (1.0 + (-y).exp()))?;
        map3(&second, |g: W, x: W, y: W| {
            let sigmoid = 1.0 / (1.0 + (-y).exp());
            (1.0 - sigmoid) * sigmoid * g * x
        })
    })
}
