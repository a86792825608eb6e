//! What runs for an operator without a kernel of its own at a key: graph recording, version counting and view
//! tracking, upstream's decompositions, and the refusal by name.

use super::call::redispatch;
use super::key::{DispatchKey, DispatchKeySet};
use super::operator::Operator;
use super::tls;
use crate::autograd::CreationMeta;
use crate::ivalue::{IValue, Stack};
use crate::{Error, ErrorKind, Result, Tensor};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// Runs upstream's Python decomposition; `None` when there is none.
pub type DecompositionHook = fn(&'static Operator, DispatchKeySet, &mut Stack) -> Option<Result<()>>;
static DECOMPOSE: OnceLock<DecompositionHook> = OnceLock::new();

/// Installs the host's decompositions; the first caller wins.
pub fn set_decomposition_hook(f: DecompositionHook) {
    let _ = DECOMPOSE.set(f);
}

/// Runs the host's decomposition.
///
/// # Errors
/// What it raises; the refusal by name where there is none.
pub fn decompose(op: &'static Operator, ks: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    if let Some(f) = DECOMPOSE.get()
        && let Some(r) = f(op, ks, stack)
    {
        return r;
    }
    Err(missing(op, ks, stack))
}

/// The error for an operator that is not here.
#[cold]
pub(super) fn missing(op: &Operator, ks: DispatchKeySet, stack: &Stack) -> Error {
    let mut dtypes: Vec<String> = Vec::new();
    for v in stack {
        v.for_each_tensor(&mut |t| dtypes.push(format!("torch.{}", t.dtype().torch_name())));
    }
    dtypes.dedup();
    let with = if dtypes.is_empty() { String::new() } else { format!(" (dtypes: {})", dtypes.join(", ")) };
    Error::new(
        ErrorKind::NotImplemented,
        format!(
            "Could not run '{}' with arguments from the '{}' backend{with}: torchnative has no kernel and no decomposition for it.",
            op.qualified_name(),
            ks.highest().name()
        ),
    )
}

/// Whether a call must record a graph: grad mode is on and an input requires grad.
#[inline]
pub(super) fn needs_graph(_op: &Operator, stack: &Stack) -> bool {
    if !tls::grad_mode() {
        return false;
    }
    let mut any = false;
    for v in stack {
        match v {
            IValue::Tensor(t) => any |= t.requires_grad(),
            IValue::TensorList(_) | IValue::OptTensorList(_) | IValue::List(_) => {
                v.for_each_tensor(&mut |t| any |= t.requires_grad())
            }
            _ => {}
        }
    }
    any
}

/// Bumps the versions of written arguments and marks results of view operators.
pub(super) fn inplace_or_view(op: &'static Operator, ks: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let s = op.signature()?;
    if s.mutates != 0 {
        let mut written: SmallVec<[Tensor; 2]> = SmallVec::new();
        for (i, v) in stack.iter().enumerate() {
            if s.mutates & (1 << i) != 0 {
                v.for_each_tensor(&mut |t| written.push(t.clone()));
            }
        }
        redispatch(op, ks, stack)?;
        written.iter().for_each(Tensor::bump_version);
        return Ok(());
    }
    let base = stack.iter().find_map(|v| v.opt_tensor().cloned());
    redispatch(op, ks, stack)?;
    if let Some(base) = base {
        let several = stack.len() > 1 || matches!(stack.first(), Some(IValue::TensorList(_)));
        let inherited = base.autograd_meta().map_or(CreationMeta::Default, |m| m.creation_meta);
        let creation = if tls::inference_mode() {
            CreationMeta::InferenceMode
        } else if several {
            if tls::grad_mode() { CreationMeta::MultiOutputNode } else { CreationMeta::NoGradMode }
        } else if !tls::grad_mode() {
            CreationMeta::NoGradMode
        } else {
            inherited
        };
        // A view in another dtype has no gradient and so no base.
        let differentiable = op.id != Some(crate::op::view_dtype);
        let mut mark = |t: &Tensor| {
            if t.storage().ptr_eq(base.storage())
                && !t.is_same(&base)
                && t.view_base().is_none()
                && !t.is_inference()
            {
                t.share_version(&base);
                if !differentiable {
                    return;
                }
                t.set_view_base(Some(base.view_base().cloned().unwrap_or_else(|| base.clone())));
                if creation != CreationMeta::Default || base.version() != 0 {
                    let m = t.autograd_meta_mut();
                    m.creation_meta = creation;
                    m.attr_version = base.version();
                }
            }
        };
        stack.iter().for_each(|v| v.for_each_tensor(&mut mark));
    }
    Ok(())
}

const _: () = assert!(DispatchKey::Undefined.0 == 0);
