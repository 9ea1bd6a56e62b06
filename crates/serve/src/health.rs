//! `/healthz` and `/readyz`: named checks, and those of the informers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::{StatusCode, Uri};
use kinformer_core::internal::contain;

use crate::app::App;
use crate::checks::{Check, INFORMER, PATHS};
use crate::query::{Query, segments};
use crate::reply::{Failure, body_of};
use crate::watched::Watched;

/// Routes the paths of the health.
pub(crate) fn router() -> Router<Arc<App>> {
    let mut router = Router::new();
    for path in PATHS {
        router = router.route(path, get(answer)).route(&format!("{path}/{{*name}}"), get(answer));
    }
    router
}

/// A check of a request: a named one, or that of an informer.
enum Checked<'a> {
    Named(&'a Check),
    Informer(&'a Watched),
}

impl Checked<'_> {
    fn name(&self) -> String {
        match self {
            Self::Named(check) => check.name().to_owned(),
            Self::Informer(watched) => {
                let mut name = format!("{INFORMER}{}", watched.name());
                for (label, value) in [("cluster", &*watched.cluster), ("scope", &watched.scope)] {
                    if !value.is_empty() {
                        name.push_str(&format!(" {label}={value}"));
                    }
                }
                name
            }
        }
    }

    /// Returns what is to be known about a check that has passed.
    ///
    /// # Errors
    /// Why it has failed, in one line. A panic is a failure.
    fn run(&self) -> Result<&'static str, String> {
        let failed = match self {
            Self::Informer(watched) => {
                let status = watched.informer.status();
                return match (status.is_stopped(), watched.informer.has_synced()) {
                    (true, _) => Err("stopped".to_owned()),
                    (false, false) => Err("not synced".to_owned()),
                    _ if status.not_watchable().is_some() => {
                        Ok(" (not watchable: as fresh as the last list)")
                    }
                    _ => Ok(""),
                };
            }
            Self::Named(check) => match contain(|| check.run()) {
                Ok(Ok(())) => return Ok(""),
                Ok(Err(reason)) => reason,
                Err(panic) => panic.to_string(),
            },
        };
        // A reason of several lines could look like the line of another check.
        Err(failed.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    /// The line of the check, and whether it has passed.
    fn line(&self) -> (String, bool) {
        let name = self.name();
        match self.run() {
            Ok(more) => (format!("[+]{name} ok{more}\n"), true),
            Err(reason) => (format!("[-]{name} failed: {reason}\n"), false),
        }
    }
}

/// Follows Kubernetes 1.37 (`healthz.handleRootHealth`) in the form of its answer, and controller-runtime 0.25
/// (`healthz.Handler`) in its paths. Kubernetes withholds the reasons of failed checks, and answers 500.
async fn answer(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Failure> {
    let path = uri.path().strip_prefix('/').unwrap_or_default();
    let (root, below) = path.split_once('/').unwrap_or((path, ""));
    let informers = app.informers();
    let checks = &app.settings.checks;
    let named = if root == "readyz" { &checks.ready } else { &checks.health };
    let mut all: Vec<Checked<'_>> = named.iter().map(Checked::Named).collect();
    if root == "readyz" {
        all.extend(informers.iter().map(|watched| Checked::Informer(watched)));
    }
    if below.is_empty() {
        return Ok(together(root, &all, &Query::of(&uri)));
    }
    let name = segments(below)?.join("/");
    let Some(one) = all.iter().find(|one| one.name() == name) else {
        let names: Vec<String> = all.iter().map(Checked::name).collect();
        return Err(Failure::not_found(format!(
            "{root} has no check {name:?}; its checks are: {}",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        )));
    };
    let (line, has_passed) = one.line();
    Ok(plain(if has_passed { "ok\n".to_owned() } else { line }, has_passed))
}

/// The answer for all checks but the excluded ones.
fn together(root: &str, all: &[Checked<'_>], query: &Query) -> Response {
    let mut excluded: Vec<&str> = query.all("exclude").collect();
    excluded.sort_unstable();
    excluded.dedup();
    let (mut text, mut have_passed) = (String::new(), true);
    for one in all {
        let name = one.name();
        if let Some(position) = excluded.iter().position(|excluded| *excluded == name) {
            excluded.remove(position);
            text.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        let (line, has_passed) = one.line();
        text.push_str(&line);
        have_passed &= has_passed;
    }
    if all.is_empty() {
        text.push_str("[+]ping ok\n");
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    if have_passed && !query.has("verbose") {
        return plain("ok\n".to_owned(), true);
    }
    text.push_str(&format!("{root} check {}\n", if have_passed { "passed" } else { "failed" }));
    plain(text, have_passed)
}

fn plain(text: String, has_passed: bool) -> Response {
    let mut response = body_of("text/plain; charset=utf-8", text);
    if !has_passed {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}
