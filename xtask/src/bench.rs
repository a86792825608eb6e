//! `cargo xtask bench`: benchmarks beside upstream. The cases are Python (`benches/cases.py`); `benches/compare.py` times both
//! sides in turn and prints the ratios.

use crate::args::Args;
use crate::sh::{Result, root, sh};
use crate::{dev, fail, oracle, pyodide, vendor};

pub const HELP: &str = "benchmark against upstream, side by side in one run: all groups, or those named\n\
    (dispatch, gemm, model, import; pyodide, when named; --only TEXT, --samples N; --write updates docs/benchmarks.md)";

/// The groups of `benches/cases.py`, and the start.
const GROUPS: [&str; 4] = ["dispatch", "gemm", "model", "import"];

pub fn run(mut args: Args) -> Result {
    let only = args.value("--only")?;
    let samples = args.number("--samples")?;
    let write = args.switch("--write");
    let mut names = args.names();
    args.finish()?;
    if names.iter().any(|name| name == "pyodide") {
        names.retain(|name| name != "pyodide");
        pyodide::bench::run()?;
        if names.is_empty() {
            return Ok(());
        }
    }
    if let Some(name) = names.iter().find(|name| !GROUPS.contains(&name.as_str())) {
        fail!("there is no group `{name}`; there are {}", GROUPS.join(", "));
    }
    vendor::tree()?;
    let ours = dev::ready("release")?;
    let theirs = oracle::python()?;
    let groups = if names.is_empty() { GROUPS.join(",") } else { names.join(",") };
    let mut bench = sh(&ours)
        .arg(root().join("benches/compare.py"))
        .arg("--ours")
        .arg(&ours)
        .arg("--oracle")
        .arg(&theirs)
        .args(["--groups", &groups]);
    if let Some(only) = only {
        bench = bench.args(["--only", &only]);
    }
    if let Some(samples) = samples {
        bench = bench.args(["--samples", &samples.to_string()]);
    }
    if write {
        bench = bench.arg("--write").arg(root().join("docs/benchmarks.md"));
        bench = bench.args(["--command", ["cargo xtask bench", &names.join(" ")].join(" ").trim_end()]);
    }
    bench.run()
}
