//! The rules for schemas and the other fields of a CustomResourceDefinition.

mod approval;
mod columns;
mod conversion;
mod defaults;
mod internal;
mod names;
mod node;
mod nodes;
mod spec;
mod status;
mod structure;
mod validations;
mod warnings;

pub(crate) use approval::{Approval, approval};
pub(crate) use defaults::coerce_defaults;
pub(super) use defaults::prune_defaults;
pub(crate) use names::{dns_1035_fault, dns_1123_label_fault};
pub(crate) use spec::{faults, status_faults};
pub(crate) use warnings::warnings;
