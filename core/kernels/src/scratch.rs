//! Reusable per-thread scratch memory.
//!
//! Packing buffers are megabytes; taking them from the allocator at every call would cost more in page faults than
//! the product they serve.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;

const ALIGN: usize = 64;
/// A buffer larger than this is returned to the allocator after use.
const KEEP: usize = if cfg!(target_family = "wasm") { 8 << 20 } else { 64 << 20 };

struct Buffer {
    ptr: *mut u8,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, ALIGN).expect("scratch size overflows");
        // SAFETY: the size is never zero (see `with`).
        let ptr = unsafe { alloc(layout) };
        if ptr.is_null() {
            handle_alloc_error(layout);
        }
        Buffer { ptr, bytes }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.ptr, Layout::from_size_align_unchecked(self.bytes, ALIGN)) }
    }
}

thread_local! {
    static FREE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with uninitialised, 64-byte aligned room for `len` values of `T`. Calls may nest.
pub fn with<T: Copy, R>(len: usize, f: impl FnOnce(*mut T) -> R) -> R {
    let bytes = len.checked_mul(size_of::<T>()).expect("scratch size overflows").max(ALIGN);
    let taken = FREE.with(|free| {
        let mut free = free.borrow_mut();
        let best = (0..free.len()).filter(|&i| free[i].bytes >= bytes).min_by_key(|&i| free[i].bytes);
        match best {
            Some(i) => Some(free.swap_remove(i)),
            // Replace the largest buffer that is too small instead of keeping both.
            None => {
                let largest = (0..free.len()).max_by_key(|&i| free[i].bytes);
                largest.map(|i| free.swap_remove(i));
                None
            }
        }
    });
    let buffer = taken.unwrap_or_else(|| Buffer::new(bytes.next_multiple_of(4096)));
    let result = f(buffer.ptr as *mut T);
    if buffer.bytes <= KEEP {
        FREE.with(|free| free.borrow_mut().push(buffer));
    }
    result
}
