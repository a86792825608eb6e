//! The regularised incomplete gamma functions.

use super::special::lgamma;

/// Series and fraction end when a step changes nothing; they need about the square root of `a` steps more than this.
const STEPS: usize = 20_000;

/// What both functions give outside of the plain case, for `lower`: `upper` is one minus it.
fn edge(a: f64, x: f64) -> Option<f64> {
    if x < 0.0 || a < 0.0 || x.is_nan() || a.is_nan() {
        return Some(f64::NAN);
    }
    if a == 0.0 {
        return Some(if x > 0.0 { 1.0 } else { f64::NAN });
    }
    if x == 0.0 {
        return Some(0.0);
    }
    if a.is_infinite() {
        return Some(if x.is_infinite() { f64::NAN } else { 0.0 });
    }
    x.is_infinite().then_some(1.0)
}

/// `x^a e^-x / Γ(a)`
fn prefactor(a: f64, x: f64) -> f64 {
    if (a - x).abs() > 0.4 * a || a < 10.0 {
        return (a * x.ln() - x - lgamma(a)).exp();
    }
    // Near the peak the large terms cancel: Stirling's series in the distance from it.
    let d = (x - a) / a;
    let stirling = 1.0 / (12.0 * a) - 1.0 / (360.0 * a.powi(3)) + 1.0 / (1260.0 * a.powi(5));
    (a * (d.ln_1p() - d) - stirling).exp() * (a / (2.0 * std::f64::consts::PI)).sqrt()
}

fn series(a: f64, x: f64) -> f64 {
    let (mut sum, mut term, mut r) = (1.0, 1.0, a);
    for _ in 0..STEPS {
        r += 1.0;
        term *= x / r;
        sum += term;
        if term <= f64::EPSILON / 4.0 * sum {
            break;
        }
    }
    sum * prefactor(a, x) / a
}

/// Lentz's evaluation of the continued fraction of the upper function.
fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..STEPS {
        let k = -(i as f64) * (i as f64 - a);
        b += 2.0;
        d = k * d + b;
        if d.abs() < TINY {
            d = TINY;
        }
        c = b + k / c;
        if c.abs() < TINY {
            c = TINY;
        }
        d = 1.0 / d;
        let delta = d * c;
        h *= delta;
        if (delta - 1.0).abs() < f64::EPSILON / 2.0 {
            break;
        }
    }
    h * prefactor(a, x)
}

/// The lower function, `P(a, x)`.
pub fn lower(a: f64, x: f64) -> f64 {
    if let Some(v) = edge(a, x) {
        return v;
    }
    if x > 1.0 && x > a { 1.0 - fraction(a, x) } else { series(a, x) }
}

/// The upper function, `Q(a, x)`.
pub fn upper(a: f64, x: f64) -> f64 {
    if let Some(v) = edge(a, x) {
        return 1.0 - v;
    }
    if x > 1.0 && x > a { fraction(a, x) } else { 1.0 - series(a, x) }
}
