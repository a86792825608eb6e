//! Debian packages by name, where the system has apt and lets us.

use crate::fail;
use crate::sh::{Result, sh, step, which};

/// Those of `packages` that dpkg does not have installed.
fn missing<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let installed = |name: &str| {
        sh("dpkg-query")
            .args(["-W", "-f=${Status}", name])
            .probe()
            .is_some_and(|status| status.ends_with("ok installed"))
    };
    packages.iter().copied().filter(|name| !installed(name)).collect()
}

/// Sees to it that `packages` are installed; `why` is what needs them.
pub fn ensure(packages: &[&str], why: &str) -> Result {
    if which("apt-get").is_none() {
        fail!("{why} needs {}: install them with your package manager", packages.join(", "));
    }
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    let root = sh("id").arg("-u").probe().is_some_and(|id| id == "0");
    let sudo = !root && sh("sudo").args(["-n", "true"]).probe().is_some();
    if !root && !sudo {
        fail!("{why} needs {0}: run `sudo apt-get install --no-install-recommends {0}`", missing.join(" "));
    }
    let apt = |words: &[&str]| {
        let command = if sudo { sh("sudo").args(["-n", "apt-get"]) } else { sh("apt-get") };
        command.env("DEBIAN_FRONTEND", "noninteractive").args(words)
    };
    step(&format!("apt-get install {} (for {why})", missing.join(" ")), || {
        let words = [&["install", "-y", "-qq", "--no-install-recommends"], missing.as_slice()].concat();
        if apt(&words).probe().is_some() {
            return Ok(());
        }
        // The lists may be missing or stale; once more with fresh ones.
        apt(&["update", "-qq"]).quiet()?;
        apt(&words).quiet()
    })
}
