//! Completion, versions and man pages.

use crate::common::{Directory, Program, pod, run, server};

/// Completes the last word of a command line, as the script of bash does.
async fn completed(words: &str) -> Vec<String> {
    let words: Vec<&str> = std::iter::once("--").chain(words.split(' ')).collect();
    let index = (words.len() - 2).to_string();
    let environment =
        [("KINFORMER_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", index.as_str()), ("_CLAP_IFS", "\n")];
    let ended = Program::start_with(words, &environment).ended().await;
    ended.code(0);
    ended.stdout.lines().map(str::to_owned).collect()
}

// contract: T-09b
#[tokio::test]
async fn words_are_completed_by_asking_the_cluster() {
    let server = server(2).await;
    server.create(pod("other", "x")).unwrap();
    let url = server.url();
    let complete = async |line: &str| completed(&format!("kinformer --server {url} {line}")).await;
    assert!(completed("kinformer wat").await.contains(&"watch".to_owned()));
    assert_eq!(complete("watch configm").await, ["configmaps"]);
    assert_eq!(complete("get pods,configm").await, ["pods,configmaps"]);
    assert_eq!(complete("get pods p").await, ["p0", "p1"]);
    // After an empty word, flags follow.
    assert_eq!(complete("get -n other po ").await[..2], ["x", "--selector"]);
    assert_eq!(complete("get pod/p1").await, ["pod/p1"]);
    assert_eq!(complete("get pods -n oth").await, ["other"]);
    // A cluster that cannot be reached completes nothing.
    assert!(completed("kinformer --server http://127.0.0.1:1 get configm").await.is_empty());
}

// contract: T-09b
#[tokio::test]
async fn contexts_are_completed_from_the_kubeconfig() {
    let directory = Directory::new("completion");
    let path = directory.file("config");
    let config = "contexts: [{name: dev, context: {}}, {name: prod, context: {}}, {name: \"d\\e[2J\", context: {}}]\n\
        clusters: [{name: one, cluster: {}}]\nusers: [{name: me, user: {}}]\n";
    std::fs::write(&path, config).unwrap();
    let complete = async |line: &str| completed(&format!("kinformer --kubeconfig {path} get {line}")).await;
    assert_eq!(complete("--context d").await, ["dev"]);
    assert_eq!(complete("--cluster o").await, ["one"]);
    assert_eq!(complete("--user m").await, ["me"]);
}

// contract: T-09b
#[tokio::test]
async fn scripts_are_printed() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&format!("completion {shell}")).await;
        script.code(0);
        assert!(script.stdout.contains("KINFORMER_COMPLETE"), "{script:?}");
    }
    run("completion csh").await.code(2);
}

// contract: T-09a
#[tokio::test]
async fn versions_are_printed() {
    let client = format!("Client Version: v{}\n", env!("CARGO_PKG_VERSION"));
    let only = run("version --client").await;
    assert_eq!(only.code(0).stdout, client);
    let server = server(0).await;
    let both = run(&format!("version --server {}", server.url())).await;
    let lines: Vec<&str> = both.code(0).stdout.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("Server Version: v1."), "{both:?}");
    let json = run(&format!("version -o json --server {}", server.url())).await;
    let json = &json.code(0).json()[0];
    assert_eq!(json["clientVersion"]["gitVersion"], format!("v{}", env!("CARGO_PKG_VERSION")));
    assert!(json["serverVersion"]["gitVersion"].is_string(), "{json}");
    let yaml = run("version --client -o yaml").await;
    assert!(yaml.code(0).stdout.starts_with("clientVersion:\n  gitVersion: v"), "{yaml:?}");
    // The version of the program is known without a server.
    let none = run("version --server http://127.0.0.1:1").await;
    assert_eq!(none.code(3).stdout, client);
}

// contract: T-09c
#[tokio::test]
async fn man_pages_are_written() {
    let directory = Directory::new("man");
    run(&format!("man {}", directory.file(""))).await.code(0);
    let page = std::fs::read_to_string(directory.file("kinformer.1")).unwrap();
    assert!(page.contains("Exit codes:"), "{page}");
    let get = std::fs::read_to_string(directory.file("kinformer-get.1")).unwrap();
    assert!(get.contains("sort"), "{get}");
    assert!(!std::path::Path::new(&directory.file("kinformer-man.1")).exists());
    run(&format!("man {}", directory.file("missing"))).await.code(1).stderr_has("cannot write");
}
