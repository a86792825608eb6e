//! Functions of three: `addcmul`, `addcdiv`, `lerp`.

use crate::cpu::complex;
use crate::dispatch::Registry;
use crate::iter::TensorIterator;
use crate::iter::blocks::{map2, map3, opmath};
use crate::ivalue::Args;
use crate::{Complex, DType, Error, Result, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.pointwise(op::addcmul, ternary, addcmul);
    r.pointwise(
        op::addcdiv,
        |a, out| {
            let integral = |i: usize| -> Result<bool> { Ok(a.tensor(i)?.dtype().is_integral(true)) };
            check!(
                !(integral(1)? && integral(2)?),
                "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true \
                 division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * \
                 torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) \
                 for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / \
                 tensor2), for all dtypes."
            );
            ternary(a, out)
        },
        addcdiv,
    );
    r.pointwise(op::lerp_Scalar, |a, out| lerp_build(a, out, false), lerp_scalar);
    r.pointwise(op::lerp_Tensor, |a, out| lerp_build(a, out, true), lerp_tensor);
}

fn ternary(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIterator::config()
        .output(out)
        .input(a.tensor(0)?)
        .input(a.tensor(1)?)
        .input(a.tensor(2)?)
        .promote()
        .cast_outputs()
        .safe_casting()
        .cpu_scalars()
        .build()
}

fn addcmul(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let value = a.scalar(3)?;
    match it.common_dtype() {
        d if d.is_integral(false) => {
            let k = value.to_i64();
            map3(it, move |x: i64, y: i64, z: i64| x.wrapping_add(k.wrapping_mul(y).wrapping_mul(z)))
        }
        d => opmath!("addcmul_cpu_out", d, floating_complex, W => {
            let k: W = value.to()?;
            map3(it, move |x: W, y: W, z: W| x + k * y * z)
        }),
    }
}

fn addcdiv(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let value = a.scalar(3)?;
    match it.common_dtype() {
        DType::ComplexDouble => {
            let k: Complex<f64> = value.to()?;
            map3(it, move |x: Complex<f64>, y: Complex<f64>, z: Complex<f64>| x + complex::div(k * y, z))
        }
        DType::ComplexFloat => {
            let k: Complex<f32> = value.to()?;
            map3(it, move |x: Complex<f32>, y: Complex<f32>, z: Complex<f32>| x + complex::div(k * y, z))
        }
        d => opmath!("addcdiv_cpu_out", d, floating, W => {
            let k: W = value.to()?;
            map3(it, move |x: W, y: W, z: W| x + k * y / z)
        }),
    }
}

/// The dtypes must agree, but for a weight of no dimensions.
fn lerp_build(a: Args<'_>, out: Option<&Tensor>, weighted: bool) -> Result<TensorIterator> {
    let (start, end) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        start.dtype() == end.dtype(),
        "expected dtype {} for `end` but got dtype {}",
        start.dtype().torch_name_cpp(),
        end.dtype().torch_name_cpp()
    );
    if !weighted {
        return TensorIterator::binary_op(out, start, end);
    }
    let weight = a.tensor(2)?;
    let promotes = weight.dim() == 0 && start.dim() > 0 && !weight.dtype().is_complex();
    check!(
        start.dtype() == weight.dtype() || promotes,
        "expected dtype {} for `weight` but got dtype {}",
        start.dtype().torch_name_cpp(),
        weight.dtype().torch_name_cpp()
    );
    ternary(a, out)
}

/// From the nearer end, so that a weight of one gives the end exactly.
macro_rules! interpolate {
    ($x:expr, $y:expr, $w:expr, $near:expr, $one:expr) => {
        if $near { $x + $w * ($y - $x) } else { $y - ($y - $x) * ($one - $w) }
    };
}

fn lerp_scalar(it: &TensorIterator, a: Args<'_>) -> Result<()> {
    let weight = a.scalar(2)?;
    let d = it.common_dtype();
    match d {
        DType::ComplexDouble | DType::ComplexFloat => opmath!("lerp_kernel_scalar", d, complex, W => {
            let (w, one): (W, W) = (weight.to()?, Complex::new(1.0, 0.0));
            let near = w.re.hypot(w.im) < 0.5;
            map2(it, move |x: W, y: W| interpolate!(x, y, w, near, one))
        }),
        _ => opmath!("lerp_kernel_scalar", d, floating, W => {
            let w: W = weight.to()?;
            let near = w.abs() < 0.5;
            map2(it, move |x: W, y: W| interpolate!(x, y, w, near, 1.0))
        }),
    }
}

fn lerp_tensor(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    let d = it.common_dtype();
    match d {
        DType::ComplexDouble | DType::ComplexFloat => opmath!("lerp_kernel_tensor", d, complex, W => {
            map3(it, move |x: W, y: W, w: W| {
                interpolate!(x, y, w, w.re.hypot(w.im) < 0.5, Complex::new(1.0, 0.0))
            })
        }),
        DType::Float | DType::Double | DType::Half | DType::BFloat16 => {
            opmath!("lerp_kernel_tensor", d, floating, W => {
                map3(it, move |x: W, y: W, w: W| interpolate!(x, y, w, w.abs() < 0.5, 1.0))
            })
        }
        d => Err(Error::dtype_not_implemented("lerp_kernel_tensor", d)),
    }
}
