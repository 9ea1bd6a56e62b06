//! What most programs need, to be imported all together, also beside kube's: `use kinformer::prelude::*`.
//!
//! The trait [`Object`](crate::Object) is not here, since it has methods of the same names as `kube::ResourceExt`.
//! [`PackedObject`] has all of them without the trait, and code that is generic over `T: Object` calls them without an import.

#[doc(no_inline)]
pub use crate::{
    Added, AsyncEventHandler, Buffer, Decode, Deleted, Event, EventHandler, EventHandlerFuncs, FieldPath,
    Informer, InformerLease, LabelSelector, Lister, NamespaceLister, ObjectKey, Packed, PackedObject,
    PackedRef, Registration, ResourceOptions, ResourceVersion, SharedInformerFactory,
    SharedInformerFactoryBuilder, Snapshot, Tombstone, Updated,
};
