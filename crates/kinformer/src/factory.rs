//! One informer for each type, shared by all who ask for it.

use std::sync::Arc;

/// Gives out shared informers.
#[derive(Clone, Debug, Default)]
pub struct SharedInformerFactory {
    _shared: Arc<()>,
}
