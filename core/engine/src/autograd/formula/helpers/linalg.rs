//! Derivatives of matrix decompositions and solvers. `mH` is the conjugate transpose; gradients follow the convention that
//! `dL = Re tr(gA^H dA)`.

use super::{Helper, conj};
use crate::autograd::formula::eval::Value;
use crate::ivalue::IntList;
use crate::{Result, Scalar, Tensor, bail, check, op};

pub const HELPERS: &[(&str, Helper)] = &[
    ("cholesky_backward", cholesky),
    ("linalg_solve_triangular_backward", solve_triangular),
    ("linalg_solve_backward", solve),
    ("linalg_det_backward", det),
    ("slogdet_backward", slogdet),
    ("linalg_qr_backward", qr),
    ("linalg_eig_backward", eig),
    ("svd_backward", svd),
    ("pinv_backward", pinv),
    ("cholesky_solve_backward", |a| {
        // grad, self, input2, result, upper, mask
        let (grad, factor, x, upper) = (a[0].tensor()?, a[2].tensor()?, a[3].tensor()?, a[4].boolean()?);
        let mask = super::elementwise::bools(&a[5])?;
        let to_self = op::cholesky_solve.call((grad, factor, upper))?;
        let to_factor = if mask[1] {
            let outer = product(&to_self, &mH(x)?)?;
            let outer = add(&outer, &mH(&outer)?)?;
            Some(neg(if upper { product(factor, &outer)? } else { product(&outer, factor)? })?)
        } else {
            None
        };
        Ok(Value::Tuple(vec![value(mask[0].then_some(to_self)), value(to_factor)]))
    }),
    ("cholesky_inverse_backward", |a| {
        // grad, self, upper, result
        let (grad, factor, upper, inverse) =
            (a[0].tensor()?, a[1].tensor()?, a[2].boolean()?, a[3].tensor()?);
        let outer = product(&product(inverse, &add(grad, &mH(grad)?)?)?, inverse)?;
        Ok(neg(if upper { product(factor, &outer)? } else { product(&outer, factor)? })?.into())
    }),
];

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::add_Tensor.call((a, b))
}
fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::sub_Tensor.call((a, b))
}
fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::mul_Tensor.call((a, b))
}
fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::div_Tensor.call((a, b))
}
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::matmul.call((a, b))
}
fn neg(a: Tensor) -> Result<Tensor> {
    op::neg.call((a,))
}
#[allow(non_snake_case)]
fn mH(a: &Tensor) -> Result<Tensor> {
    conj(&op::transpose_int.call((a, -2, -1))?)
}
fn row(a: &Tensor) -> Result<Tensor> {
    op::unsqueeze.call((a, -2))
}
fn column(a: &Tensor) -> Result<Tensor> {
    op::unsqueeze.call((a, -1))
}
fn narrow(a: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    op::narrow.call((a, dim, start, length))
}
fn diagonal(a: &Tensor) -> Result<Tensor> {
    op::diagonal.call((a, 0, -2, -1))
}
fn diag_embed(a: &Tensor) -> Result<Tensor> {
    op::diag_embed.call((a, 0, -2, -1))
}
fn value(t: Option<Tensor>) -> Value {
    t.map_or(Value::UNDEFINED, Value::from)
}

/// gL, upper, L: `gA = 1/2 L^-H (T + T_strict^H) L^-1` with `T` the lower triangle of `L^H gL`.
fn cholesky(a: &[Value]) -> Result<Value> {
    let (grad, upper, l) = (a[0].tensor()?, a[1].boolean()?, a[2].tensor()?);
    let (grad, l) = if upper { (mH(grad)?, mH(l)?) } else { (grad.clone(), l.clone()) };
    let lh = mH(&l)?;
    let phi = product(&lh, &grad)?;
    let whole = add(&op::tril.call((&phi,))?, &mH(&op::tril.call((&phi, -1))?)?)?;
    let right = op::linalg_solve_triangular.call((&l, whole, false, false))?;
    let both = op::linalg_solve_triangular.call((lh, right, true))?;
    Ok(op::mul_Scalar.call((both, 0.5))?.into())
}

/// grad, A, X, upper, left, unitriangular, mask: `gB` solves with `A^H`; `gA` is the triangle of `-gB X^H`.
fn solve_triangular(a: &[Value]) -> Result<Value> {
    let (grad, m, x) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    let (upper, left, unit) = (a[3].boolean()?, a[4].boolean()?, a[5].boolean()?);
    let mask = super::elementwise::bools(&a[6])?;
    let to_b = op::linalg_solve_triangular.call((mH(m)?, grad, !upper, left, unit))?;
    let to_a = if mask[0] {
        let xh = mH(x)?;
        let full = neg(if left { product(&to_b, &xh)? } else { product(&xh, &to_b)? })?;
        let from = unit as i64;
        Some(if upper { op::triu.call((full, from))? } else { op::tril.call((full, -from))? })
    } else {
        None
    };
    Ok(Value::Tuple(vec![value(to_a), value(mask[1].then_some(to_b))]))
}

/// gX, X, A, LU, pivots, left, whether B requires grad: `gB = A^-H gX`, `gA = -gB X^H`.
fn solve(a: &[Value]) -> Result<Value> {
    let (grad, x, m, left) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?, a[5].boolean()?);
    let vector = x.dim() == 1 || (m.dim() == x.dim() + 1 && *x.sizes() == m.sizes()[..m.dim() - 1]);
    let to_b = op::linalg_solve.call((mH(m)?, grad, left))?;
    let (g, x) = if vector { (column(&to_b)?, column(x)?) } else { (to_b.clone(), x.clone()) };
    let xh = mH(&x)?;
    let to_a = neg(if left { product(&g, &xh)? } else { product(&xh, &g)? })?;
    Ok(Value::Tuple(vec![to_a.into(), value(a[6].boolean()?.then_some(to_b))]))
}

/// grad, det, A, LU, pivots: the conjugate cofactors, by the inverse where there is one and by singular values otherwise.
fn det(a: &[Value]) -> Result<Value> {
    let (grad, det, m) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    let wide = |t: &Tensor| column(&column(t)?);
    let singular = op::any.call((op::eq_Scalar.call((det, 0))?,))?;
    if m.numel() == 0 || !op::is_nonzero.call_all((singular,))?[0].bool()? {
        let inverse = op::linalg_inv.call((m,))?;
        return Ok(mul(&wide(&mul(grad, &conj(det)?)?)?, &mH(&inverse)?)?.into());
    }
    let parts = op::linalg_svd.call_all((m, false))?;
    let (u, s, vh) = (parts[0].tensor()?, parts[1].tensor()?, parts[2].tensor()?);
    // The product of all values but one: ones on the diagonal of a matrix that repeats them.
    let n = m.sizes()[m.dim() - 1];
    let mut sizes = IntList::from_slice(s.sizes());
    sizes.push(n);
    let repeated = op::expand.call((row(s)?, sizes))?;
    let eye = op::eye.call((n, crate::DType::Bool, crate::IValue::None, m.device()))?;
    let others = op::prod_dim_int.call((op::masked_fill_Scalar.call((repeated, eye, 1))?, -1))?;
    let phase = mul(&op::linalg_det.call((u,))?, &op::linalg_det.call((vh,))?)?;
    let cofactors = product(&mul(u, &row(&others)?)?, vh)?;
    Ok(mul(&wide(&mul(grad, &conj(&phase)?)?)?, &cofactors)?.into())
}

/// grad of sign, grad of logabsdet, A, sign, LU, pivots: `gA = (g - i Im(conj(gs) sign)) A^-H`.
fn slogdet(a: &[Value]) -> Result<Value> {
    let (m, sign) = (a[2].tensor()?, a[3].tensor()?);
    let mut g = a[1].opt_tensor().cloned();
    if m.dtype().is_complex()
        && let Some(gs) = a[0].opt_tensor()
    {
        let turned = op::imag.call((mul(&conj(gs)?, sign)?,))?;
        let turned = op::mul_Scalar.call((turned, Scalar::Complex(0.0, -1.0)))?;
        g = Some(match g {
            Some(g) => add(&g, &turned)?,
            None => turned,
        });
    }
    let Some(g) = g else { return Ok(Value::UNDEFINED) };
    Ok(mul(&column(&column(&g)?)?, &mH(&op::linalg_inv.call((m,))?)?)?.into())
}

/// gQ, gR, Q, R, mode. With `M = R gR^H - gQ^H Q`, `gA = (gQ + Q copy_lower(M)) R^-H`; of a wide matrix the columns beyond the
/// square part follow `Q`.
fn qr(a: &[Value]) -> Result<Value> {
    let (q, r, mode) = (a[2].tensor()?, a[3].tensor()?, a[4].ivalue()?.str()?);
    check!(
        mode != "r",
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if \
         you are going to differentiate through linalg.qr"
    );
    let (m, n) = (q.sizes()[q.dim() - 2], r.sizes()[r.dim() - 1]);
    check!(
        mode != "complete" || m <= n,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
    );
    check!(
        !q.dtype().is_complex(),
        NotImplemented;
        "the derivative of linalg.qr is not implemented for {}", q.dtype()
    );
    let (mut gq, gr) = (a[0].opt_tensor().cloned(), a[1].opt_tensor().cloned());
    let (mut gr_square, mut r_square, mut rest) = (gr.clone(), r.clone(), None);
    if m < n {
        r_square = narrow(r, -1, 0, m)?;
        if let Some(gr) = &gr {
            gr_square = Some(narrow(gr, -1, 0, m)?);
            let beyond = narrow(gr, -1, m, n - m)?;
            // Y = Q V: its gradient reaches Q by way of the square part.
            let y = product(q, &narrow(r, -1, m, n - m)?)?;
            let part = product(&y, &mH(&beyond)?)?;
            gq = Some(match gq {
                Some(gq) => add(&gq, &part)?,
                None => part,
            });
            rest = Some(product(q, &beyond)?);
        } else {
            rest = Some(op::zeros_like.call((product(q, &narrow(r, -1, m, n - m)?)?,))?);
        }
    }
    let mut middle = match &gr_square {
        Some(gr) => product(&r_square, &mH(gr)?)?,
        None => op::zeros_like.call((&r_square,))?,
    };
    if let Some(gq) = &gq {
        middle = sub(&middle, &product(&mH(gq)?, q)?)?;
    }
    let copied = add(&op::tril.call((&middle,))?, &mH(&op::tril.call((&middle, -1))?)?)?;
    let mut numerator = product(q, &copied)?;
    if let Some(gq) = &gq {
        numerator = add(gq, &numerator)?;
    }
    let square = op::linalg_solve_triangular.call((mH(&r_square)?, numerator, false, false))?;
    Ok(match rest {
        Some(rest) => op::cat.call((vec![square, rest], -1))?,
        None => square,
    }
    .into())
}

/// gL, gV, L, V, whether A is Hermitian.
fn eig(a: &[Value]) -> Result<Value> {
    let (l, v) = (a[2].tensor()?, a[3].tensor()?);
    if !a[4].boolean()? {
        bail!(NotImplemented, "the derivative of linalg.eig is not implemented");
    }
    let (gl, gv) = (a[0].opt_tensor(), a[1].opt_tensor());
    let vh = mH(v)?;
    let Some(gv) = gv else {
        let Some(gl) = gl else { return Ok(Value::UNDEFINED) };
        return Ok(product(&mul(v, &row(gl)?)?, &vh)?.into());
    };
    let inner = product(&vh, gv)?;
    if v.dtype().is_complex() {
        gauge(
            &inner,
            "linalg_eigh_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined.",
        )?;
    }
    let apart = sub(&row(l)?, &column(l)?)?;
    let mut core = off_diagonal(&div(&inner, &one_on_diagonal(&apart)?)?)?;
    if let Some(gl) = gl {
        core = add(&core, &diag_embed(gl)?)?;
    }
    Ok(product(&product(v, &core)?, &vh)?.into())
}

/// Refuses a loss that depends on the phases of vectors: the imaginary diagonal must vanish.
fn gauge(inner: &Tensor, message: &str) -> Result<()> {
    let off = op::abs.call((op::imag.call((diagonal(inner)?,))?,))?;
    let near = op::all.call((op::le_Scalar.call((off, 1e-2))?,))?;
    check!(op::is_nonzero.call_all((near,))?[0].bool()?, "{message}");
    Ok(())
}

fn eye_like(t: &Tensor) -> Result<Tensor> {
    op::eye.call((t.sizes()[t.dim() - 1], crate::DType::Bool, crate::IValue::None, t.device()))
}
fn one_on_diagonal(t: &Tensor) -> Result<Tensor> {
    op::masked_fill_Scalar.call((t, eye_like(t)?, 1))
}
fn off_diagonal(t: &Tensor) -> Result<Tensor> {
    op::masked_fill_Scalar.call((t, eye_like(t)?, 0))
}

/// gU, gS, gVh, U, S, Vh. With `E_ij = S_j^2 - S_i^2` and `skew(X) = X - X^H`,
/// `gA = U (skew(U^H gU)/E S + S skew(V^H gV)/E + gS) V^H` and, for the parts outside of the ranges,
/// `(1 - U U^H) gU S^-1 V^H + U S^-1 gV^H (1 - V V^H)`.
fn svd(a: &[Value]) -> Result<Value> {
    let (gu, gs, gvh) = (a[0].opt_tensor(), a[1].opt_tensor(), a[2].opt_tensor());
    let (u, s, vh) = (a[3].tensor()?, a[4].tensor()?, a[5].tensor()?);
    if gu.is_none() && gvh.is_none() {
        let Some(gs) = gs else { return Ok(Value::UNDEFINED) };
        return Ok(product(&mul(u, &row(gs)?)?, vh)?.into());
    }
    check!(
        !u.dtype().is_complex(),
        NotImplemented;
        "the derivative of singular vectors is not implemented for {}", u.dtype()
    );
    let (m, n, k) = (u.sizes()[u.dim() - 2], vh.sizes()[vh.dim() - 1], s.sizes()[s.dim() - 1]);
    let squares = mul(s, s)?;
    let apart = one_on_diagonal(&sub(&row(&squares)?, &column(&squares)?)?)?;
    let skew = |x: Tensor| -> Result<Tensor> { div(&sub(&x, &mH(&x)?)?, &apart) };
    let mut core = match gs {
        Some(gs) => diag_embed(gs)?,
        None => op::zeros_like.call((&apart,))?,
    };
    let uh = mH(u)?;
    if let Some(gu) = gu {
        core = add(&core, &mul(&skew(product(&uh, gu)?)?, &row(s)?)?)?;
    }
    if let Some(gvh) = gvh {
        core = add(&core, &mul(&column(s)?, &skew(product(vh, &mH(gvh)?)?)?)?)?;
    }
    let mut out = product(&product(u, &core)?, vh)?;
    if let (Some(gu), true) = (gu, m > k) {
        let scaled = div(gu, &row(s)?)?;
        let outside = sub(&scaled, &product(u, &product(&uh, &scaled)?)?)?;
        out = add(&out, &product(&outside, vh)?)?;
    }
    if let (Some(gvh), true) = (gvh, n > k) {
        let scaled = div(gvh, &column(s)?)?;
        let outside = sub(&scaled, &product(&product(&scaled, &mH(vh)?)?, vh)?)?;
        out = add(&out, &product(u, &outside)?)?;
    }
    Ok(out.into())
}

/// grad, pinv(A), A: `-(P gA^H P)^H` and, on the side where the matrix is longer, what leaves its range.
fn pinv(a: &[Value]) -> Result<Value> {
    let (grad, p, m) = (a[0].tensor()?, a[1].tensor()?, a[2].tensor()?);
    let (gh, ph) = (mH(grad)?, mH(p)?);
    if m.sizes()[m.dim() - 2] <= m.sizes()[m.dim() - 1] {
        let k = product(&gh, p)?;
        let kph = product(&k, &ph)?;
        let within = sub(&sub(&kph, &product(&product(m, p)?, &kph)?)?, &mH(&product(p, &k)?)?)?;
        let outside = product(&product(&ph, p)?, &sub(&gh, &product(&k, m)?)?)?;
        return Ok(add(&within, &outside)?.into());
    }
    let k = product(p, &gh)?;
    let phk = product(&ph, &k)?;
    let within = sub(&sub(&phk, &product(&product(&phk, p)?, m)?)?, &mH(&product(&k, p)?)?)?;
    let outside = product(&sub(&gh, &product(m, &k)?)?, &product(p, &ph)?)?;
    Ok(add(&within, &outside)?.into())
}
