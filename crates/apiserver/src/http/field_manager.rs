//! The options of a write: its manager, and how it is validated.

use ::http::{HeaderMap, header};
use serde_json::json;

use crate::api::DryRun;
use crate::apply::{Conflicts, is_printable, quoted};
use crate::causes;
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

/// What a write does with fields that its object does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validation {
    Ignored,
    /// The response warns of them.
    Warned,
    /// The write is refused.
    Strict,
}

/// The options of a write.
#[derive(Debug)]
pub(super) struct WriteOptions {
    /// The parameter `fieldManager`, or the name of the program in `User-Agent`.
    pub(super) manager: String,
    pub(super) dry_run: DryRun,
    pub(super) validation: Validation,
}

impl WriteOptions {
    /// # Errors
    /// 422 for values that kube-apiserver does not know, for an apply without a manager, and for `force` on another
    /// write. Follows Kubernetes 1.37 (`ValidatePatchOptions`, `managerOrUserAgent`).
    pub(super) fn parse(query: &Query, headers: &HeaderMap, options: OptionsOf) -> Result<Self, Status> {
        let given = query.text("fieldManager");
        let mut causes = manager_faults(query, given, options);
        let dry_runs: Vec<&str> = query.all("dryRun").collect();
        if dry_runs.iter().any(|value| *value != "All") {
            causes.push(causes::not_supported("dryRun", &json!(dry_runs), &["All"]));
        }
        let directive = query.text("fieldValidation");
        let validation = match directive {
            "Ignore" => Validation::Ignored,
            "" | "Warn" => Validation::Warned,
            "Strict" => Validation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                causes.push(causes::not_supported("fieldValidation", &json!(other), &known));
                Validation::Strict
            }
        };
        if !causes.is_empty() {
            let subject = Subject { group: "meta.k8s.io", resource: options.kind() };
            return Err(Status::invalid(subject, "", causes));
        }
        let manager = if given.is_empty() { program(headers) } else { given.to_owned() };
        let dry_run = if dry_runs.is_empty() { DryRun::No } else { DryRun::All };
        Ok(Self { manager, dry_run, validation })
    }
}

fn manager_faults(query: &Query, given: &str, options: OptionsOf) -> Vec<Cause> {
    let mut causes = Vec::new();
    if options == OptionsOf::Apply && given.is_empty() {
        causes.push(causes::required("fieldManager", "is required for apply patch"));
    }
    if options == OptionsOf::Patch && query.get("force").is_some() {
        causes.push(causes::forbidden("force", "may not be specified for non-apply patch"));
    }
    if given.len() > MAX_NAME {
        causes.push(causes::too_long("fieldManager", MAX_NAME));
    }
    let invalid = given.char_indices().filter(|(_, c)| !is_printable(*c));
    causes.extend(invalid.map(|(position, c)| {
        let why = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        Cause::invalid("fieldManager", format!("Invalid value: {}: {why}", quoted(given)))
    }));
    causes
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
            WriteOptions::parse(&Query::parse(query), &headers, OptionsOf::Update)
                .map(|options| options.manager)
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
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\x01\": invalid character \
             U+0001 (at position 1)"
        );
    }

    #[test]
    fn only_apply_needs_a_manager_and_may_be_forced() {
        let error = |query: &str, options| {
            WriteOptions::parse(&Query::parse(query), &HeaderMap::new(), options)
                .unwrap_err()
                .message()
                .to_owned()
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

    // contract: E-18a
    #[test]
    fn unknown_values_have_the_errors_of_kubernetes() {
        let error = |query: &str, options| {
            let options = WriteOptions::parse(&Query::parse(query), &HeaderMap::new(), options);
            options.unwrap_err().message().to_owned()
        };
        assert_eq!(
            error(&format!("dryRun=x&fieldValidation=y&fieldManager={}", "x".repeat(130)), OptionsOf::Update),
            "UpdateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Too long: may not be more than 128 bytes, \
             dryRun: Unsupported value: [\"x\"]: supported values: \"All\", fieldValidation: Unsupported value: \"y\": \
             supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
        );
        assert_eq!(
            error("dryRun=All&dryRun=x", OptionsOf::Create),
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"All\",\"x\"]: supported values: \
             \"All\""
        );
        let options =
            WriteOptions::parse(&Query::parse("dryRun=All&other=x"), &HeaderMap::new(), OptionsOf::Patch);
        let options = options.unwrap();
        assert_eq!((options.dry_run, options.validation), (DryRun::All, Validation::Warned));
    }
}
