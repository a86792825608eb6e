//! `torch._C._cpu`: what the processor can do.

use crate::surface;
use pyo3::prelude::*;
use pyo3::types::PyDict;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! detect {
    ($found:ident, $macro:ident, $($name:literal = $feature:tt),* $(,)?) => {
        $($found.set_item($name, std::arch::$macro!($feature))?;)*
    };
}

/// The capabilities of the processor by upstream's names.
#[pyfunction]
fn _get_cpu_capability(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("architecture", architecture())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    found.set_item("num_logical_cores", cores)?;
    #[cfg(target_arch = "x86_64")]
    detect!(
        found,
        is_x86_feature_detected,
        "sse" = "sse",
        "sse2" = "sse2",
        "sse3" = "sse3",
        "ssse3" = "ssse3",
        "sse4_1" = "sse4.1",
        "sse4_2" = "sse4.2",
        "sse4a" = "sse4a",
        "avx" = "avx",
        "avx2" = "avx2",
        "avx512_f" = "avx512f",
        "avx512_cd" = "avx512cd",
        "avx512_dq" = "avx512dq",
        "avx512_bw" = "avx512bw",
        "avx512_vl" = "avx512vl",
        "avx512_ifma" = "avx512ifma",
        "avx512_vbmi" = "avx512vbmi",
        "avx512_vbmi2" = "avx512vbmi2",
        "avx512_bitalg" = "avx512bitalg",
        "avx512_vpopcntdq" = "avx512vpopcntdq",
        "avx512_vnni" = "avx512vnni",
        "avx512_bf16" = "avx512bf16",
        "avx512_fp16" = "avx512fp16",
        "avx_vnni" = "avxvnni",
        "fma3" = "fma",
        "f16c" = "f16c",
        "bmi" = "bmi1",
        "bmi2" = "bmi2",
        "lzcnt" = "lzcnt",
        "popcnt" = "popcnt",
        "aes" = "aes",
        "sha" = "sha",
    );
    #[cfg(target_arch = "aarch64")]
    detect!(
        found,
        is_aarch64_feature_detected,
        "neon" = "neon",
        "bf16" = "bf16",
        "fp16" = "fp16",
        "i8mm" = "i8mm",
        "dot" = "dotprod",
        "sve" = "sve",
        "sve2" = "sve2",
        "atomics" = "lse",
        "fhm" = "fhm",
        "rdm" = "rdm",
        "crc32" = "crc",
        "aes" = "aes",
        "sha2" = "sha2",
        "pmull" = "pmull",
    );
    Ok(found)
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" if cfg!(target_vendor = "apple") => "arm64",
        other => other,
    }
}

/// Upstream asks the kernel for the tile registers here; no kernel of ours uses them.
#[pyfunction]
fn _init_amx() -> bool {
    false
}

pub fn init(root: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &surface::find(root.py(), "torch._C._cpu")?;
    module.add_function(wrap_pyfunction!(_get_cpu_capability, module)?)?;
    module.add_function(wrap_pyfunction!(_init_amx, module)?)
}
