//! Recording an operation: edges to the inputs' nodes, a node on the outputs.

use super::formula::{Derivative, Formula, table};
use super::view::{check_inplace, rebase_history};
use super::{Edge, Kind, Node, TypeAndSize, set_history};
use crate::dispatch::{DispatchKey, DispatchKeySet, Operator, Signature, decompose, redispatch, tls};
use crate::ivalue::{IValue, Stack};
use crate::{Result, Tensor, bail};
use std::sync::Arc;

/// The edge that a gradient for this tensor takes; `None` when it needs none.
pub fn gradient_edge(t: &Tensor) -> Option<Edge> {
    if let Some(node) = t.grad_fn() {
        return Some(Edge { node, input_nr: t.autograd_meta().map_or(0, |m| m.output_nr) });
    }
    let m = t.autograd_meta()?;
    if !m.requires_grad_leaf {
        return None;
    }
    Some(Edge { node: accumulator(t), input_nr: 0 })
}

/// The node that accumulates a leaf's gradient.
pub fn accumulator(t: &Tensor) -> Arc<Node> {
    if let Some(node) = t.autograd_meta().and_then(|m| m.grad_accumulator.upgrade()) {
        return node;
    }
    let node = Node::new("AccumulateGrad", Kind::AccumulateGrad(t.clone()), Vec::new());
    node.add_input(Some(TypeAndSize::of(t)));
    t.autograd_meta_mut().grad_accumulator = Arc::downgrade(&node);
    node
}

fn base_name(op: &Operator) -> &str {
    op.name.split_once("::").map_or(op.name.as_str(), |(_, b)| b)
}

/// Runs what lies below and ties its results to a graph node.
///
/// # Errors
/// What the operator raises; a write in place to a tensor that must not be; out arguments that take part in a graph.
pub fn record(op: &'static Operator, ks: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let signature = op.signature()?;
    if signature.outs != 0 {
        bail!(
            Runtime,
            "{}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.",
            base_name(op)
        );
    }
    let below = |stack: &mut Stack| {
        let _guard = tls::StateGuard::exclude(DispatchKeySet::AUTOGRAD);
        redispatch(op, ks, stack)
    };
    match table::of(op) {
        table::Entry::Derivative(d) => differentiable(op, signature, d, stack, below),
        // Its results never require grad.
        table::Entry::NotDifferentiable => below(stack),
        // Without a kernel and without a formula the parts of the operator record the graph.
        table::Entry::Unknown if op.decomposes(ks) && !ks.has_functionality(DispatchKey::Python) => {
            decompose(op, ks | DispatchKeySet::AUTOGRAD, stack)
        }
        table::Entry::Unknown => unknown(op, signature, stack, below),
    }
}

/// An operator with formulas.
fn differentiable(
    op: &'static Operator,
    signature: &'static Signature,
    d: &'static Derivative,
    stack: &mut Stack,
    below: impl FnOnce(&mut Stack) -> Result<()>,
) -> Result<()> {
    let mut edges = Vec::new();
    let mut ranges = Vec::new();
    for position in d.inputs(op)? {
        let start = edges.len();
        match &stack[*position] {
            IValue::TensorList(v) => edges.extend(v.iter().map(gradient_edge)),
            IValue::OptTensorList(v) => edges.extend(v.iter().map(|t| t.as_ref().and_then(gradient_edge))),
            IValue::Tensor(t) => edges.push(gradient_edge(t)),
            _ => edges.push(None),
        }
        ranges.push(start..edges.len());
    }
    let any = edges.iter().any(Option::is_some);
    let written: Vec<Tensor> = written(signature, stack);
    for t in &written {
        check_inplace(t, any || t.requires_grad())?;
    }
    if !any {
        return below(stack);
    }
    let node = Node::new(d.node_name(), Kind::Formula(Formula::new(op, d, ranges)), edges);
    let Kind::Formula(formula) = &node.kind else { unreachable!("made above") };
    formula.save_inputs(&node, signature, stack)?;
    below(stack)?;
    let mut nr = 0;
    for (i, v) in stack.iter().enumerate() {
        if !d.is_differentiable_output(i) {
            continue;
        }
        v.for_each_tensor(&mut |t| {
            if !written.is_empty() {
                if t.dtype().is_floating_point() || t.dtype().is_complex() {
                    rebase_history(t, node.clone());
                }
            } else if t.dtype().is_floating_point() || t.dtype().is_complex() {
                node.add_input(Some(TypeAndSize::of(t)));
                set_history(t, node.clone(), nr);
            } else {
                node.add_input(None);
            }
            nr += 1;
        });
    }
    formula.save_outputs(signature, stack, !written.is_empty())
}

fn written(signature: &Signature, stack: &Stack) -> Vec<Tensor> {
    let mut written = Vec::new();
    if signature.mutates != 0 {
        for (i, v) in stack.iter().enumerate() {
            if signature.mutates & (1 << i) != 0 {
                v.for_each_tensor(&mut |t| written.push(t.clone()));
            }
        }
    }
    written
}

/// An operator that nobody gave a derivative: its results require grad, and backward through them raises.
fn unknown(
    op: &'static Operator,
    signature: &'static Signature,
    stack: &mut Stack,
    below: impl FnOnce(&mut Stack) -> Result<()>,
) -> Result<()> {
    let mut edges = Vec::new();
    for v in stack.iter() {
        v.for_each_tensor(&mut |t| edges.push(gradient_edge(t)));
    }
    let written = written(signature, stack);
    for t in &written {
        check_inplace(t, true)?;
    }
    let message = format!("derivative for {} is not implemented", op.name);
    below(stack)?;
    let node = Node::new("NotImplemented", Kind::Error(message), edges);
    for v in stack.iter() {
        v.for_each_tensor(&mut |t| {
            if (t.dtype().is_floating_point() || t.dtype().is_complex()) && t.grad_fn().is_none() {
                if written.iter().any(|w| w.is_same(t)) {
                    rebase_history(t, node.clone());
                } else {
                    let nr = node.add_input(Some(TypeAndSize::of(t)));
                    set_history(t, node.clone(), nr);
                }
            }
        });
    }
    Ok(())
}
