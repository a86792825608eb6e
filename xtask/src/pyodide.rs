//! The Pyodide half of the commands: wheels, the demo under Node, and the tests there.
//!
//! [`toolchain`] compiles the module, [`node`] installs Node and Pyodide; the recipes they feed are
//! `pyodide/wheel.py` (the wheel), `pyodide/index.py` (the local index) and `node-tests/*.mjs` (what runs).

use std::path::PathBuf;

use crate::demo::Options;
use crate::doctor::Check;
use crate::sh::{Result, Sh, root, say, sh, step};
use crate::{cache, checkpoint, fail, vendor, venv};

pub mod bench;
mod node;
mod toolchain;

use node::Node;

/// The release the demo runs in: the newest CPython, and the one transformers is installed for.
const DEMO: &str = "pyodide-314";

/// The releases a module is built for, with the npm package of each and its wheels' platform.
const RELEASES: [(&str, &str, &str); 2] = [
    ("pyodide-314", "pyodide", "pyemscripten_2026_0_wasm32"),
    ("pyodide-313", "pyodide-0-29", "pyemscripten_2025_0_wasm32"),
];

/// The companions inside the wheel. Their module is abi3 and the same for every platform.
const COMPANIONS: [&str; 2] = ["safetensors", "tokenizers"];

/// Builds the wheel for `target` (`pyodide-314` or `pyodide-313`), and its companions first when asked.
pub fn wheel(target: &str, companions: bool) -> Result {
    let wheel = pack(&Node::ensure()?, target, companions)?;
    say(format_args!("built {}", wheel.display()));
    Ok(())
}

/// Runs the demo in Pyodide under Node.
pub fn demo(options: &Options) -> Result {
    let node = Node::ensure()?;
    pack(&node, DEMO, false)?;
    let folder = checkpoint::folder()?;
    runner(&node, "demo.mjs", DEMO)?.arg("--checkpoint").arg(folder).args(options.words()).run()
}

/// Runs the tests under Node in each release and returns what they printed (counted by [`crate::counts`]): all, or
/// those in files whose name contains one of `files`.
pub fn test(files: &[&str]) -> Result<(bool, String)> {
    let node = Node::ensure()?;
    let (mut succeeded, mut text) = (true, String::new());
    for (release, ..) in RELEASES {
        pack(&node, release, false)?;
        say(format_args!("tests in {release}"));
        let (passed, printed) = runner(&node, "run.mjs", release)?
            .arg("--checkpoint")
            .arg(checkpoint::folder()?)
            .arg("--data")
            .arg(root().join("tests/data"))
            .args(files)
            .tee()?;
        succeeded &= passed;
        text += &printed;
    }
    Ok((succeeded, text))
}

/// What [`crate::doctor`] should look at for this half.
pub fn checks() -> Vec<Check> {
    vec![
        Check::new(
            "wasm toolchain",
            toolchain::describe(),
            "would apt-get install rustc-web cargo-web rust-web-src lld-22",
        ),
        Check::new("npm", node::npm(), "install Node.js with npm"),
        Check::new(
            "Node and Pyodide",
            node::installed(),
            "would npm-install node 26 and pyodide (two releases, 60 MB) into the cache",
        ),
    ]
}

/// A script of `node-tests` under the pinned Node, with the flags every script takes.
fn runner(node: &Node, script: &str, release: &str) -> Result<Sh> {
    let python = venv::ensure()?;
    let index = sh(&python).arg(root().join("pyodide/index.py")).arg(&python).arg(cache::root()?).output()?;
    let mut command = sh(&node.program).arg(root().join("node-tests").join(script));
    command = command.arg("--modules").arg(&node.modules).arg("--release").arg(release);
    for folder in [root().join("dist"), root().join("vendor/pyodide-wheels"), PathBuf::from(index)] {
        command = command.arg("--wheels").arg(folder);
    }
    Ok(command)
}

/// Builds the module and packs the wheel of `target` into `dist`. Quick when nothing changed.
fn pack(node: &Node, target: &str, rebuild: bool) -> Result<PathBuf> {
    let Some((_, package, platform)) = RELEASES.iter().find(|(release, ..)| *release == target) else {
        fail!("there is no release {target}");
    };
    let python = venv::ensure()?;
    let tree = vendor::tree()?;
    let module = toolchain::build()?;
    // An import that Pyodide does not provide aborts the interpreter when it is first called.
    let mut check = sh(&python).arg(root().join("pyodide/tools/check_imports.py")).arg(&module);
    for (_, package, _) in RELEASES {
        check = check.arg(node.modules.join(package));
    }
    check.quiet()?;
    let companions = if rebuild { companions(&python, platform)? } else { vendored()? };
    let mut recipe = sh(&python).arg(root().join("pyodide/wheel.py")).arg("--target").arg(target);
    for (flag, path) in [
        ("--tree", &tree),
        ("--module", &module),
        ("--node", &node.program),
        ("--pyodide", &node.modules.join(package)),
        ("--cache", &cache::root()?),
        ("--out", &root().join("dist")),
    ] {
        recipe = recipe.arg(flag).arg(path);
    }
    for wheel in companions {
        recipe = recipe.arg("--companion").arg(wheel);
    }
    Ok(PathBuf::from(step(&format!("packing the wheel for {target}"), || recipe.output())?))
}

/// Builds the companions from the sources on the package index.
fn companions(python: &PathBuf, platform: &str) -> Result<Vec<PathBuf>> {
    let out = root().join("dist/companions");
    step("building safetensors and tokenizers for Emscripten", || {
        toolchain::environment(sh(python))?
            .arg(root().join("vendor/pyodide-wheels/recipes/companions.py"))
            .arg("--work")
            .arg(cache::folder("companions")?)
            .arg("--out")
            .arg(&out)
            .arg("--platform")
            .arg(platform)
            .args(toolchain::command()?)
            .run()
    })?;
    wheels(&out)
}

/// The companions of the repository.
fn vendored() -> Result<Vec<PathBuf>> {
    wheels(&root().join("vendor/pyodide-wheels"))
}

/// The companions' wheels in `folder`.
fn wheels(folder: &std::path::Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in COMPANIONS {
        let start = format!("{name}-");
        let file = std::fs::read_dir(folder)?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|f| f.to_string_lossy().starts_with(&start)));
        match file {
            Some(file) => found.push(file),
            None => fail!("{} has no wheel of {name}", folder.display()),
        }
    }
    Ok(found)
}
