//! One vector interface over every instruction set, and the run-time choice between them.
//!
//! A kernel is a [`Task`]: a value holding its arguments with a generic `run<I: Isa>`. [`dispatch`] picks the best
//! instruction set of the running CPU and compiles the task once for each, inside a function that enables its target
//! features. Everything a task reaches must be `#[inline(always)]`: a function that is not inlined would be
//! compiled without those features.

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(all(target_family = "wasm", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::elem::Float;
pub use portable::{Portable, Wide};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx512, F32x16};

/// A register of `LANES` floats.
///
/// # Safety
/// Implementations use instructions of their [`Isa`]. The methods are safe to call only where that instruction set is
/// known to be there, that is, inside a [`Task`]; the types are therefore not constructible outside this crate's
/// kernels.
pub trait Vector: Copy {
    type T: Float;
    const LANES: usize;
    fn splat(x: Self::T) -> Self;
    /// # Safety
    /// `p` must be readable for `LANES` values.
    unsafe fn load(p: *const Self::T) -> Self;
    /// # Safety
    /// `p` must be writable for `LANES` values.
    unsafe fn store(self, p: *mut Self::T);
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// `self * b + c`, fused where the instruction set fuses.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// The larger of each pair; either one where a NaN takes part.
    fn max(self, b: Self) -> Self;

    #[inline(always)]
    fn zero() -> Self {
        Self::splat(Self::T::ZERO)
    }

    /// The sum of the lanes.
    #[inline(always)]
    fn reduce_add(self) -> Self::T {
        let mut lanes = [Self::T::ZERO; 16];
        // SAFETY: no register has more than 16 lanes.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut n = Self::LANES;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                lanes[i] += lanes[i + n];
            }
        }
        lanes[0]
    }

    /// The largest lane, NaN lanes ignored or not as `max` has it.
    #[inline(always)]
    fn reduce_max(self) -> Self::T {
        let mut lanes = [Self::T::ZERO; 16];
        // SAFETY: no register has more than 16 lanes.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut best = lanes[0];
        for &x in &lanes[1..Self::LANES] {
            if x > best {
                best = x;
            }
        }
        best
    }

    /// The sums of the lanes of four registers.
    #[inline(always)]
    fn reduce_add4(v: [Self; 4]) -> [Self::T; 4] {
        [v[0].reduce_add(), v[1].reduce_add(), v[2].reduce_add(), v[3].reduce_add()]
    }

    /// Transposes a `LANES` × `LANES` tile: row `i` is `load(i)`, column `j` is given to `store(j, …)`.
    #[inline(always)]
    fn transpose(load: impl Fn(usize) -> Self, mut store: impl FnMut(usize, Self)) {
        let mut tile = [Self::T::ZERO; 256];
        let mut column = [Self::T::ZERO; 16];
        for i in 0..Self::LANES {
            // SAFETY: no register has more than 16 lanes.
            unsafe { load(i).store(tile.as_mut_ptr().add(i * Self::LANES)) };
        }
        for j in 0..Self::LANES {
            for i in 0..Self::LANES {
                column[i] = tile[i * Self::LANES + j];
            }
            // SAFETY: as above.
            store(j, unsafe { Self::load(column.as_ptr()) });
        }
    }
}

/// A register of `f32` that also converts from and to the 16-bit float types.
pub trait Vector32: Vector<T = f32> {
    /// # Safety
    /// `p` must be readable for `LANES` values.
    unsafe fn load_bf16(p: *const u16) -> Self;
    /// # Safety
    /// `p` must be readable for `LANES` values.
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        let mut lanes = [0f32; 16];
        for i in 0..Self::LANES {
            // SAFETY: the caller's contract.
            lanes[i] = crate::elem::f16_bits_to_f32(unsafe { p.add(i).read_unaligned() });
        }
        // SAFETY: no register has more than 16 lanes.
        unsafe { Self::load(lanes.as_ptr()) }
    }
    /// # Safety
    /// `p` must be writable for `LANES` values.
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        let mut lanes = [0f32; 16];
        // SAFETY: no register has more than 16 lanes; `p` is the caller's contract.
        unsafe {
            self.store(lanes.as_mut_ptr());
            for i in 0..Self::LANES {
                p.add(i).write_unaligned(crate::elem::f32_to_bf16_bits(lanes[i]));
            }
        }
    }
    /// # Safety
    /// `p` must be writable for `LANES` values.
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        let mut lanes = [0f32; 16];
        // SAFETY: as above.
        unsafe {
            self.store(lanes.as_mut_ptr());
            for i in 0..Self::LANES {
                p.add(i).write_unaligned(crate::elem::f32_to_f16_bits(lanes[i]));
            }
        }
    }
}

/// An instruction set.
pub trait Isa: Copy + Send + Sync + 'static {
    type F32: Vector32;
    type F64: Vector<T = f64>;
    /// Whether `mul_add` rounds once.
    const FMA: bool;
    /// Rows of the register tile of a matrix product.
    const MR: usize;
    /// Registers across the register tile.
    const NV: usize;
    /// Hints that the cache line at `p` will be read; any address will do.
    #[inline(always)]
    fn prefetch<T>(p: *const T) {
        let _ = p;
    }
}

/// A kernel with its arguments, to be compiled once for each instruction set.
pub trait Task {
    type Out;
    /// Must be `#[inline(always)]`, and so must everything it calls.
    fn run<I: Isa>(self) -> Self::Out;
}

/// The instruction sets that a build can choose from at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// What the target guarantees: SSE2, NEON, WebAssembly SIMD or scalar code.
    Baseline = 1,
    /// AVX2 with FMA and F16C.
    Avx2 = 2,
    /// AVX-512 F, with all of the above.
    Avx512 = 3,
    /// Portable code in the shape of AVX-512; see [`Wide`].
    #[cfg(test)]
    Wide = 4,
}

/// The levels that this CPU can run and that differ, for tests.
#[cfg(test)]
pub(crate) fn levels() -> Vec<Level> {
    let best = level();
    let all = [Level::Baseline, Level::Avx2, Level::Avx512];
    all.into_iter().filter(|&l| l as u8 <= best as u8).chain([Level::Wide]).collect()
}

/// Runs `f` at each of [`levels`], one test at a time: the level belongs to the process.
#[cfg(test)]
pub(crate) fn at_each_level(f: impl Fn(Level)) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let best = level();
    for l in levels() {
        set_level(l);
        f(l);
    }
    set_level(best);
    drop(guard);
}

#[cfg(target_arch = "aarch64")]
type Baseline = neon::Neon;
#[cfg(all(target_family = "wasm", target_feature = "simd128"))]
type Baseline = wasm::Simd128;
#[cfg(not(any(target_arch = "aarch64", all(target_family = "wasm", target_feature = "simd128"))))]
type Baseline = Portable;

/// Runs `task` with the best instruction set of this CPU.
#[inline]
pub fn dispatch<K: Task>(task: K) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    {
        match x86::level() {
            // SAFETY: `level` reports what the CPU has.
            Level::Avx512 => return unsafe { x86::run_avx512(task) },
            // SAFETY: as above.
            Level::Avx2 => return unsafe { x86::run_avx2(task) },
            #[cfg(test)]
            Level::Wide => return task.run::<Wide>(),
            Level::Baseline => {}
        }
    }
    run_baseline(task)
}

// Not inlined into `dispatch`: one copy of the task is enough for all callers.
#[inline(never)]
fn run_baseline<K: Task>(task: K) -> K::Out {
    task.run::<Baseline>()
}

/// The instruction set that [`dispatch`] uses.
pub fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    return x86::level();
    #[cfg(not(target_arch = "x86_64"))]
    Level::Baseline
}

/// Limits [`dispatch`] to `level` (or to what the CPU has, if that is less). Must not be called while a kernel runs: the
/// parts of one kernel have to agree on the level. Tests go through [`at_each_level`].
#[cfg(test)]
fn set_level(level: Level) {
    #[cfg(target_arch = "x86_64")]
    x86::set_level(level);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
}
