//! The context of every request.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::access::AccessControl;
use crate::admission::{Services, Webhooks};
use crate::api::Api;
use crate::faults::Faults;
use crate::metrics::Counters;
use crate::registry::Resource;
use crate::requests::RequestLog;

use super::negotiate::{Offers, ProtobufAnswers};
use super::web_pages::Hosts;

/// The name of the header that injects faults.
pub(super) const FAULT_HEADER: &str = "x-kinformer-fault";

/// Whether requests may inject faults with the header `X-Kinformer-Fault`.
///
/// Its value is a comma-separated list of `refuse`, `delay=MILLISECONDS`, `truncate`, `expired`, `forbidden`,
/// `conflict`, `expired-event`, `too-many-requests=SECONDS`, `internal-error`, `stall`, `malformed`, `missing-bookmark`,
/// `duplicate-event` and `future-versions`. Each injects the [`Fault`](crate::Fault) of that name once, for this
/// request. Unknown values are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultHeader {
    /// The header is ignored.
    #[default]
    Ignored,
    /// The header injects faults: `X-Kinformer-Fault: truncate` truncates the response to this request.
    Honoured,
}

/// Whether lists and watches honour the parameter `shardSelector`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardSelectors {
    /// It is ignored: answers have the objects of all shards.
    #[default]
    Ignored,
    /// Answers have the objects of the selected ranges only.
    Honoured,
}

/// How requests are answered.
pub(crate) struct Options {
    pub(crate) fault_header: FaultHeader,
    pub(crate) shards: ShardSelectors,
    pub(crate) bookmark_interval: Duration,
    pub(crate) protobuf: ProtobufAnswers,
    /// The minor version of Kubernetes.
    pub(crate) kubernetes: u32,
    pub(crate) services: Services,
}

/// The context of every request.
pub(crate) struct Context {
    pub(crate) api: Api,
    pub(crate) faults: Faults,
    pub(crate) counters: Arc<Counters>,
    pub(crate) access: AccessControl,
    pub(super) webhooks: Webhooks,
    pub(super) services: Services,
    pub(super) hosts: Hosts,
    pub(crate) log: RequestLog,
    pub(crate) fault_header: FaultHeader,
    pub(crate) bookmark_interval: Duration,
    pub(super) shards: ShardSelectors,
    protobuf: ProtobufAnswers,
    /// The minor version of Kubernetes.
    pub(super) kubernetes: u32,
    /// Cancelled when the server shuts down.
    pub(crate) shutdown: CancellationToken,
    /// Cancelled and replaced when all watches are dropped.
    watches: Mutex<CancellationToken>,
    /// Cancelled and replaced when all connections are dropped.
    connections: Mutex<CancellationToken>,
}

impl Context {
    pub(crate) fn new(
        api: Api,
        access: AccessControl,
        hosts: Hosts,
        log: RequestLog,
        options: Options,
    ) -> Self {
        let Options { fault_header, shards, bookmark_interval, protobuf, kubernetes, services } = options;
        let shutdown = CancellationToken::new();
        Self {
            api,
            faults: Faults::new(),
            counters: Arc::default(),
            access,
            webhooks: Webhooks::default(),
            services,
            hosts,
            log,
            fault_header,
            bookmark_interval,
            shards,
            protobuf,
            kubernetes,
            watches: Mutex::new(shutdown.child_token()),
            connections: Mutex::new(CancellationToken::new()),
            shutdown,
        }
    }

    /// Ends all open watches cleanly, as a restarting server does.
    pub(crate) fn drop_watches(&self) {
        let fresh = self.shutdown.child_token();
        let old = std::mem::replace(&mut *self.watches.lock(), fresh);
        old.cancel();
    }

    /// Breaks all open connections immediately.
    pub(crate) fn drop_connections(&self) {
        let old = std::mem::take(&mut *self.connections.lock());
        old.cancel();
    }

    pub(super) fn connection_token(&self) -> CancellationToken {
        self.connections.lock().clone()
    }

    /// The optional features of the representations of this resource.
    pub(super) fn offers_for(&self, resource: &Resource) -> Offers {
        let has_protobuf = crate::protobuf::knows(&resource.kind.api_version(), &resource.kind.kind);
        let protobuf = if has_protobuf { self.protobuf } else { ProtobufAnswers::Refused };
        Offers { protobuf, drop: self.kubernetes >= 38 }
    }

    pub(super) fn watch_token(&self) -> CancellationToken {
        self.watches.lock().clone()
    }
}
