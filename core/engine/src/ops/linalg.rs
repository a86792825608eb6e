//! Dense linear algebra: factorisations, solutions of equations, determinants, eigenvalues and singular values.

use crate::cpu::linalg::{self as dense, Dense};
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::ops::{copy, views};
use crate::tensor::{factory, shape};
use crate::{DType, Error, Result, Scalar, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::linalg_qr, qr_meta, qr)
        .structured(op::geqrf, geqrf_meta, geqrf)
        .structured(op::linalg_householder_product, householder_meta, householder)
        .implicit(op::orgqr, |a| {
            Ok(op::linalg_householder_product.call((a.tensor(0)?, a.tensor(1)?))?.into())
        })
        .structured(op::linalg_lu_factor_ex, lu_meta, lu)
        .implicit(op::linalg_lu_factor, |a| {
            let out = op::linalg_lu_factor_ex.call_all((a.tensor(0)?, a.bool(1)?, false))?;
            Ok((out[0].clone(), out[1].clone()).into())
        })
        .structured(op::linalg_inv_ex, inv_meta, inv)
        .implicit(op::linalg_inv, |a| inverse(a.tensor(0)?))
        .implicit(op::inverse, |a| inverse(a.tensor(0)?))
        .structured(op::_linalg_det, det_meta, det)
        .implicit(op::linalg_det, |a| Ok(op::_linalg_det.call((a.tensor(0)?,))?.into()))
        .implicit(op::det, |a| Ok(op::_linalg_det.call((a.tensor(0)?,))?.into()))
        .structured(op::_linalg_slogdet, slogdet_meta, slogdet)
        .implicit(op::linalg_slogdet, slogdet_pair)
        .implicit(op::slogdet, slogdet_pair)
        .implicit(op::logdet, |a| {
            let out = op::_linalg_slogdet.call_all((a.tensor(0)?,))?;
            let (sign, log) = (out[0].tensor()?, out[1].tensor()?);
            let negative = op::eq_Scalar.call((sign, Scalar::Float(-1.0)))?;
            Ok(op::masked_fill_Scalar.call((log, negative, Scalar::Float(f64::NAN)))?.into())
        })
        .structured(op::linalg_cholesky_ex, cholesky_meta, cholesky)
        .implicit(op::linalg_cholesky, |a| checked_cholesky(a.tensor(0)?, a.bool(1)?, "linalg.cholesky"))
        .structured(op::_linalg_solve_ex, solve_meta, solve)
        .implicit(op::linalg_solve_ex, |a| {
            let out = op::_linalg_solve_ex.call_all((a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?))?;
            Ok((out[0].clone(), out[3].clone()).into())
        })
        .implicit(op::linalg_solve, |a| {
            let out = op::_linalg_solve_ex.call_all((a.tensor(0)?, a.tensor(1)?, a.bool(2)?))?;
            check_info(out[3].tensor()?, |batch, _| {
                format!("torch.linalg.solve: {batch}The solver failed because the input matrix is singular.")
            })?;
            Ok(out[0].tensor()?.into())
        })
        .structured(op::linalg_solve_triangular, triangular_meta, triangular)
        .structured(op::_linalg_eigh, eigh_meta, eigh)
        .implicit(op::linalg_eigh, |a| {
            let out = op::_linalg_eigh.call_all((a.tensor(0)?, a.str(1)?, true))?;
            Ok((out[0].clone(), out[1].clone()).into())
        })
        .implicit(op::linalg_eigvalsh, |a| {
            // The gradient needs the vectors.
            let vectors = needs_gradient(a.tensor(0)?);
            Ok(op::_linalg_eigh.call_all((a.tensor(0)?, a.str(1)?, vectors))?[0].tensor()?.into())
        })
        .structured(op::_linalg_svd, svd_meta, svd)
        .implicit(op::linalg_svd, |a| {
            let out = op::_linalg_svd.call_all((a.tensor(0)?, a.bool(1)?, true))?;
            Ok(Returns(out.into_iter().collect()))
        })
        .implicit(op::linalg_svdvals, |a| {
            let vectors = needs_gradient(a.tensor(0)?);
            let out = op::_linalg_svd.call_all((a.tensor(0)?, false, vectors))?;
            Ok(out[1].tensor()?.into())
        });
}

fn needs_gradient(t: &Tensor) -> bool {
    t.requires_grad() && crate::dispatch::tls::grad_mode()
}

/// Rows and columns of a batch of matrices.
fn rows_cols(t: &Tensor) -> (i64, i64) {
    (t.sizes()[t.dim() - 2], t.sizes()[t.dim() - 1])
}

fn check_matrices(t: &Tensor, name: &str) -> Result<()> {
    check!(t.dim() >= 2, "{name}: The input tensor A must have at least 2 dimensions.");
    Ok(())
}

fn check_square(t: &Tensor, name: &str) -> Result<()> {
    check_matrices(t, name)?;
    let (m, n) = rows_cols(t);
    check!(m == n, "{name}: A must be batches of square matrices, but they are {m} by {n} matrices");
    Ok(())
}

fn check_floating(t: &Tensor, name: &str, narrow: bool) -> Result<()> {
    let d = t.dtype();
    check!(
        d.is_floating_point() || d.is_complex(),
        NotImplemented;
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        d.scalar_type_name()
    );
    check!(
        narrow || !matches!(d, DType::Half | DType::BFloat16),
        NotImplemented;
        "{name}: Low precision dtypes not supported. Got {}",
        d.scalar_type_name()
    );
    Ok(())
}

/// The dtypes that the kernels take.
fn check_kernel(t: &Tensor, name: &str) -> Result<()> {
    match t.dtype() {
        DType::Float | DType::Double => Ok(()),
        other => Err(Error::dtype_not_implemented(name, other)),
    }
}

/// A batch with another pair of last sizes.
fn with_last(t: &Tensor, last: &[i64]) -> IntList {
    let mut s = IntList::from_slice(&t.sizes()[..t.dim() - 2]);
    s.extend_from_slice(last);
    s
}

/// Matrices whose columns are contiguous.
fn columns_first(t: &Tensor, sizes: IntList) -> OutSpec {
    let n = sizes.len();
    let mut turned = sizes.clone();
    turned.swap(n - 1, n - 2);
    let mut strides = shape::contiguous_strides(&turned);
    strides.swap(n - 1, n - 2);
    OutSpec::like(t, sizes).strides(strides)
}

/// The matrices of a batch.
fn load(t: &Tensor) -> Result<Vec<Dense>> {
    let (m, n) = rows_cols(t);
    let wide = copy::convert(&super::blas::resolved(t)?, DType::Double)?;
    let d = t.dim() as i64;
    let mut order: IntList = (0..d).collect();
    order.swap(d as usize - 1, d as usize - 2);
    let flat = copy::contiguous(&views::permute(&wide, &order)?)?;
    // SAFETY: a row-major tensor of f64.
    let all = unsafe { flat.as_slice::<f64>() };
    let each = (m * n) as usize;
    let count: i64 = t.sizes()[..t.dim() - 2].iter().product();
    Ok((0..count as usize)
        .map(|b| Dense { rows: m as usize, cols: n as usize, data: all[b * each..(b + 1) * each].to_vec() })
        .collect())
}

/// Writes matrices to a batch.
fn store(out: &Tensor, mats: &[Dense]) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let n = out.dim();
    let mut sizes = IntList::from_slice(out.sizes());
    sizes.swap(n - 1, n - 2);
    let data: Vec<f64> = mats.iter().flat_map(|m| m.data.iter().copied()).collect();
    let flat = views::view(&factory::from_slice(&data)?, &sizes)?;
    let mut order: IntList = (0..n as i64).collect();
    order.swap(n - 1, n - 2);
    copy::copy_into(out, &views::permute(&flat, &order)?)
}

/// Writes numbers, in row-major order.
fn store_values<T: crate::dtype::Convert>(out: &Tensor, values: &[T]) -> Result<()> {
    copy::copy_into(out, &views::view(&factory::from_slice(values)?, out.sizes())?)
}

/// Raises a linear algebra error for the first batch entry whose info is not zero.
fn check_info(info: &Tensor, message: impl Fn(&str, i64) -> String) -> Result<()> {
    if info.is_meta() {
        return Ok(());
    }
    let flat = copy::contiguous(&copy::convert(info, DType::Long)?)?;
    // SAFETY: a row-major tensor of int64.
    for (i, &n) in unsafe { flat.as_slice::<i64>() }.iter().enumerate() {
        let batch = if info.dim() == 0 { String::new() } else { format!("(Batch element {i}): ") };
        check!(n == 0, LinAlg; "{}", message(&batch, n));
    }
    Ok(())
}

/// linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)
fn qr_meta(a: Args<'_>) -> Result<Specs> {
    let (t, mode) = (a.tensor(0)?, a.str(1)?);
    check_matrices(t, "linalg.qr")?;
    check_floating(t, "linalg.qr", true)?;
    let (m, n) = rows_cols(t);
    let k = m.min(n);
    let (q, rows) = match mode {
        "reduced" => (Some(k), k),
        "complete" => (Some(m), m),
        "r" => (None, k),
        other => bail!(
            Runtime,
            "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', or 'complete'"
        ),
    };
    let q = match q {
        Some(c) => columns_first(t, with_last(t, &[m, c])),
        None => OutSpec::like(t, &[0][..]),
    };
    Ok(Specs::from_iter([q, columns_first(t, with_last(t, &[rows, n]))]))
}

fn qr(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    check_kernel(t, "geqrf_cpu")?;
    let (rows, q_cols) = (out[1].sizes()[out[1].dim() - 2] as usize, a.str(1)? != "r");
    let (mut qs, mut rs) = (Vec::new(), Vec::new());
    for mut m in load(t)? {
        let tau = dense::geqrf(&mut m);
        let mut r = Dense::zeros(rows, m.cols);
        for j in 0..m.cols {
            (0..rows.min(j + 1)).for_each(|i| *r.at(i, j) = m.get(i, j));
        }
        rs.push(r);
        if q_cols {
            qs.push(dense::orgqr(&m, &tau, out[0].sizes()[out[0].dim() - 1] as usize));
        }
    }
    store(&out[1], &rs)?;
    if q_cols { store(&out[0], &qs) } else { Ok(()) }
}

/// geqrf(Tensor self) -> (Tensor a, Tensor tau)
fn geqrf_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(t.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
    let (m, n) = rows_cols(t);
    let tau = OutSpec::like(t, with_last(t, &[m.min(n)]));
    Ok(Specs::from_iter([columns_first(t, t.sizes().into()), tau]))
}

fn geqrf(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    check_kernel(a.tensor(0)?, "geqrf_cpu")?;
    let mut mats = load(a.tensor(0)?)?;
    let taus: Vec<f64> = mats.iter_mut().flat_map(dense::geqrf).collect();
    store(&out[0], &mats)?;
    store_values(&out[1], &taus)
}

/// linalg_householder_product(Tensor input, Tensor tau) -> Tensor
fn householder_meta(a: Args<'_>) -> Result<Specs> {
    let (t, tau) = (a.tensor(0)?, a.tensor(1)?);
    check!(t.dim() >= 2, "torch.linalg.householder_product: input must have at least 2 dimensions.");
    let (m, n) = rows_cols(t);
    check!(
        m >= n,
        "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
    );
    check!(
        tau.dim() + 1 == t.dim(),
        "torch.linalg.householder_product: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and \
         input.ndim is equal to {}",
        tau.dim(),
        t.dim()
    );
    let k = tau.sizes()[tau.dim() - 1];
    check!(
        n >= k,
        "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]"
    );
    check!(
        tau.sizes()[..tau.dim() - 1] == t.sizes()[..t.dim() - 2],
        "torch.linalg.householder_product: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {:?}",
        &tau.sizes()[..tau.dim() - 1]
    );
    check!(
        tau.dtype() == t.dtype(),
        "torch.linalg.householder_product: tau dtype {} does not match input dtype {}",
        tau.dtype().torch_name_cpp(),
        t.dtype().torch_name_cpp()
    );
    Ok(columns_first(t, t.sizes().into()).into())
}

fn householder(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, tau) = (a.tensor(0)?, a.tensor(1)?);
    check_kernel(t, "orgqr_cpu")?;
    let k = tau.sizes()[tau.dim() - 1] as usize;
    let tau = copy::contiguous(&copy::convert(tau, DType::Double)?)?;
    // SAFETY: a row-major tensor of f64.
    let taus = unsafe { tau.as_slice::<f64>() };
    let qs: Vec<Dense> = load(t)?
        .iter()
        .enumerate()
        .map(|(b, m)| dense::orgqr(m, &taus[b * k..(b + 1) * k], m.cols))
        .collect();
    store(&out[0], &qs)
}

/// linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)
fn lu_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check!(
        t.dim() >= 2,
        "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {:?} instead",
        t.sizes()
    );
    let (m, n) = rows_cols(t);
    let int = |sizes: IntList| OutSpec::new(sizes, DType::Int, t.device());
    Ok(Specs::from_iter([
        columns_first(t, t.sizes().into()),
        int(with_last(t, &[m.min(n)])),
        int(with_last(t, &[])),
    ]))
}

fn lu(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    check_kernel(t, "lu_cpu")?;
    check!(a.bool(1)?, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    let (mut mats, mut pivots, mut infos) = (load(t)?, Vec::new(), Vec::new());
    for m in &mut mats {
        let (p, info) = dense::lu(m);
        pivots.extend(p);
        infos.push(info);
    }
    store(&out[0], &mats)?;
    store_values(&out[1], &pivots)?;
    store_values(&out[2], &infos)?;
    if a.bool(2)? {
        check_info(&out[2], |b, n| lu_message("torch.linalg.lu_factor_ex", b, n))
    } else {
        Ok(())
    }
}

fn lu_message(name: &str, batch: &str, n: i64) -> String {
    format!(
        "{name}: {batch}U[{n},{n}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform \
         the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )
}

/// linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)
fn inv_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check_square(t, "linalg.inv")?;
    check_floating(t, "linalg.inv", false)?;
    let info = OutSpec::new(with_last(t, &[]), DType::Int, t.device());
    Ok(Specs::from_iter([columns_first(t, t.sizes().into()), info]))
}

fn inv(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    check_kernel(t, "linalg_inv_out_cpu")?;
    let (mut result, mut infos) = (Vec::new(), Vec::new());
    for mut m in load(t)? {
        let (p, info) = dense::lu(&mut m);
        let mut x = Dense::identity(m.rows);
        dense::lu_solve(&m, &p, &mut x);
        result.push(x);
        infos.push(info);
    }
    store(&out[0], &result)?;
    store_values(&out[1], &infos)?;
    if a.bool(1)? { check_info(&out[1], inv_message) } else { Ok(()) }
}

fn inv_message(batch: &str, n: i64) -> String {
    format!(
        "linalg.inv: {batch}The diagonal element {n} is zero, the inversion could not be completed because the input matrix is \
         singular."
    )
}

fn inverse(t: &Tensor) -> Result<Returns> {
    let out = op::linalg_inv_ex.call_all((t, false))?;
    check_info(out[1].tensor()?, inv_message)?;
    Ok(out[0].tensor()?.into())
}

/// The product of U's diagonal with the sign of the permutation: its sign and the logarithm of its size.
fn determinant(lu: &Dense, pivots: &[i32]) -> (f64, f64, f64) {
    let swaps = pivots.iter().enumerate().filter(|(i, p)| **p != *i as i32 + 1).count();
    let mut sign = if swaps.is_multiple_of(2) { 1.0 } else { -1.0 };
    let (mut det, mut log) = (sign, 0.0);
    for i in 0..lu.rows {
        let d = lu.get(i, i);
        det *= d;
        sign *= if d == 0.0 { 0.0 } else { d.signum() };
        log += d.abs().ln();
    }
    (det, sign, log)
}

/// The matrices whose factors determinants hand out: upstream takes row-major ones as they lie, transposed.
fn load_factored(t: &Tensor) -> Result<Vec<Dense>> {
    let mats = load(t)?;
    Ok(if t.is_contiguous() { mats.iter().map(Dense::transposed).collect() } else { mats })
}

/// Factors, pivots, and of each matrix the determinant, its sign and the logarithm of its size.
type Factored = (Vec<Dense>, Vec<i32>, Vec<(f64, f64, f64)>);

fn factored(a: Args<'_>) -> Result<Factored> {
    let t = a.tensor(0)?;
    check_kernel(t, "lu_cpu")?;
    let (mut mats, mut pivots, mut dets) = (load_factored(t)?, Vec::new(), Vec::new());
    for m in &mut mats {
        let (p, _) = dense::lu(m);
        dets.push(determinant(m, &p));
        pivots.extend(p);
    }
    Ok((mats, pivots, dets))
}

/// _linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)
fn det_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check_square(t, "linalg.det")?;
    check_floating(t, "linalg.det", true)?;
    let (n, _) = rows_cols(t);
    Ok(Specs::from_iter([
        OutSpec::like(t, with_last(t, &[])),
        columns_first(t, t.sizes().into()),
        OutSpec::new(with_last(t, &[n]), DType::Int, t.device()),
    ]))
}

fn det(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (mats, pivots, dets) = factored(a)?;
    store_values(&out[0], &dets.iter().map(|d| d.0).collect::<Vec<_>>())?;
    store(&out[1], &mats)?;
    store_values(&out[2], &pivots)
}

/// _linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)
fn slogdet_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check_square(t, "linalg.slogdet")?;
    check_floating(t, "linalg.slogdet", true)?;
    let (n, _) = rows_cols(t);
    let value = OutSpec::like(t, with_last(t, &[]));
    Ok(Specs::from_iter([
        value.clone(),
        value,
        columns_first(t, t.sizes().into()),
        OutSpec::new(with_last(t, &[n]), DType::Int, t.device()),
    ]))
}

fn slogdet(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (mats, pivots, dets) = factored(a)?;
    store_values(&out[0], &dets.iter().map(|d| d.1).collect::<Vec<_>>())?;
    store_values(&out[1], &dets.iter().map(|d| d.2).collect::<Vec<_>>())?;
    store(&out[2], &mats)?;
    store_values(&out[3], &pivots)
}

fn slogdet_pair(a: Args<'_>) -> Result<Returns> {
    let out = op::_linalg_slogdet.call_all((a.tensor(0)?,))?;
    Ok((out[0].clone(), out[1].clone()).into())
}

/// linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)
fn cholesky_meta(a: Args<'_>) -> Result<Specs> {
    let t = a.tensor(0)?;
    check_square(t, "linalg.cholesky")?;
    check_floating(t, "linalg.cholesky", true)?;
    let info = OutSpec::new(with_last(t, &[]), DType::Int, t.device());
    Ok(Specs::from_iter([columns_first(t, t.sizes().into()), info]))
}

fn cholesky(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, upper) = (a.tensor(0)?, a.bool(1)?);
    check_kernel(t, "cholesky_cpu")?;
    let (mut result, mut infos) = (Vec::new(), Vec::new());
    for m in load(t)? {
        // The triangle that is read is the one that is asked for.
        let mut m = if upper { m.transposed() } else { m };
        infos.push(dense::cholesky(&mut m));
        result.push(if upper { m.transposed() } else { m });
    }
    store(&out[0], &result)?;
    store_values(&out[1], &infos)?;
    if a.bool(2)? { check_info(&out[1], |b, n| cholesky_message("linalg.cholesky_ex", b, n)) } else { Ok(()) }
}

fn cholesky_message(name: &str, batch: &str, n: i64) -> String {
    format!(
        "{name}: {batch}The factorization could not be completed because the input is not positive-definite (the leading minor of \
         order {n} is not positive-definite)."
    )
}

fn checked_cholesky(t: &Tensor, upper: bool, name: &str) -> Result<Returns> {
    let out = op::linalg_cholesky_ex.call_all((t, upper, false))?;
    check_info(out[1].tensor()?, |b, n| cholesky_message(name, b, n))?;
    Ok(out[0].tensor()?.into())
}

/// Whether `b` holds a vector for each matrix of `a` rather than a matrix.
fn is_vectors(a: &Tensor, b: &Tensor) -> bool {
    b.dim() == 1 || (a.dim() - 1 == b.dim() && b.sizes() == &a.sizes()[..a.dim() - 1])
}

/// The broadcast batch of two operands.
fn common_batch(x: &Tensor, y: &Tensor) -> Result<IntList> {
    shape::broadcast(&x.sizes()[..x.dim() - 2], &y.sizes()[..y.dim() - 2])
}

/// A tensor with its batch expanded.
fn batched(t: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let mut sizes = IntList::from_slice(batch);
    sizes.extend_from_slice(&t.sizes()[t.dim() - 2..]);
    views::expanded(t, &sizes)
}

/// The right-hand sides as matrices.
fn right_sides(x: &Tensor, b: &Tensor) -> Result<(Tensor, bool)> {
    let vectors = is_vectors(x, b);
    Ok((if vectors { op::unsqueeze.call((b, -1))? } else { b.clone() }, vectors))
}

/// _linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)
/// -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)
fn solve_meta(a: Args<'_>) -> Result<Specs> {
    let (x, b, left) = (a.tensor(0)?, a.tensor(1)?, a.bool(2)?);
    check_floating(x, "linalg.solve", true)?;
    check!(
        x.dtype() == b.dtype(),
        "linalg.solve: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        x.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    check_square(x, "linalg.solve")?;
    check!(b.dim() >= 1, "linalg.solve: The input tensor B must have at least 1 dimension.");
    let (b2, vectors) = right_sides(x, b)?;
    check!(
        left || !vectors,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is \
         equivalent to B / A.squeeze(-1)"
    );
    check!(b2.dim() >= 2, "linalg.solve: The input tensor B must have at least 2 dimensions.");
    let ((n, _), (p, q)) = (rows_cols(x), rows_cols(&b2));
    check!(
        n == if left { p } else { q },
        "linalg.solve: Incompatible shapes of A and B for the equation {} ({n}x{n} and {p}x{q})",
        if left { "AX = B" } else { "XA = B" }
    );
    let batch = common_batch(x, &b2)?;
    let sizes = |last: &[i64]| {
        let mut s = batch.clone();
        s.extend_from_slice(last);
        s
    };
    let result = match (vectors, left) {
        (true, _) => OutSpec::like(x, sizes(&[p])),
        (_, true) => columns_first(x, sizes(&[p, q])),
        (_, false) => OutSpec::like(x, sizes(&[p, q])),
    };
    Ok(Specs::from_iter([
        result,
        columns_first(x, x.sizes().into()),
        OutSpec::new(with_last(x, &[n]), DType::Int, x.device()),
        OutSpec::new(with_last(x, &[]), DType::Int, x.device()),
    ]))
}

fn solve(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, b, left) = (a.tensor(0)?, a.tensor(1)?, a.bool(2)?);
    check_kernel(x, "linalg_solve_cpu")?;
    let (b, vectors) = right_sides(x, b)?;
    let batch = common_batch(x, &b)?;
    let (mut own, mut pivots, mut infos) = (load(x)?, Vec::new(), Vec::new());
    for m in &mut own {
        let (p, info) = dense::lu(m);
        pivots.extend(p);
        infos.push(info);
    }
    store(&out[1], &own)?;
    store_values(&out[2], &pivots)?;
    store_values(&out[3], &infos)?;
    let mut results = Vec::new();
    for (mut m, mut b) in load(&batched(x, &batch)?)?.into_iter().zip(load(&batched(&b, &batch)?)?) {
        if !left {
            (m, b) = (m.transposed(), b.transposed());
        }
        let (p, _) = dense::lu(&mut m);
        dense::lu_solve(&m, &p, &mut b);
        results.push(if left { b } else { b.transposed() });
    }
    if vectors {
        let all: Vec<f64> = results.into_iter().flat_map(|m| m.data).collect();
        store_values(&out[0], &all)?;
    } else {
        store(&out[0], &results)?;
    }
    if a.bool(3)? {
        check_info(&out[3], |batch, _| {
            format!("torch.linalg.solve_ex: {batch}The solver failed because the input matrix is singular.")
        })?;
    }
    Ok(())
}

/// linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor
fn triangular_meta(a: Args<'_>) -> Result<Specs> {
    let (x, b, left) = (a.tensor(0)?, a.tensor(1)?, a.bool(3)?);
    check_square(x, "linalg.solve_triangular")?;
    check!(b.dim() >= 2, "linalg.solve_triangular: The input tensor B must have at least 2 dimensions.");
    check!(
        x.dtype() == b.dtype(),
        "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        x.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    let ((n, _), (p, q)) = (rows_cols(x), rows_cols(b));
    check!(
        n == if left { p } else { q },
        "linalg.solve_triangular: Incompatible shapes of A and B for the equation {} ({n}x{n} and {p}x{q})",
        if left { "AX = B" } else { "XA = B" }
    );
    let mut sizes = common_batch(x, b)?;
    sizes.extend([p, q]);
    Ok(columns_first(x, sizes).into())
}

fn triangular(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (x, b, upper, left, unit) = (a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?, a.bool(4)?);
    check_kernel(x, "triangular_solve_cpu")?;
    let batch = common_batch(x, b)?;
    let mut results = Vec::new();
    for (m, mut b) in load(&batched(x, &batch)?)?.into_iter().zip(load(&batched(b, &batch)?)?) {
        if left {
            dense::triangular(&m, &mut b, upper, unit);
            results.push(b);
        } else {
            let mut turned = b.transposed();
            dense::triangular(&m.transposed(), &mut turned, !upper, unit);
            results.push(turned.transposed());
        }
    }
    store(&out[0], &results)
}

/// _linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)
fn eigh_meta(a: Args<'_>) -> Result<Specs> {
    let (t, uplo) = (a.tensor(0)?, a.str(1)?);
    check_square(t, "linalg.eigh")?;
    check_floating(t, "linalg.eigh", true)?;
    check!(matches!(uplo, "L" | "l" | "U" | "u"), "Expected UPLO argument to be 'L' or 'U', but got {uplo}");
    let (n, _) = rows_cols(t);
    let vectors = if a.bool(2)? { columns_first(t, t.sizes().into()) } else { OutSpec::like(t, &[0][..]) };
    Ok(Specs::from_iter([OutSpec::like(t, with_last(t, &[n])), vectors]))
}

fn eigh(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let t = a.tensor(0)?;
    check_kernel(t, "linalg_eigh_cpu")?;
    let lower = a.str(1)?.eq_ignore_ascii_case("L");
    let (mut values, mut vectors) = (Vec::new(), Vec::new());
    for mut m in load(t)? {
        // Only one triangle counts.
        for j in 0..m.cols {
            for i in 0..j {
                if lower {
                    *m.at(i, j) = m.get(j, i);
                } else {
                    *m.at(j, i) = m.get(i, j);
                }
            }
        }
        let Some((w, v)) = dense::eigh(m) else {
            bail!(
                LinAlg,
                "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
                 eigenvalues (error code: 1)."
            )
        };
        values.extend(w);
        vectors.push(v);
    }
    store_values(&out[0], &values)?;
    if a.bool(2)? { store(&out[1], &vectors) } else { Ok(()) }
}

/// _linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)
fn svd_meta(a: Args<'_>) -> Result<Specs> {
    let (t, full, vectors) = (a.tensor(0)?, a.bool(1)?, a.bool(2)?);
    check_matrices(t, "linalg.svd")?;
    check_floating(t, "linalg.svd", true)?;
    let (m, n) = rows_cols(t);
    let k = m.min(n);
    let values = OutSpec::like(t, with_last(t, &[k]));
    if !vectors {
        let none = OutSpec::like(t, &[0][..]);
        return Ok(Specs::from_iter([none.clone(), values, none]));
    }
    let (p, q) = if full { (m, n) } else { (k, k) };
    Ok(Specs::from_iter([
        columns_first(t, with_last(t, &[m, p])),
        values,
        columns_first(t, with_last(t, &[q, n])),
    ]))
}

fn svd(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (t, vectors) = (a.tensor(0)?, a.bool(2)?);
    check_kernel(t, "linalg_svd_cpu")?;
    let (mut us, mut values, mut vs) = (Vec::new(), Vec::new(), Vec::new());
    for m in load(t)? {
        let wide = m.rows < m.cols;
        let tall = if wide { m.transposed() } else { m };
        let Some((u, s, v)) = dense::svd_tall(tall) else {
            bail!(
                LinAlg,
                "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
            )
        };
        values.extend(s);
        let (u, v) = if wide { (v, u) } else { (u, v) };
        if vectors {
            let (p, q) =
                (out[0].sizes()[out[0].dim() - 1] as usize, out[2].sizes()[out[2].dim() - 2] as usize);
            us.push(widened(u, p));
            vs.push(widened(v, q).transposed());
        }
    }
    store_values(&out[1], &values)?;
    if vectors {
        store(&out[0], &us)?;
        store(&out[2], &vs)?;
    }
    Ok(())
}

/// Orthonormal columns completed to `n` of them.
fn widened(q: Dense, n: usize) -> Dense {
    let have = q.cols;
    let mut out = Dense::zeros(q.rows, n);
    out.data[..q.data.len()].copy_from_slice(&q.data);
    (have..n).for_each(|j| dense::complete(&mut out, j));
    out
}
