//! `/api/v1/controllers` and `/api/v1/ring`: the controllers of the program, the last reconciliations of a key, and the ring.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use serde::Serialize;

use crate::app::{App, Settings};
use crate::controllers::{ControllerView, LeadershipView, ReconciliationView};
use crate::query::{Query, segments};
use crate::reply::{Failure, json_of};
use crate::ring::RingView;
use crate::state;

/// The prefix of the paths of controllers.
pub(crate) const CONTROLLERS: &str = "/api/v1/controllers";

/// The path of the ring.
pub(crate) const RING: &str = "/api/v1/ring";

const SECRETS: &str = "secrets";

#[derive(Serialize)]
struct Answer {
    time: String,
    leadership: Option<LeadershipView>,
    controllers: Vec<Controller>,
}

#[derive(Serialize)]
struct RingAnswer {
    time: String,
    ring: Option<RingView>,
}

/// A controller, and whether its keys are shown.
#[derive(Serialize)]
struct Controller {
    #[serde(flatten)]
    view: ControllerView,
    hidden: bool,
}

#[derive(Serialize)]
struct Reconciliations {
    key: String,
    items: Vec<ReconciliationView>,
}

/// `GET /api/v1/controllers`.
pub(crate) async fn all(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let read = app.read_controllers(|provider| (provider.leadership(), provider.controllers())).await?;
    let (leadership, views) = read.unwrap_or_default();
    let controllers = views.into_iter().map(|view| shown(view, &app.settings)).collect();
    Ok(json_of(&Answer { time: state::now(), leadership, controllers }))
}

/// `GET /api/v1/controllers/{controller}`, and the reconciliations below it.
pub(crate) async fn below(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Failure> {
    let below = uri.path().strip_prefix(CONTROLLERS).and_then(|path| path.strip_prefix('/'));
    let all = segments(below.unwrap_or_default())?;
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    match names.as_slice() {
        [name] => Ok(json_of(&find(&app, name).await?)),
        [name, "reconciliations"] => reconciliations(&app, name, &Query::of(&uri)).await,
        _ => {
            Err(Failure::not_found("a controller has …/reconciliations?key=KEY, and no other path below it"))
        }
    }
}

/// `GET /api/v1/ring`.
pub(crate) async fn ring(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let ring = app.read_controllers(|provider| provider.ring()).await?.flatten();
    Ok(json_of(&RingAnswer { time: state::now(), ring }))
}

async fn reconciliations(app: &App, name: &str, query: &Query) -> Result<Response, Failure> {
    let Some(key) = query.get("key").map(str::to_owned) else {
        return Err(Failure::bad_request("the parameter key is missing: key=NAMESPACE/NAME, or key=NAME"));
    };
    if find(app, name).await?.hidden {
        return Err(Failure::hidden("the keys of this controller are those of secrets, and are not shown"));
    }
    let (of, wanted) = (name.to_owned(), key.clone());
    let items = app.read_controllers(move |provider| provider.reconciliations(&of, &wanted)).await?;
    let mut items = items.unwrap_or_default();
    if !app.settings.hidden.is_empty() {
        conceal(items.iter_mut().filter_map(|item| item.error.as_mut()));
    }
    if !app.settings.show_secrets {
        let causes = items.iter_mut().filter_map(|item| item.cause.as_mut());
        causes.filter(|cause| cause.resource == SECRETS).for_each(|cause| cause.key = None);
    }
    Ok(json_of(&Reconciliations { key, items }))
}

/// # Errors
/// 404 with the names of the controllers.
async fn find(app: &App, name: &str) -> Result<Controller, Failure> {
    let views = app.read_controllers(|provider| provider.controllers()).await?.unwrap_or_default();
    let names: Vec<String> = views.iter().map(|view| view.name.clone()).collect();
    let found = views.into_iter().find(|view| view.name == name);
    found.map(|view| shown(view, &app.settings)).ok_or_else(|| {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Failure::not_found(format!("there is no controller {name:?}; the controllers are: {names}"))
    })
}

/// Removes what the server does not show: keys of secrets, and errors that may quote hidden fields.
fn shown(mut view: ControllerView, settings: &Settings) -> Controller {
    let hidden = !settings.show_secrets && view.resource.as_deref() == Some(SECRETS);
    if hidden {
        view.running.clear();
        view.failures.clear();
    }
    if hidden || !settings.hidden.is_empty() {
        let failures = view.failures.iter_mut().map(|failure| &mut failure.error);
        conceal(view.error.iter_mut().chain(failures));
    }
    Controller { view, hidden }
}

fn conceal<'a>(errors: impl Iterator<Item = &'a mut String>) {
    errors.for_each(|error| "the error may quote hidden values".clone_into(error));
}
