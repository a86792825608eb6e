//! Answers about parts of upstream that a build may lack, and that this one lacks.

use pyo3::prelude::*;

macro_rules! absent {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            fn $name() -> bool {
                false
            }
        )*

        pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            module.add_function(wrap_pyfunction!(_get_max_operator_version, module)?)
        }
    };
}

absent! {
    /// Whether collective communication is built in.
    _has_distributed;
    /// CUDA's flash attention; the CPU's own is chosen elsewhere.
    _is_flash_attention_available;
    /// ROCm's composable kernels.
    _is_ck_sdpa_available;
    _rocm_is_backward_pass;
    _is_xnnpack_enabled;
    /// TorchScript's tensor expression compiler.
    _llvm_enabled;
    _has_tensorexpr_cpp_tests;
    _is_default_mobile_cpu_allocator_set;
    _valgrind_supported_platform;
    /// Functionalisation, which is never entered.
    _functionalization_reapply_views_tls;
}

/// The version of operators' meaning that saved programs are marked with.
#[pyfunction]
fn _get_max_operator_version() -> i64 {
    10
}
