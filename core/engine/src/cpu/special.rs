//! Special functions of real numbers in `f64`: error, gamma and Bessel functions and their kin. They are series,
//! asymptotic expansions and continued fractions (Abramowitz and Stegun), each where it converges to full precision.

use crate::Complex;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

const SQRT_PI: f64 = 1.772_453_850_905_516;
const EULER: f64 = 0.577_215_664_901_532_9;

pub fn erf(x: f64) -> f64 {
    libm::erf(x)
}

pub fn erfc(x: f64) -> f64 {
    libm::erfc(x)
}

pub fn asinh(x: f64) -> f64 {
    // Keeps the sign of zero and does not square large numbers.
    if x.abs() > 1e150 { (x.abs().ln() + std::f64::consts::LN_2).copysign(x) } else { x.asinh() }
}

/// `exp(x^2) * erfc(x)`
pub fn erfcx(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 12.0 {
        if x < -26.7 {
            return f64::INFINITY;
        }
        // The square in two parts, since the exponential magnifies its rounding error.
        let high = f64::from_bits(x.to_bits() & !0x7ff_ffff);
        let low = (x - high) * (x + high);
        return (high * high).exp() * low.exp() * erfc(x);
    }
    let t = 1.0 / (2.0 * x * x);
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 0..20 {
        term *= -((2 * k + 1) as f64) * t;
        sum += term;
        if term.abs() < 1e-17 {
            break;
        }
    }
    sum / (x * SQRT_PI)
}

/// The quantile of the normal distribution: a rational estimate, refined by Halley's method.
pub fn ndtri(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 { -lower_quantile(1.0 - p) } else { lower_quantile(p) }
}

/// The quantile for `p` in (0, 1/2].
fn lower_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -39.696_830_286_653_76,
        220.946_098_424_520_5,
        -275.928_510_446_968_7,
        138.357_751_867_269,
        -30.664_798_066_147_16,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -54.476_098_798_224_06,
        161.585_836_858_040_9,
        -155.698_979_859_886_6,
        66.801_311_887_719_72,
        -13.280_681_552_885_72,
    ];
    const C: [f64; 6] = [
        -0.007_784_894_002_430_293,
        -0.322_396_458_041_136_5,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [0.007_784_695_709_041_462, 0.322_467_129_070_039_8, 2.445_134_137_142_996, 3.754_408_661_907_416];
    let horner = |c: &[f64], x: f64| c.iter().fold(0.0, |y, a| y * x + a);
    let mut x = if p < 0.02425 {
        let q = (-2.0 * p.ln()).sqrt();
        horner(&C, q) / (horner(&D, q) * q + 1.0)
    } else {
        let q = p - 0.5;
        let r = q * q;
        horner(&A, r) * q / (horner(&B, r) * r + 1.0)
    };
    for _ in 0..2 {
        // The error relative to the density, from the function that has no cancellation in this tail.
        let e = 0.5 * erfc(-x * FRAC_1_SQRT_2) - p;
        let u = e * (2.0 * PI).sqrt() * (x * x / 2.0).exp();
        let step = u / (1.0 + x * u / 2.0);
        if !step.is_finite() {
            break;
        }
        x -= step;
    }
    x
}

pub fn erfinv(y: f64) -> f64 {
    let a = y.abs();
    if a > 1.0 || y.is_nan() {
        return f64::NAN;
    }
    if a == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if a > 0.5 {
        return (-lower_quantile((1.0 - a) / 2.0) * FRAC_1_SQRT_2).copysign(y);
    }
    // Near zero the quantile would round away what makes y differ from zero.
    let mut x = -lower_quantile(0.5 - a / 2.0) * FRAC_1_SQRT_2;
    if a < 1e-4 {
        x = a / FRAC_2_SQRT_PI;
    }
    for _ in 0..2 {
        x -= (erf(x) - a) / (FRAC_2_SQRT_PI * (-x * x).exp());
    }
    x.copysign(y)
}

/// The logarithm of the normal distribution function.
pub fn log_ndtr(x: f64) -> f64 {
    let t = x * FRAC_1_SQRT_2;
    if x < -1.0 { (erfcx(-t) / 2.0).ln() - t * t } else { (-erfc(t) / 2.0).ln_1p() }
}

pub fn entr(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x > 0.0 {
        -x * x.ln()
    } else if x == 0.0 {
        0.0
    } else {
        f64::NEG_INFINITY
    }
}

pub fn lgamma(x: f64) -> f64 {
    if x.is_infinite() { f64::INFINITY } else { libm::lgamma(x) }
}

/// Bernoulli's series of digamma and the shift that makes it converge are upstream's, to agree in the last digits.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        return digamma(1.0 - x) - PI / (PI * x.fract()).tan();
    }
    let (mut result, mut x) = (0.0, x);
    while x < 10.0 {
        result -= 1.0 / x;
        x += 1.0;
    }
    if x.is_infinite() {
        return x;
    }
    let t = 1.0 / (x * x);
    // Bernoulli numbers over twice the index.
    const B: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let series = B.iter().rev().fold(0.0, |y, b| y * t + b) * t;
    result + x.ln() - 0.5 / x - series
}

/// As short a series as upstream's, which gives nine digits.
pub fn trigamma(x: f64) -> f64 {
    let (mut sign, mut result, mut x) = (1.0, 0.0, x);
    if x < 0.5 {
        sign = -1.0;
        let s = (PI * x).sin();
        result -= PI * PI / (s * s);
        x = 1.0 - x;
    }
    for _ in 0..6 {
        result += 1.0 / (x * x);
        x += 1.0;
    }
    let t = 1.0 / (x * x);
    result += (1.0 + 1.0 / (2.0 * x) + t * (1.0 / 6.0 - t * (1.0 / 30.0 - t * (1.0 / 42.0)))) / x;
    sign * result
}

/// The Hurwitz zeta function: a direct sum, then Euler and Maclaurin's correction.
pub fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x < 1.0 || x.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if x != x.floor() {
            return f64::NAN;
        }
    }
    let (mut sum, mut a) = (q.powf(-x), q);
    let mut i = 0;
    while i < 12 || a <= 12.0 {
        i += 1;
        a += 1.0;
        let b = a.powf(-x);
        sum += b;
        if (b / sum).abs() < f64::EPSILON / 2.0 && a > 0.0 {
            return sum;
        }
    }
    let w = a;
    let b = a.powf(-x);
    sum += b * w / (x - 1.0) - 0.5 * b;
    // (2k)! / B2k
    const F: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1.892_437_580_318_379_1e9,
        7.47242496e10,
        -2.950_130_727_918_164e12,
        1.164_678_281_435_006_6e14,
        -4.597_978_722_407_472e15,
        1.815_210_540_194_354_7e17,
        -7.166_165_256_175_667e18,
    ];
    let (mut factor, mut k, mut power) = (1.0, 0.0, b);
    for f in F {
        factor *= x + k;
        power /= w;
        let t = factor * power / f;
        sum += t;
        if (t / sum).abs() < f64::EPSILON / 2.0 {
            return sum;
        }
        k += 1.0;
        factor *= x + k;
        power /= w;
        k += 1.0;
    }
    sum
}

pub fn polygamma(n: i64, x: f64) -> f64 {
    let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
    sign * lgamma(n as f64 + 1.0).exp() * zeta(n as f64 + 1.0, x)
}

pub fn sinc_complex(z: Complex<f64>) -> Complex<f64> {
    if z.re == 0.0 && z.im == 0.0 {
        return Complex::new(1.0, 0.0);
    }
    let w = z * PI;
    super::complex::div(super::complex::sin(w), w)
}

/// `exp(-|x|) * I_n(x)` for n of 0 or 1 and x of 0 or more.
fn scaled_i(n: i32, x: f64) -> f64 {
    let order = n as f64;
    if x < 20.0 {
        // All terms are positive: nothing cancels.
        let t = x * x / 4.0;
        let mut term = if n == 0 { 1.0 } else { x / 2.0 };
        let mut sum = term;
        for k in 1..200 {
            term *= t / (k as f64 * (k as f64 + order));
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return sum * (-x).exp();
    }
    let mu = 4.0 * order * order;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..40 {
        let odd = (2 * k - 1) as f64;
        term *= -(mu - odd * odd) / (k as f64 * 8.0 * x);
        sum += term;
        if term.abs() < 1e-17 {
            break;
        }
    }
    sum / (2.0 * PI * x).sqrt()
}

pub fn i0e(x: f64) -> f64 {
    if x.is_infinite() { 0.0 } else { scaled_i(0, x.abs()) }
}

pub fn i1e(x: f64) -> f64 {
    let y = if x.is_infinite() { 0.0 } else { scaled_i(1, x.abs()) };
    if x < 0.0 { -y } else { y }
}

/// `scaled * exp(x)`, in two steps where the exponential alone would overflow.
fn unscaled(scaled: f64, x: f64) -> f64 {
    if x > 700.0 {
        let half = (x / 2.0).exp();
        return scaled * half * half;
    }
    scaled * x.exp()
}

pub fn i0(x: f64) -> f64 {
    if x.is_infinite() { f64::INFINITY } else { unscaled(i0e(x), x.abs()) }
}

pub fn i1(x: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { unscaled(i1e(x), x.abs()) }
}

/// `exp(x) * (K_0(x), K_1(x))` for x above zero.
fn scaled_k(x: f64) -> (f64, f64) {
    if x <= 2.0 {
        let t = x * x / 4.0;
        let log = (x / 2.0).ln() + EULER;
        let (mut term, mut harmonic, mut sum, mut i0, mut i1) = (1.0, 0.0, 0.0, 1.0, 0.0);
        for k in 1..60 {
            let k = k as f64;
            i1 += term / k;
            term *= t / (k * k);
            harmonic += 1.0 / k;
            sum += term * harmonic;
            i0 += term;
            if term < 1e-18 {
                break;
            }
        }
        i1 *= x / 2.0;
        let k0 = sum - log * i0;
        // The Wronskian of I and K.
        let k1 = (1.0 / x - i1 * k0) / i0;
        return (k0 * x.exp(), k1 * x.exp());
    }
    // Steed's continued fraction.
    let mut b = 2.0 * (1.0 + x);
    let mut d = 1.0 / b;
    let (mut delta, mut h) = (d, d);
    let (mut q1, mut q2) = (0.0, 1.0);
    let a1 = 0.25;
    let (mut c, mut a) = (a1, -a1);
    let mut q = a1;
    let mut s = 1.0 + q * delta;
    for i in 2..10000 {
        a -= 2.0 * (i as f64 - 1.0);
        c = -a * c / i as f64;
        let next = (q1 - b * q2) / a;
        q1 = q2;
        q2 = next;
        q += c * next;
        b += 2.0;
        d = 1.0 / (b + a * d);
        delta *= b * d - 1.0;
        h += delta;
        let step = q * delta;
        s += step;
        if (step / s).abs() < 1e-17 {
            break;
        }
    }
    h *= a1;
    let k0 = (PI / (2.0 * x)).sqrt() / s;
    (k0, k0 * (x + 0.5 - h) / x)
}

fn scaled_k_checked(x: f64, pick: fn((f64, f64)) -> f64) -> f64 {
    if x == 0.0 {
        f64::INFINITY
    } else if x < 0.0 || x.is_nan() {
        f64::NAN
    } else if x.is_infinite() {
        0.0
    } else {
        pick(scaled_k(x))
    }
}

pub fn k0e(x: f64) -> f64 {
    scaled_k_checked(x, |k| k.0)
}

pub fn k1e(x: f64) -> f64 {
    scaled_k_checked(x, |k| k.1)
}

pub fn k0(x: f64) -> f64 {
    k0e(x) * if x > 0.0 { (-x).exp() } else { 1.0 }
}

pub fn k1(x: f64) -> f64 {
    k1e(x) * if x > 0.0 { (-x).exp() } else { 1.0 }
}

pub fn bessel_j0(x: f64) -> f64 {
    libm::j0(x)
}

pub fn bessel_j1(x: f64) -> f64 {
    libm::j1(x)
}

pub fn bessel_y0(x: f64) -> f64 {
    libm::y0(x)
}

pub fn bessel_y1(x: f64) -> f64 {
    libm::y1(x)
}

pub fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x.abs() < 0.5 {
        let t = x * x;
        return 1.0
            - t / 6.0
                * (1.0
                    - t / 20.0
                        * (1.0 - t / 42.0 * (1.0 - t / 72.0 * (1.0 - t / 110.0 * (1.0 - t / 156.0)))));
    }
    x.sin() / x
}
