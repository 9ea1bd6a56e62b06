//! The messages in docs/troubleshooting.md are those that the library prints today.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kinformer::SharedInformerFactory;
use kinformer_apiserver::{ApiServer, Fault};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Asserts that the page has the message.
fn assert_quoted(message: &str) {
    let page = include_str!("../../docs/troubleshooting.md");
    assert!(page.contains(message), "docs/troubleshooting.md does not quote this message:\n{message}");
}

/// A server, a factory of its objects, and the errors of the factory's informers.
async fn server() -> (ApiServer, SharedInformerFactory, mpsc::Receiver<()>) {
    let server = ApiServer::builder().start().await.unwrap();
    let client = kinformer::client(server.config().unwrap()).unwrap();
    let (failed, failures) = mpsc::channel(1);
    let factory = SharedInformerFactory::builder(client).on_error(move |_| _ = failed.try_send(())).build();
    (server, factory, failures)
}

/// The message of a wait whose deadline has passed.
async fn not_synced(factory: &SharedInformerFactory) -> String {
    factory.wait_for_cache_sync_until(Instant::now()).await.into_result().unwrap_err().to_string()
}

#[tokio::test]
async fn forbidden() {
    let (server, factory, mut failures) = server().await;
    server.faults().inject(Fault::forbidden().resource("secrets").always());
    let _secrets = factory.informer::<Secret>();
    factory.start().unwrap();
    failures.recv().await.unwrap();
    // A watch-list is requested first, then a list.
    assert_quoted(&not_synced(&factory).await.replace("cannot watch", "cannot list"));
    factory.shutdown().await.unwrap();
}

#[tokio::test]
async fn no_start() {
    let (_server, factory, _) = server().await;
    let pods = factory.informer::<Pod>();
    let message = factory.wait_for_cache_sync().await.into_result().unwrap_err().to_string();
    assert_quoted(&message);
    drop(pods);
}

#[tokio::test]
#[cfg(target_os = "linux")] // the text of the error is the operating system's
async fn unreachable() {
    let (server, factory, mut failures) = server().await;
    let _pods = factory.informer::<Pod>();
    server.shutdown().await;
    factory.start().unwrap();
    failures.recv().await.unwrap();
    assert_quoted(&not_synced(&factory).await);
    factory.shutdown().await.unwrap();
}

#[tokio::test]
async fn silent() {
    let (server, factory, _failures) = server().await;
    let _pods = factory.informer::<Pod>();
    server.faults().inject(Fault::delay(Duration::from_secs(3600)).always());
    factory.start().unwrap();
    assert_quoted(&not_synced(&factory).await);
    factory.shutdown().await.unwrap();
}
