//! Building the native extension module and the empty library that stands beside it.

use std::path::PathBuf;

use crate::args::Args;
use crate::fail;
use crate::sh::{Result, cargo, step};

/// The libraries a build leaves behind.
pub struct Built {
    /// The extension module, to be installed as `torch/_C.abi3.so`.
    pub module: PathBuf,
    /// The library to be installed in `torch/lib`, for upstream's start to load.
    pub global_deps: PathBuf,
}

/// The cargo profile: `--profile`, then `$TORCHNATIVE_PROFILE`, then release.
pub fn profile(args: &mut Args) -> Result<String> {
    const CHOICES: [&str; 2] = ["dev", "release"];
    if let Some(profile) = args.choice("--profile", &CHOICES)? {
        return Ok(profile);
    }
    match std::env::var("TORCHNATIVE_PROFILE") {
        Ok(profile) if CHOICES.contains(&profile.as_str()) => Ok(profile),
        Ok(profile) => fail!("TORCHNATIVE_PROFILE must be dev or release, not `{profile}`"),
        Err(_) => Ok("release".into()),
    }
}

/// Builds both libraries with `profile`.
pub fn build(profile: &str) -> Result<Built> {
    let messages = step(&format!("building the native module ({profile})"), || {
        cargo()
            .args(["build", "--message-format=json-render-diagnostics", "--profile", profile])
            .args(["-p", "torchnative-native", "-p", "torchnative-global-deps"])
            .output()
    })?;
    Ok(Built { module: artifact(&messages, "_C")?, global_deps: artifact(&messages, "torch_global_deps")? })
}

/// The library that cargo says it made from the target `name`.
pub fn artifact(messages: &str, name: &str) -> Result<PathBuf> {
    let target = format!("\"name\":\"{name}\"");
    let file = messages
        .lines()
        .filter(|line| line.contains("\"reason\":\"compiler-artifact\"") && line.contains(&target))
        .filter_map(|line| line.split_once("\"filenames\":[\"")?.1.split('"').next())
        .next_back();
    match file {
        // On Windows the path arrives with its backslashes escaped.
        Some(file) => Ok(PathBuf::from(file.replace("\\\\", "\\"))),
        None => fail!("cargo built no library `{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::artifact;

    #[test]
    fn the_library_is_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"half"},"filenames":["/t/libhalf.rlib"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"_C"},"filenames":["/t/lib_C.so"],"fresh":true}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(artifact(messages, "_C").unwrap().to_str(), Some("/t/lib_C.so"));
        assert!(artifact(messages, "other").is_err());
    }
}
