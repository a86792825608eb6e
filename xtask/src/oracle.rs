//! `cargo xtask oracle`: upstream torch of the pinned version, whose results are the right ones.

use std::path::PathBuf;

use crate::args::Args;
use crate::sh::{Result, root, say, sh, step};
use crate::venv::{PIP, interpreter};
use crate::{apt, cache, fail, venv};

pub const HELP: &str = "install upstream torch as the oracle (TORCHNATIVE_ORACLE=VENV reuses one)";

pub fn run(args: Args) -> Result {
    args.finish()?;
    say(format_args!("the oracle is {}", python()?.display()));
    Ok(())
}

const PROBE: &str = "import torch; assert torch.mm(torch.ones(2, 3), torch.ones(3, 2)).sum() == 12; \
    print(torch.__version__)";

/// The oracle's interpreter, installed when missing.
pub fn python() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("TORCHNATIVE_ORACLE") {
        let python = interpreter(&PathBuf::from(given));
        return match sh(&python).args(["-c", PROBE]).probe() {
            Some(_) => Ok(python),
            None => fail!("TORCHNATIVE_ORACLE: {} cannot run upstream torch", python.display()),
        };
    }
    let folder = cache::root()?.join("oracle");
    let python = interpreter(&folder);
    let ready = folder.join(".ready");
    if ready.exists() {
        return Ok(python);
    }
    if cfg!(target_os = "linux") {
        apt::ensure(&["gcc", "libc6-dev", "binutils"], "the oracle")?;
    }
    let python = venv::ensure_bare(&folder)?;
    let pip = || sh(&python).args(["-m", "pip", "install"]).args(PIP);
    step("installing upstream torch (1.4 GB, without its CUDA packages)", || {
        let list = root().join("vendor/oracle/requirements.txt");
        pip().args(["--no-deps", "-r"]).arg(list).quiet()?;
        pip().arg("-r").arg(root().join("vendor/requirements.txt")).quiet()
    })?;
    if cfg!(target_os = "linux") {
        let site = venv::site_packages(&python)?;
        step("making stand-ins for the CUDA libraries", || {
            sh(&python).arg(root().join("vendor/oracle/stubs.py")).arg(site).quiet()
        })?;
    }
    let version = sh(&python).args(["-c", PROBE]).output()?;
    std::fs::write(ready, version)?;
    Ok(python)
}
