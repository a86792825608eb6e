//! The plain executor in process: drains a stream on wgpu, one submission a stream.

use crate::program::{Access, Limits, Slice};
use crate::recorder::Sink;
use crate::stream::{Command, Reader};
use std::collections::HashMap;
use std::future::Future;
use std::task::{Context, Poll, Waker};

/// Offsets of uniforms.
const UNIFORM_ALIGNMENT: usize = 256;

struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    name: String,
}

struct Native {
    device: wgpu::Device,
    queue: wgpu::Queue,
    limits: Limits,
    buffers: HashMap<u32, wgpu::Buffer>,
    pipelines: HashMap<u32, Pipeline>,
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
    Ok(Box::new(Native { device, queue, limits, buffers: HashMap::new(), pipelines: HashMap::new() }))
}

fn bytes_of(words: &[u32]) -> &[u8] {
    // SAFETY: any bytes of words are bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 4) }
}

impl Native {
    fn buffer(&self, id: u32) -> Result<&wgpu::Buffer, String> {
        self.buffers.get(&id).ok_or_else(|| format!("there is no buffer {id}"))
    }
    fn make_buffer(&self, size: u64, usage: wgpu::BufferUsages, contents: Option<&[u8]>) -> wgpu::Buffer {
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        });
        if let Some(bytes) = contents {
            // In effect before the submission that follows, which is where they are read.
            self.queue.write_buffer(&buffer, 0, bytes);
        }
        buffer
    }
    fn compile(&mut self, id: u32, name: &str, source: &str, bindings: &[Access], params: u32) {
        let entry = |binding: u32, ty: wgpu::BufferBindingType| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
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
    fn bind(
        &self,
        pipeline: &Pipeline,
        slices: &[Slice],
        uniform: Option<(&wgpu::Buffer, u64, u64)>,
    ) -> Result<wgpu::BindGroup, String> {
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
        if let Some((buffer, offset, size)) = uniform {
            add(buffer, offset, size);
        }
        Ok(self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(&pipeline.name),
            layout: &pipeline.layout,
            entries: &entries,
        }))
    }

    /// Everything a stream uploads, and all its uniforms, in the order of its commands.
    fn gather(stream: &[u32]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (mut staged, mut uniforms) = (Vec::new(), Vec::new());
        let mut reader = Reader::new(stream);
        while let Some(command) = reader.next()? {
            match command {
                Command::Write { address, len, .. } => {
                    // SAFETY: the recorder keeps the memory until the submission returns.
                    staged.extend_from_slice(unsafe {
                        std::slice::from_raw_parts(address as usize as *const u8, len as usize)
                    });
                }
                Command::WriteInline { words, .. } => staged.extend_from_slice(bytes_of(words)),
                Command::Dispatch { params, .. } if !params.is_empty() => {
                    uniforms.extend_from_slice(bytes_of(params));
                    uniforms.resize(uniforms.len().next_multiple_of(UNIFORM_ALIGNMENT), 0);
                }
                _ => {}
            }
        }
        Ok((staged, uniforms))
    }

    fn run(&mut self, stream: &[u32]) -> Result<(), String> {
        let (staged, uniforms) = Self::gather(stream)?;
        let staging = (!staged.is_empty()).then(|| {
            let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
            self.make_buffer(staged.len() as u64, usage, Some(&staged))
        });
        let uniform = (!uniforms.is_empty()).then(|| {
            let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
            self.make_buffer(uniforms.len() as u64, usage, Some(&uniforms))
        });
        let (mut staged_at, mut uniform_at) = (0, 0);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass: Option<wgpu::ComputePass<'static>> = None;
        let mut reader = Reader::new(stream);
        while let Some(command) = reader.next()? {
            if !matches!(
                command,
                Command::Dispatch { .. } | Command::CreateBuffer { .. } | Command::CreatePipeline { .. }
            ) {
                pass = None;
            }
            match command {
                Command::CreateBuffer { id, size } => {
                    let usage = wgpu::BufferUsages::STORAGE
                        | wgpu::BufferUsages::COPY_SRC
                        | wgpu::BufferUsages::COPY_DST;
                    let buffer = self.make_buffer(size, usage, None);
                    self.buffers.insert(id, buffer);
                }
                Command::DestroyBuffer { id } => {
                    self.buffers.remove(&id);
                }
                Command::CreatePipeline { id, name, source, bindings, params } => {
                    self.compile(id, name, source, &bindings, params);
                }
                Command::Write { buffer, offset, len, .. } => {
                    let from = staging.as_ref().ok_or("nothing was staged")?;
                    encoder.copy_buffer_to_buffer(from, staged_at, self.buffer(buffer)?, offset, len);
                    staged_at += len;
                }
                Command::WriteInline { buffer, offset, words } => {
                    let from = staging.as_ref().ok_or("nothing was staged")?;
                    let len = words.len() as u64 * 4;
                    encoder.copy_buffer_to_buffer(from, staged_at, self.buffer(buffer)?, offset, len);
                    staged_at += len;
                }
                Command::Dispatch { pipeline, groups, bindings, params } => {
                    let p = self.pipelines.get(&pipeline).ok_or("there is no such pipeline")?;
                    let size = params.len() as u64 * 4;
                    let own = uniform.as_ref().filter(|_| size > 0).map(|b| (b, uniform_at, size));
                    let group = self.bind(p, &bindings, own)?;
                    uniform_at += size.next_multiple_of(UNIFORM_ALIGNMENT as u64);
                    let pass = pass.get_or_insert_with(|| {
                        encoder.begin_compute_pass(&Default::default()).forget_lifetime()
                    });
                    pass.set_pipeline(&p.pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
                }
                Command::Copy { source, source_offset, target, target_offset, size } => {
                    let (from, to) = (self.buffer(source)?, self.buffer(target)?);
                    encoder.copy_buffer_to_buffer(from, source_offset, to, target_offset, size);
                }
                Command::Clear { buffer, offset, size } => {
                    encoder.clear_buffer(self.buffer(buffer)?, offset, Some(size));
                }
            }
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
        Ok(())
    }
}

impl Sink for Native {
    fn submit(&mut self, stream: &[u32]) -> Result<(), String> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let invalid = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let done = self.run(stream);
        let errors = [ready(invalid.pop()), ready(memory.pop())];
        done?;
        match errors.into_iter().flatten().next() {
            Some(e) => Err(e.to_string()),
            None => Ok(()),
        }
    }
    fn read(&mut self, slice: Slice, into: &mut [u8]) -> Result<(), String> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let target = self.make_buffer(slice.size, usage, None);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(self.buffer(slice.buffer)?, slice.offset, &target, 0, slice.size);
        self.queue.submit([encoder.finish()]);
        let (send, receive) = std::sync::mpsc::channel();
        target.map_async(wgpu::MapMode::Read, .., move |done| {
            let _ = send.send(done);
        });
        let wait = wgpu::PollType::Wait { submission_index: None, timeout: None };
        self.device.poll(wait).map_err(|e| format!("waiting for the device: {e}"))?;
        let mapped = receive.recv().map_err(|_| "the device did not answer".to_owned())?;
        mapped.map_err(|e| format!("reading from the device: {e}"))?;
        let view = target.get_mapped_range(..).map_err(|e| format!("reading from the device: {e}"))?;
        into.copy_from_slice(&view[..into.len()]);
        Ok(())
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
}
