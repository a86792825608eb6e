//! The recorder: plans work, owns the buffer pool, and writes the command stream that an executor drains.

mod pool;
#[cfg(test)]
mod tests;

pub use pool::{ALIGNMENT, Pool};

use crate::program::{Access, Limits, Program, Queue, Slice, fold_groups};
use crate::stream::{Command, encode};
use std::collections::HashMap;

/// A read that was begun: waits for the device and fills the bytes, which are as many as the slices have together.
pub type Pending = Box<dyn FnOnce(&mut [u8]) -> Result<(), Failure> + Send>;

/// What an executor reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no memory for a buffer.
    OutOfMemory(String),
    /// A command is invalid, or the device is gone: what later reads would give cannot be trusted.
    Broken(String),
    /// Nothing happened, for a reason outside the device.
    Refused(String),
}

/// Where a stream goes.
pub trait Sink: Send {
    /// Runs the commands of a stream; memory that it names is read before the call returns.
    ///
    /// # Errors
    /// When the device is lost or a command is invalid. An executor may report them as late as with the next read.
    fn submit(&mut self, stream: &[u32]) -> Result<(), Failure>;
    /// Begins to copy slices (sizes are multiples of 4) to the host, after the work so far.
    ///
    /// # Errors
    /// When the device is lost or earlier work failed.
    fn read(&mut self, slices: &[Slice]) -> Result<Pending, Failure>;
    /// What the adapter offers.
    fn limits(&self) -> &Limits;
    /// The adapter's names for itself, each with what it names: `vendor`, `device`, `backend`, ...
    fn about(&self) -> &[(&'static str, String)];
    /// Gives the device up, as if it were lost.
    fn destroy(&mut self);
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
/// How a message begins that says that memory is exhausted.
const OUT_OF_MEMORY: &str = "out of memory";

/// Whether a recorder's message says that the device has no memory left.
pub fn is_out_of_memory(message: &str) -> bool {
    message.starts_with(OUT_OF_MEMORY)
}

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
    /// Why nothing that the device holds can be trusted any more.
    broken: Option<String>,
    pub pool: Pool,
    pub stats: Stats,
}

/// A download that was begun. It is waited for without the recorder, and then [finished](Recorder::finish) with it.
pub struct Download {
    pending: Pending,
    room: Vec<u8>,
    /// Where the bytes that were asked for begin.
    lead: usize,
    /// The last four bytes are the word of faults.
    looks: bool,
}

impl Download {
    /// Waits for the device.
    pub fn wait(self) -> Downloaded {
        let Download { pending, mut room, lead, looks } = self;
        let done = pending(&mut room);
        Downloaded { done, room, lead, looks }
    }
}

/// A download that is there, or failed.
pub struct Downloaded {
    done: Result<(), Failure>,
    room: Vec<u8>,
    lead: usize,
    looks: bool,
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
            broken: None,
            pool: Pool::default(),
            stats: Stats::default(),
        }
    }
    /// Refuses all further work once work has failed: what the device holds is no longer what was asked for.
    fn alive(&self) -> Result<(), String> {
        match &self.broken {
            Some(why) => Err(format!(
                "earlier work on the device failed ({why}), and its tensors are lost; torch.webgpu.reset() opens it anew"
            )),
            None => Ok(()),
        }
    }
    /// Takes note of a failure and words it.
    fn failed(&mut self, failure: Failure) -> String {
        match failure {
            Failure::Refused(why) => why,
            Failure::OutOfMemory(why) | Failure::Broken(why) => {
                self.broken.get_or_insert_with(|| why.clone());
                why
            }
        }
    }
    /// Memory until `free`; uninitialised.
    ///
    /// # Errors
    /// When the adapter cannot bind so much, or has no memory left ([`is_out_of_memory`]): nothing else is lost then.
    pub fn allocate(&mut self, nbytes: u64) -> Result<Slice, String> {
        self.alive()?;
        let (slice, made) = self.pool.allocate(nbytes, &self.limits)?;
        if let Some(size) = made {
            // Alone, so that what fails is this buffer and no work that waits.
            let mut stream = Vec::new();
            encode(&mut stream, &Command::CreateBuffer { id: slice.buffer, size });
            if let Err(failure) = self.sink.submit(&stream) {
                self.pool.forget(slice);
                return Err(match failure {
                    Failure::OutOfMemory(why) => {
                        format!("{OUT_OF_MEMORY}: a buffer of {size} bytes cannot be made ({why})")
                    }
                    other => self.failed(other),
                });
            }
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
        if let Some(slice) = self.fault.take_if(|_| !self.armed) {
            self.pool.free(slice);
        }
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
        self.alive()?;
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
        done.map_err(|failure| self.failed(failure))
    }
    /// Copies bytes to a slice; `offset` and the end are multiples of 4, or the end is that of the slice's `nbytes`.
    ///
    /// # Errors
    /// Those of `flush`, and a range within words, which must be read first: see [`Recorder::around`].
    pub fn upload(&mut self, to: Slice, nbytes: u64, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.alive()?;
        if self.around(nbytes, offset, bytes.len()).is_some() {
            return Err("an upload begins or ends within a word".into());
        }
        self.stats.bytes_up += bytes.len() as u64;
        let (whole, rest) = bytes.split_at(bytes.len() / 4 * 4);
        let target = to.offset + offset;
        if bytes.len() <= INLINE_BYTES {
            let words: Vec<u32> = bytes
                .chunks(4)
                .map(|c| std::array::from_fn(|i| c.get(i).copied().unwrap_or(0)))
                .map(u32::from_le_bytes)
                .collect();
            encode(
                &mut self.stream,
                &Command::WriteInline { buffer: to.buffer, offset: target, words: &words },
            );
            return if self.stream.len() > WORD_BUDGET { self.flush() } else { Ok(()) };
        }
        if !rest.is_empty() {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            let words = [u32::from_le_bytes(word)];
            let offset = target + whole.len() as u64;
            encode(&mut self.stream, &Command::WriteInline { buffer: to.buffer, offset, words: &words });
        }
        let (address, len) = (whole.as_ptr() as usize as u64, whole.len() as u64);
        encode(&mut self.stream, &Command::Write { buffer: to.buffer, offset: target, address, len });
        // The bytes are the caller's, and read before this returns.
        self.flush()
    }
    /// The range of whole words around bytes of a slice, where it holds others whose values an upload must keep.
    pub fn around(&self, nbytes: u64, offset: u64, len: usize) -> Option<(u64, usize)> {
        let end = offset + len as u64;
        let (first, last) = (offset & !3, end.next_multiple_of(4));
        (first != offset || (last != end && end != nbytes)).then_some((first, (last - first) as usize))
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
    /// Begins to copy `len` bytes of a slice to the host, after the work so far. With them comes the word of faults, where
    /// work that may leave one was recorded.
    ///
    /// # Errors
    /// Those of `flush`.
    pub fn download(&mut self, from: Slice, offset: u64, len: usize) -> Result<Download, String> {
        let end = offset + len as u64;
        let (first, last) = (offset & !3, end.next_multiple_of(4));
        let range = Slice { buffer: from.buffer, offset: from.offset + first, size: last - first };
        let download = self.begin(Some(range), (offset - first) as usize)?;
        self.stats.bytes_down += len as u64;
        Ok(download)
    }
    /// Begins to wait until the device has done all its work.
    ///
    /// # Errors
    /// Those of `flush`.
    pub fn synchronize(&mut self) -> Result<Download, String> {
        // Anything that is read is there when all before it is done.
        let marker = if self.fault.is_some() && self.armed { None } else { Some(self.scratch(4)?) };
        self.begin(marker.map(|slice| Slice { size: 4, ..slice }), 0)
    }
    fn begin(&mut self, range: Option<Slice>, lead: usize) -> Result<Download, String> {
        self.flush()?;
        let fault = self.fault.filter(|_| self.armed).map(|slice| Slice { size: 4, ..slice });
        let slices: Vec<Slice> = range.into_iter().chain(fault).collect();
        let pending = self.sink.read(&slices).map_err(|failure| self.failed(failure))?;
        let bytes: u64 = slices.iter().map(|s| s.size).sum();
        self.armed = false;
        self.stats.readbacks += 1;
        self.stats.bytes_down += fault.map_or(0, |word| word.size);
        let room =
            usize::try_from(bytes).map_err(|_| format!("{bytes} bytes do not fit the memory of the host"))?;
        Ok(Download { pending, room: vec![0; room], lead, looks: fault.is_some() })
    }
    /// The bytes of a download, as many as `into` has.
    ///
    /// # Errors
    /// When the device was lost or earlier work failed, and an index out of range in work before it.
    pub fn finish(&mut self, got: Downloaded, into: &mut [u8]) -> Result<(), String> {
        got.done.map_err(|failure| self.failed(failure))?;
        if got.looks {
            let word = got.room.last_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            if let Some(slice) = self.fault.filter(|_| word != 0) {
                self.upload(slice, 4, 0, &[0; 4])?;
                let name = self.names.get(word as usize - 1).map_or("an operator", String::as_str);
                return Err(format!("index out of range in {name}"));
            }
        }
        into.copy_from_slice(&got.room[got.lead..got.lead + into.len()]);
        Ok(())
    }
    /// What the adapter calls itself.
    pub fn about(&self) -> &[(&'static str, String)] {
        self.sink.about()
    }
    /// Gives the device up, as a driver that resets does.
    pub fn destroy(&mut self) {
        self.sink.destroy();
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
        self.alive()?;
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
