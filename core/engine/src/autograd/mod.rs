//! Autograd state of tensors and the graph that operators record.

pub mod node;
pub mod record;

pub use node::{Edge, Node};

use crate::Tensor;
use std::any::Any;
use std::sync::{Arc, Weak};

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
    pub retains_grad: bool,
    /// The leaf's accumulating node, while somebody holds it.
    pub grad_accumulator: Weak<Node>,
    /// The host's hooks (`_backward_hooks` and kin), opaque to the engine.
    pub hooks: Option<Box<dyn Any + Send>>,
    pub name: Option<String>,
}

impl AutogradMeta {
    pub fn requires_grad(&self) -> bool {
        self.requires_grad_leaf || self.grad_fn.is_some()
    }
}

impl Tensor {
    /// Made by no recorded operation.
    pub fn is_leaf(&self) -> bool {
        self.autograd_meta().is_none_or(|m| m.grad_fn.is_none())
    }
    pub fn grad_fn(&self) -> Option<Arc<Node>> {
        self.autograd_meta().and_then(|m| m.grad_fn.clone())
    }
    pub fn grad(&self) -> Option<Tensor> {
        self.autograd_meta().and_then(|m| m.grad.clone())
    }
    /// Sets `requires_grad` of a leaf.
    ///
    /// # Errors
    /// Not a leaf, or a dtype without derivatives.
    pub fn set_requires_grad(&self, on: bool) -> crate::Result<()> {
        crate::check!(
            !on || self.dtype().is_floating_point() || self.dtype().is_complex(),
            "only Tensors of floating point dtype can require gradients"
        );
        if !self.is_leaf() {
            crate::check!(
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
