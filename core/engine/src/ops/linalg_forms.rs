//! Pseudo-inverses, ranks, condition numbers and equations of tensors, written with the factorisations of `linalg`.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IValue, IntList};
use crate::{DType, MemoryFormat, Result, Scalar, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.explicit(op::linalg_pinv_atol_rtol_tensor, |a| {
        Ok(pinv(a.tensor(0)?, a.opt_tensor(1), a.opt_tensor(2), a.bool(3)?)?.into())
    })
    .implicit(op::linalg_pinv_atol_rtol_float, |a| {
        let (atol, rtol) = (tolerance(&a, 1)?, tolerance(&a, 2)?);
        Ok(call_pinv(a.tensor(0)?, atol, rtol, a.bool(3)?)?.into())
    })
    .implicit(op::linalg_pinv, |a| {
        let (none, rtol) = (number(0.0)?, number(a.double(1)?)?);
        Ok(call_pinv(a.tensor(0)?, Some(none), Some(rtol), a.bool(2)?)?.into())
    })
    .implicit(op::linalg_pinv_rcond_tensor, |a| {
        Ok(call_pinv(a.tensor(0)?, Some(number(0.0)?), Some(a.tensor(1)?.clone()), a.bool(2)?)?.into())
    })
    .implicit(op::pinverse, |a| Ok(op::linalg_pinv.call((a.tensor(0)?, a.double(1)?, false))?.into()))
    .implicit(op::linalg_matrix_rank_atol_rtol_tensor, |a| {
        rank(a.tensor(0)?, a.opt_tensor(1).cloned(), a.opt_tensor(2).cloned(), a.bool(3)?)
    })
    .implicit(op::linalg_matrix_rank_atol_rtol_float, |a| {
        rank(a.tensor(0)?, tolerance(&a, 1)?, tolerance(&a, 2)?, a.bool(3)?)
    })
    .implicit(op::linalg_matrix_rank, |a| {
        rank(a.tensor(0)?, Some(number(a.double(1)?)?), Some(number(0.0)?), a.bool(2)?)
    })
    .implicit(op::linalg_matrix_rank_tol_tensor, |a| {
        rank(a.tensor(0)?, Some(a.tensor(1)?.clone()), Some(number(0.0)?), a.bool(2)?)
    })
    .implicit(op::linalg_cond, |a| cond(a.tensor(0)?, a.0[1].clone()))
    .implicit(op::linalg_cond_p_str, |a| cond(a.tensor(0)?, a.0[1].clone()))
    .implicit(op::linalg_tensorsolve, tensorsolve)
    .implicit(op::linalg_tensorinv, tensorinv)
    .explicit(op::cholesky_solve, cholesky_solve)
    .explicit(op::cholesky_inverse, cholesky_inverse);
}

fn number(v: f64) -> Result<Tensor> {
    crate::tensor::factory::scalar_tensor(Scalar::Float(v), DType::Double)
}

/// The optional number argument `i` as a tensor.
fn tolerance(a: &Args<'_>, i: usize) -> Result<Option<Tensor>> {
    match &a.0[i] {
        IValue::None => Ok(None),
        v => Ok(Some(number(v.double()?)?)),
    }
}

fn call_pinv(t: &Tensor, atol: Option<Tensor>, rtol: Option<Tensor>, hermitian: bool) -> Result<Tensor> {
    let given = |t: Option<Tensor>| t.map_or(IValue::None, IValue::from);
    op::linalg_pinv_atol_rtol_tensor.call((t, given(atol), given(rtol), hermitian))
}

#[allow(non_snake_case)]
fn mH(t: &Tensor) -> Result<Tensor> {
    op::conj.call((op::transpose_int.call((t, -2, -1))?,))
}

/// The smallest value that counts: the greater of `atol` and `rtol` times the greatest value. `rtol` is by default the dtype's
/// epsilon times the longer side where `atol` is not positive, and zero elsewhere.
fn threshold(t: &Tensor, greatest: &Tensor, atol: Option<&Tensor>, rtol: Option<&Tensor>) -> Result<Tensor> {
    let sides = &t.sizes()[t.dim() - 2..];
    let eps = match t.dtype() {
        DType::Double | DType::ComplexDouble => f64::EPSILON,
        _ => f32::EPSILON as f64,
    };
    let zero = number(0.0)?;
    let atol = atol.unwrap_or(&zero);
    let by_size = eps * sides[0].max(sides[1]) as f64;
    let rtol = match rtol {
        Some(rtol) => rtol.clone(),
        None => {
            let positive = op::gt_Scalar.call((atol, 0))?;
            op::where_self.call((positive, number(0.0)?, number(by_size)?))?
        }
    };
    op::maximum.call((atol, op::mul_Tensor.call((rtol, greatest))?))
}

/// linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol, Tensor? rtol, bool hermitian) -> Tensor
fn pinv(t: &Tensor, atol: Option<&Tensor>, rtol: Option<&Tensor>, hermitian: bool) -> Result<Tensor> {
    check!(
        matches!(t.dtype(), DType::Float | DType::Double | DType::ComplexFloat | DType::ComplexDouble)
            && t.dim() >= 2,
        "linalg.pinv({}{{{:?}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types",
        t.dtype().scalar_type_name(),
        t.sizes()
    );
    if t.numel() == 0 {
        let mut sizes = IntList::from_slice(t.sizes());
        let n = sizes.len();
        sizes.swap(n - 2, n - 1);
        return op::new_zeros.call((t, sizes));
    }
    let column = |t: &Tensor| op::unsqueeze.call((t, -1));
    let (atol, rtol) = (atol.map(column).transpose()?, rtol.map(column).transpose()?);
    // Reciprocals of the values that count, zeros for the others.
    let reciprocals = |values: &Tensor| -> Result<Tensor> {
        let size = op::abs.call((values,))?;
        let greatest = op::amax.call((&size, [-1i64], true))?;
        let least = threshold(t, &greatest, atol.as_ref(), rtol.as_ref())?;
        let counts = op::gt_Tensor.call((size, least))?;
        let zero = op::zeros_like.call((values,))?;
        op::where_self.call((counts, op::reciprocal.call((values,))?, zero))
    };
    let row = |t: Tensor| op::unsqueeze.call((t, -2));
    if hermitian {
        let parts = op::linalg_eigh.call_all((t, "L"))?;
        let (values, vectors) = (parts[0].tensor()?, parts[1].tensor()?);
        let scaled = op::mul_Tensor.call((vectors, row(reciprocals(values)?)?))?;
        return op::matmul.call((scaled, mH(vectors)?));
    }
    let parts = op::linalg_svd.call_all((t, false))?;
    let (u, s, vh) = (parts[0].tensor()?, parts[1].tensor()?, parts[2].tensor()?);
    let scaled = op::mul_Tensor.call((mH(vh)?, row(reciprocals(s)?)?))?;
    op::matmul.call((scaled, mH(u)?))
}

fn rank(t: &Tensor, atol: Option<Tensor>, rtol: Option<Tensor>, hermitian: bool) -> Result<Returns> {
    check!(t.dim() >= 2, "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.");
    let batch = IntList::from_slice(&t.sizes()[..t.dim() - 2]);
    if t.numel() == 0 {
        return Ok(op::zeros.call((batch, DType::Long, IValue::None, t.device()))?.into());
    }
    let values = if hermitian {
        op::abs.call((op::linalg_eigvalsh.call((t, "L"))?,))?
    } else {
        op::linalg_svdvals.call((t,))?
    };
    let greatest = op::amax.call((&values, [-1i64], false))?;
    let least = threshold(t, &greatest, atol.as_ref(), rtol.as_ref())?;
    let counts = op::gt_Tensor.call((values, op::unsqueeze.call((least, -1))?))?;
    Ok(op::sum_dim_IntList.call((counts, [-1i64]))?.into())
}

/// linalg_cond(Tensor self, Scalar? p=None) -> Tensor, and with the name of a norm.
fn cond(t: &Tensor, p: IValue) -> Result<Returns> {
    check!(t.dim() >= 2, "linalg.cond: The input tensor A must have at least 2 dimensions.");
    let name = match &p {
        IValue::None => None,
        v => v.str().ok().map(str::to_owned),
    };
    let order = match (&p, &name) {
        (IValue::None, _) => Some(2.0),
        (_, Some(_)) => None,
        (v, None) => Some(v.scalar()?.to_f64()),
    };
    match (&name, order) {
        (Some(n), _) => check!(n == "fro" || n == "nuc", Value; "linalg.cond got an invalid norm type: {n}"),
        (None, Some(v)) => check!(
            v.abs() == 1.0 || v.abs() == 2.0 || v.is_infinite(),
            Value;
            "linalg.cond got an invalid norm type: {v}"
        ),
        _ => {}
    }
    if t.numel() == 0 {
        let batch = IntList::from_slice(&t.sizes()[..t.dim() - 2]);
        let real = t.dtype().to_real();
        return Ok(op::zeros.call((batch, real, IValue::None, t.device()))?.into());
    }
    if let Some(v) = order
        && v.abs() == 2.0
    {
        let s = op::linalg_svdvals.call((t,))?;
        let (first, last) = (op::select_int.call((&s, -1, 0))?, op::select_int.call((&s, -1, -1))?);
        let ratio = if v > 0.0 { (first, last) } else { (last, first) };
        return Ok(op::div_Tensor.call(ratio)?.into());
    }
    let (m, n) = (t.sizes()[t.dim() - 2], t.sizes()[t.dim() - 1]);
    check!(
        m == n,
        "linalg.cond(ord={}): A must be batches of square matrices, but they are {m} by {n} matrices",
        name.clone().unwrap_or_else(|| match order {
            Some(v) if v == f64::INFINITY => "inf".into(),
            Some(v) if v == f64::NEG_INFINITY => "-inf".into(),
            Some(v) => v.to_string(),
            None => String::new(),
        })
    );
    let parts = op::linalg_inv_ex.call_all((t, false))?;
    let (inverse, info) = (parts[0].tensor()?, parts[1].tensor()?);
    let singular = op::gt_Scalar.call((info, 0))?;
    let wide = op::unsqueeze.call((op::unsqueeze.call((&singular, -1))?, -1))?;
    let inverse = op::masked_fill_Scalar.call((inverse, wide, f64::INFINITY))?;
    let norm = |t: &Tensor| match &name {
        Some(name) => op::linalg_matrix_norm_str_ord.call((t, name.as_str(), [-2i64, -1])),
        None => op::linalg_matrix_norm.call((t, p.scalar()?, [-2i64, -1])),
    };
    Ok(op::mul_Tensor.call((norm(t)?, norm(&inverse)?))?.into())
}

/// linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor
fn tensorsolve(a: Args<'_>) -> Result<Returns> {
    let (t, other) = (a.tensor(0)?, a.tensor(1)?);
    let mut t = t.clone();
    if let Some(dims) = a.0[2].opt_int_list()? {
        let dims = dims.to_vec();
        let end: IntList = (0..dims.len() as i64).map(|i| t.dim() as i64 - dims.len() as i64 + i).collect();
        t = op::movedim_intlist.call((&t, dims, end))?;
    }
    let split = other.dim().min(t.dim());
    let shape = IntList::from_slice(&t.sizes()[split..]);
    // Upstream takes the second product from `other`, which has to fit in any case.
    let (unknowns, equations) = (shape.iter().product::<i64>(), other.numel());
    check!(
        unknowns == equations,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got \
         {unknowns} != {equations}"
    );
    let square = op::reshape.call((t, [equations, unknowns]))?;
    let right = op::flatten_using_ints.call((other, 0, -1))?;
    Ok(op::reshape.call((op::linalg_solve.call((square, right))?, shape))?.into())
}

/// linalg_tensorinv(Tensor self, int ind=2) -> Tensor
fn tensorinv(a: Args<'_>) -> Result<Returns> {
    let (t, ind) = (a.tensor(0)?, a.int(1)?);
    check!(ind > 0, "Expected a strictly positive integer for 'ind', but got {ind}");
    let split = (ind as usize).min(t.dim());
    let (start, end) = t.sizes().split_at(split);
    let (rows, columns): (i64, i64) = (start.iter().product(), end.iter().product());
    check!(
        rows == columns,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {columns} != {rows}"
    );
    let inverse = op::linalg_inv.call((op::reshape.call((t, [rows, columns]))?,))?;
    let sizes: IntList = end.iter().chain(start).copied().collect();
    Ok(op::reshape.call((inverse, sizes))?.into())
}

/// A copy whose matrices lie column by column, as upstream's LAPACK results do.
fn column_major(t: &Tensor) -> Result<Tensor> {
    let turned = op::transpose_int.call((t, -2, -1))?;
    op::transpose_int.call((op::clone.call((turned, MemoryFormat::Contiguous))?, -2, -1))
}

/// The lower factor, of which only the triangle is read.
fn lower(t: &Tensor, upper: bool) -> Result<Tensor> {
    if upper { mH(t) } else { Ok(t.clone()) }
}

/// cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor
fn cholesky_solve(a: Args<'_>) -> Result<Returns> {
    let (b, t, upper) = (a.tensor(0)?, a.tensor(1)?, a.bool(2)?);
    check!(b.dim() >= 2, "b should have at least 2 dimensions, but has {} dimensions instead", b.dim());
    check!(t.dim() >= 2, "u should have at least 2 dimensions, but has {} dimensions instead", t.dim());
    check!(
        b.dtype() == t.dtype(),
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        b.dtype().scalar_type_name(),
        t.dtype().scalar_type_name()
    );
    let (m, n) = (t.sizes()[t.dim() - 2], t.sizes()[t.dim() - 1]);
    let (rows, columns) = (b.sizes()[b.dim() - 2], b.sizes()[b.dim() - 1]);
    check!(m == n, "A must be batches of square matrices, but they are {m} by {n} matrices");
    check!(
        n == rows,
        "Incompatible matrix sizes for cholesky_solve: each A matrix is {n} by {n} but each b matrix is {rows} by {columns}"
    );
    let l = lower(t, upper)?;
    let half = op::linalg_solve_triangular.call((&l, b, false))?;
    Ok(column_major(&op::linalg_solve_triangular.call((mH(&l)?, half, true))?)?.into())
}

/// cholesky_inverse(Tensor self, bool upper=False) -> Tensor
fn cholesky_inverse(a: Args<'_>) -> Result<Returns> {
    let (t, upper) = (a.tensor(0)?, a.bool(1)?);
    check!(t.dim() >= 2, "cholesky_inverse: The input tensor A must have at least 2 dimensions.");
    let (m, n) = (t.sizes()[t.dim() - 2], t.sizes()[t.dim() - 1]);
    check!(
        m == n,
        "cholesky_inverse: A must be batches of square matrices, but they are {m} by {n} matrices"
    );
    if !matches!(t.dtype(), DType::Float | DType::Double | DType::ComplexFloat | DType::ComplexDouble) {
        bail!(
            NotImplemented,
            "\"cholesky_inverse_out_cpu\" not implemented for '{}'",
            t.dtype().scalar_type_name()
        );
    }
    if t.numel() == 0 {
        return Ok(op::zeros_like.call((t,))?.into());
    }
    let l = lower(t, upper)?;
    let eye = op::eye.call((n, t.dtype(), IValue::None, t.device()))?;
    let half = op::linalg_solve_triangular.call((&l, eye, false))?;
    Ok(column_major(&op::linalg_solve_triangular.call((mH(&l)?, half, true))?)?.into())
}
