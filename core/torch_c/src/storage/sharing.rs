//! Memory that several processes share.

#[cfg(all(unix, not(target_family = "wasm")))]
pub use posix::*;

#[cfg(not(all(unix, not(target_family = "wasm"))))]
pub use absent::*;

#[cfg(all(unix, not(target_family = "wasm")))]
mod posix {
    use crate::error::{self, IntoPy};
    use pyo3::PyResult;
    use torchnative_engine::Storage;
    use torchnative_engine::storage::{Mapping, SharedHandle};

    /// Moves a storage's bytes into shared memory.
    fn become_shared(storage: &Storage, mapping: Mapping) -> PyResult<()> {
        let shared = Storage::from_mapping(mapping);
        super::super::set::copy(&shared, storage)?;
        storage.swap(&shared);
        Ok(())
    }

    pub fn descriptor(storage: &Storage) -> Option<i32> {
        match storage.mapping()?.handle()? {
            SharedHandle::Descriptor(fd) => Some(fd),
            SharedHandle::Name(_) => None,
        }
    }

    pub fn by_descriptor(storage: &Storage) -> PyResult<(i32, usize)> {
        if !storage.device().is_cpu() {
            return Err(error::runtime("_share_fd_: only available on CPU"));
        }
        if descriptor(storage).is_none() {
            become_shared(storage, Mapping::shared_by_descriptor(storage.nbytes()).into_py()?)?;
        }
        Ok((descriptor(storage).unwrap_or(-1), storage.nbytes()))
    }

    pub fn open_descriptor(fd: i32, size: usize) -> PyResult<Storage> {
        Mapping::open_descriptor(fd, size).map(Storage::from_mapping).into_py()
    }

    pub fn new_by_descriptor(size: usize) -> PyResult<Storage> {
        Mapping::shared_by_descriptor(size).map(Storage::from_mapping).into_py()
    }

    fn name(storage: &Storage) -> Option<String> {
        match storage.mapping()?.handle()? {
            SharedHandle::Descriptor(_) => None,
            SharedHandle::Name(name) => Some(name.to_owned()),
        }
    }

    pub fn by_name(storage: &Storage) -> PyResult<String> {
        if !storage.device().is_cpu() {
            return Err(error::runtime("_share_filename_: only available on CPU"));
        }
        if name(storage).is_none() {
            become_shared(storage, Mapping::shared_by_name(storage.nbytes()).into_py()?)?;
        }
        name(storage).ok_or_else(|| error::runtime("the storage could not be shared"))
    }

    pub fn open_name(handle: &[u8], size: usize) -> PyResult<Storage> {
        let Ok(name) = std::str::from_utf8(handle) else {
            return Err(error::runtime("the name of a shared memory object is damaged"));
        };
        Mapping::open_name(name, size).map(Storage::from_mapping).into_py()
    }

    pub fn new_by_name(size: usize) -> PyResult<Storage> {
        Mapping::shared_by_name(size).map(Storage::from_mapping).into_py()
    }

    pub fn count_user(storage: &Storage, by: i32) {
        if let Some(mapping) = storage.mapping() {
            mapping.count_user(by);
        }
    }
}

#[cfg(not(all(unix, not(target_family = "wasm"))))]
mod absent {
    use pyo3::PyResult;
    use pyo3::exceptions::PyNotImplementedError;
    use torchnative_engine::Storage;

    fn refuse<T>() -> PyResult<T> {
        Err(PyNotImplementedError::new_err(
            "sharing memory between processes is not implemented in torchnative on this platform",
        ))
    }
    pub fn descriptor(_: &Storage) -> Option<i32> {
        None
    }
    pub fn by_descriptor(_: &Storage) -> PyResult<(i32, usize)> {
        refuse()
    }
    pub fn open_descriptor(_: i32, _: usize) -> PyResult<Storage> {
        refuse()
    }
    pub fn new_by_descriptor(_: usize) -> PyResult<Storage> {
        refuse()
    }
    pub fn by_name(_: &Storage) -> PyResult<String> {
        refuse()
    }
    pub fn open_name(_: &[u8], _: usize) -> PyResult<Storage> {
        refuse()
    }
    pub fn new_by_name(_: usize) -> PyResult<Storage> {
        refuse()
    }
    pub fn count_user(_: &Storage, _: i32) {}
}
