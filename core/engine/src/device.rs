//! Devices, layouts and memory formats.

use crate::{Result, bail, check};
use std::fmt;
use std::sync::OnceLock;

/// `c10::DeviceType`, with upstream's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DeviceType {
    Cpu = 0,
    Cuda = 1,
    Mkldnn = 2,
    Opengl = 3,
    Opencl = 4,
    Ideep = 5,
    Hip = 6,
    Fpga = 7,
    Maia = 8,
    Xla = 9,
    Vulkan = 10,
    Metal = 11,
    Xpu = 12,
    Mps = 13,
    Meta = 14,
    Hpu = 15,
    Ve = 16,
    Lazy = 17,
    Ipu = 18,
    Mtia = 19,
    PrivateUse1 = 20,
}

static RENAMED: OnceLock<&'static str> = OnceLock::new();

/// Gives the out-of-tree device a name for messages; the first one stays.
pub fn rename_private(name: &str) {
    RENAMED.get_or_init(|| name.to_owned().leak());
}

impl DeviceType {
    pub const ALL: [(DeviceType, &'static str); 21] = [
        (DeviceType::Cpu, "cpu"),
        (DeviceType::Cuda, "cuda"),
        (DeviceType::Ipu, "ipu"),
        (DeviceType::Xpu, "xpu"),
        (DeviceType::Mkldnn, "mkldnn"),
        (DeviceType::Opengl, "opengl"),
        (DeviceType::Opencl, "opencl"),
        (DeviceType::Ideep, "ideep"),
        (DeviceType::Hip, "hip"),
        (DeviceType::Ve, "ve"),
        (DeviceType::Fpga, "fpga"),
        (DeviceType::Maia, "maia"),
        (DeviceType::Xla, "xla"),
        (DeviceType::Lazy, "lazy"),
        (DeviceType::Vulkan, "vulkan"),
        (DeviceType::Mps, "mps"),
        (DeviceType::Meta, "meta"),
        (DeviceType::Hpu, "hpu"),
        (DeviceType::Mtia, "mtia"),
        (DeviceType::Metal, "metal"),
        (DeviceType::PrivateUse1, "privateuseone"),
    ];
    /// The lower-case name, as `torch.device(...).type` gives it.
    pub fn name(self) -> &'static str {
        if self == DeviceType::PrivateUse1
            && let Some(name) = RENAMED.get()
        {
            return name;
        }
        Self::ALL.iter().find(|(t, _)| *t == self).map_or("unknown", |(_, n)| n)
    }
    /// The upper-case name that error messages use.
    pub fn backend_name(self) -> &'static str {
        match self {
            DeviceType::Cpu => "CPU",
            DeviceType::Cuda => "CUDA",
            DeviceType::Meta => "Meta",
            DeviceType::PrivateUse1 => "PrivateUse1",
            DeviceType::Mps => "MPS",
            DeviceType::Xpu => "XPU",
            other => other.name(),
        }
    }
}

/// A device type with an index; −1 stands for the current device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Device {
    pub ty: DeviceType,
    pub index: i8,
}

impl Device {
    pub const CPU: Device = Device { ty: DeviceType::Cpu, index: -1 };
    pub const META: Device = Device { ty: DeviceType::Meta, index: -1 };

    pub fn is_cpu(self) -> bool {
        self.ty == DeviceType::Cpu
    }
    pub fn is_meta(self) -> bool {
        self.ty == DeviceType::Meta
    }
    /// Parses `cpu`, `cuda:0`, …
    ///
    /// # Errors
    /// Upstream's messages for unknown types and bad indices.
    pub fn parse(s: &str) -> Result<Device> {
        check!(!s.is_empty(), "Device string must not be empty");
        let invalid = || format!("Invalid device string: '{s}'");
        let (name, index) = match s.split_once(':') {
            None => (s, -1),
            Some((name, digits)) => {
                let ok = !digits.is_empty()
                    && digits.bytes().all(|c| c.is_ascii_digit())
                    && (digits.len() == 1 || !digits.starts_with('0'));
                check!(ok, "{}", invalid());
                match digits.parse::<i8>() {
                    Ok(n) => (name, n),
                    Err(_) => {
                        bail!(Runtime, "Could not parse device index '{digits}' in device string '{s}'")
                    }
                }
            }
        };
        check!(
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'),
            "{}",
            invalid()
        );
        // Upstream has the type, but no name to ask for it.
        let named = DeviceType::ALL.iter().filter(|(ty, _)| *ty != DeviceType::Metal);
        match named.clone().find(|(_, n)| *n == name) {
            Some((ty, _)) => Ok(Device { ty: *ty, index }),
            None => {
                let names: Vec<&str> = named.map(|(_, n)| *n).collect();
                bail!(
                    Runtime,
                    "Expected one of {} device type at start of device string: {name}",
                    names.join(", ")
                )
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ty.name())?;
        if self.index >= 0 { write!(f, ":{}", self.index) } else { Ok(()) }
    }
}

/// `c10::Layout`, with upstream's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Layout {
    Strided = 0,
    Sparse = 1,
    SparseCsr = 2,
    Mkldnn = 3,
    SparseCsc = 4,
    SparseBsr = 5,
    SparseBsc = 6,
    Jagged = 7,
}

impl Layout {
    pub const ALL: [Layout; 8] = [
        Layout::Strided,
        Layout::Sparse,
        Layout::SparseCsr,
        Layout::Mkldnn,
        Layout::SparseCsc,
        Layout::SparseBsr,
        Layout::SparseBsc,
        Layout::Jagged,
    ];
    /// The attribute of `torch` without the prefix.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Strided => "strided",
            Layout::Sparse => "sparse_coo",
            Layout::SparseCsr => "sparse_csr",
            Layout::Mkldnn => "_mkldnn",
            Layout::SparseCsc => "sparse_csc",
            Layout::SparseBsr => "sparse_bsr",
            Layout::SparseBsc => "sparse_bsc",
            Layout::Jagged => "jagged",
        }
    }
}

/// `c10::MemoryFormat`, with upstream's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum MemoryFormat {
    Contiguous = 0,
    Preserve = 1,
    ChannelsLast = 2,
    ChannelsLast3d = 3,
}

impl MemoryFormat {
    pub const ALL: [MemoryFormat; 4] = [
        MemoryFormat::Contiguous,
        MemoryFormat::Preserve,
        MemoryFormat::ChannelsLast,
        MemoryFormat::ChannelsLast3d,
    ];
    /// The attribute of `torch` without the prefix.
    pub fn name(self) -> &'static str {
        match self {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::Preserve => "preserve_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
        }
    }
}
