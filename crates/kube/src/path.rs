//! Paths of requests.

use kube_core::discovery::ApiResource;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::Error;

/// All characters but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the path of all objects of a resource, in one namespace or in all. An empty namespace means all, as in
/// client-go.
///
/// # Errors
/// [`Error::PathSegment`] if a name is not a valid segment.
pub fn of(resource: &ApiResource, namespace: Option<&str>) -> Result<String, Error> {
    let group = [("group", resource.group.as_str())];
    let namespace = namespace.map(|namespace| [("", "namespaces"), ("namespace", namespace)]);
    let segments = (group.into_iter().filter(|(_, group)| !group.is_empty()))
        .chain([("version", resource.version.as_str())])
        .chain(namespace.into_iter().filter(|[_, (_, name)]| !name.is_empty()).flatten())
        .chain([("resource", resource.plural.as_str())]);
    let mut path = if resource.group.is_empty() { "/api" } else { "/apis" }.to_owned();
    for (what, value) in segments {
        segment(what, value)?;
        path.push('/');
        path.extend(utf8_percent_encode(value, ESCAPED));
    }
    Ok(path)
}

/// Returns the path of one object.
///
/// # Errors
/// As [`of`].
pub fn of_object(resource: &ApiResource, namespace: Option<&str>, name: &str) -> Result<String, Error> {
    segment("name", name)?;
    Ok(format!("{}/{}", of(resource, namespace)?, utf8_percent_encode(name, ESCAPED)))
}

/// Checks a path segment. Follows apimachinery 1.37 (`IsValidPathSegmentName`), and also refuses empty names and
/// control characters.
///
/// # Errors
/// [`Error::PathSegment`] if a name is not a valid segment.
pub(crate) fn segment(what: &'static str, value: &str) -> Result<(), Error> {
    let problem = match value {
        "" => "is empty",
        "." | ".." => "may not be '.' or '..'",
        _ if value.contains('/') => "may not contain '/'",
        _ if value.contains('%') => "may not contain '%'",
        _ if value.contains(char::is_control) => "may not contain control characters",
        _ => return Ok(()),
    };
    Err(Error::PathSegment { what, value: value.to_owned(), problem })
}

/// Checks that a group, which may be empty, and a version can be segments of a path. kube-client's discovery inserts
/// them into a path unchecked.
///
/// # Errors
/// [`Error::PathSegment`] if a name is not a valid segment.
pub fn check_group_version(group: &str, version: &str) -> Result<(), Error> {
    if !group.is_empty() {
        segment("group", group)?;
    }
    segment("version", version)
}
