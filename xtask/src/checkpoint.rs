//! `cargo xtask checkpoint`: the real checkpoint of the demo, as a folder that `from_pretrained` reads.

use std::path::PathBuf;

use crate::args::Args;
use crate::sh::{Result, root, say, sh};
use crate::{cache, venv};

pub const HELP: &str = "fetch the demo's checkpoint and unpack it for `from_pretrained`";

pub fn run(args: Args) -> Result {
    args.finish()?;
    say(format_args!("the checkpoint is {}", folder()?.display()));
    Ok(())
}

/// The checkpoint's folder: float32 safetensors, config and tokenizer. Fetched and converted when missing.
pub fn folder() -> Result<PathBuf> {
    let python = venv::ensure_packages()?;
    let script = root().join("vendor/checkpoint.py");
    Ok(PathBuf::from(sh(python).arg(script).arg(cache::root()?).output()?))
}
