//! Operator schemas: names, argument types, defaults and alias annotations.

/// The number of an operator overload: its row in the generated operator table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct OpId(pub u16);
