//! The points of a write at which an object is converted.

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::status::Status;

type Object = Map<String, Value>;

/// A point, by what its outcome depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    /// The `apiVersion` that is needed.
    to: String,
    /// UID and version of the object; empty for a new one.
    state: [String; 2],
}

impl Point {
    fn of(object: &Object, to: &str) -> Self {
        let metadata = object.get("metadata");
        let text = |field: &str| {
            metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("").to_owned()
        };
        let version = text("resourceVersion");
        // what is made up for a new object differs between attempts
        let state = if version.is_empty() { Default::default() } else { [text("uid"), version] };
        Self { to: to.to_owned(), state }
    }
}

/// A conversion for which a write waits.
#[derive(Debug)]
pub(crate) struct Pending {
    point: Point,
    pub(crate) object: Object,
}

impl Pending {
    /// Returns the `apiVersion` that is needed.
    pub(crate) fn to(&self) -> &str {
        &self.point.to
    }
}

#[derive(Debug, Default)]
struct State {
    steps: Vec<(Point, Result<Object, Status>)>,
    /// The step that the present attempt reaches next.
    next: usize,
    pending: Option<Pending>,
}

/// The conversions of a write of a client.
#[derive(Debug, Default)]
pub(crate) struct Conversions(Mutex<State>);

impl Conversions {
    /// Returns an object in another version.
    ///
    /// # Errors
    /// That of the webhook. Any error if it is to be called first.
    pub(crate) fn convert(&self, object: Object, to: &str) -> Result<Object, Status> {
        let point = Point::of(&object, to);
        let mut state = self.0.lock();
        let next = state.next;
        if let Some((_, outcome)) = state.steps.get(next).filter(|(seen, _)| *seen == point) {
            let outcome = outcome.clone();
            state.next += 1;
            return outcome;
        }
        // The object was written meanwhile, or the webhook was not called yet.
        state.steps.truncate(next);
        state.pending = Some(Pending { point, object });
        Err(Status::internal("a webhook has to be called first"))
    }

    /// Begins an attempt.
    pub(crate) fn rewind(&self) {
        let mut state = self.0.lock();
        (state.next, state.pending) = (0, None);
    }

    /// Returns the conversion that the last attempt needs; `None` if it needs none.
    pub(crate) fn take_pending(&self) -> Option<Pending> {
        self.0.lock().pending.take()
    }

    pub(crate) fn answered(&self, pending: Pending, outcome: Result<Object, Status>) {
        self.0.lock().steps.push((pending.point, outcome));
    }

    /// Begins with another object of the same request.
    pub(crate) fn next_object(&self) {
        self.0.lock().steps.clear();
        self.rewind();
    }
}
