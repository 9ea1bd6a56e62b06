//! Runs one hot path, so that a tool can count its instructions: `cargo xtask counted`.
//!
//! `counted NAME` prepares a hot path, runs it once to warm it up, and runs it again within [`counted`], where the tool
//! counts. It prints the number of operations of that run. Without a name, it prints all names.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench is a program without users")]

mod controllers;
mod informers;
mod objects;
mod pods;
mod run;
mod server;
mod structures;

// The line printer of `kinformer`, which is a program and no library, and the items that it imports.
mod args;
mod usage;

#[path = "../../../crates/cli/src/display_fields.rs"]
#[allow(dead_code, reason = "a part of it is counted")]
mod display_fields;
#[path = "../../../crates/cli/src/lines.rs"]
#[allow(dead_code, reason = "a part of it is counted")]
mod lines;
#[path = "../../../crates/cli/src/text.rs"]
#[allow(dead_code, reason = "a part of it is counted")]
mod text;

use std::hint::black_box;
use std::process::ExitCode;

use kinformer_wire::Encoding::{Json, Protobuf};

use crate::args::Format;
use crate::display_fields::{DROPPED_FIELDS, DisplayFields};
use crate::lines::{Event, EventKind, Lines};
use crate::run::Run;
use crate::text::Text;

/// The name of a hot path, its operations in each run, and the function that prepares it.
type HotPath = (&'static str, usize, fn(usize) -> Run);

const HOT_PATHS: [HotPath; 23] = [
    ("cache-get", 1_000, informers::cache_get),
    ("cache-list-500", 50, informers::cache_list),
    ("decode-json", 100, |n| objects::decode(Json, n)),
    ("decode-protobuf", 100, |n| objects::decode(Protobuf, n)),
    ("drop-fields-json", 100, |n| objects::drop_fields(Json, &DROPPED_FIELDS, n)),
    ("drop-fields-protobuf", 100, |n| objects::drop_fields(Protobuf, &DROPPED_FIELDS, n)),
    ("event-to-1-handler", 1_000, |n| structures::event(1, n)),
    ("event-to-10-handlers", 1_000, |n| structures::event(10, n)),
    ("event-to-100-handlers", 200, |n| structures::event(100, n)),
    ("field-read-json", 100, |n| objects::field_read(Json, n)),
    ("field-read-protobuf", 1_000, |n| objects::field_read(Protobuf, n)),
    ("first-list-json", 500, |n| informers::first_list(Json, n)),
    ("first-list-protobuf", 500, |n| informers::first_list(Protobuf, n)),
    ("printed-line", 1_000, printed_line),
    ("queue-delta-fifo", 1_000, structures::delta_fifo),
    ("queue-real-fifo", 1_000, structures::real_fifo),
    ("reconcile", 1_000, controllers::reconcile),
    ("store-write", 1_000, structures::write),
    ("store-write-beside-snapshot", 1_000, structures::write_beside_snapshot),
    ("store-write-index-change", 900, structures::write_index_change),
    ("update-json", 200, |n| informers::update(Json, n)),
    ("update-protobuf", 200, |n| informers::update(Protobuf, n)),
    ("work-queue-item", 1_000, structures::work_queue),
];

/// The tool counts the instructions within this function.
#[inline(never)]
fn counted(run: &mut dyn FnMut()) {
    run();
    // A call at the end could become a jump, which leaves this function.
    black_box(());
}

/// A line of `kinformer watch -o json`.
fn printed_line(count: usize) -> Run {
    let pod = objects::packed::<DisplayFields>(Protobuf);
    let lines = Lines::new(Format::Json, "pods".to_owned(), 4);
    Box::new(move || {
        let mut text = Text::with_capacity(count * 256);
        for _ in 0..count {
            let event = Event {
                kind: EventKind::Add,
                key: pod.key(),
                object: Some(&pod),
                old: None,
                initial: true,
                final_state_unknown: false,
            };
            lines.event(&mut text, &event);
        }
        black_box(text);
    })
}

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        HOT_PATHS.iter().for_each(|(name, ..)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some((_, operations, prepare)) = HOT_PATHS.iter().find(|(known, ..)| *known == name) else {
        return ExitCode::FAILURE;
    };
    let mut run = prepare(*operations);
    run();
    counted(&mut *run);
    println!("{operations}");
    ExitCode::SUCCESS
}
