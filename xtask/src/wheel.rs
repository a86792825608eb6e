//! `cargo xtask wheel`: the wheels users install.

use crate::args::Args;
use crate::sh::{Result, root, say, sh};
use crate::{fail, native, pyodide, vendor, venv};

pub const HELP: &str = "build a wheel into dist/: --target native|pyodide-314|pyodide-313\n\
    (--companions also builds the Rust packages that transformers needs in Pyodide)";

pub fn run(mut args: Args) -> Result {
    let companions = args.switch("--companions");
    let Some(target) = args.choice("--target", &["native", "pyodide-314", "pyodide-313"])? else {
        fail!("say which wheel: --target native, pyodide-314 or pyodide-313");
    };
    if target != "native" {
        args.finish()?;
        return pyodide::wheel(&target, companions);
    }
    if companions {
        fail!("--companions belongs to the pyodide targets: native users have those packages on the index");
    }
    let profile = native::profile(&mut args)?;
    args.finish()?;
    let python = venv::ensure()?;
    let tree = vendor::tree()?;
    let built = native::build(&profile)?;
    let wheel = sh(python)
        .arg(root().join("native/wheel.py"))
        .arg(&tree)
        .arg("--module")
        .arg(&built.module)
        .arg("--global-deps")
        .arg(&built.global_deps)
        .arg("--out")
        .arg(root().join("dist"))
        .output()?;
    say(format_args!("built {wheel}"));
    Ok(())
}
