//! For how long an informer and a reference reflector differ from the server.
//!
//! In a world with handlers, the informer of config maps, or its part of the namespace `a`, is compared. The reference
//! ([`Reference`]) has servers of its own, and meets the faults that the informer meets ([`Beside`]), so the two have the
//! same bad luck, at the same times, with pages of the same size. Both are compared with the newest state of the history. For the informer, the time does
//! not count in which the watch cache of a server lags, its watch is silent, or handlers with back-pressure hold the informer
//! up. Objects that do not decode are not compared. A reference that is wrong, after a damaged list for example, makes the
//! bound loose, and so does a silent connection, which the reference has until it breaks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{KubeListerWatcher, ResourceVersion};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::api_server::{ApiServer, Beside};
use crate::factory::Settings;
use crate::judge::{is_undecodable, version_of};
use crate::random::with_seed;
use crate::reference::Reference;
use crate::server::History;
use crate::trace::Recorder;
use crate::view::View;

/// How often the two are compared with the server.
const STEP: Duration = Duration::from_millis(500);

/// For how much longer than the reference the informer may differ: the delays between requests are random.
const LONGER: Duration = Duration::from_secs(60);

/// The time within which an informer finds a restored backup by a question (R-18b). The reference finds it when a failed
/// watch happens to lead to a list, which an informer does not request for that.
const RESTORE: Duration = Duration::from_secs(120);

/// For how long one of the two has differed from the server.
pub(crate) struct Side {
    name: &'static str,
    pub(crate) behind: Duration,
    was_equal: bool,
}

impl Side {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, behind: Duration::ZERO, was_equal: true }
    }

    /// Adds a step, in which it was equal to the server or was not.
    pub(crate) fn add(&mut self, step: Duration, is_equal: bool, recorder: &Recorder) {
        if !is_equal {
            self.behind += step;
        }
        if std::mem::replace(&mut self.was_equal, is_equal) != is_equal {
            recorder.note(self.name, if is_equal { "is equal" } else { "differs" });
        }
    }
}

/// Notes for how long the two were behind.
///
/// # Errors
/// The informer was behind for longer than it may be.
pub(crate) fn judge(
    [informer, reference]: [Duration; 2],
    longer: Duration,
    recorder: &Recorder,
) -> Result<(), String> {
    let text = format!("behind for {informer:?}, the reference for {reference:?}");
    recorder.note("world", &text);
    if informer > reference + longer { Err(format!("the informer was {text}")) } else { Ok(()) }
}

/// Compares an informer and a reference with the server.
pub(crate) struct Comparison {
    sides: Arc<Mutex<[Side; 2]>>,
    server: ApiServer,
    beside: Beside,
    /// The reference and the comparison.
    tasks: JoinSet<()>,
    recorder: Recorder,
}

impl Comparison {
    /// Starts a reference beside an informer, which starts now.
    pub(crate) fn start(
        maps: &View<ConfigMap>,
        server: &ApiServer,
        beside: &Beside,
        settings: Settings,
        rng: &mut Rng,
    ) -> Self {
        let recorder = maps.recorder.clone();
        let source = KubeListerWatcher::packed::<ConfigMap>(beside.client(rng.fork()));
        let (source, prefix) = match maps.parts() {
            1 => (source, ""),
            _ => (source.namespace("a"), "a/"),
        };
        let watch_lists = settings.watch_lists && beside.has_watch_lists();
        let reference = Reference::new(source, watch_lists, settings.min_watch).page_size(settings.page_size);
        let stored = reference.stored();
        let mut tasks = JoinSet::new();
        tasks.spawn(with_seed(rng.u64(..), reference.run()));
        let sides = Arc::new(Mutex::new([Side::new("informer"), Side::new("reference")]));
        let (maps, copied, compared, notes) = (maps.clone(), server.clone(), sides.clone(), recorder.clone());
        let faults = beside.clone();
        tasks.spawn(async move {
            let mut newest = Newest { prefix, changes: 0, last: 0, versions: BTreeMap::new() };
            loop {
                copied.read(|history| newest.read(history));
                let is_excused = maps.is_held_up() || faults.is_silent() || copied.lags_behind(newest.last);
                let is_equal = [
                    is_excused || newest.are(maps.versions(prefix)),
                    newest.are(stored.lock().iter().map(|(key, object)| (key, object.resource_version()))),
                ];
                for (side, is_equal) in compared.lock().iter_mut().zip(is_equal) {
                    side.add(STEP, is_equal, &notes);
                }
                sleep(STEP).await;
            }
        });
        Self { sides, server: server.clone(), beside: beside.clone(), tasks, recorder }
    }

    /// Ends the reference.
    ///
    /// # Errors
    /// The informer was behind for longer than it may be.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        self.tasks.shutdown().await;
        let behind = self.sides.lock().each_ref().map(|side| side.behind);
        let restores = u32::try_from(self.server.read(History::restores)).unwrap_or(u32::MAX);
        let longer = LONGER + self.beside.taken() + RESTORE.saturating_mul(restores);
        judge(behind, longer, &self.recorder)
    }
}

/// The newest versions of the objects of the server by key; `None` for an object that does not decode.
struct Newest {
    prefix: &'static str,
    /// The number of changes that were read.
    changes: usize,
    /// The version of the last change.
    last: u64,
    versions: BTreeMap<String, Option<ResourceVersion>>,
}

impl Newest {
    fn read(&mut self, history: &History) {
        let changes = history.changes();
        for change in changes.iter().skip(self.changes).filter(|change| change.key.plural == "configmaps") {
            let key = change.key.path();
            if !key.starts_with(self.prefix) {
                continue;
            }
            self.last = change.version;
            match &change.after {
                Some(state) => {
                    let version = (!is_undecodable(state)).then(|| version_of(state).into());
                    self.versions.insert(key, version);
                }
                None => _ = self.versions.remove(&key),
            }
        }
        self.changes = changes.len();
    }

    /// Whether these are the objects of the server.
    fn are<K: AsRef<str>>(&self, objects: impl IntoIterator<Item = (K, ResourceVersion)>) -> bool {
        let mut found = 0;
        for (key, version) in objects {
            match self.versions.get(key.as_ref()) {
                Some(Some(newest)) if *newest == version => found += 1,
                Some(None) => {}
                _ => return false,
            }
        }
        self.versions.values().flatten().count() == found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::Key;

    #[tokio::test(start_paused = true)]
    async fn informer_may_be_behind_for_as_long_as_the_reference() {
        let recorder = Recorder::new();
        let seconds = |behind: [u64; 2]| judge(behind.map(Duration::from_secs), LONGER, &recorder);
        assert_eq!(seconds([70, 10]), Ok(()));
        assert!(seconds([71, 10]).unwrap_err().contains("the informer was behind for 71s"));
    }

    #[tokio::test(start_paused = true)]
    async fn steps_that_differ_are_added() {
        let recorder = Recorder::new();
        let mut side = Side::new("informer");
        for is_equal in [true, false, false, true] {
            side.add(STEP, is_equal, &recorder);
        }
        assert_eq!(side.behind, 2 * STEP);
        let lines: Vec<_> = recorder.trace().lines().iter().map(|line| line.event.clone()).collect();
        assert_eq!(lines, ["differs", "is equal"]);
    }

    #[test]
    fn newest_objects_of_the_namespace_are_compared() {
        let mut history = History::default();
        let key = |namespace: &str, name: &str| Key::new("configmaps", namespace, name);
        let first = history.put(key("a", "p"), json!({}));
        history.put(key("b", "p"), json!({}));
        history.put(Key::new("secrets", "a", "p"), json!({}));
        let mut newest = Newest { prefix: "a/", changes: 0, last: 0, versions: BTreeMap::new() };
        newest.read(&history);
        assert!(newest.are([("a/p", first.into())]));
        assert!(!newest.are([("a/p", (first + 1).into())]), "another version");
        assert!(!newest.are([("a/p", first.into()), ("a/q", first.into())]), "another object");
        assert!(!newest.are::<&str>([]), "no object");
        let undecodable = history.put(key("a", "p"), json!({"metadata": {"labels": 7}}));
        newest.read(&history);
        assert!(newest.are::<&str>([]) && newest.are([("a/p", undecodable.into())]));
        history.delete(key("a", "p"), None);
        newest.read(&history);
        assert!(newest.are::<&str>([]) && !newest.are([("a/p", undecodable.into())]));
    }
}
