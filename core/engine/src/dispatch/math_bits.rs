//! The Conjugate and Negative keys: tensors that are conjugated or negated only when they are read. An operator that does
//! not know them gets their values instead.

use super::call::redispatch;
use super::key::{DispatchKey, DispatchKeySet};
use super::operator::{Kernel, Operator, set_fallback};
use crate::ivalue::{IValue, Stack};
use crate::tensor::{factory, memory};
use crate::{MemoryFormat, Result, Tensor, generated};
use smallvec::SmallVec;
use std::sync::Arc;

/// Installs the fallbacks of both keys.
pub fn register() {
    for key in [DispatchKey::Conjugate, DispatchKey::Negative] {
        let run = move |op: &'static Operator, ks: DispatchKeySet, stack: &mut Stack| {
            materialise(op, ks, stack, key)
        };
        set_fallback(key, Kernel::Boxed(Arc::new(run)));
    }
}

/// Operators that keep the bits, look at them, or look at no value.
fn passes(op: &Operator) -> bool {
    let Some(id) = op.id else { return false };
    let info = generated::info(id);
    matches!(
        info.name,
        "copy_"
            | "clone"
            | "_to_copy"
            | "set_"
            | "resize_"
            | "resize_as_"
            | "detach"
            | "detach_"
            | "empty_like"
            | "zeros_like"
            | "ones_like"
            | "full_like"
            | "rand_like"
            | "randn_like"
            | "new_empty"
            | "new_empty_strided"
            | "new_zeros"
            | "new_ones"
            | "new_full"
            | "_local_scalar_dense"
            | "is_same_size"
            | "_has_same_storage_numel"
    ) || info.has_tag("inplace_view")
}

/// The values, without either bit.
fn resolved(t: &Tensor) -> Result<Tensor> {
    let out = factory::empty_like(t, t.dtype(), MemoryFormat::Preserve)?;
    crate::ops::copy::copy_into(&out, t)?;
    Ok(out)
}

fn materialise(op: &'static Operator, ks: DispatchKeySet, stack: &mut Stack, key: DispatchKey) -> Result<()> {
    let ks = ks.remove(key);
    let s = op.signature()?;
    if s.is_view || passes(op) {
        return redispatch(op, ks, stack);
    }
    let lazy = |t: &Tensor| t.is_conj() || t.is_neg();
    // Written tensors, with what stands for them.
    let mut written: SmallVec<[(Tensor, Tensor); 2]> = SmallVec::new();
    for (i, v) in stack.iter_mut().enumerate() {
        let writes = s.mutates & (1 << i.min(63)) != 0;
        let mut replace = |t: &mut Tensor| -> Result<()> {
            if lazy(t) {
                let plain = resolved(t)?;
                if writes {
                    written.push((t.clone(), plain.clone()));
                }
                *t = plain;
            }
            Ok(())
        };
        match v {
            IValue::Tensor(t) => replace(t)?,
            IValue::TensorList(list) => list.iter_mut().try_for_each(&mut replace)?,
            IValue::OptTensorList(list) => list.iter_mut().flatten().try_for_each(&mut replace)?,
            _ => {}
        }
    }
    redispatch(op, ks, stack)?;
    for (original, plain) in &written {
        if original.sizes() != plain.sizes() {
            memory::resize_output(original, plain.sizes(), Some(plain.strides()))?;
        }
        crate::ops::copy::copy_into(original, plain)?;
        for v in stack.iter_mut() {
            if let IValue::Tensor(t) = v
                && t.is_same(plain)
            {
                *t = original.clone();
            }
        }
    }
    Ok(())
}
