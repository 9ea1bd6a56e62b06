//! The client of a leader, which refuses writes when the leadership has ended.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use jiff::SignedDuration;
use kube_client::Client;
use kube_client::client::Body;
use tower::{BoxError, Service};

use crate::error::NotLeader;
use crate::term::Term;

/// Sends requests with another client. Writes are sent only while a leadership lasts.
pub(crate) struct LeaderClient {
    client: Client,
    term: Box<dyn Fn() -> Result<Arc<Term>, NotLeader> + Send>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

impl LeaderClient {
    /// Returns a client that checks the given leadership before each write.
    pub(crate) fn wrap(
        client: &Client,
        term: impl Fn() -> Result<Arc<Term>, NotLeader> + Send + 'static,
    ) -> Client {
        let service = Self { client: client.clone(), term: Box::new(term) };
        Client::new(service, client.default_namespace().to_owned())
    }
}

impl Term {
    /// Returns a client that sends writes only while the term lasts that the function returns: see
    /// [`Leadership::client`](crate::Leadership::client). The function is called for each write.
    pub fn client(client: &Client, current: impl Fn() -> Arc<Self> + Send + 'static) -> Client {
        LeaderClient::wrap(client, move || Ok(current()))
    }
}

impl Service<Request<Body>> for LeaderClient {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // `Client::send` waits for it
    }

    fn call(&mut self, mut request: Request<Body>) -> Answer {
        let client = self.client.clone();
        if !is_write(request.method()) {
            return Box::pin(async move { Ok(client.send(request).await?) });
        }
        let checked = (self.term)().and_then(|term| {
            // The token comes first, so that a release waits for this write or refuses it.
            let token = term.writes.token();
            let remaining = term.check()?;
            Ok((term, token, remaining))
        });
        let (term, token, remaining) = match checked {
            Ok(checked) => checked,
            Err(error) => return Box::pin(async { Err(error.into()) }),
        };
        let limit = set_timeout(request.uri_mut(), remaining);
        let sent = Sent { term: term.clone(), until: term.now() + limit, is_answered: false };
        Box::pin(async move {
            let _token = token;
            let mut sent = sent; // all of it, so that it is dropped with this future
            let mut over = pin!(term.over());
            // The clock is read at each poll: a process that was stopped must not go on with a request.
            let over = poll_fn(|context| match term.end_if_over() {
                true => Poll::Ready(()),
                false => over.as_mut().poll(context),
            });
            tokio::select! {
                biased;
                () = over => Err(term.reason().into()),
                answer = client.send(request) => {
                    let answer = answer?;
                    sent.is_answered = true;
                    Ok(answer)
                }
            }
        })
    }
}

/// A write that may take effect until its time limit, also without a response: it failed, or its future was dropped.
struct Sent {
    term: Arc<Term>,
    until: Duration,
    is_answered: bool,
}

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.is_answered {
            self.term.unanswered(self.until);
        }
    }
}

/// Whether a request may write: a method that is not known to only read is refused after the end of the leadership.
fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Asks the server to give up a request after the remaining time, unless the request asks for less. Returns the time limit.
fn set_timeout(uri: &mut Uri, remaining: Duration) -> Duration {
    let mut limit = remaining;
    let query = uri.query().unwrap_or_default();
    let others = query.split('&').filter(|pair| match form_urlencoded::parse(pair.as_bytes()).next() {
        Some((name, value)) if name == "timeout" => {
            limit = limit.min(duration(&value).unwrap_or(remaining));
            false
        }
        pair => pair.is_some(),
    });
    let others: Vec<&str> = others.collect();
    let timeout = format!("timeout={}ms", limit.as_millis().max(1));
    let query = others.into_iter().chain([&*timeout]).collect::<Vec<_>>().join("&");
    let mut parts = uri.clone().into_parts();
    if let Ok(path) = format!("{}?{query}", uri.path()).parse() {
        parts.path_and_query = Some(path);
        if let Ok(changed) = Uri::from_parts(parts) {
            *uri = changed;
        }
    }
    limit
}

/// Parses a duration like `1m30s`. `None` if it is invalid, or if only Go can read it.
fn duration(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}
