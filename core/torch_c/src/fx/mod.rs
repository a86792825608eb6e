//! What `torch.fx` has in C: the node of a graph, iteration over nodes, and maps over arguments.

mod map;
mod node;

use pyo3::prelude::*;

pub fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    map::init(module)?;
    node::init(module)
}
