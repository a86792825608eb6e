//! The plain executor in process: drains a stream on wgpu, one submission a stream.

use crate::program::{Access, Limits, Slice};
use crate::recorder::{Failure, Pending, Sink};
use crate::stream::{Command, Reader};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Offsets of uniforms.
const UNIFORM_ALIGNMENT: usize = 256;
/// Bytes of the uniform buffer; work with more is submitted in parts.
const UNIFORMS: usize = 1 << 20;
/// The same for small uploads that wait among dispatches.
const STAGING: usize = 2 << 20;
/// Large uploads are written in pieces of so many bytes, so that wgpu's own copies stay small.
const PIECE: usize = 32 << 20;
/// Bind groups kept.
const GROUPS: usize = 8192;

struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    name: String,
}

/// What went wrong outside of any call: an error that nobody was asked about, or the device's loss.
type Trouble = Arc<Mutex<Option<String>>>;

struct Native {
    device: wgpu::Device,
    queue: wgpu::Queue,
    limits: Limits,
    about: Vec<(&'static str, String)>,
    trouble: Trouble,
    buffers: HashMap<u32, wgpu::Buffer>,
    pipelines: HashMap<u32, Pipeline>,
    /// By pipeline and slices: the uniform's offset is dynamic.
    groups: HashMap<(u32, Vec<Slice>), wgpu::BindGroup>,
    uniforms: wgpu::Buffer,
    staging: wgpu::Buffer,
    /// What the two buffers get before the next submission.
    params: Vec<u8>,
    staged: Vec<u8>,
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
}

/// Natively wgpu's futures are ready at once, or after a poll of the device.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(v) = future.as_mut().poll(&mut context) {
            return v;
        }
        std::thread::yield_now();
    }
}

/// Opens the adapter that the system prefers.
///
/// # Errors
/// The reason why there is none.
pub fn open() -> Result<Box<dyn Sink>, String> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    };
    let adapter =
        ready(instance.request_adapter(&options)).map_err(|e| format!("no adapter was found: {e}"))?;
    let offered = adapter.limits();
    let features = adapter.features() & (wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP);
    let descriptor = wgpu::DeviceDescriptor {
        label: None,
        required_features: features,
        required_limits: offered.clone(),
        ..Default::default()
    };
    let (device, queue) =
        ready(adapter.request_device(&descriptor)).map_err(|e| format!("the adapter gave no device: {e}"))?;
    let info = adapter.get_info();
    let subgroups = features.contains(wgpu::Features::SUBGROUP);
    let limits = Limits {
        max_buffer_size: offered.max_buffer_size,
        // Offsets into a binding are 32-bit words in the kernels.
        max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size.min(u32::MAX as u64 & !255),
        max_storage_buffers_per_shader_stage: offered.max_storage_buffers_per_shader_stage,
        max_compute_workgroups_per_dimension: offered.max_compute_workgroups_per_dimension,
        max_compute_invocations_per_workgroup: offered.max_compute_invocations_per_workgroup,
        max_compute_workgroup_storage_size: offered.max_compute_workgroup_storage_size,
        min_subgroup_size: if subgroups { info.subgroup_min_size } else { 0 },
        max_subgroup_size: if subgroups { info.subgroup_max_size } else { 0 },
        shader_f16: features.contains(wgpu::Features::SHADER_F16),
        subgroups,
    };
    let trouble = Trouble::default();
    let note = |trouble: &Trouble, what: String| {
        trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    };
    let seen = trouble.clone();
    device.on_uncaptured_error(Arc::new(move |error| note(&seen, error.to_string())));
    let seen = trouble.clone();
    device.set_device_lost_callback(move |reason, message| {
        note(&seen, format!("the device was lost ({reason:?}) {message}"));
    });
    let about = vec![
        ("name", info.name.clone()),
        ("vendor", format!("{:#x}", info.vendor)),
        ("device", format!("{:#x}", info.device)),
        ("device_type", format!("{:?}", info.device_type)),
        ("driver", info.driver.clone()),
        ("driver_info", info.driver_info.clone()),
        ("backend", info.backend.to_string()),
    ];
    let buffer = |size: usize, usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: size as u64,
            usage: usage | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    };
    let uniforms = buffer(UNIFORMS, wgpu::BufferUsages::UNIFORM);
    let staging = buffer(STAGING, wgpu::BufferUsages::COPY_SRC);
    Ok(Box::new(Native {
        device,
        queue,
        limits,
        about,
        trouble,
        buffers: HashMap::new(),
        pipelines: HashMap::new(),
        groups: HashMap::new(),
        uniforms,
        staging,
        params: Vec::new(),
        staged: Vec::new(),
        encoder: None,
        pass: None,
    }))
}

fn bytes_of(words: &[u32]) -> &[u8] {
    // SAFETY: any bytes of words are bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 4) }
}

impl Native {
    fn buffer(&self, id: u32) -> Result<&wgpu::Buffer, String> {
        self.buffers.get(&id).ok_or_else(|| format!("there is no buffer {id}"))
    }
    fn make_buffer(&self, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        })
    }
    fn compile(&mut self, id: u32, name: &str, source: &str, bindings: &[Access], params: u32) {
        let entry = |binding: u32, ty: wgpu::BufferBindingType| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty,
                has_dynamic_offset: ty == wgpu::BufferBindingType::Uniform,
                min_binding_size: None,
            },
            count: None,
        };
        let mut entries: Vec<_> = bindings
            .iter()
            .enumerate()
            .map(|(i, b)| entry(i as u32, wgpu::BufferBindingType::Storage { read_only: *b == Access::Read }))
            .collect();
        if params > 0 {
            entries.push(entry(bindings.len() as u32, wgpu::BufferBindingType::Uniform));
        }
        let layout = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let whole = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(name),
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&whole),
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        });
        self.pipelines.insert(id, Pipeline { pipeline, layout, name: name.to_owned() });
    }
    fn bind(&self, pipeline: &Pipeline, slices: &[Slice], size: u64) -> Result<wgpu::BindGroup, String> {
        let mut entries = Vec::with_capacity(slices.len() + 1);
        let mut add = |buffer, offset, size: u64| {
            entries.push(wgpu::BindGroupEntry {
                binding: entries.len() as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset,
                    size: std::num::NonZeroU64::new(size),
                }),
            });
        };
        for s in slices {
            add(self.buffer(s.buffer)?, s.offset, s.size);
        }
        if size > 0 {
            add(&self.uniforms, 0, size);
        }
        Ok(self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(&pipeline.name),
            layout: &pipeline.layout,
            entries: &entries,
        }))
    }

    /// The encoder of copies; a pass that is open ends.
    fn copies(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder.get_or_insert_with(|| self.device.create_command_encoder(&Default::default()))
    }

    /// Submits what is encoded. What is written to the queue takes effect before it and after all earlier submissions.
    fn flush(&mut self) {
        self.pass = None;
        for (bytes, buffer) in [(&mut self.params, &self.uniforms), (&mut self.staged, &self.staging)] {
            if !bytes.is_empty() {
                self.queue.write_buffer(buffer, 0, bytes);
                bytes.clear();
            }
        }
        if let Some(encoder) = self.encoder.take() {
            self.queue.submit([encoder.finish()]);
        }
    }

    fn run(&mut self, stream: &[u32]) -> Result<(), String> {
        let mut reader = Reader::new(stream);
        while let Some(command) = reader.next()? {
            match command {
                Command::CreateBuffer { id, size } => {
                    let usage = wgpu::BufferUsages::STORAGE
                        | wgpu::BufferUsages::COPY_SRC
                        | wgpu::BufferUsages::COPY_DST;
                    let buffer = self.make_buffer(size, usage);
                    self.buffers.insert(id, buffer);
                }
                Command::DestroyBuffer { id } => {
                    self.flush();
                    self.groups.clear();
                    self.buffers.remove(&id);
                }
                Command::CreatePipeline { id, name, source, bindings, params } => {
                    self.compile(id, name, source, &bindings, params);
                }
                Command::Write { buffer, offset, address, len } => {
                    self.flush();
                    // SAFETY: the recorder keeps the memory until the submission returns.
                    let bytes =
                        unsafe { std::slice::from_raw_parts(address as usize as *const u8, len as usize) };
                    for (i, piece) in bytes.chunks(PIECE).enumerate() {
                        self.queue.write_buffer(self.buffer(buffer)?, offset + (i * PIECE) as u64, piece);
                    }
                }
                Command::WriteInline { buffer, offset, words } => {
                    let bytes = bytes_of(words);
                    if self.staged.len() + bytes.len() > STAGING {
                        self.flush();
                    }
                    let (at, len) = (self.staged.len() as u64, bytes.len() as u64);
                    self.staged.extend_from_slice(bytes);
                    let (from, to) = (self.staging.clone(), self.buffer(buffer)?.clone());
                    self.copies().copy_buffer_to_buffer(&from, at, &to, offset, len);
                }
                Command::Dispatch { pipeline, groups, bindings, params } => {
                    self.dispatch(pipeline, groups, bindings, params)?;
                }
                Command::Copy { source, source_offset, target, target_offset, size } => {
                    let (from, to) = (self.buffer(source)?.clone(), self.buffer(target)?.clone());
                    self.copies().copy_buffer_to_buffer(&from, source_offset, &to, target_offset, size);
                }
                Command::Clear { buffer, offset, size } => {
                    let buffer = self.buffer(buffer)?.clone();
                    self.copies().clear_buffer(&buffer, offset, Some(size));
                }
            }
        }
        Ok(())
    }

    fn dispatch(
        &mut self,
        id: u32,
        groups: [u32; 3],
        bindings: Vec<Slice>,
        params: &[u32],
    ) -> Result<(), String> {
        let size = params.len() * 4;
        if self.params.len() + size > UNIFORMS {
            self.flush();
        }
        let key = (id, bindings);
        if !self.groups.contains_key(&key) {
            let pipeline = self.pipelines.get(&id).ok_or("there is no such pipeline")?;
            let group = self.bind(pipeline, &key.1, size as u64)?;
            if self.groups.len() >= GROUPS {
                self.groups.clear();
            }
            self.groups.insert(key.clone(), group);
        }
        if self.pass.is_none() {
            let encoder =
                self.encoder.get_or_insert_with(|| self.device.create_command_encoder(&Default::default()));
            self.pass = Some(encoder.begin_compute_pass(&Default::default()).forget_lifetime());
        }
        let (Some(pass), Some(pipeline), Some(group)) =
            (&mut self.pass, self.pipelines.get(&id), self.groups.get(&key))
        else {
            return Err("there is no such pipeline".into());
        };
        pass.set_pipeline(&pipeline.pipeline);
        if size > 0 {
            pass.set_bind_group(0, group, &[self.params.len() as u32]);
            self.params.extend_from_slice(bytes_of(params));
            self.params.resize(self.params.len().next_multiple_of(UNIFORM_ALIGNMENT), 0);
        } else {
            pass.set_bind_group(0, group, &[]);
        }
        pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        Ok(())
    }

    /// Runs `f` and tells what the device says of it.
    fn watched<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, Failure> {
        self.troubled()?;
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let invalid = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let done = f(self);
        let (invalid, memory) = (ready(invalid.pop()), ready(memory.pop()));
        let done = done.map_err(Failure::Broken)?;
        match (invalid, memory) {
            (Some(e), _) => Err(Failure::Broken(e.to_string())),
            (None, Some(e)) => Err(Failure::OutOfMemory(e.to_string())),
            (None, None) => self.troubled().map(|()| done),
        }
    }
    fn troubled(&self) -> Result<(), Failure> {
        match &*self.trouble.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(Failure::Broken(why.clone())),
            None => Ok(()),
        }
    }
}

impl Sink for Native {
    fn submit(&mut self, stream: &[u32]) -> Result<(), Failure> {
        let done = self.watched(|own| {
            let done = own.run(stream);
            own.flush();
            done
        });
        if done.is_err() {
            // Half of a stream is of no use to later ones.
            (self.pass, self.encoder) = (None, None);
        }
        done
    }
    fn read(&mut self, slices: &[Slice]) -> Result<Pending, Failure> {
        let size = slices.iter().map(|s| s.size).sum();
        let target = self.watched(|own| {
            let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
            let target = own.make_buffer(size, usage);
            let mut encoder = own.device.create_command_encoder(&Default::default());
            let mut at = 0;
            for s in slices {
                encoder.copy_buffer_to_buffer(own.buffer(s.buffer)?, s.offset, &target, at, s.size);
                at += s.size;
            }
            own.queue.submit([encoder.finish()]);
            Ok(target)
        })?;
        let (device, trouble) = (self.device.clone(), self.trouble.clone());
        let (send, receive) = std::sync::mpsc::channel();
        target.map_async(wgpu::MapMode::Read, .., move |done| {
            let _ = send.send(done);
        });
        Ok(Box::new(move |into| {
            let mut read = || -> Result<(), String> {
                let wait = wgpu::PollType::Wait { submission_index: None, timeout: None };
                device.poll(wait).map_err(|e| format!("waiting for the device: {e}"))?;
                let mapped = receive.recv().map_err(|_| "the device did not answer".to_owned())?;
                mapped.map_err(|e| format!("reading from the device: {e}"))?;
                let view =
                    target.get_mapped_range(..).map_err(|e| format!("reading from the device: {e}"))?;
                into.copy_from_slice(&view[..into.len()]);
                match &*trouble.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(why) => Err(why.clone()),
                    None => Ok(()),
                }
            };
            read().map_err(Failure::Broken)
        }))
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn about(&self) -> &[(&'static str, String)] {
        &self.about
    }
    fn destroy(&mut self) {
        self.device.destroy();
    }
}
