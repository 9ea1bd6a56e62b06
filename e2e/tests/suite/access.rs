//! Who may see what, and who is believed to be whom: RBAC, tokens, certificates.

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

use crate::mode::{Informer, factory, kept, mode, reading};
use crate::witness::{Problems, Witness, check, equal, until};

const NAMESPACE: &str = "access";
const PATH: &str = "/api/v1/namespaces/access/configmaps";
const ADMIN: &str = "admin-token,admin,1,system:masters\n";
const NOBODY: &str = "nobody-token,nobody,2,\n";

/// An informer of somebody, in one namespace.
struct Visitor {
    factory: SharedInformerFactory,
    informer: Informer<ConfigMap>,
    witness: Witness<ConfigMap>,
    problems: Problems,
}

/// The server judges a watch when it begins: so each begins anew before long.
fn begins_anew(options: ReflectorOptions) -> ReflectorOptions {
    let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_millis(500));
    reading(options).backoff(backoff).min_watch_timeout_unbounded(Duration::from_secs(1))
}

impl Visitor {
    fn start(config: Config) -> Self {
        let problems = Problems::default();
        let factory = factory(kinformer::client(config).unwrap())
            .namespace(NAMESPACE)
            .reflector(begins_anew)
            .on_error(problems.hook())
            .build();
        let informer = kept!(factory.core().v1().config_maps());
        let witness = Witness::of(&informer);
        factory.start().unwrap();
        Self { factory, informer, witness, problems }
    }

    async fn equal(&self, client: &Client) {
        equal(&self.informer, &self.witness, client, PATH).await;
    }

    /// Waits until the server has said this code so often.
    async fn refused(&self, code: u16, times: usize) {
        let refused = || {
            let problems = self.problems.all();
            check(problems.iter().filter(|problem| problem.code == Some(code)).count() >= times, problems)
        };
        until(&format!("the server says {code}"), refused).await;
    }

    /// What somebody who waits for it is told.
    async fn why_not_synced(&self) -> String {
        // A moment later it is: the deadline is there to have an answer.
        let sync = self.factory.wait_for_cache_sync_until(Instant::now() + Duration::from_secs(1)).await;
        sync.into_result().unwrap_err().to_string()
    }
}

/// A control plane with a namespace with one object.
async fn prepared() -> (ControlPlane, Client) {
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

/// A role, of one namespace or of all, that reads the objects.
fn reader() -> serde_json::Value {
    json!({"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
    ]})
}

/// Lets everybody of these subjects read the objects.
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
async fn forbidden_then_allowed() {
    let (control_plane, client) = prepared().await;
    let visitor = Visitor::start(of_user(&control_plane, "nobody-token").await);
    visitor.refused(403, 3).await;
    let why = visitor.why_not_synced().await;
    assert!(why.contains("\"nobody\" cannot list resource \"configmaps\""), "{why}");
    assert!(why.contains("403 (Forbidden)"), "{why}");
    assert_eq!(visitor.informer.phase(), Phase::Running);

    allow(&client, json!({"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"})).await;
    visitor.equal(&client).await;
    create(&client, "late").await;
    visitor.equal(&client).await;
    // That it was forbidden says nothing of whether the server knows watch-lists.
    let statistics = visitor.informer.statistics();
    let (watch_lists, _) = mode().asked(2);
    assert_eq!(statistics.watch_lists.min(2), watch_lists, "{statistics:#?}");
    assert_eq!(statistics.relists, 0, "{statistics:#?}");

    // Taken away again: what is known stays, and what changes meanwhile is made good.
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), NAMESPACE);
    let binding = bindings.get("reader").await.unwrap();
    bindings.delete("reader", &DeleteParams::default()).await.unwrap();
    let so_far = visitor.problems.all().iter().filter(|problem| problem.code == Some(403)).count();
    visitor.refused(403, so_far + 2).await;
    create(&client, "unseen").await;
    assert_eq!(visitor.informer.len(), 2);
    let metadata = ObjectMeta { name: Some("reader".into()), ..ObjectMeta::default() };
    let anew = RoleBinding { metadata, ..binding };
    bindings.create(&PostParams::default(), &anew).await.unwrap();
    visitor.equal(&client).await;
    visitor.factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// Of two namespaces of one informer one may not be read: the other one is read all the same.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_namespaces_is_forbidden() {
    let (control_plane, client) = prepared().await;
    let closed = serde_json::from_value(json!({"metadata": {"name": "closed"}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &closed).await.unwrap();
    let nobody = json!({"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"});
    allow(&client, nobody.clone()).await;
    let problems = Problems::default();
    let factory = factory(kinformer::client(of_user(&control_plane, "nobody-token").await).unwrap())
        .namespaces([NAMESPACE, "closed"])
        .reflector(begins_anew)
        .on_error(problems.hook())
        .build();
    let informer = kept!(factory.core().v1().config_maps());
    let witness = Witness::of(&informer);
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

    // Allowed everywhere.
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.create(&PostParams::default(), &serde_json::from_value(reader()).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [nobody],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    factory.wait_for_cache_sync_until(deadline).await.into_result().unwrap();
    equal(&informer, &witness, &client, PATH).await;
    factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// The token of a service account dies with it.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_account_of_a_token_is_deleted() {
    let (control_plane, client) = prepared().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = serde_json::from_value(json!({"metadata": {"name": "visitor"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let granted = accounts.create_token_request("visitor", &PostParams::default(), &request).await.unwrap();
    allow(&client, json!({"kind": "ServiceAccount", "name": "visitor", "namespace": NAMESPACE})).await;

    let token = granted.status.unwrap().token.unwrap();
    let visitor = Visitor::start(of_user(&control_plane, &token).await);
    visitor.equal(&client).await;
    accounts.delete("visitor", &DeleteParams::default()).await.unwrap();
    visitor.refused(401, 2).await;
    // It goes on with what it knows, and says what is wrong.
    assert_eq!(visitor.informer.phase(), Phase::Running);
    assert_eq!(visitor.informer.len(), 1);
    let error = visitor.informer.reflector().last_error().unwrap().to_string();
    assert!(error.contains("401 (Unauthorized)"), "{error}");
    visitor.factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// A token that the server does not know any more, and then does.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_revoked_and_given_back() {
    let (mut control_plane, client) = prepared().await;
    allow(&client, json!({"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"})).await;
    let visitor = Visitor::start(of_user(&control_plane, "nobody-token").await);
    visitor.equal(&client).await;
    control_plane.set_tokens(ADMIN).unwrap();
    control_plane.restart_apiserver().await.unwrap();
    visitor.refused(401, 2).await;
    create(&client, "unseen").await;
    assert_eq!(visitor.informer.len(), 1);
    control_plane.set_tokens(&format!("{ADMIN}{NOBODY}")).unwrap();
    control_plane.restart_apiserver().await.unwrap();
    visitor.equal(&client).await;
    visitor.factory.shutdown().await.unwrap();
    control_plane.stop().await;
}

/// The server's certificate is what [`Config`] of every other test trusts. Whom it does not trust it says, and why.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_do_not_match() {
    let (control_plane, client) = prepared().await;
    let trusting = control_plane.config().await.unwrap();
    assert!(trusting.root_cert.is_some() && !trusting.accept_invalid_certs);
    let visitor = Visitor::start(trusting.clone());
    visitor.equal(&client).await;
    visitor.factory.shutdown().await.unwrap();

    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (mut another_authority, mut another_name) = (trusting.clone(), trusting);
    another_authority.root_cert = Some(vec![other.cert.der().to_vec()]);
    another_name.tls_server_name = Some("elsewhere.example".into());
    for (config, says) in [(another_authority, "UnknownIssuer"), (another_name, "not valid for name")] {
        let visitor = Visitor::start(config);
        let why = visitor.why_not_synced().await;
        assert!(why.contains("certificate") && why.contains(says), "{why}");
        assert_eq!(visitor.informer.phase(), Phase::Running);
        visitor.factory.shutdown().await.unwrap();
    }
    control_plane.stop().await;
}
