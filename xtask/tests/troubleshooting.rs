//! The messages in docs/troubleshooting.md are those that the library, its dependencies and the compiler print today.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use cargo_metadata::MetadataCommand;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kinformer::SharedInformerFactory;
use kinformer_apiserver::{ApiServer, Fault};
use kinformer_testing::logs;
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
    factory.wait_for_cache_sync().until(Instant::now()).await.into_result().unwrap_err().to_string()
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
    assert_quoted(&pods.lister().get("default/a").unwrap_err().to_string());
}

#[tokio::test]
async fn warning_without_start() {
    logs::capture();
    let (_server, factory, _) = server().await;
    let pods = factory.informer::<Pod>();
    tokio::time::pause();
    let deadline = Instant::now() + Duration::from_secs(11);
    pods.wait_for_sync().until(deadline).await.unwrap_err();
    let lines = logs::lines();
    let line = lines.iter().find(|line| line.contains("waiting for an informer")).unwrap();
    let (_, message) = line.split_once("started: ").unwrap();
    assert_quoted(message);
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

/// Compiles a file; returns the path of the program, and what the compiler printed.
fn compile(source: &Path, program: &str) -> (String, Output) {
    let program = format!("{}/{program}", env!("CARGO_TARGET_TMPDIR"));
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--edition", "2021", "-o", &program]).arg(source).output().unwrap();
    (program, output)
}

/// Runs the build script of k8s-openapi without a version.
#[test]
fn no_version_of_kubernetes() {
    let metadata = MetadataCommand::new().exec().unwrap();
    let package = metadata.packages.iter().find(|package| package.name.as_str() == "k8s-openapi").unwrap();
    let script = package.targets.iter().find(|target| target.is_custom_build()).unwrap();
    let (program, compiled) = compile(script.src_path.as_std_path(), "build-k8s-openapi");
    assert!(compiled.status.success(), "{compiled:?}");
    let run = Command::new(program).env_clear().output().unwrap();
    assert!(!run.status.success());
    let text = String::from_utf8(run.stderr).unwrap();
    assert_quoted(text.lines().find(|line| line.contains("v1_*")).unwrap());
}

/// Compiles a call of a function that is missing, as without the feature of kube-runtime.
#[test]
fn missing_for_stream() {
    let source = format!("{}/for_stream.rs", env!("CARGO_TARGET_TMPDIR"));
    let text = "struct Controller<K>(K);\nimpl<K> Controller<K> { fn new(_: K) {} }\n\
                fn main() { Controller::new(1); Controller::for_stream(1, 2); }\n";
    std::fs::write(&source, text).unwrap();
    let (_, compiled) = compile(source.as_ref(), "for_stream");
    let text = String::from_utf8(compiled.stderr).unwrap();
    assert_quoted(text.lines().find(|line| line.starts_with("error[")).unwrap());
}
