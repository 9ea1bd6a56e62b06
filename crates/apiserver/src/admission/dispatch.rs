//! The calls of all webhooks at a point.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{Api, differ};
use crate::owner_references;
use crate::patch::{Patch, PatchFormat};
use crate::registry::Registry;
use crate::status::Status;

use super::attributes::{Attributes, Object};
use super::call::{Failure, call};
use super::convert::{Direction, in_version, shown};
use super::hooks::Hook;
use super::invocation::Invocation;
use super::managed::restore;
use super::matching::invocation;
use super::registered::{Configurations, Hooks};
use super::review::{Answer, denied};
use super::services::Services;
use super::session::{Outcome, Phase, Review, Session};

/// What calls webhooks.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) api: &'a Api,
    pub(crate) services: &'a Services,
    /// When the request ends.
    pub(crate) end: Instant,
}

impl Caller<'_> {
    /// Calls the webhooks that a write waits for. No lock is held.
    ///
    /// # Cancel safety
    /// If the future is dropped, the calls are ended; webhooks may have seen them.
    pub(crate) async fn call(self, session: &Session, asked: Review) -> Outcome {
        let (hooks, mut attributes) = (&session.hooks, asked.attributes.clone());
        let mut warnings = Vec::new();
        let result = match asked.phase {
            Phase::Mutating => self.mutate(&hooks.mutating, &mut attributes, &mut warnings).await,
            Phase::Validating => self.review(hooks, &attributes, &mut warnings).await,
            Phase::Deleting => match self.mutate(&hooks.mutating, &mut attributes, &mut warnings).await {
                Ok(()) => self.review(hooks, &attributes, &mut warnings).await,
                refused => refused,
            },
        };
        let changed = (asked.phase == Phase::Mutating).then_some(attributes.object).flatten();
        let changed = changed.map(|mut object| {
            warnings.extend(asked.attributes.object.as_ref().and_then(|before| restore(before, &mut object)));
            let dropped = owner_references::drop_duplicates(&mut object);
            warnings
                .extend(owner_references::duplicates_warning(&dropped, " after mutating admission happens"));
            object
        });
        Outcome { result: result.map(|()| asked.answered(changed)), warnings }
    }

    /// Calls the mutating webhooks in their order, and once more those that are to be, if any has changed the object.
    ///
    /// Follows Kubernetes 1.37 (`mutatingDispatcher.Dispatch`, `reinvoker.Admit`).
    ///
    /// # Errors
    /// The first refusal.
    async fn mutate(
        self,
        hooks: &Configurations,
        attributes: &mut Attributes,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let registry = self.api.registry();
        let (mut invoked, mut again) = (BTreeSet::new(), BTreeSet::new());
        let mut has_changed = false;
        for is_second in [false, true] {
            for (index, hook) in hooks.iter().flatten().enumerate() {
                let Some(invocation) = invocation(hook, attributes, &registry)? else { continue };
                if is_second && !again.contains(&index) {
                    continue;
                }
                let called = self.call_mutating(hook, &invocation, attributes, warnings).await;
                if matches!(called, Ok(true)) {
                    has_changed = true;
                    again.append(&mut invoked);
                }
                if hook.is_reinvoked() {
                    invoked.insert(index);
                }
                if let Some(status) = called.err().and_then(|failure| failure.status(hook)) {
                    return Err(status);
                }
            }
            if !has_changed {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether the webhook has changed the object.
    async fn call_mutating(
        self,
        hook: &Hook,
        invocation: &Invocation,
        attributes: &mut Attributes,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Failure> {
        let shown = shown(invocation, attributes);
        let answer = call(hook, invocation, &shown, true, (self.services, self.end)).await?;
        let Answer { patch, patch_type, .. } = allowed(hook, answer, warnings)?;
        if patch.is_empty() {
            return Ok(false);
        }
        let undecodable = |status: Status| {
            Failure::Call(format!("received undecodable patch in webhook response: {}", status.message()))
        };
        let patch = match Patch::decode(PatchFormat::Json, &patch).map_err(undecodable)? {
            Patch::Json(operations) if operations.is_empty() => return Ok(false),
            patch => patch,
        };
        let internal = |why: String| Failure::Refused(Status::internal(why));
        let Some(before) = shown.object else {
            return Err(internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                hook.name
            )));
        };
        if patch_type != "JSONPatch" {
            return Err(Failure::Call(format!("unsupported patch type {patch_type:?}")));
        }
        let patched = patch.apply(before.clone()).map_err(|status| internal(status.message().to_owned()))?;
        let Value::Object(mut object) = patched else {
            return Err(internal("the patch of a webhook leaves no object".into()));
        };
        let has_changed = has_fresh_times(attributes)
            || differ(&invocation.resource.kind, &invocation.kind, &before, &object);
        attributes.is_patched = true;
        let decoded = self.api.decode_admitted(&invocation.resource.kind, &invocation.kind, &mut object);
        decoded.map_err(internal)?;
        attributes.object = Some(in_version(invocation, attributes, object, Direction::Back));
        Ok(has_changed)
    }

    /// Evaluates the policies, and calls the validating webhooks.
    ///
    /// # Errors
    /// The first refusal.
    async fn review(
        self,
        hooks: &Hooks,
        attributes: &Attributes,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        #[cfg(feature = "cel")]
        hooks.policies.review(attributes, &self.api.registry(), warnings)?;
        self.validate(&hooks.validating, attributes, warnings).await
    }

    /// Calls the validating webhooks in parallel, and waits for all of them.
    ///
    /// Follows Kubernetes 1.37 (`validatingDispatcher.Dispatch`).
    ///
    /// # Errors
    /// The first refusal by time.
    async fn validate(
        self,
        hooks: &Configurations,
        attributes: &Attributes,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let calls = {
            let registry = self.api.registry();
            invocations(hooks, attributes, &registry)?
        };
        let mut running: FuturesUnordered<_> = calls
            .iter()
            .enumerate()
            .map(|(index, (hook, invocation))| async move {
                let shown = shown(invocation, attributes);
                let mut warnings = Vec::new();
                let called = call(hook, invocation, &shown, false, (self.services, self.end)).await;
                let called = called.and_then(|answer| allowed(hook, answer, &mut warnings));
                (index, warnings, called.err().and_then(|failure| failure.status(hook)))
            })
            .collect();
        let (mut all, mut refusal) = (vec![Vec::new(); calls.len()], None);
        while let Some((index, warnings, status)) = running.next().await {
            if let Some(slot) = all.get_mut(index) {
                *slot = warnings;
            }
            refusal = refusal.or(status);
        }
        warnings.extend(all.into_iter().flatten());
        refusal.map_or(Ok(()), Err)
    }
}

fn invocations<'a>(
    hooks: &'a Configurations,
    attributes: &Attributes,
    registry: &Registry,
) -> Result<Vec<(&'a Hook, Invocation)>, Status> {
    let mut found = Vec::new();
    for hook in hooks.iter().flatten() {
        found.extend(invocation(hook, attributes, registry)?.map(|invocation| (hook, invocation)));
    }
    Ok(found)
}

/// # Errors
/// The denial of a webhook.
fn allowed(hook: &Hook, mut answer: Answer, warnings: &mut Vec<String>) -> Result<Answer, Failure> {
    warnings.append(&mut answer.warnings);
    if answer.allowed { Ok(answer) } else { Err(Failure::Refused(denied(&hook.name, answer.status))) }
}

/// Whether a patch counts as a change, whatever it does: the times of new managers of a built-in object have fractions of
/// seconds in Kubernetes 1.37, until the first patch drops these.
fn has_fresh_times(attributes: &Attributes) -> bool {
    fn managers(object: &Object) -> Option<&Value> {
        object.get("metadata")?.get("managedFields")
    }
    let of = |object: &Option<Object>| object.as_ref().and_then(managers).cloned();
    !attributes.is_patched
        && !attributes.resource().kind.custom
        && of(&attributes.object).is_some_and(|own| Some(own) != of(&attributes.old))
}
