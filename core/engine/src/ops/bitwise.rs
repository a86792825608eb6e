//! Logical and bitwise operators.

use super::pointwise::operand;
use crate::cpu::integer;
use crate::dispatch::Registry;
use crate::dtype::convert;
use crate::iter::blocks::map2;
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::{DType, Result, Tensor, dispatch, op};

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

macro_rules! shifts {
    ($r:ident: $($id:ident $name:literal $f:ident;)*) => {$(
        $r.pointwise(op::$id, build, |it, _| {
            let d = it.common_dtype();
            if !d.is_integral(false) {
                return Err(crate::Error::dtype_not_implemented($name, d));
            }
            map2(it, move |x: i64, y: i64| integer::$f(d, x, y))
        });
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
    shifts! { r:
        bitwise_left_shift_Tensor "lshift_cpu" shift_left;
        bitwise_left_shift_Tensor_Scalar "lshift_cpu" shift_left;
        bitwise_left_shift_Scalar_Tensor "lshift_cpu" shift_left;
        __lshift___Tensor "lshift_cpu" shift_left;
        __lshift___Scalar "lshift_cpu" shift_left;
        bitwise_right_shift_Tensor "rshift_cpu" shift_right;
        bitwise_right_shift_Tensor_Scalar "rshift_cpu" shift_right;
        bitwise_right_shift_Scalar_Tensor "rshift_cpu" shift_right;
        __rshift___Tensor "rshift_cpu" shift_right;
        __rshift___Scalar "rshift_cpu" shift_right;
    }
    for (name, target) in [
        (op::__and___Tensor, op::bitwise_and_Tensor),
        (op::__and___Scalar, op::bitwise_and_Scalar),
        (op::__or___Tensor, op::bitwise_or_Tensor),
        (op::__or___Scalar, op::bitwise_or_Scalar),
        (op::__xor___Tensor, op::bitwise_xor_Tensor),
        (op::__xor___Scalar, op::bitwise_xor_Scalar),
    ] {
        r.alias(name, target);
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
