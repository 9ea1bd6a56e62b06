//! The commit that is checked. It chooses what a run takes by chance, so that two runs of one commit are the same.

use crate::files;

/// A commit.
pub(super) struct Commit {
    /// The hash in hexadecimal digits; empty if it is unknown.
    hash: String,
    is_changed: bool,
}

impl Commit {
    /// Returns the commit of the work tree. It is unknown outside a git repository.
    pub(super) fn of_head() -> Self {
        let git = |arguments: &[&str]| files::output("git", arguments).unwrap_or_default();
        let hash = git(&["rev-parse", "HEAD"]).trim().to_owned();
        Self { hash, is_changed: !git(&["status", "--porcelain"]).trim().is_empty() }
    }

    /// Returns an unchanged commit.
    #[cfg(test)]
    pub(super) fn new(hash: &str) -> Self {
        Self { hash: hash.to_owned(), is_changed: false }
    }

    /// Returns the hash, and whether the work tree differs from it.
    pub(super) fn description(&self) -> String {
        match (self.hash.as_str(), self.is_changed) {
            ("", _) => "unknown: not a git repository".to_owned(),
            (hash, true) => format!("{hash}, with changes that are not committed"),
            (hash, false) => hash.to_owned(),
        }
    }

    /// Returns the number that chooses the fresh seeds.
    pub(super) fn number(&self) -> u64 {
        self.digits(0)
    }

    /// Returns the number that chooses a part of a long step.
    pub(super) fn part(&self) -> usize {
        usize::try_from(self.digits(10) % 1_000).unwrap_or_default()
    }

    /// Returns one of these.
    pub(super) fn choose<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        let index = self.digits(20).checked_rem(of.len() as u64)?;
        of.get(usize::try_from(index).ok()?)
    }

    /// Returns ten digits of the hash as a number; 0 if the commit is unknown.
    fn digits(&self, from: usize) -> u64 {
        let digits = self.hash.get(from..from + 10);
        digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_chooses() {
        let commit = Commit::new("00000000ff00000003e9000000000500000000000");
        assert_eq!((commit.number(), commit.part()), (255, 1));
        assert_eq!(commit.choose(&[0, 1, 2, 3]), Some(&1));
        assert_eq!(commit.choose::<u8>(&[]), None);
        let unknown = Commit::new("");
        assert_eq!((unknown.number(), unknown.choose(&["a", "b"])), (0, Some(&"a")));
        assert!(unknown.description().starts_with("unknown"));
        let changed = Commit { is_changed: true, ..commit };
        assert!(changed.description().ends_with(", with changes that are not committed"));
    }
}
