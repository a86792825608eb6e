//! Normalisation over trailing dimensions: `layer_norm`, `rms_norm`.

use super::copy::{contiguous, copy_into};
use crate::dispatch::{DispatchKey, DispatchKeySet, OutSpec, Registry, Returns, Specs, tls};
use crate::ivalue::{Args, IntList};
use crate::tensor::factory;
use crate::{DType, Result, Scalar, Tensor, bail, check, dispatch, op};
use torchnative_kernels::rows::{self, Norm};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::native_layer_norm, layer_meta, layer);
    r.implicit(op::layer_norm, |a| {
        let args = (a.tensor(0)?, a.int_list(1)?, a.opt_tensor(2), a.opt_tensor(3), a.double(4)?);
        Ok(op::native_layer_norm.call_all(args)?.swap_remove(0).into())
    });
    r.implicit(op::_fused_rms_norm, rms);
    r.implicit(op::rms_norm, |a| {
        let t = a.tensor(0)?;
        check_shape(t, a.int_list(1)?, a.opt_tensor(2), None, "*")?;
        let args = (t, a.int_list(1)?, a.opt_tensor(2), a.opt_double(3)?);
        Ok(op::_fused_rms_norm.call_all(args)?.swap_remove(0).into())
    });
}

fn check_shape(
    t: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    star: &str,
) -> Result<()> {
    check!(
        !shape.is_empty(),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got \
         normalized_shape = {shape:?}"
    );
    for (name, p) in [("weight", weight), ("bias", bias)] {
        if let Some(p) = p {
            check!(
                p.sizes() == shape,
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and \
                 normalized_shape = {shape:?}",
                p.sizes()
            );
        }
    }
    if t.dim() < shape.len() || t.sizes()[t.dim() - shape.len()..] != *shape {
        let list = shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        bail!(
            Runtime,
            "Given normalized_shape={shape:?}, expected input with shape [{star}{list}], but got input of size{:?}",
            t.sizes()
        );
    }
    Ok(())
}

/// The leading sizes, with ones for the normalised ones.
fn stat_sizes(t: &Tensor, n: usize) -> IntList {
    let axis = t.dim() - n;
    t.sizes().iter().enumerate().map(|(d, s)| if d < axis { *s } else { 1 }).collect()
}

/// The dtype of parameters and statistics: halves may have parameters in single precision.
pub(super) fn parameter_dtype(t: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<DType> {
    let Some(first) = weight.or(bias) else { return Ok(t.dtype()) };
    if first.dtype() == t.dtype() {
        for p in [weight, bias].into_iter().flatten() {
            check!(p.dtype() == t.dtype(), "expected scalar type {} but found {}", t.dtype(), p.dtype());
        }
        return Ok(t.dtype());
    }
    for p in [weight, bias].into_iter().flatten() {
        check!(p.dtype() == DType::Float, "mixed dtype (CPU): expect parameter to have scalar type of Float");
    }
    check!(t.dtype().is_reduced_floating(), "mixed dtype (CPU): all inputs must share same datatype.");
    Ok(DType::Float)
}

/// native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
/// -> (Tensor, Tensor, Tensor)
fn layer_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    let (shape, weight, bias) = (a.int_list(1)?, a.opt_tensor(2), a.opt_tensor(3));
    check_shape(t, shape, weight, bias, "*, ")?;
    let stats = OutSpec::new(stat_sizes(t, shape.len()), parameter_dtype(t, weight, bias)?, t.device());
    Ok(Specs::from_iter([OutSpec::like(t, t.sizes()), stats.clone(), stats]))
}

fn layer(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    check!(
        t.dtype().is_floating_point() && !t.dtype().is_float8(),
        NotImplemented;
        "\"LayerNormKernelImpl\" not implemented for '{}'",
        t.dtype()
    );
    normalize(Norm::Layer, t, a.int_list(1)?.len(), a.opt_tensor(2), a.opt_tensor(3), a.double(4)?, out)
}

/// Writes the normalised input, and means and reciprocal deviations (the latter alone for root mean squares).
fn normalize(
    norm: Norm,
    t: &Tensor,
    dims: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    out: &[Tensor],
) -> Result<()> {
    let t = contiguous(t)?;
    let weight = weight.map(contiguous).transpose()?;
    let bias = bias.map(contiguous).transpose()?;
    let n = t.sizes()[t.dim() - dims..].iter().product::<i64>() as usize;
    let rows: usize = t.sizes()[..t.dim() - dims].iter().product::<i64>() as usize;
    let acc = t.dtype().to_opmath();
    // The kernel writes statistics as wide as it computes them.
    let wide = |o: &Tensor| {
        if o.dtype() == acc { Ok(o.clone()) } else { factory::empty(o.sizes(), acc, o.device()) }
    };
    let (mean, rstd) = match norm {
        Norm::Layer => (Some(wide(&out[1])?), wide(&out[2])?),
        Norm::Rms => (None, wide(&out[1])?),
    };
    if rows == 0 {
        return Ok(());
    }
    if n == 0 {
        if let Some(m) = &mean {
            super::options::fill(&out[1], Scalar::Int(0)).and(super::options::fill(m, Scalar::Int(0)))?;
        }
        return super::options::fill(&out[out.len() - 1], Scalar::Float(f64::NAN));
    }
    let address = |p: &Option<Tensor>| p.as_ref().map_or(std::ptr::null_mut(), |p| p.data_ptr());
    let parameters = weight.as_ref().or(bias.as_ref()).map_or(t.dtype(), |p| p.dtype());
    let (w, b, m, s) = (address(&weight), address(&bias), address(&mean), rstd.data_ptr());
    macro_rules! run {
        ($E:ty, $W:ty) => {
            // SAFETY: contiguous tensors of the kernel's types, with `rows * n`, `n` and `rows` elements.
            unsafe {
                rows::normalize::<$E, $W>(
                    norm,
                    rows,
                    n,
                    t.data_ptr() as *const $E,
                    w as *const $W,
                    b as *const $W,
                    eps,
                    out[0].data_ptr() as *mut $E,
                    m.cast(),
                    s.cast(),
                )
            }
        };
    }
    dispatch!("LayerNormKernelImpl", t.dtype(), floating, T => {
        if parameters == t.dtype() {
            run!(T, T);
        } else {
            // Single precision parameters of halves (the types agree for nothing else).
            match t.dtype() {
                DType::BFloat16 => run!(half::bf16, f32),
                DType::Half => run!(half::f16, f32),
                d => bail!(Internal, "parameters of {parameters} for {d}"),
            }
        }
    });
    if let Some(m) = &mean {
        copy_into(&out[1], m)?;
    }
    copy_into(&out[out.len() - 1], &rstd)
}

/// Whether nothing but CPU kernels would see a call with these tensors: no graph, no mode, no subclass.
fn plain(tensors: &[Option<&Tensor>]) -> bool {
    let common = DispatchKeySet::of(DispatchKey::CPU) | DispatchKeySet::AUTOGRAD_DENSE;
    tls::included().0 & !DispatchKeySet::DEFAULT_INCLUDED.0 == 0
        && tensors
            .iter()
            .flatten()
            .all(|t| t.is_cpu() && t.key_set().0 & !common.0 == 0 && !(tls::grad_mode() && t.requires_grad()))
}

/// _fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)
fn rms(a: Args<'_>) -> Result<Returns> {
    let (t, shape, weight) = (a.tensor(0)?, a.int_list(1)?, a.opt_tensor(2));
    check_shape(t, shape, weight, None, "*")?;
    let acc = t.dtype().to_opmath();
    check!(
        acc.is_complex() || matches!(acc, DType::Float | DType::Double),
        NotImplemented;
        "\"rms_norm\" not implemented for '{}'",
        t.dtype()
    );
    let single = matches!(acc, DType::Float | DType::ComplexFloat);
    let eps = a.opt_double(3)?.unwrap_or(if single { f64::from(f32::EPSILON) } else { f64::EPSILON });
    let real = t.dtype().is_floating_point();
    if real
        && plain(&[Some(t), weight])
        && weight.is_none_or(|w| w.dtype() == t.dtype() || (w.dtype() == DType::Float && acc == DType::Float))
    {
        let out = [
            factory::empty(t.sizes(), t.dtype(), t.device())?,
            factory::empty(&stat_sizes(t, shape.len()), acc, t.device())?,
        ];
        normalize(Norm::Rms, t, shape.len(), weight, None, eps, &out)?;
        let [y, rstd] = out;
        return Ok((y, rstd).into());
    }
    let dims: Vec<i64> = (0..shape.len()).map(|i| (t.dim() - i - 1) as i64).collect();
    let x = op::to_dtype.call((t, acc))?;
    let square = op::pow_Tensor_Scalar.call((&x, 2))?;
    let mean = op::mean_dim.call((square, dims, true))?;
    let rstd = op::rsqrt.call((op::add_Scalar.call((mean, eps))?,))?;
    let mut y = op::mul_Tensor.call((x, &rstd))?;
    if let Some(w) = weight {
        y = op::mul_Tensor.call((y, w))?;
    }
    Ok((op::to_dtype.call((y, t.dtype()))?, rstd).into())
}
