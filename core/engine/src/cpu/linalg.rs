//! Dense factorisations in double precision: Householder QR, LU with partial pivoting, Cholesky, symmetric eigenvalues and
//! singular values by Jacobi rotations. Matrices are column-major.

/// A column-major matrix.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<f64>,
}

impl Dense {
    pub fn zeros(rows: usize, cols: usize) -> Dense {
        Dense { rows, cols, data: vec![0.0; rows * cols] }
    }
    pub fn identity(n: usize) -> Dense {
        let mut m = Dense::zeros(n, n);
        (0..n).for_each(|i| *m.at(i, i) = 1.0);
        m
    }
    #[inline]
    pub fn get(&self, i: usize, j: usize) -> f64 {
        self.data[j * self.rows + i]
    }
    #[inline]
    pub fn at(&mut self, i: usize, j: usize) -> &mut f64 {
        &mut self.data[j * self.rows + i]
    }
    pub fn transposed(&self) -> Dense {
        let mut t = Dense::zeros(self.cols, self.rows);
        for j in 0..self.cols {
            for i in 0..self.rows {
                *t.at(j, i) = self.get(i, j);
            }
        }
        t
    }
    fn swap_rows(&mut self, i: usize, j: usize) {
        if i != j {
            (0..self.cols).for_each(|c| self.data.swap(c * self.rows + i, c * self.rows + j));
        }
    }
}

/// Householder QR in place: R above, the reflectors' vectors below the diagonal (their first element one); and their factors.
/// Signs are LAPACK's.
pub(crate) fn geqrf(a: &mut Dense) -> Vec<f64> {
    let k = a.rows.min(a.cols);
    let mut tau = vec![0.0; k];
    for j in 0..k {
        let rest: f64 = (j + 1..a.rows).map(|i| a.get(i, j) * a.get(i, j)).sum();
        if rest == 0.0 {
            continue;
        }
        let alpha = a.get(j, j);
        let beta = -(alpha * alpha + rest).sqrt().copysign(alpha);
        tau[j] = (beta - alpha) / beta;
        let scale = 1.0 / (alpha - beta);
        (j + 1..a.rows).for_each(|i| *a.at(i, j) *= scale);
        *a.at(j, j) = beta;
        for c in j + 1..a.cols {
            let dot = a.get(j, c) + (j + 1..a.rows).map(|i| a.get(i, j) * a.get(i, c)).sum::<f64>();
            let w = tau[j] * dot;
            *a.at(j, c) -= w;
            for i in j + 1..a.rows {
                let v = a.get(i, j);
                *a.at(i, c) -= w * v;
            }
        }
    }
    tau
}

/// Applies reflector `j` of `a` to `m` from the left.
fn reflect(a: &Dense, tau: &[f64], j: usize, m: &mut Dense) {
    for c in 0..m.cols {
        let dot = m.get(j, c) + (j + 1..a.rows).map(|i| a.get(i, j) * m.get(i, c)).sum::<f64>();
        let w = tau[j] * dot;
        *m.at(j, c) -= w;
        for i in j + 1..a.rows {
            *m.at(i, c) -= w * a.get(i, j);
        }
    }
}

/// The first `cols` columns of the product of the reflectors.
pub(crate) fn orgqr(a: &Dense, tau: &[f64], cols: usize) -> Dense {
    let mut q = Dense::zeros(a.rows, cols);
    (0..cols.min(a.rows)).for_each(|i| *q.at(i, i) = 1.0);
    (0..tau.len()).rev().for_each(|j| reflect(a, tau, j, &mut q));
    q
}

/// LU in place with partial pivoting: the pivots (counted from one), and the first zero diagonal of U (counted from one) or zero.
pub(crate) fn lu(a: &mut Dense) -> (Vec<i32>, i32) {
    let k = a.rows.min(a.cols);
    let (mut pivots, mut info) = (Vec::with_capacity(k), 0);
    for j in 0..k {
        let mut p = j;
        for i in j + 1..a.rows {
            if a.get(i, j).abs() > a.get(p, j).abs() {
                p = i;
            }
        }
        pivots.push(p as i32 + 1);
        a.swap_rows(j, p);
        let d = a.get(j, j);
        if d == 0.0 {
            if info == 0 {
                info = j as i32 + 1;
            }
            continue;
        }
        (j + 1..a.rows).for_each(|i| *a.at(i, j) /= d);
        for c in j + 1..a.cols {
            let u = a.get(j, c);
            if u != 0.0 {
                for i in j + 1..a.rows {
                    let l = a.get(i, j);
                    *a.at(i, c) -= l * u;
                }
            }
        }
    }
    (pivots, info)
}

/// Solves by an LU factorisation, in place.
pub(crate) fn lu_solve(lu: &Dense, pivots: &[i32], b: &mut Dense) {
    for (j, p) in pivots.iter().enumerate() {
        b.swap_rows(j, *p as usize - 1);
    }
    triangular(lu, b, false, true);
    triangular(lu, b, true, false);
}

/// Solves `t x = b` in place for a triangle of `t`; `unit` takes its diagonal for ones.
pub(crate) fn triangular(t: &Dense, b: &mut Dense, upper: bool, unit: bool) {
    let n = t.rows;
    for c in 0..b.cols {
        for s in 0..n {
            let j = if upper { n - 1 - s } else { s };
            if !unit {
                *b.at(j, c) /= t.get(j, j);
            }
            let x = b.get(j, c);
            let rest = if upper { 0..j } else { j + 1..n };
            for i in rest {
                *b.at(i, c) -= t.get(i, j) * x;
            }
        }
    }
}

/// The lower Cholesky factor in place of the lower triangle (the upper is zeroed); the order of the first minor that is not
/// positive, or zero.
pub(crate) fn cholesky(a: &mut Dense) -> i32 {
    let n = a.rows;
    let mut info = 0;
    for j in 0..n {
        let d = a.get(j, j) - (0..j).map(|k| a.get(j, k) * a.get(j, k)).sum::<f64>();
        if d <= 0.0 || d.is_nan() {
            info = j as i32 + 1;
            break;
        }
        let d = d.sqrt();
        *a.at(j, j) = d;
        for i in j + 1..n {
            let s = (0..j).map(|k| a.get(i, k) * a.get(j, k)).sum::<f64>();
            *a.at(i, j) = (a.get(i, j) - s) / d;
        }
    }
    for j in 1..n {
        (0..j).for_each(|i| *a.at(i, j) = 0.0);
    }
    info
}

/// Sweeps after which Jacobi's methods have converged for every finite matrix met in practice.
const SWEEPS: usize = 60;

/// Eigenvalues, ascending, and eigenvectors (columns) of a symmetric matrix; `None` when it does not converge (NaN).
pub(crate) fn eigh(mut a: Dense) -> Option<(Vec<f64>, Dense)> {
    let n = a.rows;
    if a.data.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut v = Dense::identity(n);
    let scale: f64 = a.data.iter().map(|x| x * x).sum();
    for _ in 0..SWEEPS {
        let off: f64 =
            (0..n).flat_map(|j| (0..j).map(move |i| (i, j))).map(|(i, j)| a.get(i, j).powi(2)).sum();
        if off <= scale * 1e-34 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let x = a.get(p, q);
                if x == 0.0 {
                    continue;
                }
                let theta = (a.get(q, q) - a.get(p, p)) / (2.0 * x);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for k in 0..n {
                    let (y, z) = (a.get(k, p), a.get(k, q));
                    *a.at(k, p) = c * y - s * z;
                    *a.at(k, q) = s * y + c * z;
                }
                for k in 0..n {
                    let (y, z) = (a.get(p, k), a.get(q, k));
                    *a.at(p, k) = c * y - s * z;
                    *a.at(q, k) = s * y + c * z;
                    let (y, z) = (v.get(k, p), v.get(k, q));
                    *v.at(k, p) = c * y - s * z;
                    *v.at(k, q) = s * y + c * z;
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| a.get(*i, *i).total_cmp(&a.get(*j, *j)));
    let mut sorted = Dense::zeros(n, n);
    for (to, from) in order.iter().enumerate() {
        (0..n).for_each(|i| *sorted.at(i, to) = v.get(i, *from));
    }
    Some((order.iter().map(|i| a.get(*i, *i)).collect(), sorted))
}

/// The singular value decomposition of a matrix with at least as many rows as columns: left vectors (rows × cols), values
/// descending, right vectors (cols × cols, by columns); `None` for values that are not finite.
pub(crate) fn svd_tall(mut a: Dense) -> Option<(Dense, Vec<f64>, Dense)> {
    let (m, n) = (a.rows, a.cols);
    if a.data.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut v = Dense::identity(n);
    for _ in 0..SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (mut pp, mut qq, mut pq) = (0.0, 0.0, 0.0);
                for i in 0..m {
                    let (x, y) = (a.get(i, p), a.get(i, q));
                    pp += x * x;
                    qq += y * y;
                    pq += x * y;
                }
                if pq == 0.0 || pq.abs() <= 1e-16 * (pp * qq).sqrt() {
                    continue;
                }
                turned = true;
                let theta = (qq - pp) / (2.0 * pq);
                let t = if theta == 0.0 {
                    1.0
                } else {
                    theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt())
                };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for (mat, rows) in [(&mut a, m), (&mut v, n)] {
                    for i in 0..rows {
                        let (x, y) = (mat.get(i, p), mat.get(i, q));
                        *mat.at(i, p) = c * x - s * y;
                        *mat.at(i, q) = s * x + c * y;
                    }
                }
            }
        }
        if !turned {
            break;
        }
    }
    let norms: Vec<f64> = (0..n).map(|j| (0..m).map(|i| a.get(i, j).powi(2)).sum::<f64>().sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| norms[*j].total_cmp(&norms[*i]));
    let (mut left, mut right) = (Dense::zeros(m, n), Dense::zeros(n, n));
    for (to, &from) in order.iter().enumerate() {
        for i in 0..n {
            *right.at(i, to) = v.get(i, from);
        }
        if norms[from] > 0.0 {
            (0..m).for_each(|i| *left.at(i, to) = a.get(i, from) / norms[from]);
        } else {
            complete(&mut left, to);
        }
    }
    Some((left, order.iter().map(|i| norms[*i]).collect(), right))
}

/// Makes column `j` a unit vector orthogonal to those before it.
pub(crate) fn complete(q: &mut Dense, j: usize) {
    for axis in 0..q.rows {
        let mut x = vec![0.0; q.rows];
        x[axis] = 1.0;
        // Twice, for what the first pass loses to rounding.
        for _ in 0..2 {
            for c in 0..j {
                let dot: f64 = (0..q.rows).map(|i| q.get(i, c) * x[i]).sum();
                (0..q.rows).for_each(|i| x[i] -= dot * q.get(i, c));
            }
        }
        let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm > 0.5 / (q.rows as f64).sqrt() {
            (0..q.rows).for_each(|i| *q.at(i, j) = x[i] / norm);
            return;
        }
    }
}
