//! The items that most programs need, for a glob import that does not conflict with kube's prelude:
//! `use kinformer::prelude::*`.
//!
//! The trait [`Object`](crate::Object) is not included, because its methods have the same names as those of
//! `kube::ResourceExt`. [`PackedObject`] has all of them as inherent methods, and code that is generic over `T: Object`
//! calls them without an import.

#[doc(no_inline)]
pub use crate::{
    Added, AsyncEventHandler, Buffer, Decode, Deleted, Event, EventHandler, EventHandlerFuncs, FieldPath,
    Informer, InformerLease, LabelSelector, Left, Lister, NamespaceLister, ObjectKey, Packed, PackedMetadata,
    PackedObject, PackedRef, Registration, ResourceOptions, ResourceVersion, SharedInformerFactory,
    SharedInformerFactoryBuilder, Snapshot, Tombstone, Updated,
};
