//! Reductions of consecutive segments: `segment_reduce`.

use super::copy::{contiguous, convert};
use crate::cpu::rows::Real;
use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::tensor::{factory, shape};
use crate::{DType, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.cpu(op::segment_reduce, segment_reduce);
}

/// What is made of a segment.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Max,
    Mean,
    Min,
    Sum,
    Prod,
}

/// Where the segments of each outer row begin, and how long they are.
fn bounds(a: Args<'_>, t: &Tensor) -> Result<(Tensor, bool)> {
    let (lengths, offsets) = (a.opt_tensor(2), a.opt_tensor(4));
    check!(a.opt_tensor(3).is_none(), "segment_reduce(): indices based reduction is not supported yet.");
    let Some(list) = lengths.or(offsets) else {
        bail!(Runtime, "segment_reduce(): Either lengths or offsets must be defined.")
    };
    let name = if lengths.is_some() { "lengths" } else { "offsets" };
    check!(
        matches!(list.dtype(), DType::Int | DType::Long),
        NotImplemented;
        "\"_segment_reduce_{name}_cpu_kernel1\" not implemented for '{}'",
        list.dtype()
    );
    let axis = shape::wrap_dim(a.int(5)?, t.dim())?;
    check!(t.dim() > axis, "segment_reduce(): the input has no dimension {axis}");
    check!(
        list.dim() == axis + 1,
        "segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
    );
    check!(
        list.sizes()[..axis] == t.sizes()[..axis],
        "segment_reduce(): Expected {name} and the input to have the same sizes before axis"
    );
    Ok((contiguous(&convert(list, DType::Long)?)?, lengths.is_some()))
}

/// segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None,
/// int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor
fn segment_reduce(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let kind = match a.str(1)? {
        "max" | "amax" => Kind::Max,
        "mean" => Kind::Mean,
        "min" | "amin" => Kind::Min,
        "sum" => Kind::Sum,
        "prod" => Kind::Prod,
        other => bail!(Runtime, "reduce argument must be either sum, prod, mean, amax or amin, got {other}"),
    };
    let (list, by_length) = bounds(a, t)?;
    let axis = list.dim() - 1;
    let n = t.sizes()[axis];
    let per_row = list.sizes()[axis] as usize;
    let count = if by_length { per_row } else { per_row.saturating_sub(1) };
    // SAFETY: a contiguous tensor of int64.
    let rows = unsafe { list.as_slice::<i64>() };
    let outer: usize = t.sizes()[..axis].iter().product::<i64>() as usize;
    let inner: usize = t.sizes()[axis + 1..].iter().product::<i64>() as usize;
    let mut segments = Vec::with_capacity(outer * count);
    for row in rows.chunks(per_row.max(1)).take(outer) {
        if by_length {
            check!(row.iter().all(|v| *v >= 0), "lengths contains negative value!");
            let sum: i64 = row.iter().sum();
            check!(
                sum == n || (a.bool(6)? && sum <= n),
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
            );
            let mut at = 0;
            for v in row {
                segments.push((at as usize, *v as usize));
                at += v;
            }
        } else {
            for w in row.windows(2) {
                check!(
                    0 <= w[0] && w[0] <= w[1] && w[1] <= n,
                    "segment_reduce(): offsets must ascend within the input"
                );
                segments.push((w[0] as usize, (w[1] - w[0]) as usize));
            }
        }
    }
    let mut sizes = IntList::from_slice(t.sizes());
    sizes[axis] = count as i64;
    let out = factory::empty(&sizes, t.dtype(), t.device())?;
    let x = contiguous(t)?;
    let initial = a.opt_scalar(7)?.map(|s| s.to_f64());
    dispatch!("_segment_reduce_cpu", t.dtype(), floating, T => {
        // SAFETY: contiguous tensors of T, the second fresh.
        let (x, o) = unsafe { (x.as_slice::<T>(), out.as_mut_slice::<T>()) };
        for (k, (start, len)) in segments.iter().enumerate() {
            for i in 0..inner {
                let first = (k / count * n as usize + start) * inner + i;
                let values = (0..*len).map(|j| x[first + j * inner].wide());
                o[k * inner + i] = <T as Real>::of(reduced::<T>(values, *len, kind, initial));
            }
        }
    });
    Ok(out.into())
}

/// One result; each step is rounded as it would be in the tensor.
fn reduced<T: Real>(values: impl Iterator<Item = f64>, n: usize, kind: Kind, initial: Option<f64>) -> f64 {
    let round = |v: f64| <T as Real>::of(v).wide();
    let start = initial.map(round).unwrap_or(match kind {
        Kind::Max => f64::NEG_INFINITY,
        Kind::Min => f64::INFINITY,
        Kind::Prod => 1.0,
        Kind::Sum | Kind::Mean => 0.0,
    });
    let v = values.fold(start, |a, v| match kind {
        Kind::Max if v.is_nan() || a < v => v,
        Kind::Min if v.is_nan() || v < a => v,
        Kind::Max | Kind::Min => a,
        Kind::Sum | Kind::Mean => round(a + v),
        Kind::Prod => round(a * v),
    });
    match kind {
        Kind::Mean if n == 0 && initial.is_none() => f64::NAN,
        Kind::Mean if n > 0 => v / n as f64,
        _ => v,
    }
}
