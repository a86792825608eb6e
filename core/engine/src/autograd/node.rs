//! Graph nodes.

use crate::Tensor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A reference to an input of another node.
#[derive(Clone)]
pub struct Edge {
    pub node: Arc<Node>,
    pub input_nr: u32,
}

/// What a node does in backward.
pub enum Kind {
    /// Adds into a leaf's `grad`.
    AccumulateGrad(Tensor),
    /// The derivative of an operator.
    Operator,
}

/// A recorded operation.
pub struct Node {
    /// Upstream's class name: `AddBackward0`, `AccumulateGrad`.
    pub name: String,
    /// The operator it differentiates, `aten::add.Tensor`.
    pub operator: String,
    pub sequence_nr: u64,
    pub next_edges: Mutex<Vec<Option<Edge>>>,
    pub kind: Kind,
}

static SEQUENCE: AtomicU64 = AtomicU64::new(0);

impl Node {
    pub fn new(name: String, operator: String, kind: Kind, edges: Vec<Option<Edge>>) -> Arc<Node> {
        // Accumulating nodes run as late as they can: they have the greatest number.
        let sequence_nr = if matches!(kind, Kind::AccumulateGrad(_)) {
            u64::MAX
        } else {
            SEQUENCE.fetch_add(1, Ordering::Relaxed)
        };
        Arc::new(Node { name, operator, sequence_nr, next_edges: Mutex::new(edges), kind })
    }
}

impl Drop for Node {
    /// Frees a chain of nodes in a loop, so that a deep graph does not exhaust the stack.
    fn drop(&mut self) {
        let mut stack = std::mem::take(self.next_edges.get_mut().unwrap_or_else(|e| e.into_inner()));
        while let Some(edge) = stack.pop() {
            if let Some(mut node) = edge.map(|e| e.node)
                && let Some(n) = Arc::get_mut(&mut node)
            {
                stack.append(n.next_edges.get_mut().unwrap_or_else(|e| e.into_inner()));
            }
        }
    }
}
