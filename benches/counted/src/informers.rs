//! Whole informers, from the bytes of a response to a handler or a reader.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kinformer::{Registration, SharedInformerFactory, SharedInformerFactoryBuilder, WatchListMode};
use kinformer_cache::{Cache, Kind, Query};
use kinformer_wire::Encoding;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::run::Run;
use crate::{pods, server};

const PODS: usize = 500;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn options(factory: SharedInformerFactoryBuilder, encoding: Encoding) -> SharedInformerFactoryBuilder {
    factory.encoding(encoding).reflector(|reflector| reflector.watch_list(WatchListMode::Off))
}

/// Starts a factory whose only informer calls this handler.
fn factory(
    client: kube_client::Client,
    encoding: Encoding,
    mut handle: impl FnMut() + Send + 'static,
) -> (SharedInformerFactory, Registration) {
    let factory = options(SharedInformerFactory::builder(client), encoding).build();
    let pods = factory.core().v1().pods();
    let registration = pods.handler().inline().for_each(move |event| {
        black_box(event);
        handle();
    });
    factory.start().unwrap();
    (factory, registration.unwrap())
}

/// The first list of a new factory with one counting handler; for each pod.
pub(crate) fn first_list(encoding: Encoding, pods: usize) -> Run {
    let (runtime, list) = (runtime(), Bytes::from(pods::list(encoding, pods)));
    Box::new(move || {
        runtime.block_on(async {
            let (client, _events) = server::client(encoding, &list);
            let received = Arc::new(AtomicUsize::new(0));
            let count = received.clone();
            let (factory, registration) = factory(client, encoding, move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
            registration.synced().await.unwrap();
            assert_eq!(received.load(Ordering::Relaxed), pods);
            factory.shutdown().await.unwrap();
        });
    })
}

/// An update of one pod, from the watch to the handler.
pub(crate) fn update(encoding: Encoding, updates: usize) -> Run {
    let (runtime, list) = (runtime(), Bytes::from(pods::list(encoding, PODS)));
    let received = Arc::new(Notify::new());
    let notify = received.clone();
    let (factory, events) = runtime.block_on(async {
        let (client, events) = server::client(encoding, &list);
        let (factory, registration) = factory(client, encoding, move || notify.notify_one());
        registration.synced().await.unwrap();
        received.notified().await;
        (factory, events)
    });
    // Each run has later versions.
    let events_of_run =
        |run: usize| pods::updates(encoding, PODS, 1 + run * updates..1 + (run + 1) * updates);
    let mut runs = [0, 1].map(events_of_run).into_iter();
    Box::new(move || {
        let _running = &factory;
        runtime.block_on(async {
            for event in runs.next().unwrap() {
                events.send(event).await.unwrap();
                received.notified().await;
            }
        });
    })
}

/// Starts a cache of pods.
fn cache(runtime: &Runtime) -> (Cache, Kind<Pod>) {
    runtime.block_on(async {
        let (client, _events) =
            server::client(Encoding::Protobuf, &pods::list(Encoding::Protobuf, PODS).into());
        let cache = Cache::builder(client).options(|factory| options(factory, Encoding::Protobuf)).build();
        let cache = cache.await.unwrap();
        let kind = cache.kind::<Pod>();
        cache.start().unwrap();
        assert_eq!(kind.list(&Query::new()).await.unwrap().len(), PODS);
        (cache, kind)
    })
}

/// A get of one pod.
pub(crate) fn cache_get(gets: usize) -> Run {
    let runtime = runtime();
    let (cache, kind) = cache(&runtime);
    let keys: Vec<_> = (0..gets).map(|get| pods::key(get * 7_919 % PODS)).collect();
    Box::new(move || {
        let _running = &cache;
        runtime.block_on(async {
            for (namespace, name) in &keys {
                black_box(kind.get((*namespace, name.as_str())).await.unwrap());
            }
        });
    })
}

/// A list of the pods of a namespace.
pub(crate) fn cache_list(lists: usize) -> Run {
    let runtime = runtime();
    let (cache, kind) = cache(&runtime);
    let options = Query::new().namespace(pods::key(0).0);
    Box::new(move || {
        let _running = &cache;
        runtime.block_on(async {
            for _ in 0..lists {
                assert_eq!(black_box(kind.list(&options).await.unwrap()).len(), PODS);
            }
        });
    })
}
