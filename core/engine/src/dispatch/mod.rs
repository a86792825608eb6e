//! The dispatcher: one door for every operator call (design decision 2).

pub mod call;
mod derive;
mod fallback;
pub mod key;
pub(crate) mod math_bits;
pub mod operator;
pub mod registry;
pub mod tls;

pub use call::{IntoStack, call, call_op, redispatch};
pub use fallback::{DecompositionHook, decompose, set_decomposition_hook};
pub use key::{DispatchKey, DispatchKeySet};
pub use operator::{Kernel, Operator, Signature, operator};
pub use registry::{OutSpec, Registry, Returns, Specs};
