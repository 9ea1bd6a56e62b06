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
    // The spans are between the level and the crate.
    let has = |logs: String, level: &str, target: &str| {
        logs.lines().any(|line| line.contains(&format!(" {level} ")) && line.contains(&format!(" {target}")))
    };
    assert!(has(logs("-v", &[]).await, "INFO", "kinformer"));
    assert!(has(logs("-vv", &[]).await, "DEBUG", "kinformer_"));
    assert!(has(logs("", &[("RUST_LOG", "kinformer=debug")]).await, "DEBUG", "kinformer_"));
    assert!(!logs("-vvv", &[("RUST_LOG", "error")]).await.contains("kinformer_"));
    assert!(logs("", &[("RUST_LOG", "a=b=c")]).await.contains("RUST_LOG is invalid"));
}
