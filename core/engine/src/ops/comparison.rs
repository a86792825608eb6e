//! Comparisons of tensors with tensors and numbers.

use crate::dispatch::Registry;
use crate::iter::blocks::map2;
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::tensor::factory;
use crate::{Complex, DType, Result, Tensor, dispatch, op};

fn build(a: Args<'_>, out: Option<&Tensor>) -> Result<TensorIterator> {
    match a.opt_tensor(1) {
        Some(t) => TensorIterator::comparison_op(out, a.tensor(0)?, t),
        None => TensorIterator::comparison_op(out, a.tensor(0)?, &factory::wrapped_scalar(a.scalar(1)?)?),
    }
}

macro_rules! comparisons {
    ($r:ident: $($tensor:ident $scalar:ident $name:literal $set:ident $op:tt;)*) => {$(
        for id in [op::$tensor, op::$scalar] {
            $r.pointwise(id, build, |it, _| {
                comparisons!(@complex_half $set it $op);
                dispatch!($name, it.common_dtype(), $set, T => loops::binary(it, |x: T, y: T| x $op y));
                Ok(())
            });
        }
    )*};
    (@complex_half all_complex $it:ident $op:tt) => {
        if $it.common_dtype() == DType::ComplexHalf {
            return map2($it, |x: Complex<f32>, y: Complex<f32>| x $op y);
        }
    };
    (@complex_half all_bool $it:ident $op:tt) => {};
}

pub(crate) fn register(r: &mut Registry) {
    comparisons! { r:
        eq_Tensor eq_Scalar "eq_cpu" all_complex ==;
        ne_Tensor ne_Scalar "ne_cpu" all_complex !=;
        lt_Tensor lt_Scalar "lt_cpu" all_bool <;
        le_Tensor le_Scalar "le_cpu" all_bool <=;
        gt_Tensor gt_Scalar "gt_cpu" all_bool >;
        ge_Tensor ge_Scalar "ge_cpu" all_bool >=;
    }
}
