//! Why a key is reconciled.

use std::fmt;
use std::sync::Arc;

use kinformer::{Event, ObjectKey, PackedRef, Updated};
use tracing::Span;

/// A reason for a reconciliation.
#[doc(alias = "ReconcileReason")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The object was in the first list of its informer.
    Listed,
    /// The object was created.
    Added,
    /// The object has changed.
    Updated,
    /// The object was deleted.
    Deleted,
    /// A resync of the informer: nothing has changed.
    Resync,
    /// An event of an object that the reconciled one owns: [`owns`](crate::ControllerBuilder::owns).
    Owned,
    /// An event of an object that a function maps to the key: [`watches`](crate::ControllerBuilder::watches).
    Mapped,
    /// The key was sent by a channel or a stream.
    Stream,
    /// The last reconciliation has requested this one.
    Requested,
    /// The last reconciliation has failed.
    Failed,
}

impl Reason {
    const ALL: [Self; 10] = [
        Self::Listed,
        Self::Added,
        Self::Updated,
        Self::Deleted,
        Self::Resync,
        Self::Owned,
        Self::Mapped,
        Self::Stream,
        Self::Requested,
        Self::Failed,
    ];

    pub(crate) const fn mark(self) -> u32 {
        1 << self as u32
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
            Self::Owned => "owned",
            Self::Mapped => "mapped",
            Self::Stream => "stream",
            Self::Requested => "requested",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The reasons for a reconciliation: those of all additions of its key to the queue that led to it. There is none if the
/// program has added the key itself.
///
/// The text has their names, such as `updated, owned`.
///
/// ```
/// use kinformer::ObjectKey;
/// use kinformer_controller::{Action, ReconcileError, Reason, Request};
///
/// async fn reconcile(request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
///     if request.reasons.iter().eq([Reason::Resync]) {
///         return Ok(Action::none()); // the only reason: nothing has changed, and nothing has failed
///     }
///     println!("{}: {}, since {:?}", request.key, request.reasons, request.cause);
///     Ok(Action::none())
/// }
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reasons(u32);

impl Reasons {
    pub(crate) fn of_marks(marks: u32) -> Self {
        Self(marks)
    }

    /// Whether this reason is one of them.
    pub fn contains(self, reason: Reason) -> bool {
        self.0 & reason.mark() != 0
    }

    /// Returns the reasons.
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        Reason::ALL.into_iter().filter(move |reason| self.contains(*reason))
    }

    /// Whether there is none: the program has added the key itself.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(reason.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The event that led to a reconciliation: the newest one of the object of a trigger.
///
/// The text names it, such as `updated pods default/web-0`.
#[derive(Clone, Debug)]
pub struct Cause(Arc<OfEvent>); // small, since each key in the queue and each request has the place of one

#[derive(Debug)]
struct OfEvent {
    reason: Reason,
    resource: Arc<str>,
    key: Option<ObjectKey>,
    span: Span,
}

impl Cause {
    pub(crate) fn new<K>(event: &Event<PackedRef<'_, K>>, resource: &Arc<str>, span: Span) -> Self {
        let key = ObjectKey::try_from(event.key()).ok();
        Self(Arc::new(OfEvent { reason: reason_of(event), resource: resource.clone(), key, span }))
    }

    pub(crate) fn span(&self) -> &Span {
        &self.0.span
    }

    /// Returns what has happened to the object: one of the first five reasons.
    pub fn event(&self) -> Reason {
        self.0.reason
    }

    /// Returns the resource of the object, such as `deployments.apps`.
    pub fn resource(&self) -> &str {
        &self.0.resource
    }

    /// Returns the key of the object.
    pub fn key(&self) -> Option<&ObjectKey> {
        self.0.key.as_ref()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.reason, self.0.resource)?;
        self.0.key.iter().try_for_each(|key| write!(f, " {key}"))
    }
}

/// The reason that an event is for its own object.
pub(crate) fn reason_of<K>(event: &Event<PackedRef<'_, K>>) -> Reason {
    match event {
        Event::Added(added) if added.in_initial_list => Reason::Listed,
        Event::Added(_) => Reason::Added,
        Event::Updated(Updated { old, new, .. })
            if old.object().resource_version() == new.object().resource_version() =>
        {
            Reason::Resync
        }
        Event::Updated(_) => Reason::Updated,
        // An object that left the scope enqueues nothing.
        Event::Deleted(_) | Event::Left(_) => Reason::Deleted,
    }
}

impl Reason {
    /// Whether the event is part of the initial list or of a resync.
    pub(crate) fn is_old(self) -> bool {
        matches!(self, Self::Listed | Self::Resync)
    }
}
