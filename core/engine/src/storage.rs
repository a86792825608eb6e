//! Untyped storage: bytes shared by reference between tensors.

use crate::{Device, Result, bail};
use std::alloc::{Layout, alloc, dealloc};
use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Alignment of every allocation, as upstream's CPU allocator has it.
pub const ALIGNMENT: usize = 64;

/// Who frees the bytes.
enum Owner {
    /// Nobody: a meta storage, or an empty one.
    None,
    /// The global allocator, with this many bytes.
    Heap(usize),
    /// A foreign object (NumPy array, mapped file, DLPack capsule) that is dropped with the storage.
    Foreign(#[allow(dead_code, reason = "kept for its Drop")] Box<dyn Any + Send>),
}

struct Bytes {
    data: *mut u8,
    nbytes: usize,
    owner: Owner,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Owner::Heap(n) = self.owner
            && n > 0
        {
            // SAFETY: allocated by `allocate` with the same layout.
            unsafe { dealloc(self.data, Layout::from_size_align_unchecked(n, ALIGNMENT)) }
        }
    }
}

/// The shared part of a storage.
pub struct StorageImpl {
    bytes: UnsafeCell<Bytes>,
    device: Device,
    resizable: bool,
    /// The host language's wrapper, when there is one (borrowed; the wrapper clears it when it dies).
    pub pyobj: AtomicPtr<c_void>,
}

// SAFETY: the bytes are plain data; exclusive changes of the header happen under the host's lock (the GIL).
unsafe impl Send for StorageImpl {}
unsafe impl Sync for StorageImpl {}

/// A reference to shared bytes on a device.
#[derive(Clone)]
pub struct Storage(Arc<StorageImpl>);

fn allocate(nbytes: usize) -> Result<*mut u8> {
    if nbytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    let layout = match Layout::from_size_align(nbytes, ALIGNMENT) {
        Ok(l) => l,
        Err(_) => bail!(Memory, "cannot allocate {nbytes} bytes"),
    };
    // SAFETY: the size is not zero.
    let p = unsafe { alloc(layout) };
    if p.is_null() {
        bail!(
            Runtime,
            "[enforce fail at alloc_cpu.cpp] data. DefaultCPUAllocator: not enough memory: you tried to allocate {nbytes} bytes."
        );
    }
    Ok(p)
}

impl Storage {
    /// Allocates uninitialised bytes on the CPU, or none on the meta device.
    ///
    /// # Errors
    /// When memory is exhausted, or the device has no allocator here.
    pub fn new(nbytes: usize, device: Device) -> Result<Storage> {
        let bytes = if device.is_cpu() {
            Bytes { data: allocate(nbytes)?, nbytes, owner: Owner::Heap(nbytes) }
        } else if device.is_meta() {
            Bytes { data: std::ptr::null_mut(), nbytes, owner: Owner::None }
        } else {
            bail!(NotImplemented, "allocating memory on device '{device}' is not implemented")
        };
        Ok(Self::from_bytes(bytes, device, true))
    }
    /// Wraps memory that `owner` keeps alive. Not resizable.
    ///
    /// # Safety
    /// `data` points to `nbytes` valid bytes as long as `owner` lives.
    pub unsafe fn from_foreign(data: *mut u8, nbytes: usize, owner: Box<dyn Any + Send>) -> Storage {
        Self::from_bytes(Bytes { data, nbytes, owner: Owner::Foreign(owner) }, Device::CPU, false)
    }
    fn from_bytes(bytes: Bytes, device: Device, resizable: bool) -> Storage {
        Storage(Arc::new(StorageImpl {
            bytes: UnsafeCell::new(bytes),
            device,
            resizable,
            pyobj: AtomicPtr::new(std::ptr::null_mut()),
        }))
    }
    fn bytes(&self) -> &Bytes {
        // SAFETY: changed only by `resize` and `swap`, under the host's lock, while no reference is held across.
        unsafe { &*self.0.bytes.get() }
    }
    pub fn data_ptr(&self) -> *mut u8 {
        self.bytes().data
    }
    pub fn nbytes(&self) -> usize {
        self.bytes().nbytes
    }
    pub fn device(&self) -> Device {
        self.0.device
    }
    pub fn resizable(&self) -> bool {
        self.0.resizable
    }
    /// Number of handles: tensors and wrappers.
    pub fn use_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
    /// Whether two handles share the same bytes.
    pub fn ptr_eq(&self, other: &Storage) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// An address that identifies the shared part.
    pub fn cdata(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    pub fn pyobj(&self) -> &AtomicPtr<c_void> {
        &self.0.pyobj
    }
    /// The wrapper slot's present value.
    pub fn pyobj_ptr(&self) -> *mut c_void {
        self.0.pyobj.load(Ordering::Relaxed)
    }
    /// Changes the size, keeping the common prefix.
    ///
    /// # Errors
    /// When the memory is borrowed from elsewhere, or exhausted.
    pub fn resize(&self, nbytes: usize) -> Result<()> {
        if !self.0.resizable {
            bail!(Runtime, "Trying to resize storage that is not resizable");
        }
        let new = Storage::new(nbytes, self.0.device)?;
        let n = self.nbytes().min(nbytes);
        if n > 0 && !self.data_ptr().is_null() && !new.data_ptr().is_null() {
            // SAFETY: both regions hold at least `n` bytes and are distinct allocations.
            unsafe { std::ptr::copy_nonoverlapping(self.data_ptr(), new.data_ptr(), n) }
        }
        self.swap(&new);
        Ok(())
    }
    /// Exchanges the bytes of two storages on the same device.
    pub fn swap(&self, other: &Storage) {
        if !self.ptr_eq(other) {
            // SAFETY: distinct cells, exclusive under the host's lock.
            unsafe { std::ptr::swap(self.0.bytes.get(), other.0.bytes.get()) }
        }
    }
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Storage({} bytes on {})", self.nbytes(), self.device())
    }
}
