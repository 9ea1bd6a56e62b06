//! The client whose writes are recorded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kinformer::{Informer, ObjectKey, ResourceVersion};
use kube_client::Client;
use kube_client::client::Body;
use tower::{BoxError, Service};

use super::ledger::Write;
use super::reads::may_hold;
use super::request::{Target, is_dry_run, is_write};
use super::update;
use crate::shared::{Shared, storage_name};

/// Sends requests with another client, and records what they write.
pub(crate) struct Recorder {
    client: Client,
    shared: Arc<Shared>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

impl Recorder {
    /// Returns a client that records its writes.
    pub(crate) fn wrap(client: &Client, shared: &Arc<Shared>) -> Client {
        let service = Self { client: client.clone(), shared: shared.clone() };
        Client::new(service, client.default_namespace().to_owned())
    }
}

impl Service<Request<Body>> for Recorder {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // `Client::send` waits for it
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let client = self.client.clone();
        let target = is_write(request.method()).then(|| Target::of(request.uri())).flatten();
        let Some(target) = target else { return Box::pin(async move { Ok(client.send(request).await?) }) };
        let shared = self.shared.clone();
        Box::pin(async move { write(&client, &shared, target, request).await })
    }
}

async fn write(
    client: &Client,
    shared: &Shared,
    target: Target,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let method = head.method.clone();
    let target = target.bound_pod(&body);
    let is_recorded = !is_dry_run(&method, &head.uri, &target, &body);
    if method == Method::PUT {
        update::check(shared, &target, &body).await?;
    }
    let resource = storage_name(&target.group, &target.plural);
    let before = target.key().and_then(|key| cached(&shared.informers(&resource), &key));
    let response = client.send(Request::from_parts(head, Body::from(body))).await?;
    if !is_recorded || !response.status().is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let body = body.collect_bytes().await;
    let mut informers = shared.informers(&resource);
    let (mut written, mut passed) = (Vec::new(), Vec::new());
    // The fields of another version have other names.
    let has_state =
        !informers.is_empty() && informers.iter().all(|known| target.is_of(known.selection().api_resource()));
    for (key, mut write) in target.writes(&method, body.as_deref().ok()) {
        let is_of = |key: &ObjectKey| informers.iter().any(|informer| may_hold(informer, key));
        if !informers.is_empty() && !key.as_ref().is_none_or(is_of) {
            passed.push(write);
            continue;
        }
        if let (Write::Deleted { uid, .. }, Some(key)) = (&write, &key) {
            let uid = uid.clone();
            let known = [before.clone(), cached(&informers, key)].into_iter().flatten();
            write = known
                .filter(|(cached, _)| *cached == uid)
                .fold(write, |write, (_, at)| write.with_existed(&at));
        }
        if !has_state {
            write = write.without_state();
        }
        written.push((key, write));
    }
    shared.writes.record(&resource, written, &passed, shared.state_of(&resource, &mut informers));
    Ok(Response::from_parts(head, Body::from(body?)))
}

/// The UID and the version of an object in the cache.
fn cached(informers: &[Informer<()>], key: &ObjectKey) -> Option<(Arc<str>, ResourceVersion)> {
    informers.iter().find_map(|informer| {
        let snapshot = informer.snapshot().ok()?;
        let object = snapshot.get(key)?;
        Some((object.uid()?.into(), object.resource_version()))
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kinformer_apiserver::ApiServer;
    use kube_client::Api;
    use serde_json::json;

    use super::*;
    use crate::Cache;

    // contract: C-08s
    #[tokio::test]
    async fn writes_of_a_resource_without_an_informer_have_no_state() {
        let server = ApiServer::builder().start().await.unwrap();
        let client = kinformer::client(server.config().unwrap()).unwrap();
        let cache = Cache::builder(client).build().await.unwrap();
        let api = Api::<ConfigMap>::default_namespaced(cache.client());
        for (name, has_informer) in [("a", false), ("b", true)] {
            if has_informer {
                _ = cache.kind::<ConfigMap>().informer().unwrap();
            }
            let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            api.create(&Default::default(), &map).await.unwrap();
            let key = ObjectKey::new("default", name).unwrap();
            let pending = cache.shared.writes.pending(("configmaps", 0), Some(&key), |_| None).remove(0);
            assert_eq!(matches!(pending.write, Write::State(_)), has_informer, "{:?}", pending.write);
            assert!(has_informer || matches!(pending.write, Write::Version(_)), "{:?}", pending.write);
        }
        server.shutdown().await;
    }
}
