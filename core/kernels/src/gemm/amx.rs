//! Tile products of bfloat16 with the matrix instructions of x86 (AMX): 16 × 16 sums of an `f32` tile take 32 products along
//! `k` in one instruction. Rounding and subnormal numbers are those of [`super::pairs`], whose packed operands these read.
//!
//! The instructions are written as assembly because their intrinsics are not in stable Rust.

use super::pairs::{NR, Pairs};
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::OnceLock;

/// Rows that [`Config::multiply`] handles at once: two tiles.
pub const ROWS: usize = 32;
/// Pairs along `k` in a tile; both operands are padded to a multiple of it with zeros.
pub const DEPTH: usize = 16;

/// Whether this CPU has the instructions and the system lets this process use them.
pub fn available() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| cpu_has() && system_allows())
}

/// AMX-TILE and AMX-BF16, with their registers saved by the system (Intel's manual, volume 1, section 18.2).
fn cpu_has() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const BF16_AND_TILE: u32 = 1 << 22 | 1 << 24;
    const TILE_STATE: u64 = 3 << 17;
    if __cpuid(0).eax < 7
        || __cpuid(1).ecx & OSXSAVE == 0
        || __cpuid_count(7, 0).edx & BF16_AND_TILE != BF16_AND_TILE
    {
        return false;
    }
    #[target_feature(enable = "xsave")]
    unsafe fn saved() -> u64 {
        // SAFETY: register 0 exists where XGETBV does.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: OSXSAVE says that XGETBV is there.
    unsafe { saved() & TILE_STATE == TILE_STATE }
}

/// Linux gives the tile registers to a process that asks; threads made later inherit the leave.
#[cfg(target_os = "linux")]
fn system_allows() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes numbers alone and changes what this process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// Elsewhere nobody has shown that it works.
#[cfg(not(target_os = "linux"))]
fn system_allows() -> bool {
    false
}

/// The tile registers of this thread, set up for products and released at the end: a thread that holds tiles is slower to switch.
pub struct Config(());

impl Config {
    /// # Safety
    /// [`available`].
    pub unsafe fn load() -> Config {
        /// The first palette: eight tiles of 16 rows of 64 bytes.
        #[repr(C, align(64))]
        struct Palette {
            palette: u8,
            start_row: u8,
            reserved: [u8; 14],
            bytes: [u16; 16],
            rows: [u8; 16],
        }
        let mut palette =
            Palette { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        palette.bytes[..8].fill(64);
        palette.rows[..8].fill(16);
        // SAFETY: the caller's contract; 64 bytes are read.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &palette, options(nostack, readonly)) };
        Config(())
    }

    /// `c[i][j] = a[i] · b[j]` for [`ROWS`] rows and [`NR`] columns over `depth` pairs (not zero, a multiple of
    /// [`DEPTH`]), added to what `c` holds if `add` is set. Rows of `c` are `ld` numbers apart.
    ///
    /// # Safety
    /// `a` must be readable for `ROWS` rows of `depth` pairs, `b` for a panel of `depth` rows of [`NR`] pairs, `c`
    /// writable for `ROWS` rows of `NR` numbers, and readable if `add` is set.
    pub unsafe fn multiply(&self, a: Pairs, b: *const u32, depth: usize, c: *mut f32, ld: usize, add: bool) {
        debug_assert!(depth > 0 && depth.is_multiple_of(DEPTH));
        let stride = 2 * a.rs;
        // SAFETY: the caller's contract. The tile registers belong to `Config`.
        unsafe {
            asm!(
                "test {add}, {add}",
                "jz 3f",
                "tileloadd tmm0, [{c} + {ld}]",
                "tileloadd tmm1, [{c} + {ld} + 64]",
                "tileloadd tmm2, [{below} + {ld}]",
                "tileloadd tmm3, [{below} + {ld} + 64]",
                "jmp 2f",
                "3:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{a} + {stride}]",
                "tileloadd tmm6, [{b} + {width}]",
                "tileloadd tmm7, [{b} + {width} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{low} + {stride}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, 64",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "add {low}, 64",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {b}, 2048",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {ld}], tmm0",
                "tilestored [{c} + {ld} + 64], tmm1",
                "tilestored [{below} + {ld}], tmm2",
                "tilestored [{below} + {ld} + 64], tmm3",
                add = in(reg) usize::from(add),
                a = inout(reg) a.ptr => _,
                low = inout(reg) a.ptr.wrapping_byte_offset(16 * stride) => _,
                b = inout(reg) b => _,
                steps = inout(reg) depth / DEPTH => _,
                stride = in(reg) stride,
                width = in(reg) 4 * NR,
                c = in(reg) c,
                below = in(reg) c.wrapping_add(16 * ld),
                ld = in(reg) 4 * ld,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: a `Config` exists only where the instructions do.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
