//! Rate limiters, besides those of the upstream tests.

use std::num::NonZeroU32;
use std::time::Duration;

use kinformer_workqueue::{Add, Bucket, ItemExponential, RateLimiter, WorkQueue, default_rate_limiter};

use crate::common::{MS, SECOND, advance, queue};

fn bucket(rate: u32, burst: u32) -> Bucket {
    Bucket::per_second(NonZeroU32::new(rate).unwrap(), NonZeroU32::new(burst).unwrap())
}

// contract: W-04c
#[tokio::test(start_paused = true)]
async fn bucket_reserves_tokens_in_order() {
    let bucket = bucket(10, 3);
    let delays = |count| (0..count).map(|_| bucket.when(&"a").as_millis()).collect::<Vec<_>>();
    assert_eq!(delays(6), [0, 0, 0, 100, 200, 300]);
    advance(250 * MS).await;
    assert_eq!(delays(2), [150, 250]);
    // The last token was due 500 ms after the start.
    advance(250 * MS).await;
    assert_eq!(delays(1), [100]);
    advance(10 * SECOND).await;
    assert_eq!(delays(5), [0, 0, 0, 100, 200], "the burst is full again, and not larger");
    assert_eq!((RateLimiter::<&str>::failing(&bucket), bucket.retries(&"a")), (0, 0));
}

/// No second has more tokens than the burst and the rate allow, whatever the calls are.
// contract: W-04c
#[tokio::test(start_paused = true)]
async fn bucket_keeps_its_rate() {
    let bucket = bucket(7, 4);
    let start = tokio::time::Instant::now();
    let mut times = Vec::new();
    for step in 0..300_u32 {
        times.push(start.elapsed() + bucket.when(&step));
        tokio::time::advance(step.wrapping_mul(2_654_435_761) % 200 * MS).await;
    }
    assert!(times.is_sorted());
    for (index, first) in times.iter().enumerate() {
        let within = times[index..].iter().take_while(|time| **time < *first + SECOND).count();
        assert!(within <= 4 + 7, "{within} tokens in a second");
    }
}

// contract: W-04f
#[tokio::test(start_paused = true)]
async fn default_limiter_is_that_of_client_go() {
    let limiter = default_rate_limiter();
    let delays: Vec<_> = (0..20).map(|_| limiter.when(&0)).collect();
    let expected: Vec<_> = (0..20).map(|failures| (5 * MS * (1 << failures)).min(1000 * SECOND)).collect();
    assert_eq!(delays, expected);
    // 80 more keys empty the bucket.
    for key in 1..=80 {
        assert_eq!(limiter.when(&key), 5 * MS);
    }
    assert_eq!(limiter.when(&81), 100 * MS);
    assert_eq!(limiter.when(&82), 200 * MS);
}

// contract: W-04a
#[test]
fn exponential_without_a_base_does_not_delay() {
    let limiter = ItemExponential::new(Duration::ZERO, SECOND);
    assert!((0..1000).all(|_| limiter.when(&"a").is_zero()));
}

// contract: W-04h
#[tokio::test(start_paused = true)]
async fn shorter_of_delay_and_rate_limit_applies() {
    for (after, expected) in [(3 * MS, 3 * MS), (SECOND, 5 * MS), (Duration::ZERO, 5 * MS)] {
        let queue = queue();
        let start = tokio::time::Instant::now();
        queue.add_with("a", Add::new().after(after).rate_limited());
        queue.next().await.unwrap().done();
        assert_eq!(start.elapsed(), expected);
    }
}

// contract: W-04f
#[tokio::test(start_paused = true)]
async fn queue_has_the_default_limiter() {
    let queue = WorkQueue::new();
    for key in 0..101 {
        queue.add_rate_limited(key);
    }
    advance(5 * MS).await;
    assert_eq!(queue.depth(), 100);
    advance(95 * MS).await;
    assert_eq!(queue.depth(), 101);
}

/// The highest rate, the largest burst, and the smallest of both.
// contract: W-04c
#[tokio::test(start_paused = true)]
async fn extreme_buckets() {
    for (rate, burst) in [(u32::MAX, u32::MAX), (u32::MAX, 1), (1, u32::MAX), (1, 1)] {
        let bucket = bucket(rate, burst);
        let delays: Vec<_> = (0..3).map(|_| RateLimiter::<u32>::when(&bucket, &0)).collect();
        let expected = if (rate, burst) == (1, 1) { [0, 1, 2] } else { [0; 3] };
        assert_eq!(delays.iter().map(Duration::as_secs).collect::<Vec<_>>(), expected, "{rate} {burst}");
    }
}
