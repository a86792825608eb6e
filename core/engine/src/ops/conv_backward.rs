//! Gradients of convolutions, by convolutions and products of windows.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IValue, IntList};
use crate::{DType, MemoryFormat, Result, Tensor, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::_convolution_double_backward, double_backward);
    r.explicit(op::convolution_backward, |a| {
        let bias = a.0[3].opt_int_list()?.is_some();
        let c = Conv {
            stride: spread(a.int_list(4)?, a.tensor(1)?),
            padding: spread(a.int_list(5)?, a.tensor(1)?),
            dilation: spread(a.int_list(6)?, a.tensor(1)?),
            transposed: a.bool(7)?,
            groups: a.int(9)?,
        };
        backward(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, bias, &c, a.bool_list(10)?)
    });
}

/// _convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor weight, Tensor self, SymInt[] stride,
/// SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) ->
/// (Tensor, Tensor, Tensor): the gradients of `gO`, `weight` and `self`, whose order in the result is `gO`, `self`, `weight`.
///
/// A convolution is linear in its input and in its weight, and so are its derivatives in the incoming gradient: the derivative
/// of `<ggI, dI>` is that of `<conv(ggI, weight), gO>`, the derivative of `<ggW, dW>` that of `<conv(self, ggW), gO>`.
fn double_backward(a: Args<'_>) -> Result<Returns> {
    let (gg_input, gg_weight, gg_bias) = (a.opt_tensor(0), a.opt_tensor(1), a.opt_tensor(2));
    let (grad, weight, x) = (a.tensor(3)?, a.tensor(4)?, a.tensor(5)?);
    let mask = a.bool_list(12)?;
    let list = |i: usize| Ok::<_, crate::Error>(IntList::from_slice(a.int_list(i)?));
    let (stride, padding, dilation, extra) = (list(6)?, list(7)?, list(8)?, list(10)?);
    let (transposed, groups) = (a.bool(9)?, a.int(11)?);
    let convolve = |x: &Tensor, w: &Tensor, bias: Option<&Tensor>| {
        op::convolution.call((
            x,
            w,
            bias.map_or(IValue::None, IValue::from),
            stride.clone(),
            padding.clone(),
            dilation.clone(),
            transposed,
            extra.clone(),
            groups,
        ))
    };
    let back = |x: &Tensor, w: &Tensor, which: usize| -> Result<IValue> {
        let mut out = op::convolution_backward.call_all((
            grad,
            x,
            w,
            IValue::None,
            stride.clone(),
            padding.clone(),
            dilation.clone(),
            transposed,
            extra.clone(),
            groups,
            IValue::BoolList(vec![which == 0, which == 1, false]),
        ))?;
        Ok(out.swap_remove(which))
    };
    let mut out = [IValue::None, IValue::None, IValue::None];
    if mask[0] {
        let mut sum = match gg_input {
            Some(gg) => Some(convolve(gg, weight, gg_bias)?),
            None => None,
        };
        if let Some(gg) = gg_weight {
            let bias = if sum.is_none() { gg_bias } else { None };
            let part = convolve(x, gg, bias)?;
            sum = Some(match sum {
                Some(sum) => op::add_Tensor.call((sum, part))?,
                None => part,
            });
        }
        out[0] = match (sum, gg_bias) {
            (Some(sum), _) => sum.into(),
            (None, Some(bias)) => {
                let mut sizes = IntList::from_elem(1, grad.dim());
                sizes[1] = bias.numel();
                let wide = op::view.call((bias, sizes))?;
                op::expand.call((wide, IntList::from_slice(grad.sizes())))?.into()
            }
            (None, None) => IValue::None,
        };
    }
    if mask[1]
        && let Some(gg) = gg_weight
    {
        out[1] = back(x, gg, 0)?;
    }
    if mask[2]
        && let Some(gg) = gg_input
    {
        out[2] = back(gg, weight, 1)?;
    }
    Ok(Returns(out.into_iter().collect()))
}

/// One value for each spatial dimension.
fn spread(v: &[i64], x: &Tensor) -> IntList {
    if v.len() == 1 { IntList::from_elem(v[0], x.dim() - 2) } else { IntList::from_slice(v) }
}

struct Conv {
    stride: IntList,
    padding: IntList,
    dilation: IntList,
    transposed: bool,
    groups: i64,
}

/// convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding,
/// SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
fn backward(grad: &Tensor, x: &Tensor, w: &Tensor, bias: bool, c: &Conv, mask: &[bool]) -> Result<Returns> {
    let mut out = [IValue::None, IValue::None, IValue::None];
    if mask[0] {
        out[0] = to_input(grad, x, w, c)?.into();
    }
    if mask[1] {
        out[1] = to_weight(grad, x, w, c)?.into();
    }
    if mask[2] && bias {
        let over: IntList = (0..grad.dim() as i64).filter(|d| *d != 1).collect();
        out[2] = op::sum_dim_IntList.call((grad, over))?.into();
    }
    Ok(Returns(out.into_iter().collect()))
}

/// The gradient of the input: the convolution of the other direction.
fn to_input(grad: &Tensor, x: &Tensor, w: &Tensor, c: &Conv) -> Result<Tensor> {
    if x.numel() == 0 || grad.numel() == 0 {
        return op::zeros_like.call((x,));
    }
    let extra: IntList = if c.transposed {
        IntList::from_elem(0, c.stride.len())
    } else {
        (0..c.stride.len())
            .map(|i| {
                let (n, k) = (grad.sizes()[i + 2], w.sizes()[i + 2]);
                let back = (n - 1) * c.stride[i] - 2 * c.padding[i] + c.dilation[i] * (k - 1) + 1;
                x.sizes()[i + 2] - back
            })
            .collect()
    };
    op::convolution.call((
        grad,
        w,
        IValue::None,
        c.stride.clone(),
        c.padding.clone(),
        c.dilation.clone(),
        !c.transposed,
        extra,
        c.groups,
    ))
}

/// The gradient of the weight: for each group, the products of one side's values with the windows that they met.
fn to_weight(grad: &Tensor, x: &Tensor, w: &Tensor, c: &Conv) -> Result<Tensor> {
    // A transposed convolution slides its windows over the output.
    let (values, slid) = if c.transposed { (x, grad) } else { (grad, x) };
    // Half-precision sums are kept in single precision.
    let wide = |t: &Tensor| match t.dtype() {
        DType::Half | DType::BFloat16 => op::_to_copy.call((t, DType::Float)),
        _ => Ok(t.clone()),
    };
    let (values, slid) = (&wide(values)?, &wide(slid)?);
    let spatial = c.stride.len();
    let (kernel, places) = (&w.sizes()[2..], &values.sizes()[2..]);
    if values.numel() == 0 || slid.numel() == 0 {
        return op::zeros_like.call((w,));
    }
    let mut pad = IntList::new();
    for d in (0..spatial).rev() {
        // Room for the last window, which an output padding may put past the end.
        let need = (places[d] - 1) * c.stride[d] + c.dilation[d] * (kernel[d] - 1) + 1;
        let have = slid.sizes()[d + 2] + c.padding[d];
        pad.extend([c.padding[d], (need - have).max(c.padding[d])]);
    }
    let padded = op::contiguous.call((op::constant_pad_nd.call((slid, pad, 0))?,))?;
    let groups = c.groups;
    let (values_per, slid_per) = (values.sizes()[1] / groups, slid.sizes()[1] / groups);
    let (area, window): (i64, i64) = (places.iter().product(), kernel.iter().product());
    let mut sum: Option<Tensor> = None;
    for n in 0..values.sizes()[0] {
        let one = op::select_int.call((&padded, 0, n))?;
        let st = one.strides();
        // channel, window position, place
        let mut sizes = IntList::from_slice(&one.sizes()[..1]);
        let mut strides = IntList::from_slice(&st[..1]);
        for d in 0..spatial {
            sizes.push(kernel[d]);
            strides.push(st[d + 1] * c.dilation[d]);
        }
        for d in 0..spatial {
            sizes.push(places[d]);
            strides.push(st[d + 1] * c.stride[d]);
        }
        let windows = op::as_strided.call((&one, sizes, strides, one.storage_offset()))?;
        let columns = op::reshape.call((windows, [groups, slid_per * window, area]))?;
        let left = op::reshape.call((op::select_int.call((values, 0, n))?, [groups, values_per, area]))?;
        let turned = op::transpose_int.call((columns, 1, 2))?;
        sum = Some(match sum {
            None => op::bmm.call((left, turned))?,
            Some(s) => op::baddbmm_.call((s, left, turned))?,
        });
    }
    let Some(sum) = sum else { return op::zeros_like.call((w,)) };
    let out = op::reshape.call((sum, w.sizes()))?;
    let out = if out.dtype() == w.dtype() { out } else { op::_to_copy.call((out, w.dtype()))? };
    let last = [x, w].iter().any(|t| t.suggest_memory_format() == MemoryFormat::ChannelsLast);
    if last && !w.is_meta() { op::contiguous.call((out, MemoryFormat::ChannelsLast)) } else { Ok(out) }
}
