//! What a kernel asks of the device: a program and the slices of buffers it works on.

use std::sync::Arc;

/// How a program uses a storage binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    Read,
    ReadWrite,
}

/// A compute program: WGSL with the entry point `main`, storage bindings `@group(0) @binding(0..n)` in the order of
/// `bindings`, and, after them, `@binding(n)` a uniform with the launch's parameters when it has any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The operator it serves, for error messages: `aten::softmax.int`.
    pub name: Arc<str>,
    pub source: Arc<str>,
    pub bindings: Vec<Access>,
    /// Bytes of the uniform; 0 when there is none. A multiple of 16.
    pub params: u32,
}

/// A range of a device buffer. `offset` is a multiple of the device's storage alignment (256), `size` of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    pub buffer: u32,
    pub offset: u64,
    pub size: u64,
}

/// What the adapter offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    pub max_buffer_size: u64,
    pub max_storage_buffer_binding_size: u64,
    pub max_storage_buffers_per_shader_stage: u32,
    pub max_compute_workgroups_per_dimension: u32,
    pub max_compute_invocations_per_workgroup: u32,
    pub max_compute_workgroup_storage_size: u32,
    pub min_subgroup_size: u32,
    pub max_subgroup_size: u32,
    pub shader_f16: bool,
    pub subgroups: bool,
}

/// Where kernels send their work. The recorder is one; tests of kernels use it with an executor behind.
pub trait Queue {
    fn limits(&self) -> &Limits;
    /// Appends one dispatch. Bindings that are written must not overlap others of the same dispatch.
    fn dispatch(
        &mut self,
        program: &Program,
        bindings: &[Slice],
        params: &[u32],
        groups: [u32; 3],
    ) -> Result<(), String>;
    /// Memory that lives until the work recorded so far has run. Uninitialised.
    fn scratch(&mut self, nbytes: u64) -> Result<Slice, String>;
}

/// Spreads `groups` workgroups over the dimensions so that none passes the limit. The kernel computes its index as
/// `id.x + id.y * num.x + id.z * num.x * num.y` and returns when it is past the count.
pub fn fold_groups(groups: u64, limit: u32) -> [u32; 3] {
    let limit = limit as u64;
    if groups <= limit {
        return [groups as u32, 1, 1];
    }
    let y = groups.div_ceil(limit);
    if y <= limit {
        return [limit as u32, y as u32, 1];
    }
    [limit as u32, limit as u32, groups.div_ceil(limit * limit) as u32]
}
