//! Node and the Pyodide releases, from npm into the cache.

use std::path::{Path, PathBuf};

use crate::sh::{Result, read, root, sh, step, which, write};
use crate::{cache, fail};

/// The installed programs.
pub struct Node {
    /// The Node that has JSPI, whatever Node the machine has.
    pub program: PathBuf,
    /// The folder `node_modules`.
    pub modules: PathBuf,
}

/// The npm on PATH, which does no more than install.
pub fn npm() -> Option<String> {
    which("npm").map(|path| path.display().to_string())
}

/// Where the packages are, when they are installed.
pub fn installed() -> Option<String> {
    let folder = cache::root().ok()?.join("node");
    let wanted = std::fs::read_to_string(manifest()).ok()?;
    let node = at(&folder);
    (std::fs::read_to_string(folder.join(".installed")).ok()? == wanted && node.program.exists())
        .then(|| folder.display().to_string())
}

fn manifest() -> PathBuf {
    root().join("node-tests/package.json")
}

fn at(folder: &Path) -> Node {
    let modules = folder.join("node_modules");
    let program = if cfg!(windows) { "node/bin/node.exe" } else { "node/bin/node" };
    Node { program: modules.join(program), modules }
}

impl Node {
    /// Installs the exact versions that `node-tests/package.json` names, unless they are there.
    pub fn ensure() -> Result<Self> {
        let folder = cache::folder("node")?;
        if installed().is_some() {
            return Ok(at(&folder));
        }
        let Some(npm) = which("npm") else { fail!("npm is missing: install Node.js (any version) with npm") };
        let wanted = read(&manifest())?;
        write(&folder.join("package.json"), &wanted)?;
        step("npm install: Node 26 and Pyodide 314.0.7, 0.29.5", || {
            // The `node` package fetches its binary in a script, which npm skips unless told.
            sh(npm)
                .args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts=false"])
                .args(["--foreground-scripts", "--loglevel=error"])
                .dir(&folder)
                .quiet()
        })?;
        let node = at(&folder);
        if sh(&node.program).arg("--version").probe().is_none() {
            fail!("npm installed no Node that runs at {}", node.program.display());
        }
        write(&folder.join(".installed"), &wanted)?;
        Ok(node)
    }
}
