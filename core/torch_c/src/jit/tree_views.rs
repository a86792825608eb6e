//! `torch._C._jit_tree_views`: the nodes that `torch.jit.frontend` builds from Python's syntax tree.
//!
//! The classes differ in their name, their base and what they are made of; [`CLASSES`] says it for each.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

/// A piece of source text.
#[pyclass(name = "SourceRangeFactory", module = "torch._C._jit_tree_views", subclass, frozen)]
pub struct SourceRangeFactory {
    #[pyo3(get)]
    source: String,
    filename: Option<String>,
    first_line: usize,
    indent: usize,
    /// Byte offset of the start of every line.
    starts: Vec<usize>,
}

impl SourceRangeFactory {
    fn offset(&self, line: usize, column: usize) -> PyResult<usize> {
        match line.checked_sub(1).and_then(|line| self.starts.get(line)) {
            Some(start) => Ok(start + column + self.indent),
            None => Err(PyRuntimeError::new_err(format!("line {line} is outside of the source"))),
        }
    }
}

#[pymethods]
impl SourceRangeFactory {
    /// Derived classes take more arguments; the first four are those of the base.
    #[new]
    #[pyo3(signature = (source, filename, line, leading_whitespace, *_rest, **_named))]
    fn new(
        source: String,
        filename: &Bound<'_, PyAny>,
        line: usize,
        leading_whitespace: usize,
        _rest: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let starts = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let filename = (!filename.is_none()).then(|| filename.extract()).transpose()?;
        Ok(SourceRangeFactory { source, filename, first_line: line, indent: leading_whitespace, starts })
    }

    #[pyo3(signature = (*_args, **_named))]
    fn __init__(&self, _args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) {}

    fn make_range(slf: Py<Self>, line: usize, start: usize, end: usize) -> PyResult<SourceRange> {
        let factory = slf.get();
        let (start, end) = (factory.offset(line, start)?, factory.offset(line, end)?);
        Ok(SourceRange { factory: slf, start, end })
    }

    fn make_raw_range(slf: Py<Self>, start: usize, end: usize) -> SourceRange {
        SourceRange { factory: slf, start, end }
    }
}

/// A place in a piece of source text.
#[pyclass(name = "SourceRange", module = "torch._C._jit_tree_views", frozen)]
pub struct SourceRange {
    factory: Py<SourceRangeFactory>,
    #[pyo3(get)]
    start: usize,
    #[pyo3(get)]
    end: usize,
}

/// Lines shown before and after the marked place.
const CONTEXT: usize = 3;

#[pymethods]
impl SourceRange {
    /// The lines around the place, with the place underlined.
    fn highlight(&self) -> String {
        let factory = self.factory.get();
        let line = factory.starts.partition_point(|start| *start <= self.start).saturating_sub(1);
        let mut text = String::new();
        if let Some(name) = &factory.filename {
            text += &format!("  File \"{name}\", line {}\n", factory.first_line + line);
        }
        let lines: Vec<&str> = factory.source.split('\n').collect();
        for (number, shown) in lines.iter().enumerate() {
            if number + CONTEXT < line
                || number > line + CONTEXT
                || (number + 1 == lines.len() && shown.is_empty())
            {
                continue;
            }
            text += shown;
            text.push('\n');
            if number == line {
                let column = self.start - factory.starts[line];
                let width = (self.end - self.start).min(shown.len().saturating_sub(column)).max(1);
                text += &format!("{}{} <--- HERE\n", " ".repeat(column), "~".repeat(width));
            }
        }
        text
    }

    fn __str__(&self) -> String {
        format!("SourceRange at:\n{}", self.highlight())
    }
}

/// The text of an error at a place of the source.
#[pyclass(name = "ErrorReport", module = "torch._C", frozen)]
struct ErrorReport {
    range: Py<SourceRange>,
}

#[pymethods]
impl ErrorReport {
    #[new]
    fn new(range: Py<SourceRange>) -> Self {
        ErrorReport { range }
    }

    fn what(&self) -> String {
        format!("\n:\n{}", self.range.get().highlight())
    }

    /// The calls under compilation, of which there are none.
    #[staticmethod]
    fn call_stack() -> &'static str {
        ""
    }
}

/// A node; the base of the classes of all nodes.
#[pyclass(name = "TreeView", module = "torch._C._jit_tree_views", subclass, frozen)]
pub struct TreeView {
    parts: Py<PyTuple>,
}

#[pymethods]
impl TreeView {
    #[new]
    #[classmethod]
    #[pyo3(signature = (*parts))]
    fn new(class: &Bound<'_, PyType>, parts: &Bound<'_, PyTuple>) -> PyResult<Self> {
        check(class, parts)?;
        Ok(TreeView { parts: parts.clone().unbind() })
    }

    /// Where the node stands in the source.
    fn range<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, SourceRange>> {
        for part in self.parts.bind(py).iter() {
            if let Ok(found) = part.cast::<SourceRange>() {
                return Ok(found.clone());
            }
            let nested = match part.cast::<PyList>() {
                Ok(list) => list.iter().next(),
                Err(_) => Some(part),
            };
            if let Some(node) = nested.as_ref().and_then(|node| node.cast::<TreeView>().ok()) {
                return node.get().range(py);
            }
        }
        Err(PyRuntimeError::new_err("the node has no place in a source"))
    }

    /// The name of an identifier, a variable, a definition or a property.
    #[getter]
    fn _name<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let parts = slf.get().parts.bind(slf.py());
        for part in parts.iter() {
            if part.is_instance_of::<PyString>() || part.is_instance_of::<TreeView>() {
                return Ok(part);
            }
        }
        Err(PyRuntimeError::new_err("the node has no name"))
    }

    /// The identifier that names a definition or a property.
    fn _ident<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::_name(slf)
    }

    /// The signature of a definition.
    fn _decl<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.parts.bind(py).get_item(1)
    }

    /// The identifier of a property's getter.
    fn _getter_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Self::_name(self.parts.bind(py).get_item(2)?.cast::<TreeView>()?)
    }

    /// The identifier of a property's setter, if it has one.
    fn _setter_name<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let setter = self.parts.bind(py).get_item(3)?;
        if setter.is_none() { Ok(None) } else { Self::_name(setter.cast::<TreeView>()?).map(Some) }
    }
}

/// Name, base and parts of each class. `?` marks a part that may be `None`, `[]` a list, `+` a part that may be left out.
const CLASSES: &[(&str, &str, &[&str])] = &[
    ("Expr", "TreeView", &[]),
    ("Stmt", "TreeView", &["TreeView"]),
    ("Ident", "TreeView", &["SourceRange", "str"]),
    ("Param", "TreeView", &["TreeView?", "Ident", "bool"]),
    ("Attribute", "TreeView", &["Ident", "Expr"]),
    ("Decl", "TreeView", &["SourceRange", "Param[]", "Expr?"]),
    ("Def", "TreeView", &["Ident", "Decl", "Stmt[]"]),
    ("Property", "TreeView", &["SourceRange", "Ident", "Def", "Def?"]),
    ("ClassDef", "TreeView", &["Ident", "Stmt[]", "Property[]", "TreeView[]"]),
    ("EmptyTypeAnnotation", "TreeView", &["SourceRange"]),
    ("Assert", "Stmt", &["SourceRange", "Expr", "Expr?"]),
    ("Assign", "Stmt", &["Expr[]", "Expr?", "Expr?+"]),
    ("AugAssign", "Stmt", &["Expr", "str", "Expr"]),
    ("Break", "Stmt", &["SourceRange"]),
    ("Continue", "Stmt", &["SourceRange"]),
    ("Delete", "Stmt", &["SourceRange", "Expr[]"]),
    ("ExprStmt", "Stmt", &["Expr"]),
    ("For", "Stmt", &["SourceRange", "Expr[]", "Expr[]", "Stmt[]"]),
    ("If", "Stmt", &["SourceRange", "Expr", "Stmt[]", "Stmt[]"]),
    ("Pass", "Stmt", &["SourceRange"]),
    ("Raise", "Stmt", &["SourceRange", "Expr"]),
    ("Return", "Stmt", &["SourceRange", "Expr?"]),
    ("While", "Stmt", &["SourceRange", "Expr", "Stmt[]"]),
    ("With", "Stmt", &["SourceRange", "WithItem[]", "Stmt[]"]),
    ("Apply", "Expr", &["Expr", "Expr[]", "Attribute[]"]),
    ("BinOp", "Expr", &["str", "Expr", "Expr"]),
    ("Const", "Expr", &["SourceRange", "str"]),
    ("DictComp", "Expr", &["SourceRange", "Expr", "Expr", "Expr", "Expr"]),
    ("DictLiteral", "Expr", &["SourceRange", "Expr[]", "Expr[]"]),
    ("Dots", "Expr", &["SourceRange"]),
    ("ListComp", "Expr", &["SourceRange", "Expr", "Expr", "Expr"]),
    ("ListLiteral", "Expr", &["SourceRange", "Expr[]"]),
    ("Select", "Expr", &["Expr", "Ident"]),
    ("SliceExpr", "Expr", &["SourceRange", "Expr?", "Expr?", "Expr?"]),
    ("Starred", "Expr", &["SourceRange", "Expr"]),
    ("StringLiteral", "Expr", &["SourceRange", "str"]),
    ("Subscript", "Expr", &["Expr", "Expr[]"]),
    ("TernaryIf", "Expr", &["Expr", "Expr", "Expr"]),
    ("TupleLiteral", "Expr", &["SourceRange", "Expr[]"]),
    ("UnaryOp", "Expr", &["SourceRange", "str", "Expr"]),
    ("Var", "Expr", &["Ident"]),
    ("WithItem", "Expr", &["SourceRange", "Expr", "Var?"]),
];

/// Fails unless the parts are what the class is made of.
fn check(class: &Bound<'_, PyType>, parts: &Bound<'_, PyTuple>) -> PyResult<()> {
    let py = class.py();
    let module = crate::surface::find(py, "torch._C._jit_tree_views")?;
    let name = class.name()?.to_string();
    let entry = CLASSES.iter().find(|(known, ..)| *known == name);
    let Some((_, _, wanted)) = entry.filter(|(_, _, wanted)| !wanted.is_empty()) else {
        return Err(PyTypeError::new_err(format!(
            "torch._C._jit_tree_views.{name}: No constructor defined!"
        )));
    };
    let incompatible = || {
        let given = parts.repr().map(|text| text.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!(
            "{name}(): incompatible constructor arguments: wants ({}), invoked with: {given}",
            wanted.join(", ")
        ))
    };
    let least = wanted.iter().filter(|kind| !kind.ends_with('+')).count();
    if parts.len() < least || parts.len() > wanted.len() {
        return Err(incompatible());
    }
    let is = |value: &Bound<'_, PyAny>, kind: &str| -> PyResult<bool> {
        Ok(match kind {
            "str" => value.is_instance_of::<PyString>(),
            "bool" => value.is_instance_of::<pyo3::types::PyBool>(),
            other => value.is_instance(&module.getattr(other)?)?,
        })
    };
    for (part, kind) in parts.iter().zip(wanted.iter()) {
        let kind = kind.trim_end_matches('+');
        let optional = kind.ends_with('?');
        let kind = kind.trim_end_matches('?');
        let fits = match kind.strip_suffix("[]") {
            _ if optional && part.is_none() => true,
            None => is(&part, kind)?,
            Some(element) => match part.try_iter() {
                Ok(items) => items
                    .map(|item| is(&item?, element))
                    .collect::<PyResult<Vec<_>>>()?
                    .into_iter()
                    .all(|ok| ok),
                Err(_) => false,
            },
        };
        if !fits {
            return Err(incompatible());
        }
    }
    Ok(())
}

pub fn init(py: Python<'_>) -> PyResult<()> {
    crate::surface::find(py, "torch._C")?.add_class::<ErrorReport>()?;
    let module = crate::surface::find(py, "torch._C._jit_tree_views")?;
    module.add_class::<SourceRangeFactory>()?;
    module.add_class::<SourceRange>()?;
    module.add_class::<TreeView>()?;
    // Accessors of single classes are written once, on the base, under names of their own.
    let accessors: &[(&str, &[(&str, &str)])] = &[
        ("Ident", &[("name", "_name")]),
        ("Var", &[("name", "_name")]),
        ("Def", &[("name", "_ident"), ("decl", "_decl")]),
        ("Property", &[("name", "_ident"), ("getter_name", "_getter_name"), ("setter_name", "_setter_name")]),
    ];
    for (class, base, _) in CLASSES {
        let namespace = PyDict::new(py);
        namespace.set_item("__module__", "torch._C._jit_tree_views")?;
        for (_, names) in accessors.iter().filter(|(owner, _)| owner == class) {
            for (shown, own) in *names {
                namespace.set_item(shown, module.getattr("TreeView")?.getattr(*own)?)?;
            }
        }
        let bases = PyTuple::new(py, [module.getattr(*base)?])?;
        module.setattr(*class, py.get_type::<PyType>().call1((*class, bases, namespace))?)?;
    }
    Ok(())
}
