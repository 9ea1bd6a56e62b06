//! Whether a factory's objects are packed or decoded at once.

use std::fmt::Debug;

use kinformer_core::Object;
use kinformer_kube::{FromWire, KubeListerWatcher, Packed, Typed};
use kube_client::Client;

use crate::KnownKind;

/// In which form a factory keeps the objects of kinds that have a type: [`PackedObjects`] or [`EagerObjects`].
///
/// Code that is for both takes a `SharedInformerFactory<O>`, and reads an object as a `&impl Typed<Pod>`.
pub trait Objects: sealed::Form + Copy + Debug + Default + Send + Sync + 'static {
    /// An object of the kind `K` in this form.
    type Of<K: KnownKind>: Object + FromWire + Typed<K> + Debug;

    /// The source of the objects of a kind in this form.
    fn lister_watcher<K: KnownKind<DynamicType = ()>>(client: Client) -> KubeListerWatcher<Self::Of<K>>;
}

/// Objects are kept as they come, each as a [`Packed`], and decoded when they are read. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackedObjects;

/// Objects are decoded as they come, and kept so: for kinds of which most objects are read all the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct EagerObjects;

impl Objects for PackedObjects {
    type Of<K: KnownKind> = Packed<K>;

    fn lister_watcher<K: KnownKind<DynamicType = ()>>(client: Client) -> KubeListerWatcher<Packed<K>> {
        KubeListerWatcher::packed(client)
    }
}

impl Objects for EagerObjects {
    type Of<K: KnownKind> = K;

    fn lister_watcher<K: KnownKind<DynamicType = ()>>(client: Client) -> KubeListerWatcher<K> {
        KubeListerWatcher::new(client)
    }
}

mod sealed {
    pub trait Form {
        /// What stands behind the resource in the name of an informer, so that it differs from others of the resource.
        const MARK: &'static str;
    }

    impl Form for super::PackedObjects {
        const MARK: &'static str = "";
    }

    impl Form for super::EagerObjects {
        const MARK: &'static str = " (eager)";
    }
}
