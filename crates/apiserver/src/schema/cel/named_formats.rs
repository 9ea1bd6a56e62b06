//! The formats of texts that have names.
//!
//! Follows Kubernetes 1.37 (`cel/library/format.go`).

use std::sync::Arc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::objects::{Opaque, OptionalValue};

use super::super::formats::Format;
use super::fault::Found;
use crate::builtin::names;
use crate::go_url::Url;

const NAMES: [&str; 13] = [
    "byte",
    "date",
    "datetime",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "labelValue",
    "qualifiedName",
    "uri",
    "uuid",
];

#[derive(Debug, PartialEq, Eq)]
struct NamedFormat(&'static str);

impl Opaque for NamedFormat {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.NamedFormat"
    }
}

impl NamedFormat {
    fn find(name: &str) -> Option<Plain> {
        let name = NAMES.into_iter().find(|known| *known == name)?;
        Some(Plain::Opaque(Arc::new(Self(name))))
    }

    /// Returns what is wrong with a text.
    fn faults(&self, text: &str) -> Vec<String> {
        let fault = |format: &str, fault: &str| {
            let accepts = Format::of(format).is_some_and(|format| format.accepts(text));
            if accepts { Vec::new() } else { vec![fault.to_owned()] }
        };
        match self.0 {
            "byte" => fault("byte", "invalid base64"),
            "date" => fault("date", "invalid date"),
            "datetime" => fault("date-time", "invalid datetime"),
            "dns1035Label" => names::lowercase_identifier(text),
            "dns1035LabelPrefix" => names::lowercase_identifier(&without_dash(text)),
            "dns1123Label" => names::label(text),
            "dns1123LabelPrefix" => names::label(&without_dash(text)),
            "dns1123Subdomain" => names::subdomain(text),
            "dns1123SubdomainPrefix" => names::subdomain(&without_dash(text)),
            "labelValue" => names::label_value(text),
            "qualifiedName" => names::qualified_name(text),
            "uri" => Url::parse_request(text).err().into_iter().collect(),
            _ => fault("uuid", "does not match the UUID format"),
        }
    }
}

/// A prefix may end with a dash.
fn without_dash(text: &str) -> String {
    let mut before = text.strip_suffix('-').unwrap_or("").chars();
    match before.next_back() {
        Some(_) => format!("{}a", before.as_str()),
        None => text.to_owned(),
    }
}

/// Calls a function of formats; `None` for other functions.
pub(super) fn call(name: &str, target: Option<&Plain>, arguments: &[Plain]) -> Option<Found<Plain>> {
    let optional = |value: Option<Plain>| {
        Plain::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
    };
    Some(Ok(match (name, target, arguments) {
        ("format.named", None, [Plain::String(name)]) => optional(NamedFormat::find(name)),
        ("validate", Some(Plain::Opaque(format)), [Plain::String(text)]) => {
            let faults = format.downcast_ref::<NamedFormat>()?.faults(text).into_iter();
            let faults: Vec<Plain> = faults.map(|fault| Plain::String(Arc::new(fault))).collect();
            optional((!faults.is_empty()).then(|| Plain::List(Arc::new(faults))))
        }
        (name, None, []) => NamedFormat::find(name.strip_prefix("format.")?)?,
        _ => return None,
    }))
}
