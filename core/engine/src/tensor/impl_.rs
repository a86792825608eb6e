//! The tensor's record and its counted handle.

use crate::autograd::AutogradMeta;
use crate::dispatch::key::BACKEND_MASK;
use crate::dispatch::{DispatchKey, DispatchKeySet, tls};
use crate::dtype::Element;
use crate::ivalue::IntList;
use crate::tensor::shape;
use crate::{DType, Device, Layout, MemoryFormat, Result, Storage, check};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// How the engine keeps a host object alive while it holds its tensor: called when the count of handles rises above
/// the wrapper's own, and when it falls back to it.
pub struct PyObjectHooks {
    pub incref: fn(*mut c_void),
    pub decref: fn(*mut c_void),
}

static HOOKS: OnceLock<PyObjectHooks> = OnceLock::new();

/// Installs the host's reference counting; the first caller wins.
pub fn set_pyobject_hooks(hooks: PyObjectHooks) {
    let _ = HOOKS.set(hooks);
}

/// The host's reference counting, once installed.
#[inline]
pub fn pyobject_hooks() -> Option<&'static PyObjectHooks> {
    HOOKS.get()
}

/// The record behind a tensor. Fields that change after construction change under the host's lock only.
pub struct TensorImpl {
    refcount: AtomicUsize,
    fields: UnsafeCell<Fields>,
}

struct Fields {
    storage: Storage,
    sizes: IntList,
    strides: IntList,
    storage_offset: i64,
    numel: i64,
    dtype: DType,
    device: Device,
    layout: Layout,
    key_set: DispatchKeySet,
    contiguous: bool,
    non_overlapping_and_dense: bool,
    wrapped_number: bool,
    allow_metadata_change: bool,
    /// The host says where the tensor is; kernels see it on the meta device.
    host_device: bool,
    host: HostPolicy,
    version: OnceLock<Arc<AtomicU32>>,
    view_base: Option<Tensor>,
    autograd: Option<Box<AutogradMeta>>,
    pyobj: *mut c_void,
}

/// What of a tensor's metadata the host's overrides answer (`dispatch_sizes_strides_policy` and kin).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HostPolicy {
    pub sizes: bool,
    pub strides: bool,
    pub device: bool,
    pub layout: bool,
    /// Reading the address of the data is an error.
    pub throws_on_data_ptr: bool,
}

/// A tensor. Cloning shares it; it is the same tensor, as a second Python name is.
#[repr(transparent)]
pub struct Tensor(NonNull<TensorImpl>);

// SAFETY: the count is atomic; other changes happen under the host's lock (the GIL), kernels work on raw data.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Clone for Tensor {
    #[inline]
    fn clone(&self) -> Self {
        let before = self.imp().refcount.fetch_add(1, Ordering::Relaxed);
        if before == 1 {
            let p = self.f().pyobj;
            if !p.is_null()
                && let Some(h) = HOOKS.get()
            {
                (h.incref)(p);
            }
        }
        Tensor(self.0)
    }
}

impl Drop for Tensor {
    #[inline]
    fn drop(&mut self) {
        let pyobj = self.f().pyobj;
        let before = self.imp().refcount.fetch_sub(1, Ordering::AcqRel);
        if before == 1 {
            // SAFETY: the last handle; the record was made by Box.
            unsafe { drop(Box::from_raw(self.0.as_ptr())) }
        } else if before == 2
            && !pyobj.is_null()
            && let Some(h) = HOOKS.get()
        {
            // Only the wrapper's own handle is left: it may die with its last host reference.
            (h.decref)(pyobj);
        }
    }
}

impl Tensor {
    #[inline]
    fn imp(&self) -> &TensorImpl {
        // SAFETY: the handle keeps the record alive.
        unsafe { self.0.as_ref() }
    }
    #[inline]
    fn f(&self) -> &Fields {
        // SAFETY: see TensorImpl: no exclusive reference outlives a single setter.
        unsafe { &*self.imp().fields.get() }
    }
    #[allow(clippy::mut_from_ref, reason = "setters below use it for one statement, under the host's lock")]
    #[inline]
    fn f_mut(&self) -> &mut Fields {
        // SAFETY: as above.
        unsafe { &mut *self.imp().fields.get() }
    }

    /// A tensor over a storage. `key_set` is derived from device and layout.
    pub fn from_storage(
        storage: Storage,
        dtype: DType,
        sizes: IntList,
        strides: IntList,
        storage_offset: i64,
    ) -> Tensor {
        let device = storage.device();
        let key_set = default_key_set(device);
        Self::from_parts(storage, dtype, sizes, strides, storage_offset, key_set)
    }

    /// A tensor over a storage with a given key set (an alias of another tensor).
    pub fn from_parts(
        storage: Storage,
        dtype: DType,
        sizes: IntList,
        strides: IntList,
        storage_offset: i64,
        key_set: DispatchKeySet,
    ) -> Tensor {
        let device = storage.device();
        let numel = sizes.iter().product();
        let contiguous = shape::is_contiguous(&sizes, &strides);
        let dense = contiguous || shape::is_non_overlapping_and_dense(&sizes, &strides);
        let fields = Fields {
            storage,
            sizes,
            strides,
            storage_offset,
            numel,
            dtype,
            device,
            layout: Layout::Strided,
            key_set,
            contiguous,
            non_overlapping_and_dense: dense,
            wrapped_number: false,
            allow_metadata_change: true,
            host_device: false,
            host: HostPolicy::default(),
            version: OnceLock::new(),
            view_base: None,
            autograd: None,
            pyobj: std::ptr::null_mut(),
        };
        let record = Box::new(TensorImpl { refcount: AtomicUsize::new(1), fields: UnsafeCell::new(fields) });
        Tensor(NonNull::from(Box::leak(record)))
    }

    /// An alias of this tensor's storage with other geometry: same key set less the Python keys.
    pub fn alias_with(&self, sizes: IntList, strides: IntList, storage_offset: i64) -> Tensor {
        let f = self.f();
        let mut ks = f.key_set.minus(DispatchKeySet::PYTHON);
        if f.host_device {
            // The alias is where the storage is.
            let backend = DispatchKeySet(1 << DispatchKey::backend_of(f.storage.device().ty));
            ks = DispatchKeySet(ks.0 & !BACKEND_MASK) | backend;
        }
        let t = Self::from_parts(f.storage.clone(), f.dtype, sizes, strides, storage_offset, ks);
        t.f_mut().layout = f.layout;
        t
    }

    /// Gives up the handle without releasing it; undone by `from_raw`.
    pub fn into_raw(self) -> *mut TensorImpl {
        let p = self.0.as_ptr();
        std::mem::forget(self);
        p
    }
    /// # Safety
    /// `p` comes from `into_raw` and is taken back once.
    pub unsafe fn from_raw(p: *mut TensorImpl) -> Tensor {
        Tensor(unsafe { NonNull::new_unchecked(p) })
    }
    /// Borrows a handle from the address of a slot that stores `into_raw`'s pointer, without touching the count.
    ///
    /// # Safety
    /// The slot holds a live record for as long as the result is used.
    pub unsafe fn borrow_raw(slot: &*mut TensorImpl) -> &Tensor {
        // Tensor is a transparent NonNull in layout: same size and bit pattern as the pointer.
        unsafe { &*(slot as *const *mut TensorImpl as *const Tensor) }
    }

    /// Whether two handles are the same tensor.
    pub fn is_same(&self, other: &Tensor) -> bool {
        self.0 == other.0
    }
    /// An address that identifies the tensor.
    pub fn id(&self) -> usize {
        self.0.as_ptr() as usize
    }
    pub fn use_count(&self) -> usize {
        self.imp().refcount.load(Ordering::Relaxed)
    }

    pub fn dtype(&self) -> DType {
        self.f().dtype
    }
    #[inline]
    pub fn device(&self) -> Device {
        let f = self.f();
        if f.host_device && tls::meta_included() { Device::META } else { f.device }
    }
    pub fn layout(&self) -> Layout {
        self.f().layout
    }
    pub fn sizes(&self) -> &[i64] {
        &self.f().sizes
    }
    pub fn strides(&self) -> &[i64] {
        &self.f().strides
    }
    pub fn storage_offset(&self) -> i64 {
        self.f().storage_offset
    }
    pub fn dim(&self) -> usize {
        self.f().sizes.len()
    }
    pub fn numel(&self) -> i64 {
        self.f().numel
    }
    pub fn itemsize(&self) -> usize {
        self.dtype().itemsize()
    }
    pub fn storage(&self) -> &Storage {
        &self.f().storage
    }
    pub fn is_meta(&self) -> bool {
        self.device().is_meta()
    }
    pub fn is_cpu(&self) -> bool {
        self.device().is_cpu()
    }
    /// Row-major contiguous.
    pub fn is_contiguous(&self) -> bool {
        self.f().contiguous
    }
    pub fn is_contiguous_format(&self, m: MemoryFormat) -> bool {
        let f = self.f();
        match m {
            MemoryFormat::ChannelsLast => shape::is_channels_last_contiguous(&f.sizes, &f.strides, 4),
            MemoryFormat::ChannelsLast3d => shape::is_channels_last_contiguous(&f.sizes, &f.strides, 5),
            _ => f.contiguous,
        }
    }
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        self.f().non_overlapping_and_dense
    }
    /// `suggest_memory_format`: channels-last when the strides say so, else contiguous.
    pub fn suggest_memory_format(&self) -> MemoryFormat {
        let f = self.f();
        if shape::is_channels_last_strides(&f.sizes, &f.strides, 4) {
            MemoryFormat::ChannelsLast
        } else if shape::is_channels_last_strides(&f.sizes, &f.strides, 5) {
            MemoryFormat::ChannelsLast3d
        } else {
            MemoryFormat::Contiguous
        }
    }
    /// The address of the first element; null for meta and empty tensors.
    pub fn data_ptr(&self) -> *mut u8 {
        let f = self.f();
        let base = f.storage.data_ptr();
        if base.is_null() {
            base
        } else {
            base.wrapping_offset(f.storage_offset as isize * f.dtype.itemsize() as isize)
        }
    }
    /// The elements of a contiguous CPU tensor.
    ///
    /// # Safety
    /// Contiguous, on the CPU, of type `T`; nobody writes while the slice is used.
    pub unsafe fn as_slice<T: Element>(&self) -> &[T] {
        debug_assert!(self.is_contiguous() && self.is_cpu() && T::DTYPE == self.dtype());
        let n = self.numel() as usize;
        if n == 0 {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(self.data_ptr() as *const T, n) }
    }
    /// The elements of a contiguous CPU tensor, for writing.
    ///
    /// # Safety
    /// As `as_slice`, and nobody else reads.
    #[allow(clippy::mut_from_ref, reason = "a tensor's bytes are shared by design")]
    pub unsafe fn as_mut_slice<T: Element>(&self) -> &mut [T] {
        debug_assert!(self.is_contiguous() && self.is_cpu() && T::DTYPE == self.dtype());
        let n = self.numel() as usize;
        if n == 0 {
            return &mut [];
        }
        unsafe { std::slice::from_raw_parts_mut(self.data_ptr() as *mut T, n) }
    }
    /// Size of a dimension; negative counts from the end.
    ///
    /// # Errors
    /// IndexError out of range.
    pub fn size(&self, dim: i64) -> Result<i64> {
        let d = shape::wrap_dim(dim, self.dim())?;
        check!(self.dim() > 0, Index; "dimension specified as {dim} but tensor has no dimensions");
        Ok(self.sizes()[d])
    }

    pub fn key_set(&self) -> DispatchKeySet {
        self.f().key_set
    }
    pub fn set_key_set(&self, ks: DispatchKeySet) {
        self.f_mut().key_set = ks;
    }
    pub fn set_key(&self, k: DispatchKey, on: bool) {
        let ks = self.key_set();
        self.set_key_set(if on { ks.add(k) } else { ks.remove(k) });
    }
    pub fn is_conj(&self) -> bool {
        self.f().key_set.has_functionality(DispatchKey::Conjugate)
    }
    pub fn is_neg(&self) -> bool {
        self.f().key_set.has_functionality(DispatchKey::Negative)
    }
    /// An inference tensor: made in inference mode, without autograd keys.
    pub fn is_inference(&self) -> bool {
        !self.f().key_set.intersects(DispatchKeySet::AUTOGRAD)
            && !self.f().key_set.has_functionality(DispatchKey::ADInplaceOrView)
    }
    pub fn is_wrapped_number(&self) -> bool {
        self.f().wrapped_number
    }
    pub fn set_wrapped_number(&self, on: bool) {
        self.f_mut().wrapped_number = on;
    }
    /// Whether `set_data`-like changes through `.data` or `detach()` results are forbidden.
    pub fn allow_metadata_change(&self) -> bool {
        self.f().allow_metadata_change
    }
    pub fn set_allow_metadata_change(&self, on: bool) {
        self.f_mut().allow_metadata_change = on;
    }

    /// Whether a kernel of the tensor's backend would find no data: the host was to handle its operators.
    pub fn lacks_data(&self) -> bool {
        let f = self.f();
        f.storage.lacks_data() || (f.host_device && f.numel > 0 && !tls::meta_included())
    }
    pub fn host_policy(&self) -> HostPolicy {
        self.f().host
    }
    pub fn set_host_policy(&self, host: HostPolicy) {
        self.f_mut().host = host;
    }
    /// Puts the tensor on a device its storage is not on, because the host handles its operators: the backend of its
    /// keys becomes the device's. Kernels that run for the host on the meta device see it there.
    pub fn set_host_device(&self, device: Device) {
        let f = self.f_mut();
        f.host_device = f.storage.device().is_meta();
        f.device = device;
        let backend = DispatchKeySet(1 << DispatchKey::backend_of(device.ty));
        f.key_set = DispatchKeySet(f.key_set.0 & !BACKEND_MASK) | backend;
    }
    pub fn set_layout(&self, layout: Layout) {
        self.f_mut().layout = layout;
    }

    /// Replaces the geometry.
    pub fn set_geometry(&self, sizes: IntList, strides: IntList, storage_offset: i64) {
        let f = self.f_mut();
        f.numel = sizes.iter().product();
        f.contiguous = shape::is_contiguous(&sizes, &strides);
        f.non_overlapping_and_dense = f.contiguous || shape::is_non_overlapping_and_dense(&sizes, &strides);
        f.sizes = sizes;
        f.strides = strides;
        f.storage_offset = storage_offset;
    }
    pub fn set_sizes_contiguous(&self, sizes: &[i64]) {
        let strides = shape::contiguous_strides(sizes);
        let offset = self.storage_offset();
        self.set_geometry(IntList::from_slice(sizes), strides, offset);
    }
    pub fn set_storage(&self, storage: Storage) {
        self.f_mut().storage = storage;
    }
    pub fn set_dtype(&self, dtype: DType) {
        self.f_mut().dtype = dtype;
    }
    /// Takes over another tensor's storage, dtype, geometry and device (`shallow_copy_from`); identity, version and
    /// autograd state stay.
    pub fn shallow_copy_from(&self, other: &Tensor) {
        let o = other.f();
        let (storage, sizes, strides) = (o.storage.clone(), o.sizes.clone(), o.strides.clone());
        let (offset, dtype, device, layout, ks) = (o.storage_offset, o.dtype, o.device, o.layout, o.key_set);
        let (host_device, host) = (o.host_device, o.host);
        let f = self.f_mut();
        let python = f.key_set & DispatchKeySet::PYTHON;
        f.storage = storage;
        f.dtype = dtype;
        f.device = device;
        f.layout = layout;
        (f.host_device, f.host) = (host_device, host);
        f.key_set = ks.minus(DispatchKeySet::PYTHON) | python;
        self.set_geometry(sizes, strides, offset);
    }

    fn version_cell(&self) -> &Arc<AtomicU32> {
        self.f().version.get_or_init(|| Arc::new(AtomicU32::new(0)))
    }
    /// The version counter: how often the data was written in place.
    pub fn version(&self) -> u32 {
        self.f().version.get().map_or(0, |v| v.load(Ordering::Relaxed))
    }
    pub fn bump_version(&self) {
        if !self.is_inference() {
            self.version_cell().fetch_add(1, Ordering::Relaxed);
        }
    }
    pub fn set_version(&self, v: u32) {
        self.version_cell().store(v, Ordering::Relaxed);
    }
    /// Shares another tensor's version counter, as views do.
    pub fn share_version(&self, other: &Tensor) {
        let cell = other.version_cell().clone();
        self.f_mut().version = OnceLock::from(cell);
    }

    /// `torch.FloatTensor`: the legacy name of the tensor's type.
    pub fn type_string(&self) -> String {
        let name = self.dtype().scalar_type_name();
        if self.is_cpu() {
            format!("torch.{name}Tensor")
        } else {
            format!("torch.{}.{name}Tensor", self.device().ty.name())
        }
    }

    /// The tensor this one is a view of.
    pub fn view_base(&self) -> Option<&Tensor> {
        self.f().view_base.as_ref()
    }
    pub fn set_view_base(&self, base: Option<Tensor>) {
        let old = std::mem::replace(&mut self.f_mut().view_base, base);
        drop(old);
    }

    pub fn autograd_meta(&self) -> Option<&AutogradMeta> {
        self.f().autograd.as_deref()
    }
    /// The autograd record, made when absent.
    #[allow(clippy::mut_from_ref, reason = "changed under the host's lock")]
    pub fn autograd_meta_mut(&self) -> &mut AutogradMeta {
        self.f_mut().autograd.get_or_insert_with(Default::default)
    }
    /// The autograd record when there is one, to be changed.
    #[allow(clippy::mut_from_ref, reason = "changed under the host's lock")]
    pub fn autograd_meta_if_any(&self) -> Option<&mut AutogradMeta> {
        self.f_mut().autograd.as_deref_mut()
    }
    pub fn clear_autograd_meta(&self) {
        let old = self.f_mut().autograd.take();
        drop(old);
    }
    pub fn requires_grad(&self) -> bool {
        let f = self.f();
        f.autograd.as_ref().is_some_and(|a| a.requires_grad_leaf || a.grad_fn.is_some())
            || f.view_base.as_ref().is_some_and(Tensor::requires_grad)
    }

    pub fn pyobj(&self) -> *mut c_void {
        self.f().pyobj
    }
    /// Ties a host object to this tensor. When other handles exist already the caller accounts for the extra
    /// reference by `PyObjectHooks::incref`.
    pub fn set_pyobj(&self, p: *mut c_void) {
        self.f_mut().pyobj = p;
    }
}

/// The key set of a plain tensor on a device: backend, Dense, autograd and view tracking (unless in inference mode).
pub fn default_key_set(device: Device) -> DispatchKeySet {
    let dense = DispatchKeySet::of(DispatchKey::for_device(device.ty));
    if tls::inference_mode() { dense } else { dense | DispatchKeySet::AUTOGRAD_DENSE }
}

impl DispatchKeySet {
    /// What every plain tensor has beside its backend key.
    pub const AUTOGRAD_DENSE: DispatchKeySet =
        DispatchKeySet::bits(&[DispatchKey::AutogradFunctionality, DispatchKey::ADInplaceOrView]);
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Tensor({:?}, {:?}, strides {:?}, {})",
            self.dtype(),
            self.sizes(),
            self.strides(),
            self.device()
        )
    }
}
