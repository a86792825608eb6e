//! The handle of a random generator, as operators receive it.

use crate::Device;
use std::any::Any;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex, MutexGuard};

struct GeneratorImpl {
    device: Device,
    state: Mutex<Box<dyn Any + Send>>,
    pyobj: AtomicPtr<c_void>,
}

/// A shared random generator; the state's type belongs to the device.
#[derive(Clone)]
pub struct Generator(Arc<GeneratorImpl>);

impl Generator {
    pub fn new(device: Device, state: Box<dyn Any + Send>) -> Generator {
        Generator(Arc::new(GeneratorImpl {
            device,
            state: Mutex::new(state),
            pyobj: AtomicPtr::new(std::ptr::null_mut()),
        }))
    }
    pub fn device(&self) -> Device {
        self.0.device
    }
    /// Locks the state; draws of one operator happen under one lock.
    pub fn lock(&self) -> MutexGuard<'_, Box<dyn Any + Send>> {
        self.0.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The host language's wrapper (borrowed).
    pub fn pyobj(&self) -> &AtomicPtr<c_void> {
        &self.0.pyobj
    }
    pub fn ptr_eq(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
