//! Keeps a sink equal to a source that can be listed and watched: the Reflector of Kubernetes' client-go.
//!
//! The source is a [`ListerWatcher`]: an API server, a database, a folder of files. The sink is a [`Sink`]: a queue or a
//! store. The [`Reflector`] lists the source once and applies its later changes to the sink. Whatever fails in between, the
//! sink ends up equal to the source. This crate contains no HTTP and nothing of the Kubernetes API.
//!
//! # How it works
//!
//! One future runs one state machine (drawn in [`ReflectorState`]); nothing is spawned. A list replaces the contents of
//! the sink. A watch delivers the changes after the list's version one by one, and each advances the last version. A
//! watch that ends is reopened at the last version. While the sink has no room, the watch is not read. Every failure is
//! counted ([`ReflectorMetrics`]), logged, and passed to the error hook. A [`ReflectorHandle`] observes the reflector.
//!
//! # Words
//!
//! * *Synced*: the sink has applied its first list. client-go's `HasSynced`.
//! * *Relist*: each list or watch-list after the first. It replaces the contents of the sink.
//! * *Resync*: the sink delivers all its objects to the handlers again. The source receives no request.
//! * *Progress*: a watch makes progress if it moves the last version.
//! * *Undecodable*: an object whose key is known, but which cannot be decoded. It is left out, and requested once more.
//! * *Unidentified*: an object whose key is unknown, or an event without a known key or type. It may be any object.
//! * *Incomplete list*: a list with an unidentified object. It deletes nothing, and is repeated until a list is complete.
//!
//! # Trade-offs and differences from client-go 0.37
//!
//! * The reflector relists only after failures that a watch cannot repair: an expired version (410) or one that the server
//!   never had, a corrupt object in its storage, a resource that is not found or [not
//!   watchable](ReflectorHandle::not_watchable), any failure if the last event did not move the last version, and the fifth
//!   watch in a row without progress. Otherwise it watches again after a delay. client-go relists after all errors but three.
//! * Delays cost freshness. The first is 0.8 to 1.6 seconds. It also applies to an expired version, because a thousand
//!   clients find the version expired at the same moment. For a source that is not a shared server, set a shorter
//!   [`Backoff`].
//! * A version at which a watch expired twice is not requested from a list again. A watch-list without an end, a watch
//!   that is silent for too long, and a page that names itself as the next one are errors, not endless waits.
//! * One bad object is reported and left out; the list or watch continues. An event that may concern any object ends
//!   the watch, and the next watch starts before that event. A list with an object whose key cannot be read is
//!   incomplete: it deletes nothing and is repeated ([`ReflectorHandle::incomplete_list`]); client-go fails the list.
//! * Only a list requested without a version moves the last version back. A lower version triggers such a list; a sign that
//!   was wrong twice is [ignored](ReflectorHandle::ignores_versions). The newest version is requested, if the source can
//!   report it, after a watch that ended early and after 90 s of silence. client-go 0.37 detects no restored server.
//! * At most 10 lists and watches start in any 10 seconds and 30 in any minute, however they end: see [`RequestLimit`].
//!
//! # Example
//!
//! A custom source that publishes its complete list with every change. It keeps no history, so each new version expires
//! the watch, and the reflector relists.
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! use futures::{StreamExt, stream};
//! use kinformer_core::{KeyRef, Object};
//! use kinformer_reflector::{
//!     Backoff, List, ListOptions, ListerWatcher, Reflector, ReflectorOptions, SourceError, WatchOptions,
//!     WatchStream,
//! };
//! use tokio::sync::watch;
//!
//! struct Host(String);
//!
//! impl Object for Host {
//!     fn key(&self) -> KeyRef<'_> {
//!         KeyRef::named(&self.0)
//!     }
//! }
//!
//! /// The hosts and the number of their publications.
//! struct Hosts(watch::Receiver<(u64, Vec<Arc<Host>>)>);
//!
//! #[async_trait::async_trait]
//! impl ListerWatcher<Host> for Hosts {
//!     async fn list(&self, _: ListOptions<Host>) -> Result<List<Host>, SourceError> {
//!         let (version, hosts) = &*self.0.borrow();
//!         Ok(List::new(hosts.iter().cloned(), *version))
//!     }
//!
//!     async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Host>, SourceError> {
//!         let mut hosts = self.0.clone();
//!         let changed = async move {
//!             let newer = hosts.wait_for(|(version, _)| options.resource_version != (*version).into()).await;
//!             Err(newer.map_or_else(SourceError::other, |_| SourceError::expired("there are newer hosts")))
//!         };
//!         Ok(stream::once(changed).boxed())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let (publish, hosts) = watch::channel((1, vec![Arc::new(Host("a".into()))]));
//! let sink = Arc::new(kinformer_testing::RecordingSink::new());
//! let quick = Backoff::exponential(Duration::from_millis(10), Duration::from_secs(1));
//! let options = ReflectorOptions::new().backoff(quick);
//! let reflector = Reflector::with_options("hosts", Hosts(hosts), sink.clone(), options);
//! let handle = reflector.handle();
//! let running = tokio::spawn(reflector.run(Default::default()));
//!
//! handle.wait_for_sync().await.unwrap();
//! assert_eq!(sink.keys(), ["a"]);
//! publish.send_replace((2, vec![Arc::new(Host("b".into()))]));
//! sink.wait_until(|objects| objects.keys().any(|key| key.name() == "b")).await;
//! assert_eq!(sink.keys(), ["b"]);
//! # running.abort();
//! # }
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod backoff;
mod contained;
mod error;
mod history;
mod initial_list;
mod machine;
mod options;
mod pager;
mod pages;
mod ports;
mod probe;
mod probe_budget;
mod reflector;
mod request_limit;
mod source;
mod spans;
mod state;
mod stream;
mod unidentified;

// What users of this crate need of other crates.
#[doc(no_inline)]
pub use kinformer_core::{
    BoxError, DecodeError, EventType, KeyRef, Keyed, Object, ObjectKey, ResourceVersion, Sink, Wait,
    WatchEvent,
};
#[doc(no_inline)]
pub use tokio_util::sync::CancellationToken;

pub use backoff::Backoff;
pub use error::{ApiStatus, SourceError, StatusCause};
pub use options::{Failure, Recovery, ReflectorOptions, WatchListMode};
pub use pager::Pager;
pub use ports::RetryWatcher;
pub use probe_budget::ProbeBudget;
pub use reflector::Reflector;
pub use request_limit::RequestLimit;
pub use source::{
    Exchange, List, ListOptions, ListerWatcher, VersionMatch, WatchListSupport, WatchOptions, WatchStream,
};
pub use state::{NextRequest, ReflectorHandle, ReflectorMetrics, ReflectorState, StopReason};
