//! Derivatives of operators that move or select elements.

use super::{Helper, real_if, wrap};
use crate::autograd::TypeAndSize;
use crate::autograd::formula::eval::Value;
use crate::ivalue::{IValue, IntList};
use crate::{Result, Tensor, check, op};

pub const HELPERS: &[(&str, Helper)] = &[
    ("sum_to", |a| {
        let (grad, sizes) = (a[0].tensor()?, a[1].ints()?);
        if grad.sizes() == &sizes[..] {
            return Ok(grad.clone().into());
        }
        Ok(op::sum_to_size.call((grad, sizes))?.into())
    }),
    ("permute_backwards", |a| {
        let dims = a[1].ints()?;
        let n = dims.len();
        let mut inverse = IntList::from_elem(0, n);
        for (i, d) in dims.iter().enumerate() {
            inverse[wrap(*d, n) as usize] = i as i64;
        }
        Ok(op::permute.call((a[0].tensor()?, inverse))?.into())
    }),
    ("slice_backward_wrapper", |a| {
        // grad, sizes, dim, start, end, step
        let start = if a[3].is_defined() { a[3].int()? } else { 0 };
        let end = if a[4].is_defined() { a[4].int()? } else { i64::MAX };
        Ok(op::slice_backward
            .call((a[0].tensor()?, a[1].ints()?, a[2].int()?, start, end, a[5].int()?))?
            .into())
    }),
    ("split_backward", |a| {
        // grads, split size, dim, sizes, options
        let (size, sizes) = (a[1].int()?, a[3].ints()?);
        let dim = wrap(a[2].int()?, sizes.len()) as usize;
        let n = a[0].clone().into_opt_tensors()?.len() as i64;
        let mut parts = IntList::from_elem(size, n as usize);
        if let Some(last) = parts.last_mut() {
            *last = size - (size * n - sizes[dim]);
        }
        split_with_sizes(&a[0], &parts, dim, &sizes, &a[4])
    }),
    ("split_with_sizes_backward", |a| {
        // grads, split sizes, dim, sizes, options
        let sizes = a[3].ints()?;
        let dim = wrap(a[2].int()?, sizes.len()) as usize;
        split_with_sizes(&a[0], &a[1].ints()?, dim, &sizes, &a[4])
    }),
    ("unbind_backward", |a| {
        let grads = a[0].clone().into_opt_tensors()?;
        let Some(like) = grads.iter().flatten().next().cloned() else { return Ok(Value::UNDEFINED) };
        let filled = grads
            .into_iter()
            .map(|g| g.map_or_else(|| op::zeros_like.call((&like,)), Ok))
            .collect::<Result<Vec<_>>>()?;
        Ok(op::stack.call((filled, a[1].int()?))?.into())
    }),
    ("cat_tensors_backward", cat_backward),
    ("stack_tensors_backward", stack_backward),
    ("repeat_backward", repeat_backward),
    ("as_strided_backward", as_strided_backward),
    ("index_backward", |a| {
        // zeros like self, indices, grad
        Ok(op::_index_put_impl_
            .call((
                a[0].tensor()?,
                a[1].clone().into_opt_tensors().map(IValue::OptTensorList)?,
                a[2].tensor()?,
                true,
                true,
            ))?
            .into())
    }),
    ("unsqueeze_to", unsqueeze_to),
    ("to_args_sizes", |a| sizes_of(&a[0])),
    ("to_args_scalartypes", |a| {
        let dtypes = a[0].clone().into_opt_tensors()?;
        Ok(Value::Tuple(dtypes.iter().flatten().map(|t| Value::I(IValue::DType(t.dtype()))).collect()))
    }),
    ("TensorGeometry", |a| Ok(TypeAndSize::of(a[0].tensor()?).value())),
    ("info", |a| Ok(TypeAndSize::of(a[0].tensor()?).value())),
    ("masked_select_backward", |a| {
        // grad, input, mask
        let (grad, x, mask) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
        let shape = crate::tensor::shape::broadcast(x.sizes(), mask.sizes())?;
        let zeros = op::zeros.call((shape, grad.dtype(), IValue::None, grad.device()))?;
        Ok(op::masked_scatter.call((zeros, mask, grad))?.into())
    }),
    ("masked_scatter_backward", |a| {
        // grad, mask, sizes of the source
        let (grad, sizes) = (a[0].tensor()?, a[2].ints()?);
        let mut taken = op::masked_select.call((grad, a[1].tensor()?))?;
        let missing = sizes.iter().product::<i64>() - taken.numel();
        if missing > 0 {
            let rest = op::zeros.call(([missing], grad.dtype(), IValue::None, grad.device()))?;
            taken = op::cat.call((vec![taken, rest], 0))?;
        }
        Ok(op::view.call((taken, sizes))?.into())
    }),
    ("trace_backward", |a| {
        let (grad, sizes) = (a[0].tensor()?, a[1].ints()?);
        check!(sizes.len() == 2, "expected matrix input");
        let zeros = op::zeros.call(([sizes[0] * sizes[1]], grad.dtype(), IValue::None, grad.device()))?;
        let step = sizes[1] + 1;
        let count = sizes[0].min(sizes[1]);
        let indices = op::mul_Scalar.call((op::arange.call((count,))?, step))?;
        let spread = op::index_fill_int_Tensor.call((zeros, 0, indices, grad))?;
        Ok(op::view.call((spread, sizes))?.into())
    }),
    ("constant_pad_nd_backward", |a| {
        let pad: IntList = a[1].ints()?.iter().map(|p| -p).collect();
        Ok(op::constant_pad_nd.call((a[0].tensor()?, pad, 0))?.into())
    }),
    ("block_diag_backward", |a| {
        // grad, sizes, dtypes
        let grad = a[0].tensor()?;
        let mut out = Vec::new();
        let (mut row, mut column) = (0, 0);
        for sizes in list_of_sizes(&a[1])? {
            let (r, c) = match sizes.len() {
                0 => (1, 1),
                1 => (1, sizes[0]),
                _ => (sizes[0], sizes[1]),
            };
            let block = op::narrow.call((op::narrow.call((grad, 0, row, r))?, 1, column, c))?;
            out.push(op::reshape.call((block, sizes))?);
            row += r;
            column += c;
        }
        Ok(Value::I(IValue::TensorList(out)))
    }),
    ("gather_backward", |a| {
        // grad, self, dim, index, sparse_grad
        let zeros = op::zeros_like.call((a[1].tensor()?,))?;
        Ok(op::scatter_add.call((zeros, a[2].int()?, a[3].tensor()?, a[0].tensor()?))?.into())
    }),
    ("take_backward", |a| {
        let zeros = op::zeros_like.call((a[1].tensor()?,))?;
        Ok(op::put.call((zeros, a[2].tensor()?, a[0].tensor()?, true))?.into())
    }),
];

/// The shapes of a list of tensors, as a tuple of lists.
fn sizes_of(v: &Value) -> Result<Value> {
    let shapes = v
        .clone()
        .into_opt_tensors()?
        .into_iter()
        .map(|t| Value::I(IValue::IntList(t.map(|t| t.sizes().into()).unwrap_or_default())));
    Ok(Value::Tuple(shapes.collect()))
}

fn list_of_sizes(v: &Value) -> Result<Vec<IntList>> {
    match v {
        Value::Tuple(items) => items.iter().map(Value::ints).collect(),
        other => other.mismatch("a list of shapes"),
    }
}

fn split_with_sizes(
    grads: &Value,
    parts: &[i64],
    dim: usize,
    sizes: &[i64],
    options: &Value,
) -> Result<Value> {
    let Value::Options(dtype, layout, device) = options else { return options.mismatch("options") };
    let mut grads = grads.clone().into_opt_tensors()?;
    // Gradients at the end that nobody made.
    grads.resize(parts.len(), None);
    let mut all = Vec::new();
    for (g, part) in grads.into_iter().zip(parts) {
        all.push(match g {
            Some(g) => g,
            None => {
                let mut shape = IntList::from_slice(sizes);
                shape[dim] = *part;
                op::zeros.call((shape, *dtype, *layout, *device))?
            }
        });
    }
    Ok(op::cat.call((all, dim as i64))?.into())
}

fn dtypes(v: &Value) -> Result<Vec<crate::DType>> {
    match v {
        Value::Tuple(items) => items.iter().map(Value::dtype).collect(),
        other => Ok(other.clone().into_opt_tensors()?.iter().flatten().map(Tensor::dtype).collect()),
    }
}

/// grad, shapes, dtypes, dim
fn cat_backward(a: &[Value]) -> Result<Value> {
    let shapes = list_of_sizes(&a[1])?;
    let Some(grad) = a[0].opt_tensor() else {
        return Ok(Value::I(IValue::OptTensorList(vec![None; shapes.len()])));
    };
    let dtypes = dtypes(&a[2])?;
    // Legacy: an empty vector may be joined with anything.
    let skipped = |s: &IntList| s.len() == 1 && s[0] == 0;
    let rank = shapes.iter().find(|s| !skipped(s)).map_or(1, |s| s.len());
    let dim = wrap(a[3].int()?, rank) as usize;
    let mut out = Vec::new();
    let mut at = 0;
    for (shape, dtype) in shapes.iter().zip(dtypes) {
        if skipped(shape) {
            out.push(op::zeros.call(([0i64], grad.dtype(), IValue::None, grad.device()))?);
            continue;
        }
        let part = op::narrow.call((grad, dim as i64, at, shape[dim]))?;
        at += shape[dim];
        out.push(real_if(dtype, part)?);
    }
    Ok(Value::I(IValue::TensorList(out)))
}

/// grad, dim, dtypes
fn stack_backward(a: &[Value]) -> Result<Value> {
    let dtypes = dtypes(&a[2])?;
    let Some(grad) = a[0].opt_tensor() else {
        return Ok(Value::I(IValue::OptTensorList(vec![None; dtypes.len()])));
    };
    let parts = op::unbind_int.call_list((grad, a[1].int()?))?;
    let parts = parts.into_iter().zip(dtypes).map(|(p, d)| real_if(d, p)).collect::<Result<Vec<_>>>()?;
    Ok(Value::I(IValue::TensorList(parts)))
}

/// grad, repeats, input shape
fn repeat_backward(a: &[Value]) -> Result<Value> {
    let (grad, repeats, shape) = (a[0].tensor()?, a[1].ints()?, a[2].ints()?);
    if repeats.contains(&0) {
        return Ok(op::zeros.call((shape, grad.dtype(), IValue::None, grad.device()))?.into());
    }
    let extra = repeats.len() - shape.len();
    // Each dimension becomes (repeats, size), and the repeats are summed over.
    let mut split = IntList::new();
    let mut over = IntList::new();
    for (i, r) in repeats.iter().enumerate() {
        if i < extra {
            over.push(split.len() as i64);
            split.push(*r);
            continue;
        }
        if *r != 1 {
            over.push(split.len() as i64);
            split.push(*r);
        }
        split.push(shape[i - extra]);
    }
    let wide = op::reshape.call((grad, split))?;
    let out = if over.is_empty() { wide } else { op::sum_dim_IntList.call((wide, over))? };
    Ok(op::reshape.call((out, shape))?.into())
}

/// grad, what the base looked like, size, stride, storage_offset
fn as_strided_backward(a: &[Value]) -> Result<Value> {
    let grad = a[0].tensor()?;
    let Value::Info(base) = &a[1] else { return a[1].mismatch("geometry") };
    let (sizes, strides) = (a[2].ints()?, a[3].ints()?);
    let offset = if a[4].is_defined() { a[4].int()? } else { base.offset };
    // The gradient is laid out in a storage that spans both geometries; each element adds what its place holds.
    let extent = |sizes: &[i64], strides: &[i64], offset: i64| -> i64 {
        if sizes.contains(&0) {
            return offset;
        }
        offset + sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum::<i64>() + 1
    };
    let first = base.offset.min(offset);
    let span =
        extent(&base.sizes, &base.strides, base.offset - first).max(extent(&sizes, &strides, offset - first));
    let zeros = op::zeros.call(([span], grad.dtype(), IValue::None, grad.device()))?;
    let places = |sizes: &IntList, strides: &IntList, offset: i64| -> Result<Tensor> {
        let all = op::arange.call((span, crate::DType::Long))?;
        op::reshape.call((op::as_strided.call((all, sizes.clone(), strides.clone(), offset))?, [-1]))
    };
    let view_places = places(&sizes, &strides, offset - first)?;
    let spread = op::index_add.call((zeros, 0, view_places, op::reshape.call((grad, [-1]))?))?;
    let base_places = places(&base.sizes, &base.strides, base.offset - first)?;
    // Elements of the base that share a place share its gradient.
    let mut out = op::index_select.call((&spread, 0, &base_places))?;
    if crate::tensor::shape::is_non_overlapping_and_dense(&base.sizes, &base.strides) {
        return Ok(op::view.call((out, base.sizes.clone()))?.into());
    }
    let ones = op::ones_like.call((&out,))?;
    let zeros = op::zeros.call(([span], grad.dtype(), IValue::None, grad.device()))?;
    let counts = op::index_add.call((zeros, 0, &base_places, ones))?;
    out = op::div_Tensor.call((out, op::index_select.call((counts, 0, &base_places))?))?;
    Ok(op::view.call((out, base.sizes.clone()))?.into())
}

/// grad, [dim or dims], sizes: puts back dimensions that `squeeze` removed.
fn unsqueeze_to(a: &[Value]) -> Result<Value> {
    let mut grad = a[0].tensor()?.clone();
    let sizes = a.last().map(Value::ints).transpose()?.unwrap_or_default();
    let n = sizes.len();
    let dims: Option<IntList> =
        if a.len() == 3 { Some(a[1].ints()?.iter().map(|d| wrap(*d, n)).collect()) } else { None };
    for (d, size) in sizes.iter().enumerate() {
        if *size == 1 && dims.as_ref().is_none_or(|dims| dims.contains(&(d as i64))) && n > 0 {
            grad = op::unsqueeze.call((&grad, d as i64))?;
        }
    }
    Ok(grad.into())
}
