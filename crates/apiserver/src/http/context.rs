//! What every request needs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::faults::Faults;
use crate::registry::Resource;
use crate::stats::Counters;

use super::access::Access;
use super::negotiate::ProtobufAnswers;

/// The name of the header by which a request asks for a fault.
pub(super) const FAULT_HEADER: &str = "x-kinformer-fault";

/// Whether requests may ask for faults by a header, `X-Kinformer-Fault`.
///
/// Its values, several of them separated by commas: `refuse`, `delay=MILLISECONDS`, `cut`, `expired`,
/// `forbidden`, `expired-event`, `too-many-requests=SECONDS`, `internal-error`, `stall`, `malformed`, `missing-bookmark`,
/// `duplicate-event`, `future-versions`. Each does what the [`Fault`](crate::Fault) of that name does, once, to this request. What is none of
/// them is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultHeader {
    /// The header means nothing.
    #[default]
    Ignored,
    /// `X-Kinformer-Fault: cut` makes the answer to this one request break off.
    Honoured,
}

/// What every request needs.
pub(crate) struct Context {
    pub(crate) api: Api,
    pub(crate) faults: Faults,
    pub(crate) counters: Arc<Counters>,
    pub(crate) access: Access,
    pub(crate) fault_header: FaultHeader,
    pub(crate) bookmark_interval: Duration,
    protobuf: ProtobufAnswers,
    /// Cancelled when the server ends.
    pub(crate) shutdown: CancellationToken,
    /// Cancelled, and replaced, when all watches are dropped.
    watches: Mutex<CancellationToken>,
    /// Cancelled, and replaced, when all connections are dropped.
    connections: Mutex<CancellationToken>,
}

impl Context {
    pub(crate) fn new(
        api: Api,
        access: Access,
        fault_header: FaultHeader,
        bookmark_interval: Duration,
        protobuf: ProtobufAnswers,
    ) -> Self {
        let shutdown = CancellationToken::new();
        Self {
            api,
            faults: Faults::new(),
            counters: Arc::default(),
            access,
            fault_header,
            bookmark_interval,
            protobuf,
            watches: Mutex::new(shutdown.child_token()),
            connections: Mutex::new(CancellationToken::new()),
            shutdown,
        }
    }

    /// Ends all open watches, as a server does that is restarted.
    pub(crate) fn drop_watches(&self) {
        let fresh = self.shutdown.child_token();
        let old = std::mem::replace(&mut *self.watches.lock(), fresh);
        old.cancel();
    }

    /// Breaks all open connections off, whatever they are doing.
    pub(crate) fn drop_connections(&self) {
        let old = std::mem::take(&mut *self.connections.lock());
        old.cancel();
    }

    pub(super) fn connection_token(&self) -> CancellationToken {
        self.connections.lock().clone()
    }

    /// Whether objects of this resource may be answered in protobuf.
    pub(super) fn protobuf_for(&self, resource: &Resource) -> ProtobufAnswers {
        if crate::protobuf::knows(&resource.kind.api_version(), &resource.kind.kind) {
            self.protobuf
        } else {
            ProtobufAnswers::Refused
        }
    }

    pub(super) fn watch_token(&self) -> CancellationToken {
        self.watches.lock().clone()
    }
}
