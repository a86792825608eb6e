//! Functions of complex numbers, with the branch cuts and infinities of C99's annex G where they matter.

use crate::Complex;
use num_traits::Float;

type C = Complex<f64>;

fn c(re: f64, im: f64) -> C {
    Complex::new(re, im)
}

/// The quotient, scaled so that no intermediate overflows.
pub fn div<T: Float>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    let (a, b, re, im) = (x.re, x.im, y.re, y.im);
    if re.abs() >= im.abs() {
        if re == T::zero() && im == T::zero() {
            return Complex::new(a / re.abs(), b / im.abs());
        }
        let ratio = im / re;
        let scale = T::one() / (re + im * ratio);
        Complex::new((a + b * ratio) * scale, (b - a * ratio) * scale)
    } else {
        let ratio = re / im;
        let scale = T::one() / (re * ratio + im);
        Complex::new((a * ratio + b) * scale, (b * ratio - a) * scale)
    }
}

pub fn reciprocal(z: C) -> C {
    div(c(1.0, 0.0), z)
}

pub fn exp(z: C) -> C {
    if z.im == 0.0 {
        return c(z.re.exp(), z.im);
    }
    if z.re.is_infinite() && !z.im.is_finite() {
        return if z.re < 0.0 { c(0.0, 0.0) } else { c(f64::INFINITY, f64::NAN) };
    }
    // Near overflow the factor is applied in two steps.
    if z.re > 709.0 && z.re < 1400.0 {
        let half = (z.re / 2.0).exp();
        return c(half * z.im.cos() * half, half * z.im.sin() * half);
    }
    let r = z.re.exp();
    c(r * z.im.cos(), r * z.im.sin())
}

pub fn exp2(z: C) -> C {
    exp(z * std::f64::consts::LN_2)
}

pub fn expm1(z: C) -> C {
    let half = (z.im / 2.0).sin();
    c(z.re.exp_m1() * z.im.cos() - 2.0 * half * half, z.re.exp() * z.im.sin())
}

pub fn log(z: C) -> C {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (big, small) = if x > y { (x, y) } else { (y, x) };
    let modulus = big.hypot(small);
    // Near modulus one the logarithm of the modulus would lose digits.
    let re = if modulus > 0.5 && modulus < 2.0 {
        ((big - 1.0) * (big + 1.0) + small * small).ln_1p() / 2.0
    } else {
        modulus.ln()
    };
    c(re, z.im.atan2(z.re))
}

pub fn log2(z: C) -> C {
    log(z) / std::f64::consts::LN_2
}

pub fn log10(z: C) -> C {
    log(z) / std::f64::consts::LN_10
}

pub fn log1p(z: C) -> C {
    let theta = z.im.atan2(z.re + 1.0);
    if z.re.hypot(z.im) < 0.5 {
        let r = z.re * (2.0 + z.re) + z.im * z.im;
        return if r == 0.0 { c(z.re, theta) } else { c(0.5 * r.ln_1p(), theta) };
    }
    c((z.re + 1.0).hypot(z.im).ln(), theta)
}

pub fn sqrt(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x == 0.0 && y == 0.0 {
        return c(0.0, y);
    }
    if y.is_infinite() {
        return c(f64::INFINITY, y);
    }
    if x.is_infinite() {
        let other = if y.is_nan() { f64::NAN } else { 0.0 };
        return if x > 0.0 {
            c(x, if y.is_nan() { y } else { 0f64.copysign(y) })
        } else {
            c(other, x.abs().copysign(y))
        };
    }
    // Scaled away from overflow.
    let scale = if x.abs() > 1e300 || y.abs() > 1e300 { 0.25 } else { 1.0 };
    let (x, y) = (x * scale, y * scale);
    let t = ((x.abs() + x.hypot(y)) * 0.5).sqrt();
    let (re, im) = if x >= 0.0 { (t, y / (2.0 * t)) } else { (y.abs() / (2.0 * t), t.copysign(y)) };
    c(re / scale.sqrt(), im / scale.sqrt())
}

pub fn rsqrt(z: C) -> C {
    reciprocal(sqrt(z))
}

pub fn sigmoid(z: C) -> C {
    reciprocal(c(1.0, 0.0) + exp(-z))
}

/// `i * z`
fn turned(z: C) -> C {
    c(-z.im, z.re)
}

/// `-i * z`
fn turned_back(z: C) -> C {
    c(z.im, -z.re)
}

pub fn sinh(z: C) -> C {
    if z.im == 0.0 {
        return c(z.re.sinh(), z.im);
    }
    c(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin())
}

pub fn cosh(z: C) -> C {
    if z.im == 0.0 {
        return c(z.re.cosh(), z.im * if z.re.is_sign_negative() { -1.0 } else { 1.0 });
    }
    c(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin())
}

pub fn tanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x.abs() > 22.0 {
        let im = if y.is_finite() { 4.0 * y.sin() * y.cos() * (-2.0 * x.abs()).exp() } else { 0.0 };
        return c(
            1f64.copysign(x),
            if im == 0.0 { 0f64.copysign(if y.is_finite() { (2.0 * y).sin() } else { y }) } else { im },
        );
    }
    let (t, s) = (y.tan(), x.sinh());
    let (beta, rho) = (1.0 + t * t, (1.0 + s * s).sqrt());
    if t.is_infinite() {
        return c(rho / s, 1.0 / t);
    }
    c(beta * rho * s / (1.0 + beta * s * s), t / (1.0 + beta * s * s))
}

pub fn sin(z: C) -> C {
    turned_back(sinh(turned(z)))
}

pub fn cos(z: C) -> C {
    cosh(turned(z))
}

pub fn tan(z: C) -> C {
    turned_back(tanh(turned(z)))
}

fn one_minus(z: C) -> C {
    c(1.0 - z.re, -z.im)
}

fn one_plus(z: C) -> C {
    c(1.0 + z.re, z.im)
}

pub fn asin(z: C) -> C {
    let (a, b) = (sqrt(one_minus(z)), sqrt(one_plus(z)));
    c(z.re.atan2((a * b).re), (a.conj() * b).im.asinh())
}

pub fn acos(z: C) -> C {
    let (a, b) = (sqrt(one_minus(z)), sqrt(one_plus(z)));
    c(2.0 * a.re.atan2(b.re), (b.conj() * a).im.asinh())
}

pub fn atan(z: C) -> C {
    turned_back(atanh(turned(z)))
}

pub fn asinh(z: C) -> C {
    turned_back(asin(turned(z)))
}

pub fn acosh(z: C) -> C {
    let (a, b) = (sqrt(c(z.re - 1.0, z.im)), sqrt(one_plus(z)));
    c((a.conj() * b).re.asinh(), 2.0 * a.im.atan2(b.re))
}

pub fn atanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if !x.is_finite() || !y.is_finite() || x.abs() > 1e150 || y.abs() > 1e150 {
        return c(0f64.copysign(x), std::f64::consts::FRAC_PI_2.copysign(y));
    }
    let re = (4.0 * x / ((1.0 - x) * (1.0 - x) + y * y)).ln_1p() / 4.0;
    let im = (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y) / 2.0;
    // The series of the logarithm serves positive arguments; the function is odd.
    if x < 0.0 {
        let re = (-4.0 * x / ((1.0 + x) * (1.0 + x) + y * y)).ln_1p() / 4.0;
        return c(-re, im);
    }
    c(re, im)
}

pub fn pow(z: C, w: C) -> C {
    if w.re == 0.0 && w.im == 0.0 {
        return c(1.0, 0.0);
    }
    if z.re == 0.0 && z.im == 0.0 {
        return if w.im == 0.0 && w.re > 0.0 { c(0.0, 0.0) } else { c(f64::NAN, f64::NAN) };
    }
    exp(w * log(z))
}

/// `log(exp(z) + exp(w))`
pub fn logaddexp(z: C, w: C) -> C {
    if z.re.is_nan() || z.im.is_nan() || w.re.is_nan() || w.im.is_nan() {
        return c(f64::NAN, f64::NAN);
    }
    let (big, small) = if z.re >= w.re { (z, w) } else { (w, z) };
    if big.re.is_infinite() && big.re == small.re {
        if big.re < 0.0 {
            return big;
        }
        return log(exp(z) + exp(w));
    }
    big + log1p(exp(small - big))
}
