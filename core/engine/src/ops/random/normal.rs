//! `normal` whose mean or deviation is a tensor, and `normal(mean, std, size)`.

use super::factories::{new, resized};
use super::samplers::check_std;
use crate::dispatch::{Registry, Returns};
use crate::ivalue::Args;
use crate::tensor::{factory, shape};
use crate::{DType, Generator, MemoryFormat, Result, Scalar, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::normal_Tensor_float, |a| {
        let mean = a.tensor(0)?;
        check_std(a.double(1)?)?;
        let out = empty(mean.sizes(), mean)?;
        tensor_float(&out, a)
    })
    .any_device(op::normal_Tensor_float_out, |a| tensor_float(a.tensor(3)?, a))
    .any_device(op::normal_float_Tensor, |a| {
        let std = a.tensor(1)?;
        check_std_tensor(std)?;
        float_tensor(&empty(std.sizes(), std)?, a)
    })
    .any_device(op::normal_float_Tensor_out, |a| float_tensor(a.tensor(3)?, a))
    .any_device(op::normal_Tensor_Tensor, |a| {
        let (mean, std) = (a.tensor(0)?, a.tensor(1)?);
        check_std_tensor(std)?;
        tensor_tensor(&empty(&shape::broadcast(mean.sizes(), std.sizes())?, mean)?, a)
    })
    .any_device(op::normal_Tensor_Tensor_out, |a| tensor_tensor(a.tensor(3)?, a))
    .explicit(op::normal_float_float, |a| {
        let out = new(a, a.int_list(2)?, 4, None)?;
        float_float(&out, a)
    })
    .explicit(op::normal_float_float_out, |a| float_float(&resized(a.tensor(4)?, a.int_list(2)?)?, a));
}

fn empty(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    factory::empty_format(sizes, like.dtype(), like.device(), MemoryFormat::Contiguous)
}

/// `CHECK_NORMAL_TENSOR_STD`
fn check_std_tensor(std: &Tensor) -> Result<()> {
    check!(!std.dtype().is_complex(), "normal expects standard deviation to be non-complex");
    if std.numel() == 0 || std.is_meta() {
        return Ok(());
    }
    let doubles = crate::ops::copy::contiguous(&crate::ops::copy::convert(std, DType::Double)?)?;
    // SAFETY: a contiguous CPU tensor of doubles that nobody else has.
    let all = unsafe { doubles.as_slice::<f64>() }.iter().all(|s| *s >= 0.0);
    check!(all, "normal expects all elements of std >= 0.0");
    Ok(())
}

fn standard(out: &Tensor, std: f64, g: Option<&Generator>) -> Result<()> {
    op::normal_.call((out, 0.0, std, g.cloned()))?;
    Ok(())
}

/// normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor
fn tensor_float(out: &Tensor, a: Args<'_>) -> Result<Returns> {
    let (mean, std) = (a.tensor(0)?, a.double(1)?);
    check_std(std)?;
    let out = resized(out, &shape::broadcast(mean.sizes(), out.sizes())?)?;
    standard(&out, std, a.opt_generator(2))?;
    op::add__Tensor.call((&out, mean))?;
    Ok(out.into())
}

/// normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor
fn float_tensor(out: &Tensor, a: Args<'_>) -> Result<Returns> {
    let (mean, std) = (a.double(0)?, a.tensor(1)?);
    check_std_tensor(std)?;
    let mean = match out.dtype() {
        d if d.is_floating_point() || d.is_complex() => factory::scalar_tensor(Scalar::Float(mean), d)?,
        d => bail!(NotImplemented, "\"normal_kernel_cpu\" not implemented for '{}'", d.scalar_type_name()),
    };
    let out = resized(out, std.sizes())?;
    standard(&out, 1.0, a.opt_generator(2))?;
    op::mul__Tensor.call((&out, std))?;
    op::add__Tensor.call((&out, mean))?;
    Ok(out.into())
}

/// normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor
fn tensor_tensor(out: &Tensor, a: Args<'_>) -> Result<Returns> {
    let (mean, std) = (a.tensor(0)?, a.tensor(1)?);
    check_std_tensor(std)?;
    let out = resized(out, &shape::broadcast(mean.sizes(), std.sizes())?)?;
    standard(&out, 1.0, a.opt_generator(2))?;
    op::mul__Tensor.call((&out, std))?;
    op::add__Tensor.call((&out, mean))?;
    Ok(out.into())
}

/// normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, …) -> Tensor
fn float_float(out: &Tensor, a: Args<'_>) -> Result<Returns> {
    op::normal_.call((out, a.double(0)?, a.double(1)?, a.opt_generator(3).cloned()))?;
    Ok(out.into())
}
