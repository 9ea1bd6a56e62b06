//! The parameters of a URL, and the decoding of its path.

use http::Uri;
use percent_encoding::percent_decode_str;

use crate::reply::Failure;

/// The parameters of a URL.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Self {
        let pairs = form_urlencoded::parse(uri.query().unwrap_or("").as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first value of a parameter that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter, which may be empty.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that are not empty.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is in the URL, with any value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// A number, or its default.
    ///
    /// # Errors
    /// 400 if the value is no number, or not in the range.
    pub(crate) fn number(
        &self,
        name: &str,
        default: usize,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, Failure> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number: Option<usize> = text.parse().ok();
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = range.into_inner();
            let bounds =
                if most == usize::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
            Failure::bad_request(format!("{name}={text:?} is not a number from {bounds}"))
        })
    }
}

/// Splits a path at its slashes and decodes the segments, in which a slash is `%2F`.
///
/// # Errors
/// 400 for a segment that is empty or not UTF-8.
pub(crate) fn segments(path: &str) -> Result<Vec<String>, Failure> {
    let decode = |segment: &str| match percent_decode_str(segment).decode_utf8() {
        Ok(decoded) if !decoded.is_empty() => Ok(decoded.into_owned()),
        _ => Err(Failure::bad_request("a segment of the path is empty or not UTF-8")),
    };
    path.split('/').map(decode).collect()
}
