//! `kinformer` alone: the demo.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Program, run};
use nix::sys::signal::Signal;

#[tokio::test]
async fn shows_a_cluster_and_ends_with_a_summary() {
    for line in ["--for 2s", "demo --for 2s --seed 7"] {
        let ended = run(line).await;
        ended.code(0);
        let lines: Vec<&str> = ended.stdout.lines().collect();
        assert!(lines[0].contains("kubectl --server http://127.0.0.1:"), "{ended:#?}");
        assert!(lines.iter().any(|line| line.starts_with("in sync: ")), "{ended:#?}");
        assert!(lines.iter().any(|line| line.contains("  pod  ")), "no event of a pod in {ended:#?}");
        for part in ["ended after 2.", "objects  ", "events   ", "lag      ", "memory   "] {
            assert!(lines.iter().any(|line| line.starts_with(part)), "no {part:?} in {ended:#?}");
        }
        assert_eq!(ended.stderr, "", "{ended:#?}");
        // Not a terminal: no colours and nothing that moves a cursor.
        assert!(!ended.stdout.contains('\u{1b}'), "{ended:#?}");
    }
}

#[tokio::test]
async fn a_signal_ends_it_with_the_summary() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut program = Program::start("");
        while !program.line().await.starts_with("in sync: ") {}
        program.signal(signal);
        let ended = program.ended().await;
        ended.code(0);
        assert!(ended.stdout.contains("memory   "), "{ended:#?}");
    }
}

#[tokio::test]
async fn nobody_reading_ends_it_quietly() {
    let mut program = Program::start("demo");
    program.line().await;
    program.close_stdout();
    let ended = program.ended().await;
    ended.code(0);
    assert_eq!(ended.stderr, "");
}
