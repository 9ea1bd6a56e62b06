//! Selection of the cluster, and the error messages about it.

use std::time::Duration;

use base64::Engine;

use crate::common::{BOUND, Directory, Program, pod, run, server};
use kinformer_apiserver::{ApiServer, Fault};
use nix::sys::signal::Signal;

const WATCH: &str = "watch pods -o json --until-synced";

/// Without a cluster, the error is one line that suggests `--embedded`.
#[tokio::test]
async fn missing_cluster_error_suggests_embedded() {
    for line in ["watch pods", "get pods", "get pods default/web --insecure-skip-tls-verify"] {
        let ended = run(line).await;
        ended.code(2).stderr_has("error: no cluster is named").stderr_has("--embedded");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
        assert_eq!(ended.stdout, "");
    }
    // An empty kubeconfig names no cluster.
    let directory = Directory::new("empty");
    let empty = directory.file("config");
    std::fs::write(&empty, "").unwrap();
    let ended = Program::start_with(["watch", "pods"], &[("KUBECONFIG", empty.as_str())]).ended().await;
    ended.code(2).stderr_has("no cluster is named");
}

#[tokio::test]
async fn unreachable_server_is_reported_with_its_cause() {
    let server = server(0).await;
    let url = server.url();
    server.shutdown().await;
    let ended = run(&format!("{WATCH} --server {url}")).await;
    ended.code(3).stderr_has(&format!("cannot reach {url}")).stderr_has("refused");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
}

/// The message has the status code, which distinguishes a wrong or missing token (401) from missing permissions (403).
#[tokio::test]
async fn wrong_or_missing_token_is_reported_as_401() {
    let server = ApiServer::builder().token("right").start().await.unwrap();
    let url = server.url();
    run(&format!("{WATCH} --server {url} --token wrong"))
        .await
        .code(4)
        .stderr_has("refuses")
        .stderr_has("401");
    run(&format!("{WATCH} --server {url}")).await.code(4).stderr_has("401");
    run(&format!("{WATCH} --server {url} --token right")).await.code(0);
    run(&format!("{WATCH} --server {url} --token {}", "\u{e9}")).await.code(1).stderr_has("--token");
}

#[tokio::test]
async fn internal_server_error_ends_the_program() {
    let server = server(0).await;
    server.faults().inject(Fault::internal_error().always());
    let ended = run(&format!("{WATCH} --server {}", server.url())).await;
    ended.code(1).stderr_has("failed to list its API resources").stderr_has("500");
}

/// Discovery waits until a busy server expects it again.
// contract: T-06a
#[tokio::test]
async fn busy_server_does_not_end_the_program() {
    let server = server(1).await;
    server.faults().inject(Fault::too_many_requests(0).times(3));
    run(&format!("{WATCH} --server {}", server.url())).await.code(0);
    server.faults().inject(Fault::too_many_requests(0).always());
    let ended = run(&format!("{WATCH} --server {}", server.url())).await;
    ended.code(1).stderr_has("failed to list its API resources").stderr_has("429");
}

/// Kubeconfigs and their contexts are found in the places where kubectl finds them.
#[tokio::test]
async fn kubeconfig_lookup_follows_kubectl() {
    let (one, two) = (server(1).await, server(0).await);
    two.create(pod("elsewhere", "x")).unwrap();
    two.create(pod("elsewhere", "y")).unwrap();
    let directory = Directory::new("contexts");
    let path = directory.file("config");
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters:\n\
         - {{name: one, cluster: {{server: \"{}\"}}}}\n- {{name: two, cluster: {{server: \"{}\"}}}}\n\
         contexts:\n- {{name: one, context: {{cluster: one, user: u}}}}\n\
         - {{name: two, context: {{cluster: two, user: u, namespace: elsewhere}}}}\nusers:\n- {{name: u, user: {{}}}}\n",
        one.url(),
        two.url()
    );
    std::fs::write(&path, &config).unwrap();

    let count = async |more: &str, environment: &[(&str, &str)]| {
        let line = format!("{WATCH} {more}");
        let ended = Program::start_with(line.split_whitespace(), environment).ended().await;
        ended.code(0);
        ended.json().into_iter().find(|line| line["event"] == "synced").unwrap()["count"].as_u64()
    };
    assert_eq!(count(&format!("--kubeconfig {path}"), &[]).await, Some(1));
    assert_eq!(count("--context two", &[("KUBECONFIG", &path)]).await, Some(2));
    let missing = directory.file("missing");
    let both = std::env::join_paths([&missing, &path]).unwrap();
    assert_eq!(count("--context two", &[("KUBECONFIG", both.to_str().unwrap())]).await, Some(2));
    std::fs::create_dir_all(directory.file(".kube")).unwrap();
    std::fs::write(directory.file(".kube/config"), &config).unwrap();
    assert_eq!(count("", &[("HOME", &directory.file(""))]).await, Some(1));
    // Another cluster and its namespace, before the command.
    let two = format!("--kubeconfig {path} --context two {WATCH}");
    let ended = run(&format!("{two} --cluster one")).await;
    assert_eq!(ended.code(0).json()[0]["count"], 0);
    for flag in ["--cluster three", "--user v"] {
        run(&format!("{two} {flag}")).await.code(2).stderr_has("it has no ").stderr_has("only ");
    }
    // The address of another server, in the namespace of the context.
    let other = format!("--kubeconfig {path} --context two --server {}", one.url());
    assert_eq!(count(&other, &[]).await, Some(0));

    let line = format!("{WATCH} --kubeconfig {path} --context three");
    run(&line).await.code(2).stderr_has("no context \"three\"").stderr_has("one, two");
    run(&format!("{WATCH} --kubeconfig {missing}")).await.code(2).stderr_has(&missing);
    std::fs::write(&missing, "clusters: 7").unwrap();
    run(&format!("{WATCH} --kubeconfig {missing}")).await.code(1).stderr_has(&missing);
}

#[tokio::test]
async fn certificates_are_verified_by_default() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let url = server.url();
    run(&format!("{WATCH} --server {url}")).await.code(3).stderr_has("certificate");
    run(&format!("{WATCH} --server {url} --insecure-skip-tls-verify")).await.code(0);
    let directory = Directory::new("tls");
    let path = directory.file("config");
    std::fs::write(&path, server.kubeconfig()).unwrap();
    run(&format!("{WATCH} --kubeconfig {path}")).await.code(0);
}

/// A certificate is verified with the given authority and name.
// contract: T-07i
#[tokio::test]
async fn certificates_are_verified_with_the_given_authority() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let directory = Directory::new("authority");
    let path = directory.file("ca");
    let config = kinformer::Kubeconfig::from_yaml(&server.kubeconfig()).unwrap().config(None).unwrap();
    let mut pem = String::new();
    for der in config.root_cert.unwrap() {
        let base64 = base64::engine::general_purpose::STANDARD.encode(der);
        pem.push_str(&format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n"));
    }
    std::fs::write(&path, pem).unwrap();
    let command = format!("{WATCH} --server {} --certificate-authority", server.url());
    run(&format!("{command} {path}")).await.code(0);
    run(&format!("{command} {path} --tls-server-name localhost")).await.code(0);
    run(&format!("{command} {path} --tls-server-name other.example")).await.code(3).stderr_has("certificate");
    let missing = directory.file("missing");
    run(&format!("{command} {missing}")).await.code(1).stderr_has(&missing);
    std::fs::write(&path, "").unwrap();
    run(&format!("{command} {path}")).await.code(1).stderr_has("it has no certificate");
}

/// A request may take as long as the flag says.
// contract: T-07i
#[tokio::test]
async fn request_timeout_ends_the_program() {
    let server = server(1).await;
    server.faults().inject(Fault::stall().always());
    for command in ["get pods", "watch pods"] {
        let ended = run(&format!("--request-timeout 100ms {command} --server {}", server.url())).await;
        ended.code(3).stderr_has("did not answer the discovery requests in 100ms");
    }
}

/// An exec plugin that cannot be run is missing credentials.
// contract: T-07j
#[tokio::test]
async fn missing_exec_plugin_is_missing_credentials() {
    let directory = Directory::new("no-plugin");
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /nonexistent/plugin}}";
    let flags = kubeconfig(&directory, "https://127.0.0.1:1", user);
    run(&format!("get pods {flags}")).await.code(4).stderr_has("/nonexistent/plugin");
}

/// Watches share one HTTP/2 connection, unless `DISABLE_HTTP2` is set.
#[tokio::test]
async fn watches_share_a_connection_by_default() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let directory = Directory::new("http2");
    let path = directory.file("config");
    std::fs::write(&path, server.kubeconfig()).unwrap();
    let line = format!("watch pods,nodes,configmaps -A --kubeconfig {path}");
    // Requests that start at the same time may open one more connection.
    for (environment, connections) in [(&[][..], 1..=2), (&[("DISABLE_HTTP2", "1")][..], 3..=10)] {
        let program = Program::start_with(line.split_whitespace(), environment);
        let settled = async {
            loop {
                let metrics = server.metrics();
                if metrics.open_watches == 3 && connections.contains(&metrics.open_connections) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let settled = tokio::time::timeout(BOUND, settled).await;
        assert!(settled.is_ok(), "{connections:?}: {:?}", server.metrics());
        program.signal(Signal::SIGINT);
        program.ended().await.code(0);
    }
}

#[tokio::test]
async fn unknown_resource_error_has_the_nearest_name() {
    let server = server(0).await;
    let url = server.url();
    run(&format!("watch pots --server {url}")).await.code(2).stderr_has("did you mean \"pods\"?");
    run(&format!("get deploymnt --server {url}")).await.code(2).stderr_has("did you mean \"deployment");
    run(&format!("watch pods,zzzzzz --server {url}")).await.code(2).stderr_has("\"zzzzzz\"");
}

#[tokio::test]
async fn invalid_selectors_fail_before_any_request() {
    // No server listens here, so a request ends with code 3.
    let nowhere = "--server http://127.0.0.1:1";
    let command = |line: &str| format!("watch pods {nowhere} {line}");
    run(&command("-l app=")).await.code(3);
    run(&command("-l app=-")).await.code(2).stderr_has("label selector \"app=-\"");
    run(&command("-l app,,")).await.code(2).stderr_has("label selector \"app,,\", at ");
    run(&command("--field-selector spec.nodeName")).await.code(2).stderr_has("has no =, == or !=");
}

#[tokio::test]
async fn invalid_command_lines_refer_to_help() {
    for line in ["nonsense", "watch", "watch pods -o yaml", "watch pods --for soon", "get pods -o custom"] {
        run(line).await.code(2).stderr_has("--help");
    }
    run("--version").await.code(0);
    let help = run("--help").await;
    help.code(0);
    assert!(help.stdout.contains("Exit codes:"), "{help:#?}");
}

/// Writes a kubeconfig with one cluster and one user, and returns the flag that selects it.
fn kubeconfig(directory: &Directory, server: &str, user: &str) -> String {
    let path = directory.file("config");
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- {{name: c, cluster: {{server: \"{server}\", \
         insecure-skip-tls-verify: true}}}}\ncontexts:\n- {{name: c, context: {{cluster: c, user: u}}}}\n\
         users:\n- {{name: u, user: {user}}}\n"
    );
    std::fs::write(&path, config).unwrap();
    format!("--kubeconfig {path}")
}

/// Credentials of a kubeconfig are sent only over TLS. A token from the command line is also sent without TLS, within
/// this machine.
// contract: L-21c
#[tokio::test]
async fn kubeconfig_credentials_need_tls() {
    let plain = ApiServer::builder().token("secret").start().await.unwrap();
    let secure = ApiServer::builder().tls().token("secret").start().await.unwrap();
    let directory = Directory::new("plain");
    let token_file = directory.file("token");
    std::fs::write(&token_file, "secret").unwrap();
    let plugin = directory.file("plugin");
    let ran = directory.file("ran");
    let script = format!("#!/bin/sh\n/bin/touch {ran}\necho '{{\"status\":{{\"token\":\"secret\"}}}}'\n");
    std::fs::write(&plugin, script).unwrap();
    std::fs::set_permissions(&plugin, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let users = [
        "{token: secret}".to_owned(),
        format!("{{tokenFile: \"{token_file}\"}}"),
        format!("{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: \"{plugin}\"}}}}"),
    ];
    for user in users {
        let flags = kubeconfig(&directory, &plain.url(), &user);
        run(&format!("{WATCH} {flags}")).await.code(4).stderr_has("401").stderr_has("not sent without TLS");
        assert!(!std::path::Path::new(&ran).exists());
        // A token from the command line may be sent within this machine.
        run(&format!("{WATCH} {flags} --token secret")).await.code(0);
        // Another server receives them over TLS, as with kubectl.
        let other = kubeconfig(&directory, "https://127.0.0.1:1", &user);
        run(&format!("{WATCH} {other} --server {}", plain.url())).await.code(4).stderr_has("401");
        assert!(!std::path::Path::new(&ran).exists());
        run(&format!("{WATCH} {other} --server {}", secure.url())).await.code(0);
        std::fs::remove_file(&ran).ok();
    }
    let port = plain.address().port();
    run(&format!("{WATCH} --server http://localhost:{port} --token secret")).await.code(0);
    // This address looks like another machine's.
    let elsewhere = format!("{WATCH} --server http://0.0.0.0:{port} --token secret");
    run(&elsewhere).await.code(1).stderr_has("not sent without TLS to http://0.0.0.0");
}

/// A namespace must be a single segment of a URL path.
// contract: L-22a
#[tokio::test]
async fn invalid_namespaces_are_rejected() {
    let server = server(0).await;
    for namespace in ["kube-system/secrets?x=", "..", "a%2Fb"] {
        for command in ["watch pods --until-synced", "get pods"] {
            let ended = run(&format!("{command} -n {namespace} --server {}", server.url())).await;
            ended.code(2).stderr_has("namespace").stderr_has(namespace);
        }
    }
}
