//! The operator table in memory.
//!
//! The first question indexes the names; a schema is parsed when it is first asked for, because a program uses
//! a few hundred of the thousands.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use super::{EXTRA_SCHEMAS, OPS_TSV, OVERLOAD_ORDER};
use crate::schema::{FunctionSchema, OpId, parse_schema};

/// How upstream serves an operator on the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// A kernel of its own, or that of its structured group.
    Cpu,
    /// Composed of other operators above autograd.
    CompositeImplicit,
    /// Composed below autograd.
    CompositeExplicit,
    /// Composed below autograd, and not where operators are functionalised.
    CompositeExplicitNonFunctional,
    /// No kernel on the CPU.
    Absent,
}

/// What an overload does with its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Functional,
    InPlace,
    /// Writes its results to arguments given for them.
    Out,
    /// Writes to operands and returns results of its own.
    Mutable,
}

/// One row of the table.
#[derive(Debug)]
pub struct OpInfo {
    pub id: OpId,
    /// `add.Tensor`; without a namespace, which is always `aten`.
    pub full_name: &'static str,
    /// `add`.
    pub name: &'static str,
    /// `Tensor`; empty for the default overload.
    pub overload: &'static str,
    /// As upstream's YAML spells it, without a namespace.
    pub schema_text: &'static str,
    pub kernel: Kernel,
    pub kind: Kind,
    flags: &'static str,
    tags: &'static str,
    /// The overloads of the same signature.
    pub functional: Option<OpId>,
    pub inplace: Option<OpId>,
    pub out: Option<OpId>,
}

impl OpInfo {
    fn flag(&self, letter: char) -> bool {
        self.flags.contains(letter)
    }

    /// Callable as a function of the `torch` module and kin.
    pub fn is_function(&self) -> bool {
        self.flag('f')
    }

    /// Callable as a method of tensors.
    pub fn is_method(&self) -> bool {
        self.flag('m')
    }

    /// Returns a view of an operand.
    pub fn is_view(&self) -> bool {
        self.flag('v')
    }

    pub fn is_structured(&self) -> bool {
        self.flag('s')
    }

    /// Its kernel is that of a structured `out` overload.
    pub fn is_structured_delegate(&self) -> bool {
        self.flag('d')
    }

    /// Structured over upstream's TensorIterator.
    pub fn is_iterator(&self) -> bool {
        self.flag('i')
    }

    /// Derived by upstream from another overload.
    pub fn is_generated(&self) -> bool {
        self.flag('g')
    }

    /// Upstream's tags, in alphabetical order.
    pub fn tags(&self) -> Vec<&'static str> {
        let mut tags: Vec<_> = self.tags.split(',').filter(|tag| !tag.is_empty()).collect();
        if self.is_generated() {
            tags.push("generated");
        }
        if !self.flag('p') {
            tags.push("pt2_compliant_tag");
        }
        tags.sort_unstable();
        tags
    }

    pub fn has_tag(&self, tag: &str) -> bool {
        match tag {
            "generated" => self.is_generated(),
            "pt2_compliant_tag" => !self.flag('p'),
            _ => self.tags.split(',').any(|own| own == tag),
        }
    }
}

/// A schema upstream knows besides the YAML's.
#[derive(Debug)]
pub struct ExtraSchema {
    /// `aten::add.int`.
    pub full_name: &'static str,
    pub schema_text: &'static str,
    /// The dispatcher knows it; otherwise TorchScript's interpreter alone does.
    pub is_dispatched: bool,
    schema: OnceLock<FunctionSchema>,
}

impl ExtraSchema {
    pub fn schema(&self) -> &FunctionSchema {
        self.schema.get_or_init(|| read(self.schema_text))
    }
}

/// One overload of a name.
#[derive(Clone, Copy, Debug)]
pub enum Overload {
    Operator(OpId),
    Extra(&'static ExtraSchema),
}

impl Overload {
    /// The overload name, empty for the default one.
    pub fn name(&self) -> &'static str {
        match self {
            Overload::Operator(id) => info(*id).overload,
            Overload::Extra(extra) => split_overload(extra.full_name).1,
        }
    }

    pub fn schema(&self) -> &'static FunctionSchema {
        match self {
            Overload::Operator(id) => schema(*id),
            Overload::Extra(extra) => extra.schema(),
        }
    }
}

struct Table {
    ops: Vec<OpInfo>,
    schemas: Vec<OnceLock<FunctionSchema>>,
    by_name: HashMap<&'static str, OpId>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let full_name = |row: &'static str| &row[..row.find('(').unwrap_or(0)];
    let by_name: HashMap<_, _> =
        OPS_TSV.lines().enumerate().map(|(i, row)| (full_name(row), OpId(i as u16))).collect();
    let ops: Vec<_> = OPS_TSV.lines().enumerate().map(|(i, row)| read_row(i, row, &by_name)).collect();
    let schemas = ops.iter().map(|_| OnceLock::new()).collect();
    Table { ops, schemas, by_name }
});

static EXTRAS: LazyLock<Vec<ExtraSchema>> = LazyLock::new(|| {
    EXTRA_SCHEMAS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(letter, text)| ExtraSchema {
            full_name: &text[..text.find('(').unwrap_or(text.len())],
            schema_text: text,
            is_dispatched: letter == "d",
            schema: OnceLock::new(),
        })
        .collect()
});

/// The overloads of every name, each list in upstream's order.
static PACKETS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut packets: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for op in &TABLE.ops {
        packets.entry(op.name).or_default().push(Overload::Operator(op.id));
    }
    for extra in EXTRAS.iter() {
        let list = packets.entry(split_overload(extra.full_name).0).or_default();
        // Of an overload registered twice the first is the one that answers.
        if list.iter().all(|known| known.name() != split_overload(extra.full_name).1) {
            list.push(Overload::Extra(extra));
        }
    }
    for line in OVERLOAD_ORDER.lines() {
        let mut words = line.split(' ');
        let Some(list) = words.next().and_then(|packet| packets.get_mut(unqualified(packet))) else {
            continue;
        };
        let order: Vec<_> = words.map(|word| if word == "default" { "" } else { word }).collect();
        list.sort_by_key(|overload| order.iter().position(|name| *name == overload.name()));
    }
    packets
});

/// Names of the aten namespace stand without it in the tables.
fn unqualified(name: &str) -> &str {
    name.strip_prefix("aten::").unwrap_or(name)
}

fn split_overload(full_name: &'static str) -> (&'static str, &'static str) {
    unqualified(full_name).split_once('.').unwrap_or((unqualified(full_name), ""))
}

fn read_row(index: usize, row: &'static str, by_name: &HashMap<&'static str, OpId>) -> OpInfo {
    let mut columns = row.split('\t').map(|column| if column == "-" { "" } else { column });
    let mut next = || columns.next().unwrap_or("");
    let schema_text = next();
    let full_name = &schema_text[..schema_text.find('(').unwrap_or(0)];
    let (name, overload) = full_name.split_once('.').unwrap_or((full_name, ""));
    let kernel = match next() {
        "C" => Kernel::Cpu,
        "I" => Kernel::CompositeImplicit,
        "E" => Kernel::CompositeExplicit,
        "N" => Kernel::CompositeExplicitNonFunctional,
        _ => Kernel::Absent,
    };
    let kind = match next() {
        "i" => Kind::InPlace,
        "o" => Kind::Out,
        "m" => Kind::Mutable,
        _ => Kind::Functional,
    };
    let flags = next();
    let mut link = || by_name.get(next()).copied();
    let (functional, inplace, out) = (link(), link(), link());
    OpInfo {
        id: OpId(index as u16),
        full_name,
        name,
        overload,
        schema_text,
        kernel,
        kind,
        flags,
        tags: next(),
        functional,
        inplace,
        out,
    }
}

/// Parses a schema of the tables, every one of which a test parses too.
fn read(text: &str) -> FunctionSchema {
    match parse_schema(text) {
        Ok(schema) => schema,
        Err(error) => panic!("the generated tables hold a malformed schema: {error}"),
    }
}

/// The operator of this name: `add.Tensor`, with or without `aten::`.
pub fn find(full_name: &str) -> Option<OpId> {
    TABLE.by_name.get(unqualified(full_name)).copied()
}

/// The table's row for an operator. Ids come from the table, so every one has a row.
pub fn info(id: OpId) -> &'static OpInfo {
    &TABLE.ops[id.0 as usize]
}

/// Every operator of the table, in id order.
pub fn ops() -> &'static [OpInfo] {
    &TABLE.ops
}

/// The schema of an operator, its name with the namespace: `aten::add`.
pub fn schema(id: OpId) -> &'static FunctionSchema {
    TABLE.schemas[id.0 as usize].get_or_init(|| {
        let mut schema = read(info(id).schema_text);
        schema.name.insert_str(0, "aten::");
        schema
    })
}

/// The schemas upstream registers in C++ besides those of the YAML.
pub fn extra_schemas() -> &'static [ExtraSchema] {
    &EXTRAS
}

/// The extra schema of this name: `aten::add.int`, `prim::device`.
pub fn find_extra(full_name: &str) -> Option<&'static ExtraSchema> {
    static INDEX: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
        let mut index = HashMap::new();
        for (i, extra) in EXTRAS.iter().enumerate() {
            index.entry(extra.full_name).or_insert(i);
        }
        index
    });
    INDEX.get(full_name).map(|&i| &EXTRAS[i])
}

/// The overloads of a name, `aten::add` or `prim::device`, in the order in which upstream lists and tries them.
pub fn overloads(packet: &str) -> &'static [Overload] {
    PACKETS.get(unqualified(packet)).map_or(&[], Vec::as_slice)
}

/// Every name that has overloads; those of the aten namespace without it.
pub fn packets() -> impl Iterator<Item = &'static str> {
    PACKETS.keys().copied()
}

#[cfg(test)]
mod tests {
    use super::super::op_ids;
    use super::*;

    #[test]
    fn every_id_names_its_row() {
        let source = include_str!("op_ids.rs");
        let mut count = 0;
        for line in source.lines() {
            let Some((name, rest)) =
                line.strip_prefix("pub const ").and_then(|l| l.split_once(": OpId = OpId("))
            else {
                continue;
            };
            let index: u16 = rest.trim_end_matches(");").parse().unwrap();
            let row = info(OpId(index));
            assert_eq!(row.full_name.replace('.', "_"), name.trim_start_matches("r#"));
            assert_eq!(find(row.full_name), Some(OpId(index)));
            count += 1;
        }
        assert_eq!(count, op_ids::COUNT);
        assert_eq!(ops().len(), op_ids::COUNT);
    }

    #[test]
    fn rows_know_their_relatives() {
        let add = info(op_ids::add_Tensor);
        assert_eq!((add.name, add.overload), ("add", "Tensor"));
        assert_eq!(add.inplace, Some(op_ids::add__Tensor));
        assert_eq!(add.out, Some(op_ids::add_out));
        assert_eq!(info(op_ids::add_out).functional, Some(op_ids::add_Tensor));
        assert_eq!((add.kernel, add.kind), (Kernel::Cpu, Kind::Functional));
        assert!(add.is_structured_delegate() && add.is_method() && add.is_function() && !add.is_view());
        assert_eq!(add.tags(), ["core", "pointwise", "pt2_compliant_tag"]);
        let out = info(op_ids::add_out);
        assert!(out.is_structured() && out.is_iterator() && out.kind == Kind::Out && out.has_tag("out"));
        assert!(info(op_ids::view).is_view());
        assert_eq!(info(op_ids::matmul).kernel, Kernel::CompositeImplicit);
    }

    #[test]
    fn every_operator_parses() {
        for op in ops() {
            assert_eq!(schema(op.id).qualified_name(), format!("aten::{}", op.full_name));
        }
        for extra in extra_schemas() {
            assert_eq!(extra.schema().qualified_name(), extra.full_name);
        }
    }

    #[test]
    fn overloads_come_in_upstreams_order() {
        let names = |packet| overloads(packet).iter().map(Overload::name).collect::<Vec<_>>();
        assert_eq!(names("aten::float_power_"), ["Tensor", "Scalar"]);
        assert_eq!(names("put"), ["", "out"]);
        assert_eq!(
            names("aten::fmod"),
            ["Tensor", "Scalar", "Tensor_out", "Scalar_out", "int", "float", "int_float", "float_int", ""]
        );
        assert_eq!(names("aten::sym_size"), ["int", ""]);
        assert_eq!(names("prim::layout"), [""]);
        assert!(overloads("aten::no_such_operator").is_empty());
        assert!(find_extra("aten::add.int").is_some_and(|extra| !extra.is_dispatched));
        assert!(find_extra("quantized::max_pool2d").is_some_and(|extra| extra.is_dispatched));
    }
}
