//! Intra-operator parallelism: `at::parallel_for`, on the thread pool that the kernels use. Single-threaded in
//! WebAssembly.

use torchnative_kernels::threads;

/// `torch.get_num_threads()`
pub fn num_threads() -> usize {
    threads::get_num_threads()
}

/// `torch.set_num_threads(n)`
pub fn set_num_threads(n: usize) {
    threads::set_num_threads(n);
}

/// Runs `f(begin, end)` over pieces of a range, each at least `grain` long.
pub fn for_range(begin: usize, end: usize, grain: usize, f: impl Fn(usize, usize) + Sync) {
    let n = end.saturating_sub(begin);
    if n == 0 {
        return;
    }
    let pieces = num_threads().min(n.div_ceil(grain.max(1)));
    let step = n.div_ceil(pieces);
    threads::parallel_for(n.div_ceil(step), |k| f(begin + k * step, (begin + (k + 1) * step).min(end)));
}
