//! Reductions to numbers: `sum`, `mean`, `prod`, `any`, `all`, `count_nonzero`, `var`, `std`, norms, `logsumexp`.

use crate::cpu::dense;
use crate::cpu::rows::{self, Out, Real, Sum, for_rows};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::dtype::{Convert, Element};
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
    for id in [op::all_out, op::any_out, op::all_dims_out, op::any_dims_out, op::all_all_out, op::any_all_out]
    {
        r.any_device(id, truth_out(id));
    }
    r.structured(
        op::nansum,
        |a| {
            let t = a.tensor(0)?;
            check!(!t.dtype().is_complex(), NotImplemented; "nansum on CPU does not support complex inputs");
            sum_meta(a, a.opt_int_list(1)?, a.bool(2)?, 3)
        },
        nansum,
    )
    .any_device(op::nansum_out, |a| {
        out_dtype(a.opt_dtype(3)?, a.tensor(4)?)?;
        let out = a.tensor(4)?;
        deliver(out, &op::nansum.call((a.tensor(0)?, a.opt_int_list(1)?, a.bool(2)?, out.dtype()))?)
    })
    .implicit(op::nanmean, nanmean);
    r.structured(op::trace, trace_meta, trace);
    r.explicit(op::_is_all_true, |a| {
        check!(a.tensor(0)?.dtype() == DType::Bool, Internal; "_is_all_true takes bools");
        Ok(op::all.call((a.tensor(0)?,))?.into())
    })
    .explicit(op::_is_any_true, |a| {
        check!(a.tensor(0)?.dtype() == DType::Bool, Internal; "_is_any_true takes bools");
        Ok(op::any.call((a.tensor(0)?,))?.into())
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
    r.any_device(op::var_correction_out, |a| var_out(a, op::var_correction))
        .any_device(op::std_correction_out, |a| var_out(a, op::std_correction))
        .implicit(op::var_out, |a| {
            let correction = Scalar::Int(i64::from(a.bool(2)?));
            let args = (a.tensor(0)?, a.opt_int_list(1)?, correction, a.bool(3)?, a.tensor(4)?);
            Ok(op::var_correction_out.call(args)?.into())
        })
        .implicit(op::std_out, |a| {
            let correction = Scalar::Int(i64::from(a.bool(2)?));
            let args = (a.tensor(0)?, a.opt_int_list(1)?, correction, a.bool(3)?, a.tensor(4)?);
            Ok(op::std_correction_out.call(args)?.into())
        });
    r.structured(op::logsumexp, logsumexp_meta, logsumexp);
    r.implicit(op::special_logsumexp, |a| {
        Ok(op::logsumexp.call((a.tensor(0)?, a.int_list(1)?, a.bool(2)?))?.into())
    });
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
    if dense::sum(t, mask, false, &out[0])? {
        return Ok(());
    }
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

/// Sums what is not NaN.
fn nansum(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, dims) = (a.tensor(0)?, a.opt_int_list(1)?);
    let mask = mask_of(t, dims)?;
    let t = &convert(t, out[0].dtype())?;
    if !t.dtype().is_floating_point() {
        return sum(a, dims, out);
    }
    dispatch!("nansum_cpu", t.dtype(), floating, T => {
        let o = Out::<T>::of(&out[0]);
        for_rows::<T>(t, mask, |i, x| {
            let kept: Vec<T> = x.iter().copied().filter(|v| !v.nan()).collect();
            // SAFETY: one write to each result.
            unsafe { o.set(i, T::down(rows::sum(&kept))) }
        })
    })
}

/// nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
fn nanmean(a: Args<'_>) -> Result<Returns> {
    let (t, dims, keepdim) = (a.tensor(0)?, a.opt_int_list(1)?, a.bool(2)?);
    check!(
        t.dtype().is_floating_point() || t.dtype().is_complex(),
        NotImplemented;
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        t.dtype()
    );
    let there = op::logical_not.call((op::isnan.call((op::detach.call((t,))?,))?,))?;
    let count = op::sum_dim_IntList.call((there, dims, keepdim))?;
    let sum = op::nansum.call((t, dims, keepdim, a.opt_dtype(3)?))?;
    Ok(op::div_Tensor.call((sum, count))?.into())
}

/// trace(Tensor self) -> Tensor
fn trace_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(t.dim() == 2, "trace: expected a matrix, but got tensor with dim {}", t.dim());
    Ok(OutSpec::new(IntList::new(), summed_dtype(t, None), t.device()).into())
}

fn trace(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let n = t.sizes()[0].min(t.sizes()[1]);
    let step = t.strides()[0] + t.strides()[1];
    let diagonal = t.alias_with(IntList::from_slice(&[n]), IntList::from_slice(&[step]), t.storage_offset());
    diagonal.set_key_set(t.key_set());
    if t.dtype() == DType::Bool {
        return Err(crate::Error::dtype_not_implemented("trace", t.dtype()));
    }
    let wide = convert(&diagonal, out[0].dtype())?;
    dispatch!("trace", wide.dtype(), all_complex, T => {
        let o = Out::<T>::of(&out[0]);
        // SAFETY: one write to the only result.
        for_rows::<T>(&wide, 1, |i, x| unsafe { o.set(i, T::down(rows::sum(x))) })
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
    if dense::sum(t, mask, true, &out[0])? {
        return Ok(());
    }
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

/// Truth goes to bools, or to bytes by way of bytes.
fn truth_out(id: OpId) -> crate::dispatch::operator::ArgsFn {
    fn run(a: Args<'_>, out: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Returns> {
        check!(
            matches!(out.dtype(), DType::Bool | DType::Byte),
            "all only supports bool tensor for result, got: {}",
            out.dtype()
        );
        let t = a.tensor(0)?;
        let t = if out.dtype() == DType::Byte { op::to_dtype.call((t, DType::Byte))? } else { t.clone() };
        deliver(out, &f(&t)?)
    }
    match id {
        op::all_out => |a| run(a, a.tensor(3)?, |t| op::all_dim.call((t, a.int(1)?, a.bool(2)?))),
        op::any_out => |a| run(a, a.tensor(3)?, |t| op::any_dim.call((t, a.int(1)?, a.bool(2)?))),
        op::all_dims_out => {
            |a| run(a, a.tensor(3)?, |t| op::all_dims.call((t, a.opt_int_list(1)?, a.bool(2)?)))
        }
        op::any_dims_out => {
            |a| run(a, a.tensor(3)?, |t| op::any_dims.call((t, a.opt_int_list(1)?, a.bool(2)?)))
        }
        op::all_all_out => |a| run(a, a.tensor(1)?, |t| op::all.call((t,))),
        _ => |a| run(a, a.tensor(1)?, |t| op::any.call((t,))),
    }
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
    // The variance of complex numbers is real, their mean is not.
    let mut specs: Specs = std::iter::repeat_n(s, results).collect();
    specs[0].dtype = t.dtype().to_real();
    Ok(specs)
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
    let finish = |m2: f64| if root { (m2 / free).sqrt() } else { m2 / free };
    if t.dtype().is_complex() {
        return match t.dtype() {
            DType::ComplexFloat => complex_var::<f32>(t, mask, finish, out),
            _ => complex_var::<f64>(t, mask, finish, out),
        };
    }
    dispatch!("std_cpu", t.dtype(), floating, T => {
        let o = Out::<T>::of(&out[0]);
        let means = out.get(1).map(Out::<T>::of);
        for_rows::<T>(t, mask, |i, x| {
            let (mean, m2) = rows::moments(x);
            // SAFETY: one write to each result.
            unsafe {
                o.set(i, <T as Real>::of(finish(m2)));
                if let Some(means) = means {
                    means.set(i, <T as Real>::of(mean));
                }
            }
        })
    })
}

/// Variances (or deviations) of complex numbers: those of both parts together.
fn complex_var<T>(t: &Tensor, mask: u64, finish: impl Fn(f64) -> f64 + Sync, out: &[Tensor]) -> Result<()>
where
    T: Real,
    Complex<T>: Element,
{
    let o = Out::<T>::of(&out[0]);
    let means = out.get(1).map(Out::<Complex<T>>::of);
    for_rows::<Complex<T>>(t, mask, |i, x| {
        let parts = |f: fn(&Complex<T>) -> f64| rows::moments(&x.iter().map(f).collect::<Vec<f64>>());
        let ((re, a), (im, b)) = (parts(|z| z.re.wide()), parts(|z| z.im.wide()));
        // SAFETY: one write to each result.
        unsafe {
            o.set(i, <T as Real>::of(finish(a + b)));
            if let Some(means) = means {
                means.set(i, Complex::new(<T as Real>::of(re), <T as Real>::of(im)));
            }
        }
    })
}

/// The out overload computes in the dtype of its target.
fn var_out(a: Args<'_>, id: OpId) -> Result<Returns> {
    let (t, out) = (a.tensor(0)?, a.tensor(4)?);
    check!(
        !t.dtype().is_complex() && out.dtype().is_floating_point() || t.dtype().to_real() == out.dtype(),
        "std and var: result type {} can't be cast to the desired output type {}",
        t.dtype(),
        out.dtype()
    );
    let t = if t.dtype().is_complex() { t.clone() } else { convert(t, out.dtype())? };
    deliver(out, &id.call((t, a.opt_int_list(1)?, a.opt_scalar(2)?, a.bool(3)?))?)
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
    match t.dtype() {
        DType::ComplexFloat => return complex_logsumexp::<f32>(t, mask, &out[0]),
        DType::ComplexDouble => return complex_logsumexp::<f64>(t, mask, &out[0]),
        _ => {}
    }
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

/// The greatest real part is taken out of the exponentials.
fn complex_logsumexp<T>(t: &Tensor, mask: u64, out: &Tensor) -> Result<()>
where
    T: Real,
    Complex<T>: Element,
{
    let o = Out::<Complex<T>>::of(out);
    for_rows::<Complex<T>>(t, mask, |i, x| {
        let nan_max = |m: f64, v: f64| if m.is_nan() || v.is_nan() { f64::NAN } else { m.max(v) };
        let max = x.iter().map(|z| z.re.wide()).fold(f64::NEG_INFINITY, nan_max);
        let shift = if max.is_finite() { max } else { 0.0 };
        let wide = |z: &Complex<T>| Complex::new(z.re.wide() - shift, z.im.wide()).exp();
        let sum = x.iter().map(wide).fold(Complex::new(0.0, 0.0), |a, b| a + b).ln() + shift;
        // SAFETY: one write to each result.
        unsafe { o.set(i, Complex::new(<T as Real>::of(sum.re), <T as Real>::of(sum.im))) }
    })
}
