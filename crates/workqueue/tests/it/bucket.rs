//! The token bucket against a model in whole numbers.

use std::num::NonZeroU32;
use std::time::Duration;

use kinformer_workqueue::{Bucket, RateLimiter};
use proptest::prelude::*;
use tokio::time::{Instant, advance};

const NANOS: i128 = 1_000_000_000;

/// A bucket as client-go's limiter describes it, which counts billionths of tokens.
struct Model {
    rate: i128,
    burst: i128,
    /// Negative while tokens are reserved that the bucket does not have yet.
    tokens: i128,
}

impl Model {
    fn new(rate: u32, burst: u32) -> Self {
        let burst = i128::from(burst) * NANOS;
        Self { rate: rate.into(), burst, tokens: burst }
    }

    fn advance(&mut self, nanos: u64) {
        self.tokens = self.burst.min(self.tokens + i128::from(nanos) * self.rate);
    }

    /// Takes a token. Returns the first nanosecond in which the bucket has it.
    fn reserve(&mut self) -> i128 {
        self.tokens -= NANOS;
        let debt = -self.tokens.min(0);
        (debt + self.rate - 1) / self.rate
    }
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![1..20_u32, 1..=u32::MAX, Just(u32::MAX)]
}

/// How long nothing happens, and how many tokens are then taken.
fn step() -> impl Strategy<Value = (u64, u8)> {
    let century = 100 * 365 * 24 * 3600 * 1_000_000_000_u64;
    let nanos = prop_oneof![0..5_u64, 0..3_000_000_000_u64, 0..century];
    (nanos, 0..12_u8)
}

async fn run(rate: u32, burst: u32, steps: Vec<(u64, u8)>) {
    let bucket = Bucket::per_second(NonZeroU32::new(rate).unwrap(), NonZeroU32::new(burst).unwrap());
    let mut model = Model::new(rate, burst);
    for (nanos, count) in steps {
        let before = Instant::now();
        advance(Duration::from_nanos(nanos)).await;
        assert_eq!(before.elapsed(), Duration::from_nanos(nanos), "the clock is exact");
        model.advance(nanos);
        for _ in 0..count {
            let wait = RateLimiter::<()>::when(&bucket, &());
            assert_eq!(i128::try_from(wait.as_nanos()), Ok(model.reserve()), "{rate} per second, {burst}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1000 } else { 20_000 }))]

    // contract: W-04c
    #[test]
    fn bucket_matches_the_model(
        rate in number(),
        burst in number(),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(rate, burst, steps));
    }
}

/// A thousand seconds of a rate whose interval is no whole number of nanoseconds.
// contract: W-04c
#[tokio::test(start_paused = true)]
async fn bucket_does_not_drift() {
    let bucket = Bucket::per_second(NonZeroU32::new(7).unwrap(), NonZeroU32::MIN);
    for _ in 0..7_000 {
        RateLimiter::<()>::when(&bucket, &());
    }
    assert_eq!(RateLimiter::<()>::when(&bucket, &()), Duration::from_secs(1_000));
}
