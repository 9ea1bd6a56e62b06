//! Why an object is in a store, or is not there: from what the informer saw, without a request.

use std::cmp::Ordering;

use axum::response::Response;
use kinformer::{ObjectKey, Phase, ResourceVersion, SourceError};
use serde::Serialize;

use crate::app::App;
use crate::failures::{self, Undelivered};
use crate::format::rfc3339;
use crate::memory::Deletion;
use crate::reply::{Failure, json_of};
use crate::watched::Watched;

/// The explanation of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    key: String,
    present: bool,
    reason: &'static str,
    message: String,
    resource_version: Option<String>,
    time: Option<String>,
    can_ask: bool,
}

/// The answer, without the key.
struct Answer {
    reason: &'static str,
    message: String,
    version: Option<String>,
    time: Option<String>,
}

fn answer(reason: &'static str, message: impl Into<String>) -> Answer {
    Answer { reason, message: message.into(), version: None, time: None }
}

/// `GET …/objects/{namespace}/{name}/explain`.
pub(crate) fn explain(app: &App, watched: &Watched, key: &ObjectKey) -> Result<Response, Failure> {
    watched.check_shown()?;
    let can_ask = app.settings.clients.contains_key(&*watched.cluster);
    let stored = present(app, watched, key);
    let present = stored.is_some();
    let Answer { reason, message, version, time } = stored.unwrap_or_else(|| missing(app, watched, key));
    Ok(json_of(&Explanation {
        key: key.to_string(),
        present,
        reason,
        message,
        resource_version: version,
        time,
        can_ask,
    }))
}

fn present(app: &App, watched: &Watched, key: &ObjectKey) -> Option<Answer> {
    let snapshot = watched.snapshot()?;
    let object = snapshot.get(key)?;
    let version = object.resource_version().to_string();
    let decoded: Result<serde_json::Value, _> = object.object().decode_new();
    let mut answer = match decoded {
        Ok(_) => answer("Present", format!("the store has it at version {version}")),
        Err(error) => answer(
            "DecodeFailed",
            format!(
                "the store has it at version {version}, but it cannot be decoded: {}",
                watched.text_of_decoding(&error)
            ),
        ),
    };
    if let Some(failure) = newer_failure(app, watched, key, &object.resource_version()) {
        answer
            .message
            .push_str(&format!("; it received a newer one, and could not store it: {}", failure.message));
    }
    if watched.informer.status().phase() == Phase::Stopped {
        answer.message.push_str("; the informer has stopped, so this is the last state it saw");
    }
    answer.version = Some(version);
    Some(answer)
}

fn missing(app: &App, watched: &Watched, key: &ObjectKey) -> Answer {
    let informer = &watched.informer;
    let namespace = key.namespace().unwrap_or_default();
    if informer.selection().is_namespaced() && !informer.selection().has_namespace(namespace) {
        return answer(
            "OutOfScope",
            format!(
                "this informer holds no objects of namespace {namespace:?}, only of: {}",
                informer.selection().scope()
            ),
        );
    }
    if informer.status().phase() == Phase::NotStarted {
        return answer("NotSynced", "the informer was not started");
    }
    let failure = failure(app, watched, key);
    let deletion = app.memory.deletion(watched.number, key);
    // The later of the two: an object can be deleted, and then created in a form that does not decode.
    if let Some(failure) = failure
        && deletion.as_ref().is_none_or(|deletion| deletion.time <= failure.time)
    {
        return not_stored(failure);
    }
    if let Some(deletion) = deletion {
        return deleted(watched, namespace, deletion);
    }
    if informer.status().phase() == Phase::Stopped {
        return answer("Stopped", "the informer has stopped, and its store did not have the object");
    }
    if let Some(error) = informer.status().not_served() {
        return answer(
            "NotServed",
            format!("the server does not serve {}: {}", watched.name(), watched.text_of(&error)),
        );
    }
    if !informer.has_synced() {
        return not_synced(watched);
    }
    let matching = selectors(watched, namespace)
        .map(|selectors| format!(", or never matched the selector {selectors}"))
        .unwrap_or_default();
    let memory = match app.memory.history(watched.number, key).1 {
        true => String::new(),
        false => ", or was deleted so long ago that the memory has no record".to_owned(),
    };
    answer(
        "NeverSeen",
        format!(
            "no list or watch event has had it since {}: it did not exist{matching}{memory}",
            rfc3339(watched.since)
        ),
    )
}

fn not_stored(Undelivered { message, version, time }: Undelivered) -> Answer {
    let version = (!version.is_unset()).then(|| version.to_string());
    let at = version.as_ref().map(|version| format!(" at version {version}")).unwrap_or_default();
    Answer {
        reason: "DecodeFailed",
        message: format!("the informer received it{at}, and could not store it: {message}"),
        version,
        time: Some(rfc3339(time)),
    }
}

fn deleted(watched: &Watched, namespace: &str, deletion: Deletion) -> Answer {
    let what = match selectors(watched, namespace) {
        None => "deleted".to_owned(),
        Some(selectors) => format!("deleted, or left the selector {selectors},"),
    };
    let time = rfc3339(deletion.time);
    let version = (!deletion.version.is_unset()).then(|| deletion.version.to_string());
    let at = version.as_ref().map(|version| format!(" at version {version}")).unwrap_or_default();
    let unseen = if deletion.final_state_unknown {
        "; the deletion itself was missed, and a later list did not have the object, so that is its last known version"
    } else {
        ""
    };
    Answer { reason: "Deleted", message: format!("{what}{at} ({time}){unseen}"), version, time: Some(time) }
}

fn not_synced(watched: &Watched) -> Answer {
    let parts = watched.informer.status().parts();
    let parts = parts.iter().filter(|part| !part.reflector().is_synced());
    let errors: Vec<_> = parts.filter_map(|part| part.reflector().last_error()).collect();
    let is_refused =
        |error: &SourceError| error.status().is_some_and(|status| matches!(status.code, 401 | 403));
    if let Some(error) = errors.iter().find(|error| is_refused(error)) {
        return answer(
            "Forbidden",
            format!("the server refuses to list {}: {}", watched.name(), watched.text_of(error)),
        );
    }
    let why = match errors.first() {
        Some(error) => format!("its last error: {}", watched.text_of(error)),
        None => "no error so far".to_owned(),
    };
    answer("NotSynced", format!("the first list is not complete, so the object may still arrive; {why}"))
}

/// The failure of a newer state than the stored one.
fn newer_failure(
    app: &App,
    watched: &Watched,
    key: &ObjectKey,
    stored: &ResourceVersion,
) -> Option<Undelivered> {
    let failure = failure(app, watched, key)?;
    let is_newer = if failure.version.is_unset() {
        // Errors of a transform have no version.
        let (changes, is_all) = app.memory.history(watched.number, key);
        changes.last().map_or(is_all, |change| change.time < failure.time)
    } else {
        failure.version.compare(stored) == Some(Ordering::Greater)
    };
    is_newer.then_some(failure)
}

/// The failure of an object, from the log or from the last error of a reflector.
fn failure(app: &App, watched: &Watched, key: &ObjectKey) -> Option<Undelivered> {
    let failure = watched.informer.status().parts().iter().find_map(|part| {
        let reflector = part.reflector();
        let logged = app.failures_of(watched).and_then(|log| log.of(reflector.name(), key));
        logged.or_else(|| {
            let (failed, failure) = failures::undelivered(&*reflector.last_error()?)?;
            (failed == *key).then_some(failure)
        })
    });
    failure.map(|failure| match watched.conceals {
        true => Undelivered { message: "the error may quote hidden values".to_owned(), ..failure },
        false => failure,
    })
}

/// The selectors of the informer for objects of a namespace, as text; `None` if it has none.
pub(crate) fn selectors(watched: &Watched, namespace: &str) -> Option<String> {
    let informer = &watched.informer;
    let selectors: Vec<String> =
        [informer.selection().label_selector(namespace), informer.selection().field_selector(namespace)]
            .into_iter()
            .flatten()
            .map(|selector| format!("{:?}", &*selector))
            .collect();
    (!selectors.is_empty()).then(|| selectors.join(" and "))
}
