//! Speed of attention, elementary functions and row kernels:
//! `cargo run --release -p torchnative-kernels --example bench_rows [threads]`.

use std::time::Instant;
use torchnative_kernels::attention::{Attention, Mask, View, attention};
use torchnative_kernels::elem::{Elem, Float};
use torchnative_kernels::pointwise::{Operand, binary, convert, unary};
use torchnative_kernels::rows::{Norm, normalize, softmax};
use torchnative_kernels::vmath::{Add, Exp, Function, Gelu, Math, Silu, Tanh};
use torchnative_kernels::{bf16, reduce, set_num_threads, transpose};

/// Prints the shortest of several runs.
fn report(name: &str, unit: &str, amount: f64, mut f: impl FnMut()) {
    f();
    let best = (0..15).fold(f64::INFINITY, |best, _| {
        let start = Instant::now();
        f();
        best.min(start.elapsed().as_secs_f64())
    });
    println!("{name:32} {:9.1} us {:8.2} {unit}", best * 1e6, amount / best / 1e9);
}

fn values<E: Elem>(n: usize) -> Vec<E> {
    (0..n).map(|i| E::narrow(E::Acc::from_f64((i * 7919 % 1000) as f64 / 250.0 - 2.0))).collect()
}

fn attend<E: Elem>(name: &str, rows: usize, keys: usize)
where
    E::Acc: Math,
{
    let (heads, kv_heads, e) = (9, 3, 64);
    let (q, k, v) =
        (values::<E>(heads * rows * e), values::<E>(kv_heads * keys * e), values::<E>(kv_heads * keys * e));
    let mut out = q.clone();
    // As a model's projections leave them: [row, head, width].
    let strides = |h: usize| [0, e as isize, (h * e) as isize, 1];
    let args = Attention {
        batch: 1,
        heads,
        kv_heads,
        rows,
        keys,
        width: e,
        value_width: e,
        scale: E::Acc::from_f64(0.125),
        causal: rows > 1,
        q: View { ptr: q.as_ptr(), strides: strides(heads) },
        k: View { ptr: k.as_ptr(), strides: strides(kv_heads) },
        v: View { ptr: v.as_ptr(), strides: strides(kv_heads) },
        mask: Mask::None,
        out: out.as_mut_ptr(),
        out_strides: strides(heads),
        logsumexp: std::ptr::null_mut(),
        logsumexp_strides: [0; 3],
    };
    let flops = 4.0 * (heads * rows * keys * e) as f64 / if rows > 1 { 2.0 } else { 1.0 };
    // SAFETY: the buffers have these shapes.
    report(&format!("attention {name} {rows} x {keys}"), "GFLOP/s", flops, || unsafe { attention(&args) });
}

fn function<G: Function>(name: &str) {
    let n = 1 << 20;
    let (x, mut y) = (values::<f32>(n), values::<f32>(n));
    // SAFETY: both hold `n` values.
    report(name, "G/s", n as f64, || unsafe { unary::<f32, G>(n, x.as_ptr(), y.as_mut_ptr()) });
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    for threads in if arguments.is_empty() { vec![1, 2] } else { arguments } {
        set_num_threads(threads);
        println!("{threads} thread(s)");
        for (rows, keys) in [(6, 6), (128, 128), (512, 512), (1, 200), (1, 2048)] {
            attend::<f32>("f32", rows, keys);
            attend::<bf16>("bf16", rows, keys);
        }
        function::<Exp>("exp f32");
        function::<Tanh>("tanh f32");
        function::<Silu>("silu f32");
        function::<Gelu>("gelu f32");
        let n = 1 << 20;
        let (x, mut y) = (values::<f32>(n), values::<f32>(n));
        let mut half = values::<bf16>(n);
        let (null, stats) = (std::ptr::null::<f32>(), std::ptr::null_mut());
        // SAFETY: every buffer holds `n` values.
        unsafe {
            report("add f32", "G/s", n as f64, || {
                binary::<f32, Add>(n, x.as_ptr(), Operand::Array(x.as_ptr()), y.as_mut_ptr())
            });
            report("f32 to bf16", "G/s", n as f64, || convert(n, x.as_ptr(), half.as_mut_ptr()));
            report("bf16 to f32", "G/s", n as f64, || convert(n, half.as_ptr(), y.as_mut_ptr()));
            report("sum f32", "G/s", n as f64, || {
                std::hint::black_box(reduce::sum(n, x.as_ptr()));
            });
            report("softmax 1024 x 1024", "G/s", n as f64, || {
                softmax(1024, 1024, false, x.as_ptr(), y.as_mut_ptr())
            });
            report("rms_norm 1820 x 576", "G/s", (1820 * 576) as f64, || {
                normalize(Norm::Rms, 1820, 576, x.as_ptr(), null, null, 1e-5, y.as_mut_ptr(), stats, stats)
            });
            report("layer_norm 1820 x 576", "G/s", (1820 * 576) as f64, || {
                normalize(Norm::Layer, 1820, 576, x.as_ptr(), null, null, 1e-5, y.as_mut_ptr(), stats, stats)
            });
            report("transpose 1024 x 1024 f32", "G/s", n as f64, || {
                transpose::transpose(1024, 1024, 4, x.as_ptr().cast(), 1024, y.as_mut_ptr().cast(), 1024)
            });
        }
    }
}
