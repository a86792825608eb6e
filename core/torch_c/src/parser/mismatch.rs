//! Upstream's messages for calls that no signature takes.

use super::call::{Call, numpy_alias, spreads};
use super::convert;
use super::overrides;
use super::signature::{Kind, Parameter, Parameters};
use crate::tensor::object;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::OnceLock;

/// Arguments as Python gave them.
struct Given<'a, 'py> {
    name: &'a str,
    positional: &'a [Bound<'py, PyAny>],
    keywords: &'a [(String, Bound<'py, PyAny>)],
    /// Whether numbers stand for tensors.
    numbers: bool,
}

/// The type's name as C sees it (`tp_name`): classes written in C carry their module.
pub fn type_name(o: &Bound<'_, PyAny>) -> String {
    let class = o.get_type();
    let name = class.name().map_or_else(|_| "object".to_owned(), |n| n.to_string());
    let module = class.module().map_or_else(|_| String::new(), |m| m.to_string());
    // SAFETY: a live type.
    let written_in_c =
        unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) } & ffi::Py_TPFLAGS_IMMUTABLETYPE != 0;
    match module.as_str() {
        "builtins" => name,
        "torch" if object::get(o).is_none() && name.starts_with(|c: char| c.is_lowercase() || c == 'S') => {
            format!("torch.{name}")
        }
        "numpy" => format!("numpy.{name}"),
        other if written_in_c => format!("{other}.{name}"),
        _ => name,
    }
}

/// The TypeError for a function's call.
#[cold]
pub fn explain<S: std::ops::Deref<Target = Parameters>>(
    signatures: &[S],
    call: &Call<'_, '_>,
    numbers: bool,
) -> PyErr {
    let signatures: Vec<&Parameters> = signatures.iter().map(|s| &**s).collect();
    let name = call.function.name;
    let given = Given { name, positional: call.positional, keywords: call.keywords, numbers };
    if let ([s], true) = (&signatures[..], call.function.is_method())
        && s.parameters.is_empty()
    {
        return given.takes_no_arguments();
    }
    given.explain(&signatures)
}

/// The error of a list of tensors with something else in it, which ends the search for a signature.
#[cold]
pub fn element(position: usize, p: &Parameter, o: &Bound<'_, PyAny>) -> Option<PyErr> {
    if p.kind != Kind::TensorList || !(o.is_instance_of::<PyTuple>() || o.is_instance_of::<PyList>()) {
        return None;
    }
    let items = o.try_iter().ok()?;
    let (i, item) = items.filter_map(Result::ok).enumerate().find(|(_, x)| object::get(x).is_none())?;
    Some(PyTypeError::new_err(format!(
        "expected Tensor as element {i} in argument {position}, but got {}",
        type_name(&item)
    )))
}

/// The signatures of a method that is not in the generated table.
pub struct HandBound {
    name: &'static str,
    /// In the table's notation, a bar before those that messages do not name; without any, the method takes no arguments.
    texts: &'static [&'static str],
    parsed: OnceLock<Vec<Parameters>>,
}

impl HandBound {
    pub const fn new(name: &'static str, texts: &'static [&'static str]) -> Self {
        HandBound { name, texts, parsed: OnceLock::new() }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether a signature takes the arguments.
    ///
    /// # Errors
    /// Upstream's `TypeError` where none does.
    pub fn check(
        &self,
        positional: &[Bound<'_, PyAny>],
        keywords: &[(String, Bound<'_, PyAny>)],
    ) -> PyResult<()> {
        if positional.is_empty() && keywords.is_empty() && self.texts.is_empty() {
            return Ok(());
        }
        let given = Given { name: self.name, positional, keywords, numbers: self.name == "copy_" };
        if self.texts.is_empty() {
            return Err(given.takes_no_arguments());
        }
        let parsed = self.parsed.get_or_init(|| {
            self.texts.iter().filter_map(|text| Parameters::parse(text, text.starts_with('|'))).collect()
        });
        if parsed.iter().any(|s| given.wrong(s).is_none()) {
            return Ok(());
        }
        Err(given.explain(&parsed.iter().collect::<Vec<_>>()))
    }
}

impl Given<'_, '_> {
    fn takes_no_arguments(&self) -> PyErr {
        let name = self.name;
        PyTypeError::new_err(match self.keywords {
            [] => format!("TensorBase.{name}() takes no arguments ({} given)", self.positional.len()),
            _ => format!("TensorBase.{name}() takes no keyword arguments"),
        })
    }

    fn explain(&self, signatures: &[&Parameters]) -> PyErr {
        let count = self.positional.len() + self.keywords.len();
        let plausible =
            |s: &&&Parameters| !s.deprecated && (required(s)..=s.parameters.len()).contains(&count);
        let mut found = signatures.iter().filter(plausible);
        let meant = match (signatures, found.next(), found.next()) {
            ([s], ..) | (_, Some(s), None) => self.wrong(s),
            _ => None,
        };
        PyTypeError::new_err(meant.unwrap_or_else(|| self.no_combination(signatures)))
    }

    /// What is wrong with the arguments for this signature, looked at in its order.
    fn wrong(&self, s: &Parameters) -> Option<String> {
        let (name, n) = (self.name, self.positional.len());
        let spread = spreads(s, self.positional, true);
        let too_many = || {
            let most = s.positional;
            let plural = if most == 1 { "" } else { "s" };
            let were = if n == 1 { "was" } else { "were" };
            match required(s) {
                least if least != most => {
                    format!("{name}() takes from {least} to {most} positional arguments but {n} {were} given")
                }
                _ => format!("{name}() takes {most} positional argument{plural} but {n} {were} given"),
            }
        };
        if n > s.positional && !spread {
            return Some(too_many());
        }
        let mut named = 0;
        for (i, p) in s.parameters.iter().enumerate() {
            if spread && i == 0 {
                continue;
            }
            let by_position = if spread { None } else { self.positional.get(i) };
            if by_position.is_some() && p.keyword_only {
                return Some(too_many());
            }
            let by_name = || {
                let takes = |k: &str| k == p.name || numpy_alias(p) == Some(k);
                self.keywords.iter().find(|(k, _)| takes(k)).map(|(_, o)| o)
            };
            let Some(o) = by_position.or_else(by_name) else {
                if p.default.is_none() {
                    return Some(self.missing(&s.parameters[i..]));
                }
                continue;
            };
            named += usize::from(by_position.is_none());
            let fits = convert::fits(p, o, self.numbers)
                || overrides::fits(p, o)
                || (p.name == "out" && o.is_none());
            if !fits {
                let place =
                    if by_position.is_some() { format!(" (position {})", i + 1) } else { String::new() };
                let got = match first_element(p, o).filter(|_| by_position.is_some()) {
                    Some(first) => format!("but found element of type {} at pos 0", type_name(&first)),
                    None => format!("not {}", type_name(o)),
                };
                return Some(format!(
                    "{name}(): argument '{}'{place} must be {}, {got}",
                    p.name, p.type_name
                ));
            }
        }
        if named == self.keywords.len() {
            return None;
        }
        for (k, _) in self.keywords {
            match s.parameters.iter().position(|p| p.name == k) {
                None if s.parameters.iter().any(|p| numpy_alias(p) == Some(k)) => {}
                None => return Some(format!("{name}() got an unexpected keyword argument '{k}'")),
                Some(i) if i < n => return Some(format!("{name}() got multiple values for argument '{k}'")),
                Some(_) => {}
            }
        }
        Some("invalid keyword arguments".to_owned())
    }

    fn missing(&self, rest: &[Parameter]) -> String {
        let names: Vec<String> =
            rest.iter().filter(|p| p.default.is_none()).map(|p| format!("\"{}\"", p.name)).collect();
        // Upstream's plural is the wrong way round.
        let plural = if names.len() == 1 { "s" } else { "" };
        format!(
            "{}() missing {} required positional argument{plural}: {}",
            self.name,
            names.len(),
            names.join(", ")
        )
    }

    fn no_combination(&self, signatures: &[&Parameters]) -> String {
        let options: Vec<String> = signatures.iter().filter(|s| !s.deprecated).map(|s| show(s)).collect();
        let got = self.described();
        let head = format!("{}() received an invalid combination of arguments - got", self.name);
        if let [option] = &options[..] {
            return match self.against(option) {
                Against::Keywords(names) => {
                    format!("{head} unrecognized keyword arguments: {}", names.join(", "))
                }
                Against::Types(types) => format!("{head} {types}, but expected {option}"),
                Against::Count => format!("{head} {got}, but expected {option}"),
            };
        }
        let mut text = format!("{head} {got}, but expected one of:\n");
        for option in options {
            text.push_str(&format!(" * {option}\n"));
            match self.against(&option) {
                Against::Keywords(names) => text.push_str(&format!(
                    "      didn't match because some of the keywords were incorrect: {}\n",
                    names.join(", ")
                )),
                Against::Types(types) => text.push_str(&format!(
                    "      didn't match because some of the arguments have invalid types: {types}\n"
                )),
                Against::Count => {}
            }
        }
        text
    }

    /// Why the arguments do not match a signature as printed. Like upstream, this reads the printed text, in which a
    /// default is a part of the name and the star an argument.
    fn against(&self, option: &str) -> Against {
        let arguments: Vec<(&str, &str)> = option[1..option.len() - 1]
            .split(", ")
            .map(|a| a.rfind(' ').map_or((a, a), |space| (&a[..space], &a[space + 1..])))
            .collect();
        let n = self.positional.len();
        if n + self.keywords.len() != arguments.len() {
            return Against::Count;
        }
        let unknown: Vec<String> = self
            .keywords
            .iter()
            .filter(|(k, _)| !arguments[n..].iter().any(|(_, name)| name == k))
            .map(|(k, _)| k.clone())
            .collect();
        if !unknown.is_empty() {
            return Against::Keywords(unknown);
        }
        let named = arguments[n..].iter().map(|(_, name)| {
            let value = self.keywords.iter().find(|(k, _)| k == name).map(|(_, o)| o);
            (Some(*name), value)
        });
        let given = self.positional.iter().map(|o| (None, Some(o))).chain(named);
        let mut parts = Vec::new();
        for ((name, value), (ty, _)) in given.zip(&arguments) {
            let Some(o) = value else { continue };
            let class = type_name(o);
            let matching = match *ty {
                "float" => class == "float" || class == "int",
                ty => class == ty,
            };
            let mark = if matching { "" } else { "!" };
            let name = name.map_or_else(String::new, |name| format!("{name}="));
            parts.push(format!("{mark}{name}{}{mark}", described(o, class)));
        }
        // Upstream leaves the separator behind the last one where all are named.
        let end = if n == 0 && !parts.is_empty() { ", " } else { "" };
        Against::Types(format!("({}{end})", parts.join(", ")))
    }

    fn described(&self) -> String {
        let mut parts: Vec<String> = self.positional.iter().map(type_name).collect();
        // Upstream prints the names as its hash table holds them: the last one first.
        parts.extend(self.keywords.iter().rev().map(|(k, o)| format!("{k}={}", type_name(o))));
        let end = if self.positional.is_empty() && !parts.is_empty() { ", " } else { "" };
        format!("({}{end})", parts.join(", "))
    }
}

enum Against {
    /// Another number of arguments.
    Count,
    Keywords(Vec<String>),
    Types(String),
}

/// A tuple or list with the types of its elements, another object with its own.
fn described(o: &Bound<'_, PyAny>, class: String) -> String {
    let types = || match o.try_iter() {
        Ok(items) => items.filter_map(Result::ok).map(|x| type_name(&x)).collect::<Vec<_>>(),
        Err(_) => Vec::new(),
    };
    if o.is_instance_of::<PyTuple>() {
        let types = types();
        let end = if types.len() == 1 { "," } else { "" };
        return format!("{class} of ({}{end})", types.join(", "));
    }
    if o.is_instance_of::<PyList>() {
        return format!("{class} of [{}]", types().join(", "));
    }
    class
}

/// The first element of what was given for a list of ints.
fn first_element<'py>(p: &Parameter, o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let list = o.is_instance_of::<PyTuple>() || o.is_instance_of::<PyList>();
    (p.kind == Kind::IntList && list).then(|| o.get_item(0).ok()).flatten()
}

fn required(s: &Parameters) -> usize {
    s.parameters.iter().filter(|p| p.default.is_none()).count()
}

/// Prints a signature as upstream's messages do: `(Tensor other, *, Number alpha = 1)`.
fn show(s: &Parameters) -> String {
    let mut out = String::from("(");
    let mut keyword_only = false;
    for (i, p) in s.parameters.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        if p.keyword_only && !keyword_only {
            out.push_str("*, ");
            keyword_only = true;
        }
        out.push_str(p.type_name);
        out.push(' ');
        out.push_str(p.name);
        if let Some(d) = p.default_text {
            out.push_str(" = ");
            out.push_str(d);
        }
    }
    out.push(')');
    out
}
