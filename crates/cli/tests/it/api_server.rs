//! `kinformer api-server`.

use crate::common::{Directory, Program, run};
use nix::sys::signal::Signal;

#[tokio::test]
async fn serves_other_processes_until_a_signal() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let directory = Directory::new(signal.as_str());
        let config = directory.file("config");
        let line = format!("api-server --load pods=7 --token secret --kubeconfig-out {config}");
        let mut server = Program::start(&line);
        let url = server.line().await;
        // Clients send the token of a kubeconfig only over TLS.
        assert!(url.starts_with("https://127.0.0.1:"), "{url}");

        let watch = run(&format!("watch pods -o json --until-synced --kubeconfig {config}")).await;
        watch.code(0);
        let synced = watch.json().into_iter().find(|line| line["event"] == "synced").unwrap();
        assert_eq!(synced["count"], 7);
        let insecure = format!("--server {url} --insecure-skip-tls-verify");
        run(&format!("watch pods --until-synced {insecure}")).await.code(4);

        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
        server.signal(signal);
        server.ended().await.code(0).stderr_has(&config);
    }
}

/// Roles decide about requests, and the kubeconfig is that of an administrator.
// contract: T-04e, T-07i
#[tokio::test]
async fn rbac_allows_what_roles_allow() {
    let directory = Directory::new("rbac");
    let (config, tokens) = (directory.file("config"), directory.file("tokens"));
    std::fs::write(&tokens, "t0ken,alice,1,dev\nr00t,root,2,system:masters\n").unwrap();
    let flags = format!("--authorization-mode RBAC --token-auth-file {tokens} --kubeconfig-out {config}");
    let mut server = Program::start(&format!("api-server --load pods=3 {flags}"));
    let url = server.line().await;
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    run(&format!("watch pods --until-synced --kubeconfig {config}")).await.code(0);
    let insecure = format!("--server {url} --insecure-skip-tls-verify");
    run(&format!("watch pods --until-synced {insecure} --token r00t")).await.code(0);
    let denied = run(&format!("watch pods --until-synced {insecure} --token t0ken")).await;
    denied.stderr_has("User \"alice\" cannot list resource \"pods\"");
    run(&format!("watch pods --until-synced {insecure} --token other")).await.code(4);
    // An administrator may be anybody.
    let root = format!("get pods {insecure} --token r00t");
    run(&format!("{root} --as alice"))
        .await
        .code(4)
        .stderr_has("User \"alice\" cannot list resource \"pods\"");
    run(&format!("{root} --as alice --as-group system:masters --as-uid 7")).await.code(0);
    run(&format!("{root} --as-group system:masters")).await.code(2).stderr_has("--as");
    server.signal(Signal::SIGTERM);
    server.ended().await.code(0);

    run(&format!("api-server --token-auth-file {tokens}"))
        .await
        .code(2)
        .stderr_has("--authorization-mode RBAC");
    std::fs::write(&tokens, "s3cret,alice\n").unwrap();
    let malformed = run(&format!("api-server --authorization-mode RBAC --token-auth-file {tokens}")).await;
    malformed.stderr_has("line 1").code(1);
}

#[tokio::test]
async fn start_failures_are_reported() {
    run("api-server --listen 0.0.0.0:0").await.code(2).stderr_has("--listen 0.0.0.0:0");
    run("api-server --load 7").await.code(2).stderr_has("pods=N");
    run("api-server --kubeconfig-out /nonexistent/config").await.code(1).stderr_has("/nonexistent/config");
    let mut one = Program::start("api-server");
    let url = one.line().await;
    let address = url.strip_prefix("http://").unwrap();
    run(&format!("api-server --listen {address}")).await.code(1).stderr_has("cannot listen on");
    one.signal(Signal::SIGTERM);
    one.ended().await.code(0);
}
