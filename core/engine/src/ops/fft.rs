//! Discrete Fourier transforms. Results lie in memory as upstream's MKL leaves them: the transformed dimensions innermost.

use super::copy;
use crate::cpu::fft::{self, Planned};
use crate::dispatch::{OutSpec, Registry, Specs};
use crate::ivalue::{Args, IntList};
use crate::tensor::{factory, shape};
use crate::{Complex, DType, Result, Tensor, bail, check};

pub(crate) fn register(r: &mut Registry) {
    r.structured(crate::op::_fft_c2c, c2c_meta, c2c)
        .structured(crate::op::_fft_r2c, r2c_meta, r2c)
        .structured(crate::op::_fft_c2r, c2r_meta, c2r);
}

fn complex_of(t: &Tensor) -> DType {
    t.dtype().to_complex().unwrap_or(DType::ComplexFloat)
}

/// Dimensions, each wrapped and given once.
fn dimensions(a: Args<'_>) -> Result<Vec<usize>> {
    let (t, dims) = (a.tensor(0)?, a.int_list(1)?);
    let mut out = Vec::new();
    for d in dims {
        let d = shape::wrap_dim(*d, t.dim())?;
        check!(!out.contains(&d), "FFT dims must be unique");
        out.push(d);
    }
    Ok(out)
}

fn last(dims: &[usize]) -> Result<usize> {
    match dims.last() {
        Some(d) => Ok(*d),
        None => bail!(Runtime, "ArrayRef: attempted to access back() of empty list"),
    }
}

/// Dimensions ordered by falling stride.
fn by_stride(strides: &[i64], mut dims: Vec<usize>) -> Vec<usize> {
    dims.sort_by_key(|d| std::cmp::Reverse(strides[*d]));
    dims
}

/// The order of dimensions in memory: those not transformed by falling stride, then `inner` as given.
fn order(strides: &[i64], inner: &[usize]) -> Vec<usize> {
    let rest = (0..strides.len()).filter(|d| !inner.contains(d)).collect();
    let mut order = by_stride(strides, rest);
    order.extend(inner);
    order
}

/// Strides of a tensor of `sizes` whose dimensions lie in `order`, the last fastest.
fn laid_out(sizes: &[i64], order: &[usize]) -> IntList {
    let mut strides = IntList::from_elem(1, sizes.len());
    let mut step = 1;
    for d in order.iter().rev() {
        strides[*d] = step;
        step *= sizes[*d].max(1);
    }
    strides
}

fn complex_only(t: &Tensor) -> Result<()> {
    check!(
        t.dtype().is_complex(),
        "Only supports complex dtypes, but found: {}",
        t.dtype().scalar_type_name()
    );
    supported(t)
}

fn supported(t: &Tensor) -> Result<()> {
    match t.dtype() {
        DType::Float | DType::Double | DType::ComplexFloat | DType::ComplexDouble => Ok(()),
        DType::ComplexHalf => bail!(NotImplemented, "MKL FFT doesn't support tensors of type: Half"),
        other => {
            bail!(NotImplemented, "MKL FFT doesn't support tensors of type: {}", other.scalar_type_name())
        }
    }
}

/// `_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor`
fn c2c_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    complex_only(t)?;
    let dims = by_stride(t.strides(), dimensions(a)?);
    // Without dimensions the result is a copy.
    let strides = match dims.is_empty() {
        true if t.is_non_overlapping_and_dense() => IntList::from_slice(t.strides()),
        true => shape::infer_dense_strides(t.sizes(), t.strides()),
        false => laid_out(t.sizes(), &order(t.strides(), &dims)),
    };
    Ok(OutSpec::like(t, t.sizes()).strides(strides).into())
}

/// `_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor`
fn r2c_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(
        t.dtype().is_floating_point(),
        Type;
        "Only supports floating-point dtypes, but found: {}", t.dtype().scalar_type_name()
    );
    supported(t)?;
    let (dims, onesided) = (dimensions(a)?, a.bool(3)?);
    let half = last(&dims)?;
    let mut sizes = IntList::from_slice(t.sizes());
    if onesided {
        sizes[half] = sizes[half] / 2 + 1;
    }
    let strides = laid_out(&sizes, &order(t.strides(), &half_last(t.strides(), &dims)));
    Ok(OutSpec::new(sizes, complex_of(t), t.device()).strides(strides).into())
}

/// The dimensions by falling stride, but the one that is halved at the end.
fn half_last(strides: &[i64], dims: &[usize]) -> Vec<usize> {
    let mut out = by_stride(strides, dims[..dims.len() - 1].to_vec());
    out.push(dims[dims.len() - 1]);
    out
}

/// `_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor`
fn c2r_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    complex_only(t)?;
    let (dims, n) = (dimensions(a)?, a.int(3)?);
    let half = last(&dims)?;
    check!(n >= 1, "Invalid number of data points ({n}) specified");
    // The other dimensions are transformed first, into a result of their own.
    let between = match dims.len() {
        1 => IntList::from_slice(t.strides()),
        k => laid_out(t.sizes(), &order(t.strides(), &by_stride(t.strides(), dims[..k - 1].to_vec()))),
    };
    let mut sizes = IntList::from_slice(t.sizes());
    sizes[half] = n;
    let strides = laid_out(&sizes, &order(&between, &[half]));
    Ok(OutSpec::new(sizes, t.dtype().to_real(), t.device()).strides(strides).into())
}

/// `t` with its dimensions in `order`, row-major, in `dtype`.
fn gathered(t: &Tensor, order: &[usize], dtype: DType) -> Result<Tensor> {
    let turned = permuted(t, order);
    let out = factory::empty(turned.sizes(), dtype, t.device())?;
    copy::copy_into(&out, &turned)?;
    Ok(out)
}

fn permuted(t: &Tensor, order: &[usize]) -> Tensor {
    let pick = |v: &[i64]| order.iter().map(|d| v[*d]).collect::<IntList>();
    t.alias_with(pick(t.sizes()), pick(t.strides()), t.storage_offset())
}

/// Transforms the trailing dimensions `from..` of a row-major complex tensor in place.
fn transform<T: Planned>(t: &Tensor, from: usize, to: usize, forward: bool) {
    // SAFETY: row-major, of this type, not shared.
    let data = unsafe { std::slice::from_raw_parts_mut(t.data_ptr() as *mut Complex<T>, t.numel() as usize) };
    for d in from..to {
        let inner = t.sizes()[d + 1..].iter().product::<i64>() as usize;
        fft::complex_lines(data, t.sizes()[d] as usize, inner, forward);
    }
}

/// The factor of a normalisation over `n` points: none, by the root of n, by n.
fn factor(normalization: i64, n: i64) -> f64 {
    match normalization {
        1 => 1.0 / (n as f64).sqrt(),
        2 => 1.0 / n as f64,
        _ => 1.0,
    }
}

fn scale<T: Planned>(data: &mut [T], by: f64) {
    if by != 1.0 {
        let by = T::from(by).unwrap_or_else(T::one);
        data.iter_mut().for_each(|v| *v = *v * by);
    }
}

fn points(sizes: &[i64], dims: &[usize]) -> i64 {
    dims.iter().map(|d| sizes[*d]).product()
}

/// The elements of a row-major tensor as reals, two for each complex one.
#[allow(clippy::mut_from_ref)] // A tensor is a handle: its memory is apart from it.
fn reals<T>(t: &Tensor) -> &mut [T] {
    let n = t.numel() as usize * t.itemsize() / size_of::<T>();
    // SAFETY: row-major, of this type or complex of it, not shared.
    unsafe { std::slice::from_raw_parts_mut(t.data_ptr() as *mut T, n) }
}

macro_rules! by_precision {
    ($t:expr, $f:ident($($x:expr),*)) => {
        match $t.dtype() {
            DType::Double | DType::ComplexDouble => $f::<f64>($($x),*),
            _ => $f::<f32>($($x),*),
        }
    };
}

fn c2c(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let dims = by_stride(t.strides(), dimensions(a)?);
    let order = order(t.strides(), &dims);
    let work = gathered(t, &order, t.dtype())?;
    if work.numel() > 0 {
        by_precision!(t, c2c_in(&work, t, &dims, a.int(2)?, a.bool(3)?));
    }
    copy::copy_into(&permuted(&out[0], &order), &work)
}

fn c2c_in<T: Planned>(work: &Tensor, t: &Tensor, dims: &[usize], normalization: i64, forward: bool) {
    transform::<T>(work, t.dim() - dims.len(), t.dim(), forward);
    scale::<T>(reals(work), factor(normalization, points(t.sizes(), dims)));
}

fn r2c(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, onesided) = (a.tensor(0)?, a.bool(3)?);
    let dims = half_last(t.strides(), &dimensions(a)?);
    let order = order(t.strides(), &dims);
    let complex = complex_of(t);
    let work = if onesided {
        let real = gathered(t, &order, t.dtype())?;
        let mut sizes = IntList::from_slice(real.sizes());
        let end = sizes.len() - 1;
        sizes[end] = sizes[end] / 2 + 1;
        let work = factory::empty(&sizes, complex, t.device())?;
        if real.numel() > 0 {
            by_precision!(t, halved(&real, &work));
        }
        work
    } else {
        let work = gathered(t, &order, complex)?;
        if work.numel() > 0 {
            by_precision!(t, transform(&work, t.dim() - 1, t.dim(), true));
        }
        work
    };
    if work.numel() > 0 && t.numel() > 0 {
        by_precision!(t, finish(&work, t, &dims, a.int(2)?));
    }
    copy::copy_into(&permuted(&out[0], &order), &work)
}

fn halved<T: Planned>(real: &Tensor, work: &Tensor) {
    let n = real.sizes()[real.dim() - 1] as usize;
    // SAFETY: row-major, of this type, not shared.
    let out =
        unsafe { std::slice::from_raw_parts_mut(work.data_ptr() as *mut Complex<T>, work.numel() as usize) };
    fft::real_lines::<T>(reals(real), n, out);
}

/// Transforms all but the last of the trailing dimensions and scales.
fn finish<T: Planned>(work: &Tensor, t: &Tensor, dims: &[usize], normalization: i64) {
    transform::<T>(work, t.dim() - dims.len(), t.dim() - 1, true);
    scale::<T>(reals(work), factor(normalization, points(t.sizes(), dims)));
}

fn c2r(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let dims = half_last(t.strides(), &dimensions(a)?);
    let order = order(t.strides(), &dims);
    let work = gathered(t, &order, t.dtype())?;
    let target = permuted(&out[0], &order);
    let real = factory::empty(target.sizes(), t.dtype().to_real(), t.device())?;
    if work.numel() > 0 {
        let signal = points(out[0].sizes(), &dims);
        by_precision!(t, c2r_in(&work, &real, dims.len(), factor(a.int(2)?, signal)));
    } else {
        super::options::fill(&real, crate::Scalar::Int(0))?;
    }
    copy::copy_into(&target, &real)
}

fn c2r_in<T: Planned>(work: &Tensor, real: &Tensor, transformed: usize, by: f64) {
    let end = work.dim() - 1;
    transform::<T>(work, work.dim() - transformed, end, false);
    // SAFETY: row-major, of this type, not shared.
    let data =
        unsafe { std::slice::from_raw_parts(work.data_ptr() as *const Complex<T>, work.numel() as usize) };
    fft::half_lines::<T>(data, work.sizes()[end] as usize, real.sizes()[end] as usize, reals(real));
    scale::<T>(reals(real), by);
}
