//! Generator state: what `torch.Generator` wraps.

use std::any::Any;

use super::mt19937::{Mt19937, STATE_LEN};
use crate::{Result, bail};

/// The seed of a generator nobody has seeded.
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// Bytes of a CPU generator's state tensor.
pub const CPU_STATE_LEN: usize = 5056;
/// Bytes of a Philox generator's state tensor: seed, then offset.
pub const PHILOX_STATE_LEN: usize = 16;

// Offsets in the CPU state. It is the C layout of a struct from Torch7 days, followed by the float cache:
// u64 seed, i32 left, i32 seeded, u64 next, u64 state[624], f64 normal_x, f64 normal_y, f64 normal_rho,
// i32 normal_is_valid, (4 bytes of padding), f32 next_float, u8 next_float_valid, (3 bytes of padding).
const AT_LEFT: usize = 8;
const AT_SEEDED: usize = 12;
const AT_NEXT: usize = 16;
const AT_STATE: usize = 24;
const AT_NORMAL_Y: usize = AT_STATE + 8 * STATE_LEN + 8;
const AT_NORMAL_VALID: usize = AT_NORMAL_Y + 16;
const AT_FLOAT: usize = AT_NORMAL_VALID + 8;
const AT_FLOAT_VALID: usize = AT_FLOAT + 4;

/// The seed meant by a signed integer: negative numbers wrap, as in `torch.manual_seed(-1)`.
pub fn seed_from_i64(seed: i64) -> u64 {
    seed as u64
}

/// A seed from the operating system.
pub fn nondeterministic_seed() -> u64 {
    #[cfg(unix)]
    {
        use std::io::Read;
        let mut bytes = [0u8; 8];
        if let Ok(mut file) = std::fs::File::open("/dev/urandom")
            && file.read_exact(&mut bytes).is_ok()
        {
            return u64::from_ne_bytes(bytes);
        }
    }
    // The standard library seeds its hash maps from the operating system on every target.
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    if let Ok(now) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        hasher.write_u128(now.as_nanos());
    }
    hasher.finish()
}

/// The CPU generator: an MT19937 engine and the cached second halves of Box–Muller pairs.
#[derive(Clone, PartialEq)]
pub struct CpuGenerator {
    engine: Mt19937,
    next_float_normal: Option<f32>,
    next_double_normal: Option<f64>,
}

impl CpuGenerator {
    /// A generator seeded with `seed`.
    pub fn new(seed: u64) -> Self {
        Self { engine: Mt19937::new(seed), next_float_normal: None, next_double_normal: None }
    }

    /// Reseeds and drops the cached normal samples.
    pub fn set_current_seed(&mut self, seed: u64) {
        *self = Self::new(seed);
    }

    /// The seed in force.
    pub fn current_seed(&self) -> u64 {
        self.engine.seed()
    }

    /// Reseeds from the operating system and returns the seed.
    pub fn seed(&mut self) -> u64 {
        let seed = nondeterministic_seed();
        self.set_current_seed(seed);
        seed
    }

    /// 32 random bits.
    #[inline]
    pub fn random(&mut self) -> u32 {
        self.engine.next_u32()
    }

    /// 64 random bits.
    #[inline]
    pub fn random64(&mut self) -> u64 {
        self.engine.next_u64()
    }

    /// Many times 32 random bits.
    pub fn fill_random(&mut self, out: &mut [u32]) {
        self.engine.fill_u32(out);
    }

    /// Takes the cached normal sample of the double-precision Box–Muller pair.
    #[inline]
    pub fn take_next_double_normal(&mut self) -> Option<f64> {
        self.next_double_normal.take()
    }

    /// Caches the second sample of a double-precision pair.
    #[inline]
    pub fn set_next_double_normal(&mut self, sample: f64) {
        self.next_double_normal = Some(sample);
    }

    /// The bytes of `Generator.get_state()`.
    pub fn get_state(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; CPU_STATE_LEN];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.engine.seed().to_le_bytes());
        put(AT_LEFT, &self.engine.left().to_le_bytes());
        put(AT_SEEDED, &1i32.to_le_bytes());
        put(AT_NEXT, &u64::from(self.engine.next_index()).to_le_bytes());
        for (i, &word) in self.engine.state().iter().enumerate() {
            put(AT_STATE + 8 * i, &u64::from(word).to_le_bytes());
        }
        if let Some(sample) = self.next_double_normal {
            put(AT_NORMAL_Y, &sample.to_le_bytes());
            put(AT_NORMAL_VALID, &1i32.to_le_bytes());
        }
        if let Some(sample) = self.next_float_normal {
            put(AT_FLOAT, &sample.to_le_bytes());
            put(AT_FLOAT_VALID, &[1]);
        }
        bytes
    }

    /// Restores what [`Self::get_state`] returned.
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != CPU_STATE_LEN {
            bail!(
                Runtime,
                "Expected a CPUGeneratorImplState of size {CPU_STATE_LEN} but found the input RNG state size to be {}",
                bytes.len()
            );
        }
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let i32_at = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let mut state = [0u32; STATE_LEN];
        for (i, word) in state.iter_mut().enumerate() {
            *word = u64_at(AT_STATE + 8 * i) as u32;
        }
        let engine = Mt19937::from_parts(
            u64_at(0),
            i32_at(AT_LEFT),
            i32_at(AT_SEEDED) != 0,
            u64_at(AT_NEXT) as u32,
            state,
        );
        let Some(engine) = engine else { bail!(Runtime, "Invalid mt19937 state") };
        self.engine = engine;
        self.next_float_normal =
            (bytes[AT_FLOAT_VALID] != 0).then(|| f32::from_bits(i32_at(AT_FLOAT) as u32));
        self.next_double_normal = (i32_at(AT_NORMAL_VALID) != 0).then(|| f64::from_bits(u64_at(AT_NORMAL_Y)));
        Ok(())
    }
}

impl Default for CpuGenerator {
    fn default() -> Self {
        Self::new(DEFAULT_SEED)
    }
}

/// The generator of an accelerator: a seed and how far every thread's Philox sequence has been consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhiloxGenerator {
    seed: u64,
    offset: u64,
}

impl PhiloxGenerator {
    /// A generator seeded with `seed`, nothing consumed.
    pub fn new(seed: u64) -> Self {
        Self { seed, offset: 0 }
    }

    /// Reseeds and rewinds.
    pub fn set_current_seed(&mut self, seed: u64) {
        *self = Self::new(seed);
    }

    /// The seed in force.
    pub fn current_seed(&self) -> u64 {
        self.seed
    }

    /// Reseeds from the operating system and returns the seed, kept to 53 bits as upstream keeps it for devices.
    pub fn seed(&mut self) -> u64 {
        let seed = nondeterministic_seed() & ((1 << 53) - 1);
        self.set_current_seed(seed);
        seed
    }

    /// Words consumed by each thread.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Sets the words consumed by each thread; a multiple of four.
    pub fn set_offset(&mut self, offset: u64) -> Result<()> {
        if !offset.is_multiple_of(4) {
            bail!(Runtime, "offset must be a multiple of 4");
        }
        self.offset = offset;
        Ok(())
    }

    /// Reserves `increment` words for each thread of a kernel and returns the (seed, offset) it starts from.
    pub fn reserve(&mut self, increment: u64) -> (u64, u64) {
        let start = self.offset;
        self.offset = start.wrapping_add(increment.div_ceil(4).wrapping_mul(4));
        (self.seed, start)
    }

    /// The bytes of `Generator.get_state()`.
    pub fn get_state(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PHILOX_STATE_LEN);
        bytes.extend_from_slice(&self.seed.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Restores a state of sixteen bytes, or of eight (a seed alone, from before offsets were saved).
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<()> {
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        match bytes.len() {
            PHILOX_STATE_LEN => {
                self.seed = u64_at(0);
                self.set_offset(u64_at(8))
            }
            8 => {
                self.set_current_seed(u64_at(0));
                Ok(())
            }
            _ => bail!(Runtime, "RNG state is wrong size"),
        }
    }
}

impl Default for PhiloxGenerator {
    fn default() -> Self {
        Self::new(DEFAULT_SEED)
    }
}

/// What a generator's handle can do whatever engine is behind it.
pub trait GeneratorState: Any + Send {
    /// Reseeds, forgetting everything else.
    fn manual_seed(&mut self, seed: u64);
    /// Reseeds from the operating system and returns the seed.
    fn seed(&mut self) -> u64;
    /// The seed in force.
    fn initial_seed(&self) -> u64;
    /// The state as bytes.
    fn get_state(&self) -> Vec<u8>;
    /// Restores a state.
    ///
    /// # Errors
    /// Bytes that are not a state of this engine.
    fn set_state(&mut self, bytes: &[u8]) -> Result<()>;
    /// How much of each thread's sequence is consumed.
    ///
    /// # Errors
    /// Engines that are not counter-based have no offset.
    fn get_offset(&self) -> Result<u64>;
    /// Moves there.
    ///
    /// # Errors
    /// As [`Self::get_offset`], and for an offset the engine cannot take.
    fn set_offset(&mut self, offset: u64) -> Result<()>;
    /// An independent copy.
    fn fork(&self) -> Box<dyn GeneratorState>;
}

impl GeneratorState for CpuGenerator {
    fn manual_seed(&mut self, seed: u64) {
        self.set_current_seed(seed);
    }
    fn seed(&mut self) -> u64 {
        CpuGenerator::seed(self)
    }
    fn initial_seed(&self) -> u64 {
        self.current_seed()
    }
    fn get_state(&self) -> Vec<u8> {
        CpuGenerator::get_state(self)
    }
    fn set_state(&mut self, bytes: &[u8]) -> Result<()> {
        CpuGenerator::set_state(self, bytes)
    }
    fn get_offset(&self) -> Result<u64> {
        bail!(Runtime, "CPU Generator does not use offset")
    }
    fn set_offset(&mut self, _: u64) -> Result<()> {
        bail!(Runtime, "CPU Generator does not use offset")
    }
    fn fork(&self) -> Box<dyn GeneratorState> {
        Box::new(self.clone())
    }
}

impl GeneratorState for PhiloxGenerator {
    fn manual_seed(&mut self, seed: u64) {
        self.set_current_seed(seed);
    }
    fn seed(&mut self) -> u64 {
        PhiloxGenerator::seed(self)
    }
    fn initial_seed(&self) -> u64 {
        self.current_seed()
    }
    fn get_state(&self) -> Vec<u8> {
        PhiloxGenerator::get_state(self)
    }
    fn set_state(&mut self, bytes: &[u8]) -> Result<()> {
        PhiloxGenerator::set_state(self, bytes)
    }
    fn get_offset(&self) -> Result<u64> {
        Ok(self.offset())
    }
    fn set_offset(&mut self, offset: u64) -> Result<()> {
        PhiloxGenerator::set_offset(self, offset)
    }
    fn fork(&self) -> Box<dyn GeneratorState> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_round_trips_with_its_caches() {
        let mut g = CpuGenerator::new(42);
        for _ in 0..700 {
            g.random();
        }
        g.set_next_double_normal(0.25);
        g.next_float_normal = Some(-1.5);
        let bytes = g.get_state();
        let mut other = CpuGenerator::default();
        other.set_state(&bytes).unwrap();
        assert!(g == other);
        assert_eq!(other.get_state(), bytes);
        other.set_current_seed(1);
        assert!(other.take_next_double_normal().is_none());
    }

    #[test]
    fn refusals() {
        let mut g = CpuGenerator::default();
        assert!(g.set_state(&[0; 10]).unwrap_err().message.contains("5056"));
        assert_eq!(g.set_state(&[0; CPU_STATE_LEN]).unwrap_err().message, "Invalid mt19937 state");
        assert!(g.get_offset().is_err() && g.set_offset(4).is_err());
        assert!(PhiloxGenerator::new(1).set_offset(3).is_err());
        assert!(PhiloxGenerator::new(1).set_state(&[0; 5]).is_err());
    }

    #[test]
    fn philox_reserves_whole_blocks() {
        let mut g = PhiloxGenerator::new(9);
        assert_eq!((g.reserve(5), g.offset()), ((9, 0), 8));
        let saved = g.get_state();
        assert_eq!(saved.len(), PHILOX_STATE_LEN);
        let copy = g.fork();
        g.set_current_seed(1);
        assert_eq!((copy.initial_seed(), copy.get_offset().unwrap(), g.offset()), (9, 8, 0));
        g.set_state(&saved).unwrap();
        assert_eq!((g.current_seed(), g.offset()), (9, 8));
    }
}
