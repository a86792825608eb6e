//! The library `torch/__init__.py` loads before `torch._C`.
//!
//! Upstream's has no code either: it exists for the libraries it is linked to, which become visible to all later
//! ones. `torch._C` here is one self-contained module, so there are none, and this one is empty.
