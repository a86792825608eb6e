//! Tensors built from tensors: diagonals, rotations, products of sets, powers, splits and scattered views.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::ops::{copy, options, views};
use crate::tensor::{factory, shape};
use crate::{DType, MemoryFormat, Result, Scalar, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::one_hot, |a| Ok(one_hot(a.tensor(0)?, a.int(1)?)?.into()))
        .implicit(op::diag, |a| Ok(diag(a.tensor(0)?, a.int(1)?)?.into()))
        .explicit(op::diag_embed, |a| Ok(diag_embed(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?)?.into()))
        .implicit(op::diagflat, |a| {
            let flat = op::reshape.call((op::contiguous.call((a.tensor(0)?,))?, [-1]))?;
            Ok(diag(&flat, a.int(1)?)?.into())
        })
        .explicit(op::rot90, |a| Ok(rot90(a.tensor(0)?, a.int(1)?, a.int_list(2)?)?.into()))
        .implicit(op::cartesian_prod, |a| Ok(cartesian_prod(a.tensor_list(0)?)?.into()))
        .implicit(op::combinations, |a| Ok(combinations(a.tensor(0)?, a.int(1)?, a.bool(2)?)?.into()))
        .explicit(op::block_diag, |a| Ok(block_diag(a.tensor_list(0)?)?.into()))
        .implicit(op::vander, |a| {
            let t = a.tensor(0)?;
            check!(t.dim() == 1, "x must be a one-dimensional tensor.");
            let n = a.opt_int(1)?.unwrap_or(t.numel());
            check!(n >= 0, "N must be non-negative.");
            let powers = powers(t, n)?;
            Ok(if a.bool(2)? { powers } else { op::flip.call((powers, [-1]))? }.into())
        })
        .implicit(op::linalg_vander, |a| {
            let t = a.tensor(0)?;
            check!(
                t.dtype() != DType::Bool,
                "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
            );
            let x = if t.dim() == 0 { op::unsqueeze.call((t, -1))? } else { t.clone() };
            let n = a.opt_int(1)?.unwrap_or(x.size(-1)?);
            check!(n > 1, "N must be greater than 1.");
            Ok(powers(&x, n)?.into())
        })
        .implicit(op::hsplit_int, |a| split(a, "hsplit", 1, false))
        .implicit(op::hsplit_array, |a| split(a, "hsplit", 1, true))
        .implicit(op::vsplit_int, |a| split(a, "vsplit", 2, false))
        .implicit(op::vsplit_array, |a| split(a, "vsplit", 2, true))
        .implicit(op::dsplit_int, |a| split(a, "dsplit", 3, false))
        .implicit(op::dsplit_array, |a| split(a, "dsplit", 3, true));
    r.explicit(op::diagonal_scatter, |a| {
        scattered(a, &|t| op::diagonal.call((t, a.int(2)?, a.int(3)?, a.int(4)?)))
    })
    .explicit(op::select_scatter, |a| scattered(a, &|t| op::select_int.call((t, a.int(2)?, a.int(3)?))))
    .explicit(op::slice_scatter, |a| {
        scattered(a, &|t| op::slice_Tensor.call((t, a.int(2)?, a.opt_int(3)?, a.opt_int(4)?, a.int(5)?)))
    })
    .explicit(op::as_strided_scatter, |a| {
        scattered(a, &|t| op::as_strided.call((t, a.int_list(2)?, a.int_list(3)?, a.opt_int(4)?)))
    })
    .implicit(op::matrix_power, |a| Ok(matrix_power(a.tensor(0)?, a.int(1)?)?.into()))
    .implicit(op::linalg_matrix_power, |a| Ok(matrix_power(a.tensor(0)?, a.int(1)?)?.into()))
    .implicit(op::linalg_vecdot, vecdot)
    .implicit(op::pad_sequence, pad_sequence)
    .explicit(op::max_unpool2d, |a| Ok(unpool(a.tensor(0)?, a.tensor(1)?, a.int_list(2)?, 2)?.into()))
    .explicit(op::max_unpool3d, |a| Ok(unpool(a.tensor(0)?, a.tensor(1)?, a.int_list(2)?, 3)?.into()))
    .cpu(op::embedding_renorm_, embedding_renorm);
}

fn one_hot(t: &Tensor, classes: i64) -> Result<Tensor> {
    check!(t.dtype() == DType::Long, "one_hot is only applicable to index tensor of type LongTensor.");
    let mut sizes = IntList::from_slice(t.sizes());
    if t.numel() == 0 {
        check!(classes > 0, "Can not infer total number of classes from empty tensor.");
        sizes.push(classes);
        return op::empty_memory_format.call((sizes, t.dtype(), (), t.device()));
    }
    let mut n = classes;
    if !t.is_meta() {
        let least = op::item.call_all((op::min.call((t,))?,))?[0].int()?;
        let most = op::item.call_all((op::max.call((t,))?,))?[0].int()?;
        check!(least >= 0, "Class values must be non-negative.");
        if classes == -1 {
            n = most + 1;
        } else {
            check!(classes > most, "Class values must be smaller than num_classes.");
        }
    } else {
        check!(classes >= 0, "Tensor.item() cannot be called on meta tensors");
    }
    sizes.push(n);
    let out = op::zeros.call((sizes, t.dtype(), (), t.device()))?;
    op::scatter_value.call((out, -1, op::unsqueeze.call((t, -1))?, Scalar::Int(1)))
}

fn diag(t: &Tensor, k: i64) -> Result<Tensor> {
    match t.dim() {
        1 => op::diag_embed.call((t, k)),
        2 => op::diagonal_copy.call((t, k)),
        n => bail!(Runtime, "diag(): Supports 1D or 2D tensors. Got {n}D"),
    }
}

fn diag_embed(t: &Tensor, k: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    check!(t.dim() > 0, Index; "Dimension specified as -1 but tensor has no dimensions");
    let n = t.dim() + 1;
    let (d1, d2) = (shape::wrap_dim(dim1, n)?, shape::wrap_dim(dim2, n)?);
    check!(d1 != d2, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let side = t.sizes()[t.dim() - 1] + k.abs();
    let mut sizes = IntList::from_slice(&t.sizes()[..t.dim() - 1]);
    sizes.insert(d1.min(d2), side);
    sizes.insert(d1.max(d2), side);
    let out = op::zeros.call((sizes, t.dtype(), (), t.device()))?;
    let line = op::diagonal.call((&out, k, d1, d2))?;
    copy::copy_into(&line, t)?;
    Ok(out)
}

fn rot90(t: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let n = t.dim() as i64;
    check!(dims.len() == 2, "expected total rotation dims == 2, but got dims = {}", dims.len());
    check!(n >= 2, "expected total dims >= 2, but got total dims = {n}");
    let (a, b) = (dims[0], dims[1]);
    check!(
        a != b && (a - b).abs() != n,
        "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
    );
    for d in [a, b] {
        shape::wrap_dim(d, t.dim())?;
    }
    match k.rem_euclid(4) {
        1 => op::transpose_int.call((op::flip.call((t, [b]))?, a, b)),
        2 => op::flip.call((t, [a, b])),
        3 => op::transpose_int.call((op::flip.call((t, [a]))?, a, b)),
        _ => op::clone.call((t, MemoryFormat::Contiguous)),
    }
}

fn cartesian_prod(list: &[Tensor]) -> Result<Tensor> {
    for t in list {
        check!(t.dim() == 1, "Expect a 1D vector, but got shape {:?}", t.sizes());
    }
    if let [only] = list {
        return Ok(only.clone());
    }
    let grids = op::meshgrid_indexing.call_list((list, "ij"))?;
    let flat: Result<Vec<Tensor>> = grids.iter().map(|g| op::flatten_using_ints.call((g,))).collect();
    op::stack.call((flat?, 1))
}

fn combinations(t: &Tensor, r: i64, repeat: bool) -> Result<Tensor> {
    check!(t.dim() == 1, "Expect a 1D vector, but got shape {:?}", t.sizes());
    check!(r >= 0, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return op::empty_memory_format.call(([0], t.dtype(), (), t.device()));
    }
    let (n, r) = (t.numel() as usize, r as usize);
    // Positions in order: each at least (or beyond) the one before.
    let mut rows: Vec<i64> = Vec::new();
    let mut count = 0;
    let mut now: Vec<usize> = if repeat { vec![0; r] } else { (0..r).collect() };
    let limit = |i: usize| if repeat { n } else { n.saturating_sub(r - 1 - i) };
    while n > 0 && (0..r).all(|i| now[i] < limit(i)) {
        rows.extend(now.iter().map(|i| *i as i64));
        count += 1;
        let Some(i) = (0..r).rev().find(|i| now[*i] + 1 < limit(*i)) else { break };
        now[i] += 1;
        for j in i + 1..r {
            now[j] = if repeat { now[i] } else { now[j - 1] + 1 };
        }
    }
    let index = views::view(&factory::from_slice(&rows)?, &[count * r as i64])?;
    let index = options::deliver(index, t.device())?;
    op::view.call((op::index_select.call((t, 0, index))?, [count, r as i64]))
}

fn block_diag(list: &[Tensor]) -> Result<Tensor> {
    if list.is_empty() {
        return op::empty_memory_format.call(([1, 0],));
    }
    let device = list[0].device();
    let (mut rows, mut columns) = (0, 0);
    let mut blocks = Vec::with_capacity(list.len());
    for (i, t) in list.iter().enumerate() {
        check!(
            t.device() == device,
            "torch.block_diag: input tensors must all be on the same device. Input 0 is on device {device} and input {i} is on \
             device {}",
            t.device()
        );
        check!(
            t.dim() <= 2,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} dimensions",
            t.dim()
        );
        let m = match t.dim() {
            2 => t.clone(),
            n => op::expand.call((t, [1, if n == 1 { t.sizes()[0] } else { 1 }]))?,
        };
        rows += m.sizes()[0];
        columns += m.sizes()[1];
        blocks.push(m);
    }
    let dtype = crate::iter::result_type(list)?;
    let out = op::zeros.call(([rows, columns], dtype, (), device))?;
    let (mut i, mut j) = (0, 0);
    for m in blocks {
        let (h, w) = (m.sizes()[0], m.sizes()[1]);
        let place =
            views::slice(&views::slice(&out, 0, Some(i), Some(i + h), 1)?, 1, Some(j), Some(j + w), 1)?;
        copy::copy_into(&place, &m)?;
        (i, j) = (i + h, j + w);
    }
    Ok(out)
}

/// The powers 0 to n - 1 of each element, along a new last dimension.
fn powers(t: &Tensor, n: i64) -> Result<Tensor> {
    let dtype = if t.dtype().is_integral(true) { DType::Long } else { t.dtype() };
    let mut sizes = IntList::from_slice(t.sizes());
    sizes.push(n);
    if n == 0 {
        return op::empty_memory_format.call((sizes, dtype, (), t.device()));
    }
    sizes[t.dim()] = 1;
    let ones = op::ones.call((sizes.clone(), dtype, (), t.device()))?;
    sizes[t.dim()] = n - 1;
    let wide = op::expand.call((op::unsqueeze.call((op::to_dtype.call((t, dtype))?, -1))?, sizes))?;
    let all = op::cat.call((vec![ones, op::clone.call((wide, MemoryFormat::Contiguous))?], -1))?;
    op::cumprod.call((all, -1))
}

/// `hsplit`, `vsplit` and `dsplit`: along the first dimension that there must be.
fn split(a: Args<'_>, name: &str, least: usize, by_indices: bool) -> Result<Returns> {
    let t = a.tensor(0)?;
    check!(
        t.dim() >= least,
        "torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
        t.dim()
    );
    let dim = match name {
        "hsplit" if t.dim() == 1 => 0,
        "hsplit" => 1,
        "vsplit" => 0,
        _ => 2,
    };
    if by_indices {
        return Ok(op::tensor_split_indices.call_list((t, a.int_list(1)?, dim as i64))?.into());
    }
    let n = a.int(1)?;
    check!(
        n != 0 && t.sizes()[dim] % n == 0,
        "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {} is not divisible by the split_size \
         {n}!",
        t.sizes()[dim]
    );
    Ok(op::tensor_split_sections.call_list((t, n, dim as i64))?.into())
}

/// A copy of the first argument with the second written into a view of it.
fn scattered(a: Args<'_>, part: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Returns> {
    let (t, src) = (a.tensor(0)?, a.tensor(1)?);
    let out = factory::empty_like(
        t,
        t.dtype(),
        if t.is_non_overlapping_and_dense() { MemoryFormat::Preserve } else { MemoryFormat::Contiguous },
    )?;
    copy::copy_into(&out, t)?;
    let place = part(&out)?;
    check!(
        place.sizes() == src.sizes(),
        "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
        src.sizes(),
        place.sizes()
    );
    copy::copy_into(&place, src)?;
    Ok(out.into())
}

fn matrix_power(t: &Tensor, n: i64) -> Result<Tensor> {
    check!(t.dim() >= 2, "linalg.matrix_power: The input tensor A must have at least 2 dimensions.");
    let (p, q) = (t.sizes()[t.dim() - 2], t.sizes()[t.dim() - 1]);
    check!(
        p == q,
        "linalg.matrix_power: A must be batches of square matrices, but they are {p} by {q} matrices"
    );
    if n == 0 {
        let eye = op::eye.call((p, t.dtype(), (), t.device()))?;
        return op::clone.call((op::expand.call((eye, t.sizes()))?, MemoryFormat::Contiguous));
    }
    let base = if n < 0 { op::linalg_inv.call((t,))? } else { t.clone() };
    let mut rest = n.unsigned_abs();
    if rest == 1 {
        return op::clone.call((base,));
    }
    let (mut square, mut out): (Tensor, Option<Tensor>) = (base, None);
    loop {
        if rest & 1 == 1 {
            out = Some(match out {
                Some(o) => op::matmul.call((o, &square))?,
                None => square.clone(),
            });
        }
        rest >>= 1;
        if rest == 0 {
            break;
        }
        square = op::matmul.call((&square, &square))?;
    }
    match out {
        Some(o) => Ok(o),
        None => bail!(Internal, "a positive power without a factor"),
    }
}

/// linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor
fn vecdot(a: Args<'_>) -> Result<Returns> {
    let (x, y, dim) = (a.tensor(0)?, a.tensor(1)?, a.int(2)?);
    check!(
        x.dtype().is_floating_point() || x.dtype().is_complex(),
        NotImplemented;
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    check!(
        x.dtype() == y.dtype(),
        "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} instead",
        x.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    if x.dim() == 1 && y.dim() == 1 {
        return Ok(op::vdot.call((x, y))?.into());
    }
    let product = op::mul_Tensor.call((op::conj.call((x,))?, y))?;
    Ok(op::sum_dim_IntList.call((product, [dim]))?.into())
}

/// pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str padding_side="right") -> Tensor
fn pad_sequence(a: Args<'_>) -> Result<Returns> {
    let (list, batch_first, value) = (a.tensor_list(0)?, a.bool(1)?, a.double(2)?);
    let side = a.str(3)?;
    check!(!list.is_empty(), "received an empty list of sequences");
    check!(
        side == "left" || side == "right",
        "Expected padding_side to be one of left or right, but got {side}."
    );
    check!(list[0].dim() > 0, Index; "tuple index out of range");
    let rest = IntList::from_slice(&list[0].sizes()[1..]);
    let longest = list.iter().map(|t| t.sizes().first().copied().unwrap_or(0)).max().unwrap_or(0);
    let mut sizes = if batch_first {
        IntList::from_slice(&[list.len() as i64, longest])
    } else {
        IntList::from_slice(&[longest, list.len() as i64])
    };
    sizes.extend_from_slice(&rest);
    let out = op::full.call((sizes, Scalar::Float(value), list[0].dtype(), (), list[0].device()))?;
    for (i, t) in list.iter().enumerate() {
        let n = t.sizes()[0];
        let start = if side == "left" { longest - n } else { 0 };
        let place = op::select_int.call((&out, i64::from(!batch_first), i as i64))?;
        op::copy_.call((op::narrow.call((place, 0, start, n))?, t))?;
    }
    Ok(out.into())
}

/// Values put back where a pooling took them from.
fn unpool(t: &Tensor, indices: &Tensor, size: &[i64], rank: usize) -> Result<Tensor> {
    check!(
        indices.dtype() == DType::Long,
        "elements in indices should be type int64 but got: {}",
        indices.dtype().scalar_type_name()
    );
    check!(
        size.len() == rank,
        "There should be exactly {} elements (height, width) in output_size, but got {} elements.",
        if rank == 2 { "two" } else { "three" },
        size.len()
    );
    check!(
        t.dim() == rank + 1 || t.dim() == rank + 2,
        "Input to max_unpooling{rank}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions.",
        rank + 1,
        rank + 2,
        t.dim()
    );
    check!(
        t.sizes() == indices.sizes(),
        "Expected shape of indices to be same as that of the input tensor ({:?}) but got indices tensor with shape: {:?}",
        t.sizes(),
        indices.sizes()
    );
    let mut sizes = IntList::from_slice(&t.sizes()[..t.dim() - rank]);
    let planes: i64 = sizes.iter().product();
    sizes.extend_from_slice(size);
    let volume: i64 = size.iter().product();
    if !t.is_meta() && t.numel() > 0 {
        let flat = copy::contiguous(indices)?;
        // SAFETY: a row-major tensor of int64.
        for &i in unsafe { flat.as_slice::<i64>() } {
            check!(
                (0..volume).contains(&i),
                "Found an invalid max index: {i} (output volumes are of size {})",
                size.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
            );
        }
    }
    let out = op::zeros.call(([planes, volume], t.dtype(), (), t.device()))?;
    let rows = |t: &Tensor| op::reshape.call((t, [planes, t.numel() / planes.max(1)]));
    let out = op::scatter_src.call((out, 1, rows(indices)?, rows(t)?))?;
    let out = op::view.call((out, sizes))?;
    match t.suggest_memory_format() {
        MemoryFormat::ChannelsLast if rank == 2 && t.dim() == 4 => {
            op::contiguous.call((out, MemoryFormat::ChannelsLast))
        }
        _ => Ok(out),
    }
}

/// embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)
fn embedding_renorm(a: Args<'_>) -> Result<Returns> {
    let (t, indices, most, p) = (a.tensor(0)?, a.tensor(1)?, a.double(2)?, a.double(3)?);
    check!(
        t.dim() == 2,
        "Expected 2-dimensional tensor, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for \
         embedding_renorm_)",
        t.dim()
    );
    let mut rows = crate::ops::elements::index_values(&op::reshape.call((indices, [-1]))?)?;
    rows.sort_unstable();
    rows.dedup();
    for i in rows {
        let row = views::select(t, 0, i)?;
        let norm = options::item(&op::norm_Scalar.call((&row, Scalar::Float(p)))?)?.to_f64();
        if norm > most {
            let scaled = op::mul_Scalar.call((&row, Scalar::Float(most / (norm + 1e-7))))?;
            copy::copy_into(&row, &scaled)?;
        }
    }
    Ok(t.into())
}
