//! Logical and bitwise operators.

use crate::dispatch::Registry;
use crate::dtype::convert;
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::tensor::factory;
use crate::{DType, Result, Tensor, dispatch, op};

/// Argument `i`: a tensor, or a number as a tensor of a number's priority.
fn operand(a: Args<'_>, i: usize) -> Result<Tensor> {
    match a.opt_tensor(i) {
        Some(t) => Ok(t.clone()),
        None => factory::wrapped_scalar(a.scalar(i)?),
    }
}

fn build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIterator::binary_op(out, &operand(a, 0)?, &operand(a, 1)?)
}

macro_rules! bitwise {
    ($r:ident: $($tensor:ident $scalar:ident $left:ident $name:literal $op:tt;)*) => {$(
        for id in [op::$tensor, op::$scalar, op::$left] {
            $r.pointwise(id, build, |it, _| {
                dispatch!($name, it.common_dtype(), integral_bool, T => loops::binary(it, |x: T, y: T| x $op y));
                Ok(())
            });
        }
    )*};
}
macro_rules! logical {
    ($r:ident: $($id:ident $name:literal $op:tt;)*) => {$(
        $r.pointwise(
            op::$id,
            |a, out| TensorIterator::comparison_op(out, a.tensor(0)?, a.tensor(1)?),
            |it, _| {
                dispatch!($name, it.common_dtype(), all_complex, T => {
                    loops::binary(it, |x: T, y: T| convert::<T, bool>(x) $op convert::<T, bool>(y))
                });
                Ok(())
            },
        );
    )*};
}

pub(crate) fn register(r: &mut Registry) {
    bitwise! { r:
        bitwise_and_Tensor bitwise_and_Scalar bitwise_and_Scalar_Tensor "bitwise_and_cpu" &;
        bitwise_or_Tensor bitwise_or_Scalar bitwise_or_Scalar_Tensor "bitwise_or_cpu" |;
        bitwise_xor_Tensor bitwise_xor_Scalar bitwise_xor_Scalar_Tensor "bitwise_xor_cpu" ^;
    }
    logical! { r:
        logical_and "logical_and_cpu" &;
        logical_or "logical_or_cpu" |;
        logical_xor "logical_xor_cpu" ^;
    }
    r.pointwise(
        op::bitwise_not,
        |a, out| TensorIterator::unary_op(out, a.tensor(0)?),
        |it, _| {
            dispatch!("bitwise_not_cpu", it.common_dtype(), integral_bool, T => loops::unary(it, |x: T| !x));
            Ok(())
        },
    );
    r.pointwise(
        op::logical_not,
        |a, out| {
            TensorIterator::config()
                .output(out)
                .input(a.tensor(0)?)
                .output_dtype(DType::Bool)
                .cast_outputs()
                .build()
        },
        |it, _| {
            dispatch!("logical_not_cpu", it.input_dtype(0), all_complex, T => {
                loops::unary(it, |x: T| !convert::<T, bool>(x))
            });
            Ok(())
        },
    );
}
