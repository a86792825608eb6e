//! Dispatch keys and sets of them, with upstream's names, order and bit layout (`c10/core/DispatchKey.h`):
//! a set holds one bit a backend (the low 16) and one bit a functionality.

use crate::DeviceType;
use std::fmt;

/// A dispatch key: a functionality, a functionality on one backend, or an alias.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DispatchKey(pub u16);

/// Number of backend bits.
pub const NUM_BACKENDS: u16 = 16;

pub const BACKENDS: [&str; NUM_BACKENDS as usize] = [
    "CPU",
    "CUDA",
    "HIP",
    "XLA",
    "MPS",
    "IPU",
    "XPU",
    "HPU",
    "VE",
    "Lazy",
    "MTIA",
    "MAIA",
    "PrivateUse1",
    "PrivateUse2",
    "PrivateUse3",
    "Meta",
];

macro_rules! functionality {
    ($($name:ident),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        #[allow(dead_code, reason = "numbers only")]
        enum Number { Undefined, $($name,)* End }
        #[allow(non_upper_case_globals)]
        impl DispatchKey {
            pub const Undefined: DispatchKey = DispatchKey(0);
            $(pub const $name: DispatchKey = DispatchKey(Number::$name as u16);)*
            /// One past the last functionality key.
            pub const END_FUNCTIONALITY: u16 = Number::End as u16;
        }
        const FUNCTIONALITY_NAMES: &[&str] = &["Undefined", $(stringify!($name),)*];
    };
}
functionality! {
    Dense, FPGA, Vulkan, Metal, Quantized, CustomRNGKeyId, MkldnnCPU, Sparse, SparseCsr, NestedTensor, BackendSelect, Fake,
    Python, FuncTorchDynamicLayerBackMode, Functionalize, Conjugate, Negative, ZeroTensor, ADInplaceOrView, AutogradOther,
    AutogradFunctionality, AutogradNestedTensor, Tracer, AutocastCPU, AutocastMTIA, AutocastMAIA, AutocastXPU, AutocastIPU,
    AutocastHPU, AutocastXLA, AutocastMPS, AutocastCUDA, AutocastPrivateUse1, FuncTorchBatched, BatchedNestedTensor,
    FuncTorchVmapMode, Batched, VmapMode, FuncTorchGradWrapper, DeferredInit, PythonTLSSnapshot,
    FuncTorchDynamicLayerFrontMode, TESTING_ONLY_GenericWrapper, TESTING_ONLY_GenericMode, PreDispatch, PythonDispatcher,
}

/// The functionalities that exist once a backend, with the prefix of their keys' names.
pub const PER_BACKEND: [(DispatchKey, &str); 6] = [
    (DispatchKey::Dense, ""),
    (DispatchKey::Quantized, "Quantized"),
    (DispatchKey::Sparse, "Sparse"),
    (DispatchKey::SparseCsr, "SparseCsr"),
    (DispatchKey::NestedTensor, "NestedTensor"),
    (DispatchKey::AutogradFunctionality, "Autograd"),
];

// Upstream's enum has a marker after the functionalities.
const FIRST_RUNTIME: u16 = DispatchKey::END_FUNCTIONALITY + 1;
// Each per-backend block starts with a marker, as upstream's enum has it.
const BLOCK: u16 = NUM_BACKENDS + 1;
const FIRST_ALIAS: u16 = FIRST_RUNTIME + 6 * BLOCK;

const ALIASES: [&str; 6] = [
    "Autograd",
    "CompositeImplicitAutograd",
    "FuncTorchBatchedDecomposition",
    "CompositeImplicitAutogradNestedTensor",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
];

#[allow(non_upper_case_globals)]
impl DispatchKey {
    pub const CPU: DispatchKey = DispatchKey::runtime(0, 0);
    pub const Meta: DispatchKey = DispatchKey::runtime(0, 15);
    pub const PrivateUse1: DispatchKey = DispatchKey::runtime(0, 12);
    pub const AutogradCPU: DispatchKey = DispatchKey::runtime(5, 0);
    pub const AutogradMeta: DispatchKey = DispatchKey::runtime(5, 15);
    pub const AutogradPrivateUse1: DispatchKey = DispatchKey::runtime(5, 12);
    pub const Autograd: DispatchKey = DispatchKey(FIRST_ALIAS);
    pub const CompositeImplicitAutograd: DispatchKey = DispatchKey(FIRST_ALIAS + 1);
    pub const FuncTorchBatchedDecomposition: DispatchKey = DispatchKey(FIRST_ALIAS + 2);
    pub const CompositeImplicitAutogradNestedTensor: DispatchKey = DispatchKey(FIRST_ALIAS + 3);
    pub const CompositeExplicitAutograd: DispatchKey = DispatchKey(FIRST_ALIAS + 4);
    pub const CompositeExplicitAutogradNonFunctional: DispatchKey = DispatchKey(FIRST_ALIAS + 5);

    /// The key of the per-backend functionality number `f` (in `PER_BACKEND`) on backend number `b`.
    pub const fn runtime(f: u16, b: u16) -> DispatchKey {
        DispatchKey(FIRST_RUNTIME + f * BLOCK + 1 + b)
    }
    pub const fn is_alias(self) -> bool {
        self.0 >= FIRST_ALIAS
    }
    /// Splits a per-backend runtime key into functionality and backend number.
    pub fn parts(self) -> (DispatchKey, Option<u16>) {
        if self.0 < FIRST_RUNTIME || self.is_alias() {
            return (self, None);
        }
        let n = self.0 - FIRST_RUNTIME;
        let b = n % BLOCK;
        (PER_BACKEND[(n / BLOCK) as usize].0, b.checked_sub(1))
    }
    pub fn name(self) -> String {
        if let Some(name) = FUNCTIONALITY_NAMES.get(self.0 as usize) {
            return (*name).into();
        }
        if self.0 < FIRST_RUNTIME {
            return "EndOfFunctionalityKeys".into();
        }
        if self.is_alias() {
            return ALIASES.get((self.0 - FIRST_ALIAS) as usize).copied().unwrap_or("Undefined").into();
        }
        let n = self.0 - FIRST_RUNTIME;
        let prefix = PER_BACKEND[(n / BLOCK) as usize].1;
        match n % BLOCK {
            0 => format!("StartOf{}Backends", if prefix.is_empty() { "Dense" } else { prefix }),
            b => format!("{prefix}{}", BACKENDS[b as usize - 1]),
        }
    }
    /// Every key that has a name.
    pub fn all() -> impl Iterator<Item = DispatchKey> {
        (0..FIRST_ALIAS + ALIASES.len() as u16).map(DispatchKey)
    }
    /// `parseDispatchKey`.
    pub fn parse(name: &str) -> Option<DispatchKey> {
        match name {
            "CatchAll" => Some(DispatchKey::Undefined),
            "Autocast" => Some(DispatchKey::AutocastCUDA),
            _ => DispatchKey::all().find(|k| k.name() == name),
        }
    }
    /// The dense key of a device's backend.
    pub fn for_device(ty: DeviceType) -> DispatchKey {
        DispatchKey::runtime(0, Self::backend_of(ty))
    }
    /// The number of a device's backend; devices without one of their own count as the CPU.
    pub const fn backend_of(ty: DeviceType) -> u16 {
        match ty {
            DeviceType::Cuda => 1,
            DeviceType::Hip => 2,
            DeviceType::Xla => 3,
            DeviceType::Mps => 4,
            DeviceType::Ipu => 5,
            DeviceType::Xpu => 6,
            DeviceType::Hpu => 7,
            DeviceType::Ve => 8,
            DeviceType::Lazy => 9,
            DeviceType::Mtia => 10,
            DeviceType::Maia => 11,
            DeviceType::PrivateUse1 => 12,
            DeviceType::Meta => 15,
            _ => 0,
        }
    }
}

impl fmt::Debug for DispatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A set of dispatch keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DispatchKeySet(pub u64);

pub const BACKEND_MASK: u64 = (1 << NUM_BACKENDS) - 1;

const fn functionality_bit(k: DispatchKey) -> u64 {
    if k.0 == 0 { 0 } else { 1 << (NUM_BACKENDS + k.0 - 1) }
}

impl DispatchKeySet {
    pub const EMPTY: DispatchKeySet = DispatchKeySet(0);
    /// Every bit of a functionality and backend.
    pub const FULL: DispatchKeySet =
        DispatchKeySet((1 << (NUM_BACKENDS + DispatchKey::END_FUNCTIONALITY - 1)) - 1);
    pub const AUTOGRAD: DispatchKeySet = Self::bits(&[
        DispatchKey::AutogradFunctionality,
        DispatchKey::AutogradOther,
        DispatchKey::AutogradNestedTensor,
    ]);
    pub const AUTOCAST: DispatchKeySet = DispatchKeySet(
        functionality_bit(DispatchKey::AutocastPrivateUse1) * 2 - functionality_bit(DispatchKey::AutocastCPU),
    );
    pub const INPLACE_OR_VIEW: DispatchKeySet = Self::bits(&[DispatchKey::ADInplaceOrView]);
    pub const PYTHON: DispatchKeySet = Self::bits(&[DispatchKey::Python, DispatchKey::PythonTLSSnapshot]);
    pub const DEFAULT_INCLUDED: DispatchKeySet =
        Self::bits(&[DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView]);

    /// A set of functionality keys (no backends).
    pub const fn bits(keys: &[DispatchKey]) -> DispatchKeySet {
        let mut set = 0;
        let mut i = 0;
        while i < keys.len() {
            set |= functionality_bit(keys[i]);
            i += 1;
        }
        DispatchKeySet(set)
    }
    /// The set of one key, aliases excepted (they give the empty set).
    pub fn of(k: DispatchKey) -> DispatchKeySet {
        match k.parts() {
            (f, Some(b)) => DispatchKeySet(functionality_bit(f) | (1 << b)),
            (_, None) if k.is_alias() => Self::EMPTY,
            (f, None) => DispatchKeySet(functionality_bit(f)),
        }
    }
    /// All keys below the given functionality key, and every backend.
    pub const fn full_after(k: DispatchKey) -> DispatchKeySet {
        DispatchKeySet(functionality_bit(k) - 1)
    }
    pub fn has(self, k: DispatchKey) -> bool {
        let bits = Self::of(k).0;
        bits != 0 && self.0 & bits == bits
    }
    pub const fn has_functionality(self, k: DispatchKey) -> bool {
        self.0 & functionality_bit(k) != 0
    }
    pub const fn intersects(self, other: DispatchKeySet) -> bool {
        self.0 & other.0 != 0
    }
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    #[allow(clippy::should_implement_trait, reason = "upstream's name")]
    pub fn add(self, k: DispatchKey) -> Self {
        DispatchKeySet(self.0 | Self::of(k).0)
    }
    /// Removes the functionality of a key; backend bits stay, as upstream's `remove` keeps them.
    pub fn remove(self, k: DispatchKey) -> Self {
        DispatchKeySet(self.0 & !functionality_bit(k.parts().0))
    }
    pub const fn minus(self, other: DispatchKeySet) -> Self {
        // Backend bits are kept: a backend may serve several functionalities.
        DispatchKeySet(self.0 & !(other.0 & !BACKEND_MASK))
    }
    /// The functionality of highest priority.
    pub const fn highest_functionality(self) -> DispatchKey {
        let n = 64 - (self.0 & !BACKEND_MASK).leading_zeros();
        if n == 0 { DispatchKey(0) } else { DispatchKey((n - NUM_BACKENDS as u32) as u16) }
    }
    /// Number of the backend of highest priority.
    pub const fn highest_backend(self) -> Option<u16> {
        let b = self.0 & BACKEND_MASK;
        if b == 0 { None } else { Some(63 - b.leading_zeros() as u16) }
    }
    /// The key of highest priority.
    pub fn highest(self) -> DispatchKey {
        let f = self.highest_functionality();
        match (PER_BACKEND.iter().position(|(k, _)| *k == f), self.highest_backend()) {
            (Some(i), Some(b)) => DispatchKey::runtime(i as u16, b),
            _ => f,
        }
    }
    /// The runtime keys of the set, lowest first.
    pub fn keys(self) -> Vec<DispatchKey> {
        let mut out = Vec::new();
        for n in 1..DispatchKey::END_FUNCTIONALITY {
            let f = DispatchKey(n);
            if !self.has_functionality(f) {
                continue;
            }
            match PER_BACKEND.iter().position(|(k, _)| *k == f) {
                None => out.push(f),
                Some(i) => (0..NUM_BACKENDS)
                    .filter(|b| self.0 & (1 << b) != 0)
                    .for_each(|b| out.push(DispatchKey::runtime(i as u16, b))),
            }
        }
        out
    }
}

impl std::ops::BitOr for DispatchKeySet {
    type Output = Self;
    fn bitor(self, o: Self) -> Self {
        DispatchKeySet(self.0 | o.0)
    }
}
impl std::ops::BitAnd for DispatchKeySet {
    type Output = Self;
    fn bitand(self, o: Self) -> Self {
        DispatchKeySet(self.0 & o.0)
    }
}
impl fmt::Debug for DispatchKeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.keys().iter().map(|k| k.name()).collect();
        write!(f, "DispatchKeySet({})", names.join(", "))
    }
}
