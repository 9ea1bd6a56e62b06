//! Whether an answer is the list that was requested.

use kinformer_reflector::SourceError;
use kinformer_wire::ListEnvelope;

use crate::decode::Named;

/// Checks what a list says of itself.
///
/// It has to be a `{Kind}List`, or a `List`, and its group, where it names one, that of the kind. A custom resource
/// definition may name the list as it likes (`spec.names.listKind`, also `Table`): for a kind that is not built in any
/// name will do in the group of the kind. A list without a kind is refused: an API server always names it.
///
/// client-go 1.37 refuses a list of another type in its typed clients, and takes a list without a kind.
///
/// # Errors
/// [`SourceError::WrongList`]
pub(crate) fn check(envelope: &ListEnvelope, resource: &str, named: &Named) -> Result<(), SourceError> {
    let ListEnvelope { kind, api_version, .. } = envelope;
    let expected = format!("{}List", named.kind);
    let group_differs = !api_version.is_empty() && group(api_version) != group(&named.api_version);
    let fits = match kind.as_str() {
        "" => false,
        "List" => !group_differs || api_version == "v1",
        kind if kind == expected => !group_differs,
        _ => !named.is_built_in && !api_version.is_empty() && !group_differs,
    };
    if fits { Ok(()) } else { Err(wrong(resource, named, &received(api_version, kind))) }
}

/// The list is of something else.
pub(crate) fn wrong(resource: &str, named: &Named, received: &str) -> SourceError {
    SourceError::WrongList {
        resource: resource.to_owned(),
        expected: format!("{}List of {}", named.kind, named.api_version),
        received: received.to_owned(),
    }
}

fn received(api_version: &str, kind: &str) -> String {
    match (api_version, kind) {
        (_, "") => "a list without a kind".to_owned(),
        ("", kind) => format!("a {kind}"),
        (version, kind) => format!("a {kind} of {version}"),
    }
}

/// `apps` of `apps/v1`, and nothing of `v1`.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
