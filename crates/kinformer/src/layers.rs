//! The items of the layers below that users of this crate need: those that its programs use, and every type in the
//! public signatures of this crate. Those of custom sources, queues and stores are in [`crate::generic`].

pub use kinformer_core::{
    BoxError, Error as CoreError, FinalStateUnknown, KeyError, KeyProblem, KeyRef, Keyed, Labels, Object,
    ObjectKey, PartId, PartOrKey, ResourceVersion, Tombstone, Transform, Versions, Wait,
};
pub use kinformer_kube::{
    DecodeAs, Decoded, DecodedCache, DecodedRef, Encoding, Error as ClientError, FieldPath,
    KubeListerWatcher, KubeObject, Kubeconfig, LabelSelector, ManagedFields, ObjectDecoder, Packed,
    PackedMetadata, PackedObject, PackedRef, Params, ProtobufProblem, RequestCount, SelectorError,
    SelectorProblem, Shard, ShardField, ShardSelector, WireError, client, client_http1, config,
    discovery_client, drop_credentials, parse_server, request_counts, sends_credentials,
};
pub use kinformer_processor::{
    Added, AsyncEventHandler, AsyncFnWith, Buffer, Deleted, Error as HandlerError, Event, EventHandler,
    EventHandlerFuncs, HandlerMetrics, Left, Registration, ThreadMetrics, Updated, set_base_threads,
    thread_metrics,
};
pub use kinformer_reflector::{
    ApiStatus, Backoff, DecodeError, Failure, NextRequest, Recovery, ReflectorHandle, ReflectorMetrics,
    ReflectorOptions, ReflectorState, RequestLimit, SourceError, StatusCause, StopReason, WatchListMode,
};
pub use kinformer_shared_informer::{
    Bound, DeltaQueueMetrics, Error as InformerError, InformerMetrics, LatencySummary, NotSynced, Part,
    Phase, Queue, QueueKind, QueueParts, SharedIndexInformer, SharedIndexInformerBuilder, Sources,
    SyncProgress, WaitOutcome,
};
pub use kinformer_store::{Error as StoreError, IndexFunction, IndexValues, NAMESPACE_INDEX};
