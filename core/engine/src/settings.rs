//! Process-wide settings that operators consult; the host sets them.

use std::sync::atomic::{AtomicBool, Ordering};

/// A setting that is on or off.
pub struct Setting(AtomicBool);

impl Setting {
    const fn new(on: bool) -> Setting {
        Setting(AtomicBool::new(on))
    }
    /// Whether it is on.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    /// Turns it on or off.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}

/// Whether attention may run fused (`torch.backends.cuda.enable_flash_sdp`).
pub static SDP_FLASH: Setting = Setting::new(true);
/// Whether attention may run as separate operators (`torch.backends.cuda.enable_math_sdp`).
pub static SDP_MATH: Setting = Setting::new(true);
/// Whether attention as separate operators stays in half precision
/// (`torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp`).
pub static SDP_MATH_REDUCTION: Setting = Setting::new(false);
