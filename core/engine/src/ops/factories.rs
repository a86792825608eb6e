//! Factories: tensors from sizes and numbers.

use super::options::{Options, deliver, empty_on, fill, format_or_preserve};
use crate::dispatch::{Registry, Returns};
use crate::dtype::{Convert, Wide};
use crate::iter::default_dtype;
use crate::ivalue::{Args, IntList};
use crate::tensor::factory;
use crate::{DType, Device, MemoryFormat, Result, Scalar, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::range, |a| range(a, Scalar::Int(1), 2))
        .explicit(op::range_step, |a| range(a, a.scalar(2)?, 3));
    r.any_device(op::empty_memory_format, empty).any_device(op::empty_strided, empty_strided);
    r.explicit(op::empty_like, |a| Ok(like(a, 1)?.into())).explicit(op::empty_permuted, empty_permuted);
    r.explicit(op::new_empty, |a| Ok(new(a, 2)?.into())).explicit(op::new_empty_strided, new_empty_strided);
    r.explicit(op::zeros, |a| filled(a, 1, Scalar::Int(0)));
    r.explicit(op::ones, |a| filled(a, 1, Scalar::Int(1)));
    r.explicit(op::full, full);
    r.explicit(op::zeros_like, |a| filled_like(a, 1, Scalar::Int(0)));
    r.explicit(op::ones_like, |a| filled_like(a, 1, Scalar::Int(1)));
    r.explicit(op::full_like, |a| filled_like(a, 2, a.scalar(1)?));
    r.explicit(op::new_zeros, |a| new_filled(a, 2, Scalar::Int(0)));
    r.explicit(op::new_ones, |a| new_filled(a, 2, Scalar::Int(1)));
    r.explicit(op::new_full, |a| new_filled(a, 3, a.scalar(2)?));
    r.explicit(op::scalar_tensor, |a| {
        let o = Options::read(a, 1)?;
        let t = empty_on(&[], o.dtype(), o.device())?;
        fill(&t, a.scalar(0)?)?;
        Ok(t.into())
    });
    r.explicit(op::arange, |a| arange(Options::read(a, 1)?, Scalar::Int(0), a.scalar(0)?, Scalar::Int(1)));
    r.explicit(op::arange_start, |a| {
        arange(Options::read(a, 2)?, a.scalar(0)?, a.scalar(1)?, Scalar::Int(1))
    });
    r.explicit(op::arange_start_step, |a| {
        arange(Options::read(a, 3)?, a.scalar(0)?, a.scalar(1)?, a.scalar(2)?)
    });
    r.explicit(op::linspace, linspace);
    for id in [op::linspace_Tensor_Tensor, op::linspace_Tensor_Scalar, op::linspace_Scalar_Tensor] {
        r.explicit(id, |a| between(a, op::linspace));
    }
    for id in [op::logspace_Tensor_Tensor, op::logspace_Tensor_Scalar, op::logspace_Scalar_Tensor] {
        r.explicit(id, |a| between(a, op::logspace));
    }
    r.explicit(op::eye, |a| eye(Options::read(a, 1)?, a.int(0)?, a.int(0)?));
    r.explicit(op::eye_m, |a| eye(Options::read(a, 2)?, a.int(0)?, a.int(1)?));
    r.any_device(op::tril_indices, |a| triangle_indices(a, true));
    r.any_device(op::triu_indices, |a| triangle_indices(a, false));
}

fn empty(a: Args<'_>) -> Result<Returns> {
    let o = Options::read(a, 1)?;
    let format = a.opt_memory_format(5).unwrap_or(MemoryFormat::Contiguous);
    Ok(factory::empty_format(a.int_list(0)?, o.dtype(), o.device(), format)?.into())
}

fn empty_strided(a: Args<'_>) -> Result<Returns> {
    let o = Options::read(a, 2)?;
    strided(a.int_list(0)?, a.int_list(1)?, o.dtype(), o.device())
}

fn strided(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Returns> {
    check!(
        strides.iter().all(|&s| s >= 0),
        "Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"
    );
    Ok(factory::empty_strided(sizes, strides, dtype, device)?.into())
}

/// `*_like`: options from argument `i` on, then the memory format.
pub(crate) fn like(a: Args<'_>, i: usize) -> Result<Tensor> {
    let t = a.tensor(0)?;
    let o = Options::read(a, i)?;
    let (dtype, device) = (o.dtype.unwrap_or(t.dtype()), o.device.unwrap_or(t.device()));
    let format = format_or_preserve(a, i + 4);
    if device == t.device() && (t.is_cpu() || t.is_meta()) {
        return factory::empty_like(t, dtype, format);
    }
    let shape = factory::empty_like(&meta_of(t)?, dtype, format)?;
    if device.is_cpu() || device.is_meta() {
        return factory::empty_strided(shape.sizes(), shape.strides(), dtype, device);
    }
    op::empty_strided.call((shape.sizes(), shape.strides(), dtype, (), device))
}

/// The geometry alone.
fn meta_of(t: &Tensor) -> Result<Tensor> {
    factory::empty_strided(t.sizes(), t.strides(), t.dtype(), Device::META)
}

fn new(a: Args<'_>, i: usize) -> Result<Tensor> {
    let t = a.tensor(0)?;
    let o = Options::read(a, i)?;
    empty_on(a.int_list(1)?, o.dtype.unwrap_or(t.dtype()), o.device.unwrap_or(t.device()))
}

fn new_empty_strided(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let o = Options::read(a, 3)?;
    let (dtype, device) = (o.dtype.unwrap_or(t.dtype()), o.device.unwrap_or(t.device()));
    if device.is_cpu() || device.is_meta() {
        return strided(a.int_list(1)?, a.int_list(2)?, dtype, device);
    }
    Ok(op::empty_strided.call((a.int_list(1)?, a.int_list(2)?, dtype, (), device))?.into())
}

fn empty_permuted(a: Args<'_>) -> Result<Returns> {
    let (sizes, layout) = (a.int_list(0)?, a.int_list(1)?);
    let o = Options::read(a, 2)?;
    check!(
        sizes.len() == layout.len(),
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} is not equal to \
         len(physical_layout) = {}",
        sizes.len(),
        layout.len()
    );
    let mut strides = IntList::from_elem(0, sizes.len());
    let mut seen = vec![false; sizes.len()];
    let mut acc = 1;
    for &d in layout.iter().rev() {
        check!(
            d >= 0 && (d as usize) < sizes.len(),
            "Dimension out of range (expected to be between 0 and {}, but got {d}).  NB: negative dims not currently supported; \
             file an issue if you want it.",
            sizes.len() as i64 - 1
        );
        check!(!seen[d as usize], "Duplicate dim not allowed");
        seen[d as usize] = true;
        strides[d as usize] = acc;
        acc *= sizes[d as usize].max(1);
    }
    if o.device().is_cpu() || o.device().is_meta() {
        return strided(sizes, &strides, o.dtype(), o.device());
    }
    Ok(op::empty_strided.call((sizes, strides, o.dtype(), (), o.device()))?.into())
}

fn filled(a: Args<'_>, i: usize, value: Scalar) -> Result<Returns> {
    let o = Options::read(a, i)?;
    let t = empty_on(a.int_list(0)?, o.dtype(), o.device())?;
    fill(&t, value)?;
    Ok(t.into())
}

fn full(a: Args<'_>) -> Result<Returns> {
    let o = Options::read(a, 2)?;
    let value = a.scalar(1)?;
    let inferred = match value {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) | Scalar::UInt(_) => DType::Long,
        Scalar::Float(_) => default_dtype(),
        Scalar::Complex(..) => default_dtype().to_complex().unwrap_or(DType::ComplexFloat),
    };
    let t = empty_on(a.int_list(0)?, o.dtype.unwrap_or(inferred), o.device())?;
    fill(&t, value)?;
    Ok(t.into())
}

fn filled_like(a: Args<'_>, i: usize, value: Scalar) -> Result<Returns> {
    let t = like(a, i)?;
    fill(&t, value)?;
    Ok(t.into())
}

fn new_filled(a: Args<'_>, i: usize, value: Scalar) -> Result<Returns> {
    let t = new(a, i)?;
    fill(&t, value)?;
    Ok(t.into())
}

fn arange(o: Options, start: Scalar, end: Scalar, step: Scalar) -> Result<Returns> {
    let integral = [start, end, step].iter().all(|s| s.is_integral() || s.is_bool());
    let dtype = o.dtype.unwrap_or(if integral { DType::Long } else { default_dtype() });
    let (s, e, d) = (start.to_f64(), end.to_f64(), step.to_f64());
    let whole = dtype == DType::Long;
    check!(d != 0.0, "step must be nonzero");
    let show = |x: Scalar| match x {
        Scalar::Float(v) => format!("{v}"),
        other => other.to_i64().to_string(),
    };
    check!(s.is_finite() && e.is_finite(), "unsupported range: {} -> {}", show(start), show(end));
    check!(
        (d > 0.0 && e >= s) || (d < 0.0 && e <= s),
        "upper bound and lower bound inconsistent with step sign"
    );
    let n = if whole && integral {
        // Exact where doubles are not.
        let (s, e, d) = (start.to_i64() as i128, end.to_i64() as i128, step.to_i64() as i128);
        let sign = d.signum();
        ((e - s + d - sign) / d) as i64
    } else {
        // A fractional step counts here in full, though integers take only its whole part.
        ((e - s) / d).ceil() as i64
    };
    let t = factory::empty(&[n], dtype, Device::CPU)?;
    if dtype.is_integral(false) {
        let (s, d) = (start.to_i64(), step.to_i64());
        // SAFETY: a fresh contiguous tensor of the matched type.
        dispatch!("arange_cpu", dtype, integral, T => unsafe {
            for (i, x) in t.as_mut_slice::<T>().iter_mut().enumerate() {
                *x = T::from_wide(Wide::I(s.wrapping_add(d.wrapping_mul(i as i64))));
            }
        });
    } else {
        // SAFETY: as above.
        dispatch!("arange_cpu", dtype, floating, T => unsafe {
            for (i, x) in t.as_mut_slice::<T>().iter_mut().enumerate() {
                *x = T::from_wide(Wide::F(s + d * i as f64));
            }
        });
    }
    Ok(deliver(t, o.device())?.into())
}

fn linspace(a: Args<'_>) -> Result<Returns> {
    let (start, end, steps) = (a.scalar(0)?, a.scalar(1)?, a.int(2)?);
    let o = Options::read(a, 3)?;
    check!(steps >= 0, "number of steps must be non-negative");
    let complex = start.is_complex() || end.is_complex();
    let default =
        if complex { default_dtype().to_complex().unwrap_or(DType::ComplexFloat) } else { default_dtype() };
    let dtype = o.dtype.unwrap_or(default);
    check!(
        !complex || dtype.is_complex(),
        "linspace(): inferred dtype {default} can't be safely cast to passed dtype {dtype}"
    );
    let t = factory::empty(&[steps], dtype, Device::CPU)?;
    let half = steps / 2;
    let n = steps;
    if dtype.is_integral(false) {
        let (s, e) = (start.to_i64(), end.to_i64());
        let step = (e as f64 - s as f64) / (n - 1).max(1) as f64;
        // SAFETY: a fresh contiguous tensor of the matched type.
        dispatch!("linspace_cpu", dtype, integral, T => unsafe {
            for (i, x) in t.as_mut_slice::<T>().iter_mut().enumerate() {
                let i = i as i64;
                let v = if i < half { s as f64 + step * i as f64 } else { e as f64 - step * (n - i - 1) as f64 };
                *x = T::from_wide(Wide::F(v));
            }
            if n == 1 { t.as_mut_slice::<T>()[0] = start.to()?; }
        });
    } else {
        // SAFETY: as above. Each operation rounds to the element type, as upstream's does.
        dispatch!("linspace_cpu", dtype, floating_complex, T => unsafe {
            let (s, e): (T, T) = (start.to()?, end.to()?);
            let count = |k: i64| T::from_wide(Wide::I(k));
            let step = (e - s) / count((n - 1).max(1));
            for (i, x) in t.as_mut_slice::<T>().iter_mut().enumerate() {
                let i = i as i64;
                *x = if i < half { s + step * count(i) } else { e - step * count(n - i - 1) };
            }
            if n == 1 { t.as_mut_slice::<T>()[0] = s; }
        });
    }
    Ok(deliver(t, o.device())?.into())
}

fn eye(o: Options, n: i64, m: i64) -> Result<Returns> {
    check!(n >= 0, "n must be greater or equal to 0, got {n}");
    check!(m >= 0, "m must be greater or equal to 0, got {m}");
    let t = factory::empty(&[n, m], o.dtype(), Device::CPU)?;
    fill(&t, Scalar::Int(0))?;
    let diagonal = t.alias_with(IntList::from_slice(&[n.min(m)]), IntList::from_slice(&[m + 1]), 0);
    fill(&diagonal, Scalar::Int(1))?;
    Ok(deliver(t, o.device())?.into())
}

/// tril_indices(int row, int col, int offset=0, *, …) -> Tensor
fn triangle_indices(a: Args<'_>, lower: bool) -> Result<Returns> {
    let (rows, cols, offset) = (a.int(0)?, a.int(1)?, a.int(2)?);
    check!(rows >= 0, "row must be non-negative, got{rows}");
    check!(cols >= 0, "col must be non-negative, got{cols}");
    let o = Options::read(a, 3)?;
    let mut coordinates: Vec<(i64, i64)> = Vec::new();
    for i in 0..rows {
        let (from, to) =
            if lower { (0, (i + offset + 1).clamp(0, cols)) } else { ((i + offset).clamp(0, cols), cols) };
        coordinates.extend((from..to).map(|j| (i, j)));
    }
    let flat: Vec<i64> = coordinates.iter().map(|c| c.0).chain(coordinates.iter().map(|c| c.1)).collect();
    let t = factory::from_slice(&flat)?;
    t.set_sizes_contiguous(&[2, coordinates.len() as i64]);
    let t = super::copy::convert(&t, o.dtype.unwrap_or(DType::Long))?;
    Ok(deliver(t, o.device())?.into())
}

/// range.step(Scalar start, Scalar end, Scalar step=1, *, dtype, layout, device, pin_memory) -> Tensor: both ends included.
fn range(a: Args<'_>, step: Scalar, options: usize) -> Result<Returns> {
    let (start, end, by) = (a.scalar(0)?.to_f64(), a.scalar(1)?.to_f64(), step.to_f64());
    check!(by != 0.0 && !by.is_nan(), "step must be nonzero");
    check!(start.is_finite() && end.is_finite(), "unsupported range: {start} -> {end}");
    check!(
        (by > 0.0 && end >= start) || (by < 0.0 && end <= start),
        "upper bound and lower bound inconsistent with step sign"
    );
    let dtype = a.opt_dtype(options)?.unwrap_or_else(crate::iter::default_dtype);
    let count = ((end - start) / by).floor() as i64 + 1;
    let device = a.0[options + 2].opt_device().unwrap_or(crate::Device::CPU);
    let wide = op::arange.call((count, crate::DType::Double, (), device))?;
    let values = op::add_Scalar.call((op::mul_Scalar.call((wide, by))?, start))?;
    Ok(op::_to_copy.call((values, dtype))?.into())
}

/// `linspace` and `logspace` whose ends are tensors of one element.
fn between(a: Args<'_>, id: crate::OpId) -> Result<Returns> {
    let name = if id == op::linspace { "linspace" } else { "logspace" };
    let end = |i: usize| -> Result<crate::IValue> {
        let Some(t) = a.opt_tensor(i) else { return Ok(a.0[i].clone()) };
        check!(
            t.dim() == 0,
            "{name} only supports 0-dimensional start and end tensors, but got {} with {} dimension(s).",
            if i == 0 { "start" } else { "end" },
            t.dim()
        );
        Ok(op::_local_scalar_dense.call_all((t,))?.swap_remove(0))
    };
    let mut stack = crate::Stack::from_iter([end(0)?, end(1)?]);
    stack.extend(a.0[2..].iter().cloned());
    Ok(id.call(stack)?.into())
}
