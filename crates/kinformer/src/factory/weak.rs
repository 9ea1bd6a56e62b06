//! A handle that does not keep its factory.

use std::sync::{Arc, Weak};

use kube_client::Client;

use crate::entry::Entry;
use crate::factory::new_informer::{make, registered};
use crate::factory::{Inner, SharedInformerFactory};
use crate::options::Options;
use crate::target::{Bound, Target};

/// A weak handle to a factory.
#[derive(Clone)]
pub(crate) struct WeakFactory {
    inner: Weak<Inner>,
    client: Client,
    options: Arc<Options>,
}

impl SharedInformerFactory {
    pub(crate) fn downgrade(&self) -> WeakFactory {
        let (client, options) = (self.client().clone(), self.inner.options.clone());
        WeakFactory { inner: Arc::downgrade(&self.inner), client, options }
    }
}

impl WeakFactory {
    pub(crate) fn upgrade(&self) -> Option<SharedInformerFactory> {
        self.inner.upgrade().map(|inner| SharedInformerFactory { inner })
    }

    /// As [`SharedInformerFactory::bind`]. Returns a stopped informer if the factory was dropped.
    pub(crate) fn bind(&self, target: &Target, hold: fn(&Entry) -> bool) -> Bound {
        if let Some(factory) = self.upgrade() {
            return factory.bind(target, hold);
        }
        let informer = make(&self.client, &self.options, target);
        let entry = Arc::new(Entry::new(target.key(), registered(target, informer.clone())));
        entry.stop();
        Bound { entry, informer }
    }
}
