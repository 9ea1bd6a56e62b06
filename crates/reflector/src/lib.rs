//! Keeps a sink equal to a source that can be listed and watched: the Reflector of Kubernetes' client-go.
//!
//! A [`ListerWatcher`] is the source: an API server, a database, a folder of files. A
//! [`Sink`](kinformer_core::Sink) is what is to follow it: a queue, a store. The [`Reflector`] lists the
//! source once and follows its changes from there; whatever fails in between, the sink ends up equal to the
//! source. There is no HTTP and nothing of Kubernetes' API in this crate.
//!
//! # How it works
//!
//! One future holds one state machine ([`ReflectorState`] draws it); nothing is spawned. A list replaces what
//! the sink holds; a watch brings the changes after the list's version, one by one, each moving that version.
//! A watch that ends is opened again where it ended. A sink without room is not pushed: the watch is not read
//! until there is room. Everything that goes wrong is counted ([`ReflectorMetrics`]), logged, and shown to the error
//! hook; [`ReflectorHandle`] looks at all of it from outside.
//!
//! # Trade-offs, and where it differs from client-go 1.37
//!
//! * Only what a watch cannot repair leads to a list: a version that is gone (410) or was never there, a
//!   corrupt object in the server's storage, a resource that is not found. All other failures of a watch, also
//!   those to start one, are answered by watching again at the last version, after a delay; the fifth in a
//!   row that brought nothing is answered by a list. client-go lists after any error but three.
//! * Delays cost freshness: the first is 0.8 to 1.6 seconds, and after a version has expired it is waited as
//!   well, because a thousand clients find that out at the same moment. For a source that is not a shared
//!   server, set a shorter [`Backoff`].
//! * A version at which a watch expired twice is not listed at again. A watch-list that does not end, a watch
//!   that is silent for too long, and a page that names itself as the next one are errors and not waited for.
//! * One bad object is reported and left out; the list or watch goes on. An event that may be about any object ends the
//!   watch, which is opened again before it. A list with an object whose key cannot be read deletes nothing and is
//!   repeated ([`ReflectorHandle::degraded`]); client-go fails the list.
//! * A version never moves back, except with a list that is asked for without one. A version below the one that was
//!   asked for proves that those of the source have begun again, and leads to such a list. A source that can say its
//!   newest version is asked for it after a watch that ended before its time and after 90 seconds of silence, since a
//!   kube-apiserver hides that proof. client-go 1.37 goes back with each event, and does not find a restored server.
//! * At most 10 lists and watches in any 10 seconds and 30 in any minute, however they end: see [`RequestLimit`].
//!
//! # Example
//!
//! A source of one's own: a list that is published as a whole. It keeps no history, so it says that its
//! version has expired whenever there is a new one, and is listed again.
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! use futures::{StreamExt, stream};
//! use kinformer_core::{KeyRef, Object};
//! use kinformer_reflector::{
//!     SourceError, Backoff, List, ListOptions, ListerWatcher, Reflector, ReflectorOptions, WatchOptions,
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
//! /// The hosts, and how often they have been published.
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

mod backoff;
mod consistency;
mod contained;
mod error;
mod event;
mod healing;
mod initial_list;
mod lister_watcher;
mod machine;
mod options;
mod pager;
mod probe;
mod probe_budget;
mod reflector;
mod request_limit;
mod state;
mod stream;
mod unreadable;
mod watch;

pub use backoff::Backoff;
pub use error::{ApiStatus, SourceError, StatusCause};
pub use event::{DecodeError, EventType, WatchEvent};
pub use lister_watcher::{
    Exchange, List, ListOptions, ListerWatcher, VersionMatch, WatchListSupport, WatchOptions, WatchStream,
};
pub use options::{Failure, Recovery, ReflectorOptions, WatchListMode};
pub use probe_budget::ProbeBudget;
pub use reflector::Reflector;
pub use request_limit::RequestLimit;
pub use state::{NextRequest, ReflectorHandle, ReflectorMetrics, ReflectorState, StopReason};
