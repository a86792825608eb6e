//! `cargo xtask vendor`: fetches the pinned upstream wheel and unpacks its Python tree into the cache.

use std::path::PathBuf;

use crate::args::Args;
use crate::sh::{Result, root, say, sh};
use crate::{cache, venv};

pub const HELP: &str =
    "fetch the pinned torch wheel and unpack its Python tree (--manifest rewrites the list)";

pub fn run(mut args: Args) -> Result {
    let rewrite = args.switch("--manifest");
    args.finish()?;
    if rewrite {
        return script("manifest").and_then(|script| script.run());
    }
    say(format_args!("the tree is {}", tree()?.display()));
    Ok(())
}

/// The unpacked tree: a folder with `torch`, `torchgen`, `functorch` and torch's dist-info. Fetched when missing.
pub fn tree() -> Result<PathBuf> {
    Ok(PathBuf::from(script("unpack")?.output()?))
}

/// `vendor/tree.py COMMAND CACHE`, to which a caller may add arguments.
pub fn script(command: &str) -> Result<crate::sh::Sh> {
    let python = venv::ensure()?;
    Ok(sh(python).arg(root().join("vendor/tree.py")).arg(command).arg(cache::root()?))
}
