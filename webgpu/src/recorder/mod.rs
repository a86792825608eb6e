//! The recorder: plans work, owns the buffer pool, and writes the command stream that an executor drains.

mod pool;

pub use pool::{ALIGNMENT, Pool};

use crate::program::{Access, Limits, Program, Queue, Slice, fold_groups};
use crate::stream::{Command, encode};
use std::collections::HashMap;

/// Where a stream goes.
pub trait Sink: Send {
    /// Runs the commands of a stream; memory that it names is read before the call returns.
    ///
    /// # Errors
    /// When the device is lost or a command is invalid.
    fn submit(&mut self, stream: &[u32]) -> Result<(), String>;
    /// Waits for the work so far and copies a range of a buffer (multiples of 4) to the host.
    ///
    /// # Errors
    /// When the device is lost or earlier work failed.
    fn read(&mut self, slice: Slice, into: &mut [u8]) -> Result<(), String>;
    /// What the adapter offers.
    fn limits(&self) -> &Limits;
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub dispatches: u64,
    pub submits: u64,
    pub bytes_up: u64,
    pub bytes_down: u64,
    pub pipelines: u64,
    pub readbacks: u64,
}

/// Work is submitted when so many dispatches wait.
const DISPATCH_BUDGET: u32 = 256;
/// Work is submitted when the stream has so many words.
const WORD_BUDGET: usize = 1 << 18;
/// Uploads of up to so many bytes travel in the stream; larger ones are submitted at once, without that copy.
const INLINE_BYTES: usize = 1 << 16;

/// Plans work for one device.
pub struct Recorder {
    sink: Box<dyn Sink>,
    limits: Limits,
    stream: Vec<u32>,
    waiting: u32,
    pipelines: HashMap<Program, u32>,
    scratch: Vec<Slice>,
    /// Where kernels leave the number of the operator that met a wrong value.
    fault: Option<Slice>,
    /// Work that may leave one was recorded since the last look.
    armed: bool,
    names: Vec<String>,
    pub pool: Pool,
    pub stats: Stats,
}

impl Recorder {
    pub fn new(sink: Box<dyn Sink>) -> Recorder {
        Recorder {
            limits: sink.limits().clone(),
            sink,
            stream: Vec::new(),
            waiting: 0,
            pipelines: HashMap::new(),
            scratch: Vec::new(),
            fault: None,
            armed: false,
            names: Vec::new(),
            pool: Pool::default(),
            stats: Stats::default(),
        }
    }
    /// Memory until `free`; uninitialised.
    ///
    /// # Errors
    /// When the adapter cannot bind so much.
    pub fn allocate(&mut self, nbytes: u64) -> Result<Slice, String> {
        let (slice, made) = self.pool.allocate(nbytes, &self.limits)?;
        if let Some(size) = made {
            encode(&mut self.stream, &Command::CreateBuffer { id: slice.buffer, size });
        }
        Ok(slice)
    }
    /// Gives memory back to the pool.
    pub fn free(&mut self, slice: Slice) {
        self.pool.free(slice);
    }
    /// Destroys the buffers that hold nothing.
    ///
    /// # Errors
    /// Those of `flush`.
    pub fn empty_cache(&mut self) -> Result<(), String> {
        self.flush()?;
        for id in self.pool.empty() {
            encode(&mut self.stream, &Command::DestroyBuffer { id });
        }
        self.flush()
    }
    /// Submits what waits.
    ///
    /// # Errors
    /// What the executor reports of this work or of earlier work.
    pub fn flush(&mut self) -> Result<(), String> {
        for slice in std::mem::take(&mut self.scratch) {
            self.pool.free(slice);
        }
        if self.stream.is_empty() {
            return Ok(());
        }
        let mut stream = std::mem::take(&mut self.stream);
        self.waiting = 0;
        self.stats.submits += 1;
        let done = self.sink.submit(&stream);
        stream.clear();
        self.stream = stream;
        done
    }
    /// Copies bytes to a slice. Bytes around them in their words are kept; those after the end of the last word of a slice
    /// are nobody's.
    ///
    /// # Errors
    /// Those of `flush`.
    pub fn upload(&mut self, to: Slice, nbytes: u64, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let end = offset + bytes.len() as u64;
        let (first, last) = (offset & !3, end.next_multiple_of(4));
        let partial_end = end != last && end != nbytes;
        let mut words = vec![0u32; ((last - first) / 4) as usize];
        // SAFETY: the words' bytes.
        let raw = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), words.len() * 4) };
        if first != offset || partial_end {
            self.download(to, first, raw)?;
        }
        let lead = (offset - first) as usize;
        raw[lead..lead + bytes.len()].copy_from_slice(bytes);
        self.stats.bytes_up += bytes.len() as u64;
        if raw.len() <= INLINE_BYTES {
            let command =
                Command::WriteInline { buffer: to.buffer, offset: to.offset + first, words: &words };
            encode(&mut self.stream, &command);
            return if self.stream.len() > WORD_BUDGET { self.flush() } else { Ok(()) };
        }
        let (address, len) = (words.as_ptr() as usize as u64, raw.len() as u64);
        encode(
            &mut self.stream,
            &Command::Write { buffer: to.buffer, offset: to.offset + first, address, len },
        );
        // The words die with this call.
        self.flush()
    }
    /// A word where the operator `name` writes its number, which is given too, when it meets an index out of range. It is
    /// looked at before anything is read back.
    ///
    /// # Errors
    /// Those of `allocate`.
    pub fn fault(&mut self, name: &str) -> Result<(Slice, u32), String> {
        let slice = match self.fault {
            Some(s) => s,
            None => {
                let s = self.allocate(4)?;
                self.upload(s, 4, 0, &[0; 4])?;
                self.fault = Some(s);
                s
            }
        };
        self.armed = true;
        let at = self.names.iter().position(|n| n == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        Ok((slice, at as u32 + 1))
    }
    /// Reports an index that was out of range.
    fn look(&mut self) -> Result<(), String> {
        let Some(slice) = self.fault.filter(|_| self.armed) else { return Ok(()) };
        let mut word = [0; 4];
        self.sink.read(Slice { size: 4, ..slice }, &mut word)?;
        self.armed = false;
        let number = u32::from_le_bytes(word);
        if number == 0 {
            return Ok(());
        }
        self.upload(slice, 4, 0, &[0; 4])?;
        let name = self.names.get(number as usize - 1).map_or("an operator", String::as_str);
        Err(format!("index out of range in {name}"))
    }
    /// Waits for the work so far and copies bytes of a slice to the host.
    ///
    /// # Errors
    /// Those of `flush`, and of the work so far.
    pub fn download(&mut self, from: Slice, offset: u64, into: &mut [u8]) -> Result<(), String> {
        self.flush()?;
        self.look()?;
        self.stats.readbacks += 1;
        self.stats.bytes_down += into.len() as u64;
        let end = offset + into.len() as u64;
        let (first, last) = (offset & !3, end.next_multiple_of(4));
        let range = Slice { buffer: from.buffer, offset: from.offset + first, size: last - first };
        if first == offset && last == end {
            return self.sink.read(range, into);
        }
        let mut whole = vec![0; (last - first) as usize];
        self.sink.read(range, &mut whole)?;
        let lead = (offset - first) as usize;
        into.copy_from_slice(&whole[lead..lead + into.len()]);
        Ok(())
    }
    /// Waits until the device has done all its work.
    ///
    /// # Errors
    /// Those of `flush`, and of the work so far.
    pub fn synchronize(&mut self) -> Result<(), String> {
        self.flush()?;
        self.look()?;
        let marker = self.allocate(4)?;
        self.flush()?;
        let done = self.sink.read(Slice { size: 4, ..marker }, &mut [0; 4]);
        self.free(marker);
        done
    }
    /// Copies a whole slice into another of the same size, by a kernel: buffers cannot be copied into themselves.
    ///
    /// # Errors
    /// Those of `dispatch`.
    pub fn copy(&mut self, from: Slice, to: Slice) -> Result<(), String> {
        let words = from.size / 4;
        let program = Program {
            name: "copy".into(),
            source: COPY.into(),
            bindings: vec![Access::ReadWrite; 2],
            params: 16,
        };
        let groups = fold_groups(words.div_ceil(64), self.limits.max_compute_workgroups_per_dimension);
        self.record(&program, &[to, from], &[words as u32, 0, 0, 0], groups)
    }

    fn record(
        &mut self,
        program: &Program,
        bindings: &[Slice],
        params: &[u32],
        groups: [u32; 3],
    ) -> Result<(), String> {
        let pipeline = match self.pipelines.get(program) {
            Some(id) => *id,
            None => {
                let id = self.pipelines.len() as u32 + 1;
                // All slices live in pooled buffers, and one dispatch must not use a buffer in two ways: every binding
                // is writable.
                let source = program.source.replace("var<storage, read>", "var<storage, read_write>");
                let bindings = vec![Access::ReadWrite; program.bindings.len()];
                let command = Command::CreatePipeline {
                    id,
                    name: &program.name,
                    source: &source,
                    bindings,
                    params: program.params,
                };
                encode(&mut self.stream, &command);
                self.stats.pipelines += 1;
                self.pipelines.insert(program.clone(), id);
                id
            }
        };
        encode(
            &mut self.stream,
            &Command::Dispatch { pipeline, groups, bindings: bindings.to_vec(), params },
        );
        self.stats.dispatches += 1;
        self.waiting += 1;
        if self.waiting >= DISPATCH_BUDGET || self.stream.len() > WORD_BUDGET {
            self.flush()?;
        }
        Ok(())
    }
}

const COPY: &str = "@group(0) @binding(0) var<storage, read_write> to: array<u32>;
@group(0) @binding(1) var<storage, read_write> from_: array<u32>;
@group(0) @binding(2) var<uniform> params: vec4<u32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) num: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = (id.x + id.y * num.x + id.z * num.x * num.y) * 64u + lane;
    if (i < params.x) { to[i] = from_[i]; }
}
";

fn overlap(a: Slice, b: Slice) -> bool {
    a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size
}

impl Queue for Recorder {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn dispatch(
        &mut self,
        program: &Program,
        bindings: &[Slice],
        params: &[u32],
        groups: [u32; 3],
    ) -> Result<(), String> {
        if groups.contains(&0) {
            return Ok(());
        }
        if bindings.len() != program.bindings.len() || params.len() * 4 != program.params as usize {
            return Err(format!("{}: the bindings or parameters do not match the program", program.name));
        }
        let mut own: Vec<Slice> = bindings.to_vec();
        for i in 0..own.len() {
            for j in 0..i {
                if !overlap(own[i], own[j]) {
                    continue;
                }
                if program.bindings[i] == Access::Read && program.bindings[j] == Access::Read {
                    let copy = self.scratch(own[i].size)?;
                    let copy = Slice { size: own[i].size, ..copy };
                    self.copy(own[i], copy)?;
                    own[i] = copy;
                } else {
                    return Err(format!(
                        "{}: binding {i} overlaps binding {j}, which is written",
                        program.name
                    ));
                }
            }
        }
        self.record(program, &own, params, groups)
    }
    fn scratch(&mut self, nbytes: u64) -> Result<Slice, String> {
        let slice = self.allocate(nbytes)?;
        self.scratch.push(slice);
        Ok(slice)
    }
}
