//! What becomes of managed fields.

/// What becomes of `metadata.managedFields`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFields {
    /// Dropped while reading: it costs the layers above nothing.
    #[default]
    Drop,
    /// Kept, for programs that need to know which manager owns which field.
    Keep,
}
