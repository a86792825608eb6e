//! The executor's side of the `webgpu` device here: streams go to JavaScript, which reads them in this memory.

use pyo3::prelude::*;
use torchnative_webgpu::program::{Limits, Slice};
use torchnative_webgpu::recorder::{Failure, Pending, Sink};

/// The executor of `torchnative/_emscripten/executor.js`, with the Python functions that wait for it.
struct Browser {
    executor: Py<PyAny>,
    bridge: Py<PyAny>,
    limits: Limits,
    about: Vec<(&'static str, String)>,
}

/// What a Python or JavaScript exception says.
fn text(py: Python<'_>, error: PyErr) -> String {
    let value = error.value(py);
    // A JavaScript error's own text comes without its class.
    let message = value.getattr("message").and_then(|m| m.extract::<String>());
    message.unwrap_or_else(|_| value.to_string())
}

/// Opens the adapter of the browser, suspending Python meanwhile.
///
/// # Errors
/// The reason why there is none, or why Python cannot wait here.
pub fn open() -> Result<Box<dyn Sink>, String> {
    Python::attach(|py| {
        let made = || -> PyResult<Browser> {
            let bridge = py.import("torchnative._emscripten.webgpu")?;
            let executor = bridge.call_method0("open")?;
            let offered = executor.getattr("limits")?;
            let number =
                |name: &str| -> PyResult<u64> { Ok(offered.getattr(name)?.extract::<f64>()? as u64) };
            let small = |name: &str| -> PyResult<u32> { Ok(number(name)?.min(u32::MAX as u64) as u32) };
            let limits = Limits {
                max_buffer_size: number("max_buffer_size")?,
                // Offsets into a binding are 32-bit words in the kernels.
                max_storage_buffer_binding_size: number("max_storage_buffer_binding_size")?
                    .min(u32::MAX as u64 & !255),
                max_storage_buffers_per_shader_stage: small("max_storage_buffers_per_shader_stage")?,
                max_compute_workgroups_per_dimension: small("max_compute_workgroups_per_dimension")?,
                max_compute_invocations_per_workgroup: small("max_compute_invocations_per_workgroup")?,
                max_compute_workgroup_storage_size: small("max_compute_workgroup_storage_size")?,
                min_subgroup_size: small("min_subgroup_size")?,
                max_subgroup_size: small("max_subgroup_size")?,
                shader_f16: offered.getattr("shader_f16")?.extract()?,
                subgroups: offered.getattr("subgroups")?.extract()?,
            };
            let info = executor.getattr("info")?;
            let mut about = vec![("backend", "webgpu".to_owned())];
            for name in ["vendor", "architecture", "device", "description"] {
                about.push((name, info.getattr(name)?.extract::<String>().unwrap_or_default()));
            }
            Ok(Browser { executor: executor.unbind(), bridge: bridge.into_any().unbind(), limits, about })
        };
        let browser = made().map_err(|e| text(py, e))?;
        Ok(Box::new(browser) as Box<dyn Sink>)
    })
}

/// Tells what went wrong: where Python cannot wait, nothing did.
fn failure(py: Python<'_>, error: PyErr) -> Failure {
    let refused = error.value(py).getattr("refused").and_then(|r| r.extract::<bool>()).unwrap_or(false);
    let text = text(py, error);
    if refused { Failure::Refused(text) } else { Failure::Broken(text) }
}

impl Sink for Browser {
    fn submit(&mut self, stream: &[u32]) -> Result<(), Failure> {
        Python::attach(|py| {
            let call = (stream.as_ptr() as usize, stream.len());
            self.executor.call_method1(py, "submit", call).map(drop).map_err(|e| failure(py, e))
        })
    }
    fn read(&mut self, slices: &[Slice]) -> Result<Pending, Failure> {
        Python::attach(|py| {
            // JavaScript's numbers are exact to 2^53, far beyond any buffer.
            let words: Vec<f64> =
                slices.iter().flat_map(|s| [f64::from(s.buffer), s.offset as f64, s.size as f64]).collect();
            let (executor, bridge) = (self.executor.clone_ref(py), self.bridge.clone_ref(py));
            let number: i64 = bridge
                .call_method1(py, "start", (&executor, words))
                .and_then(|number| number.extract(py))
                .map_err(|e| failure(py, e))?;
            Ok(Box::new(move |into: &mut [u8]| {
                Python::attach(|py| {
                    let call = (executor, number, into.as_mut_ptr() as usize);
                    bridge.call_method1(py, "finish", call).map(drop).map_err(|e| failure(py, e))
                })
            }) as Pending)
        })
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn about(&self) -> &[(&'static str, String)] {
        &self.about
    }
    fn destroy(&mut self) {
        Python::attach(|py| {
            let _ = self.executor.call_method0(py, "close");
        });
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        Python::attach(|py| {
            let _ = self.bridge.call_method0(py, "closed");
        });
    }
}
