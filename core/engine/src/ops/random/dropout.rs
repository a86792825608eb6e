//! Dropout: the fused `native_dropout` and the composites `dropout`, `feature_dropout`, `alpha_dropout`,
//! `feature_alpha_dropout`.

use super::bernoulli::fill_scalar;
use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::tensor::factory;
use crate::{DType, Device, MemoryFormat, Result, Scalar, Tensor, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::native_dropout, native_dropout)
        .any_device(op::native_dropout_backward, native_dropout_backward)
        .implicit(op::dropout, composite::<false, false, false>)
        .implicit(op::dropout_, composite::<false, false, true>)
        .implicit(op::feature_dropout, composite::<true, false, false>)
        .implicit(op::feature_dropout_, composite::<true, false, true>)
        .implicit(op::alpha_dropout, composite::<false, true, false>)
        .implicit(op::alpha_dropout_, composite::<false, true, true>)
        .implicit(op::feature_alpha_dropout, composite::<true, true, false>)
        .implicit(op::feature_alpha_dropout_, composite::<true, true, true>);
}

/// native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
fn native_dropout(a: Args<'_>) -> Result<Returns> {
    let (input, p) = (a.tensor(0)?, a.double(1)?);
    let train = a.is_none(2) || a.bool(2)?;
    if input.numel() == 0 {
        return Ok((input.clone(), factory::empty_like(input, input.dtype(), MemoryFormat::Preserve)?).into());
    }
    let mask = factory::empty_like(input, DType::Bool, MemoryFormat::Preserve)?;
    if !train {
        op::fill__Scalar.call((&mask, true))?;
        return Ok((op::clone.call((input,))?, mask).into());
    }
    let keep = 1.0 - p;
    let scale = if keep == 0.0 { 0.0 } else { 1.0 / keep };
    fill_scalar(&mask, keep, None)?;
    let output = op::mul_Tensor.call((input, &mask))?;
    op::mul__Scalar.call((&output, scale))?;
    Ok((output, mask).into())
}

/// native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor
fn native_dropout_backward(a: Args<'_>) -> Result<Returns> {
    let kept = op::mul_Tensor.call((a.tensor(0)?, a.tensor(1)?))?;
    op::mul_Scalar.call((kept, a.double(2)?)).map(Into::into)
}

/// (Tensor input, float p, bool train) -> Tensor
fn composite<const FEATURE: bool, const ALPHA: bool, const INPLACE: bool>(a: Args<'_>) -> Result<Returns> {
    let (input, p, train) = (a.tensor(0)?, a.double(1)?, a.bool(2)?);
    if !FEATURE && !ALPHA && !INPLACE && train && is_fused(input, p) {
        let mut results = op::native_dropout.call_all((input, p, train))?;
        results.truncate(1);
        return Ok(Returns(results.into_iter().collect()));
    }
    check!(
        (0.0..=1.0).contains(&p),
        "dropout probability has to be between 0 and 1, but got {}",
        super::cpp(p)
    );
    if p == 0.0 || !train || input.numel() == 0 {
        return Ok(input.into());
    }
    let multiply = |by: &Tensor| {
        let multiplication = if INPLACE { op::mul__Tensor } else { op::mul_Tensor };
        multiplication.call((input, by))
    };
    if p == 1.0 {
        let zero = op::zeros.call(([0i64; 0], input.dtype(), input.layout(), input.device()))?;
        return multiply(&zero).map(Into::into);
    }
    let noise = if FEATURE { feature_noise(input)? } else { op::empty_like.call((input,))? };
    op::bernoulli__float.call((&noise, 1.0 - p))?;
    if !ALPHA {
        op::div__Scalar.call((&noise, 1.0 - p))?;
        return multiply(&noise).map(Into::into);
    }
    // The negative saturation value of SELU, its lambda times its alpha.
    const SATURATION: f64 = 1.7580993408473766;
    let scale = 1.0 / ((SATURATION * SATURATION * p + 1.0) * (1.0 - p)).sqrt();
    let shift = op::add_Scalar.call((&noise, Scalar::Int(-1)))?;
    op::mul__Scalar.call((&shift, SATURATION * scale))?;
    op::add__Scalar.call((&shift, SATURATION * scale * p))?;
    op::mul__Scalar.call((&noise, scale))?;
    let product = multiply(&noise)?;
    op::add__Tensor.call((product, shift)).map(Into::into)
}

/// Whether an accelerator runs dropout as one kernel.
fn is_fused(input: &Tensor, p: f64) -> bool {
    let accelerated = |d: Device| !d.is_cpu() && !d.is_meta();
    accelerated(input.device()) && p > 0.0 && p < 1.0 && input.numel() > 0
}

/// One element for each sample and channel.
fn feature_noise(input: &Tensor) -> Result<Tensor> {
    check!(input.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input");
    let mut sizes = IntList::from_elem(1, input.dim());
    sizes[..2].copy_from_slice(&input.sizes()[..2]);
    op::empty_memory_format.call((sizes, input.dtype(), input.layout(), input.device()))
}
