//! In-place writes through views.

use super::{AutogradMeta, Grads, Kind, Node, TypeAndSize};
use crate::ivalue::IntList;
use crate::{Result, Tensor, check, op};
use std::sync::Arc;

/// How a view was made, which decides whether it may be written in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CreationMeta {
    #[default]
    Default,
    InCustomFunction,
    MultiOutputNode,
    NoGradMode,
    InferenceMode,
}

/// Where a tensor's elements lie.
#[derive(Clone)]
pub struct Geometry {
    pub sizes: IntList,
    pub strides: IntList,
    pub storage_offset: i64,
}

impl Geometry {
    pub fn of(t: &Tensor) -> Geometry {
        Geometry {
            sizes: IntList::from_slice(t.sizes()),
            strides: IntList::from_slice(t.strides()),
            storage_offset: t.storage_offset(),
        }
    }
}

/// The gradient of a base whose view was written: the written part goes through the writing operation's node.
pub struct CopySlices {
    base: Geometry,
    view: Geometry,
    pub inner: Arc<Node>,
}

impl CopySlices {
    /// The gradients of the base and of the operation's other inputs.
    ///
    /// # Errors
    /// Whatever the writing operation's derivative raises.
    pub fn apply(&self, grads: Grads, needed: &dyn Fn(usize) -> bool) -> Result<Grads> {
        let Some(grad) = grads.into_iter().next().flatten() else {
            return Ok(Grads::from_elem(None, self.inner.num_outputs()));
        };
        let result =
            op::new_empty_strided.call((&grad, self.base.sizes.clone(), self.base.strides.clone()))?;
        op::copy_.call((&result, &grad))?;
        let offset = self.view.storage_offset - self.base.storage_offset;
        let slice =
            op::as_strided.call((&result, self.view.sizes.clone(), self.view.strides.clone(), offset))?;
        let inner = super::engine::apply_node(
            &self.inner,
            Grads::from_iter([Some(op::clone.call((&slice,))?)]),
            &|i| needed(i) || i == 0,
        )?;
        let mut out = Grads::new();
        for (i, g) in inner.into_iter().enumerate() {
            if i == 0 {
                match g {
                    Some(g) => op::copy_.call((&slice, &g))?,
                    None => op::zero_.call((&slice,))?,
                };
                out.push(Some(result.clone()));
            } else {
                out.push(g);
            }
        }
        Ok(out)
    }
}

/// Checks an in-place write to a tensor that takes part in a graph.
///
/// # Errors
/// A leaf that requires grad, a view of one, or a view that must not be written in place.
pub fn check_inplace(t: &Tensor, requires_grad: bool) -> Result<()> {
    if !requires_grad || !crate::dispatch::tls::grad_mode() {
        return Ok(());
    }
    if let Some(base) = t.view_base() {
        let creation = t.autograd_meta().map_or(CreationMeta::Default, |m| m.creation_meta);
        if creation != CreationMeta::Default {
            return Err(bad_view(t, creation));
        }
        check!(
            !(base.is_leaf() && base.requires_grad()),
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        );
    }
    check!(
        !(t.is_leaf() && t.requires_grad()),
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    Ok(())
}

#[cold]
fn bad_view(t: &Tensor, creation: CreationMeta) -> crate::Error {
    let nr = t.autograd_meta().map_or(0, |m| m.output_nr);
    let prefix = match t.autograd_meta().and_then(|m| m.grad_fn.as_ref().map(|n| n.short_name().to_string()))
    {
        Some(name) => format!("Output {nr} of {name} is a view and is being modified inplace."),
        None => match creation {
            CreationMeta::InferenceMode => {
                "A view was created in inference mode and is being modified inplace".into()
            }
            _ => "A view was created in no_grad mode and is being modified inplace".to_string(),
        },
    };
    let mode = |name: &str, prefix: String| {
        format!(
            "{prefix} with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify \
             your code by moving both the view and the inplace either both inside the {name} block (if you don't want the inplace to \
             be tracked) or both outside (if you want the inplace to be tracked)."
        )
    };
    crate::Error::runtime(match creation {
        CreationMeta::MultiOutputNode => format!(
            "{prefix} This view is the output of a function that returns multiple views. Such functions do not allow the output \
             views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        ),
        CreationMeta::InCustomFunction => format!(
            "{prefix} This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic \
             to handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect \
             gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
        ),
        CreationMeta::InferenceMode => mode("inference_mode", prefix),
        _ => mode("no_grad", prefix),
    })
}

/// Makes a node the maker of a tensor that it wrote in place; for a view, the base learns of it too.
pub fn rebase_history(t: &Tensor, node: Arc<Node>) {
    let Some(base) = t.view_base().cloned() else {
        let nr = node.add_input(Some(TypeAndSize::of(t)));
        super::set_history(t, node, nr);
        return;
    };
    node.add_input(Some(TypeAndSize::of(t)));
    let mut edges = node.next_edges();
    let own = super::record::gradient_edge(&base);
    match edges.first_mut() {
        Some(first) => *first = own,
        None => edges.push(own),
    }
    let slices = CopySlices { base: Geometry::of(&base), view: Geometry::of(t), inner: node };
    let node = Node::new("CopySlices", Kind::CopySlices(slices), edges);
    node.add_input(Some(TypeAndSize::of(&base)));
    super::set_history(&base, node, 0);
    // The view's own history is that of a view of the new base; made when it is asked for.
    t.autograd_meta_mut().attr_version = u32::MAX;
    let _ = t.grad_fn();
}

/// The maker of a view whose base was written after the view was made: a view of the base as it is now.
pub(super) fn regenerated(t: &Tensor, base: &Tensor) -> Option<Arc<Node>> {
    let edge = super::record::gradient_edge(base)?;
    let g = Geometry::of(t);
    let node = super::formula::as_strided_node(base, &g, edge);
    node.add_input(Some(TypeAndSize::of(t)));
    let m: &mut AutogradMeta = t.autograd_meta_mut();
    let former = std::mem::replace(&mut m.output_nr, 0);
    m.attr_version = t.version();
    if let Some(old) = m.grad_fn.replace(node.clone()) {
        super::moved(m, &old, former, &node);
    }
    Some(node)
}
