//! The `webgpu` device.
//!
//! The recorder plans work and owns the buffer pool; it writes a compact [`stream`] of commands that an executor drains, in
//! process on wgpu natively, in a module of its own in the browser. Kernels are WGSL [`program::Program`]s.

#[cfg(feature = "device")]
pub mod device;
#[cfg(feature = "native")]
pub mod native;
#[cfg(feature = "device")]
pub mod ops;
pub mod program;
#[cfg(feature = "python")]
pub mod python;
pub mod recorder;
pub mod stream;
