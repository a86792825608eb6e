//! Registering kernels.

use super::derive::Form;
use super::key::DispatchKey;
use super::operator::{ArgsFn, BuildFn, FillFn, Kernel, LoopFn, MetaFn, operator};
use crate::ivalue::{IValue, IntList};
use crate::schema::OpId;
use crate::{DType, Device, Scalar, Tensor, generated};
use smallvec::SmallVec;
use std::sync::Arc;

/// What one result looks like.
#[derive(Clone, Debug)]
pub struct OutSpec {
    pub sizes: IntList,
    /// Row-major when absent.
    pub strides: Option<IntList>,
    pub dtype: DType,
    pub device: Device,
    /// Whether an `out=` tensor of another (castable) dtype is accepted.
    pub castable: bool,
}

impl OutSpec {
    /// A row-major result.
    pub fn new(sizes: impl Into<IntList>, dtype: DType, device: Device) -> OutSpec {
        OutSpec { sizes: sizes.into(), strides: None, dtype, device, castable: false }
    }
    /// A result with the dtype and device of a tensor.
    pub fn like(t: &Tensor, sizes: impl Into<IntList>) -> OutSpec {
        Self::new(sizes, t.dtype(), t.device())
    }
    pub fn strides(mut self, strides: impl Into<IntList>) -> OutSpec {
        self.strides = Some(strides.into());
        self
    }
    /// Accepts `out=` tensors of other dtypes, cast on the way (as TensorIterator operators do).
    pub fn castable(mut self) -> OutSpec {
        self.castable = true;
        self
    }
}

/// The results of a shape function.
pub type Specs = SmallVec<[OutSpec; 2]>;

impl From<OutSpec> for Specs {
    fn from(s: OutSpec) -> Specs {
        SmallVec::from_iter([s])
    }
}

/// The results of a kernel.
#[derive(Default)]
pub struct Returns(pub SmallVec<[IValue; 2]>);

macro_rules! returns {
    ($($t:ty),*) => {$(impl From<$t> for Returns { fn from(v: $t) -> Returns { Returns(SmallVec::from_iter([IValue::from(v)])) } })*};
}
returns!(Tensor, &Tensor, Vec<Tensor>, bool, i64, f64, Scalar, DType);
impl From<IValue> for Returns {
    fn from(v: IValue) -> Returns {
        Returns(SmallVec::from_iter([v]))
    }
}
impl From<()> for Returns {
    fn from(_: ()) -> Returns {
        Returns::default()
    }
}
macro_rules! tuple_returns {
    ($($name:ident)*) => {
        impl<$($name: Into<IValue>),*> From<($($name,)*)> for Returns {
            #[allow(non_snake_case)]
            fn from(v: ($($name,)*)) -> Returns {
                let ($($name,)*) = v;
                let mut out = SmallVec::new();
                $(out.push($name.into());)*
                Returns(out)
            }
        }
    };
}
tuple_returns!(A B);
tuple_returns!(A B C);
tuple_returns!(A B C D);
tuple_returns!(A B C D E);
tuple_returns!(A B C D E F G H I);

/// Where operators are registered; passed to each family's `register`.
#[derive(Default)]
pub struct Registry(());

impl Registry {
    pub fn new() -> Registry {
        Registry(())
    }
    fn set(&mut self, op: OpId, key: DispatchKey, kernel: Kernel) -> &mut Self {
        operator(op).register(key, kernel);
        self
    }
    /// A CPU kernel for one overload.
    pub fn cpu(&mut self, op: OpId, f: ArgsFn) -> &mut Self {
        self.set(op, DispatchKey::CPU, Kernel::Args(f))
    }
    /// A meta kernel for one overload.
    pub fn meta(&mut self, op: OpId, f: ArgsFn) -> &mut Self {
        self.set(op, DispatchKey::Meta, Kernel::Args(f))
    }
    /// A kernel that touches no data, for CPU and meta alike (views, factories).
    pub fn any_device(&mut self, op: OpId, f: ArgsFn) -> &mut Self {
        self.cpu(op, f).meta(op, f)
    }
    /// A kernel of the device behind the PrivateUse1 key.
    pub fn device(&mut self, op: OpId, f: ArgsFn) -> &mut Self {
        self.set(op, DispatchKey::PrivateUse1, Kernel::Args(f))
    }
    /// Gives the device behind the PrivateUse1 key the kernel that the CPU has: for operators that touch no data, and
    /// those that move it by `storage::device`.
    ///
    /// # Panics
    /// When the CPU has none.
    pub fn device_as_cpu(&mut self, op: OpId) -> &mut Self {
        let kernel = operator(op).registered(DispatchKey::CPU).cloned();
        let kernel = kernel.unwrap_or_else(|| panic!("{} has no CPU kernel", operator(op).name));
        self.set(op, DispatchKey::PrivateUse1, kernel)
    }
    /// A pointwise operator on the device behind the PrivateUse1 key, with the shapes and dtypes the CPU gives it.
    ///
    /// # Panics
    /// When the CPU's kernel is not pointwise.
    pub fn device_pointwise(&mut self, op: OpId, run: LoopFn) -> &mut Self {
        for (id, form) in forms(op) {
            let kernel = match operator(id).registered(DispatchKey::CPU) {
                Some(Kernel::Pointwise { build, .. }) => {
                    Kernel::Pointwise { build: *build, run: Some(run), form }
                }
                // A form that is written with the functional one.
                Some(other) if form != Form::Functional => other.clone(),
                _ => panic!("{} is not pointwise", operator(id).name),
            };
            self.set(id, DispatchKey::PrivateUse1, kernel);
        }
        self
    }
    /// A structured operator on the device behind the PrivateUse1 key, with the CPU's shape function.
    ///
    /// # Panics
    /// When the CPU's kernel is not structured.
    pub fn device_structured(&mut self, op: OpId, fill: FillFn) -> &mut Self {
        for (id, form) in forms(op) {
            let kernel = match operator(id).registered(DispatchKey::CPU) {
                Some(Kernel::Structured { meta, .. }) => {
                    Kernel::Structured { meta: *meta, fill: Some(fill), form }
                }
                // A form that is written with the functional one.
                Some(other) if form != Form::Functional => other.clone(),
                _ => panic!("{} is not structured", operator(id).name),
            };
            self.set(id, DispatchKey::PrivateUse1, kernel);
        }
        self
    }
    /// CompositeImplicitAutograd: written with other operators, decomposed above autograd.
    pub fn implicit(&mut self, op: OpId, f: ArgsFn) -> &mut Self {
        self.set(op, DispatchKey::CompositeImplicitAutograd, Kernel::Args(f))
    }
    /// CompositeExplicitAutograd: written with other operators, with a derivative of its own.
    pub fn explicit(&mut self, op: OpId, f: ArgsFn) -> &mut Self {
        self.set(op, DispatchKey::CompositeExplicitAutograd, Kernel::Args(f))
    }
    /// Another name: every form of `name` calls the same form of `target`, above autograd.
    pub fn alias(&mut self, name: OpId, target: OpId) -> &mut Self {
        let (own, other) = (generated::info(name), generated::info(target));
        for (from, to) in [(Some(name), Some(target)), (own.inplace, other.inplace), (own.out, other.out)] {
            if let (Some(from), Some(to)) = (from, to) {
                let call = move |_: &'static _, _, stack: &mut _| super::call_op(operator(to), stack);
                self.set(from, DispatchKey::CompositeImplicitAutograd, Kernel::Boxed(Arc::new(call)));
            }
        }
        self
    }
    /// A shape function and a kernel that fills what it describes; serves the functional overload and, where they
    /// exist, its in-place and out overloads, on CPU and meta.
    pub fn structured(&mut self, op: OpId, meta: MetaFn, fill: FillFn) -> &mut Self {
        for (id, form) in forms(op) {
            self.set(id, DispatchKey::CPU, Kernel::Structured { meta, fill: Some(fill), form });
            self.set(id, DispatchKey::Meta, Kernel::Structured { meta, fill: None, form });
        }
        self
    }
    /// A pointwise operator over TensorIterator; serves all its overloads on CPU and meta.
    pub fn pointwise(&mut self, op: OpId, build: BuildFn, run: LoopFn) -> &mut Self {
        for (id, form) in forms(op) {
            self.set(id, DispatchKey::CPU, Kernel::Pointwise { build, run: Some(run), form });
            self.set(id, DispatchKey::Meta, Kernel::Pointwise { build, run: None, form });
        }
        self
    }
}

/// The functional overload with its in-place and out forms.
fn forms(op: OpId) -> SmallVec<[(OpId, Form); 3]> {
    let info = generated::info(op);
    let mut v = SmallVec::from_iter([(op, Form::Functional)]);
    v.extend(info.inplace.map(|id| (id, Form::Inplace)));
    v.extend(info.out.map(|id| (id, Form::Out)));
    v
}
