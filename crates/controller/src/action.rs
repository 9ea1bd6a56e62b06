//! The result of a reconciliation.

use std::fmt;
use std::time::Duration;

use crate::write_error::{error_line, is_conflict};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What follows a reconciliation that succeeded.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_controller::Action;
///
/// /// A job outside of Kubernetes, which sends no events.
/// fn next(is_finished: bool) -> Action {
///     if is_finished { Action::none() } else { Action::requeue_after(Duration::from_secs(10)).priority(-1) }
/// }
///
/// assert_ne!(next(true), next(false));
/// ```
///
/// Follows controller-runtime 0.25 (`reconcile.Result`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    pub(crate) requeue_after: Option<Duration>,
    pub(crate) priority: Option<i64>,
}

impl Action {
    /// Waits for the next change.
    #[doc(alias("await_change", "IsZero"))]
    pub const fn none() -> Self {
        Self { requeue_after: None, priority: None }
    }

    /// Reconciles the key again after its backoff, as a failure does, but without an error: for a write that did not find the
    /// state that was read. It is `requeue_after(Duration::ZERO)`.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kinformer_controller::{Action, ReconcileError, WriteError, create_or_update};
    /// use kube_client::Api;
    ///
    /// async fn write(api: &Api<ConfigMap>, map: ConfigMap) -> Result<Action, ReconcileError> {
    ///     let written = create_or_update(api, map, |map| {
    ///         map.data.get_or_insert_default().insert("replicas".to_owned(), "3".to_owned());
    ///         Ok::<_, WriteError>(())
    ///     });
    ///     match written.await {
    ///         Err(conflict) if conflict.is_conflict() => Ok(Action::retry()), // another client was faster
    ///         written => written.map(|_| Action::none()).map_err(Into::into),
    ///     }
    /// }
    /// ```
    pub const fn retry() -> Self {
        Self::requeue_after(Duration::ZERO)
    }

    /// Reconciles the key again after a delay, or before if there is a change. Forgets the failures of the key.
    ///
    /// Zero, such as the rest of the time until a deadline that has passed, reconciles it after its backoff, as a failure does,
    /// but without an error. In controller-runtime 0.25, zero is no request.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kinformer_controller::Action;
    ///
    /// // Renews a certificate when a third of its time is left.
    /// let (valid_for, age) = (Duration::from_secs(90 * 86_400), Duration::from_secs(80 * 86_400));
    /// let renewal = Action::requeue_after((valid_for * 2 / 3).saturating_sub(age));
    /// assert_eq!(renewal, Action::retry(), "it is late");
    /// ```
    pub const fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay), priority: None }
    }

    /// Sets the priority with which the key is queued again. Without it, the key keeps the priority of the
    /// [`Request`](crate::Request). It has no effect on an action without another reconciliation.
    pub const fn priority(mut self, priority: i64) -> Self {
        self.priority = Some(priority);
        self
    }
}

/// The error of a reconciliation. Any error converts into it by `?`.
///
/// The key is reconciled again after its backoff, unless the error is [permanent](Self::permanent). The text is one line with the
/// error and its causes.
pub struct ReconcileError {
    source: BoxError,
    is_permanent: bool,
    pub(crate) priority: Option<i64>,
}

impl ReconcileError {
    /// An error that a retry does not mend, such as an invalid specification. The key is reconciled again when there is a
    /// change.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kinformer_controller::ReconcileError;
    ///
    /// fn replicas(map: &ConfigMap) -> Result<i32, ReconcileError> {
    ///     let text = map.data.as_ref().and_then(|data| data.get("replicas"));
    ///     let text = text.ok_or_else(|| ReconcileError::permanent("data.replicas is missing"))?;
    ///     text.parse().map_err(ReconcileError::permanent)
    /// }
    ///
    /// let error = replicas(&ConfigMap::default()).unwrap_err();
    /// assert!(error.is_permanent(), "it is reconciled again when the config map has changed");
    /// assert_eq!(error.to_string(), "data.replicas is missing");
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`reconcile.TerminalError`).
    #[doc(alias = "TerminalError")]
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self { source: error.into(), is_permanent: true, priority: None }
    }

    /// Adds what was being done: its text comes before that of the error. A [conflict](Self::is_conflict) stays one, and a permanent
    /// error stays permanent.
    ///
    /// ```
    /// use kinformer_controller::ReconcileError;
    ///
    /// fn read() -> Result<(), std::io::Error> {
    ///     Err(std::io::Error::other("no answer"))
    /// }
    ///
    /// # fn example() -> Result<(), ReconcileError> {
    /// read().map_err(|error| ReconcileError::from(error).context("reading the quota"))
    /// # }
    /// # assert_eq!(example().unwrap_err().to_string(), "reading the quota: no answer");
    /// ```
    #[must_use]
    pub fn context(self, what: impl Into<String>) -> Self {
        Self { source: Box::new(Context { what: what.into(), source: self.source }), ..self }
    }

    /// Sets the priority of the retry, as [`Action::priority`] does.
    #[must_use]
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Whether the key is not retried.
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    /// Whether a write did not find the state that was read: [`WriteError::is_conflict`](crate::WriteError::is_conflict), or a
    /// response of the API server with the code 409. The next reconciliation reads the newest state, so the error is logged at
    /// the level `debug` only.
    pub fn is_conflict(&self) -> bool {
        is_conflict(&*self.source)
    }

    /// Returns the error.
    pub fn into_inner(self) -> BoxError {
        self.source
    }
}

/// An error with what was being done.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Context {
    what: String,
    source: BoxError,
}

impl<E: Into<BoxError>> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self { source: error.into(), is_permanent: false, priority: None }
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_line(&*self.source))
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
