//! Prints which operators have no kernel on the CPU: those named on standard input (`aten::add.Tensor`, one a line), or
//! all of the table when it is empty.

use std::io::{self, Read, Write};
use torchnative_engine::dispatch::{DispatchKey, Operator};
use torchnative_engine::{generated, ops};

fn main() -> io::Result<()> {
    ops::register_all();
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let mut wanted: Vec<String> =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    if wanted.is_empty() {
        wanted = generated::ops().iter().map(|info| format!("aten::{}", info.name)).collect();
    }
    let mut out = io::stdout().lock();
    let total = wanted.len();
    let mut missing = 0;
    for full in wanted {
        let (name, overload) = full.split_once('.').unwrap_or((&full, ""));
        let known = Operator::find(name, overload);
        let key = DispatchKey::CPU;
        if !known.is_some_and(|o| o.reaches_kernel(key)) {
            missing += 1;
            writeln!(out, "{full}")?;
        }
    }
    writeln!(out, "{missing} of {total} operators have no kernel on the CPU")
}
