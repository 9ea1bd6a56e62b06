//! The export of spans over OTLP.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use crate::BoxError;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Exports the spans of the process to a collector at this URL. Must be called within a runtime.
pub(crate) fn install(endpoint: &str) -> Result<SdkTracerProvider, BoxError> {
    let client = HyperClient::with_default_connector(TIMEOUT, None);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .with_http_client(OnRuntime { client, runtime: Handle::current() })
        .build()?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("labeler").build())
        .build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("kinformer"));
    // `event` and `request` are of this level.
    let spans = spans.with_filter(Targets::new().with_target("kinformer", Level::DEBUG));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans))?;
    Ok(provider)
}

/// Exports the last spans. The call waits for the exporter, which needs the runtime, so it has a thread of its own.
pub(crate) async fn shut_down(provider: SdkTracerProvider) -> Result<(), BoxError> {
    Ok(tokio::task::spawn_blocking(move || provider.shutdown()).await??)
}

/// Sends requests on the runtime, since the exporter has a thread of its own.
#[derive(Debug)]
struct OnRuntime {
    client: HyperClient,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}
