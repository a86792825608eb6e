//! Distances: between two tensors (`dist`), between rows (`cdist`, `pdist`), along a dimension (`pairwise_distance`,
//! `cosine_similarity`).

use super::copy::{contiguous, copy_into};
use crate::cpu::parallel;
use crate::cpu::rows::Out;
use crate::dispatch::tls::StateGuard;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::iter::result_type;
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, Result, Scalar, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::dist, |a| {
        let difference = op::sub_Tensor.call((a.tensor(0)?, a.tensor(1)?))?;
        Ok(op::norm_Scalar.call((difference, a.scalar(2)?))?.into())
    });
    r.implicit(op::cdist, cdist);
    r.structured(op::_cdist_forward, forward_meta, forward);
    r.explicit(op::_euclidean_dist, |a| Ok(euclidean(a.tensor(0)?, a.tensor(1)?)?.into()));
    r.implicit(op::pdist, |a| {
        let t = a.tensor(0)?;
        check!(t.dim() == 2, "pdist only supports 2D tensors, got: {}D", t.dim());
        check!(
            t.dtype().is_floating_point(),
            NotImplemented;
            "pdist only supports floating-point dtypes"
        );
        check!(a.double(1)? >= 0.0, "pdist only supports non-negative p values");
        Ok(op::_pdist_forward.call((op::contiguous.call((t,))?, a.double(1)?))?.into())
    });
    r.structured(op::_pdist_forward, pairs_meta, pairs);
    r.implicit(op::pairwise_distance, |a| {
        let difference = op::sub_Tensor.call((a.tensor(0)?, a.tensor(1)?))?;
        let shifted = op::add_Scalar.call((difference, a.double(3)?))?;
        let last = shifted.dim() as i64 - 1;
        Ok(op::norm_ScalarOpt_dim.call((shifted, a.double(2)?, [last], a.bool(4)?))?.into())
    });
    r.implicit(op::cosine_similarity, cosine);
}

/// cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor
fn cosine(a: Args<'_>) -> Result<Returns> {
    let (x, y, dim, eps) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?, a.double(3)?);
    let sizes = shape::broadcast(x.sizes(), y.sizes())?;
    let dtype = result_type([x, y])?;
    check!(
        dtype.is_floating_point(),
        "expected common dtype to be floating point, yet common dtype is {dtype}"
    );
    let unit = |t: &Tensor| -> Result<Tensor> {
        let t = op::expand.call((op::to_dtype.call((t, dtype))?, &sizes[..]))?;
        let norm = op::clone.call((op::linalg_vector_norm.call((&t, 2, [dim], true))?,))?;
        {
            let _guard = StateGuard::no_grad();
            op::clamp_min_.call((&norm, eps))?;
        }
        op::div_Tensor.call((t, norm))
    };
    Ok(op::sum_dim_IntList.call((op::mul_Tensor.call((unit(x)?, unit(y)?))?, [dim], false))?.into())
}

fn check_rows(a: Args<'_>) -> Result<()> {
    for (i, name) in [(0, "X1"), (1, "X2")] {
        let t = a.tensor(i)?;
        check!(t.dim() >= 2, "cdist only supports at least 2D tensors, {name} got: {}D", t.dim());
    }
    let (c1, c2) = (a.tensor(0)?.size(-1)?, a.tensor(1)?.size(-1)?);
    check!(c1 == c2, "X1 and X2 must have the same number of columns. X1: {c1} X2: {c2}");
    for (i, name) in [(0, "X1"), (1, "X2")] {
        let d = a.tensor(i)?.dtype();
        check!(d.is_floating_point(), "cdist only supports floating-point dtypes, {name} got: {d}");
    }
    check!(a.double(2)? >= 0.0, "cdist only supports non-negative p values");
    let mode = a.opt_int(3)?.unwrap_or(0);
    check!((0..=2).contains(&mode), "possible modes: 0, 1, 2, but was: {mode}");
    Ok(())
}

/// Whether the distance is computed by way of a matrix product.
fn by_product(a: Args<'_>) -> Result<bool> {
    let mode = a.opt_int(3)?.unwrap_or(0);
    let many = a.tensor(0)?.size(-2)? > 25 || a.tensor(1)?.size(-2)? > 25;
    Ok(a.double(2)? == 2.0 && (mode == 1 || (mode == 0 && many)))
}

/// cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor
fn cdist(a: Args<'_>) -> Result<Returns> {
    check_rows(a)?;
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    let out = forward_sizes(x, y)?;
    let filled = x.numel() > 0 && y.numel() > 0;
    if by_product(a)? && filled {
        let batch = &out[..out.len() - 2];
        let expanded = |t: &Tensor| {
            let sizes: Vec<i64> = batch.iter().chain(&t.sizes()[t.dim() - 2..]).copied().collect();
            op::expand.call((t, sizes))
        };
        return Ok(op::_euclidean_dist.call((expanded(x)?, expanded(y)?))?.into());
    }
    Ok(op::_cdist_forward.call((x, y, a.double(2)?, a.opt_int(3)?))?.into())
}

/// _euclidean_dist(Tensor x1, Tensor x2) -> Tensor: `|x|² - 2xy + |y|²` as one matrix product.
fn euclidean(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let square = |t: &Tensor| op::sum_dim_IntList.call((op::pow_Tensor_Scalar.call((t, 2))?, [-1], true));
    let (xx, yy) = (square(x)?, square(y)?);
    let ones = |t: &Tensor| op::ones_like.call((t,));
    let left = op::cat.call((vec![op::mul_Scalar.call((x, -2))?, xx.clone(), ones(&xx)?], -1))?;
    let right = op::cat.call((vec![y.clone(), ones(&yy)?, yy], -1))?;
    let product = op::matmul.call((left, op::transpose_int.call((right, -2, -1))?))?;
    op::sqrt.call((op::clamp_min.call((product, 0))?,))
}

fn forward_sizes(x: &Tensor, y: &Tensor) -> Result<IntList> {
    let (n, m) = (x.dim(), y.dim());
    let mut sizes = shape::broadcast(&x.sizes()[..n - 2], &y.sizes()[..m - 2])?;
    sizes.extend([x.sizes()[n - 2], y.sizes()[m - 2]]);
    Ok(sizes)
}

/// _cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor
fn forward_meta(a: Args<'_>) -> Result<Specs> {
    check_rows(a)?;
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    Ok(OutSpec::like(x, forward_sizes(x, y)?).into())
}

/// The distance of two rows.
fn distance<T: Copy + Into<f64>>(x: &[T], y: &[T], p: f64) -> f64 {
    let d = x.iter().zip(y).map(|(a, b)| (Into::<f64>::into(*a) - Into::<f64>::into(*b)).abs());
    if p == 0.0 {
        d.fold(0.0, |s, v| s + if v.is_nan() { v } else { f64::from(u8::from(v != 0.0)) })
    } else if p == 1.0 {
        d.fold(0.0, |s, v| s + v)
    } else if p == 2.0 {
        d.fold(0.0, |s, v| s + v * v).sqrt()
    } else if p == f64::INFINITY {
        d.fold(0.0, |s, v| if s.is_nan() || v.is_nan() { f64::NAN } else { v.max(s) })
    } else {
        d.fold(0.0, |s, v| s + v.powf(p)).powf(1.0 / p)
    }
}

fn forward(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, y, p) = (a.tensor(0)?, a.tensor(1)?, a.double(2)?);
    let o = &out[0];
    if o.numel() == 0 {
        return Ok(());
    }
    if x.numel() == 0 || y.numel() == 0 {
        return super::options::fill(o, Scalar::Int(0));
    }
    if by_product(a)? {
        return copy_into(o, &euclidean(x, y)?);
    }
    let n = o.dim();
    let batch = &o.sizes()[..n - 2];
    let dense = |t: &Tensor| -> Result<Tensor> {
        let sizes: IntList = batch.iter().chain(&t.sizes()[t.dim() - 2..]).copied().collect();
        let (sizes, strides) = shape::expand_strides(t.sizes(), t.strides(), &sizes)?;
        contiguous(&t.alias_with(sizes, strides, t.storage_offset()))
    };
    let (x, y) = (dense(x)?, dense(y)?);
    let (rows, columns) = (o.sizes()[n - 2] as usize, o.sizes()[n - 1] as usize);
    let width = x.sizes()[n - 1] as usize;
    dispatch!("cdist", x.dtype(), float64_32, T => {
        // SAFETY: contiguous tensors of T.
        let (x, y) = unsafe { (x.as_slice::<T>(), y.as_slice::<T>()) };
        let o = Out::<T>::of(o);
        parallel::for_range(0, out[0].numel() as usize / columns, 4096 / (columns * width).max(1) + 1, |b, e| {
            for row in b..e {
                let first = row / rows * columns;
                for j in 0..columns {
                    let v = distance(&x[row * width..][..width], &y[(first + j) * width..][..width], p);
                    // SAFETY: one write to each result.
                    unsafe { o.set(row * columns + j, v as T) };
                }
            }
        });
    });
    Ok(())
}

/// _pdist_forward(Tensor self, float p=2) -> Tensor: the upper triangle of the matrix of distances, row by row.
fn pairs_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(t.is_contiguous(), "_pdist_forward requires contiguous input");
    check!(
        matches!(t.dtype(), DType::Float | DType::Double),
        NotImplemented;
        "\"pdist\" not implemented for '{}'",
        t.dtype()
    );
    let n = t.size(0)?;
    Ok(OutSpec::like(t, IntList::from_slice(&[if n <= 1 { 0 } else { n * (n - 1) / 2 }])).into())
}

fn pairs(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, p) = (a.tensor(0)?, a.double(1)?);
    let (n, width) = (t.sizes()[0] as usize, t.sizes()[1] as usize);
    dispatch!("pdist", t.dtype(), float64_32, T => {
        // SAFETY: contiguous tensors of T, the second fresh.
        let (x, o) = unsafe { (t.as_slice::<T>(), out[0].as_mut_slice::<T>()) };
        let mut o = o.iter_mut();
        for i in 0..n {
            for j in i + 1..n {
                if let Some(o) = o.next() {
                    *o = distance(&x[i * width..][..width], &x[j * width..][..width], p) as T;
                }
            }
        }
    });
    Ok(())
}
