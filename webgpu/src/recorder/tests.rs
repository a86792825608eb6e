//! The recorder against an executor that fails when told to.

use super::*;
use crate::stream::Reader;
use std::sync::{Arc, Mutex};

/// What the test tells the executor to do next, and what it has seen.
#[derive(Default)]
struct Script {
    submit: Option<Failure>,
    read: Option<Failure>,
    wait: Option<Failure>,
    /// The bytes that reads give.
    answer: Vec<u8>,
    commands: Vec<String>,
    reads: Vec<Vec<Slice>>,
    destroyed: bool,
}

struct Fake {
    script: Arc<Mutex<Script>>,
    limits: Limits,
}

impl Sink for Fake {
    fn submit(&mut self, stream: &[u32]) -> Result<(), Failure> {
        let mut script = self.script.lock().unwrap();
        if let Some(failure) = script.submit.take() {
            return Err(failure);
        }
        let mut reader = Reader::new(stream);
        while let Some(command) = reader.next().unwrap() {
            let text = format!("{command:?}");
            script.commands.push(text);
        }
        Ok(())
    }
    fn read(&mut self, slices: &[Slice]) -> Result<Pending, Failure> {
        let mut script = self.script.lock().unwrap();
        script.reads.push(slices.to_vec());
        if let Some(failure) = script.read.take() {
            return Err(failure);
        }
        let script = self.script.clone();
        Ok(Box::new(move |into| {
            let mut script = script.lock().unwrap();
            if let Some(failure) = script.wait.take() {
                return Err(failure);
            }
            let n = script.answer.len().min(into.len());
            into[..n].copy_from_slice(&script.answer[..n]);
            Ok(())
        }))
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn about(&self) -> &[(&'static str, String)] {
        &[]
    }
    fn destroy(&mut self) {
        self.script.lock().unwrap().destroyed = true;
    }
}

fn recorder() -> (Recorder, Arc<Mutex<Script>>) {
    let script = Arc::new(Mutex::new(Script::default()));
    let limits = Limits {
        max_buffer_size: 1 << 30,
        max_storage_buffer_binding_size: 1 << 28,
        max_compute_workgroups_per_dimension: 65535,
        ..Limits::default()
    };
    (Recorder::new(Box::new(Fake { script: script.clone(), limits })), script)
}

fn program() -> Program {
    Program { name: "p".into(), source: "fn main() {}".into(), bindings: vec![Access::ReadWrite], params: 0 }
}

fn read(r: &mut Recorder, slice: Slice, len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; len];
    let got = r.download(slice, 0, len)?.wait();
    r.finish(got, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn after_a_failed_submission_nothing_is_read_or_recorded() {
    for late in [false, true] {
        let (mut r, script) = recorder();
        let slice = r.allocate(64).unwrap();
        r.dispatch(&program(), &[slice], &[], [1, 1, 1]).unwrap();
        let failure = Some(Failure::Broken("bad command".into()));
        if late {
            // As a browser tells it: with the next read.
            script.lock().unwrap().wait = failure;
        } else {
            script.lock().unwrap().submit = failure;
        }
        assert_eq!(read(&mut r, slice, 8), Err("bad command".into()));
        for again in [
            read(&mut r, slice, 8).map(drop),
            r.dispatch(&program(), &[slice], &[], [1, 1, 1]),
            r.upload(slice, 64, 0, &[0; 4]),
            r.allocate(4).map(drop),
            r.synchronize().map(drop),
        ] {
            let error = again.unwrap_err();
            assert!(error.contains("bad command") && error.contains("torch.webgpu.reset()"), "{error}");
        }
    }
}

#[test]
fn a_read_that_is_refused_loses_nothing() {
    let (mut r, script) = recorder();
    let slice = r.allocate(64).unwrap();
    script.lock().unwrap().read = Some(Failure::Refused("cannot wait here".into()));
    assert_eq!(read(&mut r, slice, 4), Err("cannot wait here".into()));
    script.lock().unwrap().answer = vec![1, 2, 3, 4];
    assert_eq!(read(&mut r, slice, 4), Ok(vec![1, 2, 3, 4]));
}

#[test]
fn exhausted_memory_is_recoverable() {
    let (mut r, script) = recorder();
    let slice = r.allocate(64).unwrap();
    r.dispatch(&program(), &[slice], &[], [1, 1, 1]).unwrap();
    let before = (r.pool.allocated, r.pool.reserved);
    script.lock().unwrap().submit = Some(Failure::OutOfMemory("heap".into()));
    let error = r.allocate(100 << 20).unwrap_err();
    assert!(is_out_of_memory(&error), "{error}");
    assert_eq!((r.pool.allocated, r.pool.reserved), before);
    // The dispatch that waited is still there.
    r.flush().unwrap();
    assert!(script.lock().unwrap().commands.iter().any(|c| c.starts_with("Dispatch")));
    assert!(r.allocate(100 << 20).is_ok());
}

#[test]
fn an_index_out_of_range_comes_with_the_bytes_in_one_readback() {
    let (mut r, script) = recorder();
    let slice = r.allocate(64).unwrap();
    let (fault, number) = r.fault("aten::index").unwrap();
    assert_eq!(number, 1);
    script.lock().unwrap().answer = vec![7, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(read(&mut r, slice, 4), Err("index out of range in aten::index".into()));
    let word = Slice { size: 4, ..fault };
    let range = Slice { size: 4, ..slice };
    assert_eq!(script.lock().unwrap().reads, [vec![range, word]]);
    assert_eq!((r.stats.readbacks, r.stats.bytes_down), (1, 8));
    // The word is cleared, and nothing is looked at until it is armed again.
    script.lock().unwrap().answer = vec![7, 0, 0, 0];
    assert_eq!(read(&mut r, slice, 4), Ok(vec![7, 0, 0, 0]));
    assert_eq!(script.lock().unwrap().reads[1], [range]);
    let cleared = script.lock().unwrap().commands.iter().filter(|c| c.starts_with("WriteInline")).count();
    assert_eq!(cleared, 2);
    assert_eq!((r.stats.readbacks, r.stats.bytes_down), (2, 12));
}

#[test]
fn empty_cache_gives_back_the_word_of_faults() {
    let (mut r, script) = recorder();
    r.fault("aten::index").unwrap();
    r.empty_cache().unwrap();
    assert!(r.pool.reserved > 0, "a word that is still to be looked at stays");
    let got = r.synchronize().unwrap().wait();
    r.finish(got, &mut []).unwrap();
    r.empty_cache().unwrap();
    assert_eq!((r.pool.allocated, r.pool.reserved), (0, 0));
    assert!(script.lock().unwrap().commands.iter().any(|c| c.starts_with("DestroyBuffer")));
}

#[test]
fn uploads_keep_their_neighbours() {
    let (mut r, script) = recorder();
    let slice = r.allocate(64).unwrap();
    assert_eq!(r.around(64, 1, 2), Some((0, 4)));
    assert_eq!(r.around(64, 4, 8), None);
    // The end of the slice is nobody else's.
    assert_eq!(r.around(7, 4, 3), None);
    assert!(r.upload(slice, 64, 1, &[1, 2]).is_err());
    r.upload(slice, 7, 4, &[1, 2, 3]).unwrap();
    let large = vec![9u8; INLINE_BYTES + 3];
    r.upload(slice, large.len() as u64, 0, &large).unwrap();
    let commands = script.lock().unwrap().commands.clone();
    assert!(commands[1].contains("words: [197121]"), "{}", commands[1]);
    assert!(commands[2].contains("words: [592137]"), "{}", commands[2]);
    assert!(commands[3].contains("Write {") && commands[3].contains("len: 65536"), "{}", commands[3]);
}
