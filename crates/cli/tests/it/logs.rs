//! Logs on standard error, and their verbosity.

use crate::common::Program;

async fn logs(flags: &str, environment: &[(&str, &str)]) -> String {
    let line = format!("watch pods --embedded --until-synced -o json {flags}");
    let ended = Program::start_with(line.split_whitespace(), environment).ended().await;
    ended.code(0);
    // Standard output has no log lines: all its lines are JSON.
    assert!(ended.json().len() > 20);
    ended.stderr
}

#[tokio::test]
async fn nothing_is_logged_by_default() {
    assert_eq!(logs("", &[]).await, "");
    assert_eq!(logs("", &[("RUST_LOG", "")]).await, "");
}

#[tokio::test]
async fn flags_and_environment_set_the_verbosity() {
    let own = "DEBUG kinformer_";
    assert!(logs("-v", &[]).await.contains("INFO kinformer"));
    assert!(logs("-vv", &[]).await.contains(own));
    assert!(logs("", &[("RUST_LOG", "kinformer=debug")]).await.contains(own));
    assert!(!logs("-vvv", &[("RUST_LOG", "error")]).await.contains(own));
    assert!(logs("", &[("RUST_LOG", "a=b=c")]).await.contains("RUST_LOG is invalid"));
}
