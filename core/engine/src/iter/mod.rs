//! `TensorIterator`: broadcasting, type promotion, output allocation and the strided walk of pointwise operators and
//! reductions, after upstream's `ATen/TensorIterator.h`. The walk is type-erased (pointers, byte strides, length); only
//! the inner loop is generic.

pub(crate) mod blocks;
mod build;
pub mod loops;
mod types;
mod walk;

pub use build::TensorIteratorConfig;
pub use types::{ResultType, default_dtype, result_type, result_type_scalar, set_default_dtype};

use crate::dispatch::Operator;
use crate::ivalue::IntList;
use crate::{DType, Device, Result, Tensor};
use smallvec::SmallVec;

/// One tensor of an iteration.
pub(crate) struct Operand {
    /// What the loop reads or writes (a converted temporary when dtypes differ). Absent until outputs are allocated.
    pub tensor: Option<Tensor>,
    /// The user's tensor behind a temporary output or a converted input.
    pub original: Option<Tensor>,
    pub is_output: bool,
    /// The dtype the loop sees.
    pub dtype: DType,
    /// Byte strides over `TensorIterator::shape`, fastest dimension first.
    pub strides: IntList,
    /// The output is to take the iteration's shape.
    pub will_resize: bool,
    /// Also an input (in place): same tensor as some input.
    pub read_write: bool,
}

/// An iteration that is ready to run.
pub struct TensorIterator {
    pub(crate) operands: SmallVec<[Operand; 4]>,
    pub(crate) num_outputs: usize,
    /// Fastest dimension first, coalesced.
    pub(crate) shape: IntList,
    /// The broadcast shape in the tensors' own order.
    pub(crate) full_shape: IntList,
    /// `perm[i]`: the tensors' dimension that iteration dimension i was, before coalescing.
    pub(crate) perm: SmallVec<[u8; 6]>,
    pub(crate) common_dtype: DType,
    pub(crate) device: Device,
    pub(crate) is_reduction: bool,
}

impl TensorIterator {
    pub fn config() -> TensorIteratorConfig {
        TensorIteratorConfig::default()
    }
    pub fn numel(&self) -> i64 {
        self.shape.iter().product()
    }
    /// The broadcast shape, in the tensors' own order.
    pub fn shape_before_reorder(&self) -> &[i64] {
        &self.full_shape
    }
    /// The dtype the operands were promoted to.
    pub fn common_dtype(&self) -> DType {
        self.common_dtype
    }
    pub fn ntensors(&self) -> usize {
        self.operands.len()
    }
    /// The dtype that the loop sees for operand `i`; outputs come first.
    pub fn dtype(&self, i: usize) -> DType {
        self.operands[i].dtype
    }
    /// The dtype of input `i`.
    pub fn input_dtype(&self, i: usize) -> DType {
        self.operands[self.num_outputs + i].dtype
    }
    pub fn device(&self) -> Device {
        self.device
    }
    /// The tensor of operand `i` as the loop sees it.
    ///
    /// # Panics
    /// Before outputs were allocated (never after `build`).
    pub fn tensor(&self, i: usize) -> &Tensor {
        self.operands[i].tensor.as_ref().expect("operand was allocated by build")
    }
    /// The shape that `strides` speak of: fastest dimension first, neighbours merged.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }
    /// Byte strides of operand `i` over `shape`.
    pub fn strides(&self, i: usize) -> &[i64] {
        &self.operands[i].strides
    }
    pub fn noutputs(&self) -> usize {
        self.num_outputs
    }
    /// The user's output: the original behind a temporary.
    pub fn output(&self, i: usize) -> Tensor {
        let o = &self.operands[i];
        o.original.as_ref().or(o.tensor.as_ref()).expect("outputs were allocated by build").clone()
    }
    /// The first output, consuming the iteration.
    pub fn into_output(self) -> Tensor {
        self.output(0)
    }
    /// Writes temporaries back to the outputs they stand for, converting the dtype.
    ///
    /// # Errors
    /// Only from the copy.
    pub fn cast_outputs(&self) -> Result<()> {
        for o in &self.operands[..self.num_outputs] {
            if let (Some(t), Some(orig)) = (&o.tensor, &o.original) {
                crate::ops::copy::copy_into(orig, t)?;
            }
        }
        Ok(())
    }
    /// Kernels run on the memory of the CPU or of the registered device, each with its own.
    ///
    /// # Errors
    /// NotImplementedError for another device.
    pub fn check_device(&self, op: &Operator) -> Result<()> {
        crate::check!(
            self.device.is_cpu() || self.device.ty == crate::DeviceType::PrivateUse1,
            NotImplemented;
            "{} is not implemented for device '{}' with dtype {}",
            op.qualified_name(),
            self.device,
            self.common_dtype.torch_name()
        );
        Ok(())
    }

    /// `binary_op`: two inputs promoted together, the result in the common dtype.
    ///
    /// # Errors
    /// Shapes that do not broadcast, dtypes that do not promote, an output that cannot hold the result.
    pub fn binary_op(out: Option<&Tensor>, a: &Tensor, b: &Tensor) -> Result<TensorIterator> {
        Self::config()
            .output(out)
            .input(a)
            .input(b)
            .promote()
            .cast_outputs()
            .safe_casting()
            .cpu_scalars()
            .build()
    }
    /// `binary_float_op`: as `binary_op`, integers becoming the default float type.
    ///
    /// # Errors
    /// As `binary_op`.
    pub fn binary_float_op(out: Option<&Tensor>, a: &Tensor, b: &Tensor) -> Result<TensorIterator> {
        Self::config()
            .output(out)
            .input(a)
            .input(b)
            .promote()
            .integer_to_float()
            .cast_outputs()
            .safe_casting()
            .cpu_scalars()
            .build()
    }
    /// `comparison_op`: inputs promoted together, a bool result.
    ///
    /// # Errors
    /// As `binary_op`.
    pub fn comparison_op(out: Option<&Tensor>, a: &Tensor, b: &Tensor) -> Result<TensorIterator> {
        Self::config()
            .output(out)
            .input(a)
            .input(b)
            .promote()
            .output_dtype(DType::Bool)
            .cast_outputs()
            .cpu_scalars()
            .build()
    }
    /// `unary_op`: the result has the input's dtype, and so must a given output.
    ///
    /// # Errors
    /// "Found dtype …", overlapping memory.
    pub fn unary_op(out: Option<&Tensor>, a: &Tensor) -> Result<TensorIterator> {
        Self::config().output(out).input(a).same_dtype().build()
    }
    /// `unary_float_op`: integers become the default float type.
    ///
    /// # Errors
    /// As `binary_op`.
    pub fn unary_float_op(out: Option<&Tensor>, a: &Tensor) -> Result<TensorIterator> {
        Self::config().output(out).input(a).promote().integer_to_float().cast_outputs().safe_casting().build()
    }
    /// A walk over one tensor that is only written.
    ///
    /// # Errors
    /// A tensor whose elements overlap.
    pub fn nullary_op(out: &Tensor) -> Result<TensorIterator> {
        Self::config().output(Some(out)).build()
    }
}
