//! A receiver of OTLP, in place of a collector.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use http::StatusCode;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::net::TcpListener;

use crate::BoxError;

/// The kind of the spans of requests.
#[cfg(test)]
pub(crate) const CLIENT: i32 = opentelemetry_proto::tonic::trace::v1::span::SpanKind::Client as i32;

/// The attributes that a trace shows, in this order.
const SHOWN: [&str; 9] = [
    "kinformer.event.type",
    "kinformer.informer.resource",
    "kinformer.event.key",
    "kinformer.reconcile.name",
    "kinformer.reconcile.reasons",
    "kinformer.reconcile.result",
    "http.request.method",
    "url.path",
    "http.response.status_code",
];

type Received = Arc<Mutex<Vec<Span>>>;

/// A server that keeps the spans that it receives. It runs as long as the runtime.
pub(crate) struct Receiver {
    endpoint: String,
    received: Received,
}

impl Receiver {
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let received = Received::default();
        let app = Router::new().route("/v1/traces", post(receive)).with_state(received.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { endpoint, received })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the traces so far.
    pub(crate) fn traces(&self) -> Traces {
        let mut spans = self.received.lock().clone();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        let mut traces: Vec<Trace> = Vec::new();
        for span in spans {
            match traces.iter_mut().find(|trace| trace.0.iter().any(|other| other.trace_id == span.trace_id))
            {
                Some(trace) => trace.0.push(span),
                None => traces.push(Trace(vec![span])),
            }
        }
        Traces(traces)
    }
}

async fn receive(State(received): State<Received>, body: Bytes) -> StatusCode {
    let Ok(export) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let scopes = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    received.lock().extend(scopes.flat_map(|scope| scope.spans));
    StatusCode::OK
}

/// Traces, ordered by the times of their first spans.
pub(crate) struct Traces(Vec<Trace>);

impl Traces {
    /// Returns those with a reconciliation. Lists and watches of informers are others.
    pub(crate) fn of_reconciliations(&self) -> impl Iterator<Item = &Trace> {
        self.0.iter().filter(|trace| trace.0.iter().any(|span| span.name == "reconcile"))
    }
}

/// The spans of a trace, ordered by their times. The text has a line for each, indented below that of its parent.
pub(crate) struct Trace(Vec<Span>);

impl Trace {
    #[cfg(test)]
    pub(crate) fn spans(&self) -> &[Span] {
        &self.0
    }

    fn write_below(&self, parent: &[u8], depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for span in self.0.iter().filter(|span| span.parent_span_id == parent) {
            write!(f, "{:indent$}{}", "", span.name, indent = 2 * depth)?;
            for value in SHOWN.iter().filter_map(|name| attribute(span, name)) {
                write!(f, " {value}")?;
            }
            let status = span.status.as_ref().map(|status| status.code);
            let failed = if status == Some(SpanStatus::Error as i32) { " (failed)" } else { "" };
            writeln!(f, "{failed}")?;
            self.write_below(&span.span_id, depth + 1, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_below(b"", 0, f)
    }
}

/// Returns the text of an attribute.
pub(crate) fn attribute(span: &Span, name: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}
