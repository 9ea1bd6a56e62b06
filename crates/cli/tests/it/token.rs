//! Tokens from flags, files and the environment, which are never printed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::{Directory, Ended, Program, run};
use kinformer_apiserver::ApiServer;
use nix::sys::signal::Signal;

const SECRET: &str = "s3cret-t0ken";
const WATCH: &str = "watch pods -o json --until-synced";

#[track_caller]
fn has_no_secret(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(SECRET), "{ended:#?}");
    }
}

async fn run_with(line: &str, environment: &[(&str, &str)]) -> Ended {
    Program::start_with(line.split_whitespace(), environment).ended().await
}

/// A token comes from a flag, a file or the environment. Flags take precedence over the environment, which takes
/// precedence over a kubeconfig.
// contract: T-03a
#[tokio::test]
async fn token_sources_have_a_precedence() {
    let server = ApiServer::builder().token(SECRET).start().await.unwrap();
    let directory = Directory::new("token");
    let (file, other) = (directory.file("token"), directory.file("other"));
    let watch = format!("{WATCH} --server {}", server.url());
    for text in [SECRET.to_owned(), format!("{SECRET}\n"), format!(" {SECRET}\r\n\n")] {
        fs::write(&file, text).unwrap();
        let ended = run(&format!("{watch} --token-file {file} -vvv")).await;
        has_no_secret(ended.code(0));
    }
    let environment = [("KINFORMER_TOKEN", SECRET)];
    has_no_secret(run_with(&format!("{watch} -vvv"), &environment).await.code(0));
    // Flags take precedence over the environment, and the environment over a kubeconfig.
    fs::write(&other, "wrong").unwrap();
    run_with(&format!("{watch} --token-file {other}"), &environment).await.code(4);
    run_with(&format!("{watch} --token wrong"), &environment).await.code(4);
    run_with(&format!("{watch} --token {SECRET}"), &[("KINFORMER_TOKEN", "wrong")]).await.code(0);
    let config = directory.file("config");
    // Tokens of a kubeconfig are sent only over TLS.
    let secure = ApiServer::builder().tls().token(SECRET).start().await.unwrap();
    fs::write(&config, secure.kubeconfig()).unwrap();
    let with_config = format!("{WATCH} --kubeconfig {config}");
    run_with(&with_config, &[("KINFORMER_TOKEN", "wrong")]).await.code(4);
    run_with(&with_config, &[("KINFORMER_TOKEN", "")]).await.code(0);
    // A cluster without authentication ignores it.
    run_with(&format!("{WATCH} --embedded"), &environment).await.code(0);
    server.shutdown().await;
}

// contract: T-03b
#[tokio::test]
async fn invalid_token_is_an_error_without_its_text() {
    let directory = Directory::new("no-token");
    let file = directory.file("token");
    for text in [String::new(), "\n".to_owned(), format!("{SECRET} and more"), format!("{SECRET}\u{1b}[2J")] {
        fs::write(&file, &text).unwrap();
        for line in [format!("{WATCH} --server http://127.0.0.1:1"), "api-server".to_owned()] {
            let ended = run(&format!("{line} --token-file {file}")).await;
            ended.code(1).stderr_has("--token-file").stderr_has(&file);
            has_no_secret(&ended);
            let words = line.split_whitespace().chain(["--token", &text]);
            let ended = Program::start_with(words, &[]).ended().await;
            has_no_secret(ended.code(1).stderr_has("--token"));
            if !text.is_empty() {
                let ended = run_with(&line, &[("KINFORMER_TOKEN", &text)]).await;
                has_no_secret(ended.code(1).stderr_has("KINFORMER_TOKEN"));
            }
        }
    }
    let missing = directory.file("missing");
    run(&format!("{WATCH} --token-file {missing}")).await.code(2).stderr_has("no cluster");
    run(&format!("api-server --token-file {missing}")).await.code(1).stderr_has(&missing);
    let both = run(&format!("api-server --token {SECRET} --token-file {file}")).await;
    has_no_secret(both.code(2).stderr_has("cannot be used with"));
    // Other errors of the command line do not print the token either, nor do characters that cannot be printed.
    for wrong in ["--nonsense", "\u{1b}[2J"] {
        let ended = Program::start_with(["api-server", "--token", SECRET, wrong], &[]).ended().await;
        has_no_secret(ended.code(2));
    }
}

// contract: T-04a, T-04d, E-11e
#[tokio::test]
async fn the_api_server_never_prints_its_token() {
    let directory = Directory::new("server-token");
    let (file, config) = (directory.file("token"), directory.file("config"));
    fs::write(&file, format!("{SECRET}\n")).unwrap();
    for (line, environment, hint) in [
        (format!("--token {SECRET}"), &[][..], "--token TOKEN"),
        (format!("--token-file {file}"), &[], file.as_str()),
        (String::new(), &[("KINFORMER_TOKEN", SECRET)], "$KINFORMER_TOKEN"),
        (format!("--token-file {file} --kubeconfig-out {config}"), &[], config.as_str()),
    ] {
        let line = format!("api-server -vvv {line}");
        let mut program = Program::start_with(line.split_whitespace(), environment);
        let url = program.line().await;
        let insecure = if url.starts_with("https") { " --insecure-skip-tls-verify" } else { "" };
        let watch = format!("{WATCH} --server {url}{insecure}");
        run(&watch).await.code(4);
        run(&format!("{watch} --token wrong")).await.code(4);
        run(&format!("{watch} --token-file {file}")).await.code(0);
        program.signal(Signal::SIGTERM);
        let ended = program.ended().await;
        has_no_secret(ended.code(0).stderr_has(hint));
        assert!(!ended.stderr.contains("no credentials are required"), "{ended:#?}");
    }
    // A server without a token prints a warning.
    let mut program = Program::start("api-server");
    let url = program.line().await;
    run(&format!("{WATCH} --server {url} --token any")).await.code(0);
    program.signal(Signal::SIGTERM);
    program.ended().await.code(0).stderr_has("no credentials are required");
}

// contract: T-04b
#[tokio::test]
async fn only_the_owner_can_read_a_written_kubeconfig() {
    let directory = Directory::new("private");
    let config = directory.file("config");
    fs::write(&config, "x".repeat(10_000)).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    let mut program = Program::start(&format!("api-server --token {SECRET} --kubeconfig-out {config}"));
    program.line().await;
    assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&config).unwrap().contains(SECRET));
    run(&format!("{WATCH} --kubeconfig {config}")).await.code(0);
    program.signal(Signal::SIGTERM);
    program.ended().await.code(0);

    // The target of a link may be chosen by another user.
    let (target, link) = (directory.file("target"), directory.file("link"));
    fs::write(&target, "before").unwrap();
    symlink(&target, &link).unwrap();
    let ended = run(&format!("api-server --token {SECRET} --kubeconfig-out {link}")).await;
    has_no_secret(ended.code(1).stderr_has("symbolic link").stderr_has(&link));
    assert_eq!(fs::read_to_string(&target).unwrap(), "before");
    run(&format!("api-server --kubeconfig-out {}", directory.file("")))
        .await
        .code(1)
        .stderr_has("not a regular file");
}

// contract: T-04a
#[tokio::test]
async fn invalid_kubeconfig_is_not_quoted() {
    let directory = Directory::new("broken-config");
    let config = directory.file("config");
    let head = "apiVersion: v1\nkind: Config\ncurrent-context: a\nusers:\n- name: u\n  user:";
    let tail = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
        contexts: [{name: a, context: {cluster: c, user: u}}]\n";
    for (user, problem) in [
        (format!(" {{token: {SECRET}\nbroken"), "line"),
        (format!(" {{token: [{SECRET}]}}\n{tail}"), "token of the configuration is not a text"),
        (
            format!("\n    token: {SECRET}\n    client-key-data: {{a: 1}}\n{tail}"),
            "client-key-data of the configuration is not a text",
        ),
        (format!("\n    token: {SECRET}\n\tbroken: [\n"), "line"),
    ] {
        fs::write(&config, format!("{head}{user}")).unwrap();
        let ended = run(&format!("{WATCH} --kubeconfig {config}")).await;
        has_no_secret(ended.code(1).stderr_has(&config).stderr_has(problem));
    }
}

// contract: E-09c
#[tokio::test]
async fn accept_host_adds_a_host_name() {
    let mut program = Program::start("api-server --accept-host dev.example");
    let url = program.line().await;
    let uri: http::Uri = url.parse().unwrap();
    let client = kube_client::Client::try_from(kube_client::Config::new(uri)).unwrap();
    for (host, served) in [("dev.example", true), ("evil.example", false)] {
        let request = http::Request::get("/api/v1/namespaces").header("host", host).body(Vec::new()).unwrap();
        assert_eq!(client.request_text(request).await.is_ok(), served, "{host}");
    }
    program.signal(Signal::SIGTERM);
    program.ended().await.code(0);
}
