//! Order: `sort`, `argsort`, `msort`, `topk`, `kthvalue`, `median`, `nanmedian`, `mode`.

use super::reduce::{deliver, out_dtype, reduced_sizes, with_dim};
use crate::cpu::order::{self, Item, Ordered};
use crate::cpu::{keys, lines};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::dtype::{Convert, Wide};
use crate::ivalue::{Args, IntList};
use crate::tensor::{memory, shape};
use crate::{DType, Result, Tensor, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::sort_stable, sort_meta, sort);
    r.explicit(op::sort, |a| {
        let v = op::sort_stable.call_all((a.tensor(0)?, false, a.int(1)?, a.bool(2)?))?;
        Ok(Returns(v.into_iter().collect()))
    });
    r.explicit(op::sort_values, |a| {
        let args = (a.tensor(0)?, false, a.int(1)?, a.bool(2)?, a.tensor(3)?, a.tensor(4)?);
        Ok(Returns(op::sort_values_stable.call_all(args)?.into_iter().collect()))
    });
    r.implicit(op::argsort, |a| {
        Ok(op::sort.call_all((a.tensor(0)?, a.int(1)?, a.bool(2)?))?.swap_remove(1).into())
    });
    r.implicit(op::argsort_stable, |a| {
        let args = (a.tensor(0)?, a.bool(1)?, a.int(2)?, a.bool(3)?);
        Ok(op::sort_stable.call_all(args)?.swap_remove(1).into())
    });
    r.implicit(op::msort, |a| Ok(op::sort.call_all((a.tensor(0)?, 0, false))?.swap_remove(0).into()));
    r.structured(op::topk, topk_meta, topk);
    r.structured(op::kthvalue, kth_meta, kth);
    r.any_device(op::kthvalue_values, |a| {
        let (t, values, places) = (a.tensor(0)?, a.tensor(4)?, a.tensor(5)?);
        memory::assert_no_overlap(values, t)?;
        out_dtype(Some(t.dtype()), values)?;
        out_dtype(Some(DType::Long), places)?;
        let v = op::kthvalue.call_all((t, a.int(1)?, a.int(2)?, a.bool(3)?))?;
        deliver(values, v[0].tensor()?)?;
        deliver(places, v[1].tensor()?)?;
        Ok((values, places).into())
    });
    r.structured(op::median, median_meta, |a, o| median(a, false, o))
        .structured(op::nanmedian, median_meta, |a, o| median(a, true, o))
        .structured(op::median_dim, median_dim_meta, |a, o| median_dim(a, false, o))
        .structured(op::nanmedian_dim, median_dim_meta, |a, o| median_dim(a, true, o))
        .structured(op::mode, mode_meta, mode);
}

/// Numbers the elements of a line.
fn numbered<T: Ordered>(x: &[T]) -> Vec<Item<T>> {
    x.iter().zip(0..).map(|(v, i)| (*v, i)).collect()
}

fn store<T: Copy>(items: &[Item<T>], v: &mut [T], i: &mut [i64]) {
    for (k, item) in items[..v.len()].iter().enumerate() {
        (v[k], i[k]) = *item;
    }
}

/// sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
fn sort_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    shape::wrap_dim(a.int(2)?, t.dim())?;
    check!(!t.dtype().is_complex(), Type; " Sort does not support complex dtypes on CPU");
    let strides = if t.is_non_overlapping_and_dense() {
        IntList::from_slice(t.strides())
    } else {
        shape::infer_dense_strides(t.sizes(), t.strides())
    };
    Ok(Specs::from_iter([
        OutSpec::like(t, t.sizes()).strides(strides.clone()),
        OutSpec::new(t.sizes(), DType::Long, t.device()).strides(strides),
    ]))
}

fn sort(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let (stable, descending) = (!a.is_none(1) && a.bool(1)?, a.bool(3)?);
    let d = shape::wrap_dim(a.int(2)?, t.dim())?;
    let [t, v, i] = with_dim([t, &out[0], &out[1]], d, t.dim(), true);
    // Upstream sorts these types with vector code whose order of equal elements is nobody's to rely on.
    let stable = stable || matches!(t.dtype(), DType::Float | DType::Double | DType::Int | DType::Long);
    sort_along(&t, d, stable, descending, &v, &i)
}

/// Dispatches over every dtype that has an order.
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

/// Sorts along `d`; a descending sort keeps the order of equal elements too.
fn sort_along(t: &Tensor, d: usize, stable: bool, descending: bool, v: &Tensor, i: &Tensor) -> Result<()> {
    ordered!("sort_cpu", t.dtype(), T => lines::map2::<T, T, i64>(t, d, v, i, |x, v, i| {
        if stable && u32::try_from(x.len()).is_ok() {
            return keys::sort(x, descending, v, i);
        }
        let mut items = numbered(x);
        let before = if descending { order::greater::<T> } else { order::less::<T> };
        if stable {
            order::stable_sort(&mut items, before);
        } else {
            order::sort(&mut items, |a, b| before(a.0, b.0));
        }
        store(&items, v, i);
    }))
}

/// topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)
fn topk_meta(a: Args<'_>) -> Result<Specs> {
    let (t, k) = (a.tensor(0)?, a.int(1)?);
    let d = shape::wrap_dim(a.int(2)?, t.dim())?;
    check!(k >= 0 && k <= if t.dim() > 0 { t.sizes()[d] } else { 1 }, "selected index k out of range");
    check!(!t.dtype().is_complex(), Type; " topk does not support complex dtypes on CPU");
    check!(t.dtype() != DType::Bool, NotImplemented; "topk does not support bool dtypes on CPU");
    let mut sizes = IntList::from_slice(t.sizes());
    if t.dim() > 0 {
        sizes[d] = k;
    }
    Ok(Specs::from_iter([OutSpec::like(t, sizes.clone()), OutSpec::new(sizes, DType::Long, t.device())]))
}

fn topk(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, largest, sorted) = (a.tensor(0)?, a.bool(3)?, a.bool(4)?);
    let k = if t.dim() == 0 { 1 } else { a.int(1)? as usize };
    let d = shape::wrap_dim(a.int(2)?, t.dim())?;
    let [t, v, i] = with_dim([t, &out[0], &out[1]], d, t.dim(), true);
    if k == 0 {
        return Ok(());
    }
    dispatch!("topk_cpu", t.dtype(), all, T => lines::map2::<T, T, i64>(&t, d, &v, &i, |x, v, i| {
        let mut items = numbered(x);
        let before = if largest { order::greater::<T> } else { order::less::<T> };
        let by = |a: Item<T>, b: Item<T>| before(a.0, b.0);
        if k * 64 <= x.len() {
            order::partial_sort(&mut items, k, by);
        } else {
            order::nth_element(&mut items, k - 1, by);
            if sorted {
                order::sort(&mut items[..k - 1], by);
            }
        }
        store(&items, v, i);
    }))
}

/// The specs of a value and its position for each line along `d`.
fn pair(t: &Tensor, d: usize, keepdim: bool) -> Specs {
    let sizes = reduced_sizes(t, if t.dim() == 0 { 0 } else { 1 << d }, keepdim);
    Specs::from_iter([OutSpec::like(t, sizes.clone()), OutSpec::new(sizes, DType::Long, t.device())])
}

/// kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
fn kth_meta(a: Args<'_>) -> Result<Specs> {
    let (t, k) = (a.tensor(0)?, a.int(1)?);
    let d = shape::wrap_dim(a.int(2)?, t.dim())?;
    check!(
        t.dim() == 0 || t.sizes()[d] != 0,
        Index;
        "kthvalue(): Expected reduction dim {d} to have non-zero size."
    );
    check!(
        k >= 1 && k <= if t.dim() > 0 { t.sizes()[d] } else { 1 },
        "kthvalue(): selected number k out of range for dimension {d}"
    );
    Ok(pair(t, d, a.bool(3)?))
}

fn kth(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let k = a.int(1)? as usize - 1;
    let d = shape::wrap_dim(a.int(2)?, t.dim())?;
    let [t, v, i] = with_dim([t, &out[0], &out[1]], d, t.dim(), a.bool(3)?);
    dispatch!("kthvalue_cpu", t.dtype(), all, T => lines::map2::<T, T, i64>(&t, d, &v, &i, |x, v, i| {
        let mut items = numbered(x);
        order::quick_select(&mut items, k, order::greater::<T>);
        (v[0], i[0]) = items[k];
    }))
}

/// median(Tensor self) -> Tensor
fn median_meta(a: Args<'_>) -> Result<Specs> {
    Ok(OutSpec::like(a.tensor(0)?, IntList::new()).into())
}

fn median(a: Args<'_>, skip_nan: bool, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let flat = super::copy::contiguous(t)?;
    dispatch!("median_cpu", t.dtype(), all, T => {
        // SAFETY: a contiguous tensor of T, and a fresh number of T.
        let (x, o) = unsafe { (flat.as_slice::<T>(), out[0].as_mut_slice::<T>()) };
        o[0] = if x.is_empty() { T::from_wide(Wide::F(f64::NAN)) } else { x[median_of(x, skip_nan)] };
    });
    Ok(())
}

/// The position of the lower median; of a NaN when there is one and it is not skipped.
fn median_of<T: Ordered>(x: &[T], skip_nan: bool) -> usize {
    let mut nan = x.iter().filter(|v| v.nan()).count();
    if !skip_nan && nan > 0 {
        return x.iter().position(|v| v.nan()).unwrap_or(0);
    }
    nan = nan.min(x.len() - 1);
    let mut places: Vec<u32> = (0..x.len() as u32).collect();
    let nth = (x.len() - nan - 1) / 2;
    order::nth_element(&mut places, nth, |i, j| {
        let (a, b) = (x[i as usize], x[j as usize]);
        a < b || (a == b && i < j) || (b.nan() && !a.nan())
    });
    places[nth] as usize
}

/// median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
fn median_dim_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    check!(
        t.dim() == 0 || t.sizes()[d] != 0,
        Index;
        "median(): Expected reduction dim {d} to have non-zero size."
    );
    Ok(pair(t, d, a.bool(2)?))
}

fn median_dim(a: Args<'_>, skip_nan: bool, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    let [t, v, i] = with_dim([t, &out[0], &out[1]], d, t.dim(), a.bool(2)?);
    dispatch!("median_out", t.dtype(), all, T => lines::map2::<T, T, i64>(&t, d, &v, &i, |x, v, i| {
        let at = median_of(x, skip_nan);
        (v[0], i[0]) = (x[at], at as i64);
    }))
}

/// mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
fn mode_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    check!(
        t.dim() == 0 || t.sizes()[d] != 0,
        Index;
        "mode(): Expected reduction dim {d} to have non-zero size."
    );
    Ok(pair(t, d, a.bool(2)?))
}

fn mode(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    let d = shape::wrap_dim(a.int(1)?, t.dim())?;
    let [t, v, i] = with_dim([t, &out[0], &out[1]], d, t.dim(), a.bool(2)?);
    dispatch!("mode_cpu", t.dtype(), all_bool, T => lines::map2::<T, T, i64>(&t, d, &v, &i, |x, v, i| {
        let mut items = numbered(x);
        order::sort(&mut items, |a, b| a.0.partial_cmp(&b.0) == Some(std::cmp::Ordering::Less));
        let (mut run, mut longest) = (0, 0);
        for (k, item) in items.iter().enumerate() {
            run += 1;
            if items.get(k + 1).is_none_or(|next| next.0 != item.0) {
                if run > longest {
                    (v[0], i[0], longest) = (item.0, item.1, run);
                }
                run = 0;
            }
        }
    }))
}
