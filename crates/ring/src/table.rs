//! The table of a ring: the owner of each slot.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use kinformer_kube::{ShardField, fnv1a64};

use crate::config::{MAX_SLOTS, Params};
use crate::member::{MemberId, fields};
use crate::slots::Slots;

/// The annotations of the table's Lease: the parameters, a number that grows with each write, the owners of the slots, and
/// the checksum of the others.
pub const TABLE: [&str; 4] = [
    "ring.kinformer.io/parameters",
    "ring.kinformer.io/serial",
    "ring.kinformer.io/owners",
    "ring.kinformer.io/checksum",
];

/// The owner of each slot. It is written with the version of the state that was read, so that of two writes that have read
/// the same state one succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    pub(crate) params: Params,
    pub(crate) serial: u64,
    pub(crate) slots: Vec<Slot>,
}

/// One slot of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The only process that may own it.
    pub owner: Option<MemberId>,
    /// The resource version at which the last owner has released it, if it has.
    pub released: Option<u64>,
}

/// The annotations of the table's Lease are not those of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// It was written by another version of this crate.
    #[error("the table has the format {0}, which this version does not know")]
    Format(String),
    /// It is incomplete, or somebody has edited it.
    #[error("the table is damaged or was edited: {0}")]
    Damaged(&'static str),
}

impl Table {
    /// Returns a table in which no slot has an owner.
    #[must_use]
    pub fn new(params: Params) -> Self {
        let slots = vec![Slot::default(); usize::from(params.slots)];
        Self { params, serial: 0, slots }
    }

    /// The parameters of the ring.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The slots, in order.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether the member owns a slot.
    pub(crate) fn has_owner(&self, member: &MemberId) -> bool {
        self.slots.iter().any(|slot| slot.owner.as_ref() == Some(member))
    }

    /// Returns the annotations of the Lease.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let texts = [self.params.to_string(), self.serial.to_string(), self.owners()];
        let checksum = checksum(&texts);
        TABLE.iter().map(ToString::to_string).zip(texts.into_iter().chain([checksum])).collect()
    }

    /// The owners as `a/UID=0-340@1234;-=341-511`: slots with an `@` have been released at this resource version.
    fn owners(&self) -> String {
        let mut by_owner: BTreeMap<&Slot, Vec<u16>> = BTreeMap::new();
        for (slot, number) in self.slots.iter().zip(0u16..) {
            by_owner.entry(slot).or_default().push(number);
        }
        let mut text = String::new();
        for (Slot { owner, released }, slots) in by_owner {
            let owner = owner.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            let released = released.map(|version| format!("@{version}")).unwrap_or_default();
            let separator = if text.is_empty() { "" } else { ";" };
            let slots: Slots = slots.into_iter().collect();
            // Writing to a `String` does not fail.
            let _ = write!(text, "{separator}{owner}={slots}{released}");
        }
        text
    }

    /// Reads the annotations of a Lease.
    ///
    /// # Errors
    /// They are not those of a table of this format, or the checksum is wrong, as after an edit.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Result<Self, TableError> {
        let texts = TABLE.map(|key| annotations.get(key).cloned());
        let [Some(params), Some(serial), Some(owners), Some(sum)] = texts else {
            return Err(TableError::Damaged("an annotation is missing"));
        };
        let fields = fields(&params).ok_or(TableError::Damaged("invalid parameters"))?;
        match fields.get("format") {
            Some(&"1") => {}
            Some(format) => return Err(TableError::Format((*format).to_owned())),
            None => return Err(TableError::Damaged("no format")),
        }
        let texts = [params.clone(), serial, owners];
        if checksum(&texts) != sum {
            return Err(TableError::Damaged("its checksum does not match"));
        }
        let [_, serial, owners] = texts;
        let params = parse_params(&fields).ok_or(TableError::Damaged("invalid parameters"))?;
        let serial = serial.parse().map_err(|_| TableError::Damaged("invalid serial"))?;
        let slots = parse_owners(&params, &owners).ok_or(TableError::Damaged("invalid owners"))?;
        Ok(Self { params, serial, slots })
    }
}

fn checksum(texts: &[String; 3]) -> String {
    format!("{:016x}", fnv1a64(&texts.join("\n")))
}

fn parse_params(fields: &BTreeMap<&str, &str>) -> Option<Params> {
    let duration = |name| fields.get(name)?.parse().ok().map(Duration::from_millis);
    let slots: u16 = fields.get("slots")?.parse().ok()?;
    Some(Params {
        slots: (slots.is_power_of_two() && slots <= MAX_SLOTS).then_some(slots)?,
        field: ShardField::from_path(fields.get("field")?)?,
        lease_duration: duration("leaseMs")?,
        renew_deadline: duration("deadlineMs")?,
        skew: duration("skewMs")?,
    })
}

/// Each slot must have exactly one entry.
fn parse_owners(params: &Params, text: &str) -> Option<Vec<Slot>> {
    let mut slots: Vec<Option<Slot>> = vec![None; usize::from(params.slots)];
    for entry in text.split(';') {
        let (owner, ranges) = entry.split_once('=')?;
        let owner = if owner == "-" { None } else { Some(MemberId::parse(owner)?) };
        let (ranges, released) = match ranges.split_once('@') {
            Some((ranges, version)) => (ranges, Some(version.parse().ok()?)),
            None => (ranges, None),
        };
        for number in ranges.parse::<Slots>().ok()?.iter() {
            let slot = slots.get_mut(usize::from(number))?;
            if slot.replace(Slot { owner: owner.clone(), released }).is_some() {
                return None;
            }
        }
    }
    slots.into_iter().collect()
}
