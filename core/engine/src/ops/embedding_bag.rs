//! Sums, means and maxima of bags of embeddings.

use crate::cpu::rows::Real;
use crate::dispatch::{Registry, Returns};
use crate::ivalue::Args;
use crate::ops::{copy, options};
use crate::tensor::factory;
use crate::{DType, Device, OpId, Result, Scalar, Stack, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.cpu(op::_embedding_bag, bags)
        .cpu(op::_embedding_bag_forward_only, bags)
        .meta(op::_embedding_bag, shapes)
        .meta(op::_embedding_bag_forward_only, shapes)
        .implicit(op::embedding_bag, |a| entry(a, -1))
        .implicit(op::embedding_bag_padding_idx, |a| {
            let rows = a.tensor(0)?.size(0)?;
            let padding = match a.opt_int(8)? {
                None => -1,
                Some(i) => {
                    check!(
                        (-rows..rows).contains(&i),
                        "padding_idx must be within the number of embeddings, {} through {}, but got {i}",
                        -rows,
                        rows - 1
                    );
                    i.rem_euclid(rows)
                }
            };
            entry(a, padding)
        });
}

const SUM: i64 = 0;
const MEAN: i64 = 1;
const MAX: i64 = 2;

/// Training keeps what its gradients need.
fn entry(a: Args<'_>, padding: i64) -> Result<Returns> {
    let weight = a.tensor(0)?;
    let id: OpId = if weight.requires_grad() { op::_embedding_bag } else { op::_embedding_bag_forward_only };
    let mut stack = Stack::from_iter(a.0[..8].iter().cloned());
    stack.push(padding.into());
    Ok(Returns(id.call_all(stack)?.into_iter().collect()))
}

/// The number of bags.
fn count(offsets: &Tensor, include_last: bool) -> Result<i64> {
    let n = offsets.size(0)?;
    check!(!include_last || n >= 1, "include_last_offset: number of offset should be at least 1");
    Ok(n - i64::from(include_last))
}

/// The dtype of indices and offsets together.
fn index_dtype(a: Args<'_>) -> Result<DType> {
    let mut dtype = DType::Int;
    for (i, name) in [(1, "indices"), (2, "offsets")] {
        let d = a.tensor(i)?.dtype();
        check!(
            matches!(d, DType::Long | DType::Int),
            "Expected tensor for argument #1 '{name}' to have one of the following scalar types: Long, Int; but got torch.{}Tensor \
             instead (while checking arguments for embedding_bag)",
            d.scalar_type_name()
        );
        if d == DType::Long {
            dtype = d;
        }
    }
    let d = a.tensor(0)?.dtype();
    check!(
        matches!(d, DType::Half | DType::BFloat16 | DType::Float | DType::Double),
        "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got \
         torch.{}Tensor instead (while checking arguments for embedding_bag)",
        d.scalar_type_name()
    );
    Ok(dtype)
}

fn shapes(a: Args<'_>) -> Result<Returns> {
    let (w, indices, mode) = (a.tensor(0)?, a.tensor(1)?, a.int(4)?);
    let dtype = index_dtype(a)?;
    let n = count(a.tensor(2)?, a.bool(7)?)?;
    let make = |sizes: &[i64], d: DType| factory::empty(sizes, d, Device::META);
    let width = w.size(1)?;
    let largest: &[i64] = if mode == MAX { &[n, width] } else { &[0] };
    Ok((
        make(&[n, width], w.dtype())?,
        make(&[indices.numel()], dtype)?,
        make(&[n], dtype)?,
        make(largest, dtype)?,
    )
        .into())
}

/// _embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False,
/// Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)
fn bags(a: Args<'_>) -> Result<Returns> {
    let (w, mode, include_last, padding) = (a.tensor(0)?, a.int(4)?, a.bool(7)?, a.int(8)?);
    let dtype = index_dtype(a)?;
    check!(w.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension {}", w.dim());
    check!(a.tensor(1)?.dim() == 1 && a.tensor(2)?.dim() == 1, "input and offsets have to be 1D Tensors");
    let wide = |t: &Tensor| copy::contiguous(&copy::convert(t, DType::Long)?);
    let (indices, offsets) = (wide(a.tensor(1)?)?, wide(a.tensor(2)?)?);
    // SAFETY: row-major tensors of int64.
    let (index, offset) = unsafe { (indices.as_slice::<i64>(), offsets.as_slice::<i64>()) };
    let n = count(&offsets, include_last)?;
    let total = index.len() as i64;
    if let (Some(&first), Some(&last)) = (offset.first(), offset.last()) {
        check!(
            first == 0,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
        );
        check!(
            last <= total,
            "offsets[-1] can not be greater than input's length {total} but got offsets[-1] of {last}"
        );
        check!(offset.windows(2).all(|w| w[0] <= w[1]), "offsets must not decrease, but got {offset:?}");
    }
    let (rows, width) = (w.sizes()[0], w.sizes()[1]);
    for (i, &v) in index.iter().enumerate() {
        check!(
            (0..rows).contains(&v),
            "Index {i} of input takes value {v} which is not in the valid range [0, {rows})"
        );
    }
    check!((SUM..=MAX).contains(&mode), "`mode` must be sum, mean, or max.");
    let scales = match a.opt_tensor(6) {
        None => None,
        Some(s) => {
            check!(
                mode == SUM,
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'"
            );
            check!(
                s.dtype() == w.dtype() && s.dim() == 1 && s.numel() == total,
                "expected per_sample_weights to be a 1D tensor of {total} elements of the dtype of weight"
            );
            Some(copy::contiguous(&copy::convert(s, DType::Double)?)?)
        }
    };
    // SAFETY: a row-major tensor of f64.
    let scales = scales.as_ref().map(|s| unsafe { s.as_slice::<f64>() });
    // Sums of single and half precision take a way of their own upstream, on which bags end where the next begins and
    // nothing else is recorded.
    let fast = mode == SUM && w.dtype() != DType::Double && w.strides()[1] == 1 && padding < 0;
    let out = factory::empty(&[n, width], w.dtype(), w.device())?;
    let mut sizes = vec![0i64; n as usize];
    let mut largest = vec![0i64; if mode == MAX { (n * width) as usize } else { n as usize }];
    let end = |b: usize| match offset.get(b + 1) {
        Some(e) if fast || b as i64 + 1 < n => *e,
        _ => total,
    };
    let x = copy::contiguous(w)?;
    dispatch!("embedding_bag", w.dtype(), floating, T => {
        // SAFETY: row-major tensors of T; the result is fresh.
        let (x, y) = unsafe { (x.as_slice::<T>(), out.as_mut_slice::<T>()) };
        let width = width as usize;
        let mut sums = vec![0.0f64; width];
        for b in 0..n as usize {
            let mut seen = 0i64;
            sums.fill(0.0);
            for i in offset[b]..end(b) {
                let row = index[i as usize];
                if row == padding {
                    continue;
                }
                let values = &x[row as usize * width..(row as usize + 1) * width];
                let scale = scales.map_or(1.0, |s| s[i as usize]);
                for (c, v) in values.iter().enumerate() {
                    let v = v.wide();
                    if mode != MAX {
                        sums[c] += v * scale;
                    } else if seen == 0 || v > sums[c] || v.is_nan() {
                        sums[c] = v;
                        largest[b * width + c] = row;
                    }
                }
                seen += 1;
            }
            if mode != SUM {
                sizes[b] = seen;
            }
            for c in 0..width {
                y[b * width + c] = T::of(if mode == MEAN && seen > 0 { sums[c] / seen as f64 } else { sums[c] });
            }
        }
    });
    let make = |values: &[i64], shape: &[i64]| -> Result<Tensor> {
        copy::convert(&super::views::view(&factory::from_slice(values)?, shape)?, dtype)
    };
    let bag_of = if fast {
        factory::empty(&[0], dtype, w.device())?
    } else {
        let of: Vec<i64> = (0..total)
            .map(|i| (offset[..n as usize].partition_point(|o| *o <= i) as i64 - 1).max(0))
            .collect();
        make(&of, &[total])?
    };
    let bag_sizes = make(&sizes, &[n])?;
    let largest = match mode {
        MAX => make(&largest, &[n, width])?,
        MEAN => make(&sizes, &[n])?,
        _ => {
            let zeros = factory::empty(&[n], dtype, w.device())?;
            options::fill(&zeros, Scalar::Int(0))?;
            zeros
        }
    };
    Ok((out, bag_of, bag_sizes, largest).into())
}
