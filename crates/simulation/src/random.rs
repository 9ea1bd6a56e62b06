//! Choices of the generators.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

/// Returns one of these values.
pub(crate) fn pick<T, const N: usize>(rng: &mut Rng, values: [T; N]) -> T {
    let number = rng.usize(..N);
    #[expect(clippy::expect_used, reason = "the number is below the length")]
    values.into_iter().nth(number).expect("a value")
}

/// Waits for a random time, which is often short.
pub(crate) async fn pause(rng: &mut Rng) {
    let most = pick(rng, [0, 2, 100, 5_000]);
    sleep(Duration::from_millis(rng.u64(..=most))).await;
}
