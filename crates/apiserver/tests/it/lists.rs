//! Lists: versions, pages, selectors, forms.

use crate::common::{Client, config_map, names, pod, server, version_of};
use kinformer_apiserver::{ApiServer, ShardSelectors, Validation};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn list_version(list: &Value) -> u64 {
    version_of(list)
}

fn create_maps(server: &ApiServer, count: usize) {
    for number in 0..count {
        server.create(config_map(&format!("m{number:03}"), "1")).unwrap();
    }
}

// contract: E-03a, E-05a
#[tokio::test]
async fn lists_have_the_global_version() {
    let server = server().await;
    let client = Client::new(&server);
    create_maps(&server, 2);
    server.create(pod("p")).unwrap();
    for version in [
        "",
        "?resourceVersion=0",
        "?resourceVersion=2&resourceVersionMatch=NotOlderThan",
        "?resourceVersion=3",
    ] {
        let list = client.get(&format!("{MAPS}{version}")).await.ok();
        assert_eq!(names(&list), ["m000", "m001"]);
        assert_eq!(list_version(&list), server.version(), "other resources advance the version too");
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
        assert_eq!(list["items"][0].get("kind"), None, "items of built-in kinds have no type");
    }
}

// contract: E-05a
#[tokio::test]
async fn versions_are_unique_and_rise() {
    let server = server().await;
    let mut last = server.version();
    for number in 0..20 {
        let object =
            if number % 2 == 0 { pod(&format!("p{number}")) } else { config_map(&format!("m{number}"), "1") };
        let made = server.create(object).unwrap();
        assert_eq!(version_of(&made), last + 1);
        last += 1;
    }
    let gone = server.delete("v1", "ConfigMap", "default", "m1").unwrap();
    assert_eq!(version_of(&gone), last + 1, "a deletion takes a version as well");
}

// contract: E-03a
#[tokio::test]
async fn exact_version_lists_its_state() {
    let server = server().await;
    let client = Client::new(&server);
    create_maps(&server, 2);
    let before = server.version();
    server.update(config_map("m000", "2")).unwrap();
    server.delete("v1", "ConfigMap", "default", "m001").unwrap();
    server.create(config_map("m002", "1")).unwrap();
    let exact = |version: u64| format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let list = client.get(&exact(before)).await.ok();
    assert_eq!(names(&list), ["m000", "m001"]);
    assert_eq!(list["items"][0]["data"]["key"], "1");
    assert_eq!(list_version(&list), before);
    let list = client.get(&exact(before + 1)).await.ok();
    assert_eq!((names(&list).len(), &list["items"][0]["data"]["key"]), (2, &json!("2")));
    assert_eq!(names(&client.get(MAPS).await.ok()), ["m000", "m002"]);
}

// contract: E-03a, E-03e, E-05c
#[tokio::test]
async fn compacted_versions_are_expired() {
    let server = server().await;
    let client = Client::new(&server);
    create_maps(&server, 3);
    let old = server.version();
    let page = client.get(&format!("{MAPS}?limit=2")).await.ok();
    server.create(pod("p")).unwrap();
    server.compact();
    let exact = client.get(&format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!(exact.status(410, "Expired"), "The resourceVersion for the provided list is too old.");
    let token = page["metadata"]["continue"].as_str().unwrap();
    let expired = client.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert!(expired.status(410, "Expired").starts_with("The provided continue parameter is too old"));
    let inconsistent = expired.body["metadata"]["continue"].as_str().unwrap();
    server.create(config_map("m003", "1")).unwrap();
    let rest = client.get(&format!("{MAPS}?limit=2&continue={inconsistent}")).await.ok();
    assert_eq!(names(&rest), ["m002", "m003"], "the rest as it is now");
    let not_older =
        client.get(&format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=NotOlderThan")).await.ok();
    assert_eq!(names(&not_older).len(), 4, "a minimum version does not expire");
}

// contract: E-05b
#[tokio::test]
async fn history_is_a_window() {
    let server = ApiServer::builder().history(3).start().await.unwrap();
    let client = Client::new(&server);
    create_maps(&server, 1);
    let first = server.version();
    for value in 0..3 {
        server.update(config_map("m000", &format!("v{value}"))).unwrap();
    }
    let exact = |version: u64| format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(client.get(&exact(first)).await.ok()["items"][0]["data"]["key"], "1");
    server.update(config_map("m000", "v3")).unwrap();
    client.get(&exact(first)).await.status(410, "Expired");
    assert_eq!(client.get(&exact(first + 1)).await.ok()["items"][0]["data"]["key"], "v0");
}

// contract: E-03b, E-03c
#[tokio::test]
async fn pages_show_one_state_despite_writes() {
    let server = server().await;
    let client = Client::new(&server);
    create_maps(&server, 25);
    let version = server.version();
    let mut seen = Vec::new();
    let mut token = String::new();
    let mut remaining = vec![];
    loop {
        let page = client.get(&format!("{MAPS}?limit=10&continue={token}")).await.ok();
        assert_eq!(list_version(&page), version);
        assert!(page["items"].as_array().unwrap().iter().all(|item| item["data"]["key"] == "1"));
        seen.extend(names(&page));
        remaining.push(page["metadata"]["remainingItemCount"].as_u64());
        // Changes, deletions and additions between the pages must not be visible.
        server.update(config_map("m020", &format!("changed {}", seen.len()))).unwrap();
        let _ = server.delete("v1", "ConfigMap", "default", "m015");
        server.create(config_map(&format!("m0105-{}", seen.len()), "1")).unwrap();
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, (0..25).map(|number| format!("m{number:03}")).collect::<Vec<_>>());
    assert_eq!(remaining, [Some(15), Some(5), None]);
    assert_eq!(
        names(&client.get(&format!("{MAPS}?resourceVersion=0&limit=5")).await.ok()).len(),
        27,
        "version 0 ignores the limit"
    );
}

// contract: E-03b
#[tokio::test]
async fn concurrent_paginations_are_consistent() {
    let server = server().await;
    let client = Client::new(&server);
    create_maps(&server, 4);
    // More states than are kept: the first ones are reconstructed from the history.
    let mut tokens = Vec::new();
    for round in 0..40 {
        let page = client.get(&format!("{MAPS}?limit=2")).await.ok();
        tokens.push((round, page["metadata"]["continue"].as_str().unwrap().to_owned()));
        server.update(config_map("m003", &format!("after {round}"))).unwrap();
    }
    for (round, token) in tokens {
        let page = client.get(&format!("{MAPS}?limit=2&continue={token}")).await.ok();
        let expected = if round == 0 { "1".to_owned() } else { format!("after {}", round - 1) };
        assert_eq!(page["items"][1]["data"]["key"], expected, "round {round}");
    }
}

// contract: E-03f
#[tokio::test]
async fn future_version_is_too_large() {
    let server = kinformer_apiserver::ApiServer::builder().first_version(1).start().await.unwrap();
    let client = Client::new(&server);
    let current = server.version();
    for query in [
        "resourceVersion=999",
        "resourceVersion=999&resourceVersionMatch=NotOlderThan",
        "resourceVersion=999&resourceVersionMatch=Exact",
        "resourceVersion=999&limit=5",
        "watch=1&resourceVersion=999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    ] {
        let answer = client.get(&format!("{PODS}?{query}")).await;
        let message = answer.status(504, "Timeout");
        assert_eq!(
            message,
            format!("Timeout: Too large resource version: 999, current: {current}"),
            "{query}"
        );
        let cause = &answer.body["details"]["causes"][0];
        assert_eq!(
            (&cause["reason"], &cause["message"]),
            (&json!("ResourceVersionTooLarge"), &json!("Too large resource version"))
        );
        assert_eq!(answer.headers["retry-after"], "1");
    }
}

// contract: E-03d
#[tokio::test]
async fn selectors_filter_lists() {
    let server = server().await;
    let client = Client::new(&server);
    for (name, node, phase) in [("a", "n1", "Running"), ("b", "n2", "Running"), ("c", "n1", "Failed")] {
        let mut object = pod(name);
        object["spec"]["nodeName"] = node.into();
        object["status"] = json!({"phase": phase});
        server.create(object).unwrap();
    }
    for (query, expected) in [
        ("labelSelector=app%3Da", &["a"] as &[&str]),
        ("labelSelector=app+in+(a,c)", &["a", "c"]),
        ("labelSelector=app,app!=b", &["a", "c"]),
        ("labelSelector=!app", &[]),
        ("fieldSelector=spec.nodeName%3Dn1", &["a", "c"]),
        ("fieldSelector=spec.nodeName=n1,status.phase!=Failed", &["a"]),
        ("fieldSelector=metadata.name==b", &["b"]),
        ("fieldSelector=metadata.namespace!=default", &[]),
        ("fieldSelector=spec.hostNetwork=false&labelSelector=app=b", &["b"]),
    ] {
        let list = client.get(&format!("{PODS}?{query}")).await.ok();
        assert_eq!(names(&list), expected, "{query}");
    }
    let page = client.get(&format!("{PODS}?labelSelector=app&limit=1")).await.ok();
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(page["metadata"].get("remainingItemCount"), None, "unknown with a selector");
    let other = client.get("/apis/apps/v1/deployments?fieldSelector=spec.nodeName=x").await;
    assert_eq!(
        other.status(400, "BadRequest"),
        "\"spec.nodeName\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    let unknown = client.get(&format!("{PODS}?fieldSelector=spec.x=y")).await;
    assert_eq!(unknown.status(400, "BadRequest"), "field label not supported: spec.x");
}

// contract: E-03a
#[tokio::test]
async fn namespaces_with_common_prefix_are_separate() {
    let server = server().await;
    let client = Client::new(&server);
    for namespace in ["a", "a-b", "ab"] {
        server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .unwrap();
        let mut map = config_map("m", "1");
        map["metadata"]["namespace"] = namespace.into();
        server.create(map).unwrap();
    }
    let list = client.get("/api/v1/namespaces/a/configmaps").await.ok();
    assert_eq!(
        (list["items"].as_array().unwrap().len(), &list["items"][0]["metadata"]["namespace"]),
        (1, &json!("a"))
    );
    assert_eq!(names(&client.get("/api/v1/configmaps").await.ok()).len(), 3);
    let page = client.get("/api/v1/namespaces/a-b/configmaps?limit=1").await.ok();
    assert_eq!(page["metadata"].get("continue"), None);
}

#[tokio::test]
async fn metadata_and_tables_by_negotiation() {
    let server = server().await;
    let client = Client::new(&server);
    let mut object = pod("a");
    object["status"] = json!({"phase": "Running"});
    server.create(object).unwrap();
    let list = client.get_as(PODS, METADATA).await.ok();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    let item = &list["items"][0];
    assert_eq!(
        (&item["kind"], &item["metadata"]["name"], item.get("spec")),
        (&json!("PartialObjectMetadata"), &json!("a"), None)
    );
    let table = client.get_as(PODS, TABLE).await.ok();
    assert_eq!(table["columnDefinitions"][2]["name"], "Status");
    assert_eq!(
        (&table["rows"][0]["cells"][0], &table["rows"][0]["cells"][2]),
        (&json!("a"), &json!("Running"))
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let table = client.get_as(&format!("{PODS}?includeObject=Object"), TABLE).await.ok();
    assert_eq!(table["rows"][0]["object"]["kind"], "Pod");
    client.get_as(&format!("{PODS}?includeObject=Other"), TABLE).await.status(400, "BadRequest");
    // Most kinds have columns of their own, with a cell for each; the others have the creation time.
    let rows = [
        (
            json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j", "namespace": "default"},
            "spec": {"completions": 3, "template": crate::common::job("j")["spec"]["template"]}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:01:30Z"}}),
            "/apis/batch/v1/jobs",
            json!(["j", "Running", "1/3", "90s"]),
        ),
        (
            json!({"kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "b", "namespace": "default"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}]}),
            "/apis/rbac.authorization.k8s.io/v1/rolebindings",
            json!(["b", "Role/r", "0s", "u"]),
        ),
        (
            json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "spec": {"minAvailable": "50%"},
            "metadata": {"name": "p", "namespace": "default"}}),
            "/apis/policy/v1/poddisruptionbudgets",
            json!(["p", "50%", "N/A", 0]),
        ),
        (
            json!({"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q", "namespace": "default"},
            "status": {"hard": {"limits.cpu": "2", "pods": 3}, "used": {"pods": 1}}}),
            "/api/v1/resourcequotas",
            json!(["q", "pods: 1/3", "limits.cpu: 0/2"]),
        ),
        (
            json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": {"name": "h", "namespace": "default"}, "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "metrics": [{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}}),
            "/apis/autoscaling/v2/horizontalpodautoscalers",
            json!(["h", "Deployment/d", "cpu: <unknown>/80%", "1", 3]),
        ),
        (
            json!({"kind": "ValidatingAdmissionPolicy", "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": "p"}, "spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            "operations": ["CREATE"]}]}, "validations": [{"expression": "true"}]}}),
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            json!(["p", 1, "v1/ConfigMap"]),
        ),
        (
            json!({"kind": "ValidatingAdmissionPolicyBinding", "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef":
            {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Allow"}}}),
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            json!([
                "b",
                "p",
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:\
                []LabelSelectorRequirement{},}"
            ]),
        ),
        (
            crate::common::widget_definition(),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!(["widgets.example.com", "Namespaced"]),
        ),
        (
            json!({"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "r", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
            "/apis/rbac.authorization.k8s.io/v1/roles",
            json!(["r", "2026-01-01T00:00:00Z"]),
        ),
    ];
    for (object, path, expected) in rows {
        server.create(object).unwrap();
        let table = client.get_as(path, TABLE).await.ok();
        let (cells, columns) = (table["rows"][0]["cells"].as_array().unwrap(), &table["columnDefinitions"]);
        assert_eq!(cells.len(), columns.as_array().unwrap().len(), "{path}: {cells:?}");
        let expected = expected.as_array().unwrap();
        assert_eq!(cells[..expected.len()], expected[..], "{path}");
    }
    client.get_as(PODS, "application/vnd.kubernetes.protobuf").await.status(406, "NotAcceptable");
    client.get_as(PODS, "application/vnd.kubernetes.protobuf,application/json").await.ok();
}

/// Every built-in kind can be listed in every form, so that no row of the tables is broken.
#[tokio::test]
async fn all_kinds_can_be_created_and_listed() {
    let server = ApiServer::builder().validation(Validation::Off).start().await.unwrap();
    let client = Client::new(&server);
    let groups = client.get("/apis").await.ok();
    let mut roots = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    let mut made = 0;
    for root in roots {
        for resource in client.get(&root).await.ok()["resources"].as_array().unwrap() {
            let plural = resource["name"].as_str().unwrap();
            let is_listed = resource["verbs"].as_array().unwrap().contains(&json!("list"));
            if plural.contains('/') || plural == "customresourcedefinitions" || !is_listed {
                continue;
            }
            let namespaced = resource["namespaced"] == true;
            let path = if namespaced {
                format!("{root}/namespaces/default/{plural}")
            } else {
                format!("{root}/{plural}")
            };
            let name = format!("x{made}");
            client.post(&path, &json!({"metadata": {"name": name}})).await.ok();
            let table = client.get_as(&path, TABLE).await.ok();
            let width = table["columnDefinitions"].as_array().unwrap().len();
            for row in table["rows"].as_array().unwrap() {
                assert_eq!(row["cells"].as_array().unwrap().len(), width, "{path}");
            }
            let list = client.get_as(&path, METADATA).await.ok();
            assert!(names(&list).contains(&name), "{path}");
            made += 1;
        }
    }
    assert!(made > 50, "{made}");
}

// contract: E-05e
#[tokio::test]
async fn first_version_is_the_time_in_microseconds() {
    let now = || u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap();
    let before = now();
    let server = server().await;
    let first = server.version();
    let after = now();
    assert!((before..=after + 10_000).contains(&first), "{first} is not in {before}..={after}");
}

const LOW_SHARD: &str = "shardRange(object.metadata.namespace,'0x0000000000000000','0x8000000000000000')";

/// Returns the names of the config maps in the low half of the hashes of namespaces, and the `shardInfo` of the list.
async fn maps_of_low_shard(shards: ShardSelectors) -> (Vec<String>, Value) {
    let server = ApiServer::builder().shard_selectors(shards).start().await.unwrap();
    for namespace in ["green", "shop", "red", "blue"] {
        server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .unwrap();
        let metadata = json!({"name": format!("in-{namespace}"), "namespace": namespace});
        server.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    }
    let client = Client::new(&server);
    let list = client.get(&format!("/api/v1/configmaps?shardSelector={LOW_SHARD}")).await.ok();
    (names(&list), list["metadata"]["shardInfo"].clone())
}

// contract: E-30a, E-30b
#[tokio::test]
async fn shard_has_the_objects_whose_hashes_are_in_its_range() {
    let (names, info) = maps_of_low_shard(ShardSelectors::Honoured).await;
    assert_eq!(names, ["in-green", "in-shop"]);
    let selector = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')";
    assert_eq!(info, json!({ "selector": selector }));
    let (names, info) = maps_of_low_shard(ShardSelectors::Ignored).await;
    assert_eq!((names.len(), info), (4, Value::Null));
}

// contract: E-30c
#[tokio::test]
async fn shard_selector_of_another_form_is_refused() {
    let server = ApiServer::builder().shard_selectors(ShardSelectors::Honoured).start().await.unwrap();
    let answer = Client::new(&server).get("/api/v1/pods?shardSelector=other(object)").await;
    let message = answer.status(500, "");
    let expected =
        "invalid shard selector: unsupported function \"other\"; only shardRange() and || are allowed";
    assert_eq!(message, expected);
}

// contract: E-03g
#[tokio::test]
async fn empty_list_of_metadata_has_null_items() {
    let server = server().await;
    let client = Client::new(&server);
    assert_eq!(client.get_as(PODS, METADATA).await.ok()["items"], Value::Null);
    assert_eq!(client.get(PODS).await.ok()["items"], json!([]));
}
