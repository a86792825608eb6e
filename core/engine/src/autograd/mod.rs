//! Autograd: the state of tensors, the graph that operators record, and the engine that runs it backward.

pub mod engine;
pub mod formula;
pub mod node;
pub mod record;
pub mod saved;
pub mod view;

pub use node::{Edge, Grads, Kind, Node};
pub use saved::TypeAndSize;
pub use view::CreationMeta;

use crate::dispatch::{DispatchKeySet, tls};
use crate::{Result, Tensor, check, op};
use std::any::Any;
use std::sync::{Arc, Mutex, Weak};

/// What a tensor knows of its derivative.
#[derive(Default)]
pub struct AutogradMeta {
    /// A leaf that collects a gradient.
    pub requires_grad_leaf: bool,
    /// The node that made the tensor.
    pub grad_fn: Option<Arc<Node>>,
    /// Which output of that node it is.
    pub output_nr: u32,
    pub grad: Option<Tensor>,
    /// Where backward leaves the gradient of a tensor that is no leaf, once `retain_grad` was asked for.
    pub retained: Option<Arc<Mutex<Option<Tensor>>>>,
    /// The leaf's accumulating node, while somebody holds it.
    pub grad_accumulator: Weak<Node>,
    /// Hooks on the gradient of a leaf: given to its accumulating node when that is made.
    pub leaf_hooks: node::Hooks,
    /// The host's hooks (`_backward_hooks` and kin), opaque to the engine.
    pub hooks: Option<Box<dyn Any + Send>>,
    pub name: Option<String>,
    /// Of a view: how it was made.
    pub creation_meta: CreationMeta,
    /// Of a view: the version of its data when `grad_fn` was set.
    pub attr_version: u32,
}

/// Makes `node`'s output `nr` the origin of a tensor.
pub fn set_history(t: &Tensor, node: Arc<Node>, nr: u32) {
    let version = t.version();
    let m = t.autograd_meta_mut();
    m.attr_version = version;
    let former = m.output_nr;
    m.output_nr = nr;
    let old = m.grad_fn.replace(node.clone());
    if let Some(old) = &old
        && !Arc::ptr_eq(old, &node)
    {
        moved(m, old, former, &node);
    }
    drop(old);
}

/// A tensor got another maker: hooks on its former value's gradient stay with the former node, `retain_grad` follows the
/// tensor.
fn moved(m: &mut AutogradMeta, old: &Node, former: u32, new: &Node) {
    let hooks = m.hooks.take();
    if let Some(cell) = &m.retained {
        old.hooks(|h| h.retained.remove(&former));
        new.hooks(|h| h.retained.insert(m.output_nr, cell.clone()));
    }
    drop(hooks);
}

/// An alias of a tensor's data that shares its version counter and has no history. A tensor that the host answers for
/// is detached by the host.
///
/// # Errors
/// What the host raises.
pub fn detached_alias(t: &Tensor) -> Result<Tensor> {
    let python = crate::dispatch::DispatchKey::Python;
    if t.key_set().has_functionality(python) && !tls::is_excluded(python) {
        let _guard = tls::StateGuard::exclude(DispatchKeySet::AUTOGRAD | DispatchKeySet::INPLACE_OR_VIEW);
        return op::detach.call((t,));
    }
    Ok(plain_alias(t))
}

/// As [`detached_alias`], whoever answers for the tensor.
pub(crate) fn plain_alias(t: &Tensor) -> Tensor {
    let alias = t.alias_with(t.sizes().into(), t.strides().into(), t.storage_offset());
    if alias.device() == t.device() {
        alias.set_key_set(t.key_set().minus(DispatchKeySet::PYTHON));
    }
    alias.share_version(t);
    alias
}

impl Tensor {
    /// Made by no recorded operation.
    pub fn is_leaf(&self) -> bool {
        self.grad_fn().is_none()
    }
    /// The node that made the tensor. For a view of a base that was written since, that is a view of the base as it is now.
    pub fn grad_fn(&self) -> Option<Arc<Node>> {
        if let Some(base) = self.view_base() {
            let m = self.autograd_meta();
            let known = m.and_then(|m| m.grad_fn.as_ref());
            if (known.is_some() || base.requires_grad())
                && m.map_or(0, |m| m.attr_version) != self.version()
                && base.requires_grad()
            {
                return view::regenerated(self, base);
            }
        }
        self.autograd_meta().and_then(|m| m.grad_fn.clone())
    }
    /// The accumulated gradient; of a tensor that is no leaf, the one kept by `retain_grad`.
    pub fn grad(&self) -> Option<Tensor> {
        let m = self.autograd_meta()?;
        match &m.retained {
            Some(cell) => cell.lock().unwrap_or_else(|e| e.into_inner()).clone(),
            None => m.grad.clone(),
        }
    }
    pub fn set_grad(&self, grad: Option<Tensor>) {
        let m = self.autograd_meta_mut();
        let old = match &m.retained {
            Some(cell) => std::mem::replace(&mut *cell.lock().unwrap_or_else(|e| e.into_inner()), grad),
            None => std::mem::replace(&mut m.grad, grad),
        };
        drop(old);
    }
    /// Asks backward to keep this tensor's gradient.
    ///
    /// # Errors
    /// The tensor does not require grad.
    pub fn retain_grad(&self) -> crate::Result<()> {
        check!(self.requires_grad(), "can't retain_grad on Tensor that has requires_grad=False");
        let Some(node) = self.grad_fn() else { return Ok(()) };
        let m = self.autograd_meta_mut();
        if m.retained.is_none() {
            let cell = Arc::new(Mutex::new(m.grad.take()));
            node.hooks(|h| h.retained.insert(m.output_nr, cell.clone()));
            m.retained = Some(cell);
        }
        Ok(())
    }
    pub fn retains_grad(&self) -> bool {
        self.autograd_meta().is_some_and(|m| m.retained.is_some())
    }
    /// Sets `requires_grad` of a leaf.
    ///
    /// # Errors
    /// Not a leaf, or a dtype without derivatives.
    pub fn set_requires_grad(&self, on: bool) -> crate::Result<()> {
        check!(
            !on || self.dtype().is_floating_point() || self.dtype().is_complex(),
            "only Tensors of floating point dtype can require gradients"
        );
        if !self.is_leaf() {
            check!(
                on,
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph \
                 that doesn't require differentiation use var_no_grad = var.detach()."
            );
            return Ok(());
        }
        if on && self.is_inference() && !crate::dispatch::tls::inference_mode() {
            crate::bail!(
                Runtime,
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            );
        }
        if on || self.autograd_meta().is_some() {
            self.autograd_meta_mut().requires_grad_leaf = on;
        }
        Ok(())
    }
}
