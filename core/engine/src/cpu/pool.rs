//! Pooling: greatest elements and means of windows.

use crate::cpu::parallel;
use crate::cpu::rows::Real;
use crate::{Element, Tensor};

/// Elements looked at that are worth a thread's while.
const GRAIN: usize = 1 << 15;

/// The input positions that one output position of a dimension sees: `first`, `first + step`, … below `end`, and how many there
/// would be with padding counted.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub first: i64,
    pub end: i64,
    pub step: i64,
    pub padded: i64,
}

/// The windows of three dimensions.
pub(crate) type Windows = [Vec<Window>; 3];

/// One channel of one batch entry: strides of the three dimensions.
struct Layout {
    batch: i64,
    channels: i64,
    /// Of batch, channel and the three dimensions.
    strides: [i64; 5],
}

/// The layout of a tensor whose last `rank` dimensions are pooled.
fn layout(t: &Tensor, rank: usize) -> Layout {
    let (s, st) = (t.sizes(), t.strides());
    let lead = t.dim() - rank;
    let mut strides = [0; 5];
    let (mut batch, mut channels) = (1, 1);
    if lead >= 2 {
        (batch, strides[0]) = (s[lead - 2], st[lead - 2]);
    }
    if lead >= 1 {
        (channels, strides[1]) = (s[lead - 1], st[lead - 1]);
    }
    strides[5 - rank..].copy_from_slice(&st[lead..]);
    Layout { batch, channels, strides }
}

/// An address that tasks share.
#[derive(Clone, Copy)]
struct At<T>(*mut T);
// SAFETY: tasks write different channels.
unsafe impl<T> Send for At<T> {}
unsafe impl<T> Sync for At<T> {}
impl<T> At<T> {
    fn of(t: &Tensor) -> At<T> {
        At(t.data_ptr() as *mut T)
    }
    #[inline(always)]
    fn plus(self, n: i64) -> *mut T {
        self.0.wrapping_offset(n as isize)
    }
}

/// Calls `f(channel offset of x, of out)` for every channel of every batch entry, on several threads.
fn for_planes(x: &Layout, out: &Layout, work: usize, f: impl Fn(i64, i64) + Sync) {
    let planes = (x.batch * x.channels) as usize;
    parallel::for_range(0, planes, GRAIN.div_ceil(work.max(1)), |from, to| {
        for p in from as i64..to as i64 {
            let (n, c) = (p / x.channels, p % x.channels);
            let of = |l: &Layout| n * l.strides[0] + c * l.strides[1];
            f(of(x), of(out));
        }
    });
}

fn work(w: &Windows) -> usize {
    w.iter()
        .map(|w| w.iter().map(|w| ((w.end - w.first).max(0) / w.step.max(1) + 1) as usize).sum::<usize>())
        .product()
}

/// The greatest element of each window, and its position in the input's row-major order over the pooled dimensions. NaN is
/// greater than all.
pub(crate) fn greatest<T: Real>(
    x: &Tensor,
    rank: usize,
    w: &Windows,
    low: T,
    out: &Tensor,
    indices: Option<&Tensor>,
) {
    let (lx, lo) = (layout(x, rank), layout(out, rank));
    let size = |d: usize| if d + rank < 3 { 1 } else { x.sizes()[x.dim() + d - 3] };
    let (height, width) = (size(1), size(2));
    let [_, _, xd, xh, xw] = lx.strides;
    let [_, _, od, oh, ow] = lo.strides;
    let (src, dst) = (At::<T>::of(x), At::<T>::of(out));
    let at = indices.map(At::<i64>::of);
    for_planes(&lx, &lo, work(w), |a, b| {
        for (d, wd) in w[0].iter().enumerate() {
            for (h, wh) in w[1].iter().enumerate() {
                for (v, ww) in w[2].iter().enumerate() {
                    let mut best = low;
                    let mut index = (wd.first * height + wh.first) * width + ww.first;
                    let mut i = wd.first;
                    while i < wd.end {
                        let mut j = wh.first;
                        while j < wh.end {
                            let row = a + i * xd + j * xh;
                            let mut k = ww.first;
                            while k < ww.end {
                                // SAFETY: windows lie inside the input.
                                let value = unsafe { *src.plus(row + k * xw) };
                                if value > best || value.nan() {
                                    best = value;
                                    index = (i * height + j) * width + k;
                                }
                                k += ww.step;
                            }
                            j += wh.step;
                        }
                        i += wd.step;
                    }
                    let place = b + d as i64 * od + h as i64 * oh + v as i64 * ow;
                    // SAFETY: this channel's results; both outputs have the same geometry.
                    unsafe {
                        *dst.plus(place) = best;
                        if let Some(at) = at {
                            *at.plus(place) = index;
                        }
                    }
                }
            }
        }
    });
}

/// A number that has means.
pub(crate) trait Mean: Element {
    type A: Copy;
    const ZERO: Self::A;
    fn add(a: Self::A, x: Self) -> Self::A;
    fn over(a: Self::A, n: i64) -> Self::A;
    fn result(a: Self::A) -> Self;
}
macro_rules! mean {
    ($($t:ty as $a:ty: $up:expr, $down:expr;)*) => {$(impl Mean for $t {
        type A = $a;
        const ZERO: $a = 0 as $a;
        #[inline(always)]
        fn add(a: $a, x: $t) -> $a { a + $up(x) }
        #[inline(always)]
        fn over(a: $a, n: i64) -> $a { a / n as $a }
        #[inline(always)]
        fn result(a: $a) -> $t { $down(a) }
    })*};
}
mean! {
    f32 as f32: |x| x, |x| x;
    f64 as f64: |x| x, |x| x;
    half::f16 as f32: half::f16::to_f32, half::f16::from_f32;
    half::bf16 as f32: half::bf16::to_f32, half::bf16::from_f32;
}
impl Mean for i64 {
    type A = i64;
    const ZERO: i64 = 0;
    #[inline(always)]
    fn add(a: i64, x: i64) -> i64 {
        a.wrapping_add(x)
    }
    #[inline(always)]
    fn over(a: i64, n: i64) -> i64 {
        a.wrapping_div(n)
    }
    #[inline(always)]
    fn result(a: i64) -> i64 {
        a
    }
}

/// What a mean divides by.
#[derive(Clone, Copy)]
pub(crate) enum Divisor {
    /// The elements of the window, padding counted.
    Padded,
    /// The elements of the window.
    Present,
    Fixed(i64),
    /// The elements of the window, one dimension after the other, as the adaptive kernels do.
    EachDimension,
}

/// The mean of each window.
pub(crate) fn mean<T: Mean>(x: &Tensor, rank: usize, w: &Windows, divisor: Divisor, out: &Tensor) {
    let (lx, lo) = (layout(x, rank), layout(out, rank));
    let [_, _, xd, xh, xw] = lx.strides;
    let [_, _, od, oh, ow] = lo.strides;
    let (src, dst) = (At::<T>::of(x), At::<T>::of(out));
    for_planes(&lx, &lo, work(w), |a, b| {
        for (d, wd) in w[0].iter().enumerate() {
            for (h, wh) in w[1].iter().enumerate() {
                for (v, ww) in w[2].iter().enumerate() {
                    let mut sum = T::ZERO;
                    for i in wd.first..wd.end {
                        for j in wh.first..wh.end {
                            let row = a + i * xd + j * xh;
                            for k in ww.first..ww.end {
                                // SAFETY: windows lie inside the input.
                                sum = T::add(sum, unsafe { *src.plus(row + k * xw) });
                            }
                        }
                    }
                    let counts = [wd, wh, ww].map(|w| (w.end - w.first).max(0));
                    let result = if counts.contains(&0) {
                        T::ZERO
                    } else {
                        divided::<T>(sum, divisor, [wd, wh, ww], counts)
                    };
                    let place = b + d as i64 * od + h as i64 * oh + v as i64 * ow;
                    // SAFETY: this channel's results.
                    unsafe { *dst.plus(place) = T::result(result) };
                }
            }
        }
    });
}

/// Adds to the input's gradient `out` (zeros at first) what each window's mean passes on of `grad`.
pub(crate) fn spread_mean<T: Mean + std::ops::AddAssign<T::A>>(
    grad: &Tensor,
    rank: usize,
    w: &Windows,
    divisor: Divisor,
    out: &Tensor,
) {
    let (lg, lo) = (layout(grad, rank), layout(out, rank));
    let [_, _, gd, gh, gw] = lg.strides;
    let [_, _, od, oh, ow] = lo.strides;
    let (src, dst) = (At::<T>::of(grad), At::<T>::of(out));
    for_planes(&lg, &lo, work(w), |a, b| {
        for (d, wd) in w[0].iter().enumerate() {
            for (h, wh) in w[1].iter().enumerate() {
                for (v, ww) in w[2].iter().enumerate() {
                    let counts = [wd, wh, ww].map(|w| (w.end - w.first).max(0));
                    if counts.contains(&0) {
                        continue;
                    }
                    // SAFETY: a gradient of this channel.
                    let g = T::add(T::ZERO, unsafe {
                        *src.plus(a + d as i64 * gd + h as i64 * gh + v as i64 * gw)
                    });
                    let share = divided::<T>(g, divisor, [wd, wh, ww], counts);
                    for i in wd.first..wd.end {
                        for j in wh.first..wh.end {
                            for k in ww.first..ww.end {
                                // SAFETY: windows lie inside this channel's input.
                                unsafe { *dst.plus(b + i * od + j * oh + k * ow) += share };
                            }
                        }
                    }
                }
            }
        }
    });
}

fn divided<T: Mean>(sum: T::A, divisor: Divisor, w: [&Window; 3], counts: [i64; 3]) -> T::A {
    match divisor {
        Divisor::Padded => T::over(sum, w.iter().map(|w| w.padded).product()),
        Divisor::Present => T::over(sum, counts.iter().product()),
        Divisor::Fixed(n) => T::over(sum, n),
        Divisor::EachDimension => counts.iter().fold(sum, |s, n| T::over(s, *n)),
    }
}
