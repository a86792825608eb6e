//! Masks: `masked_fill`, `masked_select`, `masked_scatter`, `nonzero`, `where`.

use super::copy::{contiguous, convert, copy_into};
use super::elements::by_size;
use super::options::item;
use crate::dispatch::{Registry, Returns};
use crate::iter::{ResultType, TensorIterator, loops, result_type};
use crate::ivalue::{Args, IntList};
use crate::tensor::{factory, memory, shape};
use crate::{DType, MemoryFormat, Result, Scalar, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::masked_fill__Scalar, |a| masked_fill_(a.tensor(0)?, a.tensor(1)?, a.scalar(2)?));
    r.any_device(op::masked_fill__Tensor, |a| {
        masked_fill_(a.tensor(0)?, a.tensor(1)?, mask_value(a.tensor(2)?)?)
    });
    r.any_device(op::masked_fill_Scalar, |a| masked_fill(a.tensor(0)?, a.tensor(1)?, a.scalar(2)?));
    r.any_device(op::masked_fill_Tensor, |a| {
        masked_fill(a.tensor(0)?, a.tensor(1)?, mask_value(a.tensor(2)?)?)
    });
    r.any_device(op::masked_select, masked_select);
    r.any_device(op::masked_scatter_, masked_scatter_);
    r.explicit(op::masked_scatter, |a| {
        let (t, mask) = (a.tensor(0)?, a.tensor(1)?);
        let size = shape::broadcast(t.sizes(), mask.sizes())?;
        let copy = op::clone.call((super::views::expanded(t, &size)?, MemoryFormat::Contiguous))?;
        Ok(op::masked_scatter_.call((copy, mask, a.tensor(2)?))?.into())
    });
    r.any_device(op::nonzero, nonzero).any_device(op::nonzero_static, nonzero_static);
    r.implicit(op::nonzero_numpy, |a| numpy_form(a.tensor(0)?))
        .implicit(op::r#where, |a| numpy_form(a.tensor(0)?));
    r.implicit(op::argwhere, |a| Ok(op::nonzero.call((a.tensor(0)?,))?.into()));
    r.pointwise(op::where_self, where_build, where_run);
    r.implicit(op::where_ScalarSelf, |a| {
        let (x, y) = scalar_branch(a.scalar(1)?, a.tensor(2)?)?;
        Ok(op::where_self.call((a.tensor(0)?, x, y))?.into())
    });
    r.implicit(op::where_ScalarOther, |a| {
        let (y, x) = scalar_branch(a.scalar(2)?, a.tensor(1)?)?;
        Ok(op::where_self.call((a.tensor(0)?, x, y))?.into())
    });
    r.implicit(op::where_Scalar, |a| {
        let (s, o) = (a.scalar(1)?, a.scalar(2)?);
        let mut state = ResultType::default();
        state.add_scalar(s)?;
        state.add_scalar(o)?;
        let d = state.finish()?;
        let (x, y) = (factory::scalar_tensor(s, d)?, factory::scalar_tensor(o, d)?);
        Ok(op::where_self.call((a.tensor(0)?, x, y))?.into())
    });
}

fn mask_value(t: &Tensor) -> Result<Scalar> {
    check!(
        t.dim() == 0,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        t.dim()
    );
    if t.is_meta() { Ok(Scalar::Int(0)) } else { item(t) }
}

fn check_mask(mask: &Tensor) -> Result<()> {
    let name = match mask.dtype() {
        DType::Long => "long int",
        DType::Int => "int",
        other => other.torch_name_cpp(),
    };
    check!(
        mask.dtype() == DType::Bool,
        "masked_fill_ only supports boolean masks, but got mask with dtype {name}"
    );
    Ok(())
}

fn masked_fill_(t: &Tensor, mask: &Tensor, value: Scalar) -> Result<Returns> {
    check_mask(mask)?;
    super::indexing::warn_expanded(t, "masked_fill_", "tensor[mask] = scalar")?;
    memory::assert_no_partial_overlap(t, mask)?;
    let broadcast = shape::broadcast(t.sizes(), mask.sizes())?;
    check!(
        broadcast[..] == *t.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        t.sizes(),
        &broadcast[..]
    );
    if t.is_meta() {
        return Ok(t.into());
    }
    check!(!t.is_conj() && !t.is_neg(), NotImplemented; "masked_fill_ on a lazily conjugated or negated tensor");
    let mask = super::views::expanded(mask, t.sizes())?;
    let it = TensorIterator::config()
        .output(Some(t))
        .input(t)
        .input(&mask)
        .no_resize()
        .skip_overlap_check()
        .build()?;
    dispatch!("masked_fill", t.dtype(), copyable, T => {
        let v: T = value.to()?;
        loops::binary(&it, move |x: T, m: bool| if m { v } else { x });
    });
    Ok(t.into())
}

fn masked_fill(t: &Tensor, mask: &Tensor, value: Scalar) -> Result<Returns> {
    check_mask(mask)?;
    let size = shape::broadcast(t.sizes(), mask.sizes())?;
    let out = if size[..] == *t.sizes() {
        factory::empty_like(t, t.dtype(), MemoryFormat::Preserve)?
    } else {
        factory::empty(&size, t.dtype(), t.device())?
    };
    copy_into(&out, t)?;
    masked_fill_(&out, mask, value)
}

/// Offsets, in elements of the row-major broadcast, where a mask is true.
fn true_positions(mask: &Tensor) -> Result<Vec<usize>> {
    let mask = contiguous(&convert(mask, DType::Bool)?)?;
    // SAFETY: a contiguous tensor of bool.
    let m = unsafe { mask.as_slice::<bool>() };
    Ok(m.iter().enumerate().filter(|(_, x)| **x).map(|(i, _)| i).collect())
}

/// The coordinates of the true elements, a list for each dimension.
pub(crate) fn true_coordinates(mask: &Tensor) -> Result<Vec<Vec<i64>>> {
    let positions = true_positions(mask)?;
    let strides = shape::contiguous_strides(mask.sizes());
    Ok((0..mask.dim())
        .map(|d| positions.iter().map(|p| *p as i64 / strides[d] % mask.sizes()[d]).collect())
        .collect())
}

fn masked_select(a: Args<'_>) -> Result<Returns> {
    let (t, mask) = (a.tensor(0)?, a.tensor(1)?);
    check!(mask.dtype() == DType::Bool, "masked_select: expected BoolTensor for mask");
    check!(!t.is_meta(), NotImplemented; "aten::masked_select: attempted to run this operator with Meta tensors");
    let size = shape::broadcast(t.sizes(), mask.sizes())?;
    let positions = true_positions(&super::views::expanded(mask, &size)?)?;
    let t = contiguous(&super::views::expanded(t, &size)?)?;
    let out = factory::empty(&[positions.len() as i64], t.dtype(), t.device())?;
    by_size!(t.itemsize(), T => {
        let (src, dst) = (t.data_ptr() as *const T, out.data_ptr() as *mut T);
        for (k, p) in positions.iter().enumerate() {
            // SAFETY: positions lie inside the contiguous source.
            unsafe { *dst.add(k) = *src.add(*p) };
        }
    });
    Ok(out.into())
}

fn masked_scatter_(a: Args<'_>) -> Result<Returns> {
    let (t, mask, source) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    check!(
        t.dtype() == source.dtype(),
        "masked_scatter: expected self and source to have same dtypes but got{} and {}",
        t.dtype(),
        source.dtype()
    );
    check!(
        mask.dtype() == DType::Bool,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype()
    );
    memory::assert_no_internal_overlap(t)?;
    let mask = super::views::expanded(mask, t.sizes())?;
    if t.is_meta() {
        return Ok(t.into());
    }
    let positions = true_positions(&mask)?;
    check!(positions.len() as i64 <= source.numel(), "Number of elements of source < number of ones in mask");
    let (work, source) = (contiguous(t)?, contiguous(source)?);
    by_size!(t.itemsize(), T => {
        let (src, dst) = (source.data_ptr() as *const T, work.data_ptr() as *mut T);
        for (k, p) in positions.iter().enumerate() {
            // SAFETY: positions lie inside the contiguous target; the source has as many elements.
            unsafe { *dst.add(*p) = *src.add(k) };
        }
    });
    if !work.is_same(t) {
        copy_into(t, &work)?;
    }
    Ok(t.into())
}

/// nonzero(Tensor self) -> Tensor: coordinates by row, stored by column as upstream's.
fn nonzero(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        !t.is_meta(),
        NotImplemented;
        "aten::nonzero: the shape of the result depends on data that Meta tensors do not have"
    );
    let n = true_positions(t)?.len() as i64;
    let flat: Vec<i64> = true_coordinates(t)?.concat();
    let out = factory::from_slice(&flat)?;
    let strides =
        if t.dim() == 0 { shape::contiguous_strides(&[n, 0]) } else { IntList::from_slice(&[1, n]) };
    out.set_geometry(IntList::from_slice(&[n, t.dim() as i64]), strides, 0);
    Ok(out.into())
}

/// nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor: as many coordinates as asked for.
fn nonzero_static(a: Args<'_>) -> Result<Returns> {
    let (t, size) = (a.tensor(0)?, a.int(1)?);
    check!(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    let out = factory::empty(&[size, t.dim() as i64], DType::Long, t.device())?;
    if t.is_meta() {
        return Ok(out.into());
    }
    super::options::fill(&out, Scalar::Int(a.int(2)?))?;
    let found = op::nonzero.call((t,))?;
    let n = size.min(found.size(0)?);
    let first = |t: &Tensor| op::narrow.call((t, 0, 0, n));
    copy_into(&first(&out)?, &first(&found)?)?;
    Ok(out.into())
}

fn numpy_form(t: &Tensor) -> Result<Returns> {
    let t = if t.dim() == 0 { op::unsqueeze.call((t, 0))? } else { t.clone() };
    Ok(op::unbind_int.call_list((op::nonzero.call((t,))?, 1))?.into())
}

/// A number beside a tensor, in the dtype that both promote to.
fn scalar_branch(s: Scalar, t: &Tensor) -> Result<(Tensor, Tensor)> {
    let wrapped = factory::wrapped_scalar(s)?;
    let d = result_type([&wrapped, t])?;
    let number = factory::scalar_tensor(s, d)?;
    let t = if t.dtype() == d { t.clone() } else { op::to_dtype.call((t, d))? };
    Ok((number, t))
}

fn where_build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    let (cond, x, y) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let cond = match cond.dtype() {
        DType::Bool => cond.clone(),
        DType::Byte => {
            crate::warn::warn(
                crate::warn::Category::User,
                "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of \
                 PyTorch. Use a boolean condition instead.",
            )?;
            convert(cond, DType::Bool)?
        }
        other => bail!(
            Runtime,
            "where expected condition to be a boolean tensor, but got a tensor with dtype {other}"
        ),
    };
    let d = result_type([x, y])?;
    let plain = |t: &Tensor| -> Result<Tensor> {
        let t = convert(t, d)?;
        if t.is_conj() || t.is_neg() { contiguous(&t) } else { Ok(t) }
    };
    TensorIterator::config()
        .output(out)
        .input(&cond)
        .input(&plain(x)?)
        .input(&plain(y)?)
        .output_dtype(d)
        .cast_outputs()
        .cpu_scalars()
        .build()
}

fn where_run(it: &TensorIterator, _a: Args<'_>) -> Result<()> {
    by_size!(it.dtype(0).itemsize(), T => loops::ternary(it, |c: bool, x: T, y: T| if c { x } else { y }));
    Ok(())
}
