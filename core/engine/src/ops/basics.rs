//! Small operators on tensors as such: filling, conversion, identity, geometry changes in place, triangles.

use super::options::{fill, first, item};
use crate::dispatch::{
    DispatchKey, DispatchKeySet, Kernel, Operator, OutSpec, Registry, Returns, Specs, operator, redispatch,
    tls,
};
use crate::iter::{ResultType, result_type, result_type_scalar};
use crate::ivalue::{Args, Stack};
use crate::tensor::{memory, shape};
use crate::{DType, Layout, MemoryFormat, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::copy, |a| {
        let out = op::empty_like.call((a.tensor(0)?,))?;
        Ok(op::copy_.call((out, a.tensor(1)?))?.into())
    });
    r.implicit(op::chalf, |a| Ok(op::to_dtype.call((a.tensor(0)?, crate::DType::ComplexHalf))?.into()));
    r.any_device(op::zero_, |a| written(a.tensor(0)?, crate::Scalar::Int(0)));
    r.any_device(op::fill__Scalar, |a| written(a.tensor(0)?, a.scalar(1)?));
    r.any_device(op::fill__Tensor, fill_tensor);
    r.explicit(op::zero, |a| copied(a, |t, _| fill(t, crate::Scalar::Int(0))));
    r.explicit(op::fill_Scalar, |a| copied(a, |t, a| fill(t, a.scalar(1)?)));
    r.explicit(op::fill_Tensor, |a| copied(a, |t, a| op::fill__Tensor.call((t, a.tensor(1)?)).map(drop)));
    r.structured(op::tril, |a| triangle_spec(a, "tril"), |a, o| triangle(a, o, true));
    r.structured(op::triu, |a| triangle_spec(a, "triu"), |a, o| triangle(a, o, false));
    r.explicit(op::lift, |a| Ok(a.tensor(0)?.into())).explicit(op::lift_fresh, |a| Ok(a.tensor(0)?.into()));
    r.explicit(op::detach, detach).explicit(op::detach_, detach_);
    // Detaching is what it is above autograd: no graph, no differentiable view.
    operator(op::detach).register(DispatchKey::Autograd, Kernel::Boxed(std::sync::Arc::new(detach_below)));
    operator(op::detach_).register(DispatchKey::Autograd, Kernel::Args(detach_));
    r.any_device(op::_local_scalar_dense, |a| {
        let t = a.tensor(0)?;
        check!(t.numel() != 0, "_local_scalar_dense: Empty tensor not supported");
        Ok(first(t)?.into())
    });
    r.implicit(op::item, |a| {
        let t = a.tensor(0)?;
        check!(t.numel() == 1, "a Tensor with {} elements cannot be converted to Scalar", t.numel());
        Ok(op::_local_scalar_dense.call_all((t,))?.swap_remove(0).into())
    });
    r.implicit(op::is_nonzero, is_nonzero);
    r.explicit(op::is_same_size, |a| Ok((a.tensor(0)?.sizes() == a.tensor(1)?.sizes()).into()));
    r.any_device(op::equal, equal);
    r.implicit(op::to_dtype, |a| to(a, a.opt_dtype(1)?, None, None, 2));
    r.implicit(op::to_device, |a| to(a, a.opt_dtype(2)?, a.opt_device(1), None, 3));
    r.implicit(op::to_dtype_layout, |a| to(a, a.opt_dtype(1)?, a.opt_device(3), a.opt_layout(2), 5));
    r.implicit(op::to_other, |a| {
        let other = a.tensor(1)?;
        to(a, Some(other.dtype()), Some(other.device()), Some(other.layout()), 2)
    });
    r.implicit(op::type_as, |a| {
        let other = a.tensor(1)?;
        Ok(op::to_device.call((a.tensor(0)?, other.device(), other.dtype()))?.into())
    });
    r.implicit(op::contiguous, contiguous);
    r.explicit(op::is_pinned, |_| Ok(false.into()));
    r.implicit(op::pin_memory, |_| {
        bail!(Runtime, "Cannot pin memory: there is no device here that pinned memory would serve.")
    });
    r.any_device(op::resize_, resize_);
    r.explicit(op::resize_as_, |a| {
        let t = a.tensor(0)?;
        Ok(op::resize_.call((t, a.tensor(1)?.sizes(), a.opt_memory_format(2)))?.into())
    });
    r.implicit(op::resolve_conj, |a| resolved(a.tensor(0)?, a.tensor(0)?.is_conj()));
    r.implicit(op::resolve_neg, |a| resolved(a.tensor(0)?, a.tensor(0)?.is_neg()));
    r.implicit(op::result_type_Tensor, |a| Ok(result_type([a.tensor(0)?, a.tensor(1)?])?.into()));
    r.implicit(op::result_type_Scalar, |a| Ok(result_type_scalar(a.tensor(0)?, a.scalar(1)?)?.into()));
    r.implicit(op::result_type_Scalar_Tensor, |a| Ok(result_type_scalar(a.tensor(1)?, a.scalar(0)?)?.into()));
    r.implicit(op::result_type_Scalar_Scalar, |a| {
        let mut state = ResultType::default();
        state.add_scalar(a.scalar(0)?)?;
        state.add_scalar(a.scalar(1)?)?;
        Ok(state.finish()?.into())
    });
    r.implicit(op::can_cast, |a| Ok(crate::dtype::can_cast(dtype_of(a, 0)?, dtype_of(a, 1)?).into()));
    r.implicit(op::promote_types, |a| {
        Ok(crate::dtype::promote_types(dtype_of(a, 0)?, dtype_of(a, 1)?)?.into())
    });
    r.implicit(op::is_complex, |a| Ok(a.tensor(0)?.dtype().is_complex().into()));
    r.implicit(op::is_floating_point, |a| Ok(a.tensor(0)?.dtype().is_floating_point().into()));
    r.implicit(op::is_signed, |a| Ok(a.tensor(0)?.dtype().is_signed().into()));
    r.implicit(op::is_conj, |a| Ok(a.tensor(0)?.is_conj().into()));
    r.implicit(op::is_neg, |a| Ok(a.tensor(0)?.is_neg().into()));
    r.implicit(op::_is_zerotensor, |a| {
        Ok(a.tensor(0)?.key_set().has_functionality(crate::dispatch::DispatchKey::ZeroTensor).into())
    });
    r.implicit(op::is_inference, |a| Ok(a.tensor(0)?.is_inference().into()));
    for id in [op::size_int, op::sym_size_int] {
        r.implicit(id, |a| Ok(a.tensor(0)?.size(a.int(1)?)?.into()));
    }
    for id in [op::stride_int, op::sym_stride_int] {
        r.implicit(id, |a| {
            let t = a.tensor(0)?;
            Ok(t.strides()[shape::wrap_dim_strict(a.int(1)?, t.dim())?].into())
        });
    }
    for id in [op::numel, op::sym_numel] {
        r.implicit(id, |a| Ok(a.tensor(0)?.numel().into()));
    }
    r.implicit(op::dim, |a| Ok((a.tensor(0)?.dim() as i64).into()));
    r.implicit(
        op::_shape_as_tensor,
        |a| Ok(crate::tensor::factory::from_slice(a.tensor(0)?.sizes())?.into()),
    );
}

fn dtype_of(a: Args<'_>, i: usize) -> Result<DType> {
    match a.opt_dtype(i)? {
        Some(d) => Ok(d),
        None => bail!(Type, "expected a dtype"),
    }
}

fn written(t: &Tensor, value: crate::Scalar) -> Result<Returns> {
    fill(t, value)?;
    Ok(t.into())
}

fn copied(a: Args<'_>, f: fn(&Tensor, Args<'_>) -> Result<()>) -> Result<Returns> {
    let t = op::empty_like.call((a.tensor(0)?,))?;
    f(&t, a)?;
    Ok(t.into())
}

fn fill_tensor(a: Args<'_>) -> Result<Returns> {
    let (t, value) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        value.dim() == 0,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    memory::assert_no_internal_overlap(t)?;
    if !t.is_meta() {
        fill(t, item(value)?)?;
    }
    Ok(t.into())
}

fn triangle_spec(a: Args<'_>, name: &str) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(t.dim() >= 2, "{name}: input tensor must have at least 2 dimensions");
    Ok(OutSpec::like(t, t.sizes()).into())
}

fn triangle(a: Args<'_>, out: &[Tensor], lower: bool) -> Result<()> {
    let t = super::copy::contiguous(a.tensor(0)?)?;
    let k = a.int(1)?;
    let (rows, cols) = (t.sizes()[t.dim() - 2], t.sizes()[t.dim() - 1]);
    let row_bytes = cols as usize * t.itemsize();
    if t.numel() == 0 {
        return Ok(());
    }
    for r in 0..t.numel() / cols {
        let i = r % rows;
        // Columns begin..end are kept.
        let (begin, end) = if lower {
            (0, i.saturating_add(k).saturating_add(1).clamp(0, cols))
        } else {
            (i.saturating_add(k).clamp(0, cols), cols)
        };
        let size = t.itemsize();
        // SAFETY: both tensors are contiguous, of the same shape and dtype; the row lies inside.
        unsafe {
            let dst = out[0].data_ptr().add(r as usize * row_bytes);
            let src = t.data_ptr().add(r as usize * row_bytes);
            std::ptr::write_bytes(dst, 0, begin as usize * size);
            std::ptr::copy(
                src.add(begin as usize * size),
                dst.add(begin as usize * size),
                (end - begin) as usize * size,
            );
            std::ptr::write_bytes(dst.add(end as usize * size), 0, (cols - end) as usize * size);
        }
    }
    Ok(())
}

fn detach_below(op: &'static Operator, ks: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let above = DispatchKeySet::AUTOGRAD | DispatchKeySet::INPLACE_OR_VIEW;
    let _guard = tls::StateGuard::exclude(above);
    redispatch(op, ks.minus(above), stack)
}

fn detach(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let out = super::views::same(t);
    if !t.is_inference() {
        out.share_version(t);
    }
    out.set_allow_metadata_change(false);
    Ok(out.into())
}

fn detach_(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        t.view_base().is_none(),
        "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and \
         gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on \
         these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as \
         a solution."
    );
    if t.autograd_meta().is_some() {
        let m = t.autograd_meta_mut();
        m.requires_grad_leaf = false;
        m.output_nr = 0;
        let node = m.grad_fn.take();
        drop(node);
    }
    Ok(t.into())
}

fn is_nonzero(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(t.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
    check!(t.numel() < 2, "Boolean value of Tensor with more than one value is ambiguous");
    Ok(op::item.call_all((t,))?[0].scalar()?.to_bool().into())
}

fn equal(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(!x.is_meta() && !y.is_meta(), NotImplemented; "aten::equal: attempted to run this operator with Meta tensors");
    check!(
        x.device() == y.device(),
        "Cannot compare two tensors on different devices. Got: {} and {}",
        x.device(),
        y.device()
    );
    if x.sizes() != y.sizes() {
        return Ok(false.into());
    }
    let common = crate::dtype::promote_types(x.dtype(), y.dtype())?;
    let load = |t: &Tensor| super::copy::contiguous(&super::copy::convert(t, common)?);
    let (x, y) = (load(x)?, load(y)?);
    // SAFETY: contiguous tensors of the matched type.
    Ok(dispatch!("equal_cpu", common, copyable, T => unsafe { x.as_slice::<T>() == y.as_slice::<T>() })
        .into())
}

/// `to`: the tensor itself when nothing changes; `rest` is the position of `non_blocking`.
fn to(
    a: Args<'_>,
    dtype: Option<DType>,
    device: Option<crate::Device>,
    layout: Option<Layout>,
    rest: usize,
) -> Result<Returns> {
    let t = a.tensor(0)?;
    let format = a.opt_memory_format(rest + 2);
    let same_device =
        device.is_none_or(|d| d == t.device() || (d.ty == t.device().ty && (d.is_cpu() || d.is_meta())));
    let same_format = format.is_none_or(|f| {
        f == MemoryFormat::Preserve || t.is_contiguous_format(f) && t.suggest_memory_format() == f
    });
    if dtype.is_none_or(|d| d == t.dtype())
        && same_device
        && layout.is_none_or(|l| l == t.layout())
        && !a.bool(rest + 1)?
        && same_format
    {
        return Ok(t.into());
    }
    let device = if same_device { None } else { device };
    Ok(op::_to_copy.call((t, dtype, layout, device, (), a.bool(rest)?, format))?.into())
}

fn contiguous(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let format = a.opt_memory_format(1).unwrap_or(MemoryFormat::Contiguous);
    if t.is_contiguous_format(format) {
        return Ok(t.into());
    }
    check!(
        format != MemoryFormat::Preserve,
        "preserve memory format is unsupported by the contiguous operator"
    );
    Ok(op::clone.call((t, format))?.into())
}

fn resize_(a: Args<'_>) -> Result<Returns> {
    let (t, size) = (a.tensor(0)?, a.int_list(1)?);
    check!(!t.requires_grad(), "cannot resize variables that require grad");
    let strides = match a.opt_memory_format(2) {
        None => None,
        Some(MemoryFormat::Preserve) => bail!(Runtime, "Unsupported memory format Preserve"),
        Some(f) => Some(shape::strides_for(size, f)?),
    };
    memory::resize(t, size, strides.as_deref())?;
    Ok(t.into())
}

fn resolved(t: &Tensor, lazy: bool) -> Result<Returns> {
    Ok(if lazy { op::clone.call((t,))? } else { t.clone() }.into())
}
