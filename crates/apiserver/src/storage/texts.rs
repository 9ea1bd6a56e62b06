//! Texts that many objects have, stored once.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The number of texts from which unused ones are looked for.
const FIRST_SWEEP: usize = 64;

/// The values of `fieldsV1` in the objects of a resource. Objects of one shape have the same.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    /// The number of texts at the next sweep.
    sweep_at: usize,
}

impl Texts {
    /// Returns the stored copy of a text, if there is one or `may_store`. Takes amortized O(1) besides hashing the text.
    pub(super) fn share(&self, text: &str, may_store: impl FnOnce(&str) -> bool) -> Option<Arc<str>> {
        let mut known = self.known.lock();
        if let Some(present) = known.texts.get(text) {
            return Some(present.clone());
        }
        if !may_store(text) {
            return None;
        }
        if known.texts.len() >= known.sweep_at.max(FIRST_SWEEP) {
            known.texts.retain(|text| Arc::strong_count(text) > 1);
            known.sweep_at = known.texts.len() * 2;
        }
        let text: Arc<str> = text.into();
        known.texts.insert(text.clone());
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: E-19a
    #[test]
    fn texts_are_stored_once_and_dropped_when_unused() {
        let texts = Texts::default();
        let share = |text: &str| texts.share(text, |_| true).unwrap();
        let first = share("a");
        assert!(Arc::ptr_eq(&first, &share("a")));
        let kept: Vec<Arc<str>> = (0..100).map(|n| share(&n.to_string())).collect();
        for n in 0..10_000 {
            share(&format!("unused {n}"));
        }
        assert!(texts.known.lock().texts.len() < 3 * (kept.len() + 1));
        assert!(Arc::ptr_eq(&kept[7], &share("7")) && Arc::ptr_eq(&first, &share("a")));
        assert_eq!(texts.share("b", |_| false), None);
        assert!(texts.share("a", |_| false).is_some());
    }
}
