//! A request to reconcile a key.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::reason::{Cause, Reasons};

/// A request to reconcile a key. Dereferences to the key.
///
/// The object is read from an informer's store, where it may be missing: then it was deleted.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use kinformer::ObjectKey;
/// use kinformer_controller::{Action, ReconcileError, Request};
///
/// async fn reconcile(request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
///     match request.failures {
///         0..5 => Err(format!("{}: no answer", request.key.name()).into()),
///         _ => Ok(Action::requeue_after(Duration::from_secs(3_600))), // gives up for an hour
///     }
/// }
///
/// let mut request = Request::new("default/settings".parse::<ObjectKey>()?); // in a test
/// assert!(reconcile(request.clone()).await.is_err());
/// request.failures = 5;
/// assert!(reconcile(request).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ReconcileRequest")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request<Key> {
    /// The key.
    pub key: Key,
    /// The number of the reconciliation, which the log lines within it have. controller-runtime's `reconcileID`.
    #[doc(alias = "ReconcileIDFromContext")]
    pub id: ReconcileId,
    /// How often the reconciliation of the key has failed since it last succeeded.
    pub failures: u32,
    /// The priority with which the key was queued.
    pub priority: i64,
    /// Why the key is reconciled. The queue merges additions of one key, so there may be several reasons.
    pub reasons: Reasons,
    /// The newest event of an object other than the reconciled one that led to it.
    pub cause: Option<Cause>,
    /// How long the key was queued, without the delay before.
    pub queued: Duration,
}

impl<Key> Request<Key> {
    /// Creates a request without reasons, to call a reconciler in a test.
    #[doc(alias = "NewRequestForKey")]
    pub fn new(key: Key) -> Self {
        let (id, reasons) = (ReconcileId::next(), Reasons::default());
        Self { key, id, failures: 0, priority: 0, reasons, cause: None, queued: Duration::ZERO }
    }
}

impl<Key> Deref for Request<Key> {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.key
    }
}

/// The number of a reconciliation: a random number of the process, and a count. The text has 32 hexadecimal digits.
#[doc(alias = "ReconcileIDFromContext")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReconcileId(u64);

static LAST: AtomicU64 = AtomicU64::new(0);
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));

impl ReconcileId {
    pub(crate) fn next() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", *PROCESS, self.0)
    }
}

impl fmt::Debug for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
