//! DLPack: tensors exchanged with other libraries as capsules, with and without a version.

use crate::error::{self, IntoPy};
use crate::tensor::object;
use crate::types::device;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use torchnative_engine::{DType, Device, DeviceType, IntList, Storage, Tensor, op};

#[repr(C)]
#[derive(Clone, Copy)]
struct DLDevice {
    device_type: i32,
    device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DLManagedTensor {
    dl_tensor: DLTensor,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

#[repr(C)]
struct DLPackVersion {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct DLManagedTensorVersioned {
    version: DLPackVersion,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    flags: u64,
    dl_tensor: DLTensor,
}

const CPU: i32 = 1;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };

const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";
const USED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// Element types as code, bits and lanes.
const DTYPES: &[(DType, u8, u8, u16)] = &[
    (DType::Char, 0, 8, 1),
    (DType::Short, 0, 16, 1),
    (DType::Int, 0, 32, 1),
    (DType::Long, 0, 64, 1),
    (DType::Byte, 1, 8, 1),
    (DType::UInt16, 1, 16, 1),
    (DType::UInt32, 1, 32, 1),
    (DType::UInt64, 1, 64, 1),
    (DType::Half, 2, 16, 1),
    (DType::Float, 2, 32, 1),
    (DType::Double, 2, 64, 1),
    (DType::BFloat16, 4, 16, 1),
    (DType::ComplexHalf, 5, 32, 1),
    (DType::ComplexFloat, 5, 64, 1),
    (DType::ComplexDouble, 5, 128, 1),
    (DType::Bool, 6, 8, 1),
    (DType::Float8E4M3FN, 10, 8, 1),
    (DType::Float8E4M3FNUZ, 11, 8, 1),
    (DType::Float8E5M2, 12, 8, 1),
    (DType::Float8E5M2FNUZ, 13, 8, 1),
    (DType::Float8E8M0FNU, 14, 8, 1),
    (DType::Float4E2M1FNx2, 17, 4, 2),
];

fn to_dl_dtype(d: DType) -> PyResult<DLDataType> {
    if let Some(&(_, code, bits, lanes)) = DTYPES.iter().find(|(known, ..)| *known == d) {
        return Ok(DLDataType { code, bits, lanes });
    }
    Err(PyBufferError::new_err(if d.is_quantized() {
        "QUInt/QInt types are not supported by dlpack".to_owned()
    } else if d.torch_name().starts_with("bits") {
        "Bit types are not supported by dlpack".to_owned()
    } else {
        format!("{} is not supported by dlpack", d.scalar_type_name())
    }))
}

fn from_dl_dtype(d: DLDataType) -> PyResult<DType> {
    let found =
        DTYPES.iter().find(|(_, code, bits, lanes)| (*code, *bits, *lanes) == (d.code, d.bits, d.lanes));
    match found {
        Some((dtype, ..)) => Ok(*dtype),
        // Vectors of any width hold packed pairs; other lanes are no element type.
        None if d.lanes != 1 => Err(PyBufferError::new_err("ATen does not support lanes != 1")),
        None => Err(PyBufferError::new_err(match d.code {
            0 => format!("Unsupported kInt bits {}", d.bits),
            1 => format!("Unsupported kUInt bits {}", d.bits),
            2 => format!("Unsupported kFloat bits {}", d.bits),
            4 => format!("Unsupported kFloat bits {}", d.bits),
            5 => format!("Unsupported kFloat bits {}", d.bits),
            6 => format!("Unsupported kDLBool bits {}", d.bits),
            code => format!("Unsupported code {code}"),
        })),
    }
}

fn to_dl_device(d: Device) -> PyResult<DLDevice> {
    match d.ty {
        DeviceType::Cpu => Ok(DLDevice { device_type: CPU, device_id: 0 }),
        // Memory of the out-of-tree device has no address that another library could use.
        ty => Err(PyBufferError::new_err(format!("Cannot pack tensors on {}", device::type_name(ty)))),
    }
}

/// What an exported tensor keeps alive: the tensor, its sizes and its strides.
struct Kept {
    _tensor: Tensor,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

fn keep(t: &Tensor) -> (Box<Kept>, DLTensor) {
    let mut kept =
        Box::new(Kept { _tensor: t.clone(), sizes: t.sizes().to_vec(), strides: t.strides().to_vec() });
    let tensor = DLTensor {
        data: t.data_ptr().cast(),
        device: DLDevice { device_type: CPU, device_id: 0 },
        ndim: t.dim() as i32,
        dtype: DLDataType { code: 0, bits: 0, lanes: 0 },
        shape: kept.sizes.as_mut_ptr(),
        strides: kept.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    (kept, tensor)
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensor) {
    if !managed.is_null() {
        // SAFETY: made by `export`, deleted once. Tensors may have Python objects, so the thread attaches.
        error::attached(|| unsafe {
            drop(Box::from_raw((*managed).manager_ctx.cast::<Kept>()));
            drop(Box::from_raw(managed));
        });
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    if !managed.is_null() {
        // SAFETY: as above.
        error::attached(|| unsafe {
            drop(Box::from_raw((*managed).manager_ctx.cast::<Kept>()));
            drop(Box::from_raw(managed));
        });
    }
}

/// Frees what a capsule holds that nobody consumed.
unsafe extern "C" fn forget_capsule(capsule: *mut ffi::PyObject) {
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            let p = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<DLManagedTensor>();
            if let Some(f) = (*p).deleter {
                f(p);
            }
        } else if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) != 0 {
            let p = ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr())
                .cast::<DLManagedTensorVersioned>();
            if let Some(f) = (*p).deleter {
                f(p);
            }
        }
    }
}

fn export<'py>(py: Python<'py>, t: &Tensor, versioned: bool, flags: u64) -> PyResult<Bound<'py, PyAny>> {
    let device = to_dl_device(t.device())?;
    let dtype = to_dl_dtype(t.dtype())?;
    if t.requires_grad() {
        return Err(PyBufferError::new_err(
            "Can't export tensors that require gradient, use tensor.detach()",
        ));
    }
    if t.is_conj() {
        return Err(PyBufferError::new_err("Can't export tensors with the conjugate bit set"));
    }
    let (kept, mut tensor) = keep(t);
    (tensor.device, tensor.dtype) = (device, dtype);
    let manager_ctx = Box::into_raw(kept).cast();
    let (p, name): (*mut c_void, &CStr) = if versioned {
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx,
            deleter: Some(delete_versioned),
            flags,
            dl_tensor: tensor,
        };
        (Box::into_raw(Box::new(managed)).cast(), NAME_VERSIONED)
    } else {
        let managed = DLManagedTensor { dl_tensor: tensor, manager_ctx, deleter: Some(delete) };
        (Box::into_raw(Box::new(managed)).cast(), NAME)
    };
    // SAFETY: the name is static; the destructor frees the structure unless a consumer renamed the capsule.
    unsafe {
        let capsule = ffi::PyCapsule_New(p, name.as_ptr(), Some(forget_capsule));
        if capsule.is_null() {
            if versioned { delete_versioned(p.cast()) } else { delete(p.cast()) }
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// The memory of another library, given back when the last tensor over it is gone.
enum Owned {
    Plain(*mut DLManagedTensor),
    Versioned(*mut DLManagedTensorVersioned),
}

// SAFETY: only the deleter is called, once, attached to the interpreter.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: taken over from a capsule, given back once. The other library may be Python code.
        error::attached(|| unsafe {
            match *self {
                Owned::Plain(p) => {
                    if let Some(f) = (*p).deleter {
                        f(p);
                    }
                }
                Owned::Versioned(p) => {
                    if let Some(f) = (*p).deleter {
                        f(p);
                    }
                }
            }
        });
    }
}

/// The tensor of a capsule, which is used up.
///
/// # Errors
/// RuntimeError for anything but a fresh capsule; BufferError for devices and element types that are not here.
pub fn from_capsule(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    // SAFETY: CPython's capsule functions on a live object; the pointer is what the capsule's name promises.
    unsafe {
        let p = object.as_ptr();
        if ffi::PyCapsule_IsValid(p, NAME_VERSIONED.as_ptr()) != 0 {
            let m = ffi::PyCapsule_GetPointer(p, NAME_VERSIONED.as_ptr()).cast::<DLManagedTensorVersioned>();
            let major = (*m).version.major;
            if major > VERSION.major {
                return Err(PyBufferError::new_err(format!(
                    "unsupported DLPack capsule major version {major}; the supported one is {}",
                    VERSION.major
                )));
            }
            let view = View::read(&(*m).dl_tensor)?;
            ffi::PyCapsule_SetName(p, USED_VERSIONED.as_ptr());
            return Ok(view.tensor(Owned::Versioned(m)));
        }
        if ffi::PyCapsule_IsValid(p, NAME.as_ptr()) != 0 {
            let m = ffi::PyCapsule_GetPointer(p, NAME.as_ptr()).cast::<DLManagedTensor>();
            let view = View::read(&(*m).dl_tensor)?;
            ffi::PyCapsule_SetName(p, USED.as_ptr());
            return Ok(view.tensor(Owned::Plain(m)));
        }
    }
    Err(error::runtime(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have already \
         constructed a tensor from it once.",
    ))
}

/// What a capsule says of its tensor, checked.
struct View {
    data: *mut u8,
    nbytes: usize,
    dtype: DType,
    sizes: IntList,
    strides: IntList,
}

impl View {
    /// # Safety
    /// The structure is one that a DLPack producer filled.
    unsafe fn read(t: &DLTensor) -> PyResult<View> {
        if t.device.device_type != CPU {
            return Err(PyBufferError::new_err(format!("Unsupported device_type: {}", t.device.device_type)));
        }
        let dtype = from_dl_dtype(t.dtype)?;
        let dims =
            usize::try_from(t.ndim).map_err(|_| PyBufferError::new_err("a tensor of negative rank"))?;
        let list = |p: *const i64| -> IntList {
            // SAFETY: as many numbers as dimensions, as the structure promises.
            (0..dims).map(|i| unsafe { *p.add(i) }).collect()
        };
        let sizes = if dims == 0 { IntList::new() } else { list(t.shape) };
        if sizes.iter().any(|s| *s < 0) {
            return Err(error::runtime(format!(
                "Trying to create tensor with negative dimension: {:?}",
                &sizes[..]
            )));
        }
        let strides = if dims == 0 {
            IntList::new()
        } else if t.strides.is_null() {
            torchnative_engine::tensor::shape::contiguous_strides(&sizes)
        } else {
            list(t.strides)
        };
        if strides.iter().zip(&sizes).any(|(stride, size)| *stride < 0 && *size > 0) {
            return Err(error::runtime(format!(
                "Storage size calculation overflowed with sizes={:?} and strides={:?}",
                &sizes[..],
                &strides[..]
            )));
        }
        let nbytes = torchnative_engine::tensor::shape::storage_nbytes(&sizes, &strides, dtype.itemsize(), 0)
            .into_py()?;
        let nbytes = usize::try_from(nbytes).map_err(|_| error::runtime("the tensor is too large"))?;
        let data = t.data.cast::<u8>();
        let data = if data.is_null() { data } else { data.wrapping_add(t.byte_offset as usize) };
        Ok(View { data, nbytes, dtype, sizes, strides })
    }

    fn tensor(self, owner: Owned) -> Tensor {
        // SAFETY: the producer keeps the memory until the owner is dropped; strides are not negative.
        let storage = unsafe { Storage::from_foreign(self.data, self.nbytes, Box::new(owner)) };
        Tensor::from_storage(storage, self.dtype, self.sizes, self.strides, 0)
    }
}

fn argument<'a>(data: &'a Bound<'_, PyAny>, name: &str) -> PyResult<&'a Tensor> {
    object::get(data).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{name}(): argument 'data' (position 1) must be Tensor, not {}",
            crate::tensor::data::kind(data)
        ))
    })
}

/// The tensor where the consumer wants it, copied when it must be; whether it was.
fn placed(t: &Tensor, to: Option<(i32, i32)>, copy: Option<bool>) -> PyResult<(Tensor, bool)> {
    if let Some((ty, _)) = to
        && ty != to_dl_device(t.device())?.device_type
    {
        if copy == Some(false) {
            return Err(PyBufferError::new_err("cannot move the tensor to another device without a copy"));
        }
        return Err(PyBufferError::new_err(format!("Unsupported device_type: {ty}")));
    }
    match copy {
        Some(true) => Ok((op::clone.call((t,)).into_py()?, true)),
        _ => Ok((t.clone(), false)),
    }
}

#[pyfunction]
#[pyo3(signature = (data, *, dl_device = None, copy = None))]
fn _to_dlpack<'py>(
    data: &Bound<'py, PyAny>,
    dl_device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (t, _) = placed(argument(data, "_to_dlpack")?, dl_device, copy)?;
    export(data.py(), &t, false, 0)
}

#[pyfunction]
#[pyo3(signature = (data, *, dl_device = None, copy = None, read_only = false))]
fn _to_dlpack_versioned<'py>(
    data: &Bound<'py, PyAny>,
    dl_device: Option<(i32, i32)>,
    copy: Option<bool>,
    read_only: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (t, copied) = placed(argument(data, "_to_dlpack_versioned")?, dl_device, copy)?;
    let flags = if read_only { READ_ONLY } else { 0 } | if copied { IS_COPIED } else { 0 };
    export(data.py(), &t, true, flags)
}

#[pyfunction]
fn _from_dlpack<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object::wrap(data.py(), from_capsule(data)?)
}

#[pyfunction]
#[pyo3(name = "_torchDeviceToDLDevice")]
fn torch_device_to_dl_device(given: &Bound<'_, PyAny>) -> PyResult<(i32, i32)> {
    let Some(d) = device::from_py(given)? else {
        return Err(PyTypeError::new_err(format!(
            "torchDeviceToDLDevice(): argument must be torch.device, not {}",
            crate::tensor::data::kind(given)
        )));
    };
    let d = to_dl_device(d)?;
    Ok((d.device_type, d.device_id))
}

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(_to_dlpack, module)?,
        wrap_pyfunction!(_to_dlpack_versioned, module)?,
        wrap_pyfunction!(_from_dlpack, module)?,
        wrap_pyfunction!(torch_device_to_dl_device, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
