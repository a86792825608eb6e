//! Suballocation: slices of pooled buffers, 256-byte aligned, best fit, neighbours merged when freed.
//!
//! A freed slice may be handed out at once: the commands that use it next come later in the one queue.

use crate::program::{Limits, Slice};
use std::collections::BTreeMap;

/// Alignment of slices, as storage bindings need it.
pub const ALIGNMENT: u64 = 256;
const FIRST_CHUNK: u64 = 4 << 20;
const LARGEST_CHUNK: u64 = 64 << 20;

struct Chunk {
    size: u64,
    /// Free ranges: start to length. Never adjacent.
    free: BTreeMap<u64, u64>,
}

/// Buffers and their free ranges.
#[derive(Default)]
pub struct Pool {
    chunks: BTreeMap<u32, Chunk>,
    next_id: u32,
    /// Bytes in slices that are in use.
    pub allocated: u64,
    /// Bytes in buffers.
    pub reserved: u64,
    pub peak: u64,
}

impl Pool {
    /// A slice of at least `nbytes`; a new buffer's id and size when one must be made for it.
    ///
    /// # Errors
    /// When the adapter cannot bind so much.
    pub fn allocate(&mut self, nbytes: u64, limits: &Limits) -> Result<(Slice, Option<u64>), String> {
        let size = nbytes.max(1).next_multiple_of(ALIGNMENT);
        let most = limits.max_buffer_size.min(limits.max_storage_buffer_binding_size);
        if size > most {
            return Err(format!(
                "an allocation of {nbytes} bytes passes what the adapter can bind ({most} bytes)"
            ));
        }
        let mut best: Option<(u64, u32, u64)> = None;
        for (&id, chunk) in &self.chunks {
            for (&start, &len) in &chunk.free {
                if len >= size && best.is_none_or(|(l, ..)| len < l) {
                    best = Some((len, id, start));
                }
            }
        }
        let (buffer, offset, made) = match best {
            Some((len, id, start)) => {
                let free = &mut self.chunks.get_mut(&id).expect("found above").free;
                free.remove(&start);
                if len > size {
                    free.insert(start + size, len - size);
                }
                (id, start, None)
            }
            None => {
                let chunk = self.reserved.clamp(FIRST_CHUNK, LARGEST_CHUNK).max(size).min(most);
                // A multiple of the alignment, whatever the adapter's limit is.
                let chunk = (chunk / ALIGNMENT * ALIGNMENT).max(size);
                self.next_id += 1;
                let mut free = BTreeMap::new();
                if chunk > size {
                    free.insert(size, chunk - size);
                }
                self.chunks.insert(self.next_id, Chunk { size: chunk, free });
                self.reserved += chunk;
                (self.next_id, 0, Some(chunk))
            }
        };
        self.allocated += size;
        self.peak = self.peak.max(self.allocated);
        Ok((Slice { buffer, offset, size }, made))
    }

    /// Takes a slice back.
    pub fn free(&mut self, slice: Slice) {
        let Some(chunk) = self.chunks.get_mut(&slice.buffer) else { return };
        self.allocated -= slice.size;
        let (mut start, mut len) = (slice.offset, slice.size);
        if let Some((&before, &n)) = chunk.free.range(..start).next_back()
            && before + n == start
        {
            chunk.free.remove(&before);
            (start, len) = (before, n + len);
        }
        if let Some(n) = chunk.free.remove(&(start + len)) {
            len += n;
        }
        chunk.free.insert(start, len);
    }

    /// Forgets the buffer of a slice, its only one, which could not be made.
    pub fn forget(&mut self, slice: Slice) {
        if let Some(chunk) = self.chunks.remove(&slice.buffer) {
            self.reserved -= chunk.size;
            self.allocated -= slice.size;
        }
    }

    /// Forgets the buffers that hold nothing and returns their ids.
    pub fn empty(&mut self) -> Vec<u32> {
        let unused: Vec<u32> =
            self.chunks.iter().filter(|(_, c)| c.free.get(&0) == Some(&c.size)).map(|(id, _)| *id).collect();
        for id in &unused {
            self.reserved -= self.chunks.remove(id).map_or(0, |c| c.size);
        }
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { max_buffer_size: 1 << 28, max_storage_buffer_binding_size: 1 << 27, ..Limits::default() }
    }

    #[test]
    fn freed_neighbours_merge_and_are_reused() {
        let mut pool = Pool::default();
        let (a, made) = pool.allocate(1, &limits()).unwrap();
        assert_eq!((a.size, made), (256, Some(FIRST_CHUNK)));
        let (b, made) = pool.allocate(300, &limits()).unwrap();
        assert_eq!((b.buffer, b.offset, b.size, made), (a.buffer, 256, 512, None));
        let (c, _) = pool.allocate(256, &limits()).unwrap();
        assert_eq!(c.offset, 768);
        pool.free(a);
        pool.free(b);
        let (d, _) = pool.allocate(768, &limits()).unwrap();
        assert_eq!(d.offset, 0);
        assert_eq!((pool.allocated, pool.peak), (1024, 1024));
        assert!(pool.empty().is_empty());
        pool.free(c);
        pool.free(d);
        assert_eq!(pool.empty(), [a.buffer]);
        assert_eq!((pool.allocated, pool.reserved), (0, 0));
    }

    #[test]
    fn more_than_the_adapter_binds_is_refused() {
        let error = Pool::default().allocate((1 << 27) + 1, &limits()).unwrap_err();
        assert!(error.contains("134217729"), "{error}");
    }
}
