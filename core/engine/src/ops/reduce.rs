//! Reductions to numbers: `sum`, `mean`, `prod`, `any`, `all`, `count_nonzero`, `var`, `std`, norms, `logsumexp`.

use crate::cpu::rows::{self, Out, Real, Sum, for_rows};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::dtype::Convert;
use crate::iter::default_dtype;
use crate::ivalue::{Args, IntList};
use crate::ops::copy::convert;
use crate::tensor::{memory, shape};
use crate::{Complex, DType, OpId, Result, Scalar, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::sum, |a| sum_meta(a, None, false, 1), |a, o| sum(a, None, o))
        .structured(
            op::sum_dim_IntList,
            |a| sum_meta(a, a.opt_int_list(1)?, a.bool(2)?, 3),
            |a, o| sum(a, a.opt_int_list(1)?, o),
        )
        .structured(op::mean, |a| mean_meta(a, None, false, 1), |a, o| mean(a, None, o))
        .structured(
            op::mean_dim,
            |a| mean_meta(a, a.opt_int_list(1)?, a.bool(2)?, 3),
            |a, o| mean(a, a.opt_int_list(1)?, o),
        )
        .structured(op::prod, |a| sum_meta(a, None, false, 1), |a, o| prod(a, None, o))
        .structured(
            op::prod_dim_int,
            |a| sum_meta(a, Some(&[a.int(1)?]), a.bool(2)?, 3),
            |a, o| prod(a, Some(&[a.int(1)?]), o),
        )
        .structured(op::any, |a| truth_meta(a, None, false), |a, o| truth(a, None, false, o))
        .structured(op::all, |a| truth_meta(a, None, false), |a, o| truth(a, None, true, o))
        .structured(
            op::any_dim,
            |a| truth_meta(a, Some(&[a.int(1)?]), a.bool(2)?),
            |a, o| truth(a, Some(&[a.int(1)?]), false, o),
        )
        .structured(
            op::all_dim,
            |a| truth_meta(a, Some(&[a.int(1)?]), a.bool(2)?),
            |a, o| truth(a, Some(&[a.int(1)?]), true, o),
        )
        .structured(
            op::any_dims,
            |a| truth_meta(a, a.opt_int_list(1)?, a.bool(2)?),
            |a, o| truth(a, a.opt_int_list(1)?, false, o),
        )
        .structured(
            op::all_dims,
            |a| truth_meta(a, a.opt_int_list(1)?, a.bool(2)?),
            |a, o| truth(a, a.opt_int_list(1)?, true, o),
        )
        .structured(
            op::count_nonzero_dim_IntList,
            |a| count_meta(a, Some(a.int_list(1)?)),
            |a, o| count(a, Some(a.int_list(1)?), o),
        )
        .structured(
            op::count_nonzero,
            |a| count_meta(a, a.opt_int(1)?.as_ref().map(std::slice::from_ref)),
            |a, o| count(a, a.opt_int(1)?.as_ref().map(std::slice::from_ref), o),
        );
    r.any_device(op::sum_IntList_out, |a| {
        out_dtype(a.opt_dtype(3)?, a.tensor(4)?)?;
        let out = a.tensor(4)?;
        deliver(out, &op::sum_dim_IntList.call((a.tensor(0)?, a.opt_int_list(1)?, a.bool(2)?, out.dtype()))?)
    })
    .any_device(op::sum_out, |a| {
        out_dtype(a.opt_dtype(1)?, a.tensor(2)?)?;
        deliver(a.tensor(2)?, &op::sum.call((a.tensor(0)?, a.tensor(2)?.dtype()))?)
    })
    .any_device(op::prod_int_out, |a| {
        out_dtype(a.opt_dtype(3)?, a.tensor(4)?)?;
        let out = a.tensor(4)?;
        deliver(out, &op::prod_dim_int.call((a.tensor(0)?, a.int(1)?, a.bool(2)?, out.dtype()))?)
    })
    .any_device(op::prod_out, |a| {
        out_dtype(a.opt_dtype(1)?, a.tensor(2)?)?;
        deliver(a.tensor(2)?, &op::prod.call((a.tensor(0)?, a.tensor(2)?.dtype()))?)
    })
    .any_device(op::mean_out, |a| {
        out_dtype(a.opt_dtype(3)?, a.tensor(4)?)?;
        let (t, out) = (a.tensor(0)?, a.tensor(4)?);
        check!(
            !out.dtype().is_integral(true),
            "result type {} can't be cast to the desired output type {}",
            default_dtype(),
            out.dtype()
        );
        deliver(out, &op::mean_dim.call((t, a.opt_int_list(1)?, a.bool(2)?, out.dtype()))?)
    });
    r.structured(op::var_correction, |a| var_meta(a, 1), |a, o| var(a, "var", false, o))
        .structured(op::std_correction, |a| var_meta(a, 1), |a, o| var(a, "std", true, o))
        .structured(op::var_mean_correction, |a| var_meta(a, 2), |a, o| var(a, "var_mean", false, o))
        .structured(op::std_mean_correction, |a| var_meta(a, 2), |a, o| var(a, "std_mean", true, o))
        .implicit(op::var, |a| unbiased(op::var_correction, a))
        .implicit(op::std, |a| unbiased(op::std_correction, a))
        .implicit(op::var_mean, |a| unbiased(op::var_mean_correction, a))
        .implicit(op::std_mean, |a| unbiased(op::std_mean_correction, a))
        .implicit(op::var_dim, |a| unbiased_dim(op::var_correction, a))
        .implicit(op::std_dim, |a| unbiased_dim(op::std_correction, a))
        .implicit(op::var_mean_dim, |a| unbiased_dim(op::var_mean_correction, a))
        .implicit(op::std_mean_dim, |a| unbiased_dim(op::std_mean_correction, a));
    r.structured(
        op::linalg_vector_norm,
        |a| norm_meta(a.tensor(0)?, a.scalar(1)?, a.opt_int_list(2)?, a.bool(3)?, a.opt_dtype(4)?),
        |a, o| norm(a.tensor(0)?, a.scalar(1)?, a.opt_int_list(2)?, o),
    )
    .structured(
        op::norm_Scalar,
        |a| norm_meta(a.tensor(0)?, a.scalar(1)?, None, false, None),
        |a, o| norm(a.tensor(0)?, a.scalar(1)?, None, o),
    )
    .structured(
        op::norm_ScalarOpt_dtype,
        |a| norm_meta(a.tensor(0)?, order(a)?, None, false, a.opt_dtype(2)?),
        |a, o| norm(a.tensor(0)?, order(a)?, None, o),
    )
    .structured(
        op::norm_ScalarOpt_dim,
        |a| norm_meta(a.tensor(0)?, order(a)?, a.opt_int_list(2)?, a.bool(3)?, None),
        |a, o| norm(a.tensor(0)?, order(a)?, a.opt_int_list(2)?, o),
    )
    .structured(
        op::norm_ScalarOpt_dim_dtype,
        |a| norm_meta(a.tensor(0)?, order(a)?, a.opt_int_list(2)?, a.bool(3)?, a.opt_dtype(4)?),
        |a, o| norm(a.tensor(0)?, order(a)?, a.opt_int_list(2)?, o),
    )
    .structured(op::logsumexp, logsumexp_meta, logsumexp);
}

/// The shape that remains of a reduction.
pub(crate) fn reduced_sizes(t: &Tensor, mask: u64, keepdim: bool) -> IntList {
    let mut out = IntList::new();
    for (d, &s) in t.sizes().iter().enumerate() {
        if mask & (1 << d) == 0 {
            out.push(s);
        } else if keepdim {
            out.push(1);
        }
    }
    out
}

/// Tensors with a dimension that the first has and the results of a reduction along it (`rank` is the first's) may have
/// lost: all of them get it, of size one where it was missing; numbers become lists of one.
pub(crate) fn with_dim<const N: usize>(
    tensors: [&Tensor; N],
    dim: usize,
    rank: usize,
    kept: bool,
) -> [Tensor; N] {
    let mut first = true;
    tensors.map(|t| {
        let has = std::mem::take(&mut first) || kept;
        if rank > 0 && has {
            return t.clone();
        }
        let mut sizes = IntList::from_slice(t.sizes());
        let mut strides = IntList::from_slice(t.strides());
        sizes.insert(dim, 1);
        strides.insert(dim, 1);
        let alias = t.alias_with(sizes, strides, t.storage_offset());
        alias.set_key_set(t.key_set());
        alias
    })
}

/// An out overload of these operators computes in its target's dtype; another one may not be asked for.
///
/// # Errors
/// The dtype asked for is not the target's.
pub(crate) fn out_dtype(given: Option<DType>, out: &Tensor) -> Result<()> {
    if let Some(d) = given {
        check!(
            d == out.dtype(),
            "Expected out tensor to have dtype {}, but got {} instead",
            d.torch_name_cpp(),
            out.dtype().torch_name_cpp()
        );
    }
    Ok(())
}

/// Writes a result to the target of an out overload.
///
/// # Errors
/// A target that cannot be resized.
pub(crate) fn deliver(out: &Tensor, v: &Tensor) -> Result<Returns> {
    memory::resize_output(out, v.sizes(), None)?;
    memory::assert_no_internal_overlap(out)?;
    crate::ops::copy::copy_into(out, v)?;
    Ok(out.into())
}

/// The number of elements that one result is made of.
pub(crate) fn reduced_count(t: &Tensor, mask: u64) -> i64 {
    t.sizes().iter().enumerate().filter(|(d, _)| mask & (1 << d) != 0).map(|(_, s)| s).product()
}

fn mask_of(t: &Tensor, dims: Option<&[i64]>) -> Result<u64> {
    shape::dim_mask(dims, t.dim(), false)
}

fn spec(t: &Tensor, mask: u64, keepdim: bool, dtype: DType) -> OutSpec {
    OutSpec::new(reduced_sizes(t, mask, keepdim), dtype, t.device()).castable()
}

/// Sums and products of integers are int64.
fn summed_dtype(t: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if t.dtype().is_integral(true) { DType::Long } else { t.dtype() })
}

fn sum_meta(a: Args<'_>, dims: Option<&[i64]>, keepdim: bool, dtype: usize) -> Result<Specs> {
    let t = a.tensor(0)?;
    Ok(spec(t, mask_of(t, dims)?, keepdim, summed_dtype(t, a.opt_dtype(dtype)?)).into())
}

fn sum(a: Args<'_>, dims: Option<&[i64]>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = mask_of(t, dims)?;
    let dtype = out[0].dtype();
    // Narrow floats are widened before they are summed into a wider result, integers before they could wrap.
    let t = &convert(t, dtype)?;
    if dtype == DType::Bool {
        let o = Out::<bool>::of(&out[0]);
        // SAFETY: one write to each result.
        return for_rows::<bool>(t, mask, |i, x| unsafe { o.set(i, x.iter().any(|v| *v)) });
    }
    dispatch!("sum_cpu", dtype, all_complex, T => {
        let o = Out::<T>::of(&out[0]);
        // SAFETY: one write to each result.
        for_rows::<T>(t, mask, |i, x| unsafe { o.set(i, T::down(rows::sum(x))) })
    })
}

fn mean_meta(a: Args<'_>, dims: Option<&[i64]>, keepdim: bool, dtype: usize) -> Result<Specs> {
    let t = a.tensor(0)?;
    let given = a.opt_dtype(dtype)?;
    let d = given.unwrap_or(t.dtype());
    check!(
        d.is_floating_point() || d.is_complex(),
        NotImplemented;
        "mean(): could not infer output dtype. {} dtype must be either a floating point or complex dtype. Got: {}",
        if given.is_some() { "Optional" } else { "Input" },
        d.scalar_type_name()
    );
    Ok(spec(t, mask_of(t, dims)?, keepdim, d).into())
}

fn mean(a: Args<'_>, dims: Option<&[i64]>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = mask_of(t, dims)?;
    let t = &convert(t, out[0].dtype())?;
    dispatch!("mean_cpu", out[0].dtype(), floating_complex, T => {
        let o = Out::<T>::of(&out[0]);
        for_rows::<T>(t, mask, |i, x| {
            let mean = T::divide(rows::sum(x), x.len() as f64);
            // SAFETY: one write to each result.
            unsafe { o.set(i, T::down(mean)) }
        })
    })
}

fn prod(a: Args<'_>, dims: Option<&[i64]>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = mask_of(t, dims)?;
    let t = &convert(t, out[0].dtype())?;
    dispatch!("prod_cpu", out[0].dtype(), all_complex, T => {
        let o = Out::<T>::of(&out[0]);
        for_rows::<T>(t, mask, |i, x| {
            let product = x.iter().fold(T::UNIT, |p, v| T::times(p, v.up()));
            // SAFETY: one write to each result.
            unsafe { o.set(i, T::down(product)) }
        })
    })
}

fn truth_meta(a: Args<'_>, dims: Option<&[i64]>, keepdim: bool) -> Result<Specs> {
    let t = a.tensor(0)?;
    // Bytes stand in for truth values.
    let dtype = if t.dtype() == DType::Byte { DType::Byte } else { DType::Bool };
    // Here an empty list of dimensions reduces nothing.
    let mask = shape::dim_mask(dims, t.dim(), true)?;
    Ok(spec(t, mask, keepdim, dtype).into())
}

/// Nonzero, NaN included.
trait Truth: Copy {
    fn is_true(self) -> bool;
}
impl<T: Convert> Truth for T {
    #[inline(always)]
    fn is_true(self) -> bool {
        bool::from_wide(self.to_wide())
    }
}

fn truth(a: Args<'_>, dims: Option<&[i64]>, all: bool, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = shape::dim_mask(dims, t.dim(), true)?;
    let byte = out[0].dtype() == DType::Byte;
    let o = out[0].data_ptr() as usize;
    dispatch!("any_all", t.dtype(), copyable, T => for_rows::<T>(t, mask, |i, x| {
        let v = if all { x.iter().all(|v| v.is_true()) } else { x.iter().any(|v| v.is_true()) };
        debug_assert!(byte || out[0].dtype() == DType::Bool);
        // SAFETY: one write to each result; a bool and a byte are one byte, and 0 or 1 is valid for both.
        unsafe { (o as *mut u8).add(i).write(u8::from(v)) }
    }))
}

fn count_meta(a: Args<'_>, dims: Option<&[i64]>) -> Result<Specs> {
    let t = a.tensor(0)?;
    Ok(spec(t, mask_of(t, dims)?, false, DType::Long).into())
}

fn count(a: Args<'_>, dims: Option<&[i64]>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let o = Out::<i64>::of(&out[0]);
    dispatch!("nonzero_count_cpu", t.dtype(), copyable, T => for_rows::<T>(t, mask_of(t, dims)?, |i, x| {
        // SAFETY: one write to each result.
        unsafe { o.set(i, x.iter().filter(|v| v.is_true()).count() as i64) }
    }))
}

/// var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
fn var_meta(a: Args<'_>, results: usize) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(
        t.dtype().is_floating_point() || t.dtype().is_complex(),
        NotImplemented;
        "std and var only support floating point and complex dtypes"
    );
    let s = spec(t, mask_of(t, a.opt_int_list(1)?)?, a.bool(3)?, t.dtype());
    Ok(std::iter::repeat_n(s, results).collect())
}

fn var(a: Args<'_>, name: &str, root: bool, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let mask = mask_of(t, a.opt_int_list(1)?)?;
    let correction = a.opt_scalar(2)?.map_or(1.0, Scalar::to_f64);
    let n = reduced_count(t, mask) as f64;
    if out[0].numel() > 0 && n - correction <= 0.0 {
        crate::warn::warn(
            crate::warn::Category::User,
            &format!(
                "{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel \
             divided by output numel)."
            ),
        )?;
    }
    let free = (n - correction).max(0.0);
    dispatch!("std_cpu", t.dtype(), floating, T => {
        let o = Out::<T>::of(&out[0]);
        let means = out.get(1).map(Out::<T>::of);
        for_rows::<T>(t, mask, |i, x| {
            let (mean, m2) = rows::moments(x);
            let v = m2 / free;
            // SAFETY: one write to each result.
            unsafe {
                o.set(i, <T as Real>::of(if root { v.sqrt() } else { v }));
                if let Some(means) = means {
                    means.set(i, <T as Real>::of(mean));
                }
            }
        })
    })
}

fn unbiased(base: OpId, a: Args<'_>) -> Result<Returns> {
    let correction = Scalar::Int(i64::from(a.bool(1)?));
    let out = base.call_all((a.tensor(0)?, (), correction))?;
    Ok(Returns(out.into_iter().collect()))
}

fn unbiased_dim(base: OpId, a: Args<'_>) -> Result<Returns> {
    let correction = Scalar::Int(i64::from(a.bool(2)?));
    let out = base.call_all((a.tensor(0)?, a.opt_int_list(1)?, correction, a.bool(3)?))?;
    Ok(Returns(out.into_iter().collect()))
}

/// The order of a norm; two when none is given.
fn order(a: Args<'_>) -> Result<Scalar> {
    Ok(a.opt_scalar(1)?.unwrap_or(Scalar::Int(2)))
}

fn real_dtype(d: DType) -> DType {
    match d {
        DType::ComplexHalf => DType::Half,
        DType::ComplexFloat => DType::Float,
        DType::ComplexDouble => DType::Double,
        other => other,
    }
}

fn norm_meta(
    t: &Tensor,
    ord: Scalar,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Specs> {
    check!(
        t.dtype().is_floating_point() || t.dtype().is_complex(),
        NotImplemented;
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        t.dtype().scalar_type_name()
    );
    let mask = mask_of(t, dims)?;
    let p = ord.to_f64();
    if t.numel() == 0 && (p < 0.0 || p == f64::INFINITY) && reduced_count(t, mask) == 0 {
        check!(
            dims.is_some_and(|d| !d.is_empty()),
            "linalg.vector_norm cannot compute the {} norm on an empty tensor because the operation does not have an identity",
            if p == f64::INFINITY { "inf".to_string() } else { format!("{p}") }
        );
        for (d, &s) in t.sizes().iter().enumerate() {
            check!(
                mask & (1 << d) == 0 || s != 0,
                "linalg.vector_norm cannot compute the {p} norm on the dimension {d} because this dimension is empty and the \
                 operation does not have an identity"
            );
        }
    }
    Ok(spec(t, mask, keepdim, real_dtype(dtype.unwrap_or(t.dtype()))).into())
}

/// The absolute value in double precision.
trait Magnitude: Copy {
    fn magnitude(self) -> f64;
}
macro_rules! magnitude { ($($t:ty),*) => {$(impl Magnitude for $t {
    #[inline(always)]
    fn magnitude(self) -> f64 { self.wide().abs() }
})*}; }
magnitude!(f32, f64, half::f16, half::bf16);
impl Magnitude for Complex<f32> {
    fn magnitude(self) -> f64 {
        f64::from(self.norm())
    }
}
impl Magnitude for Complex<f64> {
    fn magnitude(self) -> f64 {
        self.norm()
    }
}

fn norm(t: &Tensor, ord: Scalar, dims: Option<&[i64]>, out: &[Tensor]) -> Result<()> {
    let mask = mask_of(t, dims)?;
    let p = ord.to_f64();
    dispatch!("norm_cpu", out[0].dtype(), floating, O => dispatch!("norm_cpu", t.dtype(), floating_complex, T => {
        let o = Out::<O>::of(&out[0]);
        for_rows::<T>(t, mask, |i, x| {
            let m = x.iter().map(|v| v.magnitude());
            let nan_max = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
            let nan_min = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
            let v = if p == 0.0 {
                m.filter(|v| *v != 0.0).count() as f64
            } else if p == 1.0 {
                m.sum()
            } else if p == 2.0 {
                m.map(|v| v * v).sum::<f64>().sqrt()
            } else if p == f64::INFINITY {
                m.fold(0.0, nan_max)
            } else if p == f64::NEG_INFINITY {
                m.fold(f64::INFINITY, nan_min)
            } else {
                m.map(|v| v.powf(p)).sum::<f64>().powf(1.0 / p)
            };
            // SAFETY: one write to each result.
            unsafe { o.set(i, <O as Real>::of(v)) }
        })
    }))
}

/// logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
fn logsumexp_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    // Upstream keeps every dimension of the maximum here and none of the result, which then do not fit.
    check!(
        !a.int_list(1)?.is_empty() || t.dim() == 0 || a.bool(2)?,
        "output with shape [] doesn't match the broadcast shape {:?}",
        vec![1; t.dim()]
    );
    let dtype = if t.dtype().is_integral(true) { default_dtype() } else { t.dtype() };
    Ok(spec(t, mask_of(t, Some(a.int_list(1)?))?, a.bool(2)?, dtype).into())
}

fn logsumexp(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = &convert(a.tensor(0)?, out[0].dtype())?;
    let mask = mask_of(t, Some(a.int_list(1)?))?;
    dispatch!("logsumexp", t.dtype(), floating, T => {
        let o = Out::<T>::of(&out[0]);
        for_rows::<T>(t, mask, |i, x| {
            let max = if x.is_empty() { f64::NEG_INFINITY } else { x[rows::extreme(x, false)].wide() };
            // Infinite maxima are not subtracted: they would make NaN of themselves.
            let shift = if max.is_finite() { max } else { 0.0 };
            // Upstream composes this of operators, each of which rounds its result.
            let r = |v: f64| <T as Real>::of(v).wide();
            let v = r(r(x.iter().map(|v| r(r(v.wide() - shift).exp())).sum::<f64>()).ln()) + shift;
            // SAFETY: one write to each result.
            unsafe { o.set(i, <T as Real>::of(v)) }
        })
    })
}
