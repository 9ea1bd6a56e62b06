//! Persistent volumes, and the kinds of the group of storage.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;
use super::super::quantity::Quantity;
use super::{claims, pods};

/// The sources of a persistent volume, in the order in which they are checked.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

const EXPANSION_SECRET: &str = "controllerExpandSecretRef";

pub(super) fn volume(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| volume_spec(c, spec));
    let Some(before) = before else { return };
    let old = before.of("spec");
    // the secret for the expansion may be set once
    let is_same = |source: &str| match (old.of(source), spec.of(source)) {
        (Value::Object(old), Value::Object(new)) if source == "csi" && !old.has(EXPANSION_SECRET) => {
            let without =
                |source: &Object| source.iter().filter(|(name, _)| *name != EXPANSION_SECRET).count();
            without(old) == without(new) && old.iter().all(|(name, value)| new.of(name) == value)
        }
        (old, new) => old == new,
    };
    if !SOURCES.iter().all(|source| is_same(source)) {
        let rule = "spec.persistentvolumesource is immutable after creation";
        c.forbidden("spec.persistentvolumesource", rule);
    }
    c.immutable("volumeMode", old.of("volumeMode"), spec.of("volumeMode"));
    let affinity = old.of("nodeAffinity");
    if !affinity.is_null() && affinity != spec.of("nodeAffinity") {
        c.invalid(
            "nodeAffinity",
            spec.of("nodeAffinity"),
            "field is immutable, except for updating from beta label to GA",
        );
    }
}

fn volume_spec(c: &mut Check, spec: &Value) {
    if spec.items("accessModes").is_empty() {
        c.required("accessModes", "");
    }
    claims::access_modes(c, spec.items("accessModes"));
    let capacity = spec.of("capacity");
    let count = spec.members("capacity").count();
    if count == 0 {
        c.required("capacity", "");
    }
    if !capacity.has("storage") || count > 1 {
        let empty = serde_json::json!(null);
        c.not_supported("capacity", if count == 0 { &empty } else { capacity }, &["storage"]);
    }
    for (name, quantity) in spec.members("capacity") {
        if Quantity::parse(quantity.as_str().unwrap_or("")).is_ok_and(|quantity| quantity.signum() <= 0) {
            c.invalid(&format!("capacity[{name}]"), quantity, "must be greater than zero");
        }
    }
    if !spec.text("persistentVolumeReclaimPolicy").is_empty() {
        c.supported(spec, "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.of("nodeAffinity");
    if !affinity.is_null() {
        c.enter("nodeAffinity", |c| match affinity.has("required") {
            true => pods::node_selector(c, "required", affinity.of("required")),
            false => c.required("required", "must specify required node constraints"),
        });
    }
    let mut given = SOURCES.into_iter().filter(|source| spec.has(source));
    match given.next() {
        None => c.required("", "must specify a volume type"),
        Some(first) => {
            c.enter(first, |c| pods::persistent(c, first, spec.of(first)));
            if first == "local" && !affinity.has("required") {
                c.required("nodeAffinity", "Local volume requires node affinity");
            }
        }
    }
    for other in given {
        c.forbidden(other, "may not specify more than 1 volume type");
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        c.rules("storageClassName", class, names::subdomain(class));
    }
    c.supported(spec, "volumeMode", &["Block", "Filesystem"]);
}

pub(super) fn class(c: &mut Check, object: &Object, before: Option<&Object>) {
    let provisioner = object.text("provisioner");
    if provisioner.is_empty() {
        c.declared(|c| c.required("provisioner", ""));
    } else {
        let provisioner = provisioner.to_lowercase();
        c.rules("provisioner", &provisioner, names::qualified_name(&provisioner));
    }
    if object.members("parameters").count() > 512 {
        c.too_long("parameters", 512);
    }
    if !object.text("reclaimPolicy").is_empty() {
        c.supported(object, "reclaimPolicy", &["Delete", "Retain"]);
    }
    c.supported(object, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]);
    c.each("allowedTopologies", object.items("allowedTopologies"), topology);
    let Some(before) = before else { return };
    for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
        c.declared_immutable(field, before.of(field), object.of(field));
    }
}

fn topology(c: &mut Check, term: &Value) {
    let mut keys = HashSet::new();
    if term.items("matchLabelExpressions").is_empty() {
        c.duplicate("matchLabelExpressions", "");
    }
    c.each("matchLabelExpressions", term.items("matchLabelExpressions"), |c, expression| {
        let (key, values) = (expression.text("key"), expression.items("values"));
        if values.is_empty() {
            c.required("values", "");
        }
        let mut seen = HashSet::new();
        for (index, value) in texts(values).enumerate() {
            if !seen.insert(value) {
                c.duplicate(&format!("values[{index}]"), value);
            }
        }
        c.rules("key", key, names::qualified_name(key));
        if !keys.insert(key) {
            c.duplicate("key", key);
        }
    });
}

pub(super) fn attachment(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        match before {
            Some(_) => pods::csi_driver_name(c, "attacher", spec.text("attacher")),
            None => c.declared(|c| attacher(c, spec.text("attacher"))),
        }
        let source = spec.of("source");
        let rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        match (source.has("inlineVolumeSpec"), source.of("persistentVolumeName").as_str()) {
            (false, None) => c.required("source", rule),
            (true, Some(_)) => c.forbidden("source", rule),
            (false, Some("")) => {
                let rule = "must specify non empty persistentVolumeName";
                c.required("source.persistentVolumeName", rule);
            }
            _ => {}
        }
        let node = spec.text("nodeName");
        c.rules("nodeName", node, names::subdomain(node));
    });
    if let Some(name) = spec.of("source").of("persistentVolumeName").as_str() {
        c.rules("spec.source.persistentVolumeName", name, names::subdomain(name));
    }
    if let Some(before) = before {
        c.declared_immutable("spec", before.of("spec"), spec);
    }
}

fn attacher(c: &mut Check, name: &str) {
    if name.is_empty() {
        return c.required("attacher", "");
    }
    c.rules("attacher", name, names::subdomain_of_any_case(name));
    if name.len() > 63 {
        c.too_long("attacher", 63);
    }
}

pub(super) fn driver(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        c.supported(spec, "fsGroupPolicy", &policies);
        let requests = spec.items("tokenRequests");
        let mut audiences = HashSet::new();
        c.each("tokenRequests", requests, |c, request| {
            let audience = request.text("audience");
            if !audiences.insert(audience) {
                return c.duplicate("audience", audience);
            }
            let Some(seconds) = request.int("expirationSeconds") else { return };
            if seconds < 600 {
                let rule = "may not specify a duration less than 10 minutes";
                c.invalid("expirationSeconds", seconds, rule);
            }
            if seconds > 1 << 32 {
                let rule = "may not specify a duration larger than 2^32 seconds";
                c.invalid("expirationSeconds", seconds, rule);
            }
        });
        let modes = ["Persistent", "Ephemeral"];
        for mode in texts(spec.items("volumeLifecycleModes")).filter(|mode| !modes.contains(mode)) {
            c.not_supported("volumeLifecycleModes", mode, &modes);
        }
        if let Some(seconds) = spec.int("nodeAllocatableUpdatePeriodSeconds").filter(|seconds| *seconds < 10)
        {
            let rule = "must be greater than or equal to 10 seconds";
            c.invalid("nodeAllocatableUpdatePeriodSeconds", seconds, rule);
        }
        if spec.has("serviceAccountTokenInSecrets") && requests.is_empty() {
            let rule = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            let value = spec.of("serviceAccountTokenInSecrets");
            c.invalid("serviceAccountTokenInSecrets", value, rule);
        }
        let Some(before) = before else { return };
        let old = before.of("spec");
        c.immutable("attachedRequired", old.of("attachRequired"), spec.of("attachRequired"));
        let field = "volumeLifecycleModes";
        c.declared_immutable(field, old.of(field), spec.of(field));
    });
}

pub(super) fn node(c: &mut Check, object: &Object, before: Option<&Object>) {
    let drivers = object.of("spec").items("drivers");
    let mut seen = HashSet::new();
    c.enter("spec", |c| {
        c.each("drivers", drivers, |c, driver| {
            let (name, id) = (driver.text("name"), driver.text("nodeID"));
            pods::csi_driver_name(c, "name", name);
            if id.is_empty() {
                c.required("nodeID", "");
            }
            if id.len() > 256 {
                c.invalid("nodeID", id, "must be 256 characters or less");
            }
            c.nonnegative_number("allocatable.count", driver.of("allocatable").int("count").unwrap_or(0));
            if !seen.insert(name) {
                c.duplicate("name", name);
            }
            let mut keys = HashSet::new();
            for key in texts(driver.items("topologyKeys")) {
                if key.is_empty() {
                    c.required("", "");
                }
                if !keys.insert(key) {
                    c.duplicate("", key);
                }
                c.rules("", key, names::qualified_name(key));
            }
        });
    });
    let by_name: HashMap<&str, &Value> = drivers.iter().map(|driver| (driver.text("name"), driver)).collect();
    let is_same = |old: &Value, new: &Value| {
        ["nodeID", "topologyKeys"].into_iter().all(|field| old.of(field) == new.of(field))
    };
    for old in before.map_or(&[][..], |before| before.of("spec").items("drivers")) {
        if let Some(new) = by_name.get(old.text("name")).filter(|new| !is_same(old, new)) {
            c.invalid("spec.drivers", *new, "field is immutable");
        }
    }
}
