//! Lists: versions, pages, expired versions, undecodable objects.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::common::*;
use kinformer_core::{KeyRef, Object, ObjectKey};
use kinformer_reflector::{
    ApiStatus, DecodeError, EventType, List, ListOptions, ListerWatcher, Recovery, Reflector,
    ReflectorOptions, ReflectorState, SourceError, StatusCause,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink, ScriptedSource};
use tokio::time::Instant;

/// Pages are requested one after the other, and given to the sink as one list.
// contract: L-01a, L-02a
#[tokio::test(start_paused = true)]
async fn pages_are_applied_as_one_list() {
    let run = start(
        script()
            .list(list(7, &[("a", 1), ("b", 2)]).continue_token("two").remaining(2))
            .list(list(7, &[("c", 3)]).continue_token("three").remaining(u64::MAX))
            .list(list(7, &[("d", 4)]).continue_token(""))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(
        run.source.texts(),
        ["list 0 limit 500", "list continue two limit 500", "list continue three limit 500", "watch 7"]
    );
    assert_eq!(run.sink.texts(), ["replace a@1 b@2 c@3 d@4 @7"]);
    assert_eq!(run.handle.last_version(), 7.into());
    assert_eq!((run.handle.metrics().lists, run.handle.metrics().pages), (1, 3));
    run.stop().await;
}

/// If a page has expired, one list in one piece at the original version follows.
// contract: L-01b
#[tokio::test(start_paused = true)]
async fn expired_page_leads_to_a_list_in_one_piece() {
    let run = start(
        script()
            .list(list(7, &[("a", 1)]).continue_token("two"))
            .list_error(expired())
            .list(list(9, &[("a", 1), ("b", 8)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts(), ["list 0 limit 500", "list continue two limit 500", "list 0", "watch 9"]);
    assert_eq!(run.sink.texts(), ["replace a@1 b@8 @9"]);
    assert!(run.failures.lock().is_empty());
    run.stop().await;
}

// contract: L-17c
#[tokio::test(start_paused = true)]
async fn repeated_page_is_an_error() {
    let run = start(
        script()
            .list(list(7, &[("a", 1)]).continue_token("same"))
            .list(list(7, &[("b", 1)]).continue_token("same"))
            .list(list(8, &[("a", 1)]))
            .watch(hang()),
    );
    run.finished().await;
    assert!(run.errors()[0].contains("a page repeats, after 2 pages"), "{:?}", run.errors());
    assert_eq!(run.sink.texts(), ["replace a@1 @8"]);
    run.stop().await;
}

// contract: L-17a
#[tokio::test(start_paused = true)]
async fn continue_token_of_the_full_list_is_followed() {
    let run = start(
        script()
            .list(list(7, &[("a", 1)]).continue_token("two"))
            .list_error(expired())
            .list(list(9, &[("a", 1), ("b", 8)]).continue_token("more"))
            .list(list(9, &[("c", 3), ("d", 4)]))
            .watch(hang()),
    );
    run.finished().await;
    let texts =
        ["list 0 limit 500", "list continue two limit 500", "list 0", "list continue more", "watch 9"];
    assert_eq!(run.source.texts(), texts);
    assert_eq!(run.sink.texts(), ["replace a@1 b@8 c@3 d@4 @9"]);
    run.stop().await;
}

// contract: L-17b
#[tokio::test(start_paused = true)]
async fn pages_of_different_versions_are_rejected() {
    // A later page is newer, older, or has no version: changes in between would be lost or repeated.
    for version in [8, 6, 0] {
        let second = || match version {
            0 => unversioned(&[("b", 2)]),
            version => list(version, &[("b", 2)]),
        };
        let run = start_with(
            script()
                .list(list(7, &[("a", 1)]).continue_token("two"))
                .list(second())
                .list(list(7, &[("a", 1)]).continue_token("three"))
                .list(second())
                .list(list(9, &[("a", 1), ("b", 2)]))
                .watch(hang()),
            steady(),
        );
        run.finished().await;
        assert_eq!(run.source.texts()[2], "list 0", "once more, in one piece");
        assert_eq!(run.recoveries(), [Recovery::Relist]);
        assert!(run.errors()[0].starts_with("page 2 of the list is at version"), "{:?}", run.errors());
        assert_eq!(run.sink.texts(), ["replace a@1 b@2 @9"]);
        run.stop().await;
    }
}

/// Each error of a page is reported, although the list continues. A repetition of an incomplete list would hold up the watch.
// contract: R-23h, R-23j
#[tokio::test(start_paused = true)]
async fn failed_page_is_reported_and_requested_again() {
    let nameless = || list(7, &[("a", 1)]).undecodable([DecodeError::new("no such field").index(1)]);
    let run = start_with(
        script()
            .list(nameless().continue_token("two"))
            .list_error(broken())
            .list(list(7, &[("b", 2)]))
            .watch(hang())
            .list(list(8, &[("a", 1)]).continue_token("two"))
            .list_error(broken())
            .watch(hang())
            .list(list(9, &[("a", 1), ("b", 2)]))
            .watch(hang()),
        steady(),
    );
    run.finished().await;
    let of_page = Recovery::Skip;
    let (incomplete, repetition) = (Recovery::Relist, Recovery::Relist);
    assert_eq!(run.recoveries(), [of_page, incomplete, repetition]);
    let errors = run.errors();
    assert!(errors[0].contains("reset by peer") && errors[2].contains("reset by peer"), "{errors:?}");
    let pages = run.source.texts().iter().filter(|text| text.contains("continue")).count();
    assert_eq!(pages, 3, "{:?}", run.source.texts());
    run.stop().await;
}

/// A source whose lists do not end. The function returns the name of the object on a page and the continue token.
struct Endless(fn(u64) -> (String, String), AtomicU64);

#[async_trait::async_trait]
impl ListerWatcher<Item> for Endless {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        let page = self.1.fetch_add(1, Ordering::Relaxed);
        let (name, token) = (self.0)(page);
        Ok(List::new([Item::new(&name, 1)], 7).continue_token(token))
    }
}

// contract: L-17c
#[tokio::test(start_paused = true)]
async fn endless_list_is_a_typed_error() {
    type Page = fn(u64) -> (String, String);
    let cases: [(Page, u32); 3] = [
        // New objects, and new tokens.
        (|n| (n.to_string(), n.to_string()), 10_000),
        // The same page, with new tokens.
        (|n| ("a".to_owned(), n.to_string()), 2),
        // A cycle of tokens.
        (|n| (n.to_string(), (n % 3).to_string()), 4),
    ];
    for (page, read) in cases {
        let source = Arc::new(Endless(page, AtomicU64::new(0)));
        let sink = Arc::new(RecordingSink::new());
        let reflector = Reflector::new("test", source, sink.clone());
        let handle = reflector.handle();
        let task = tokio::spawn(reflector.run(Default::default()));
        handle.state_where(|state| matches!(state, ReflectorState::BackingOff { .. })).await;
        let error = handle.last_error().unwrap();
        let SourceError::EndlessList { pages, .. } = &*error else { panic!("{error}") };
        assert_eq!(*pages, read, "{error}");
        assert!(sink.texts().is_empty());
        task.abort();
    }
}

/// Unidentified objects are counted over all pages of a list.
// contract: L-17e
#[tokio::test(start_paused = true)]
async fn list_with_too_many_unidentified_objects_fails() {
    struct Damaged(AtomicU64);
    #[async_trait::async_trait]
    impl ListerWatcher<Item> for Damaged {
        async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
            let page = self.0.fetch_add(1, Ordering::Relaxed).to_string();
            let undecodable = (0..5_000).map(|n| DecodeError::new("damaged").index(n));
            Ok(List::new([Item::new(&page, 1)], 7).undecodable(undecodable).continue_token(page))
        }
    }
    let sink = Arc::new(RecordingSink::new());
    let reflector = Reflector::new("test", Damaged(AtomicU64::new(0)), sink.clone());
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(Default::default()));
    handle.state_where(|state| matches!(state, ReflectorState::BackingOff { .. })).await;
    let error = handle.last_error().unwrap();
    assert!(matches!(&*error, SourceError::TooManyUnidentified { limit: 10_000 }), "{error}");
    assert_eq!((handle.metrics().pages, sink.texts().len()), (2, 0));
    task.abort();
}

// contract: L-17d
#[tokio::test(start_paused = true)]
async fn list_takes_at_most_an_hour() {
    struct Slow(AtomicU64);
    #[async_trait::async_trait]
    impl ListerWatcher<Item> for Slow {
        async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
            tokio::time::sleep(300 * SECOND).await;
            let page = self.0.fetch_add(1, Ordering::Relaxed).to_string();
            Ok(List::new([Item::new(&page, 1)], 7).continue_token(page))
        }
    }
    let reflector = Reflector::new("test", Slow(AtomicU64::new(0)), Arc::new(RecordingSink::new()));
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(Default::default()));
    handle.state_where(|state| matches!(state, ReflectorState::BackingOff { .. })).await;
    let error = handle.last_error().unwrap();
    assert!(matches!(&*error, SourceError::EndlessList { pages: 12, .. }), "{error}");
    task.abort();
}

/// A list that lost its version is requested once more, at once, and a second one without a version is applied.
// contract: R-16a, R-16b, R-16c
#[tokio::test(start_paused = true)]
async fn list_that_lost_its_version_is_rejected() {
    let without = || unversioned(&[("x", 1)]);
    let run = start_with(
        script()
            .list(list(7, &[("a", 1)]))
            .watch_error(expired())
            .list(without())
            .list(list(9, &[("a", 1), ("b", 8)]))
            .watch_error(expired())
            .list(without())
            .list(without())
            .watch(WatchScript::new().error(broken()))
            .list(without())
            .watch(hang()),
        steady(),
    );
    run.finished().await;
    assert_eq!(run.sink.texts()[1..], ["replace a@1 b@8 @9", "replace x@1 @", "replace x@1 @"]);
    assert_eq!(run.errors()[1], "the list has no resource version; the last version was 7");
    let (lists, watches) = (["list 7", "list - limit 500"], ["watch 9", "watch -"]);
    assert_eq!(run.source.texts()[2..4], lists);
    assert_eq!(run.source.texts()[4..8], [watches[0], "list 9", lists[1], watches[1]]);
    assert!(run.handle.last_version().is_unset());
    // One delay for each failed watch: a list without a version adds none.
    assert_eq!(run.delays().iter().sum::<std::time::Duration>(), 3 * SECOND);
    run.stop().await;

    // A source that never had versions is accepted.
    let run = start(script().list(without()).watch_error(expired()).list(without()).watch(hang()));
    run.finished().await;
    assert_eq!(run.sink.texts(), ["replace x@1 @", "replace x@1 @"]);
    run.stop().await;
}

// contract: L-02a, L-02b
#[tokio::test(start_paused = true)]
async fn relist_is_in_one_piece_at_the_last_version() {
    let run = start(
        script()
            .list(list(7, &[("a", 1)]))
            .watch(WatchScript::new().bookmark(9).error(expired()))
            .list(list(12, &[("a", 10)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts(), ["list 0 limit 500", "watch 7", "list 9", "watch 12"]);
    run.stop().await;
}

// contract: L-02c
#[tokio::test(start_paused = true)]
async fn paged_list_at_zero_makes_later_lists_paged() {
    let run = start(
        script()
            .list(list(7, &[("a", 1)]).continue_token("two"))
            .list(list(7, &[("b", 1)]))
            .watch_error(expired())
            .list(list(12, &[("a", 10)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["list 7 limit 500", "watch 12"]);
    run.stop().await;
}

// contract: L-02f
#[tokio::test(start_paused = true)]
async fn custom_page_size_applies_to_every_list() {
    let size = NonZeroU32::new(3).unwrap();
    let run = start_with(
        script().list(list(7, &[])).watch_error(expired()).list(list(8, &[])).watch(hang()),
        ReflectorOptions::new().page_size(size),
    );
    run.finished().await;
    assert_eq!(run.source.texts(), ["list 0 limit 3", "watch 7", "list 7 limit 3", "watch 8"]);
    run.stop().await;
}

fn too_large() -> [SourceError; 3] {
    let message = "Too large resource version: 9, current: 3";
    [
        ApiStatus::new(504, "Timeout", message)
            .cause(StatusCause::new("ResourceVersionTooLarge", "anything"))
            .into(),
        ApiStatus::new(504, "Timeout", "x").cause(StatusCause::new("", "Too large resource version")).into(),
        ApiStatus::new(504, "Timeout", message).into(),
    ]
}

// contract: L-02d, L-02e
#[tokio::test(start_paused = true)]
async fn expired_or_too_large_version_lists_the_newest() {
    let expirations = [expired(), status(410, "Gone"), status(410, "")];
    for error in expirations.into_iter().chain(too_large()) {
        let text = error.to_string();
        let run = start(
            script()
                .list(list(7, &[]))
                .watch_error(expired())
                .list_error(error)
                .list(list(9, &[]))
                .watch_error(expired())
                .list(list(10, &[]))
                .watch(hang()),
        );
        run.finished().await;
        // After that list, its version is requested as usual.
        assert_eq!(
            run.source.texts()[2..],
            ["list 7", "list - limit 500", "watch 9", "list 9", "watch 10"],
            "{text}"
        );
        run.stop().await;
    }
}

/// A version that is too large is reported in three forms. A timeout is not mistaken for it.
// contract: L-02e
#[test]
fn too_large_version_has_three_forms() {
    for error in too_large() {
        assert!(error.is_too_large_resource_version(), "{error}");
        assert!(!error.is_retryable(), "{error}");
    }
    let other = [
        ApiStatus::new(504, "Timeout", "request did not complete").into(),
        // The message counts only where old servers put it.
        ApiStatus::new(400, "BadRequest", "Too large resource version").into(),
        refused(),
    ];
    for error in other {
        assert!(!error.is_too_large_resource_version(), "{error}");
    }
}

/// A failed list is retried after a delay, and the error hook receives the failure.
// contract: R-01a, R-10a
#[tokio::test(start_paused = true)]
async fn failed_list_is_retried_after_a_delay() {
    let run = start(
        script()
            .list_error(status(403, "Forbidden"))
            .list_error(refused())
            .list_error(SourceError::other("the table is locked"))
            .panic()
            .list(list(1, &[]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.recoveries(), [Recovery::Relist; 4]);
    assert!(run.errors()[3].contains("scripted panic"));
    assert_eq!(run.handle.metrics().failures, 4);
    let times: Vec<_> = run.source.calls().iter().map(|(at, _)| *at).collect();
    for (failed, delay) in run.delays().into_iter().enumerate() {
        // The clock of a paused runtime counts in milliseconds.
        let waited = times[failed + 1] - times[failed];
        assert!(waited >= delay && waited < delay + 2 * SECOND / 1000, "{waited:?} {delay:?}");
    }
    run.stop().await;
}

// contract: R-01a
#[tokio::test(start_paused = true)]
async fn unanswered_list_times_out() {
    let options = steady().list_timeout(30 * SECOND);
    let run = start_with(script().hang().list(list(1, &[])).watch(hang()), options);
    run.finished().await;
    assert_eq!(run.errors(), ["no answer within 30s"]);
    run.stop().await;
}

/// An undecodable object of a list is reported, and its known state stays.
// contract: L-08a, L-08b, L-08c
#[tokio::test(start_paused = true)]
async fn undecodable_listed_object_keeps_known_state() {
    let bad = |key: &str| DecodeError::new("no such field").key(key.parse().unwrap());
    let run = start(
        script()
            .list(list(7, &[("a", 1), ("b", 2), ("c", 3)]))
            .watch_error(expired())
            .list(list(9, &[("c", 8)]).undecodable([bad("a")]).continue_token("two"))
            .list(list(9, &[("d", 4)]).undecodable([bad("e")]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.sink.texts()[1], "replace c@8 d@4 (a) (e) @9");
    assert_eq!(run.sink.keys(), ["a", "c", "d"]);
    assert_eq!(run.handle.metrics().decode_errors, 2);
    assert_eq!(run.recoveries(), [Recovery::Relist, Recovery::Skip, Recovery::Skip]);
    assert!(run.handle.incomplete_list().is_none());
    assert!(run.errors()[1].contains("a could not be decoded: no such field"));
    run.stop().await;
}

/// An object that did not decode once, in a list or an event, is listed once more after a delay of the backoff.
// contract: L-08f, L-08g
#[tokio::test(start_paused = true)]
async fn object_that_did_not_decode_is_listed_again() {
    let bad = |key: &str| DecodeError::new("damaged").key(key.parse().unwrap()).resource_version(8);
    let event = bad("c").event_type(EventType::Modified);
    let run = start(
        script()
            .list(list(7, &[("a", 1)]).undecodable([bad("b")]))
            .watch(hang())
            .list(list(7, &[("a", 1), ("b", 2)]))
            .watch(WatchScript::new().undecodable(event).hang())
            .list(list(8, &[("a", 1), ("b", 2), ("c", 8)]))
            .watch(hang()),
    );
    let started = Instant::now();
    run.finished().await;
    assert!(started.elapsed() >= SECOND * 8 / 5, "two delays");
    let expected = ["list 0 limit 500", "watch 7", "list 7", "watch 7", "list 8", "watch 8"];
    assert_eq!(run.source.texts(), expected);
    assert_eq!(run.sink.keys(), ["a", "b", "c"]);
    assert_eq!(run.recoveries(), [Recovery::Skip, Recovery::Skip]);
    assert!(run.handle.incomplete_list().is_none());
    run.stop().await;
}

struct Heavy(String);

impl Object for Heavy {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.0)
    }
}

// contract: R-12
#[tokio::test(start_paused = true)]
async fn retained_item_does_not_retain_its_page() {
    let page: Vec<_> = (0..500).map(|n| Arc::new(Heavy(n.to_string()))).collect();
    let weak: Vec<Weak<Heavy>> = page.iter().map(Arc::downgrade).collect();
    let retained = page[77].clone();
    let source =
        ScriptedSource::new().list(List::new(page, 7)).watch_error(expired()).list(List::new([], 8)).hang();
    let (source, sink) = (Arc::new(source), Arc::new(RecordingSink::new()));
    let reflector = Reflector::new("test", source.clone(), sink.clone());
    let task = tokio::spawn(reflector.run(Default::default()));
    source.finished().await;
    settle().await;
    drop(sink.take());
    let alive: Vec<_> =
        weak.iter().enumerate().filter(|(_, w)| w.strong_count() > 0).map(|(n, _)| n).collect();
    assert_eq!(alive, [77]);
    assert_eq!(retained.0, "77");
    task.abort();
}

/// The consistency check lists again at the same version and reports the differences.
// contract: R-13a, R-13b, R-13d
#[tokio::test(start_paused = true)]
async fn consistency_check_reports_differences() {
    let run = start_with(
        script()
            .list(list(7, &[("a", 1), ("b", 2), ("c", 3)]))
            .list(list(7, &[("a", 1), ("c", 4), ("d", 4)]))
            .watch_error(expired())
            .list(list(8, &[("a", 1)]))
            .list(list(8, &[("a", 1)]))
            .watch(hang()),
        ReflectorOptions::new().check_consistency(),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[..3], ["list 0 limit 500", "list 7 Exact", "watch 7"]);
    assert_eq!(run.recoveries(), [Recovery::Skip, Recovery::Relist]);
    let difference = "1 objects only in the second, 1 only in the first, 1 at another version";
    assert!(run.errors()[0].contains(difference), "{:?}", run.errors());
    run.stop().await;
}

// contract: R-13b
#[tokio::test(start_paused = true)]
async fn consistency_check_skips_unidentified_objects() {
    let bad = |key: &str| DecodeError::new("no such field").key(key.parse().unwrap());
    let nameless = || DecodeError::new("no key");
    let run = start_with(
        script()
            .list(list(7, &[("a", 1), ("b", 2)]).undecodable([bad("c")]))
            .list(list(7, &[("a", 1), ("c", 3)]).undecodable([bad("b")]))
            .watch_error(expired())
            .list(list(8, &[("a", 1), ("b", 2)]))
            .list(list(8, &[("a", 1)]).undecodable([nameless()]))
            .watch(hang()),
        ReflectorOptions::new().check_consistency(),
    );
    run.finished().await;
    assert!(run.errors().iter().all(|error| !error.contains("differs")), "{:?}", run.errors());
    run.stop().await;
}

// contract: R-13a
#[tokio::test(start_paused = true)]
async fn no_second_list_without_consistency_check() {
    let run = start(script().list(list(7, &[("a", 1)])).watch(hang()));
    run.finished().await;
    assert_eq!(run.source.texts(), ["list 0 limit 500", "watch 7"]);
    run.stop().await;
}

/// The consistency check compares keys and versions once, and ends no list or watch.
// contract: R-13a, R-13b, R-13c, R-13d
#[tokio::test(start_paused = true)]
async fn consistency_check_compares_keys_and_versions() {
    let with_value = |value: u64| List::new([Arc::new(kinformer_testing::Item::of("a", 1, value))], 7);
    let run = start_with(
        script()
            // The same key and version; the content is not compared.
            .list(with_value(1))
            .list(with_value(2))
            .watch_error(expired())
            // The second list fails, and is not repeated.
            .list(list(8, &[("a", 1)]))
            .list_error(expired())
            .watch(hang()),
        ReflectorOptions::new().check_consistency(),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["list 7", "list 8 Exact", "watch 8"]);
    assert_eq!(run.recoveries(), [Recovery::Relist, Recovery::Skip]);
    assert_eq!(run.sink.objects()[&ObjectKey::named("a").unwrap()].value, 0, "the first list counts");
    run.stop().await;
}
