//! Products composed of others: `matmul`, `linear`, `outer`.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::tensor::shape;
use crate::{Result, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::matmul, |a| Ok(matmul(a.tensor(0)?, a.tensor(1)?)?.into()))
        .implicit(op::linear, linear)
        .implicit(op::outer, outer)
        .implicit(op::ger, |a| Ok(op::outer.call((a.tensor(0)?, a.tensor(1)?))?.into()));
}

/// Whether a product of a tensor of three or more dimensions and one of one or two becomes a single matrix product
/// rather than a batched one.
fn should_fold(x: &Tensor, y: &Tensor) -> bool {
    let larger_first = x.dim() >= y.dim();
    let (big, small) = if larger_first { (x, y) } else { (y, x) };
    if !(big.dim() >= 3 && small.dim() <= 2) {
        return false;
    }
    // A copy of the larger one costs less than the gradient of an expanded smaller one.
    if small.requires_grad() {
        return true;
    }
    // The product would come out transposed and be copied.
    if x.dim() == 2 {
        return false;
    }
    if big.numel() == 0 {
        return true;
    }
    let (mut sizes, mut strides) = (IntList::from_slice(big.sizes()), IntList::from_slice(big.strides()));
    let n = sizes.len();
    if !larger_first {
        sizes.swap(n - 1, n - 2);
        strides.swap(n - 1, n - 2);
    }
    (0..n - 2).all(|i| strides[i] == strides[i + 1] * sizes[i + 1])
}

fn transposed(t: &Tensor) -> Result<Tensor> {
    op::transpose_int.call((t, -2, -1))
}

fn matmul(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (dx, dy) = (x.dim(), y.dim());
    check!(
        dx != 0 && dy != 0,
        "both arguments to matmul need to be at least 1D, but they are {dx}D and {dy}D"
    );
    match (dx, dy) {
        (1, 1) => return op::dot.call((x, y)),
        (2, 1) => return op::mv.call((x, y)),
        (1, 2) => {
            let row = op::unsqueeze.call((x, 0))?;
            return op::squeeze__dim.call((op::mm.call((&row, y))?, 0));
        }
        (2, 2) => return op::mm.call((x, y)),
        _ => {}
    }
    if should_fold(x, y) {
        return folded(x, y);
    }
    let (sx, sy) = (x.sizes(), y.sizes());
    let (bx, by) = (&sx[..dx.saturating_sub(2)], &sy[..dy.saturating_sub(2)]);
    if dx == 3 && dy == 3 && bx[0] != by[0] {
        if bx[0] == 1 && x.requires_grad() {
            return matmul(&op::squeeze_dim.call((x, 0))?, y);
        }
        if by[0] == 1 && y.requires_grad() {
            return matmul(x, &op::squeeze_dim.call((y, 0))?);
        }
    }
    let n = if dx > 1 { sx[dx - 2] } else { 1 };
    let m1 = sx[dx - 1];
    let (m2, p) = if dy > 1 { (sy[dy - 2], sy[dy - 1]) } else { (sy[0], 1) };
    let batch = shape::broadcast(bx, by)?;
    let count: i64 = batch.iter().product();
    let expand = |t: &Tensor, rows: i64, cols: i64| -> Result<Tensor> {
        let mut sizes = batch.clone();
        sizes.extend([rows, cols]);
        let wide = op::expand.call((t, sizes))?;
        op::reshape.call((&wide, [count, rows, cols]))
    };
    let xe = expand(x, n, m1)?;
    let ye = if dy == 1 { expand(&op::unsqueeze.call((y, 1))?, m2, p)? } else { expand(y, m2, p)? };
    let mut out = batch.clone();
    if dx > 1 {
        out.push(n);
    }
    let product = op::bmm.call((&xe, &ye))?;
    if dy == 1 {
        return op::_unsafe_view.call((op::squeeze_dim.call((&product, -1))?, out));
    }
    out.push(p);
    op::_unsafe_view.call((&product, out))
}

/// The product with the larger operand's leading dimensions folded into rows.
fn folded(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let larger_first = x.dim() >= y.dim();
    let (big, small) = if larger_first {
        (x.clone(), y.clone())
    } else {
        (transposed(y)?, if x.dim() == 2 { op::t.call((x,))? } else { x.clone() })
    };
    let sizes = big.sizes();
    let mut out = IntList::from_slice(&sizes[..sizes.len() - 1]);
    let rows: i64 = out.iter().product();
    let flat = op::reshape.call((&big, [rows, sizes[sizes.len() - 1]]))?;
    if small.dim() == 1 {
        return op::_unsafe_view.call((op::mv.call((&flat, &small))?, out));
    }
    out.push(small.sizes()[1]);
    let product = op::_unsafe_view.call((op::mm.call((&flat, &small))?, out))?;
    if larger_first { Ok(product) } else { op::contiguous.call((transposed(&product)?,)) }
}

/// linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
fn linear(a: Args<'_>) -> Result<Returns> {
    let (x, w) = (a.tensor(0)?, a.tensor(1)?);
    check!(
        x.dim() != 0 && w.dim() != 0,
        "both arguments to linear need to be at least 1D, but they are {}D and {}D",
        x.dim(),
        w.dim()
    );
    let Some(bias) = a.opt_tensor(2) else {
        return Ok(matmul(x, &op::t.call((w,))?)?.into());
    };
    if x.dim() == 2 {
        return Ok(op::addmm.call((bias, x, op::t.call((w,))?))?.into());
    }
    if x.is_contiguous() {
        let sizes = x.sizes();
        let (last, lead) = (sizes[sizes.len() - 1], &sizes[..sizes.len() - 1]);
        let flat = op::reshape.call((x, [lead.iter().product(), last]))?;
        let product = op::addmm.call((bias, &flat, op::t.call((w,))?))?;
        let mut out = IntList::from_slice(lead);
        out.push(product.sizes()[1]);
        return Ok(op::_unsafe_view.call((&product, out))?.into());
    }
    let product = matmul(x, &op::t.call((w,))?)?;
    Ok(op::add_Tensor.call((&product, bias))?.into())
}

/// outer(Tensor self, Tensor vec2) -> Tensor
fn outer(a: Args<'_>) -> Result<Returns> {
    let (x, y) = (a.tensor(0)?, a.tensor(1)?);
    check!(x.dim() == 1, "outer: Expected 1-D argument self, but got {}-D", x.dim());
    check!(y.dim() == 1, "outer: Expected 1-D argument vec2, but got {}-D", y.dim());
    let column = op::reshape.call((x, [x.sizes()[0], 1]))?;
    Ok(op::mul_Tensor.call((&column, y))?.into())
}
