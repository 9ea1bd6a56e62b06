//! Ranges of sizes and costs.

/// The least and the greatest size or cost that a value or an expression may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    /// The union of no ranges.
    pub(super) const NONE: Self = Self { min: u64::MAX, max: 0 };

    pub(super) fn new(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    pub(super) fn fixed(number: u64) -> Self {
        Self { min: number, max: number }
    }

    pub(super) fn of_length(length: usize) -> Self {
        Self::fixed(u64::try_from(length).unwrap_or(u64::MAX))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Multiplies by a factor, and rounds up.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as in Go; the numbers are not negative"
    )]
    pub(super) fn by(self, factor: f64) -> Self {
        let scaled = |number: u64| (number as f64 * factor).ceil() as u64;
        Self { min: scaled(self.min), max: scaled(self.max) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}
