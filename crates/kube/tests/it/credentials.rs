//! Credentials that change while a client is used, and where they are sent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::answers::{
    Answer, Asked, Authority, Issued, Scripted, answer, authority, empty_list, issue, tls, unauthorized,
};
use crate::common::{PATIENCE, follow, options};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_kube::{Error, KubeListerWatcher, client, client_http1};
use kinformer_reflector::{ListOptions, ListerWatcher, SourceError, WatchEvent, WatchListMode, WatchOptions};
use kube_client::{Client, Config};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// An exec plugin that prints a file and counts its runs.
struct Plugin {
    directory: TempDir,
}

impl Plugin {
    fn new(status: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plugin = Self { directory };
        plugin.write_script("echo $$ >> runs\ncat credential");
        plugin.issues(status);
        plugin
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write_script(&self, script: &str) {
        let directory = self.directory.path().display();
        // Renamed, since a shell may be reading the one before.
        let new = self.path("new");
        std::fs::write(&new, format!("cd '{directory}'\n{script}\n")).unwrap();
        std::fs::rename(new, self.path("plugin")).unwrap();
    }

    fn issues(&self, status: Value) {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
        });
        std::fs::write(self.path("credential"), credential.to_string()).unwrap();
    }

    /// The processes that have run.
    fn runs(&self) -> Vec<String> {
        let runs = std::fs::read_to_string(self.path("runs")).unwrap_or_default();
        runs.lines().map(str::to_owned).collect()
    }

    fn configure(&self, mut config: Config) -> Config {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            // A script that another thread's fork has open for writing can be read, but not executed.
            "command": "/bin/sh",
            "args": [self.path("plugin")],
            "interactiveMode": "Never",
        });
        config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
        config
    }
}

/// A server that takes one token, which can be changed.
async fn taking(token: &str) -> (Scripted, Arc<Mutex<String>>) {
    let wanted = Arc::new(Mutex::new(token.to_owned()));
    let known = wanted.clone();
    let server = Scripted::http(move |asked| match asked.token() {
        Some(token) if token == *known.lock() => empty_list(),
        _ => unauthorized(),
    })
    .await;
    (server, wanted)
}

fn source(client: Client) -> KubeListerWatcher<ConfigMap> {
    KubeListerWatcher::new(client)
}

async fn list(source: &KubeListerWatcher<ConfigMap>) -> Result<(), SourceError> {
    let listed = tokio::time::timeout(PATIENCE, source.list(ListOptions::at_version(""))).await;
    listed.unwrap().map(|_| ())
}

fn is_401<T: std::fmt::Debug>(result: &Result<T, SourceError>) -> bool {
    matches!(result, Err(SourceError::Status(status)) if status.code == 401)
}

/// Lets time pass.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Keeps time from passing by itself until it is dropped, for [`PATIENCE`] of real time at most.
struct Standstill {
    _held: std::sync::mpsc::Sender<()>,
}

impl Standstill {
    fn new() -> Self {
        let (held, dropped) = std::sync::mpsc::channel::<()>();
        tokio::time::pause();
        // A blocking task keeps a paused clock from advancing to the next timer.
        tokio::task::spawn_blocking(move || dropped.recv_timeout(PATIENCE));
        Self { _held: held }
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

const INTERVAL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(1);

// contract: L-19
#[tokio::test]
async fn a_plugin_without_an_expiry_runs_again_on_a_401() {
    for http1 in [false, true] {
        let (server, wanted) = taking("first").await;
        let plugin = Plugin::new(json!({"token": "first"}));
        let config = plugin.configure(server.config("http"));
        let source = source(if http1 { client_http1(config).unwrap() } else { client(config).unwrap() });
        list(&source).await.unwrap();
        *wanted.lock() = "second".to_owned();
        plugin.issues(json!({"token": "second"}));
        list(&source).await.unwrap();
        assert_eq!(plugin.runs().len(), 2);
        let tokens: Vec<_> = server.tokens().into_iter().flatten().collect();
        assert_eq!(tokens, ["first", "first", "second"]);
    }
}

// contract: L-19
#[tokio::test(flavor = "multi_thread")]
async fn requests_at_the_same_time_share_one_renewal() {
    let (server, wanted) = taking("first").await;
    let plugin = Plugin::new(json!({"token": "first"}));
    let source = source(client(plugin.configure(server.config("http"))).unwrap());
    list(&source).await.unwrap();
    *wanted.lock() = "second".to_owned();
    plugin.issues(json!({"token": "second"}));
    let lists = futures::future::join_all((0..20).map(|_| list(&source))).await;
    assert!(lists.iter().all(Result::is_ok), "{lists:?}");
    assert_eq!(plugin.runs().len(), 2);
}

// contract: L-19
#[tokio::test]
async fn a_401_that_stays_is_an_error_and_renews_rarely() {
    let (server, _) = taking("another").await;
    let plugin = Plugin::new(json!({"token": "wrong"}));
    let source = source(client(plugin.configure(server.config("http"))).unwrap());
    let standstill = Standstill::new();
    for _ in 0..10 {
        let listed = list(&source).await;
        assert!(is_401(&listed), "{listed:?}");
    }
    // The first is repeated with what the plugin has issued anew.
    assert_eq!((plugin.runs().len(), server.asked().len()), (2, 11));
    drop(standstill);
    pass(INTERVAL).await;
    let _standstill = Standstill::new();
    for _ in 0..10 {
        assert!(is_401(&list(&source).await));
    }
    assert_eq!((plugin.runs().len(), server.asked().len()), (3, 22));
}

// contract: L-19
#[tokio::test]
async fn a_401_that_stays_is_seen_at_the_reflector() {
    let (server, wanted) = taking("another").await;
    let plugin = Plugin::new(json!({"token": "right"}));
    let source = source(client(plugin.configure(server.config("http"))).unwrap());
    let follower = follow(source, options(WatchListMode::Off));
    let backing_off = |state: &kinformer_reflector::ReflectorState| {
        matches!(state, kinformer_reflector::ReflectorState::BackingOff { .. })
    };
    tokio::time::timeout(PATIENCE, follower.handle.state_where(backing_off)).await.unwrap();
    let error = follower.handle.last_error().unwrap();
    assert_eq!(error.status().map(|status| status.code), Some(401), "{error}");
    let statistics = follower.handle.metrics();
    assert!(statistics.failures > 0 && statistics.consecutive_failures > 0, "{statistics:?}");
    *wanted.lock() = "right".to_owned();
    tokio::time::timeout(PATIENCE, follower.handle.wait_for_sync()).await.unwrap().unwrap();
    follower.stop().await;
}

// contract: L-19
#[tokio::test]
async fn a_plugin_runs_again_when_its_credentials_have_expired() {
    let (server, wanted) = taking("first").await;
    let soon = jiff::Timestamp::now() + Duration::from_secs(3600);
    let plugin = Plugin::new(json!({"token": "first", "expirationTimestamp": soon.to_string()}));
    let source = source(client(plugin.configure(server.config("http"))).unwrap());
    list(&source).await.unwrap();
    assert_eq!(plugin.runs().len(), 1);
    *wanted.lock() = "second".to_owned();
    plugin.issues(json!({"token": "second"}));
    pass(Duration::from_secs(3600)).await;
    list(&source).await.unwrap();
    let tokens: Vec<_> = server.tokens().into_iter().flatten().collect();
    assert_eq!(tokens, ["first", "second"]);
}

/// A plugin that hangs in a renewal, and the request that waits for it.
struct Hanging {
    server: Scripted,
    plugin: Plugin,
    source: KubeListerWatcher<ConfigMap>,
    waiting: JoinHandle<Result<(), SourceError>>,
    process: String,
}

impl Hanging {
    /// The first credentials are refused from the beginning.
    async fn new(script: &str) -> Self {
        let (server, _) = taking("second").await;
        let plugin = Plugin::new(json!({"token": "first"}));
        let source = source(client(plugin.configure(server.config("http"))).unwrap());
        // Only the renewal limits the time of a request.
        let source = source.idle_timeout(Duration::from_secs(3600));
        plugin.write_script(script);
        let waiting = spawn_list(&source);
        let process = until(|| plugin.runs().get(1).cloned()).await;
        Self { server, plugin, source, waiting, process }
    }

    /// Gives the request up, repairs the plugin, and lets the time pass that a plugin may take.
    async fn give_up(&self) {
        self.waiting.abort();
        self.plugin.write_script("echo '{\"status\":{\"token\":\"second\"}}'");
        pass(Duration::from_secs(5 * 60)).await;
        assert!(runs_still(&self.process));
    }
}

fn spawn_list(source: &KubeListerWatcher<ConfigMap>) -> JoinHandle<Result<(), SourceError>> {
    let source = source.clone();
    tokio::spawn(async move { source.list(ListOptions::at_version("")).await.map(|_| ()) })
}

// contract: L-19
#[tokio::test]
async fn a_plugin_that_hangs_delays_a_request_by_a_minute_at_most_and_ends_with_its_client() {
    let hanging = Hanging::new("echo $$ >> runs\nexec sleep 100000").await;
    let Hanging { server, plugin, source, waiting, process } = hanging;
    // Others wait for the same one.
    let other = spawn_list(&source);
    until(|| (server.asked().len() == 2).then_some(())).await;
    pass(Duration::from_secs(60)).await;
    let listed = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(is_401(&listed), "{listed:?}");
    assert!(runs_still(&process));
    // The answer to the other one may have arrived only now.
    while !other.is_finished() {
        let_others_run().await;
        pass(Duration::from_secs(60)).await;
    }
    let listed = other.await.unwrap();
    assert!(is_401(&listed), "{listed:?}");
    assert_eq!(plugin.runs().len(), 2);
    drop(source);
    until(|| (!runs_still(&process)).then_some(())).await;
}

// contract: L-19
#[tokio::test]
async fn a_plugin_that_hangs_is_killed_and_run_again() {
    let hanging = Hanging::new("echo $$ >> runs\nexec sleep 100000").await;
    hanging.give_up().await;
    let listed = list(&hanging.source).await;
    assert!(is_401(&listed), "{listed:?}");
    assert!(!runs_still(&hanging.process));
    list(&hanging.source).await.unwrap();
}

// contract: L-19
#[tokio::test]
async fn a_plugin_that_closes_its_output_and_hangs_is_killed_and_run_again() {
    let hanging = Hanging::new("exec >&-\necho $$ >> runs\nexec sleep 100000").await;
    hanging.give_up().await;
    let again = spawn_list(&hanging.source);
    until(|| (!runs_still(&hanging.process)).then_some(())).await;
    let listed = again.await.unwrap();
    assert!(is_401(&listed), "{listed:?}");
    list(&hanging.source).await.unwrap();
}

/// Whether a process is there.
fn runs_still(process: &str) -> bool {
    let mut kill = std::process::Command::new("kill");
    kill.args(["-0", process]).stderr(std::process::Stdio::null());
    kill.status().unwrap().success()
}

/// Waits for another thread or process.
async fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let look = async {
        loop {
            if let Some(found) = found() {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap()
}

async fn let_others_run() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

// contract: L-19
#[tokio::test]
async fn a_plugin_that_fails_says_why() {
    let (server, wanted) = taking("first").await;
    let failing = |script: &str| {
        let plugin = Plugin::new(json!({}));
        plugin.write_script(script);
        let error = client(plugin.configure(server.config("http"))).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::ExecPlugin { .. }), "{error:?}");
        error.to_string()
    };
    assert!(failing("exit 3").contains("exit status: 3"));
    assert!(failing("echo secret").contains("not an ExecCredential"));
    assert!(!failing("echo '\"secret\"'").contains("secret"));
    assert!(failing("cat credential").contains("neither a token nor a certificate"));
    assert!(failing("echo '{\"status\":{\"clientKeyData\":\"x\"}}'").contains("a key without a certificate"));
    assert!(failing("echo '{\"apiVersion\":\"v0\",\"status\":{\"token\":\"t\"}}'").contains("v0"));
    // Later it costs nothing but the answer: the old credentials stay.
    let plugin = Plugin::new(json!({"token": "first"}));
    let source = source(client(plugin.configure(server.config("http"))).unwrap());
    *wanted.lock() = "second".to_owned();
    plugin.write_script("echo $$ >> runs\nexit 3");
    assert!(is_401(&list(&source).await));
    *wanted.lock() = "first".to_owned();
    list(&source).await.unwrap();
    assert_eq!(plugin.runs().len(), 2);
}

// contract: L-19
#[tokio::test]
async fn a_token_file_is_read_again_on_a_401() {
    let (server, wanted) = taking("first").await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let mut config = server.config("http");
    config.auth_info.token_file = Some(path.display().to_string());
    let source = source(client(config).unwrap());
    list(&source).await.unwrap();
    *wanted.lock() = "second".to_owned();
    std::fs::write(&path, "second").unwrap();
    list(&source).await.unwrap();
}

#[tokio::test]
async fn a_token_that_cannot_change_is_sent_once() {
    let (server, _) = taking("another").await;
    let mut config = server.config("http");
    config.auth_info.token = Some("fixed".to_owned().into());
    assert!(is_401(&list(&source(client(config).unwrap())).await));
    assert_eq!(server.asked().len(), 1);
}

// contract: L-19
#[tokio::test]
async fn a_request_with_a_body_is_repeated_whole() {
    let server = Scripted::http(|asked| match asked.token() {
        Some("second") => answer("201 Created", "content-type: application/json\r\n", &asked.body),
        _ => unauthorized(),
    })
    .await;
    let plugin = Plugin::new(json!({"token": "first"}));
    let client = client(plugin.configure(server.config("http"))).unwrap();
    plugin.issues(json!({"token": "second"}));
    let body = json!({"kind": "Status"}).to_string();
    let request =
        http::Request::post("/api/v1/namespaces/default/configmaps").body(body.clone().into_bytes());
    let created: Value = client.request(request.unwrap()).await.unwrap();
    assert_eq!(created, json!({"kind": "Status"}));
    assert_eq!(
        server.asked().iter().map(|asked| asked.body.clone()).collect::<Vec<_>>(),
        [body.clone(), body]
    );
}

/// A server with a certificate of an authority, and files of a client.
struct Tls {
    authority: Authority,
    server: Scripted,
    files: TempDir,
}

impl Tls {
    async fn new(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let authority = authority("one");
        let server = issue(&authority, "server");
        let key = rcgen::KeyPair::from_pem(&server.key).unwrap().serialize_der();
        let server = Scripted::https(tls(server.der, key, Some(&authority)), script).await;
        Self { authority, server, files: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn write(&self, issued: &Issued) {
        std::fs::write(self.path("certificate"), &issued.certificate).unwrap();
        std::fs::write(self.path("key"), &issued.key).unwrap();
    }

    fn config(&self) -> Config {
        let mut config = self.server.config("https");
        config.root_cert = Some(vec![self.authority.der().to_vec()]);
        config
    }

    fn with_files(&self) -> Config {
        let mut config = self.config();
        config.auth_info.client_certificate = Some(self.path("certificate"));
        config.auth_info.client_key = Some(self.path("key"));
        config
    }

    fn last_certificate(&self) -> Vec<u8> {
        self.server.asked().last().unwrap().certificate.as_ref().unwrap().to_vec()
    }
}

// contract: L-20
#[tokio::test]
async fn a_client_certificate_is_read_again_when_its_files_change() {
    let (events, pieces) = mpsc::channel(1);
    let pieces = Mutex::new(Some(pieces));
    let server = Tls::new(move |asked| {
        if !asked.is_watch() {
            return empty_list();
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        Answer::Later(head.into(), pieces.lock().take().unwrap())
    })
    .await;
    let (first, second) = (issue(&server.authority, "first"), issue(&server.authority, "second"));
    server.write(&first);
    let source = source(client(server.with_files()).unwrap());
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), first.der.to_vec());
    let mut watch = source.watch(WatchOptions::from("5", PATIENCE)).await.unwrap();

    server.write(&second);
    pass(LOOK).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), second.der.to_vec());
    // The watch goes on where it is.
    let event = r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"d","resourceVersion":"6"}}}"#;
    events.send(format!("{event}\n").into_bytes()).await.unwrap();
    let event = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert!(matches!(event, Ok(WatchEvent::Added(_))), "{event:?}");
    // No connection is made anew without a reason.
    let connections = server.server.asked().last().unwrap().connection;
    pass(INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.server.asked().last().unwrap().connection, connections);
}

// contract: L-20
#[tokio::test]
async fn a_certificate_without_its_key_leaves_the_old_pair() {
    let server = Tls::new(|_| empty_list()).await;
    let (first, second) = (issue(&server.authority, "first"), issue(&server.authority, "second"));
    server.write(&first);
    let source = source(client(server.with_files()).unwrap());
    list(&source).await.unwrap();
    std::fs::write(server.path("certificate"), &second.certificate).unwrap();
    pass(LOOK).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), first.der.to_vec());
    std::fs::remove_file(server.path("key")).unwrap();
    pass(INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), first.der.to_vec());
    std::fs::write(server.path("key"), &second.key).unwrap();
    pass(INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), second.der.to_vec());
}

// contract: L-20
#[tokio::test]
async fn a_certificate_of_a_plugin_is_issued_anew_on_a_401() {
    for http1 in [false, true] {
        let wanted = Arc::new(Mutex::new(Vec::new()));
        let known = wanted.clone();
        let server = Tls::new(move |asked| match &asked.certificate {
            Some(certificate) if certificate.to_vec() == *known.lock() => empty_list(),
            _ => unauthorized(),
        })
        .await;
        let (first, second) = (issue(&server.authority, "first"), issue(&server.authority, "second"));
        let status = |issued: &Issued| json!({"clientCertificateData": issued.certificate, "clientKeyData": issued.key});
        let plugin = Plugin::new(status(&first));
        let config = plugin.configure(server.config());
        let source = source(if http1 { client_http1(config).unwrap() } else { client(config).unwrap() });
        *wanted.lock() = first.der.to_vec();
        list(&source).await.unwrap();
        assert_eq!(plugin.runs().len(), 1);
        *wanted.lock() = second.der.to_vec();
        plugin.issues(status(&second));
        list(&source).await.unwrap();
        assert_eq!(plugin.runs().len(), 2);
    }
}

// contract: L-20
#[tokio::test]
async fn a_ca_bundle_is_read_again_when_its_file_changes() {
    let server = Tls::new(|_| empty_list()).await;
    std::fs::write(server.path("ca"), authority("another").pem()).unwrap();
    let mut config = server.config();
    config.root_cert_file = Some(server.path("ca").into());
    let source = source(client(config).unwrap());
    let error = list(&source).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    std::fs::write(server.path("ca"), server.authority.pem()).unwrap();
    pass(LOOK).await;
    list(&source).await.unwrap();
}

/// All the credentials there are, one at a time.
fn all_credentials(plugin: &Plugin, config: &Config) -> Vec<Config> {
    let token_file = plugin.path("token");
    std::fs::write(&token_file, "secret").unwrap();
    let with = |set: &dyn Fn(&mut Config)| {
        let mut config = config.clone();
        set(&mut config);
        config
    };
    vec![
        with(&|config| config.auth_info.token = Some("secret".to_owned().into())),
        with(&|config| config.auth_info.token_file = Some(token_file.display().to_string())),
        with(&|config| {
            config.auth_info.username = Some("user".into());
            config.auth_info.password = Some("secret".to_owned().into());
        }),
        with(&|config| {
            let provider = json!({"name": "oidc", "config": {"id-token": "secret"}});
            config.auth_info.auth_provider = Some(serde_json::from_value(provider).unwrap());
        }),
        plugin.configure(config.clone()),
        with(&|config| {
            config.headers.push(("authorization".parse().unwrap(), "Bearer secret".parse().unwrap()))
        }),
    ]
}

// contract: L-21
#[tokio::test]
async fn without_tls_credentials_are_sent_to_this_machine_only() {
    let plugin = Plugin::new(json!({"token": "secret"}));
    let server = Scripted::http(|_| empty_list()).await;
    let port = server.address.port();
    // It is reached like that, and is no loopback address.
    let elsewhere = Config::new(format!("http://0.0.0.0:{port}").parse().unwrap());
    for mut config in all_credentials(&plugin, &elsewhere) {
        config.auth_info.impersonate = Some("someone".into());
        for make in [client, client_http1] {
            list(&source(make(config.clone()).unwrap())).await.unwrap();
            let asked = server.asked().pop().unwrap();
            assert_eq!(
                (asked.header("authorization"), asked.header("impersonate-user")),
                (None, Some("someone"))
            );
        }
    }
    assert_eq!(plugin.runs(), [""; 0]);
    for host in ["127.0.0.1", "localhost"] {
        let here = Config::new(format!("http://{host}:{port}").parse().unwrap());
        for config in all_credentials(&plugin, &here) {
            list(&source(client(config).unwrap())).await.unwrap();
            assert!(server.asked().pop().unwrap().header("authorization").is_some());
        }
    }
}
