//! `copy_`, `_to_copy`, `clone`: moving and converting data.

use super::transfer;
use crate::dispatch::{Registry, Returns};
use crate::dtype::convert as convert_element;
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::tensor::{factory, memory, shape};
use crate::{Complex, DType, MemoryFormat, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::copy_, copy_).any_device(op::_to_copy, to_copy).any_device(op::clone, clone);
}

/// Writes `src`, converted and broadcast, into `dst` (CPU; on meta only the shapes are checked).
///
/// # Errors
/// Shapes that do not broadcast, dtypes that do not convert.
pub fn copy_into(dst: &Tensor, src: &Tensor) -> Result<()> {
    if dst.is_same(src) {
        return Ok(());
    }
    let (sizes, strides) = shape::expand_strides(src.sizes(), src.strides(), dst.sizes()).map_err(|_| {
        crate::Error::runtime(format!(
            "The size of tensor a ({:?}) must match the size of tensor b ({:?})",
            dst.sizes(),
            src.sizes()
        ))
    })?;
    if dst.is_meta() || src.is_meta() {
        check!(dst.is_meta(), NotImplemented; "Cannot copy out of meta tensor; no data!");
        return Ok(());
    }
    if dst.numel() == 0 {
        return Ok(());
    }
    if !dst.is_cpu() || !src.is_cpu() {
        return transfer::copy(dst, src);
    }
    if dst.dtype() == src.dtype()
        && dst.is_contiguous()
        && src.is_contiguous()
        && dst.sizes() == src.sizes()
        && src.is_conj() == dst.is_conj()
        && src.is_neg() == dst.is_neg()
    {
        let n = dst.numel() as usize * dst.itemsize();
        // SAFETY: both are contiguous with as many bytes; `copy` allows overlap.
        unsafe { std::ptr::copy(src.data_ptr(), dst.data_ptr(), n) };
        return Ok(());
    }
    let conj = src.is_conj() != dst.is_conj();
    let neg = src.is_neg() != dst.is_neg();
    let src = src.alias_with(sizes, strides, src.storage_offset());
    let it =
        TensorIterator::config().output(Some(dst)).input(&src).no_resize().skip_overlap_check().build()?;
    convert_loop(&it, dst.dtype(), src.dtype())?;
    if conj || neg {
        apply_bits(dst, conj, neg)?;
    }
    Ok(())
}

fn apply_bits(dst: &Tensor, conj: bool, neg: bool) -> Result<()> {
    let it = TensorIterator::config().output(Some(dst)).input(dst).skip_overlap_check().build()?;
    if conj {
        match dst.dtype() {
            DType::ComplexFloat => loops::unary(&it, |z: Complex<f32>| z.conj()),
            DType::ComplexDouble => loops::unary(&it, |z: Complex<f64>| z.conj()),
            DType::ComplexHalf => loops::unary(&it, |z: Complex<half::f16>| Complex::new(z.re, -z.im)),
            _ => {}
        }
    }
    if neg {
        match dst.dtype() {
            DType::ComplexFloat => loops::unary(&it, |z: Complex<f32>| -z),
            DType::ComplexDouble => loops::unary(&it, |z: Complex<f64>| -z),
            other if other.is_integral(false) => {
                dispatch!("neg", other, integral, T => loops::unary(&it, |x: T| x.wrapping_neg()))
            }
            other => dispatch!("neg", other, floating, T => loops::unary(&it, |x: T| -x)),
        }
    }
    Ok(())
}

/// Raw moves for equal dtypes, conversions else.
fn convert_loop(it: &TensorIterator, to: DType, from: DType) -> Result<()> {
    if to == from {
        match to.itemsize() {
            1 => loops::unary(it, |x: u8| x),
            2 => loops::unary(it, |x: u16| x),
            4 => loops::unary(it, |x: u32| x),
            8 => loops::unary(it, |x: u64| x),
            16 => loops::unary(it, |x: [u64; 2]| x),
            n => bail!(Internal, "an element of {n} bytes"),
        }
        return Ok(());
    }
    dispatch!("copy_", to, copyable, O => {
        dispatch!("copy_", from, copyable, A => loops::unary(it, convert_element::<A, O>))
    });
    Ok(())
}

/// A tensor of another dtype with the same values (the tensor itself when it has the dtype). No dispatch, no graph.
///
/// # Errors
/// Dtypes that do not convert.
pub fn convert(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype {
        return Ok(t.clone());
    }
    let out = factory::empty_like(t, dtype, MemoryFormat::Preserve)?;
    copy_into(&out, t)?;
    Ok(out)
}

/// A row-major tensor with the same values (the tensor itself when it is row-major). No dispatch, no graph.
///
/// # Errors
/// Only when memory is exhausted.
pub fn contiguous(t: &Tensor) -> Result<Tensor> {
    if t.is_contiguous() && !t.is_conj() && !t.is_neg() {
        return Ok(t.clone());
    }
    let out = factory::empty(t.sizes(), t.dtype(), t.device())?;
    copy_into(&out, t)?;
    Ok(out)
}

/// A row-major tensor on the CPU with the same values. No dispatch, no graph.
///
/// # Errors
/// The device's own.
pub fn to_cpu(t: &Tensor) -> Result<Tensor> {
    let out = factory::empty(t.sizes(), t.dtype(), crate::Device::CPU)?;
    copy_into(&out, t)?;
    Ok(out)
}

/// copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
fn copy_(a: Args<'_>) -> Result<Returns> {
    let (dst, src) = (a.tensor(0)?, a.tensor(1)?);
    memory::assert_no_internal_overlap(dst)?;
    if shape::broadcast(dst.sizes(), src.sizes())?[..] != *dst.sizes() {
        bail!(
            Runtime,
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            dst.sizes(),
            &shape::broadcast(dst.sizes(), src.sizes())?[..]
        );
    }
    // A source that shares memory in another layout, where this is not refused, is read before it is written.
    if dst.storage().ptr_eq(src.storage())
        && !dst.is_same(src)
        && !dst.is_meta()
        && (dst.strides() != src.strides() || dst.storage_offset() != src.storage_offset())
    {
        memory::assert_no_partial_overlap(dst, src)?;
        let temp = factory::empty_like(src, src.dtype(), MemoryFormat::Contiguous)?;
        copy_into(&temp, src)?;
        copy_into(dst, &temp)?;
    } else {
        copy_into(dst, src)?;
    }
    Ok(dst.into())
}

/// _to_copy(Tensor self, *, ScalarType? dtype, Layout? layout, Device? device, bool? pin_memory, bool non_blocking,
/// MemoryFormat? memory_format) -> Tensor
fn to_copy(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let dtype = a.opt_dtype(1)?.unwrap_or(t.dtype());
    let device = a.opt_device(3).unwrap_or(t.device());
    let format = a.opt_memory_format(6).unwrap_or(MemoryFormat::Preserve);
    if let Some(l) = a.opt_layout(2) {
        check!(l == t.layout(), NotImplemented; "_to_copy to layout torch.{} is not implemented", l.name());
    }
    let like = factory::empty_like(t, dtype, format)?;
    let out = if device == t.device() {
        like
    } else {
        factory::empty_strided(t.sizes(), like.strides(), dtype, device)?
    };
    if !device.is_meta() {
        copy_into(&out, t)?;
    }
    Ok(out.into())
}

/// clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
fn clone(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let out = factory::empty_like(t, t.dtype(), a.opt_memory_format(1).unwrap_or(MemoryFormat::Preserve))?;
    copy_into(&out, t)?;
    Ok(out.into())
}
