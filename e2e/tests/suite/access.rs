//! Authorization and authentication: RBAC, tokens, certificates.

use std::time::Duration;

use e2e::{ControlPlane, Options};
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::{Backoff, Phase, ReflectorOptions, SharedInformerFactory};
use kinformer_cache::{Cache, Error as CacheError, Query};
use kube_client::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube_client::config::AuthInfo;
use kube_client::{Client, Config};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::mode::{Informer, factory, informer, mode, reading};
use crate::planes;
use crate::recorder::{Problems, Recorder, check, equal, eventually, until};

const ADMIN: &str = "admin-token,admin,1,system:masters\n";
const GUEST: &str = "guest-token,guest,2,\n";

/// A control plane with one object in a namespace.
struct Setup {
    control_plane: ControlPlane,
    client: Client,
    namespace: String,
}

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
    fn start(config: Config, namespace: &str) -> Self {
        Self::with_fields(config, namespace, "")
    }

    fn with_fields(config: Config, namespace: &str, fields: &str) -> Self {
        let problems = Problems::default();
        let factory = factory(kinformer::client(config).unwrap())
            .namespace(namespace)
            .fields(fields)
            .reflector(restarting_often)
            .on_error(problems.hook())
            .build();
        let informer = informer!(factory.core().v1().config_maps());
        let recorder = Recorder::of(&informer);
        factory.start().unwrap();
        Self { factory, informer, recorder, problems }
    }

    async fn equal(&self, setup: &Setup) {
        equal(&self.informer, &self.recorder, &setup.client, &setup.path()).await;
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
        let sync = self.factory.wait_for_cache_sync().until(Instant::now() + Duration::from_secs(1)).await;
        sync.into_result().unwrap_err().to_string()
    }
}

impl Setup {
    async fn start() -> Self {
        let control_plane = planes::take(Options::new()).await;
        let client = control_plane.client().await.unwrap();
        let namespace = planes::namespace(&client, "access").await;
        let setup = Self { control_plane, client, namespace };
        setup.create("early").await;
        setup
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    async fn create(&self, name: &str) {
        let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn of_user(&self, token: &str) -> Config {
        let mut config = self.control_plane.config().await.unwrap();
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        config
    }

    async fn informer_of(&self, token: &str) -> UserInformer {
        UserInformer::start(self.of_user(token).await, &self.namespace)
    }

    /// Allows this subject to read the objects of a namespace.
    async fn allow(&self, namespace: &str, subject: &Value) {
        self.allow_verbs(namespace, subject, "reader", json!({"verbs": ["list", "watch"]})).await;
    }

    /// Allows what the verbs, and the names if it has some, of this rule say.
    async fn allow_verbs(&self, namespace: &str, subject: &Value, name: &str, mut rule: Value) {
        (rule["apiGroups"], rule["resources"]) = (json!([""]), json!(["configmaps"]));
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        let roles: Api<Role> = Api::namespaced(self.client.clone(), namespace);
        roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [subject],
        });
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn end(self) {
        planes::keep(self.control_plane).await;
    }
}

fn guest() -> Value {
    json!({"kind": "User", "name": "guest", "apiGroup": "rbac.authorization.k8s.io"})
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_recovers_when_access_is_granted() {
    let setup = Setup::start().await;
    let user = setup.informer_of("guest-token").await;
    user.refused(403, 3).await;
    // The last error is that of a watch-list until the list that follows it has failed as well.
    eventually("a list is reported as forbidden", async || {
        let why = user.sync_error().await;
        let is_list = why.contains("\"guest\" cannot list resource \"configmaps\"");
        check(is_list && why.contains("403 (Forbidden)"), why)
    })
    .await;
    assert_eq!(user.informer.phase(), Phase::Running);

    setup.allow(&setup.namespace, &guest()).await;
    user.equal(&setup).await;
    setup.create("late").await;
    user.equal(&setup).await;
    // After a forbidden watch-list the informer lists until a watch is open.
    let statistics = user.informer.statistics();
    let (watch_lists, _) = mode().expected_requests(1);
    assert_eq!(statistics.watch_lists, watch_lists, "{statistics:#?}");
    assert_eq!(statistics.not_watchable, 0, "{statistics:#?}");
    assert_eq!(statistics.relists, 0, "{statistics:#?}");

    // Without access again, known objects are kept, and missed changes are delivered later.
    let bindings: Api<RoleBinding> = Api::namespaced(setup.client.clone(), &setup.namespace);
    let binding = bindings.get("reader").await.unwrap();
    bindings.delete("reader", &DeleteParams::default()).await.unwrap();
    let so_far = user.problems.all().iter().filter(|problem| problem.code == Some(403)).count();
    user.refused(403, so_far + 2).await;
    setup.create("unseen").await;
    assert_eq!(user.informer.len(), 2);
    let metadata = ObjectMeta { name: Some("reader".into()), ..ObjectMeta::default() };
    let restored = RoleBinding { metadata, ..binding };
    bindings.create(&PostParams::default(), &restored).await.unwrap();
    user.equal(&setup).await;
    user.factory.shutdown().await.unwrap();
    setup.end().await;
}

/// If one of two namespaces is forbidden, the other one is still listed and watched.
#[tokio::test(flavor = "multi_thread")]
async fn forbidden_namespace_does_not_block_others() {
    let setup = Setup::start().await;
    let closed = planes::namespace(&setup.client, "closed").await;
    setup.allow(&setup.namespace, &guest()).await;
    let problems = Problems::default();
    let factory = factory(kinformer::client(setup.of_user("guest-token").await).unwrap())
        .namespaces([&*setup.namespace, &*closed])
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
    setup.create("late").await;
    until("the open namespace is watched", || check(informer.len() == 2, informer.len())).await;
    let sync = factory.wait_for_cache_sync().until(Instant::now() + Duration::from_secs(1)).await;
    let why = sync.into_result().unwrap_err().to_string();
    assert!(why.contains(&format!("no list yet of {closed}")) && why.contains("403 (Forbidden)"), "{why}");

    setup.allow(&closed, &guest()).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    factory.wait_for_cache_sync().until(deadline).await.into_result().unwrap();
    equal(&informer, &recorder, &setup.client, &setup.path()).await;
    factory.shutdown().await.unwrap();
    setup.end().await;
}

/// A rule with `resourceNames` admits the list and the watch of one object by its name, and nothing else.
// contract: L-43
#[tokio::test(flavor = "multi_thread")]
async fn informer_of_one_object_needs_a_rule_with_its_name() {
    let setup = Setup::start().await;
    let rule = json!({"verbs": ["get", "list", "watch"], "resourceNames": ["chosen"]});
    setup.allow_verbs(&setup.namespace, &guest(), "reader", rule).await;
    let config = setup.of_user("guest-token").await;
    let user = UserInformer::with_fields(config.clone(), &setup.namespace, "metadata.name=chosen");
    let path = format!("{}?fieldSelector=metadata.name%3Dchosen", setup.path());
    let deadline = Instant::now() + Duration::from_secs(60);
    user.factory.wait_for_cache_sync().until(deadline).await.into_result().unwrap();
    assert!(user.informer.len() == 0, "early is not selected");
    let maps = setup.maps();
    for _ in 0..2 {
        setup.create("chosen").await;
        setup.create("other").await;
        equal(&user.informer, &user.recorder, &setup.client, &path).await;
        assert_eq!(user.informer.len(), 1);
        let patch = Patch::Merge(json!({"data": {"a": "b"}}));
        maps.patch("chosen", &PatchParams::default(), &patch).await.unwrap();
        equal(&user.informer, &user.recorder, &setup.client, &path).await;
        for name in ["chosen", "other"] {
            maps.delete(name, &DeleteParams::default()).await.unwrap();
        }
        equal(&user.informer, &user.recorder, &setup.client, &path).await;
        assert!(user.informer.len() == 0);
    }
    assert!(user.problems.all().iter().all(|problem| problem.code != Some(403)), "{:?}", user.problems.all());
    assert_eq!(user.informer.statistics().not_watchable, 0);
    user.factory.shutdown().await.unwrap();

    // The error of another request names the object or the resource.
    setup.create("chosen").await;
    let of_user: Api<ConfigMap> = Api::namespaced(kinformer::client(config).unwrap(), &setup.namespace);
    of_user.get("chosen").await.unwrap();
    let refused = of_user.get("early").await.unwrap_err().to_string();
    assert!(refused.contains("configmaps \"early\" is forbidden"), "{refused}");
    let whole = setup.informer_of("guest-token").await;
    whole.refused(403, 2).await;
    let why = whole.sync_error().await;
    assert!(why.contains("\"guest\" cannot") && why.contains("resource \"configmaps\""), "{why}");
    whole.factory.shutdown().await.unwrap();
    setup.end().await;
}

/// Without the verb `watch` the informer lists again and again. It watches while the verb is granted.
// contract: R-26a, R-26b
#[tokio::test(flavor = "multi_thread")]
async fn informer_without_the_verb_watch_lists_again() {
    let setup = Setup::start().await;
    setup.allow_verbs(&setup.namespace, &guest(), "lister", json!({"verbs": ["list"]})).await;
    let user = setup.informer_of("guest-token").await;
    user.equal(&setup).await;
    let not_watchable = || user.informer.reflector().not_watchable().map(|error| error.to_string());
    let is_polled = || {
        let why = not_watchable().unwrap_or_default();
        check(why.contains("cannot watch resource \"configmaps\""), why)
    };
    for name in ["first", "second"] {
        until("the resource is not watchable", is_polled).await;
        setup.create(name).await;
        user.equal(&setup).await;
        setup.maps().delete(name, &DeleteParams::default()).await.unwrap();
        user.equal(&setup).await;
        assert_eq!(user.informer.statistics().not_watchable, 1);

        setup.allow_verbs(&setup.namespace, &guest(), name, json!({"verbs": ["watch"]})).await;
        until("the resource is watched", || check(not_watchable().is_none(), not_watchable())).await;
        let relists = user.informer.statistics().relists;
        setup.create(&format!("watched-{name}")).await;
        user.equal(&setup).await;
        assert_eq!(user.informer.statistics().relists, relists);
        let bindings: Api<RoleBinding> = Api::namespaced(setup.client.clone(), &setup.namespace);
        bindings.delete(name, &DeleteParams::default()).await.unwrap();
    }
    user.factory.shutdown().await.unwrap();
    setup.end().await;
}

/// A cache whose account has the verbs of an operator in one namespace, without `get`. Its deletions grow old at once, and
/// other resources are written between its writes and reads.
// contract: C-08a, C-08c, C-08d, C-08j, C-08o
#[tokio::test(flavor = "multi_thread")]
async fn cache_reads_own_writes_with_rights_in_one_namespace() {
    let setup = Setup::start().await;
    let rule = json!({"verbs": ["list", "watch", "create", "update", "patch", "delete"]});
    setup.allow_verbs(&setup.namespace, &guest(), "operator", rule).await;
    let client = kinformer::client(setup.of_user("guest-token").await).unwrap();
    let cache = Cache::builder(client)
        .options(|options| options.namespaces([&*setup.namespace]))
        .kept_writes(2, Duration::ZERO)
        .build()
        .await
        .unwrap();
    cache.start().unwrap();
    let (own, maps): (Api<ConfigMap>, _) =
        (Api::namespaced(cache.client(), &setup.namespace), cache.kind::<ConfigMap>());
    let secrets: Api<Secret> = Api::namespaced(setup.client.clone(), &setup.namespace);
    let elsewhere = async || {
        let secret = serde_json::from_value(json!({"metadata": {"generateName": "busy-"}})).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    };
    let key = |name: &str| format!("{}/{name}", setup.namespace);
    let map = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    // Much less than the time between two bookmarks.
    let soon = async |read: BoxFuture<'_, Result<usize, CacheError>>| {
        tokio::time::timeout(Duration::from_secs(10), read).await.expect("a read that does not wait").unwrap()
    };
    for round in 0..10 {
        for name in ["one", "two", "three"] {
            own.create(&PostParams::default(), &map(name)).await.unwrap();
            elsewhere().await;
            soon(maps.get(&*key(name)).map_ok(|_| 1).boxed()).await;
            soon(maps.get(&*key("early")).map_ok(|_| 1).boxed()).await;
        }
        for (left, name) in [(3, "one"), (2, "two"), (1, "three")] {
            own.delete(name, &DeleteParams::default()).await.unwrap();
            elsewhere().await;
            let all = Query::new();
            assert_eq!(soon(maps.list(&all).map_ok(|list| list.len()).boxed()).await, left, "{round} {name}");
            let gone = maps.get(&*key(name)).await;
            assert!(matches!(gone, Err(CacheError::NotFound { .. })), "{gone:?}");
        }
    }
    cache.shutdown().await.unwrap();
    setup.end().await;
}

/// The token of a service account becomes invalid when the account is deleted. The informer keeps its objects.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_service_account_is_reported_as_401() {
    let setup = Setup::start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(setup.client.clone(), &setup.namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": "visitor"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let granted = accounts.create_token_request("visitor", &PostParams::default(), &request).await.unwrap();
    let visitor = json!({"kind": "ServiceAccount", "name": "visitor", "namespace": setup.namespace});
    setup.allow(&setup.namespace, &visitor).await;

    let token = granted.status.unwrap().token.unwrap();
    let user = setup.informer_of(&token).await;
    user.equal(&setup).await;
    accounts.delete("visitor", &DeleteParams::default()).await.unwrap();
    user.refused(401, 2).await;
    // The informer keeps its objects and reports the error.
    assert_eq!(user.informer.phase(), Phase::Running);
    assert_eq!(user.informer.len(), 1);
    let error = user.informer.reflector().last_error().unwrap().to_string();
    assert!(error.contains("401 (Unauthorized)"), "{error}");
    user.factory.shutdown().await.unwrap();
    setup.end().await;
}

/// The server rejects a revoked token, and accepts it when it is restored.
#[tokio::test(flavor = "multi_thread")]
async fn informer_recovers_when_a_token_is_restored() {
    let mut setup = Setup::start().await;
    setup.allow(&setup.namespace, &guest()).await;
    let user = setup.informer_of("guest-token").await;
    user.equal(&setup).await;
    setup.control_plane.set_tokens(ADMIN).unwrap();
    setup.control_plane.restart_apiserver().await.unwrap();
    user.refused(401, 2).await;
    setup.create("unseen").await;
    assert_eq!(user.informer.len(), 1);
    setup.control_plane.set_tokens(&format!("{ADMIN}{GUEST}")).unwrap();
    setup.control_plane.restart_apiserver().await.unwrap();
    user.equal(&setup).await;
    user.factory.shutdown().await.unwrap();
    setup.end().await;
}

/// The server's certificate must match the configured authority and name; otherwise, the error has the reason.
#[tokio::test(flavor = "multi_thread")]
async fn untrusted_certificates_are_reported() {
    let setup = Setup::start().await;
    let trusting = setup.control_plane.config().await.unwrap();
    assert!(trusting.root_cert.is_some() && !trusting.accept_invalid_certs);
    let user = UserInformer::start(trusting.clone(), &setup.namespace);
    user.equal(&setup).await;
    user.factory.shutdown().await.unwrap();

    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (mut another_authority, mut another_name) = (trusting.clone(), trusting);
    another_authority.root_cert = Some(vec![other.cert.der().to_vec()]);
    another_name.tls_server_name = Some("elsewhere.example".into());
    for (config, reason) in [(another_authority, "UnknownIssuer"), (another_name, "not valid for name")] {
        let user = UserInformer::start(config, &setup.namespace);
        let why = user.sync_error().await;
        assert!(why.contains("certificate") && why.contains(reason), "{why}");
        assert_eq!(user.informer.phase(), Phase::Running);
        user.factory.shutdown().await.unwrap();
    }
    setup.end().await;
}
