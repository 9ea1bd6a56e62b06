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

    /// Returns a number of 40 bits; 0 if the commit is unknown.
    pub(super) fn number(&self) -> u64 {
        self.hash.get(..10).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
    }

    /// Returns one of these.
    pub(super) fn choose<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        // Other digits than those of the number, which chooses within what is chosen here.
        let digits = self.hash.get(10..20).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let index = digits.unwrap_or_default().checked_rem(of.len() as u64)?;
        of.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_chooses() {
        let commit = Commit::new("00000000ff000000000500000000000000000000");
        assert_eq!(commit.number(), 255);
        assert_eq!(commit.choose(&[0, 1, 2, 3]), Some(&1));
        assert_eq!(commit.choose::<u8>(&[]), None);
        let unknown = Commit::new("");
        assert_eq!((unknown.number(), unknown.choose(&["a", "b"])), (0, Some(&"a")));
        assert!(unknown.description().starts_with("unknown"));
        let changed = Commit { is_changed: true, ..commit };
        assert!(changed.description().ends_with(", with changes that are not committed"));
    }
}
