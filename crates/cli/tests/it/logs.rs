//! Logs: on standard error, and as many as asked for.

use crate::common::Program;

async fn logs(flags: &str, environment: &[(&str, &str)]) -> String {
    let line = format!("watch pods --embedded --until-synced -o json {flags}");
    let ended = Program::start_with(line.split_whitespace(), environment).ended().await;
    ended.code(0);
    // Nothing of it is among the lines: all of them are JSON.
    assert!(ended.json().len() > 20);
    ended.stderr
}

#[tokio::test]
async fn there_are_none_unless_asked_for() {
    assert_eq!(logs("", &[]).await, "");
    assert_eq!(logs("", &[("RUST_LOG", "")]).await, "");
}

#[tokio::test]
async fn verbosity_and_the_environment_ask_for_them() {
    let own = "DEBUG kinformer_";
    assert!(logs("-v", &[]).await.contains("INFO kinformer"));
    assert!(logs("-vv", &[]).await.contains(own));
    assert!(logs("", &[("RUST_LOG", "kinformer=debug")]).await.contains(own));
    assert!(!logs("-vvv", &[("RUST_LOG", "error")]).await.contains(own));
    assert!(logs("", &[("RUST_LOG", "a=b=c")]).await.contains("RUST_LOG is invalid"));
}
