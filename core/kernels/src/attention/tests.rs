//! Against softmax(q kᵀ scale + mask) v in f64.

use super::*;
use crate::isa::at_each_level;
use crate::threads::set_num_threads;
use half::{bf16, f16};

fn values<E: Elem>(n: usize, seed: u32) -> Vec<E> {
    let mut x = seed.wrapping_mul(2654435761).wrapping_add(1);
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            E::narrow(E::Acc::from_f64((x >> 8) as f64 / (1 << 22) as f64 - 2.0))
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    rows: usize,
    keys: usize,
    width: usize,
    value_width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Causal,
    Bool,
    Additive,
    Wide,
}

/// Whether blocks of rows go through matrix instructions.
fn tiled<E: Elem>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return gemm::is::<E, bf16>() && gemm::pairs::available() && gemm::pairs::tiles();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Strides of `[b, h, l, e]` in memory as `[b, l, h, e]` when `swapped`, as a model's projections leave them, or with
/// the width outermost when `sparse`.
fn strides(h: usize, l: usize, e: usize, swapped: bool, sparse: bool) -> [isize; 4] {
    let s = match (swapped, sparse) {
        (false, false) => [h * l * e, l * e, e, 1],
        (true, false) => [h * l * e, e, h * e, 1],
        (_, true) => [h * l * e, l * e, 1, l],
    };
    s.map(|x| x as isize)
}

fn check<E: Elem>(s: Shape, kind: Kind, swapped: bool, sparse: bool, unit: f64)
where
    E::Acc: Math,
{
    let q = values::<E>(s.batch * s.heads * s.rows * s.width, 1);
    let k = values::<E>(s.batch * s.kv_heads * s.keys * s.width, 2);
    let v = values::<E>(s.batch * s.kv_heads * s.keys * s.value_width, 3);
    let qs = strides(s.heads, s.rows, s.width, swapped, sparse);
    let ks = strides(s.kv_heads, s.keys, s.width, swapped, sparse);
    let vs = strides(s.kv_heads, s.keys, s.value_width, swapped, sparse);
    let os = strides(s.heads, s.rows, s.value_width, swapped, sparse);
    // One mask for all batches; row 1 excludes every key.
    let mask_len = s.heads * s.rows * s.keys;
    let mut allowed: Vec<u8> = (0..mask_len).map(|i| (i * 7 % 5 != 0) as u8).collect();
    if s.rows > 1 {
        for h in 0..s.heads {
            allowed[(h * s.rows + 1) * s.keys..(h * s.rows + 2) * s.keys].fill(0);
        }
    }
    let additive: Vec<E> = values::<E>(mask_len, 4);
    let wide: Vec<E::Acc> = additive.iter().map(|x| x.widen()).collect();
    let ms = [0, (s.rows * s.keys) as isize, s.keys as isize, 1];
    let nan = E::narrow(E::Acc::from_f64(f64::NAN));
    let mut out = vec![nan; s.batch * s.heads * s.rows * s.value_width];
    let mut lse = vec![E::Acc::from_f64(f64::NAN); s.batch * s.heads * s.rows];
    let scale = 0.3;
    let args = Attention {
        batch: s.batch,
        heads: s.heads,
        kv_heads: s.kv_heads,
        rows: s.rows,
        keys: s.keys,
        width: s.width,
        value_width: s.value_width,
        scale: E::Acc::from_f64(scale),
        causal: kind == Kind::Causal,
        q: View { ptr: q.as_ptr(), strides: qs },
        k: View { ptr: k.as_ptr(), strides: ks },
        v: View { ptr: v.as_ptr(), strides: vs },
        mask: match kind {
            Kind::Plain | Kind::Causal => Mask::None,
            Kind::Bool => Mask::Bool(View { ptr: allowed.as_ptr(), strides: ms }),
            Kind::Additive => Mask::Additive(View { ptr: additive.as_ptr(), strides: ms }),
            Kind::Wide => Mask::Wide(View { ptr: wide.as_ptr(), strides: ms }),
        },
        out: out.as_mut_ptr(),
        out_strides: os,
        logsumexp: lse.as_mut_ptr(),
        logsumexp_strides: [(s.heads * s.rows) as isize, 1, s.heads as isize],
    };
    unsafe { attention(&args) };
    let group = s.heads / s.kv_heads;
    let at = |x: &[E], t: [isize; 4], b: usize, h: usize, i: usize, j: usize| {
        x[(b as isize * t[0] + h as isize * t[1] + i as isize * t[2] + j as isize * t[3]) as usize]
            .widen()
            .to_f64()
    };
    for b in 0..s.batch {
        for h in 0..s.heads {
            for i in 0..s.rows {
                let score = |j: usize| {
                    let m = (h * s.rows + i) * s.keys + j;
                    let dot: f64 =
                        (0..s.width).map(|c| at(&q, qs, b, h, i, c) * at(&k, ks, b, h / group, j, c)).sum();
                    let seen = match kind {
                        Kind::Causal => j <= i,
                        Kind::Bool => allowed[m] != 0,
                        _ => true,
                    };
                    let bias =
                        if matches!(kind, Kind::Additive | Kind::Wide) { wide[m].to_f64() } else { 0.0 };
                    if seen { dot * scale + bias } else { f64::NEG_INFINITY }
                };
                let scores: Vec<f64> = (0..s.keys).map(score).collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> =
                    scores.iter().map(|x| if top.is_finite() { (x - top).exp() } else { 0.0 }).collect();
                let sum: f64 = weights.iter().sum();
                let want_lse = if sum == 0.0 { 0.0 } else { top + sum.ln() };
                let got_lse = lse[b * s.heads * s.rows + i * s.heads + h].to_f64();
                // Scores are below 4 * width * 0.3 + 2: their error moves the weights by as much, relatively.
                let accuracy = if size_of::<E::Acc>() == 4 { f32::EPSILON as f64 } else { f64::EPSILON };
                let slack = accuracy * (s.width as f64 + 16.0) * 4.0;
                assert!((got_lse - want_lse).abs() <= slack, "{s:?} {kind:?} {got_lse} {want_lse}");
                for c in 0..s.value_width {
                    let total: f64 = (0..s.keys).map(|j| weights[j] * at(&v, vs, b, h / group, j, c)).sum();
                    let want = if sum == 0.0 { 0.0 } else { total / sum };
                    let got = at(&out, os, b, h, i, c);
                    let size: f64 =
                        (0..s.keys).map(|j| weights[j] * at(&v, vs, b, h / group, j, c).abs()).sum();
                    // Matrix instructions take the weights as bfloat16, each off by 2^-8 of itself at most.
                    let rounded = if tiled::<E>() && sum > 0.0 { size / sum / 256.0 } else { 0.0 };
                    let bound = slack * 2.0 + unit * want.abs() + rounded;
                    assert!(
                        (got - want).abs() <= bound,
                        "{s:?} {kind:?} ({b}, {h}, {i}, {c}): {got} for {want}"
                    );
                }
            }
        }
    }
}

fn shape(heads: usize, kv_heads: usize, rows: usize, keys: usize, width: usize, value_width: usize) -> Shape {
    Shape { batch: 2, heads, kv_heads, rows, keys, width, value_width }
}

#[test]
fn every_path_and_mask() {
    let shapes = [
        shape(1, 1, 1, 1, 1, 1),
        shape(3, 3, 1, 70, 16, 16),
        shape(6, 2, 1, 130, 20, 12),
        shape(4, 1, 2, 33, 8, 8),
        shape(2, 2, 9, 9, 16, 16),
        shape(2, 1, 47, 127, 24, 40),
        shape(4, 2, 49, 129, 8, 33),
        shape(2, 2, 100, 60, 7, 5),
        shape(2, 2, 60, 300, 16, 8),
        shape(2, 2, 3, 0, 4, 4),
        shape(2, 1, 70, 140, 64, 64),
    ];
    at_each_level(|_| {
        for threads in [1, 3] {
            set_num_threads(threads);
            for s in shapes {
                for kind in [Kind::Plain, Kind::Causal, Kind::Bool, Kind::Additive, Kind::Wide] {
                    check::<f32>(s, kind, true, false, 1e-6);
                    check::<bf16>(s, kind, false, false, 1.0 / 256.0);
                }
                check::<f32>(s, Kind::Causal, false, true, 1e-6);
                check::<f16>(s, Kind::Bool, true, false, 1.0 / 2048.0);
                check::<f64>(s, Kind::Causal, true, false, 1e-15);
            }
        }
    });
}

#[test]
fn large_scores_do_not_overflow() {
    // Scores of hundreds: their exponentials overflow unless taken relative to the largest.
    let s = shape(1, 1, 60, 200, 4, 4);
    let q = vec![20f32; s.batch * s.rows * s.width];
    let k: Vec<f32> = (0..s.batch * s.keys * s.width).map(|i| (i / 4 % s.keys) as f32 * 0.1).collect();
    let v: Vec<f32> = (0..s.batch * s.keys * s.width).map(|i| (i / 4 % s.keys) as f32).collect();
    let mut out = vec![0f32; s.batch * s.rows * s.width];
    let view = |x: &[f32], l: usize| View { ptr: x.as_ptr(), strides: strides(1, l, 4, false, false) };
    let mut args = Attention {
        batch: s.batch,
        heads: 1,
        kv_heads: 1,
        rows: s.rows,
        keys: s.keys,
        width: 4,
        value_width: 4,
        scale: 1.0,
        causal: false,
        q: view(&q, s.rows),
        k: view(&k, s.keys),
        v: view(&v, s.keys),
        mask: Mask::None,
        out: out.as_mut_ptr(),
        out_strides: strides(1, s.rows, 4, false, false),
        logsumexp: std::ptr::null_mut(),
        logsumexp_strides: [0; 3],
    };
    unsafe { attention(&args) };
    // The last key's score leads by eight: it takes all but e^-8.
    assert!(out.iter().all(|x| (x - 199.0).abs() < 0.01));
    args.causal = true;
    unsafe { attention(&args) };
    assert_eq!(out[0], 0.0);
    assert!((out[59 * 4] - 59.0).abs() < 0.01);
}
