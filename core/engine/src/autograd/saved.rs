//! Tensors kept for backward, with the checks upstream makes when they are used.

use super::{Edge, Node};
use crate::ivalue::IntList;
use crate::{DType, Device, Layout, Result, Tensor, bail, op};
use std::sync::Arc;

/// What a tensor looked like.
#[derive(Clone, Debug)]
pub struct TypeAndSize {
    pub sizes: IntList,
    pub strides: IntList,
    pub offset: i64,
    pub dtype: DType,
    pub device: Device,
    pub layout: Layout,
}

impl TypeAndSize {
    pub fn of(t: &Tensor) -> TypeAndSize {
        TypeAndSize {
            sizes: IntList::from_slice(t.sizes()),
            strides: IntList::from_slice(t.strides()),
            offset: t.storage_offset(),
            dtype: t.dtype(),
            device: t.device(),
            layout: t.layout(),
        }
    }
    /// Zeros of this shape.
    ///
    /// # Errors
    /// Out of memory.
    pub fn zeros(&self) -> Result<Tensor> {
        op::zeros.call((self.sizes.clone(), self.dtype, self.layout, self.device))
    }
}

/// Turns a saved tensor into something else while it is kept (`torch.autograd.graph.saved_tensors_hooks`).
pub trait SavedHooks: Send + Sync {
    /// Takes the packed object back to a tensor.
    ///
    /// # Errors
    /// Whatever the host raises.
    fn unpack(&self) -> Result<Tensor>;
}

/// Packs a tensor by the innermost pair of hooks; `None` when there are none.
pub type PackHook = fn(&Tensor) -> Result<Option<Arc<dyn SavedHooks>>>;
static PACK: std::sync::OnceLock<PackHook> = std::sync::OnceLock::new();

/// Installs the host's stack of hooks; the first caller wins.
pub fn set_pack_hook(f: PackHook) {
    let _ = PACK.set(f);
}

/// What is kept of a saved tensor.
enum Data {
    /// The tensor itself.
    Original(Tensor),
    /// An alias without history, because the tensor is an output of the node that saves it: holding the output would be a cycle.
    Detached { data: Tensor, output_nr: u32, requires_grad: bool },
    Packed {
        hooks: Arc<dyn SavedHooks>,
        edge: Option<Edge>,
        output_nr: u32,
        requires_grad: bool,
        is_output: bool,
    },
}

/// A tensor kept for backward.
pub struct SavedVariable {
    data: Data,
    version: u32,
}

/// Upstream's text for a graph whose saved tensors are gone.
pub const RELEASED: &str = "Trying to backward through the graph a second time (or directly access saved tensors after they have \
already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify \
retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.";

impl SavedVariable {
    /// Keeps a tensor. `is_output`: it is a result of the operation whose node keeps it; `inplace_on_view`: written through a view,
    /// whose history is that of its base.
    ///
    /// # Errors
    /// Whatever a packing hook raises.
    pub fn new(t: &Tensor, is_output: bool, inplace_on_view: bool) -> Result<SavedVariable> {
        let version = t.version();
        if let Some(pack) = PACK.get() {
            let alias = super::detached_alias(t)?;
            if let Some(hooks) = pack(&alias)? {
                let edge = if is_output { None } else { super::record::gradient_edge(t) };
                let output_nr = t.autograd_meta().map_or(0, |m| m.output_nr);
                let requires_grad = t.requires_grad();
                return Ok(SavedVariable {
                    data: Data::Packed { hooks, edge, output_nr, requires_grad, is_output },
                    version,
                });
            }
        }
        let data = if is_output && (inplace_on_view || !t.is_leaf()) {
            Data::Detached {
                data: super::detached_alias(t)?,
                output_nr: t.autograd_meta().map_or(0, |m| m.output_nr),
                requires_grad: t.requires_grad(),
            }
        } else {
            Data::Original(t.clone())
        };
        Ok(SavedVariable { data, version })
    }

    /// The tensor, with its history; `node` is the node that keeps it.
    ///
    /// # Errors
    /// The tensor was written after it was saved.
    pub fn unpack(&self, node: &Arc<Node>) -> Result<Tensor> {
        let reattach = |data: &Tensor, edge: Option<Edge>, requires_grad: bool| -> Result<Tensor> {
            let t = super::detached_alias(data)?;
            match edge {
                Some(e) => super::set_history(&t, e.node, e.input_nr),
                None if requires_grad => t.autograd_meta_mut().requires_grad_leaf = true,
                None => {}
            }
            Ok(t)
        };
        match &self.data {
            Data::Original(t) => {
                self.check_version(t, None, node)?;
                Ok(t.clone())
            }
            Data::Detached { data, output_nr, requires_grad } => {
                self.check_version(data, Some(*output_nr), node)?;
                let edge = requires_grad.then(|| Edge { node: node.clone(), input_nr: *output_nr });
                reattach(data, edge, *requires_grad)
            }
            Data::Packed { hooks, edge, output_nr, requires_grad, is_output } => {
                let data = hooks.unpack()?;
                let edge = match (is_output, requires_grad) {
                    (true, true) => Some(Edge { node: node.clone(), input_nr: *output_nr }),
                    _ => edge.clone(),
                };
                // A leaf accumulates through its own node, which keeps it.
                reattach(&data, edge, *requires_grad)
            }
        }
    }

    fn check_version(&self, t: &Tensor, output_nr: Option<u32>, node: &Arc<Node>) -> Result<()> {
        let now = t.version();
        if now == self.version || t.is_inference() {
            return Ok(());
        }
        let sizes: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
        let mut message = format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: [{} [{}]]",
            t.type_string(),
            sizes.join(", ")
        );
        let made_by = match output_nr {
            Some(nr) => Some((node.short_name().to_string(), nr)),
            None => t
                .grad_fn()
                .map(|n| (n.short_name().to_string(), t.autograd_meta().map_or(0, |m| m.output_nr))),
        };
        if let Some((name, nr)) = made_by {
            message += &format!(", which is output {nr} of {name},");
        }
        message += &format!(
            " is at version {now}; expected version {} instead. Hint: enable anomaly detection to find the operation that failed to \
             compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).",
            self.version
        );
        bail!(Runtime, "{message}")
    }

    /// Gives up the history of what is kept, so that a long chain is freed in a loop.
    pub(super) fn take_nodes(&mut self, into: &mut Vec<Option<Edge>>) {
        match &mut self.data {
            Data::Original(t) if t.use_count() == 1 => {
                if let Some(m) = t.autograd_meta_if_any() {
                    into.extend(m.grad_fn.take().map(|node| Some(Edge { node, input_nr: 0 })));
                }
            }
            Data::Packed { edge, .. } => into.push(edge.take()),
            _ => {}
        }
    }
}
