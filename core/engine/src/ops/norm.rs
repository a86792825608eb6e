//! Norms: of vectors, of matrices, of lists of tensors, and what is scaled by them.

use super::reduce::{reduced_count, reduced_sizes};
use crate::cpu::dense;
use crate::cpu::rows::{Out, Real, for_rows};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::Args;
use crate::tensor::{factory, shape};
use crate::{Complex, DType, Result, Scalar, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(
        op::linalg_vector_norm,
        |a| vector_meta(a.tensor(0)?, a.scalar(1)?, a.opt_int_list(2)?, a.bool(3)?, a.opt_dtype(4)?),
        |a, o| vector(a.tensor(0)?, a.scalar(1)?, a.opt_int_list(2)?, o),
    )
    .structured(
        op::norm_Scalar,
        |a| norm_meta(a, None, false, None),
        |a, o| vector(a.tensor(0)?, a.scalar(1)?, None, o),
    )
    .structured(
        op::norm_ScalarOpt_dtype,
        |a| norm_meta(a, None, false, a.opt_dtype(2)?),
        |a, o| vector(a.tensor(0)?, order(a)?, None, o),
    )
    .structured(
        op::norm_ScalarOpt_dim,
        |a| norm_meta(a, a.opt_int_list(2)?, a.bool(3)?, None),
        |a, o| vector(a.tensor(0)?, order(a)?, a.opt_int_list(2)?, o),
    )
    .structured(
        op::norm_ScalarOpt_dim_dtype,
        |a| norm_meta(a, a.opt_int_list(2)?, a.bool(3)?, a.opt_dtype(4)?),
        |a, o| vector(a.tensor(0)?, order(a)?, a.opt_int_list(2)?, o),
    );
    r.implicit(op::linalg_norm, linalg_norm).implicit(op::linalg_norm_ord_str, |a| {
        let args =
            (a.tensor(0)?, a.str(1)?, a.opt_int_list(2)?.unwrap_or(&[0, 1]), a.bool(3)?, a.opt_dtype(4)?);
        Ok(op::linalg_matrix_norm_str_ord.call(args)?.into())
    });
    r.implicit(op::linalg_matrix_norm, matrix).implicit(op::linalg_matrix_norm_str_ord, matrix_named);
    r.implicit(op::frobenius_norm_dim, |a| {
        let dims = a.int_list(1)?;
        check!(dims.len() <= 2, "Expected at most 2 dimensions, but got {} dimensions instead.", dims.len());
        Ok(op::linalg_vector_norm.call((a.tensor(0)?, 2, dims, a.bool(2)?))?.into())
    });
    r.implicit(op::nuclear_norm, |a| {
        let t = a.tensor(0)?;
        check!(
            t.dim() == 2,
            "Expected a tensor with 2 dimensions, but got a tensor with {} dimensions instead.",
            t.dim()
        );
        Ok(op::linalg_matrix_norm_str_ord.call((t, "nuc", [-2, -1], a.bool(1)?))?.into())
    });
    r.implicit(op::nuclear_norm_dim, |a| {
        Ok(op::linalg_matrix_norm_str_ord.call((a.tensor(0)?, "nuc", a.int_list(1)?, a.bool(2)?))?.into())
    });
    r.implicit(op::norm_except_dim, |a| Ok(norm_except_dim(a.tensor(0)?, a.int(1)?, a.int(2)?)?.into()));
    r.structured(op::renorm, renorm_meta, renorm);
    r.implicit(op::_weight_norm, |a| {
        let (v, g, dim) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?);
        let v = op::contiguous.call((v,))?;
        let g = op::contiguous.call((g,))?;
        if dim == 0 || dim == v.dim() as i64 - 1 {
            return Ok(op::_weight_norm_interface.call_all((v, g, dim))?.swap_remove(0).into());
        }
        let norms = op::norm_except_dim.call((&v, 2, dim))?;
        Ok(op::mul_Tensor.call((v, op::div_Tensor.call((g, norms))?))?.into())
    });
    r.structured(op::_weight_norm_interface, weight_norm_meta, weight_norm);
}

/// The order of a norm; two when none is given.
fn order(a: Args<'_>) -> Result<Scalar> {
    Ok(a.opt_scalar(1)?.unwrap_or(Scalar::Int(2)))
}

fn vector_meta(
    t: &Tensor,
    ord: Scalar,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Specs> {
    check_numbers("linalg.vector_norm", t)?;
    let mask = shape::dim_mask(dims, t.dim(), false)?;
    let p = ord.to_f64();
    if t.numel() == 0 && (p < 0.0 || p == f64::INFINITY) && reduced_count(t, mask) == 0 {
        let name = if p == f64::INFINITY { "inf".to_string() } else { format!("{p}") };
        check!(
            dims.is_some_and(|d| !d.is_empty()),
            "linalg.vector_norm cannot compute the {name} norm on an empty tensor because the operation does not have an \
             identity"
        );
        for (d, &s) in t.sizes().iter().enumerate() {
            check!(
                mask & (1 << d) == 0 || s != 0,
                "linalg.vector_norm cannot compute the {name} norm on the dimension {d}because this dimension is empty and \
                 the operation does not have an identity"
            );
        }
    }
    if let Some(d) = dtype {
        check!(
            d.is_floating_point() || d.is_complex(),
            "linalg.vector_norm: dtype should be floating point or complex, but got {d}"
        );
        check!(
            d.is_complex() == t.dtype().is_complex(),
            "linalg.vector_norm: dtype should be {} for {} inputs, but got {d}",
            if t.dtype().is_complex() { "complex" } else { "real" },
            if t.dtype().is_complex() { "complex" } else { "real" }
        );
        check!(
            crate::dtype::promote_types(t.dtype(), d)? == d,
            "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing to the specified dtype \
             ({d})",
            t.dtype()
        );
    }
    let result = dtype.unwrap_or(t.dtype()).to_real();
    Ok(OutSpec::new(reduced_sizes(t, mask, keepdim), result, t.device()).into())
}

/// Norms are of floating and complex numbers.
fn check_numbers(name: &str, t: &Tensor) -> Result<()> {
    check!(
        t.dtype().is_floating_point() || t.dtype().is_complex(),
        NotImplemented;
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        t.dtype().scalar_type_name()
    );
    Ok(())
}

/// The older family of overloads.
fn norm_meta(a: Args<'_>, dims: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Specs> {
    let t = a.tensor(0)?;
    let d = dtype.unwrap_or(t.dtype());
    check!(
        d.is_floating_point() || d.is_complex(),
        NotImplemented;
        "norm(): input dtype should be either floating point or complex. Got {d} instead."
    );
    vector_meta(t, order(a)?, dims, keepdim, dtype)
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

fn vector(t: &Tensor, ord: Scalar, dims: Option<&[i64]>, out: &[Tensor]) -> Result<()> {
    let mask = shape::dim_mask(dims, t.dim(), false)?;
    let p = ord.to_f64();
    if p == 2.0 && dense::euclidean(t, mask, &out[0])? {
        return Ok(());
    }
    // Upstream's sums are as narrow as this, and overflow where they do.
    let single = out[0].dtype() != DType::Double;
    let stored = |v: f64| if single { f64::from(v as f32) } else { v };
    dispatch!("norm_cpu", out[0].dtype(), floating, O => dispatch!("norm_cpu", t.dtype(), floating_complex, T => {
        let o = Out::<O>::of(&out[0]);
        for_rows::<T>(t, mask, |i, x| {
            let m = x.iter().map(|v| v.magnitude());
            let nan_max = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
            let nan_min = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
            let v = if p == 0.0 {
                m.filter(|v| *v != 0.0).count() as f64
            } else if p == 1.0 {
                m.fold(0.0, |a, b| a + b)
            } else if p == 2.0 {
                stored(m.fold(0.0, |a, b| a + b * b)).sqrt()
            } else if p == f64::INFINITY {
                m.fold(0.0, nan_max)
            } else if p == f64::NEG_INFINITY {
                m.fold(f64::INFINITY, nan_min)
            } else {
                stored(m.fold(0.0, |a, b| a + b.powf(p))).powf(1.0 / p)
            };
            // SAFETY: one write to each result.
            unsafe { o.set(i, <O as Real>::of(v)) }
        })
    }))
}

/// linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
fn linalg_norm(a: Args<'_>) -> Result<Returns> {
    let (t, ord, dims) = (a.tensor(0)?, a.opt_scalar(1)?, a.opt_int_list(2)?);
    if let Some(d) = dims {
        check!(
            d.len() == 1 || d.len() == 2,
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {d:?}"
        );
    } else if ord.is_some() {
        check!(
            t.dim() == 1 || t.dim() == 2,
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
            t.dim()
        );
    }
    let (keepdim, dtype) = (a.bool(3)?, a.opt_dtype(4)?);
    Ok(match ord {
        Some(ord) if dims.map_or(t.dim(), <[i64]>::len) == 2 => {
            op::linalg_matrix_norm.call((t, ord, dims.unwrap_or(&[0, 1]), keepdim, dtype))?
        }
        _ => op::linalg_vector_norm.call((t, ord.unwrap_or(Scalar::Int(2)), dims, keepdim, dtype))?,
    }
    .into())
}

/// The two dimensions of the matrices, wrapped.
fn matrix_dims(t: &Tensor, dims: &[i64], dtype: Option<DType>) -> Result<[i64; 2]> {
    if dtype.is_none() {
        check_numbers("linalg.matrix_norm", t)?;
    }
    check!(t.dim() >= 2, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.");
    let list = || dims.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    check!(dims.len() == 2, "linalg.matrix_norm: dim must be a 2-tuple. Got {}", list());
    let (i, j) = (shape::wrap_dim(dims[0], t.dim())?, shape::wrap_dim(dims[1], t.dim())?);
    check!(i != j, "linalg.matrix_norm: dims must be different. Got ({})", list());
    Ok([i as i64, j as i64])
}

/// The singular values along a new last dimension.
fn singular_values(t: &Tensor, [i, j]: [i64; 2], dtype: Option<DType>) -> Result<Tensor> {
    let t = match dtype {
        Some(d) => op::to_dtype.call((t, d))?,
        None => t.clone(),
    };
    op::linalg_svdvals.call((op::movedim_intlist.call((t, [i, j], [-2, -1]))?,))
}

/// Puts the two reduced dimensions back.
fn restore(mut v: Tensor, dims: [i64; 2], keepdim: bool) -> Result<Tensor> {
    if keepdim {
        for d in [dims[0].min(dims[1]), dims[0].max(dims[1])] {
            v = op::unsqueeze.call((v, d))?;
        }
    }
    Ok(v)
}

/// linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None)
fn matrix(a: Args<'_>) -> Result<Returns> {
    let (t, ord, keepdim, dtype) = (a.tensor(0)?, a.scalar(1)?, a.bool(3)?, a.opt_dtype(4)?);
    let dims = matrix_dims(t, a.int_list(2)?, dtype)?;
    let p = ord.to_f64();
    check!(
        p.abs() == 1.0 || p.abs() == 2.0 || p.abs() == f64::INFINITY,
        "linalg.matrix_norm: Order {p} not supported."
    );
    let extreme = if p > 0.0 { op::amax } else { op::amin };
    if p.abs() == 2.0 {
        let values = singular_values(t, dims, dtype)?;
        let v = match values.sizes().last() {
            // A matrix without elements has no singular value, and its largest is zero.
            Some(0) if p > 0.0 => op::sum_dim_IntList.call((values, [-1], false))?,
            _ => extreme.call((values, [-1], false))?,
        };
        return Ok(restore(v, dims, keepdim)?.into());
    }
    let [mut sum, mut best] = dims;
    if p.abs() == f64::INFINITY {
        std::mem::swap(&mut sum, &mut best);
    }
    if best > sum && !keepdim {
        best -= 1;
    }
    let sums = op::linalg_vector_norm.call((t, 1, [sum], keepdim, dtype))?;
    if p > 0.0 && sums.size(best)? == 0 {
        return Ok(op::sum_dim_IntList.call((sums, [best], keepdim))?.into());
    }
    Ok(extreme.call((sums, [best], keepdim))?.into())
}

/// linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None)
fn matrix_named(a: Args<'_>) -> Result<Returns> {
    let (t, ord, keepdim, dtype) = (a.tensor(0)?, a.str(1)?, a.bool(3)?, a.opt_dtype(4)?);
    let dims = matrix_dims(t, a.int_list(2)?, dtype)?;
    Ok(match ord {
        "fro" => op::linalg_vector_norm.call((t, 2, dims, keepdim, dtype))?,
        "nuc" => {
            let v = op::sum_dim_IntList.call((singular_values(t, dims, dtype)?, [-1], false))?;
            restore(v, dims, keepdim)?
        }
        _ => bail!(Runtime, "linalg.matrix_norm: Order {ord} not supported."),
    }
    .into())
}

/// norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor: norms over all dimensions but one, kept as ones.
fn norm_except_dim(v: &Tensor, pow: i64, dim: i64) -> Result<Tensor> {
    if dim == -1 {
        return op::norm_Scalar.call((v, pow));
    }
    let last = v.dim() as i64 - 1;
    if dim != 0 && dim != last {
        let swapped = op::transpose_int.call((v, 0, dim))?;
        return op::transpose_int.call((norm_except_dim(&swapped, pow, 0)?, 0, dim));
    }
    let kept = v.size(dim)?;
    let mut sizes = vec![1; v.dim()];
    sizes[dim as usize] = kept;
    let (flat, along) = if dim == 0 { ([kept, -1], 1) } else { ([-1, kept], 0) };
    let flat = op::view.call((op::contiguous.call((v,))?, flat))?;
    op::view.call((op::norm_ScalarOpt_dim.call((flat, pow, [along], false))?, sizes))
}

/// renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor
fn renorm_meta(a: Args<'_>) -> Result<Specs> {
    let (t, p, max) = (a.tensor(0)?, a.scalar(1)?, a.scalar(3)?);
    check!(!p.is_complex(), "renorm: p must be real-valued");
    check!(p.to_f64() > 0.0, "renorm: non-positive-norm not supported");
    check!(!max.is_complex(), "renorm: maxnorm must be real-valued");
    check!(max.to_f64() >= 0.0, "renorm: expected maxnorm to be >= 0 but got {}", max.to_f64());
    check!(t.dim() > 1, "renorm: input needs at least 2 dimensions, got {} dimensions", t.dim());
    shape::wrap_dim(a.int(2)?, t.dim())?;
    Ok(OutSpec::like(t, t.sizes()).into())
}

fn renorm(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, max) = (a.tensor(0)?, a.scalar(3)?.to_f64());
    let d = shape::wrap_dim(a.int(2)?, t.dim())?;
    let dims: Vec<i64> = (0..t.dim() as i64).filter(|i| *i != d as i64).collect();
    let wide = match t.dtype() {
        DType::Half | DType::BFloat16 => Some(DType::Float),
        _ => None,
    };
    let norms = op::linalg_vector_norm.call((t, a.scalar(1)?, dims, true, wide))?;
    let factors = factory::empty(norms.sizes(), norms.dtype(), norms.device())?;
    dispatch!("renorm_scale_factor_cpu", norms.dtype(), float64_32, T => {
        // SAFETY: both are contiguous tensors of T, the factors fresh.
        let (n, f) = unsafe { (norms.as_slice::<T>(), factors.as_mut_slice::<T>()) };
        for (n, f) in n.iter().zip(f) {
            *f = if *n > max as T { max as T / (*n + 1e-7) } else { 1.0 };
        }
    });
    let factors = super::copy::convert(&factors, t.dtype().to_real())?;
    super::copy::copy_into(&out[0], &op::mul_Tensor.call((t, factors))?)
}

/// _weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor): `v * (g / |v|)` and the norms.
fn weight_norm_meta(a: Args<'_>) -> Result<Specs> {
    let (v, g, dim) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?);
    check!(dim == 0 || dim == v.dim() as i64 - 1, "fused kernels can only be applied for first or last dim");
    check!(
        v.dtype().is_floating_point() && !v.dtype().is_float8(),
        NotImplemented;
        "\"weight_norm_kernel\" not implemented for '{}'",
        v.dtype()
    );
    check!(g.dtype() == v.dtype(), "expected scalar type {} but found {}", v.dtype(), g.dtype());
    check!(g.numel() == v.size(dim)?, "weight norm: g has {} elements for {} norms", g.numel(), v.size(dim)?);
    // Norms are as wide as they are computed.
    let norms = OutSpec::new(g.sizes(), g.dtype().to_opmath(), g.device()).strides(g.strides());
    Ok(Specs::from_iter([OutSpec::like(v, v.sizes()), norms]))
}

fn weight_norm(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (v, g, dim) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?);
    let norms = norm_except_dim(&super::copy::convert(v, out[1].dtype())?, 2, dim)?;
    let scale = op::div_Tensor.call((super::copy::convert(g, out[1].dtype())?, &norms))?;
    let scaled = op::mul_Tensor.call((super::copy::convert(v, out[1].dtype())?, scale))?;
    super::copy::copy_into(&out[0], &scaled)?;
    super::copy::copy_into(&out[1], &norms)
}
