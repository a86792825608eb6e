//! Memory of devices that are built outside the engine: an implementation of [`Memory`] makes, fills and reads it, and the
//! engine never looks at it through a pointer.

use super::Storage;
use crate::{DType, Device, Result, Tensor, bail, check};
use std::any::Any;
use std::sync::OnceLock;

/// What the engine asks of the device behind the PrivateUse1 key. Ranges are in bytes and lie within the allocations.
/// Calls take effect in order, after the device's earlier work.
pub trait Memory: Send + Sync {
    /// Refuses dtypes that the device cannot hold.
    ///
    /// # Errors
    /// NotImplementedError or TypeError naming the dtype.
    fn check_dtype(&self, dtype: DType) -> Result<()>;
    /// Uninitialised memory of `nbytes` (more than zero); dropping it frees it.
    ///
    /// # Errors
    /// When memory is exhausted, the request passes the device's limits, or there is no such device.
    fn allocate(&self, nbytes: u64, device: Device) -> Result<Allocation>;
    /// Copies bytes of the host to `to`; they are read before the call returns.
    ///
    /// # Errors
    /// When the device is lost.
    fn upload(&self, to: &Allocation, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Waits for the work so far and copies bytes to the host.
    ///
    /// # Errors
    /// When the device is lost, or earlier work failed.
    fn download(&self, from: &Allocation, offset: u64, into: &mut [u8]) -> Result<()>;
    /// Copies between two allocations that are not the same.
    ///
    /// # Errors
    /// When the device is lost.
    fn copy(
        &self,
        from: &Allocation,
        from_offset: u64,
        to: &Allocation,
        to_offset: u64,
        nbytes: u64,
    ) -> Result<()>;
    /// Writes the elements of `src`, broadcast and converted, into `dst`; both are on the device and may be strided.
    ///
    /// # Errors
    /// NotImplementedError for dtypes without a conversion.
    fn convert(&self, dst: &Tensor, src: &Tensor) -> Result<()>;
    /// Waits until the device has done all its work.
    ///
    /// # Errors
    /// When the device is lost, or earlier work failed.
    fn synchronize(&self) -> Result<()>;
}

/// One allocation of a device.
pub type Allocation = Box<dyn Any + Send>;

static MEMORY: OnceLock<&'static dyn Memory> = OnceLock::new();

/// Names the device behind the PrivateUse1 key.
///
/// # Errors
/// When there is one already.
pub fn register(memory: &'static dyn Memory) -> Result<()> {
    check!(MEMORY.set(memory).is_ok(), "a device is already registered for PrivateUse1");
    Ok(())
}

/// The memory of `device`.
///
/// # Errors
/// NotImplementedError for a device without one.
pub fn of(device: Device) -> Result<&'static dyn Memory> {
    match MEMORY.get() {
        Some(m) if device.ty == crate::DeviceType::PrivateUse1 => Ok(*m),
        _ => bail!(NotImplemented, "allocating memory on device '{device}' is not implemented"),
    }
}

/// Refuses a range that passes the storage's end.
fn within(storage: &Storage, offset: u64, nbytes: u64) -> Result<()> {
    let end = offset.checked_add(nbytes);
    check!(
        end.is_some_and(|end| end <= storage.size()),
        "{nbytes} bytes at {offset} are out of bounds for storage of {} bytes",
        storage.size()
    );
    Ok(())
}

fn allocation(storage: &Storage) -> Result<&Allocation> {
    match storage.allocation() {
        Some(a) => Ok(a),
        None => bail!(Internal, "{storage:?} is not memory of a device"),
    }
}

/// Copies bytes of the host into a storage of a device.
///
/// # Errors
/// A range out of bounds, and the device's own.
pub fn upload(to: &Storage, offset: u64, bytes: &[u8]) -> Result<()> {
    within(to, offset, bytes.len() as u64)?;
    if bytes.is_empty() {
        return Ok(());
    }
    of(to.device())?.upload(allocation(to)?, offset, bytes)
}

/// Copies bytes of a device's storage to the host.
///
/// # Errors
/// A range out of bounds, and the device's own.
pub fn download(from: &Storage, offset: u64, into: &mut [u8]) -> Result<()> {
    within(from, offset, into.len() as u64)?;
    if into.is_empty() {
        return Ok(());
    }
    of(from.device())?.download(allocation(from)?, offset, into)
}

/// Copies bytes between two storages of one device.
///
/// # Errors
/// A range out of bounds, one storage as both ends, and the device's own.
pub fn copy(from: &Storage, from_offset: u64, to: &Storage, to_offset: u64, nbytes: u64) -> Result<()> {
    within(from, from_offset, nbytes)?;
    within(to, to_offset, nbytes)?;
    if nbytes == 0 {
        return Ok(());
    }
    check!(
        !from.ptr_eq(to),
        NotImplemented;
        "copying within a storage on device '{}' is not implemented",
        from.device()
    );
    of(to.device())?.copy(allocation(from)?, from_offset, allocation(to)?, to_offset, nbytes)
}
