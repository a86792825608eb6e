//! Elementary functions, row kernels, sums and copies against references in f64.

use crate::elem::{Elem, Float};
use crate::isa::at_each_level;
use crate::pointwise::{Operand, binary, convert, unary};
use crate::rows::{Norm, normalize, softmax, softmax_middle};
use crate::vmath::*;
use crate::{bf16, f16, reduce, transpose};

fn apply<G: Function>(x: &[f32]) -> Vec<f32> {
    let mut y = vec![0f32; x.len()];
    unsafe { unary::<f32, G>(x.len(), x.as_ptr(), y.as_mut_ptr()) };
    y
}

/// The distance of `got` from `want` in units of the last place of `want`.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !rounded.is_finite() {
        // Around the largest number: how far beyond it is what counts.
        let (a, b) = (got.clamp(-f32::MAX, f32::MAX) as f64, want.clamp(-3.4028236e38, 3.4028236e38));
        return (a - b).abs() / 2.028241e31;
    }
    let exponent = (rounded.abs().to_bits() >> 23).max(1) as i32 - 127 - 23;
    (got as f64 - want).abs() / (exponent as f64).exp2()
}

/// All of the range of f32, thinned, with special values.
fn sweep() -> Vec<f32> {
    let mut x: Vec<f32> = (0..u32::MAX / 4999).map(|i| f32::from_bits(i * 4999)).collect();
    x.extend((-120_000..120_000).map(|i| i as f32 * 1e-3));
    x.extend([
        0.0,
        -0.0,
        1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        88.72283,
        88.722_85,
        -103.97,
        -104.1,
    ]);
    x
}

fn accuracy<G: Function>(limit: f64, reference: impl Fn(f64) -> f64) {
    let x = sweep();
    for (x, y) in x.iter().zip(apply::<G>(&x)) {
        let want = reference(*x as f64);
        let error = ulps(y, want);
        assert!(error <= limit, "{} at {x:e}: {y:e} for {want:e}, {error} ulp", std::any::type_name::<G>());
    }
}

#[test]
fn functions_are_accurate() {
    at_each_level(|_| {
        accuracy::<Exp>(1.0, f64::exp);
        accuracy::<Tanh>(1.6, f64::tanh);
        accuracy::<Erf>(1.5, libm::erf);
        accuracy::<Log>(1.0, f64::ln);
        // To within the f64 series; larger arguments are the caller's.
        for (f, g) in
            [(apply::<Sin> as fn(&[f32]) -> Vec<f32>, f64::sin as fn(f64) -> f64), (apply::<Cos>, f64::cos)]
        {
            let x: Vec<f32> = sweep().into_iter().filter(|x| x.abs() <= TURN_LIMIT).collect();
            for (x, y) in x.iter().zip(f(&x)) {
                let want = g(*x as f64);
                // Near a zero of the function what counts is the distance in units of the argument's reduction.
                assert!(ulps(y, want) <= 1.0 || (y as f64 - want).abs() < 1e-12, "{x:e}: {y:e} for {want:e}");
            }
        }
        // The sum and the division round once more each.
        // Below -88.72 e^-x overflows and the result is zero, as upstream's is.
        accuracy::<Sigmoid>(
            2.5,
            |x| if (-x).exp() > f32::MAX as f64 { 0.0 } else { 1.0 / (1.0 + (-x).exp()) },
        );
        accuracy::<Silu>(
            3.0,
            |x| if (-x).exp() > f32::MAX as f64 { x * 0.0 } else { x / (1.0 + (-x).exp()) },
        );
        accuracy::<Rsqrt>(1.5, |x| 1.0 / x.sqrt());
        // Where gelu is small it is a difference, in upstream's formula as here: measured against the operand.
        let x: Vec<f32> = (-80_000..80_000).map(|i| i as f32 * 2e-4).collect();
        for (x, y) in x.iter().zip(apply::<Gelu>(&x)) {
            let want = 0.5 * *x as f64 * (1.0 + libm::erf(*x as f64 * std::f64::consts::FRAC_1_SQRT_2));
            assert!((y as f64 - want).abs() <= 1.5 * f32::EPSILON as f64 * x.abs() as f64, "{x} {y} {want}");
        }
        for (x, y) in x.iter().zip(apply::<GeluTanh>(&x)) {
            let x = *x as f64;
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            let want = 0.5 * x * (1.0 + inner.tanh());
            assert!((y as f64 - want).abs() <= 2.0 * f32::EPSILON as f64 * x.abs(), "{x} {y} {want}");
        }
    });
}

#[test]
fn special_values() {
    at_each_level(|_| {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
        let same = |got: Vec<f32>, want: [f32; 5]| {
            for (g, w) in got.iter().zip(want) {
                assert!(g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan()), "{got:?} {want:?}");
            }
        };
        same(apply::<Exp>(&x), [f32::NAN, f32::INFINITY, 0.0, 1.0, 1.0]);
        same(apply::<Tanh>(&x), [f32::NAN, 1.0, -1.0, 0.0, -0.0]);
        same(apply::<Erf>(&x), [f32::NAN, 1.0, -1.0, 0.0, -0.0]);
        same(apply::<Sigmoid>(&x), [f32::NAN, 1.0, 0.0, 0.5, 0.5]);
        same(apply::<Silu>(&x), [f32::NAN, f32::INFINITY, f32::NAN, 0.0, -0.0]);
        same(apply::<Relu>(&x), [f32::NAN, f32::INFINITY, 0.0, 0.0, -0.0]);
    });
}

/// Small reproducible values.
fn values<E: Elem>(n: usize, seed: u32) -> Vec<E> {
    let mut x = seed.wrapping_mul(2654435761).wrapping_add(1);
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            E::narrow(E::Acc::from_f64((x >> 8) as f64 / (1 << 22) as f64 - 2.0))
        })
        .collect()
}

fn wide<E: Elem>(x: &[E]) -> Vec<f64> {
    x.iter().map(|x| x.widen().to_f64()).collect()
}

const SIZES: [usize; 9] = [1, 2, 15, 16, 17, 63, 64, 65, 300];

fn check_pointwise<E: Elem>(unit: f64)
where
    E::Acc: Math,
{
    for n in [0, 1, 7, 63, 64, 65, 129, 70_000] {
        let (x, y) = (values::<E>(n, 1), values::<E>(n, 2));
        let mut z = vec![E::narrow(E::Acc::ZERO); n];
        unsafe { binary::<E, SiluMul>(n, x.as_ptr(), Operand::Array(y.as_ptr()), z.as_mut_ptr()) };
        for i in 0..n {
            let (x, y) = (x[i].widen().to_f64(), y[i].widen().to_f64());
            let want = x / (1.0 + (-x).exp()) * y;
            // Half of the smallest f16 above zero, for results that small.
            assert!((z[i].widen().to_f64() - want).abs() <= unit * want.abs() + 3e-8, "{i} of {n}");
        }
        // In place, with a scalar.
        let mut z = x.clone();
        unsafe { binary::<E, Div>(n, z.as_ptr(), Operand::Scalar(E::Acc::from_f64(3.0)), z.as_mut_ptr()) };
        for i in 0..n {
            let want = x[i].widen().to_f64() / 3.0;
            assert!((z[i].widen().to_f64() - want).abs() <= unit * want.abs() + 3e-8);
        }
    }
}

#[test]
fn pointwise_loops() {
    at_each_level(|_| {
        check_pointwise::<f32>(5.0 * f32::EPSILON as f64);
        check_pointwise::<f64>(5.0 * f64::EPSILON);
        check_pointwise::<bf16>(1.0 / 255.0);
        check_pointwise::<f16>(1.0 / 2047.0);
    });
}

#[test]
fn conversions_round_to_nearest_even() {
    at_each_level(|_| {
        let x: Vec<f32> = sweep();
        let (mut b, mut h) = (vec![bf16::ZERO; x.len()], vec![f16::ZERO; x.len()]);
        unsafe {
            convert::<f32, bf16>(x.len(), x.as_ptr(), b.as_mut_ptr());
            convert::<f32, f16>(x.len(), x.as_ptr(), h.as_mut_ptr());
        }
        for i in 0..x.len() {
            let (want_b, want_h) = (bf16::from_f32(x[i]), f16::from_f32(x[i]));
            assert!(b[i].to_bits() == want_b.to_bits() || (b[i].is_nan() && x[i].is_nan()));
            assert!(h[i].to_bits() == want_h.to_bits() || (h[i].is_nan() && x[i].is_nan()), "{:e}", x[i]);
        }
        let mut back = vec![0f32; x.len()];
        unsafe { convert::<f16, f32>(x.len(), h.as_ptr(), back.as_mut_ptr()) };
        assert!(h.iter().zip(&back).all(|(h, x)| h.to_f32() == *x || x.is_nan()));
    });
}

fn check_softmax<E: Elem>(unit: f64)
where
    E::Acc: Math,
{
    for n in SIZES {
        let rows = 3;
        let x = values::<E>(rows * n, n as u32);
        for log in [false, true] {
            let mut y = x.clone();
            unsafe { softmax::<E, E>(rows, n, log, y.as_ptr(), y.as_mut_ptr()) };
            let mut columns = x.clone();
            // The same numbers as 1 x n x 3: transposed there and back.
            let turned: Vec<E> = (0..n * rows).map(|i| x[i % rows * n + i / rows]).collect();
            let mut z = turned.clone();
            unsafe { softmax_middle::<E, E>(1, n, rows, log, turned.as_ptr(), z.as_mut_ptr()) };
            for i in 0..n * rows {
                columns[i % rows * n + i / rows] = z[i];
            }
            for r in 0..rows {
                let row = wide(&x[r * n..(r + 1) * n]);
                let sum: f64 = row.iter().map(|x| x.exp()).sum();
                for i in 0..n {
                    let want = if log { row[i] - sum.ln() } else { row[i].exp() / sum };
                    for got in [y[r * n + i], columns[r * n + i]] {
                        let error = (got.widen().to_f64() - want).abs();
                        // The logarithm is a difference of numbers of the size of x.
                        let size = if log { want.abs() + 4.0 } else { want };
                        assert!(error <= unit * size, "{n} {log} {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn softmax_rows_and_columns() {
    at_each_level(|_| {
        check_softmax::<f32>(8.0 * f32::EPSILON as f64);
        check_softmax::<f64>(8.0 * f64::EPSILON);
        check_softmax::<bf16>(1.0 / 255.0);
        check_softmax::<f16>(1.0 / 2047.0);
        let (i, nan) = (f32::NEG_INFINITY, f32::NAN);
        let run = |x: &[f32]| {
            let mut y = vec![0f32; x.len()];
            unsafe { softmax::<f32, f32>(1, x.len(), false, x.as_ptr(), y.as_mut_ptr()) };
            y
        };
        assert_eq!(run(&[i, 1.0, 1.0]), [0.0, 0.5, 0.5]);
        assert!(run(&[i, i, i]).iter().all(|x| x.is_nan()));
        assert!(run(&[0.0, nan, 1.0]).iter().all(|x| x.is_nan()));
        assert!(run(&[0.0, -i, 1.0])[1].is_nan());
    });
}

fn check_norm<E: Elem>(unit: f64)
where
    E::Acc: Math,
{
    for n in SIZES {
        let rows = 4;
        let (x, weight, bias) = (values::<E>(rows * n, 5), values::<E>(n, 6), values::<E>(n, 7));
        for norm in [Norm::Layer, Norm::Rms] {
            for parameters in [false, true] {
                let mut y = x.clone();
                let (mut mean, mut rstd) = (vec![E::Acc::ZERO; rows], vec![E::Acc::ZERO; rows]);
                let (w, b) = if parameters {
                    (weight.as_ptr(), bias.as_ptr())
                } else {
                    (std::ptr::null(), std::ptr::null())
                };
                unsafe {
                    let (m, s) = (mean.as_mut_ptr(), rstd.as_mut_ptr());
                    normalize::<E, E>(norm, rows, n, x.as_ptr(), w, b, 1e-3, y.as_mut_ptr(), m, s);
                }
                for r in 0..rows {
                    let row = wide(&x[r * n..(r + 1) * n]);
                    let m = if norm == Norm::Layer { row.iter().sum::<f64>() / n as f64 } else { 0.0 };
                    let s =
                        1.0 / (row.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n as f64 + 1e-3).sqrt();
                    assert!(
                        (mean[r].to_f64() - m).abs() <= unit && (rstd[r].to_f64() / s - 1.0).abs() <= unit
                    );
                    for i in 0..n {
                        let plain = (row[i] - m) * s;
                        let want = if parameters {
                            plain * weight[i].widen().to_f64() + bias[i].widen().to_f64()
                        } else {
                            plain
                        };
                        let error = (y[r * n + i].widen().to_f64() - want).abs();
                        assert!(error <= unit * (want.abs() + 8.0), "{norm:?} {n} {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn layer_and_rms_norm() {
    at_each_level(|_| {
        check_norm::<f32>(16.0 * f32::EPSILON as f64);
        check_norm::<f64>(16.0 * f64::EPSILON);
        check_norm::<bf16>(1.0 / 255.0);
        check_norm::<f16>(1.0 / 2047.0);
    });
}

#[test]
fn sums_are_accurate() {
    at_each_level(|_| {
        for n in [0, 1, 63, 64, 4096, 4097, 100_000, 1_000_003] {
            let x: Vec<f32> = (0..n).map(|i| 1.0 + (i % 7) as f32 * 0.1).collect();
            let want: f64 = x.iter().map(|&x| x as f64).sum();
            let got = unsafe { reduce::sum(n, x.as_ptr()) } as f64;
            // 64 additions in a partial sum and some 20 levels of pairs, whose errors have no common sign.
            assert!((got - want).abs() <= 20.0 * f32::EPSILON as f64 * want, "{n}: {got} {want}");
        }
        let (rows, n, ld) = (2500, 70, 77);
        let x = values::<bf16>(rows * ld, 9);
        let (mut by_row, mut by_column) = (vec![0f32; rows], vec![0f32; n]);
        unsafe {
            reduce::sum_rows(rows, n, x.as_ptr(), ld, 0.5, by_row.as_mut_ptr());
            reduce::sum_columns(rows, n, x.as_ptr(), ld, 2.0, by_column.as_mut_ptr());
        }
        let at = |i: usize, j: usize| x[i * ld + j].to_f64();
        for i in 0..rows {
            let want: f64 = (0..n).map(|j| at(i, j)).sum::<f64>() * 0.5;
            assert!((by_row[i] as f64 - want).abs() < 1e-4);
        }
        for j in 0..n {
            let want: f64 = (0..rows).map(|i| at(i, j)).sum::<f64>() * 2.0;
            assert!((by_column[j] as f64 - want).abs() < 1e-2);
        }
    });
}

#[test]
fn transposed_copies() {
    for (rows, cols) in [(1, 1), (8, 8), (31, 33), (32, 64), (65, 70), (0, 5), (200, 300)] {
        for size in [1, 2, 3, 4, 8, 16] {
            let src: Vec<u8> = (0..(rows + 1) * cols * size).map(|i| (i * 31 % 251) as u8).collect();
            let mut dst = vec![0u8; rows * (cols + 2) * size];
            unsafe {
                let (cs, rs) = (rows as isize + 1, cols as isize + 2);
                transpose::transpose(rows, cols, size, src.as_ptr(), cs, dst.as_mut_ptr(), rs);
            }
            for i in 0..rows {
                for j in 0..cols {
                    let (p, q) = ((i + j * (rows + 1)) * size, (i * (cols + 2) + j) * size);
                    assert_eq!(src[p..p + size], dst[q..q + size]);
                }
            }
        }
    }
}
