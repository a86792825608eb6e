//! Tables written from the pinned upstream tree by `vendor/generate`.

#[rustfmt::skip]
pub mod op_ids;
mod table;

pub use table::{
    ExtraSchema, Kernel, Kind, OpInfo, Overload, extra_schemas, find, find_extra, info, ops, overloads,
    packets, schema,
};

/// One line an operator, in id order; `vendor/generate/README.md` names the columns.
pub static OPS_TSV: &str = include_str!("ops.tsv");

/// Operators outside the YAML: a letter (`d` known to the dispatcher, `j` to TorchScript alone), a blank, the schema.
pub static EXTRA_SCHEMAS: &str = include_str!("extra_schemas.txt");

/// The overloads of a name in upstream's order, where that is not the order of the tables.
pub static OVERLOAD_ORDER: &str = include_str!("overload_order.txt");
