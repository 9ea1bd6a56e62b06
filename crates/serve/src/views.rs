//! Views: snapshots with a selection and an order, which are read in pages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kinformer::PackedObject;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The bounds of the views.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewBounds {
    /// The most views.
    pub(crate) views: usize,
    /// The most bytes of the objects of all views.
    pub(crate) bytes: usize,
    /// How long a view is kept after its last use.
    pub(crate) idle: Duration,
}

/// A selection of a snapshot, in an order.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) id: String,
    /// The number of the informer.
    pub(crate) informer: usize,
    /// The parameters, for requests of the same view.
    pub(crate) query: String,
    pub(crate) revision: u64,
    pub(crate) resource_version: String,
    pub(crate) objects: Vec<Arc<PackedObject>>,
    /// The encoded bytes of the objects, with their places in the view.
    pub(crate) bytes: usize,
}

/// The bytes of objects in a view.
pub(crate) fn bytes_of(objects: &[Arc<PackedObject>]) -> usize {
    objects.iter().map(|object| object.encoded_len() + size_of::<Arc<PackedObject>>()).sum()
}

/// The views of the server, least recently used first.
#[derive(Debug)]
pub(crate) struct Views {
    bounds: ViewBounds,
    views: Mutex<VecDeque<(Instant, Arc<View>)>>,
}

impl Views {
    pub(crate) fn new(bounds: ViewBounds) -> Self {
        Self { bounds, views: Mutex::default() }
    }

    /// Returns a view by its identifier; `None` if it has expired or never existed.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<View>> {
        self.find(|view| view.id == id)
    }

    /// Returns the view of a query of an unchanged store.
    pub(crate) fn same(&self, informer: usize, query: &str, revision: u64) -> Option<Arc<View>> {
        self.find(|view| view.informer == informer && view.revision == revision && view.query == query)
    }

    fn find(&self, is_wanted: impl Fn(&View) -> bool) -> Option<Arc<View>> {
        let mut views = self.views.lock();
        let expired = self.take_expired(&mut views);
        let found = views.iter().position(|(_, view)| is_wanted(view)).and_then(|index| views.remove(index));
        let view = found.map(|(_, view)| {
            views.push_back((Instant::now(), view.clone()));
            view
        });
        drop(views);
        // Objects are dropped after the lock is released; also below.
        drop(expired);
        view
    }

    /// Adds a view, and drops the least recently used ones beyond the bounds.
    pub(crate) fn add(&self, view: Arc<View>) {
        let mut views = self.views.lock();
        let mut dropped = self.take_expired(&mut views);
        views.push_back((Instant::now(), view));
        let mut bytes: usize = views.iter().map(|(_, view)| view.bytes).sum();
        while views.len() > 1 && (views.len() > self.bounds.views || bytes > self.bounds.bytes) {
            let Some((_, oldest)) = views.pop_front() else { break };
            bytes = bytes.saturating_sub(oldest.bytes);
            dropped.push(oldest);
        }
        drop(views);
        drop(dropped);
    }

    /// Drops the views that were not used for a while.
    pub(crate) fn expire(&self) {
        let expired = self.take_expired(&mut self.views.lock());
        drop(expired);
    }

    fn take_expired(&self, views: &mut VecDeque<(Instant, Arc<View>)>) -> Vec<Arc<View>> {
        let mut expired = Vec::new();
        while let Some((used, _)) = views.front()
            && used.elapsed() >= self.bounds.idle
        {
            expired.extend(views.pop_front().map(|(_, view)| view));
        }
        expired
    }

    /// The number of views, and the bytes of their objects.
    pub(crate) fn figures(&self) -> (usize, usize) {
        let views = self.views.lock();
        (views.len(), views.iter().map(|(_, view)| view.bytes).sum())
    }
}

/// Returns an identifier that no other view has, and that is not guessed by accident.
pub(crate) fn new_id() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(id: &str, count: usize) -> Arc<View> {
        let json = serde_json::json!({"metadata": {"name": "a"}});
        let object = Arc::new(PackedObject::encode(&json, &kinformer::ObjectDecoder::json()).unwrap());
        let objects = vec![object; count];
        Arc::new(View {
            id: id.to_owned(),
            informer: 0,
            query: format!("query of {id}"),
            revision: 1,
            resource_version: "1".to_owned(),
            bytes: bytes_of(&objects),
            objects,
        })
    }

    // contract: H-06a
    #[tokio::test(start_paused = true)]
    async fn views_are_bounded_and_expire() {
        let large = view("d", 10);
        let views = Views::new(ViewBounds { views: 2, bytes: large.bytes, idle: Duration::from_secs(60) });
        views.add(view("a", 1));
        views.add(view("b", 1));
        assert!(views.get("a").is_some());
        views.add(view("c", 1));
        assert!(views.get("b").is_none() && views.get("a").is_some(), "the least recently used is dropped");
        assert!(views.same(0, "query of c", 1).is_some() && views.same(0, "query of c", 2).is_none());
        assert_eq!(views.figures(), (2, 2 * large.bytes / 10));
        views.add(large.clone());
        assert_eq!(views.figures(), (1, large.bytes), "others are dropped when there are too many bytes");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(views.get("d").is_some());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(views.get("d").is_some(), "a use extends the time");
        tokio::time::advance(Duration::from_secs(60)).await;
        views.expire();
        assert_eq!(views.figures(), (0, 0));
    }
}
