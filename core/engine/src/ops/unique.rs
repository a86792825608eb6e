//! Distinct elements and slices: `_unique`, `_unique2`, `unique_consecutive`, `unique_dim`, `unique_dim_consecutive`.

use super::copy::{contiguous, convert};
use crate::cpu::order::{Ordered, less, stable_sort};
use crate::dispatch::{Registry, Returns};
use crate::ivalue::IntList;
use crate::tensor::{factory, shape};
use crate::{DType, Result, Tensor, bail, check, dispatch, op};
use std::cmp::Ordering;

pub(crate) fn register(r: &mut Registry) {
    r.cpu(op::_unique, |a| {
        let [v, i, _] = flat(a.tensor(0)?, true, a.bool(2)?, false)?;
        Ok((v, i).into())
    });
    r.cpu(op::_unique2, |a| Ok(flat(a.tensor(0)?, true, a.bool(2)?, a.bool(3)?)?.into_returns()));
    r.cpu(op::unique_consecutive, |a| match a.opt_int(3)? {
        None => Ok(flat(a.tensor(0)?, false, a.bool(1)?, a.bool(2)?)?.into_returns()),
        Some(d) => slices(a.tensor(0)?, d, false),
    });
    r.cpu(op::unique_dim, |a| slices(a.tensor(0)?, a.int(1)?, true));
    r.cpu(op::unique_dim_consecutive, |a| slices(a.tensor(0)?, a.int(1)?, false));
}

trait IntoReturns {
    fn into_returns(self) -> Returns;
}
impl IntoReturns for [Tensor; 3] {
    fn into_returns(self) -> Returns {
        let [a, b, c] = self;
        (a, b, c).into()
    }
}

/// A dtype with an order; bools are bytes to it.
macro_rules! ordered {
    ($name:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::UInt16 => {
                type $T = u16;
                $body
            }
            DType::UInt32 => {
                type $T = u32;
                $body
            }
            DType::UInt64 => {
                type $T = u64;
                $body
            }
            d => dispatch!($name, d, all_bool, $T => $body),
        }
    };
}

fn longs(values: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let t = factory::from_slice(values)?;
    t.set_sizes_contiguous(sizes);
    Ok(t)
}

/// Groups positions (in an order that brings equals together) into runs of equals; gives the first position of each
/// run, the run of each position and the length of each run.
fn runs(order: &[usize], same: impl Fn(usize, usize) -> bool) -> (Vec<usize>, Vec<i64>, Vec<i64>) {
    let mut heads: Vec<usize> = Vec::new();
    let (mut inverse, mut counts) = (vec![0; order.len()], Vec::new());
    let mut last = None;
    for &i in order {
        if last.is_none_or(|j| !same(j, i)) {
            heads.push(i);
            counts.push(0);
        }
        last = Some(i);
        inverse[i] = heads.len() as i64 - 1;
        if let Some(n) = counts.last_mut() {
            *n += 1;
        }
    }
    (heads, inverse, counts)
}

/// Distinct elements of a flattened tensor: values, inverse, counts; the latter two empty unless asked for.
fn flat(t: &Tensor, sort: bool, inverse: bool, counts: bool) -> Result<[Tensor; 3]> {
    let x = contiguous(t)?;
    ordered!("unique", t.dtype(), T => {
        // SAFETY: a contiguous tensor of T.
        let x = unsafe { x.as_slice::<T>() };
        let order: Vec<usize> = if sort {
            let mut items: Vec<(T, i64)> = x.iter().zip(0..).map(|(v, i)| (*v, i)).collect();
            stable_sort(&mut items, less);
            items.iter().map(|(_, i)| *i as usize).collect()
        } else {
            (0..x.len()).collect()
        };
        let (heads, places, lengths) = runs(&order, |i, j| x[i] == x[j]);
        let values: Vec<T> = heads.iter().map(|i| x[*i]).collect();
        Ok([
            factory::from_slice(&values)?,
            if inverse { longs(&places, t.sizes())? } else { longs(&[], &[0])? },
            if counts { longs(&lengths, &[lengths.len() as i64])? } else { longs(&[], &[0])? },
        ])
    })
}

fn compare<T: Ordered>(a: &[T], b: &[T]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        if x < y {
            return Ordering::Less;
        }
        if x > y {
            return Ordering::Greater;
        }
    }
    Ordering::Equal
}

/// Distinct slices along a dimension, sorted or where they change; inverse and counts whether or not they were asked for.
fn slices(t: &Tensor, dim: i64, sort: bool) -> Result<Returns> {
    let d = shape::wrap_dim(dim, t.dim())?;
    if t.dim() == 0 {
        bail!(Index, "Dimension specified as {dim} but tensor has no dimensions");
    }
    let zeros = t.sizes().iter().filter(|s| **s == 0).count();
    if t.sizes()[d] == 0 {
        check!(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
        let out = factory::empty(t.sizes(), t.dtype(), t.device())?;
        return Ok([out, longs(&[], &[0])?, longs(&[], &[0])?].into_returns());
    }
    check!(zeros == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    let moved = contiguous(&moved(t, d, 0))?;
    let n = t.sizes()[d] as usize;
    let width = t.numel() as usize / n;
    // Truth values are compared as the bytes they are.
    let compared = if t.dtype() == DType::Bool { convert(&moved, DType::Byte)? } else { moved.clone() };
    let (heads, places, lengths) = ordered!("unique_dim", compared.dtype(), T => {
        // SAFETY: a contiguous tensor of T.
        let x = unsafe { compared.as_slice::<T>() };
        let slice = |i: usize| &x[i * width..(i + 1) * width];
        let mut order: Vec<usize> = (0..n).collect();
        if sort {
            order.sort_by(|a, b| compare(slice(*a), slice(*b)));
        }
        runs(&order, |i, j| slice(i).iter().zip(slice(j)).all(|(a, b)| a == b))
    });
    let index: Vec<i64> = heads.iter().map(|i| *i as i64).collect();
    let picked = op::index_select.call((&moved, 0, factory::from_slice(&index)?))?;
    let out = self::moved(&picked, 0, d);
    Ok([out, longs(&places, &[n as i64])?, longs(&lengths, &[lengths.len() as i64])?].into_returns())
}

/// The tensor with dimension `from` moved to `to`.
fn moved(t: &Tensor, from: usize, to: usize) -> Tensor {
    let mut order: Vec<usize> = (0..t.dim()).filter(|d| *d != from).collect();
    order.insert(to, from);
    let sizes: IntList = order.iter().map(|d| t.sizes()[*d]).collect();
    let strides: IntList = order.iter().map(|d| t.strides()[*d]).collect();
    let out = t.alias_with(sizes, strides, t.storage_offset());
    out.set_key_set(t.key_set());
    out
}
