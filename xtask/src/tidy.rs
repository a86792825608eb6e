//! `cargo xtask tidy`: the rules of the repository that a command can check.

use std::path::Path;

use crate::args::Args;
use crate::fail;
use crate::sh::{Result, cargo, root, say, sh};

pub const HELP: &str = "check the repository's own rules";

/// A file longer than this holds more than one concern.
const LONGEST: usize = 1200;
/// A file larger than this does not belong in git.
const LARGEST: u64 = 4 << 20;

pub fn run(args: Args) -> Result {
    args.finish()?;
    check()?;
    say("tidy");
    Ok(())
}

/// Fails with the list of broken rules.
pub fn check() -> Result {
    let mut broken = Vec::new();
    for name in tracked()? {
        file(&name, &mut broken);
    }
    layers(&mut broken)?;
    if !broken.is_empty() {
        fail!("{} rules are broken:\n  {}", broken.len(), broken.join("\n  "));
    }
    Ok(())
}

/// The files git tracks and those it would.
fn tracked() -> Result<Vec<String>> {
    let names = sh("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).output()?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// Checks one file: its size, its length, and what no file may say.
fn file(name: &str, broken: &mut Vec<String>) {
    let path = root().join(name);
    let Ok(data) = std::fs::metadata(&path) else { return };
    if !name.starts_with("vendor/pyodide-wheels/") && data.len() > LARGEST {
        broken.push(format!("{name}: {} MiB is too large for git", data.len() >> 20));
    }
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    let end = Path::new(name).extension().and_then(|end| end.to_str()).unwrap_or_default();
    let source = matches!(end, "rs" | "py" | "js" | "mjs" | "ts" | "wgsl" | "md");
    let generated = name.split('/').any(|part| part == "generated");
    let lines = text.lines().count();
    if source && !generated && lines > LONGEST {
        broken.push(format!("{name}: {lines} lines; split it by concern (at most {LONGEST})"));
    }
    if name.ends_with(".lock") || name.ends_with("package-lock.json") || name.starts_with("tests/data/") {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        for (what, says) in forbidden(line) {
            broken.push(format!("{name}:{}: {what}: {says}", number + 1));
        }
        if end == "rs"
            && ["todo", "unimplemented"].iter().any(|macro_name| line.contains(&format!("{macro_name}!(")))
        {
            broken.push(format!("{name}:{}: refuse by name at run time instead of panicking", number + 1));
        }
    }
}

/// What no line may hold: a path of somebody's machine, or the address of a package registry (builds name packages
/// and leave the registry to the tools' own configuration).
fn forbidden(line: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    // Written in halves, so that this file keeps its own rule.
    for folder in
        [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")]
    {
        if let Some(at) = line.find(folder) {
            let before = line[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && !"_.-~}/".contains(c)) {
                found.push(("a path of one machine", folder.to_owned()));
            }
        }
    }
    for host in
        [concat!("py", "pi."), concat!("pythonh", "osted"), concat!("npm", "js."), concat!("crates", ".io")]
    {
        if line.contains("://") && line.contains(host) {
            found.push(("a registry's address", host.to_owned()));
        }
    }
    found
}

/// The engine knows neither Python nor the GPU.
fn layers(broken: &mut Vec<String>) -> Result {
    let tree = cargo()
        .args(["tree", "-p", "torchnative-engine", "--edges", "normal", "--prefix", "none"])
        .output()?;
    for line in tree.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if name.starts_with("pyo3") || name.starts_with("wgpu") || name.starts_with("naga") {
            broken
                .push(format!("core/engine depends on {name}: the engine knows neither Python nor the GPU"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::forbidden;

    #[test]
    fn machine_paths_are_found_and_lookalikes_are_not() {
        assert_eq!(forbidden(concat!("dir = '/ro", "ot/x'")).len(), 1);
        assert_eq!(forbidden(concat!("see \"/ho", "me/me/x\"")).len(), 1);
        assert!(forbidden(concat!("a/ho", "me/b and ./wo", "rk/c and $HOME/ro", "ot/")).is_empty());
        assert_eq!(forbidden(concat!("https://py", "pi.org/simple")).len(), 1);
    }
}
