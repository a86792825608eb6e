//! The operators of the device. What is not here refuses by name, or decomposes where the dispatcher decomposes.

mod compose;
mod index;
pub mod pointwise;
mod reduce;
mod table;
mod wgsl;

use torchnative_engine::dispatch::{Registry, Returns};
use torchnative_engine::iter::TensorIterator;
use torchnative_engine::ops::copy::copy_into;
use torchnative_engine::tensor::factory;
use torchnative_engine::{Device, Result, Scalar, Tensor, bail, op};

/// Registers every operator of the device.
pub fn register() {
    let r = &mut Registry::new();
    for id in [
        op::empty_memory_format,
        op::empty_strided,
        op::copy_,
        op::_to_copy,
        op::clone,
        op::resize_,
        op::set__source_Storage,
        op::set__source_Storage_storage_offset,
        op::set__source_Tensor,
        op::set_,
    ] {
        r.device_as_cpu(id);
    }
    r.device(op::fill__Scalar, |a| fill(a.tensor(0)?, a.scalar(1)?));
    r.device(op::zero_, |a| fill(a.tensor(0)?, Scalar::Int(0)));
    r.device(op::_local_scalar_dense, |a| {
        let t = a.tensor(0)?;
        let host = factory::empty(&[], t.dtype(), Device::CPU)?;
        copy_into(&host, t)?;
        Ok(op::_local_scalar_dense.call_all((host,))?.swap_remove(0).into())
    });
    // Their decompositions ask for one another.
    for id in [
        op::uniform_,
        op::normal_,
        op::exponential_,
        op::log_normal_,
        op::cauchy_,
        op::geometric_,
        op::bernoulli__float,
        op::random_,
        op::random__to,
        op::random__from,
        op::multinomial,
    ] {
        r.device(id, |a| {
            let t = a.tensor(0)?;
            bail!(
                NotImplemented,
                "random numbers are not implemented for device 'webgpu' with dtype {}",
                t.dtype().torch_name()
            )
        });
    }
    reduce::register(r);
    compose::register(r);
    index::register(r);
    registered(r);
}

fn fill(t: &Tensor, value: Scalar) -> Result<Returns> {
    let it = TensorIterator::nullary_op(t)?;
    pointwise::run(&it, table::FILL.name, &table::FILL.body, &[value])?;
    Ok(t.into())
}

fn registered(r: &mut Registry) {
    macro_rules! entries {
        ($($op:ident => $entry:ident),* $(,)?) => {$(
            r.device_pointwise(op::$op, |it, _| pointwise::run(it, table::$entry.name, &table::$entry.body, &[]));
        )*};
    }
    entries! {
        mul_Tensor => MUL, div_Tensor => DIV, maximum => MAXIMUM, minimum => MINIMUM,
        neg => NEG, abs => ABS, exp => EXP, log => LOG, sqrt => SQRT, rsqrt => RSQRT, reciprocal => RECIPROCAL,
        sin => SIN, cos => COS, tanh => TANH, sigmoid => SIGMOID, silu => SILU,
        relu => RELU, floor => FLOOR, ceil => CEIL, pow_Tensor_Scalar => POW, bitwise_and_Tensor => AND,
        bitwise_or_Tensor => OR, bitwise_xor_Tensor => XOR, bitwise_not => NOT, bitwise_and_Scalar => AND,
        bitwise_or_Scalar => OR, silu_backward => SILU_BACKWARD, tanh_backward => TANH_BACKWARD,
        sigmoid_backward => SIGMOID_BACKWARD,
        eq_Scalar => EQ, ne_Scalar => NE, lt_Scalar => LT, le_Scalar => LE, gt_Scalar => GT, ge_Scalar => GE,
        eq_Tensor => EQ, ne_Tensor => NE, lt_Tensor => LT, le_Tensor => LE, gt_Tensor => GT, ge_Tensor => GE,
    }
    macro_rules! with_alpha {
        ($($op:ident => $entry:ident),*) => {$(
            r.device_pointwise(op::$op, |it, a| {
                pointwise::run(it, table::$entry.name, &table::$entry.body, &[a.scalar(2)?])
            });
        )*};
    }
    with_alpha! {
        add_Tensor => ADD, sub_Tensor => SUB, rsub_Tensor => RSUB, threshold_backward => THRESHOLD_BACKWARD
    }
}
