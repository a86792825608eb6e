//! Functions of two tensors: `atan2`, `hypot`, `copysign`, `xlogy`, `logaddexp` and their kin.

use super::division::narrow;
use super::pointwise::{number_first, with_numbers};
use super::unary::full_precision;
use crate::cpu::{complex, gamma, polynomials, special};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::iter::blocks::{map1, map2, opmath};
use crate::iter::{TensorIterator, loops};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{Complex, DType, Error, Result, Tensor, check, op};

/// Applies a real function of two numbers, computed in `f64`.
pub(crate) fn real2(it: &TensorIterator, name: &str, f: fn(f64, f64) -> f64) -> Result<()> {
    match it.common_dtype() {
        DType::Double => map2(it, f),
        DType::Float | DType::Half | DType::BFloat16 => {
            map2(it, move |x: f32, y: f32| f(x as f64, y as f64) as f32)
        }
        other => Err(Error::dtype_not_implemented(name, other)),
    }
}

fn binary(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIterator::binary_op(out, a.tensor(0)?, a.tensor(1)?)
}

fn binary_float(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIterator::binary_float_op(out, a.tensor(0)?, a.tensor(1)?)
}

macro_rules! float_pairs {
    ($r:ident: $($id:ident $name:literal $build:ident $f:expr;)*) => {$(
        $r.pointwise(op::$id, $build, |it, _| real2(it, $name, $f));
    )*};
}

/// Operators of a tensor and a number, in either order, by way of the one of two tensors.
macro_rules! number_forms {
    ($r:ident: $($tensor:ident $first:ident $second:ident;)*) => {$(
        $r.explicit(op::$first, |a| number_first(a, op::$tensor));
        with_numbers! { $r: $second => $tensor }
    )*};
}

macro_rules! polynomial_families {
    ($r:ident: $($id:ident $first:ident $second:ident $name:literal $f:ident;)*) => {
        $($r.pointwise(op::$id, binary_float, |it, _| {
            full_precision(it, $name)?;
            real2(it, $name, polynomials::$f)
        });)*
        number_forms! { $r: $($id $first $second;)* }
    };
}

pub(crate) fn register(r: &mut Registry) {
    float_pairs! { r:
        atan2 "atan2_cpu" binary_float f64::atan2;
        hypot "hypot_cpu" binary f64::hypot;
        igamma "igamma_cpu" binary gamma::lower;
        igammac "igammac_cpu" binary gamma::upper;
    }
    r.pointwise(op::special_zeta, binary_float, |it, _| {
        full_precision(it, "zeta_cpu")?;
        real2(it, "zeta_cpu", special::zeta)
    });
    polynomial_families! { r:
        special_chebyshev_polynomial_t special_chebyshev_polynomial_t_x_scalar special_chebyshev_polynomial_t_n_scalar
            "chebyshev_polynomial_t_cpu" chebyshev_t;
        special_chebyshev_polynomial_u special_chebyshev_polynomial_u_x_scalar special_chebyshev_polynomial_u_n_scalar
            "chebyshev_polynomial_u_cpu" chebyshev_u;
        special_chebyshev_polynomial_v special_chebyshev_polynomial_v_x_scalar special_chebyshev_polynomial_v_n_scalar
            "chebyshev_polynomial_v_cpu" chebyshev_v;
        special_chebyshev_polynomial_w special_chebyshev_polynomial_w_x_scalar special_chebyshev_polynomial_w_n_scalar
            "chebyshev_polynomial_w_cpu" chebyshev_w;
        special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_t_x_scalar
            special_shifted_chebyshev_polynomial_t_n_scalar "shifted_chebyshev_polynomial_t_cpu" shifted_t;
        special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_u_x_scalar
            special_shifted_chebyshev_polynomial_u_n_scalar "shifted_chebyshev_polynomial_u_cpu" shifted_u;
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_v_x_scalar
            special_shifted_chebyshev_polynomial_v_n_scalar "shifted_chebyshev_polynomial_v_cpu" shifted_v;
        special_shifted_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_w_x_scalar
            special_shifted_chebyshev_polynomial_w_n_scalar "shifted_chebyshev_polynomial_w_cpu" shifted_w;
        special_hermite_polynomial_h special_hermite_polynomial_h_x_scalar special_hermite_polynomial_h_n_scalar
            "hermite_polynomial_h_cpu" hermite_h;
        special_hermite_polynomial_he special_hermite_polynomial_he_x_scalar special_hermite_polynomial_he_n_scalar
            "hermite_polynomial_he_cpu" hermite_he;
        special_laguerre_polynomial_l special_laguerre_polynomial_l_x_scalar special_laguerre_polynomial_l_n_scalar
            "laguerre_polynomial_l_cpu" laguerre;
        special_legendre_polynomial_p special_legendre_polynomial_p_x_scalar special_legendre_polynomial_p_n_scalar
            "legendre_polynomial_p_cpu" legendre;
    }
    r.pointwise(op::copysign_Tensor, binary_float, |it, _| {
        opmath!("copysign_cpu", it.common_dtype(), floating, W => map2(it, |x: W, y: W| x.copysign(y)))
    });
    r.pointwise(op::nextafter, binary, |it, _| match it.common_dtype() {
        DType::Double => map2(it, libm::nextafter),
        DType::Float => map2(it, libm::nextafterf),
        DType::BFloat16 => {
            loops::binary(it, next_half(0x7f80));
            Ok(())
        }
        DType::Half => {
            loops::binary(it, next_half(0x7c00));
            Ok(())
        }
        d => Err(Error::dtype_not_implemented("nextafter_cpu", d)),
    });
    r.pointwise(op::heaviside, heaviside_build, heaviside);
    r.pointwise(op::logaddexp, binary, |it, _| match it.common_dtype() {
        DType::ComplexDouble => map2(it, complex::logaddexp),
        DType::ComplexFloat => map2(it, |z: Complex<f32>, w: Complex<f32>| {
            super::power::single(complex::logaddexp(super::power::double(z), super::power::double(w)))
        }),
        _ => real2(it, "logaddexp_cpu", |x, y| {
            if x.is_infinite() && x == y { x } else { largest(x, y) + (-(x - y).abs()).exp().ln_1p() }
        }),
    });
    r.pointwise(op::logaddexp2, binary, |it, _| {
        real2(it, "logaddexp2_cpu", |x, y| {
            if x.is_infinite() && x == y {
                return x;
            }
            largest(x, y) + (-(x - y).abs()).exp2().ln_1p() * std::f64::consts::LOG2_E
        })
    });
    r.pointwise(op::xlogy_Tensor, binary_float, |it, _| times_log(it, "xlogy_cpu", f64::ln));
    r.pointwise(op::special_xlog1py, binary_float, |it, _| times_log(it, "xlog1py_cpu", f64::ln_1p));
    number_forms! { r:
        xlogy_Tensor xlogy_Scalar_Self xlogy_Scalar_Other;
        special_xlog1py special_xlog1py_self_scalar special_xlog1py_other_scalar;
        special_zeta special_zeta_self_scalar special_zeta_other_scalar;
    }
    with_numbers! { r:
        xlogy__Scalar_Other => xlogy__Tensor,
        copysign_Scalar => copysign_Tensor, copysign__Scalar => copysign__Tensor
    }
    for (name, target) in [
        (op::arctan2, op::atan2),
        (op::special_xlogy, op::xlogy_Tensor),
        (op::special_xlogy_self_scalar, op::xlogy_Scalar_Self),
        (op::special_xlogy_other_scalar, op::xlogy_Scalar_Other),
        (op::special_gammainc, op::igamma),
        (op::special_gammaincc, op::igammac),
    ] {
        r.alias(name, target);
    }
    r.explicit(op::ldexp_Tensor, |a| Ok(ldexp(a)?.into()));
    r.explicit(op::ldexp_, |a| {
        let (x, result) = (a.tensor(0)?, ldexp(a)?);
        check!(!x.dtype().is_integral(true), "ldexp can't be cast to the desired output type {}", x.dtype());
        check!(
            crate::dtype::can_cast(result.dtype(), x.dtype()),
            "result type {} can't be cast to the desired output type {}",
            result.dtype(),
            x.dtype()
        );
        Ok(op::copy_.call((x, result))?.into())
    });
    r.structured(op::frexp_Tensor, frexp_specs, frexp);
    r.implicit(op::isclose, isclose);
    r.explicit(op::allclose, |a| {
        let close = op::isclose.call((a.tensor(0)?, a.tensor(1)?, a.double(2)?, a.double(3)?, a.bool(4)?))?;
        let all = op::all.call((close,))?;
        Ok(super::options::item(&all)?.to_bool().into())
    });
}

/// `x * 2^n`. With integers for n the power neither overflows nor promotes.
fn ldexp(a: Args<'_>) -> Result<Tensor> {
    let (x, n) = (a.tensor(0)?, a.tensor(1)?);
    if !n.dtype().is_integral(true) {
        return op::mul_Tensor.call((x, op::pow_Scalar.call((2.0, n))?));
    }
    if n.dtype() == DType::Bool && x.dtype().is_floating_point() {
        return Err(Error::dtype_not_implemented("ldexp_cpu_exp", DType::Bool));
    }
    let d = if x.dtype().is_integral(true) { crate::iter::default_dtype() } else { x.dtype() };
    let wide = if d.is_complex() { DType::ComplexDouble } else { DType::Double };
    let power = op::pow_Scalar.call((2.0, op::to_dtype.call((n, DType::Double))?))?;
    let product = op::mul_Tensor.call((op::to_dtype.call((x, wide))?, power))?;
    op::to_dtype.call((product, d))
}

/// The larger one, NaN if either is.
fn largest(x: f64, y: f64) -> f64 {
    if x < y || y.is_nan() { y } else { x }
}

/// `nextafter` on the bits of a half type: sign and magnitude, NaN above the magnitude of infinity.
fn next_half(infinity: u16) -> impl Fn(u16, u16) -> u16 + Sync {
    move |x, y| {
        let magnitude = |v: u16| v & 0x7fff;
        let ordered = |v: u16| if v & 0x8000 == 0 { magnitude(v) as i32 } else { -(magnitude(v) as i32) };
        if magnitude(x) > infinity || magnitude(y) > infinity {
            return infinity + 1;
        }
        let (from, to) = (ordered(x), ordered(y));
        if from == to {
            return y;
        }
        if from == 0 {
            return (y & 0x8000) | 1;
        }
        // Away from zero is one code up.
        if (from < to) == (from > 0) { x + 1 } else { x - 1 }
    }
}

fn heaviside_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        !x.dtype().is_complex() && !y.dtype().is_complex() && out.is_none_or(|o| !o.dtype().is_complex()),
        NotImplemented;
        "heaviside is not yet implemented for complex tensors."
    );
    check!(
        x.dtype() == y.dtype() && out.is_none_or(|o| o.dtype() == x.dtype()),
        "heaviside is not yet implemented for tensors with different dtypes."
    );
    TensorIterator::binary_op(out, x, y)
}

fn heaviside(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(true) => {
            crate::dispatch!("heaviside_cpu", d, integral_bool, T => {
                loops::binary(it, |x: T, y: T| {
                    let zero = T::default();
                    #[allow(clippy::bool_comparison, reason = "one body for integers and bools")]
                    if x == zero { y } else { crate::dtype::convert::<bool, T>(x > zero) }
                })
            });
            Ok(())
        }
        d => opmath!("heaviside_cpu", d, floating, W => {
            map2(it, |x: W, y: W| if x == 0.0 { y } else { (x > 0.0) as u8 as W })
        }),
    }
}

/// `x * log(y)`: NaN where y is, zero where x is. Half types round the logarithm first.
fn times_log(it: &TensorIterator, name: &str, log: fn(f64) -> f64) -> Result<()> {
    let d = it.common_dtype();
    match d {
        DType::Double => map2(it, move |x: f64, y: f64| {
            if y.is_nan() {
                y
            } else if x == 0.0 {
                0.0
            } else {
                x * log(y)
            }
        }),
        DType::Float | DType::Half | DType::BFloat16 => {
            let round = narrow(d);
            map2(it, move |x: f32, y: f32| {
                if y.is_nan() {
                    y
                } else if x == 0.0 {
                    0.0
                } else {
                    x * round(log(y as f64) as f32)
                }
            })
        }
        other => Err(Error::dtype_not_implemented(name, other)),
    }
}

fn frexp_specs(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(t.dtype().is_floating_point(), "torch.frexp() only supports floating-point dtypes");
    let strides = if t.is_non_overlapping_and_dense() {
        IntList::from_slice(t.strides())
    } else {
        shape::infer_dense_strides(t.sizes(), t.strides())
    };
    let mantissa = OutSpec::like(t, t.sizes()).strides(strides.clone());
    let exponent = OutSpec::new(t.sizes(), DType::Int, t.device()).strides(strides);
    Ok(Specs::from_iter([mantissa, exponent]))
}

fn frexp(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let over = |o: &Tensor| TensorIterator::config().output(Some(o)).input(t).no_resize().build();
    let (mantissa, exponent) = (over(&out[0])?, over(&out[1])?);
    super::unary::real(&mantissa, "frexp", |x| if x.is_finite() { libm::frexp(x).0 } else { x })?;
    let scale = |x: f64| if x.is_finite() { libm::frexp(x).1 } else { 0 };
    match t.dtype() {
        DType::Double => map1(&exponent, scale),
        _ => map1(&exponent, move |x: f32| scale(x as f64)),
    }
}

fn isclose(a: Args<'_>) -> Result<Returns> {
    let (x, y, rtol, atol) = (a.tensor(0)?, a.tensor(1)?, a.double(2)?, a.double(3)?);
    check!(x.dtype() == y.dtype(), "{} did not match {}", x.dtype(), y.dtype());
    check!(rtol >= 0.0, "rtol must be greater than or equal to zero, but got {rtol}");
    check!(atol >= 0.0, "atol must be greater than or equal to zero, but got {atol}");
    let close = op::eq_Tensor.call((x, y))?;
    if a.bool(4)? && (x.dtype().is_floating_point() || x.dtype().is_complex()) {
        let both = op::bitwise_and__Tensor.call((op::isnan.call((x,))?, op::isnan.call((y,))?))?;
        op::bitwise_or__Tensor.call((&close, both))?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close.into());
    }
    let float = |t: &Tensor| -> Result<Tensor> {
        if t.dtype().is_integral(true) {
            op::to_dtype.call((t, crate::iter::default_dtype()))
        } else {
            Ok(t.clone())
        }
    };
    let (x, y) = (float(x)?, float(y)?);
    let allowed = op::add_Scalar.call((op::abs.call((op::mul_Scalar.call((&y, rtol))?,))?, atol))?;
    let actual = op::abs.call((op::sub_Tensor.call((&x, &y))?,))?;
    let within = op::bitwise_and__Tensor
        .call((op::isfinite.call((&actual,))?, op::le_Tensor.call((&actual, allowed))?))?;
    Ok(op::bitwise_or__Tensor.call((close, within))?.into())
}
