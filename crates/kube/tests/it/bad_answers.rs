//! Responses that are not from a Kubernetes API: typed errors, and nothing hangs.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kinformer_kube::{FieldPath, KubeListerWatcher, ManagedFields, client};
use kinformer_reflector::{ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions};
use kube_client::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A source whose server responds to every request with these bytes, then closes the connection or sends nothing more.
async fn answering(answer: &'static [u8], close: bool) -> KubeListerWatcher<Pod> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer).await;
                if !close {
                    // Reads until the client hangs up.
                    while stream.read(&mut request).await.is_ok_and(|n| n > 0) {}
                }
            });
        }
    });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    KubeListerWatcher::new(client(config).unwrap()).idle_timeout(Duration::from_millis(300))
}

async fn list(answer: &'static [u8], close: bool) -> SourceError {
    let source = answering(answer, close).await;
    tokio::time::timeout(Duration::from_secs(30), source.list(ListOptions::at_version("")))
        .await
        .unwrap()
        .unwrap_err()
}

/// A complete response.
fn http(status: &str, body: &str) -> &'static [u8] {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).leak().as_bytes()
}

fn assert_message(error: &SourceError, text: &str) {
    assert!(error.to_string().contains(text), "{error}");
}

#[tokio::test]
async fn html_response_of_a_proxy() {
    let error =
        list(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 20\r\n\r\n<html>go away</html>", true).await;
    assert_message(&error, "502");
    assert_message(&error, "<html>go away");
    let error = list(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n<html>welcome</html>", true).await;
    assert!(matches!(error, SourceError::Decode { .. }), "{error:?}");
    assert_message(&error, "<html>welcome");
}

/// An error response whose body is empty or not UTF-8 is reported with its status code.
#[tokio::test]
async fn error_body_that_is_not_text() {
    let error =
        list(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\n\xff\xfe\x00\x80", true).await;
    assert_message(&error, "500");
    let error = list(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", true).await;
    assert_message(&error, "403");
}

// contract: L-10
#[tokio::test]
async fn status_keeps_code_reason_and_retry_after() {
    let body =
        r#"{"kind":"Status","status":"Failure","message":"slow down","reason":"TooManyRequests","code":429}"#;
    let answer = http("429 Too Many Requests\r\nretry-after: 7", body);
    match list(answer, true).await {
        SourceError::Status(status) => {
            assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
            assert_eq!(status.retry_after, Some(Duration::from_secs(7)));
        }
        other => panic!("{other:?}"),
    }
}

/// An error response is a `Status` without its kind too, if it has a code and a reason.
// contract: L-42b
#[tokio::test]
async fn status_without_kind_is_identified_by_code_and_reason() {
    for kind in ["", r#""kind":"","#, r#""kind":null,"#] {
        let body = format!(r#"{{{kind}"message":"no room","reason":"Expired","code":410}}"#);
        match list(http("400 Bad Request", &body), true).await {
            SourceError::Status(status) => {
                assert_eq!((status.code, status.message.as_str()), (410, "no room"), "{body}");
            }
            other => panic!("{other:?}"),
        }
    }
    let error = list(http("400 Bad Request", r#"{"message":"no room","reason":"Expired"}"#), true).await;
    assert_message(&error, "not a response of a Kubernetes API");
}

/// A list that ends early is a transport error; a list that never ends or never starts is a timeout.
#[tokio::test]
async fn truncated_or_missing_list() {
    let truncated = list(
        b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"kind\":\"PodList\",\"items\":[{\"metad",
        true,
    )
    .await;
    assert!(matches!(truncated, SourceError::Transport { .. }), "{truncated:?}");
    let short = list(
        b"HTTP/1.1 200 OK\r\ncontent-length: 36\r\n\r\n{\"kind\":\"PodList\",\"items\":[{\"metadat",
        true,
    )
    .await;
    assert!(matches!(short, SourceError::Transport { .. }), "{short:?}");
    let silent =
        list(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"kind\":\"PodList\",\"items\":[", false).await;
    assert!(matches!(silent, SourceError::Timeout { .. }), "{silent:?}");
    let nothing = list(b"", false).await;
    assert!(matches!(nothing, SourceError::Timeout { .. }), "{nothing:?}");
}

// contract: L-07c
#[tokio::test]
async fn table_is_refused_as_list() {
    for body in [r#"{"kind":"Table","rows":[1]}"#, r#"{"kind":"Table","metadata":{},"items":[]}"#] {
        let error = list(http("200 OK", body), true).await;
        assert!(matches!(error, SourceError::Decode { .. } | SourceError::WrongList { .. }), "{error:?}");
        assert_message(&error, "Table");
    }
}

#[tokio::test]
async fn connection_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let source = KubeListerWatcher::<Pod>::new(client(config).unwrap());
    let error = source.list(ListOptions::at_version("")).await.unwrap_err();
    assert!(matches!(error, SourceError::ConnectionRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn managed_fields_are_dropped_by_default() {
    let body = r#"{"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"a","managedFields":[{"manager":"kubelet"}]}}]}"#;
    let source = answering(http("200 OK", body), true).await;
    for (managed_fields, expected) in [(ManagedFields::Drop, 0), (ManagedFields::Keep, 1)] {
        let list =
            source.clone().managed_fields(managed_fields).list(ListOptions::at_version("")).await.unwrap();
        assert_eq!(list.objects[0].metadata.managed_fields.as_ref().map_or(0, Vec::len), expected);
    }
}

/// A watch reports events of another kind, of an unknown type or with an undecodable object, and continues.
// contract: L-10, R-07a
#[tokio::test]
async fn watch_reports_unusable_events() {
    let body = "{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}}\n\
        {\"type\":\"STRANGE\",\"object\":{}}\n\
        {\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"d\"},\"spec\":7}}\n\
        {\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"9\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n\
        {\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}}\n";
    let source = answering(http("200 OK", body), true).await;
    let watch = source.watch(WatchOptions::from("5", Duration::from_secs(5))).await.unwrap();
    let events: Vec<_> = watch.map(|event| format!("{event:?}")).collect().await;
    assert_eq!(events.len(), 5, "{events:#?}");
    let expected = ["a Node in a watch of Pod", "STRANGE", "d/p", "initial_events_end: true", "Expired"];
    for (event, expected) in events.iter().zip(expected) {
        assert!(event.contains(expected), "{event} is not {expected}");
    }
}

/// A watch that is polled after its end returns `None` again.
// contract: P-20
#[tokio::test]
async fn ended_watch_stays_ended() {
    let source = answering(http("200 OK", ""), true).await;
    let mut watch = source.watch(WatchOptions::from("5", Duration::from_secs(5))).await.unwrap();
    while watch.next().await.is_some() {}
    for _ in 0..2 {
        assert!(watch.next().await.is_none());
    }
}

/// A watch that is answered by a list, in any order of fields, is one typed error. An object with such a kind or field is not.
// contract: R-26a, L-42a
#[tokio::test]
async fn watch_that_is_answered_by_a_list() {
    let watched = async |body: &str| {
        let source = answering(http("200 OK", body), true).await;
        let events: Vec<_> =
            source.watch(WatchOptions::from("5", Duration::from_secs(5))).await.unwrap().collect().await;
        events
    };
    for (list, kind) in [
        (r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#, "PodList"),
        (r#"{"apiVersion":"v1","items":[{"kind":"Pod"}],"kind":"PodList"}"#, "a list without a kind"),
        ("{\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"kind\": \"PodList\",\n  \"it", "PodList"),
    ] {
        let events = watched(list).await;
        let [Err(SourceError::ListInsteadOfWatch { kind: found })] = &*events else { panic!("{events:?}") };
        assert_eq!(found, kind);
    }
    // The beginning may arrive in pieces.
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let body: String = "{ \"kind\": \"PodList\"".chars().map(|char| format!("1\r\n{char}\r\n")).collect();
    let source = answering(format!("{head}{body}").leak().as_bytes(), false).await;
    let mut watch = source.watch(WatchOptions::from("5", Duration::from_secs(5))).await.unwrap();
    assert!(matches!(watch.next().await, Some(Err(SourceError::ListInsteadOfWatch { .. }))));
    for event in [
        r#"{"object":{"kind":"PodList","apiVersion":"v1","items":[],"metadata":{"name":"a"}},"type":"ADDED"}"#,
        r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}"#,
        r#"{"kind":"Status","apiVersion":"v1","items":[]}"#,
        "",
    ] {
        let events = watched(event).await;
        assert!(!format!("{events:?}").contains("answer to a watch"), "{events:?}");
    }
}

/// Null in a list, a bookmark or a status is an absent field, as in Go.
// contract: L-10, L-30
#[tokio::test]
async fn null_is_an_absent_field() {
    let pod = r#"{"metadata":{"name":"p","namespace":"d","resourceVersion":"7","labels":null}}"#;
    for (envelope, version) in [
        (r#""metadata":{"continue":null,"remainingItemCount":null,"resourceVersion":"10"}"#, "10"),
        (r#""metadata":{"continue":null,"selfLink":null,"resourceVersion":null}"#, ""),
        (r#""metadata":null"#, ""),
        (r#""apiVersion":null,"metadata":{"resourceVersion":"10"}"#, "10"),
    ] {
        let body = format!(r#"{{"kind":"PodList",{envelope},"items":[{pod}]}}"#);
        let list = answering(http("200 OK", &body), true).await.list(ListOptions::at_version("")).await;
        let list = list.unwrap();
        assert_eq!((list.objects.len(), list.resource_version), (1, version.to_owned().into()), "{envelope}");
    }

    let bookmark =
        |metadata: &str| format!(r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{metadata}}}}}"#);
    let status = r#"{"type":"ERROR","object":{"kind":"Status","metadata":null,"status":null,"message":null,"reason":"Expired","details":{"name":null,"group":null,"kind":null,"uid":null,"causes":[{"reason":null,"message":"m","field":null}],"retryAfterSeconds":null},"code":410}}"#;
    let body = [
        bookmark("null"),
        bookmark(r#"{"resourceVersion":null,"annotations":null}"#),
        bookmark(r#"{"resourceVersion":"9","annotations":{"a":null}}"#),
        status.to_owned(),
    ];
    let source = answering(http("200 OK", &body.join("\n")), true).await;
    let watch = source.watch(WatchOptions::from("5", Duration::from_secs(5))).await.unwrap();
    let events: Vec<_> = watch.collect().await;
    assert_eq!(events.len(), 4, "{events:#?}");
    for (event, version) in events.iter().zip(["", "", "9"]) {
        let Ok(WatchEvent::Bookmark { version: seen, .. }) = event else { panic!("{event:?}") };
        assert_eq!(*seen, version.to_owned().into());
    }
    let Err(SourceError::Status(status)) = &events[3] else { panic!("{:?}", events[3]) };
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (410, "Expired", ""));

    let answer =
        http("403 Forbidden", r#"{"kind":"Status","message":"no","reason":null,"details":null,"code":null}"#);
    let SourceError::Status(status) = list(answer, true).await else { panic!("not a status") };
    assert_eq!((status.code, status.message.as_str()), (403, "no"));
}

/// An object that the label selector does not match is delivered, and reported after that. Without its labels it is not
/// checked.
// contract: R-07c
#[tokio::test]
async fn watch_that_ignores_the_selector_is_reported() {
    let line = |event: &str, name: &str, app: &str| {
        let metadata = format!(r#"{{"name":"{name}","namespace":"d","labels":{{"app":"{app}"}}}}"#);
        format!(r#"{{"type":"{event}","object":{{"apiVersion":"v1","kind":"Pod","metadata":{metadata}}}}}"#)
    };
    let lines =
        [("ADDED", "a", "web"), ("MODIFIED", "a", "api"), ("ADDED", "b", "web"), ("DELETED", "a", "api")];
    let body = lines.map(|(event, name, app)| line(event, name, app) + "\n").concat();
    let source = answering(http("200 OK", &body), true).await;
    let watched = async |source: KubeListerWatcher<Pod>| {
        let options = WatchOptions::from("5", Duration::from_secs(5));
        let events: Vec<_> = source.watch(options).await.unwrap().map(Result::unwrap).collect().await;
        let unexpected = events.iter().map(|event| match event {
            WatchEvent::Unexpected { what, .. } => Some(what.clone()),
            _ => None,
        });
        unexpected.collect::<Vec<_>>()
    };
    let report = Some("d/a, which the label selector app=web does not match".to_owned());
    let selected = source.clone().labels("app = web");
    assert_eq!(watched(selected.clone()).await, [None, None, report.clone(), None, None]);
    assert_eq!(watched(source.clone().tweak(|params| params.labels("app=web"))).await.len(), 5);
    assert_eq!(watched(source.clone()).await, vec![None; 4]);
    let labels = FieldPath::new(&["metadata", "labels"]);
    assert_eq!(watched(selected.drop_fields([labels])).await, vec![None; 4]);
}
