//! Running reductions along a dimension: `cumsum`, `cumprod`, `cummax`, `cummin`, `logcumsumexp`.

use super::copy;
use super::reduce::with_dim;
use crate::cpu::{lines, scan};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::iter::default_dtype;
use crate::ivalue::Args;
use crate::tensor::{factory, shape};
use crate::{Complex, DType, OpId, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::cumsum, running_meta, |a, o| running(a, false, o)).structured(
        op::cumprod,
        running_meta,
        |a, o| running(a, true, o),
    );
    r.any_device(op::cumsum_, |a| in_place(a, op::cumsum))
        .any_device(op::cumprod_, |a| in_place(a, op::cumprod));
    r.any_device(op::cumsum_out, |a| into_out(a, op::cumsum))
        .any_device(op::cumprod_out, |a| into_out(a, op::cumprod));
    r.explicit(op::cummax, |a| extremes(a, op::_cummax_helper))
        .explicit(op::cummin, |a| extremes(a, op::_cummin_helper));
    r.any_device(op::_cummax_helper, |a| extremes_into(a, false))
        .any_device(op::_cummin_helper, |a| extremes_into(a, true));
    r.structured(op::_logcumsumexp, log_meta, log_sums);
    r.explicit(op::logcumsumexp, |a| Ok(op::_logcumsumexp.call((a.tensor(0)?, a.int(1)?))?.into()));
}

/// cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
fn running_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    shape::wrap_dim(a.int(1)?, t.dim())?;
    let dtype = a.opt_dtype(2)?.unwrap_or(if t.dtype().is_integral(true) { DType::Long } else { t.dtype() });
    Ok(OutSpec::new(t.sizes(), dtype, t.device()).castable().into())
}

fn running(a: Args<'_>, products: bool, out: &[Tensor]) -> Result<()> {
    let t = &copy::convert(a.tensor(0)?, out[0].dtype())?;
    if t.dim() == 0 {
        return copy::copy_into(&out[0], t);
    }
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    let o = &out[0];
    if t.dtype() == DType::Bool {
        bail!(
            NotImplemented,
            "\"{}_out_cpu\" not implemented for 'Bool'",
            if products { "cumprod" } else { "cumsum" }
        );
    }
    let name = if products { "cumprod_out_cpu" } else { "cumsum_out_cpu" };
    match t.dtype() {
        dt if dt.is_complex() => dispatch!(name, dt, complex, T => lines::map::<T, T>(t, d, o, |x, y| {
            if products { scan::products(x, y) } else { scan::sums(x, y) }
        })),
        dt => dispatch!(name, dt, all, T => lines::map::<T, T>(t, d, o, |x, y| {
            if products { scan::products(x, y) } else { scan::sums(x, y) }
        })),
    }
}

/// The in-place form computes in the dtype of its target, too.
fn in_place(a: Args<'_>, id: OpId) -> Result<Returns> {
    let t = a.tensor(0)?;
    super::reduce::out_dtype(a.opt_dtype(2)?, t)?;
    crate::tensor::memory::assert_no_internal_overlap(t)?;
    let v = id.call((t, a.int(1)?, t.dtype()))?;
    copy::copy_into(t, &v)?;
    Ok(t.into())
}

/// The out overload computes in the dtype of its target unless another is asked for.
fn into_out(a: Args<'_>, id: OpId) -> Result<Returns> {
    let out = a.tensor(3)?;
    super::reduce::out_dtype(a.opt_dtype(2)?, out)?;
    let v = id.call((a.tensor(0)?, a.int(1)?, out.dtype()))?;
    super::reduce::deliver(out, &v)
}

/// cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)
fn extremes(a: Args<'_>, helper: OpId) -> Result<Returns> {
    let t = a.tensor(0)?;
    let values = factory::empty(t.sizes(), t.dtype(), t.device())?;
    let places = factory::empty(t.sizes(), DType::Long, t.device())?;
    if t.dim() == 0 {
        let name = if helper == op::_cummax_helper { "cummax" } else { "cummin" };
        check!(
            matches!(a.int(1)?, 0 | -1),
            Index;
            "{name}(): Expected reduction dim -1 or 0 for scalar but got {}",
            a.int(1)?
        );
        copy::copy_into(&values, t)?;
        super::options::fill(&places, crate::Scalar::Int(0))?;
    } else if t.numel() != 0 {
        shape::wrap_dim(a.int(1)?, t.dim())?;
        helper.call_all((t, &values, &places, a.int(1)?))?;
    }
    Ok((values, places).into())
}

/// _cummax_helper(Tensor self, Tensor(a!) values, Tensor(b!) indices, int dim) -> ()
fn extremes_into(a: Args<'_>, least: bool) -> Result<Returns> {
    let (t, values, places) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let d = shape::wrap_dim(a.int(3)?, t.dim())?;
    if t.is_meta() {
        return Ok(().into());
    }
    check!(
        values.sizes() == t.sizes() && places.sizes() == t.sizes() && places.dtype() == DType::Long,
        "running extremes need results of the input's shape"
    );
    let [t, values, places] = with_dim([t, values, places], d, t.dim(), true);
    let name = if least { "cummin_cpu" } else { "cummax_cpu" };
    dispatch!(name, t.dtype(), all_bool, T => lines::map2::<T, T, i64>(&t, d, &values, &places, |x, v, i| {
        scan::extremes(x, least, v, i)
    }))?;
    Ok(().into())
}

/// logcumsumexp(Tensor self, int dim) -> Tensor
fn log_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    shape::wrap_dim(a.int(1)?, t.dim())?;
    let dtype = if t.dtype().is_integral(true) { default_dtype() } else { t.dtype() };
    Ok(OutSpec::new(t.sizes(), dtype, t.device()).into())
}

fn log_sums(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    if t.dim() == 0 {
        return copy::copy_into(&out[0], t);
    }
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    let o = &out[0];
    let single = t.dtype().is_reduced_floating();
    match t.dtype() {
        DType::ComplexFloat => lines::map::<Complex<f32>, Complex<f32>>(t, d, o, |x, y| {
            let mut sum = Complex::new(f64::NEG_INFINITY, 0.0);
            for (v, o) in x.iter().zip(y) {
                sum = scan::log_add_exp_complex(Complex::new(v.re.into(), v.im.into()), sum);
                *o = Complex::new(sum.re as f32, sum.im as f32);
            }
        }),
        DType::ComplexDouble => lines::map::<Complex<f64>, Complex<f64>>(t, d, o, |x, y| {
            let mut sum = Complex::new(f64::NEG_INFINITY, 0.0);
            for (v, o) in x.iter().zip(y) {
                sum = scan::log_add_exp_complex(*v, sum);
                *o = sum;
            }
        }),
        dt => dispatch!("logcumsumexp_out_cpu", dt, floating, T => {
            lines::map::<T, T>(t, d, o, |x, y| scan::log_sums(x, y, single))
        }),
    }
}
