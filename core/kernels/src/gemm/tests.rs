//! Against a naive product in f64, at sizes around the edges of tiles, panels and blocks.

use super::*;
use crate::isa::{self, Level};
use crate::threads::set_num_threads;
use half::{bf16, f16};

/// Runs `f` at each level of this CPU, and with the vector instructions that a CPU with matrix instructions would not use.
fn at_each_level(f: impl Fn(Level)) {
    isa::at_each_level(|level| {
        f(level);
        #[cfg(target_arch = "x86_64")]
        if level == Level::Avx512 && amx::available() {
            use std::sync::atomic::Ordering::Relaxed;
            pairs::WITHOUT_TILES.store(true, Relaxed);
            f(level);
            pairs::WITHOUT_TILES.store(false, Relaxed);
        }
    });
}

/// Small reproducible values in (-1, 1).
struct Values(u64);
impl Values {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    }
    fn take<E: Elem>(&mut self, n: usize) -> Vec<E> {
        (0..n).map(|_| E::narrow(E::Acc::from_f64(self.next()))).collect()
    }
}

/// How a test lays a matrix out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    Rows,
    Columns,
    /// Rows with a gap after each, and every element apart from the next.
    Sparse,
}

const LAYOUTS: [Layout; 3] = [Layout::Rows, Layout::Columns, Layout::Sparse];

fn strides(layout: Layout, rows: usize, cols: usize) -> (isize, isize, usize) {
    match layout {
        Layout::Rows => (cols as isize, 1, rows * cols),
        Layout::Columns => (1, rows as isize, rows * cols),
        Layout::Sparse => ((cols * 3 + 5) as isize, 3, rows * (cols * 3 + 5) + 1),
    }
}

fn epsilon<E: Elem>() -> f64 {
    // The distance from one to the next number.
    let mut e = 1.0;
    while E::narrow(E::Acc::from_f64(1.0 + e / 2.0)).widen().to_f64() > 1.0 {
        e /= 2.0;
    }
    e
}

fn check<E: Elem, O: Elem<Acc = E::Acc>>(
    (m, n, k): (usize, usize, usize),
    (la, lb, lc): (Layout, Layout, Layout),
    alpha: f64,
    beta: f64,
) {
    let mut values = Values((m * 1000003 + n * 1009 + k) as u64);
    let (ars, acs, alen) = strides(la, m, k);
    let (brs, bcs, blen) = strides(lb, k, n);
    let (crs, ccs, clen) = strides(lc, m, n);
    let (a, b) = (values.take::<E>(alen), values.take::<E>(blen));
    let before: Vec<O> =
        if beta == 0.0 { vec![O::narrow(E::Acc::from_f64(f64::NAN)); clen] } else { values.take(clen) };
    let mut c = before.clone();
    unsafe {
        gemm_into::<E, O>(
            m,
            n,
            k,
            E::Acc::from_f64(alpha),
            Mat::new(a.as_ptr(), ars, acs),
            Mat::new(b.as_ptr(), brs, bcs),
            E::Acc::from_f64(beta),
            MatMut::new(c.as_mut_ptr(), crs, ccs),
        );
    }
    let at =
        |v: &[E], rs: isize, cs: isize, i: usize, j: usize| v[(i as isize * rs + j as isize * cs) as usize];
    let (unit, last) = (epsilon::<E::Acc>(), epsilon::<O>());
    let mut touched = vec![false; clen];
    for i in 0..m {
        for j in 0..n {
            let (mut sum, mut size) = (0.0, 0.0);
            for p in 0..k {
                let x = at(&a, ars, acs, i, p).widen().to_f64() * at(&b, brs, bcs, p, j).widen().to_f64();
                sum += x;
                size += x.abs();
            }
            let q = (i as isize * crs + j as isize * ccs) as usize;
            touched[q] = true;
            let old = if beta == 0.0 { 0.0 } else { beta * before[q].widen().to_f64() };
            let want = alpha * sum + old;
            // k additions of rounded products, two more operations at the end, then the rounding of the result:
            // each within half a unit of what it adds up to. The reference itself is rounded when E is f64.
            let bound = (k + 4) as f64 * unit * (alpha.abs() * size + old.abs()) + last * want.abs() / 2.0;
            let got = c[q].widen().to_f64();
            assert!(
                (got - want).abs() <= bound * 1.001 + 1e-300,
                "{m}x{n}x{k} {la:?} {lb:?} {lc:?} alpha {alpha} beta {beta} at ({i}, {j}): {got} for {want}, bound {bound}"
            );
        }
    }
    for q in 0..clen {
        let same = c[q].widen().to_f64().to_bits() == before[q].widen().to_f64().to_bits();
        assert!(touched[q] || same, "stray write at {q}");
    }
}

fn check_all_layouts<E: Elem>(shape: (usize, usize, usize)) {
    for la in LAYOUTS {
        for lb in LAYOUTS {
            for lc in LAYOUTS {
                check::<E, E>(shape, (la, lb, lc), 1.0, 0.0);
            }
        }
    }
    check::<E, E>(shape, (Layout::Rows, Layout::Columns, Layout::Rows), 0.5, 1.0);
    check::<E, E>(shape, (Layout::Rows, Layout::Rows, Layout::Rows), -2.0, 0.25);
    check::<E, E>(shape, (Layout::Columns, Layout::Rows, Layout::Sparse), 1.0, -1.0);
}

const SMALL: [(usize, usize, usize); 24] = [
    (0, 3, 2),
    (3, 0, 2),
    (1, 1, 1),
    (3, 4, 0),
    (1, 7, 5),
    (2, 9, 33),
    (3, 5, 17),
    (4, 8, 8),
    (5, 3, 31),
    (6, 16, 4),
    (7, 17, 16),
    (8, 33, 15),
    (9, 31, 3),
    (11, 1, 40),
    (12, 32, 7),
    (13, 33, 9),
    (16, 65, 20),
    (17, 15, 12),
    (18, 24, 64),
    (33, 2, 66),
    (25, 47, 19),
    (64, 64, 64),
    (32, 32, 32),
    (65, 40, 96),
];

#[test]
fn small_shapes_in_every_layout() {
    at_each_level(|_| {
        for shape in SMALL {
            check_all_layouts::<f32>(shape);
            check_all_layouts::<f64>(shape);
            check_all_layouts::<bf16>(shape);
            check_all_layouts::<f16>(shape);
        }
    });
}

#[test]
fn shapes_around_block_edges() {
    use Layout::*;
    at_each_level(|_| {
        for threads in [1, 3] {
            set_num_threads(threads);
            for shape in [(95, 129, 383), (97, 511, 385), (193, 65, 769), (40, 1025, 100), (5, 1030, 70)] {
                for layouts in [
                    (Rows, Rows, Rows),
                    (Rows, Columns, Rows),
                    (Columns, Rows, Columns),
                    (Sparse, Sparse, Sparse),
                ] {
                    check::<f32, f32>(shape, layouts, 1.0, 0.0);
                    check::<bf16, bf16>(shape, layouts, 1.0, 0.5);
                }
                check::<f64, f64>(shape, (Rows, Columns, Rows), 1.0, 1.0);
                check::<f16, f16>(shape, (Columns, Columns, Rows), 2.0, 0.0);
                check::<bf16, f32>(shape, (Rows, Columns, Rows), 1.0, 0.0);
                check::<bf16, f32>(shape, (Columns, Rows, Rows), -0.5, 1.0);
            }
        }
    });
}

#[test]
fn k_longer_than_a_chunk() {
    use Layout::*;
    at_each_level(|_| {
        for shape in [(20, 18, 7000), (2, 3, 7001), (3, 40, 7001)] {
            check::<f32, f32>(shape, (Columns, Rows, Rows), 1.0, 0.5);
            check::<bf16, bf16>(shape, (Columns, Rows, Rows), 1.0, 0.5);
        }
    });
}

#[test]
fn result_is_the_same_with_any_number_of_threads() {
    at_each_level(|_| {
        let mut values = Values(7);
        let (m, n, k) = (150, 700, 500);
        let (a, b) = (values.take::<f32>(m * k), values.take::<f32>(k * n));
        let run = |threads: usize, rows: usize| {
            set_num_threads(threads);
            let mut c = vec![0f32; rows * n];
            let b = Mat::new(b.as_ptr(), 1, k as isize);
            let c_view = MatMut::new(c.as_mut_ptr(), n as isize, 1);
            unsafe { gemm(rows, n, k, 1.0, Mat::new(a.as_ptr(), k as isize, 1), b, 0.0, c_view) };
            c
        };
        for rows in [m, 3, 1] {
            let one = run(1, rows);
            assert!((2..6).all(|t| run(t, rows) == one));
        }
    });
}

#[test]
fn nan_and_infinity_propagate() {
    at_each_level(|_| {
        for (m, n, k) in [(1, 40, 40), (3, 40, 40), (40, 40, 40)] {
            for columns in [false, true] {
                let a = vec![1f32; m * k];
                let mut b = vec![1f32; k * n];
                let (rs, cs) = if columns { (1, k) } else { (n, 1) };
                b[7 * rs + 5 * cs] = f32::NAN;
                b[9 * rs + 6 * cs] = f32::INFINITY;
                b[9 * rs + 8 * cs] = f32::INFINITY;
                b[11 * rs + 8 * cs] = f32::NEG_INFINITY;
                let mut c = vec![0f32; m * n];
                let b = Mat::new(b.as_ptr(), rs as isize, cs as isize);
                let c_view = MatMut::new(c.as_mut_ptr(), n as isize, 1);
                unsafe { gemm(m, n, k, 1.0, Mat::new(a.as_ptr(), k as isize, 1), b, 0.0, c_view) };
                for i in 0..m {
                    assert!(c[i * n + 5].is_nan());
                    assert_eq!(c[i * n + 6], f32::INFINITY);
                    assert!(c[i * n + 8].is_nan());
                    assert_eq!(c[i * n + 4], k as f32);
                }
            }
        }
    });
}

#[test]
fn expanded_operands() {
    at_each_level(|_| {
        // Stride zero: every row of A is the same row, every column of B the same column.
        let (m, n, k) = (20, 30, 50);
        let (a, b) = (Values(1).take::<f32>(k), Values(2).take::<f32>(k));
        let mut c = vec![0f32; m * n];
        unsafe {
            let c = MatMut::new(c.as_mut_ptr(), n as isize, 1);
            gemm(m, n, k, 1.0, Mat::new(a.as_ptr(), 0, 1), Mat::new(b.as_ptr(), 1, 0), 0.0, c);
        }
        let want: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
        assert!(c.iter().all(|x| (x - want).abs() < 1e-5 && *x == c[0]));
    });
}

#[test]
fn negative_strides() {
    at_each_level(|_| {
        let (m, n, k) = (20, 21, 22);
        let (a, b) = (Values(1).take::<f64>(m * k), Values(2).take::<f64>(k * n));
        let mut c = vec![0f64; m * n];
        unsafe {
            let a = Mat::new(a.as_ptr().add(m * k - 1), -(k as isize), -1);
            let b = Mat::new(b.as_ptr().add(k * n - 1), -(n as isize), -1);
            gemm(m, n, k, 1.0, a, b, 0.0, MatMut::new(c.as_mut_ptr(), n as isize, 1));
        }
        for i in 0..m {
            for j in 0..n {
                let want: f64 = (0..k).map(|p| a[m * k - 1 - i * k - p] * b[k * n - 1 - p * n - j]).sum();
                assert!((c[i * n + j] - want).abs() < 1e-12);
            }
        }
    });
}

#[test]
fn batches() {
    at_each_level(|_| {
        for (batch, m, n, k) in [(3, 5, 6, 7), (50, 4, 4, 4), (9, 40, 64, 40), (0, 2, 2, 2)] {
            let (a, b) = (Values(3).take::<f32>(batch * m * k), Values(4).take::<f32>(k * n));
            let mut c = vec![f32::NAN; batch * m * n];
            // B is shared by the whole batch.
            unsafe {
                let (av, bv) = (Mat::new(a.as_ptr(), k as isize, 1), Mat::new(b.as_ptr(), n as isize, 1));
                let cv = MatMut::new(c.as_mut_ptr(), n as isize, 1);
                gemm_batched(batch, m, n, k, 1.0, av, bv, 0.0, cv, |i| {
                    ((i * m * k) as isize, 0, (i * m * n) as isize)
                });
            }
            for i in 0..batch * m {
                for j in 0..n {
                    let want: f64 = (0..k).map(|p| a[i * k + p] as f64 * b[p * n + j] as f64).sum();
                    assert!((c[i * n + j] as f64 - want).abs() <= 1e-5);
                }
            }
        }
    });
}

fn check_integer<T: Integer + PartialEq + std::fmt::Debug>(
    make: impl Fn(i128) -> T,
    value: impl Fn(T) -> i128,
) {
    for (m, n, k) in [(1, 1, 1), (3, 70, 5), (65, 64, 33), (2, 3, 0)] {
        let mut x = 12345i128;
        let mut next = || {
            x = (x * 6364136223846793005 + 1442695040888963407) & 0xffff_ffff_ffff_ffff;
            make(x >> 7)
        };
        let a: Vec<T> = (0..m * k).map(|_| next()).collect();
        let b: Vec<T> = (0..k * n).map(|_| next()).collect();
        let before: Vec<T> = (0..m * n).map(|_| next()).collect();
        for (alpha, beta) in [(1, 0), (3, -2)] {
            let mut c = before.clone();
            unsafe {
                let (a, b) = (Mat::new(a.as_ptr(), k as isize, 1), Mat::new(b.as_ptr(), 1, k as isize));
                gemm_integer(m, n, k, alpha, a, b, beta, MatMut::new(c.as_mut_ptr(), n as isize, 1));
            }
            for i in 0..m {
                for j in 0..n {
                    let sum: i128 = (0..k).map(|p| value(a[i * k + p]) * value(b[j * k + p])).sum();
                    let want = alpha as i128 * (sum % (1 << 64)) + beta as i128 * value(before[i * n + j]);
                    assert_eq!(c[i * n + j], make(want));
                }
            }
        }
    }
}

#[test]
fn integers_wrap() {
    check_integer::<i8>(|x| x as i8, |x| x as i128);
    check_integer::<u8>(|x| x as u8, |x| x as i128);
    check_integer::<i16>(|x| x as i16, |x| x as i128);
    check_integer::<i32>(|x| x as i32, |x| x as i128);
    check_integer::<i64>(|x| x as i64, |x| x as i128);
}

#[test]
fn complex_products() {
    at_each_level(|_| {
        let (m, n, k) = (5, 7, 9);
        let pairs = |seed, n: usize| -> Vec<[f64; 2]> {
            let mut values = Values(seed);
            (0..n).map(|_| [values.next(), values.next()]).collect()
        };
        let (a, b, before) = (pairs(1, m * k), pairs(2, k * n), pairs(3, m * n));
        let times = |x: [f64; 2], y: [f64; 2]| [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]];
        for (conj_a, conj_b) in [(false, false), (true, false), (false, true)] {
            for (alpha, beta) in [([1.0, 0.0], [0.0, 0.0]), ([0.5, -2.0], [1.0, 0.25])] {
                let mut c = if beta == [0.0, 0.0] { vec![[f64::NAN; 2]; m * n] } else { before.clone() };
                unsafe {
                    let (a, b) = (Mat::new(a.as_ptr(), k as isize, 1), Mat::new(b.as_ptr(), n as isize, 1));
                    let c = MatMut::new(c.as_mut_ptr(), n as isize, 1);
                    gemm_complex(m, n, k, alpha, a, conj_a, b, conj_b, beta, c);
                }
                for i in 0..m {
                    for j in 0..n {
                        let mut sum = [0.0; 2];
                        for p in 0..k {
                            let (mut x, mut y) = (a[i * k + p], b[p * n + j]);
                            x[1] *= if conj_a { -1.0 } else { 1.0 };
                            y[1] *= if conj_b { -1.0 } else { 1.0 };
                            let z = times(x, y);
                            sum = [sum[0] + z[0], sum[1] + z[1]];
                        }
                        let (p, q) = (times(alpha, sum), times(beta, before[i * n + j]));
                        for h in 0..2 {
                            assert!((c[i * n + j][h] - p[h] - q[h]).abs() < 1e-12);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn half_conversions_are_exact() {
    // Every half, and for rounding every half's neighbourhood in f32, against the half crate.
    for bits in 0..=u16::MAX {
        let h = f16::from_bits(bits);
        let x = <f16 as Elem>::widen(h);
        assert!(x.to_bits() == h.to_f32().to_bits() || (x.is_nan() && h.is_nan()), "{bits:x}");
        for offset in [-4097i32, -4096, -4095, -1, 0, 1, 4095, 4096, 4097] {
            let y = f32::from_bits(h.to_f32().to_bits().wrapping_add(offset as u32));
            let (got, want) = (<f16 as Elem>::narrow(y), f16::from_f32(y));
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{y:e} {got:?} {want:?}"
            );
            let z = f32::from_bits(((bits as u32) << 16).wrapping_add((offset * 8) as u32));
            let (got, want) = (<bf16 as Elem>::narrow(z), bf16::from_f32(z));
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{z:e}");
        }
    }
}

/// Stores whole registers of each 16-bit type.
struct Narrow<'a, E: Elem> {
    from: &'a [f32],
    to: &'a mut [E],
}
impl<E: Elem<Acc = f32>> isa::Task for Narrow<'_, E> {
    type Out = ();
    #[inline(always)]
    fn run<I: isa::Isa>(self) {
        use crate::isa::Vector;
        for i in (0..self.from.len()).step_by(I::F32::LANES) {
            // SAFETY: the length is a multiple of every register's.
            unsafe { E::store::<I>(self.to.as_mut_ptr().add(i), I::F32::load(self.from.as_ptr().add(i))) }
        }
    }
}

#[test]
fn vectors_round_as_single_numbers_do() {
    let mut from: Vec<f32> = Vec::new();
    for high in 0..=u16::MAX {
        for low in [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff] {
            from.push(f32::from_bits((high as u32) << 16 | low));
        }
    }
    at_each_level(|level| {
        let mut halves = vec![f16::ZERO; from.len()];
        let mut brains = vec![bf16::ZERO; from.len()];
        isa::dispatch(Narrow { from: &from, to: &mut halves });
        isa::dispatch(Narrow { from: &from, to: &mut brains });
        for (i, &x) in from.iter().enumerate() {
            assert_eq!(halves[i].to_bits(), <f16 as Elem>::narrow(x).to_bits(), "{level:?} {x:e}");
            assert_eq!(brains[i].to_bits(), <bf16 as Elem>::narrow(x).to_bits(), "{level:?} {x:e}");
        }
    });
}
