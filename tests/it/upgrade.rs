//! Work that one version of Tidings leaves to another.

mod patches;
mod replay;
mod shapes;
mod versions;
