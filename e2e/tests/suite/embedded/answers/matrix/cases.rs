//! The parameters, headers and bodies, good and bad.

use super::*;

pub(in super::super) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// What may differ in answers about resources.
pub(super) const ALL: compare::Ignored<'static> =
    compare::Ignored { own: &["continue", "resourceVersion"], defaults: compare::DEFAULTS };
const NONE: compare::Ignored<'static> =
    compare::Ignored { own: &["continue", "resourceVersion", "serverAddress"], defaults: &[] };
const DEPLOYMENTS: compare::Ignored<'static> =
    compare::Ignored { own: &["managedFields", "continue", "resourceVersion"], defaults: compare::DEFAULTS };

/// The differences that are in the documentation with these words. Each occurs.
pub(super) const ROWS: &[Row] = &[
    Row {
        why: "**Validation** of other kinds is missing",
        is: |call, real, ours| {
            let kinds = [
                "apiservices",
                "csistoragecapacities",
                "events.k8s.io/v1/",
                "flowschemas",
                "ipaddresses",
                "prioritylevelconfigurations",
                "resourceslices",
                "servicecidrs",
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "volumeattributesclasses",
            ];
            real.code == 422
                && matches!(ours.code, 201 | 404)
                && kinds.iter().any(|kind| call.path.contains(kind))
        },
    },
    Row {
        why: "no service account",
        is: |_, real, _| real.code == 403 && message(real).contains("error looking up service account"),
    },
    Row {
        why: "the user is `kinformer`",
        is: |call, real, ours| {
            call.path.contains("/selfsubjectreviews")
                && real.code == 201
                && ours.body["status"]["userInfo"]["username"] == "kinformer"
        },
    },
    Row {
        why: "a limit range without a name is refused",
        is: |call, real, ours| call.path.contains("/limitranges") && (real.code, ours.code) == (201, 422),
    },
    Row {
        why: "`ignoreStoreReadErrorWithClusterBreakingPotential` has no effect",
        is: |call, _, ours| call.path.contains("ignoreStoreRead") && ours.code == 200,
    },
    Row {
        why: "but no duplicate fields",
        is: |_, real, _| real.warnings.iter().any(|warning| warning.contains("duplicate field")),
    },
    Row {
        why: "JSON is not indented",
        is: |call, real, ours| {
            call.path.contains("pretty=true") && real.code == ours.code && real.text != ours.text
        },
    },
    Row {
        why: "YAML is not among the formats of answers",
        is: |call, real, ours| {
            let is_partial = call.accept.contains("PartialObjectMetadata") && real.body != ours.body;
            !call.accept.is_empty() && (real.media_type != ours.media_type || real.code == 406 || is_partial)
        },
    },
    Row {
        why: "tables have other columns",
        is: |call, real, ours| {
            let rows = |answer: &Answer| answer.body["rows"].as_array().map_or(0, Vec::len);
            let is_scale = call.path.contains("/scale");
            call.accept.contains("as=Table")
                && real.code == ours.code
                && real.body != ours.body
                && (rows(real) == rows(ours) || is_scale)
        },
    },
    Row {
        why: "a path of no group, and a method that no path has",
        is: |call, real, ours| {
            let is_error = |code| matches!(code, 400 | 404 | 405 | 501);
            let is_odd = is_error(real.code) && is_error(ours.code) && [real.code, ours.code].contains(&405);
            is_odd
                || (real.media_type.starts_with("text/plain") && is_error(ours.code))
                || (ours.code == 405 && matches!(real.code, 200 | 415))
                || (call.path.contains("//") || call.path.contains("/a/") || call.path.contains("/.."))
        },
    },
    Row {
        why: "`generateName` is not validated in an update",
        is: |call, real, ours| {
            call.to_string().contains("generateName") && (real.code, ours.code) == (422, 200)
        },
    },
    Row {
        why: "an error names a cause of the metadata of a custom resource once",
        is: |call, real, ours| {
            let mut causes = causes(real);
            causes.dedup();
            call.path.contains("/widgets/")
                && (real.code, ours.code) == (422, 422)
                && causes == self::causes(ours)
        },
    },
    Row {
        why: "the status of a service that does not exist",
        is: |call, real, ours| {
            call.path.contains("/services/missing/status") && (real.code, ours.code) == (422, 404)
        },
    },
    Row {
        why: "a write of a status changes no annotations",
        is: |call, real, ours| {
            call.path.contains("/status")
                && real.code == ours.code
                && only(real, ours, |found| {
                    let parts = ["ownerReferences", "managedFields", "ours has none"];
                    parts.iter().any(|part| found.contains(part)) || found.starts_with(".metadata.uid")
                })
        },
    },
    Row {
        why: "a watch from a version of the future",
        is: |call, real, ours| call.path.contains("watch=true") && (real.code, ours.code) == (200, 504),
    },
    Row {
        why: "a bookmark has metadata and no other fields",
        is: |call, real, ours| {
            call.path.contains("watch=true")
                && real.code == ours.code
                && only(real, ours, |found| found.contains(".object.") && found.ends_with("ours has none"))
        },
    },
    Row {
        why: "the message of an error has other words",
        is: |_, real, ours| {
            matches!(real.code, 400 | 404 | 415 | 422)
                && (real.code, &real.body["reason"]) == (ours.code, &ours.body["reason"])
                && message(real) != message(ours)
                && (real.code != 404 || message(ours).contains('/'))
        },
    },
];

fn causes(answer: &Answer) -> Vec<Value> {
    answer.body["details"]["causes"].as_array().cloned().unwrap_or_default()
}

fn message(answer: &Answer) -> &str {
    answer.body["message"].as_str().unwrap_or_default()
}

/// Whether there are differences, and all of them are of one sort.
fn only(real: &Answer, ours: &Answer, is_of_sort: impl Fn(&str) -> bool) -> bool {
    let mut found = Vec::new();
    compare::json(&mut found, "", &real.body, &ours.body, &NONE);
    !found.is_empty() && found.iter().all(|found| is_of_sort(found))
}

#[rustfmt::skip]
const OPTIONS_OF_READS: &[&str] = &[
    "resourceVersion=", "resourceVersion=0", "resourceVersion=x", "resourceVersion=-1", "resourceVersion=1.5",
    "resourceVersion=99999999999999999999", "resourceVersion=9000000000000000000", "export=true", "export=false",
    "unknown=1", "limit=x", "dryRun=x", "fieldSelector=x", "timeoutSeconds=x", "pretty=x", "pretty=true",
];

#[rustfmt::skip]
const OPTIONS_OF_LISTS: &[&str] = &[
    "", "limit=1", "limit=0", "limit=-1", "limit=x", "limit=", "limit=1.5", "limit=99999999999999999999",
    "limit=1&limit=x", "continue=", "continue=x", "limit=1&continue=x", "continue=e30", "continue=W10",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhXHUwMDAwIn0",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiIn0",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9&resourceVersion=5",
    "continue=x&resourceVersionMatch=Exact&resourceVersion=5", "resourceVersion=", "resourceVersion=0",
    "resourceVersion=x", "resourceVersion=-1", "resourceVersion=0&limit=1", "resourceVersion=99999999999999999999",
    "resourceVersion=9000000000000000000", "resourceVersionMatch=", "resourceVersionMatch=Exact",
    "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=x", "resourceVersionMatch=Exact&resourceVersion=0",
    "resourceVersionMatch=Exact&resourceVersion=x",
    "resourceVersionMatch=Exact&resourceVersion=9000000000000000000",
    "resourceVersionMatch=NotOlderThan&resourceVersion=0", "resourceVersionMatch=NotOlderThan&resourceVersion=x",
    "resourceVersionMatch=x&resourceVersion=0",
    "resourceVersionMatch=NotOlderThan&resourceVersion=9000000000000000000", "labelSelector=", "labelSelector=a=b",
    "labelSelector=a+in+(b", "labelSelector=a+in+()", "labelSelector=!", "labelSelector=!a", "labelSelector==",
    "labelSelector=a%3D%3D%3D", "labelSelector=a/b/c", "labelSelector=a+notin+(b,c)", "labelSelector=a%3E1",
    "labelSelector=a%3Ex", "labelSelector=a,,b", "labelSelector=a=b=c", "labelSelector=-a", "labelSelector=a=-b",
    "labelSelector=a&labelSelector=(", "labelSelector=a+b", "labelSelector=a!=b,c", "fieldSelector=",
    "fieldSelector=metadata.name=a", "fieldSelector=metadata.name!=a", "fieldSelector=metadata.name==a",
    "fieldSelector=metadata.name", "fieldSelector=metadata.name%3Ea", "fieldSelector=,", "fieldSelector==a",
    "fieldSelector=metadata.namespace=x", "fieldSelector=no.field=a", "fieldSelector=metadata.name=a\\",
    "fieldSelector=status.phase=x", "fieldSelector=metadata.name=a,metadata.name=b", "timeoutSeconds=x",
    "timeoutSeconds=-1", "timeoutSeconds=0", "allowWatchBookmarks=x", "allowWatchBookmarks=true",
    "sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=", "sendInitialEvents=x",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "watch=false", "watch=0", "unknown=1", "pretty=0",
];

/// With `watch=true`.
#[rustfmt::skip]
const OPTIONS_OF_WATCHES: &[&str] = &[
    "", "resourceVersion=0", "resourceVersion=x", "resourceVersion=-1",
    "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=x&resourceVersion=0",
    "sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=true&resourceVersionMatch=Exact",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=x",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=9000000000000000000",
    "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x", "limit=x", "limit=1", "continue=x",
    "labelSelector=(", "labelSelector=a=b", "fieldSelector=no.field=a", "fieldSelector=metadata.name",
    "fieldSelector=metadata.name=none", "allowWatchBookmarks=x", "timeoutSeconds=x",
];

#[rustfmt::skip]
const OPTIONS_OF_WRITES: &[&str] = &[
    "", "dryRun=", "dryRun=x", "dryRun=All&dryRun=All", "dryRun=All&dryRun=x", "fieldManager=", "fieldManager=a+b",
    "fieldManager=%01", "fieldManager=%E2%80%8B", "fieldManager=%C3%A9", "fieldManager=a/b", "fieldManager=LONG",
    "fieldManager=LONG%01&dryRun=x", "fieldValidation=", "fieldValidation=Ignore", "fieldValidation=Warn",
    "fieldValidation=Strict", "fieldValidation=x", "fieldValidation=strict", "force=true", "force=false", "force=x",
    "force=", "unknown=1", "timeoutSeconds=x", "resourceVersion=x", "pretty=false",
];

#[rustfmt::skip]
const OPTIONS_OF_DELETIONS: &[&str] = &[
    "", "gracePeriodSeconds=0", "gracePeriodSeconds=-1", "gracePeriodSeconds=x", "gracePeriodSeconds=",
    "gracePeriodSeconds=1.5", "propagationPolicy=", "propagationPolicy=x", "propagationPolicy=Orphan",
    "propagationPolicy=Foreground", "propagationPolicy=Background", "orphanDependents=", "orphanDependents=true",
    "orphanDependents=false", "orphanDependents=x", "orphanDependents=true&propagationPolicy=Orphan", "dryRun=",
    "dryRun=x", "dryRun=All&dryRun=x", "dryRun=All&dryRun=All", "resourceVersion=x",
    "ignoreStoreReadErrorWithClusterBreakingPotential=true",
];

#[rustfmt::skip]
const BODIES_OF_DELETIONS: &[&str] = &[
    r#"{"dryRun":["All"]}"#, r#"{"dryRun":["x"]}"#, r#"{"dryRun":"x"}"#, r#"{"kind":"Other","dryRun":["All"]}"#,
    r#"{"kind":"DeleteOptions","dryRun":["All"]}"#,
    r#"{"apiVersion":"other/v9","kind":"DeleteOptions","dryRun":["All"]}"#,
    r#"{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions","dryRun":["All"]}"#,
    r#"{"apiVersion":"apps/v1","kind":"DeleteOptions","dryRun":["All"]}"#,
    r#"{"dryRun":["All"],"preconditions":{"uid":"x"}}"#,
    r#"{"dryRun":["All"],"preconditions":{"resourceVersion":"1"}}"#,
    r#"{"dryRun":["All"],"preconditions":{"uid":"x","resourceVersion":"1"}}"#,
    r#"{"dryRun":["All"],"preconditions":{}}"#, r#"{"dryRun":["All"],"gracePeriodSeconds":-5}"#,
    r#"{"dryRun":["All"],"gracePeriodSeconds":"x"}"#, r#"{"dryRun":["All"],"unknown":1}"#,
    r#"{"dryRun":["All"],"propagationPolicy":"x"}"#,
    r#"{"dryRun":["All"],"propagationPolicy":"Orphan","orphanDependents":false}"#,
    r#"{"dryRun":["All"],"propagationPolicy":""}"#, "[]", "{", "x", "1",
];

#[rustfmt::skip]
const BODIES: &[&str] = &[
    "", "{}", "{", "nonsense", "[]", "null", "\"x\"", "1", r#"{"kind":1}"#, r#"{"metadata":[]}"#,
    r#"{"metadata":{"name":1}}"#, r#"{"metadata":null}"#, r#"{"metadata":{"labels":{"a":1}}}"#,
    r#"{"metadata":{"labels":{"a b":"c d"}}}"#, r#"{"metadata":{"finalizers":"x"}}"#,
    r#"{"metadata":{"creationTimestamp":"x"}}"#, r#"{"unknown":1}"#, r#"{"metadata":{"name":"a","name":"b"}}"#,
    r#"{"kind":"Other"}"#, r#"{"apiVersion":"v9"}"#, r#"{"apiVersion":"a/b/c","kind":"Other"}"#,
    r#"{"metadata":{"name":"other"}}"#, r#"{"metadata":{"namespace":"other"}}"#,
    r#"{"metadata":{"resourceVersion":"x"}}"#, r#"{"metadata":{"resourceVersion":"1"}}"#,
    r#"{"metadata":{"uid":"x"}}"#, r#"{"metadata":{"generateName":"A_"}}"#, "DEEP",
];

/// Fields of an object that is otherwise good, with other values.
const CHANGES: &[(&str, &str)] = &[
    ("/apiVersion", "null"),
    ("/apiVersion", "1"),
    ("/kind", "null"),
    ("/kind", "{}"),
    ("/metadata", "null"),
    ("/metadata/uid", "\"x\""),
    ("/metadata/uid", "1"),
    ("/metadata/labels", r#"{"x":1}"#),
    ("/metadata/labels", r#"{"x":null}"#),
    ("/metadata/labels", r#"["x"]"#),
    ("/metadata/annotations", r#"{"x":true}"#),
    ("/metadata/finalizers", r#"["x",1]"#),
    ("/metadata/generation", "\"1\""),
    ("/metadata/creationTimestamp", "null"),
    ("/metadata/managedFields", r#"[{"manager":1}]"#),
];

#[rustfmt::skip]
const PATCH_BODIES: &[(&str, &str)] = &[
    ("application/json-patch+json", r#"[{"op":"x"}]"#),
    ("application/json-patch+json", r#"[{"op":"remove","path":"/none"}]"#),
    ("application/json-patch+json", r#"[{"op":"add","path":"none","value":1}]"#),
    ("application/json-patch+json", r#"[{"op":"test","path":"/metadata/name","value":"z"}]"#),
    ("application/json-patch+json", r#"[{"op":"replace","path":"/metadata/name","value":"z"}]"#),
    ("application/json-patch+json", r#"[{"op":"replace","path":"/metadata","value":1}]"#),
    ("application/merge-patch+json", r#"{"metadata":1}"#),
    ("application/strategic-merge-patch+json", r#"{"metadata":1}"#),
    ("application/strategic-merge-patch+json", r#"{"$patch":"x"}"#),
    ("application/strategic-merge-patch+json", r#"{"metadata":{"finalizers":{}}}"#),
];

#[rustfmt::skip]
const ACCEPTS: &[&str] = &[
    "application/json", "*/*", "application/*", "text/html", "application/yaml", "application/cbor", "garbage", ",",
    "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json",
    "application/json;q=0", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v9",
    "application/json;as=PartialObjectMetadata;g=x;v=v1", TABLE,
    "application/json;as=Table;g=meta.k8s.io;v=v1beta1", "application/json;as=Table;g=meta.k8s.io;v=v9",
    "application/json;as=Table;v=v1", "application/json;as=Other;g=meta.k8s.io;v=v1",
    "application/json;stream=watch", "application/json;charset=utf-8", "application/json;profile=x",
    "application/json;pretty=1", "application/json;as=Table;g=meta.k8s.io;v=v9,application/json",
];

#[rustfmt::skip]
const CONTENTS: &[&str] = &[
    "", "text/plain", "application/json; charset=utf-8", "application/yaml", "application/merge-patch+json",
    "garbage", "application/merge-patch+json; charset=utf-8", "application/apply-patch+cbor", "application/cbor",
    "APPLICATION/JSON",
];

const METHODS: &[&str] = &["OPTIONS", "HEAD", "TRACE", "PURGE", "POST", "PUT", "PATCH", "DELETE"];

const NAMES: &[&str] =
    &["A", "a_b", "-", "..", "a%2Fb", "a%20b", "%C3%A9", "a%25", "LONG", "a/b", "a/b/c", "a/"];

#[rustfmt::skip]
const PATHS: &[&str] = &[
    "/api", "/api/v2", "/apis/none", "/apis/apps", "/apis/apps/v9", "/apis/apps/v1/nothing", "/api/v1/nothing/x",
    "/nothing", "/api/v1/configmaps/x", "/api/v1/namespaces/none/nodes", "/api/v1/namespaces/none/nodes/x",
    "/apis/none/v1/x", "/api/v1/watch/configmaps?resourceVersion=x",
    "/api/v1/watch/namespaces/none/configmaps/x?resourceVersion=x", "/api/v1/namespaces/none/configmaps",
    "/api/v1/namespaces/none/configmaps/", "/api/v1/namespaces/none/nothing",
    "/api/v1/namespaces/none/configmaps/x", "/api/v1/namespaces/none", "/api/v1/namespaces/none/status",
];

/// A resource or subresource, with its object.
struct Subject {
    all: String,
    sub: &'static str,
    object: Value,
    ignored: &'static compare::Ignored<'static>,
}

fn subjects(namespace: &str) -> Vec<Subject> {
    let object = |version: &str, kind: &str, rest: Value| {
        let mut object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "m-a", "labels": {"a": "b"}}});
        json_patch::merge(&mut object, &rest);
        object
    };
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deployment = object(
        "apps/v1",
        "Deployment",
        json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template}}),
    );
    let scale = object(
        "autoscaling/v1",
        "Scale",
        json!({"metadata": {"namespace": namespace}, "spec": {"replicas": 2}}),
    );
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let widgets = format!("/apis/answers.example.com/v1/namespaces/{namespace}/widgets");
    let subject = |all: &str, sub, object, ignored| Subject { all: all.to_owned(), sub, object, ignored };
    vec![
        subject("/api/v1/namespaces", "", object("v1", "Namespace", json!({})), &NONE),
        subject(&maps, "", object("v1", "ConfigMap", json!({"data": {"a": "b"}})), &NONE),
        subject(&deployments, "", deployment.clone(), &DEPLOYMENTS),
        subject(&deployments, "/status", deployment, &DEPLOYMENTS),
        subject(&deployments, "/scale", scale, &DEPLOYMENTS),
        subject(
            &widgets,
            "",
            object("answers.example.com/v1", "Widget", json!({"spec": {"name": "x"}})),
            &NONE,
        ),
    ]
}

/// The objects that the requests name, with the paths of their resources.
pub(super) fn objects(namespace: &str) -> Vec<(String, Value)> {
    let namespaces = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let subjects = subjects(namespace).into_iter().filter(|subject| subject.sub.is_empty());
    let objects = subjects.flat_map(|Subject { all, object, .. }| {
        let mut other = object.clone();
        other["metadata"]["name"] = json!("m-b");
        [(all.clone(), object), (all, other)]
    });
    std::iter::once(("/api/v1/namespaces".to_owned(), namespaces)).chain(objects).collect()
}

/// The requests that are sent one after another, and what may differ.
pub(super) fn parameters(namespace: &str) -> Vec<(Vec<Call>, &'static compare::Ignored<'static>)> {
    let mut all = Vec::new();
    for subject in subjects(namespace) {
        let one = format!("{}/m-a{}", subject.all, subject.sub);
        all.push((reads(&one, OPTIONS_OF_READS), subject.ignored));
        all.push((writes(&one, Method::PUT, &subject.object), subject.ignored));
        all.push((patches(&one, &subject.object), subject.ignored));
        all.push((others(&subject, &one), subject.ignored));
        if subject.sub.is_empty() {
            let mut new = subject.object.clone();
            new["metadata"]["name"] = json!("m-new");
            all.push((writes(&subject.all, Method::POST, &new), subject.ignored));
            all.push((
                reads(&format!("{}?labelSelector=a=b", subject.all), OPTIONS_OF_LISTS),
                subject.ignored,
            ));
            let watches = format!("{}?watch=true&timeoutSeconds=1&labelSelector=a=b", subject.all);
            for part in OPTIONS_OF_WATCHES.chunks(6) {
                all.push((reads(&watches, part), subject.ignored));
            }
            all.push((deletions(&subject.all, &format!("{}/m-b", subject.all)), subject.ignored));
        }
    }
    let paths = PATHS.iter().flat_map(|path| {
        let with = |method| Call::new(method, *path, json!({}));
        [
            Call::new(Method::GET, *path, Value::Null),
            with(Method::POST),
            with(Method::PUT),
            with(Method::DELETE),
        ]
    });
    all.push((paths.collect(), &NONE));
    all.push((definitions(), &NONE));
    all
}

/// Definitions with one fault each.
fn definitions() -> Vec<Call> {
    let second = || json!({"name": "v2", "served": true, "storage": false});
    let versions = |change: fn(&mut Vec<Value>)| {
        let mut versions = super::widgets()["spec"]["versions"].as_array().unwrap().clone();
        change(&mut versions);
        json!(versions)
    };
    let mut of_two = super::widgets()["spec"]["versions"].as_array().unwrap().clone();
    of_two.push(second());
    let faults = [
        ("/metadata/name", json!("other.answers.example.com")),
        ("/metadata/name", json!("widgets")),
        ("/spec/versions", json!([])),
        ("/spec/versions", Value::Null),
        ("/spec/versions", json!([{}])),
        ("/spec/versions", json!("v1")),
        ("/spec/versions", json!([second()])),
        ("/spec/versions", json!(of_two)),
        ("/spec/versions", versions(|all| all.push(all[0].clone()))),
        ("/spec/versions", versions(|all| all[0]["name"] = json!("V1"))),
        ("/spec/versions", versions(|all| all[0]["served"] = Value::Null)),
        ("/spec/versions", versions(|all| all[0]["storage"] = json!(false))),
        ("/spec/versions", versions(|all| all[0]["schema"] = json!({}))),
        ("/spec/versions", versions(|all| all[0]["schema"] = Value::Null)),
        ("/spec/versions", versions(|all| all[0]["deprecationWarning"] = json!("old"))),
        ("/spec/versions", versions(|all| all[0]["subresources"] = json!({"scale": {}}))),
        (
            "/spec/versions",
            versions(|all| all[0]["subresources"] = json!({"scale": {"specReplicasPath": "spec"}})),
        ),
        ("/spec/versions", versions(|all| all[0]["additionalPrinterColumns"] = json!([{}]))),
        (
            "/spec/versions",
            versions(|all| {
                all[0]["additionalPrinterColumns"] =
                    json!([{"name": "a", "type": "text", "jsonPath": "a", "format": "x"}]);
            }),
        ),
        ("/spec/versions", versions(|all| all[0]["selectableFields"] = json!([{"jsonPath": ".spec.none"}]))),
        ("/spec/group", Value::Null),
        ("/spec/group", json!("answers")),
        ("/spec/group", json!("A.example.com")),
        ("/spec/scope", Value::Null),
        ("/spec/scope", json!("Other")),
        ("/spec/names", json!({})),
        ("/spec/names", json!({"plural": "widgets", "kind": "widget_"})),
        ("/spec/names", json!({"plural": "widgets", "kind": "Widget", "listKind": "Widget"})),
        (
            "/spec/names",
            json!({"plural": "widgets", "kind": "Widget", "shortNames": ["A", "a b"], "categories": ["C"]}),
        ),
        ("/spec/conversion", json!({"strategy": "Other"})),
        ("/spec/conversion", json!({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}})),
        ("/spec/conversion", json!({"strategy": "Webhook"})),
        ("/spec/conversion", json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": []}})),
        ("/spec/preserveUnknownFields", json!(true)),
    ];
    let call = |(pointer, value): (&str, Value)| {
        let mut definition = super::widgets();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        definition.pointer_mut(parent).unwrap()[field] = value;
        Call::new(
            Method::POST,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All&fieldValidation=Strict",
            definition,
        )
    };
    faults.into_iter().map(call).collect()
}

/// Appends a parameter.
fn with(path: &str, query: &str) -> String {
    let query = query.replace("LONG", &"x".repeat(129));
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

fn reads(path: &str, queries: &[&str]) -> Vec<Call> {
    let mut calls: Vec<Call> =
        queries.iter().map(|query| Call::new(Method::GET, with(path, query), Value::Null)).collect();
    if queries != OPTIONS_OF_WATCHES && !path.contains("watch=") {
        let get = || Call::new(Method::GET, path, Value::Null);
        calls.extend(ACCEPTS.iter().map(|accept| Call { accept, ..get() }));
        for include in ["", "None", "Metadata", "Object", "x"] {
            let path = with(path, &format!("includeObject={include}"));
            calls.push(Call { accept: TABLE, ..Call::new(Method::GET, path, Value::Null) });
        }
    }
    calls
}

/// Appends `dryRun=All`, unless the query is about it.
fn tried(path: &str, query: &str) -> String {
    let path = with(path, query);
    if query.contains("dryRun") { path } else { format!("{path}&dryRun=All") }
}

fn text(body: &str) -> Content {
    Content::Text(body.replace("DEEP", &format!("{{\"data\":{}", "[".repeat(20_000))))
}

fn writes(path: &str, method: Method, object: &Value) -> Vec<Call> {
    let write = |query: &str| Call::new(method.clone(), tried(path, query), object.clone());
    let mut calls: Vec<Call> = OPTIONS_OF_WRITES.iter().map(|query| write(query)).collect();
    calls.extend(BODIES.iter().map(|body| Call { body: text(body), ..write("") }));
    calls.extend(CONTENTS.iter().map(|content| Call { content, ..write("") }));
    calls.extend([TABLE, "text/html"].map(|accept| Call { accept, ..write("") }));
    let mut unknown = object.clone();
    (unknown["unknown"], unknown["metadata"]["other"]) = (json!(1), json!({"a": 1}));
    for query in ["fieldValidation=Ignore", "fieldValidation=Warn", "fieldValidation=Strict"] {
        calls.push(Call { body: Content::Same(unknown.clone()), ..write(query) });
    }
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"});
    let mut twice = object.clone();
    twice["metadata"]["ownerReferences"] = json!([owner, owner]);
    calls.push(Call { body: Content::Same(twice), ..write("") });
    for (pointer, value) in CHANGES {
        let mut changed = object.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[field] = serde_json::from_str(value).unwrap();
        calls.push(Call { body: Content::Same(changed), ..write("fieldValidation=Strict") });
    }
    calls
}

fn patches(one: &str, object: &Value) -> Vec<Call> {
    let patch = |content, query: &str, body: Content| Call {
        content,
        body,
        ..Call::new(Method::PATCH, tried(one, query), Value::Null)
    };
    let mut calls: Vec<Call> =
        PATCH_BODIES.iter().map(|(content, body)| patch(content, "", text(body))).collect();
    for (content, body) in PATCHES {
        let is_apply = body.is_empty();
        let body = || if is_apply { Content::Same(object.clone()) } else { text(body) };
        calls.extend(OPTIONS_OF_WRITES.iter().map(|query| patch(content, query, body())));
        let query = if is_apply { "fieldManager=m" } else { "" };
        calls.extend(
            OPTIONS_OF_WRITES.iter().map(|other| patch(content, &format!("{query}&{other}"), body())),
        );
        calls.extend(BODIES.iter().map(|body| patch(content, query, text(body))));
        calls.push(Call { accept: "text/html", ..patch(content, query, body()) });
    }
    calls.extend(CONTENTS.iter().map(|content| patch(content, "", text("{}"))));
    calls
}

fn deletions(all: &str, one: &str) -> Vec<Call> {
    let none = format!("{all}?labelSelector=matrix=none");
    let mut calls = Vec::new();
    for path in [one, &none] {
        calls.extend(
            OPTIONS_OF_DELETIONS
                .iter()
                .map(|query| Call::new(Method::DELETE, tried(path, query), Value::Null)),
        );
        let with_body = |body: &str, content| Call {
            body: text(body),
            content,
            ..Call::new(Method::DELETE, path, Value::Null)
        };
        calls.extend(BODIES_OF_DELETIONS.iter().map(|body| with_body(body, JSON)));
        calls.extend(CONTENTS.iter().map(|content| with_body(r#"{"dryRun":["All"]}"#, content)));
    }
    let lists =
        OPTIONS_OF_LISTS.iter().map(|query| Call::new(Method::DELETE, tried(&none, query), Value::Null));
    calls.extend(lists);
    calls
}

/// Other methods, and names.
fn others(subject: &Subject, one: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    for method in METHODS {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let paths: &[&str] = if method == Method::DELETE && subject.sub.is_empty() { &[] } else { &[one] };
        calls.extend(paths.iter().map(|path| Call::new(method.clone(), *path, Value::Null)));
    }
    for name in NAMES {
        let name = name.replace("LONG", &"x".repeat(260));
        let path = format!("{}/{name}{}", subject.all, subject.sub);
        calls.push(Call::new(Method::GET, path.clone(), Value::Null));
        calls.push(Call::new(Method::DELETE, path.clone(), Value::Null));
        let mut named = subject.object.clone();
        let plain = percent_encoding_of(&name);
        named["metadata"]["name"] = json!(plain);
        calls.push(Call::new(Method::PUT, format!("{path}?dryRun=All"), named.clone()));
        if subject.sub.is_empty() {
            calls.push(Call::new(Method::POST, format!("{}?dryRun=All", subject.all), named));
        }
    }
    calls
}

/// Decodes the characters of the names above.
fn percent_encoding_of(name: &str) -> String {
    name.replace("%2F", "/").replace("%20", " ").replace("%C3%A9", "é").replace("%25", "%")
}
