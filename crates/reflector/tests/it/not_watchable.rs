//! Resources that can be listed, but not watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, Recovery, Reflector, SourceError, WatchListSupport, WatchOptions,
    WatchStream,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::common::*;

fn refusals() -> [SourceError; 7] {
    [
        status(403, "Forbidden"),
        status(401, "Unauthorized"),
        status(405, "MethodNotAllowed"),
        status(400, "BadRequest"),
        status(501, "NotImplemented"),
        SourceError::ListInsteadOfWatch { kind: "ItemList".to_owned() },
        SourceError::ContentType {
            resource: "items".to_owned(),
            content_type: "text/html".to_owned(),
            start: "<html>".to_owned(),
        },
    ]
}

/// A refused watch leads to a list each time, and the handle and a gauge report it until a watch is open.
// contract: R-26a, R-26b
#[tokio::test(start_paused = true)]
async fn refused_watch_leads_to_a_list() {
    for (refusal, again) in refusals().into_iter().zip(refusals()) {
        let text = refusal.to_string();
        let run = start(
            listed()
                .watch_error(refusal)
                .list(list(8, &[("a", 8)]))
                .watch(WatchScript::new().error(again))
                .list(list(9, &[("a", 9)]))
                .watch_error(status(503, "ServiceUnavailable"))
                .watch(hang()),
        );
        run.sink.wait_for_record("replace a@9 @9").await;
        assert_eq!(run.handle.not_watchable().unwrap().to_string(), text);
        assert_eq!(run.handle.metrics().not_watchable, 1);
        run.finished().await;
        assert_eq!(run.source.texts()[2..], ["list 7", "watch 8", "list 8", "watch 9", "watch 9"], "{text}");
        assert_eq!(run.recoveries(), [Recovery::Relist, Recovery::Relist, Recovery::Rewatch]);
        assert!(run.delays()[0] >= SECOND * 4 / 5 && run.delays()[1] > run.delays()[0] / 2);
        assert!(run.handle.not_watchable().is_none());
        assert_eq!(run.handle.metrics().not_watchable, 0);
        run.stop().await;
    }
}

/// A watch-list for which the rights are missing, or that is answered by a list, leads to a list at once, and watch-lists of
/// other resources are not affected.
// contract: R-26d, L-05e
#[tokio::test(start_paused = true)]
async fn refused_watch_list_leads_to_a_list_at_once() {
    for [first, second] in [
        [status(403, "Forbidden"), status(403, "Forbidden")],
        [
            SourceError::ListInsteadOfWatch { kind: "ItemList".to_owned() },
            SourceError::ListInsteadOfWatch { kind: "ItemList".to_owned() },
        ],
    ] {
        let support = WatchListSupport::new();
        let run = start(
            script()
                .with_watch_list(support.clone())
                .watch(WatchScript::new().error(first))
                .list(list(7, &[("a", 1)]))
                .watch_error(second)
                .list(list(8, &[("a", 1)]))
                .watch(WatchScript::new().error(expired()))
                .watch(WatchScript::new().initial_events_end(9).hang()),
        );
        run.finished().await;
        let expected = ["watch-list -", "list 0 limit 500", "watch 7", "list 7", "watch 8", "watch-list 8"];
        assert_eq!(run.source.texts(), expected);
        assert_eq!(run.delays()[0], std::time::Duration::ZERO);
        assert!(!support.is_refused() && run.handle.not_watchable().is_none());
        run.stop().await;
    }
}

/// A watch whose answer does not begin in time, since the source withholds it until the first event, is requested again
/// without the delays of the backoff, and the fifth in a row leads to a list.
// contract: R-20g, R-20h
#[tokio::test(start_paused = true)]
async fn late_answers_leave_no_time_without_a_watch() {
    let late = || SourceError::Timeout { after: SECOND * 30 };
    let run = start(
        (0..5)
            .fold(listed(), |script, _| script.watch_error(late()))
            .list(list(8, &[("a", 8)]))
            .watch_error(SourceError::Timeout { after: SECOND / 2 })
            .watch(hang()),
    );
    run.finished().await;
    let rewatch = Recovery::Rewatch;
    assert_eq!(run.recoveries(), [rewatch, rewatch, rewatch, rewatch, Recovery::Relist, rewatch]);
    let delays = run.delays();
    assert!(delays[..4].iter().all(|delay| *delay < SECOND / 2), "{delays:?}");
    assert!(delays[4..].iter().all(|delay| *delay >= SECOND * 4 / 5), "{delays:?}");
    assert_eq!(run.handle.metrics().failures, 6);
    run.stop().await;
}

/// A source that can be listed, and whose watches all get one answer, until they are allowed.
struct Unwatchable {
    /// `None` for a stream that ends at once.
    answer: Option<fn() -> SourceError>,
    is_in_stream: bool,
    allowed: AtomicBool,
    /// The times of all requests, and whether each is a list.
    requests: Mutex<Vec<(Instant, bool)>>,
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for Unwatchable {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.requests.lock().push((Instant::now(), true));
        Ok(list(7, &[("a", 1)]))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.requests.lock().push((Instant::now(), false));
        if self.allowed.load(Ordering::Relaxed) {
            return Ok(stream::pending().boxed());
        }
        match self.answer {
            Some(error) if !self.is_in_stream => Err(error()),
            error => Ok(stream::iter(error.map(|error| Err(error()))).boxed()),
        }
    }
}

/// Whatever the answer to each watch is, the lists are as frequent as those of client-go, whose longest delay is a minute.
/// That the resource is not watchable is reported until a watch is open.
// contract: R-26e, R-26f
#[tokio::test(start_paused = true)]
async fn lists_are_frequent_whatever_the_answer_to_each_watch_is() {
    let answers: [Option<fn() -> SourceError>; 13] = [
        None,
        Some(|| status(403, "Forbidden")),
        Some(|| status(405, "MethodNotAllowed")),
        Some(|| status(404, "NotFound")),
        Some(|| status(409, "Conflict")),
        Some(|| status(410, "Gone")),
        Some(|| status(413, "RequestEntityTooLarge")),
        Some(|| status(500, "InternalError")),
        Some(|| status(502, "Bad Gateway")),
        Some(|| status(503, "ServiceUnavailable")),
        Some(|| status(504, "Gateway Timeout")),
        Some(|| SourceError::other("redirected to https://login.example")),
        Some(|| SourceError::ListInsteadOfWatch { kind: "ItemList".to_owned() }),
    ];
    let mut failed = Vec::new();
    for (answer, is_in_stream) in answers.iter().flat_map(|answer| [(*answer, false), (*answer, true)]) {
        let (allowed, requests) = (AtomicBool::new(false), Mutex::default());
        let source = Arc::new(Unwatchable { answer, is_in_stream, allowed, requests });
        let reflector = Reflector::new("test", source.clone(), RecordingSink::new());
        let (handle, cancel) = (reflector.handle(), CancellationToken::new());
        let task = tokio::spawn(reflector.run(cancel.clone()));
        sleep(Duration::from_secs(3600)).await;
        let what = format!("{} in the stream: {is_in_stream}", handle.last_error().unwrap());
        let lists: Vec<_> =
            source.requests.lock().iter().filter(|(_, is_list)| *is_list).map(|r| r.0).collect();
        let longest = lists.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        if longest > 60 * SECOND || handle.not_watchable().is_none() {
            failed.push(format!(
                "{longest:?} without a list, not watchable: {}, after {what}",
                handle.metrics().not_watchable
            ));
        }
        let all: Vec<_> = source.requests.lock().iter().map(|request| request.0).collect();
        assert!(all.windows(31).all(|window| window[30] - window[0] > 60 * SECOND), "{what}");

        source.allowed.store(true, Ordering::Relaxed);
        sleep(60 * SECOND).await;
        assert!(handle.not_watchable().is_none() && handle.metrics().not_watchable == 0, "{what}");
        cancel.cancel();
        task.await.unwrap();
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
