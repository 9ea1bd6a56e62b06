//! Bearer tokens.

use std::fmt;
use std::sync::Arc;

use ::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

/// A bearer token. Its `Debug` output does not contain it.
#[derive(Clone)]
pub(crate) struct Token(Arc<str>);

impl Token {
    pub(crate) fn new(token: String) -> Self {
        Self(token.into())
    }

    /// Returns the token for headers and kubeconfigs.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// Whether the token is valid in an HTTP header.
    pub(crate) fn is_usable(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }

    pub(super) fn is(&self, given: &str) -> bool {
        is_equal(self.0.as_bytes(), given.as_bytes())
    }
}

/// Compares all elements wherever the first difference is, so that the time depends only on the lengths.
fn is_equal<T: ConstantTimeEq>(expected: &[T], given: &[T]) -> bool {
    expected.ct_eq(given).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Returns the token of a request. Follows Kubernetes 1.37 (`bearertoken.Authenticator`).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.split(' ').next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use subtle::Choice;

    use super::*;

    /// A byte that counts the comparisons.
    struct Counted<'c>(u8, &'c Cell<usize>);

    impl ConstantTimeEq for Counted<'_> {
        fn ct_eq(&self, other: &Self) -> Choice {
            self.1.set(self.1.get() + 1);
            self.0.ct_eq(&other.0)
        }
    }

    // contract: E-11c
    #[test]
    fn comparison_reads_all_bytes_of_a_token() {
        const TOKEN: &[u8] = b"s3cret";
        for different in [None, Some(0), Some(3), Some(5)] {
            let compared = Cell::new(0);
            let bytes = |flipped: Option<usize>| {
                let byte = |(i, byte): (usize, &u8)| Counted(byte ^ u8::from(Some(i) == flipped), &compared);
                TOKEN.iter().enumerate().map(byte).collect::<Vec<_>>()
            };
            assert_eq!(is_equal(&bytes(None), &bytes(different)), different.is_none());
            assert_eq!(compared.get(), TOKEN.len(), "a difference at {different:?}");
        }
    }
}
