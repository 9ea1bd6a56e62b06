//! Objects that conversion webhooks convert before they are sent.

use std::sync::Arc;

use ::http::StatusCode;
use futures::StreamExt;
use serde_json::Value;

use crate::api::{Api, read_scale};
use crate::conversion::{Unreadable, convert};
use crate::registry::{Resource, ScalePaths};
use crate::status::Status;
use crate::storage::{EventType, Stored};
use crate::table::IncludeObject;

use super::answer::{self, Answer};
use super::context::Context;
use super::negotiate::Representation;
use super::serialized;

/// How many objects of a list are converted at once.
const CALLS: usize = 8;

/// An answer to a request.
pub(super) enum Reply {
    Ready(Answer),
    /// A webhook has to convert its object.
    Deferred(Deferred),
}

impl Reply {
    /// Returns the answer.
    pub(super) async fn finish(self, context: &Context) -> Answer {
        match self {
            Self::Ready(answer) => answer,
            Self::Deferred(deferred) => {
                deferred.finish(context).await.unwrap_or_else(|status| answer::failure(&status))
            }
        }
    }
}

/// An object that is not yet converted, and the form of the answer.
pub(super) struct Deferred {
    pub(super) resource: Arc<Resource>,
    pub(super) stored: Arc<Stored>,
    pub(super) code: StatusCode,
    pub(super) representation: Representation,
    pub(super) include: IncludeObject,
    /// `None` for the object itself.
    pub(super) scale: Option<ScalePaths>,
}

impl Deferred {
    async fn finish(self, context: &Context) -> Result<Answer, Status> {
        let converted = state(context, &self.resource, EventType::Added, self.stored).await;
        let stored = converted.map_err(|failure| failure.status(&self.resource.kind))?;
        let resource = Arc::new(self.resource.of_converted());
        if let Some(paths) = &self.scale {
            let scale = read_scale(&resource.kind, &Api::served(&resource, &stored), paths)?;
            return Ok(answer::json(self.code, &Value::Object(scale)));
        }
        Ok(serialized::object(context, &resource, &stored, self.code, self.representation, self.include))
    }
}

/// Returns states of objects in the resource's version, in their order, and the failures. After this number of failures,
/// no more objects are converted.
pub(super) async fn states(
    context: &Context,
    resource: &Resource,
    states: Vec<(EventType, Arc<Stored>)>,
    max_failures: usize,
) -> (Vec<Arc<Stored>>, Vec<Unreadable>) {
    let (mut converted, mut failures) = (Vec::new(), Vec::new());
    let calls = states.into_iter().map(|(event_type, stored)| state(context, resource, event_type, stored));
    let calls: Vec<_> = calls.collect();
    let mut results = Box::pin(futures::stream::iter(calls).buffered(CALLS));
    while failures.len() < max_failures
        && let Some(result) = results.next().await
    {
        match result {
            Ok(stored) => converted.push(stored),
            Err(failure) => failures.push(failure),
        }
    }
    (converted, failures)
}

async fn state(
    context: &Context,
    resource: &Resource,
    event_type: EventType,
    stored: Arc<Stored>,
) -> Result<Arc<Stored>, Unreadable> {
    let (object, api_version) = (Api::completed(resource, &stored), resource.kind.api_version());
    let is_other = object.get("apiVersion").is_none_or(|version| *version != api_version);
    let converted = convert(&context.services, &resource.kind, object, &api_version).await;
    let mut object = match converted {
        Ok(object) => object,
        Err(error) => return Err(Unreadable { stored, error }),
    };
    if is_other {
        Api::restrict(resource, &mut object);
    }
    let (key, fields) = (stored.key().clone(), resource.store.fields());
    Ok(Arc::new(Stored::new(key, stored.version(), event_type, &object, fields, None)))
}
