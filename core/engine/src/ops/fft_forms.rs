//! `torch.fft`: transforms of one, two and several dimensions, written with the three transforms of `fft`.

use crate::dispatch::{Registry, Returns};
use crate::iter::default_dtype;
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, Result, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::fft_fft, |a| one(&a, "fft", true))
        .implicit(op::fft_ifft, |a| one(&a, "ifft", false))
        .implicit(op::fft_rfft, |a| real_to_complex(&a, "rfft", true, true))
        .implicit(op::fft_ihfft, |a| real_to_complex(&a, "ihfft", false, true))
        .implicit(op::fft_irfft, |a| complex_to_real(&a, false))
        .implicit(op::fft_hfft, |a| complex_to_real(&a, true));
    r.implicit(op::fft_fftn, |a| several(&a, true))
        .implicit(op::fft_ifftn, |a| several(&a, false))
        .implicit(op::fft_rfftn, rfftn)
        .implicit(op::fft_irfftn, irfftn)
        .implicit(op::fft_hfftn, hfftn)
        .implicit(op::fft_ihfftn, ihfftn);
    // Of two dimensions: those of several, with a default of dimensions that the schema gives.
    r.implicit(op::fft_fft2, |a| several(&a, true))
        .implicit(op::fft_ifft2, |a| several(&a, false))
        .implicit(op::fft_rfft2, rfftn)
        .implicit(op::fft_irfft2, irfftn)
        .implicit(op::fft_hfft2, hfftn)
        .implicit(op::fft_ihfft2, ihfftn);
}

const NONE: i64 = 0;
const BY_ROOT_N: i64 = 1;
const BY_N: i64 = 2;

/// The normalisation of a mode's name.
fn norm(a: &Args<'_>, i: usize, forward: bool) -> Result<i64> {
    Ok(match (a.opt_str(i), forward) {
        (None | Some("backward"), true) | (Some("forward"), false) => NONE,
        (None | Some("backward"), false) | (Some("forward"), true) => BY_N,
        (Some("ortho"), _) => BY_ROOT_N,
        (Some(other), _) => bail!(Runtime, "Invalid normalization mode: \"{other}\""),
    })
}

/// The input in a type that transforms take: integers become the default type, reals complex where that is asked for.
fn promoted(t: &Tensor, complex: bool) -> Result<Tensor> {
    let from = t.dtype();
    let real = match from {
        d if d.is_integral(true) => default_dtype(),
        d => d,
    };
    check!(
        matches!(real, DType::Float | DType::Double | DType::ComplexFloat | DType::ComplexDouble | DType::ComplexHalf),
        NotImplemented;
        "Unsupported dtype {}", real.scalar_type_name()
    );
    let to = if complex { real.to_complex().unwrap_or(real) } else { real };
    if to == from { Ok(t.clone()) } else { op::to_dtype.call((t, to)) }
}

/// Cuts or pads dimensions with zeros to the sizes given.
fn resized(t: Tensor, dims: &[usize], sizes: &[i64]) -> Result<Tensor> {
    let mut pad = IntList::from_elem(0, 2 * t.dim());
    let (mut out, mut short) = (t, false);
    for (d, n) in dims.iter().zip(sizes) {
        let now = out.sizes()[*d];
        if *n < now {
            out = op::slice_Tensor.call((out, *d as i64, 0, *n, 1))?;
        } else if *n > now {
            let at = pad.len() - 2 * d - 1;
            pad[at] = n - now;
            short = true;
        }
    }
    if short { op::constant_pad_nd.call((out, pad)) } else { Ok(out) }
}

fn check_points(n: i64) -> Result<()> {
    check!(n >= 1, "Invalid number of data points ({n}) specified");
    Ok(())
}

/// The dimension `dim`, and the number of points along it when one was given.
fn line(a: &Args<'_>, t: &Tensor) -> Result<(usize, Option<i64>)> {
    Ok((shape::wrap_dim(a.int(2)?, t.dim())?, a.0[1].opt_int()?))
}

/// `fft` and `ifft`.
fn one(a: &Args<'_>, name: &str, forward: bool) -> Result<Returns> {
    let t = a.tensor(0)?;
    if !t.dtype().is_complex() {
        return real_to_complex(a, name, forward, false);
    }
    let t = promoted(t, true)?;
    let (dim, n) = line(a, &t)?;
    check_points(n.unwrap_or(t.sizes()[dim]))?;
    let t = match n {
        Some(n) => resized(t, &[dim], &[n])?,
        None => t,
    };
    Ok(op::_fft_c2c.call((t, [dim as i64], norm(a, 3, forward)?, forward))?.into())
}

fn real_to_complex(a: &Args<'_>, name: &str, forward: bool, onesided: bool) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        !t.dtype().is_complex(),
        Type;
        "{name} expects a real input tensor, but got {}", t.dtype().scalar_type_name()
    );
    let t = promoted(t, false)?;
    let (dim, n) = line(a, &t)?;
    check_points(n.unwrap_or(t.sizes()[dim]))?;
    let t = match n {
        Some(n) => resized(t, &[dim], &[n])?,
        None => t,
    };
    let out = op::_fft_r2c.call((t, [dim as i64], norm(a, 3, forward)?, onesided))?;
    Ok(if forward { out } else { op::conj.call((out,))? }.into())
}

/// `irfft`, and `hfft`, which goes forward.
fn complex_to_real(a: &Args<'_>, forward: bool) -> Result<Returns> {
    let t = promoted(a.tensor(0)?, true)?;
    let (dim, given) = line(a, &t)?;
    let n = given.unwrap_or((t.sizes()[dim] - 1) * 2);
    check_points(n)?;
    let t = if given.is_some() { resized(t, &[dim], &[n / 2 + 1])? } else { t };
    Ok(to_real(t, &[dim as i64], norm(a, 3, forward)?, n, forward)?.into())
}

fn to_real(t: Tensor, dims: &[i64], norm: i64, n: i64, forward: bool) -> Result<Tensor> {
    let t = if forward { op::resolve_conj.call((op::conj.call((t,))?,))? } else { t };
    op::_fft_c2r.call((t, IntList::from_slice(dims), norm, n))
}

/// Dimensions to transform, with the number of points along each, and whether the last was left to its default.
struct Axes {
    dims: Vec<usize>,
    sizes: Vec<i64>,
    last_given: Option<i64>,
}

impl Axes {
    fn list(&self) -> IntList {
        self.dims.iter().map(|d| *d as i64).collect()
    }
}

fn axes(a: &Args<'_>) -> Result<Axes> {
    let t = a.tensor(0)?;
    let (s, dim) = (a.0[1].opt_int_list()?, a.0[2].opt_int_list()?);
    let mut dims = Vec::new();
    if let Some(given) = dim {
        for d in given {
            let d = shape::wrap_dim(*d, t.dim())?;
            check!(!dims.contains(&d), "FFT dims must be unique");
            dims.push(d);
        }
    }
    let Some(s) = s else {
        if dim.is_none() {
            dims = (0..t.dim()).collect();
        }
        let sizes: Vec<i64> = dims.iter().map(|d| t.sizes()[*d]).collect();
        sizes.iter().try_for_each(|n| check_points(*n))?;
        return Ok(Axes { dims, sizes, last_given: None });
    };
    check!(
        dim.is_none_or(|d| d.len() == s.len()),
        "When given, dim and shape arguments must have the same length"
    );
    check!(
        s.len() <= t.dim(),
        "Got shape with {} values but input tensor only has {} dimensions.",
        s.len(),
        t.dim()
    );
    if dim.is_none() {
        dims = (t.dim() - s.len()..t.dim()).collect();
    }
    let sizes: Vec<i64> =
        dims.iter().zip(s).map(|(d, n)| if *n == -1 { t.sizes()[*d] } else { *n }).collect();
    sizes.iter().try_for_each(|n| check_points(*n))?;
    Ok(Axes { dims, sizes, last_given: s.last().copied().filter(|n| *n != -1) })
}

/// `fftn` and `ifftn`.
fn several(a: &Args<'_>, forward: bool) -> Result<Returns> {
    let x = axes(a)?;
    let t = resized(promoted(a.tensor(0)?, true)?, &x.dims, &x.sizes)?;
    Ok(op::_fft_c2c.call((t, x.list(), norm(a, 3, forward)?, forward))?.into())
}

fn real_only(t: &Tensor, name: &str) -> Result<()> {
    check!(
        !t.dtype().is_complex(),
        Type;
        "{name} expects a real-valued input tensor, but got {}", t.dtype().scalar_type_name()
    );
    Ok(())
}

fn some_axis(x: &Axes, name: &str) -> Result<()> {
    check!(!x.dims.is_empty(), "{name} must transform at least one axis");
    Ok(())
}

fn rfftn(a: Args<'_>) -> Result<Returns> {
    real_only(a.tensor(0)?, "rfftn")?;
    let x = axes(&a)?;
    some_axis(&x, "rfftn")?;
    let t = resized(promoted(a.tensor(0)?, false)?, &x.dims, &x.sizes)?;
    Ok(op::_fft_r2c.call((t, x.list(), norm(&a, 3, true)?, true))?.into())
}

/// The input of a transform to real values, cut to half of the last dimension, with that dimension's size.
fn halved(a: &Args<'_>, name: &str) -> Result<(Tensor, Axes, i64)> {
    let mut x = axes(a)?;
    some_axis(&x, name)?;
    let t = promoted(a.tensor(0)?, true)?;
    let end = x.dims.len() - 1;
    let n = x.last_given.unwrap_or((t.sizes()[x.dims[end]] - 1) * 2);
    check_points(n)?;
    x.sizes[end] = n / 2 + 1;
    Ok((resized(t, &x.dims, &x.sizes)?, x, n))
}

fn irfftn(a: Args<'_>) -> Result<Returns> {
    let (t, x, n) = halved(&a, "irfftn")?;
    Ok(to_real(t, &x.list(), norm(&a, 3, false)?, n, false)?.into())
}

fn hfftn(a: Args<'_>) -> Result<Returns> {
    let (t, x, n) = halved(&a, "hfftn")?;
    let norm = norm(&a, 3, true)?;
    let (last, others) = split(&x);
    let t = if others.is_empty() { t } else { op::_fft_c2c.call((t, others, norm, true))? };
    Ok(to_real(t, &[last], norm, n, true)?.into())
}

fn ihfftn(a: Args<'_>) -> Result<Returns> {
    real_only(a.tensor(0)?, "ihfftn")?;
    let x = axes(&a)?;
    some_axis(&x, "ihfftn")?;
    let t = resized(promoted(a.tensor(0)?, false)?, &x.dims, &x.sizes)?;
    let norm = norm(&a, 3, false)?;
    let (last, others) = split(&x);
    let half = op::_fft_r2c.call((t, [last], norm, true))?;
    if others.is_empty() {
        return Ok(op::conj.call((half,))?.into());
    }
    let half = op::conj_physical.call((half,))?;
    Ok(op::_fft_c2c.call((half, others, norm, false))?.into())
}

/// The last dimension, and the others.
fn split(x: &Axes) -> (i64, IntList) {
    let list = x.list();
    let (last, others) = list.split_last().expect("there is an axis");
    (*last, IntList::from_slice(others))
}
