//! A controller, from a key in its queue to the end of the reconciliation.

use std::future::ready;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use kinformer::{ObjectKey, SharedInformerFactory};
use kinformer_controller::{Action, Controller, Request};
use kinformer_wire::Encoding;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::run::Run;
use crate::server;

/// A reconciliation that succeeds at once, from the addition of its key.
pub(crate) fn reconcile(count: usize) -> Run {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let (left, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (now_left, now_all) = (left.clone(), all.clone());
    let controller = runtime.block_on(async {
        let (client, _events) = server::client(Encoding::Json, &Bytes::new());
        let factory = SharedInformerFactory::new(client);
        Controller::of(&factory).keyed("counted").build(move |request: Request<ObjectKey>| {
            black_box(&request);
            if now_left.fetch_sub(1, Ordering::Relaxed) == 1 {
                now_all.notify_one();
            }
            ready(Ok(Action::none()))
        })
    });
    let queue = controller.queue().clone();
    runtime.spawn(controller.run(CancellationToken::new()));
    let keys = benches::keys(count).into_iter().map(|text| ObjectKey::try_from(benches::key(&text)).unwrap());
    let keys: Vec<_> = keys.collect();
    Box::new(move || {
        left.store(count, Ordering::Relaxed);
        keys.iter().for_each(|key| _ = queue.add(key.clone()));
        runtime.block_on(all.notified());
    })
}
