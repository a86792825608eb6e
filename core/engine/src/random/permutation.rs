//! `randperm`.

use super::element::RandomElement;
use super::generator::CpuGenerator;

/// From this length on a 32-bit draw would visibly skew the shuffle.
const LONG: usize = u32::MAX as usize / 20;

/// Fills `out` with a random permutation of `0..out.len()`.
pub fn randperm<T: RandomElement>(generator: &mut CpuGenerator, out: &mut [T]) {
    let n = out.len();
    if n >= LONG {
        // The inside-out shuffle.
        for i in 0..n {
            let z = (generator.random64() % (i as u64 + 1)) as usize;
            out[i] = T::from_i64(i as i64);
            out[i] = out[z];
            out[z] = T::from_i64(i as i64);
        }
        return;
    }
    for (i, slot) in out.iter_mut().enumerate() {
        *slot = T::from_i64(i as i64);
    }
    for i in 0..n.saturating_sub(1) {
        let z = generator.random() as usize % (n - i);
        out.swap(i, i + z);
    }
}
