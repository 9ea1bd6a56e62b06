//! An informer whose scope changes while it runs: namespaces come and go, are chosen by a label, and are one half of all objects by
//! their hash. It ends by itself.
//!
//! `cargo run -p kinformer --example scope` uses an API server in this process.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::error::Error;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Event, Informer, Scope, ShardField, ShardSelector, SharedInformerFactory};
use kinformer_apiserver::ApiServer;
use serde_json::json;
use tokio::sync::mpsc;

const TEAMS: [&str; 4] = ["blue", "green", "shop", "web"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().start().await?;
    for team in TEAMS {
        let tier = if team < "shop" { "back" } else { "front" };
        server.create(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": team, "labels": {"tier": tier}}}))?;
        server.create(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": team}}))?;
    }
    let factory = SharedInformerFactory::new(kinformer::client(server.config()?)?);
    let maps = factory.informer::<ConfigMap>();
    let (events, mut received) = mpsc::channel(100);
    maps.for_each(move |event| {
        let what = match event {
            Event::Added(_) => "added",
            Event::Updated(_) => "updated",
            Event::Deleted(_) => "deleted",
            Event::Left(_) => "left the scope:",
        };
        _ = events.try_send(format!("  {what} {}", event.key()));
    })?;

    println!("# two namespaces");
    maps.set_scope(&Scope::namespaces(["blue", "green"])).await?;
    factory.start()?;
    show(&maps, &mut received, 2).await?;
    println!("# one more, and one less: what stays is not listed again");
    maps.set_scope(&Scope::namespaces(["green", "shop"])).await?;
    show(&maps, &mut received, 2).await?;
    println!("# all but one");
    maps.set_scope(&Scope::all_but(["green"])).await?;
    show(&maps, &mut received, 3).await?;
    println!("# the namespaces with a label, as it is set and removed");
    let following = tokio::spawn(factory.follow_namespaces("tier=front", Scope::all())?);
    factory.start()?; // the informer of namespaces
    show(&maps, &mut received, 1).await?;
    server.update(json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "blue", "labels": {"tier": "front"}}}))?;
    show(&maps, &mut received, 1).await?;
    following.abort();
    println!("# half of all objects, by the hash of their namespaces");
    let half = ShardSelector::one(ShardField::Namespace, 0..1 << 63);
    let is_in_half = TEAMS.map(|team| half.matches(team));
    maps.set_scope(&Scope::shard(half)).await?;
    let changes = TEAMS.iter().zip(is_in_half).filter(|(team, is_in)| (**team != "green") != *is_in).count();
    show(&maps, &mut received, changes).await?;
    factory.shutdown().await?;
    server.shutdown().await;
    Ok(())
}

/// Waits for the lists of the scope and this many events, and prints these in order, and what the informer holds.
async fn show(
    maps: &Informer<ConfigMap>,
    received: &mut mpsc::Receiver<String>,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    maps.wait_for_scope().await?;
    let mut events = Vec::new();
    while events.len() < count {
        events.push(received.recv().await.ok_or("the handler has ended")?);
    }
    events.sort();
    events.iter().for_each(|event| println!("{event}"));
    let snapshot = maps.snapshot()?;
    let held: Vec<String> = snapshot.ordered().iter().map(|map| map.key().to_string()).collect();
    println!("  the informer has {}", held.join(", "));
    Ok(())
}
