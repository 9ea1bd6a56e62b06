//! Choices of the generators.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

/// Returns one of these values.
pub(crate) fn pick<T, const N: usize>(rng: &mut Rng, values: [T; N]) -> T {
    let number = rng.usize(..N);
    Vec::from(values).swap_remove(number)
}

/// Waits for a random time, which is often short.
pub(crate) async fn pause(rng: &mut Rng) {
    let most = pick(rng, [0, 2, 100, 5_000]);
    sleep(Duration::from_millis(rng.u64(..=most))).await;
}

/// Runs a future with a random generator of its own in place of that of the thread.
pub(crate) async fn with_seed<R>(mut seed: u64, future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    poll_fn(|context| {
        let of_thread = fastrand::get_seed();
        fastrand::seed(seed);
        let polled = future.as_mut().poll(context);
        seed = fastrand::get_seed();
        fastrand::seed(of_thread);
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn future_with_a_seed_does_not_draw_from_the_thread() {
        fastrand::seed(1);
        let expected = [fastrand::u64(..), fastrand::u64(..)];
        fastrand::seed(1);
        let first = fastrand::u64(..);
        let own = with_seed(2, async {
            let own = fastrand::u64(..);
            tokio::task::yield_now().await;
            [own, fastrand::u64(..)]
        });
        let mut rng = Rng::with_seed(2);
        assert_eq!(own.await, [rng.u64(..), rng.u64(..)]);
        assert_eq!([first, fastrand::u64(..)], expected);
    }
}
