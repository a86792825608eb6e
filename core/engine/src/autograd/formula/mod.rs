//! Derivatives by upstream's formulas: what a node keeps, and how it turns gradients of results into gradients of inputs.

mod eval;
mod helpers;
mod parse;
mod resolve;
pub mod table;

pub use eval::Value;
pub use table::{Clause, Derivative};

use super::saved::{RELEASED, SavedVariable, TypeAndSize};
use super::view::Geometry;
use super::{Edge, Grads, Kind, Node};
use crate::dispatch::{Operator, Signature, operator};
use crate::ivalue::{IValue, Stack};
use crate::{Result, Tensor, bail, check, op};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Something kept under a name.
enum Kept {
    Value(Value),
    Tensor(SavedVariable),
    Tensors(Vec<Option<SavedVariable>>),
}

/// The body of a node whose derivative comes from the table.
pub struct Formula {
    op: &'static Operator,
    derivative: &'static Derivative,
    /// Which of the node's edges belong to each input.
    ranges: Vec<Range<usize>>,
    kept: Mutex<Option<Vec<(&'static str, Kept)>>>,
}

impl Formula {
    pub fn new(op: &'static Operator, derivative: &'static Derivative, ranges: Vec<Range<usize>>) -> Formula {
        Formula { op, derivative, ranges, kept: Mutex::new(Some(Vec::new())) }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Vec<(&'static str, Kept)>>> {
        self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The operator that was recorded.
    pub fn operator(&self) -> &'static Operator {
        self.op
    }

    fn range(&self, input: &str) -> Range<usize> {
        let i = self.derivative.inputs.iter().position(|n| *n == input);
        i.and_then(|i| self.ranges.get(i).cloned()).unwrap_or(0..0)
    }

    /// Whether a value is used by a formula whose result somebody wants.
    fn wanted(&self, node: &Node, name: &str) -> bool {
        self.derivative.clauses.iter().any(|c| {
            c.uses.contains(&name) && c.inputs.iter().any(|i| self.range(i).any(|edge| node.has_edge(edge)))
        })
    }

    fn keep(&self, name: &'static str, kept: Kept) {
        if let Some(v) = self.locked().as_mut() {
            v.push((name, kept));
        }
    }

    /// Keeps what the formulas need of the arguments.
    ///
    /// # Errors
    /// Whatever a packing hook raises.
    pub fn save_inputs(&self, node: &Arc<Node>, signature: &Signature, stack: &Stack) -> Result<()> {
        for k in self.derivative.keeps.iter().filter(|k| !k.is_output) {
            if !self.wanted(node, k.name) {
                continue;
            }
            let argument = |name: &str| {
                let i = signature.schema.arguments.iter().position(|a| a.name == name)?;
                Some((i, stack.get(i)?))
            };
            let kept = match argument(k.source) {
                Some((i, v)) => {
                    let written = signature.mutates & (1 << i) != 0;
                    self.kept_value(v, false, written, false)?
                }
                None => {
                    Kept::Value(eval::property(k.source, &|name| argument(name).map(|(_, v)| v.clone()))?)
                }
            };
            self.keep(k.name, kept);
        }
        Ok(())
    }

    /// Keeps what the formulas need of the results.
    ///
    /// # Errors
    /// Whatever a packing hook raises.
    pub fn save_outputs(&self, signature: &Signature, stack: &Stack, inplace: bool) -> Result<()> {
        for k in self.derivative.keeps.iter().filter(|k| k.is_output) {
            let returns = &signature.schema.returns;
            let result = |name: &str| {
                let number = |n: &str| if n.is_empty() { Some(0) } else { n.parse().ok() };
                let i = name
                    .strip_prefix("result")
                    .and_then(number)
                    .or_else(|| returns.iter().position(|r| r.name == name));
                // An operator that works in place returns its argument, by that name.
                i.or((name == "self").then_some(0)).and_then(|i| stack.get(i))
            };
            let Some(v) = result(k.source) else {
                // A property of a result.
                let value = eval::property(k.source, &|name| result(name).cloned())?;
                self.keep(k.name, Kept::Value(value));
                continue;
            };
            let on_view = inplace && v.opt_tensor().is_some_and(|t| t.view_base().is_some());
            let kept = self.kept_value(v, true, false, on_view)?;
            self.keep(k.name, kept);
        }
        Ok(())
    }

    fn kept_value(&self, v: &IValue, is_output: bool, written: bool, on_view: bool) -> Result<Kept> {
        let save = |t: &Tensor| -> Result<SavedVariable> {
            if written {
                // The operation overwrites it.
                let _guard = crate::dispatch::tls::StateGuard::no_grad();
                let copy = op::clone.call((t,))?;
                return SavedVariable::new(&copy, false, false);
            }
            SavedVariable::new(t, is_output, on_view)
        };
        Ok(match v {
            IValue::Tensor(t) if t.is_wrapped_number() => Kept::Value(Value::I(v.clone())),
            IValue::Tensor(t) => Kept::Tensor(save(t)?),
            IValue::TensorList(v) => {
                Kept::Tensors(v.iter().map(|t| save(t).map(Some)).collect::<Result<_>>()?)
            }
            IValue::OptTensorList(v) => {
                Kept::Tensors(v.iter().map(|t| t.as_ref().map(&save).transpose()).collect::<Result<_>>()?)
            }
            other => Kept::Value(Value::I(other.clone())),
        })
    }

    pub fn release(&self) {
        let old = self.locked().take();
        drop(old);
    }

    pub(super) fn take_nodes(&mut self, into: &mut Vec<Option<Edge>>) {
        let kept = self.kept.get_mut().unwrap_or_else(|e| e.into_inner());
        for (_, k) in kept.iter_mut().flatten() {
            match k {
                Kept::Tensor(t) => t.take_nodes(into),
                Kept::Tensors(v) => v.iter_mut().flatten().for_each(|t| t.take_nodes(into)),
                Kept::Value(_) => {}
            }
        }
    }

    /// The names of what is kept, as `_saved_NAME` shows them.
    pub fn saved_names(&self) -> Vec<&'static str> {
        self.derivative.keeps.iter().map(|k| k.name).collect()
    }

    /// A kept value; `None` for a name that was not kept.
    ///
    /// # Errors
    /// The graph was released, or the tensor was written since.
    pub fn saved(&self, node: &Arc<Node>, name: &str) -> Result<Option<Value>> {
        let kept = self.locked();
        let Some(kept) = kept.as_ref() else { bail!(Runtime, "{RELEASED}") };
        let Some((_, k)) = kept.iter().find(|(n, _)| *n == name) else { return Ok(None) };
        Ok(Some(match k {
            Kept::Value(v) => v.clone(),
            Kept::Tensor(t) => Value::I(IValue::Tensor(t.unpack(node)?)),
            Kept::Tensors(v) => Value::I(IValue::OptTensorList(
                v.iter().map(|t| t.as_ref().map(|t| t.unpack(node)).transpose()).collect::<Result<_>>()?,
            )),
        }))
    }

    /// The gradients of the inputs.
    ///
    /// # Errors
    /// A released graph, a written saved tensor, or what an operator of a formula raises.
    pub fn apply(&self, node: &Arc<Node>, grads: Grads, needed: &dyn Fn(usize) -> bool) -> Result<Grads> {
        if !self.derivative.keeps.is_empty() && self.locked().is_none() {
            bail!(Runtime, "{RELEASED}");
        }
        let mut out = Grads::from_elem(None, node.num_outputs());
        // Nothing comes of gradients that did not arrive.
        if grads.iter().all(Option::is_none) {
            return Ok(out);
        }
        for clause in &self.derivative.clauses {
            let wants: Vec<bool> = clause.inputs.iter().map(|i| self.range(i).any(needed)).collect();
            if !wants.contains(&true) {
                continue;
            }
            let scope = eval::Scope { formula: self, node, grads: &grads, mask: &wants };
            let value = scope.eval(clause.expr()?).map_err(|e| self.explained(e))?;
            self.place(clause, &wants, value, &mut out)?;
        }
        Ok(out)
    }

    fn explained(&self, e: crate::Error) -> crate::Error {
        match e.kind {
            crate::ErrorKind::Internal => {
                crate::Error::new(e.kind, format!("backward of {}: {}", self.op.qualified_name(), e.message))
            }
            _ => e,
        }
    }

    fn place(&self, clause: &Clause, wants: &[bool], value: Value, out: &mut Grads) -> Result<()> {
        let values = match (clause.inputs.len(), value) {
            (1, v) => vec![v],
            (_, v) => v.into_tuple(clause.inputs.len())?,
        };
        for ((input, wanted), value) in clause.inputs.iter().zip(wants).zip(values) {
            let range = self.range(input);
            if !wanted {
                continue;
            }
            if range.len() == 1
                && !matches!(value, Value::I(IValue::TensorList(_) | IValue::OptTensorList(_)))
            {
                out[range.start] = value.into_opt_tensor()?;
                continue;
            }
            let list = value.into_opt_tensors()?;
            check!(
                list.len() == range.len() || list.is_empty(),
                Internal; "backward of {} gave {} gradients for {}", self.op.qualified_name(), list.len(), range.len()
            );
            for (slot, g) in range.zip(list) {
                out[slot] = g;
            }
        }
        Ok(())
    }

    /// The gradients' names in formulas and their position.
    fn grad_index(&self, name: &str) -> Option<usize> {
        self.derivative.grads.iter().position(|g| *g == name)
    }
}

/// A node that says: a view of `base` with this geometry.
pub(super) fn as_strided_node(base: &Tensor, g: &Geometry, edge: Edge) -> Arc<Node> {
    let op = operator(op::as_strided);
    let table::Entry::Derivative(d) = table::of(op) else { unreachable!("as_strided has a derivative") };
    let ranges = std::iter::once(0..1).collect();
    let node = Node::new(d.node_name(), Kind::Formula(Formula::new(op, d, ranges)), vec![Some(edge)]);
    if let (Kind::Formula(f), Ok(signature)) = (&node.kind, op.signature()) {
        let stack = Stack::from_iter([
            IValue::Tensor(super::plain_alias(base)),
            IValue::IntList(g.sizes.clone()),
            IValue::IntList(g.strides.clone()),
            IValue::Int(g.storage_offset),
        ]);
        // Geometry alone is kept, which cannot fail.
        let _ = f.save_inputs(&node, signature, &stack);
    }
    node
}

impl TypeAndSize {
    /// As a value of formulas.
    pub fn value(self) -> Value {
        Value::Info(Arc::new(self))
    }
}
