//! Running a graph backward: nodes in the order of their sequence numbers, latest first, each when all that flows into
//! it has arrived.

use super::node::{Edge, Grads, Kind, Node};
use crate::dispatch::tls;
use crate::{Result, Tensor, bail, check, op};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

/// What a backward pass is asked to do.
pub struct Task<'a> {
    /// Where it starts, with the gradient there.
    pub roots: Vec<(Edge, Option<Tensor>)>,
    /// Keeps what nodes saved, for another pass.
    pub keep_graph: bool,
    /// Records a graph of the pass itself.
    pub create_graph: bool,
    /// The edges whose gradients are wanted; empty to accumulate into leaves.
    pub inputs: &'a [Edge],
    /// With `inputs`: accumulates into them rather than returning (`backward(inputs=…)`).
    pub accumulate: bool,
}

type Id = *const Node;
fn id(n: &Arc<Node>) -> Id {
    Arc::as_ptr(n)
}

struct Ready(Arc<Node>, u64);
impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ready {
    /// The greatest number first; among equals the one that became ready first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.sequence_nr().cmp(&other.0.sequence_nr()).then(other.1.cmp(&self.1))
    }
}

/// What the innermost pass of this thread is doing; read by hooks and custom functions.
#[derive(Clone)]
pub struct Current {
    pub node: Option<Arc<Node>>,
    pub keep_graph: bool,
    pub id: i64,
    needed: Option<std::rc::Rc<HashSet<Id>>>,
}

thread_local! {
    static CURRENT: RefCell<Vec<Current>> = const { RefCell::new(Vec::new()) };
    static CALLBACKS: RefCell<Vec<Vec<Callback>>> = const { RefCell::new(Vec::new()) };
}
static TASKS: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

/// Runs at the end of a pass.
pub type Callback = Box<dyn FnOnce() -> Result<()>>;

impl Current {
    /// Whether the pass goes through the whole graph, not only towards inputs it was asked for.
    pub fn is_full(&self) -> bool {
        self.needed.is_none()
    }
}

/// The innermost running pass.
pub fn current() -> Option<Current> {
    CURRENT.with(|c| c.borrow().last().cloned())
}

/// Whether the running pass goes through a node.
pub fn will_execute(node: &Arc<Node>) -> Option<bool> {
    current().map(|c| c.needed.is_none_or(|n| n.contains(&id(node))))
}

/// Queues a function for the end of the running pass.
///
/// # Errors
/// No pass is running.
pub fn queue_callback(f: Callback) -> Result<()> {
    CALLBACKS.with(|c| match c.borrow_mut().last_mut() {
        Some(queue) => {
            queue.push(f);
            Ok(())
        }
        None => bail!(Runtime, "Final callbacks can only be installed during backward pass."),
    })
}

/// Whether the running pass wants the gradient that node `node` sends along its edge `i`.
pub fn should_compute(node: &Node, i: usize) -> bool {
    let Some(edge) = node.edge(i) else { return false };
    CURRENT.with(|c| {
        c.borrow().last().is_none_or(|c| c.needed.as_ref().is_none_or(|n| n.contains(&id(&edge.node))))
    })
}

/// Leaves the state of a pass behind even when it fails.
struct Pass;
impl Pass {
    fn enter(keep_graph: bool, needed: Option<HashSet<Id>>) -> Pass {
        let id = TASKS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let needed = needed.map(std::rc::Rc::new);
        CURRENT.with(|c| c.borrow_mut().push(Current { node: None, keep_graph, id, needed }));
        CALLBACKS.with(|c| c.borrow_mut().push(Vec::new()));
        Pass
    }
    fn at(node: &Arc<Node>) {
        CURRENT.with(|c| {
            if let Some(c) = c.borrow_mut().last_mut() {
                c.node = Some(node.clone());
            }
        });
    }
    fn callbacks() -> Vec<Callback> {
        CALLBACKS.with(|c| c.borrow_mut().last_mut().map(std::mem::take).unwrap_or_default())
    }
}
impl Drop for Pass {
    fn drop(&mut self) {
        let last = CURRENT.with(|c| c.borrow_mut().pop());
        let queue = CALLBACKS.with(|c| c.borrow_mut().pop());
        drop((last, queue));
    }
}

/// Runs a backward pass; answers the gradients at `inputs` unless they are accumulated.
///
/// # Errors
/// Whatever a node or a hook raises. Nodes that did not run keep what they saved.
pub fn run(task: Task<'_>) -> Result<Vec<Option<Tensor>>> {
    let Task { roots, keep_graph, create_graph, inputs, accumulate } = task;
    let mut dependencies: HashMap<Id, usize> = HashMap::new();
    let order = count(&roots, &mut dependencies);
    let capture: HashMap<(Id, u32), Vec<usize>> = if accumulate {
        HashMap::new()
    } else {
        let mut m: HashMap<(Id, u32), Vec<usize>> = HashMap::new();
        for (i, e) in inputs.iter().enumerate() {
            m.entry((id(&e.node), e.input_nr)).or_default().push(i);
        }
        m
    };
    let needed = (!inputs.is_empty()).then(|| reaching(&order, inputs));
    // A captured node runs only when something beyond it, or accumulation, needs it.
    let runs: Option<HashSet<Id>> = needed.as_ref().map(|needed| {
        let wanted: HashSet<Id> = inputs.iter().map(|e| id(&e.node)).collect();
        let mut runs = HashSet::new();
        for n in &order {
            let beyond = n.with_edges(|edges| edges.iter().flatten().any(|e| needed.contains(&id(&e.node))));
            if needed.contains(&id(n)) && (beyond || (accumulate && wanted.contains(&id(n)))) {
                runs.insert(id(n));
            }
        }
        runs
    });
    let mut captured: Vec<Option<Tensor>> = vec![None; if accumulate { 0 } else { inputs.len() }];
    let _pass = Pass::enter(keep_graph, needed);
    let _guard = tls::StateGuard::new();
    tls::set_grad_mode(create_graph);

    let mut buffers: HashMap<Id, Grads> = HashMap::new();
    let mut queue = BinaryHeap::new();
    let mut arrivals = 0;
    for (edge, grad) in roots {
        let grad = match grad {
            Some(g) => Some(validated(&edge.node, edge.input_nr, g)?),
            None => None,
        };
        add_to_buffer(buffers.entry(id(&edge.node)).or_default(), edge.input_nr, grad)?;
        let waiting = dependencies.entry(id(&edge.node)).or_default();
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 {
            queue.push(Ready(edge.node, arrivals));
            arrivals += 1;
        }
    }
    while let Some(Ready(node, _)) = queue.pop() {
        let mut grads = buffers.remove(&id(&node)).unwrap_or_default();
        grads.resize(node.num_inputs().max(grads.len()), None);
        let runs_here = runs.as_ref().is_none_or(|r| r.contains(&id(&node)));
        let captures = (0..grads.len() as u32).any(|nr| capture.contains_key(&(id(&node), nr)));
        Pass::at(&node);
        if runs_here || captures {
            tensor_hooks(&node, &mut grads)?;
        }
        for nr in 0..grads.len() as u32 {
            for i in capture.get(&(id(&node), nr)).into_iter().flatten() {
                captured[*i] = grads[nr as usize].clone();
            }
        }
        if !runs_here {
            // Nothing wanted lies beyond.
            continue;
        }
        let outputs = call(&node, grads, keep_graph)?;
        let edges = node.next_edges();
        check!(
            outputs.len() >= edges.len() || edges.is_empty(),
            "Function {} returned an invalid number of gradients - expected {}, but got {}",
            node.name,
            edges.len(),
            outputs.len()
        );
        for (i, (edge, grad)) in edges.into_iter().zip(outputs).enumerate() {
            let Some(edge) = edge else { continue };
            let grad = match grad {
                Some(g) => Some(validated_for(&node, i, &edge, g)?),
                None => None,
            };
            add_to_buffer(buffers.entry(id(&edge.node)).or_default(), edge.input_nr, grad)?;
            arrived(edge.node, &mut dependencies, &mut queue, &mut arrivals);
        }
    }
    loop {
        let callbacks = Pass::callbacks();
        if callbacks.is_empty() {
            break;
        }
        for f in callbacks {
            f()?;
        }
    }
    Ok(captured)
}

fn arrived(
    node: Arc<Node>,
    dependencies: &mut HashMap<Id, usize>,
    queue: &mut BinaryHeap<Ready>,
    arrivals: &mut u64,
) {
    let waiting = dependencies.entry(id(&node)).or_insert(1);
    *waiting = waiting.saturating_sub(1);
    if *waiting == 0 {
        queue.push(Ready(node, *arrivals));
        *arrivals += 1;
    }
}

/// Counts, for each node that can be reached, the edges into it; answers the nodes, roots first.
fn count(roots: &[(Edge, Option<Tensor>)], dependencies: &mut HashMap<Id, usize>) -> Vec<Arc<Node>> {
    let mut order: Vec<Arc<Node>> = Vec::new();
    let mut seen: HashSet<Id> = HashSet::new();
    let mut stack: Vec<Arc<Node>> = Vec::new();
    for (edge, _) in roots {
        *dependencies.entry(id(&edge.node)).or_default() += 1;
        if seen.insert(id(&edge.node)) {
            stack.push(edge.node.clone());
        }
    }
    while let Some(node) = stack.pop() {
        node.with_edges(|edges| {
            for edge in edges.iter().flatten() {
                *dependencies.entry(id(&edge.node)).or_default() += 1;
                if seen.insert(id(&edge.node)) {
                    stack.push(edge.node.clone());
                }
            }
        });
        order.push(node);
    }
    order
}

/// The nodes from which an input can be reached, the inputs' own nodes included.
fn reaching(order: &[Arc<Node>], inputs: &[Edge]) -> HashSet<Id> {
    let mut before: HashMap<Id, Vec<Id>> = HashMap::new();
    for n in order {
        n.with_edges(|edges| {
            for e in edges.iter().flatten() {
                before.entry(id(&e.node)).or_default().push(id(n));
            }
        });
    }
    let mut needed: HashSet<Id> = HashSet::new();
    let mut stack: Vec<Id> = inputs.iter().map(|e| id(&e.node)).collect();
    while let Some(n) = stack.pop() {
        if needed.insert(n) {
            stack.extend(before.get(&n).into_iter().flatten());
        }
    }
    needed
}

fn tensor_hooks(node: &Arc<Node>, grads: &mut Grads) -> Result<()> {
    let mut hooks = node.read_hooks(|h| h.tensor_pre.clone());
    if let Kind::AccumulateGrad(t) = &node.kind {
        // A leaf keeps its hooks itself: its node may die between passes.
        hooks.extend(t.autograd_meta().map(|m| m.leaf_hooks.tensor_pre.clone()).unwrap_or_default());
    }
    for (nr, _, hook) in hooks {
        if let Some(slot) = grads.get_mut(nr as usize)
            && let Some(new) = hook(&Grads::from_iter([slot.clone()]))?
        {
            *slot = new.into_iter().next().flatten();
        }
    }
    let retained: Vec<_> = node.read_hooks(|h| h.retained.iter().map(|(nr, c)| (*nr, c.clone())).collect());
    for (nr, cell) in retained {
        if let Some(Some(g)) = grads.get(nr as usize) {
            let mut kept = cell.lock().unwrap_or_else(|e| e.into_inner());
            *kept = Some(match kept.take() {
                None => op::clone.call((g,))?,
                Some(old) => op::add_Tensor.call((&old, g))?,
            });
        }
    }
    Ok(())
}

fn call(node: &Arc<Node>, mut grads: Grads, keep_graph: bool) -> Result<Grads> {
    for (_, hook) in node.read_hooks(|h| h.pre.clone()) {
        if let Some(new) = hook(&grads)? {
            check!(
                new.len() == grads.len(),
                "hook has changed the number of gradients: expected {}, got {}",
                grads.len(),
                new.len()
            );
            grads = new;
        }
    }
    let post = node.read_hooks(|h| h.post.clone());
    let given = (!post.is_empty()).then(|| grads.clone());
    let mut outputs = apply_node(node, grads, &|i| should_compute(node, i))?;
    if !keep_graph {
        node.release();
    }
    if let Some(given) = given {
        for (_, hook) in post {
            if let Some(new) = hook(&outputs, &given)? {
                outputs = new;
            }
        }
    }
    Ok(outputs)
}

/// Runs a node's derivative without its hooks.
pub(super) fn apply_node(node: &Arc<Node>, grads: Grads, needed: &dyn Fn(usize) -> bool) -> Result<Grads> {
    match &node.kind {
        Kind::AccumulateGrad(t) => {
            if let Some(g) = grads.into_iter().next().flatten() {
                accumulate(t, g)?;
            }
            Ok(Grads::new())
        }
        Kind::Formula(f) => f.apply(node, grads, needed),
        Kind::CopySlices(c) => c.apply(grads, needed),
        Kind::Host(h) => h.apply(node, grads),
        Kind::Error(message) => bail!(Runtime, "{message}"),
        Kind::UndefinedGrad => Ok(Grads::from_elem(None, node.num_outputs())),
    }
}

/// Adds a gradient to a leaf's.
fn accumulate(t: &Tensor, grad: Tensor) -> Result<()> {
    match t.grad() {
        None => {
            let new = if !tls::grad_mode() && grad.use_count() == 1 && keeps_layout(t, &grad) {
                super::detached_alias(&grad)?
            } else if tls::grad_mode() {
                laid_out_as(t, &grad)?
            } else {
                super::detached_alias(&laid_out_as(t, &grad)?)?
            };
            t.set_grad(Some(new));
        }
        Some(old) if !tls::grad_mode() => {
            op::add__Tensor.call((&old, &grad))?;
        }
        Some(old) => t.set_grad(Some(op::add_Tensor.call((&old, &grad))?)),
    }
    for (_, hook) in t.autograd_meta().map(|m| m.leaf_hooks.accumulated.clone()).unwrap_or_default() {
        hook(t)?;
    }
    Ok(())
}

/// Whether a gradient may become the leaf's as it is: it lies in memory as the leaf does, or densely.
fn keeps_layout(t: &Tensor, grad: &Tensor) -> bool {
    if t.is_non_overlapping_and_dense() {
        grad.strides() == t.strides()
            || t.sizes()
                .iter()
                .zip(t.strides().iter().zip(grad.strides()))
                .all(|(n, (a, b))| *n == 1 || a == b)
    } else {
        grad.is_contiguous()
    }
}

/// A copy of a gradient with the leaf's strides.
fn laid_out_as(t: &Tensor, grad: &Tensor) -> Result<Tensor> {
    if t.is_non_overlapping_and_dense() && t.sizes() == grad.sizes() {
        let new = op::new_empty_strided.call((grad, t.sizes(), t.strides()))?;
        op::copy_.call((&new, grad))
    } else {
        op::clone.call((grad, crate::MemoryFormat::Contiguous))
    }
}

/// Adds a gradient to what has arrived at an input of a node.
fn add_to_buffer(buffer: &mut Grads, nr: u32, grad: Option<Tensor>) -> Result<()> {
    let nr = nr as usize;
    if buffer.len() <= nr {
        buffer.resize(nr + 1, None);
    }
    let Some(grad) = grad else { return Ok(()) };
    buffer[nr] = Some(match buffer[nr].take() {
        None => grad,
        // Nobody else sees the sum so far.
        Some(old)
            if !tls::grad_mode()
                && old.use_count() == 1
                && old.storage().use_count() == 1
                && old.is_non_overlapping_and_dense()
                && old.dtype() == grad.dtype() =>
        {
            op::add__Tensor.call((&old, &grad))?
        }
        Some(old) => op::add_Tensor.call((&old, &grad))?,
    });
    Ok(())
}

/// Fits the gradient that a node sends along its edge `i` to what waits there.
fn validated_for(from: &Node, i: usize, edge: &Edge, grad: Tensor) -> Result<Tensor> {
    validated(&edge.node, edge.input_nr, grad).map_err(|e| {
        crate::Error::new(
            e.kind,
            e.message.replacen(
                "{at}",
                &format!("Function {} returned an invalid gradient at index {i}", from.name),
                1,
            ),
        )
    })
}

fn validated(node: &Node, nr: u32, mut grad: Tensor) -> Result<Tensor> {
    let Some(info) = node.input_info(nr as usize) else { return Ok(grad) };
    if grad.sizes() != &info.sizes[..] {
        if !expandable_to(&info.sizes, grad.sizes()) {
            bail!(
                Runtime,
                "{{at}} - got {} but expected shape compatible with {}",
                shape_text(grad.sizes()),
                shape_text(&info.sizes)
            );
        }
        grad = op::sum_to_size.call((&grad, info.sizes.clone()))?;
    }
    if grad.dtype() != info.dtype {
        if info.dtype.is_complex() != grad.dtype().is_complex() && !info.dtype.is_complex() {
            bail!(
                Runtime,
                "{{at}} - expected dtype {} but got {}",
                info.dtype.torch_name(),
                grad.dtype().torch_name()
            );
        }
        grad = op::_to_copy.call((&grad, info.dtype))?;
    }
    if grad.device() != info.device {
        if grad.dim() == 0 {
            grad = op::_to_copy.call((&grad, crate::IValue::None, crate::IValue::None, info.device))?;
        } else {
            bail!(Runtime, "{{at}} - expected device {} but got {}", info.device, grad.device());
        }
    }
    Ok(grad)
}

/// Whether a shape broadcasts to another.
fn expandable_to(shape: &[i64], wider: &[i64]) -> bool {
    shape.len() <= wider.len() && shape.iter().rev().zip(wider.iter().rev()).all(|(a, b)| a == b || *a == 1)
}

/// `[2, 3]`
fn shape_text(sizes: &[i64]) -> String {
    let items: Vec<String> = sizes.iter().map(i64::to_string).collect();
    format!("[{}]", items.join(", "))
}
