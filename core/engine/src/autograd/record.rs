//! Recording an operation: edges to the inputs' nodes, a node on the outputs.

use super::node::{Kind, Node};
use super::{AutogradMeta, Edge};
use crate::dispatch::Operator;
use crate::ivalue::{IValue, Stack};
use crate::{Result, Tensor, bail, check};
use std::sync::Arc;

/// A recording between the start of a call and its end.
pub struct Pending {
    op: &'static Operator,
    edges: Vec<Option<Edge>>,
    mutates: u64,
}

/// The edge that a gradient for this tensor takes.
pub fn gradient_edge(t: &Tensor) -> Option<Edge> {
    let m = t.autograd_meta()?;
    if let Some(node) = &m.grad_fn {
        return Some(Edge { node: node.clone(), input_nr: m.output_nr });
    }
    if !m.requires_grad_leaf {
        return None;
    }
    let node = m.grad_accumulator.upgrade().unwrap_or_else(|| {
        let n =
            Node::new("AccumulateGrad".into(), String::new(), Kind::AccumulateGrad(t.clone()), Vec::new());
        t.autograd_meta_mut().grad_accumulator = Arc::downgrade(&n);
        n
    });
    Some(Edge { node, input_nr: 0 })
}

/// `AddBackward0`: upstream's name of the node of an operator.
fn node_name(op: &Operator) -> String {
    let base = op.name.split_once("::").map_or(op.name.as_str(), |(_, b)| b).trim_end_matches('_');
    let mut name = String::new();
    for part in base.split('_') {
        let mut chars = part.chars();
        if let Some(c) = chars.next() {
            name.extend(c.to_uppercase());
            name.push_str(chars.as_str());
        }
    }
    name + "Backward0"
}

/// Collects the inputs' edges.
///
/// # Errors
/// An in-place write to a leaf that requires grad, or an out argument that requires grad.
pub fn begin(op: &'static Operator, stack: &Stack) -> Result<Pending> {
    let s = op.signature()?;
    let mut edges = Vec::new();
    for (i, v) in stack.iter().enumerate() {
        let written = s.mutates & (1 << i) != 0;
        let out = s.outs & (1 << i) != 0;
        let mut bad = None;
        v.for_each_tensor(&mut |t| {
            if out {
                if t.requires_grad() {
                    bad = Some(out_message(op));
                }
                return;
            }
            if written && t.is_leaf() && t.requires_grad() {
                bad = Some(if t.view_base().is_some() {
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                        .to_string()
                } else {
                    "a leaf Variable that requires grad is being used in an in-place operation.".to_string()
                });
            }
            edges.push(gradient_edge(t));
        });
        if let Some(message) = bad {
            bail!(Runtime, "{message}");
        }
    }
    if s.outs != 0 {
        bail!(Runtime, "{}", out_message(op));
    }
    Ok(Pending { op, edges, mutates: s.mutates })
}

fn out_message(op: &Operator) -> String {
    let base = op.name.split_once("::").map_or(op.name.as_str(), |(_, b)| b);
    format!(
        "{base}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
    )
}

/// Puts the node on the results.
pub fn finish(p: Pending, stack: &mut Stack) -> Result<()> {
    let node = Node::new(node_name(p.op), p.op.qualified_name(), Kind::Operator, p.edges);
    let mut nr = 0;
    for v in stack.iter() {
        let mut failed = Ok(());
        v.for_each_tensor(&mut |t| {
            if (t.dtype().is_floating_point() || t.dtype().is_complex()) && failed.is_ok() {
                failed = set_history(t, &node, nr, p.mutates != 0);
            }
            nr += 1;
        });
        failed?;
    }
    let _ = IValue::None;
    Ok(())
}

fn set_history(t: &Tensor, node: &Arc<Node>, nr: u32, written: bool) -> Result<()> {
    check!(
        written || t.is_leaf() || t.view_base().is_some(),
        Internal; "{} returned a tensor with a history of its own", node.operator
    );
    let m: &mut AutogradMeta = t.autograd_meta_mut();
    m.grad_fn = Some(node.clone());
    m.output_nr = nr;
    Ok(())
}
