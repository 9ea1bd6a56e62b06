//! Access control: who sends a request, and whether they may.
//!
//! HTTP calls it for each request, in the order of kube-apiserver: [`AccessControl::authenticate`] finds the user,
//! [`AccessControl::impersonate`] replaces it, [`AccessControl::check`] decides about what the request asks for. The
//! reviews, such as `SelfSubjectAccessReview`, ask the same functions. Roles and bindings are read from the storage, and
//! parsed again only after one of them was written. Without [`Access`], every request may do everything.

mod attributes;
mod bootstrap;
mod config;
mod control;
mod controllers;
mod covers;
mod decision;
mod escalation;
mod identity;
mod impersonation;
mod issued;
mod policy;
mod review;
mod rules;
mod seen;
mod selectors;
mod token;
mod token_request;

pub(crate) use attributes::Attributes;
pub use config::{Access, AccessUser};
pub(crate) use control::AccessControl;
pub(crate) use escalation::{Granted, check_granted};
pub(crate) use identity::{ADMINISTRATOR, User};
pub(crate) use review::{ReviewOf, access_review, rules_review, self_review, token_review};
pub(crate) use seen::Seen;
pub(crate) use token::{Token, bearer};
pub(crate) use token_request::{check_token_request, new_token};
