//! The options that factory operators share, and filling.

use crate::dtype::Convert;
use crate::iter::{TensorIterator, default_dtype, loops};
use crate::ivalue::Args;
use crate::tensor::factory;
use crate::{DType, Device, Layout, MemoryFormat, Result, Scalar, Tensor, check, dispatch, op};

/// `dtype, layout, device, pin_memory` from argument `i` on.
pub(crate) struct Options {
    pub dtype: Option<DType>,
    pub device: Option<Device>,
}

impl Options {
    /// Reads and checks the four arguments.
    ///
    /// # Errors
    /// Layouts other than strided, pinned memory.
    pub fn read(a: Args<'_>, i: usize) -> Result<Options> {
        if let Some(l) = a.opt_layout(i + 1) {
            check!(
                l == Layout::Strided,
                NotImplemented;
                "creating a tensor of layout torch.{} is not implemented",
                l.name()
            );
        }
        check!(
            a.is_none(i + 3) || !a.bool(i + 3)?,
            "Cannot pin memory: there is no device here that pinned memory would serve."
        );
        Ok(Options { dtype: a.opt_dtype(i)?, device: a.opt_device(i + 2) })
    }
    pub fn dtype(&self) -> DType {
        self.dtype.unwrap_or(default_dtype())
    }
    pub fn device(&self) -> Device {
        self.device.unwrap_or(Device::CPU)
    }
}

/// An uninitialised tensor on any device: made here for CPU and meta, by the device's own operator else.
pub(crate) fn empty_on(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    if device.is_cpu() || device.is_meta() {
        return factory::empty(sizes, dtype, device);
    }
    op::empty_memory_format.call((sizes, dtype, (), device))
}

/// Writes one number everywhere.
///
/// # Errors
/// A number that the dtype cannot hold.
pub(crate) fn fill(t: &Tensor, value: Scalar) -> Result<()> {
    if !t.is_cpu() {
        if !t.is_meta() {
            op::fill__Scalar.call((t, value))?;
        }
        return Ok(());
    }
    if t.numel() == 0 {
        return Ok(());
    }
    if value.equals_int(0) && t.is_non_overlapping_and_dense() && !matches!(t.dtype(), DType::Float8E8M0FNU) {
        let negative = matches!(value, Scalar::Float(v) if v.is_sign_negative())
            || matches!(value, Scalar::Complex(re, im) if re.is_sign_negative() || im.is_sign_negative());
        if !negative {
            // SAFETY: a dense tensor occupies numel elements from its first on; all-zero bytes are zero in every dtype.
            unsafe { std::ptr::write_bytes(t.data_ptr(), 0, t.numel() as usize * t.itemsize()) };
            return Ok(());
        }
    }
    let it = TensorIterator::config().output(Some(t)).no_resize().skip_overlap_check().build()?;
    dispatch!("fill_cpu", t.dtype(), copyable, T => {
        let v: T = value.to()?;
        loops::nullary(&it, move || v);
    });
    Ok(())
}

/// Moves a tensor that was made on the CPU to the device that was asked for.
pub(crate) fn deliver(t: Tensor, device: Device) -> Result<Tensor> {
    if device.is_cpu() {
        return Ok(t);
    }
    if device.is_meta() {
        return factory::empty(t.sizes(), t.dtype(), device);
    }
    op::_to_copy.call((t, (), (), device))
}

/// The memory format argument `i`, preserve when absent.
pub(crate) fn format_or_preserve(a: Args<'_>, i: usize) -> MemoryFormat {
    a.opt_memory_format(i).unwrap_or(MemoryFormat::Preserve)
}

/// The value of the only element.
///
/// # Errors
/// More or fewer elements than one, a dtype that is no number, no data.
pub(crate) fn item(t: &Tensor) -> Result<Scalar> {
    check!(t.numel() == 1, "a Tensor with {} elements cannot be converted to Scalar", t.numel());
    first(t)
}

/// The value of the first of some elements.
///
/// # Errors
/// A dtype that is no number, no data.
pub(crate) fn first(t: &Tensor) -> Result<Scalar> {
    check!(!t.is_meta(), "Tensor.item() cannot be called on meta tensors");
    let t = if t.is_conj() || t.is_neg() { super::copy::contiguous(t)? } else { t.clone() };
    // SAFETY: one element of the matched type.
    let wide = dispatch!("_local_scalar_dense_cpu", t.dtype(), copyable, T => unsafe {
        (t.data_ptr() as *const T).read_unaligned().to_wide()
    });
    use crate::dtype::Wide;
    Ok(match (t.dtype(), wide) {
        (DType::Bool, w) => Scalar::Bool(bool::from_wide(w)),
        (_, Wide::I(v)) => Scalar::Int(v),
        (_, Wide::U(v)) => i64::try_from(v).map_or(Scalar::UInt(v), Scalar::Int),
        (_, Wide::F(v)) => Scalar::Float(v),
        (_, Wide::C(re, im)) => Scalar::Complex(re, im),
    })
}
