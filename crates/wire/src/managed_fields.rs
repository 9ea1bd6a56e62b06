//! What becomes of managed fields.

/// What becomes of `metadata.managedFields`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFields {
    /// Left out while reading: nobody above pays for it.
    #[default]
    Cut,
    /// Kept, for those who need to know which manager owns which field.
    Keep,
}
