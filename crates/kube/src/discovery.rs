//! Discovery on a busy server.

use std::time::Duration;

use http::{Request, Response};
use kube_client::client::Body;
use kube_client::{Client, Error};

use crate::answer::retry_after;
use crate::client::copy;

/// The maximum number of repetitions, as in client-go.
const REPETITIONS: usize = 10;
/// The longest `Retry-After` that is waited for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Returns a client for discovery, and for other requests that nothing else repeats. It repeats a request that a busy
/// server refused: a 429, or a 5xx, with a `Retry-After` of at most 30 s is answered by the same request after that time,
/// up to ten times. Then the caller receives the response.
///
/// Informers need no such client, since they wait by themselves. Follows client-go 0.37 (`rest.Request`), which repeats
/// all requests, after any time.
///
/// ```
/// # async fn example(client: kube_client::Client) -> kube_client::Result<()> {
/// let groups = kinformer_kube::discovery_client(&client).list_api_groups().await?;
/// # _ = groups;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// Panics outside a tokio runtime, as kube-client does.
pub fn discovery_client(client: &Client) -> Client {
    let inner = client.clone();
    let service = tower::service_fn(move |request| repeat(inner.clone(), request));
    Client::new(service, client.default_namespace())
}

async fn repeat(client: Client, mut request: Request<Body>) -> Result<Response<Body>, Error> {
    for _ in 0..REPETITIONS {
        let again = copy(&request);
        let answer = client.send(request).await?;
        let (Some(again), Some(delay)) = (again, delay(&answer)) else { return Ok(answer) };
        tracing::debug!(status = answer.status().as_u16(), ?delay, "the server is busy; repeating a request");
        drop(answer);
        tokio::time::sleep(delay).await;
        request = again;
    }
    client.send(request).await
}

/// Returns the time after which a busy server expects the same request.
fn delay(answer: &Response<Body>) -> Option<Duration> {
    let busy = answer.status().as_u16() == 429 || answer.status().is_server_error();
    retry_after(answer.headers()).filter(|delay| busy && *delay <= MAX_RETRY_AFTER)
}
