//! Work that one version of Tidings leaves to another.

mod replay;
mod shapes;
mod versions;
