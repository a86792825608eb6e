//! Tables written from the pinned upstream tree by `vendor/generate`, and nothing else.

#[rustfmt::skip]
pub mod op_ids;

/// One line an operator, in id order; `vendor/generate/README.md` names the columns.
pub static OPS_TSV: &str = include_str!("ops.tsv");
