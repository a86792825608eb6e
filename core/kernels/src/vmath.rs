//! Elementary functions without branches, so that loops over them compile to vector code.
//!
//! The `f32` forms are within 2 units in the last place (upstream's vector functions: 1); the tests measure it. They
//! fuse multiplications and additions where the instruction set does. The `f64` forms are the platform's scalar ones.

use crate::elem::Float;
use crate::isa::Isa;

/// The functions that differ between `f32` and `f64`.
pub trait Math: Float {
    fn exp<I: Isa>(self) -> Self;
    fn tanh<I: Isa>(self) -> Self;
    fn erf<I: Isa>(self) -> Self;
    fn log<I: Isa>(self) -> Self;
    /// The sine. In `f32` the argument must be within [`TURN_LIMIT`].
    fn sin<I: Isa>(self) -> Self;
    /// The cosine. In `f32` the argument must be within [`TURN_LIMIT`].
    fn cos<I: Isa>(self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn is_nan(self) -> bool;
}

/// `2^n` for `n` in -127..=128, infinity at the upper end and zero at the lower.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// `c[0] + x * (c[1] + x * (…))`
#[inline(always)]
fn polynomial<I: Isa, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut y = c[N - 1];
    for i in (0..N - 1).rev() {
        y = Float::mul_add::<I>(y, x, c[i]);
    }
    y
}

/// The magnitude up to which `sin` and `cos` of `f32` reduce their argument exactly enough.
pub const TURN_LIMIT: f32 = 100_000.0;

/// The sine of `x` plus `quarter` right angles. The reduction and the series are in `f64`, whose digits make up for the
/// parts of pi that the reduction leaves out.
#[inline(always)]
fn turn(x: f32, quarter: u64) -> f32 {
    // Adding 1.5 * 2^52 leaves the nearest integer in the low bits.
    const ROUND: f64 = 6755399441055744.0;
    let x = x as f64;
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let q = shifted.to_bits().wrapping_add(quarter);
    // A right angle in two parts; the product with the first is exact.
    let r = (x - n * 1.570_796_251_296_997) - n * 7.549789954891882e-08;
    let t = r * r;
    let sin = r + r * t * (-1.0 / 6.0 + t * (1.0 / 120.0 + t * (-1.0 / 5040.0 + t * (1.0 / 362880.0))));
    let cos = 1.0
        + t * (-0.5 + t * (1.0 / 24.0 + t * (-1.0 / 720.0 + t * (1.0 / 40320.0 + t * (-1.0 / 3628800.0)))));
    let y = if q & 1 == 0 { sin } else { cos };
    (if q & 2 == 0 { y } else { -y }) as f32
}

impl Math for f32 {
    #[inline(always)]
    fn exp<I: Isa>(self) -> f32 {
        // Beyond these the result is infinity or zero anyway. Comparisons, not min and max: NaN must stay.
        let x = if self > 89.0 { 89.0 } else { self };
        let x = if x < -104.0 { -104.0 } else { x };
        // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
        const ROUND: f32 = 12582912.0;
        let shifted = Float::mul_add::<I>(x, std::f32::consts::LOG2_E, ROUND);
        let n = shifted - ROUND;
        // ln 2 in two parts; the product with the first is exact.
        let r = Float::mul_add::<I>(n, -0.693_359_4, x);
        let r = Float::mul_add::<I>(n, 2.121_944_4e-4, r);
        let q = polynomial::<I, 6>(
            r,
            [0.5, 0.166_666_67, 0.041_666_27, 0.008_333_264, 0.001_394_607_4, 0.000_199_183_87],
        );
        let y = 1.0 + Float::mul_add::<I>(r * r, q, r);
        // In two steps, as 2^n may not be a normal number where the result is subnormal.
        let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
        let half = n >> 1;
        y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
    }

    #[inline(always)]
    fn tanh<I: Isa>(self) -> f32 {
        let x = self.abs();
        let t = x * x;
        let small = polynomial::<I, 6>(
            t,
            [-0.333_333_3, 0.133_332_06, -0.053_946_763, 0.021_700_703, -0.008_177_398, 0.002_142_961_8],
        );
        let small = Float::mul_add::<I>(small, t * x, x);
        // From 9.02 on the result rounds to one.
        let e = Math::exp::<I>(if x > 10.0 { 20.0 } else { x + x });
        let large = 1.0 - 2.0 / (e + 1.0);
        (if x < 0.625 { small } else { large }).copysign(self)
    }

    #[inline(always)]
    fn erf<I: Isa>(self) -> f32 {
        let x = self.abs();
        let t = x * x;
        let small = polynomial::<I, 7>(
            t,
            [
                0.128_379_17,
                -0.376_126_32,
                0.112_836_875,
                -0.026_858_94,
                0.005_199_906_4,
                -0.000_813_001_24,
                8.316_775e-5,
            ],
        );
        let small = Float::mul_add::<I>(small, x, x);
        // The logarithm of the complement is smooth. From 3.93 on the result rounds to one.
        let y = if x > 3.93 { 3.93 } else { x };
        let log = polynomial::<I, 8>(
            y,
            [
                1.746_849_6e-4,
                -1.129_514_9,
                -0.633_346_9,
                -0.108_280_09,
                0.025_119_43,
                -0.004_171_063_7,
                0.000_434_462_68,
                -2.109_505_3e-5,
            ],
        );
        let large = 1.0 - Math::exp::<I>(log);
        let large = if x > 3.93 { 1.0 } else { large };
        (if x < 0.925 || x.is_nan() { small } else { large }).copysign(self)
    }

    #[inline(always)]
    fn log<I: Isa>(self) -> f32 {
        // Subnormal numbers have no exponent of their own.
        let tiny = self < f32::MIN_POSITIVE;
        let x = if tiny { self * 8388608.0 } else { self };
        // Mantissa in [sqrt(1/2), sqrt(2)): the offset moves the exponent's border there.
        let bits = x.to_bits().wrapping_sub(0x3f35_04f3);
        let e = (bits as i32 >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
        let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
        let z = m * m;
        let y = polynomial::<I, 9>(
            m,
            [
                0.333_333_3,
                -0.249_999_93,
                0.200_007_14,
                -0.166_680_57,
                0.142_493_22,
                -0.124_201_41,
                0.116_769_99,
                -0.115_146_1,
                0.070_376_836,
            ],
        );
        let y = Float::mul_add::<I>(y * m, z, e * -2.121_944_4e-4);
        let y = Float::mul_add::<I>(z, -0.5, y);
        let y = Float::mul_add::<I>(e, 0.693_359_4, m + y);
        let y = if self == f32::INFINITY { self } else { y };
        let y = if self == 0.0 { f32::NEG_INFINITY } else { y };
        if self < 0.0 || self.is_nan() { f32::NAN } else { y }
    }

    #[inline(always)]
    fn sin<I: Isa>(self) -> f32 {
        turn(self, 0)
    }
    #[inline(always)]
    fn cos<I: Isa>(self) -> f32 {
        turn(self, 1)
    }

    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    #[inline(always)]
    fn abs(self) -> f32 {
        f32::abs(self)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl Math for f64 {
    #[inline(always)]
    fn exp<I: Isa>(self) -> f64 {
        f64::exp(self)
    }
    #[inline(always)]
    fn tanh<I: Isa>(self) -> f64 {
        f64::tanh(self)
    }
    #[inline(always)]
    fn erf<I: Isa>(self) -> f64 {
        libm::erf(self)
    }
    #[inline(always)]
    fn log<I: Isa>(self) -> f64 {
        f64::ln(self)
    }
    #[inline(always)]
    fn sin<I: Isa>(self) -> f64 {
        f64::sin(self)
    }
    #[inline(always)]
    fn cos<I: Isa>(self) -> f64 {
        f64::cos(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn abs(self) -> f64 {
        f64::abs(self)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

/// A function of one number.
pub trait Function {
    fn apply<I: Isa, F: Math>(x: F) -> F;
}

/// A function of two numbers.
pub trait Function2 {
    fn apply<I: Isa, F: Math>(x: F, y: F) -> F;
}

macro_rules! functions {
    ($trait:ident, $(#[$doc:meta] $name:ident($($x:ident),*) = $body:expr;)*) => {$(
        #[$doc]
        pub struct $name;
        impl $trait for $name {
            #[inline(always)]
            fn apply<I: Isa, F: Math>($($x: F),*) -> F {
                $body
            }
        }
    )*};
}

/// `x` of the type at hand.
#[inline(always)]
fn num<F: Float>(x: f64) -> F {
    F::from_f64(x)
}

functions! { Function,
    #[doc = "e^x"]
    Exp(x) = x.exp::<I>();
    #[doc = "The hyperbolic tangent."]
    Tanh(x) = x.tanh::<I>();
    #[doc = "The error function."]
    Erf(x) = x.erf::<I>();
    #[doc = "The natural logarithm."]
    Log(x) = x.log::<I>();
    #[doc = "The sine, for arguments within [`TURN_LIMIT`] in `f32`."]
    Sin(x) = x.sin::<I>();
    #[doc = "The cosine, for arguments within [`TURN_LIMIT`] in `f32`."]
    Cos(x) = x.cos::<I>();
    #[doc = "`1 / (1 + e^-x)`"]
    Sigmoid(x) = F::ONE / (F::ONE + (-x).exp::<I>());
    #[doc = "`x * sigmoid(x)`"]
    Silu(x) = x / (F::ONE + (-x).exp::<I>());
    #[doc = "`x * Φ(x)`, with the normal distribution function."]
    Gelu(x) = x * num(0.5) * (F::ONE + (x * num(std::f64::consts::FRAC_1_SQRT_2)).erf::<I>());
    #[doc = "The approximation of `gelu` by `tanh`."]
    GeluTanh(x) = {
        let inner = num::<F>(0.797_884_560_802_865_4) * (x + num::<F>(0.044715) * (x * x * x));
        num::<F>(0.5) * x * (F::ONE + inner.tanh::<I>())
    };
    #[doc = "The square root."]
    Sqrt(x) = x.sqrt();
    #[doc = "`1 / sqrt(x)`"]
    Rsqrt(x) = F::ONE / x.sqrt();
    #[doc = "`1 / x`"]
    Reciprocal(x) = F::ONE / x;
    #[doc = "`-x`"]
    Neg(x) = -x;
    #[doc = "The magnitude."]
    Abs(x) = x.abs();
    #[doc = "`x * x`"]
    Square(x) = x * x;
    #[doc = "`max(x, 0)`, NaN for NaN."]
    Relu(x) = if x < F::ZERO { F::ZERO } else { x };
}

functions! { Function2,
    #[doc = "`x + y`"]
    Add(x, y) = x + y;
    #[doc = "`x - y`"]
    Sub(x, y) = x - y;
    #[doc = "`x * y`"]
    Mul(x, y) = x * y;
    #[doc = "`x / y`"]
    Div(x, y) = x / y;
    #[doc = "The larger one, NaN if either is."]
    Maximum(x, y) = if x > y || x.is_nan() { x } else { y };
    #[doc = "The smaller one, NaN if either is."]
    Minimum(x, y) = if x < y || x.is_nan() { x } else { y };
    #[doc = "`silu(x) * y`, the gate of a Llama block."]
    SiluMul(x, y) = x / (F::ONE + (-x).exp::<I>()) * y;
    #[doc = "The gradient of `silu` at `x` times `grad`."]
    SiluBackward(grad, x) = {
        let sigmoid = F::ONE / (F::ONE + (-x).exp::<I>());
        grad * sigmoid * (F::ONE + x * (F::ONE - sigmoid))
    };
    #[doc = "The gradient of `gelu` at `x` times `grad`."]
    GeluBackward(grad, x) = {
        let cdf = num::<F>(0.5) * (F::ONE + (x * num(std::f64::consts::FRAC_1_SQRT_2)).erf::<I>());
        let pdf = (x * x * num(-0.5)).exp::<I>() * num(0.398_942_280_401_432_7);
        grad * (cdf + x * pdf)
    };
    #[doc = "The gradient of the approximation of `gelu` at `x` times `grad`."]
    GeluTanhBackward(grad, x) = {
        let beta = num::<F>(0.797_884_560_802_865_4);
        let kappa = num::<F>(0.044715);
        let t = (beta * (x + kappa * (x * x * x))).tanh::<I>();
        let inner = beta * (F::ONE + num::<F>(3.0) * kappa * (x * x));
        let half = num::<F>(0.5);
        grad * (half * (F::ONE + t) + half * x * (F::ONE - t * t) * inner)
    };
}
