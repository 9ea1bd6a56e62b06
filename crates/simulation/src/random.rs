//! Choices of the generators.

use fastrand::Rng;

/// Returns one of these values.
pub(crate) fn pick<T, const N: usize>(rng: &mut Rng, values: [T; N]) -> T {
    let number = rng.usize(..N);
    #[expect(clippy::expect_used, reason = "the number is below the length")]
    values.into_iter().nth(number).expect("a value")
}
