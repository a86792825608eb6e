//! `cargo xtask conformance`: upstream's own operator samples, ours against the oracle.

use crate::args::Args;
use crate::sh::{Result, root, sh};
use crate::{cache, dev, native, oracle};

pub const HELP: &str = "run upstream's operator samples against the oracle\n\
    (--ops, --dtypes, --device cpu|meta, --variants, --jobs, --report FILE, --resume, --compare OLD, --verbose)";

pub fn run(mut args: Args) -> Result {
    let profile = native::profile(&mut args)?;
    let ours = dev::ready(&profile)?;
    let theirs = oracle::python()?;
    sh(&ours)
        .arg(root().join("tests/conformance/run.py"))
        .arg("--oracle")
        .arg(&theirs)
        .arg("--cache")
        .arg(cache::root()?.join("conformance"))
        .args(args.rest())
        .run()
}
