//! Views composed of other views, above autograd; and those that reinterpret elements.

use crate::dispatch::{DispatchKey, Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{DType, Result, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::expand_as, |a| Ok(op::expand.call((a.tensor(0)?, a.tensor(1)?.sizes()))?.into()));
    r.implicit(op::view_as, |a| Ok(op::view.call((a.tensor(0)?, a.tensor(1)?.sizes()))?.into()));
    r.implicit(op::reshape_as, |a| Ok(op::reshape.call((a.tensor(0)?, a.tensor(1)?.sizes()))?.into()));
    r.implicit(op::broadcast_to, |a| Ok(op::expand.call((a.tensor(0)?, a.int_list(1)?))?.into()));
    r.implicit(op::broadcast_tensors, broadcast_tensors);
    r.implicit(op::ravel, |a| Ok(op::reshape.call((op::contiguous.call((a.tensor(0)?,))?, [-1]))?.into()));
    r.implicit(op::narrow, narrow).implicit(op::narrow_Tensor, narrow_tensor);
    r.implicit(op::chunk, |a| chunk(a, false)).implicit(op::unsafe_chunk, |a| chunk(a, true));
    r.implicit(op::split_sizes, |a| {
        Ok(op::split_with_sizes.call_list((a.tensor(0)?, a.int_list(1)?, a.int(2)?))?.into())
    });
    r.implicit(op::tensor_split_tensor_indices_or_sections, |a| {
        let (t, at) = (a.tensor(0)?, a.tensor(1)?);
        check!(at.is_cpu(), "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}", at.device());
        check!(
            at.dtype() == crate::DType::Long,
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
            at.dtype()
        );
        check!(
            at.dim() <= 1,
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a \
             tensor with {} dims",
            at.dim()
        );
        let at = super::copy::contiguous(at)?;
        // SAFETY: contiguous, on the CPU, of 64-bit integers.
        let values = unsafe { at.as_slice::<i64>() };
        if at.dim() == 0 { sections(t, values[0], a.int(2)?) } else { indices(t, values, a.int(2)?) }
    });
    r.implicit(op::linalg_diagonal, |a| {
        Ok(op::diagonal.call((a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?))?.into())
    });
    r.implicit(op::tensor_split_sections, |a| sections(a.tensor(0)?, a.int(1)?, a.int(2)?));
    r.implicit(op::tensor_split_indices, |a| indices(a.tensor(0)?, a.int_list(1)?, a.int(2)?));
    r.implicit(op::movedim_intlist, |a| movedim(a.tensor(0)?, a.int_list(1)?, a.int_list(2)?));
    r.implicit(op::movedim_int, |a| movedim(a.tensor(0)?, &[a.int(1)?], &[a.int(2)?]));
    r.implicit(op::moveaxis_intlist, |a| movedim(a.tensor(0)?, a.int_list(1)?, a.int_list(2)?));
    r.implicit(op::moveaxis_int, |a| movedim(a.tensor(0)?, &[a.int(1)?], &[a.int(2)?]));
    for id in [op::swapaxes, op::swapdims] {
        r.implicit(id, |a| Ok(op::transpose_int.call((a.tensor(0)?, a.int(1)?, a.int(2)?))?.into()));
    }
    for id in [op::swapaxes_, op::swapdims_] {
        r.implicit(id, |a| Ok(op::transpose_.call((a.tensor(0)?, a.int(1)?, a.int(2)?))?.into()));
    }
    r.implicit(op::flatten_using_ints, flatten).implicit(op::unflatten_int, unflatten);
    r.implicit(op::numpy_T, |a| {
        let t = a.tensor(0)?;
        let dims: IntList = (0..t.dim() as i64).rev().collect();
        Ok(op::permute.call((t, dims))?.into())
    });
    r.implicit(op::mT, |a| Ok(last_two(a.tensor(0)?, "tensor.mT")?.into()));
    r.implicit(op::mH, |a| adjoint(a.tensor(0)?, "tensor.mH"));
    r.implicit(op::adjoint, |a| adjoint(a.tensor(0)?, "tensor.adjoint()"));
    r.implicit(op::matrix_H, matrix_h);
    r.explicit(op::view_dtype, view_dtype);
    r.explicit(op::view_as_real, view_as_real).explicit(op::view_as_complex, view_as_complex);
    r.explicit(op::_conj, |a| Ok(toggled(a.tensor(0)?, DispatchKey::Conjugate).into()));
    r.explicit(op::_neg_view, |a| Ok(toggled(a.tensor(0)?, DispatchKey::Negative).into()));
    r.implicit(op::conj, |a| {
        let t = a.tensor(0)?;
        Ok(if t.dtype().is_complex() { op::_conj.call((t,))? } else { t.clone() }.into())
    });
    r.implicit(op::real, real).implicit(op::imag, imag);
}

fn broadcast_tensors(a: Args<'_>) -> Result<Returns> {
    let list = a.tensor_list(0)?;
    let mut size = IntList::new();
    for t in list {
        size = shape::broadcast(&size, t.sizes())?;
    }
    let out: Result<Vec<Tensor>> = list.iter().map(|t| op::expand.call((t, size.clone()))).collect();
    Ok(out?.into())
}

fn narrowed(t: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    check!(t.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
    check!(length >= 0, "narrow(): length must be non-negative.");
    let size = t.size(dim)?;
    check!(
        (-size..=size).contains(&start),
        Index;
        "start out of range (expected to be in range of [{}, {size}], but got {start})",
        -size
    );
    let start = if start < 0 { start + size } else { start };
    check!(start <= size - length, "start ({start}) + length ({length}) exceeds dimension size ({size}).");
    op::slice_Tensor.call((t, dim, start, start + length, 1))
}

fn narrow(a: Args<'_>) -> Result<Returns> {
    Ok(narrowed(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?)?.into())
}

fn narrow_tensor(a: Args<'_>) -> Result<Returns> {
    let start = a.tensor(2)?;
    check!(start.dim() == 0 && start.dtype().is_integral(false), "start must be an 0-dim integral Tensor.");
    let start = op::_local_scalar_dense.call_all((start,))?[0].int()?;
    Ok(narrowed(a.tensor(0)?, a.int(1)?, start, a.int(3)?)?.into())
}

fn chunk(a: Args<'_>, copies: bool) -> Result<Returns> {
    let (t, chunks, dim) = (a.tensor(0)?, a.int(1)?, a.int(2)?);
    check!(t.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    check!(chunks > 0, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let size = t.size(dim)?;
    let each = (size + chunks - 1) / chunks;
    if each == 0 && size == 0 {
        // Empty pieces, as many as were asked for: split could not tell how many.
        let sizes = vec![0i64; chunks as usize];
        let id = if copies { op::unsafe_split_with_sizes } else { op::split_with_sizes };
        return Ok(id.call_list((t, sizes, dim))?.into());
    }
    let id = if copies { op::unsafe_split_Tensor } else { op::split_Tensor };
    Ok(id.call_list((t, each, dim))?.into())
}

fn sections(t: &Tensor, n: i64, dim: i64) -> Result<Returns> {
    check!(
        t.dim() > 0,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    check!(n > 0, "number of sections must be larger than 0, got {n}");
    let size = t.size(dim)?;
    let (each, longer) = (size / n, size % n);
    let mut start = 0;
    let mut out = Vec::new();
    for i in 0..n {
        let length = each + i64::from(i < longer);
        out.push(op::slice_Tensor.call((t, dim, start, start + length, 1))?);
        start += length;
    }
    Ok(out.into())
}

fn indices(t: &Tensor, at: &[i64], dim: i64) -> Result<Returns> {
    check!(
        t.dim() > 0,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    let size = t.size(dim)?;
    let mut start = 0;
    let mut out = Vec::new();
    for &end in at.iter().chain([&size]) {
        out.push(op::slice_Tensor.call((t, dim, start, end, 1))?);
        start = end;
    }
    Ok(out.into())
}

fn movedim(t: &Tensor, source: &[i64], destination: &[i64]) -> Result<Returns> {
    check!(
        source.len() == destination.len(),
        "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the same number of dims as \
         destination ({destination:?} dims)"
    );
    let n = t.dim();
    let wrap = |dims: &[i64], what: &str| -> Result<Vec<usize>> {
        let v: Result<Vec<usize>> = dims.iter().map(|&d| shape::wrap_dim(d, n)).collect();
        let v = v?;
        for (i, d) in v.iter().enumerate() {
            check!(!v[..i].contains(d), "movedim: repeated dim in `{what}` ({dims:?})");
        }
        Ok(v)
    };
    let (from, to) = (wrap(source, "source")?, wrap(destination, "destination")?);
    if n == 0 {
        return Ok(op::alias.call((t,))?.into());
    }
    let mut order = vec![usize::MAX; n];
    for (f, d) in from.iter().zip(&to) {
        order[*d] = *f;
    }
    let mut rest = (0..n).filter(|d| !from.contains(d));
    let dims: IntList = order
        .iter()
        .map(|&d| if d == usize::MAX { rest.next().map_or(0, |r| r as i64) } else { d as i64 })
        .collect();
    Ok(op::permute.call((t, dims))?.into())
}

fn flatten(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let (start, end) = (shape::wrap_dim(a.int(1)?, t.dim())?, shape::wrap_dim(a.int(2)?, t.dim())?);
    check!(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim");
    if t.dim() == 0 {
        return Ok(op::reshape.call((t, [1]))?.into());
    }
    if start == end {
        return Ok(t.into());
    }
    let mut sizes = IntList::from_slice(&t.sizes()[..start]);
    sizes.push(t.sizes()[start..=end].iter().product());
    sizes.extend_from_slice(&t.sizes()[end + 1..]);
    Ok(op::reshape.call((t, sizes))?.into())
}

fn unflatten(a: Args<'_>) -> Result<Returns> {
    let (t, sizes) = (a.tensor(0)?, a.int_list(2)?);
    let d = shape::wrap_dim_strict(a.int(1)?, t.dim())?;
    check!(!sizes.is_empty(), "unflatten: sizes must be non-empty");
    let known: i64 = sizes.iter().filter(|s| **s != -1).product();
    let inferred = sizes.contains(&-1);
    let total = t.sizes()[d];
    let fits = if inferred { known != 0 && total % known == 0 } else { known == total };
    check!(
        fits,
        "unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {d} ({total}) in the input tensor"
    );
    let mut out = IntList::from_slice(&t.sizes()[..d]);
    out.extend(shape::infer_size(sizes, total)?);
    out.extend_from_slice(&t.sizes()[d + 1..]);
    Ok(op::view.call((t, out))?.into())
}

fn last_two(t: &Tensor, name: &str) -> Result<Tensor> {
    check!(
        t.dim() >= 2 || t.dim() == 0,
        "{name} is only supported on matrices or batches of matrices. Got {}-D tensor.",
        t.dim()
    );
    if t.dim() == 0 {
        return Ok(t.clone());
    }
    op::transpose_int.call((t, -2, -1))
}

fn adjoint(t: &Tensor, name: &str) -> Result<Returns> {
    let t = last_two(t, name)?;
    Ok(if t.dtype().is_complex() { op::_conj.call((t,))? } else { t }.into())
}

fn matrix_h(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        t.dim() == 2 || t.dim() == 0,
        "tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor.",
        t.dim()
    );
    adjoint(t, "tensor.H")
}

/// view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)
fn view_dtype(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let dtype = a.opt_dtype(1)?.unwrap_or(t.dtype());
    if dtype == t.dtype() {
        return Ok(super::views::same(t).into());
    }
    check!(
        !t.is_conj(),
        "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype."
    );
    check!(
        !t.is_neg(),
        "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different dtype."
    );
    let (from, to) = (t.itemsize() as i64, dtype.itemsize() as i64);
    let (mut sizes, mut strides) = (IntList::from_slice(t.sizes()), IntList::from_slice(t.strides()));
    let mut offset = t.storage_offset();
    if from != to {
        let what = format!("to view {} as {dtype} (different element sizes)", t.dtype());
        let Some(last) = t.dim().checked_sub(1) else {
            crate::bail!(Runtime, "self.dim() cannot be 0 {what}")
        };
        check!(strides[last] == 1, "self.stride(-1) must be 1 {what}, but got {}", strides[last]);
        if from > to {
            let k = from / to;
            sizes[last] *= k;
            strides[..last].iter_mut().for_each(|s| *s *= k);
            offset *= k;
        } else {
            let k = to / from;
            check!(
                sizes[last] % k == 0,
                "self.size(-1) must be divisible by {k} {what}, but got {}",
                sizes[last]
            );
            check!(
                offset % k == 0,
                "self.storage_offset() must be divisible by {k} {what}, but got {offset}"
            );
            for (d, s) in strides[..last].iter().enumerate() {
                check!(s % k == 0, "self.stride({d}) must be divisible by {k} {what}, but got {s}");
            }
            sizes[last] /= k;
            strides[..last].iter_mut().for_each(|s| *s /= k);
            offset /= k;
        }
    }
    Ok(retyped(t, dtype, sizes, strides, offset).into())
}

fn retyped(t: &Tensor, dtype: DType, sizes: IntList, strides: IntList, offset: i64) -> Tensor {
    let out = t.alias_with(sizes, strides, offset);
    out.set_dtype(dtype);
    out
}

fn view_as_real(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(t.dtype().is_complex(), Type; "view_as_real is only supported for complex tensors");
    check!(
        !t.is_conj(),
        "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it as \
         real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original."
    );
    let mut sizes = IntList::from_slice(t.sizes());
    let mut strides: IntList = t.strides().iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    Ok(retyped(t, t.dtype().to_real(), sizes, strides, t.storage_offset() * 2).into())
}

fn view_as_complex(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let to = match t.dtype() {
        DType::Half | DType::Float | DType::Double => t.dtype().to_complex().unwrap_or(DType::ComplexFloat),
        other => crate::bail!(
            NotImplemented,
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {other}"
        ),
    };
    let Some(last) = t.dim().checked_sub(1) else {
        crate::bail!(Runtime, "Input tensor must have one or more dimensions")
    };
    check!(t.sizes()[last] == 2, "Tensor must have a last dimension of size 2");
    check!(t.strides()[last] == 1, "Tensor must have a last dimension with stride 1");
    check!(
        t.strides()[..last].iter().all(|s| s % 2 == 0),
        "Tensor must have a stride divisible by 2 for all but last dimension"
    );
    check!(t.storage_offset() % 2 == 0, "Tensor must have a storage_offset divisible by 2");
    let sizes = IntList::from_slice(&t.sizes()[..last]);
    let strides: IntList = t.strides()[..last].iter().map(|s| s / 2).collect();
    Ok(retyped(t, to, sizes, strides, t.storage_offset() / 2).into())
}

/// An alias whose lazy conjugation or negation is the other way round.
fn toggled(t: &Tensor, key: DispatchKey) -> Tensor {
    let out = super::views::same(t);
    out.set_key(key, !t.key_set().has_functionality(key));
    out
}

fn real(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    if !t.dtype().is_complex() {
        return Ok(t.into());
    }
    let plain = if t.is_conj() { op::_conj.call((t,))? } else { t.clone() };
    Ok(op::select_int.call((op::view_as_real.call((plain,))?, -1, 0))?.into())
}

fn imag(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(t.dtype().is_complex(), Type; "imag is not implemented for tensors with non-complex dtypes.");
    let conj = t.is_conj();
    let plain = if conj { op::_conj.call((t,))? } else { t.clone() };
    let part = op::select_int.call((op::view_as_real.call((plain,))?, -1, 1))?;
    Ok(if conj { op::_neg_view.call((part,))? } else { part }.into())
}
