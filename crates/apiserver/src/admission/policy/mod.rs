//! `ValidatingAdmissionPolicy`: rules in CEL about writes.
//!
//! A policy acts through its bindings: on the requests that both match, with the parameters that a binding names. Policies
//! are evaluated before the validating webhooks are called. There is no audit log: audit annotations are evaluated, since
//! their errors refuse a write, and are dropped.
//!
//! Follows Kubernetes 1.37 (`apiserver/pkg/admission/plugin/policy`).

mod criteria;
mod decision;
mod definition;
mod evaluation;
mod params;
mod review;

pub(super) use definition::Policies;
