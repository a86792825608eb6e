//! Warnings: handed to the host language, which decides what becomes of them.

use crate::Result;
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    User,
    Deprecation,
}

static HANDLER: OnceLock<fn(Category, &str) -> Result<()>> = OnceLock::new();

/// Installs the host's handler; the first caller wins.
pub fn set_handler(f: fn(Category, &str) -> Result<()>) {
    let _ = HANDLER.set(f);
}

/// Warns. Without a host the text goes to standard error.
///
/// # Errors
/// The host may turn warnings into exceptions.
pub fn warn(category: Category, message: &str) -> Result<()> {
    match HANDLER.get() {
        Some(f) => f(category, message),
        None => {
            eprintln!("Warning: {message}");
            Ok(())
        }
    }
}
