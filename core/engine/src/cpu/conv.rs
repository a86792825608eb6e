//! Convolution on tensors: as matrix products over gathered input, or directly where there is one input channel a group.

use crate::cpu::gemm::{Matrix, product};
use crate::cpu::parallel;
use crate::ivalue::IntList;
use crate::ops::elements::by_size;
use crate::ops::{copy, options, views};
use crate::{DType, Result, Scalar, Tensor, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use torchnative_kernels::conv::{self, Line, Plane, Taps};
use torchnative_kernels::elem::Elem;
use torchnative_kernels::scratch;

/// Bytes of gathered input that one task works on.
const TILE: usize = 512 << 10;
/// Multiplications that are worth sharing out.
const GRAIN: usize = 1 << 17;

/// The numbers of a convolution; one of each list for each spatial dimension.
pub(crate) struct Params {
    pub stride: IntList,
    pub padding: IntList,
    pub dilation: IntList,
    pub transposed: bool,
    pub groups: i64,
}

/// The tensor with its spatial dimensions made three by leading ones.
fn spatial3(t: &Tensor) -> Result<Tensor> {
    let mut v = views::same(t);
    while v.dim() < 5 {
        let (mut sizes, mut strides) = (IntList::from_slice(v.sizes()), IntList::from_slice(v.strides()));
        sizes.insert(2, 1);
        strides.insert(2, 0);
        v = v.alias_with(sizes, strides, v.storage_offset());
    }
    Ok(v)
}

fn three(list: &[i64], fill: i64) -> [i64; 3] {
    let mut out = [fill; 3];
    out[3 - list.len()..].copy_from_slice(list);
    out
}

fn last3<T>(f: impl Fn(usize) -> T) -> [T; 3] {
    [f(2), f(3), f(4)]
}

/// Whether positions of the last three dimensions, counted in row-major order, lie equally far apart; and how far.
fn merged(t: &Tensor) -> Option<isize> {
    let mut step: Option<i64> = None;
    let mut size = 1;
    for d in (2..5).rev().filter(|d| t.sizes()[*d] != 1) {
        match step {
            None => step = Some(t.strides()[d]),
            Some(s) if t.strides()[d] == s * size => {}
            Some(_) => return None,
        }
        size *= t.sizes()[d];
    }
    Some(step.unwrap_or(1) as isize)
}

/// Writes the convolution of `x` by `weight` into `out`, a fresh tensor. Shapes were checked before.
///
/// # Errors
/// A dtype without products, memory.
pub(crate) fn forward(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    p: &Params,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    check_dtype(x.dtype())?;
    let channels_last = !out.is_contiguous();
    let (weight, bias) = (copy::contiguous(weight)?, bias.map(copy::contiguous).transpose()?);
    let x = if channels_last {
        let like = crate::tensor::factory::empty_format(
            x.sizes(),
            x.dtype(),
            x.device(),
            out.suggest_memory_format(),
        )?;
        if like.strides() == x.strides() && !x.is_conj() && !x.is_neg() {
            x.clone()
        } else {
            copy::copy_into(&like, x)?;
            like
        }
    } else {
        copy::contiguous(x)?
    };
    let (x, out5, w) = (spatial3(&x)?, spatial3(out)?, spatial3(&weight)?);
    let (stride, padding, dilation) = (three(&p.stride, 1), three(&p.padding, 0), three(&p.dilation, 1));
    if let Some(b) = &bias {
        let b = views::view(b, &[1, -1, 1, 1, 1])?;
        copy::copy_into(&out5, &b)?;
    }
    let start = bias.is_some();
    let kernel = last3(|d| w.sizes()[d]);
    if !p.transposed {
        let offsets: [Vec<isize>; 3] = std::array::from_fn(|d| {
            (0..kernel[d]).map(|k| (k * dilation[d] - padding[d]) as isize).collect()
        });
        let step = stride.map(|s| s as isize);
        let per_group = w.sizes()[1];
        if per_group == 1 && p.groups > 1 && depthwise(&x, &w, bias.as_ref(), step, &offsets, &out5)? {
            return Ok(());
        }
        let sizes = w.sizes();
        let grouped = views::view(
            &weight,
            &[p.groups, sizes[0] / p.groups, per_group, kernel[0], kernel[1], kernel[2]],
        )?;
        return multiply(&x, &grouped, step, &offsets, start, &out5);
    }
    if !start {
        options::fill(out, Scalar::Int(0))?;
    }
    // Output positions that agree modulo the stride see the same taps: a convolution of step one for each residue.
    let sizes = w.sizes();
    let by_group =
        views::view(&weight, &[p.groups, sizes[0] / p.groups, sizes[1], kernel[0], kernel[1], kernel[2]])?;
    let swapped = views::permute(&by_group, &[0, 2, 1, 3, 4, 5])?;
    let residues = |d: usize| 0..stride[d].min(out5.sizes()[d + 2]);
    for rd in residues(0) {
        for rh in residues(1) {
            for rw in residues(2) {
                let residue = [rd, rh, rw];
                let mut part = views::same(&out5);
                let mut w = views::same(&swapped);
                let mut offsets: [Vec<isize>; 3] = Default::default();
                for d in 0..3 {
                    part = views::slice(&part, d as i64 + 2, Some(residue[d]), None, stride[d])?;
                    let at = |k: i64| residue[d] + padding[d] - k * dilation[d];
                    let taps: Vec<i64> = (0..kernel[d]).filter(|k| at(*k) % stride[d] == 0).collect();
                    offsets[d] = taps.iter().map(|k| (at(*k) / stride[d]) as isize).collect();
                    let (first, every) = match taps[..] {
                        [] => (kernel[d], 1),
                        [k] => (k, kernel[d]),
                        [k, next, ..] => (k, next - k),
                    };
                    w = views::slice(&w, d as i64 + 3, Some(first), None, every)?;
                }
                if offsets.iter().all(|o| !o.is_empty()) {
                    multiply(&x, &w, [1; 3], &offsets, true, &part)?;
                }
            }
        }
    }
    Ok(())
}

/// `n / size`, rounded up, of positive numbers.
fn pieces(n: i64, size: i64) -> i64 {
    (n + size - 1) / size
}

fn check_dtype(d: DType) -> Result<()> {
    match d {
        DType::Float | DType::Double | DType::Half | DType::BFloat16 => Ok(()),
        DType::Byte | DType::Char | DType::Short | DType::Int | DType::Long => Ok(()),
        DType::ComplexFloat | DType::ComplexDouble => Ok(()),
        other => Err(crate::Error::dtype_not_implemented("slow_conv2d_cpu", other)),
    }
}

fn taps<'a>(x: &Tensor, step: [isize; 3], offsets: &'a [Vec<isize>; 3]) -> Taps<'a> {
    Taps {
        sizes: last3(|d| x.sizes()[d] as usize),
        strides: last3(|d| x.strides()[d] as isize),
        step,
        offsets: std::array::from_fn(|d| &offsets[d][..]),
    }
}

/// An address that tasks share; each writes its own part.
#[derive(Clone, Copy)]
struct At(*mut u8);
// SAFETY: tasks write apart from one another (see the callers).
unsafe impl Send for At {}
unsafe impl Sync for At {}
impl At {
    fn of<T>(p: *mut T) -> At {
        At(p.cast())
    }
    fn plus<T>(self, n: i64) -> *mut T {
        (self.0 as *mut T).wrapping_offset(n as isize)
    }
}

/// Convolution as matrix products: `weight` is (groups, results, channels, taps…); `start` says whether `out` holds what is added.
fn multiply(
    x: &Tensor,
    weight: &Tensor,
    step: [isize; 3],
    offsets: &[Vec<isize>; 3],
    start: bool,
    out: &Tensor,
) -> Result<()> {
    let dtype = x.dtype();
    let size = x.itemsize();
    let ws = weight.sizes();
    let (groups, results, channels) = (ws[0], ws[1], ws[2]);
    let taps = taps(x, step, offsets);
    let depth = channels * taps.count() as i64;
    let (xs, os) = (x.strides(), out.strides());
    let beta = Scalar::Int(i64::from(start));
    let one = Scalar::Int(1);
    let positions: i64 = out.sizes()[2..].iter().product();
    let batch = out.sizes()[0];
    let channels_last = xs[1] == 1 && channels > 1 && merged(x) != Some(1);
    // Rows of weights: channels then taps, or taps then channels, as the gathered values have it.
    let weight =
        if channels_last { views::permute(weight, &[0, 1, 3, 4, 5, 2])? } else { views::same(weight) };
    let weight = copy::contiguous(&weight)?;
    let (wp, xp, op) = (At(weight.data_ptr()), At(x.data_ptr()), At(out.data_ptr()));
    let at = |p: At, n: i64| p.0.wrapping_offset(n as isize * size as isize);
    let whole = step == [1; 3] && offsets.iter().all(|o| o[..] == [0]) && x.sizes()[2..] == out.sizes()[2..];
    if let (true, Some(xstep), Some(ostep)) = (whole, merged(x), merged(out)) {
        for g in 0..groups {
            let a = Matrix { ptr: at(wp, g * results * depth), rows: depth, cols: 1, batch: 0 };
            let b =
                Matrix { ptr: at(xp, g * channels * xs[1]), rows: xs[1], cols: xstep as i64, batch: xs[0] };
            let c =
                Matrix { ptr: at(op, g * results * os[1]), rows: os[1], cols: ostep as i64, batch: os[0] };
            // SAFETY: all three lie inside their tensors; `out` is apart from the others.
            unsafe { product("conv", dtype, [batch, results, positions, depth], one, a, b, beta, c)? };
        }
        return Ok(());
    }
    let direct = merged(out);
    let width = out.sizes()[4];
    let row_bytes = (depth as usize * size).max(1);
    // Without equal steps from row to row of the result, a tile is (part of) one row.
    let tile =
        if direct.is_some() { (TILE / row_bytes).clamp(64, 2048) & !15 } else { width as usize } as i64;
    let threads = parallel::num_threads() as i64;
    let share = batch * groups;
    let tile = if direct.is_some() && share < threads {
        // Fewer images than threads: cut finer.
        tile.min((pieces(positions, pieces(threads, share)) + 15) & !15)
    } else {
        tile
    }
    .clamp(1, positions.max(1));
    let tiles = pieces(positions, tile);
    let out_sizes = last3(|d| out.sizes()[d] as usize);
    let work = (results * depth * tile) as usize;
    let failed = AtomicBool::new(false);
    let run = |task: i64| -> Result<()> {
        let (n, g, t) = (task / tiles / groups, task / tiles % groups, task % tiles);
        let (from, to) = (t * tile, ((t + 1) * tile).min(positions));
        let count = to - from;
        let src = n * xs[0] + g * channels * xs[1];
        let dst = n * os[0] + g * results * os[1];
        by_size!(size, T => {
            let room = (depth * tile + if direct.is_some() { 0 } else { results * tile }) as usize;
            scratch::with(room, |gathered: *mut T| -> Result<()> {
                let range = (from as usize, to as usize);
                // SAFETY: all-zero bytes are zero in every dtype with products; the room was measured above, and taps stay
                // inside of the input.
                unsafe {
                    let zero: T = std::mem::zeroed();
                    let src = xp.plus::<T>(src);
                    if channels_last {
                        conv::rows(&taps, src, channels as usize, out_sizes, range, zero, gathered);
                    } else {
                        conv::columns(&taps, src, channels as usize, xs[1] as isize, out_sizes, range, zero, gathered);
                    }
                }
                let w = at(wp, g * results * depth);
                let (row, col) = if channels_last { (1, depth) } else { (count, 1) };
                let a = Matrix { ptr: w, rows: depth, cols: 1, batch: 0 };
                let b = Matrix { ptr: At::of(gathered).0, rows: row, cols: col, batch: 0 };
                let shape = [1, results, count, depth];
                if let Some(step) = direct {
                    let ptr = at(op, dst + from * step as i64);
                    let c = Matrix { ptr, rows: os[1], cols: step as i64, batch: 0 };
                    // SAFETY: as above; this task's positions are its own.
                    return unsafe { product("conv", dtype, shape, one, a, b, beta, c) };
                }
                let line = from / width;
                let (d, h) = (line / out_sizes[1] as i64, line % out_sizes[1] as i64);
                let place = op.plus::<T>(dst + d * os[2] + h * os[3] + from % width * os[4]);
                let sums = gathered.wrapping_add((depth * tile) as usize);
                let each = |f: &dyn Fn(*mut T, *mut T)| {
                    for r in 0..results {
                        for i in 0..count {
                            let o = place.wrapping_offset((r * os[1] + i * os[4]) as isize);
                            f(o, sums.wrapping_add((r * count + i) as usize));
                        }
                    }
                };
                // SAFETY: as above.
                unsafe {
                    if start {
                        each(&|o, s| s.write(o.read()));
                    }
                    let c = Matrix { ptr: At::of(sums).0, rows: count, cols: 1, batch: 0 };
                    product("conv", dtype, shape, one, a, b, beta, c)?;
                    each(&|o, s| o.write(s.read()));
                }
                Ok(())
            })
        })
    };
    let grain = GRAIN.div_ceil(work.max(1));
    parallel::for_range(0, (share * tiles) as usize, grain, |b, e| {
        for task in b..e {
            if run(task as i64).is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        }
    });
    if failed.load(Ordering::Relaxed) {
        bail!(Internal, "a product of {} failed in convolution", dtype.torch_name());
    }
    Ok(())
}

/// Depthwise convolution; false when the dtype has no kernel for it.
fn depthwise(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    step: [isize; 3],
    offsets: &[Vec<isize>; 3],
    out: &Tensor,
) -> Result<bool> {
    match x.dtype() {
        DType::Float => depthwise_of::<f32>(x, w, bias, step, offsets, out)?,
        DType::Double => depthwise_of::<f64>(x, w, bias, step, offsets, out)?,
        DType::Half => depthwise_of::<half::f16>(x, w, bias, step, offsets, out)?,
        DType::BFloat16 => depthwise_of::<half::bf16>(x, w, bias, step, offsets, out)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn depthwise_of<E: Elem>(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    step: [isize; 3],
    offsets: &[Vec<isize>; 3],
    out: &Tensor,
) -> Result<()> {
    let channels = x.sizes()[1];
    let filters = out.sizes()[1] / channels;
    let taps = taps(x, step, offsets);
    let count = taps.count() as i64;
    let (xs, os) = (x.strides(), out.strides());
    let (xp, op) = (At(x.data_ptr()), At(out.data_ptr()));
    let bias = bias.map(|b| At(b.data_ptr()));
    let sizes = last3(|d| out.sizes()[d] as usize);
    let batch = x.sizes()[0];
    if xs[1] == 1 && os[1] == 1 && filters == 1 && channels > 1 {
        let turned = copy::contiguous(&views::permute(&views::view(w, &[channels, count])?, &[1, 0])?)?;
        let wp = At(turned.data_ptr());
        let lines = (batch as usize) * sizes[0] * sizes[1];
        let work = (channels * count) as usize * sizes[2];
        parallel::for_range(0, lines, GRAIN.div_ceil(work.max(1)), |from, to| {
            for i in from..to {
                let (n, d, h) = ((i / sizes[1] / sizes[0]) as i64, i / sizes[1] % sizes[0], i % sizes[1]);
                let line = Line::<E> {
                    taps,
                    src: xp.plus(n * xs[0]),
                    channels: channels as usize,
                    place: [d, h],
                    width: sizes[2],
                    dst: op.plus(n * os[0] + d as i64 * os[2] + h as i64 * os[3]),
                    step: os[4] as isize,
                    weight: wp.plus(0),
                    bias: bias.map_or(std::ptr::null(), |b| b.plus::<E>(0).cast_const()),
                };
                // SAFETY: a row of the result, and the input its taps see.
                unsafe { conv::depthwise_line(&line) };
            }
        });
        return Ok(());
    }
    let wp = At(w.data_ptr());
    let planes = (batch * channels) as usize;
    let work = (filters * count) as usize * sizes.iter().product::<usize>();
    parallel::for_range(0, planes, GRAIN.div_ceil(work.max(1)), |from, to| {
        for i in from..to {
            let (n, c) = (i as i64 / channels, i as i64 % channels);
            let plane = Plane::<E> {
                taps,
                src: xp.plus(n * xs[0] + c * xs[1]),
                out: sizes,
                out_strides: last3(|d| os[d] as isize),
                dst: op.plus(n * os[0] + c * filters * os[1]),
                filter_stride: os[1] as isize,
                filters: filters as usize,
                weight: wp.plus(c * filters * count),
                bias: bias.map_or(std::ptr::null(), |b| b.plus::<E>(c * filters).cast_const()),
            };
            // SAFETY: the channel's results, and the input its taps see.
            unsafe { conv::depthwise(&plane) };
        }
    });
    Ok(())
}
