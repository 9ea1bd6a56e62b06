//! `kinformer` alone: the demo.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use crate::common::{Program, run};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use tokio::process::Command;

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
        // Standard output is no terminal: no colours and no cursor movement.
        assert!(!ended.stdout.contains('\u{1b}'), "{ended:#?}");
    }
}

#[tokio::test]
async fn signal_ends_the_demo_with_the_summary() {
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
async fn closed_stdout_ends_the_demo_quietly() {
    let mut program = Program::start("demo");
    program.line().await;
    program.close_stdout();
    let ended = program.ended().await;
    ended.code(0);
    assert_eq!(ended.stderr, "");
}

/// Runs the program on a terminal, and returns its exit code and output.
async fn on_a_terminal(
    arguments: &[&str],
    columns: u16,
    environment: &[(&str, &str)],
) -> (Option<i32>, String) {
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(&size, None).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kinformer"));
    command.args(arguments).env_clear().envs(environment.iter().copied()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::from(terminal.slave)).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    // The command holds the program's side of the terminal; the reader sees the end only when it is closed.
    drop(command);
    let mut master = File::from(terminal.master);
    let shown = tokio::task::spawn_blocking(move || {
        let mut shown = Vec::new();
        // On Linux, reading the end of a terminal fails.
        let _ = master.read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    let ended = async { (child.wait().await.unwrap().code(), shown.await.unwrap()) };
    tokio::time::timeout(crate::common::BOUND, ended).await.expect("the program ends in time")
}

#[tokio::test]
async fn terminal_output_is_live() {
    let (code, shown) = on_a_terminal(&["--for", "2s"], 120, &[("TERM", "xterm-256color")]).await;
    assert_eq!(code, Some(0), "{shown}");
    for part in
        ["NODE", "node-5", "shop/web", "Ctrl-C to quit", "\u{1b}[32madd", "ended after 2.", "memory   "]
    {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let (code, shown) =
        on_a_terminal(&["--for", "1s"], 120, &[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("node-5") && !shown.contains("\u{1b}[32m"), "{shown}");
}

/// The status line has what the terminal has room for.
// contract: T-08e
#[tokio::test]
async fn the_status_line_fits_the_terminal() {
    for (columns, has_room) in [(40, false), (60, false), (120, true)] {
        let environment = [("TERM", "xterm-256color"), ("NO_COLOR", "1")];
        let (code, shown) = on_a_terminal(&["--for", "1s"], columns, &environment).await;
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains(" objects   ") && shown.contains("   Ctrl-C to quit"), "{shown}");
        assert_eq!(shown.contains("undelivered"), has_room, "{columns}: {shown}");
    }
}
