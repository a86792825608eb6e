//! Intra-operator parallelism: `at::parallel_for`. Single-threaded in WebAssembly.

use std::sync::atomic::{AtomicUsize, Ordering};

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// `torch.get_num_threads()`
pub fn num_threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let n = if cfg!(target_family = "wasm") {
                1
            } else {
                std::thread::available_parallelism().map_or(1, |n| n.get())
            };
            THREADS.store(n, Ordering::Relaxed);
            n
        }
        n => n,
    }
}

/// `torch.set_num_threads(n)`
pub fn set_num_threads(n: usize) {
    THREADS.store(if cfg!(target_family = "wasm") { 1 } else { n.max(1) }, Ordering::Relaxed);
}

/// Runs `f(begin, end)` over pieces of a range, each at least `grain` long.
#[cfg(not(target_family = "wasm"))]
pub fn for_range(begin: usize, end: usize, grain: usize, f: impl Fn(usize, usize) + Sync) {
    let n = end.saturating_sub(begin);
    let pieces = num_threads().min(n.div_ceil(grain.max(1)));
    if pieces <= 1 {
        if n > 0 {
            f(begin, end);
        }
        return;
    }
    let step = n.div_ceil(pieces);
    rayon::scope(|s| {
        for k in 1..pieces {
            let f = &f;
            let (b, e) = (begin + k * step, (begin + (k + 1) * step).min(end));
            if b < e {
                s.spawn(move |_| f(b, e));
            }
        }
        f(begin, begin + step);
    })
}

/// Runs `f(begin, end)` over the whole range: there are no threads here.
#[cfg(target_family = "wasm")]
pub fn for_range(begin: usize, end: usize, _grain: usize, f: impl Fn(usize, usize) + Sync) {
    if end > begin {
        f(begin, end);
    }
}
