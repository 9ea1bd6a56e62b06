//! Writes that webhooks concern: attempts, and the calls between them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};
use tokio::time::{Instant, timeout_at};

use crate::access::User;
use crate::admission::{Asked, Caller, Calls, Gvk, Outcome, Session, is_exempt};
use crate::api::Object;
use crate::conversion::convert;
use crate::faults::Verb;
use crate::registry::{Kind, Resource};
use crate::status::Status;

use super::context::Context;
use super::deadline;
use super::request::{Query, Target};

/// The time limit of a write, apart from deletions of collections. The limit of Kubernetes.
const LIMIT: Duration = Duration::from_secs(34);
/// The time limit of a deletion of a collection. The limit of Kubernetes.
const COLLECTION_LIMIT: Duration = Duration::from_secs(60);

/// A write.
pub(super) struct Asking<'a> {
    pub(super) resource: &'a Arc<Resource>,
    pub(super) target: &'a Target,
    pub(super) query: &'a Query,
    pub(super) user: &'a User,
    /// The kind of the objects of a subresource; `None` for that of the resource.
    pub(super) kind: Option<Kind>,
}

impl Asking<'_> {
    /// Returns the session of the write; `None` if no webhook concerns it.
    pub(super) fn session(&self, context: &Context) -> Option<Session> {
        let hooks = context.webhooks.get(&context.api.registry());
        let kind = &self.resource.kind;
        let is_reviewed = !hooks.is_empty() && !is_exempt(&kind.group, &kind.kind);
        if !is_reviewed && !self.resource.is_converted() {
            return None;
        }
        let asked = Asked {
            resource: self.resource.clone(),
            subresource: self.target.subresource.clone().unwrap_or_default(),
            kind: Gvk::of(self.kind.as_ref().unwrap_or(kind)),
            namespace: self.target.namespace().to_owned(),
            name: self.target.name.clone().unwrap_or_default(),
            options: options(self.query),
            is_dry_run: self.query.get("dryRun").is_some(),
            user: self.user.to_json(),
        };
        Some(Session::new(hooks, asked))
    }
}

/// The options of a create or an update that webhooks receive.
fn options(query: &Query) -> Object {
    let mut options = Map::new();
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if !dry_run.is_empty() {
        options.insert("dryRun".into(), json!(dry_run));
    }
    for name in ["fieldManager", "fieldValidation"] {
        let text = query.text(name);
        if !text.is_empty() {
            options.insert(name.into(), text.into());
        }
    }
    options
}

/// Repeats a write, which calls no webhook itself, until it passes all points of its session.
///
/// # Errors
/// Those of the write; 504 after the time limit.
pub(super) async fn answer<T>(
    context: &Context,
    session: &Session,
    (verb, kind, end): (Verb, &Kind, Option<Instant>),
    mut attempt: impl FnMut() -> Result<T, Status>,
) -> Result<T, Status> {
    let limit = if verb == Verb::DeleteCollection { COLLECTION_LIMIT } else { LIMIT };
    let limit = Instant::now() + limit;
    let end = end.map_or(limit, |end| end.min(limit));
    let caller = Caller { api: &context.api, services: &context.services, end };
    let attempts = async {
        loop {
            session.rewind();
            let answer = context.api.writes(&mut attempt);
            let Some((point, calls)) = session.take_pending() else { return answer };
            let outcome = match calls {
                Calls::Webhooks(review) => caller.call(session, review).await,
                Calls::Conversion(object, to) => {
                    let result = convert(&context.services, kind, object, &to).await;
                    Outcome { result, warnings: Vec::new() }
                }
            };
            session.answered(point, outcome);
        }
    };
    timeout_at(end, attempts).await.unwrap_or_else(|_| Err(deadline::exceeded()))
}
