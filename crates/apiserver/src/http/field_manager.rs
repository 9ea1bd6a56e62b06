//! The manager of a write, and the options that only server-side apply has.

use ::http::{HeaderMap, header};

use crate::apply::Conflicts;
use crate::status::{Cause, Status, Subject};

use super::request::Query;

/// The limit of Kubernetes for the name of a manager, in bytes.
const MAX_NAME: usize = 128;

/// The options of a write, which name their type in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionsOf {
    Create,
    Update,
    Patch,
    Apply,
}

impl OptionsOf {
    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// Returns the name of the manager: the parameter `fieldManager`, or the name of the program in `User-Agent`.
///
/// # Errors
/// 422 for a name that is too long or not printable, for an apply without a name, and for `force` on another write.
/// Follows Kubernetes 1.37 (`ValidatePatchOptions`, `managerOrUserAgent`).
pub(super) fn field_manager(
    query: &Query,
    headers: &HeaderMap,
    options: OptionsOf,
) -> Result<String, Status> {
    let given = query.text("fieldManager");
    let mut causes = Vec::new();
    if options == OptionsOf::Apply && given.is_empty() {
        causes.push(Cause::required("fieldManager", "is required for apply patch"));
    }
    if options == OptionsOf::Patch && query.get("force").is_some() {
        causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
    }
    if given.len() > MAX_NAME {
        causes.push(Cause::too_long("fieldManager", MAX_NAME));
    }
    let invalid = given.char_indices().filter(|(_, c)| !is_printable(*c));
    causes.extend(invalid.map(|(position, c)| {
        let why = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        Cause::invalid("fieldManager", format!("Invalid value: {given:?}: {why}"))
    }));
    if !causes.is_empty() {
        let subject = Subject { group: "meta.k8s.io", resource: options.kind() };
        return Err(Status::invalid(subject, "", causes));
    }
    if given.is_empty() { Ok(program(headers)) } else { Ok(given.to_owned()) }
}

/// The name of the program that sends a request: the start of `User-Agent`.
fn program(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let mut name = String::new();
    for c in agent.as_deref().unwrap_or("").split('/').next().unwrap_or("").chars() {
        if is_printable(c) {
            if name.len() + c.len_utf8() > MAX_NAME {
                break;
            }
            name.push(c);
        }
    }
    name
}

fn is_printable(c: char) -> bool {
    !c.is_control() && (c == ' ' || !c.is_whitespace())
}

/// Whether an apply takes the fields of other managers.
pub(super) fn conflicts(query: &Query) -> Conflicts {
    if query.flag("force") { Conflicts::Forced } else { Conflicts::Refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_are_named_by_the_parameter_or_the_user_agent() {
        let name = |query: &str, agent: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            field_manager(&Query::parse(query), &headers, OptionsOf::Update)
        };
        assert_eq!(name("", "kubectl/v1.37.1 (linux/amd64)").unwrap(), "kubectl");
        assert_eq!(name("fieldManager=me", "kubectl/v1").unwrap(), "me");
        assert_eq!(name("", "a\tb").unwrap(), "ab");
        assert_eq!(name("", &"x".repeat(200)).unwrap().len(), MAX_NAME);
        assert_eq!(
            name(&format!("fieldManager={}", "x".repeat(129)), "").unwrap_err().message(),
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"
        );
        assert_eq!(
            name("fieldManager=a%01", "").unwrap_err().message(),
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\u{1}\": invalid character \
             U+0001 (at position 1)"
        );
    }

    #[test]
    fn only_apply_needs_a_manager_and_may_be_forced() {
        let error = |query: &str, options| {
            field_manager(&Query::parse(query), &HeaderMap::new(), options).unwrap_err().message().to_owned()
        };
        assert_eq!(
            error("force=true", OptionsOf::Apply),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert_eq!(
            error("force=false", OptionsOf::Patch),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert_eq!(conflicts(&Query::parse("force=1")), Conflicts::Forced);
        assert_eq!(conflicts(&Query::parse("force=false")), Conflicts::Refused);
    }
}
