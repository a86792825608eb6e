//! `cargo xtask dev`: leaves a `.venv` in which `import torch` is ours.

use std::path::PathBuf;

use crate::args::Args;
use crate::sh::{Result, say, step};
use crate::{native, vendor, venv};

pub const HELP: &str = "build the native module and leave a .venv in which `import torch` is ours\n\
    (--profile dev|release, or TORCHNATIVE_PROFILE; release by default)";

pub fn run(mut args: Args) -> Result {
    let profile = native::profile(&mut args)?;
    args.finish()?;
    let python = ready(&profile)?;
    say(format_args!("ready: {}", python.display()));
    Ok(())
}

/// Brings `.venv` up to date and returns its interpreter.
pub fn ready(profile: &str) -> Result<PathBuf> {
    let python = venv::ensure_packages()?;
    vendor::tree()?;
    let built = native::build(profile)?;
    let site = venv::site_packages(&python)?;
    step("installing torch into .venv", || {
        vendor::script("install")?
            .arg(&site)
            .arg("--module")
            .arg(&built.module)
            .arg("--global-deps")
            .arg(&built.global_deps)
            .quiet()
    })?;
    Ok(python)
}
