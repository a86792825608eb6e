//! Operators: a schema, the kernels registered for it and the resolved dispatch table.

use super::derive::Form;
use super::key::{DispatchKey, DispatchKeySet, NUM_BACKENDS};
use super::registry::{Returns, Specs};
use crate::iter::TensorIterator;
use crate::ivalue::{Args, IValue, IntList, Stack};
use crate::schema::{self, FunctionSchema, OpId, Type};
use crate::{DType, Result, Scalar, Tensor, bail, generated};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock, RwLock};

/// A kernel written over the argument list.
pub type ArgsFn = fn(Args<'_>) -> Result<Returns>;
/// A shape function: what each result looks like.
pub type MetaFn = fn(Args<'_>) -> Result<Specs>;
/// Fills results that were made after a shape function.
pub type FillFn = fn(Args<'_>, &[Tensor]) -> Result<()>;
/// Builds the iteration of a pointwise operator, over a given output or a new one.
pub type BuildFn = fn(Args<'_>, Option<&Tensor>) -> Result<TensorIterator>;
/// Runs the iteration of a pointwise operator.
pub type LoopFn = fn(&TensorIterator, Args<'_>) -> Result<()>;
/// A kernel that sees the operator, the remaining keys and the stack.
pub type BoxedFn = dyn Fn(&'static Operator, DispatchKeySet, &mut Stack) -> Result<()> + Send + Sync;

/// What runs when a key is reached.
#[derive(Clone)]
pub enum Kernel {
    Args(ArgsFn),
    Structured {
        meta: MetaFn,
        fill: Option<FillFn>,
        form: Form,
    },
    Pointwise {
        build: BuildFn,
        run: Option<LoopFn>,
        form: Form,
    },
    /// In-place and out overloads by way of the functional one.
    Derived {
        functional: OpId,
        form: Form,
    },
    Boxed(Arc<BoxedFn>),
    /// Goes on to the next key.
    Fallthrough,
    /// The record of a graph around whatever lies below.
    Autograd,
    /// Version counters and view tracking around whatever lies below.
    InplaceOrView,
    /// The upstream decomposition, through the host.
    Decomposition,
    Missing,
}

/// What calls need to know of a schema.
pub struct Signature {
    pub schema: FunctionSchema,
    /// The default of each argument as a call value.
    pub defaults: Vec<Option<IValue>>,
    /// Bit i: argument i is written to.
    pub mutates: u64,
    /// Bit i: argument i is an out argument.
    pub outs: u64,
    /// A view: a result aliases an argument that is not written.
    pub is_view: bool,
}

// Functionalities below this number have one slot; per-backend ones have four after them.
const SINGLE: usize = DispatchKey::END_FUNCTIONALITY as usize;
const SLOTS: usize = SINGLE + 6 * 4;

/// The column of a backend in the table: CPU, PrivateUse1, Meta, and one for all others.
const fn column(backend: u16) -> usize {
    match backend {
        0 => 0,
        12 => 1,
        15 => 2,
        _ => 3,
    }
}

fn per_backend_index(f: DispatchKey) -> Option<usize> {
    super::key::PER_BACKEND.iter().position(|(k, _)| *k == f)
}

struct State {
    registered: Vec<(DispatchKey, Kernel)>,
    table: Option<Box<[Option<Kernel>; SLOTS]>>,
    /// Functionality bits known to fall through for this operator, whatever the backend.
    skip: u64,
}

/// An operator overload. Lives for ever.
pub struct Operator {
    /// With namespace: `aten::add`.
    pub name: String,
    pub overload: String,
    /// Its row of the generated table, for upstream's own operators.
    pub id: Option<OpId>,
    signature: OnceLock<Result<Signature, String>>,
    text: OnceLock<String>,
    state: UnsafeCell<State>,
}

// SAFETY: the state is changed under the host's lock only (registration, lazy resolution).
unsafe impl Sync for Operator {}
unsafe impl Send for Operator {}

static ATEN: LazyLock<Vec<OnceLock<Box<Operator>>>> =
    LazyLock::new(|| (0..generated::op_ids::COUNT).map(|_| OnceLock::new()).collect());
static DYNAMIC: LazyLock<RwLock<HashMap<String, &'static Operator>>> = LazyLock::new(Default::default);
struct Fallbacks(UnsafeCell<HashMap<DispatchKey, Kernel>>);
// SAFETY: changed under the host's lock only.
unsafe impl Sync for Fallbacks {}
static FALLBACKS: LazyLock<Fallbacks> = LazyLock::new(|| Fallbacks(UnsafeCell::new(HashMap::new())));

/// The operator of a generated id.
pub fn operator(id: OpId) -> &'static Operator {
    ATEN[id.0 as usize].get_or_init(|| {
        let info = generated::info(id);
        Box::new(Operator::new(format!("aten::{}", info.name), info.overload.to_string(), Some(id)))
    })
}

impl Operator {
    fn new(name: String, overload: String, id: Option<OpId>) -> Operator {
        Operator {
            name,
            overload,
            id,
            signature: OnceLock::new(),
            text: OnceLock::new(),
            state: UnsafeCell::new(State { registered: Vec::new(), table: None, skip: 0 }),
        }
    }

    /// Finds an operator by qualified name (`aten::add`) and overload (`""` for the default).
    pub fn find(name: &str, overload: &str) -> Option<&'static Operator> {
        if let Some(base) = name.strip_prefix("aten::") {
            let full = if overload.is_empty() { base.to_string() } else { format!("{base}.{overload}") };
            if let Some(id) = generated::find(&full) {
                return Some(operator(id));
            }
        }
        DYNAMIC.read().unwrap_or_else(|e| e.into_inner()).get(&key_of(name, overload)).copied()
    }

    /// Defines a new operator from its schema (`torch.library`).
    ///
    /// # Errors
    /// A malformed schema, or a name that exists.
    pub fn define(text: &str) -> Result<&'static Operator> {
        let parsed = schema::parse_schema(text).map_err(|e| crate::Error::runtime(e.to_string()))?;
        if Operator::find(&parsed.name, &parsed.overload_name).is_some() {
            bail!(
                Runtime,
                "Tried to register an operator ({text}) with the same name and overload name multiple times."
            );
        }
        let op = Operator::new(parsed.name.clone(), parsed.overload_name.clone(), None);
        let _ = op.text.set(text.to_string());
        let op: &'static Operator = Box::leak(Box::new(op));
        DYNAMIC.write().unwrap_or_else(|e| e.into_inner()).insert(key_of(&op.name, &op.overload), op);
        Ok(op)
    }

    /// Removes a dynamically defined operator from the table of names.
    pub fn undefine(&self) {
        DYNAMIC.write().unwrap_or_else(|e| e.into_inner()).remove(&key_of(&self.name, &self.overload));
    }

    /// Every operator defined at run time.
    pub fn dynamic() -> Vec<&'static Operator> {
        DYNAMIC.read().unwrap_or_else(|e| e.into_inner()).values().copied().collect()
    }

    /// `aten::add.Tensor`, as messages print it.
    pub fn qualified_name(&self) -> String {
        key_of(&self.name, &self.overload)
    }

    /// The schema and what is derived from it.
    ///
    /// # Errors
    /// A schema text that does not parse (dynamic definitions are checked on entry, so never for a stored operator).
    pub fn signature(&self) -> Result<&Signature> {
        let made = self.signature.get_or_init(|| {
            let schema = match (self.id, self.text.get()) {
                (Some(id), _) => generated::schema(id).clone(),
                (None, Some(text)) => schema::parse_schema(text).map_err(|e| e.to_string())?,
                (None, None) => return Err(format!("{} has no schema", self.qualified_name())),
            };
            Ok(Signature::new(schema))
        });
        made.as_ref().map_err(|e| crate::Error::runtime(e.clone()))
    }

    #[inline]
    fn state(&self) -> &State {
        // SAFETY: see the Sync impl.
        unsafe { &*self.state.get() }
    }
    #[allow(clippy::mut_from_ref, reason = "under the host's lock")]
    fn state_mut(&self) -> &mut State {
        // SAFETY: see the Sync impl.
        unsafe { &mut *self.state.get() }
    }

    /// Registers a kernel; a later one for the same key wins.
    pub fn register(&self, key: DispatchKey, kernel: Kernel) {
        let s = self.state_mut();
        s.registered.retain(|(k, _)| *k != key);
        s.registered.push((key, kernel));
        s.table = None;
        s.skip = 0;
    }
    /// Removes the kernel of a key.
    pub fn deregister(&self, key: DispatchKey) {
        let s = self.state_mut();
        s.registered.retain(|(k, _)| *k != key);
        s.table = None;
        s.skip = 0;
    }
    /// The kernel registered for exactly this key (aliases included).
    pub fn registered(&self, key: DispatchKey) -> Option<&Kernel> {
        self.state().registered.iter().find(|(k, _)| *k == key).map(|(_, k)| k)
    }
    pub fn has_any_kernel(&self) -> bool {
        !self.state().registered.is_empty()
    }
    /// The keys with a kernel.
    pub fn registered_keys(&self) -> Vec<DispatchKey> {
        self.state().registered.iter().map(|(k, _)| *k).collect()
    }

    #[inline]
    pub(super) fn skip(&self) -> u64 {
        self.state().skip
    }
    pub(super) fn add_skip(&self, bits: u64) {
        self.state_mut().skip |= bits;
    }

    /// The kernel that a key set reaches first; resolved once.
    #[inline]
    pub(super) fn lookup(&'static self, ks: DispatchKeySet) -> &'static Kernel {
        let f = ks.highest_functionality();
        let slot = match f {
            DispatchKey::Dense => SINGLE + column(ks.highest_backend().unwrap_or(0)),
            DispatchKey::AutogradFunctionality => SINGLE + 20 + column(ks.highest_backend().unwrap_or(0)),
            _ => match per_backend_index(f) {
                None => f.0 as usize,
                Some(i) => SINGLE + i * 4 + column(ks.highest_backend().unwrap_or(0)),
            },
        };
        if let Some(table) = &self.state().table
            && let Some(k) = &table[slot]
        {
            return k;
        }
        self.resolve(slot, ks.highest())
    }

    #[cold]
    fn resolve(&'static self, slot: usize, key: DispatchKey) -> &'static Kernel {
        let kernel = self.compute(key);
        let table = self.state_mut().table.get_or_insert_with(|| Box::new([const { None }; SLOTS]));
        table[slot].insert(kernel)
    }

    /// Upstream's precedence: the key's own kernel, composite explicit, composite implicit, Autograd, then the fallback.
    pub fn compute(&'static self, key: DispatchKey) -> Kernel {
        if let Some(k) = self.registered(key) {
            return k.clone();
        }
        let (f, backend) = key.parts();
        let is_backend = matches!(
            f,
            DispatchKey::Dense
                | DispatchKey::Quantized
                | DispatchKey::Sparse
                | DispatchKey::SparseCsr
                | DispatchKey::NestedTensor
        );
        let is_autograd = matches!(
            f,
            DispatchKey::AutogradFunctionality
                | DispatchKey::AutogradOther
                | DispatchKey::AutogradNestedTensor
        );
        if is_backend && key != DispatchKey::Undefined {
            for alias in
                [DispatchKey::CompositeExplicitAutogradNonFunctional, DispatchKey::CompositeExplicitAutograd]
            {
                if let Some(k) = self.registered(alias) {
                    return k.clone();
                }
            }
        }
        let below = || {
            let dense = DispatchKey::runtime(0, backend.unwrap_or(0));
            self.registered(dense).is_some()
                || self.registered(DispatchKey::CompositeExplicitAutograd).is_some()
                || self.registered(DispatchKey::CompositeExplicitAutogradNonFunctional).is_some()
        };
        if (is_backend || (is_autograd && !below()))
            && let Some(k) = self.registered(DispatchKey::CompositeImplicitAutograd)
        {
            return k.clone();
        }
        if is_autograd && let Some(k) = self.registered(DispatchKey::Autograd) {
            return k.clone();
        }
        // SAFETY: see Fallbacks.
        if let Some(k) = unsafe { &*FALLBACKS.0.get() }.get(&f) {
            return k.clone();
        }
        let derived = self.derived();
        match f {
            // An in-place or out overload of a composite implicit operator is composite too.
            _ if is_autograd => match &derived {
                Some(Kernel::Derived { functional, .. })
                    if !below() && super::operator::operator(*functional).is_implicit(backend) =>
                {
                    Kernel::Derived { functional: *functional, form: derived_form(&derived) }
                }
                // A composite that has not been written here: its parts record the graph.
                None if !below() && self.is_upstream_composite() => Kernel::Decomposition,
                _ => Kernel::Autograd,
            },
            DispatchKey::ADInplaceOrView => match self.signature() {
                Ok(s) if s.mutates != 0 || s.is_view => Kernel::InplaceOrView,
                _ => Kernel::Fallthrough,
            },
            _ if is_backend => derived.unwrap_or(Kernel::Decomposition),
            DispatchKey::Undefined => derived.unwrap_or(Kernel::Missing),
            _ => Kernel::Fallthrough,
        }
    }

    /// Whether the operator decomposes above autograd on this backend.
    pub fn is_implicit(&self, backend: Option<u16>) -> bool {
        self.registered(DispatchKey::CompositeImplicitAutograd).is_some()
            && self.registered(DispatchKey::runtime(0, backend.unwrap_or(0))).is_none()
            && self.registered(DispatchKey::CompositeExplicitAutograd).is_none()
    }

    /// Whether upstream composes the operator above autograd.
    fn is_upstream_composite(&self) -> bool {
        self.id.is_some_and(|id| generated::info(id).kernel == generated::Kernel::CompositeImplicit)
    }

    fn derived(&self) -> Option<Kernel> {
        let info = generated::info(self.id?);
        let form = match info.kind {
            generated::Kind::InPlace => Form::Inplace,
            generated::Kind::Out => Form::Out,
            _ => return None,
        };
        Some(Kernel::Derived { functional: info.functional?, form })
    }

    /// Whether the operator has no kernel where a key set leads to below autograd, and a decomposition may stand in.
    pub fn decomposes(&'static self, ks: DispatchKeySet) -> bool {
        let dense = DispatchKey::runtime(0, ks.highest_backend().unwrap_or(0));
        matches!(self.compute(dense), Kernel::Decomposition)
    }

    /// Whether the key reaches a kernel of its own or by an alias (`_dispatch_has_kernel_for_dispatch_key`'s wider sense).
    pub fn reaches_kernel(&'static self, key: DispatchKey) -> bool {
        !matches!(self.compute(key), Kernel::Missing | Kernel::Decomposition | Kernel::Fallthrough)
    }
}

fn derived_form(k: &Option<Kernel>) -> Form {
    match k {
        Some(Kernel::Derived { form, .. }) => *form,
        _ => Form::Functional,
    }
}

fn key_of(name: &str, overload: &str) -> String {
    if overload.is_empty() { name.to_string() } else { format!("{name}.{overload}") }
}

/// Registers what runs at a functionality key for every operator without a kernel of its own there. Set before the
/// first call, or it is not seen by operators already resolved.
pub fn set_fallback(key: DispatchKey, kernel: Kernel) {
    // SAFETY: see Fallbacks.
    unsafe { &mut *FALLBACKS.0.get() }.insert(key.parts().0, kernel);
}

impl Signature {
    fn new(schema: FunctionSchema) -> Signature {
        let defaults = schema
            .arguments
            .iter()
            .map(|a| a.default.as_ref().map(|d| default_value(d, &a.ty, a.list_len)))
            .collect();
        let bits = |f: &dyn Fn(&schema::Argument) -> bool| {
            schema
                .arguments
                .iter()
                .enumerate()
                .filter(|(_, a)| f(a))
                .fold(0u64, |m, (i, _)| m | (1 << i.min(63)))
        };
        let (mutates, outs) = (bits(&|a| a.is_write()), bits(&|a| a.is_out()));
        let is_view = schema.is_view_op();
        Signature { defaults, mutates, outs, is_view, schema }
    }
}

/// A schema default as a call value of the argument's type.
pub fn default_value(d: &schema::Default, ty: &Type, list_len: Option<u32>) -> IValue {
    use schema::Default as D;
    let inner = ty.unwrap_optional();
    match d {
        D::None => IValue::None,
        D::Bool(v) => match inner {
            Type::List(_) => IValue::BoolList(vec![*v; list_len.unwrap_or(1) as usize]),
            _ => IValue::Bool(*v),
        },
        D::Int(v) => match inner {
            Type::ScalarType => DType::from_number(*v).map_or(IValue::None, IValue::DType),
            Type::MemoryFormat => {
                crate::MemoryFormat::ALL.get(*v as usize).copied().map_or(IValue::None, IValue::MemoryFormat)
            }
            Type::Layout => crate::Layout::ALL.get(*v as usize).copied().map_or(IValue::None, IValue::Layout),
            Type::Float => IValue::Double(*v as f64),
            Type::List(_) => IValue::IntList(IntList::from_elem(*v, list_len.unwrap_or(1) as usize)),
            _ => IValue::Int(*v),
        },
        D::Float(v) => IValue::Double(*v),
        D::Complex(re, im) => IValue::Scalar(Scalar::Complex(*re, *im)),
        D::Str(s) => match inner {
            Type::Device => crate::Device::parse(s).map_or(IValue::None, IValue::Device),
            _ => IValue::Str(s.as_str().into()),
        },
        D::Device(s) => crate::Device::parse(s).map_or(IValue::None, IValue::Device),
        D::BoolList(v) => IValue::BoolList(v.clone()),
        D::IntList(v) => match inner {
            Type::List(t) if **t == Type::Float => IValue::DoubleList(v.iter().map(|x| *x as f64).collect()),
            _ => IValue::IntList(IntList::from_slice(v)),
        },
        D::FloatList(v) => IValue::DoubleList(v.clone()),
        D::ComplexList(v) => IValue::ScalarList(v.iter().map(|(re, im)| Scalar::Complex(*re, *im)).collect()),
    }
}

const _: () = assert!(NUM_BACKENDS == 16);
