//! The Pyodide half of the commands: wheels, the demo under Node, and the tests there.

use crate::demo::Options;
use crate::doctor::Check;
use crate::fail;
use crate::sh::Result;

/// Builds the wheel for `target` (`pyodide-314` or `pyodide-313`).
pub fn wheel(target: &str, companions: bool) -> Result {
    let what = if companions { "the companion wheels" } else { "the wheel" };
    fail!("{what} for {target} cannot be built yet");
}

/// Runs the demo in Pyodide under Node.
pub fn demo(_options: &Options) -> Result {
    fail!("the Pyodide demo is not built yet; `cargo xtask demo --native` is")
}

/// Runs the tests under Node and returns what they printed (counted by [`crate::counts`]).
pub fn test() -> Result<(bool, String)> {
    fail!("the Pyodide tests are not built yet")
}

/// What [`crate::doctor`] should look at for this half.
pub fn checks() -> Vec<Check> {
    Vec::new()
}
