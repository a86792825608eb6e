//! Activation functions.

use super::division::narrow;
use super::unary::{real_complex, vector};
use crate::cpu::complex;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::iter::TensorIterator;
use crate::iter::blocks::{array1, map1, map2, opmath};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, Error, Result, Scalar, Tensor, check, op};
use torchnative_kernels::pointwise as kernels;
use torchnative_kernels::vmath::{self, Function};

pub(crate) fn register(r: &mut Registry) {
    let unary = |a: Args<'_>, out: Option<&Tensor>| TensorIterator::unary_op(out, a.tensor(0)?);
    r.pointwise(op::relu, relu_build, |it, _| relu(it));
    r.pointwise(op::silu, unary, |it, _| {
        if vector::<vmath::Silu>(it)? {
            return Ok(());
        }
        real_complex(it, "silu_cpu", |x| x / (1.0 + (-x).exp()), |z| z * complex::sigmoid(z))
    });
    r.pointwise(op::gelu, gelu_build, |it, a| match (a.str(1)?, it.common_dtype()) {
        ("none", DType::Double) => double::<vmath::Gelu>(it),
        (_, DType::Double) => double::<vmath::GeluTanh>(it),
        ("none", _) if vector::<vmath::Gelu>(it)? => Ok(()),
        ("tanh", _) if vector::<vmath::GeluTanh>(it)? => Ok(()),
        (_, d) => Err(Error::dtype_not_implemented("GeluKernelImpl", d)),
    });
    r.pointwise(op::mish, unary, |it, _| {
        opmath!("mish_cpu", it.common_dtype(), floating, W => map1(it, |x: W| x * x.exp().ln_1p().tanh()))
    });
    r.pointwise(op::hardswish, unary, |it, _| {
        opmath!("hardswish_cpu", it.common_dtype(), floating, W => map1(it, |x: W| x * bounded(x + 3.0, 0.0, 6.0) / 6.0))
    });
    r.pointwise(op::hardsigmoid, unary, |it, _| {
        opmath!("hardsigmoid_cpu", it.common_dtype(), floating, W => map1(it, |x: W| bounded(x + 3.0, 0.0, 6.0) / 6.0))
    });
    r.pointwise(op::leaky_relu, unary, |it, a| {
        let slope = a.scalar(1)?;
        opmath!("leaky_relu_cpu", it.common_dtype(), floating, W => {
            let slope: W = slope.to()?;
            map1(it, move |x: W| if x > 0.0 { x } else { x * slope })
        })
    });
    r.pointwise(op::elu, unary, |it, a| {
        let (alpha, scale, input_scale) = (a.scalar(1)?, a.scalar(2)?, a.scalar(3)?);
        opmath!("elu_cpu", it.common_dtype(), floating, W => {
            let (alpha, scale, input_scale): (W, W, W) = (alpha.to()?, scale.to()?, input_scale.to()?);
            let negative = alpha * scale;
            map1(it, move |x: W| if x < 0.0 { (x * input_scale).exp_m1() * negative } else { x * scale })
        })
    });
    r.implicit(op::selu, |a| Ok(op::elu.call((a.tensor(0)?, SELU_ALPHA, SELU_SCALE))?.into()));
    r.implicit(op::selu_, |a| Ok(op::elu_.call((a.tensor(0)?, SELU_ALPHA, SELU_SCALE))?.into()));
    r.explicit(op::celu, |a| Ok(op::elu.call((a.tensor(0)?, a.scalar(1)?, 1.0, celu_scale(a)?))?.into()));
    r.explicit(op::celu_, |a| Ok(op::elu_.call((a.tensor(0)?, a.scalar(1)?, 1.0, celu_scale(a)?))?.into()));
    r.pointwise(op::hardtanh, hardtanh_build, hardtanh);
    r.implicit(op::relu6, |a| Ok(op::hardtanh.call((a.tensor(0)?, 0, 6))?.into()));
    r.implicit(op::relu6_, |a| Ok(op::hardtanh_.call((a.tensor(0)?, 0, 6))?.into()));
    r.pointwise(op::threshold, unary, threshold);
    r.pointwise(op::softplus, unary, |it, a| {
        let (beta, limit) = (a.scalar(1)?, a.scalar(2)?);
        opmath!("softplus_cpu", it.common_dtype(), floating, W => {
            let (beta, limit): (W, W) = (beta.to()?, limit.to()?);
            map1(it, move |x: W| if x * beta > limit { x } else { (x * beta).exp().ln_1p() / beta })
        })
    });
    r.pointwise(op::softshrink, softshrink_build, |it, a| {
        let lambda = lambda(it, a)?;
        opmath!("softshrink_cpu", it.common_dtype(), floating, W => {
            let lambda = lambda as W;
            // Zero with the sign of x, NaN for NaN.
            map1(it, move |x: W| if x > lambda { x - lambda } else if x < -lambda { x + lambda } else { x * 0.0 })
        })
    });
    r.pointwise(op::hardshrink, unary, |it, a| {
        let d = it.common_dtype();
        if !matches!(d, DType::Float | DType::Double | DType::Half | DType::BFloat16) {
            return Err(Error::dtype_not_implemented("hardshrink_cpu", d));
        }
        let lambda = lambda(it, a)?;
        opmath!("hardshrink_cpu", d, floating, W => {
            let lambda = lambda as W;
            map1(it, move |x: W| if x >= -lambda && x <= lambda { 0.0 } else { x })
        })
    });
    r.implicit(op::log_sigmoid, |a| Ok(op::log_sigmoid_forward.call((a.tensor(0)?,))?.into()));
    r.structured(op::log_sigmoid_forward, log_sigmoid_specs, log_sigmoid);
    r.structured(op::glu, glu_spec, glu);
    r.implicit(op::prelu, prelu);
    r.pointwise(
        op::_prelu_kernel,
        |a, out| {
            TensorIterator::config().output(out).input(a.tensor(0)?).input(a.tensor(1)?).build()
        },
        |it, _| {
            opmath!("prelu_cpu", it.common_dtype(), floating, W => map2(it, |x: W, w: W| if x > 0.0 { x } else { w * x }))
        },
    );
}

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

/// `x` within bounds; NaN stays.
fn bounded<T: PartialOrd>(x: T, low: T, high: T) -> T {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Applies a kernel's function in `f64`.
fn double<G: Function>(it: &TensorIterator) -> Result<()> {
    array1(it, |n, x: *const f64, y: *mut f64| {
        // SAFETY: arrays of n elements, equal or apart.
        unsafe { kernels::unary::<f64, G>(n, x, y) }
    })
}

fn relu_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let t = a.tensor(0)?;
    check!(t.dtype() != DType::Bool, NotImplemented; "Boolean inputs not supported for relu");
    check!(!t.dtype().is_complex(), NotImplemented; "clamp is not supported for complex types");
    TensorIterator::unary_op(out, t)
}

fn relu(it: &TensorIterator) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(false) => map1(it, |x: i64| x.max(0)),
        d => {
            opmath!("clamp_min_scalar_cpu", d, floating, W => map1(it, |x: W| if x < 0.0 { 0.0 } else { x }))
        }
    }
}

fn gelu_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    check!(matches!(a.str(1)?, "none" | "tanh"), "approximate argument must be either none or tanh.");
    TensorIterator::unary_op(out, a.tensor(0)?)
}

fn celu_scale(a: Args<'_>) -> Result<f64> {
    let alpha = a.scalar(1)?.to_f64();
    check!(alpha != 0.0, "ZeroDivisionError: alpha cannot be 0 for CELU");
    Ok(1.0 / alpha)
}

fn hardtanh_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let t = a.tensor(0)?;
    check!(t.dtype() != DType::Bool, NotImplemented; "Bool inputs not supported for hardtanh");
    check!(!t.dtype().is_complex(), NotImplemented; "clamp is not supported for complex types");
    TensorIterator::unary_op(out, t)
}

/// A clamp whose bounds take the dtype of the tensor, not the other way round.
fn hardtanh(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let (low, high) = (a.scalar(1)?, a.scalar(2)?);
    if it.common_dtype().is_integral(false) {
        let (low, high) = (low.to_i64(), high.to_i64());
        return map1(it, move |x: i64| x.max(low).min(high));
    }
    opmath!("clamp_scalar_cpu", it.common_dtype(), floating, W => {
        let (low, high): (W, W) = (low.to()?, high.to()?);
        map1(it, move |x: W| bounded(x, low, high))
    })
}

fn threshold(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let (limit, value) = (a.scalar(1)?, a.scalar(2)?);
    match it.common_dtype() {
        d if d.is_integral(false) => {
            let (limit, value) = (limit.to_i64(), value.to_i64());
            map1(it, move |x: i64| if x <= limit { value } else { x })
        }
        d => opmath!("threshold_cpu", d, floating, W => {
            limit.check_fits(d)?;
            value.check_fits(d)?;
            let (limit, value) = (element(d, limit.to_f64()) as W, element(d, value.to_f64()) as W);
            map1(it, move |x: W| if x <= limit { value } else { x })
        }),
    }
}

/// A number as an element of a floating dtype.
fn element(d: DType, x: f64) -> f64 {
    if d.is_reduced_floating() { narrow(d)(x as f32) as f64 } else { x }
}

fn lambda(it: &TensorIterator, a: Args<'_>) -> Result<f64> {
    let s = a.scalar(1)?;
    s.check_fits(it.common_dtype())?;
    Ok(element(it.common_dtype(), s.to_f64()))
}

fn softshrink_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let (t, s) = (a.tensor(0)?, a.scalar(1)?);
    let greatest = match t.dtype() {
        DType::Float => "3.40282e+38",
        DType::Double => "1.79769e+308",
        DType::Half => "65504",
        DType::BFloat16 => "3.38953e+38",
        d => return Err(Error::dtype_not_implemented("softshrink_check", d)),
    };
    let printed = match s {
        Scalar::Int(v) => v.to_string(),
        other => other.to_f64().to_string(),
    };
    check!(
        s.to_f64() >= 0.0,
        "lambda must be in range [0, {greatest}] for input dtype {}, but found {printed}",
        t.dtype()
    );
    TensorIterator::unary_op(out, t)
}

fn log_sigmoid_specs(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    let strides = |t: &Tensor| {
        if t.is_non_overlapping_and_dense() {
            IntList::from_slice(t.strides())
        } else {
            shape::infer_dense_strides(t.sizes(), t.strides())
        }
    };
    let spec = OutSpec::like(t, t.sizes());
    Ok(Specs::from_iter([spec.clone().strides(strides(t)), spec.strides(strides(t))]))
}

fn log_sigmoid(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let over = |o: &Tensor| TensorIterator::config().output(Some(o)).input(t).no_resize().build();
    let (result, buffer) = (over(&out[0])?, over(&out[1])?);
    opmath!("log_sigmoid_cpu", t.dtype(), floating, W => {
        map1(&result, |x: W| {
            let low = if x > 0.0 { 0.0 } else { x };
            low - (-x.abs()).exp().ln_1p()
        })?;
        map1(&buffer, |x: W| (-x.abs()).exp())
    })
}

fn glu_spec(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(t.dim() > 0, "glu does not support scalars because halving size must be even");
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    let size = t.sizes()[dim];
    check!(size % 2 == 0, "Halving dimension must be even, but dimension {dim} is size {size}");
    let mut sizes = IntList::from_slice(t.sizes());
    sizes[dim] = size / 2;
    Ok(OutSpec::like(t, sizes).castable().into())
}

fn glu(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let dim = shape::wrap_dim(a.int(1)?, t.dim())?;
    let half = t.sizes()[dim] / 2;
    let mut sizes = IntList::from_slice(t.sizes());
    sizes[dim] = half;
    let part = |i: i64| {
        let offset = t.storage_offset() + i * half * t.strides()[dim];
        t.alias_with(sizes.clone(), IntList::from_slice(t.strides()), offset)
    };
    let it =
        TensorIterator::config().output(Some(&out[0])).input(&part(0)).input(&part(1)).no_resize().build()?;
    opmath!("glu_cpu", t.dtype(), floating, W => map2(&it, |x: W, y: W| x / (1.0 + (-y).exp())))
}

fn prelu(a: Args<'_>) -> Result<Returns> {
    let (t, weight) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        t.dtype() == weight.dtype(),
        "prelu: Type promoting not supported. Got {} and {}",
        t.dtype(),
        weight.dtype()
    );
    if weight.numel() != 1 {
        check!(t.dim() > 0, "Not allow zero-dim input tensor.");
        let channels = if t.dim() > 1 { t.sizes()[1] } else { 1 };
        check!(
            channels == weight.numel(),
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
            weight.numel()
        );
    }
    check!(
        weight.dim() <= 1,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
        weight.dim()
    );
    if t.dim() == weight.dim() {
        return Ok(op::_prelu_kernel.call((t, weight))?.into());
    }
    // The channel is dimension 1.
    let mut sizes = IntList::from_elem(1, t.dim());
    if t.dim() > 1 {
        sizes[1] = weight.numel();
    }
    Ok(op::_prelu_kernel.call((t, op::reshape.call((weight, sizes))?))?.into())
}
