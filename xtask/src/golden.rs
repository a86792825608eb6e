//! `cargo xtask golden`: records expected values from the oracle into `tests/data`.

use std::path::PathBuf;

use crate::args::Args;
use crate::sh::{Result, root, sh, step};
use crate::{checkpoint, fail, oracle};

pub const HELP: &str = "record expected values from the oracle: all recorders, or those named";

pub fn run(mut args: Args) -> Result {
    let names = args.names();
    args.finish()?;
    let recorders = recorders()?;
    for name in &names {
        if !recorders.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = recorders.iter().map(|(known, _)| known.as_str()).collect();
            fail!("there is no recorder `{name}`; there are {}", known.join(", "));
        }
    }
    let python = oracle::python()?;
    let checkpoint = checkpoint::folder()?;
    for (name, file) in recorders.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        step(&format!("recording {name}"), || {
            sh(&python)
                .arg(file)
                .env("TORCHNATIVE_CHECKPOINT", &checkpoint)
                .env("TORCHNATIVE_DATA", root().join("tests/data"))
                .run()
        })?;
    }
    Ok(())
}

/// The scripts in `vendor/golden`, by name. One that starts with an underscore is a helper of the others.
fn recorders() -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("vendor/golden"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "py")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            && !name.starts_with('_')
        {
            found.push((name.to_owned(), path));
        }
    }
    found.sort();
    Ok(found)
}
