//! The servers of a reference reflector, beside those of a world: copies with the same history, lag and outages.
//!
//! A fault meets one request, so the two would meet different ones on the same server. Instead, each fault that a request
//! of the informer meets is planned for the next request of the reference, whose connection breaks for it. The reference
//! then has the server of that request, so that the two do not see different watch caches either.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use http::{Request, Response};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use tokio::time::sleep;
use tower::Service as _;

use crate::server::{AnswerBody, Fault, Seen, Server, Stop, Verb};
use crate::trace::Recorder;

/// The requests that the reference follows. An informer sends one of the two.
const PATHS: [&str; 2] = ["/api/v1/configmaps", "/api/v1/namespaces/a/configmaps"];

/// How long a list waits for an answer, with the delay after it.
const SILENCE: Duration = Duration::from_secs(45);

/// The servers of a reference. Clones are handles.
#[derive(Clone)]
pub(crate) struct Beside {
    servers: Arc<[Server]>,
    stale: Option<Server>,
    next: Arc<Mutex<Next>>,
}

/// What the next request of the reference meets.
#[derive(Debug, Default)]
struct Next {
    server: usize,
    faults: VecDeque<(Verb, Fault)>,
    /// How long the faults of the informer may have taken.
    taken: Duration,
    /// Whether the last watch of the informer became silent.
    is_silent: bool,
}

impl Next {
    /// Takes the server and the fault of a request. A fault of a watch waits for a watch: a silent one lasts longer than
    /// any list.
    fn take(&mut self, is_watch: bool) -> (usize, Option<Fault>) {
        let fits = |(verb, _): &(Verb, Fault)| is_watch || *verb != Verb::Watch;
        let fault = self.faults.iter().position(fits).and_then(|index| self.faults.remove(index));
        (self.server, fault.map(|(_, fault)| fault))
    }
}

impl Beside {
    /// Copies servers. `stale` answers lists instead of them, if there is one.
    pub(super) fn new(servers: &[Server], stale: Option<Server>, recorder: &Recorder, rng: &mut Rng) -> Self {
        let copy = |(number, server): (usize, &Server)| {
            let (copy, recorder) = (server.copy(rng.u64(..)), recorder.clone());
            copy.observe(move |line| recorder.note(&format!("reference {number}"), line));
            copy
        };
        let servers = servers.iter().enumerate().map(copy).collect();
        Self { servers, stale, next: Arc::default() }
    }

    /// The copies, in the order of the servers.
    pub(super) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Whether the servers have watch-lists. A reference without them does not meet a fault by a watch that is refused.
    pub(crate) fn has_watch_lists(&self) -> bool {
        self.servers.iter().all(Server::has_watch_lists)
    }

    /// How long the faults of the informer may have taken. The reference does not lose this time if it has the newest
    /// objects already when it meets them.
    pub(crate) fn taken(&self) -> Duration {
        self.next.lock().taken
    }

    /// Whether the last watch of the informer became silent after some bytes. No client can see the difference to a resource
    /// that does not change, so it lasts until the end of the watch. The silent watch of the reference may have received
    /// everything before.
    pub(crate) fn is_silent(&self) -> bool {
        self.next.lock().is_silent
    }

    /// Drops the faults that the reference has not met.
    pub(super) fn drop_faults(&self) {
        self.next.lock().faults.clear();
    }

    /// Returns the mark of a request of the informer.
    pub(super) fn mark(&self, path: &str, servers: &Arc<[Server]>) -> Option<Seen> {
        if !PATHS.contains(&path) {
            return None;
        }
        let (beside, servers) = (self.clone(), servers.clone());
        Some(Seen::new(move |server, verb, fault| {
            let number = servers.iter().position(|other| other.is(server)).unwrap_or_default();
            beside.follow(number, verb, fault);
        }))
    }

    /// A request of the informer has reached a server, and has perhaps met a fault.
    fn follow(&self, number: usize, verb: Verb, fault: Option<Fault>) {
        let mut next = self.next.lock();
        let is_other = std::mem::replace(&mut next.server, number) != number;
        next.faults.extend(fault.map(|fault| (verb, fault)));
        if verb == Verb::Watch {
            next.is_silent = matches!(fault, Some(Fault::Stop { stop: Stop::Silent, .. }));
        }
        let is_silent = next.is_silent;
        next.taken += fault.filter(|_| !is_silent).map_or(Duration::ZERO, time);
        drop(next);
        if is_other || fault.is_some() {
            self.servers.iter().for_each(Server::break_watches);
        }
    }

    /// Returns the client of the reference.
    pub(crate) fn client(&self, rng: Rng) -> Client {
        let (beside, latency) = (self.clone(), Arc::new(Mutex::new(rng)));
        let service = tower::service_fn(move |request: Request<Body>| {
            let time = Duration::from_micros(latency.lock().u64(..20_000));
            let beside = beside.clone();
            async move {
                sleep(time).await;
                beside.call(request).await
            }
        });
        Client::new(service, "default")
    }

    async fn call(&self, request: Request<Body>) -> io::Result<Response<AnswerBody>> {
        let query = request.uri().query().unwrap_or_default();
        let is_list = query.contains("resourceVersion=") && !query.contains("watch=");
        if let Some(mut stale) = self.stale.clone().filter(|_| is_list) {
            return stale.call(request).await;
        }
        let (number, fault) = self.next.lock().take(query.contains("watch="));
        let Some(mut server) = self.servers.get(number).cloned() else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        if let Some(fault) = fault {
            server.plan(None, fault);
        }
        server.call(request).await
    }
}

/// How long a fault may take, apart from the delay of a backoff.
fn time(fault: Fault) -> Duration {
    match fault {
        // The informer lengthens it at random.
        Fault::Busy { seconds, .. } | Fault::Status { retry_after: Some(seconds), .. } => {
            Duration::from_secs(seconds.into()).mul_f64(1.5)
        }
        Fault::Delay(delay) => delay,
        Fault::NoAnswer | Fault::Unreachable | Fault::Stop { stop: Stop::Silent, .. } => SILENCE,
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_of_a_watch_waits_for_a_watch() {
        let mut next = Next::default();
        next.faults.extend([(Verb::Watch, Fault::NoAnswer), (Verb::List, Fault::Refused)]);
        assert_eq!(next.take(false), (0, Some(Fault::Refused)));
        assert_eq!(next.take(false), (0, None));
        assert_eq!(next.take(true), (0, Some(Fault::NoAnswer)));
        assert_eq!(next.take(true), (0, None));
    }
}
