//! Records the spans of kinformer, and log lines with the spans around them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::reentrant::CheckOnLog;

/// The fields of a span or line: their names and texts.
pub type Fields = BTreeMap<&'static str, String>;

/// A subscriber layer that records spans whose target begins with `kinformer`, and all log lines.
#[derive(Clone, Debug, Default)]
pub struct SpanRecorder(Arc<Mutex<Recorded>>);

#[derive(Debug, Default)]
struct Recorded {
    spans: Vec<RecordedSpan>,
    lines: Vec<RecordedLine>,
}

/// A span.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedSpan {
    /// The name of the span.
    pub name: &'static str,
    /// Its level.
    pub level: Level,
    /// The names of all its fields, in the order of their declaration.
    pub declared: Vec<&'static str>,
    /// The fields that have a value.
    pub fields: Fields,
    /// The names of the spans around it, the outermost first.
    pub parents: Vec<&'static str>,
    /// The fields of the spans around it.
    pub inherited: Fields,
    /// Whether the span was closed.
    pub is_closed: bool,
}

/// A log line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedLine {
    /// The level of the line.
    pub level: Level,
    /// The fields of the line itself; its text is `message`.
    pub fields: Fields,
    /// The names of the spans around it, the outermost first.
    pub parents: Vec<&'static str>,
    /// The fields of the spans around it.
    pub inherited: Fields,
}

impl RecordedSpan {
    /// Returns the beginning of its row in docs/observability.md: name, level and fields.
    pub fn row(&self) -> String {
        let fields: Vec<_> = self.declared.iter().map(|field| format!("`{field}`")).collect();
        format!("| `{}` | {} | {} |", self.name, self.level, fields.join(", "))
    }
}

impl SpanRecorder {
    /// Returns a recorder of the process, which also checks that no lock is held while a line is logged. For a test binary of
    /// its own.
    ///
    /// # Panics
    /// If the process has a subscriber.
    pub fn of_this_process() -> Self {
        let recorder = Self::default();
        let subscriber = tracing_subscriber::registry().with(recorder.clone()).with(CheckOnLog);
        tracing::subscriber::set_global_default(subscriber).unwrap();
        recorder
    }

    /// Returns the spans in the order of their creation.
    pub fn spans(&self) -> Vec<RecordedSpan> {
        self.0.lock().spans.clone()
    }

    /// Returns the log lines.
    pub fn lines(&self) -> Vec<RecordedLine> {
        self.0.lock().lines.clone()
    }

    fn around<'s, S: LookupSpan<'s>>(&self, scope: Option<Scope<'s, S>>) -> (Vec<&'static str>, Fields) {
        let (mut names, mut fields) = (Vec::new(), Fields::new());
        for span in scope.into_iter().flat_map(Scope::from_root) {
            names.push(span.name());
            if let Some(Position(index)) = span.extensions().get() {
                let recorded = self.0.lock();
                fields.extend(recorded.spans.get(*index).map(|span| span.fields.clone()).unwrap_or_default());
            }
        }
        (names, fields)
    }

    /// Changes the record of a span.
    fn change<S: for<'s> LookupSpan<'s> + Subscriber>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        change: impl FnOnce(&mut RecordedSpan),
    ) {
        let Some(span) = context.span(id) else { return };
        if let Some(Position(index)) = span.extensions().get()
            && let Some(span) = self.0.lock().spans.get_mut(*index)
        {
            change(span);
        }
    }
}

/// The position of a span in the record.
struct Position(usize);

struct Texts<'f>(&'f mut Fields);

impl Visit for Texts<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for SpanRecorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let Some(span) = context.span(id) else { return };
        if !metadata.target().starts_with("kinformer") {
            return;
        }
        let (parents, inherited) = self.around(span.parent().map(|parent| parent.scope()));
        let mut fields = Fields::new();
        attributes.record(&mut Texts(&mut fields));
        let declared = metadata.fields().iter().map(|field| field.name()).collect();
        let index = {
            let spans = &mut self.0.lock().spans;
            spans.push(RecordedSpan {
                name: metadata.name(),
                level: *metadata.level(),
                declared,
                fields,
                parents,
                inherited,
                is_closed: false,
            });
            spans.len() - 1
        };
        span.extensions_mut().insert(Position(index));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.change(id, &context, |span| values.record(&mut Texts(&mut span.fields)));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.change(&id, &context, |span| span.is_closed = true);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let (parents, inherited) = self.around(context.event_scope(event));
        let mut fields = Fields::new();
        event.record(&mut Texts(&mut fields));
        let line = RecordedLine { level: *event.metadata().level(), fields, parents, inherited };
        self.0.lock().lines.push(line);
    }
}
