//! `kinformer watch`: lines, ends, failures.

use std::collections::BTreeMap;

use crate::common::{Program, pod, run, server, server_with_protobuf};
use kinformer_apiserver::{Fault, Verb};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A server that nobody is told of in another way.
fn at(server: &kinformer_apiserver::ApiServer, line: &str) -> String {
    format!("{line} --server {}", server.url())
}

#[tokio::test]
async fn json_lines_tell_every_change_and_its_versions() {
    let server = server(2).await;
    let mut program = Program::start(&at(&server, "watch pods -o json"));
    let lines = program.until("synced").await;
    let keys: Vec<&Value> =
        lines.iter().filter(|line| line["event"] == "add").map(|line| &line["key"]).collect();
    assert_eq!(keys.len(), 2, "{lines:?}");
    assert!(
        lines[..2].iter().all(|line| line["initial"] == true && line["oldResourceVersion"] == Value::Null)
    );
    assert_eq!(lines.last(), Some(&json!({"event": "synced", "resource": "pods", "count": 2})));

    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let added = server.create(pod("default", "new")).unwrap();
    let line = |event: &str, version: &Value, old: &Value| {
        json!({"event": event, "resource": "pods", "key": "default/new", "resourceVersion": version,
            "oldResourceVersion": old, "initial": false, "finalStateUnknown": false})
    };
    assert_eq!(program.json().await, line("add", &version(&added), &Value::Null));
    let mut changed = pod("default", "new");
    changed["metadata"]["labels"]["app"] = "other".into();
    let changed = server.update(changed).unwrap();
    assert_eq!(program.json().await, line("update", &version(&changed), &version(&added)));
    server.delete("v1", "Pod", "default", "new").unwrap();
    assert_eq!(program.json().await, line("delete", &server.version().to_string().into(), &Value::Null));

    program.signal(Signal::SIGINT);
    let ended = program.ended().await;
    ended.code(0);
    let last = ended.json();
    let stopped = &last[0];
    let figures = ["adds", "updates", "deletes", "relists"].map(|name| stopped[name].as_u64().unwrap());
    assert_eq!((stopped["event"].as_str(), figures), (Some("stopped"), [3, 1, 1, 0]));
    assert!(stopped["secondsToSync"].as_f64().unwrap() > 0.0);
    if cfg!(target_os = "linux") {
        assert!(stopped["peakMemoryBytes"].as_u64().unwrap() > 100_000);
        assert!(stopped["cpuSeconds"].as_f64().unwrap() > 0.0);
    }
    assert_eq!((last.len(), ended.stderr.as_str()), (1, ""));
}

#[tokio::test]
async fn a_missed_deletion_is_told_as_one() {
    let server = server(2).await;
    let mut program = Program::start(&at(&server, "watch pods -o json"));
    program.until("synced").await;
    // Gone while nobody could watch, and out of the history when one can again.
    server.faults().refuse_connections().await;
    server.drop_connections();
    server.delete("v1", "Pod", "default", "p1").unwrap();
    server.compact();
    server.faults().accept_connections().await;
    let line = program.json().await;
    assert_eq!((&line["event"], &line["key"]), (&json!("delete"), &json!("default/p1")));
    assert_eq!(line["finalStateUnknown"], true);
    program.signal(Signal::SIGTERM);
    let ended = program.ended().await;
    ended.code(0);
    assert_eq!(ended.json()[0]["relists"], 1);
}

#[tokio::test]
async fn several_resources_are_watched_at_once() {
    let server = server(3).await;
    let ended = run(&at(&server, "watch ns,po cm -A -o json --until-synced")).await;
    ended.code(0);
    let mut counts = BTreeMap::new();
    let lines = ended.json();
    for line in lines.iter().filter(|line| line["event"] == "synced") {
        counts.insert(line["resource"].as_str().unwrap(), line["count"].as_u64().unwrap());
    }
    assert_eq!(counts["pods"], 3);
    assert_eq!(counts["namespaces"], 4);
    assert_eq!(counts["configmaps"], 0);
    let stopped: Vec<&str> =
        lines.iter().rev().take(3).map(|line| line["resource"].as_str().unwrap()).collect();
    assert_eq!(stopped, ["configmaps", "pods", "namespaces"]);
}

#[tokio::test]
async fn namespaces_and_selectors_select() {
    let server = server(1).await;
    server.create(pod("other", "x")).unwrap();
    let mut elsewhere = pod("other", "y");
    elsewhere["spec"]["nodeName"] = "node-2".into();
    elsewhere["metadata"]["labels"] = json!({"app": "db"});
    server.create(elsewhere).unwrap();
    for (flags, keys) in [
        ("", vec!["default/p0"]),
        ("-n other", vec!["other/x", "other/y"]),
        ("-A", vec!["default/p0", "other/x", "other/y"]),
        ("-A -l app=web", vec!["default/p0", "other/x"]),
        ("-A -l app!=web", vec!["other/y"]),
        ("-A --field-selector spec.nodeName=node-2", vec!["other/y"]),
        ("-A --selector app --metadata-only", vec!["default/p0", "other/x", "other/y"]),
    ] {
        let ended = run(&at(&server, &format!("watch pods -o json --until-synced {flags}"))).await;
        ended.code(0);
        let lines = ended.json();
        let mut found: Vec<&str> = lines.iter().filter_map(|line| line["key"].as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, keys, "{flags}");
    }
}

#[tokio::test]
async fn an_object_that_leaves_the_selection_is_told_as_deleted() {
    let server = server(1).await;
    let mut program = Program::start(&at(&server, "watch pods -o json -l app=web"));
    program.until("synced").await;
    let mut leaving = pod("default", "p0");
    leaving["metadata"]["labels"]["app"] = "other".into();
    server.update(leaving).unwrap();
    assert_eq!(program.json().await["event"], "delete");
}

#[tokio::test]
async fn text_is_for_people() {
    let server = server(1).await;
    let ended = run(&at(&server, "watch pods --until-synced")).await;
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "initial pods default/p0");
    assert!(lines[1].starts_with("synced  pods 1 objects in "), "{lines:?}");
    assert_eq!(lines[2], "stopped pods 1 adds, 0 updates, 0 deletes, 0 relists");
    let wide = run(&at(&server, "watch pods --until-synced -o wide")).await;
    assert!(wide.stdout.contains("phase=Running node=node-1 labels=app=web"), "{wide:?}");
    let metadata = run(&at(&server, "watch pods --until-synced -o wide --metadata-only")).await;
    assert!(metadata.stdout.contains("labels=app=web"), "{metadata:?}");
    assert!(!metadata.stdout.contains("phase="), "{metadata:?}");
}

#[tokio::test]
async fn a_period_ends_it() {
    let server = server(1).await;
    let ended = run(&at(&server, "watch pods -o json --for 300ms")).await;
    ended.code(0);
    assert_eq!(ended.json().last().unwrap()["event"], "stopped");
    // Not in sync when it is over: too late.
    server.faults().inject(Fault::stall().on(Verb::List).always());
    server.faults().inject(Fault::stall().on(Verb::Watch).always());
    let ended = run(&at(&server, "watch pods -o json --until-synced --for 300ms")).await;
    ended.code(3).said("not in sync after 300ms: pods");
    assert_eq!(ended.json()[0]["secondsToSync"], Value::Null);
}

#[tokio::test]
async fn what_one_may_not_list_ends_it_at_once() {
    let server = server(1).await;
    server.faults().inject(Fault::forbidden().on(Verb::List).resource("pods").always());
    server.faults().inject(Fault::forbidden().on(Verb::Watch).resource("pods").always());
    let ended = run(&at(&server, "watch pods,ns -o json")).await;
    ended.code(4).said("refuses to list pods in namespace \"default\"").said("403");
    let get = run(&at(&server, "get pods")).await;
    get.code(4).said("403");
}

#[tokio::test]
async fn a_server_that_fails_for_a_while_is_waited_for() {
    let server = server(1).await;
    server.faults().inject(Fault::internal_error().on(Verb::List).times(1));
    server.faults().inject(Fault::internal_error().on(Verb::Watch).times(1));
    let ended = run(&at(&server, "watch pods -o json --until-synced")).await;
    ended.code(0).said("WARN");
    assert_eq!(ended.json()[0]["key"], "default/p0");
}

#[tokio::test]
async fn a_selector_that_the_server_does_not_know_is_told() {
    let server = server(1).await;
    let ended = run(&at(&server, "watch pods --field-selector bogus=1")).await;
    ended.code(1).said("bogus");
}

#[tokio::test]
async fn nobody_reading_ends_it_quietly() {
    let server = server(100).await;
    let mut program = Program::start(&at(&server, "watch pods -o json"));
    program.line().await;
    program.close_stdout();
    // There is something more to print, which nobody takes.
    server.create(pod("default", "one-more")).unwrap();
    let ended = program.ended().await;
    ended.code(0);
    assert_eq!(ended.stderr, "");
}

#[tokio::test]
async fn a_signal_ends_it_while_nothing_answers() {
    let server = server(1).await;
    server.faults().inject(Fault::stall().always());
    let mut line = at(&server, "watch pods -o json");
    line.push_str(" -vv");
    let program = Program::start(&line);
    // It has asked, and waits.
    let asked = async {
        while server.metrics().requests_for(Verb::Other, "") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::common::BOUND, asked).await.expect("it asks");
    program.signal(Signal::SIGINT);
    program.ended().await.code(0);
}

#[tokio::test]
async fn the_embedded_cluster_needs_nothing_else() {
    let ended = run("watch pods,nodes --embedded -o json --until-synced").await;
    ended.code(0);
    let lines = ended.json();
    let count = |resource: &str| {
        lines.iter().find(|line| line["event"] == "synced" && line["resource"] == resource).unwrap()["count"]
            .clone()
    };
    assert_eq!(count("nodes"), 5);
    // 60 at first, but there is always something going on.
    assert!((20..=120).contains(&count("pods").as_u64().unwrap()));
}

#[tokio::test]
async fn however_the_cluster_is_read_the_lines_are_the_same() {
    let server = server_with_protobuf(3).await;
    let mut odd = pod("default", "odd");
    odd["metadata"]["labels"] = json!({"a": "\u{e4}", "b": ""});
    odd["spec"]["nodeName"] = Value::Null;
    server.create(odd).unwrap();
    let read = async |flags: &str, lists: bool, answers: &str| {
        let before = server.metrics().requests_for(Verb::List, "pods");
        let ended = run(&at(&server, &format!("watch pods -o wide --until-synced -v {flags}"))).await;
        ended
            .code(0)
            .said(&format!("server selected a response encoding resource=pods encoding=\"{answers}\""));
        let listed = server.metrics().requests_for(Verb::List, "pods") - before;
        assert_eq!(listed > 0, lists, "{flags}");
        // How long it took is not the same.
        let lines = ended.stdout.lines().filter(|line| line.starts_with("initial"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (protobuf, json) = ("application/vnd.kubernetes.protobuf", "application/json");
    let usual = read("", false, protobuf).await;
    assert_eq!(usual.len(), 4);
    assert!(usual[0].contains("default/odd") && usual[0].ends_with("labels=a=\u{e4},b="), "{usual:?}");
    assert!(usual[1].contains("phase=Running node=node-1 labels=app=web"), "{usual:?}");
    for (flags, lists, answers) in [
        ("--eager", false, protobuf),
        ("--encoding json", false, json),
        ("--encoding json --eager", false, json),
        ("--encoding protobuf --watch-list=false", true, protobuf),
        ("--encoding json --watch-list=false", true, json),
        ("--eager --watch-list=false", true, protobuf),
        ("--eager --encoding json --watch-list=false", true, json),
        ("--watch-list", false, protobuf),
    ] {
        assert_eq!(read(flags, lists, answers).await, usual, "{flags}");
    }
}
