//! Times in Pyodide beside upstream's native ones, taken in the same run: `cargo xtask bench pyodide`.

use super::node::Node;
use super::{DEMO, pack, runner};
use crate::sh::{Result, root, say, sh};
use crate::{checkpoint, oracle};

/// Prints the table.
pub fn run() -> Result {
    let node = Node::ensure()?;
    pack(&node, DEMO, false)?;
    let checkpoint = checkpoint::folder()?;
    say("timing upstream natively, on one thread");
    let theirs = sh(oracle::python()?)
        .arg(root().join("node-tests/python/bench.py"))
        .arg(&checkpoint)
        .env("OMP_NUM_THREADS", "1")
        .output()?;
    say(format_args!("timing {DEMO}"));
    runner(&node, "bench.mjs", DEMO)?.arg("--checkpoint").arg(checkpoint).arg("--beside").arg(theirs).run()
}
