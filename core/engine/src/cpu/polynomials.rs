//! Orthogonal polynomials by their recurrences, with upstream's closed forms for high degrees.

/// The degree: the integer part, negative for what is none.
fn degree(n: f64) -> i64 {
    n as i64
}

/// `p[k + 1] = step(k, p[k], p[k - 1])` from `p[0] = 1` and `p[1]`, up to degree `n`.
fn recur(n: i64, first: f64, step: impl Fn(f64, f64, f64) -> f64) -> f64 {
    if n < 0 {
        return 0.0;
    }
    if n == 0 {
        return 1.0;
    }
    let (mut p, mut q) = (1.0, first);
    for k in 1..n {
        if q.is_nan() {
            break;
        }
        (p, q) = (q, step(k as f64, q, p));
    }
    q
}

fn sign(n: i64) -> f64 {
    if n % 2 == 0 { 1.0 } else { -1.0 }
}

pub fn chebyshev_t(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n >= 0 && x.abs() == 1.0 {
        return if x > 0.0 { 1.0 } else { sign(n) };
    }
    if n > 6 && x.abs() < 1.0 {
        return (n as f64 * x.acos()).cos();
    }
    recur(n, x, |_, q, p| (x + x) * q - p)
}

pub fn chebyshev_u(x: f64, n: f64) -> f64 {
    let n = degree(n);
    let next = n as f64 + 1.0;
    if n >= 0 && x.abs() == 1.0 {
        return if x > 0.0 { next } else { sign(n) * next };
    }
    if n > 8 && x.abs() < 1.0 {
        let t = x.acos();
        return if t.sin() != 0.0 { (next * t).sin() / t.sin() } else { next * (next * t).cos() / x };
    }
    recur(n, x + x, |_, q, p| (x + x) * q - p)
}

pub fn chebyshev_v(x: f64, n: f64) -> f64 {
    let n = degree(n);
    let odd = (n + n) as f64 + 1.0;
    if n >= 0 && x.abs() == 1.0 {
        return if x > 0.0 { 1.0 } else { sign(n) * odd };
    }
    if n > 8 && x.abs() < 1.0 {
        let t = x.acos();
        return if (t / 2.0).sin() != 1.0 {
            ((n as f64 + 0.5) * t).cos() / (t / 2.0).cos()
        } else {
            sign(n) * odd
        };
    }
    recur(n, x + x - 1.0, |_, q, p| (x + x) * q - p)
}

pub fn chebyshev_w(x: f64, n: f64) -> f64 {
    let n = degree(n);
    let odd = (n + n) as f64 + 1.0;
    if n >= 0 && x.abs() == 1.0 {
        return if x > 0.0 { odd } else { sign(n) };
    }
    if n > 8 && x.abs() < 1.0 {
        let t = x.acos();
        if (t / 2.0).cos() != 1.0 {
            return ((n as f64 + 0.5) * t).sin() / (t / 2.0).sin();
        }
        return if x > 0.0 { odd } else { sign(n) };
    }
    recur(n, x + x + 1.0, |_, q, p| (x + x) * q - p)
}

pub fn shifted_t(x: f64, n: f64) -> f64 {
    chebyshev_t(x + x - 1.0, n)
}

pub fn shifted_u(x: f64, n: f64) -> f64 {
    chebyshev_u(x + x - 1.0, n)
}

pub fn shifted_v(x: f64, n: f64) -> f64 {
    chebyshev_v(x + x - 1.0, n)
}

pub fn shifted_w(x: f64, n: f64) -> f64 {
    chebyshev_w(x + x - 1.0, n)
}

/// Degrees above this overflow whatever x is.
const HERMITE_LIMIT: i64 = 512;

pub fn hermite_h(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n > HERMITE_LIMIT {
        return f64::NAN;
    }
    recur(n, x + x, |k, q, p| (x + x) * q - (k + k) * p)
}

pub fn hermite_he(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n > HERMITE_LIMIT {
        return f64::NAN;
    }
    recur(n, x, |k, q, p| x * q - k * p)
}

pub fn laguerre(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n >= 0 && x == 0.0 {
        return 1.0;
    }
    recur(n, 1.0 - x, |k, q, p| (((k + k) + (1.0 - x)) * q - k * p) / (k + 1.0))
}

pub fn legendre(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n >= 0 && x.abs() == 1.0 {
        return if x > 0.0 { 1.0 } else { sign(n) };
    }
    recur(n, x, |k, q, p| ((k + k + 1.0) * x * q - k * p) / (k + 1.0))
}
