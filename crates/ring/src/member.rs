//! The Lease of one process: what it says in its annotation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The annotation of a process's Lease.
pub const MEMBER: &str = "ring.kinformer.io/member";

/// The UID of an object of the API server.
pub type Uid = Arc<str>;

/// One Lease of one process: `identity/UID`. A process that has lost its Lease, and creates another one, is another member.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(Arc<str>);

impl MemberId {
    /// Returns the member with this identity and UID of the Lease.
    #[must_use]
    pub fn new(identity: &str, uid: &str) -> Self {
        Self(format!("{identity}/{uid}").into())
    }

    /// The identity of the process.
    #[must_use]
    pub fn identity(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(identity, _)| identity)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (identity, uid) = text.split_once('/')?;
        let is_valid = !identity.is_empty() && !uid.is_empty() && !uid.contains('/');
        is_valid.then(|| Self(text.into()))
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a process says of itself in its Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The start of the process that has created the Lease.
    pub incarnation: Arc<str>,
    /// The share of the slots, relative to the weights of the others.
    pub weight: u32,
    /// For how long the Lease lasts after a renewal.
    pub lease_duration: Duration,
    /// The UID of the table that the process follows: it owns only slots of this one.
    pub follows: Option<Uid>,
    /// Whether the process takes part.
    pub phase: MemberPhase,
}

/// Whether a process takes part in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberPhase {
    /// It takes slots.
    Joined,
    /// It hands its slots over and takes none.
    Leaving,
    /// It has left, or its Lease has expired and another process has written this. It owns nothing any more, whatever the
    /// table says, and never will under this Lease.
    Gone,
}

impl MemberPhase {
    const ALL: [(Self, &str); 3] =
        [(Self::Joined, "joined"), (Self::Leaving, "leaving"), (Self::Gone, "gone")];
}

/// Prints the phase in a word, as in the Lease: `joined`, `leaving` or `gone`.
impl fmt::Display for MemberPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(phase, _)| phase == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// The annotation of a Lease is not that of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the annotation {MEMBER} is missing or invalid: {0:?}")]
pub struct InvalidMember(String);

impl Member {
    /// Returns the annotations of the Lease.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let Self { incarnation, weight, lease_duration, follows, phase } = self;
        let (lease, follows) = (lease_duration.as_millis(), follows.as_deref().unwrap_or_default());
        let text = format!(
            "incarnation={incarnation},weight={weight},leaseMs={lease},follows={follows},phase={phase}"
        );
        BTreeMap::from([(MEMBER.to_owned(), text)])
    }

    /// Reads the annotations of a Lease.
    ///
    /// # Errors
    /// They are not those of a member.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Result<Self, InvalidMember> {
        let text = annotations.get(MEMBER).map(String::as_str).unwrap_or_default();
        Self::from_text(text).ok_or_else(|| InvalidMember(text.to_owned()))
    }

    fn from_text(text: &str) -> Option<Self> {
        let fields = fields(text)?;
        let phase = *fields.get("phase")?;
        let follows = *fields.get("follows")?;
        Some(Self {
            incarnation: Arc::from(*fields.get("incarnation")?),
            weight: fields.get("weight")?.parse().ok().filter(|weight| (1..=1_000).contains(weight))?,
            lease_duration: Duration::from_millis(fields.get("leaseMs")?.parse().ok()?),
            follows: (!follows.is_empty()).then(|| follows.into()),
            phase: MemberPhase::ALL.iter().find(|(_, name)| *name == phase)?.0,
        })
    }
}

/// Splits a text such as `a=1,b=2`.
pub(crate) fn fields(text: &str) -> Option<BTreeMap<&str, &str>> {
    text.split(',').map(|field| field.split_once('=')).collect()
}
