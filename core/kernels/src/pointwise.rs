//! Contiguous element-by-element loops.

use crate::chunk;
use crate::elem::{Elem, Float};
use crate::isa::{Isa, Task, dispatch};
use crate::threads::parallel_ranges;
use crate::vmath::{Function, Function2, Math};
use std::marker::PhantomData;

/// Values in flight at a time: enough independent work to hide the latency of a polynomial.
const CHUNK: usize = 64;
/// Fewer elements than this are not shared among threads (upstream's grain size).
const GRAIN: usize = 32768;

/// `y[i] = f(x[i])` for `i` in `0..n`. `y` may be `x`.
///
/// # Safety
/// `x` must be readable and `y` writable for `n` elements; they must be equal or not overlap.
pub unsafe fn unary<E: Elem, G: Function>(n: usize, x: *const E, y: *mut E)
where
    E::Acc: Math,
{
    let (x, y) = (x as usize, y as usize);
    parallel_ranges(n, GRAIN, |start, end| {
        let (x, y) = (x as *const E, y as *mut E);
        // SAFETY: the range lies within the caller's buffers.
        let (x, y) = unsafe { (x.add(start), y.add(start)) };
        dispatch(UnaryTask::<E, G> { n: end - start, x, y, function: PhantomData })
    });
}

struct UnaryTask<E, G> {
    n: usize,
    x: *const E,
    y: *mut E,
    function: PhantomData<G>,
}
impl<E: Elem, G: Function> Task for UnaryTask<E, G>
where
    E::Acc: Math,
{
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in (0..self.n).step_by(CHUNK) {
            let count = CHUNK.min(self.n - i);
            // SAFETY: `unary`'s contract.
            unsafe {
                let mut v = chunk::load::<I, E, CHUNK>(self.x.add(i), count, E::Acc::ZERO);
                for a in &mut v {
                    *a = G::apply::<I, E::Acc>(*a);
                }
                chunk::store::<I, E, CHUNK>(self.y.add(i), count, &v);
            }
        }
    }
}

/// The right operand of [`binary`].
#[derive(Clone, Copy)]
pub enum Operand<E: Elem> {
    Array(*const E),
    Scalar(E::Acc),
}

/// `z[i] = f(x[i], y[i])` for `i` in `0..n`, computed in the accumulator type. `z` may be `x` or `y`.
///
/// # Safety
/// `x` and an array `y` must be readable and `z` writable for `n` elements; `z` must be equal to each or apart from it.
pub unsafe fn binary<E: Elem, G: Function2>(n: usize, x: *const E, y: Operand<E>, z: *mut E)
where
    E::Acc: Math,
{
    struct Shared<E: Elem>(*const E, Operand<E>, *mut E);
    // SAFETY: each range is written by one thread.
    unsafe impl<E: Elem> Sync for Shared<E> {}
    let shared = Shared(x, y, z);
    parallel_ranges(n, GRAIN, |start, end| {
        let Shared(x, y, z) = &shared;
        // SAFETY: the range lies within the caller's buffers.
        let (x, z) = unsafe { (x.add(start), z.add(start)) };
        let n = end - start;
        match *y {
            Operand::Scalar(y) => dispatch(ScalarTask::<E, G> { n, x, y, z, function: PhantomData }),
            Operand::Array(y) => {
                let y = y.wrapping_add(start);
                dispatch(BinaryTask::<E, G> { n, x, y, z, function: PhantomData })
            }
        }
    });
}

struct BinaryTask<E: Elem, G> {
    n: usize,
    x: *const E,
    y: *const E,
    z: *mut E,
    function: PhantomData<G>,
}
impl<E: Elem, G: Function2> Task for BinaryTask<E, G>
where
    E::Acc: Math,
{
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in (0..self.n).step_by(CHUNK) {
            let count = CHUNK.min(self.n - i);
            // SAFETY: `binary`'s contract.
            unsafe {
                let mut v = chunk::load::<I, E, CHUNK>(self.x.add(i), count, E::Acc::ZERO);
                let w = chunk::load::<I, E, CHUNK>(self.y.add(i), count, E::Acc::ZERO);
                for j in 0..CHUNK {
                    v[j] = G::apply::<I, E::Acc>(v[j], w[j]);
                }
                chunk::store::<I, E, CHUNK>(self.z.add(i), count, &v);
            }
        }
    }
}

struct ScalarTask<E: Elem, G> {
    n: usize,
    x: *const E,
    y: E::Acc,
    z: *mut E,
    function: PhantomData<G>,
}
impl<E: Elem, G: Function2> Task for ScalarTask<E, G>
where
    E::Acc: Math,
{
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in (0..self.n).step_by(CHUNK) {
            let count = CHUNK.min(self.n - i);
            // SAFETY: `binary`'s contract.
            unsafe {
                let mut v = chunk::load::<I, E, CHUNK>(self.x.add(i), count, E::Acc::ZERO);
                for a in &mut v {
                    *a = G::apply::<I, E::Acc>(*a, self.y);
                }
                chunk::store::<I, E, CHUNK>(self.z.add(i), count, &v);
            }
        }
    }
}

/// `y[i] = x[i]` in another type, through the shared accumulator: `f32` from and to the half types.
///
/// # Safety
/// `x` must be readable and `y` writable for `n` elements; they must not overlap.
pub unsafe fn convert<E: Elem, O: Elem<Acc = E::Acc>>(n: usize, x: *const E, y: *mut O) {
    let (x, y) = (x as usize, y as usize);
    parallel_ranges(n, GRAIN, |start, end| {
        // SAFETY: the range lies within the caller's buffers.
        let (x, y) = unsafe { ((x as *const E).add(start), (y as *mut O).add(start)) };
        dispatch(Convert { n: end - start, x, y })
    });
}

struct Convert<E, O> {
    n: usize,
    x: *const E,
    y: *mut O,
}
impl<E: Elem, O: Elem<Acc = E::Acc>> Task for Convert<E, O> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in (0..self.n).step_by(CHUNK) {
            let count = CHUNK.min(self.n - i);
            // SAFETY: `convert`'s contract.
            unsafe {
                let v = chunk::load::<I, E, CHUNK>(self.x.add(i), count, E::Acc::ZERO);
                chunk::store::<I, O, CHUNK>(self.y.add(i), count, &v);
            }
        }
    }
}
