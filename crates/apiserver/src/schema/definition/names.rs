//! Names that are DNS labels.

use crate::dns::has_label_form;

/// Returns why a name is not a label of RFC 1035. Follows Kubernetes 1.37 (`IsDNS1035Label`).
pub(crate) fn dns_1035_fault(name: &str) -> Option<String> {
    let has_form = name.starts_with(|c: char| c.is_ascii_lowercase()) && has_label_form(name);
    let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    faults(name, has_form, rule)
}

/// Returns why a name is not a label of RFC 1123. Follows Kubernetes 1.37 (`IsDNS1123Label`).
pub(crate) fn dns_1123_label_fault(name: &str) -> Option<String> {
    let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    faults(name, has_label_form(name), rule)
}

/// Returns why a name is not a subdomain of RFC 1123. Follows Kubernetes 1.37 (`IsDNS1123Subdomain`).
pub(super) fn dns_1123_subdomain_fault(name: &str) -> Option<String> {
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let has_form = name.split('.').all(has_label_form);
    match (name.len() > 253, has_form) {
        (false, true) => None,
        (false, false) => Some(rule.to_owned()),
        (true, true) => Some("must be no more than 253 bytes".to_owned()),
        (true, false) => Some(format!("must be no more than 253 bytes,{rule}")),
    }
}

fn faults(name: &str, has_form: bool, rule: &str) -> Option<String> {
    match (name.len() > 63, has_form) {
        (false, true) => None,
        (false, false) => Some(rule.to_owned()),
        (true, true) => Some("must be no more than 63 bytes".to_owned()),
        (true, false) => Some(format!("must be no more than 63 bytes,{rule}")),
    }
}
