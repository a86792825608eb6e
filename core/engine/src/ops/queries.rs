//! Questions about tensors and about the build that computing does not need.

use crate::dispatch::Registry;
use crate::op;

pub(crate) fn register(r: &mut Registry) {
    // Module conversion asks this before it gives a parameter new data in place.
    r.implicit(op::_has_compatible_shallow_copy_type, |a| {
        let (t, from) = (a.tensor(0)?, a.tensor(1)?);
        Ok((t.device().ty == from.device().ty && t.layout() == from.layout()).into())
    });
    for absent in [op::is_vulkan_available, op::_nnpack_available] {
        r.implicit(absent, |_| Ok(false.into()));
    }
}
