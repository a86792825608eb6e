//! Untyped storage: bytes shared by reference between tensors.

pub mod device;
mod mapping;

pub use mapping::{Mapping, SharedHandle};

use crate::tensor::pyobject_hooks;
use crate::{Device, Result, bail};
use std::alloc::{Layout, alloc, dealloc};
use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

/// Alignment of every allocation, as upstream's CPU allocator has it.
pub const ALIGNMENT: usize = 64;

/// Who frees the bytes.
enum Owner {
    /// Nobody: a meta storage, or an empty one.
    None,
    /// The global allocator, with this many bytes.
    Heap(usize),
    /// A foreign object (NumPy array, mapped file, DLPack capsule) that is dropped with the storage.
    Foreign(Box<dyn Any + Send>),
    /// A device, whose memory has no address here.
    Device(device::Allocation),
}

struct Bytes {
    data: *mut u8,
    /// On the meta device possibly more than the address space holds.
    nbytes: u64,
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
    resizable: AtomicBool,
    /// The host language's wrapper, when there is one. It is kept alive while there are more handles than its own; it
    /// clears the slot when it dies.
    pyobj: AtomicPtr<c_void>,
}

// SAFETY: the bytes are plain data; exclusive changes of the header happen under the host's lock (the GIL).
unsafe impl Send for StorageImpl {}
unsafe impl Sync for StorageImpl {}

/// A reference to shared bytes on a device.
pub struct Storage(Arc<StorageImpl>);

/// A reference that does not keep the bytes.
pub struct WeakStorage(Weak<StorageImpl>);

impl Clone for Storage {
    #[inline]
    fn clone(&self) -> Self {
        let other = Storage(self.0.clone());
        other.gained();
        other
    }
}

impl Drop for Storage {
    #[inline]
    fn drop(&mut self) {
        let p = self.pyobj_ptr();
        // The wrapper's own handle and this one: after this only the wrapper's is left, and it may die.
        if !p.is_null()
            && Arc::strong_count(&self.0) == 2
            && let Some(h) = pyobject_hooks()
        {
            (h.decref)(p);
        }
    }
}

impl WeakStorage {
    /// The storage, while some handle keeps it.
    pub fn upgrade(&self) -> Option<Storage> {
        let storage = Storage(self.0.upgrade()?);
        storage.gained();
        Some(storage)
    }
    /// Whether the last handle is gone.
    pub fn expired(&self) -> bool {
        self.0.strong_count() == 0
    }
    /// Gives up the reference without releasing it; undone by `from_raw`.
    pub fn into_raw(self) -> *const StorageImpl {
        self.0.into_raw()
    }
    /// # Safety
    /// `p` comes from `into_raw` and is taken back once.
    pub unsafe fn from_raw(p: *const StorageImpl) -> WeakStorage {
        WeakStorage(unsafe { Weak::from_raw(p) })
    }
}

fn allocate(nbytes: u64) -> Result<*mut u8> {
    if nbytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    let layout = usize::try_from(nbytes).ok().and_then(|n| Layout::from_size_align(n, ALIGNMENT).ok());
    let Some(layout) = layout else { bail!(Memory, "cannot allocate {nbytes} bytes") };
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

#[cold]
#[inline(never)]
fn no_address(device: Device) -> ! {
    panic!("memory on device '{device}' has no address on the CPU")
}

impl Storage {
    /// Allocates uninitialised bytes on the CPU or a registered device, or none on the meta device.
    ///
    /// # Errors
    /// When memory is exhausted, or the device has no allocator here.
    pub fn new(nbytes: u64, device: Device) -> Result<Storage> {
        // There is one CPU and one meta device: an index given for them is dropped.
        let device =
            if device.is_cpu() || device.is_meta() { Device { index: -1, ..device } } else { device };
        let bytes = if device.is_cpu() {
            Bytes { data: allocate(nbytes)?, nbytes, owner: Owner::Heap(nbytes as usize) }
        } else if device.is_meta() {
            Bytes { data: std::ptr::null_mut(), nbytes, owner: Owner::None }
        } else {
            let memory = device::of(device)?;
            let owner =
                if nbytes == 0 { Owner::None } else { Owner::Device(memory.allocate(nbytes, device)?) };
            Bytes { data: std::ptr::null_mut(), nbytes, owner }
        };
        Ok(Self::from_bytes(bytes, device, true))
    }
    /// A storage that has a size and a device but no bytes, of a tensor whose operators the host handles.
    pub fn without_data(nbytes: u64, device: Device) -> Storage {
        Self::from_bytes(Bytes { data: std::ptr::null_mut(), nbytes, owner: Owner::None }, device, false)
    }
    /// Whether there are no bytes where a kernel would expect some.
    pub fn lacks_data(&self) -> bool {
        let bytes = self.bytes();
        bytes.data.is_null()
            && bytes.nbytes > 0
            && !self.0.device.is_meta()
            && !matches!(bytes.owner, Owner::Device(_))
    }
    /// Wraps memory that `owner` keeps alive. Not resizable.
    ///
    /// # Safety
    /// `data` points to `nbytes` valid bytes as long as `owner` lives.
    pub unsafe fn from_foreign(data: *mut u8, nbytes: usize, owner: Box<dyn Any + Send>) -> Storage {
        let bytes = Bytes { data, nbytes: nbytes as u64, owner: Owner::Foreign(owner) };
        Self::from_bytes(bytes, Device::CPU, false)
    }
    /// Memory of a mapped file or of a region shared with other processes. Not resizable.
    pub fn from_mapping(mapping: Mapping) -> Storage {
        let (data, nbytes) = (mapping.data(), mapping.len());
        // SAFETY: the mapping is the owner.
        unsafe { Self::from_foreign(data, nbytes, Box::new(mapping)) }
    }
    /// A second handle exists now: the wrapper is kept alive by it.
    #[inline]
    fn gained(&self) {
        let p = self.pyobj_ptr();
        if !p.is_null()
            && Arc::strong_count(&self.0) == 2
            && let Some(h) = pyobject_hooks()
        {
            (h.incref)(p);
        }
    }
    /// Ties a host object, which holds this handle as its own, to the storage. Other handles may exist: they keep the
    /// object alive from now on.
    pub fn set_pyobj(&self, p: *mut c_void) {
        self.0.pyobj.store(p, Ordering::Relaxed);
        if !p.is_null()
            && Arc::strong_count(&self.0) > 1
            && let Some(h) = pyobject_hooks()
        {
            (h.incref)(p);
        }
    }
    /// A handle from an address that `cdata` gave, without counting it: it must not be dropped.
    ///
    /// # Safety
    /// The storage lives as long as the result is used.
    pub unsafe fn from_address(address: usize) -> Storage {
        Storage(unsafe { Arc::from_raw(address as *const StorageImpl) })
    }
    /// A reference that does not keep the storage.
    pub fn downgrade(&self) -> WeakStorage {
        WeakStorage(Arc::downgrade(&self.0))
    }
    /// The mapping behind the bytes, when they are one.
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.bytes().owner {
            Owner::Foreign(o) => o.downcast_ref(),
            _ => None,
        }
    }
    fn from_bytes(bytes: Bytes, device: Device, resizable: bool) -> Storage {
        Storage(Arc::new(StorageImpl {
            bytes: UnsafeCell::new(bytes),
            device,
            resizable: AtomicBool::new(resizable),
            pyobj: AtomicPtr::new(std::ptr::null_mut()),
        }))
    }
    fn bytes(&self) -> &Bytes {
        // SAFETY: changed only by `resize` and `swap`, under the host's lock, while no reference is held across.
        unsafe { &*self.0.bytes.get() }
    }
    /// The address of the bytes; null when there are none.
    ///
    /// # Panics
    /// When a device owns them: a kernel for the CPU must not take them for none.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        let bytes = self.bytes();
        if bytes.data.is_null() && matches!(bytes.owner, Owner::Device(_)) {
            no_address(self.0.device)
        }
        bytes.data
    }
    /// The device's memory, when a device owns the bytes.
    pub fn allocation(&self) -> Option<&device::Allocation> {
        match &self.bytes().owner {
            Owner::Device(a) => Some(a),
            _ => None,
        }
    }
    /// The bytes in memory. The size of a meta storage may not fit; `size` tells it.
    pub fn nbytes(&self) -> usize {
        usize::try_from(self.bytes().nbytes).unwrap_or(usize::MAX)
    }
    /// The size in bytes, exact on every device.
    pub fn size(&self) -> u64 {
        self.bytes().nbytes
    }
    pub fn device(&self) -> Device {
        self.0.device
    }
    pub fn resizable(&self) -> bool {
        self.0.resizable.load(Ordering::Relaxed)
    }
    /// Fixes the size: somebody else relies on the memory.
    pub fn forbid_resize(&self) {
        self.0.resizable.store(false, Ordering::Relaxed);
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
    /// The wrapper slot's present value.
    pub fn pyobj_ptr(&self) -> *mut c_void {
        self.0.pyobj.load(Ordering::Relaxed)
    }
    /// Changes the size, keeping the common prefix.
    ///
    /// # Errors
    /// When the memory is borrowed from elsewhere, or exhausted.
    pub fn resize(&self, nbytes: u64) -> Result<()> {
        if !self.resizable() || self.mapping().is_some() {
            bail!(Runtime, "Trying to resize storage that is not resizable");
        }
        let new = Storage::new(nbytes, self.0.device)?;
        let kept = self.size().min(nbytes);
        if new.allocation().is_some() {
            device::copy(self, 0, &new, 0, kept)?;
            self.swap(&new);
            return Ok(());
        }
        let n = kept as usize;
        if n > 0 && self.allocation().is_none() && !self.data_ptr().is_null() && !new.data_ptr().is_null() {
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
        write!(f, "Storage({} bytes on {})", self.size(), self.device())
    }
}
