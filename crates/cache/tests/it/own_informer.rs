//! A user's own informer in place of that of a kind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::generic::{
    FromWire as _, List, ListOptions, ListerWatcher, Partition, WatchEvent, WatchOptions, WatchStream,
};
use kinformer::{
    IndexFunction, KubeListerWatcher, ObjectDecoder, ObjectKey, Packed, PackedObject, PartId,
    ResourceVersion, SourceError, Sources,
};
use kinformer_cache::{Error, Query};
use kinformer_controller::{Action, CancellationToken, Controller, Manager, Request, Trigger};
use kube_client::Api;
use kube_client::api::PostParams;
use kube_core::gvk::GroupVersionKind;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::common::{builder, requests, server};
use crate::gate::Gated;

fn map(namespace: &str, name: &str, version: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": name},
        "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": version.to_string()}})
}

/// A source in memory: a version is the number of objects so far.
#[derive(Clone, Default)]
struct Memory(Arc<watch::Sender<Vec<Arc<PackedObject>>>>);

impl Memory {
    fn add(&self, namespace: &str, name: &str) {
        let map = map(namespace, name, self.0.borrow().len() + 1).to_string();
        let map = Packed::<()>::from_wire(map.as_bytes(), &ObjectDecoder::json()).unwrap();
        self.0.send_modify(|maps| maps.push(map.into_object()));
    }
}

#[async_trait::async_trait]
impl ListerWatcher<PackedObject> for Memory {
    async fn list(&self, _: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        let maps = self.0.borrow();
        Ok(List::new(maps.iter().cloned(), maps.len() as u64))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        let from: usize = options.resource_version.to_string().parse().map_err(SourceError::other)?;
        let events = stream::unfold((self.0.subscribe(), from), |(mut maps, at)| async move {
            let map = maps.wait_for(|maps| maps.len() > at).await.ok()?.get(at)?.clone();
            Some((Ok(WatchEvent::Added(map)), (maps, at + 1)))
        });
        Ok(events.boxed())
    }
}

fn names<K>(list: &[Packed<K>]) -> Vec<String> {
    list.iter().map(|map| map.key().to_string()).collect()
}

// contract: C-13a, C-13b
#[tokio::test]
async fn own_informer_serves_reads_handlers_and_controllers() {
    let server = server().await;
    server.create(map("team-a", "of-server", 0)).unwrap();
    let memory = Memory::default();
    memory.add("team-a", "x");
    memory.add("team-b", "y");
    let (source, made) = (memory.clone(), Arc::new(AtomicUsize::new(0)));
    let counter = made.clone();
    let cache = builder(&server)
        .options(|options| {
            options.of_kind::<ConfigMap>(|maps| {
                maps.informer(move |new| {
                    assert_eq!(new.resource().plural, "configmaps");
                    counter.fetch_add(1, Ordering::Relaxed);
                    new.builder(Sources::one(source.clone()))
                })
            })
        })
        .build()
        .await
        .unwrap();
    let maps = cache.kind::<ConfigMap>();
    let (sender, mut received) = mpsc::channel(100);
    let sending = sender.clone();
    let handler = maps.informer().unwrap().for_each(move |event| {
        sending.try_send(format!("handler {}", event.key())).unwrap();
    });
    handler.unwrap();
    let reading = maps.clone();
    let trigger = Trigger::on(&maps.informer().unwrap()).object();
    let controller = Controller::of(cache.factory()).keyed("maps").trigger(trigger).build(
        move |request: Request<ObjectKey>| {
            let (maps, sender) = (reading.clone(), sender.clone());
            async move {
                let map = maps.get(&request.key).await?;
                sender.try_send(format!("reconciled {}", map.key())).unwrap();
                Ok(Action::none())
            }
        },
    );
    cache.start().unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Manager::new().add(controller).unwrap().run(shutdown.clone()));
    let mut expect = async |expected: &[&str]| {
        let mut lines = Vec::new();
        while lines.len() < expected.len() {
            lines.push(received.recv().await.unwrap());
        }
        lines.sort();
        assert_eq!(lines, expected);
    };
    expect(&["handler team-a/x", "handler team-b/y", "reconciled team-a/x", "reconciled team-b/y"]).await;

    let all = Query::new;
    assert_eq!(names(&cache.list::<ConfigMap>(&all()).await.unwrap()), ["team-a/x", "team-b/y"]);
    assert_eq!(names(&maps.list(&all().namespace("team-b")).await.unwrap()), ["team-b/y"]);
    maps.index_by_field("data.key", &["data", "key"]).unwrap();
    assert_eq!(names(&maps.list(&all().field("data.key", "x")).await.unwrap()), ["team-a/x"]);
    assert_eq!(names(&cache.metadata::<ConfigMap>().list(&all()).await.unwrap()).len(), 2);
    let dynamic = cache.dynamic(&GroupVersionKind::gvk("", "v1", "ConfigMap")).await.unwrap();
    assert_eq!(dynamic.get("team-a/x").await.unwrap().decode().unwrap().data["data"]["key"], "x");
    memory.add("team-a", "z");
    expect(&["handler team-a/z", "reconciled team-a/z"]).await;
    assert!(matches!(maps.get("team-a/of-server").await, Err(Error::NotFound { .. })));
    assert_eq!((requests(&server, "configmaps"), made.load(Ordering::Relaxed)), (0, 1));
    shutdown.cancel();
    running.await.unwrap().unwrap();

    // A removal ends it as any other, and the next read requests it again.
    assert!(maps.remove_informer().await);
    assert_eq!(maps.list(&all()).await.unwrap().len(), 3);
    assert_eq!((requests(&server, "configmaps"), made.load(Ordering::Relaxed)), (0, 2));
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Counts the lists of another source, and removes an object from them.
struct Counting {
    source: KubeListerWatcher<PackedObject>,
    lists: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl ListerWatcher<PackedObject> for Counting {
    async fn list(&self, options: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.source.list(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        self.source.watch(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.source.newest_version().await
    }
}

/// The sources of the factory, one for each namespace, in sources of the user.
// contract: C-13d
#[tokio::test]
async fn sources_of_the_factory_can_be_wrapped() {
    let server = server().await;
    for (namespace, name) in [("team-a", "x"), ("team-b", "y"), ("default", "z")] {
        server.create(map(namespace, name, 0)).unwrap();
    }
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = lists.clone();
    let cache = builder(&server)
        .options(|options| {
            options.namespaces(["team-a", "team-b"]).of_kind::<ConfigMap>(|maps| {
                maps.informer(move |new| {
                    new.builder(new.sources(|source| Counting { source, lists: counted.clone() }))
                })
            })
        })
        .build()
        .await
        .unwrap();
    cache.start().unwrap();
    let maps = cache.kind::<ConfigMap>();
    assert_eq!(names(&maps.list(&Query::new()).await.unwrap()), ["team-a/x", "team-b/y"]);
    assert_eq!(lists.load(Ordering::Relaxed), 2);
    assert!(matches!(maps.get("default/z").await, Err(Error::UnknownNamespace { .. })));
    // Own writes are waited for.
    let api: kube_client::Api<ConfigMap> = kube_client::Api::namespaced(cache.client(), "team-b");
    let new = ConfigMap {
        metadata: kube_core::ObjectMeta { name: Some("new".into()), ..<_>::default() },
        ..<_>::default()
    };
    api.create(&<_>::default(), &new).await.unwrap();
    maps.get("team-b/new").await.unwrap();
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-13c
#[tokio::test]
async fn refused_builder_is_the_error_of_the_wait() {
    let server = server().await;
    let cache = builder(&server)
        .sync_timeout(std::time::Duration::from_millis(200))
        .options(|options| {
            options.of_kind::<ConfigMap>(|maps| {
                maps.informer(|new| {
                    let builder = new.builder(Sources::one(Memory::default()));
                    let index = IndexFunction::by_namespace;
                    builder.index("twice", index()).index("twice", index())
                })
            })
        })
        .build()
        .await
        .unwrap();
    cache.start().unwrap();
    // The first timeout may come before the first error.
    let text = loop {
        let error = cache.get::<ConfigMap>("team-a/x").await.unwrap_err();
        assert!(matches!(error, Error::NotSynced { .. }), "{error}");
        if error.to_string().contains("twice") {
            break error.to_string();
        }
    };
    assert!(text.contains("configmaps") && text.contains("cannot have these indexes"), "{text}");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The label of an object determines its part, and its key does not.
struct ByLabel;

impl Partition<PackedObject> for ByLabel {
    fn parts(&self) -> u32 {
        2
    }

    fn part_of(&self, object: &PackedObject) -> Option<PartId> {
        Some(PartId::from(u32::from(object.label("app") == Some("web"))))
    }
}

// contract: C-08a, C-13a
#[tokio::test]
async fn reads_wait_for_all_parts_that_may_have_a_key() {
    let client = Arc::new(OnceLock::<kube_client::Client>::new());
    let used = client.clone();
    let gated = Gated::new(|cache| {
        cache.options(|options| {
            options.of_kind::<ConfigMap>(move |maps| {
                maps.informer(move |new| {
                    let source = KubeListerWatcher::packed::<ConfigMap>(used.get().unwrap().clone());
                    // A part may have any name.
                    let sources = [("not web", "app!=web"), ("web", "app=web")]
                        .map(|(name, labels)| (name, source.clone().labels(labels)));
                    new.builder(Sources::new(ByLabel, sources))
                })
            })
        })
    })
    .await;
    client.get_or_init(|| gated.cache.factory().client().clone());
    let maps = gated.cache.kind::<ConfigMap>();
    assert!(maps.list(&Query::new()).await.unwrap().is_empty());
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    for app in ["web", "api"] {
        gated.close();
        let created = json!({"metadata": {"name": app, "labels": {"app": app}}});
        api.create(&PostParams::default(), &serde_json::from_value(created).unwrap()).await.unwrap();
        assert_eq!(gated.waits(maps.get(("team-a", app))).await.unwrap().label("app"), Some(app));
    }
    gated.shutdown().await;
}
