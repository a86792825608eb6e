//! Fourier transforms of contiguous arrays, by `rustfft` and `realfft`.

use crate::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::sync::{Arc, LazyLock, Mutex};

/// A real type with its plans, which are kept for later calls.
pub trait Planned: FftNum + num_traits::Float {
    fn complex(n: usize, forward: bool) -> Arc<dyn Fft<Self>>;
    fn real(n: usize) -> Arc<dyn RealToComplex<Self>>;
    fn real_inverse(n: usize) -> Arc<dyn ComplexToReal<Self>>;
}

macro_rules! planned {
    ($($t:ty, $complex:ident, $real:ident;)*) => {$(
        static $complex: LazyLock<Mutex<FftPlanner<$t>>> = LazyLock::new(|| Mutex::new(FftPlanner::new()));
        static $real: LazyLock<Mutex<RealFftPlanner<$t>>> = LazyLock::new(|| Mutex::new(RealFftPlanner::new()));
        impl Planned for $t {
            fn complex(n: usize, forward: bool) -> Arc<dyn Fft<$t>> {
                let direction = if forward { FftDirection::Forward } else { FftDirection::Inverse };
                $complex.lock().unwrap_or_else(|e| e.into_inner()).plan_fft(n, direction)
            }
            fn real(n: usize) -> Arc<dyn RealToComplex<$t>> {
                $real.lock().unwrap_or_else(|e| e.into_inner()).plan_fft_forward(n)
            }
            fn real_inverse(n: usize) -> Arc<dyn ComplexToReal<$t>> {
                $real.lock().unwrap_or_else(|e| e.into_inner()).plan_fft_inverse(n)
            }
        }
    )*};
}

planned! {
    f32, COMPLEX_F32, REAL_F32;
    f64, COMPLEX_F64, REAL_F64;
}

/// Transforms, in place, the lines of `n` elements that lie `inner` apart; `data` holds `outer * n * inner` elements.
pub fn complex_lines<T: Planned>(data: &mut [Complex<T>], n: usize, inner: usize, forward: bool) {
    if n <= 1 || data.is_empty() {
        return;
    }
    let plan = T::complex(n, forward);
    let zero = Complex::new(T::zero(), T::zero());
    let mut scratch = vec![zero; plan.get_inplace_scratch_len()];
    if inner == 1 {
        plan.process_with_scratch(data, &mut scratch);
        return;
    }
    let mut line = vec![zero; n];
    for block in data.chunks_exact_mut(n * inner) {
        for j in 0..inner {
            for (i, v) in line.iter_mut().enumerate() {
                *v = block[i * inner + j];
            }
            plan.process_with_scratch(&mut line, &mut scratch);
            for (i, v) in line.iter().enumerate() {
                block[i * inner + j] = *v;
            }
        }
    }
}

/// Transforms lines of `n` real elements to lines of `n / 2 + 1` complex ones.
pub fn real_lines<T: Planned>(data: &[T], n: usize, out: &mut [Complex<T>]) {
    let plan = T::real(n);
    let zero = Complex::new(T::zero(), T::zero());
    let (mut line, mut scratch) = (vec![T::zero(); n], vec![zero; plan.get_scratch_len()]);
    for (x, y) in data.chunks_exact(n).zip(out.chunks_exact_mut(n / 2 + 1)) {
        line.copy_from_slice(x);
        plan.process_with_scratch(&mut line, y, &mut scratch).expect("lengths are the plan's");
    }
}

/// Transforms lines of `half` complex elements to lines of `n` real ones. Elements beyond `n / 2 + 1` are not read, missing ones
/// are zero, and so are imaginary parts where a real signal has none.
pub fn half_lines<T: Planned>(data: &[Complex<T>], half: usize, n: usize, out: &mut [T]) {
    let plan = T::real_inverse(n);
    let zero = Complex::new(T::zero(), T::zero());
    let (mut line, mut scratch) = (vec![zero; n / 2 + 1], vec![zero; plan.get_scratch_len()]);
    let used = half.min(n / 2 + 1);
    for (x, y) in data.chunks_exact(half).zip(out.chunks_exact_mut(n)) {
        line[..used].copy_from_slice(&x[..used]);
        line[used..].fill(zero);
        line[0].im = T::zero();
        if n.is_multiple_of(2) {
            line[n / 2].im = T::zero();
        }
        plan.process_with_scratch(&mut line, y, &mut scratch).expect("lengths are the plan's");
    }
}
