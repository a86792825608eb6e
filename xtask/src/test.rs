//! `cargo xtask test`: everything CI runs, cheapest first.

use std::time::Instant;

use crate::args::Args;
use crate::counts::Counts;
use crate::sh::{Result, Sh, cargo, root, say, sh, took};
use crate::{apt, checkpoint, dev, fail, native, pyodide, tidy, vendor, venv};

pub const HELP: &str = "run the whole test suite, cheapest first, or the steps named (--list shows them)";

/// What a step did: whether it succeeded, and the text its tests are counted in.
type Outcome = Result<(bool, String)>;

/// One step of the suite.
struct Step {
    name: &'static str,
    what: &'static str,
    /// Nothing after it can work when it fails.
    vital: bool,
    run: fn(&str) -> Outcome,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", what: "Rust formatting", vital: false, run: |_| fmt() },
    Step { name: "tidy", what: "the repository's own rules", vital: false, run: |_| done(tidy::check()) },
    Step { name: "packages", what: "Python packages", vital: true, run: |_| done(venv::ensure_packages()) },
    Step { name: "ruff", what: "Python lints and formatting", vital: false, run: |_| ruff() },
    Step { name: "clippy", what: "Rust lints", vital: false, run: |_| clippy() },
    Step { name: "unit", what: "Rust unit tests", vital: false, run: |_| unit() },
    Step { name: "vendor", what: "upstream's tree", vital: true, run: |_| done(vendor::tree()) },
    Step { name: "dev", what: "the native module", vital: true, run: |profile| done(dev::ready(profile)) },
    Step { name: "checkpoint", what: "the checkpoint", vital: true, run: |_| done(checkpoint::folder()) },
    Step { name: "pytest", what: "native Python tests", vital: false, run: pytest },
    Step { name: "generation", what: "tokens equal upstream's", vital: false, run: |_| generation() },
    Step {
        name: "pyodide",
        what: "both Pyodide wheels under Node",
        vital: false,
        run: |_| pyodide::test(&[]),
    },
];

pub fn run(mut args: Args) -> Result {
    let list = args.switch("--list");
    let profile = native::profile(&mut args)?;
    let names = args.names();
    args.finish()?;
    if list {
        for step in STEPS {
            println!("{:<12} {}", step.name, step.what);
        }
        return Ok(());
    }
    if let Some(name) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == name.as_str())) {
        fail!("there is no step `{name}`; `cargo xtask test --list` shows them");
    }
    let start = Instant::now();
    let mut total = Counts::default();
    let mut broken = Vec::new();
    let wanted = STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name));
    for step in wanted {
        say(format_args!("test {}: {}", step.name, step.what));
        let began = Instant::now();
        let (succeeded, text) = (step.run)(&profile).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            (false, String::new())
        });
        let verdict = if succeeded { "ok" } else { "FAILED" };
        say(format_args!("test {}: {verdict}, {}", step.name, took(began.elapsed())));
        total += Counts::read(succeeded, &text);
        if !succeeded {
            broken.push(step.name);
            if step.vital {
                say(format_args!("stopping: what follows needs `{}`", step.name));
                break;
            }
        }
    }
    say(format_args!("all steps: {}", took(start.elapsed())));
    if !broken.is_empty() {
        say(format_args!("failed: {}", broken.join(", ")));
    }
    // This is the last line whatever happened, so that whoever reads the counts finds them.
    println!("{} passed, {} failed", total.passed, total.failed);
    if !broken.is_empty() {
        std::process::exit(1);
    }
    Ok(())
}

/// A step that either works or explains itself.
fn done<T>(result: Result<T>) -> Outcome {
    result.map(|_| (true, String::new()))
}

/// Runs `command` with its output shown.
fn shown(command: Sh) -> Outcome {
    command.tee()
}

fn fmt() -> Outcome {
    shown(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Outcome {
    // The Pyodide crate is built for wasm alone; its library has the native module's name.
    shown(
        cargo()
            .args(["clippy", "--quiet", "--workspace", "--exclude", "torchnative-pyodide", "--all-targets"])
            .args(["--", "-D", "warnings"]),
    )
}

/// Sees to it that there is a Vulkan adapter, of software if need be.
fn adapter() -> Result {
    let drivers = std::path::Path::new("/usr/share/vulkan/icd.d");
    if cfg!(target_os = "linux") && !drivers.is_dir() {
        apt::ensure(&["mesa-vulkan-drivers", "libvulkan1"], "the webgpu device's tests")?;
    }
    Ok(())
}

fn unit() -> Outcome {
    adapter()?;
    shown(cargo().args([
        "test",
        "--quiet",
        "-p",
        "torchnative-engine",
        "-p",
        "torchnative-kernels",
        "-p",
        "torchnative-webgpu",
        "-p",
        "xtask",
    ]))
}

fn ruff() -> Outcome {
    let ruff = |words: &[&str]| {
        shown(sh(venv::interpreter(&venv::folder())).args(["-m", "ruff"]).args(words).arg("."))
    };
    let (lints, mut text) = ruff(&["check", "--quiet"])?;
    let (format, more) = ruff(&["format", "--quiet", "--check"])?;
    text += &more;
    Ok((lints && format, text))
}

fn pytest(_profile: &str) -> Outcome {
    adapter()?;
    shown(
        sh(venv::interpreter(&venv::folder()))
            .args(["-m", "pytest", "-q", "--durations=5"])
            .arg(root().join("tests").join("vendor"))
            .arg(root().join("tests").join("native"))
            .env("TORCHNATIVE_TREE", vendor::tree()?)
            .env("TORCHNATIVE_CHECKPOINT", checkpoint::folder()?),
    )
}

fn generation() -> Outcome {
    shown(
        sh(venv::interpreter(&venv::folder()))
            .args(["-m", "pytest", "-q"])
            .arg(root().join("tests").join("test_generation.py"))
            .arg(root().join("tests").join("test_loading.py"))
            .env("TORCHNATIVE_TREE", vendor::tree()?)
            .env("TORCHNATIVE_CHECKPOINT", checkpoint::folder()?),
    )
}
