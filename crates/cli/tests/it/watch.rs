//! `kinformer watch`: its lines, exit conditions and failures.

use std::collections::BTreeMap;

use crate::common::{Program, pod, run, server, server_with_protobuf};
use kinformer_apiserver::{Fault, Verb};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Adds the flag that selects this server.
fn with_server(server: &kinformer_apiserver::ApiServer, line: &str) -> String {
    format!("{line} --server {}", server.url())
}

#[tokio::test]
async fn json_lines_have_every_change_and_its_versions() {
    let server = server(2).await;
    let mut program = Program::start(&with_server(&server, "watch pods -o json"));
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

/// A deletion that is missed during an outage is printed with an unknown final state.
#[tokio::test]
async fn missed_deletion_is_printed_as_delete() {
    let server = server(2).await;
    let mut program = Program::start(&with_server(&server, "watch pods -o json"));
    program.until("synced").await;
    // The deletion happens while no watch is possible, and is compacted before the next one.
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
    // The version that has expired meanwhile is not another outage.
    assert!(!ended.stderr.contains("410"), "{ended:#?}");
}

#[tokio::test]
async fn several_resources_are_watched_at_once() {
    let server = server(3).await;
    let ended = run(&with_server(&server, "watch ns,po cm -A -o json --until-synced")).await;
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
async fn namespaces_and_selectors_filter_objects() {
    let server = server(1).await;
    server.create(pod("other", "x")).unwrap();
    let mut elsewhere = pod("other", "y");
    elsewhere["spec"]["nodeName"] = "node-2".into();
    elsewhere["metadata"]["labels"] = json!({"app": "db"});
    server.create(elsewhere).unwrap();
    server.create(namespace("third", "a")).unwrap();
    server.create(pod("third", "z")).unwrap();
    let mut labelled = server.get("v1", "Namespace", "", "other").unwrap().unwrap();
    labelled["metadata"]["labels"] = json!({"team": "a"});
    server.update(labelled).unwrap();
    for (flags, keys) in [
        ("", vec!["default/p0"]),
        ("-n other,default", vec!["default/p0", "other/x", "other/y"]),
        ("-n other,default -l app=db", vec!["other/y"]),
        ("--exclude-namespace other", vec!["default/p0", "third/z"]),
        ("--exclude-namespace other,third --field-selector spec.nodeName=node-1", vec!["default/p0"]),
        ("--namespace-selector team=a", vec!["other/x", "other/y", "third/z"]),
        ("--namespace-selector team=a --exclude-namespace third -l app=db", vec!["other/y"]),
        ("--namespace-selector team=none", vec![]),
        ("-n other", vec!["other/x", "other/y"]),
        ("-A", vec!["default/p0", "other/x", "other/y", "third/z"]),
        ("-A -l app=web", vec!["default/p0", "other/x", "third/z"]),
        ("-A -l app!=web", vec!["other/y"]),
        ("-A --field-selector spec.nodeName=node-2", vec!["other/y"]),
        ("-A --selector app --metadata-only", vec!["default/p0", "other/x", "other/y", "third/z"]),
    ] {
        let ended = run(&with_server(&server, &format!("watch pods -o json --until-synced {flags}"))).await;
        ended.code(0);
        let lines = ended.json();
        let mut found: Vec<&str> = lines.iter().filter_map(|line| line["key"].as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, keys, "{flags}");
    }
}

#[tokio::test]
async fn object_leaving_the_selection_is_deleted() {
    let server = server(1).await;
    let mut program = Program::start(&with_server(&server, "watch pods -o json -l app=web"));
    program.until("synced").await;
    let mut leaving = pod("default", "p0");
    leaving["metadata"]["labels"]["app"] = "other".into();
    server.update(leaving).unwrap();
    assert_eq!(program.json().await["event"], "delete");
}

#[tokio::test]
async fn text_output_has_columns_and_a_summary() {
    let server = server(1).await;
    let ended = run(&with_server(&server, "watch pods --until-synced")).await;
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "initial pods default/p0");
    assert!(lines[1].starts_with("synced  pods 1 objects in "), "{lines:?}");
    assert_eq!(lines[2], "stopped pods 1 adds, 0 updates, 0 deletes, 0 relists");
    let wide = run(&with_server(&server, "watch pods --until-synced -o wide")).await;
    assert!(wide.stdout.contains("phase=Running node=node-1 labels=app=web"), "{wide:?}");
    let metadata = run(&with_server(&server, "watch pods --until-synced -o wide --metadata-only")).await;
    assert!(metadata.stdout.contains("labels=app=web"), "{metadata:?}");
    assert!(!metadata.stdout.contains("phase="), "{metadata:?}");
}

#[tokio::test]
async fn for_limits_the_duration() {
    let server = server(1).await;
    let ended = run(&with_server(&server, "watch pods -o json --for 300ms")).await;
    ended.code(0);
    assert_eq!(ended.json().last().unwrap()["event"], "stopped");
    // The duration ends before the sync: an error.
    server.faults().inject(Fault::stall().on(Verb::List).always());
    server.faults().inject(Fault::stall().on(Verb::Watch).always());
    let ended = run(&with_server(&server, "watch pods -o json --until-synced --for 300ms")).await;
    ended.code(3).stderr_has("not in sync after 300ms: pods");
    assert_eq!(ended.json()[0]["secondsToSync"], Value::Null);
}

#[tokio::test]
async fn forbidden_list_ends_the_program() {
    let server = server(1).await;
    server.faults().inject(Fault::forbidden().on(Verb::List).resource("pods").always());
    server.faults().inject(Fault::forbidden().on(Verb::Watch).resource("pods").always());
    let ended = run(&with_server(&server, "watch pods,ns -o json")).await;
    ended.code(4).stderr_has("refuses to list pods in namespace \"default\"").stderr_has("403");
    let get = run(&with_server(&server, "get pods")).await;
    get.code(4).stderr_has("403");
}

#[tokio::test]
async fn transient_errors_are_retried() {
    let server = server(1).await;
    server.faults().inject(Fault::internal_error().on(Verb::List).times(1));
    server.faults().inject(Fault::internal_error().on(Verb::Watch).times(1));
    let ended = run(&with_server(&server, "watch pods -o json --until-synced")).await;
    ended.code(0).stderr_has("pods: ").stderr_has("retrying");
    assert_eq!(ended.stderr.matches("retrying").count(), 1, "{ended:#?}");
    assert_eq!(ended.json()[0]["key"], "default/p0");
}

/// An outage is two lines, whatever the number of attempts. Logs are for `-v`.
// contract: T-08c
#[tokio::test]
async fn an_outage_is_reported_once() {
    for namespaces in ["default", "default,other"] {
        let server = server(1).await;
        let line = format!("watch pods -o json -n {namespaces}");
        let mut program = Program::start(&with_server(&server, &line));
        program.until("synced").await;
        server.faults().refuse_connections().await;
        server.drop_connections();
        let lost = program.stderr_line().await;
        assert!(lost.starts_with("pods: connection lost: ") && lost.ends_with("; retrying"), "{lost}");
        server.faults().accept_connections().await;
        let again = program.stderr_line().await;
        assert!(again.starts_with("pods: connected again after "), "{again}");
        server.create(pod("default", "new")).unwrap();
        assert_eq!(program.json().await["key"], "default/new");
        program.signal(Signal::SIGINT);
        let ended = program.ended().await;
        assert_eq!(ended.code(0).stderr, "");
    }
}

/// A namespace whose rights are taken away is named, and the others go on.
// contract: T-07l
#[tokio::test]
async fn a_namespace_that_is_refused_stops_no_other() {
    let server = server(0).await;
    let mut program = Program::start(&with_server(&server, "watch pods -o json -n default,other"));
    program.until("synced").await;
    server.faults().inject(Fault::forbidden().on(Verb::List).namespace("other").always());
    server.faults().inject(Fault::forbidden().on(Verb::Watch).namespace("other").always());
    server.drop_connections();
    let refused = program.stderr_line().await;
    assert!(refused.starts_with("pods (other): ") && refused.contains("403"), "{refused}");
    server.create(pod("default", "new")).unwrap();
    assert_eq!(program.json().await["key"], "default/new");
    server.faults().clear();
    let again = program.stderr_line().await;
    assert!(again.starts_with("pods (other): connected again after "), "{again}");
    program.signal(Signal::SIGINT);
    assert_eq!(program.ended().await.code(0).stderr, "");
}

/// An update says what it changed; a Secret's values are not printed.
// contract: T-08a, T-08d
#[tokio::test]
async fn updates_say_what_they_changed() {
    let server = server(1).await;
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": value, "data": {"key": value},
            "metadata": {"name": "s", "namespace": "default", "labels": {"l": value}}})
    };
    server.create(secret("b25l")).unwrap();
    let mut program = Program::start(&with_server(&server, "watch pods,secrets --timestamps"));
    for _ in 0..4 {
        program.line().await;
    }
    let mut changed = pod("default", "p0");
    changed["metadata"]["labels"]["app"] = "other".into();
    server.update(changed).unwrap();
    let line = program.line().await;
    assert!(line.ends_with("Z update  pods    default/p0  metadata.labels.app web -> other"), "{line}");
    let mut other = secret("b25l");
    other["data"]["key"] = "dHdv".into();
    other["metadata"]["labels"]["l"] = "x".into();
    server.update(other).unwrap();
    let line = program.line().await;
    assert!(line.ends_with("update  secrets default/s  metadata.labels.l b25l -> x"), "{line}");
    program.signal(Signal::SIGINT);
    program.ended().await.code(0);
}

#[tokio::test]
async fn json_has_the_object_on_request() {
    let server = server_with_protobuf(1).await;
    let ended = run(&with_server(&server, "watch pods -o json --objects --until-synced")).await;
    let line = &ended.code(0).json()[0];
    assert_eq!(line["object"]["spec"]["containers"][0]["image"], "i");
    assert_eq!(line["key"], "default/p0");
}

#[tokio::test]
async fn unsupported_selector_is_reported() {
    let server = server(1).await;
    let ended = run(&with_server(&server, "watch pods --field-selector bogus=1")).await;
    ended.code(1).stderr_has("bogus");
}

#[tokio::test]
async fn closed_stdout_ends_the_program_quietly() {
    let server = server(100).await;
    let mut program = Program::start(&with_server(&server, "watch pods -o json"));
    program.line().await;
    program.close_stdout();
    // Another event makes the program write to the closed pipe.
    server.create(pod("default", "one-more")).unwrap();
    let ended = program.ended().await;
    ended.code(0);
    assert_eq!(ended.stderr, "");
}

#[tokio::test]
async fn signal_ends_the_program_while_requests_stall() {
    let server = server(1).await;
    server.faults().inject(Fault::stall().always());
    let mut line = with_server(&server, "watch pods -o json");
    line.push_str(" -vv");
    let program = Program::start(&line);
    // Wait until the program has sent a request.
    let requested = async {
        while server.metrics().requests_for(Verb::Other, "") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::common::BOUND, requested).await.expect("a request");
    program.signal(Signal::SIGINT);
    program.ended().await.code(0);
}

#[tokio::test]
async fn embedded_cluster_needs_no_other_flags() {
    let ended = run("watch pods,nodes --embedded -o json --until-synced").await;
    ended.code(0);
    let lines = ended.json();
    let count = |resource: &str| {
        lines.iter().find(|line| line["event"] == "synced" && line["resource"] == resource).unwrap()["count"]
            .clone()
    };
    assert_eq!(count("nodes"), 5);
    // 60 initially; the simulation changes this number continuously.
    assert!((20..=120).contains(&count("pods").as_u64().unwrap()));
}

#[tokio::test]
async fn reading_options_do_not_change_the_lines() {
    let server = server_with_protobuf(3).await;
    let mut odd = pod("default", "odd");
    odd["metadata"]["labels"] = json!({"a": "\u{e4}", "b": ""});
    odd["spec"]["nodeName"] = Value::Null;
    server.create(odd).unwrap();
    let read = async |flags: &str, lists: bool, encoding: &str| {
        let before = server.metrics().requests_for(Verb::List, "pods");
        let ended =
            run(&with_server(&server, &format!("watch pods -o wide --until-synced -v {flags}"))).await;
        ended.code(0).stderr_has(&format!(
            "server selected a response encoding resource=pods encoding=\"{encoding}\""
        ));
        let listed = server.metrics().requests_for(Verb::List, "pods") - before;
        assert_eq!(listed > 0, lists, "{flags}");
        // The other lines contain durations, which vary.
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
    for (flags, lists, encoding) in [
        ("--eager", false, protobuf),
        ("--encoding json", false, json),
        ("--encoding json --eager", false, json),
        ("--encoding protobuf --watch-list=false", true, protobuf),
        ("--encoding json --watch-list=false", true, json),
        ("--eager --watch-list=false", true, protobuf),
        ("--eager --encoding json --watch-list=false", true, json),
        ("--watch-list", false, protobuf),
    ] {
        assert_eq!(read(flags, lists, encoding).await, usual, "{flags}");
    }
}

fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

/// A namespace that is not selected any more takes its objects along: they were not deleted.
// contract: T-08f
#[tokio::test]
async fn objects_of_a_namespace_that_leaves_have_left() {
    let server = server(0).await;
    server.create(namespace("shop", "a")).unwrap();
    server.create(pod("shop", "web")).unwrap();
    server.create(pod("default", "other")).unwrap();
    let mut program = Program::start(&with_server(&server, "watch pods --namespace-selector team=a"));
    assert_eq!(program.line().await, "initial pods shop/web");
    assert!(program.line().await.starts_with("synced  pods 1 objects"));
    server.create(namespace("late", "a")).unwrap();
    server.create(pod("late", "new")).unwrap();
    assert_eq!(program.line().await, "add     pods late/new");
    let mut moved = server.get("v1", "Namespace", "", "shop").unwrap().unwrap();
    moved["metadata"]["labels"]["team"] = "b".into();
    server.update(moved).unwrap();
    assert_eq!(program.line().await, "left    pods shop/web");
    server.delete("v1", "Pod", "late", "new").unwrap();
    assert_eq!(program.line().await, "delete  pods late/new");
    program.signal(Signal::SIGINT);
    let ended = program.ended().await;
    ended.code(0);
    assert_eq!(ended.stdout, "stopped pods 2 adds, 0 updates, 1 deletes, 1 left, 0 relists\n");
}

/// The namespaces that a selector needs, and one of several, may be refused.
// contract: T-07l
#[tokio::test]
async fn refused_namespaces_are_named() {
    let server = server(1).await;
    let refused = |fault: Fault| server.faults().inject(fault.always());
    let several = "watch pods -n default,b";
    refused(Fault::forbidden().on(Verb::List).resource("namespaces"));
    refused(Fault::forbidden().on(Verb::Watch).resource("namespaces"));
    for command in ["watch pods", "get pods", "get pods --list-indexes"] {
        let ended = run(&with_server(&server, &format!("{command} --namespace-selector team=a"))).await;
        ended.code(4).stderr_has("refuses to list namespaces");
    }
    refused(Fault::forbidden().on(Verb::List).resource("pods").namespace("b"));
    refused(Fault::forbidden().on(Verb::Watch).resource("pods").namespace("b"));
    run(&with_server(&server, several))
        .await
        .code(4)
        .stderr_has("refuses to list pods in namespaces default, b");
    let get = run(&with_server(&server, "get pods -n default,b")).await;
    get.code(4).stderr_has("pods in namespace \"b\"");
    assert!(get.stdout.contains("p0"), "{get:#?}");
    let invalid = run(&with_server(&server, "watch pods --namespace-selector a in b")).await;
    invalid.code(2).stderr_has("resource \"in\"");
    run(&with_server(&server, "get pods --namespace-selector =b")).await.code(2).stderr_has("label selector");
}
