//! Errors of the engine: a kind that decides the Python exception class, and a message in upstream's wording.

use std::any::Any;
use std::fmt;

/// Which Python exception an error becomes.
#[derive(Debug)]
pub enum ErrorKind {
    /// `RuntimeError`: what upstream raises by `TORCH_CHECK`.
    Runtime,
    /// `TypeError`
    Type,
    /// `ValueError`
    Value,
    /// `IndexError`
    Index,
    /// `NotImplementedError`: an operator, device or dtype that is not here.
    NotImplemented,
    /// `torch.OutOfMemoryError` on devices, `RuntimeError` with the allocator's text on the CPU.
    OutOfMemory,
    /// `MemoryError`: a request that the address space cannot hold.
    Memory,
    /// `torch.linalg.LinAlgError`
    LinAlg,
    /// `BufferError`
    Buffer,
    /// `AttributeError`
    Attribute,
    /// `OverflowError`
    Overflow,
    /// A fault of the engine itself (`RuntimeError`, "INTERNAL ASSERT FAILED").
    Internal,
    /// An exception of the host language on its way through the engine.
    Foreign(Box<dyn Any + Send>),
}

/// An engine error.
#[derive(Debug)]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
}

impl Error {
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }
    #[cold]
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Runtime, message)
    }
    #[cold]
    pub fn foreign(payload: Box<dyn Any + Send>) -> Self {
        Self::new(ErrorKind::Foreign(payload), String::new())
    }
    /// Upstream's text for a dtype that a kernel does not take.
    #[cold]
    pub fn dtype_not_implemented(name: &str, dtype: crate::DType) -> Self {
        Self::new(
            ErrorKind::NotImplemented,
            format!("\"{name}\" not implemented for '{}'", dtype.scalar_type_name()),
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns an error of the given kind: `bail!(Index, "…{x}")`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format!($($arg)*)))
    };
}

/// `TORCH_CHECK`: returns an error unless the condition holds; the default kind is `Runtime`.
#[macro_export]
macro_rules! check {
    ($cond:expr, $kind:ident; $($arg:tt)*) => {
        // Not `if !$cond`: lints take a negated comparison for one that forgot NaN.
        if $cond {
        } else {
            $crate::bail!($kind, $($arg)*);
        }
    };
    ($cond:expr, $($arg:tt)*) => {
        // Not `if !$cond`: lints take a negated comparison for one that forgot NaN.
        if $cond {
        } else {
            $crate::bail!(Runtime, $($arg)*);
        }
    };
}
