//! Watches read in chunks.

use kinformer_wire::{Error, ManagedFields, RawEventType, WatchDecoder};
use proptest::prelude::*;
use serde_json::{Value, json};

type Event = Result<(RawEventType, Value), String>;

fn decode(body: &[u8], chunk: usize) -> (Vec<Event>, Result<(), Error>) {
    decode_chunks(body.chunks(chunk.max(1)))
}

fn decode_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Result<(), Error>) {
    let mut decoder = WatchDecoder::new(ManagedFields::Drop);
    let mut events = Vec::new();
    let mut on_event = |event: Result<kinformer_wire::RawEvent<'_>, Error>| {
        events.push(match event {
            Ok(event) => Ok((event.event_type, serde_json::from_slice(event.object).unwrap())),
            Err(error) => Err(error.to_string()),
        });
    };
    for chunk in chunks {
        decoder.feed(chunk, &mut on_event).unwrap();
    }
    let end = decoder.finish(&mut on_event);
    (events, end)
}

fn line(event_type: &str, name: &str) -> String {
    json!({"type": event_type, "object": {"metadata": {"name": name, "managedFields": [{"x": "\n"}]}}})
        .to_string()
}

/// The end of an event.
fn separators() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["\n", "\r\n", "", " ", "\n\n", " \n\t"][..])
}

/// A line over several lines.
fn pretty(line: &str) -> String {
    serde_json::to_string_pretty(&serde_json::from_str::<Value>(line).unwrap()).unwrap()
}

/// The body in chunks that end at these places.
fn chunks(body: &[u8], mut ends: Vec<usize>) -> Vec<&[u8]> {
    ends.extend([0, body.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|ends| &body[ends[0]..ends[1]]).collect()
}

fn event(event_type: RawEventType, name: &str) -> Event {
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
        prop_assert_eq!(events, [event(RawEventType::Added, "a"), event(RawEventType::Modified, "b"), event(RawEventType::Deleted, "c")]);
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
        prop_assert_eq!(&events[0], &event(RawEventType::Added, "a"));
        prop_assert!(events[1].as_ref().unwrap_err().contains("a watch event"));
        prop_assert_eq!(&events[2], &event(RawEventType::Bookmark, "b"));
    }

    /// Events over several lines, and without a newline between them, are delivered in any chunks.
    // contract: L-42a
    #[test]
    fn stream_of_objects_decodes_in_any_chunks(
        events in prop::collection::vec((any::<bool>(), separators()), 1..6),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        chunk in prop::option::of(1_usize..30),
    ) {
        let mut body = String::new();
        for (number, (is_pretty, separator)) in events.iter().enumerate() {
            let line = line("ADDED", &format!("a\"{{[\\{number}"));
            body += &if *is_pretty { pretty(&line) } else { line };
            body += separator;
        }
        let body = body.as_bytes();
        let (decoded, end) = match chunk {
            Some(chunk) => decode(body, chunk),
            None => decode_chunks(chunks(body, places.iter().map(|index| index.index(body.len() + 1)).collect())),
        };
        prop_assert!(end.is_ok());
        let expected: Vec<_> =
            (0..events.len()).map(|number| event(RawEventType::Added, &format!("a\"{{[\\{number}"))).collect();
        prop_assert_eq!(decoded, expected);
    }

    /// The same events and errors are found in damaged streams, however they are divided into chunks, and those before the
    /// damage are delivered.
    // contract: L-42a, R-14c
    #[test]
    fn damaged_stream_is_the_same_in_any_chunks(
        events in prop::collection::vec((any::<bool>(), separators()), 1..5),
        damage in (any::<prop::sample::Index>(), prop::sample::select(&b"{}[]\",:x\n"[..]), any::<bool>()),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut body = Vec::new();
        let mut ends = Vec::new();
        for (number, (is_pretty, separator)) in events.iter().enumerate() {
            let line = line("ADDED", &number.to_string());
            body.extend_from_slice(if *is_pretty { pretty(&line) } else { line }.as_bytes());
            ends.push(body.len());
            body.extend_from_slice(separator.as_bytes());
        }
        let (place, byte, inserts) = (damage.0.index(body.len()), damage.1, damage.2);
        if inserts {
            body.insert(place, byte);
        } else {
            body[place] = byte;
        }
        let outcome = |chunks: Vec<&[u8]>| {
            let (events, end) = decode_chunks(chunks);
            (events.into_iter().map(|event| event.map_err(drop)).collect::<Vec<_>>(), end.is_ok())
        };
        let all = outcome(vec![&body]);
        prop_assert_eq!(&all, &outcome(chunks(&body, places.iter().map(|index| index.index(body.len() + 1)).collect())));
        prop_assert_eq!(&all, &outcome(body.chunks(1).collect()));
        let intact = ends.iter().filter(|end| **end < place).count();
        for (number, found) in all.0.iter().take(intact).enumerate() {
            prop_assert_eq!(found, &event(RawEventType::Added, &number.to_string()).map_err(drop));
        }
        prop_assert!(all.0.len() >= intact);
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
    assert_eq!(events, [event(RawEventType::Added, "a")]);
    assert!(matches!(end, Err(Error::Truncated { bytes: 20, .. })));
}

/// An event that ends with a chunk is delivered at once, with and without a newline, and events that share lines as soon as
/// they are complete.
// contract: L-42c
#[test]
fn complete_event_is_not_delayed() {
    let mut decoder = WatchDecoder::new(ManagedFields::Drop);
    let mut events = 0;
    let mut feed = |text: String| {
        decoder.feed(text.as_bytes(), |event| events += usize::from(event.is_ok())).unwrap();
        events
    };
    let (line, half) = (line("ADDED", "a"), line("ADDED", "b"));
    let half = half.split_at(half.len() / 2);
    assert_eq!(feed(line.clone()), 1);
    assert_eq!(feed(pretty(&line)), 2);
    assert_eq!(feed(format!("{line}\n{line}\n{}", half.0)), 4);
    assert_eq!(feed(half.1.to_owned()), 5);
    assert_eq!(feed(format!("{line}{line}")), 7);
    assert_eq!(feed(format!("{line}{}", half.0)), 8);
    assert_eq!(feed(format!("{}{}", half.1, half.0)), 9);
}

/// A damaged line is reported with the first line that cannot continue it, which is read.
// contract: R-14c
#[test]
fn line_that_cannot_continue_an_event_is_read() {
    let body = format!("{{\"type\":\"ADDED\",\n{}\n", line("ADDED", "a"));
    let (events, end) = decode(body.as_bytes(), 1000);
    assert!(end.is_ok() && events[0].is_err());
    assert_eq!(events[1..], [event(RawEventType::Added, "a")]);
}

/// A `Status` in place of an event is an error event, in any form.
// contract: L-42b
#[test]
fn status_instead_of_an_event_is_an_error_event() {
    let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    for body in [status.to_string(), serde_json::to_string_pretty(&status).unwrap() + "\n"] {
        let (events, end) = decode(body.as_bytes(), 7);
        assert!(end.is_ok());
        assert_eq!(events, [Ok((RawEventType::Error, status.clone()))]);
    }
}

// contract: L-10
#[test]
fn error_and_unknown_types_keep_their_names() {
    let body = r#"{"type":"ERROR","object":{"kind":"Status","code":410}}
{"type":"SOMETHING","object":{}}
"#;
    let (events, _) = decode(body.as_bytes(), 1000);
    assert_eq!(events[0], Ok((RawEventType::Error, json!({"kind": "Status", "code": 410}))));
    assert_eq!(events[1], Ok((RawEventType::Other("SOMETHING".into()), json!({}))));
}
