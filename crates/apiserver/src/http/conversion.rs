//! Objects that conversion webhooks convert before they are sent.

use std::sync::Arc;

use ::http::{StatusCode, header};
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;

use crate::api::{Api, read_scale};
use crate::conversion::convert;
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

/// An answer whose object is not yet converted.
#[derive(Clone)]
pub(super) struct Deferred {
    pub(super) resource: Arc<Resource>,
    pub(super) stored: Arc<Stored>,
    pub(super) code: StatusCode,
    pub(super) form: Representation,
    pub(super) include: IncludeObject,
    /// `None` for the object itself.
    pub(super) scale: Option<ScalePaths>,
}

impl Deferred {
    /// Returns a placeholder, for [`finished`].
    pub(super) fn answer(self) -> Answer {
        let mut answer = answer::json(self.code, &Value::Null);
        answer.extensions_mut().insert(self);
        answer
    }

    async fn finish(self, context: &Context) -> Result<Answer, Status> {
        let stored = state(context, &self.resource, EventType::Added, self.stored).await?;
        let resource = Arc::new(self.resource.of_converted());
        if let Some(paths) = &self.scale {
            let scale = read_scale(&resource.kind, &Api::served(&resource, &stored), paths)?;
            return Ok(answer::json(self.code, &Value::Object(scale)));
        }
        Ok(serialized::object(context, &resource, &stored, self.code, self.form, self.include))
    }
}

/// Completes an answer whose object is not yet converted.
pub(super) async fn finished(context: &Context, mut answer: Answer) -> Answer {
    let Some(deferred) = answer.extensions_mut().remove::<Deferred>() else { return answer };
    let finished = deferred.finish(context).await;
    let mut finished = finished.unwrap_or_else(|status| answer::failure(&status));
    for warning in answer.headers().get_all(header::WARNING) {
        finished.headers_mut().append(header::WARNING, warning.clone());
    }
    finished
}

/// Returns states of objects in the resource's version, in their order.
///
/// # Errors
/// The first error of the webhook.
pub(super) async fn states(
    context: &Context,
    resource: &Resource,
    states: Vec<(EventType, Arc<Stored>)>,
) -> Result<Vec<Arc<Stored>>, Status> {
    let calls = states.into_iter().map(|(event_type, stored)| state(context, resource, event_type, stored));
    let calls: Vec<_> = calls.collect();
    futures::stream::iter(calls).buffered(CALLS).try_collect().await
}

async fn state(
    context: &Context,
    resource: &Resource,
    event_type: EventType,
    stored: Arc<Stored>,
) -> Result<Arc<Stored>, Status> {
    let (object, api_version) = (Api::completed(resource, &stored), resource.kind.api_version());
    let is_other = object.get("apiVersion").is_none_or(|version| *version != api_version);
    let mut object = convert(&context.services, &resource.kind, object, &api_version).await?;
    if is_other {
        Api::restrict(resource, &mut object);
    }
    let (key, fields) = (stored.key().clone(), resource.store.fields());
    Ok(Arc::new(Stored::new(key, stored.version(), event_type, &object, fields, None)))
}
