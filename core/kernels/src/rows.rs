//! Row kernels: softmax and normalisation along a contiguous last dimension.

use crate::chunk::{largest, load, store, total};
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Task, dispatch};
use crate::scratch;
use crate::threads::parallel_ranges;
use crate::vmath::Math;

const CHUNK: usize = 64;
/// Elements that are worth a thread's while.
const GRAIN: usize = 16384;

/// Addresses shared by threads that write different rows.
#[derive(Clone, Copy)]
struct Rows<E, O> {
    x: *const E,
    y: *mut O,
}
// SAFETY: see above.
unsafe impl<E, O> Sync for Rows<E, O> {}
impl<E, O> Rows<E, O> {
    /// The same, `n` elements further on.
    unsafe fn at(&self, n: usize) -> (*const E, *mut O) {
        // SAFETY: the caller's contract.
        unsafe { (self.x.add(n), self.y.add(n)) }
    }
}

/// `y = softmax(x)`, or its logarithm, of each of `rows` contiguous rows of `n`. `y` may be `x` where the types agree.
///
/// # Safety
/// `x` must be readable and `y` writable for `rows * n` elements, equal or apart.
pub unsafe fn softmax<E: Elem, O: Elem<Acc = E::Acc>>(
    rows: usize,
    n: usize,
    log: bool,
    x: *const E,
    y: *mut O,
) where
    E::Acc: Math,
{
    if n == 0 {
        return;
    }
    let both = Rows { x, y };
    parallel_ranges(rows, GRAIN.div_ceil(n), |r0, r1| {
        scratch::with(n, |room: *mut E::Acc| {
            for r in r0..r1 {
                // SAFETY: row `r` lies within the caller's buffers.
                let (x, y) = unsafe { both.at(r * n) };
                if n <= 16 {
                    dispatch(Softmax::<E, O, 16> { n, log, x, y, room });
                } else {
                    dispatch(Softmax::<E, O, CHUNK> { n, log, x, y, room });
                }
            }
        })
    });
}

struct Softmax<E: Elem, O, const N: usize> {
    n: usize,
    log: bool,
    x: *const E,
    y: *mut O,
    room: *mut E::Acc,
}
impl<E: Elem, O: Elem<Acc = E::Acc>, const N: usize> Task for Softmax<E, O, N>
where
    E::Acc: Math,
{
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Softmax { n, log, x, y, room } = self;
        let low = E::Acc::NEG_INFINITY;
        // SAFETY: `softmax`'s contract; the room holds a row.
        unsafe {
            let mut top = [low; N];
            for i in (0..n).step_by(N) {
                let v = load::<I, E, N>(x.add(i), N.min(n - i), low);
                for j in 0..N {
                    top[j] = if v[j] > top[j] { v[j] } else { top[j] };
                }
            }
            let top = largest(top);
            let mut sum = [E::Acc::ZERO; N];
            for i in (0..n).step_by(N) {
                let count = N.min(n - i);
                // A row of -inf alone: -inf - -inf is NaN, also where the row was padded; count only what is there.
                let mut v = load::<I, E, N>(x.add(i), count, low);
                for j in 0..N {
                    v[j] = (v[j] - top).exp::<I>();
                }
                if count < N {
                    for j in count..N {
                        v[j] = E::Acc::ZERO;
                    }
                }
                for j in 0..N {
                    sum[j] += v[j];
                }
                if !log {
                    store::<I, E::Acc, N>(room.add(i), count, &v);
                }
            }
            let sum = total(sum);
            let shift = Float::ln(sum);
            for i in (0..n).step_by(N) {
                let count = N.min(n - i);
                let mut v;
                if log {
                    v = load::<I, E, N>(x.add(i), count, E::Acc::ZERO);
                    for j in 0..N {
                        v[j] = v[j] - top - shift;
                    }
                } else {
                    v = load::<I, E::Acc, N>(room.add(i), count, E::Acc::ZERO);
                    for j in 0..N {
                        v[j] = v[j] / sum;
                    }
                }
                store::<I, O, N>(y.add(i), count, &v);
            }
        }
    }
}

/// [`softmax`] along the middle of a contiguous `outer` × `n` × `inner` array.
///
/// # Safety
/// As for [`softmax`], with `outer * n * inner` elements.
pub unsafe fn softmax_middle<E: Elem, O: Elem<Acc = E::Acc>>(
    outer: usize,
    n: usize,
    inner: usize,
    log: bool,
    x: *const E,
    y: *mut O,
) where
    E::Acc: Math,
{
    if n == 0 || inner == 0 {
        return;
    }
    let both = Rows { x, y };
    // Each item is up to CHUNK neighbouring columns.
    let chunks = inner.div_ceil(CHUNK);
    parallel_ranges(outer * chunks, GRAIN.div_ceil(n * CHUNK), |c0, c1| {
        scratch::with(n * CHUNK, |room: *mut E::Acc| {
            for c in c0..c1 {
                let start = c % chunks * CHUNK;
                // SAFETY: the columns lie within the caller's buffers.
                let (x, y) = unsafe { both.at(c / chunks * n * inner + start) };
                dispatch(SoftmaxColumns { n, count: CHUNK.min(inner - start), inner, log, x, y, room });
            }
        })
    });
}

struct SoftmaxColumns<E: Elem, O> {
    n: usize,
    count: usize,
    inner: usize,
    log: bool,
    x: *const E,
    y: *mut O,
    room: *mut E::Acc,
}
impl<E: Elem, O: Elem<Acc = E::Acc>> Task for SoftmaxColumns<E, O>
where
    E::Acc: Math,
{
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let SoftmaxColumns { n, count, inner, log, x, y, room } = self;
        // SAFETY: `softmax_middle`'s contract; the room holds these columns.
        unsafe {
            let mut top = [E::Acc::NEG_INFINITY; CHUNK];
            for i in 0..n {
                let v = load::<I, E, CHUNK>(x.add(i * inner), count, E::Acc::ZERO);
                for j in 0..CHUNK {
                    top[j] = if v[j] > top[j] { v[j] } else { top[j] };
                }
            }
            let mut sum = [E::Acc::ZERO; CHUNK];
            for i in 0..n {
                let mut v = load::<I, E, CHUNK>(x.add(i * inner), count, E::Acc::ZERO);
                for j in 0..CHUNK {
                    v[j] = (v[j] - top[j]).exp::<I>();
                    sum[j] += v[j];
                }
                store::<I, E::Acc, CHUNK>(room.add(i * CHUNK), CHUNK, &v);
            }
            let mut shift = [E::Acc::ZERO; CHUNK];
            if log {
                for j in 0..CHUNK {
                    shift[j] = Float::ln(sum[j]);
                }
            }
            for i in 0..n {
                let mut v;
                if log {
                    v = load::<I, E, CHUNK>(x.add(i * inner), count, E::Acc::ZERO);
                    for j in 0..CHUNK {
                        v[j] = v[j] - top[j] - shift[j];
                    }
                } else {
                    v = load::<I, E::Acc, CHUNK>(room.add(i * CHUNK), CHUNK, E::Acc::ZERO);
                    for j in 0..CHUNK {
                        v[j] = v[j] / sum[j];
                    }
                }
                store::<I, O, CHUNK>(y.add(i * inner), count, &v);
            }
        }
    }
}

/// What [`normalize`] does to each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// `(x - mean) / sqrt(variance + eps)`
    Layer,
    /// `x / sqrt(mean(x²) + eps)`
    Rms,
}

/// Normalises each of `rows` contiguous rows of `n`, then multiplies by `weight` and adds `bias` where they are not null.
/// `mean` and `rstd`, where not null, receive one value a row (`mean` is zero for [`Norm::Rms`]).
///
/// # Safety
/// `x` must be readable and `y` writable for `rows * n` elements, equal or apart; `weight` and `bias` readable for `n`;
/// `mean` and `rstd` writable for `rows`.
pub unsafe fn normalize<E: Elem, W: Elem<Acc = E::Acc>>(
    norm: Norm,
    rows: usize,
    n: usize,
    x: *const E,
    weight: *const W,
    bias: *const W,
    eps: f64,
    y: *mut E,
    mean: *mut E::Acc,
    rstd: *mut E::Acc,
) where
    E::Acc: Math,
{
    let both = Rows { x, y };
    let parameters = Rows { x: weight, y: bias.cast_mut() };
    let stats = Rows { x: mean.cast_const(), y: rstd };
    parallel_ranges(rows, GRAIN.div_ceil(n.max(1)), |r0, r1| {
        let (parameters, stats) = (&parameters, &stats);
        for r in r0..r1 {
            // SAFETY: row `r` lies within the caller's buffers.
            let (x, y) = unsafe { both.at(r * n) };
            let (weight, bias) = (parameters.x, parameters.y.cast_const());
            let (m, s) = dispatch(Normalize { norm, n, x, weight, bias, eps: E::Acc::from_f64(eps), y });
            // SAFETY: as above.
            unsafe {
                if !stats.x.is_null() {
                    *stats.x.cast_mut().add(r) = m;
                }
                if !stats.y.is_null() {
                    *stats.y.add(r) = s;
                }
            }
        }
    });
}

struct Normalize<E: Elem, W> {
    norm: Norm,
    n: usize,
    x: *const E,
    weight: *const W,
    bias: *const W,
    eps: E::Acc,
    y: *mut E,
}
impl<E: Elem, W: Elem<Acc = E::Acc>> Task for Normalize<E, W>
where
    E::Acc: Math,
{
    type Out = (E::Acc, E::Acc);
    #[inline(always)]
    fn run<I: Isa>(self) -> Self::Out {
        let Normalize { norm, n, x, weight, bias, eps, y } = self;
        let (zero, one) = (E::Acc::ZERO, E::Acc::ONE);
        let size = E::Acc::from_f64(n as f64);
        // SAFETY: `normalize`'s contract.
        unsafe {
            let mut mean = zero;
            if norm == Norm::Layer {
                let mut sum = [zero; CHUNK];
                for i in (0..n).step_by(CHUNK) {
                    let v = load::<I, E, CHUNK>(x.add(i), CHUNK.min(n - i), zero);
                    for j in 0..CHUNK {
                        sum[j] += v[j];
                    }
                }
                mean = total(sum) / size;
            }
            let mut squares = [zero; CHUNK];
            for i in (0..n).step_by(CHUNK) {
                let v = load::<I, E, CHUNK>(x.add(i), CHUNK.min(n - i), mean);
                for j in 0..CHUNK {
                    let d = v[j] - mean;
                    squares[j] = Float::mul_add::<I>(d, d, squares[j]);
                }
            }
            let rstd = one / (total(squares) / size + eps).sqrt();
            for i in (0..n).step_by(CHUNK) {
                let count = CHUNK.min(n - i);
                let mut v = load::<I, E, CHUNK>(x.add(i), count, zero);
                for j in 0..CHUNK {
                    v[j] = (v[j] - mean) * rstd;
                }
                if !weight.is_null() {
                    let w = load::<I, W, CHUNK>(weight.add(i), count, zero);
                    for j in 0..CHUNK {
                        v[j] = v[j] * w[j];
                    }
                }
                if !bias.is_null() {
                    let b = load::<I, W, CHUNK>(bias.add(i), count, zero);
                    for j in 0..CHUNK {
                        v[j] += b[j];
                    }
                }
                store::<I, E, CHUNK>(y.add(i), count, &v);
            }
            (mean, rstd)
        }
    }
}
