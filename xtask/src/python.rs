//! Finding a CPython that can carry the extension: 3.13 or newer, as the stable ABI it is built for.

use std::path::{Path, PathBuf};

use crate::fail;
use crate::sh::{Result, sh, which};

/// An interpreter that really ran.
pub struct Python {
    /// Its path.
    pub path: PathBuf,
    /// Its version, as `3.13.0`.
    pub version: String,
}

const PROBE: &str = "import sys, platform; \
    assert platform.python_implementation() == 'CPython' and sys.version_info >= (3, 13); \
    print(platform.python_version())";

/// The oldest version that is tried before the rest, so that every machine with it tests the same one.
const NAMES: [&str; 5] = ["python3.13", "python3.14", "python3.15", "python3", "python"];

/// A CPython >= 3.13: `$PYTHON`, then PATH, then pyenv's versions.
pub fn find() -> Result<Python> {
    if let Some(path) = std::env::var_os("PYTHON") {
        let path = PathBuf::from(path);
        return match probe(&path) {
            Some(version) => Ok(Python { path, version }),
            None => fail!("PYTHON={} is not a CPython 3.13 or newer that runs", path.display()),
        };
    }
    let on_path = NAMES.iter().filter_map(|name| which(name));
    for path in on_path.chain(pyenv()) {
        if let Some(version) = probe(&path) {
            return Ok(Python { path, version });
        }
    }
    fail!(
        "no CPython 3.13 or newer found: install python3.13 (or newer) with its venv module, \
         or set PYTHON to one"
    )
}

/// The interpreters pyenv keeps, newest last of those that are old enough to be stable.
fn pyenv() -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let Some(entries) = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok()) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join("bin/python3"))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found
}

/// The version of the interpreter at `path` when it is one we can use. A shim that stands for nothing,
/// as pyenv leaves on PATH, does not run and so is none.
fn probe(path: &Path) -> Option<String> {
    sh(path).args(["-I", "-c", PROBE]).probe()
}

/// Whether the interpreter at `path` can make an environment with pip in it.
pub fn has_venv(path: &Path) -> bool {
    sh(path).args(["-I", "-c", "import venv, ensurepip"]).probe().is_some()
}
