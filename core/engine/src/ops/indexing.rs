//! Advanced indexing: `index.Tensor` and `index_put`.

use super::copy::{contiguous, copy_into};
use super::elements::{by_size, index_values, offsets};
use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::tensor::{factory, memory, shape};
use crate::{DType, Error, ErrorKind, MemoryFormat, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::index_Tensor, |a| Ok(index(a.tensor(0)?, a.opt_tensor_list(1)?)?.into()));
    r.explicit(op::_unsafe_index_Tensor, |a| Ok(op::index_Tensor.call((a.tensor(0)?, owned(a, 1)?))?.into()));
    r.any_device(op::_index_put_impl_, |a| {
        put(a.tensor(0)?, a.opt_tensor_list(1)?, a.tensor(2)?, a.bool(3)?)?;
        Ok(a.tensor(0)?.into())
    });
    r.explicit(op::index_put_, |a| {
        let t = a.tensor(0)?;
        Ok(op::_index_put_impl_.call((t, owned(a, 1)?, a.tensor(2)?, a.bool(3)?, false))?.into())
    });
    r.explicit(op::index_put, index_put).explicit(op::_unsafe_index_put, index_put);
}

fn owned(a: Args<'_>, i: usize) -> Result<Vec<Option<Tensor>>> {
    Ok(a.opt_tensor_list(i)?.into_iter().map(|t| t.cloned()).collect())
}

fn index_put(a: Args<'_>) -> Result<Returns> {
    let copy = op::clone.call((a.tensor(0)?, MemoryFormat::Preserve))?;
    Ok(op::_index_put_impl_.call((copy, owned(a, 1)?, a.tensor(2)?, a.bool(3)?, false))?.into())
}

/// An indexing call worked out: where in the tensor each result element lies.
struct Plan {
    sizes: IntList,
    /// Offsets in elements of the dimensions before the indexed ones, of the index positions, and of those after.
    before: Vec<i64>,
    at: Vec<i64>,
    after: Vec<i64>,
    /// The elements after are one run in memory.
    run: bool,
}

/// Masks become the coordinates of their true elements.
fn expand_masks(t: &Tensor, indices: &[Option<&Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut out: Vec<Option<Tensor>> = Vec::new();
    for (i, index) in indices.iter().enumerate() {
        let Some(index) = index else {
            out.push(None);
            continue;
        };
        match index.dtype() {
            DType::Bool | DType::Byte => {
                if index.dtype() == DType::Byte {
                    crate::warn::warn(
                        crate::warn::Category::User,
                        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                    )?;
                }
                let first = out.len();
                for d in 0..index.dim() {
                    check!(
                        t.sizes().get(first + d) == Some(&index.sizes()[d]),
                        Index;
                        "The shape of the mask {:?} at index {d} does not match the shape of the indexed tensor {:?} at index {}",
                        index.sizes(),
                        t.sizes(),
                        first + d
                    );
                }
                check!(
                    index.is_cpu(),
                    NotImplemented;
                    "aten::index.Tensor: the number of true elements of a mask on device '{}' is not known",
                    index.device()
                );
                let coordinates = super::masked::true_coordinates(index)?;
                if index.dim() == 0 {
                    // A 0-d mask adds a dimension, whose length it decides; such an index has no dimension to act on.
                    bail!(
                        Index,
                        "a mask without dimensions at index {i} needs a dimension of its own: unsqueeze the tensor first"
                    );
                }
                for c in coordinates {
                    out.push(Some(factory::from_slice(&c)?));
                }
            }
            DType::Long | DType::Int => out.push(Some((*index).clone())),
            _ => bail!(Index, "tensors used as indices must be long, int, byte or bool tensors"),
        }
    }
    Ok(out)
}

fn plan(t: &Tensor, indices: &[Option<&Tensor>]) -> Result<Plan> {
    let indices = expand_masks(t, indices)?;
    check!(
        indices.len() <= t.dim(),
        Index;
        "too many indices for tensor of dimension {} (got {})",
        t.dim(),
        indices.len()
    );
    let given: Vec<(usize, &Tensor)> =
        indices.iter().enumerate().filter_map(|(d, t)| t.as_ref().map(|t| (d, t))).collect();
    check!(!given.is_empty(), Index; "at least one index must be provided");
    let mut shape = IntList::new();
    for (_, x) in &given {
        shape = shape::broadcast(&shape, x.sizes()).map_err(|_| {
            let all: Vec<String> = given.iter().map(|(_, x)| format!("{:?}", x.sizes())).collect();
            Error::new(
                ErrorKind::Index,
                format!(
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                    all.join(", ")
                ),
            )
        })?;
    }
    let n: i64 = shape.iter().product();
    let mut at = vec![0i64; n as usize];
    for (d, x) in &given {
        let (size, stride) = (t.sizes()[*d], t.strides()[*d]);
        if x.is_meta() || t.is_meta() {
            continue;
        }
        let wide = super::views::expanded(x, &shape)?;
        for (o, v) in at.iter_mut().zip(index_values(&wide)?) {
            check!(
                (-size..size).contains(&v),
                Index;
                "index {v} is out of bounds for dimension {d} with size {size}"
            );
            *o += if v < 0 { v + size } else { v } * stride;
        }
    }
    let first = given[0].0;
    let adjacent = given.iter().enumerate().all(|(k, (d, _))| *d == first + k);
    let is_indexed = |d: &usize| given.iter().any(|(g, _)| g == d);
    // Indices with a gap between them put their dimensions first.
    let split = if adjacent { first } else { 0 };
    let rest = |range: std::ops::Range<usize>| -> (IntList, IntList) {
        let dims: Vec<usize> = range.filter(|d| !is_indexed(d)).collect();
        (dims.iter().map(|d| t.sizes()[*d]).collect(), dims.iter().map(|d| t.strides()[*d]).collect())
    };
    let (before_sizes, before_strides) = rest(0..split);
    let (after_sizes, after_strides) = rest(split..t.dim());
    let run = shape::is_contiguous(&after_sizes, &after_strides);
    let mut sizes = before_sizes.clone();
    sizes.extend_from_slice(&shape);
    sizes.extend_from_slice(&after_sizes);
    if t.is_meta() {
        return Ok(Plan { sizes, before: Vec::new(), at: Vec::new(), after: Vec::new(), run });
    }
    Ok(Plan {
        sizes,
        before: offsets(&before_sizes, &before_strides),
        at,
        after: offsets(&after_sizes, &after_strides),
        run,
    })
}

/// `index.Tensor` without dispatch.
///
/// # Errors
/// Upstream's IndexErrors.
pub(crate) fn index(t: &Tensor, indices: Vec<Option<&Tensor>>) -> Result<Tensor> {
    let p = plan(t, &indices)?;
    let out = factory::empty(&p.sizes, t.dtype(), t.device())?;
    if t.is_meta() || out.numel() == 0 {
        return Ok(out);
    }
    by_size!(t.itemsize(), T => {
        let (src, mut dst) = (t.data_ptr() as *const T, out.data_ptr() as *mut T);
        let n = p.after.len();
        for b in &p.before {
            for i in &p.at {
                // SAFETY: offsets were checked against the sizes; the output holds before × at × after elements.
                unsafe {
                    let base = src.offset((b + i) as isize);
                    if p.run {
                        std::ptr::copy_nonoverlapping(base, dst, n);
                    } else {
                        for (k, o) in p.after.iter().enumerate() {
                            *dst.add(k) = *base.offset(*o as isize);
                        }
                    }
                    dst = dst.add(n);
                }
            }
        }
    });
    keep_lazy_bits(t, out)
}

/// A lazily conjugated or negated source gives raw values: the result is as lazy.
fn keep_lazy_bits(t: &Tensor, out: Tensor) -> Result<Tensor> {
    use crate::dispatch::DispatchKey;
    if !t.is_conj() && !t.is_neg() {
        return Ok(out);
    }
    out.set_key(DispatchKey::Conjugate, t.is_conj());
    out.set_key(DispatchKey::Negative, t.is_neg());
    contiguous(&out)
}

/// Upstream's warning before elements that share memory are written more than once.
pub(crate) fn warn_expanded(t: &Tensor, name: &str, subscript: &str) -> Result<()> {
    if memory::internal_overlap(t) != memory::Overlap::Yes {
        return Ok(());
    }
    crate::warn::warn(
        crate::warn::Category::User,
        &format!(
            "Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. \
             This also applies to advanced indexing e.g. {subscript}"
        ),
    )
}

/// `index_put_` without dispatch.
///
/// # Errors
/// Upstream's: bad indices, values that do not broadcast, another dtype.
pub(crate) fn put(
    t: &Tensor,
    indices: Vec<Option<&Tensor>>,
    values: &Tensor,
    accumulate: bool,
) -> Result<()> {
    warn_expanded(t, "index_put_", "tensor[indices] = tensor")?;
    check!(
        t.dtype() == values.dtype(),
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        t.dtype(),
        values.dtype()
    );
    let p = plan(t, &indices)?;
    let values = super::views::expanded(values, &p.sizes).map_err(|_| {
        Error::runtime(format!(
            "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
            values.sizes(),
            &p.sizes[..]
        ))
    })?;
    if t.is_meta() || values.numel() == 0 {
        return Ok(());
    }
    check!(!t.is_conj() && !t.is_neg(), NotImplemented; "index_put_ on a lazily conjugated or negated tensor");
    memory::assert_no_overlap(t, &values)?;
    for index in indices.iter().flatten() {
        memory::assert_no_overlap(t, index)?;
    }
    // A copy also when the values share memory with the target.
    let values = if values.storage().ptr_eq(t.storage()) {
        let copy = factory::empty(&p.sizes, t.dtype(), t.device())?;
        copy_into(&copy, &values)?;
        copy
    } else {
        contiguous(&values)?
    };
    if accumulate {
        dispatch!("index_put", t.dtype(), all_complex, T => scatter::<T>(t, &p, &values, |d, v| *d = super::scatter_gather::Arith::plus(*d, v)));
    } else {
        by_size!(t.itemsize(), T => scatter::<T>(t, &p, &values, |d, v| *d = v));
    }
    Ok(())
}

fn scatter<T: Copy>(t: &Tensor, p: &Plan, values: &Tensor, f: impl Fn(&mut T, T)) {
    let (dst, mut src) = (t.data_ptr() as *mut T, values.data_ptr() as *const T);
    for b in &p.before {
        for i in &p.at {
            for o in &p.after {
                // SAFETY: offsets were checked against the sizes; values has one element for each, of the same size.
                unsafe {
                    f(&mut *dst.offset((b + i + o) as isize), *src);
                    src = src.add(1);
                }
            }
        }
    }
}
