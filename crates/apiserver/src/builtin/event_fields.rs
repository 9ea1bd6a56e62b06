//! The names of the fields of events in both groups.

/// Fields of an event with different names: in the core group, in `events.k8s.io`.
pub(crate) const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Returns the name in `events.k8s.io` of a field of an event in the core group.
pub(super) fn new_event_field(core: &str) -> &str {
    EVENT_FIELDS.iter().find(|(name, _)| *name == core).map_or(core, |(_, new)| new)
}
