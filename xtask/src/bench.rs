//! `cargo xtask bench`: benchmarks beside upstream.

use crate::args::Args;
use crate::fail;
use crate::sh::Result;

pub const HELP: &str = "benchmark against upstream, side by side in one run";

pub fn run(_args: Args) -> Result {
    fail!("the benchmarks are not built yet")
}
