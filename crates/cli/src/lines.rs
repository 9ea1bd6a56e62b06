//! Output of `kinformer watch`: one line for each event.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use kinformer::{KeyRef, Packed, PackedObject, ResourceVersion};
use serde::Serialize;
use serde::ser::Serializer;

use crate::args::Format;
use crate::display_fields::DisplayFields;
use crate::text::{Line, Text};
use crate::usage::Usage;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventKind {
    Add,
    Update,
    Delete,
    Leave,
}

impl EventKind {
    /// The style of the word for it on a terminal.
    pub(crate) fn style(self) -> Style {
        let colour = match self {
            Self::Add => AnsiColor::Green,
            Self::Update => AnsiColor::Yellow,
            Self::Delete | Self::Leave => AnsiColor::Red,
        };
        Style::new().fg_color(Some(colour.into()))
    }
}

/// One event, ready to be formatted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind,
    pub(crate) key: KeyRef<'a>,
    /// The current state, or the last one for a deletion or an object that left; `None` only if no state was ever received.
    pub(crate) object: Option<&'a Packed<DisplayFields>>,
    /// The state before an update.
    pub(crate) old: Option<&'a Packed<DisplayFields>>,
    /// Whether the object was in the initial list.
    pub(crate) initial: bool,
    /// Whether the deletion itself was missed, so that the final state is unknown.
    pub(crate) final_state_unknown: bool,
}

/// Counters of one watched resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(crate) adds: u64,
    pub(crate) updates: u64,
    pub(crate) deletes: u64,
    pub(crate) leaves: u64,
    pub(crate) relists: u64,
    /// Time until the first sync; `None` if there was none.
    pub(crate) to_sync: Option<Duration>,
}

impl Summary {
    /// Counts an event.
    pub(crate) fn count(&mut self, kind: EventKind) {
        match kind {
            EventKind::Add => self.adds += 1,
            EventKind::Update => self.updates += 1,
            EventKind::Delete => self.deletes += 1,
            EventKind::Leave => self.leaves += 1,
        }
    }

    /// The number of objects that exist after the counted events.
    pub(crate) fn objects(&self) -> u64 {
        self.adds.saturating_sub(self.deletes + self.leaves)
    }
}

/// Formats the lines of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    format: Format,
    resource: String,
    /// Column width of the resource name: the longest name of all watched resources.
    width: usize,
    more: More,
}

/// Describes an update by its old and its new state.
pub(crate) type Describe = fn(&PackedObject, &PackedObject) -> String;

/// What lines have beside the event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct More {
    /// The description of an update, in text.
    pub(crate) changes: Option<Describe>,
    /// The time of printing.
    pub(crate) timestamps: bool,
    /// The object, in JSON. It must have been fetched as JSON.
    pub(crate) objects: bool,
    /// Colours, in text.
    pub(crate) colours: bool,
}

impl Lines {
    pub(crate) fn new(format: Format, resource: String, width: usize) -> Self {
        Self { format, resource, width, more: More::default() }
    }

    pub(crate) fn with(self, more: More) -> Self {
        Self { more, ..self }
    }

    /// Appends the line of an event.
    pub(crate) fn event(&self, to: &mut Text, event: &Event<'_>) {
        match self.format {
            Format::Json => self.json(to, event),
            Format::Text => self.text(to, event, ""),
            Format::Wide => self.text(to, event, &details(event)),
        }
    }

    fn json(&self, to: &mut Text, event: &Event<'_>) {
        let time = self.more.timestamps.then(now);
        let json = JsonEvent::new(&self.resource, event, time.as_deref());
        let object = event.object.filter(|_| self.more.objects);
        let Some(object) = object else { return to.json(&json) };
        // Strings and numbers always serialize.
        let fields = serde_json::to_string(&json).unwrap_or_default();
        let fields = fields.strip_suffix('}').unwrap_or_default();
        to.json_text(&format!("{fields},\"object\":{}}}", String::from_utf8_lossy(&object.encoded())));
    }

    fn text(&self, to: &mut Text, event: &Event<'_>, more: &str) {
        let what = match event.kind {
            EventKind::Add if event.initial => "initial",
            EventKind::Add => "add",
            EventKind::Update => "update",
            EventKind::Delete => "delete",
            EventKind::Leave => "left",
        };
        let unseen = if event.final_state_unknown { " (final state unknown)" } else { "" };
        let (name, width) = (&self.resource, self.width);
        let style = if self.more.colours && !event.initial { event.kind.style() } else { Style::new() };
        let line = self.line().styled(style, format_args!("{what:<7}"));
        let line = line.then(format_args!(" {name:<width$} {}{unseen}{more}", event.key));
        let changes = match (self.more.changes, event.old, event.object) {
            (Some(describe), Some(old), Some(new)) => describe(old, new),
            _ => String::new(),
        };
        let space = if changes.is_empty() { "" } else { "  " };
        to.push(&line.then(format_args!("{space}{changes}")));
    }

    /// The beginning of each line.
    fn line(&self) -> Line {
        match self.more.timestamps {
            true => Line::new(format_args!("{} ", now())),
            false => Line::default(),
        }
    }

    /// Appends the line that marks the end of the initial objects.
    pub(crate) fn synced(&self, to: &mut Text, count: u64, after: Duration) {
        match self.format {
            Format::Json => to.json(&JsonSynced { event: "synced", resource: &self.resource, count }),
            Format::Text | Format::Wide => {
                let (name, width) = (&self.resource, self.width);
                let after = format_duration(after);
                to.push(&self.line().then(format_args!("synced  {name:<width$} {count} objects in {after}")));
            }
        }
    }

    /// Appends the last line, with the counters.
    pub(crate) fn stopped(&self, to: &mut Text, summary: Summary, usage: Usage) {
        let Summary { adds, updates, deletes, leaves, relists, to_sync } = summary;
        if self.format == Format::Json {
            let stopped = JsonStopped {
                event: "stopped",
                resource: &self.resource,
                adds,
                updates,
                deletes,
                leaves,
                relists,
                peak_memory_bytes: usage.peak_memory_bytes,
                cpu_seconds: usage.cpu_seconds,
                seconds_to_sync: to_sync.map(|time| time.as_secs_f64()),
            };
            return to.json(&stopped);
        }
        let (name, width) = (&self.resource, self.width);
        let left = if leaves == 0 { String::new() } else { format!("{leaves} left, ") };
        to.push(&self.line().then(format_args!(
            "stopped {name:<width$} {adds} adds, {updates} updates, {deletes} deletes, {left}{relists} relists"
        )));
    }
}

/// The current time to the millisecond, in UTC.
fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Formats a duration with about three digits.
pub(crate) fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..1.0 => format!("{:.0} ms", seconds * 1000.0),
        ..60.0 => format!("{seconds:.1} s"),
        _ => humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string(),
    }
}

/// The additional columns of `-o wide`: versions, phase, node, labels.
fn details(event: &Event<'_>) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let Some(object) = event.object else { return text };
    // Writing to a string cannot fail.
    let _ = write!(text, "  version={}", object.resource_version());
    if let Some(old) = event.old {
        let _ = write!(text, " was={}", old.resource_version());
    }
    if let Ok(fields) = object.decode() {
        for (name, value) in [("phase", fields.phase()), ("node", fields.node())] {
            if let Some(value) = value {
                let _ = write!(text, " {name}={value}");
            }
        }
    }
    for (index, (key, value)) in object.labels().enumerate() {
        let _ = write!(text, "{}{key}={value}", if index == 0 { " labels=" } else { "," });
    }
    text
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonEvent<'a> {
    event: EventKind,
    resource: &'a str,
    #[serde(serialize_with = "as_text")]
    key: KeyRef<'a>,
    #[serde(serialize_with = "as_text_or_null")]
    resource_version: ResourceVersion,
    #[serde(serialize_with = "as_text_or_null")]
    old_resource_version: ResourceVersion,
    initial: bool,
    final_state_unknown: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a str>,
}

impl<'a> JsonEvent<'a> {
    fn new(resource: &'a str, event: &Event<'a>, time: Option<&'a str>) -> Self {
        Self {
            time,
            event: event.kind,
            resource,
            key: event.key,
            resource_version: event.object.map(|object| object.resource_version()).unwrap_or_default(),
            old_resource_version: event.old.map(|old| old.resource_version()).unwrap_or_default(),
            initial: event.initial,
            final_state_unknown: event.final_state_unknown,
        }
    }
}

#[derive(Serialize)]
struct JsonSynced<'a> {
    event: &'static str,
    resource: &'a str,
    count: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonStopped<'a> {
    event: &'static str,
    resource: &'a str,
    adds: u64,
    updates: u64,
    deletes: u64,
    leaves: u64,
    relists: u64,
    peak_memory_bytes: Option<u64>,
    cpu_seconds: Option<f64>,
    seconds_to_sync: Option<f64>,
}

fn as_text<S: Serializer>(key: &KeyRef<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

fn as_text_or_null<S: Serializer>(version: &ResourceVersion, serializer: S) -> Result<S::Ok, S::Error> {
    if version.is_unset() { serializer.serialize_none() } else { serializer.collect_str(version) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::display_fields::tests::packed;

    fn pod(version: &str) -> Packed<DisplayFields> {
        let labels = json!({"app": "x", "t": "y"});
        packed(&json!({
            "metadata": {"name": "a", "namespace": "b", "resourceVersion": version, "labels": labels},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        }))
    }

    fn update<'a>(old: &'a Packed<DisplayFields>, new: &'a Packed<DisplayFields>) -> Event<'a> {
        Event {
            kind: EventKind::Update,
            key: new.key(),
            object: Some(new),
            old: Some(old),
            initial: false,
            final_state_unknown: false,
        }
    }

    fn line(format: Format, event: &Event<'_>) -> String {
        let mut line = Text::default();
        Lines::new(format, "pods".into(), 6).event(&mut line, event);
        line.as_str().to_owned()
    }

    #[test]
    fn json_lines_have_the_documented_fields() {
        let (old, new) = (pod("1"), pod("2"));
        let update = update(&old, &new);
        assert_eq!(
            line(Format::Json, &update),
            "{\"event\":\"update\",\"resource\":\"pods\",\"key\":\"b/a\",\"resourceVersion\":\"2\",\
             \"oldResourceVersion\":\"1\",\"initial\":false,\"finalStateUnknown\":false}\n"
        );
        let add = Event { kind: EventKind::Add, old: None, initial: true, ..update };
        assert!(line(Format::Json, &add).contains("\"oldResourceVersion\":null,\"initial\":true"));
        let gone =
            Event { kind: EventKind::Delete, object: None, old: None, final_state_unknown: true, ..update };
        let gone: Value = serde_json::from_str(&line(Format::Json, &gone)).expect("JSON");
        assert_eq!(gone["resourceVersion"], Value::Null);
        assert_eq!(gone["finalStateUnknown"], true);
    }

    #[test]
    fn text_is_in_columns_and_wide_has_more() {
        let (old, new) = (pod("1"), pod("2"));
        let event = update(&old, &new);
        assert_eq!(line(Format::Text, &event), "update  pods   b/a\n");
        assert_eq!(
            line(Format::Wide, &event),
            "update  pods   b/a  version=2 was=1 phase=Running node=n labels=app=x,t=y\n"
        );
    }

    // contract: T-08b
    #[test]
    fn lines_have_more_on_request() {
        let (old, new) = (pod("1"), pod("2"));
        let shown = |format: Format, more: More| {
            let mut line = Text::default();
            Lines::new(format, "pods".into(), 6).with(more).event(&mut line, &update(&old, &new));
            line.as_str().to_owned()
        };
        let changes: Describe =
            |old, new| format!("{} -> {}", old.resource_version(), new.resource_version());
        let more = More { changes: Some(changes), colours: true, ..More::default() };
        assert_eq!(shown(Format::Text, more), "\u{1b}[33mupdate \u{1b}[0m pods   b/a  1 -> 2\n");
        let more = More { objects: true, timestamps: true, ..More::default() };
        let line: Value = serde_json::from_str(&shown(Format::Json, more)).expect("JSON");
        assert_eq!((&line["event"], &line["object"]["spec"]["nodeName"]), (&json!("update"), &json!("n")));
        assert!(line["time"].as_str().expect("text").parse::<Timestamp>().is_ok(), "{line}");
        let text = shown(Format::Text, more);
        let (time, rest) = text.split_once(' ').expect("a time");
        assert_eq!((time.len(), rest), ("2026-01-01T00:00:00.000Z".len(), "update  pods   b/a\n"));
    }

    #[test]
    fn the_last_lines_are_formatted() {
        let mut lines = Text::default();
        let json = Lines::new(Format::Json, "pods".into(), 0);
        json.synced(&mut lines, 3, Duration::from_millis(5));
        let summary = Summary { adds: 3, updates: 2, deletes: 1, leaves: 4, relists: 0, to_sync: None };
        json.stopped(&mut lines, summary, Usage { peak_memory_bytes: Some(7), cpu_seconds: None });
        let lines: Vec<Value> =
            lines.as_str().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(
            lines,
            [
                json!({"event": "synced", "resource": "pods", "count": 3}),
                json!({"event": "stopped", "resource": "pods", "adds": 3, "updates": 2, "deletes": 1, "leaves": 4, "relists": 0,
                "peakMemoryBytes": 7, "cpuSeconds": null, "secondsToSync": null}),
            ]
        );
    }
}
