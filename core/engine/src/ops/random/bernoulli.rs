//! `bernoulli`: trials with one probability, or with a tensor of them.

use super::factories::resized;
use super::{byte_view, cpp, fill, functional, generator};
use crate::dispatch::{Registry, Returns};
use crate::iter::{TensorIterator, loops};
use crate::ivalue::Args;
use crate::random::{Bernoulli, Float, RandomElement};
use crate::tensor::{factory, memory, shape};
use crate::{DType, Generator, MemoryFormat, Result, Tensor, bail, check, dispatch, op};

pub(crate) fn register(r: &mut Registry) {
    r.any_device(op::bernoulli__float, |a| {
        let t = a.tensor(0)?;
        fill_scalar(t, a.double(1)?, a.opt_generator(2))?;
        Ok(t.into())
    })
    .any_device(op::bernoulli__Tensor, |a| {
        let t = a.tensor(0)?;
        fill_tensor(t, a.tensor(1)?, a.opt_generator(2))?;
        Ok(t.into())
    })
    .explicit(op::bernoulli, |a| {
        let t = a.tensor(0)?;
        let out = contiguous_like(t)?;
        op::bernoulli__Tensor.call((&out, t, a.opt_generator(1).cloned())).map(Into::into)
    })
    .explicit(op::bernoulli_p, |a| {
        let out = contiguous_like(a.tensor(0)?)?;
        op::bernoulli__float.call((&out, a.double(1)?, a.opt_generator(2).cloned())).map(Into::into)
    })
    .any_device(op::bernoulli_out, |a| {
        let (t, out) = (a.tensor(0)?, a.tensor(2)?);
        let out = resized(out, t.sizes())?;
        fill_tensor(&out, t, a.opt_generator(1))?;
        Ok(out.into())
    })
    .explicit(op::bernoulli_float_out, float_out);
    functional!(r, bernoulli_Tensor => bernoulli__Tensor);
}

fn contiguous_like(t: &Tensor) -> Result<Tensor> {
    if t.is_cpu() || t.is_meta() {
        return factory::empty_like(t, t.dtype(), MemoryFormat::Contiguous);
    }
    op::empty_like.call((t, (), (), (), (), MemoryFormat::Contiguous))
}

/// bernoulli.float_out(Tensor self, float p=0.5, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)
fn float_out(a: Args<'_>) -> Result<Returns> {
    let (t, out) = (a.tensor(0)?, a.tensor(3)?);
    let drawn = op::bernoulli_p.call((t, a.double(1)?, a.opt_generator(2).cloned()))?;
    let out = resized(out, t.sizes())?;
    op::copy_.call((&out, &drawn))?;
    Ok(out.into())
}

/// `bernoulli_(p)` without the dispatcher.
pub(super) fn fill_scalar(t: &Tensor, p: f64, g: Option<&Generator>) -> Result<()> {
    if t.is_meta() {
        return Ok(());
    }
    check!((0.0..=1.0).contains(&p), "bernoulli_ expects p to be in [0, 1], but got p={}", cpp(p));
    if t.numel() == 0 {
        return Ok(());
    }
    memory::assert_no_internal_overlap(t)?;
    check_elements("bernoulli_scalar_cpu_", t.dtype())?;
    let t = &byte_view(t);
    dispatch!("bernoulli_scalar_cpu_", t.dtype(), all, T => fill::<T>(t, g, &Bernoulli::Double(p)))
}

fn check_elements(name: &str, dtype: DType) -> Result<()> {
    dispatch!(name, dtype, all_bool, T => Ok(()))
}

/// `bernoulli_(tensor)` without the dispatcher.
fn fill_tensor(t: &Tensor, p: &Tensor, g: Option<&Generator>) -> Result<()> {
    if t.numel() == 0 || t.is_meta() {
        return Ok(());
    }
    memory::assert_no_internal_overlap(t)?;
    check_elements("bernoulli_tensor_cpu_self_", t.dtype())?;
    check!(p.is_cpu(), NotImplemented; "bernoulli_ on the CPU with probabilities on {}", p.device());
    let (sizes, strides) = shape::expand_strides(p.sizes(), p.strides(), t.sizes())?;
    let p = p.alias_with(sizes, strides, p.storage_offset());
    let t = &byte_view(t);
    let it = TensorIterator::config().output(Some(t)).input(&p).build()?;
    dispatch!("bernoulli_tensor_cpu_self_", t.dtype(), all, T => {
        dispatch!("bernoulli_tensor_cpu_p_", p.dtype(), floating, P => trials::<T, P>(&it, g))
    })
}

fn trials<T: RandomElement, P: Float>(it: &TensorIterator, g: Option<&Generator>) -> Result<()> {
    let mut valid = true;
    generator(g).with_cpu(|g| {
        loops::serial_unary(it, |p: P| {
            let p = p.to_f64();
            // Nothing is drawn from the first bad probability on.
            valid &= (0.0..=1.0).contains(&p);
            if !valid {
                return T::from_i64(0);
            }
            let trial = if P::DOUBLE { Bernoulli::Double(p) } else { Bernoulli::Single(p as f32) };
            T::from_i64(i64::from(trial.trial(g)))
        });
    })?;
    if !valid {
        bail!(
            Runtime,
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
        );
    }
    Ok(())
}
