//! Running other programs, with output a person can read.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What went wrong, in one line where one line will do.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// An error that reads `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// The result of a command.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// Returns an [`Error`] with the formatted message.
#[macro_export]
macro_rules! fail {
    ($($message:tt)*) => { return Err($crate::sh::Error::new(format!($($message)*))) };
}

/// The repository's root.
pub fn root() -> PathBuf {
    // Cargo sets the variable when it runs us; the compiled-in value serves a direct start.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().expect("xtask lies inside the repository").to_path_buf()
}

/// Says what is about to happen.
pub fn say(message: impl fmt::Display) {
    eprintln!("» {message}");
}

/// A duration as a person writes it.
pub fn took(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 100.0 { format!("{seconds:.1} s") } else { format!("{:.1} min", seconds / 60.0) }
}

/// Whether `program` is on PATH.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| [folder.join(program), folder.join(format!("{program}.exe"))])
        .find(|file| file.is_file())
}

/// Reads a file, naming it when that fails.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error(format!("cannot read {}: {e}", path.display())))
}

/// Writes a file and the folders above it, naming it when that fails.
pub fn write(path: &Path, text: &str) -> Result {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text).map_err(|e| Error(format!("cannot write {}: {e}", path.display())))
}

/// A program to run, built up like [`std::process::Command`].
pub struct Sh {
    command: Command,
    program: OsString,
    words: Vec<OsString>,
}

/// A program to run in the repository's root.
pub fn sh(program: impl AsRef<OsStr>) -> Sh {
    let mut command = Command::new(program.as_ref());
    command.current_dir(root());
    Sh { command, program: program.as_ref().to_owned(), words: Vec::new() }
}

/// The cargo that runs us.
pub fn cargo() -> Sh {
    sh(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

impl Sh {
    /// Adds one argument.
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_owned());
        self.command.arg(word);
        self
    }

    /// Adds arguments.
    pub fn args<T: AsRef<OsStr>>(self, words: impl IntoIterator<Item = T>) -> Self {
        words.into_iter().fold(self, Self::arg)
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    fn line(&self) -> String {
        let mut line = self.program.to_string_lossy().into_owned();
        for word in &self.words {
            let word = word.to_string_lossy();
            line.push(' ');
            if word.contains(char::is_whitespace) {
                line += &format!("'{word}'");
            } else {
                line += &word;
            }
        }
        line
    }

    fn start_error(&self, error: &std::io::Error) -> Error {
        Error(format!("cannot run `{}`: {error}", self.program.to_string_lossy()))
    }

    /// Runs it with its output shown as it comes.
    pub fn run(mut self) -> Result {
        let status = self.command.status().map_err(|error| self.start_error(&error))?;
        if !status.success() {
            fail!("`{}` failed ({status})", self.line());
        }
        Ok(())
    }

    /// Runs it in silence; what it printed is shown only when it fails.
    pub fn quiet(mut self) -> Result {
        self.command.stdin(Stdio::null());
        let output = self.command.output().map_err(|error| self.start_error(&error))?;
        if !output.status.success() {
            let mut err = std::io::stderr().lock();
            err.write_all(&output.stdout)?;
            err.write_all(&output.stderr)?;
            fail!("`{}` failed ({})", self.line(), output.status);
        }
        Ok(())
    }

    /// Runs it and returns what it wrote to standard output, trimmed. Standard error is shown.
    pub fn output(mut self) -> Result<String> {
        self.command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = self.command.output().map_err(|error| self.start_error(&error))?;
        if !output.status.success() {
            std::io::stderr().lock().write_all(&output.stdout)?;
            fail!("`{}` failed ({})", self.line(), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs it in silence and returns what it wrote to standard output, or nothing when it fails.
    pub fn probe(mut self) -> Option<String> {
        self.command.stdin(Stdio::null());
        let output = self.command.output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs it with its output shown and kept: whether it succeeded, and what it wrote to both streams.
    pub fn tee(mut self) -> Result<(bool, String)> {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(|error| self.start_error(&error))?;
        let errors = child.stderr.take().expect("standard error is piped");
        let copier = std::thread::spawn(move || copy(errors, std::io::stderr()));
        let mut text = copy(child.stdout.take().expect("standard output is piped"), std::io::stdout());
        text += &copier.join().unwrap_or_default();
        Ok((child.wait()?.success(), text))
    }
}

/// Copies `from` to `to` line by line and returns what passed.
fn copy(from: impl Read, mut to: impl Write) -> String {
    let mut reader = BufReader::new(from);
    let mut text = String::new();
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        // A closed terminal must not lose the text that the caller counts.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        text += &String::from_utf8_lossy(&line);
        line.clear();
    }
    text
}

/// Does `work`, saying what it is and how long it took.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    say(what);
    let start = Instant::now();
    let result = work();
    if result.is_ok() && start.elapsed() > Duration::from_secs(2) {
        say(format_args!("{what}: {}", took(start.elapsed())));
    }
    result
}
