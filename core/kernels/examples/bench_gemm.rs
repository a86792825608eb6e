//! Speed of matrix products: `cargo run --release -p torchnative-kernels --example bench_gemm [threads] [MxKxN]`.

use std::time::Instant;
use torchnative_kernels::elem::{Elem, Float};
use torchnative_kernels::gemm::{Mat, MatMut, gemm};
use torchnative_kernels::{bf16, f16, set_num_threads};

/// The shortest of several runs, in seconds.
fn best(reps: usize, mut f: impl FnMut()) -> f64 {
    f();
    (0..reps).fold(f64::INFINITY, |best, _| {
        let start = Instant::now();
        f();
        best.min(start.elapsed().as_secs_f64())
    })
}

fn values<E: Elem>(n: usize) -> Vec<E> {
    let mut x = 1u32;
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            E::narrow(E::Acc::from_f64((x >> 8) as f64 / (1 << 24) as f64 - 0.5))
        })
        .collect()
}

/// `x @ w.T`, as a linear layer computes it, or `x @ w`.
fn product<E: Elem>(m: usize, k: usize, n: usize, transposed: bool) -> f64 {
    let (x, w) = (values::<E>(m * k), values::<E>(n * k));
    let mut y = values::<E>(m * n);
    let w = if transposed {
        Mat::new(w.as_ptr(), k as isize, 1).t()
    } else {
        Mat::new(w.as_ptr(), n as isize, 1)
    };
    let (x, y) = (Mat::new(x.as_ptr(), k as isize, 1), MatMut::new(y.as_mut_ptr(), n as isize, 1));
    let reps = (2_000_000_000 / (2 * m * n * k)).clamp(3, 200);
    // SAFETY: the buffers have these shapes.
    best(reps, || unsafe { gemm(m, n, k, E::Acc::ONE, x, w, E::Acc::ZERO, y) })
}

fn table<E: Elem>(name: &str, shapes: &[(usize, usize, usize)]) {
    for &(m, k, n) in shapes {
        for transposed in [true, false] {
            let seconds = product::<E>(m, k, n, transposed);
            let flops = 2.0 * (m * n * k) as f64 / seconds / 1e9;
            let bytes = ((m * k + n * k + m * n) * size_of::<E>()) as f64 / seconds / 1e9;
            let form = if transposed { "x @ w.T" } else { "x @ w  " };
            println!(
                "{name:5} {form} {m:5} x {k:4} x {n:5}  {:9.1} us {flops:7.1} GFLOP/s {bytes:6.2} GB/s",
                seconds * 1e6
            );
        }
    }
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let shape = |x: String| {
        let sizes: Vec<usize> = x.split('x').filter_map(|x| x.parse().ok()).collect();
        (sizes.len() == 3).then(|| (sizes[0], sizes[1], sizes[2]))
    };
    let wanted: Vec<_> = std::env::args().skip(1).filter_map(shape).collect();
    for threads in if arguments.is_empty() { vec![1, 2] } else { arguments } {
        set_num_threads(threads);
        println!("{threads} thread(s)");
        let shapes = [
            (1024, 1024, 1024),
            (512, 576, 576),
            (128, 576, 1536),
            (32, 576, 1536),
            (16, 576, 1536),
            (6, 576, 1536),
            (1, 576, 1536),
            (1, 576, 49152),
            (4, 8, 8),
        ];
        if !wanted.is_empty() {
            table::<f32>("f32", &wanted);
            table::<bf16>("bf16", &wanted);
            table::<f16>("f16", &wanted);
            continue;
        }
        table::<f32>("f32", &shapes);
        table::<bf16>("bf16", &shapes);
        table::<f16>("f16", &shapes[1..8]);
        table::<f64>("f64", &shapes[..3]);
    }
}
