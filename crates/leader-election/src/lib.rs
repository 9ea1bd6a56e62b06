//! Leader election by a Kubernetes Lease: of several processes, one is the leader at a time.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kinformer_leader_election::{LeaderElector, NotLeader};
//! use kube_client::{Api, Client, api::PostParams};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = kinformer_apiserver::ApiServer::builder().start().await?;
//! # let client = Client::try_from(server.config()?)?;
//! let elector = LeaderElector::builder(client.clone(), "default", "my-controller").build()?;
//! let leadership = elector.acquire().await;
//!
//! let config_maps: Api<ConfigMap> = Api::namespaced(leadership.client(&client), "default");
//! let mut config_map = ConfigMap::default();
//! config_map.metadata.name = Some("written-by-the-leader".to_owned());
//! config_maps.create(&PostParams::default(), &config_map).await?;
//!
//! leadership.release().await?;
//! let refused = config_maps.create(&PostParams::default(), &config_map).await.unwrap_err();
//! assert!(NotLeader::of(&refused).is_some());
//! # Ok(())
//! # }
//! ```
//!
//! [`LeaderElector`] waits for the leadership, and a [`Leadership`] renews it. [`LeaseHolder`] is the part below: one
//! attempt to acquire, renew or release a Lease, for loops of your own.
//!
//! # The promise
//!
//! A candidate acquires the Lease when it has seen it unchanged for the lease duration (15 s), or free. The leader ends
//! its leadership when the renew deadline (10 s) has passed since it *sent* the last renewal that succeeded. Both measure
//! with a clock that counts the time during which the computer is suspended, and that cannot be set. Wall clocks are
//! not used. So two processes are not leaders at the same time as long as their clocks run at about the same rate: with
//! the defaults, one of them may run 1.5 times as fast.
//!
//! This holds as long as only candidates write the Lease. If a person or another program deletes it, empties its holder or
//! shortens its duration while its leader is well, the next candidate acquires it at once, and the old leader goes on until its
//! next renewal, at most for the retry period and the time of a request.
//!
//! The leader's [client](Leadership::client) reads the clock for each write. It starts no write after the renew
//! deadline, and gives up a write in flight when the Lease has expired.
//!
//! # What a stopped process can still cause
//!
//! A process that is stopped (SIGSTOP, a suspended virtual machine, a debugger) between the check and the moment in
//! which the operating system sends the bytes, and that goes on after the Lease has expired, can still send this one
//! write. The same is true for bytes that the network delivers late. Each write in flight at the stop is at most one
//! such write; no further write is started. To exclude it, make writes conditional: an update with a `resourceVersion`
//! fails if the next leader has changed the object. Systems other than the API server can compare
//! [`Leadership::transitions`].
//!
//! # Differences from client-go 0.37
//!
//! * The renew deadline begins when the last successful renewal is sent. In client-go it begins up to a retry period
//!   after that renewal was answered.
//! * A leader whose Lease was deleted, released by somebody else, or written with its own identity by another process
//!   ends its leadership. client-go continues in all three cases.
//! * A Lease with this process's own identity that it has not written is held by another process. With a fixed identity,
//!   a restarted process waits for the lease duration. client-go takes it at once, so that two processes with one identity
//!   are both leaders.
//! * The client checks each write.
//! * Not built: coordinated leader election (`LeaseCandidate`), other locks than Leases, events.
//!
//! # Permissions
//!
//! `get`, `create` and `update` on `leases` in `coordination.k8s.io`.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod clock;
mod elector;
mod error;
mod leadership;
mod lease;
mod term;
mod timing;

pub use clock::{BootClock, Clock, TokioClock};
pub use elector::{LeaderElector, LeaderElectorBuilder, default_identity};
pub use error::{End, Error, NotLeader};
pub use leadership::Leadership;
pub use lease::{Attempt, Hold, LeaseHolder};
pub use term::Term;
pub use timing::Candidacy;
pub use {k8s_openapi, kube_client};
