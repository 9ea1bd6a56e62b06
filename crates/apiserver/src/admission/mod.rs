//! Admission webhooks: those of MutatingWebhookConfigurations and ValidatingWebhookConfigurations are called for writes.
//!
//! The API is synchronous and decides about a write under short locks, while a webhook may take seconds. So no write waits
//! for a webhook. A write of a client has a [`Session`], and reaches two points in it: before the object is validated
//! ([`Session::mutate`]) and before it is stored ([`Session::validate`]); a deletion has one point. At a point, the session
//! knows the outcome of the webhooks, or it remembers what to ask them and stops the write with an error, before anything
//! has changed. HTTP then calls the webhooks, without a lock, adds the outcome to the session, and repeats the whole write,
//! which passes this point and stops at the next one. A write that passes all points is committed in the same step.
//!
//! A point is identified by the operation and by the version of the present object. If that was written meanwhile, the
//! outcomes no longer fit: the session forgets them, and the webhooks are called again for the new state, as
//! kube-apiserver does when its update of etcd conflicts. The time limit of a request, 34 s, ends this. What is made up for a
//! new object, such as its UID, is part of the outcome: the object that the webhooks have seen is the one that is stored.
//!
//! A conversion of an object by the webhook of its definition is a point as well ([`Session::convert`]).
//!
//! A server without configurations makes one check for each write: whether one was written since the last time
//! ([`Webhooks::get`]). The in-process API of the server has no sessions.
//!
//! Follows Kubernetes 1.37 (`apiserver/pkg/admission/plugin/webhook`).

mod attributes;
mod call;
mod client;
mod client_config;
mod conditions;
mod convert;
mod dispatch;
mod exchange;
mod hooks;
mod invocation;
mod managed;
mod matching;
#[cfg(feature = "cel")]
mod policy;
mod registered;
mod review;
mod rule;
mod services;
mod session;
#[cfg(feature = "tls")]
mod verifier;

pub(crate) use attributes::{Asked, Gvk, Operation};
pub(crate) use client::Endpoint;
pub(crate) use client_config::ClientConfig;
pub(crate) use dispatch::Caller;
pub(crate) use exchange::parse_review;
pub(crate) use registered::Webhooks;
pub(crate) use services::Services;
pub(crate) use session::{Calls, Outcome, Session};

/// Whether objects of a kind are exempt from webhooks: configurations of admission.
///
/// Follows Kubernetes 1.37 (`IsExemptAdmissionConfigurationResource`).
pub(crate) fn is_exempt(group: &str, kind: &str) -> bool {
    group == "admissionregistration.k8s.io"
        && [
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ]
        .contains(&kind)
}
