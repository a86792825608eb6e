//! Graph nodes.

use super::formula::Formula;
use super::saved::TypeAndSize;
use super::view::CopySlices;
use crate::{Result, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Gradients of a node's outputs, or of its inputs; `None` is a gradient of zeros that nobody made.
pub type Grads = SmallVec<[Option<Tensor>; 2]>;

/// A reference to an input of another node.
#[derive(Clone)]
pub struct Edge {
    pub node: Arc<Node>,
    pub input_nr: u32,
}

/// What runs when gradients reach a node.
pub enum Kind {
    /// Adds into a leaf's `grad`.
    AccumulateGrad(Tensor),
    /// The derivative of an operator, by upstream's formulas.
    Formula(Formula),
    /// An in-place write through a view, seen from its base.
    CopySlices(CopySlices),
    /// A derivative that the host runs (`torch.autograd.Function`).
    Host(Box<dyn HostBackward>),
    /// Raises `RuntimeError` when it is reached.
    Error(String),
    /// Passes no gradient on (`torch._C._functions.UndefinedGrad`).
    UndefinedGrad,
}

/// A derivative written in the host language.
pub trait HostBackward: Send + Sync {
    /// The gradients of the inputs from those of the outputs.
    ///
    /// # Errors
    /// Whatever the host raises.
    fn apply(&self, node: &Arc<Node>, grads: Grads) -> Result<Grads>;
    /// Drops what was saved for the derivative.
    fn release(&self);
    fn as_any(&self) -> &dyn Any;
}

/// A function that sees gradients and may replace them.
pub type GradsHook = Arc<dyn Fn(&Grads) -> Result<Option<Grads>> + Send + Sync>;
/// A function that sees a node's inputs' gradients after it ran, with those that reached it; it may replace the former.
pub type PostHook = Arc<dyn Fn(&Grads, &Grads) -> Result<Option<Grads>> + Send + Sync>;
/// A function that runs after a leaf's gradient was accumulated.
pub type AccumulateHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// The hooks of a node, run in order of their keys.
#[derive(Default)]
pub struct Hooks {
    /// On the gradient of one output, before the node runs.
    pub tensor_pre: Vec<(u32, u64, GradsHook)>,
    /// Where `retain_grad` keeps the gradient of an output; after all other tensor hooks.
    pub retained: BTreeMap<u32, Arc<Mutex<Option<Tensor>>>>,
    pub pre: Vec<(u64, GradsHook)>,
    pub post: Vec<(u64, PostHook)>,
    pub accumulated: Vec<(u64, AccumulateHook)>,
}

impl Hooks {
    fn is_empty(&self) -> bool {
        self.tensor_pre.is_empty()
            && self.retained.is_empty()
            && self.pre.is_empty()
            && self.post.is_empty()
            && self.accumulated.is_empty()
    }
}

/// A recorded operation.
pub struct Node {
    /// Upstream's class name: `AddBackward0`, `AccumulateGrad`.
    pub name: Arc<str>,
    sequence_nr: AtomicU64,
    next_edges: Mutex<Vec<Option<Edge>>>,
    /// What each output of the recorded operation looked like; `None` where no gradient can arrive.
    inputs: Mutex<SmallVec<[Option<TypeAndSize>; 1]>>,
    pub kind: Kind,
    hooks: Mutex<Option<Box<Hooks>>>,
    /// The host's object for this node, borrowed: the host clears it when the object dies.
    host_object: AtomicPtr<c_void>,
    /// The host's notes (`metadata`, the forward traceback), kept alive by the node.
    pub host_notes: Mutex<Option<Box<dyn Any + Send>>>,
}

static SEQUENCE: AtomicU64 = AtomicU64::new(0);
static HOOK_KEYS: AtomicU64 = AtomicU64::new(0);

/// A key for a new hook, greater than all before it.
pub fn next_hook_key() -> u64 {
    HOOK_KEYS.fetch_add(1, Ordering::Relaxed)
}

/// The number that the next recorded operation gets.
pub fn peek_sequence_nr() -> u64 {
    SEQUENCE.load(Ordering::Relaxed)
}

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Node {
    pub fn new(name: impl Into<Arc<str>>, kind: Kind, edges: Vec<Option<Edge>>) -> Arc<Node> {
        // Accumulating nodes run as soon as they can: they have the greatest number.
        let sequence_nr = match kind {
            Kind::AccumulateGrad(_) => u64::MAX,
            _ => SEQUENCE.fetch_add(1, Ordering::Relaxed),
        };
        Arc::new(Node {
            name: name.into(),
            sequence_nr: AtomicU64::new(sequence_nr),
            next_edges: Mutex::new(edges),
            inputs: Mutex::default(),
            kind,
            hooks: Mutex::default(),
            host_object: AtomicPtr::default(),
            host_notes: Mutex::default(),
        })
    }

    pub fn sequence_nr(&self) -> u64 {
        self.sequence_nr.load(Ordering::Relaxed)
    }
    pub fn set_sequence_nr(&self, nr: u64) {
        self.sequence_nr.store(nr, Ordering::Relaxed)
    }
    /// The nodes that gradients go to next.
    pub fn next_edges(&self) -> Vec<Option<Edge>> {
        locked(&self.next_edges).clone()
    }
    /// Runs with the edges borrowed.
    pub fn with_edges<R>(&self, f: impl FnOnce(&[Option<Edge>]) -> R) -> R {
        f(&locked(&self.next_edges))
    }
    pub fn set_edges(&self, edges: Vec<Option<Edge>>) {
        let old = std::mem::replace(&mut *locked(&self.next_edges), edges);
        drop(old);
    }
    pub fn edge(&self, i: usize) -> Option<Edge> {
        locked(&self.next_edges).get(i).cloned().flatten()
    }
    /// Whether the gradient of input `i` goes anywhere.
    pub fn has_edge(&self, i: usize) -> bool {
        locked(&self.next_edges).get(i).is_some_and(Option::is_some)
    }
    pub fn num_outputs(&self) -> usize {
        locked(&self.next_edges).len()
    }

    /// Notes an output of the recorded operation and answers its number.
    pub fn add_input(&self, info: Option<TypeAndSize>) -> u32 {
        let mut inputs = locked(&self.inputs);
        inputs.push(info);
        inputs.len() as u32 - 1
    }
    pub fn num_inputs(&self) -> usize {
        locked(&self.inputs).len()
    }
    pub fn input_info(&self, i: usize) -> Option<TypeAndSize> {
        locked(&self.inputs).get(i).cloned().flatten()
    }
    pub fn set_input_info(&self, i: usize, info: TypeAndSize) {
        let mut inputs = locked(&self.inputs);
        if inputs.len() <= i {
            inputs.resize(i + 1, None);
        }
        inputs[i] = Some(info);
    }

    /// Changes the hooks.
    pub fn hooks<R>(&self, f: impl FnOnce(&mut Hooks) -> R) -> R {
        let mut hooks = locked(&self.hooks);
        let r = f(hooks.get_or_insert_default());
        if hooks.as_ref().is_some_and(|h| h.is_empty()) {
            *hooks = None;
        }
        r
    }
    /// Copies something out of the hooks, when there are any.
    pub fn read_hooks<R: Default>(&self, f: impl FnOnce(&Hooks) -> R) -> R {
        locked(&self.hooks).as_ref().map_or_else(R::default, |h| f(h))
    }

    /// The host's object of this node; null when it has none.
    pub fn host_object(&self) -> *mut c_void {
        self.host_object.load(Ordering::Relaxed)
    }
    pub fn set_host_object(&self, p: *mut c_void) {
        self.host_object.store(p, Ordering::Relaxed)
    }

    /// Drops saved values: the graph was used and is not kept.
    pub fn release(&self) {
        match &self.kind {
            Kind::Formula(f) => f.release(),
            Kind::CopySlices(c) => c.inner.release(),
            Kind::Host(h) => h.release(),
            Kind::AccumulateGrad(_) | Kind::Error(_) | Kind::UndefinedGrad => {}
        }
    }

    /// The name in messages: `Exp` for `ExpBackward0`.
    pub fn short_name(&self) -> &str {
        let base = self.name.trim_end_matches(|c: char| c.is_ascii_digit());
        base.strip_suffix("Backward").unwrap_or(&self.name)
    }
}

impl Drop for Node {
    /// Frees a chain of nodes in a loop, so that a deep graph does not exhaust the stack.
    fn drop(&mut self) {
        let mut stack = std::mem::take(self.next_edges.get_mut().unwrap_or_else(|e| e.into_inner()));
        if let Kind::Formula(f) = &mut self.kind {
            f.take_nodes(&mut stack);
        }
        while let Some(edge) = stack.pop() {
            if let Some(mut node) = edge.map(|e| e.node)
                && let Some(n) = Arc::get_mut(&mut node)
            {
                stack.append(n.next_edges.get_mut().unwrap_or_else(|e| e.into_inner()));
                if let Kind::Formula(f) = &mut n.kind {
                    f.take_nodes(&mut stack);
                }
            }
        }
    }
}
