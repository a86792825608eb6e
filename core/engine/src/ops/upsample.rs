//! Scaling: nearest, linear, cubic and their antialiased forms, in one to three dimensions.

use crate::cpu::gather::gather;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IValue, IntList};
use crate::ops::copy;
use crate::tensor::{factory, shape};
use crate::{DType, Error, MemoryFormat, OpId, Result, Stack, Tensor, bail, check, op};
use torchnative_kernels::elem::Float;
use torchnative_kernels::resample::{Taps, resample, resample_bytes};

/// How values between positions come about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    LinearAa,
    CubicAa,
    LanczosAa,
}
use Mode::{Cubic, CubicAa, LanczosAa, Linear, LinearAa, Nearest, NearestExact};

impl Mode {
    /// Whether the operator has an `align_corners` argument.
    fn aligns(self) -> bool {
        !matches!(self, Nearest | NearestExact)
    }
    fn antialiased(self) -> bool {
        matches!(self, LinearAa | CubicAa | LanczosAa)
    }
}

macro_rules! scalers {
    ($r:ident: $($id:ident, $vec:ident, $back:ident, $mode:ident, $rank:literal;)*) => {$(
        $r.structured(op::$id, |a| meta(a, $mode, $rank), |a, o| run(a, $mode, $rank, o));
        $r.implicit(op::$vec, |a| by_factors(op::$id, a, $mode, $rank));
        $r.structured(op::$back, |a| backward_meta(a, $rank), |a, o| backward(a, $mode, $rank, o));
    )*};
}

pub(crate) fn register(r: &mut Registry) {
    scalers! { r:
        upsample_nearest1d, upsample_nearest1d_vec, upsample_nearest1d_backward, Nearest, 1;
        upsample_nearest2d, upsample_nearest2d_vec, upsample_nearest2d_backward, Nearest, 2;
        upsample_nearest3d, upsample_nearest3d_vec, upsample_nearest3d_backward, Nearest, 3;
        _upsample_nearest_exact1d, _upsample_nearest_exact1d_vec, _upsample_nearest_exact1d_backward, NearestExact, 1;
        _upsample_nearest_exact2d, _upsample_nearest_exact2d_vec, _upsample_nearest_exact2d_backward, NearestExact, 2;
        _upsample_nearest_exact3d, _upsample_nearest_exact3d_vec, _upsample_nearest_exact3d_backward, NearestExact, 3;
        upsample_linear1d, upsample_linear1d_vec, upsample_linear1d_backward, Linear, 1;
        upsample_bilinear2d, upsample_bilinear2d_vec, upsample_bilinear2d_backward, Linear, 2;
        upsample_trilinear3d, upsample_trilinear3d_vec, upsample_trilinear3d_backward, Linear, 3;
        upsample_bicubic2d, upsample_bicubic2d_vec, upsample_bicubic2d_backward, Cubic, 2;
        _upsample_bilinear2d_aa, _upsample_bilinear2d_aa_vec, _upsample_bilinear2d_aa_backward, LinearAa, 2;
        _upsample_bicubic2d_aa, _upsample_bicubic2d_aa_vec, _upsample_bicubic2d_aa_backward, CubicAa, 2;
        _upsample_lanczos2d_aa, _upsample_lanczos2d_aa_vec, _upsample_lanczos2d_aa_backward, LanczosAa, 2;
    }
}

/// The `vec` overloads: sizes or factors.
fn by_factors(id: OpId, a: Args<'_>, mode: Mode, rank: usize) -> Result<Returns> {
    let t = a.tensor(0)?;
    let last = a.len() - 1;
    let (sizes, factors) =
        (a.opt_int_list(1)?, if a.is_none(last) { None } else { Some(a.double_list(last)?) });
    let mut out = IntList::new();
    match (sizes, factors) {
        (Some(s), None) => {
            check!(
                s.len() == rank,
                "Expected static_cast<int64_t>(output_size->size()) == spatial_dimensions to be true, but got false.  (Could this \
                 error message be improved?  If so, please report an enhancement request to PyTorch.)"
            );
            out.extend_from_slice(s);
        }
        (None, Some(f)) => {
            check!(
                f.len() == rank,
                "Expected static_cast<int64_t>(scale_factors->size()) == spatial_dimensions to be true, but got false.  (Could \
                 this error message be improved?  If so, please report an enhancement request to PyTorch.)"
            );
            for (d, f) in f.iter().enumerate() {
                out.push((t.size(d as i64 + 2)? as f64 * f) as i64);
            }
        }
        _ => bail!(Runtime, "Must specify exactly one of output_size and scale_factors"),
    }
    let mut stack: Stack = Stack::from_iter([IValue::from(t), out.into()]);
    if mode.aligns() {
        stack.push(a.bool(2)?.into());
    }
    for d in 0..rank {
        stack.push(factors.map(|f| f[d]).into());
    }
    Ok(id.call(stack)?.into())
}

/// (self, output_size, align_corners?, scales…)
fn meta(a: Args<'_>, _mode: Mode, rank: usize) -> Result<Specs> {
    let (t, out) = (a.tensor(0)?, a.int_list(1)?);
    check!(out.len() == rank, "It is expected output_size equals to {rank}, but got size {}", out.len());
    check!(t.dim() == rank + 2, "It is expected input_size equals to {}, but got size {}", rank + 2, t.dim());
    let s = t.sizes();
    let names = &["D", "H", "W"][3 - rank..];
    let text =
        |v: &[i64]| names.iter().zip(v).map(|(n, v)| format!("{n}: {v}")).collect::<Vec<_>>().join(", ");
    check!(
        s[2..].iter().chain(out).all(|n| *n > 0),
        "Input and output sizes should be greater than 0, but got input ({}) output ({})",
        text(&s[2..]),
        text(out)
    );
    check!(s[1] != 0, "Non-empty {}D data tensor expected but got a tensor with sizes {s:?}", rank + 2);
    let mut sizes = IntList::from_slice(&s[..2]);
    sizes.extend_from_slice(out);
    let spec = OutSpec::like(t, sizes.clone());
    Ok(match t.suggest_memory_format() {
        MemoryFormat::Contiguous => spec,
        f => spec.strides(shape::strides_for(&sizes, f)?),
    }
    .into())
}

/// Input positions per output position.
fn ratio(input: i64, output: i64, align: bool, scale: Option<f64>) -> f64 {
    if align {
        return if output > 1 { (input - 1) as f64 / (output - 1) as f64 } else { 0.0 };
    }
    match scale {
        Some(s) if s > 0.0 => 1.0 / s,
        _ => input as f64 / output as f64,
    }
}

/// The position, between input positions, that an output position shows.
fn place(ratio: f64, o: i64, align: bool, cubic: bool) -> f64 {
    if align {
        return ratio * o as f64;
    }
    let at = ratio * (o as f64 + 0.5) - 0.5;
    if at < 0.0 && !cubic { 0.0 } else { at }
}

/// The input position that a nearest-neighbour output position shows, in single precision as upstream computes it.
fn nearest(input: i64, output: i64, scale: Option<f64>, exact: bool, o: i64) -> i64 {
    if !exact && input == output {
        return o;
    }
    if !exact && output == 2 * input {
        return o >> 1;
    }
    let ratio = match scale {
        Some(s) if s > 0.0 => (1.0 / s) as f32,
        _ => input as f32 / output as f32,
    };
    let at = if exact { (o as f32 + 0.5) * ratio } else { o as f32 * ratio };
    (at.floor() as i64).min(input - 1)
}

/// Weights of the four neighbours of a position `t` beyond the second.
fn cubic_weights(t: f64) -> [f64; 4] {
    let a = -0.75;
    let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// The antialiasing filters.
fn filter(mode: Mode, x: f64) -> f64 {
    let x = x.abs();
    match mode {
        CubicAa => {
            let a = -0.5;
            if x < 1.0 {
                ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
            } else if x < 2.0 {
                (((x - 5.0) * x + 8.0) * x - 4.0) * a
            } else {
                0.0
            }
        }
        LanczosAa => {
            let sinc = |v: f64| {
                let v = v * std::f64::consts::PI;
                if v == 0.0 { 1.0 } else { v.sin() / v }
            };
            if x < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
        }
        _ => (1.0 - x).max(0.0),
    }
}

/// The weights of one dimension. Positions are computed with `single`, where given, in single precision.
fn weights(mode: Mode, input: i64, output: i64, align: bool, scale: Option<f64>, single: bool) -> Taps<f64> {
    let mut taps = Taps::new();
    let round = |x: f64| if single { f64::from(x as f32) } else { x };
    let ratio = round(ratio(input, output, align, scale));
    let clamp = |i: i64| i.clamp(0, input - 1) as usize;
    for o in 0..output {
        if mode.antialiased() {
            let reach = match mode {
                LinearAa => 1.0,
                CubicAa => 2.0,
                _ => 3.0,
            };
            let support = if ratio >= 1.0 { reach * ratio } else { reach };
            let inverse = if ratio >= 1.0 { round(1.0 / ratio) } else { 1.0 };
            let centre = round(ratio * (o as f64 + 0.5));
            let first = ((centre - support + 0.5) as i64).max(0);
            let last = ((centre + support + 0.5) as i64).min(input);
            let w: Vec<f64> =
                (first..last).map(|i| filter(mode, round((i as f64 - centre + 0.5) * inverse))).collect();
            let total: f64 = w.iter().sum();
            let share = |w: f64| if total != 0.0 { w / total } else { w };
            taps.push(w.iter().enumerate().map(|(k, w)| (first as usize + k, share(*w))));
            continue;
        }
        let at = if single {
            let (r, o) = (ratio as f32, o as f32);
            let at = if align { r * o } else { r.mul_add(o + 0.5, -0.5) };
            f64::from(if at < 0.0 && mode == Linear { 0.0 } else { at })
        } else {
            place(ratio, o, align, mode == Cubic)
        };
        let base = (at.floor() as i64).min(input - 1);
        let t = (at - base as f64).clamp(0.0, 1.0);
        if mode == Cubic {
            let w = cubic_weights(t);
            taps.push((0..4).map(|k| (clamp(base - 1 + k), w[k as usize])));
        } else {
            taps.push([(clamp(base), 1.0 - t), (clamp(base + 1), t)]);
        }
    }
    taps
}

fn converted<F: Float>(t: &Taps<f64>) -> Taps<F> {
    Taps {
        starts: t.starts.clone(),
        index: t.index.clone(),
        weight: t.weight.iter().map(|w| F::from_f64(*w)).collect(),
    }
}

/// Fixed-point weights of at most fifteen bits, and the position of their binary point. Weights of one position are joined.
fn fixed(t: &Taps<f64>) -> (Taps<i32>, u32) {
    let mut joined: Vec<Vec<(usize, f64)>> = Vec::with_capacity(t.len());
    for o in 0..t.len() {
        let mut own: Vec<(usize, f64)> = Vec::new();
        for k in t.starts[o]..t.starts[o + 1] {
            match own.iter_mut().find(|(i, _)| *i == t.index[k]) {
                Some((_, w)) => *w += t.weight[k],
                None => own.push((t.index[k], t.weight[k])),
            }
        }
        joined.push(own);
    }
    let top = joined.iter().flatten().fold(0.0, |m: f64, (_, w)| m.max(*w));
    let mut precision = 0;
    while precision < 22 && 0.5 + top * f64::from(1u32 << (precision + 1)) < f64::from(1u32 << 15) {
        precision += 1;
    }
    let unit = f64::from(1u32 << precision);
    let mut out = Taps::new();
    for own in joined {
        out.push(own.into_iter().map(|(i, w)| (i, (w * unit + if w < 0.0 { -0.5 } else { 0.5 }) as i32)));
    }
    (out, precision)
}

fn run(a: Args<'_>, mode: Mode, rank: usize, out: &[Tensor]) -> Result<()> {
    let (t, sizes) = (a.tensor(0)?, a.int_list(1)?);
    let align = mode.aligns() && a.bool(2)?;
    let first = 2 + usize::from(mode.aligns());
    let scales: Vec<Option<f64>> = (0..rank).map(|d| a.opt_double(first + d)).collect::<Result<_>>()?;
    check_dtype(t.dtype(), mode, rank)?;
    if out[0].numel() == 0 {
        return Ok(());
    }
    let input = |d: usize| t.sizes()[d + 2];
    if !mode.aligns() {
        let tables: Vec<Vec<i64>> = (0..rank + 2)
            .map(|d| {
                if d < 2 {
                    return (0..t.sizes()[d]).collect();
                }
                let (n, m) = (input(d - 2), sizes[d - 2]);
                (0..m).map(|o| nearest(n, m, scales[d - 2], mode == NearestExact, o)).collect()
            })
            .collect();
        return gather(t, &tables, &out[0]);
    }
    let x = copy::contiguous(t)?;
    let outer = (x.sizes()[0] * x.sizes()[1]) as usize;
    let from: Vec<usize> = (0..rank).map(|d| input(d) as usize).collect();
    let to: Vec<usize> = sizes.iter().map(|s| *s as usize).collect();
    let taps = |d: usize, single: bool| weights(mode, input(d), sizes[d], align, scales[d], single);
    let result = factory::empty(out[0].sizes(), t.dtype(), t.device())?;
    match t.dtype() {
        DType::Double => {
            // SAFETY: row-major tensors of f64.
            let (x, y) = unsafe { (x.as_slice::<f64>(), result.as_mut_slice::<f64>()) };
            let done = passes(x.to_vec(), outer, &from, &to, |d| converted::<f64>(&taps(d, false)));
            y.copy_from_slice(&done);
        }
        DType::Byte => {
            // SAFETY: row-major tensors of bytes.
            let (x, y) = unsafe { (x.as_slice::<u8>(), result.as_mut_slice::<u8>()) };
            let mut now = x.to_vec();
            let mut shape = from.clone();
            for d in (0..rank).rev() {
                if from[d] == to[d] {
                    continue;
                }
                let (fixed, precision) = fixed(&taps(d, false));
                let lead = outer * shape[..d].iter().product::<usize>();
                let inner = shape[d + 1..].iter().product();
                let mut next = vec![0; lead * to[d] * inner];
                resample_bytes(&now, lead, from[d], inner, &fixed, precision, &mut next);
                shape[d] = to[d];
                now = next;
            }
            y.copy_from_slice(&now);
        }
        _ => {
            let wide = copy::convert(&x, DType::Float)?;
            let done = factory::empty(out[0].sizes(), DType::Float, t.device())?;
            // SAFETY: row-major tensors of f32.
            let (x, y) = unsafe { (wide.as_slice::<f32>(), done.as_mut_slice::<f32>()) };
            y.copy_from_slice(&passes(x.to_vec(), outer, &from, &to, |d| converted::<f32>(&taps(d, true))));
            return copy::copy_into(&out[0], &done);
        }
    }
    copy::copy_into(&out[0], &result)
}

/// Interpolates one dimension after the other, the last first.
fn passes<F: Float>(
    mut now: Vec<F>,
    outer: usize,
    from: &[usize],
    to: &[usize],
    taps: impl Fn(usize) -> Taps<F>,
) -> Vec<F> {
    let mut shape = from.to_vec();
    for d in (0..from.len()).rev() {
        let lead = outer * shape[..d].iter().product::<usize>();
        let inner = shape[d + 1..].iter().product();
        let mut next = vec![F::ZERO; lead * to[d] * inner];
        resample(&now, lead, from[d], inner, &taps(d), &mut next);
        shape[d] = to[d];
        now = next;
    }
    now
}

fn check_dtype(d: DType, mode: Mode, rank: usize) -> Result<()> {
    let half = matches!(d, DType::Half | DType::BFloat16);
    let byte = d == DType::Byte && (!mode.aligns() || rank == 2);
    if matches!(d, DType::Float | DType::Double) || byte || (half && !mode.antialiased()) {
        return Ok(());
    }
    let name = match (mode, rank) {
        (Nearest | NearestExact, 1 | 3) => "compute_indices_weights_nearest",
        (Nearest | NearestExact, _) => "upsample_nearest2d_channels_last",
        (Linear, 2) => "upsample_bilinear2d_channels_last",
        (Linear, _) => "compute_indices_weights_linear",
        (Cubic, _) => "compute_indices_weights_cubic",
        _ => "compute_index_ranges_weights",
    };
    Err(Error::dtype_not_implemented(name, d))
}

/// The gradient operators: (grad_output, output_size, input_size, align_corners?, scales…).
fn backward_meta(a: Args<'_>, rank: usize) -> Result<Specs> {
    let (grad, out, input) = (a.tensor(0)?, a.int_list(1)?, a.int_list(2)?);
    check!(
        out.len() == rank && input.len() == rank + 2,
        "It is expected output_size equals to {rank} and input_size equals to {}, but got sizes {} and {}",
        rank + 2,
        out.len(),
        input.len()
    );
    let mut full = IntList::from_slice(&input[..2]);
    full.extend_from_slice(out);
    check!(
        grad.sizes() == &full[..],
        "Expected grad_output to have the same shape as output; output.size = {:?} but got grad_output.size = {:?}",
        &full[..],
        grad.sizes()
    );
    let spec = OutSpec::like(grad, input);
    Ok(match grad.suggest_memory_format() {
        MemoryFormat::Contiguous => spec,
        f => spec.strides(shape::strides_for(input, f)?),
    }
    .into())
}

/// The taps of the gradient: for each input position the output positions that it went to.
fn turned(t: &Taps<f64>, input: usize) -> Taps<f64> {
    let mut own: Vec<Vec<(usize, f64)>> = vec![Vec::new(); input];
    for o in 0..t.len() {
        for k in t.starts[o]..t.starts[o + 1] {
            own[t.index[k]].push((o, t.weight[k]));
        }
    }
    let mut out = Taps::new();
    own.into_iter().for_each(|taps| out.push(taps));
    out
}

fn backward(a: Args<'_>, mode: Mode, rank: usize, out: &[Tensor]) -> Result<()> {
    let (grad, sizes, input) = (a.tensor(0)?, a.int_list(1)?, a.int_list(2)?);
    let align = mode.aligns() && a.bool(3)?;
    let first = 3 + usize::from(mode.aligns());
    let scales: Vec<Option<f64>> = (0..rank).map(|d| a.opt_double(first + d)).collect::<Result<_>>()?;
    check_dtype(grad.dtype(), mode, rank)?;
    if out[0].numel() == 0 {
        return Ok(());
    }
    let taps = |d: usize| -> Taps<f64> {
        let (n, m) = (input[d + 2], sizes[d]);
        if mode.aligns() {
            return weights(mode, n, m, align, scales[d], grad.dtype() != DType::Double);
        }
        let mut t = Taps::new();
        (0..m).for_each(|o| t.push([(nearest(n, m, scales[d], mode == NearestExact, o) as usize, 1.0)]));
        t
    };
    let outer = (input[0] * input[1]) as usize;
    let from: Vec<usize> = sizes.iter().map(|s| *s as usize).collect();
    let to: Vec<usize> = input[2..].iter().map(|s| *s as usize).collect();
    let wide = if grad.dtype() == DType::Double { DType::Double } else { DType::Float };
    let x = copy::contiguous(&copy::convert(grad, wide)?)?;
    let result = factory::empty(input, wide, grad.device())?;
    if wide == DType::Double {
        // SAFETY: row-major tensors of f64.
        let (x, y) = unsafe { (x.as_slice::<f64>(), result.as_mut_slice::<f64>()) };
        y.copy_from_slice(&passes(x.to_vec(), outer, &from, &to, |d| turned(&taps(d), to[d])));
    } else {
        // SAFETY: row-major tensors of f32.
        let (x, y) = unsafe { (x.as_slice::<f32>(), result.as_mut_slice::<f32>()) };
        y.copy_from_slice(&passes(x.to_vec(), outer, &from, &to, |d| {
            converted::<f32>(&turned(&taps(d), to[d]))
        }));
    }
    copy::copy_into(&out[0], &result)
}
