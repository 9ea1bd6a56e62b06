//! The actor that makes a store large for some time: it is compacted when it is small again (S-19).

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use crate::api_server::ApiServer;
use crate::trace::Recorder;

/// Creates more than 1,024 objects in a crowded world, deletes most of them, and creates some of them again.
pub(crate) async fn crowd(mut rng: Rng, server: ApiServer, recorder: Recorder) {
    if !server.is_crowded() {
        return;
    }
    let (objects, kept) = (rng.u32(1_100..1_300), rng.u32(8..40));
    let name = |number| format!("{}/c{number}", if number % 3 == 0 { "b" } else { "a" });
    sleep(Duration::from_millis(rng.u64(..5_000))).await;
    (0..objects).for_each(|number| _ = server.put("configmaps", &name(number), "0"));
    recorder.note("crowd", format_args!("writes {objects} config maps, up to {}", server.newest()));
    sleep(Duration::from_millis(rng.u64(..30_000))).await;
    let deleted = (0..objects).filter(|number| number % kept > 0);
    deleted.for_each(|number| _ = server.delete("configmaps", &name(number)));
    recorder.note("crowd", format_args!("deletes all but one in {kept}, up to {}", server.newest()));
    // At last all of them, so that the store takes each slot that was free before.
    for written in [rng.u32(..60), rng.u32(..60), rng.u32(..60), rng.u32(..60), objects] {
        sleep(Duration::from_millis(rng.u64(..10_000))).await;
        (0..written).for_each(|number| _ = server.put("configmaps", &name(number), "1"));
        recorder.note("crowd", format_args!("writes {written} of them, up to {}", server.newest()));
    }
}
