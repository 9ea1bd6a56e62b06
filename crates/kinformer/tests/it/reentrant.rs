//! User code may call the factory and its informers wherever it runs, because no lock is held there.

use crate::common::{builder, config_map, server, soon};
use kinformer_testing::reentrant::{self, CheckOnDrop, within};

/// Log calls, hooks, wakers and drops may call the factory.
// contract: P-17a, P-17b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_code_may_call_the_factory() {
    reentrant::install();
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let hook = CheckOnDrop("the drop of the error hook");
    let on_error = move |_: &kinformer::Failure<'_>| {
        let _ = &hook;
        reentrant::run_checks("the error hook");
    };
    let factory = builder(&server).on_error(on_error).build();
    let informer = factory.core().v1().config_maps();
    let check = reentrant::add_check({
        let (factory, informer) = (factory.clone(), informer.clone());
        move || {
            drop(format!("{factory:?} {informer:?}"));
            drop((
                factory.is_shut_down(),
                informer.status().metrics(),
                informer.status().phase(),
                informer.has_synced(),
            ));
        }
    });
    let handler = CheckOnDrop("the drop of a handler");
    let registration = informer
        .handler()
        .for_each(move |_| {
            let _ = &handler;
        })
        .unwrap();
    factory.start().unwrap();
    within(factory.wait_for_cache_sync().until(soon())).await.into_result().unwrap();
    within(registration.synced()).await.unwrap();
    let lease = factory.core().v1().config_maps().lease();
    within(lease.release()).await;
    within(factory.shutdown()).await.unwrap();
    within(registration.remove()).await;
    drop(check);
    assert_eq!(reentrant::blocked_checks(), [""; 0]);
}
