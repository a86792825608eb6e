//! `torch._C.StorageBase` and what makes storages.

use pyo3::prelude::*;
use torchnative_engine::{DType, Storage};

/// The storage of a Python object, with its dtype when it is a typed one; `None` for any other object.
pub fn from_py(_object: &Bound<'_, PyAny>) -> PyResult<Option<(Storage, Option<DType>)>> {
    Ok(None)
}
