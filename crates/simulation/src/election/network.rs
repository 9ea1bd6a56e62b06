//! Requests between the runtimes of the processes and that of the server.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tower::Service as _;

use super::host::Host;
use crate::server::Server;

/// The requests that have not reached the server. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Network {
    requests: Arc<Mutex<VecDeque<Message>>>,
}

struct Message {
    request: Request<Body>,
    /// When the request was sent, in the time of the world.
    sent: Duration,
    response: oneshot::Sender<io::Result<Response<Body>>>,
}

impl Network {
    /// Sends a request. The response arrives after any time, or never.
    pub(crate) fn send(
        &self,
        request: Request<Body>,
        sent: Duration,
    ) -> BoxFuture<'static, io::Result<Response<Body>>> {
        let (response, received) = oneshot::channel();
        self.requests.lock().push_back(Message { request, sent, response });
        Box::pin(async move { received.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into())) })
    }

    /// Delivers all requests to the server. From then on they are independent of their clients.
    pub(crate) fn deliver(&self, now: Duration, host: &Host, server: &Server) {
        loop {
            let next = self.requests.lock().pop_front();
            let Some(Message { request, sent, response }) = next else { return };
            let Some(request) = with_less_time(request, now.saturating_sub(sent)) else { continue };
            let mut server = server.clone();
            host.spawn(async move {
                let answer = async {
                    let (parts, body) = server.call(request).await?.into_parts();
                    let body = body.collect().await?.to_bytes();
                    Ok(Response::from_parts(parts, Body::from(body.to_vec())))
                };
                // The client may have given up.
                _ = response.send(answer.await);
            });
        }
    }

    /// Returns a client whose requests a function sends.
    pub(crate) fn client(
        send: impl Fn(Request<Body>) -> BoxFuture<'static, io::Result<Response<Body>>> + Send + 'static,
    ) -> Client {
        Client::new(tower::service_fn(send), "default")
    }
}

/// Shortens the time limit of a request by the time that it was on its way. The promise of the library does not cover
/// requests that the network delivers late. Returns `None` if there is no time left.
pub(crate) fn with_less_time(mut request: Request<Body>, time: Duration) -> Option<Request<Body>> {
    let uri = request.uri().to_string();
    let Some((start, limit)) = uri.split_once("timeout=") else { return Some(request) };
    let (limit, end) = limit.split_once("ms")?;
    let left = Duration::from_millis(limit.parse().ok()?).checked_sub(time)?;
    *request.uri_mut() = format!("{start}timeout={}ms{end}", left.as_millis()).parse().ok()?;
    Some(request)
}
