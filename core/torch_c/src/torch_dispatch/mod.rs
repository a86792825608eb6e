//! `__torch_dispatch__`: the stack of modes, and the kernel that calls overrides below autograd.

mod functions;
mod stack;

pub use functions::init;
