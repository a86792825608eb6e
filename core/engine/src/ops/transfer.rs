//! Copies between the CPU and a device, and on the device, as far as they need no kernel: whole runs of bytes.

use crate::storage::device;
use crate::tensor::factory;
use crate::{Device, Result, Tensor, check};

/// Where the elements of a tensor lie in its storage: the first byte and how many bytes there are to the last.
fn extent(t: &Tensor) -> (u64, u64) {
    let size = t.itemsize() as u64;
    let span: i64 = t.sizes().iter().zip(t.strides()).map(|(n, s)| (n - 1) * s).sum();
    (t.storage_offset() as u64 * size, (span as u64 + 1) * size)
}

/// The same elements in the same layout on the CPU.
fn to_host(t: &Tensor) -> Result<Tensor> {
    let (start, len) = extent(t);
    let bytes = crate::Storage::new(len, Device::CPU)?;
    // SAFETY: fresh memory of that length, not shared yet.
    let into = unsafe { std::slice::from_raw_parts_mut(bytes.data_ptr(), bytes.nbytes()) };
    device::download(t.storage(), start, into)?;
    Ok(Tensor::from_storage(bytes, t.dtype(), t.sizes().into(), t.strides().into(), 0))
}

/// `copy_into` where one side at least is on a device; shapes are known to broadcast.
///
/// # Errors
/// NotImplementedError for copies between two devices, of lazily conjugated or negated tensors, and for what the device's
/// own kernel refuses.
pub(crate) fn copy(dst: &Tensor, src: &Tensor) -> Result<()> {
    for t in [dst, src] {
        check!(
            !t.is_conj() && !t.is_neg(),
            NotImplemented;
            "aten::copy_ of a conjugated or negated view is not implemented for device '{}'",
            t.device()
        );
    }
    if dst.is_cpu() {
        return super::copy::copy_into(dst, &to_host(src)?);
    }
    if src.is_cpu() {
        let host = factory::empty(dst.sizes(), dst.dtype(), Device::CPU)?;
        super::copy::copy_into(&host, src)?;
        let staged = if dst.is_contiguous() {
            dst.clone()
        } else {
            factory::empty(dst.sizes(), dst.dtype(), dst.device())?
        };
        let (start, len) = extent(&staged);
        // SAFETY: contiguous, of `len` bytes (the staged tensor's layout), and not shared.
        let bytes = unsafe { std::slice::from_raw_parts(host.data_ptr(), len as usize) };
        device::upload(staged.storage(), start, bytes)?;
        return if staged.is_same(dst) { Ok(()) } else { device::of(dst.device())?.convert(dst, &staged) };
    }
    check!(
        src.device().ty == dst.device().ty,
        NotImplemented;
        "aten::copy_ from device '{}' to device '{}' is not implemented",
        src.device(),
        dst.device()
    );
    device::of(dst.device())?.convert(dst, src)
}
