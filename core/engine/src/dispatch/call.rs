//! Calling operators.

use super::key::{BACKEND_MASK, DispatchKey, DispatchKeySet};
use super::operator::{Kernel, Operator, operator};
use super::{derive, fallback, tls};
use crate::ivalue::{Args, IValue, Stack};
use crate::schema::OpId;
use crate::{Result, Tensor, bail};

/// Values that become the arguments of a call.
pub trait IntoStack {
    fn into_stack(self) -> Stack;
}
impl IntoStack for Stack {
    fn into_stack(self) -> Stack {
        self
    }
}
macro_rules! into_stack {
    ($($name:ident)*) => {
        impl<$($name: Into<IValue>),*> IntoStack for ($($name,)*) {
            #[allow(non_snake_case, unused_mut)]
            fn into_stack(self) -> Stack {
                let ($($name,)*) = self;
                let mut s = Stack::new();
                $(s.push($name.into());)*
                s
            }
        }
    };
}
into_stack!(A);
into_stack!(A B);
into_stack!(A B C);
into_stack!(A B C D);
into_stack!(A B C D E);
into_stack!(A B C D E F);
into_stack!(A B C D E F G);
into_stack!(A B C D E F G H);
into_stack!(A B C D E F G H I);
into_stack!(A B C D E F G H I J);
into_stack!(A B C D E F G H I J K);
into_stack!(A B C D E F G H I J K L);
into_stack!(A B C D E F G H I J K L M);
into_stack!(A B C D E F G H I J K L M N);

impl OpId {
    /// Calls the operator and takes its only tensor: `op::add_Tensor.call((&a, &b, 1))`. Arguments left out at the end
    /// take their defaults.
    ///
    /// # Errors
    /// Whatever the operator raises.
    pub fn call(self, args: impl IntoStack) -> Result<Tensor> {
        let mut stack = args.into_stack();
        call_op(operator(self), &mut stack)?;
        match stack.into_iter().next() {
            Some(IValue::Tensor(t)) => Ok(t),
            other => bail!(
                Internal,
                "{} returned {} where a Tensor was expected",
                operator(self).qualified_name(),
                other.map_or("nothing", |v| v.kind())
            ),
        }
    }
    /// Calls the operator and takes all its results.
    ///
    /// # Errors
    /// Whatever the operator raises.
    pub fn call_all(self, args: impl IntoStack) -> Result<Stack> {
        let mut stack = args.into_stack();
        call_op(operator(self), &mut stack)?;
        Ok(stack)
    }
    /// Calls an operator that returns a list of tensors.
    ///
    /// # Errors
    /// Whatever the operator raises.
    pub fn call_list(self, args: impl IntoStack) -> Result<Vec<Tensor>> {
        match self.call_all(args)?.into_iter().next() {
            Some(IValue::TensorList(v)) => Ok(v),
            Some(IValue::Tensor(t)) => Ok(vec![t]),
            _ => bail!(Internal, "{} returned no list", operator(self).qualified_name()),
        }
    }
}

/// Calls an operator by id on a stack.
///
/// # Errors
/// Whatever the operator raises.
pub fn call(id: OpId, stack: &mut Stack) -> Result<()> {
    call_op(operator(id), stack)
}

/// The key set of a call: its tensors' keys, or its device argument's when it has no tensor.
#[inline]
fn key_set(stack: &Stack) -> DispatchKeySet {
    let mut ks = DispatchKeySet::EMPTY;
    for v in stack {
        match v {
            IValue::Tensor(t) => ks = ks | t.key_set(),
            IValue::TensorList(_) | IValue::OptTensorList(_) | IValue::List(_) => {
                v.for_each_tensor(&mut |t| ks = ks | t.key_set())
            }
            _ => {}
        }
    }
    if ks.0 & BACKEND_MASK == 0 {
        let device = stack.iter().find_map(|v| v.opt_device()).unwrap_or(crate::Device::CPU);
        ks = ks | DispatchKeySet::of(DispatchKey::for_device(device.ty));
        if !tls::inference_mode() {
            ks = ks | DispatchKeySet::AUTOGRAD_DENSE;
        }
    }
    ks
}

/// Calls an operator through the dispatcher: arguments are replaced by results.
///
/// # Errors
/// Whatever the operator raises.
pub fn call_op(op: &'static Operator, stack: &mut Stack) -> Result<()> {
    let signature = op.signature()?;
    fill_defaults(op, signature, stack)?;
    let own = key_set(stack);
    let ks = tls::apply(own);
    if own.has_functionality(DispatchKey::Python) && !ks.has_functionality(DispatchKey::Python) {
        require_data(op, signature, ks, stack)?;
    }
    redispatch(op, ks, stack)
}

/// Keeps kernels away from tensors without data, which the host's overrides would have handled: they are for
/// operators that look at the data.
#[cold]
fn require_data(
    op: &Operator,
    signature: &super::Signature,
    ks: DispatchKeySet,
    stack: &Stack,
) -> Result<()> {
    if signature.is_view || ks.highest_backend() == DispatchKey::Meta.parts().1 {
        return Ok(());
    }
    let mut lacking = false;
    for v in stack {
        v.for_each_tensor(&mut |t| lacking |= t.lacks_data());
    }
    if lacking {
        bail!(
            Runtime,
            "{}: cannot access the data pointer of a Tensor that doesn't have storage (its __torch_dispatch__ is disabled)",
            op.qualified_name()
        );
    }
    Ok(())
}

fn fill_defaults(op: &Operator, s: &super::Signature, stack: &mut Stack) -> Result<()> {
    let have = stack.len();
    let want = s.defaults.len();
    if have > want && !s.schema.is_vararg {
        bail!(Runtime, "{}() expected at most {want} argument(s) but received {have}", op.qualified_name());
    }
    for i in have..want {
        match &s.defaults[i] {
            Some(v) => stack.push(v.clone()),
            None => bail!(
                Runtime,
                "{}() is missing value for argument '{}'.",
                op.qualified_name(),
                s.schema.arguments[i].name
            ),
        }
    }
    Ok(())
}

/// Continues a call with a given key set.
///
/// # Errors
/// Whatever the operator raises.
pub fn redispatch(op: &'static Operator, ks: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let mut ks = DispatchKeySet(ks.0 & !op.skip());
    loop {
        match op.lookup(ks) {
            Kernel::Args(f) => {
                let out = f(Args(stack))?;
                stack.clear();
                stack.extend(out.0);
                return Ok(());
            }
            Kernel::Fallthrough => {
                let f = ks.highest_functionality();
                ks = below(op, ks, f);
            }
            Kernel::Autograd => {
                if !fallback::needs_graph(op, stack) {
                    ks = ks.minus(DispatchKeySet::AUTOGRAD);
                    continue;
                }
                return crate::autograd::record::record(op, ks.minus(DispatchKeySet::AUTOGRAD), stack);
            }
            Kernel::InplaceOrView => {
                return fallback::inplace_or_view(op, ks.minus(DispatchKeySet::INPLACE_OR_VIEW), stack);
            }
            Kernel::Structured { meta, fill, form } => {
                return derive::structured(op, *meta, *fill, *form, stack);
            }
            Kernel::Pointwise { build, run, form } => {
                return derive::pointwise(op, *build, *run, *form, stack);
            }
            Kernel::Derived { functional, form } => {
                let graph = ks.intersects(DispatchKeySet::AUTOGRAD);
                return derive::derived(op, *functional, *form, graph, stack);
            }
            Kernel::Boxed(f) => return f(op, ks, stack),
            Kernel::Decomposition => return fallback::decompose(op, ks, stack),
            Kernel::Missing => return Err(fallback::missing(op, ks, stack)),
        }
    }
}

/// Removes a key that falls through, and remembers it for the operator when it does so on every backend.
fn below(op: &'static Operator, ks: DispatchKeySet, f: DispatchKey) -> DispatchKeySet {
    let bits = DispatchKeySet::bits(&[f]);
    if super::key::PER_BACKEND.iter().all(|(k, _)| *k != f) {
        op.add_skip(bits.0);
    }
    ks.minus(bits)
}
