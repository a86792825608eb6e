//! The handle of a random generator, as operators receive it. The states behind it are in [`crate::random`].

use std::any::Any;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::random::{CpuGenerator, GeneratorState, PhiloxGenerator};
use crate::{Device, Result, bail};

struct GeneratorImpl {
    device: Device,
    state: Mutex<Box<dyn GeneratorState>>,
    pyobj: AtomicPtr<c_void>,
}

/// A shared random generator; clones are the same generator.
#[derive(Clone)]
pub struct Generator(Arc<GeneratorImpl>);

impl Generator {
    /// A generator of `device` around a state of that device's kind.
    pub fn new(device: Device, state: Box<dyn GeneratorState>) -> Generator {
        Generator(Arc::new(GeneratorImpl {
            device,
            state: Mutex::new(state),
            pyobj: AtomicPtr::new(std::ptr::null_mut()),
        }))
    }
    /// A new CPU generator (MT19937).
    pub fn cpu(seed: u64) -> Generator {
        Self::new(Device::CPU, Box::new(CpuGenerator::new(seed)))
    }
    /// A new generator of an accelerator (Philox).
    pub fn philox(device: Device, seed: u64) -> Generator {
        Self::new(device, Box::new(PhiloxGenerator::new(seed)))
    }
    /// The process-wide CPU generator, seeded from the operating system until someone calls `manual_seed`.
    pub fn default_cpu() -> &'static Generator {
        static DEFAULT: OnceLock<Generator> = OnceLock::new();
        DEFAULT.get_or_init(|| Self::cpu(crate::random::generator::nondeterministic_seed()))
    }
    pub fn device(&self) -> Device {
        self.0.device
    }
    /// Locks the state; draws of one operator happen under one lock.
    pub fn lock(&self) -> MutexGuard<'_, Box<dyn GeneratorState>> {
        // A panic inside a sampler leaves a usable state: every draw is complete or did not happen.
        self.0.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The host language's wrapper (borrowed).
    pub fn pyobj(&self) -> &AtomicPtr<c_void> {
        &self.0.pyobj
    }
    pub fn ptr_eq(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn with<S: GeneratorState, R>(&self, what: &str, f: impl FnOnce(&mut S) -> R) -> Result<R> {
        let mut state = self.lock();
        let any: &mut dyn Any = &mut **state;
        match any.downcast_mut::<S>() {
            Some(state) => Ok(f(state)),
            None => bail!(
                Runtime,
                "Expected a '{what}' device type for generator but found '{}'",
                self.0.device.ty.name()
            ),
        }
    }
    /// Runs `f` on the CPU state, under one lock.
    ///
    /// # Errors
    /// The generator of another device.
    pub fn with_cpu<R>(&self, f: impl FnOnce(&mut CpuGenerator) -> R) -> Result<R> {
        self.with("cpu", f)
    }
    /// Runs `f` on an accelerator's state, under one lock.
    ///
    /// # Errors
    /// A CPU generator.
    pub fn with_philox<R>(&self, f: impl FnOnce(&mut PhiloxGenerator) -> R) -> Result<R> {
        self.with("accelerator", f)
    }

    /// Reseeds.
    pub fn manual_seed(&self, seed: u64) {
        self.lock().manual_seed(seed);
    }
    /// Reseeds from the operating system and returns the seed.
    pub fn seed(&self) -> u64 {
        self.lock().seed()
    }
    /// The seed in force.
    pub fn initial_seed(&self) -> u64 {
        self.lock().initial_seed()
    }
    /// The state as the bytes of upstream's state tensor.
    pub fn get_state(&self) -> Vec<u8> {
        self.lock().get_state()
    }
    /// Restores a state.
    ///
    /// # Errors
    /// Bytes that are no state of this kind of generator.
    pub fn set_state(&self, bytes: &[u8]) -> Result<()> {
        self.lock().set_state(bytes)
    }
    /// The Philox offset.
    ///
    /// # Errors
    /// A CPU generator has none.
    pub fn get_offset(&self) -> Result<u64> {
        self.lock().get_offset()
    }
    /// Sets the Philox offset.
    ///
    /// # Errors
    /// A CPU generator has none; it must be a multiple of four.
    pub fn set_offset(&self, offset: u64) -> Result<()> {
        self.lock().set_offset(offset)
    }
    /// An independent generator in the same state.
    pub fn clone_state(&self) -> Generator {
        Self::new(self.0.device, self.lock().fork())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_and_forks_do_not() {
        let g = Generator::cpu(3);
        let alias = g.clone();
        let fork = g.clone_state();
        let draw = |g: &Generator| g.with_cpu(CpuGenerator::random).unwrap();
        let (a, b, c) = (draw(&g), draw(&alias), draw(&fork));
        assert!(g.ptr_eq(&alias) && !g.ptr_eq(&fork) && a == c && a != b);
        assert!(g.get_offset().is_err() && g.with_philox(|_| ()).is_err());
    }
}
