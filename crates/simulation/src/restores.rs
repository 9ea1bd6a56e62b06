//! The actor that restores backups.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use crate::api_server::ApiServer;
use crate::trace::Recorder;

/// More versions than a run writes.
pub(crate) const AHEAD: u64 = 10_000;

/// How often it looks whether all informers have reached a version.
const CHECKS: usize = 120;

/// Restores backups in some seeds. `have_reached` is whether all informers have reached a version.
pub(crate) async fn restores(
    mut rng: Rng,
    server: ApiServer,
    recorder: Recorder,
    have_reached: impl Fn(u64) -> bool,
) {
    match rng.u8(..6) {
        0 => {
            for _ in 0..rng.usize(1..4) {
                sleep(Duration::from_millis(rng.u64(..20_000))).await;
                let (version, versions) = (rng.u64(1..=server.newest()), rng.u64(1..AHEAD));
                server.restore_ahead(version, versions);
                let event = format_args!("restores version {version}, continues at {}", server.newest());
                recorder.note("restores", event);
            }
        }
        1 => {
            sleep(Duration::from_millis(rng.u64(..20_000))).await;
            // An informer cannot find a restored server that has passed the informer's version before the next question
            // (R-18e). So no version that an informer knows is reached again, and this happens once.
            let version = rng.u64(1..=server.newest());
            server.skip(AHEAD);
            let known = server.newest();
            recorder.note("restores", format_args!("versions are at {known}"));
            for _ in 0..CHECKS {
                sleep(Duration::from_secs(1)).await;
                if have_reached(known) {
                    server.restore(version);
                    recorder.note("restores", format_args!("restores version {version}"));
                    return;
                }
            }
        }
        _ => {}
    }
}
