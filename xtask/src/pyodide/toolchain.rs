//! Compiling the module for wasm32-unknown-emscripten.
//!
//! Where rustup has the target and an emsdk is on PATH, those are used. Elsewhere Debian's packages do: `rustc-web` builds
//! the standard library from source, and `pyodide/tools/link.py` stands in for emcc.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::sh::{Result, Sh, root, sh, step, which};
use crate::{apt, fail};

const TARGET: &str = "wasm32-unknown-emscripten";
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-22"];

/// The two ways to compile.
#[derive(Clone, Copy, PartialEq)]
enum Toolchain {
    /// rustup's target and an emsdk's emcc.
    Rustup,
    /// The distribution's packages.
    Packaged,
}

fn find() -> Toolchain {
    let targets = sh("rustup").args(["target", "list", "--installed"]).probe().unwrap_or_default();
    if targets.lines().any(|line| line == TARGET) && which("emcc").is_some() {
        Toolchain::Rustup
    } else {
        Toolchain::Packaged
    }
}

/// What would compile the module, when it is installed.
pub fn describe() -> Option<String> {
    match find() {
        Toolchain::Rustup => Some(format!("rustup's {TARGET} and emcc")),
        Toolchain::Packaged => {
            let rustc = sh("/usr/bin/rustc").arg("--version").probe()?;
            let sources = sh("dpkg-query").args(["-W", "rust-web-src"]).probe()?;
            which("wasm-ld-22")?;
            Some(format!("{rustc}, {}, wasm-ld-22", sources.replace('\t', " ")))
        }
    }
}

/// Installs what is missing.
fn ensure() -> Result<Toolchain> {
    let toolchain = find();
    if toolchain == Toolchain::Packaged {
        if which("apt-get").is_none() {
            fail!("the wasm module needs `rustup target add {TARGET}` and an emsdk whose emcc is on PATH");
        }
        apt::ensure(&PACKAGES, "the wasm module")?;
    }
    Ok(toolchain)
}

/// The command that builds a crate in release mode for Emscripten.
pub fn command() -> Result<Vec<OsString>> {
    let (cargo, extra): (OsString, &[&str]) = match ensure()? {
        Toolchain::Rustup => (std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), &[]),
        Toolchain::Packaged => ("/usr/bin/cargo".into(), &["-Zbuild-std=std,panic_unwind"]),
    };
    let words = [&["build", "--release", "--target", TARGET], extra].concat();
    Ok(std::iter::once(cargo).chain(words.into_iter().map(Into::into)).collect())
}

/// `command` with the environment that compiling takes.
pub fn environment(command: Sh) -> Result<Sh> {
    let mut flags = vec![
        "-Crelocation-model=pic".to_owned(),
        "-Ctarget-feature=+simd128".into(),
        "-Cpanic=unwind".into(),
    ];
    let mut command = command;
    match find() {
        Toolchain::Rustup => {
            flags.push("-Clink-arg=-sSIDE_MODULE=2".into());
            // For the unstable hook that `pyodide/src/lib.rs` sets.
            command = command.env("RUSTC_BOOTSTRAP", "_C");
        }
        Toolchain::Packaged => {
            // Debian's rustc looks for a self-contained wasm linker that it does not ship.
            let own = [
                "-Zemscripten-wasm-eh",
                "-Zunstable-options",
                "-Clink-self-contained=-linker",
                "-Clinker-flavor=em",
            ];
            flags.extend(own.map(str::to_owned));
            command = command
                .env("RUSTC", "/usr/bin/rustc")
                .env("RUSTC_BOOTSTRAP", "1")
                .env_remove("RUSTC_WRAPPER")
                .env("CARGO_TARGET_WASM32_UNKNOWN_EMSCRIPTEN_LINKER", root().join("pyodide/tools/link.py"));
        }
    }
    // No folder of this machine in panic messages.
    flags.extend(sources().iter().map(|folder| format!("--remap-path-prefix={}=crates", folder.display())));
    Ok(command
        .env("PYO3_CROSS_PYTHON_VERSION", "3.13")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTFLAGS"))
}

/// The folders where cargo unpacks the sources of crates.
fn sources() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let Some(entries) = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok()) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Where the wasm build keeps its files, apart from the native ones: it has another compiler.
fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("wasm")
}

/// Builds the module and returns it: one file for every CPython release.
pub fn build() -> Result<PathBuf> {
    let words = command()?;
    let target = target_folder();
    step("building the wasm module (minutes the first time: the standard library too)", || {
        let run = sh(&words[0]).args(&words[1..]).args(["--quiet", "-p", "torchnative-pyodide"]);
        environment(run)?.env("CARGO_TARGET_DIR", &target).run()
    })?;
    let folder = target.join(TARGET).join("release");
    module(&folder)
}

/// The module in cargo's output folder.
fn module(folder: &Path) -> Result<PathBuf> {
    match ["_C.wasm", "_C.so"].map(|name| folder.join(name)).into_iter().find(|path| path.exists()) {
        Some(path) => Ok(path),
        None => fail!("cargo left no module in {}", folder.display()),
    }
}
