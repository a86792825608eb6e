//! The device as the engine sees it: memory, copies, and the one recorder behind them, opened on first use.

use crate::program::{Program, Queue, Slice};
use crate::recorder::{Download, Recorder, Sink, is_out_of_memory};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use torchnative_engine::storage::device::{Allocation, Memory};
use torchnative_engine::{DType, Device, Error, ErrorKind, Result, Tensor, bail, check};

/// Opens the executor; gives the reason when there is none.
pub type Open = fn() -> std::result::Result<Box<dyn Sink>, String>;

static OPEN: OnceLock<Open> = OnceLock::new();
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

/// How often the device was given up; memory of an earlier time is lost.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Memory of the device; frees itself.
pub struct Block {
    slice: Slice,
    nbytes: u64,
    generation: u64,
}

impl Block {
    /// The slice, unless the device was opened anew since.
    fn slice(&self) -> Result<Slice> {
        check!(
            self.generation == GENERATION.load(Relaxed),
            "webgpu: the tensor's memory was lost when the device was reset"
        );
        Ok(self.slice)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let (Some(recorder), Ok(slice)) = (&mut *lock(), self.slice()) {
            recorder.free(slice);
        }
    }
}

fn lock() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` with the recorder, opening the device when it is not open.
///
/// # Errors
/// The reason why there is no device, and what `f` reports, as RuntimeError.
pub fn with<T>(f: impl FnOnce(&mut Recorder) -> std::result::Result<T, String>) -> Result<T> {
    let mut guard = lock();
    if guard.is_none() {
        let open = OPEN.get().ok_or_else(|| Error::runtime("this build has no webgpu executor"))?;
        // The executor may suspend the thread while it opens: nobody else may wait for the lock then.
        *guard = Some(Recorder::new(open().map_err(|e| Error::runtime(format!("webgpu: {e}")))?));
    }
    let recorder = guard.as_mut().expect("opened above");
    f(recorder).map_err(|e| {
        let kind = if is_out_of_memory(&e) { ErrorKind::OutOfMemory } else { ErrorKind::Runtime };
        Error::new(kind, format!("webgpu: {e}"))
    })
}

/// Waits for bytes of the device, which `begin` begins to read. Other work may be recorded meanwhile.
///
/// # Errors
/// Those of the recorder: the device is lost, earlier work failed, an index was out of range.
fn wait(
    begin: impl FnOnce(&mut Recorder) -> std::result::Result<Download, String>,
    into: &mut [u8],
) -> Result<()> {
    finish(with(begin)?, into)
}

/// Waits for a read that was begun.
///
/// # Errors
/// Those of the recorder.
pub fn finish(download: Download, into: &mut [u8]) -> Result<()> {
    let got = download.wait();
    with(|r| r.finish(got, into))
}

/// Gives the device up with all that its tensors hold. The next use opens it anew.
pub fn reset() {
    let mut guard = lock();
    GENERATION.fetch_add(1, Relaxed);
    *guard = None;
}

/// Waits until the device has done all its work.
///
/// # Errors
/// Those of the recorder.
pub fn synchronize() -> Result<()> {
    wait(Recorder::synchronize, &mut [])
}

/// What `f` reads from the recorder; nothing when the device was not used yet.
pub fn peek<T>(f: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    lock().as_mut().map(f)
}

/// Makes the device known to the engine and registers its kernels; opens nothing.
///
/// # Errors
/// When another device took the place.
pub fn install(open: Open) -> Result<()> {
    torchnative_engine::storage::device::register(&WebGpu)?;
    OPEN.get_or_init(|| open);
    crate::ops::register();
    Ok(())
}

/// The slice that holds a tensor's storage.
///
/// # Errors
/// NotImplementedError for a tensor that is not on the device.
pub fn slice(t: &Tensor) -> Result<Slice> {
    match t.storage().allocation().and_then(|a| a.downcast_ref::<Block>()) {
        Some(block) => block.slice(),
        None => bail!(NotImplemented, "a kernel of device 'webgpu' was given a tensor on '{}'", t.device()),
    }
}

/// As `slice`; for a tensor without elements some memory that a kernel may bind and will not read.
///
/// # Errors
/// As `slice`, and those of the recorder.
pub fn slice_or_spare(t: &Tensor) -> Result<Slice> {
    if t.storage().size() == 0 { with(|r| r.scratch(4)) } else { slice(t) }
}

/// Records one dispatch.
///
/// # Errors
/// Those of the recorder.
pub fn dispatch(program: &Program, bindings: &[Slice], params: &[u32], groups: [u32; 3]) -> Result<()> {
    with(|r| r.dispatch(program, bindings, params, groups))
}

struct WebGpu;

fn block(a: &Allocation) -> Result<&Block> {
    match a.downcast_ref() {
        Some(b) => Ok(b),
        None => bail!(Internal, "memory of another device"),
    }
}

impl Memory for WebGpu {
    fn check_dtype(&self, dtype: DType) -> Result<()> {
        if crate::ops::pointwise::Class::of(dtype).is_none() {
            bail!(
                NotImplemented,
                "aten::empty.memory_format is not implemented for device 'webgpu' with dtype {}",
                dtype.torch_name()
            );
        }
        Ok(())
    }
    fn allocate(&self, nbytes: u64, device: Device) -> Result<Allocation> {
        if device.index > 0 {
            bail!(Runtime, "webgpu: there is one device, but got index {}", device.index);
        }
        let slice = with(|r| r.allocate(nbytes))?;
        Ok(Box::new(Block { slice, nbytes, generation: GENERATION.load(Relaxed) }))
    }
    fn upload(&self, to: &Allocation, offset: u64, bytes: &[u8]) -> Result<()> {
        let to = block(to)?;
        let slice = to.slice()?;
        let Some((first, len)) = with(|r| Ok(r.around(to.nbytes, offset, bytes.len())))? else {
            return with(|r| r.upload(slice, to.nbytes, offset, bytes));
        };
        // Bytes beside these in their words are kept.
        let mut words = vec![0; len];
        wait(|r| r.download(slice, first, len), &mut words)?;
        let lead = (offset - first) as usize;
        words[lead..lead + bytes.len()].copy_from_slice(bytes);
        with(|r| r.upload(slice, to.nbytes, first, &words))
    }
    fn download(&self, from: &Allocation, offset: u64, into: &mut [u8]) -> Result<()> {
        let slice = block(from)?.slice()?;
        let len = into.len();
        wait(|r| r.download(slice, offset, len), into)
    }
    fn copy(&self, from: &Allocation, at: u64, to: &Allocation, to_at: u64, nbytes: u64) -> Result<()> {
        let (from, to) = (block(from)?, block(to)?);
        // Storages are copied from their start when they are resized; the padding may be copied along.
        if at != 0 || to_at != 0 {
            bail!(NotImplemented, "copying a part of a storage is not implemented for device 'webgpu'");
        }
        let size = nbytes.next_multiple_of(4);
        let (from, to) = (from.slice()?, to.slice()?);
        with(|r| r.copy(Slice { size, ..from }, Slice { size, ..to }))
    }
    fn convert(&self, dst: &Tensor, src: &Tensor) -> Result<()> {
        crate::ops::pointwise::convert(dst, src)
    }
    fn synchronize(&self) -> Result<()> {
        synchronize()
    }
}
