//! Renewal of credentials, and the servers that receive them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::common::certificates::{Authority, Issued, authority, issue, tls, tls_for_any_client, version_1};
use crate::common::{PATIENCE, empty_list, follow, options};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_kube::{Error, KubeListerWatcher, client, client_http1, sends_credentials};
use kinformer_reflector::{ListOptions, ListerWatcher, SourceError, WatchEvent, WatchListMode, WatchOptions};
use kinformer_testing::scripted_http::{Answer, Request, ScriptedServer};
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
        // Renamed into place, since a shell may be reading the previous one.
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

    /// The process ids of all runs.
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

    /// Makes it the command of an auth provider.
    fn configure_auth_provider(&self, mut config: Config) -> Config {
        let command = json!({
            "cmd-path": "/bin/sh",
            "cmd-args": self.path("plugin"),
            "token-key": "{.status.token}",
        });
        let provider = json!({"name": "gcp", "config": command});
        config.auth_info.auth_provider = Some(serde_json::from_value(provider).unwrap());
        config
    }
}

/// The tokens of all requests that have one.
fn tokens(server: &ScriptedServer) -> Vec<String> {
    server.requests().iter().filter_map(|request| request.token().map(str::to_owned)).collect()
}

/// A server that accepts one token, which can be changed.
async fn accepting(token: &str) -> (ScriptedServer, Arc<Mutex<String>>) {
    let accepted = Arc::new(Mutex::new(token.to_owned()));
    let current = accepted.clone();
    let server = ScriptedServer::http(move |request| match request.token() {
        Some(token) if token == *current.lock() => empty_list(),
        _ => Answer::failure(401, "Unauthorized"),
    })
    .await;
    (server, accepted)
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

/// Advances the clock.
async fn advance(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Keeps the clock from advancing until it is dropped, for at most [`PATIENCE`] of real time.
struct PausedClock {
    _held: std::sync::mpsc::Sender<()>,
}

impl PausedClock {
    fn new() -> Self {
        let (held, dropped) = std::sync::mpsc::channel::<()>();
        tokio::time::pause();
        // A blocking task keeps a paused clock from advancing to the next timer.
        tokio::task::spawn_blocking(move || dropped.recv_timeout(PATIENCE));
        Self { _held: held }
    }
}

impl Drop for PausedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A plugin runs again on a 401, and the request is repeated, also if the credentials have not expired.
// contract: L-19a, L-19i
#[tokio::test]
async fn plugin_runs_again_on_401() {
    let later = (jiff::Timestamp::now() + Duration::from_secs(3600)).to_string();
    for status in [json!({"token": "first"}), json!({"token": "first", "expirationTimestamp": later})] {
        check_renewal(Plugin::configure, status).await;
    }
}

// contract: L-19a, L-19k
#[tokio::test]
async fn auth_provider_runs_again_on_401() {
    check_renewal(Plugin::configure_auth_provider, json!({"token": "first"})).await;
}

/// The server rejects the first credentials after the first list. The plugin then issues the second ones.
async fn check_renewal(configure: fn(&Plugin, Config) -> Config, first: Value) {
    for http1 in [false, true] {
        let (server, accepted) = accepting("first").await;
        let plugin = Plugin::new(first.clone());
        let config = configure(&plugin, server.config());
        let source = source(if http1 { client_http1(config).unwrap() } else { client(config).unwrap() });
        list(&source).await.unwrap();
        let runs = plugin.runs().len();
        *accepted.lock() = "second".to_owned();
        plugin.issues(json!({"token": "second"}));
        list(&source).await.unwrap();
        assert_eq!(plugin.runs().len(), runs + 1);
        assert_eq!(tokens(&server), ["first", "first", "second"]);
    }
}

// contract: L-19d
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_share_one_renewal() {
    let (server, accepted) = accepting("first").await;
    let plugin = Plugin::new(json!({"token": "first"}));
    let source = source(client(plugin.configure(server.config())).unwrap());
    list(&source).await.unwrap();
    *accepted.lock() = "second".to_owned();
    plugin.issues(json!({"token": "second"}));
    let lists = futures::future::join_all((0..20).map(|_| list(&source))).await;
    assert!(lists.iter().all(Result::is_ok), "{lists:?}");
    assert_eq!(plugin.runs().len(), 2);
}

/// A 401 that renewal does not resolve is an error, and renewals start at most once per interval.
// contract: L-19c
#[tokio::test]
async fn persistent_401_is_an_error_and_renews_rarely() {
    let (server, _) = accepting("another").await;
    let plugin = Plugin::new(json!({"token": "wrong"}));
    let source = source(client(plugin.configure(server.config())).unwrap());
    let paused = PausedClock::new();
    for _ in 0..10 {
        let listed = list(&source).await;
        assert!(is_401(&listed), "{listed:?}");
    }
    // The first request is repeated with newly issued credentials.
    assert_eq!((plugin.runs().len(), server.requests().len()), (2, 11));
    drop(paused);
    advance(RENEWAL_INTERVAL).await;
    let _paused = PausedClock::new();
    for _ in 0..10 {
        assert!(is_401(&list(&source).await));
    }
    assert_eq!((plugin.runs().len(), server.requests().len()), (3, 22));
}

/// A 401 that renewal does not resolve is the reflector's last error, until the server accepts the credentials.
// contract: L-19f
#[tokio::test]
async fn persistent_401_is_visible_in_reflector() {
    let (server, accepted) = accepting("another").await;
    let plugin = Plugin::new(json!({"token": "right"}));
    let source = source(client(plugin.configure(server.config())).unwrap());
    let follower = follow(source, options(WatchListMode::Off));
    let backing_off = |state: &kinformer_reflector::ReflectorState| {
        matches!(state, kinformer_reflector::ReflectorState::BackingOff { .. })
    };
    tokio::time::timeout(PATIENCE, follower.handle.state_where(backing_off)).await.unwrap();
    let error = follower.handle.last_error().unwrap();
    assert_eq!(error.status().map(|status| status.code), Some(401), "{error}");
    let statistics = follower.handle.metrics();
    assert!(statistics.failures > 0 && statistics.consecutive_failures > 0, "{statistics:?}");
    *accepted.lock() = "right".to_owned();
    tokio::time::timeout(PATIENCE, follower.handle.wait_for_sync()).await.unwrap().unwrap();
    follower.stop().await;
}

// contract: L-19b
#[tokio::test]
async fn plugin_runs_again_after_expiry() {
    let (server, accepted) = accepting("first").await;
    let soon = jiff::Timestamp::now() + Duration::from_secs(3600);
    let plugin = Plugin::new(json!({"token": "first", "expirationTimestamp": soon.to_string()}));
    let source = source(client(plugin.configure(server.config())).unwrap());
    list(&source).await.unwrap();
    assert_eq!(plugin.runs().len(), 1);
    *accepted.lock() = "second".to_owned();
    plugin.issues(json!({"token": "second"}));
    advance(Duration::from_secs(3600)).await;
    list(&source).await.unwrap();
    let tokens = tokens(&server);
    assert_eq!(tokens, ["first", "second"]);
}

/// A plugin that hangs in a renewal, and the request that waits for it.
struct Hanging {
    server: ScriptedServer,
    plugin: Plugin,
    source: KubeListerWatcher<ConfigMap>,
    waiting: JoinHandle<Result<(), SourceError>>,
    process: String,
}

impl Hanging {
    /// The server never accepts the first credentials.
    async fn new(script: &str) -> Self {
        let (server, _) = accepting("second").await;
        let plugin = Plugin::new(json!({"token": "first"}));
        let source = source(client(plugin.configure(server.config())).unwrap());
        // Only the renewal limits the time of a request.
        let source = source.idle_timeout(Duration::from_secs(3600));
        plugin.write_script(script);
        let waiting = spawn_list(&source);
        let process = until(|| plugin.runs().get(1).cloned()).await;
        Self { server, plugin, source, waiting, process }
    }

    /// Cancels the request, repairs the plugin, and advances the clock by the time limit of a plugin.
    async fn exceed_time_limit(&self) {
        self.waiting.abort();
        self.plugin.write_script("echo '{\"status\":{\"token\":\"second\"}}'");
        advance(Duration::from_secs(5 * 60)).await;
        assert!(is_running(&self.process));
    }
}

fn spawn_list(source: &KubeListerWatcher<ConfigMap>) -> JoinHandle<Result<(), SourceError>> {
    let source = source.clone();
    tokio::spawn(async move { source.list(ListOptions::at_version("")).await.map(|_| ()) })
}

/// A plugin that hangs delays a request by at most a minute, and is killed when its client is dropped.
// contract: L-19d, L-19e
#[tokio::test]
async fn hanging_plugin_delays_requests_by_a_minute() {
    let hanging = Hanging::new("echo $$ >> runs\nexec sleep 100000").await;
    let Hanging { server, plugin, source, waiting, process } = hanging;
    // Other requests wait for the same renewal.
    let other = spawn_list(&source);
    until(|| (server.requests().len() == 2).then_some(())).await;
    advance(Duration::from_secs(60)).await;
    let listed = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(is_401(&listed), "{listed:?}");
    assert!(is_running(&process));
    // The response to the other request may have arrived only now.
    while !other.is_finished() {
        let_others_run().await;
        advance(Duration::from_secs(60)).await;
    }
    let listed = other.await.unwrap();
    assert!(is_401(&listed), "{listed:?}");
    assert_eq!(plugin.runs().len(), 2);
    drop(source);
    until(|| (!is_running(&process)).then_some(())).await;
}

// contract: L-19g
#[tokio::test]
async fn hanging_plugin_is_killed_and_run_again() {
    let hanging = Hanging::new("echo $$ >> runs\nexec sleep 100000").await;
    hanging.exceed_time_limit().await;
    let listed = list(&hanging.source).await;
    assert!(is_401(&listed), "{listed:?}");
    assert!(!is_running(&hanging.process));
    list(&hanging.source).await.unwrap();
}

/// A plugin that closes its output and hangs is killed, and the next renewal runs it again.
// contract: L-19g
#[tokio::test]
async fn hanging_plugin_without_output_is_killed() {
    let hanging = Hanging::new("exec >&-\necho $$ >> runs\nexec sleep 100000").await;
    hanging.exceed_time_limit().await;
    let again = spawn_list(&hanging.source);
    until(|| (!is_running(&hanging.process)).then_some(())).await;
    let listed = again.await.unwrap();
    assert!(is_401(&listed), "{listed:?}");
    list(&hanging.source).await.unwrap();
}

/// Whether the process is running.
fn is_running(process: &str) -> bool {
    let mut kill = std::process::Command::new("kill");
    kill.args(["-0", process]).stderr(std::process::Stdio::null());
    kill.status().unwrap().success()
}

/// Waits for another thread or process.
async fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let poll = async {
        loop {
            if let Some(found) = found() {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, poll).await.unwrap()
}

async fn let_others_run() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// The error of a plugin has the reason, without the plugin's output.
// contract: L-19h
#[tokio::test]
async fn plugin_error_has_reason() {
    let (server, accepted) = accepting("first").await;
    let failing = |script: &str| {
        let plugin = Plugin::new(json!({}));
        plugin.write_script(script);
        let error = client(plugin.configure(server.config())).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::ExecPlugin { .. }), "{error:?}");
        error.to_string()
    };
    assert!(failing("exit 3").contains("exit status: 3"));
    assert!(failing("echo secret").contains("not an ExecCredential"));
    assert!(!failing("echo '\"secret\"'").contains("secret"));
    assert!(failing("cat credential").contains("neither a token nor a certificate"));
    assert!(failing("echo '{\"status\":{\"clientKeyData\":\"x\"}}'").contains("a key without a certificate"));
    assert!(failing("echo '{\"apiVersion\":\"v0\",\"status\":{\"token\":\"t\"}}'").contains("v0"));
    // A later failure fails only the request: the old credentials stay.
    let plugin = Plugin::new(json!({"token": "first"}));
    let source = source(client(plugin.configure(server.config())).unwrap());
    *accepted.lock() = "second".to_owned();
    plugin.write_script("echo $$ >> runs\nexit 3");
    assert!(is_401(&list(&source).await));
    *accepted.lock() = "first".to_owned();
    list(&source).await.unwrap();
    assert_eq!(plugin.runs().len(), 2);
}

// contract: L-19a, L-19j
#[tokio::test]
async fn token_file_is_read_again_on_401() {
    let (server, accepted) = accepting("first").await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let mut config = server.config();
    config.auth_info.token_file = Some(path.display().to_string());
    let source = source(client(config).unwrap());
    list(&source).await.unwrap();
    *accepted.lock() = "second".to_owned();
    std::fs::write(&path, "second").unwrap();
    list(&source).await.unwrap();
}

/// A request with a token that cannot be renewed is not repeated on a 401.
#[tokio::test]
async fn fixed_token_is_sent_once() {
    let (server, _) = accepting("another").await;
    let mut config = server.config();
    config.auth_info.token = Some("fixed".to_owned().into());
    assert!(is_401(&list(&source(client(config).unwrap())).await));
    assert_eq!(server.requests().len(), 1);
}

/// A request that is repeated after a renewal has its complete body.
// contract: L-19a
#[tokio::test]
async fn repeated_request_has_full_body() {
    let server = ScriptedServer::http(|request| match request.token() {
        Some("second") => Answer::new(201, "application/json", request.body.clone()),
        _ => Answer::failure(401, "Unauthorized"),
    })
    .await;
    let plugin = Plugin::new(json!({"token": "first"}));
    let client = client(plugin.configure(server.config())).unwrap();
    plugin.issues(json!({"token": "second"}));
    let body = json!({"kind": "Status"}).to_string();
    let request =
        http::Request::post("/api/v1/namespaces/default/configmaps").body(body.clone().into_bytes());
    let created: Value = client.request(request.unwrap()).await.unwrap();
    assert_eq!(created, json!({"kind": "Status"}));
    assert_eq!(
        server.requests().iter().map(|request| request.body.clone()).collect::<Vec<_>>(),
        [body.clone(), body]
    );
}

/// A server with a certificate of an authority, and files of a client.
struct Tls {
    authority: Authority,
    server: ScriptedServer,
    files: TempDir,
}

impl Tls {
    async fn new(script: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        let authority = authority("one");
        let server = issue(&authority, "server");
        let key = rcgen::KeyPair::from_pem(&server.key).unwrap().serialize_der();
        let server = ScriptedServer::https(tls(server.der, key, Some(&authority)), script).await;
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
        let mut config = self.server.config();
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
        self.server.requests().last().unwrap().certificate.as_ref().unwrap().to_vec()
    }
}

/// New connections use a changed client certificate, and an open watch continues.
// contract: L-20a, L-20c
#[tokio::test]
async fn changed_client_certificate_is_read_again() {
    let (events, pieces) = mpsc::channel(1);
    let pieces = Mutex::new(Some(pieces));
    let server = Tls::new(move |request| {
        if !request.is_watch() {
            return empty_list();
        }
        Answer::watch([]).then_received(pieces.lock().take().unwrap())
    })
    .await;
    let (first, second) = (issue(&server.authority, "first"), issue(&server.authority, "second"));
    server.write(&first);
    let source = source(client(server.with_files()).unwrap());
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), first.der.to_vec());
    let mut watch = source.watch(WatchOptions::from("5", PATIENCE)).await.unwrap();

    server.write(&second);
    advance(FILE_CHECK_INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), second.der.to_vec());
    // The watch continues on its connection.
    let event = r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"d","resourceVersion":"6"}}}"#;
    events.send(format!("{event}\n").into()).await.unwrap();
    let event = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert!(matches!(event, Ok(WatchEvent::Added(_))), "{event:?}");
    // Without a change, no new connection is opened.
    let connections = server.server.requests().last().unwrap().connection;
    advance(RENEWAL_INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.server.requests().last().unwrap().connection, connections);
}

/// The old certificate and key stay in use until both files have changed and match.
// contract: L-20d
#[tokio::test]
async fn certificate_without_key_keeps_old_pair() {
    let server = Tls::new(|_| empty_list()).await;
    let (first, second) = (issue(&server.authority, "first"), issue(&server.authority, "second"));
    server.write(&first);
    let source = source(client(server.with_files()).unwrap());
    list(&source).await.unwrap();
    std::fs::write(server.path("certificate"), &second.certificate).unwrap();
    advance(FILE_CHECK_INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), first.der.to_vec());
    std::fs::remove_file(server.path("key")).unwrap();
    advance(RENEWAL_INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), first.der.to_vec());
    std::fs::write(server.path("key"), &second.key).unwrap();
    advance(RENEWAL_INTERVAL).await;
    list(&source).await.unwrap();
    assert_eq!(server.last_certificate(), second.der.to_vec());
}

// contract: L-20b, L-19a, L-19l
#[tokio::test]
async fn plugin_certificate_is_renewed_on_401() {
    for http1 in [false, true] {
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let current = accepted.clone();
        let server = Tls::new(move |request| match &request.certificate {
            Some(certificate) if certificate.to_vec() == *current.lock() => empty_list(),
            _ => Answer::failure(401, "Unauthorized"),
        })
        .await;
        let (first, second) = (issue(&server.authority, "first"), issue(&server.authority, "second"));
        let status = |issued: &Issued| json!({"clientCertificateData": issued.certificate, "clientKeyData": issued.key});
        let plugin = Plugin::new(status(&first));
        let config = plugin.configure(server.config());
        let source = source(if http1 { client_http1(config).unwrap() } else { client(config).unwrap() });
        *accepted.lock() = first.der.to_vec();
        list(&source).await.unwrap();
        assert_eq!(plugin.runs().len(), 1);
        *accepted.lock() = second.der.to_vec();
        plugin.issues(status(&second));
        list(&source).await.unwrap();
        assert_eq!(plugin.runs().len(), 2);
    }
}

/// A client certificate of X.509 version 1 is sent, though rustls does not verify such certificates.
// contract: L-31g
#[tokio::test]
async fn client_certificate_of_version_1_is_sent() {
    let authority = authority("one");
    let issued = issue(&authority, "server");
    let key = rcgen::KeyPair::from_pem(&issued.key).unwrap().serialize_der();
    let server = ScriptedServer::https(tls_for_any_client(issued.der, key), |_| empty_list()).await;
    let issued = issue(&authority, "client");
    let certificate = version_1(&issued.der);
    let lines: Vec<_> = STANDARD.encode(&certificate).as_bytes().chunks(64).map(<[u8]>::to_vec).collect();
    let lines = String::from_utf8(lines.join(&b'\n')).unwrap();
    let pem = format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n");
    for make in [client, client_http1] {
        let mut config = server.config();
        config.root_cert = Some(vec![authority.der().to_vec()]);
        config.auth_info.client_certificate_data = Some(STANDARD.encode(&pem));
        config.auth_info.client_key_data = Some(STANDARD.encode(&issued.key).into());
        list(&source(make(config).unwrap())).await.unwrap();
        let received = server.requests().pop().unwrap().certificate.unwrap();
        assert_eq!(received.to_vec(), certificate);
    }
}

// contract: L-20a
#[tokio::test]
async fn changed_ca_bundle_is_read_again() {
    let server = Tls::new(|_| empty_list()).await;
    std::fs::write(server.path("ca"), authority("another").pem()).unwrap();
    let mut config = server.config();
    config.root_cert_file = Some(server.path("ca").into());
    let source = source(client(config).unwrap());
    let error = list(&source).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    std::fs::write(server.path("ca"), server.authority.pem()).unwrap();
    advance(FILE_CHECK_INTERVAL).await;
    list(&source).await.unwrap();
}

/// A CA bundle that is being written: the old one is used until all of it is there.
// contract: L-20a
#[tokio::test]
async fn half_written_ca_bundle_keeps_old_one() {
    // Without a connection that the next request could use again.
    let server = Tls::new(|_| empty_list().header("connection", "close")).await;
    let ours = server.authority.pem();
    std::fs::write(server.path("ca"), &ours).unwrap();
    let mut config = server.config();
    config.root_cert_file = Some(server.path("ca").into());
    let source = source(client_http1(config).unwrap());
    list(&source).await.unwrap();
    let other = authority("another").pem();
    std::fs::write(server.path("ca"), other.split_at(other.len() / 2).0).unwrap();
    for interval in [FILE_CHECK_INTERVAL, RENEWAL_INTERVAL] {
        advance(interval).await;
        list(&source).await.unwrap();
    }
    std::fs::write(server.path("ca"), &other).unwrap();
    advance(RENEWAL_INTERVAL).await;
    let error = list(&source).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    std::fs::write(server.path("ca"), other + &ours).unwrap();
    advance(RENEWAL_INTERVAL).await;
    list(&source).await.unwrap();
}

/// One configuration for each form of credentials.
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

/// Without TLS, credentials are not sent through a proxy, also if the server is a loopback address.
// contract: L-21b
#[test]
fn plain_http_credentials_use_no_proxy() {
    for (url, direct, through_proxy) in [
        ("http://127.0.0.1:8001", true, false),
        ("http://localhost:8001", true, false),
        ("https://127.0.0.1:8001", true, true),
        ("https://192.0.2.7", true, true),
    ] {
        let mut config = Config::new(url.parse().unwrap());
        assert_eq!(sends_credentials(&config), direct, "{url}");
        for proxy in ["http://127.0.0.1:3128", "https://proxy.example"] {
            config.proxy_url = Some(proxy.parse().unwrap());
            assert_eq!(sends_credentials(&config), through_proxy, "{url} through {proxy}");
        }
    }
}

/// Without TLS, credentials are sent to loopback addresses only.
// contract: L-21a
#[tokio::test]
async fn plain_http_credentials_only_to_loopback() {
    let plugin = Plugin::new(json!({"token": "secret"}));
    let server = ScriptedServer::http(|_| empty_list()).await;
    let port = server.address().port();
    // This address reaches the server and is not a loopback address.
    let elsewhere = Config::new(format!("http://0.0.0.0:{port}").parse().unwrap());
    for mut config in all_credentials(&plugin, &elsewhere) {
        config.auth_info.impersonate = Some("someone".into());
        for make in [client, client_http1] {
            list(&source(make(config.clone()).unwrap())).await.unwrap();
            let request = server.requests().pop().unwrap();
            assert_eq!(
                (request.header("authorization"), request.header("impersonate-user")),
                (None, Some("someone"))
            );
        }
    }
    assert_eq!(plugin.runs(), [""; 0]);
    for host in ["127.0.0.1", "localhost"] {
        let here = Config::new(format!("http://{host}:{port}").parse().unwrap());
        for config in all_credentials(&plugin, &here) {
            list(&source(client(config).unwrap())).await.unwrap();
            assert!(server.requests().pop().unwrap().header("authorization").is_some());
        }
    }
}
