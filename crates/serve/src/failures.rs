//! Objects that the informers received and could not store.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kinformer::{CoreError, Failure, ObjectKey, ResourceVersion, SourceError};
use kinformer_core::internal::with_causes;
use parking_lot::Mutex;

/// The most objects.
const MOST: usize = 10_000;

/// The objects that informers received and could not decode or store, for the answer why an object is missing. Cheap to
/// clone: all clones are one log.
///
/// An informer reports such an object to the error hook of its factory and continues without it, so the hook has to pass it
/// on:
///
/// ```
/// # fn example(client: kinformer::kube_client::Client) {
/// use kinformer::SharedInformerFactory;
/// use kinformer_serve::{FailureLog, Server};
///
/// let failures = FailureLog::new();
/// let log = failures.clone();
/// let factory = SharedInformerFactory::builder(client).on_error(move |failure| log.record(failure)).build();
/// let server = Server::builder().informer(&factory.core().v1().pods()).failures(failures);
/// # _ = server;
/// # }
/// ```
///
/// Without it, a server knows only the last error of each informer.
#[derive(Clone, Default)]
pub struct FailureLog(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    by_object: HashMap<(String, ObjectKey), Undelivered>,
    order: VecDeque<(String, ObjectKey)>,
    /// By reflector: the time of its last error.
    last: HashMap<String, Timestamp>,
}

/// The last failure of an object.
#[derive(Clone, Debug)]
pub(crate) struct Undelivered {
    pub(crate) message: String,
    pub(crate) version: ResourceVersion,
    pub(crate) time: Timestamp,
}

impl FailureLog {
    /// Creates an empty log. It keeps the last failure of at most 10,000 objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a failure that concerns one object, and the time of any other. Never blocks.
    pub fn record(&self, failure: &Failure<'_>) {
        let now = Timestamp::now();
        let undelivered = undelivered(failure.error);
        let mut inner = self.0.lock();
        if inner.last.len() < MOST || inner.last.contains_key(failure.reflector) {
            inner.last.insert(failure.reflector.to_owned(), now);
        }
        let Some((key, undelivered)) = undelivered else { return };
        let place = (failure.reflector.to_owned(), key);
        if inner.by_object.insert(place.clone(), undelivered).is_none() {
            inner.order.push_back(place);
        }
        while inner.order.len() > MOST {
            if let Some(oldest) = inner.order.pop_front() {
                inner.by_object.remove(&oldest);
            }
        }
    }

    /// The time of the last error of a reflector.
    pub(crate) fn last_at(&self, reflector: &str) -> Option<Timestamp> {
        self.0.lock().last.get(reflector).copied()
    }

    pub(crate) fn of(&self, reflector: &str, key: &ObjectKey) -> Option<Undelivered> {
        self.0.lock().by_object.get(&(reflector.to_owned(), key.clone())).cloned()
    }
}

impl fmt::Debug for FailureLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureLog").field("objects", &self.0.lock().by_object.len()).finish()
    }
}

/// The object of an error, and what happened to it; `None` for other errors.
pub(crate) fn undelivered(error: &SourceError) -> Option<(ObjectKey, Undelivered)> {
    let (key, version) = match error {
        SourceError::Undecodable(error) => (error.key.clone()?, error.resource_version.clone()),
        SourceError::Sink {
            source:
                source @ (CoreError::Transform { .. } | CoreError::Accessor { .. } | CoreError::OtherPart { .. }),
            ..
        } => (source.object()?.key()?, ResourceVersion::UNSET),
        _ => return None,
    };
    Some((key, Undelivered { message: with_causes(error), version, time: Timestamp::now() }))
}
