//! Worlds whose informers change their scope while objects are written and requests fail.

mod log;
mod world;

pub(crate) use log::{NAMESPACES, ScopeLog, Scoped};
pub(crate) use world::live;
