//! What kubectl does to the objects of the embedded API server.

use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::{BOUND, Kubectl};

/// kubectl on a server, with the folder of its kubeconfig.
struct Client {
    kubectl: Kubectl,
    _folder: TempDir,
}

impl Client {
    fn of(server: &ApiServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { kubectl: Kubectl::of(server, folder.path()), _folder: folder }
    }

    async fn run(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let mut child = self.kubectl.command(arguments.iter().copied()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let output = tokio::time::timeout(BOUND, child.wait_with_output()).await.unwrap().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str], input: &str) -> impl Future<Output = String> {
        let shown = arguments.join(" ");
        let run = self.run(arguments, input);
        async move {
            let (success, text) = run.await;
            assert!(success, "kubectl {shown}: {text}");
            text
        }
    }
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn widget_definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]}]}})
}

fn deployment(image: &str) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": image}, {"name": "side", "image": "s"}]}}}})
    .to_string()
}

// contract: E-07, E-02e, E-01a, E-01d, E-01e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_creates_changes_and_deletes() {
    let server = ApiServer::builder().start().await.unwrap();
    let kubectl = Client::of(&server);

    let created = kubectl.ok(&["create", "--validate=true", "-f", "-"], &deployment("nginx:1")).await;
    assert!(created.contains("deployment.apps/web created"), "{created}");
    let (again, text) = kubectl.run(&["create", "-f", "-"], &deployment("nginx:1")).await;
    assert!(!again && text.contains("deployments.apps \"web\" already exists"), "{text}");

    let table = kubectl.ok(&["get", "deployments"], "").await;
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words[..5], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(words[5..7], ["web", "0/2"]);
    let yaml = kubectl.ok(&["get", "deploy", "web", "-o", "yaml"], "").await;
    assert!(yaml.contains("kind: Deployment") && yaml.contains("image: nginx:1"), "{yaml}");

    // Applies over the created object, then a change. A container unknown to apply is kept.
    kubectl.ok(&["apply", "--server-side=false", "-f", "-"], &deployment("nginx:1")).await;
    let unchanged = kubectl.ok(&["apply", "--server-side=false", "-f", "-"], &deployment("nginx:1")).await;
    assert!(unchanged.contains("unchanged"), "{unchanged}");
    let side = r#"{"spec":{"template":{"spec":{"containers":[{"name":"extra","image":"x"}]}}}}"#;
    kubectl.ok(&["patch", "deployment", "web", "-p", side], "").await;
    let applied = kubectl.ok(&["apply", "--server-side=false", "-f", "-"], &deployment("nginx:2")).await;
    assert!(applied.contains("configured"), "{applied}");
    let object = server.get("apps/v1", "Deployment", "default", "web").unwrap().unwrap();
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let mut images: Vec<(&str, &str)> =
        containers.iter().map(|c| (c["name"].as_str().unwrap(), c["image"].as_str().unwrap())).collect();
    images.sort_unstable();
    assert_eq!(images, [("app", "nginx:2"), ("extra", "x"), ("side", "s")]);
    let version = server.version();
    kubectl.ok(&["apply", "--server-side=false", "-f", "-"], &deployment("nginx:2")).await;
    assert_eq!(server.version(), version, "applying the same again changes nothing");

    kubectl.ok(&["scale", "deployment", "web", "--replicas=5"], "").await;
    let object = server.get("apps/v1", "Deployment", "default", "web").unwrap().unwrap();
    assert_eq!(object["spec"]["replicas"], 5);
    let described = kubectl.ok(&["describe", "deployment", "web"], "").await;
    assert!(described.contains("5 desired") && described.contains("nginx:2"), "{described}");
    kubectl
        .ok(
            &[
                "patch",
                "deploy",
                "web",
                "--type=json",
                "-p",
                r#"[{"op":"remove","path":"/spec/template/spec/containers/1"}]"#,
            ],
            "",
        )
        .await;
    kubectl.ok(&["patch", "deploy", "web", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#], "").await;
    kubectl.ok(&["label", "deploy", "web", "a=b"], "").await;
    kubectl.ok(&["annotate", "deploy", "web", "c=d"], "").await;
    let selected = kubectl.ok(&["get", "all", "-l", "a=b", "-o", "name"], "").await;
    assert_eq!(selected.trim(), "deployment.apps/web");

    let deleted = kubectl.ok(&["delete", "deployment", "web", "--wait=true"], "").await;
    assert!(deleted.contains("deleted"), "{deleted}");
    let (found, text) = kubectl.run(&["get", "deployment", "web"], "").await;
    assert!(!found && text.contains("deployments.apps \"web\" not found"), "{text}");
    let applied = kubectl.ok(&["apply", "--server-side", "-f", "-"], &deployment("x")).await;
    assert!(applied.contains("deployment.apps/web serverside-applied"), "{applied}");
}

// contract: E-07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_writes_in_protobuf() {
    let server = ApiServer::builder().start().await.unwrap();
    let kubectl = Client::of(&server);
    kubectl.ok(&["create", "namespace", "x"], "").await;
    kubectl.ok(&["-n", "x", "create", "configmap", "c", "--from-literal=a=b"], "").await;
    kubectl.ok(&["-n", "x", "create", "secret", "generic", "s", "--from-literal=k=v"], "").await;
    kubectl
        .ok(&["-n", "x", "create", "deployment", "d", "--image=nginx", "--replicas=3", "--port=80"], "")
        .await;
    kubectl.ok(&["-n", "x", "create", "cronjob", "j", "--image=busybox", "--schedule=* * * * *"], "").await;
    let get = |api: &str, kind: &str, name: &str| server.get(api, kind, "x", name).unwrap().unwrap();
    assert_eq!(get("v1", "ConfigMap", "c")["data"], json!({"a": "b"}));
    assert_eq!(get("v1", "Secret", "s")["data"], json!({"k": "dg=="}));
    let deployment = get("apps/v1", "Deployment", "d");
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"], 80);
    assert_eq!(get("batch/v1", "CronJob", "j")["spec"]["schedule"], "* * * * *");
    kubectl.ok(&["delete", "namespace", "x"], "").await;
    assert_eq!(server.count("v1", "ConfigMap").unwrap(), 0);
}

// contract: E-07, E-04a, E-02e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_watches() {
    let server = ApiServer::builder().start().await.unwrap();
    let kubectl = Client::of(&server);
    server.create(pod("first")).unwrap();
    let words = ["get", "pods", "--watch", "--output-watch-events", "--no-headers"];
    let mut child = kubectl.kubectl.command(words).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(BOUND, lines.next_line()).await.unwrap().unwrap().unwrap();
        line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(next().await, "ADDED first");
    server.create(pod("second")).unwrap();
    assert_eq!(next().await, "ADDED second");
    let mut changed = pod("second");
    changed["status"] = json!({"phase": "Running"});
    server.update(changed).unwrap();
    assert_eq!(next().await, "MODIFIED second");
    server.delete("v1", "Pod", "default", "first").unwrap();
    // Marked as terminating, and then by its kubelet.
    let mut last = next().await;
    assert_eq!(last, "MODIFIED first");
    while last == "MODIFIED first" {
        last = next().await;
    }
    assert_eq!(last, "DELETED first");
    child.kill().await.unwrap();
}

// contract: E-07, E-01b, E-01h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_with_definitions_and_a_kubeconfig() {
    let server = ApiServer::builder().token("t0ken").tls().start().await.unwrap();
    let kubectl = Client::of(&server);
    let run = async |arguments: &[&str], input: Value| kubectl.ok(arguments, &input.to_string()).await;
    run(&["create", "-f", "-"], widget_definition()).await;
    run(&["wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=10s"], Value::Null)
        .await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"color": "red", "replicas": 1}});
    run(&["create", "-f", "-"], widget).await;
    let table = run(&["get", "wd"], Value::Null).await;
    assert_eq!(table.split_whitespace().collect::<Vec<_>>(), ["NAME", "COLOR", "w", "red"]);
    run(&["scale", "wd", "w", "--replicas=4"], Value::Null).await;
    assert_eq!(
        server.get("example.com/v1", "Widget", "default", "w").unwrap().unwrap()["spec"]["replicas"],
        4
    );
    let names = run(&["get", "all", "-o", "name"], Value::Null).await;
    assert_eq!(names.trim(), "widget.example.com/w");
}
