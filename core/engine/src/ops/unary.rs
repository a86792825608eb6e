//! Functions of one tensor. Real functions are computed in f64 and rounded once.

use crate::dispatch::Registry;
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::{DType, Result, dispatch, op};

/// Applies a real function in f64; half-precision types take the result through f32, as upstream's kernels do.
fn real(it: &TensorIterator, name: &str, f: fn(f64) -> f64) -> Result<()> {
    use crate::half::{bf16, f16};
    match it.common_dtype() {
        DType::Float => loops::unary(it, move |x: f32| f(x as f64) as f32),
        DType::Double => loops::unary(it, f),
        DType::Half => loops::unary(it, move |x: f16| f16::from_f32(f(x.to_f64()) as f32)),
        DType::BFloat16 => loops::unary(it, move |x: bf16| bf16::from_f32(f(x.to_f64()) as f32)),
        other => return Err(crate::Error::dtype_not_implemented(name, other)),
    }
    Ok(())
}

macro_rules! float_functions {
    ($r:ident: $($id:ident $name:literal $f:expr;)*) => {$(
        $r.pointwise(
            op::$id,
            |a, out| TensorIterator::unary_float_op(out, a.tensor(0)?),
            |it, _| real(it, $name, $f),
        );
    )*};
}

pub(crate) fn register(r: &mut Registry) {
    float_functions! { r:
        exp "exp_vml_cpu" f64::exp;
        exp2 "exp2" f64::exp2;
        expm1 "expm1_vml_cpu" f64::exp_m1;
        log "log_vml_cpu" f64::ln;
        log2 "log2_vml_cpu" f64::log2;
        log10 "log10_vml_cpu" f64::log10;
        log1p "log1p_vml_cpu" f64::ln_1p;
        sin "sin_vml_cpu" f64::sin;
        cos "cos_vml_cpu" f64::cos;
        tan "tan_vml_cpu" f64::tan;
        asin "asin_vml_cpu" f64::asin;
        acos "acos_vml_cpu" f64::acos;
        atan "atan_vml_cpu" f64::atan;
        sinh "sinh_vml_cpu" f64::sinh;
        cosh "cosh_vml_cpu" f64::cosh;
        tanh "tanh_vml_cpu" f64::tanh;
        sqrt "sqrt_vml_cpu" f64::sqrt;
        rsqrt "rsqrt_cpu" |x| 1.0 / x.sqrt();
        reciprocal "reciprocal_cpu" |x| 1.0 / x;
        sigmoid "sigmoid_cpu" |x| 1.0 / (1.0 + (-x).exp());
    }
    r.pointwise(
        op::neg,
        |a, out| {
            let t = a.tensor(0)?;
            crate::check!(
                t.dtype() != DType::Bool,
                NotImplemented;
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use \
                 the `~` or `logical_not()` operator instead."
            );
            TensorIterator::unary_op(out, t)
        },
        neg_run,
    );
}

fn neg_run(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    match it.common_dtype() {
        d if d.is_integral(false) => {
            dispatch!("neg_cpu", d, integral, T => loops::unary(it, |x: T| x.wrapping_neg()))
        }
        d => dispatch!("neg_cpu", d, floating_complex, T => loops::unary(it, |x: T| -x)),
    }
    Ok(())
}
