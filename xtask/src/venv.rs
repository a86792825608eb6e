//! `.venv`: the project's Python environment, with the packages the tests, the demo and the build scripts need.

use std::path::{Path, PathBuf};

use crate::fail;
use crate::python;
use crate::sh::{Result, read, root, sh, step, write};

/// Flags every pip call gets: no prompts, no notices about itself.
pub const PIP: [&str; 4] = ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--quiet"];

/// The environment's folder.
pub fn folder() -> PathBuf {
    root().join(".venv")
}

/// The interpreter inside the environment `venv`.
pub fn interpreter(venv: &Path) -> PathBuf {
    if cfg!(windows) { venv.join("Scripts/python.exe") } else { venv.join("bin/python") }
}

/// The environment's `site-packages`.
pub fn site_packages(python: &Path) -> Result<PathBuf> {
    let code = "import sysconfig; print(sysconfig.get_path('platlib'))";
    Ok(PathBuf::from(sh(python).args(["-I", "-c", code]).output()?))
}

/// Makes the environment `venv` with a bare pip, unless it is there and runs.
pub fn ensure_bare(venv: &Path) -> Result<PathBuf> {
    let inside = interpreter(venv);
    if inside.exists() && sh(&inside).args(["-I", "-c", "import pip"]).probe().is_some() {
        return Ok(inside);
    }
    let base = python::find()?;
    if !python::has_venv(&base.path) {
        fail!(
            "{} has no venv module: install the package python3-venv (or python{}-venv)",
            base.path.display(),
            base.version.rsplit_once('.').map_or("3", |(minor, _)| minor)
        );
    }
    step(&format!("making {} with CPython {}", venv.display(), base.version), || {
        sh(&base.path).args(["-m", "venv", "--clear"]).arg(venv).quiet()
    })?;
    Ok(inside)
}

/// Makes `.venv` with a bare pip and returns its interpreter.
pub fn ensure() -> Result<PathBuf> {
    ensure_bare(&folder())
}

/// Installs a requirements file into the environment of `python`, unless this very file was installed last.
pub fn install(venv: &Path, requirements: &str) -> Result {
    let file = root().join(requirements);
    let stamp = venv.join(format!(".installed-{}", requirements.replace('/', "-")));
    let wanted = read(&file)?;
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    step(&format!("installing {requirements}"), || {
        sh(interpreter(venv)).args(["-m", "pip", "install"]).args(PIP).arg("-r").arg(&file).quiet()
    })?;
    write(&stamp, &wanted)
}

/// Makes `.venv` with every package the project's own Python needs, and returns its interpreter.
pub fn ensure_packages() -> Result<PathBuf> {
    let python = ensure()?;
    install(&folder(), "vendor/requirements.txt")?;
    Ok(python)
}
