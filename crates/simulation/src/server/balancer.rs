//! Several servers behind one address.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use fastrand::Rng;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube_client::client::Body;
use parking_lot::Mutex;
use tower::Service;

use super::body::AnswerBody;
use super::service::Server;

/// The server of the next requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// A random one for each request.
    #[default]
    Random,
    /// The server with this index; the connection is refused if there is none.
    To(usize),
}

/// A load balancer before the servers of a cluster: a `tower::Service` as each of them. Clones are handles.
///
/// With [`Lag`](super::Lag), the servers are at different versions, so that a client goes back in time when its requests
/// reach another server.
#[derive(Clone, Debug)]
pub struct Balancer {
    servers: Arc<[Server]>,
    state: Arc<Mutex<(Rng, Route)>>,
}

impl Balancer {
    /// Creates a balancer that selects a random server for each request.
    pub fn new(servers: impl IntoIterator<Item = Server>, seed: u64) -> Self {
        let state = Mutex::new((Rng::with_seed(seed), Route::default()));
        Self { servers: servers.into_iter().collect(), state: Arc::new(state) }
    }

    /// Sets the server of the next requests.
    pub fn route(&self, route: Route) {
        self.state.lock().1 = route;
    }

    fn select(&self) -> Option<Server> {
        let (rng, route) = &mut *self.state.lock();
        let index = match route {
            Route::Random if self.servers.is_empty() => return None,
            Route::Random => rng.usize(..self.servers.len()),
            Route::To(index) => *index,
        };
        self.servers.get(index).cloned()
    }
}

impl Service<Request<Body>> for Balancer {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.select() {
            Some(mut server) => server.call(request),
            None => Box::pin(std::future::ready(Err(io::ErrorKind::ConnectionRefused.into()))),
        }
    }
}
