//! `kinformer get`: objects and indexes.

use crate::common::{Program, pod, run, server, server_with_protobuf};
use kinformer_apiserver::{ApiServer, Fault, Verb};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

async fn with_pods() -> ApiServer {
    let server = server(2).await;
    let mut elsewhere = pod("other", "x");
    elsewhere["spec"]["nodeName"] = "node-2".into();
    server.create(elsewhere).unwrap();
    server
}

async fn rows(server: &ApiServer, line: &str) -> Vec<Vec<String>> {
    let ended = run(&format!("get {line} --server {}", server.url())).await;
    ended.code(0);
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    ended.stdout.lines().map(row).collect()
}

#[tokio::test]
async fn objects_are_listed_in_order() {
    let server = with_pods().await;
    let rows = rows(&server, "pods -A").await;
    assert_eq!(rows[0], ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    let names: Vec<&str> = rows[1..].iter().map(|row| row[1].as_str()).collect();
    assert_eq!(names, ["p0", "p1", "x"]);
    let in_one = self::rows(&server, "pods -n other").await;
    assert_eq!(in_one[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(in_one.len(), 2);
    assert_eq!(self::rows(&server, "ns").await.len(), 6);
}

#[tokio::test]
async fn one_object_is_found_by_its_key() {
    let server = with_pods().await;
    for (line, column) in [("po p1", 0), ("pod/p1", 0), ("pod default/p1", 1), ("pods.v1. p1 -A", 1)] {
        let rows = rows(&server, line).await;
        assert_eq!((rows.len(), rows[1][column].as_str()), (2, "p1"), "{line}");
    }
    assert_eq!(rows(&server, "pods other/x").await[1][0], "other");
    assert_eq!(rows(&server, "namespaces other").await[1][0], "other");
    assert_eq!(rows(&server, "pods p0 p1").await.len(), 3);

    let url = server.url();
    run(&format!("get pods missing --server {url}")).await.code(1).stderr_has("pods \"missing\" not found");
    run(&format!("get pods x --server {url}")).await.code(1).stderr_has("not found");
    run(&format!("get pods a/b/c --server {url}")).await.code(2).stderr_has("more than one '/'");
    run(&format!("get pods other/x -n default --server {url}")).await.code(2).stderr_has("not in namespace");
}

#[tokio::test]
async fn json_is_the_whole_object() {
    let server = with_pods().await;
    let ended = run(&format!("get pods other/x -o json --server {}", server.url())).await;
    ended.code(0);
    let lines = ended.json();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["spec"]["nodeName"], "node-2");
    assert_eq!(lines[0]["kind"], "Pod");
    assert_eq!(Some(lines[0].clone()), server.get("v1", "Pod", "other", "x").unwrap());
}

#[tokio::test]
async fn indexes_can_be_queried_and_listed() {
    let server = with_pods().await;
    assert_eq!(rows(&server, "pods -A --index node=node-1").await.len(), 3);
    assert_eq!(rows(&server, "pods -A --index label=app=web").await.len(), 4);
    assert_eq!(rows(&server, "pods -A --index namespace=other").await.len(), 2);
    let none = run(&format!("get pods -A --index node=nowhere --server {}", server.url())).await;
    none.code(0).stderr_has("No resources found");
    assert_eq!(none.stdout, "");
    let listed = rows(&server, "pods -A --list-indexes").await;
    assert_eq!(listed[0], ["INDEX", "VALUE", "OBJECTS"]);
    for row in [["namespace", "default", "2"], ["node", "node-1", "2"], ["label", "app=web", "3"]] {
        assert!(listed.iter().any(|found| *found == row), "{row:?} in {listed:?}");
    }
    let json = run(&format!("get pods -A --list-indexes -o json --server {}", server.url())).await;
    let counted: u64 = json
        .json()
        .iter()
        .filter(|line| line["index"] == "node")
        .map(|line: &Value| line["objects"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, 3);

    let url = server.url();
    run(&format!("get pods --index nope=1 --server {url}"))
        .await
        .code(2)
        .stderr_has("no index \"nope\"")
        .stderr_has("node");
    run(&format!("get pods --index node --server {url}")).await.code(2).stderr_has("NAME=VALUE");
}

#[tokio::test]
async fn protobuf_is_requested_and_decoded() {
    let server = server_with_protobuf(2).await;
    let mut owned = pod("default", "owned");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}]);
    server.create(owned).unwrap();
    let command = |line: &str| format!("{line} --server {}", server.url());
    let ended = run(&command("get pods -v --index owner=ReplicaSet/web")).await;
    ended.code(0).stderr_has("encoding=\"application/vnd.kubernetes.protobuf\"");
    assert_eq!(ended.stdout.lines().count(), 2);
    assert!(ended.stdout.contains("owned"), "{ended:?}");
    let ended = run(&command("get pods -o json")).await;
    ended.code(0);
    let lines = ended.json();
    assert_eq!((lines.len(), &lines[0]["kind"]), (1, &json!("List")));
    let items = lines[0]["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!((&items[0]["kind"], &items[0]["spec"]["nodeName"]), (&json!("Pod"), &json!("node-1")));
}

/// The definition of a resource with columns of its own.
fn widgets() -> Value {
    let column = |name: &str, kind: &str, path: &str, priority: u8| json!({"name": name, "type": kind, "jsonPath": path, "priority": priority});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wi"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": [
                column("Replicas", "integer", ".spec.replicas", 0), column("Host", "string", ".spec.host", 1),
            ]}],
        },
    })
}

/// Columns are those of the server: of built-in kinds and of definitions.
// contract: T-07d
#[tokio::test]
async fn columns_are_those_of_the_server() {
    let server = with_pods().await;
    server.create(widgets()).unwrap();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"replicas": 3, "host": "h"},
        "metadata": {"name": "w", "namespace": "default", "labels": {"a": "b", "c": ""}}});
    server.create(widget).unwrap();
    assert_eq!(rows(&server, "widgets").await[0], ["NAME", "REPLICAS"]);
    let wide = rows(&server, "wi -o wide --show-labels").await;
    assert_eq!(wide, [vec!["NAME", "REPLICAS", "HOST", "LABELS"], vec!["w", "3", "h", "a=b,c="]]);
    assert_eq!(rows(&server, "wi --no-headers").await, [["w", "3"]]);
    // Several kinds have theirs, with the kind before each name and a line between them.
    let several = rows(&server, "pods,wi").await;
    assert_eq!(several[1][0], "pod/p0");
    assert_eq!(several[3..], [vec![], vec!["NAME", "REPLICAS"], vec!["widget.example.com/w", "3"]]);
    let named = rows(&server, "wi/w pod/p1 --no-headers").await;
    assert_eq!([&named[0][0], &named[2][0]], ["widget.example.com/w", "pod/p1"]);
}

/// Formats of kubectl.
// contract: T-07e, T-07f
#[tokio::test]
async fn formats_are_those_of_kubectl() {
    let server = with_pods().await;
    let get = async |line: &str| {
        let line = format!("get {line}");
        let url = server.url();
        let words = line.split(' ').map(|word| word.replace('~', " "));
        let words: Vec<String> = words.chain(["--server".to_owned(), url]).collect();
        let ended = crate::common::Program::start_with(words.iter().map(String::as_str), &[]).ended().await;
        ended.code(0);
        ended.stdout
    };
    assert_eq!(get("po -A -o name").await, "pod/p0\npod/p1\npod/x\n");
    let columns = "po -A -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName,NO:.spec.none";
    assert_eq!(
        get(columns).await,
        "POD  NODE    NO\np0   node-1  <none>\np1   node-1  <none>\nx    node-2  <none>\n"
    );
    assert_eq!(get("po p1 --no-headers -o custom-columns=P:metadata.name").await, "p1\n");
    assert_eq!(get("po -l app=none -o custom-columns=P:metadata.name").await, "");
    assert_eq!(get("po/p1 ns/other -o name").await, "pod/p1\nnamespace/other\n");
    assert_eq!(get("po -l app=web -o jsonpath={.items[*].metadata.name}").await, "p0 p1\n");
    let each = "po -A -o jsonpath={range~.items[*]}{.metadata.name}{\"\\t\"}{.spec.nodeName}{\"\\n\"}{end}";
    assert_eq!(get(each).await, "p0\tnode-1\np1\tnode-1\nx\tnode-2\n");
    let field = "po -A --field-selector spec.nodeName=node-2 -o name";
    assert_eq!(get(field).await, "pod/x\n");
    let yaml = get("po p1 -o yaml").await;
    assert!(yaml.starts_with("apiVersion: v1\nkind: Pod\n"), "{yaml}");
    assert!(yaml.contains("  nodeName: node-1\n"), "{yaml}");
    let list = get("po -o yaml").await;
    assert!(list.starts_with("apiVersion: v1\nitems:\n- apiVersion: v1\n"), "{list}");
    assert_eq!(get("po -A -o name --sort-by .spec.nodeName").await, "pod/p0\npod/p1\npod/x\n");
    for number in [2, 10] {
        server.create(pod("default", &format!("p{number}"))).unwrap();
    }
    let sorted = get("po --sort-by={.metadata.name} --no-headers").await;
    let names: Vec<&str> = sorted.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["p0", "p1", "p2", "p10"]);
}

/// One message about an empty result, and one about a namespace that does not exist.
// contract: T-07g
#[tokio::test]
async fn empty_results_are_one_message() {
    let server = server(1).await;
    let get = async |line: &str| run(&format!("get {line} --server {}", server.url())).await;
    let all = get("all").await;
    all.code(0);
    let names: Vec<&str> = all.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((names.as_slice(), all.stderr.as_str()), (&["NAME", "pod/p0"][..], ""));
    let none = get("po,svc -l app=none").await;
    assert_eq!(
        (none.code(0).stdout.as_str(), none.stderr.as_str()),
        ("", "No resources found in default namespace.\n")
    );
    let nowhere = get("all -n nowhere").await;
    let lines: Vec<&str> = nowhere.code(0).stderr.lines().collect();
    assert_eq!(lines, ["No resources found in nowhere namespace.", "there is no namespace \"nowhere\""]);
    get("pods -n *").await.code(0).stderr_has("there is no namespace \"*\"");
    // Objects that exist are printed, and those that do not are an error each.
    let some = get("pods p0 p1 p2 -o name").await;
    assert_eq!(some.code(1).stdout, "pod/p0\n");
    assert_eq!(some.stderr.lines().count(), 2, "{some:?}");
    let empty = get("pods -l app=none -o json").await;
    assert_eq!(empty.code(0).json()[0]["items"], json!([]));
}

/// One kind that is refused does not hide the others.
// contract: T-07g
#[tokio::test]
async fn a_refused_kind_hides_no_other() {
    let server = server(1).await;
    server.faults().inject(Fault::forbidden().on(Verb::List).resource("services").always());
    let ended = run(&format!("get svc,pods -o name --server {}", server.url())).await;
    assert_eq!(ended.code(4).stderr_has("refuses to list services").stdout, "pod/p0\n");
}

/// `-w` prints the objects and then their changes.
// contract: T-07h
#[tokio::test]
async fn watch_prints_a_row_for_each_change() {
    let server = server(1).await;
    let mut program = Program::start(&format!("get pods -w --server {}", server.url()));
    let header = program.line().await;
    let row = program.line().await;
    assert!(header.starts_with("NAME") && row.starts_with("p0"), "{header} {row}");
    server.create(pod("default", "another-pod")).unwrap();
    let row = program.line().await;
    assert!(row.starts_with("another-pod"), "{row}");
    server.delete("v1", "Pod", "default", "p0").unwrap();
    let row = program.line().await;
    assert!(row.starts_with("p0 "), "{row}");
    program.signal(Signal::SIGINT);
    program.ended().await.code(0);
    run(&format!("get pods,svc -w --server {}", server.url())).await.code(2).stderr_has("kinformer watch");
}

// contract: T-07k
#[tokio::test]
async fn several_namespaces_are_one_table() {
    let server = with_pods().await;
    server.create(pod("third", "p0")).unwrap();
    let mut labelled = server.get("v1", "Namespace", "", "other").unwrap().unwrap();
    labelled["metadata"]["labels"] = json!({"team": "a"});
    server.update(labelled).unwrap();
    for (line, names) in [
        ("pods -n default,other", vec!["default/p0", "default/p1", "other/x"]),
        ("pods -n default -n other,third", vec!["other/x", "third/p0"]),
        ("pods -n default,third p0 p1", vec!["default/p0", "third/p0", "default/p1"]),
        ("pods --exclude-namespace other,third", vec!["default/p0", "default/p1"]),
        ("pods p0 --exclude-namespace third", vec!["default/p0"]),
        ("pods --exclude-namespace third --field-selector spec.nodeName=node-2", vec!["other/x"]),
        ("pods -n default,other --index node=node-2", vec!["other/x"]),
        ("pods --exclude-namespace third --index node=node-1", vec!["default/p0", "default/p1"]),
    ] {
        let found = rows(&server, line).await;
        let names_found: Vec<String> =
            found[1..].iter().map(|row| format!("{}/{}", row[0], row[1])).collect();
        assert_eq!(
            (found[0][0].as_str(), names_found),
            ("NAMESPACE", names.iter().map(ToString::to_string).collect()),
            "{line}"
        );
    }
    let selected = rows(&server, "pods --namespace-selector team=a").await;
    assert_eq!((selected.len(), selected[1][0].as_str()), (2, "x"), "{selected:?}");
    assert_eq!(rows(&server, "ns -n other,third").await.len(), 7, "namespaces are in no namespace");
    let url = server.url();
    let none = run(&format!("get pods --namespace-selector team=none --server {url}")).await;
    none.code(0).stderr_has("No resources found");
    let none = run(&format!("get pods -n nowhere,other2 --server {url}")).await;
    none.code(0)
        .stderr_has("there is no namespace \"nowhere\"")
        .stderr_has("there is no namespace \"other2\"");
    run(&format!("get pods other/x -n a,b --server {url}"))
        .await
        .code(2)
        .stderr_has("not in namespaces a, b");

    let mut program = Program::start(&format!("get pods -w -n other,third -o name --server {url}"));
    assert_eq!([program.line().await, program.line().await], ["pod/x", "pod/p0"]);
    server.create(pod("third", "new")).unwrap();
    assert_eq!(program.line().await, "pod/new");
    server.create(pod("other", "newer")).unwrap();
    assert_eq!(program.line().await, "pod/newer");
    program.signal(Signal::SIGINT);
    program.ended().await.code(0);
}
