//! `cargo xtask conformance`: upstream's own operator samples, ours against the oracle.

use crate::args::Args;
use crate::fail;
use crate::sh::Result;

pub const HELP: &str = "run upstream's operator samples against the oracle";

pub fn run(_args: Args) -> Result {
    fail!("the conformance run is not built yet")
}
