//! Authorization and authentication: RBAC, tokens, certificates.

use std::time::Duration;

use e2e::{ControlPlane, Options};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::{Backoff, Phase, ReflectorOptions, SharedInformerFactory};
use kube_client::api::{Api, DeleteParams, PostParams};
use kube_client::config::AuthInfo;
use kube_client::{Client, Config};
use serde_json::json;
use tokio::time::Instant;

use crate::mode::{Informer, factory, informer, mode, reading};
use crate::recorder::{Problems, Recorder, check, equal, until};

const NAMESPACE: &str = "access";
const PATH: &str = "/api/v1/namespaces/access/configmaps";
const ADMIN: &str = "admin-token,admin,1,system:masters\n";
const GUEST: &str = "guest-token,guest,2,\n";

/// An informer with the credentials of a user, in one namespace.
struct UserInformer {
    factory: SharedInformerFactory,
    informer: Informer<ConfigMap>,
    recorder: Recorder<ConfigMap>,
    problems: Problems,
}

/// The server authorizes a watch only at its start, so watches are restarted often.
fn restarting_often(options: ReflectorOptions) -> ReflectorOptions {
    let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_millis(500));
    reading(options).backoff(backoff).min_watch_timeout_unbounded(Duration::from_secs(1))
}

impl UserInformer {
    fn start(config: Config) -> Self {
        let problems = Problems::default();
        let factory = factory(kinformer::client(config).unwrap())
            .namespace(NAMESPACE)
            .reflector(restarting_often)
            .on_error(problems.hook())
            .build();
        let informer = informer!(factory.core().v1().config_maps());
        let recorder = Recorder::of(&informer);
        factory.start().unwrap();
        Self { factory, informer, recorder, problems }
    }

    async fn equal(&self, client: &Client) {
        equal(&self.informer, &self.recorder, client, PATH).await;
    }

    /// Waits until the server has responded with this code this many times.
    async fn refused(&self, code: u16, times: usize) {
        let refused = || {
            let problems = self.problems.all();
            check(problems.iter().filter(|problem| problem.code == Some(code)).count() >= times, problems)
        };
        until(&format!("the server responds with {code}"), refused).await;
    }

    /// Returns the error of a wait for the sync.
    async fn sync_error(&self) -> String {
        // The informer may sync later; the deadline ends the wait.
        let sync = self.factory.wait_for_cache_sync_until(Instant::now() + Duration::from_secs(1)).await;
        sync.into_result().unwrap_err().to_string()
    }
}

/// Starts a control plane with one object in a namespace.
async fn start() -> (ControlPlane, Client) {
    let control_plane = ControlPlane::start(Options::new()).await.unwrap();
    let client = control_plane.client().await.unwrap();
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    create(&client, "early").await;
    (control_plane, client)
}

async fn create(client: &Client, name: &str) {
    let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn of_user(control_plane: &ControlPlane, token: &str) -> Config {
    let mut config = control_plane.config().await.unwrap();
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    config
}

/// Returns a role that may read the objects.
fn reader() -> serde_json::Value {
    json!({"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
    ]})
}

/// Allows this subject to read the objects.
async fn allow(client: &Client, subject: serde_json::Value) {
    let roles: Api<Role> = Api::namespaced(client.clone(), NAMESPACE);
    roles.create(&PostParams::default(), &serde_json::from_value(reader()).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [subject],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), NAMESPACE);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_recovers_when_access_is_granted() {
    let (control_plane, client) = start().await;
    let user = UserInformer::start(of_user(&control_plane, "guest-token").await);
    user.refused(403, 3).await;
    let why = user.sync_error().await;
    assert!(why.contains("\"guest\" cannot list resource \"configmaps\""), "{why}");
    assert!(why.contains("403 (Forbidden)"), "{why}");
    assert_eq!(user.informer.phase(), Phase::Running);

    allow(&client, json!({"kind": "User", "name": "guest", "apiGroup": "rbac.authorization.k8s.io"})).await;
    user.equal(&client).await;
    create(&client, "late").await;
    user.equal(&client).await;
    // A forbidden watch-list is not taken as an unsupported one.
    let statistics = user.informer.statistics();
    let (watch_lists, _) = mode().expected_requests(2);
    assert_eq!(statistics.watch_lists.min(2), watch_lists, "{statistics:#?}");
    assert_eq!(statistics.relists, 0, "{statistics:#?}");

    // Without access again, known objects are kept, and missed changes are delivered later.
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), NAMESPACE);
    let binding = bindings.get("reader").await.unwrap();
    bindings.delete("reader", &DeleteParams::default()).await.unwrap();
    let so_far = user.problems.all().iter().filter(|problem| problem.code == Some(403)).count();
    user.refused(403, so_far + 2).await;
    create(&client, "unseen").await;
    assert_eq!(user.informer.len(), 2);
    let metadata = ObjectMeta { name: Some("reader".into()), ..ObjectMeta::default() };
    let restored = RoleBinding { metadata, ..binding };
    bindings.create(&PostParams::default(), &restored).await.unwrap();
    user.equal(&client).await;
    user.factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// If one of two namespaces is forbidden, the other one is still listed and watched.
#[tokio::test(flavor = "multi_thread")]
async fn forbidden_namespace_does_not_block_others() {
    let (control_plane, client) = start().await;
    let closed = serde_json::from_value(json!({"metadata": {"name": "closed"}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &closed).await.unwrap();
    let guest = json!({"kind": "User", "name": "guest", "apiGroup": "rbac.authorization.k8s.io"});
    allow(&client, guest.clone()).await;
    let problems = Problems::default();
    let factory = factory(kinformer::client(of_user(&control_plane, "guest-token").await).unwrap())
        .namespaces([NAMESPACE, "closed"])
        .reflector(restarting_often)
        .on_error(problems.hook())
        .build();
    let informer = informer!(factory.core().v1().config_maps());
    let recorder = Recorder::of(&informer);
    factory.start().unwrap();
    until("the open namespace is read", || {
        check(informer.len() == 1 && problems.all().len() > 2, (informer.len(), problems.all()))
    })
    .await;
    create(&client, "late").await;
    until("the open namespace is watched", || check(informer.len() == 2, informer.len())).await;
    let sync = factory.wait_for_cache_sync_until(Instant::now() + Duration::from_secs(1)).await;
    let why = sync.into_result().unwrap_err().to_string();
    assert!(why.contains("no list yet of closed") && why.contains("403 (Forbidden)"), "{why}");

    // Grant access to all namespaces.
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.create(&PostParams::default(), &serde_json::from_value(reader()).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [guest],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    factory.wait_for_cache_sync_until(deadline).await.into_result().unwrap();
    equal(&informer, &recorder, &client, PATH).await;
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// The token of a service account becomes invalid when the account is deleted. The informer keeps its objects.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_service_account_is_reported_as_401() {
    let (control_plane, client) = start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = serde_json::from_value(json!({"metadata": {"name": "visitor"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let granted = accounts.create_token_request("visitor", &PostParams::default(), &request).await.unwrap();
    allow(&client, json!({"kind": "ServiceAccount", "name": "visitor", "namespace": NAMESPACE})).await;

    let token = granted.status.unwrap().token.unwrap();
    let user = UserInformer::start(of_user(&control_plane, &token).await);
    user.equal(&client).await;
    accounts.delete("visitor", &DeleteParams::default()).await.unwrap();
    user.refused(401, 2).await;
    // The informer keeps its objects and reports the error.
    assert_eq!(user.informer.phase(), Phase::Running);
    assert_eq!(user.informer.len(), 1);
    let error = user.informer.reflector().last_error().unwrap().to_string();
    assert!(error.contains("401 (Unauthorized)"), "{error}");
    user.factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// The server rejects a revoked token, and accepts it when it is restored.
#[tokio::test(flavor = "multi_thread")]
async fn informer_recovers_when_a_token_is_restored() {
    let (mut control_plane, client) = start().await;
    allow(&client, json!({"kind": "User", "name": "guest", "apiGroup": "rbac.authorization.k8s.io"})).await;
    let user = UserInformer::start(of_user(&control_plane, "guest-token").await);
    user.equal(&client).await;
    control_plane.set_tokens(ADMIN).unwrap();
    control_plane.restart_apiserver().await.unwrap();
    user.refused(401, 2).await;
    create(&client, "unseen").await;
    assert_eq!(user.informer.len(), 1);
    control_plane.set_tokens(&format!("{ADMIN}{GUEST}")).unwrap();
    control_plane.restart_apiserver().await.unwrap();
    user.equal(&client).await;
    user.factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// The server's certificate must match the configured authority and name; otherwise, the error has the reason.
#[tokio::test(flavor = "multi_thread")]
async fn untrusted_certificates_are_reported() {
    let (control_plane, client) = start().await;
    let trusting = control_plane.config().await.unwrap();
    assert!(trusting.root_cert.is_some() && !trusting.accept_invalid_certs);
    let user = UserInformer::start(trusting.clone());
    user.equal(&client).await;
    user.factory.shutdown().await.unwrap();

    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (mut another_authority, mut another_name) = (trusting.clone(), trusting);
    another_authority.root_cert = Some(vec![other.cert.der().to_vec()]);
    another_name.tls_server_name = Some("elsewhere.example".into());
    for (config, reason) in [(another_authority, "UnknownIssuer"), (another_name, "not valid for name")] {
        let user = UserInformer::start(config);
        let why = user.sync_error().await;
        assert!(why.contains("certificate") && why.contains(reason), "{why}");
        assert_eq!(user.informer.phase(), Phase::Running);
        user.factory.shutdown().await.unwrap();
    }
    control_plane.stop().await;
}
