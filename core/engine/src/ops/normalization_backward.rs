//! Gradients of layer, group, batch and RMS normalisation. With y = (x - mean) rstd over the normalised elements and h the
//! gradient times the weight: dx = rstd (h - mean(h) - y mean(h y)); an RMS norm has no mean.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IValue, IntList};
use crate::{DType, Result, Tensor, op};

pub(crate) fn register(r: &mut Registry) {
    r.cpu(op::native_layer_norm_backward, layer_norm_backward)
        .meta(op::native_layer_norm_backward, layer_norm_meta);
    r.explicit(op::native_group_norm_backward, group_norm_backward);
    r.explicit(op::native_batch_norm_backward, batch_norm_backward);
    r.explicit(op::_fused_rms_norm_backward, rms_norm_backward);
}

/// A tensor in the type that statistics are kept in.
fn wide(t: &Tensor, d: DType) -> Result<Tensor> {
    if t.dtype() == d { Ok(t.clone()) } else { op::_to_copy.call((t, d)) }
}

fn opmath(d: DType) -> DType {
    if d == DType::Double { DType::Double } else { DType::Float }
}

fn sum(t: &Tensor, dims: &IntList, keep: bool) -> Result<Tensor> {
    if dims.is_empty() { Ok(t.clone()) } else { op::sum_dim_IntList.call((t, dims.clone(), keep)) }
}

fn back(t: Tensor, d: DType) -> Result<IValue> {
    Ok(IValue::Tensor(wide(&t, d)?))
}

fn returns(items: [IValue; 3]) -> Returns {
    Returns(items.into_iter().collect())
}

fn layer_norm_meta(a: Args<'_>) -> Result<Returns> {
    let (x, mask) = (a.tensor(1)?, a.bool_list(7)?);
    let like = |on: bool, t: Option<&Tensor>| -> Result<IValue> {
        Ok(match (on, t) {
            (true, Some(t)) => {
                op::empty_like.call((t, (), (), (), (), crate::MemoryFormat::Contiguous))?.into()
            }
            _ => IValue::None,
        })
    };
    Ok(returns([like(mask[0], Some(x))?, like(mask[1], a.opt_tensor(5))?, like(mask[2], a.opt_tensor(6))?]))
}

/// native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight,
/// Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
fn layer_norm_backward(a: Args<'_>) -> Result<Returns> {
    let (grad, x, rank) = (a.tensor(0)?, a.tensor(1)?, a.int_list(2)?.len());
    let mask = a.bool_list(7)?;
    let d = opmath(x.dtype());
    let inner: IntList = ((x.dim() - rank) as i64..x.dim() as i64).collect();
    let outer: IntList = (0..(x.dim() - rank) as i64).collect();
    let (mean, rstd) = (wide(a.tensor(3)?, d)?, wide(a.tensor(4)?, d)?);
    let (g, xf) = (wide(grad, d)?, wide(x, d)?);
    let y = op::mul_Tensor.call((op::sub_Tensor.call((&xf, mean))?, &rstd))?;
    let mut out = [IValue::None, IValue::None, IValue::None];
    if mask[0] {
        let h = match a.opt_tensor(5) {
            Some(w) => op::mul_Tensor.call((&g, wide(w, d)?))?,
            None => g.clone(),
        };
        out[0] = back(centred(&h, &y, &rstd, &inner)?, x.dtype())?;
    }
    if let (true, Some(w)) = (mask[1], a.opt_tensor(5)) {
        out[1] = back(sum(&op::mul_Tensor.call((&g, &y))?, &outer, false)?, w.dtype())?;
    }
    if let (true, Some(b)) = (mask[2], a.opt_tensor(6)) {
        out[2] = back(sum(&g, &outer, false)?, b.dtype())?;
    }
    Ok(returns(out))
}

/// `rstd (h - mean(h) - y mean(h y))`
fn centred(h: &Tensor, y: &Tensor, rstd: &Tensor, over: &IntList) -> Result<Tensor> {
    let mean = |t: &Tensor| op::mean_dim.call((t, over.clone(), true));
    let along = op::mul_Tensor.call((y, mean(&op::mul_Tensor.call((h, y))?)?))?;
    let rest = op::sub_Tensor.call((op::sub_Tensor.call((h, mean(h)?))?, along))?;
    op::mul_Tensor.call((rest, rstd))
}

/// native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C,
/// SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
fn group_norm_backward(a: Args<'_>) -> Result<Returns> {
    let (grad, x) = (a.tensor(0)?, a.tensor(1)?);
    let (n, c, hw, groups) = (a.int(5)?, a.int(6)?, a.int(7)?, a.int(8)?);
    let mask = a.bool_list(9)?;
    let d = opmath(x.dtype());
    let stat = |t: &Tensor| op::reshape.call((wide(t, d)?, [n, groups, 1, 1]));
    let shaped = |t: &Tensor| op::reshape.call((wide(t, d)?, [n, groups, c / groups, hw]));
    let (mean, rstd) = (stat(a.tensor(2)?)?, stat(a.tensor(3)?)?);
    let g = shaped(grad)?;
    let y = op::mul_Tensor.call((op::sub_Tensor.call((shaped(x)?, mean))?, &rstd))?;
    let channel =
        |t: &Tensor| -> Result<Tensor> { op::reshape.call((op::sum_dim_IntList.call((t, [0, 3]))?, [c])) };
    let mut out = [IValue::None, IValue::None, IValue::None];
    if mask[0] {
        let h = match a.opt_tensor(4) {
            Some(w) => {
                op::mul_Tensor.call((&g, op::reshape.call((wide(w, d)?, [1, groups, c / groups, 1]))?))?
            }
            None => g.clone(),
        };
        let dx = centred(&h, &y, &rstd, &IntList::from_slice(&[2, 3]))?;
        out[0] = back(op::reshape.call((dx, x.sizes()))?, x.dtype())?;
    }
    let w_dtype = a.opt_tensor(4).map_or(x.dtype(), Tensor::dtype);
    if mask[1] {
        out[1] = back(channel(&op::mul_Tensor.call((&g, &y))?)?, w_dtype)?;
    }
    if mask[2] {
        out[2] = back(channel(&g)?, w_dtype)?;
    }
    Ok(returns(out))
}

/// native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var,
/// Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
fn batch_norm_backward(a: Args<'_>) -> Result<Returns> {
    let (grad, x) = (a.tensor(0)?, a.tensor(1)?);
    let (train, eps, mask) = (a.bool(7)?, a.double(8)?, a.bool_list(9)?);
    let d = opmath(x.dtype());
    let mut shape = IntList::from_elem(1, x.dim());
    shape[1] = x.sizes()[1];
    let over: IntList = (0..x.dim() as i64).filter(|i| *i != 1).collect();
    let stat = |t: &Tensor| op::reshape.call((wide(t, d)?, shape.clone()));
    let (mean, rstd) = if train {
        (stat(a.tensor(5)?)?, stat(a.tensor(6)?)?)
    } else {
        let var = op::add_Scalar.call((stat(a.tensor(4)?)?, eps))?;
        (stat(a.tensor(3)?)?, op::rsqrt.call((var,))?)
    };
    let (g, xf) = (wide(grad, d)?, wide(x, d)?);
    let y = op::mul_Tensor.call((op::sub_Tensor.call((xf, mean))?, &rstd))?;
    let mut out = [IValue::None, IValue::None, IValue::None];
    if mask[0] {
        let h = match a.opt_tensor(2) {
            Some(w) => op::mul_Tensor.call((&g, stat(w)?))?,
            None => g.clone(),
        };
        let dx = if train { centred(&h, &y, &rstd, &over)? } else { op::mul_Tensor.call((h, &rstd))? };
        out[0] = back(dx, x.dtype())?;
    }
    let w_dtype = a.opt_tensor(2).map_or(d, Tensor::dtype);
    if mask[1] {
        out[1] = back(sum(&op::mul_Tensor.call((&g, &y))?, &over, false)?, w_dtype)?;
    }
    if mask[2] {
        out[2] = back(sum(&g, &over, false)?, w_dtype)?;
    }
    Ok(returns(out))
}

/// _fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2]
/// output_mask) -> (Tensor, Tensor)
fn rms_norm_backward(a: Args<'_>) -> Result<Returns> {
    let (grad, x, rank) = (a.tensor(0)?, a.tensor(1)?, a.int_list(2)?.len());
    let mask = a.bool_list(5)?;
    let d = opmath(x.dtype());
    let inner: IntList = ((x.dim() - rank) as i64..x.dim() as i64).collect();
    let outer: IntList = (0..(x.dim() - rank) as i64).collect();
    let rstd = wide(a.tensor(3)?, d)?;
    let g = wide(grad, d)?;
    let y = op::mul_Tensor.call((wide(x, d)?, &rstd))?;
    let mut out = [IValue::None, IValue::None];
    if mask[0] {
        let h = match a.opt_tensor(4) {
            Some(w) => op::mul_Tensor.call((&g, wide(w, d)?))?,
            None => g.clone(),
        };
        let along = op::mean_dim.call((op::mul_Tensor.call((&h, &y))?, inner, true))?;
        let rest = op::sub_Tensor.call((h, op::mul_Tensor.call((&y, along))?))?;
        out[0] = back(op::mul_Tensor.call((rest, &rstd))?, x.dtype())?;
    }
    if let (true, Some(w)) = (mask[1], a.opt_tensor(4)) {
        out[1] = back(sum(&op::mul_Tensor.call((&g, &y))?, &outer, false)?, w.dtype())?;
    }
    Ok(Returns(out.into_iter().collect()))
}
