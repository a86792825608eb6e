//! Loops in a working type. An operator's arithmetic is written once for `f32`, `f64`, `i64` or a complex type; operands
//! of narrower dtypes are widened a block at a time into buffers that stay in cache, and narrowed once on the way out, as
//! upstream's kernels do (`opmath_t`). Operands that have the working type and are contiguous are used where they lie.

use super::TensorIterator;
use crate::dtype::{Convert, convert};
use crate::half::{bf16, f16};
use crate::{Complex, DType, Result, bail};
use torchnative_kernels::pointwise as kernels;

/// Elements a block holds.
pub const BLOCK: usize = 256;

/// A type that operators compute in.
pub trait Work: Convert + Default {
    /// Whether operands of this dtype can be loaded and stored.
    fn supports(d: DType) -> bool;
    /// Reads `out.len()` elements of dtype `d`, `stride` bytes apart.
    ///
    /// # Safety
    /// The elements must be readable and `d` supported.
    unsafe fn load(d: DType, p: *const u8, stride: i64, out: &mut [Self]);
    /// Writes `values` as dtype `d`, `stride` bytes apart.
    ///
    /// # Safety
    /// The elements must be writable and `d` supported.
    unsafe fn store(d: DType, p: *mut u8, stride: i64, values: &[Self]);
}

/// # Safety
/// `out.len()` elements, `stride` bytes apart, must be readable.
unsafe fn gather<T: Convert, W: Convert>(p: *const u8, stride: i64, out: &mut [W]) {
    for (i, o) in out.iter_mut().enumerate() {
        // SAFETY: the caller's contract.
        *o = convert(unsafe { (p.wrapping_offset(i as isize * stride as isize) as *const T).read() });
    }
}

/// # Safety
/// `values.len()` elements, `stride` bytes apart, must be writable.
unsafe fn scatter<W: Convert, T: Convert>(p: *mut u8, stride: i64, values: &[W]) {
    for (i, v) in values.iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe { (p.wrapping_offset(i as isize * stride as isize) as *mut T).write(convert(*v)) }
    }
}

macro_rules! work {
    ($($w:ty: $($d:ident => $t:ty),*;)*) => {$(
        impl Work for $w {
            fn supports(d: DType) -> bool {
                matches!(d, $(DType::$d)|*)
            }
            unsafe fn load(d: DType, p: *const u8, stride: i64, out: &mut [Self]) {
                // SAFETY: the caller's contract.
                unsafe {
                    match d {
                        $(DType::$d => gather::<$t, $w>(p, stride, out),)*
                        _ => {}
                    }
                }
            }
            unsafe fn store(d: DType, p: *mut u8, stride: i64, values: &[Self]) {
                // SAFETY: the caller's contract.
                unsafe {
                    match d {
                        $(DType::$d => scatter::<$w, $t>(p, stride, values),)*
                        _ => {}
                    }
                }
            }
        }
    )*};
}
work! {
    f64: Double => f64, Float => f32, Half => f16, BFloat16 => bf16;
    i32: Int => i32;
    i64: Long => i64, Int => i32, Short => i16, Char => i8, Byte => u8, Bool => bool;
    bool: Bool => bool;
    Complex<f32>: ComplexFloat => Complex<f32>, ComplexHalf => Complex<f16>;
    Complex<f64>: ComplexDouble => Complex<f64>;
}

impl Work for f32 {
    fn supports(d: DType) -> bool {
        matches!(d, DType::Float | DType::Half | DType::BFloat16)
    }
    unsafe fn load(d: DType, p: *const u8, stride: i64, out: &mut [f32]) {
        // SAFETY: the caller's contract.
        unsafe {
            match d {
                DType::Half if stride == 2 => kernels::convert(out.len(), p as *const f16, out.as_mut_ptr()),
                DType::BFloat16 if stride == 2 => {
                    kernels::convert(out.len(), p as *const bf16, out.as_mut_ptr())
                }
                DType::Half => gather::<f16, f32>(p, stride, out),
                DType::BFloat16 => gather::<bf16, f32>(p, stride, out),
                _ => gather::<f32, f32>(p, stride, out),
            }
        }
    }
    unsafe fn store(d: DType, p: *mut u8, stride: i64, values: &[f32]) {
        // SAFETY: the caller's contract.
        unsafe {
            match d {
                DType::Half if stride == 2 => kernels::convert(values.len(), values.as_ptr(), p as *mut f16),
                DType::BFloat16 if stride == 2 => {
                    kernels::convert(values.len(), values.as_ptr(), p as *mut bf16)
                }
                DType::Half => scatter::<f32, f16>(p, stride, values),
                DType::BFloat16 => scatter::<f32, bf16>(p, stride, values),
                _ => scatter::<f32, f32>(p, stride, values),
            }
        }
    }
}

/// The arrays of one block: the output, then inputs with the step between their elements (1, or 0 for one value).
pub struct Block<W, O> {
    pub n: usize,
    pub out: *mut O,
    pub inputs: [(*const W, usize); 3],
}

/// Runs `f` over blocks of the iteration: one output of type `O` and up to three inputs of type `W`. `scalar` replaces
/// the last input.
///
/// # Errors
/// An operand's dtype that the working types do not take.
fn run<W: Work, O: Work>(
    it: &TensorIterator,
    inputs: usize,
    scalar: Option<W>,
    f: &(dyn Fn(Block<W, O>) + Sync),
) -> Result<()> {
    let direct = |d: DType, own: DType| d == own;
    for i in 0..=inputs {
        let d = it.dtype(i);
        let fits = if i == 0 { O::supports(d) } else { W::supports(d) };
        if !fits {
            bail!(Internal, "an operand of dtype {d} in a loop over another type");
        }
    }
    let (wsize, osize) = (std::mem::size_of::<W>() as i64, std::mem::size_of::<O>() as i64);
    it.for_each(|p, s, n| {
        let direct_out = direct(it.dtype(0), O::DTYPE) && s[0] == osize;
        let mut constant = [W::default(); 3];
        // Where each input lies: in place, as one value, or to be loaded.
        let mut place: [Option<(*const W, usize)>; 3] = [None; 3];
        let mut all = direct_out;
        for k in 0..inputs {
            if k + 1 == inputs
                && let Some(v) = scalar
            {
                constant[k] = v;
                place[k] = Some((std::ptr::null(), 0));
            } else if s[k + 1] == 0 {
                // SAFETY: one element at least, as n > 0.
                unsafe { W::load(it.dtype(k + 1), p[k + 1], 0, &mut constant[k..k + 1]) };
                place[k] = Some((std::ptr::null(), 0));
            } else if direct(it.dtype(k + 1), W::DTYPE) && s[k + 1] == wsize {
                place[k] = Some((p[k + 1] as *const W, 1));
            } else {
                all = false;
            }
        }
        for k in 0..inputs {
            if let Some((q, 0)) = &mut place[k] {
                *q = &raw const constant[k];
            }
        }
        if all {
            let inputs = place.map(|x| x.unwrap_or((std::ptr::null(), 0)));
            f(Block { n, out: p[0] as *mut O, inputs });
            return;
        }
        let mut buffers = [[W::default(); BLOCK]; 3];
        let mut result = [O::default(); BLOCK];
        let mut at = 0;
        while at < n {
            let m = BLOCK.min(n - at);
            let mut arrays = [(std::ptr::null::<W>(), 0usize); 3];
            for k in 0..inputs {
                arrays[k] = match place[k] {
                    Some((q, step)) => (q.wrapping_add(at * step), step),
                    None => {
                        let from = p[k + 1].wrapping_offset(at as isize * s[k + 1] as isize);
                        // SAFETY: the walk stays inside the operand, whose dtype `run` has checked.
                        unsafe { W::load(it.dtype(k + 1), from, s[k + 1], &mut buffers[k][..m]) };
                        (buffers[k].as_ptr(), 1)
                    }
                };
            }
            let to = p[0].wrapping_offset(at as isize * s[0] as isize);
            if direct_out {
                f(Block { n: m, out: to as *mut O, inputs: arrays });
            } else {
                f(Block { n: m, out: result.as_mut_ptr(), inputs: arrays });
                // SAFETY: as above.
                unsafe { O::store(it.dtype(0), to, s[0], &result[..m]) };
            }
            at += m;
        }
    });
    Ok(())
}

/// `out = f(a)` over arrays: `f(n, a, out)`.
///
/// # Errors
/// An operand's dtype that the working types do not take.
pub fn array1<W: Work, O: Work>(
    it: &TensorIterator,
    f: impl Fn(usize, *const W, *mut O) + Sync,
) -> Result<()> {
    run::<W, O>(it, 1, None, &|b| {
        let (x, step) = b.inputs[0];
        if step == 1 {
            f(b.n, x, b.out);
            return;
        }
        // One value for all: it becomes an array.
        // SAFETY: a step of 0 stands for one readable value; the output has b.n elements.
        let (filled, mut at) = ([unsafe { x.read() }; BLOCK], 0);
        while at < b.n {
            let m = BLOCK.min(b.n - at);
            f(m, filled.as_ptr(), b.out.wrapping_add(at));
            at += m;
        }
    })
}

/// `out = f(a, b)` over arrays: `f(n, a, b, out)`.
///
/// # Errors
/// An operand's dtype that the working types do not take.
pub fn array2<W: Work, O: Work>(
    it: &TensorIterator,
    f: impl Fn(usize, *const W, *const W, *mut O) + Sync,
) -> Result<()> {
    run::<W, O>(it, 2, None, &|b| {
        let ((x, sx), (y, sy)) = (b.inputs[0], b.inputs[1]);
        if sx == 1 && sy == 1 {
            f(b.n, x, y, b.out);
            return;
        }
        // One value for all becomes an array.
        // SAFETY: both inputs have one readable value at least.
        let (xs, ys) = unsafe { ([x.read(); BLOCK], [y.read(); BLOCK]) };
        let mut at = 0;
        while at < b.n {
            let m = BLOCK.min(b.n - at);
            let x = if sx == 1 { x.wrapping_add(at) } else { xs.as_ptr() };
            let y = if sy == 1 { y.wrapping_add(at) } else { ys.as_ptr() };
            f(m, x, y, b.out.wrapping_add(at));
            at += m;
        }
    })
}

/// `out = f(a)`
///
/// # Errors
/// An operand's dtype that the working types do not take.
pub fn map1<W: Work, O: Work>(it: &TensorIterator, f: impl Fn(W) -> O + Sync) -> Result<()> {
    array1(it, |n, x: *const W, out: *mut O| {
        for i in 0..n {
            // SAFETY: both arrays have n elements.
            unsafe { out.add(i).write(f(x.add(i).read())) }
        }
    })
}

fn loop2<W: Work, O: Work>(b: Block<W, O>, f: impl Fn(W, W) -> O) {
    let ((x, sx), (y, sy)) = (b.inputs[0], b.inputs[1]);
    // SAFETY: arrays of n elements where the step is 1, of one where it is 0.
    unsafe {
        match (sx, sy) {
            (1, 1) => (0..b.n).for_each(|i| b.out.add(i).write(f(x.add(i).read(), y.add(i).read()))),
            (1, _) => {
                let y = y.read();
                (0..b.n).for_each(|i| b.out.add(i).write(f(x.add(i).read(), y)))
            }
            (_, 1) => {
                let x = x.read();
                (0..b.n).for_each(|i| b.out.add(i).write(f(x, y.add(i).read())))
            }
            _ => {
                let v = f(x.read(), y.read());
                (0..b.n).for_each(|i| b.out.add(i).write(v))
            }
        }
    }
}

/// `out = f(a, b)`
///
/// # Errors
/// An operand's dtype that the working types do not take.
pub fn map2<W: Work, O: Work>(it: &TensorIterator, f: impl Fn(W, W) -> O + Sync) -> Result<()> {
    run::<W, O>(it, 2, None, &|b| loop2(b, &f))
}

/// As `map2`; a second operand of one element enters with the value it had before its conversion to the common dtype,
/// as upstream's arithmetic of half types has it.
///
/// # Errors
/// An operand's dtype that the working types do not take.
pub fn map2_scalar<W: Work, O: Work>(it: &TensorIterator, f: impl Fn(W, W) -> O + Sync) -> Result<()> {
    run::<W, O>(it, 2, it.original_scalar(1), &|b| loop2(b, &f))
}

/// `out = f(a, b, c)`
///
/// # Errors
/// An operand's dtype that the working types do not take.
pub fn map3<W: Work, O: Work>(it: &TensorIterator, f: impl Fn(W, W, W) -> O + Sync) -> Result<()> {
    run::<W, O>(it, 3, None, &|b| {
        let [(x, sx), (y, sy), (z, sz)] = b.inputs;
        // SAFETY: arrays of n elements where the step is 1, of one where it is 0.
        unsafe {
            if (sx, sy, sz) == (1, 1, 1) {
                for i in 0..b.n {
                    b.out.add(i).write(f(x.add(i).read(), y.add(i).read(), z.add(i).read()));
                }
            } else {
                for i in 0..b.n {
                    b.out.add(i).write(f(x.add(i * sx).read(), y.add(i * sy).read(), z.add(i * sz).read()));
                }
            }
        }
    })
}

impl TensorIterator {
    /// The value of input `i` before its conversion to the common dtype, where it is one converted element.
    pub fn original_scalar<W: Convert>(&self, i: usize) -> Option<W> {
        let original = self.operands[self.num_outputs + i].original.as_ref()?;
        if original.numel() != 1 || !original.is_cpu() {
            return None;
        }
        Some(crate::ops::options::item(original).ok()?.cast())
    }
}

/// Binds `$W` to the type a floating dtype is computed in: `f32` for itself and the half types, `f64` for double; with
/// `complex`, complex dtypes too. Other dtypes return upstream's "not implemented for" error.
macro_rules! opmath {
    ($name:expr, $d:expr, floating, $W:ident => $body:expr) => {
        match $d {
            $crate::DType::Float | $crate::DType::Half | $crate::DType::BFloat16 => {
                type $W = f32;
                $body
            }
            $crate::DType::Double => {
                type $W = f64;
                $body
            }
            other => return Err($crate::error::Error::dtype_not_implemented($name, other)),
        }
    };
    ($name:expr, $d:expr, complex, $W:ident => $body:expr) => {
        match $d {
            $crate::DType::ComplexFloat | $crate::DType::ComplexHalf => {
                type $W = $crate::Complex<f32>;
                $body
            }
            $crate::DType::ComplexDouble => {
                type $W = $crate::Complex<f64>;
                $body
            }
            other => return Err($crate::error::Error::dtype_not_implemented($name, other)),
        }
    };
    ($name:expr, $d:expr, floating_complex, $W:ident => $body:expr) => {
        match $d {
            $crate::DType::ComplexFloat | $crate::DType::ComplexHalf => {
                type $W = $crate::Complex<f32>;
                $body
            }
            $crate::DType::ComplexDouble => {
                type $W = $crate::Complex<f64>;
                $body
            }
            other => $crate::iter::blocks::opmath!($name, other, floating, $W => $body),
        }
    };
}
pub(crate) use opmath;
