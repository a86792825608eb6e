//! Normalisation by channels: `native_group_norm`, `native_batch_norm` and the operators around them.

use super::copy::{contiguous, convert, copy_into};
use super::normalization::parameter_dtype;
use crate::dispatch::{OutSpec, Registry, Returns, Specs};
use crate::ivalue::{Args, IntList};
use crate::tensor::{factory, shape};
use crate::{DType, MemoryFormat, Result, Tensor, check, dispatch, op};
use smallvec::SmallVec;
use torchnative_kernels::channels::{self, Moments};

pub(crate) fn register(r: &mut Registry) {
    r.structured(op::native_group_norm, group_meta, group);
    r.implicit(op::group_norm, group_norm);
    r.any_device(op::native_batch_norm, |a| {
        let stats = (a.opt_tensor(3), a.opt_tensor(4));
        Ok(batch(a, stats, a.bool(5)?, a.double(6)?, a.double(7)?)?.into())
    });
    r.any_device(op::_native_batch_norm_legit, |a| {
        let stats = (a.opt_tensor(3), a.opt_tensor(4));
        Ok(batch(a, stats, a.bool(5)?, a.double(6)?, a.double(7)?)?.into())
    });
    r.any_device(op::_native_batch_norm_legit_no_stats, |a| {
        Ok(batch(a, (None, None), a.bool(3)?, a.double(4)?, a.double(5)?)?.into())
    });
    r.explicit(op::_native_batch_norm_legit_no_training, |a| {
        let args = (
            a.tensor(0)?,
            a.opt_tensor(1),
            a.opt_tensor(2),
            a.tensor(3)?,
            a.tensor(4)?,
            false,
            a.double(5)?,
            a.double(6)?,
        );
        Ok(Returns(op::_native_batch_norm_legit.call_all(args)?.into_iter().collect()))
    });
    r.explicit(op::_native_batch_norm_legit_functional, |a| {
        let (mean, var) = (copied(a.tensor(3)?)?, copied(a.tensor(4)?)?);
        let (x, w, b) = (a.tensor(0)?, a.opt_tensor(1), a.opt_tensor(2));
        let args = (x, w, b, &mean, &var, a.bool(5)?, a.double(6)?, a.double(7)?);
        let out = op::_native_batch_norm_legit.call_all(args)?;
        Ok(Returns(out.into_iter().chain([mean.into(), var.into()]).collect()))
    });
    r.any_device(op::_batch_norm_with_update, |a| {
        let stats = (a.opt_tensor(3), a.opt_tensor(4));
        let (y, mean, invstd) = batch(a, stats, true, a.double(5)?, a.double(6)?)?;
        Ok((y, mean, invstd, reserve(a.tensor(0)?)?).into())
    });
    r.explicit(op::_batch_norm_with_update_functional, |a| {
        let (mean, var) = (copied(a.tensor(3)?)?, copied(a.tensor(4)?)?);
        let (x, w, b) = (a.tensor(0)?, a.opt_tensor(1), a.opt_tensor(2));
        let out = op::_batch_norm_with_update.call_all((x, w, b, &mean, &var, a.double(5)?, a.double(6)?))?;
        Ok(Returns(out.into_iter().chain([mean.into(), var.into()]).collect()))
    });
    r.explicit(op::_batch_norm_no_update, |a| {
        let t = a.tensor(0)?;
        let args = (t, a.opt_tensor(1), a.opt_tensor(2), a.opt_tensor(3), a.opt_tensor(4), false);
        let mut stack: crate::ivalue::Stack = crate::dispatch::IntoStack::into_stack(args);
        stack.push(a.double(5)?.into());
        stack.push(a.double(6)?.into());
        let mut out: SmallVec<[crate::ivalue::IValue; 2]> =
            op::native_batch_norm.call_all(stack)?.into_iter().collect();
        out.push(reserve(t)?.into());
        Ok(Returns(out))
    });
    r.any_device(op::batch_norm_update_stats, update_stats);
    r.implicit(op::_batch_norm_impl_index, impl_index);
    r.implicit(op::batch_norm, batch_norm);
    r.implicit(op::instance_norm, instance_norm);
}

fn copied(t: &Tensor) -> Result<Tensor> {
    op::clone.call((t,))
}

/// What other devices' libraries keep for their backward; nothing here.
fn reserve(t: &Tensor) -> Result<Tensor> {
    factory::empty(&[0], DType::Byte, t.device())
}

/// The strides that outputs take over from the input's memory format.
fn format_strides(t: &Tensor) -> Result<IntList> {
    let format = t.suggest_memory_format();
    shape::strides_for(
        t.sizes(),
        if format == MemoryFormat::Preserve { MemoryFormat::Contiguous } else { format },
    )
}

/// Parameters as wide numbers, one for each channel; a constant where they are absent.
fn wide(p: Option<&Tensor>, n: usize, absent: f64) -> Result<Vec<f64>> {
    let Some(p) = p else { return Ok(vec![absent; n]) };
    let p = contiguous(&convert(p, DType::Double)?)?;
    // SAFETY: a contiguous tensor of doubles.
    Ok(unsafe { p.as_slice::<f64>() }.to_vec())
}

/// native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps)
/// -> (Tensor, Tensor, Tensor)
fn group_meta(a: Args<'_>) -> Result<Specs> {
    let (t, weight, bias) = (a.tensor(0)?, a.opt_tensor(1), a.opt_tensor(2));
    let (n, c, hw, groups) = (a.int(3)?, a.int(4)?, a.int(5)?, a.int(6)?);
    check_groups(t, weight, bias, c, groups)?;
    check!(
        t.numel() == n * c * hw,
        "Expected the input to have {} elements, but it has {}",
        n * c * hw,
        t.numel()
    );
    let stats =
        OutSpec::new(IntList::from_slice(&[n, groups]), parameter_dtype(t, weight, bias)?, t.device());
    Ok(Specs::from_iter([OutSpec::like(t, t.sizes()).strides(format_strides(t)?), stats.clone(), stats]))
}

fn check_groups(
    t: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    c: i64,
    groups: i64,
) -> Result<()> {
    check!(groups > 0, "Expected num groups to be greater than 0, got {groups}");
    check!(
        c % groups == 0,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and \
         num_groups={groups}",
        t.sizes()
    );
    for (name, p) in [("weight", weight), ("bias", bias)] {
        if let Some(p) = p {
            check!(
                p.dim() == 1 && p.numel() == c,
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of \
                 shape {:?} and input of shape {:?}",
                p.sizes(),
                t.sizes()
            );
        }
    }
    Ok(())
}

fn group(a: Args<'_>, out: &[Tensor]) -> Result<()> {
    let (n, c, hw) = (a.int(3)? as usize, a.int(4)? as usize, a.int(5)? as usize);
    let (groups, eps) = (a.int(6)? as usize, a.double(7)?);
    let t = a.tensor(0)?;
    let x = contiguous(t)?;
    let size = c / groups * hw;
    if n == 0 || c == 0 {
        return Ok(());
    }
    let (weight, bias) = (a.opt_tensor(1), a.opt_tensor(2));
    let y = if out[0].is_contiguous() {
        out[0].clone()
    } else {
        factory::empty(t.sizes(), t.dtype(), t.device())?
    };
    let mut moments: Vec<Moments> = vec![(0.0, f64::NAN); n * groups];
    dispatch!("GroupNormKernelImpl", t.dtype(), floating, T => {
        type Acc<E> = <E as torchnative_kernels::elem::Elem>::Acc;
        let (gamma, beta) = (wide(weight, c, 1.0)?, wide(bias, c, 0.0)?);
        let (px, py) = (x.data_ptr() as *const T, y.data_ptr() as *mut T);
        if size > 0 {
            // SAFETY: contiguous tensors of T with `n * groups * size` elements; one pair of moments for each run.
            unsafe { channels::row_moments(n * groups, size, px, moments.as_mut_ptr()) };
        }
        for m in &mut moments {
            m.1 = 1.0 / (m.1 + eps).sqrt();
        }
        let mut scale: Vec<Acc<T>> = Vec::with_capacity(n * c);
        let mut shift: Vec<Acc<T>> = Vec::with_capacity(n * c);
        for i in 0..n * c {
            let (mean, rstd) = moments[i / (c / groups)];
            // Each step is rounded as upstream's is, in the type it computes in.
            let s = (rstd as Acc<T>) * gamma[i % c] as Acc<T>;
            scale.push(s);
            shift.push(beta[i % c] as Acc<T> - s * mean as Acc<T>);
        }
        // SAFETY: as above; a scale and a shift for each run of one channel.
        unsafe { channels::scale_runs(n * c, hw, px, scale.as_ptr(), shift.as_ptr(), |r| r, py) };
    });
    if !y.is_same(&out[0]) {
        copy_into(&out[0], &y)?;
    }
    write(&out[1], moments.iter().map(|m| m.0))?;
    write(&out[2], moments.iter().map(|m| m.1))
}

/// Writes numbers to a contiguous tensor of any floating dtype.
fn write(t: &Tensor, values: impl Iterator<Item = f64>) -> Result<()> {
    let list = factory::from_slice(&values.collect::<Vec<f64>>())?;
    copy_into(t, &list.alias_with(t.sizes().into(), shape::contiguous_strides(t.sizes()), 0))
}

/// group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn=True)
fn group_norm(a: Args<'_>) -> Result<Returns> {
    let (t, groups) = (a.tensor(0)?, a.int(1)?);
    let (n, c) = (t.size(0)?, t.size(1)?);
    check_groups(t, a.opt_tensor(2), a.opt_tensor(3), c, groups)?;
    let hw: i64 = t.sizes()[2..].iter().product();
    let format = t.suggest_memory_format();
    let x = if t.is_contiguous_format(format) { t.clone() } else { op::contiguous.call((t, format))? };
    let args = (x, a.opt_tensor(2), a.opt_tensor(3), n, c, hw, groups, a.double(4)?);
    Ok(op::native_group_norm.call_all(args)?.swap_remove(0).into())
}

/// The sizes around the channels: what is before, the channels, what is behind.
fn around(t: &Tensor) -> Result<(usize, usize, usize)> {
    let c = t.size(1)?;
    let inner: i64 = t.sizes()[2..].iter().product();
    Ok((t.sizes()[0] as usize, c as usize, inner as usize))
}

/// Normalises by channels; training takes the statistics of the batch, and updates running ones where there are any.
fn batch(
    a: Args<'_>,
    (mean, var): (Option<&Tensor>, Option<&Tensor>),
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (t, weight, bias) = (a.tensor(0)?, a.opt_tensor(1), a.opt_tensor(2));
    let (outer, c, inner) = around(t)?;
    for (name, p) in [("weight", weight), ("bias", bias), ("running_mean", mean), ("running_var", var)] {
        if let Some(p) = p {
            check!(p.numel() == c as i64, "{name} should contain {c} elements not {}", p.numel());
        }
    }
    if !training {
        check!(mean.is_some(), Value; "running_mean must be defined in evaluation mode");
        check!(var.is_some(), Value; "running_var must be defined in evaluation mode");
    }
    check!(
        t.dtype().is_floating_point() && !t.dtype().is_float8(),
        NotImplemented;
        "\"batch_norm\" not implemented for '{}'",
        t.dtype()
    );
    let params = parameter_dtype(t, weight.or(mean), bias.or(var))?;
    let out = factory::empty_strided(t.sizes(), &format_strides(t)?, t.dtype(), t.device())?;
    let stats = if training { [c as i64] } else { [0] };
    let saved = [factory::empty(&stats, params, t.device())?, factory::empty(&stats, params, t.device())?];
    if t.is_meta() {
        let [m, v] = saved;
        return Ok((out, m, v));
    }
    let x = contiguous(t)?;
    let y = if out.is_contiguous() { out.clone() } else { factory::empty(t.sizes(), t.dtype(), t.device())? };
    let count = (outer * inner) as f64;
    let moments: Vec<Moments> = if training {
        channel_moments(&x)?
    } else {
        wide(mean, c, 0.0)?.into_iter().zip(wide(var, c, 1.0)?).collect()
    };
    let (gamma, beta) = (wide(weight, c, 1.0)?, wide(bias, c, 0.0)?);
    dispatch!("batch_norm", t.dtype(), floating, T => {
        type Acc<E> = <E as torchnative_kernels::elem::Elem>::Acc;
        let mut scale: Vec<Acc<T>> = Vec::with_capacity(c);
        let mut shift: Vec<Acc<T>> = Vec::with_capacity(c);
        for i in 0..c {
            let (mean, var) = (moments[i].0 as Acc<T>, moments[i].1 as Acc<T>);
            // A batch's own statistics are rounded once, running ones are computed with as they are stored.
            let invstd = if training {
                (1.0 / (moments[i].1 + eps).sqrt()) as Acc<T>
            } else {
                1.0 / (var + eps as Acc<T>).sqrt()
            };
            let s = invstd * gamma[i] as Acc<T>;
            scale.push(s);
            shift.push(beta[i] as Acc<T> - mean * s);
        }
        let (px, py) = (x.data_ptr() as *const T, y.data_ptr() as *mut T);
        // SAFETY: contiguous tensors of T with `outer * c * inner` elements; a scale and a shift for each channel.
        unsafe { channels::scale_runs(outer * c, inner, px, scale.as_ptr(), shift.as_ptr(), |r| r % c, py) };
    });
    if !y.is_same(&out) {
        copy_into(&out, &y)?;
    }
    if training {
        write(&saved[0], moments.iter().map(|m| m.0))?;
        write(&saved[1], moments.iter().map(|m| 1.0 / (m.1 + eps).sqrt()))?;
        update(mean, momentum, moments.iter().map(|m| m.0))?;
        update(var, momentum, moments.iter().map(|m| m.1 * count / (count - 1.0)))?;
    }
    let [m, v] = saved;
    Ok((out, m, v))
}

/// Mean and biased variance of each channel.
fn channel_moments(x: &Tensor) -> Result<Vec<Moments>> {
    let (outer, c, inner) = around(x)?;
    let mut moments: Vec<Moments> = vec![(f64::NAN, f64::NAN); c];
    dispatch!("batch_norm", x.dtype(), floating, T => {
        // SAFETY: a contiguous tensor of T of these sizes; one pair for each channel.
        unsafe { channels::channel_moments(outer, c, inner, x.data_ptr() as *const T, moments.as_mut_ptr()) }
    });
    Ok(moments)
}

/// `running = momentum * new + (1 - momentum) * running`
fn update(running: Option<&Tensor>, momentum: f64, new: impl Iterator<Item = f64>) -> Result<()> {
    let Some(t) = running else { return Ok(()) };
    let old = wide(Some(t), 0, 0.0)?;
    write(t, old.into_iter().zip(new).map(|(old, new)| momentum * new + (1.0 - momentum) * old))
}

/// batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) -> (Tensor, Tensor)
fn update_stats(a: Args<'_>) -> Result<Returns> {
    let (t, mean, var, momentum) = (a.tensor(0)?, a.opt_tensor(1), a.opt_tensor(2), a.double(3)?);
    let (outer, c, inner) = around(t)?;
    let dtype = parameter_dtype(t, mean, var)?;
    let out = [0, 1].map(|_| factory::empty(&[c as i64], dtype, t.device()));
    let [m, v] = out;
    let (m, v) = (m?, v?);
    if !t.is_meta() {
        let moments = channel_moments(&contiguous(t)?)?;
        let count = (outer * inner) as f64;
        write(&m, moments.iter().map(|x| x.0))?;
        write(&v, moments.iter().map(|x| x.1))?;
        update(mean, momentum, moments.iter().map(|x| x.0))?;
        update(var, momentum, moments.iter().map(|x| x.1 * count / (count - 1.0)))?;
    }
    Ok((m, v).into())
}

/// The arguments of `batch_norm`, checked, for `native_batch_norm`.
fn checked(a: Args<'_>) -> Result<()> {
    let t = a.tensor(0)?;
    let c = t.size(1)?;
    let names = ["weight", "bias", "running_mean", "running_var"];
    for (name, p) in [(2, a.opt_tensor(3)), (3, a.opt_tensor(4)), (0, a.opt_tensor(1)), (1, a.opt_tensor(2))]
    {
        if let Some(p) = p {
            check!(p.numel() == c, "{} should contain {c} elements not {}", names[name], p.numel());
        } else if name >= 2 {
            check!(a.bool(5)?, "{} must be defined in evaluation mode", names[name]);
        }
    }
    Ok(())
}

/// A batch without elements keeps its parameters in the graph.
fn empty_batch(a: Args<'_>) -> Result<Tensor> {
    let mut out = op::clone.call((a.tensor(0)?,))?;
    for (i, id) in [(1, op::mul_Tensor), (2, op::add_Tensor)] {
        if let Some(p) = a.opt_tensor(i) {
            out = id.call((out, op::select_int.call((p, 0, 0))?))?;
        }
    }
    Ok(out)
}

/// _batch_norm_impl_index(…) -> (Tensor, Tensor, Tensor, Tensor, int)
fn impl_index(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    checked(a)?;
    if t.numel() == 0 {
        let none = |d| factory::empty(&[0], d, t.device());
        let out = (empty_batch(a)?, none(t.dtype())?, none(t.dtype())?, reserve(t)?);
        let (y, m, v, r) = out;
        return Ok(Returns(SmallVec::from_iter([y.into(), m.into(), v.into(), r.into(), 0i64.into()])));
    }
    let args = (
        t,
        a.opt_tensor(1),
        a.opt_tensor(2),
        a.opt_tensor(3),
        a.opt_tensor(4),
        a.bool(5)?,
        a.double(6)?,
        a.double(7)?,
    );
    let out = op::native_batch_norm.call_all(args)?;
    Ok(Returns(out.into_iter().chain([reserve(t)?.into(), 0i64.into()]).collect()))
}

/// batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training,
/// float momentum, float eps, bool cudnn_enabled) -> Tensor
fn batch_norm(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    // Upstream takes a tensor without channels for one with none of them.
    if t.dim() < 2
        && let Some(mean) = a.opt_tensor(3)
    {
        if mean.numel() == 0 {
            check!(t.numel() == 0, Index; "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
            return Ok(op::clone.call((t,))?.into());
        }
        crate::bail!(Runtime, "running_mean should contain 0 elements not {}", mean.numel());
    }
    let stack: crate::ivalue::Stack = a.0.iter().cloned().collect();
    Ok(op::_batch_norm_impl_index.call_all(stack)?.swap_remove(0).into())
}

/// instance_norm: batches and channels together are the channels of one batch.
fn instance_norm(a: Args<'_>) -> Result<Returns> {
    let t = a.tensor(0)?;
    let (mean, var, own) = (a.opt_tensor(3), a.opt_tensor(4), a.bool(5)?);
    check!(
        own || (mean.is_some() && var.is_some()),
        "Expected running_mean and running_var to be defined when use_input_stats is false"
    );
    let (b, c) = (t.size(0)?, t.size(1)?);
    let mut sizes = IntList::from_slice(t.sizes());
    (sizes[0], sizes[1]) = (1, b * c);
    let many = |p: Option<&Tensor>| p.map(|p| op::repeat.call((p, [b]))).transpose();
    let (m, v) = (many(mean)?, many(var)?);
    let x = op::view.call((op::contiguous.call((t,))?, sizes))?;
    let args = (
        x,
        many(a.opt_tensor(1))?,
        many(a.opt_tensor(2))?,
        m.clone(),
        v.clone(),
        own,
        a.double(6)?,
        a.double(7)?,
        a.bool(8)?,
    );
    let y = op::batch_norm.call(args)?;
    for (running, new) in [(mean, m), (var, v)] {
        if let (Some(running), Some(new)) = (running, new) {
            let each = op::mean_dim.call((op::view.call((new, [b, c]))?, [0], false))?;
            op::copy_.call((op::alias.call((running,))?, each))?;
        }
    }
    Ok(op::view.call((y, t.sizes()))?.into())
}
