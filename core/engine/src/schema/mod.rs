//! Operator schemas: names, argument types, defaults and alias annotations.
//!
//! The model is upstream's `FunctionSchema`. [`parse_schema`] reads the spelling of `native_functions.yaml`, of
//! `torch.library` definitions and of TorchScript; `Display` writes what upstream's `str(schema)` writes.

mod display;
mod lexer;
mod parser;
mod types;

#[cfg(test)]
mod tests;

pub use display::write_float;
pub use parser::{ParseError, parse_operator_name, parse_schema, parse_schema_strict, scalar_type_code};
pub use types::Type;

/// The number of an operator overload: its row in the generated operator table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct OpId(pub u16);

/// The declaration of one operator overload.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSchema {
    /// With its namespace where the text had one: `aten::add`.
    pub name: String,
    /// Empty for the default overload.
    pub overload_name: String,
    pub arguments: Vec<Argument>,
    pub returns: Vec<Argument>,
    /// Takes any further arguments (`...`).
    pub is_vararg: bool,
    /// Returns anything (`-> ...`).
    pub is_varret: bool,
}

/// One argument or one return of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Empty for a return without a name.
    pub name: String,
    pub ty: Type,
    /// The length a scalar expands to: 2 for `int[2]`, also for `int[2]?`.
    pub list_len: Option<u32>,
    pub default: Option<Default>,
    pub kwarg_only: bool,
    pub alias: Option<AliasInfo>,
}

/// Which memory a value may share (`(a)`, `(a!)`, `(a -> *)`).
#[derive(Clone, Debug, PartialEq, std::default::Default)]
pub struct AliasInfo {
    /// Names of the sets on entry, in the order upstream prints them; empty for a list whose elements alone are annotated.
    pub before_set: Vec<String>,
    /// Names of the sets on return.
    pub after_set: Vec<String>,
    /// The value is written to (`!`).
    pub is_write: bool,
    /// The annotation of the elements of a list.
    pub element: Option<Box<AliasInfo>>,
}

/// A default value. Named constants (`Mean`, `long`, `contiguous_format`) are the integers upstream makes of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
    Str(String),
    /// The default of a `Device` argument. That of a `Device?` argument stays a `Str`, as upstream has it.
    Device(String),
    BoolList(Vec<bool>),
    IntList(Vec<i64>),
    FloatList(Vec<f64>),
    ComplexList(Vec<(f64, f64)>),
}

impl FunctionSchema {
    /// Writes to one of its arguments.
    pub fn is_mutable(&self) -> bool {
        self.arguments.iter().any(Argument::is_write)
    }

    /// Has an argument that is aliased without being written: upstream's `_is_view_op`.
    pub fn is_view_op(&self) -> bool {
        self.arguments.iter().any(|a| a.alias.as_ref().is_some_and(|alias| !alias.is_write))
    }

    /// `aten::add.Tensor`, or `aten::add` for the default overload.
    pub fn qualified_name(&self) -> String {
        if self.overload_name.is_empty() {
            self.name.clone()
        } else {
            format!("{}.{}", self.name, self.overload_name)
        }
    }

    /// `aten` of `aten::add`; `None` for a schema without a namespace.
    pub fn namespace(&self) -> Option<&str> {
        self.name.split_once("::").map(|(namespace, _)| namespace)
    }

    /// `add` of `aten::add`.
    pub fn base_name(&self) -> &str {
        self.name.split_once("::").map_or(&self.name, |(_, base)| base)
    }

    /// The position of the argument of this name.
    pub fn argument_index(&self, name: &str) -> Option<usize> {
        self.arguments.iter().position(|a| a.name == name)
    }

    /// The arguments that receive results: those after `*` that are written to.
    pub fn out_arguments(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|a| a.is_out())
    }
}

impl Argument {
    /// Receives a result.
    pub fn is_out(&self) -> bool {
        self.kwarg_only && self.is_write()
    }

    /// Is written to.
    pub fn is_write(&self) -> bool {
        self.alias.as_ref().is_some_and(|alias| alias.is_write)
    }

    /// May be left out of a call.
    pub fn has_default(&self) -> bool {
        self.default.is_some()
    }
}
