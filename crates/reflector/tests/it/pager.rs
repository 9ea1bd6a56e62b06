//! The public pager. That of the reflector is the same: see `lists.rs`.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use futures::{FutureExt, StreamExt, TryStreamExt};
use kinformer_core::ObjectKey;
use kinformer_reflector::{
    ApiStatus, DecodeError, List, ListOptions, ListerWatcher, Pager, SourceError, VersionMatch,
};
use kinformer_testing::{FakeSource, Item, ScriptedSource};

/// A list of three pages with two, one and one objects.
fn three_pages() -> ScriptedSource<Item> {
    script()
        .list(list(7, &[("a", 1), ("b", 2)]).continue_token("two").remaining(2))
        .list(list(7, &[("c", 3)]).continue_token("three"))
        .list(list(7, &[("d", 4)]).continue_token(""))
}

const THREE_REQUESTS: [&str; 3] =
    ["list - limit 500", "list continue two limit 500", "list continue three limit 500"];

fn names(objects: &[Arc<Item>]) -> Vec<String> {
    objects.iter().map(|item| item.name.clone()).collect()
}

fn undecodable(name: &str, index: usize) -> DecodeError {
    DecodeError::new("damaged").key(ObjectKey::named(name).unwrap()).index(index)
}

/// Reads objects until the first error.
async fn read(pager: &Pager<Item>) -> (Vec<String>, Option<SourceError>) {
    let (mut objects, mut read) = (pager.objects(), Vec::new());
    while let Some(object) = objects.next().await {
        match object {
            Ok(object) => read.push(object),
            Err(error) => return (names(&read), Some(error)),
        }
    }
    (names(&read), None)
}

// contract: R-23a
#[tokio::test(start_paused = true)]
async fn objects_of_all_pages_are_delivered_once_and_in_order() {
    for ahead in [0, 1, 2, 10] {
        let source = Arc::new(three_pages());
        let pager = Pager::new(source.clone()).prefetch(ahead);
        let (objects, error) = read(&pager).await;
        assert_eq!((objects.join(" ").as_str(), error.is_none()), ("a b c d", true), "ahead: {ahead}");
        assert_eq!(source.texts(), THREE_REQUESTS);

        let source = Arc::new(three_pages());
        let merged = Pager::new(source.clone()).prefetch(ahead).list().await.unwrap();
        assert_eq!(names(&merged.objects).join(" "), "a b c d");
        assert_eq!((merged.resource_version, merged.continue_token), (7.into(), None));
        assert_eq!(source.texts(), THREE_REQUESTS);
    }
}

// contract: R-23a
#[tokio::test(start_paused = true)]
async fn request_has_the_page_size_and_version() {
    let source = Arc::new(script().list(list(7, &[])));
    let pager = Pager::new(source.clone()).page_size(20.try_into().unwrap());
    let pager = pager.at_version("7").version_match(VersionMatch::Exact);
    let pages: Vec<_> = pager.pages().try_collect().await.unwrap();
    assert_eq!(pages.len(), 1, "an empty list is one page");
    assert_eq!(source.texts(), ["list 7 Exact limit 20"]);
}

/// The page of the consumer and those requested ahead are the only ones in memory.
// contract: R-23b
#[tokio::test(start_paused = true)]
async fn at_most_the_prefetched_pages_are_requested() {
    for (ahead, requests) in [(0, 1), (1, 2), (2, 3), (10, 3)] {
        let source = Arc::new(three_pages());
        let mut pages = Pager::new(source.clone()).prefetch(ahead).pages();
        settle().await;
        assert_eq!(source.texts().len(), 0, "nothing is requested before the first poll");
        let first = pages.try_next().await.unwrap().unwrap();
        settle().await;
        assert_eq!(source.texts(), THREE_REQUESTS[..requests], "ahead: {ahead}");
        assert_eq!(names(&first.objects), ["a", "b"]);
        assert_eq!(pages.try_collect::<Vec<_>>().await.unwrap().len(), 2);
    }
}

/// A stream of objects requests the next page only after the last object of the one before, or ahead as pages do.
// contract: R-23b
#[tokio::test(start_paused = true)]
async fn objects_are_taken_before_the_next_page() {
    for (ahead, requests) in [(0, [1, 1, 2, 3]), (1, [2, 2, 3, 3]), (2, [3, 3, 3, 3])] {
        let source = Arc::new(three_pages());
        let mut objects = Pager::new(source.clone()).prefetch(ahead).objects();
        for (name, requests) in ["a", "b", "c", "d"].into_iter().zip(requests) {
            assert_eq!(objects.try_next().await.unwrap().unwrap().name, name);
            assert_eq!(source.texts().len(), requests, "ahead: {ahead}, at {name}");
        }
        assert!(objects.next().await.is_none());
        assert!(objects.next().await.is_none(), "the stream is fused");
    }
}

// contract: R-23c
#[tokio::test(start_paused = true)]
async fn expired_page_is_a_typed_error_after_delivered_pages() {
    for ahead in [0, 1, 10] {
        let source = script().list(list(7, &[("a", 1)]).continue_token("two")).list_error(expired());
        let (objects, error) = read(&Pager::new(source).prefetch(ahead)).await;
        assert_eq!(objects, ["a"]);
        let error = error.unwrap();
        assert!(error.is_expired());
        assert!(
            matches!(&error, SourceError::PageExpired { page: 2, source } if source.is_expired()),
            "{error}"
        );
    }
}

/// The first page has no token: its error is that of the version, and nothing was delivered.
// contract: R-23c
#[tokio::test(start_paused = true)]
async fn expired_first_page_is_the_error_of_the_request() {
    let source = Arc::new(script().list_error(expired()));
    let (objects, error) = read(&Pager::new(source.clone()).at_version(3)).await;
    assert!(objects.is_empty());
    assert!(matches!(error, Some(SourceError::Status(_))));
    let source = Arc::new(script().list_error(expired()));
    let error = Pager::new(source.clone()).at_version(3).list().await.unwrap_err();
    assert!(matches!(error, SourceError::Status(_)));
    assert_eq!(source.texts(), ["list 3 limit 500"], "a list in one piece would fail as well");
}

// contract: R-23d
#[tokio::test(start_paused = true)]
async fn list_falls_back_to_one_piece() {
    let two = || script().list(list(7, &[("a", 1)]).continue_token("two"));
    for source in [two().list_error(expired()), two().list(list(8, &[("b", 2)]))] {
        let source = Arc::new(source.list(list(9, &[("a", 1), ("b", 8)])));
        let merged = Pager::new(source.clone()).list().await.unwrap();
        assert_eq!((names(&merged.objects).join(" "), merged.resource_version), ("a b".to_owned(), 9.into()));
        assert_eq!(source.texts(), ["list - limit 500", "list continue two limit 500", "list -"]);
    }
    // If the list in one piece has pages and expires again, the error is that of the request.
    let again = two().list_error(expired()).list(list(9, &[("a", 1)]).continue_token("more"));
    let error = Pager::new(again.list_error(expired())).list().await.unwrap_err();
    assert!(matches!(error, SourceError::Status(_)), "{error}");
}

// contract: R-23e
#[tokio::test(start_paused = true)]
async fn pages_that_are_not_one_list_are_an_error() {
    let two = || script().list(list(7, &[("a", 1)]).continue_token("two"));
    let (objects, error) = read(&Pager::new(two().list(list(8, &[("b", 2)])))).await;
    assert_eq!(objects, ["a"]);
    assert!(matches!(error, Some(SourceError::PagesDiffer { page: 2, .. })), "{error:?}");
    let (objects, error) = read(&Pager::new(two().list(list(7, &[("a", 1)])))).await;
    assert_eq!(objects, ["a"]);
    assert!(matches!(error, Some(SourceError::EndlessList { pages: 2, .. })), "{error:?}");
}

/// The list would begin again otherwise, and the more pages it has, the less likely would be its end.
// contract: R-23h, R-23i
#[tokio::test(start_paused = true)]
async fn page_is_requested_again() {
    let busy = |seconds| {
        let status = ApiStatus::new(429, "TooManyRequests", "busy").retry_after(Duration::from_secs(seconds));
        SourceError::Status(Box::new(status))
    };
    let two = || script().list(list(7, &[("a", 1)]).continue_token("two"));
    let rest = || list(7, &[("b", 2)]);
    let outcome = async |source: ScriptedSource<Item>| {
        let source = Arc::new(source);
        let listed = Pager::new(source.clone()).list().await;
        let listed = listed.map(|list| names(&list.objects).join(" ")).map_err(|error| error.to_string());
        (listed, source.texts().len())
    };
    let full = || SourceError::Status(Box::new(ApiStatus::new(500, "", "full")));
    let thrice = two().list_error(broken()).list_error(busy(30)).list_error(full()).list(rest());
    assert_eq!(outcome(thrice).await, (Ok("a b".to_owned()), 5));
    let five_times = (0..5).fold(two(), |source, _| source.list_error(broken()));
    assert_eq!(outcome(five_times.list(rest())).await, (Ok("a b".to_owned()), 7));
    let too_often = (0..11).fold(two(), |source, _| source.list_error(broken()));
    let corrupt = || SourceError::Status(Box::new(ApiStatus::new(500, "StoreReadError", "corrupt")));
    for (source, part, most) in [
        (too_often.list(rest()), "reset by peer", 12),
        (two().list_error(busy(u64::MAX)).list(rest()), "busy", 2),
        (two().list_error(corrupt()).list(rest()), "corrupt", 2),
    ] {
        let (listed, requests) = outcome(source).await;
        assert!(listed.unwrap_err().contains(part) && requests <= most, "{part}: {requests}");
    }
    // The first page is requested again by the loop of the reflector, or by the caller.
    assert!(matches!(outcome(script().list_error(broken()).list(rest())).await, (Err(_), 1)));
}

/// Any other error ends the stream, too, without another request.
// contract: R-23e
#[tokio::test(start_paused = true)]
async fn failed_request_ends_the_stream() {
    for ahead in [0, 2] {
        let two = || script().list(list(7, &[("a", 1)]).continue_token("two"));
        for (source, part) in [
            (two().list_error(SourceError::Status(Box::new(ApiStatus::new(403, "Forbidden", "no")))), "no"),
            (two().panic(), "list panicked"),
            (two().hang(), "no answer within 60s"),
        ] {
            let source = Arc::new(source);
            let pager = Pager::new(source.clone()).prefetch(ahead).page_timeout(60 * SECOND);
            let mut pages = pager.pages();
            assert!(pages.next().await.unwrap().is_ok());
            let error = pages.next().await.unwrap().unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert!(pages.next().await.is_none());
            assert_eq!(source.texts().len(), 2);
        }
    }
}

/// Indexes are those in the page.
// contract: R-23f
#[tokio::test(start_paused = true)]
async fn undecodable_object_is_an_error_and_the_stream_continues() {
    let source = || {
        script()
            .list(list(7, &[("a", 1)]).undecodable([undecodable("x", 0)]).continue_token("two"))
            .list(list(7, &[("b", 2)]).undecodable([undecodable("y", 1)]))
    };
    let read: Vec<_> = Pager::new(source()).objects().collect().await;
    let text = |object: &Result<Arc<Item>, SourceError>| match object {
        Ok(object) => object.name.clone(),
        Err(SourceError::Undecodable(error)) => format!("{:?}", error.index),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(read.iter().map(text).collect::<Vec<_>>(), ["a", "Some(0)", "b", "Some(1)"]);
    let merged = Pager::new(source()).list().await.unwrap();
    let indexes: Vec<_> = merged.undecodable.iter().map(|error| error.index).collect();
    assert_eq!(indexes, [Some(0), Some(1)]);
}

/// A source that sends one page and does not answer the request for the next. The reference is held by that request.
struct Unanswered(Arc<()>);

#[async_trait::async_trait]
impl ListerWatcher<Item> for Unanswered {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        if options.continue_token.is_none() {
            return Ok(list(7, &[("a", 1)]).continue_token("two"));
        }
        let _request = self.0.clone();
        std::future::pending().await
    }
}

// contract: R-23g
#[tokio::test(start_paused = true)]
async fn dropping_the_stream_ends_its_request() {
    for ahead in [0, 1] {
        let requests = Arc::new(());
        let pager = Pager::new(Unanswered(requests.clone())).prefetch(ahead);
        let mut objects = pager.objects();
        assert!(objects.next().await.unwrap().is_ok());
        assert!(objects.next().now_or_never().is_none());
        assert_eq!(Arc::strong_count(&requests), 3, "the request is under way");
        drop(objects);
        assert_eq!(Arc::strong_count(&requests), 2);
    }
}

/// A source with history: the token of its pages expires when it is compacted.
// contract: R-23a, R-23c
#[tokio::test(start_paused = true)]
async fn live_source_is_read_in_pages() {
    let source = FakeSource::new();
    for number in 0..25_u64 {
        source.apply(Item::of(&format!("default/{number:02}"), 0, number));
    }
    let pager = Pager::new(source.clone()).page_size(10.try_into().unwrap());
    let values = pager.objects().map_ok(|item| item.value).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(values, (0..25).collect::<Vec<_>>());
    assert_eq!(source.requests().0, 3);
    assert_eq!(pager.list().await.unwrap().objects.len(), 25);

    let mut pages = pager.pages();
    assert!(pages.next().await.unwrap().is_ok());
    source.apply(Item::of("default/25", 0, 25));
    source.compact();
    assert!(matches!(pages.next().await, Some(Err(SourceError::PageExpired { page: 2, .. }))));
}
