//! Convolution's own loops: gathering input values for a matrix product, and depthwise convolution, which has too little
//! arithmetic for one.
//!
//! Everything has three spatial dimensions; convolutions of fewer have leading ones. Output position `o` of a dimension sees, by
//! tap `t`, the input position `o * step + offset[t]`, which reads as zero outside of the input.

use crate::chunk::{load, store};
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Task, dispatch};
use crate::scratch;

/// Where taps find their values.
#[derive(Clone, Copy, Debug)]
pub struct Taps<'a> {
    /// Input positions.
    pub sizes: [usize; 3],
    /// Their distances in elements.
    pub strides: [isize; 3],
    pub step: [isize; 3],
    pub offsets: [&'a [isize]; 3],
}

impl Taps<'_> {
    /// How many values one output position sees in one channel.
    pub fn count(&self) -> usize {
        self.offsets.iter().map(|o| o.len()).product()
    }
    /// The input position in dimension `d`, if there is one.
    #[inline(always)]
    fn position(&self, d: usize, out: usize, offset: isize) -> Option<isize> {
        let i = out as isize * self.step[d] + offset;
        (i >= 0 && (i as usize) < self.sizes[d]).then_some(i)
    }
}

/// Writes the values that output positions `from..to` (row-major over `out`) see: one row for each channel and tap, one column
/// for each position.
///
/// # Safety
/// `src` must be readable wherever taps of `channels` channels `channel_stride` apart fall inside the input, `dst` writable for
/// `channels * taps.count() * (to - from)` elements.
pub unsafe fn columns<T: Copy>(
    taps: &Taps<'_>,
    src: *const T,
    channels: usize,
    channel_stride: isize,
    out: [usize; 3],
    (from, to): (usize, usize),
    zero: T,
    mut dst: *mut T,
) {
    let [_, oh, ow] = out;
    let (step, stride) = (taps.step[2], taps.strides[2]);
    let size = taps.sizes[2] as isize;
    for c in 0..channels {
        let plane = src.wrapping_offset(c as isize * channel_stride);
        for &fd in taps.offsets[0] {
            for &fh in taps.offsets[1] {
                for &fw in taps.offsets[2] {
                    // Output columns whose input lies inside.
                    let low = if fw >= 0 { 0 } else { (-fw + step - 1) / step }.min(ow as isize) as usize;
                    let high =
                        if fw >= size { 0 } else { ((size - 1 - fw) / step + 1).min(ow as isize) } as usize;
                    let mut p = from;
                    while p < to {
                        let (row, w) = (p / ow, p % ow);
                        let n = (ow - w).min(to - p);
                        let place = (taps.position(0, row / oh, fd), taps.position(1, row % oh, fh));
                        // SAFETY: the caller's contract; `p - from + n` stays within the row.
                        unsafe {
                            if let (Some(id), Some(ih)) = place {
                                let a = low.clamp(w, w + n);
                                let b = high.clamp(a, w + n);
                                let line = plane.wrapping_offset(id * taps.strides[0] + ih * taps.strides[1]);
                                for i in 0..a - w {
                                    dst.add(i).write(zero);
                                }
                                if b > a {
                                    let first = line.wrapping_offset((a as isize * step + fw) * stride);
                                    let at = dst.add(a - w);
                                    if step * stride == 1 {
                                        std::ptr::copy_nonoverlapping(first, at, b - a);
                                    } else {
                                        for i in 0..b - a {
                                            at.add(i)
                                                .write(*first.wrapping_offset(i as isize * step * stride));
                                        }
                                    }
                                }
                                for i in b - w..n {
                                    dst.add(i).write(zero);
                                }
                            } else {
                                for i in 0..n {
                                    dst.add(i).write(zero);
                                }
                            }
                            dst = dst.add(n);
                        }
                        p += n;
                    }
                }
            }
        }
    }
}

/// Writes the values that output positions `from..to` see, one row for each position: taps, and for each of them the channels,
/// which lie side by side in the input.
///
/// # Safety
/// As for [`columns`], with channels one element apart.
pub unsafe fn rows<T: Copy>(
    taps: &Taps<'_>,
    src: *const T,
    channels: usize,
    out: [usize; 3],
    (from, to): (usize, usize),
    zero: T,
    mut dst: *mut T,
) {
    let [_, oh, ow] = out;
    for p in from..to {
        let (row, w) = (p / ow, p % ow);
        for &fd in taps.offsets[0] {
            let d = taps.position(0, row / oh, fd);
            for &fh in taps.offsets[1] {
                let h = taps.position(1, row % oh, fh);
                for &fw in taps.offsets[2] {
                    let w = taps.position(2, w, fw);
                    // SAFETY: the caller's contract.
                    unsafe {
                        if let (Some(d), Some(h), Some(w)) = (d, h, w) {
                            let [sd, sh, sw] = taps.strides;
                            let first = src.wrapping_offset(d * sd + h * sh + w * sw);
                            std::ptr::copy_nonoverlapping(first, dst, channels);
                        } else {
                            for i in 0..channels {
                                dst.add(i).write(zero);
                            }
                        }
                        dst = dst.add(channels);
                    }
                }
            }
        }
    }
}

/// Results computed at a time.
const CHUNK: usize = 32;

/// One channel of a depthwise convolution, with `filters` results.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a, E: Elem> {
    pub taps: Taps<'a>,
    pub src: *const E,
    /// Output positions, and their distances in elements.
    pub out: [usize; 3],
    pub out_strides: [isize; 3],
    pub dst: *mut E,
    /// Distance of the results of one filter from those of the next.
    pub filter_stride: isize,
    pub filters: usize,
    /// Taps of each filter in row-major order.
    pub weight: *const E,
    /// A number for each filter, or null.
    pub bias: *const E,
}

/// Depthwise convolution of one channel. Products accumulate in `E::Acc` and are rounded once.
///
/// # Safety
/// The addresses must hold what the sizes say; `dst` must be apart from the rest.
pub unsafe fn depthwise<E: Elem>(plane: &Plane<'_, E>) {
    let t = &plane.taps;
    // The input with the zeros that taps see around it, so that the loops have no edges.
    let low: [isize; 3] = std::array::from_fn(|d| t.offsets[d].iter().copied().min().unwrap_or(0));
    let padded: [usize; 3] = std::array::from_fn(|d| {
        let high = t.offsets[d].iter().copied().max().unwrap_or(0);
        ((plane.out[d] as isize - 1) * t.step[d] + high - low[d] + 1).max(0) as usize
    });
    let slack = CHUNK * t.step[2] as usize;
    let count = padded.iter().product::<usize>() + slack;
    scratch::with(count, |room: *mut E::Acc| {
        // SAFETY: the room holds `count` values, all of which are written here; reads stay inside the input.
        unsafe {
            std::slice::from_raw_parts_mut(room, count).fill(E::Acc::ZERO);
            for d in 0..padded[0] {
                let id = d as isize + low[0];
                if id < 0 || id as usize >= t.sizes[0] {
                    continue;
                }
                for h in 0..padded[1] {
                    let ih = h as isize + low[1];
                    if ih < 0 || ih as usize >= t.sizes[1] {
                        continue;
                    }
                    let (first, last) = (
                        (-low[2]).max(0) as usize,
                        ((t.sizes[2] as isize - low[2]).max(0) as usize).min(padded[2]),
                    );
                    let line = plane.src.wrapping_offset(id * t.strides[0] + ih * t.strides[1]);
                    let row = room.add((d * padded[1] + h) * padded[2]);
                    for w in first..last {
                        let iw = w as isize + low[2];
                        *row.add(w) = (*line.wrapping_offset(iw * t.strides[2])).widen();
                    }
                }
            }
        }
        dispatch(Filter { plane, room, padded, low });
    });
}

struct Filter<'a, E: Elem> {
    plane: &'a Plane<'a, E>,
    room: *const E::Acc,
    padded: [usize; 3],
    low: [isize; 3],
}

impl<E: Elem> Task for Filter<'_, E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let p = self.plane;
        let t = &p.taps;
        let [ph, pw] = [self.padded[1], self.padded[2]];
        let step = t.step[2] as usize;
        let count = t.count();
        for f in 0..p.filters {
            // SAFETY: `depthwise`'s contract; rows of the room end in slack, so whole chunks can be read.
            unsafe {
                let start = if p.bias.is_null() { E::Acc::ZERO } else { (*p.bias.add(f)).widen() };
                let weight = p.weight.add(f * count);
                for od in 0..p.out[0] {
                    for oh in 0..p.out[1] {
                        let out = p.dst.wrapping_offset(
                            f as isize * p.filter_stride
                                + od as isize * p.out_strides[0]
                                + oh as isize * p.out_strides[1],
                        );
                        for ow in (0..p.out[2]).step_by(CHUNK) {
                            let mut sum = [start; CHUNK];
                            let mut tap = weight;
                            for &fd in t.offsets[0] {
                                let d = (od as isize * t.step[0] + fd - self.low[0]) as usize;
                                for &fh in t.offsets[1] {
                                    let h = (oh as isize * t.step[1] + fh - self.low[1]) as usize;
                                    let row = self.room.add((d * ph + h) * pw + ow * step);
                                    for &fw in t.offsets[2] {
                                        let at = row.add((fw - self.low[2]) as usize);
                                        let w = (*tap).widen();
                                        tap = tap.add(1);
                                        if step == 1 {
                                            let v = load::<I, E::Acc, CHUNK>(at, CHUNK, E::Acc::ZERO);
                                            for j in 0..CHUNK {
                                                sum[j] = Float::mul_add::<I>(w, v[j], sum[j]);
                                            }
                                        } else {
                                            for j in 0..CHUNK {
                                                sum[j] = Float::mul_add::<I>(w, *at.add(j * step), sum[j]);
                                            }
                                        }
                                    }
                                }
                            }
                            let n = CHUNK.min(p.out[2] - ow);
                            let out = out.wrapping_offset(ow as isize * p.out_strides[2]);
                            if p.out_strides[2] == 1 {
                                store::<I, E, CHUNK>(out, n, &sum);
                            } else {
                                for j in 0..n {
                                    *out.wrapping_offset(j as isize * p.out_strides[2]) = E::narrow(sum[j]);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Rows of a depthwise convolution whose channels lie side by side, with one filter for each channel.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a, E: Elem> {
    pub taps: Taps<'a>,
    pub src: *const E,
    pub channels: usize,
    /// The output position in the first two dimensions, and the positions in the last.
    pub place: [usize; 2],
    pub width: usize,
    pub dst: *mut E,
    /// Distance of output positions in the last dimension.
    pub step: isize,
    /// For each tap, a number for each channel.
    pub weight: *const E,
    /// A number for each channel, or null.
    pub bias: *const E,
}

/// See [`Line`].
///
/// # Safety
/// The addresses must hold what the sizes say; `dst` must be apart from the rest.
pub unsafe fn depthwise_line<E: Elem>(line: &Line<'_, E>) {
    dispatch(FilterLine { line });
}

struct FilterLine<'a, E: Elem> {
    line: &'a Line<'a, E>,
}

impl<E: Elem> Task for FilterLine<'_, E> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let l = self.line;
        let t = &l.taps;
        let [sd, sh, sw] = t.strides;
        for ow in 0..l.width {
            for c in (0..l.channels).step_by(CHUNK) {
                let n = CHUNK.min(l.channels - c);
                // SAFETY: `depthwise_line`'s contract.
                unsafe {
                    let mut sum = if l.bias.is_null() {
                        [E::Acc::ZERO; CHUNK]
                    } else {
                        load::<I, E, CHUNK>(l.bias.add(c), n, E::Acc::ZERO)
                    };
                    let mut weight = l.weight.add(c);
                    for &fd in t.offsets[0] {
                        let d = t.position(0, l.place[0], fd);
                        for &fh in t.offsets[1] {
                            let h = t.position(1, l.place[1], fh);
                            for &fw in t.offsets[2] {
                                if let (Some(d), Some(h), Some(w)) = (d, h, t.position(2, ow, fw)) {
                                    let at = l.src.wrapping_offset(d * sd + h * sh + w * sw + c as isize);
                                    let v = load::<I, E, CHUNK>(at, n, E::Acc::ZERO);
                                    let w = load::<I, E, CHUNK>(weight, n, E::Acc::ZERO);
                                    for j in 0..CHUNK {
                                        sum[j] = Float::mul_add::<I>(w[j], v[j], sum[j]);
                                    }
                                }
                                weight = weight.wrapping_add(l.channels);
                            }
                        }
                    }
                    let out = l.dst.wrapping_offset(ow as isize * l.step + c as isize);
                    store::<I, E, CHUNK>(out, n, &sum);
                }
            }
        }
    }
}
