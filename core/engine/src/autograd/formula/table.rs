//! The generated table of derivatives in memory.

use super::parse::{Expr, parse};
use crate::dispatch::Operator;
use crate::{Result, bail, generated};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

static DERIVATIVES_TSV: &str = include_str!("../../generated/derivatives.tsv");

/// One formula: the gradients of some inputs.
pub struct Clause {
    /// The inputs it is for.
    pub inputs: Vec<&'static str>,
    /// Which of the saved values it uses.
    pub uses: Vec<&'static str>,
    pub text: &'static str,
    expr: OnceLock<Result<Expr, String>>,
}

impl Clause {
    /// # Errors
    /// A formula outside the language.
    pub fn expr(&self) -> Result<&Expr> {
        let parsed = self.expr.get_or_init(|| parse(self.text).map_err(|e| e.message));
        parsed.as_ref().map_err(|m| crate::Error::runtime(m.clone()))
    }
}

/// What a node keeps.
pub struct Keep {
    pub name: &'static str,
    /// An argument, a result, or a property of one.
    pub source: &'static str,
    pub is_output: bool,
}

/// The derivative of one overload.
pub struct Derivative {
    name: &'static str,
    shared_name: OnceLock<Arc<str>>,
    /// Which results have a derivative; empty when all do.
    outputs: &'static str,
    /// The arguments with a derivative, in order.
    pub inputs: Vec<&'static str>,
    /// Names of the results' gradients.
    pub grads: Vec<&'static str>,
    pub keeps: Vec<Keep>,
    pub clauses: Vec<Clause>,
    positions: OnceLock<Vec<usize>>,
}

impl Derivative {
    /// `AddBackward0`.
    pub fn node_name(&self) -> Arc<str> {
        self.shared_name.get_or_init(|| self.name.into()).clone()
    }
    pub fn is_differentiable_output(&self, i: usize) -> bool {
        self.outputs.is_empty() || self.outputs.as_bytes().get(i) == Some(&b'1')
    }
    /// Where the arguments with a derivative stand in the schema.
    ///
    /// # Errors
    /// A table that does not fit the schema.
    pub fn inputs(&self, op: &Operator) -> Result<&[usize]> {
        if let Some(p) = self.positions.get() {
            return Ok(p);
        }
        let arguments = &op.signature()?.schema.arguments;
        let mut positions = Vec::new();
        for name in &self.inputs {
            match arguments.iter().position(|a| a.name == *name) {
                Some(i) => positions.push(i),
                None => bail!(Internal, "{} has no argument {name}", op.qualified_name()),
            }
        }
        Ok(self.positions.get_or_init(|| positions))
    }
}

/// What the table says of an operator.
#[derive(Clone, Copy)]
pub enum Entry {
    Derivative(&'static Derivative),
    /// Its results never require grad.
    NotDifferentiable,
    /// Nobody gave it a derivative.
    Unknown,
}

enum Row {
    Unread(&'static str),
    NotDifferentiable,
}

fn split(list: &'static str, separator: char) -> Vec<&'static str> {
    if list == "-" || list.is_empty() { Vec::new() } else { list.split(separator).collect() }
}

fn read(line: &'static str) -> Derivative {
    let mut columns = line.split('\t').skip(1);
    let mut next = || columns.next().unwrap_or("-");
    let (name, outputs) = (next(), next());
    let (inputs, grads) = (split(next(), ','), split(next(), ','));
    let keeps = split(next(), ';')
        .into_iter()
        .filter_map(|k| k.split_once('='))
        .map(|(name, source)| Keep {
            name,
            source: source.trim_start_matches('^'),
            is_output: source.starts_with('^'),
        })
        .collect();
    let clauses = columns
        .map(|c| {
            let mut parts = c.splitn(3, '|');
            let mut part = || parts.next().unwrap_or("");
            let (inputs, uses, text) = (split(part(), ','), split(part(), ','), part());
            Clause { inputs, uses, text, expr: OnceLock::new() }
        })
        .collect();
    Derivative {
        name,
        shared_name: OnceLock::new(),
        outputs: if outputs == "-" { "" } else { outputs },
        inputs,
        grads,
        keeps,
        clauses,
        positions: OnceLock::new(),
    }
}

static ROWS: LazyLock<HashMap<&'static str, Row>> = LazyLock::new(|| {
    DERIVATIVES_TSV
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once('\t')?;
            Some((name, if rest == "-" { Row::NotDifferentiable } else { Row::Unread(line) }))
        })
        .collect()
});

static READ: LazyLock<Vec<OnceLock<Entry>>> =
    LazyLock::new(|| (0..generated::op_ids::COUNT).map(|_| OnceLock::new()).collect());

/// What the table says of an operator.
pub fn of(op: &Operator) -> Entry {
    let Some(id) = op.id else { return Entry::Unknown };
    *READ[id.0 as usize].get_or_init(|| match ROWS.get(generated::info(id).full_name) {
        Some(Row::Unread(line)) => Entry::Derivative(Box::leak(Box::new(read(line)))),
        Some(Row::NotDifferentiable) => Entry::NotDifferentiable,
        None => Entry::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::operator;

    #[test]
    fn every_formula_is_in_the_language_and_fits_its_schema() {
        for info in generated::ops() {
            let op = operator(info.id);
            if let Entry::Derivative(d) = of(op) {
                d.inputs(op).unwrap();
                for clause in &d.clauses {
                    clause.expr().unwrap_or_else(|e| panic!("{}: {e}", info.full_name));
                    for input in &clause.inputs {
                        assert!(d.inputs.contains(input), "{}: {input}", info.full_name);
                    }
                }
            }
        }
    }
}
