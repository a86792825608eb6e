//! Operators: shape functions and registrations, a file for each family. The arithmetic is in `crate::cpu`.

pub mod copy;
mod pointwise;

use crate::dispatch::Registry;
use std::sync::Once;

/// Registers every operator; runs once.
pub fn register_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let r = &mut Registry::new();
        copy::register(r);
        pointwise::register(r);
    });
}
