//! Products of groups of rows, columns or inner dimensions with matrices of their own: `_grouped_mm`.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::{DType, Result, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::_grouped_mm, grouped_mm);
}

/// How many elements of a dtype are sixteen bytes: rows start at multiples of them.
fn alignment(t: &Tensor) -> i64 {
    16 / t.itemsize() as i64
}

fn check_layout(t: &Tensor) -> Result<()> {
    let n = t.dim();
    let (rows, columns) = (t.sizes()[n - 2], t.sizes()[n - 1]);
    let (down, along) = (t.strides()[n - 2], t.strides()[n - 1]);
    let step = if along == 1 && down >= columns.max(1) {
        down
    } else if down == 1 && along >= rows.max(1) {
        along
    } else {
        bail!(
            Runtime,
            "Invalid strides/sizes, got {:?} for strides and {:?} for sizes",
            t.strides(),
            t.sizes()
        );
    };
    check!(step % alignment(t) == 0, "strides should be multiple of 16 bytes");
    Ok(())
}

fn check_dtype(name: &str, t: &Tensor) -> Result<()> {
    check!(
        matches!(t.dtype(), DType::Float | DType::BFloat16 | DType::Half),
        "Expected {name} to be Float32, BFloat16 or Float16 matrix, got {}",
        t.dtype().scalar_type_name()
    );
    Ok(())
}

fn check_arguments(x: &Tensor, y: &Tensor, ends: Option<&Tensor>) -> Result<()> {
    check_dtype("mat_a", x)?;
    check_dtype("mat_b", y)?;
    check!(
        x.dtype() == y.dtype(),
        "Expected mat_a and mat_b to have the same dtype, got {} and {}",
        x.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    check!(x.dim() == 2 || x.dim() == 3, "mat_a has to be 2 or 3d");
    check!(y.dim() == 2 || y.dim() == 3, "mat_b has to be 2 or 3d");
    let both_3d = x.dim() == 3 && y.dim() == 3;
    check!(
        x.sizes()[x.dim() - 1] == y.sizes()[y.dim() - 2],
        "contraction dimension of mat_a and mat_b must match"
    );
    check_layout(x)?;
    check_layout(y)?;
    check!(
        ends.is_some() != both_3d,
        "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
    );
    if let Some(ends) = ends {
        check!(ends.dim() == 1, "offs has to be 1D");
        check!(ends.dtype() == DType::Int, "Offsets have to be int32");
    }
    Ok(())
}

/// The result, whose rows start at multiples of sixteen bytes.
fn result(x: &Tensor, y: &Tensor, ends: Option<&Tensor>) -> Result<Tensor> {
    let (rows, columns) = (x.sizes()[x.dim() - 2], y.sizes()[y.dim() - 1]);
    let groups = ends.map(|e| e.sizes()[0]);
    let step = alignment(x);
    let padded = (columns + step - 1) / step * step;
    let (sizes, strides): (IntList, IntList) = match (x.dim(), y.dim(), groups) {
        (2, 2, Some(g)) => {
            (IntList::from_slice(&[g, rows, columns]), IntList::from_slice(&[rows * padded, padded, 1]))
        }
        (3, 3, _) => {
            check!(x.sizes()[0] == y.sizes()[0], "batched dimension has to match");
            let g = x.sizes()[0];
            (IntList::from_slice(&[g, rows, columns]), IntList::from_slice(&[rows * padded, padded, 1]))
        }
        (dx, _, groups) => {
            let batches = if dx == 2 { y.sizes()[0] } else { x.sizes()[0] };
            check!(groups == Some(batches), "matrix batch sizes have to match");
            (IntList::from_slice(&[rows, columns]), IntList::from_slice(&[padded, 1]))
        }
    };
    op::empty_strided.call((sizes, strides, x.dtype(), (), x.device(), ()))
}

fn grouped_mm(a: Args<'_>) -> Result<Returns> {
    let (x, y, ends) = (a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2));
    check_arguments(x, y, ends)?;
    check!(a.opt_tensor(3).is_none(), "Bias not supported yet");
    check!(
        a.opt_dtype(4)?.is_none_or(|d| d == x.dtype()),
        "Grouped gemm output dtype must match `mat_a` dtype"
    );
    let out = result(x, y, ends)?;
    let Some(ends) = ends else {
        op::bmm_out.call((x, y, &out))?;
        return Ok(out.into());
    };
    let narrowed = |t: &Tensor, dim: i64, start: i64, end: i64| op::narrow.call((t, dim, start, end - start));
    let selected = |t: &Tensor, i: i64| op::select_int.call((t, 0, i));
    // Rows that no group covers stay as they are made, as upstream's do; zero is one of the values they may have.
    op::zero_.call((&out,))?;
    let mut start = 0;
    for i in 0..ends.sizes()[0] {
        let end = crate::ops::options::item(&selected(ends, i)?)?.to_i64();
        let (left, right, target) = match (x.dim(), y.dim()) {
            (2, 2) => (narrowed(x, 1, start, end)?, narrowed(y, 0, start, end)?, selected(&out, i)?),
            (2, _) => (narrowed(x, 0, start, end)?, selected(y, i)?, narrowed(&out, 0, start, end)?),
            _ => (selected(x, i)?, narrowed(y, 1, start, end)?, narrowed(&out, 1, start, end)?),
        };
        if target.numel() > 0 {
            op::mm_out.call((left, right, target))?;
        }
        start = end;
    }
    Ok(out.into())
}
