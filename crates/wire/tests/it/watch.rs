//! Watches read in chunks.

use kinformer_wire::{Error, EventType, ManagedFields, WatchDecoder};
use proptest::prelude::*;
use serde_json::{Value, json};

type Event = Result<(EventType, Value), String>;

fn decode(body: &[u8], chunk: usize) -> (Vec<Event>, Result<(), Error>) {
    let mut decoder = WatchDecoder::new(ManagedFields::Drop);
    let mut events = Vec::new();
    let mut on_event = |event: Result<kinformer_wire::RawEvent<'_>, Error>| {
        events.push(match event {
            Ok(event) => Ok((event.event_type, serde_json::from_slice(event.object).unwrap())),
            Err(error) => Err(error.to_string()),
        });
    };
    for chunk in body.chunks(chunk.max(1)) {
        decoder.feed(chunk, &mut on_event).unwrap();
    }
    let end = decoder.finish(&mut on_event);
    (events, end)
}

fn line(event_type: &str, name: &str) -> String {
    json!({"type": event_type, "object": {"metadata": {"name": name, "managedFields": [{"x": "\n"}]}}})
        .to_string()
}

fn event(event_type: EventType, name: &str) -> Event {
    Ok((event_type, json!({"metadata": {"name": name}})))
}

proptest! {
    #[test]
    fn events_decode_in_any_chunks(chunk in 1usize..200, last_line_ends: bool) {
        let mut body = [line("ADDED", "a"), String::new(), line("MODIFIED", "b"), line("DELETED", "c")].join("\n");
        if last_line_ends {
            body.push('\n');
        }
        let (events, end) = decode(body.as_bytes(), chunk);
        prop_assert!(end.is_ok());
        prop_assert_eq!(events, [event(EventType::Added, "a"), event(EventType::Modified, "b"), event(EventType::Deleted, "c")]);
    }

    /// A line that is not an event is reported as an error, and the next line is read.
    // contract: R-14c
    #[test]
    fn malformed_line_is_reported_and_skipped(
        malformed in prop_oneof![
            Just(r#"{"type":"ADDED","object":{"metadata":{"#.to_owned()),
            Just(r#"{"type":"ADDED","object":"text"}"#.to_owned()),
            Just(r#"{"type":7,"object":{}}"#.to_owned()),
            Just("<html>".to_owned()),
            "[^\n]{1,40}",
        ],
        chunk in 1usize..60,
    ) {
        prop_assume!(!malformed.trim_ascii().is_empty());
        let body = format!("{}\n{malformed}\n{}\n", line("ADDED", "a"), line("BOOKMARK", "b"));
        let (events, end) = decode(body.as_bytes(), chunk);
        prop_assert!(end.is_ok());
        prop_assert_eq!(events.len(), 3);
        prop_assert_eq!(&events[0], &event(EventType::Added, "a"));
        prop_assert!(events[1].as_ref().unwrap_err().contains("a watch event"));
        prop_assert_eq!(&events[2], &event(EventType::Bookmark, "b"));
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200), chunk in 1usize..10) {
        let (events, _) = decode(&body, chunk);
        prop_assert!(events.len() <= body.len() + 1);
    }
}

#[test]
fn body_that_ends_in_an_event_is_truncated() {
    let body = format!("{}\n{}", line("ADDED", "a"), &line("ADDED", "b")[..20]);
    let (events, end) = decode(body.as_bytes(), 10);
    assert_eq!(events, [event(EventType::Added, "a")]);
    assert!(matches!(end, Err(Error::Truncated { bytes: 20, .. })));
}

// contract: L-10
#[test]
fn error_and_unknown_types_keep_their_names() {
    let body = r#"{"type":"ERROR","object":{"kind":"Status","code":410}}
{"type":"SOMETHING","object":{}}
"#;
    let (events, _) = decode(body.as_bytes(), 1000);
    assert_eq!(events[0], Ok((EventType::Error, json!({"kind": "Status", "code": 410}))));
    assert_eq!(events[1], Ok((EventType::Other("SOMETHING".into()), json!({}))));
}
