//! Joining and repeating: `cat`, `stack`, `repeat`, `flip`, `roll`, padding, `meshgrid`.

use super::copy::{contiguous, copy_into};
use super::options::{empty_on, fill};
use super::views;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::iter::result_type;
use crate::ivalue::{Args, IntList};
use crate::tensor::{factory, shape};
use crate::{DType, MemoryFormat, Result, Scalar, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::cat, cat_spec, cat);
    for id in [op::concat, op::concatenate] {
        r.implicit(id, |a| Ok(op::cat.call((a.tensor_list(0)?, a.int(1)?))?.into()));
    }
    r.structured(op::stack, stack_spec, stack);
    r.implicit(op::hstack, |a| {
        let list = at_least(a.tensor_list(0)?, 1)?;
        check!(!list.is_empty(), "hstack expects a non-empty TensorList");
        let dim = if list[0].dim() == 1 { 0 } else { 1 };
        Ok(op::cat.call((list, dim))?.into())
    });
    for id in [op::vstack, op::row_stack] {
        r.implicit(id, |a| {
            let list = at_least(a.tensor_list(0)?, 2)?;
            check!(!list.is_empty(), "vstack expects a non-empty TensorList");
            Ok(op::cat.call((list, 0))?.into())
        });
    }
    r.implicit(op::dstack, |a| {
        let list = at_least(a.tensor_list(0)?, 3)?;
        check!(!list.is_empty(), "dstack expects a non-empty TensorList");
        Ok(op::cat.call((list, 2))?.into())
    });
    r.implicit(op::column_stack, column_stack);
    r.implicit(op::atleast_1d, |a| Ok(raised(a.tensor(0)?, 1)?.into()));
    r.implicit(op::atleast_2d, |a| Ok(raised(a.tensor(0)?, 2)?.into()));
    r.implicit(op::atleast_3d, |a| Ok(raised(a.tensor(0)?, 3)?.into()));
    r.implicit(op::atleast_1d_Sequence, |a| Ok(at_least(a.tensor_list(0)?, 1)?.into()));
    r.implicit(op::atleast_2d_Sequence, |a| Ok(at_least(a.tensor_list(0)?, 2)?.into()));
    r.implicit(op::atleast_3d_Sequence, |a| Ok(at_least(a.tensor_list(0)?, 3)?.into()));
    r.any_device(op::repeat, repeat);
    r.implicit(op::tile, tile);
    r.any_device(op::flip, flip);
    r.implicit(op::fliplr, |a| {
        check!(a.tensor(0)?.dim() >= 2, "Input must be >= 2-d.");
        Ok(op::flip.call((a.tensor(0)?, [1]))?.into())
    });
    r.implicit(op::flipud, |a| {
        check!(a.tensor(0)?.dim() >= 1, "Input must be >= 1-d.");
        Ok(op::flip.call((a.tensor(0)?, [0]))?.into())
    });
    r.any_device(op::roll, roll);
    r.any_device(op::repeat_interleave_Tensor, interleave_indices);
    r.implicit(op::repeat_interleave_self_Tensor, interleave_tensor);
    r.implicit(op::repeat_interleave_self_int, interleave_int);
    r.implicit(op::meshgrid, |a| {
        crate::warn::warn(
            crate::warn::Category::User,
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
        )?;
        meshgrid(a.tensor_list(0)?, false)
    });
    r.implicit(op::meshgrid_indexing, |a| match a.str(1)? {
        "ij" => meshgrid(a.tensor_list(0)?, false),
        "xy" => meshgrid(a.tensor_list(0)?, true),
        other => {
            bail!(Runtime, "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}")
        }
    });
}

/// 1-d tensors without elements join anything: an old liberty that upstream keeps.
fn skipped(t: &Tensor) -> bool {
    t.dim() == 1 && t.sizes()[0] == 0
}

fn cat_dim(list: &[Tensor], dim: i64) -> Result<usize> {
    let rank = list.iter().find(|t| !skipped(t)).map_or(1, |t| t.dim());
    shape::wrap_dim(dim, rank)
}

fn cat_spec(a: Args<'_>) -> Result<Specs> {
    let list = a.tensor_list(0)?;
    check!(!list.is_empty(), Value; "torch.cat(): expected a non-empty list of Tensors");
    for (i, t) in list.iter().enumerate() {
        check!(t.dim() > 0, "zero-dimensional tensor (at position {i}) cannot be concatenated");
    }
    let device = list[0].device();
    for t in list {
        check!(
            t.device() == device,
            "Expected all tensors to be on the same device, but found at least two devices, {device} and {}!",
            t.device()
        );
    }
    let dim = cat_dim(list, a.int(1)?)?;
    let dtype = result_type(list)?;
    let Some(first) = list.iter().find(|t| !skipped(t)) else {
        return Ok(OutSpec::new(IntList::from_slice(&[0]), dtype, device).castable().into());
    };
    let mut sizes = IntList::from_slice(first.sizes());
    sizes[dim] = 0;
    let mut format = None;
    let mut mixed = false;
    for (i, t) in list.iter().enumerate().filter(|(_, t)| !skipped(t)) {
        check!(
            t.dim() == first.dim(),
            "Tensors must have same number of dimensions: got {} and {}",
            first.dim(),
            t.dim()
        );
        for d in (0..t.dim()).filter(|d| *d != dim) {
            check!(
                t.sizes()[d] == first.sizes()[d],
                "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {} for tensor number {i} \
                 in the list.",
                first.sizes()[d],
                t.sizes()[d]
            );
        }
        sizes[dim] += t.sizes()[dim];
        let f = t.suggest_memory_format();
        mixed |= format.is_some_and(|x| x != f);
        format = Some(f);
    }
    let format = if mixed { MemoryFormat::Contiguous } else { format.unwrap_or(MemoryFormat::Contiguous) };
    let spec = OutSpec::new(sizes.clone(), dtype, device).castable();
    Ok(match format {
        MemoryFormat::Contiguous => spec,
        f => spec.strides(shape::strides_for(&sizes, f)?),
    }
    .into())
}

fn cat(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let list = a.tensor_list(0)?;
    let dim = cat_dim(list, a.int(1)?)?;
    let out = &out[0];
    let mut start = 0;
    for t in list.iter().filter(|t| !skipped(t)) {
        let n = t.sizes()[dim];
        let part = views::slice(out, dim as i64, Some(start), Some(start + n), 1)?;
        copy_into(&part, t)?;
        start += n;
    }
    Ok(())
}

fn stack_spec(a: Args<'_>) -> Result<Specs> {
    let list = a.tensor_list(0)?;
    check!(!list.is_empty(), "stack expects a non-empty TensorList");
    for (i, t) in list.iter().enumerate() {
        check!(
            t.sizes() == list[0].sizes(),
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {i}",
            list[0].sizes(),
            t.sizes()
        );
    }
    let dim = shape::wrap_dim(a.int(1)?, list[0].dim() + 1)?;
    let mut sizes = IntList::from_slice(list[0].sizes());
    sizes.insert(dim, list.len() as i64);
    Ok(OutSpec::new(sizes, result_type(list)?, list[0].device()).castable().into())
}

fn stack(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let list = a.tensor_list(0)?;
    for (i, t) in list.iter().enumerate() {
        copy_into(&views::select(&out[0], a.int(1)?, i as i64)?, t)?;
    }
    Ok(())
}

/// `atleast_nd`
fn raised(t: &Tensor, n: usize) -> Result<Tensor> {
    match (t.dim(), n) {
        (0, n) => op::reshape.call((t, IntList::from_elem(1, n))),
        (1, 2) => op::unsqueeze.call((t, 0)),
        (1, 3) => op::unsqueeze.call((op::unsqueeze.call((t, 0))?, -1)),
        (2, 3) => op::unsqueeze.call((t, -1)),
        _ => Ok(t.clone()),
    }
}

fn at_least(list: &[Tensor], n: usize) -> Result<Vec<Tensor>> {
    list.iter().map(|t| raised(t, n)).collect()
}

fn column_stack(a: Args<'_>) -> Result<Returns> {
    let list = a.tensor_list(0)?;
    check!(!list.is_empty(), "column_stack expects a non-empty TensorList");
    let columns: Result<Vec<Tensor>> = list
        .iter()
        .map(|t| if t.dim() <= 1 { op::reshape.call((t, [t.numel(), 1])) } else { Ok(t.clone()) })
        .collect();
    Ok(op::hstack.call((columns?,))?.into())
}

/// repeat(Tensor self, SymInt[] repeats) -> Tensor
fn repeat(a: Args<'_>) -> Result<Returns> {
    let (t, repeats) = (a.tensor(0)?, a.int_list(1)?);
    check!(
        repeats.len() >= t.dim(),
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    let lead = repeats.len() - t.dim();
    let size = |d: usize| if d < lead { 1 } else { t.sizes()[d - lead] };
    let target: IntList = (0..repeats.len()).map(|d| size(d) * repeats[d]).collect();
    let out = factory::empty(&target, t.dtype(), t.device())?;
    // Each dimension splits into the repetitions and the original, over which the source has its own strides.
    let (mut sizes, mut to, mut from) = (IntList::new(), IntList::new(), IntList::new());
    for d in 0..repeats.len() {
        sizes.extend([repeats[d], size(d)]);
        to.extend([out.strides()[d] * size(d), out.strides()[d]]);
        from.extend([0, if d < lead { 0 } else { t.strides()[d - lead] }]);
    }
    let dst = out.alias_with(sizes.clone(), to, 0);
    copy_into(&dst, &t.alias_with(sizes, from, t.storage_offset()))?;
    Ok(out.into())
}

fn tile(a: Args<'_>) -> Result<Returns> {
    let (t, dims) = (a.tensor(0)?, a.int_list(1)?);
    let lead = t.dim().saturating_sub(dims.len());
    let mut repeats = IntList::from_elem(1, lead);
    repeats.extend_from_slice(dims);
    Ok(op::repeat.call((t, repeats))?.into())
}

fn flip(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let mask = shape::dim_mask(Some(a.int_list(1)?), t.dim(), true)?;
    let out = factory::empty_like(t, t.dtype(), MemoryFormat::Preserve)?;
    let mut strides = IntList::from_slice(t.strides());
    let mut offset = t.storage_offset();
    if t.numel() > 0 {
        for d in (0..t.dim()).filter(|d| mask & (1 << d) != 0) {
            offset += (t.sizes()[d] - 1) * strides[d];
            strides[d] = -strides[d];
        }
    }
    copy_into(&out, &t.alias_with(IntList::from_slice(t.sizes()), strides, offset))?;
    Ok(out.into())
}

fn rolled(t: &Tensor, shift: i64, dim: i64) -> Result<Tensor> {
    let d = shape::wrap_dim_strict(dim, t.dim())? as i64;
    let out = factory::empty(t.sizes(), t.dtype(), t.device())?;
    let size = t.sizes()[d as usize];
    if t.numel() == 0 {
        return Ok(out);
    }
    let k = shift.rem_euclid(size);
    let part = |t: &Tensor, from: i64, to: i64| views::slice(t, d, Some(from), Some(to), 1);
    copy_into(&part(&out, k, size)?, &part(t, 0, size - k)?)?;
    copy_into(&part(&out, 0, k)?, &part(t, size - k, size)?)?;
    Ok(out)
}

fn roll(a: Args<'_>) -> Result<Returns> {
    let (t, shifts, dims) = (a.tensor(0)?, a.int_list(1)?, a.int_list(2)?);
    check!(!shifts.is_empty(), "`shifts` required");
    if dims.is_empty() && shifts.len() == 1 {
        let flat = contiguous(t)?;
        let flat = views::view(&flat, &[t.numel()])?;
        return Ok(views::view(&rolled(&flat, shifts[0], 0)?, t.sizes())?.into());
    }
    check!(
        shifts.len() == dims.len(),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let mut out = t.clone();
    for (s, d) in shifts.iter().zip(dims) {
        out = rolled(&out, *s, *d)?;
    }
    Ok(out.into())
}

/// repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor
fn interleave_indices(a: Args<'_>) -> Result<Returns> {
    let repeats = a.tensor(0)?;
    check!(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
    check!(matches!(repeats.dtype(), DType::Long | DType::Int), "repeats has to be Long or Int tensor");
    if repeats.is_meta() {
        let Some(n) = a.opt_int(1)? else {
            bail!(NotImplemented, "aten::repeat_interleave.Tensor on meta needs output_size")
        };
        return Ok(factory::empty(&[n], repeats.dtype(), repeats.device())?.into());
    }
    let counts = contiguous(&super::copy::convert(repeats, DType::Long)?)?;
    let mut out: Vec<i64> = Vec::new();
    // SAFETY: a contiguous tensor of int64.
    for (i, &n) in unsafe { counts.as_slice::<i64>() }.iter().enumerate() {
        check!(n >= 0, "repeats can not be negative");
        out.extend(std::iter::repeat_n(i as i64, n as usize));
    }
    if let Some(n) = a.opt_int(1)? {
        check!(n == out.len() as i64, "allocated size does not match required size");
    }
    Ok(super::copy::convert(&factory::from_slice(&out)?, repeats.dtype())?.into())
}

fn interleave_tensor(a: Args<'_>) -> Result<Returns> {
    let (t, repeats) = (a.tensor(0)?, a.tensor(1)?);
    let (t, dim) = match a.opt_int(2)? {
        Some(d) => (t.clone(), d),
        None => (op::flatten_using_ints.call((t,))?, 0),
    };
    let mut repeats = repeats.clone();
    let size = if t.dim() == 0 { 1 } else { t.size(dim)? };
    if repeats.dim() == 0 || (repeats.dim() == 1 && repeats.sizes()[0] == 1) {
        repeats = op::expand.call((op::reshape.call((repeats, [1]))?, [size]))?;
    } else if repeats.dim() == 1 {
        check!(
            repeats.sizes()[0] == size,
            "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({dim}) = {size}",
            repeats.sizes()[0]
        );
    } else {
        bail!(Runtime, "repeats must be 0-dim or 1-dim tensor");
    }
    let index = op::repeat_interleave_Tensor.call((repeats, a.opt_int(3)?))?;
    Ok(op::index_select.call((t, dim, index))?.into())
}

fn interleave_int(a: Args<'_>) -> Result<Returns> {
    let (t, n) = (a.tensor(0)?, a.int(1)?);
    let (t, dim) = match a.opt_int(2)? {
        Some(d) => (t.clone(), d),
        None => (op::flatten_using_ints.call((t,))?, 0),
    };
    check!(n >= 0, "Repeats must be non-negative");
    let t = if t.dim() == 0 { op::reshape.call((t, [1]))? } else { t };
    let d = shape::wrap_dim(dim, t.dim())?;
    let wide = op::unsqueeze.call((&t, d as i64 + 1))?;
    let mut sizes = IntList::from_slice(wide.sizes());
    sizes[d + 1] = n;
    let copy = op::clone.call((op::expand.call((wide, sizes))?, MemoryFormat::Contiguous))?;
    Ok(op::flatten_using_ints.call((copy, d as i64, d as i64 + 1))?.into())
}

fn meshgrid(list: &[Tensor], xy: bool) -> Result<Returns> {
    check!(!list.is_empty(), "meshgrid expects a non-empty TensorList");
    for t in list {
        check!(t.dim() <= 1, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t:?}");
        check!(t.dtype() == list[0].dtype(), "meshgrid expects all tensors to have the same dtype");
        check!(t.device() == list[0].device(), "meshgrid expects all tensors to have the same device");
    }
    let swap = xy && list.len() >= 2;
    let mut order: Vec<&Tensor> = list.iter().collect();
    if swap {
        order.swap(0, 1);
    }
    let sizes: IntList = order.iter().map(|t| t.numel()).collect();
    let mut grids = Vec::with_capacity(order.len());
    for (i, t) in order.iter().enumerate() {
        let mut one = IntList::from_elem(1, sizes.len());
        one[i] = -1;
        let grid = op::expand.call((op::view.call((*t, one))?, sizes.clone()))?;
        grids.push(grid);
    }
    if swap {
        grids.swap(0, 1);
    }
    Ok(grids.into())
}

/// A row-major tensor of the given sizes filled with zeros, of another's dtype and device.
pub(crate) fn zeros_of(t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let out = empty_on(sizes, t.dtype(), t.device())?;
    fill(&out, Scalar::Int(0))?;
    Ok(out)
}
