//! The inheritance of options: by kind and namespace, by kind, by namespace, of all.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinformer::kube_core::gvk::GroupVersionKind;
use kinformer::{BoxError, FieldPath, NamespaceOptions, Packed, SharedInformerFactoryBuilder};
use kinformer_cache::{Cache, CacheBuilder, Query};
use kinformer_testing::scripted_http::{Answer, Request, Requests, in_process_client};
use serde_json::{Value, json};

use crate::common::{builder, pod, server};

/// A cache on a server without watch-lists, whose lists have this pod.
fn cache_of(pod: Option<Value>) -> (CacheBuilder, Requests) {
    let script = move |request: &Request| match request.is_watch() {
        true if request.is_watch_list() => Answer::failure(422, "Invalid"),
        true => Answer::watch([]).then_hang(),
        false => Answer::json(&json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "10"},
            "items": Vec::from_iter(&pod),
        })),
    };
    let (client, requests) = in_process_client(script);
    (Cache::builder(client), requests)
}

/// The lists of pods with these options: namespace, label selector and field selector.
async fn lists(options: fn(SharedInformerFactoryBuilder) -> SharedInformerFactoryBuilder) -> Vec<String> {
    let (builder, requests) = cache_of(None);
    let cache = builder.options(options).build().await.unwrap();
    cache.start().unwrap();
    cache.list::<Pod>(&Query::new()).await.unwrap();
    let text = |request: &Request| {
        let namespace =
            request.target.strip_prefix("/api/v1/namespaces/").and_then(|rest| rest.split('/').next());
        let param = |name| request.param(name).unwrap_or("-");
        format!("{} {} {}", namespace.unwrap_or("*"), param("labelSelector"), param("fieldSelector"))
    };
    let lists: BTreeSet<String> =
        requests.all().iter().filter(|request| !request.is_watch()).map(text).collect();
    let watches: Vec<_> = requests.all().into_iter().filter(Request::is_watch).collect();
    assert!(watches.iter().all(|watch| watch.param("allowWatchBookmarks") == Some("true")));
    cache.shutdown().await.unwrap();
    lists.into_iter().collect()
}

fn named(namespace: &str) -> NamespaceOptions {
    NamespaceOptions::new(namespace)
}

fn others() -> NamespaceOptions {
    NamespaceOptions::all_others()
}

fn system_and(others: NamespaceOptions) -> [NamespaceOptions; 3] {
    [named("kube-public").labels("from=public"), named("kube-system").labels("from=system"), others]
}

/// The cases of controller-runtime 0.25's `TestDefaultOpts` that concern requests.
// contract: C-04a, C-04c, C-04e, C-04g
#[tokio::test]
async fn options_are_inherited() {
    type Change = fn(SharedInformerFactoryBuilder) -> SharedInformerFactoryBuilder;
    const OTHERS: &str = "metadata.namespace!=kube-public,metadata.namespace!=kube-system";
    let public = "kube-public from=public -".to_owned();
    let system = "kube-system from=system -".to_owned();
    let all_others = [format!("* - {OTHERS}"), public.clone(), system.clone()];
    let own_others = [format!("* - spec.nodeName=foo,{OTHERS}"), public, system];
    let one = |list: &str| vec![list.to_owned()];
    let cases: [(&str, Change, Vec<String>); 18] = [
        (
            "a namespace of a kind has the selector of the kind",
            |all| {
                let all = all.labels("from=all").namespaces([named("default").labels("from=namespace")]);
                all.of_kind::<Pod>(|pods| pods.labels("from=kind").namespaces([named("default")]))
            },
            one("default from=kind -"),
        ),
        (
            "then that of the same namespace of all kinds",
            |all| {
                let all = all.labels("from=all").namespaces([named("default").labels("from=namespace")]);
                all.of_kind::<Pod>(|pods| pods.namespaces([named("default")]))
            },
            one("default from=namespace -"),
        ),
        (
            "then that of all",
            |all| all.labels("from=all").of_kind::<Pod>(|pods| pods.namespaces([named("default")])),
            one("default from=all -"),
        ),
        (
            "a kind without namespaces has those of all kinds",
            |all| all.namespaces([named("default").labels("from=namespace")]).of_kind::<Pod>(|pods| pods),
            one("default from=namespace -"),
        ),
        (
            "no namespaces of a kind mean all",
            |all| {
                let all = all.namespaces([named("default").labels("from=namespace")]);
                all.of_kind::<Pod>(|pods| pods.namespaces([""; 0]))
            },
            one("* - -"),
        ),
        ("labels of all", |all| all.labels("from=all").of_kind::<Pod>(|pods| pods), one("* from=all -")),
        (
            "labels of a kind",
            |all| all.labels("from=all").of_kind::<Pod>(|pods| pods.labels("from=kind")),
            one("* from=kind -"),
        ),
        ("fields of all", |all| all.fields("from=all").of_kind::<Pod>(|pods| pods), one("* - from=all")),
        (
            "fields of a kind",
            |all| all.fields("from=all").of_kind::<Pod>(|pods| pods.fields("from=kind")),
            one("* - from=kind"),
        ),
        (
            "a namespace of all kinds has the selector of all",
            |all| all.labels("from=all").namespaces([named("default")]),
            one("default from=all -"),
        ),
        (
            "its own selector comes first",
            |all| all.labels("from=all").namespaces([named("default").labels("from=namespace")]),
            one("default from=namespace -"),
        ),
        (
            "everything is a value",
            |all| all.labels("from=all").namespaces([named("default").labels("")]),
            one("default - -"),
        ),
        (
            "the namespaces of all kinds have the selector of the kind",
            |all| all.namespaces([named("default")]).of_kind::<Pod>(|pods| pods.labels("from=kind")),
            one("default from=kind -"),
        ),
        ("all others", |all| all.namespaces(system_and(others())), all_others.to_vec()),
        (
            "all others with a field selector",
            |all| all.namespaces(system_and(others().fields("spec.nodeName=foo"))),
            own_others.to_vec(),
        ),
        (
            "all others of a kind",
            |all| all.of_kind::<Pod>(|pods| pods.namespaces(system_and(others()))),
            all_others.to_vec(),
        ),
        (
            "all others of a kind with a field selector",
            |all| {
                all.of_kind::<Pod>(|pods| pods.namespaces(system_and(others().fields("spec.nodeName=foo"))))
            },
            own_others.to_vec(),
        ),
        ("nothing", |all| all, one("* - -")),
    ];
    for (case, options, expected) in cases {
        assert_eq!(lists(options).await, expected, "{case}");
    }
}

/// The entry for all other namespaces, with selectors of its own.
// contract: C-04c
#[tokio::test]
async fn all_other_namespaces_have_options() {
    let server = server().await;
    for namespace in ["team-a", "team-b", "default"] {
        server.create(pod(namespace, "web", "web", "node-1")).unwrap();
        server.create(pod(namespace, "api", "api", "node-2")).unwrap();
        for name in ["web", "api"] {
            let labels = json!({"app": name});
            let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
            server.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
        }
    }
    let cache = builder(&server)
        .options(|options| {
            options.namespaces([named("team-a"), others().labels("app=api")]).of_kind::<Pod>(|pods| {
                pods.namespaces([named("team-b"), others().labels("").fields("spec.nodeName=node-1")])
            })
        })
        .build()
        .await
        .unwrap();
    cache.start().unwrap();
    let pods = cache.list::<Pod>(&Query::new()).await.unwrap();
    let pods: Vec<_> = pods.iter().map(|pod| pod.key().to_string()).collect();
    assert_eq!(pods, ["default/web", "team-a/web", "team-b/api", "team-b/web"]);
    let maps = cache.list::<ConfigMap>(&Query::new()).await.unwrap();
    let maps: Vec<_> = maps.iter().map(|map| map.key().to_string()).collect();
    let expected = ["default/api", "team-a/api", "team-a/web", "team-b/api"];
    assert_eq!(maps.iter().filter(|key| !key.ends_with(".crt")).collect::<Vec<_>>(), expected);
    let one = cache.list::<Pod>(&Query::new().namespace("default")).await.unwrap();
    assert_eq!(one.len(), 1, "a namespace of the others can be read");
    cache.get::<Pod>("default/web").await.unwrap();
    assert!(cache.get::<Pod>("default/api").await.is_err());
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A pod with managed fields and annotations, as a server sends it.
fn managed() -> Value {
    let mut pod = pod("default", "web", "web", "node-1");
    pod["metadata"]["resourceVersion"] = json!("5");
    pod["metadata"]["annotations"] = json!({"a": "b"});
    pod["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Apply"}]);
    pod
}

// contract: C-06c
#[tokio::test]
async fn managed_fields_are_not_stored() {
    let (builder, _) = cache_of(Some(managed()));
    let cache = builder.options(|options| options.drop_fields::<Pod>([annotations()])).build().await.unwrap();
    cache.start().unwrap();
    let pod = cache.get::<Pod>("default/web").await.unwrap();
    let typed = pod.decode().unwrap().metadata.clone();
    assert_eq!((typed.managed_fields, typed.annotations), (None, None));
    let metadata =
        cache.metadata::<Pod>().get("default/web").await.unwrap().decode().unwrap().metadata.clone();
    assert_eq!((metadata.managed_fields, metadata.annotations), (None, None));
    let stored = cache.factory().dynamic(pod_resource(), kinformer::kube_core::discovery::Scope::Namespaced);
    let dynamic = stored.lister().get("default/web").unwrap().decode().unwrap().metadata.clone();
    assert_eq!((dynamic.managed_fields, dynamic.annotations), (None, None));
    assert!(dynamic.labels.is_some());
    cache.shutdown().await.unwrap();
}

fn pod_resource() -> kinformer::kube_core::discovery::ApiResource {
    let kind = GroupVersionKind::gvk("", "v1", "Pod");
    kinformer::kube_core::discovery::ApiResource::from_gvk(&kind)
}

fn annotations() -> FieldPath {
    FieldPath::new(&["metadata", "annotations"])
}

fn without_labels(object: Packed<()>) -> Result<Packed<()>, BoxError> {
    Ok(object.without_fields(&[&FieldPath::new(&["metadata", "labels"])])?)
}

fn in_namespace(namespace: &str, object: Packed<()>) -> Result<Packed<()>, BoxError> {
    if object.key().namespace() == Some(namespace) { without_labels(object) } else { Ok(object) }
}

/// Transforms and dropped fields of all kinds, and of a kind instead.
// contract: C-04e, C-04f
#[tokio::test]
async fn transforms_are_inherited() {
    type Change = fn(SharedInformerFactoryBuilder) -> SharedInformerFactoryBuilder;
    // Whether the pod has labels and annotations.
    let cases: [(&str, Change, (bool, bool)); 8] = [
        ("nothing", |all| all, (true, true)),
        ("of all", |all| all.default_transform(without_labels), (false, true)),
        ("of a kind", |all| all.default_transform(without_labels).transform_packed::<Pod>(Ok), (true, true)),
        (
            "of its namespace",
            |all| all.default_transform(|object| in_namespace("default", object)),
            (false, true),
        ),
        ("of another", |all| all.default_transform(|object| in_namespace("team-a", object)), (true, true)),
        ("dropped of all", |all| all.default_drop_fields([annotations()]), (true, false)),
        (
            "dropped of a kind",
            |all| all.default_drop_fields([annotations()]).drop_fields::<Pod>([]),
            (true, true),
        ),
        (
            "other options of a kind",
            |all| {
                let all = all.default_transform(without_labels).default_drop_fields([annotations()]);
                all.of_kind::<Pod>(|pods| pods.labels("app=web"))
            },
            (false, false),
        ),
    ];
    for (case, options, expected) in cases {
        let (builder, _) = cache_of(Some(managed()));
        let cache = builder.options(options).build().await.unwrap();
        cache.start().unwrap();
        for metadata in [
            cache.get::<Pod>("default/web").await.unwrap().decode().unwrap().metadata.clone(),
            cache.metadata::<Pod>().get("default/web").await.unwrap().decode().unwrap().metadata.clone(),
        ] {
            assert_eq!((metadata.labels.is_some(), metadata.annotations.is_some()), expected, "{case}");
        }
        cache.shutdown().await.unwrap();
    }
}
