//! Operators that are written with others on the device, until kernels of their own take their place.

use super::pointwise::{Class, run_expression};
use torchnative_engine::dispatch::Registry;
use torchnative_engine::iter::TensorIterator;
use torchnative_engine::{Args, DType, MemoryFormat, Result, Scalar, Tensor, bail, check, op};

pub(super) fn register(r: &mut Registry) {
    r.device_pointwise(op::where_self, |it, _| {
        run_expression(it, "aten::where.self", "select(a2, a1, a0)", &[])
    });
    r.device(op::masked_fill__Scalar, |a| {
        masked_fill_(a.tensor(0)?, a.tensor(1)?, a.scalar(2)?)?;
        Ok(a.tensor(0)?.into())
    });
    r.device(op::masked_fill__Tensor, |a| {
        masked_fill_(a.tensor(0)?, a.tensor(1)?, value(a.tensor(2)?)?)?;
        Ok(a.tensor(0)?.into())
    });
    r.device(op::masked_fill_Scalar, |a| Ok(masked_fill(a.tensor(0)?, a.tensor(1)?, a.scalar(2)?)?.into()));
    r.device(op::masked_fill_Tensor, |a| {
        Ok(masked_fill(a.tensor(0)?, a.tensor(1)?, value(a.tensor(2)?)?)?.into())
    });
    r.device_structured(op::_softmax, |a, o| softmax(a.tensor(0)?, a.int(1)?, false, &o[0]));
    r.device_structured(op::_log_softmax, |a, o| softmax(a.tensor(0)?, a.int(1)?, true, &o[0]));
    r.device_structured(op::_softmax_backward_data, |a, o| softmax_backward(a, false, &o[0]));
    r.device_structured(op::_log_softmax_backward_data, |a, o| softmax_backward(a, true, &o[0]));
    r.device_structured(op::addmm, |a, o| add_product(a, op::mm, &o[0]));
    r.device_structured(op::baddbmm, |a, o| add_product(a, op::bmm, &o[0]));
    r.device_structured(op::cat, |a, o| cat(a.tensor_list(0)?, a.int(1)?, &o[0]));
    r.device_structured(op::stack, |a, o| {
        let d = wrap(a.int(1)?, o[0].dim())?;
        for (i, t) in a.tensor_list(0)?.iter().enumerate() {
            copy(&op::select_int.call((&o[0], d, i as i64))?, t)?;
        }
        Ok(())
    });
}

fn copy(to: &Tensor, from: &Tensor) -> Result<()> {
    torchnative_engine::ops::copy::copy_into(to, from)
}

/// A dimension counted from the front; the shape function has checked its range.
fn wrap(d: i64, rank: usize) -> Result<i64> {
    let d = if d < 0 { d + (rank as i64).max(1) } else { d };
    check!(d >= 0 && d < (rank as i64).max(1), Internal; "dimension {d} of {rank}");
    Ok(d)
}

fn value(t: &Tensor) -> Result<Scalar> {
    check!(
        t.dim() == 0,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        t.dim()
    );
    op::item.call_all((t,))?.swap_remove(0).scalar()
}

fn masked_fill_(t: &Tensor, mask: &Tensor, value: Scalar) -> Result<()> {
    check!(
        mask.dtype() == DType::Bool,
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().torch_name_cpp()
    );
    check!(
        mask.device() == t.device(),
        "expected self and mask to be on the same device, but got mask on {} and self on {}",
        mask.device(),
        t.device()
    );
    let Some(class) = Class::of(t.dtype()) else { bail!(Internal, "a dtype the device does not hold") };
    check!(
        class == Class::Float || !value.is_floating_point(),
        NotImplemented;
        "aten::masked_fill_.Scalar of a float is not implemented for device 'webgpu' with dtype {}",
        t.dtype().torch_name()
    );
    let mask = op::expand.call((mask, t.sizes()))?;
    let it = TensorIterator::config().output(Some(t)).input(t).input(&mask).no_resize().build()?;
    run_expression(&it, "aten::masked_fill_.Scalar", "select(a0, k0, a1)", &[(class, value)])
}

fn masked_fill(t: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    let shape = torchnative_engine::tensor::shape::broadcast(t.sizes(), mask.sizes())?;
    let wide = op::expand.call((t, &shape[..]))?;
    let format = if wide.sizes() == t.sizes() { MemoryFormat::Preserve } else { MemoryFormat::Contiguous };
    let out = op::clone.call((wide, format))?;
    masked_fill_(&out, mask, value)?;
    Ok(out)
}

/// In floats, whatever the input; halves are rounded once, at the end.
fn floats(t: &Tensor) -> Result<Tensor> {
    check!(
        t.dtype().is_floating_point(),
        NotImplemented;
        "aten::_softmax is not implemented for device 'webgpu' with dtype {}",
        t.dtype().torch_name()
    );
    op::to_dtype.call((t, DType::Float))
}

fn softmax(t: &Tensor, d: i64, log: bool, out: &Tensor) -> Result<()> {
    if t.numel() == 0 {
        return Ok(());
    }
    let x = floats(t)?;
    let x = op::sub_Tensor.call((&x, op::amax.call((&x, [d], true))?))?;
    let e = op::exp.call((&x,))?;
    let sum = op::sum_dim_IntList.call((&e, [d], true))?;
    let y =
        if log { op::sub_Tensor.call((x, op::log.call((sum,))?))? } else { op::div_Tensor.call((e, sum))? };
    copy(out, &y)
}

fn softmax_backward(a: Args<'_>, log: bool, out: &Tensor) -> Result<()> {
    let (grad, y, d) = (floats(a.tensor(0)?)?, floats(a.tensor(1)?)?, a.int(2)?);
    if grad.numel() == 0 {
        return Ok(());
    }
    let g = if log {
        let sum = op::sum_dim_IntList.call((&grad, [d], true))?;
        op::sub_Tensor.call((grad, op::mul_Tensor.call((op::exp.call((y,))?, sum))?))?
    } else {
        let own = op::mul_Tensor.call((grad, &y))?;
        let sum = op::sum_dim_IntList.call((&own, [d], true))?;
        op::sub_Tensor.call((own, op::mul_Tensor.call((y, sum))?))?
    };
    copy(out, &g)
}

/// `beta * self + alpha * product`.
fn add_product(a: Args<'_>, product: torchnative_engine::OpId, out: &Tensor) -> Result<()> {
    let (bias, beta, alpha) = (a.tensor(0)?, a.scalar(3)?, a.scalar(4)?);
    let p = product.call((a.tensor(1)?, a.tensor(2)?))?;
    // What beta 0 multiplies is not read: NaN in it does not count.
    let y = if beta.equals_int(0) {
        op::mul_Scalar.call((p, alpha))?
    } else {
        let bias = if beta.equals_int(1) { bias.clone() } else { op::mul_Scalar.call((bias, beta))? };
        op::add_Tensor.call((bias, p, alpha))?
    };
    copy(out, &y)
}

fn cat(list: &[Tensor], d: i64, out: &Tensor) -> Result<()> {
    let d = wrap(d, out.dim())?;
    let mut at = 0;
    for t in list {
        // The old form of nothing: one dimension of size 0.
        if t.dim() == 1 && t.sizes()[0] == 0 {
            continue;
        }
        let n = t.sizes()[d as usize];
        if t.numel() > 0 {
            copy(&op::slice_Tensor.call((out, d, at, at + n, 1))?, t)?;
        }
        at += n;
    }
    Ok(())
}
