//! The generated table of Python signatures, read once; signatures are parsed at a function's first call.

use super::signature::Signature;
use std::sync::{LazyLock, OnceLock};

static TSV: &str = include_str!("../generated/python_functions.tsv");

/// A name that Python may call.
pub struct Function {
    pub index: usize,
    pub namespace: &'static str,
    pub name: &'static str,
    /// Whether numbers may be given where the signature says Tensor.
    pub numbers: bool,
    lines: Vec<&'static str>,
    signatures: OnceLock<Vec<Signature>>,
}

impl Function {
    /// The signatures in the order in which they are tried.
    pub fn signatures(&self) -> &[Signature] {
        self.signatures.get_or_init(|| self.lines.iter().filter_map(|l| Signature::parse(l)).collect())
    }
    pub fn is_method(&self) -> bool {
        self.namespace == "Tensor"
    }
    /// The module that messages about overrides name.
    pub fn python_module(&self) -> &'static str {
        match self.namespace {
            "Tensor" => "torch.Tensor",
            "torch" => "torch",
            "nn" => "torch.nn",
            "linalg" => "torch.linalg",
            "fft" => "torch.fft",
            "special" => "torch.special",
            "sparse" => "torch.sparse",
            "nested" => "torch.nested",
            _ => "torch._C",
        }
    }
}

static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let mut out: Vec<Function> = Vec::new();
    for line in TSV.lines().filter(|l| !l.is_empty()) {
        let mut columns = line.split('\t');
        let (Some(namespace), Some(signature)) = (columns.next(), columns.next()) else { continue };
        let Some((name, _)) = signature.split_once('(') else { continue };
        match out.last_mut() {
            Some(f) if f.namespace == namespace && f.name == name => f.lines.push(line),
            _ => out.push(Function {
                index: out.len(),
                namespace,
                name,
                numbers: super::convert::numbers_as_tensors(name),
                lines: vec![line],
                signatures: OnceLock::new(),
            }),
        }
    }
    out
});

/// Every function of the table; `index` is the position.
pub fn functions() -> &'static [Function] {
    &FUNCTIONS
}
