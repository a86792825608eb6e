//! Where downloads and what is made of them live, shared by all checkouts.

use std::path::PathBuf;

use crate::fail;
use crate::sh::Result;

/// `${XDG_CACHE_HOME:-~/.cache}/torchnative`, made when missing.
pub fn root() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => match std::env::home_dir() {
            Some(home) => home.join(".cache"),
            None => fail!("no home directory: set XDG_CACHE_HOME to a folder for downloads"),
        },
    };
    let root = base.join("torchnative");
    std::fs::create_dir_all(&root)?;
    Ok(root)
}

/// A folder inside the cache, made when missing.
pub fn folder(name: &str) -> Result<PathBuf> {
    let folder = root()?.join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
