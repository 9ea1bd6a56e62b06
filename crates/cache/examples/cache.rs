//! Reads from a cache: the first read of a kind starts its informer, and all reads are answered from memory.
//!
//! The program creates some config maps and reads them by key, by labels and by an indexed field; a field without an index
//! is an error that says what to do. Then it changes a config map again and again, and reads it after each change. Writes of
//! `cache.client()` are known to the cache, so that each read waits until the cache has the write before it. At the end the
//! server has counted the requests: one watch, and none for the reads. The program ends by itself. With `-- KUBECONFIG`, or
//! the variable `$KUBECONFIG`, it creates and deletes its config maps in the namespace `default` of that cluster.
//!
//! `cargo run -p kinformer-cache --example cache`
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::error::Error;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kinformer::kube_client::config::{KubeConfigOptions, Kubeconfig};
use kinformer::kube_client::{Api, Config};
use kinformer::{FieldPath, Packed};
use kinformer_apiserver::{ApiServer, Verb};
use kinformer_cache::{Cache, Query};
use serde_json::json;

const MAPS: [(&str, &str, &str); 3] =
    [("example-api", "api", "blue"), ("example-web", "web", "blue"), ("example-shop", "web", "green")];

#[tokio::main]
#[expect(clippy::too_many_lines, reason = "an example from its start to its end")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (config, server) = match std::env::args().nth(1).or_else(|| std::env::var("KUBECONFIG").ok()) {
        Some(kubeconfig) => {
            let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
            (Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?, None)
        }
        None => {
            let server = ApiServer::builder().start().await?; // a cluster in this process
            (server.config()?, Some(server))
        }
    };
    let cache = Cache::builder(kinformer::client(config)?).build().await?;
    cache.start()?;
    let maps = cache.kind::<ConfigMap>();
    let api: Api<ConfigMap> = Api::namespaced(cache.client(), "default");
    for (name, app, team) in MAPS {
        let labels = json!({"app": app, "example": "cache"});
        let map = json!({"metadata": {"name": name, "labels": labels}, "data": {"team": team, "count": "0"}});
        api.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
    }

    println!("# by key, which starts the informer and waits until it has synced");
    let map = maps.get("default/example-web").await?;
    println!("{}: app={:?}, team={:?}", map.key(), map.label("app"), field(&map, "team")?);

    println!("# by labels, ordered by key");
    let web = Query::new().namespace("default").labels("app=web,example=cache".parse()?);
    print(&maps.list(&web).await?);

    println!("# by a field: only an index can answer");
    let blue = Query::new().labels("example=cache".parse()?).field("data.team", "blue");
    println!("error: {}", maps.list(&blue).await.err().ok_or("listed without an index")?);
    maps.index_by_field("data.team", &["data", "team"])?;
    print(&maps.list(&blue).await?);

    println!("# reads see the writes before them");
    let mut stale = 0;
    for count in 1..=100 {
        let count = count.to_string();
        let patch = Patch::Merge(json!({"data": {"count": count}}));
        api.patch("example-web", &PatchParams::default(), &patch).await?;
        let read = maps.get("default/example-web").await?;
        stale += usize::from(field(&read, "count")? != Some(count));
    }
    println!("stale reads after 100 writes: {stale}");

    for (name, ..) in MAPS {
        api.delete(name, &DeleteParams::default()).await?;
    }
    println!("error: {}", maps.get("default/example-web").await.err().ok_or("read after its deletion")?);

    if let Some(server) = &server {
        let [gets, lists, watches] = [Verb::Get, Verb::List, Verb::Watch]
            .map(|verb| server.metrics().requests_for(verb, "configmaps"));
        println!("# requests for config maps: {gets} gets, {lists} lists, {watches} watches");
    }
    cache.shutdown().await?;
    if let Some(server) = server {
        server.shutdown().await;
    }
    Ok(())
}

/// Reads one value in place; the object is not decoded.
fn field(map: &Packed<ConfigMap>, name: &str) -> Result<Option<String>, Box<dyn Error>> {
    Ok(map.field(&FieldPath::new(&["data", name]))?)
}

fn print(maps: &[Packed<ConfigMap>]) {
    maps.iter().for_each(|map| println!("{}", map.key()));
}
