//! Requests and responses between the runtimes of the processes and that of the server.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kube_client::client::Body;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tower::Service as _;

use crate::election::host::Host;
use crate::election::network::with_less_time;
use crate::server::{AnswerBody, Server};

/// How a process and the server are connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Link {
    #[default]
    Up,
    /// Connections break, and no other one is established.
    Refused,
    /// Nothing arrives, in either direction.
    Silent,
    /// Requests arrive, responses do not.
    Deaf,
}

/// The connection of a process with the server.
#[derive(Default)]
pub(crate) struct Line {
    /// How it is, and how many times all connections have broken.
    state: Mutex<(Link, u64)>,
    changed: Notify,
}

impl Line {
    /// Changes how it is. Connections break at once if it is refused, and otherwise when it is up again.
    pub(crate) fn set(&self, link: Link) {
        {
            let mut state = self.state.lock();
            state.1 += u64::from(matches!(link, Link::Up | Link::Refused));
            state.0 = link;
        }
        self.changed.notify_waiters();
    }

    fn state(&self) -> (Link, u64) {
        *self.state.lock()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state().0 == Link::Up
    }

    /// Waits until responses pass. Returns `false` if the connection is broken.
    async fn passes(&self, breaks: u64) -> bool {
        loop {
            let changed = self.changed.notified();
            match self.state() {
                (_, now) if now != breaks => return false,
                (Link::Up, _) => return true,
                _ => changed.await,
            }
        }
    }

    /// Waits until something has changed since a state.
    async fn changed_since(&self, state: (Link, u64)) {
        loop {
            let changed = self.changed.notified();
            if self.state() != state {
                return;
            }
            changed.await;
        }
    }
}

type Answered = Response<StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>>;

struct Message {
    line: Arc<Line>,
    request: Request<Body>,
    /// When it was sent, in the time of the world.
    sent: Duration,
    response: oneshot::Sender<io::Result<Answered>>,
}

/// The requests that have not reached the server. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<VecDeque<Message>>>);

impl Network {
    /// Sends a request.
    pub(crate) fn send(
        &self,
        line: &Arc<Line>,
        request: Request<Body>,
        sent: Duration,
    ) -> BoxFuture<'static, io::Result<Answered>> {
        if line.state().0 == Link::Refused {
            return Box::pin(std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())));
        }
        let (response, received) = oneshot::channel();
        self.0.lock().push_back(Message { line: line.clone(), request, sent, response });
        Box::pin(async move { received.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into())) })
    }

    /// Delivers all requests to the servers: those of Leases to the first one. From then on they are independent of their clients.
    pub(crate) fn deliver(&self, now: Duration, host: &Host, servers: &[Server; 2]) {
        let messages = std::mem::take(&mut *self.0.lock());
        for Message { line, request, sent, response } in messages {
            let Some(request) = with_less_time(request, now.saturating_sub(sent)) else { continue };
            let [of_leases, of_objects] = servers;
            let server = if request.uri().path().contains("/leases") { of_leases } else { of_objects };
            host.spawn(answer(line, server.clone(), request, response));
        }
    }
}

/// Answers a request, and sends the parts of the response as long as it is received.
async fn answer(
    line: Arc<Line>,
    mut server: Server,
    request: Request<Body>,
    response: oneshot::Sender<io::Result<Answered>>,
) {
    let (link, breaks) = line.state();
    if link == Link::Silent && !line.passes(breaks).await {
        return;
    }
    let answered = server.call(request).await;
    if !line.passes(breaks).await {
        return;
    }
    match answered {
        Ok(answered) => {
            let (parts, body) = answered.into_parts();
            let (sender, receiver) = mpsc::channel(1_024);
            let frames = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<_>| {
                Some((receiver.recv().await?, receiver))
            });
            // The client may have given up.
            _ = response.send(Ok(Response::from_parts(parts, StreamBody::new(frames.boxed()))));
            forward(&line, breaks, body, &sender).await;
        }
        Err(error) => _ = response.send(Err(error)),
    }
}

async fn forward(
    line: &Line,
    breaks: u64,
    mut body: AnswerBody,
    sender: &mpsc::Sender<io::Result<Frame<Bytes>>>,
) {
    while line.passes(breaks).await {
        let state = (Link::Up, breaks);
        tokio::select! {
            biased;
            () = line.changed_since(state) => {}
            () = sender.closed() => return,
            frame = body.frame() => match frame {
                Some(frame) => _ = sender.send(frame).await,
                None => return,
            },
        }
    }
    _ = sender.send(Err(io::ErrorKind::ConnectionReset.into())).await;
}
