//! The command stream between recorder and executor: 32-bit words, little endian in memory.
//!
//! Each command is a word `opcode | words << 8`, where `words` counts the operands that follow. 64-bit values take two words,
//! low first. Text is its byte length and then its UTF-8, padded to whole words.

use crate::program::{Access, Slice};

/// One step for the executor.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<'a> {
    /// Makes a buffer, zeroed, usable as storage and for copies.
    CreateBuffer {
        id: u32,
        size: u64,
    },
    /// Frees a buffer once the work that uses it has run.
    DestroyBuffer {
        id: u32,
    },
    /// Compiles a program under an id.
    CreatePipeline {
        id: u32,
        name: &'a str,
        source: &'a str,
        bindings: Vec<Access>,
        params: u32,
    },
    /// Copies `len` bytes at `address` of the recorder's memory into a buffer; `offset` and `len` are multiples of 4.
    Write {
        buffer: u32,
        offset: u64,
        address: u64,
        len: u64,
    },
    /// Copies the words that follow into a buffer.
    WriteInline {
        buffer: u32,
        offset: u64,
        words: &'a [u32],
    },
    Dispatch {
        pipeline: u32,
        groups: [u32; 3],
        bindings: Vec<Slice>,
        params: &'a [u32],
    },
    Copy {
        source: u32,
        source_offset: u64,
        target: u32,
        target_offset: u64,
        size: u64,
    },
    /// Sets a range to zero bytes.
    Clear {
        buffer: u32,
        offset: u64,
        size: u64,
    },
}

const CREATE_BUFFER: u32 = 1;
const DESTROY_BUFFER: u32 = 2;
const CREATE_PIPELINE: u32 = 3;
const WRITE: u32 = 4;
const WRITE_INLINE: u32 = 5;
const DISPATCH: u32 = 6;
const COPY: u32 = 7;
const CLEAR: u32 = 8;

/// Appends `command` to a stream.
pub fn encode(stream: &mut Vec<u32>, command: &Command<'_>) {
    let start = stream.len();
    stream.push(0);
    let code = match command {
        Command::CreateBuffer { id, size } => {
            stream.push(*id);
            wide(stream, *size);
            CREATE_BUFFER
        }
        Command::DestroyBuffer { id } => {
            stream.push(*id);
            DESTROY_BUFFER
        }
        Command::CreatePipeline { id, name, source, bindings, params } => {
            stream.extend([*id, *params, bindings.len() as u32]);
            stream.extend(bindings.iter().map(|b| (*b == Access::ReadWrite) as u32));
            text(stream, name);
            text(stream, source);
            CREATE_PIPELINE
        }
        Command::Write { buffer, offset, address, len } => {
            stream.push(*buffer);
            for v in [*offset, *address, *len] {
                wide(stream, v);
            }
            WRITE
        }
        Command::WriteInline { buffer, offset, words } => {
            stream.push(*buffer);
            wide(stream, *offset);
            stream.extend_from_slice(words);
            WRITE_INLINE
        }
        Command::Dispatch { pipeline, groups, bindings, params } => {
            stream.push(*pipeline);
            stream.extend(groups);
            stream.push(bindings.len() as u32);
            for b in bindings {
                stream.push(b.buffer);
                wide(stream, b.offset);
                wide(stream, b.size);
            }
            stream.extend_from_slice(params);
            DISPATCH
        }
        Command::Copy { source, source_offset, target, target_offset, size } => {
            stream.push(*source);
            wide(stream, *source_offset);
            stream.push(*target);
            wide(stream, *target_offset);
            wide(stream, *size);
            COPY
        }
        Command::Clear { buffer, offset, size } => {
            stream.push(*buffer);
            wide(stream, *offset);
            wide(stream, *size);
            CLEAR
        }
    };
    let words = (stream.len() - start - 1) as u32;
    assert!(words < 1 << 24, "a command of {words} words");
    stream[start] = code | words << 8;
}

fn wide(stream: &mut Vec<u32>, v: u64) {
    stream.extend([v as u32, (v >> 32) as u32]);
}

fn text(stream: &mut Vec<u32>, s: &str) {
    stream.push(s.len() as u32);
    stream.extend(s.as_bytes().chunks(4).map(|c| {
        let mut word = [0; 4];
        word[..c.len()].copy_from_slice(c);
        u32::from_le_bytes(word)
    }));
}

/// Reads a stream; stops with an error at the first malformed command.
pub struct Reader<'a> {
    rest: &'a [u32],
    texts: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub fn new(stream: &'a [u32]) -> Reader<'a> {
        Reader { rest: stream, texts: Vec::new() }
    }

    /// The next command; `None` at the end. Text borrows the reader.
    #[allow(clippy::should_implement_trait, reason = "what it returns borrows the reader")]
    pub fn next(&mut self) -> Result<Option<Command<'_>>, String> {
        let Some((&head, rest)) = self.rest.split_first() else { return Ok(None) };
        let words = (head >> 8) as usize;
        if rest.len() < words {
            return Err(format!("command {} is cut off", head & 255));
        }
        let (operands, rest) = rest.split_at(words);
        self.rest = rest;
        self.texts.clear();
        let mut w = Operands(operands);
        Ok(Some(match head & 255 {
            CREATE_BUFFER => Command::CreateBuffer { id: w.word()?, size: w.wide()? },
            DESTROY_BUFFER => Command::DestroyBuffer { id: w.word()? },
            CREATE_PIPELINE => {
                let (id, params, n) = (w.word()?, w.word()?, w.word()?);
                let bindings = (0..n)
                    .map(|_| Ok(if w.word()? == 1 { Access::ReadWrite } else { Access::Read }))
                    .collect::<Result<_, String>>()?;
                let name = w.text(&mut self.texts)?;
                w.text(&mut self.texts)?;
                let (name, source) = self.texts.split_at(name);
                let utf8 = |b: &'_ [u8]| std::str::from_utf8(b).is_ok();
                if !utf8(name) || !utf8(source) {
                    return Err("text of a program is not UTF-8".into());
                }
                let (name, source) =
                    (std::str::from_utf8(name).unwrap(), std::str::from_utf8(source).unwrap());
                Command::CreatePipeline { id, name, source, bindings, params }
            }
            WRITE => {
                Command::Write { buffer: w.word()?, offset: w.wide()?, address: w.wide()?, len: w.wide()? }
            }
            WRITE_INLINE => Command::WriteInline { buffer: w.word()?, offset: w.wide()?, words: w.0 },
            DISPATCH => {
                let pipeline = w.word()?;
                let groups = [w.word()?, w.word()?, w.word()?];
                let n = w.word()?;
                let bindings = (0..n)
                    .map(|_| Ok(Slice { buffer: w.word()?, offset: w.wide()?, size: w.wide()? }))
                    .collect::<Result<_, String>>()?;
                Command::Dispatch { pipeline, groups, bindings, params: w.0 }
            }
            COPY => Command::Copy {
                source: w.word()?,
                source_offset: w.wide()?,
                target: w.word()?,
                target_offset: w.wide()?,
                size: w.wide()?,
            },
            CLEAR => Command::Clear { buffer: w.word()?, offset: w.wide()?, size: w.wide()? },
            other => return Err(format!("unknown command {other}")),
        }))
    }
}

struct Operands<'a>(&'a [u32]);

impl Operands<'_> {
    fn word(&mut self) -> Result<u32, String> {
        let (&word, rest) = self.0.split_first().ok_or("a command lacks operands")?;
        self.0 = rest;
        Ok(word)
    }
    fn wide(&mut self) -> Result<u64, String> {
        Ok(self.word()? as u64 | (self.word()? as u64) << 32)
    }
    /// Appends a text's bytes and returns their number.
    fn text(&mut self, into: &mut Vec<u8>) -> Result<usize, String> {
        let n = self.word()? as usize;
        if self.0.len() < n.div_ceil(4) {
            return Err("a text is cut off".into());
        }
        let (words, rest) = self.0.split_at(n.div_ceil(4));
        self.0 = rest;
        let start = into.len();
        into.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        into.truncate(start + n);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_stream() {
        let slice = |buffer| Slice { buffer, offset: 256, size: 1 << 33 };
        let commands = [
            Command::CreateBuffer { id: 1, size: 1 << 32 },
            Command::CreatePipeline {
                id: 7,
                name: "aten::é",
                source: "fn main() {}",
                bindings: vec![Access::Read, Access::ReadWrite],
                params: 16,
            },
            Command::Write { buffer: 1, offset: 4, address: u64::MAX - 3, len: 8 },
            Command::WriteInline { buffer: 1, offset: 0, words: &[1, 2, 3] },
            Command::Dispatch {
                pipeline: 7,
                groups: [1, 2, 3],
                bindings: vec![slice(1), slice(2)],
                params: &[9, 8],
            },
            Command::Copy { source: 1, source_offset: 0, target: 2, target_offset: 8, size: 4 },
            Command::Clear { buffer: 2, offset: 0, size: 12 },
            Command::DestroyBuffer { id: 1 },
        ];
        let mut stream = Vec::new();
        commands.iter().for_each(|c| encode(&mut stream, c));
        let mut reader = Reader::new(&stream);
        for command in &commands {
            assert_eq!(reader.next().unwrap().as_ref(), Some(command));
        }
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn a_cut_stream_is_an_error() {
        let mut stream = Vec::new();
        encode(&mut stream, &Command::CreateBuffer { id: 1, size: 4 });
        assert!(Reader::new(&stream[..3]).next().is_err());
        assert!(Reader::new(&[99]).next().is_err());
        assert!(Reader::new(&[CREATE_BUFFER]).next().is_err());
    }
}
