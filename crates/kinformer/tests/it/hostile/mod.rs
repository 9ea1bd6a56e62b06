//! Faulty servers, each a row of the table in `docs/reliability.md`: the objects in an informer's store, the events of
//! its handlers, the reported errors, and the rate of requests.

mod follow;
mod pods;

use std::sync::Arc;
use std::time::Duration;

use follow::{follow, follow_built, follow_with, state};
use k8s_openapi::api::core::v1::Pod;
use kinformer::{KubeListerWatcher, PackedObject};
use kinformer_kube::DecodeAs;
use kinformer_testing::scripted_http::{Answer, Request};
use pods::{answer_list, bookmark, damaged, event, list, pod};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the answer of a server without watch-lists if this is a watch-list.
fn without_watch_list(request: &Request) -> Option<Answer> {
    request.is_watch_list().then(|| Answer::failure(422, "Invalid"))
}

/// A server without watch-lists: `lists` answers lists, `watches` watches.
fn server(
    mut lists: impl FnMut(&Request) -> Answer + Send + 'static,
    mut watches: impl FnMut(&Request) -> Answer + Send + 'static,
) -> impl FnMut(&Request) -> Answer + Send + 'static {
    let mut refused = 0;
    move |request| {
        if let Some(refusal) = without_watch_list(request) {
            refused += 1;
            return refusal;
        }
        let mut request = request.clone();
        if request.is_watch() {
            request.number -= refused;
            return watches(&request);
        }
        lists(&request)
    }
}

fn silent_watch() -> Answer {
    Answer::watch([]).then_hang()
}

/// The server answers every request with 410.
// contract: R-21a
#[tokio::test(start_paused = true)]
async fn every_request_is_expired() {
    let run = follow(2 * MINUTE, || |_: &Request| Answer::failure(410, "Expired")).await;
    run.assert_request_limit().assert_reported("410");
    assert!(!run.synced && run.events.is_empty());
}

/// Each watch delivers the same old object and ends.
#[tokio::test(start_paused = true)]
async fn each_watch_repeats_an_old_event() {
    let old = || Answer::watch([event("ADDED", pod("a", 5, "x"))]);
    let run =
        follow(2 * MINUTE, || server(|_| answer_list("10", vec![pod("a", 5, "x")]), move |_| old())).await;
    run.assert_request_limit();
    assert_eq!(run.events, ["add a@5=x"]);
    assert_eq!(run.store, state(&[("a", 5, "x")]));
}

/// Each watch delivers one newer bookmark and ends.
#[tokio::test(start_paused = true)]
async fn each_watch_ends_after_a_bookmark() {
    let run = follow(2 * MINUTE, || {
        let mut version = 10;
        let next = move |_: &Request| {
            version += 1;
            Answer::watch([bookmark(&version.to_string())])
        };
        server(|_| answer_list("10", vec![pod("a", 5, "x")]), next)
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.events, ["add a@5=x"]);
}

/// Objects without versions: each watch delivers one event and ends.
#[tokio::test(start_paused = true)]
async fn each_watch_ends_after_an_unversioned_event() {
    let without = |mut pod: Value| {
        pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        pod
    };
    let script = server(
        move |_| answer_list("", vec![without(pod("a", 5, "x"))]),
        move |_| Answer::watch([event("ADDED", without(pod("a", 5, "x")))]),
    );
    // The number of requests is random, and so is the number of repeated events.
    let run = follow_with(2 * MINUTE, script, KubeListerWatcher::packed::<Pod>).await;
    run.assert_request_limit();
}

/// Each watch is empty and ends at once.
#[tokio::test(start_paused = true)]
async fn empty_watches() {
    let run =
        follow(5 * MINUTE, || server(|_| answer_list("10", vec![pod("a", 5, "x")]), |_| Answer::watch([])))
            .await;
    run.assert_request_limit().assert_reported("very short watch");
    assert_eq!(run.events, ["add a@5=x"]);
}

/// Three lines of a watch are damaged. A later watch from version 10 receives all of them undamaged.
#[tokio::test(start_paused = true)]
async fn damaged_lines() {
    let run = follow(2 * MINUTE, || {
        let lines = || {
            vec![
                event("MODIFIED", pod("a", 11, "y")),
                event("ADDED", pod("c", 12, "x")),
                event("DELETED", pod("b", 13, "x")),
                event("ADDED", pod("d", 14, "x")),
            ]
        };
        server(
            |request| match request.number {
                0 => answer_list("10", vec![pod("a", 5, "x"), pod("b", 6, "x")]),
                _ => answer_list("14", vec![pod("a", 11, "y"), pod("c", 12, "x"), pod("d", 14, "x")]),
            },
            move |watch| match watch.number {
                0 => Answer::watch(
                    lines()
                        .into_iter()
                        .enumerate()
                        .map(|(index, line)| if index < 3 { damaged(&line) } else { line }),
                ),
                _ if watch.version() == "10" => Answer::watch(lines()).then_hang(),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.store, state(&[("a", 11, "y"), ("c", 12, "x"), ("d", 14, "x")]));
    assert_eq!(
        run.events,
        ["add a@5=x", "add b@6=x", "update a@11=y", "add c@12=x", "delete b", "add d@14=x"]
    );
}

/// A line is damaged each time. After the second time at one version, the reflector lists.
#[tokio::test(start_paused = true)]
async fn line_that_stays_damaged() {
    let run = follow(2 * MINUTE, || {
        server(
            |request| match request.number {
                0 => answer_list("10", vec![pod("a", 5, "x")]),
                _ => answer_list("12", vec![pod("a", 11, "y")]),
            },
            |watch| match watch.version() {
                "10" => Answer::watch([damaged(&event("MODIFIED", pod("a", 11, "y")))]).then_hang(),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.events, ["add a@5=x", "update a@11=y"]);
    assert_eq!(run.requests.iter().filter(|r| r.is_watch() && r.version() == "10").count(), 2);
}

/// The name of an object in a second list cannot be read.
#[tokio::test(start_paused = true)]
async fn unidentified_item_of_a_relist() {
    let run = follow(5 * MINUTE, || {
        server(
            |request| match request.number {
                0 => answer_list("10", vec![pod("a", 5, "x"), pod("b", 6, "x"), pod("c", 7, "x")]),
                1 | 2 => {
                    let mut nameless = pod("b", 6, "x");
                    nameless["metadata"]["name"] = json!(7);
                    answer_list("20", vec![pod("a", 15, "y"), nameless])
                }
                _ => answer_list("20", vec![pod("a", 15, "y"), pod("b", 6, "x")]),
            },
            |watch| match watch.number {
                0 => Answer::watch([]).then_after(Duration::from_secs(2), [event("ERROR", expired_status())]),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit();
    // Only a complete list proves a deletion.
    assert_eq!(run.events, ["add a@5=x", "add b@6=x", "add c@7=x", "update a@15=y", "delete c"]);
    assert_eq!(run.store, state(&[("a", 15, "y"), ("b", 6, "x")]));
}

fn expired_status() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410})
}

/// Follows a server that gives this answer to the second list.
async fn second_list(answer: fn() -> Answer) -> follow::Followed {
    follow(2 * MINUTE, move || with_second_list(answer)).await
}

fn with_second_list(answer: fn() -> Answer) -> impl FnMut(&Request) -> Answer + Send + 'static {
    server(
        move |request| match request.number {
            0 => answer_list("10", vec![pod("a", 5, "x"), pod("b", 6, "x")]),
            1 => answer(),
            _ => answer_list("30", vec![pod("a", 25, "z"), pod("b", 6, "x")]),
        },
        |watch| match watch.number {
            0 => Answer::watch([]).then_after(Duration::from_secs(2), [event("ERROR", expired_status())]),
            _ => silent_watch(),
        },
    )
}

/// A list of another kind.
#[tokio::test(start_paused = true)]
async fn list_of_another_kind() {
    let run = second_list(|| {
        let mut services = list("20", vec![pod("svc", 15, "x")]);
        services["kind"] = json!("ServiceList");
        Answer::json(&services)
    })
    .await;
    run.assert_request_limit().assert_reported("ServiceList");
    assert_eq!(run.events, ["add a@5=x", "add b@6=x", "update a@25=z"]);
}

/// `{"items":[]}`, with neither kind nor version.
#[tokio::test(start_paused = true)]
async fn list_without_kind_and_version() {
    let run = second_list(|| Answer::json(&json!({"items": []}))).await;
    run.assert_request_limit();
    assert_eq!(run.events, ["add a@5=x", "add b@6=x", "update a@25=z"]);
}

/// A list is answered with a page of a proxy and 200.
#[tokio::test(start_paused = true)]
async fn proxy_page_instead_of_a_list() {
    let run = second_list(|| Answer::new(200, "text/html", "<html>log in</html>")).await;
    run.assert_request_limit().assert_reported("<html>log in");
    assert_eq!(run.events, ["add a@5=x", "add b@6=x", "update a@25=z"]);
}

/// A watch is answered with a page of a proxy: one error for each answer, and none for each line.
#[tokio::test(start_paused = true)]
async fn proxy_page_instead_of_a_watch() {
    let page = || Answer::new(200, "text/html", "<p>\n".repeat(53));
    let run =
        follow(2 * MINUTE, || server(|_| answer_list("10", vec![pod("a", 5, "x")]), move |_| page())).await;
    run.assert_request_limit();
    let answers = run.requests.len();
    assert!(run.errors.len() <= answers, "{} errors for {answers} answers", run.errors.len());
}

/// One version is absurd, and the server sends nothing to watches that start there.
#[tokio::test(start_paused = true)]
async fn one_absurd_version() {
    let run = follow(10 * MINUTE, || {
        server(
            |request| match request.number {
                0 => answer_list("10", vec![pod("a", 5, "x")]),
                _ => answer_list("13", vec![pod("a", 11, "y"), pod("b", 12, "x"), pod("c", 13, "x")]),
            },
            |watch| match watch.version() {
                "10" => Answer::watch([
                    event("MODIFIED", pod("a", 99_999_999_999, "y")),
                    event("ADDED", pod("b", 12, "x")),
                ]),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.store, state(&[("a", 11, "y"), ("b", 12, "x"), ("c", 13, "x")]));
    assert_eq!(run.events.last().map(String::as_str), Some("add c@13=x"));
}

/// The server was restored from a backup: it is at version 15, and sends nothing below the version at which a watch
/// starts.
#[tokio::test(start_paused = true)]
async fn restored_server() {
    let run = follow(10 * MINUTE, || {
        server(
            |request| match request.number {
                0 => answer_list("20", vec![pod("a", 18, "y"), pod("b", 19, "x")]),
                _ => answer_list("15", vec![pod("a", 5, "x")]),
            },
            |watch| match watch.number {
                0 => Answer::watch([]).then_after(Duration::from_secs(30), []).then_break(),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.store, state(&[("a", 5, "x")]));
    assert_eq!(run.events[2..].iter().filter(|event| *event == "delete b").count(), 1);
    assert!(run.events.contains(&"update a@5=x".to_owned()));
}

/// A bookmark is below the version at which the watch started.
#[tokio::test(start_paused = true)]
async fn bookmark_that_goes_back() {
    let run = follow(5 * MINUTE, || {
        server(
            |request| match request.number {
                0 => answer_list("20", vec![pod("a", 18, "y")]),
                _ => answer_list("15", vec![pod("a", 5, "x")]),
            },
            |watch| match watch.number {
                0 => Answer::watch([bookmark("15")]).then_hang(),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.store, state(&[("a", 5, "x")]));
}

/// A relist contains an object at its known version with other content. The bytes are compared, whenever objects are
/// decoded.
// contract: I-14a, I-14f
#[tokio::test(start_paused = true)]
async fn same_version_with_other_content() {
    let healed = || answer_list("20", vec![pod("a", 5, "healed"), pod("b", 6, "x")]);
    let decode = |object: &Arc<PackedObject>| {
        object.keep_decoded(DecodeAs::of::<Pod>()).unwrap();
        true
    };
    let (script, packed) = (with_second_list(healed), KubeListerWatcher::packed::<Pod>);
    for run in [
        follow_with(2 * MINUTE, with_second_list(healed), KubeListerWatcher::packed::<Pod>).await,
        follow_built(2 * MINUTE, script, packed, |builder| builder.on_arrival(decode)).await,
    ] {
        run.assert_request_limit();
        assert_eq!(run.events, ["add a@5=x", "add b@6=x", "update a@5=healed"]);
    }
}

/// An object of another kind, and an event of an unknown type.
#[tokio::test(start_paused = true)]
async fn unexpected_events() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default", "resourceVersion": "11"}});
    let run = follow(2 * MINUTE, || {
        let service = service.clone();
        server(
            |request| match request.number {
                0 => answer_list("10", vec![pod("a", 5, "x")]),
                _ => answer_list("13", vec![pod("a", 13, "y")]),
            },
            move |watch| match watch.number {
                0 => Answer::watch([
                    event("ADDED", service.clone()),
                    event("RENAMED", pod("a", 12, "x")),
                    event("MODIFIED", pod("a", 13, "y")),
                ])
                .then_hang(),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit().assert_reported("Service").assert_reported("RENAMED");
    assert_eq!(run.events, ["add a@5=x", "update a@13=y"]);
    assert_eq!(run.requests.iter().filter(|r| r.is_watch() && !r.is_watch_list()).count(), 1);
}

/// MODIFIED before ADDED, ADDED twice, an older MODIFIED, DELETED of an unknown object.
#[tokio::test(start_paused = true)]
async fn events_out_of_order() {
    let run = follow(MINUTE, || {
        server(
            |_| answer_list("10", vec![]),
            |watch| match watch.number {
                0 => Answer::watch([
                    event("MODIFIED", pod("a", 11, "x")),
                    event("ADDED", pod("a", 12, "y")),
                    event("ADDED", pod("a", 14, "z")),
                    event("MODIFIED", pod("a", 13, "late")),
                    event("DELETED", pod("never", 15, "x")),
                ])
                .then_hang(),
                _ => silent_watch(),
            },
        )
    })
    .await;
    assert_eq!(run.events, ["add a@11=x", "update a@12=y", "update a@14=z", "update a@13=late"]);
}

/// A list contains one key twice.
#[tokio::test(start_paused = true)]
async fn duplicate_key_in_a_list() {
    let run = follow(MINUTE, || {
        server(|_| answer_list("10", vec![pod("a", 5, "x"), pod("a", 6, "y")]), |_| silent_watch())
    })
    .await;
    run.assert_reported("default/a");
    assert_eq!(run.events, ["add a@6=y"]);
}

/// 429 with `Retry-After`: the delay is at least this time, and at most ten minutes plus jitter. Without a valid time,
/// the backoff applies.
#[tokio::test(start_paused = true)]
async fn too_many_requests() {
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    for (retry_after, least, most) in [("5", 5, 61), ("999999999", 600, 1300), ("-5", 0, 60), (date, 0, 60)] {
        let run = follow(65 * MINUTE, || {
            server(
                |_| answer_list("10", vec![pod("a", 5, "x")]),
                move |_| Answer::failure(429, "TooManyRequests").header("retry-after", retry_after),
            )
        })
        .await;
        run.assert_request_limit();
        let intervals = &run.intervals()[2..];
        assert!(!intervals.is_empty());
        for interval in intervals {
            assert!((least..=most).contains(&interval.as_secs()), "{retry_after}: {interval:?}");
        }
        assert!(
            run.requests.iter().filter(|r| !r.is_watch() && !r.is_probe()).count() == 1,
            "{retry_after}: a relist"
        );
    }
}

/// The server answers each watch with 500.
#[tokio::test(start_paused = true)]
async fn internal_errors() {
    let run = follow(10 * MINUTE, || {
        server(|_| answer_list("10", vec![pod("a", 5, "x")]), |_| Answer::failure(500, "InternalError"))
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.events, ["add a@5=x"]);
    // A delay of 30 s at most, and jitter.
    assert!(run.requests.len() >= 10, "it continues to retry: {:?}", run.requests.len());
}

/// A kind that does not exist yet, is created, deleted, and created again.
#[tokio::test(start_paused = true)]
async fn kind_that_is_deleted_and_recreated() {
    let run = follow(10 * MINUTE, || {
        server(
            |request| match request.number {
                0 | 1 | 3 | 4 => Answer::failure(404, "NotFound"),
                2 => answer_list("10", vec![pod("a", 5, "x")]),
                _ => answer_list("20", vec![pod("b", 15, "x")]),
            },
            |watch| match watch.number {
                0 => Answer::watch([]).then_after(Duration::from_secs(5), []),
                1 => Answer::failure(404, "NotFound"),
                _ => silent_watch(),
            },
        )
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.events, ["add a@5=x", "delete a", "add b@15=x"]);
}

/// The server accepts requests and never answers them.
#[tokio::test(start_paused = true)]
async fn no_answers() {
    let run = follow(5 * MINUTE, || |_: &Request| Answer::never()).await;
    run.assert_request_limit().assert_reported("no answer within 30s");
    assert!(run.requests.len() >= 3);
}

/// The connection breaks in the middle of a list.
#[tokio::test(start_paused = true)]
async fn list_that_breaks() {
    let run = follow(2 * MINUTE, || {
        server(
            |request| {
                let full = list("10", vec![pod("a", 5, "x"), pod("b", 6, "x")]).to_string();
                match request.number {
                    number @ 0..=2 => {
                        let end = full.len() * (number + 1) / 4;
                        Answer::new(200, "application/json", full[..end].to_owned()).then_break()
                    }
                    3 => Answer::new(200, "application/json", full[..full.len() - 2].to_owned()),
                    _ => Answer::new(200, "application/json", full),
                }
            },
            |_| silent_watch(),
        )
    })
    .await;
    run.assert_request_limit();
    assert_eq!(run.events, ["add a@5=x", "add b@6=x"]);
    assert_eq!(run.requests.iter().filter(|r| !r.is_watch() && !r.is_probe()).count(), 5);
}

/// New continue tokens without end.
// contract: R-21b
#[tokio::test(start_paused = true)]
async fn pages_without_end() {
    let run = follow(Duration::from_secs(1), || {
        server(
            |request| {
                let mut page = list("10", vec![pod(&format!("p{}", request.number), 5, "x")]);
                page["metadata"]["continue"] = json!(format!("token-{}", request.number));
                Answer::json(&page)
            },
            |_| silent_watch(),
        )
    })
    .await;
    run.assert_request_limit().assert_reported("10000 pages");
    assert!(run.store.is_empty() && !run.synced);
}

/// The second page has expired, and the list in its place is paged as well.
#[tokio::test(start_paused = true)]
async fn expired_page_and_a_paged_list_in_its_place() {
    let run = follow(2 * MINUTE, || {
        server(
            |request| {
                let mut first = list("10", vec![pod("a", 5, "x"), pod("b", 6, "x")]);
                match (request.limit(), request.continue_token()) {
                    (Some(_), Some("old")) => Answer::failure(410, "Expired"),
                    (_, Some("new")) => answer_list("10", vec![pod("c", 7, "x"), pod("d", 8, "x")]),
                    (limit, _) => {
                        first["metadata"]["continue"] = json!(if limit.is_some() { "old" } else { "new" });
                        Answer::json(&first)
                    }
                }
            },
            |_| silent_watch(),
        )
    })
    .await;
    run.assert_request_limit();
    let all = state(&[("a", 5, "x"), ("b", 6, "x"), ("c", 7, "x"), ("d", 8, "x")]);
    assert!(run.store == all || !run.synced && !run.errors.is_empty(), "{:?}", run.store);
}

/// An object without a name, or with an invalid name, may be any object.
#[tokio::test(start_paused = true)]
async fn objects_without_a_name() {
    for name in [None, Some(""), Some("a/b")] {
        let run = follow(2 * MINUTE, move || {
            let mut nameless = pod("b", 11, "x");
            match name {
                Some(name) => nameless["metadata"]["name"] = json!(name),
                None => drop(nameless["metadata"].as_object_mut().unwrap().remove("name")),
            }
            server(
                |request| match request.number {
                    0 => answer_list("10", vec![pod("a", 5, "x")]),
                    _ => answer_list("12", vec![pod("a", 12, "y")]),
                },
                move |watch| match watch.version() {
                    "10" => Answer::watch([
                        event("ADDED", nameless.clone()),
                        event("MODIFIED", pod("a", 12, "z")),
                    ]),
                    _ => silent_watch(),
                },
            )
        })
        .await;
        run.assert_request_limit();
        assert_eq!(run.events, ["add a@5=x", "update a@12=y"], "{name:?}");
    }
}

/// A bookmark without a version changes nothing.
#[tokio::test(start_paused = true)]
async fn bookmark_without_a_version() {
    let run = follow(MINUTE, || {
        server(
            |_| answer_list("10", vec![pod("a", 5, "x")]),
            |watch| match watch.number {
                0 => Answer::watch([bookmark(""), event("MODIFIED", pod("a", 11, "y"))]).then_hang(),
                _ => silent_watch(),
            },
        )
    })
    .await;
    assert_eq!(run.events, ["add a@5=x", "update a@11=y"]);
    assert_eq!(
        run.requests.iter().filter(|request| request.is_watch() && !request.is_watch_list()).count(),
        1
    );
}

/// Very many events at once.
#[tokio::test(start_paused = true)]
async fn flood_of_events() {
    const EVENTS: u64 = 20_000;
    let run = follow_with(
        MINUTE,
        server(
            |_| answer_list("10", vec![pod("p0", 5, "x")]),
            |watch| match watch.number {
                0 => Answer::watch((1..=EVENTS).map(|number| {
                    let event_type = if number < 100 { "ADDED" } else { "MODIFIED" };
                    event(event_type, pod(&format!("p{}", number % 100), 10 + number, &number.to_string()))
                }))
                .then_hang(),
                _ => silent_watch(),
            },
        ),
        KubeListerWatcher::packed::<Pod>,
    )
    .await;
    assert_eq!(run.store.len(), 100);
    for (name, (version, value)) in &run.store {
        let last = version.parse::<u64>().unwrap() - 10;
        assert!(last > EVENTS - 100 && *value == last.to_string() && *name == format!("p{}", last % 100));
    }
    assert_eq!(run.events.len() as u64, EVENTS + 1);
}

/// After an outage of three seconds, the informers reconnect at random times.
#[tokio::test(start_paused = true)]
async fn informers_reconnect_at_random_times() {
    const INFORMERS: usize = 200;
    let began = tokio::time::Instant::now();
    let away = Duration::from_secs(20)..Duration::from_secs(23);
    let runs = (0..INFORMERS).map(|_| {
        let away = away.clone();
        let script = server(
            |_| answer_list("10", vec![pod("a", 5, "x")]),
            move |watch| match began.elapsed() {
                now if now < away.start => Answer::watch([]).then_after(away.start - now, []).then_break(),
                now if away.contains(&now) => Answer::failure(503, "ServiceUnavailable"),
                _ => Answer::watch([event("MODIFIED", pod("a", 11, &watch.number.to_string()))]).then_hang(),
            },
        );
        follow_with(MINUTE, script, KubeListerWatcher::packed::<Pod>)
    });
    let runs = futures::future::join_all(runs).await;
    let mut requests: Vec<_> =
        runs.iter().flat_map(|run| run.requests.iter().map(|request| request.at)).collect();
    requests.retain(|at| *at >= away.start);
    requests.sort();
    let window = Duration::from_millis(250);
    let busiest = requests
        .iter()
        .map(|from| requests.iter().filter(|at| (*from..*from + window).contains(*at)).count());
    let busiest = busiest.max().unwrap();
    // Without random delays, they are those of all informers. Some are questions for the newest version.
    assert!(busiest < INFORMERS * 2 / 3, "{busiest} of {} requests in {window:?}", requests.len());
    for run in &runs {
        run.assert_request_limit();
        assert_eq!(run.store["a"].0, "11");
    }
}

/// Each row of the table in `docs/reliability.md` names a test that exists, and each test of this file is in a row.
#[test]
fn each_row_of_the_table_is_a_test() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let table = read("docs/reliability.md");
    let here = "crates/kinformer/tests/it/hostile/mod.rs";
    let mut named = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| the server")) {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let mut quoted = cell.split('`').skip(1).step_by(2);
        let test = quoted.next().unwrap_or_else(|| panic!("no test in {row}"));
        let file = quoted.next().unwrap_or(here);
        assert!(read(file).contains(&format!("fn {test}(")), "{test} is not in {file}");
        named.push(test);
    }
    assert!(named.len() > 30, "{}", named.len());
    for test in read(here).split("\nasync fn ").skip(1).filter_map(|rest| rest.split('(').next()) {
        assert!(test == "second_list" || named.contains(&test), "{test} is in no row");
    }
}
