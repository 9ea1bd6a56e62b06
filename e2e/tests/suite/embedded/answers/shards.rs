//! Lists and watches of shards (KEP-5866), with the feature gate and without it.

use std::collections::BTreeSet;

use e2e::Options;
use http::Method;
use kinformer_apiserver::{ApiServer, ShardSelectors};
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::{Call, Found, Servers, report};

/// Tables have ages, and documented differences of their columns.
const IGNORED: compare::Ignored<'_> =
    compare::Ignored { own: &["resourceVersion", "continue", "cells", "description"], defaults: &[] };
/// Their hashes are in both halves.
const NAMESPACES: [&str; 4] = ["shard-north", "shard-south", "shard-east", "shard-west"];
const MAPS: &str = "/api/v1/configmaps?labelSelector=shards&";
const MIDDLE: &str = "0x8000000000000000";
const START: &str = "0x0000000000000000";
const END: &str = "0x10000000000000000";

fn range(field: &str, start: &str, end: &str) -> String {
    format!("shardRange(object.metadata.{field}, '{start}', '{end}')")
}

/// The parameter with this selector.
fn parameter(selector: &str) -> String {
    let encoded: String = selector.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("shardSelector={encoded}")
}

async fn servers(options: Options, shards: ShardSelectors) -> (super::Running, Servers) {
    let (running, servers) = Servers::start_with(options, ApiServer::builder().shard_selectors(shards)).await;
    for server in [&servers.real, &servers.ours] {
        for namespace in NAMESPACES {
            let object = json!({"metadata": {"name": namespace}});
            server.raw(&Method::POST, "/api/v1/namespaces", "application/json", &object).await;
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            for number in 0..10 {
                let object = json!({"metadata": {"name": format!("m{number}"), "labels": {"shards": ""}}});
                let (code, body) = server.raw(&Method::POST, &path, "application/json", &object).await;
                assert_eq!(code, 201, "{body}");
            }
        }
    }
    (running, servers)
}

/// Requests whose answers do not depend on UIDs.
fn calls() -> Vec<Call> {
    let (low, high) = (range("namespace", START, MIDDLE), range("namespace", MIDDLE, END));
    let mut selectors = vec![
        low.clone(),
        high.clone(),
        format!("{low} || {high}"),
        range("uid", START, END),
        String::new(),
        " ".into(),
        format!("{low} && {high}"),
        format!("{low} || {}", range("uid", MIDDLE, END)),
        range("name", START, END),
        range("uid", "0x0", END),
        range("uid", "0xffffffffffffffff", START),
        range("uid", START, "0x10000000000000001"),
        range("uid", START, "0x000000000000000g"),
        range("uid", START, "8"),
        range("uid", START, "0x000000000000000000"),
        "shardRange(object.metadata.uid, 0, 8)".into(),
        "shardRange(object.metadata.uid, hex(0), '0x8')".into(),
        "shardRange(object.metadata.uid)".into(),
        "shardRange('a', '0x0', '0x8')".into(),
        "object.metadata.uid > '0x0'".into(),
        "other(object.metadata.uid)".into(),
    ];
    selectors.extend((0..16).map(|part| {
        let bound = |part: u64| format!("0x{:016x}", part << 60);
        range("namespace", &bound(part), &if part == 15 { END.into() } else { bound(part + 1) })
    }));
    let mut calls = Vec::new();
    for selector in &selectors {
        let shard = parameter(selector);
        for path in ["", "limit=3&", "resourceVersion=0&"] {
            calls.push(Call::new(Method::GET, format!("{MAPS}{path}{shard}"), Value::Null));
        }
        let watch = format!("{MAPS}watch=true&timeoutSeconds=1&{shard}");
        calls.push(Call::new(Method::GET, watch, Value::Null));
        for form in ["Table", "PartialObjectMetadataList"] {
            let list = Call::new(Method::GET, format!("{MAPS}{shard}"), Value::Null);
            let accept = match form {
                "Table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
                _ => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            };
            calls.push(Call { accept, ..list });
        }
    }
    let shard = parameter(&low);
    let collection =
        |path: &str| Call::new(Method::DELETE, format!("{path}?labelSelector=shards&{shard}"), Value::Null);
    calls.extend(
        NAMESPACES.map(|namespace| collection(&format!("/api/v1/namespaces/{namespace}/configmaps"))),
    );
    calls.push(Call::new(Method::GET, MAPS, Value::Null));
    calls
}

async fn compared(servers: &mut Servers) -> Vec<String> {
    let mut problems = Vec::new();
    for call in calls() {
        servers.real.forget_numbers();
        servers.ours.forget_numbers();
        if let Found::Differences(found) = servers.send(&call, &IGNORED).await.1 {
            problems.push(format!("{call}\n    {}", found.join("\n    ")));
        }
    }
    problems
}

// contract: E-30a, E-30b, E-30c
#[tokio::test(flavor = "multi_thread")]
async fn shards_are_listed_and_watched_as_by_kubernetes() {
    let gate = Options::new().apiserver_flag("--feature-gates=ShardedListAndWatch=true");
    let (running, mut servers) = servers(gate, ShardSelectors::Honoured).await;
    for server in [&servers.real, &servers.ours] {
        let mut seen = BTreeSet::new();
        for (start, end) in [(START, MIDDLE), (MIDDLE, END)] {
            let path = format!("{MAPS}{}", parameter(&range("uid", start, end)));
            let (code, list) = server.raw(&Method::GET, &path, "", &Value::Null).await;
            assert_eq!(code, 200, "{list}");
            let items = list["items"].as_array().unwrap();
            assert!((1..40).contains(&items.len()), "{start}: {}", items.len());
            for item in items {
                assert!(seen.insert(item["metadata"]["uid"].to_string()), "{item} is in both shards");
            }
        }
        assert_eq!(seen.len(), 40);
    }
    report(&compared(&mut servers).await);
    running.shutdown().await;
}

// contract: E-30a
#[tokio::test(flavor = "multi_thread")]
async fn shards_are_ignored_without_the_feature_gate() {
    let (running, mut servers) = servers(Options::new(), ShardSelectors::Ignored).await;
    report(&compared(&mut servers).await);
    running.shutdown().await;
}
