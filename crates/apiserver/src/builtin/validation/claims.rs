//! Claims of persistent volumes.

use serde_json::Value;

use super::super::check::{Check, Fields, Object, Plain, texts};
use super::super::names;
use super::super::quantity::Quantity;
use super::labels;

pub(super) fn claim(c: &mut Check, object: &Object, before: Option<&Object>) {
    let claim = object.of("spec");
    c.enter("spec", |c| spec(c, claim));
    if let Some(before) = before {
        update(c, before, object);
    }
}

pub(super) fn spec(c: &mut Check, spec: &Value) {
    let modes = spec.items("accessModes");
    if modes.is_empty() {
        c.required("accessModes", "at least 1 access mode is required");
    }
    labels::selector(c, "selector", spec.of("selector"));
    access_modes(c, modes);
    let storage = spec.of("resources").of("requests").of("storage");
    match Quantity::parse(storage.as_str().unwrap_or("")) {
        _ if storage.is_null() => c.required("resources[storage]", ""),
        Ok(quantity) if quantity.signum() <= 0 => {
            c.invalid("resources[storage]", storage, "must be greater than zero");
        }
        _ => {}
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        c.rules("storageClassName", class, names::subdomain(class));
    }
    c.supported(spec, "volumeMode", &["Block", "Filesystem"]);
    for field in ["dataSource", "dataSourceRef"] {
        source(c, field, spec.of(field));
    }
    sources(c, spec);
    let class = spec.text("volumeAttributesClassName");
    if !class.is_empty() {
        c.rules("volumeAttributesClassName", class, names::subdomain(class));
    }
}

fn source(c: &mut Check, field: &str, source: &Value) {
    if source.is_null() {
        return;
    }
    c.enter(field, |c| {
        for field in ["name", "kind"] {
            if source.text(field).is_empty() {
                c.required(field, "");
            }
        }
        let (group, kind) = (source.text("apiGroup"), source.text("kind"));
        if group.is_empty() {
            if kind != "PersistentVolumeClaim" {
                let rule = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                c.invalid("", kind, rule);
            }
        } else {
            c.rules("apiGroup", group, names::subdomain(group));
        }
        let namespace = source.text("namespace");
        if !namespace.is_empty() {
            c.rules("namespace", namespace, names::label(namespace));
        }
    });
}

fn sources(c: &mut Check, spec: &Value) {
    let (source, reference) = (spec.of("dataSource"), spec.of("dataSourceRef"));
    if source.is_null() || reference.is_null() {
        return;
    }
    let is_same = ["apiGroup", "kind", "name"].iter().all(|field| source.of(field) == reference.of(field));
    if !reference.text("namespace").is_empty() {
        c.invalid("", Plain("{}"), "may not be specified when dataSourceRef.namespace is specified");
    } else if !is_same {
        c.invalid("", Plain("{}"), "must match dataSourceRef");
    }
}

fn update(c: &mut Check, before: &Object, after: &Object) {
    let (old, new) = (before.of("spec"), after.of("spec"));
    let is_bound = after.of("status").text("phase") == "Bound";
    let reduced = |spec: &Value| {
        let mut spec = spec.clone();
        if let Value::Object(fields) = &mut spec {
            if old.text("volumeName").is_empty() {
                fields.remove("volumeName");
            }
            if !old.has("storageClassName") {
                fields.remove("storageClassName");
            }
            if is_bound {
                fields.remove("volumeAttributesClassName");
                if let Some(Value::Object(requests)) =
                    fields.get_mut("resources").and_then(|resources| resources.get_mut("requests"))
                {
                    requests.remove("storage");
                }
            }
        }
        spec
    };
    if reduced(old) != reduced(new) {
        let rule = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
            claims";
        c.forbidden("spec", rule);
    }
    let size = |spec: &Value| {
        let size = Quantity::parse(spec.of("resources").of("requests").text("storage"));
        size.unwrap_or(Quantity::whole(0))
    };
    let (was, new_size) = (size(old), size(new));
    if new_size < was {
        let capacity = Quantity::parse(before.of("status").of("capacity").text("storage"));
        if new_size <= capacity.unwrap_or(Quantity::whole(0)) {
            c.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
        }
    }
    c.immutable("volumeMode", old.of("volumeMode"), new.of("volumeMode"));
}

/// The access modes of a volume or a claim.
pub(super) fn access_modes(c: &mut Check, modes: &[Value]) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in texts(modes).filter(|mode| !MODES.contains(mode)) {
        c.not_supported("accessModes", mode, &MODES);
    }
    let is_single = |mode: &str| mode == "ReadWriteOncePod";
    let has_other = texts(modes).any(|mode| MODES.contains(&mode) && !is_single(mode));
    if texts(modes).any(is_single) && has_other {
        c.forbidden("accessModes", "may not use ReadWriteOncePod with other access modes");
    }
}
