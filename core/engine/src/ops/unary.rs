//! Functions of one tensor that turn integers to floats: exponentials, logarithms, trigonometry.
//!
//! The hot ones run on vector code in `f32`; the rest is computed in `f64` and rounded once.

use crate::cpu::{complex, special};
use crate::dispatch::Registry;
use crate::iter::TensorIterator;
use crate::iter::blocks::{array1, map1, opmath};
use crate::{Complex, DType, Error, Result, op};
use torchnative_kernels::pointwise as kernels;
use torchnative_kernels::vmath::{self, Function};

/// Applies a real function, computed in `f64`.
pub(crate) fn real(it: &TensorIterator, name: &str, f: fn(f64) -> f64) -> Result<()> {
    real_with(it, name, f)
}

/// As `real`, for functions with parameters.
pub(crate) fn real_with(it: &TensorIterator, name: &str, f: impl Fn(f64) -> f64 + Sync) -> Result<()> {
    match it.common_dtype() {
        DType::Double => map1(it, f),
        DType::Float | DType::Half | DType::BFloat16 => map1(it, move |x: f32| f(x as f64) as f32),
        other => Err(Error::dtype_not_implemented(name, other)),
    }
}

/// Applies a function of real and complex numbers, computed in `f64`.
pub(crate) fn real_complex(
    it: &TensorIterator,
    name: &str,
    f: fn(f64) -> f64,
    g: fn(Complex<f64>) -> Complex<f64>,
) -> Result<()> {
    match it.common_dtype() {
        DType::ComplexDouble => map1(it, g),
        DType::ComplexFloat => map1(it, move |z: Complex<f32>| {
            let w = g(Complex::new(z.re as f64, z.im as f64));
            Complex::new(w.re as f32, w.im as f32)
        }),
        _ => real(it, name, f),
    }
}

/// Applies a vector function in `f32`; false for other dtypes.
pub(crate) fn vector<G: Function>(it: &TensorIterator) -> Result<bool> {
    if !matches!(it.common_dtype(), DType::Float | DType::Half | DType::BFloat16) {
        return Ok(false);
    }
    array1(it, |n, x: *const f32, y: *mut f32| {
        // SAFETY: arrays of n elements, equal or apart.
        unsafe { kernels::unary::<f32, G>(n, x, y) }
    })?;
    Ok(true)
}

/// A sine or cosine in `f32`; false for other dtypes. Runs with an argument beyond the vector code's range take the
/// function of `f64`.
fn turned<G: Function>(it: &TensorIterator, exact: fn(f64) -> f64) -> Result<bool> {
    const RUN: usize = 1024;
    if !matches!(it.common_dtype(), DType::Float | DType::Half | DType::BFloat16) {
        return Ok(false);
    }
    array1(it, |n, x: *const f32, y: *mut f32| {
        for at in (0..n).step_by(RUN) {
            let m = RUN.min(n - at);
            // SAFETY: arrays of n elements, equal or apart.
            unsafe {
                let (x, y) = (x.add(at), y.add(at));
                if (0..m).fold(true, |near, i| near & (x.add(i).read().abs() <= vmath::TURN_LIMIT)) {
                    kernels::unary::<f32, G>(m, x, y);
                } else {
                    (0..m).for_each(|i| y.add(i).write(exact(x.add(i).read() as f64) as f32));
                }
            }
        }
    })?;
    Ok(true)
}

/// `x` within bounds, where there are any; NaN stays.
fn bounded<T: PartialOrd>(x: T, bounds: Option<(T, T)>) -> T {
    match bounds {
        Some((low, _)) if x < low => low,
        Some((_, high)) if x > high => high,
        _ => x,
    }
}

/// Refuses the half types, for which upstream has no kernel either.
pub(crate) fn full_precision(it: &TensorIterator, name: &str) -> Result<()> {
    match it.common_dtype() {
        d if d.is_reduced_floating() => Err(Error::dtype_not_implemented(name, d)),
        _ => Ok(()),
    }
}

macro_rules! full_precision_functions {
    ($r:ident: $($id:ident $name:literal $f:path;)*) => {$(
        $r.pointwise(
            op::$id,
            |a, out| TensorIterator::unary_float_op(out, a.tensor(0)?),
            |it, _| {
                full_precision(it, $name)?;
                real(it, $name, $f)
            },
        );
    )*};
}

macro_rules! float_functions {
    ($r:ident: $($id:ident $name:literal $real:expr $(, $complex:path)? $(=> $vector:ident)?;)*) => {$(
        $r.pointwise(
            op::$id,
            |a, out| TensorIterator::unary_float_op(out, a.tensor(0)?),
            |it, _| {
                $(if vector::<vmath::$vector>(it)? {
                    return Ok(());
                })?
                float_functions!(@run it $name $real $(, $complex)?)
            },
        );
    )*};
    (@run $it:ident $name:literal $real:expr) => { real($it, $name, $real) };
    (@run $it:ident $name:literal $real:expr, $complex:path) => { real_complex($it, $name, $real, $complex) };
}

pub(crate) fn register(r: &mut Registry) {
    float_functions! { r:
        exp "exp_vml_cpu" f64::exp, complex::exp => Exp;
        exp2 "exp2" f64::exp2, complex::exp2;
        expm1 "expm1_vml_cpu" f64::exp_m1, complex::expm1;
        log "log_vml_cpu" f64::ln, complex::log => Log;
        log2 "log2_vml_cpu" f64::log2, complex::log2;
        log10 "log10_vml_cpu" f64::log10, complex::log10;
        log1p "log1p_vml_cpu" f64::ln_1p, complex::log1p;
        tan "tan_vml_cpu" f64::tan, complex::tan;
        asin "asin_vml_cpu" f64::asin, complex::asin;
        acos "acos_vml_cpu" f64::acos, complex::acos;
        atan "atan_vml_cpu" f64::atan, complex::atan;
        sinh "sinh_cpu" f64::sinh, complex::sinh;
        cosh "cosh_cpu" f64::cosh, complex::cosh;
        tanh "tanh_vml_cpu" f64::tanh, complex::tanh => Tanh;
        asinh "asinh_cpu" special::asinh, complex::asinh;
        acosh "acosh_cpu" f64::acosh, complex::acosh;
        atanh "atanh_cpu" f64::atanh, complex::atanh;
        sqrt "sqrt_vml_cpu" f64::sqrt, complex::sqrt => Sqrt;
        rsqrt "rsqrt_cpu" |x| 1.0 / x.sqrt(), complex::rsqrt => Rsqrt;
        reciprocal "reciprocal_cpu" |x| 1.0 / x, complex::reciprocal => Reciprocal;
        sigmoid "sigmoid_cpu" |x| 1.0 / (1.0 + (-x).exp()), complex::sigmoid => Sigmoid;
        erf "erf_vml_cpu" special::erf => Erf;
        erfc "erfc_vml_cpu" special::erfc;
        erfinv "erfinv_vml_cpu" special::erfinv;
        lgamma "lgamma_vml_cpu" special::lgamma;
        digamma "digamma" special::digamma;
        i0 "i0_vml_cpu" special::i0;
        special_entr "entr" special::entr;
        special_i0e "i0e" special::i0e;
        special_i1 "i1" special::i1;
        special_i1e "i1e" special::i1e;
    }
    full_precision_functions! { r:
        special_ndtri "ndtri_cpu" special::ndtri;
        special_log_ndtr "log_ndtr_cpu" special::log_ndtr;
        special_erfcx "erfcx_cpu" special::erfcx;
        special_bessel_j0 "bessel_j0_cpu" special::bessel_j0;
        special_bessel_j1 "bessel_j1_cpu" special::bessel_j1;
        special_bessel_y0 "bessel_y0_cpu" special::bessel_y0;
        special_bessel_y1 "bessel_y1_cpu" special::bessel_y1;
        special_modified_bessel_i0 "modified_bessel_i0_cpu" special::i0;
        special_modified_bessel_i1 "modified_bessel_i1_cpu" special::i1;
        special_modified_bessel_k0 "modified_bessel_k0_cpu" special::k0;
        special_modified_bessel_k1 "modified_bessel_k1_cpu" special::k1;
        special_scaled_modified_bessel_k0 "scaled_modified_bessel_k0_cpu" special::k0e;
        special_scaled_modified_bessel_k1 "scaled_modified_bessel_k1_cpu" special::k1e;
        special_spherical_bessel_j0 "spherical_bessel_j0_cpu" special::spherical_j0;
    }
    for (name, target) in [
        (op::arccos, op::acos),
        (op::arcsin, op::asin),
        (op::arctan, op::atan),
        (op::arccosh, op::acosh),
        (op::arcsinh, op::asinh),
        (op::arctanh, op::atanh),
        (op::special_exp2, op::exp2),
        (op::special_expm1, op::expm1),
        (op::special_log1p, op::log1p),
        (op::special_erf, op::erf),
        (op::special_erfc, op::erfc),
        (op::special_erfinv, op::erfinv),
        (op::special_gammaln, op::lgamma),
        (op::special_digamma, op::digamma),
        (op::special_psi, op::digamma),
        (op::special_i0, op::i0),
        (op::special_sinc, op::sinc),
        (op::special_expit, op::sigmoid),
        (op::special_logit, op::logit),
        (op::special_round, op::round),
        (op::special_polygamma, op::polygamma),
        (op::special_multigammaln, op::mvlgamma),
    ] {
        r.alias(name, target);
    }
    r.pointwise(
        op::sin,
        |a, out| TensorIterator::unary_float_op(out, a.tensor(0)?),
        |it, _| {
            if turned::<vmath::Sin>(it, f64::sin)? {
                return Ok(());
            }
            real_complex(it, "sin_vml_cpu", f64::sin, complex::sin)
        },
    );
    r.pointwise(
        op::cos,
        |a, out| TensorIterator::unary_float_op(out, a.tensor(0)?),
        |it, _| {
            if turned::<vmath::Cos>(it, f64::cos)? {
                return Ok(());
            }
            real_complex(it, "cos_vml_cpu", f64::cos, complex::cos)
        },
    );
    r.pointwise(
        op::sinc,
        |a, out| TensorIterator::unary_float_op(out, a.tensor(0)?),
        |it, _| match it.common_dtype() {
            d if d.is_complex() => real_complex(it, "sinc_cpu", f64::sin, special::sinc_complex),
            // The product with pi is rounded to the working type: at integers that decides the result.
            d => opmath!("sinc_cpu", d, floating, W => map1(it, |x: W| {
                let y = std::f64::consts::PI as W * x;
                if x == 0.0 { 1.0 } else { y.sin() / y }
            })),
        },
    );
    r.pointwise(
        op::logit,
        |a, out| TensorIterator::unary_float_op(out, a.tensor(0)?),
        |it, a| {
            let (eps, d) = (a.opt_double(1)?, it.common_dtype());
            if d.is_reduced_floating() {
                // Upstream computes these in the half type itself.
                let round = super::division::narrow(d);
                let low = round(eps.unwrap_or(0.0) as f32);
                let high = round(1.0 - low);
                return map1(it, move |x: f32| {
                    let x = bounded(x, eps.map(|_| (low, high)));
                    round(x / round(1.0 - x)).ln()
                });
            }
            opmath!("logit_cpu", d, floating, W => {
                let bounds = eps.map(|e| (e as W, (1.0 - e) as W));
                map1(it, move |x: W| {
                    let x = bounded(x, bounds);
                    (x / (1.0 - x)).ln()
                })
            })
        },
    );
    r.pointwise(
        op::polygamma,
        |a, out| {
            let n = a.int(0)?;
            crate::check!(n >= 0, "polygamma(n, x) does not support negative n.");
            TensorIterator::unary_float_op(out, a.tensor(1)?)
        },
        |it, a| {
            let n = a.int(0)?;
            match n {
                0 => real(it, "digamma", special::digamma),
                1 => real(it, "trigamma", special::trigamma),
                _ => real_with(it, "polygamma", move |x| special::polygamma(n, x)),
            }
        },
    );
    r.implicit(op::special_ndtr, |a| {
        let x = a.tensor(0)?;
        let scaled = op::mul_Scalar.call((x, std::f64::consts::FRAC_1_SQRT_2))?;
        let twice = op::add_Scalar.call((op::erf.call((scaled,))?, 1.0))?;
        Ok(op::mul_Scalar.call((twice, 0.5))?.into())
    });
    r.explicit(op::mvlgamma, |a| {
        let (t, p) = (a.tensor(0)?, a.int(1)?);
        crate::check!(p >= 1, "p has to be greater than or equal to 1");
        let t = if t.dtype().is_integral(true) {
            op::to_dtype.call((t, crate::iter::default_dtype()))?
        } else {
            t.clone()
        };
        // The sum of log-gammas of t - j/2, and a constant.
        let constant = (p * (p - 1)) as f64 * std::f64::consts::PI.ln() / 4.0;
        let mut sum = op::lgamma.call((&t,))?;
        for j in 1..p {
            let shifted = op::sub_Scalar.call((&t, j as f64 * 0.5))?;
            sum = op::add_Tensor.call((sum, op::lgamma.call((shifted,))?))?;
        }
        Ok(op::add_Scalar.call((sum, constant))?.into())
    });
}
