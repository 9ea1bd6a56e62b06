//! The parameters of a ring, and the options of a process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_kube::{ShardField, ShardSelector, fnv1a64};

use crate::slots::Slots;

/// How many ranges a process owns at most: the length of its shard selector is bounded.
pub const MAX_RANGES: usize = 32;

/// The largest number of slots of a ring.
pub const MAX_SLOTS: u16 = 1024;

/// The parameters that all processes of a ring share. They are written into the ring's table, and a process with others
/// does not join.
///
/// ```
/// use kinformer_ring::Params;
///
/// let params = Params { slots: 8, ..Params::default() };
/// let slot = params.slot_of("0b8e3f6c-0d0c-4f5e-9d35-5d1c7a3c1f10"); // the UID of an object
/// assert!(params.selector(&[slot].into_iter().collect()).matches("0b8e3f6c-0d0c-4f5e-9d35-5d1c7a3c1f10"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The number of slots: a power of two, at most [`MAX_SLOTS`], which is the default.
    pub slots: u16,
    /// The hashed field.
    pub field: ShardField,
    /// For how long a Lease lasts after its last renewal. The default is 15 s.
    pub lease_duration: Duration,
    /// How long after it has sent its last successful renewal a process stops. Less than the lease duration: the difference
    /// is for writes in flight and for clocks of different speed. The default is 10 s.
    pub renew_deadline: Duration,
    /// How long after the lease duration a Lease is taken over. The default is 500 ms.
    pub skew: Duration,
}

impl Default for Params {
    fn default() -> Self {
        let (lease_duration, renew_deadline) = (Duration::from_secs(15), Duration::from_secs(10));
        let skew = Duration::from_millis(500);
        Self { slots: MAX_SLOTS, field: ShardField::Uid, lease_duration, renew_deadline, skew }
    }
}

impl Params {
    /// Returns the slot of an object by the value of its hashed field.
    #[must_use]
    pub fn slot_of(&self, value: &str) -> u16 {
        u16::try_from((u128::from(fnv1a64(value)) * u128::from(self.slots)) >> 64).unwrap_or_default()
    }

    /// Returns the selector of the objects in these slots, with one range for each range of slots.
    ///
    /// ```
    /// let params = kinformer_ring::Params::default();
    /// assert_eq!(
    ///     params.selector(&"0-511".parse()?).to_string(),
    ///     "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
    /// );
    /// # Ok::<(), kinformer_ring::InvalidSlots>(())
    /// ```
    #[must_use]
    pub fn selector(&self, slots: &Slots) -> ShardSelector {
        let width = (1u128 << 64) / u128::from(self.slots.max(1));
        let ranges = slots.ranges().iter();
        let ranges = ranges.map(|range| u128::from(range.start) * width..u128::from(range.end) * width);
        ShardSelector::new(self.field, ranges)
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots, field, lease_duration, renew_deadline, skew } = self;
        let [lease, deadline, skew] = [lease_duration, renew_deadline, skew].map(Duration::as_millis);
        write!(f, "format=1,slots={slots},field={field},leaseMs={lease},deadlineMs={deadline},skewMs={skew}")
    }
}

/// The options of one process of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The name of the process in the ring, a part of the name of its Lease. Two processes at a time must not have the same
    /// one; if they do, the second waits.
    pub identity: Arc<str>,
    /// A text that no other start of this or another process has, such as a random UUID. By it a process recognises a Lease
    /// that it has created if the response was lost.
    pub incarnation: Arc<str>,
    /// The share of the slots, relative to the weights of the others: 1 to 1,000.
    pub weight: u32,
    /// The parameters that all processes share.
    pub params: Params,
    /// How often the Lease is renewed. The default is 3 s.
    pub renew_period: Duration,
    /// After how long a failed write is repeated. The default is 500 ms.
    pub retry_period: Duration,
}

/// An option is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring: {0}")]
pub struct InvalidConfig(String);

impl Config {
    /// Returns the options of a process of weight 1 with the default parameters.
    pub fn new(identity: impl Into<Arc<str>>, incarnation: impl Into<Arc<str>>) -> Self {
        Self {
            identity: identity.into(),
            incarnation: incarnation.into(),
            weight: 1,
            params: Params::default(),
            renew_period: Duration::from_secs(3),
            retry_period: Duration::from_millis(500),
        }
    }

    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let Params { slots, lease_duration, renew_deadline, .. } = self.params;
        let problem = if !is_name(&self.identity, 100) || !is_name(&self.incarnation, 100) {
            "identity and incarnation must be names of a-z, 0-9, - and . of at most 100 characters"
        } else if !slots.is_power_of_two() || slots > MAX_SLOTS {
            "the number of slots must be a power of two, at most 1,024"
        } else if !(1..=1_000).contains(&self.weight) {
            "the weight must be 1 to 1,000"
        } else if renew_deadline >= lease_duration || lease_duration > Duration::from_secs(1 << 30) {
            "the renew deadline must be less than the lease duration, which must be at most 2^30 s"
        } else if self.renew_period.is_zero() || self.renew_period * 2 > renew_deadline {
            "the renew period must be more than zero, and at most half of the renew deadline"
        } else if self.retry_period.is_zero() {
            "the retry period must be more than zero"
        } else {
            return Ok(());
        };
        Err(InvalidConfig(problem.to_owned()))
    }
}

fn is_name(text: &str, longest: usize) -> bool {
    let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    !text.is_empty() && text.len() <= longest && text.chars().all(is_valid)
}

/// The name of a ring is the name of a Lease, the beginning of others, and the value of a label.
pub(crate) fn check_ring_name(name: &str) -> Result<(), InvalidConfig> {
    match is_name(name, 63) {
        true => Ok(()),
        false => Err(InvalidConfig(format!(
            "the name {name:?} must be of a-z, 0-9, - and . and at most 63 characters"
        ))),
    }
}
