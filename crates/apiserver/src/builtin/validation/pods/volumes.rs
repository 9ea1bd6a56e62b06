//! Volumes, their mounts and devices.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::super::check::{Check, Fields};
use super::super::super::names;
use super::super::super::quantity::Quantity;
use super::super::claims;
use super::environment;
use super::shared::{Pod, descending_path, no_backsteps, pull_policy};

/// The sources whose contents are checked, in the order in which they are.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Returns the valid volumes.
pub(super) fn volumes<'a>(
    c: &mut Check,
    list: &'a [Value],
    pod_name: Option<&str>,
) -> HashMap<&'a str, &'a Value> {
    let mut valid: HashMap<&str, &Value> = HashMap::new();
    let pod_name = pod_name.filter(|name| !name.is_empty());
    c.each("volumes", list, |c, volume| {
        let (before, name) = (c.count(), volume.text("name"));
        source(c, volume);
        if let Some(pod_name) = pod_name.filter(|_| volume.has("ephemeral")) {
            let claim = format!("{pod_name}-{name}");
            for rule in names::subdomain(&claim) {
                c.invalid("name", name, &format!("PVC name {claim:?}: {rule}"));
            }
        }
        if name.is_empty() {
            c.required("name", "");
        } else {
            c.rules("name", name, names::label(name));
        }
        if valid.contains_key(name) {
            c.duplicate("name", name);
        }
        if c.count() == before {
            valid.insert(name, volume);
        }
    });
    valid
}

fn source(c: &mut Check, volume: &Value) {
    let mut given = SOURCES.into_iter().filter(|source| volume.has(source));
    let Some(first) = given.next() else { return c.required("", "must specify a volume type") };
    c.enter(first, |c| contents(c, first, volume.of(first)));
    for other in given {
        let field = match other {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            other => other,
        };
        c.forbidden(field, "may not specify more than 1 volume type");
    }
}

fn contents(c: &mut Check, kind: &str, source: &Value) {
    match kind {
        "emptyDir" => {
            if Quantity::parse(source.text("sizeLimit")).is_ok_and(|limit| limit.signum() < 0) {
                c.forbidden("sizeLimit", "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => host_path(c, source),
        "secret" | "configMap" => {
            let field = if kind == "secret" { "secretName" } else { "name" };
            given(c, source, field);
            mode(c, "defaultMode", source);
            c.each("items", source.items("items"), key_to_path);
        }
        "nfs" => nfs(c, source),
        "persistentVolumeClaim" => given(c, source, "claimName"),
        "downwardAPI" => {
            mode(c, "defaultMode", source);
            source.items("items").iter().for_each(|file| downward_file(c, file));
        }
        "projected" => {
            mode(c, "defaultMode", source);
            projected(c, source);
        }
        "csi" => {
            csi_driver_name(c, "driver", source.text("driver"));
            let secret = source.of("nodePublishSecretRef");
            match secret.text("name") {
                _ if secret.is_null() => {}
                "" => c.required("nodePublishSecretRef.name", ""),
                name => c.rules("name", name, names::subdomain(name)),
            }
        }
        "ephemeral" if !source.has("volumeClaimTemplate") => c.required("volumeClaimTemplate", ""),
        "ephemeral" => c.enter("volumeClaimTemplate", |c| {
            let spec = source.of("volumeClaimTemplate").of("spec");
            c.enter("spec", |c| claims::spec(c, spec));
        }),
        "image" => {
            given(c, source, "reference");
            pull_policy(c, "pullPolicy", source.text("pullPolicy"));
        }
        kind => plain(c, kind, source),
    }
}

/// Checks the required fields of the other sources.
fn plain(c: &mut Check, kind: &str, source: &Value) {
    let fields: &[&str] = match kind {
        "gitRepo" => &["repository"],
        "iscsi" => &["targetPortal", "iqn"],
        "glusterfs" => &["endpoints", "path"],
        "cinder" | "portworxVolume" | "awsElasticBlockStore" => &["volumeID"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "azureDisk" => &["diskName", "diskURI"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "gcePersistentDisk" => &["pdName"],
        _ => &[],
    };
    for field in fields {
        given(c, source, field);
    }
}

fn given(c: &mut Check, object: &Value, field: &str) {
    if object.text(field).is_empty() {
        c.required(field, "");
    }
}

/// The sources of a persistent volume.
pub(in super::super) fn persistent(c: &mut Check, kind: &str, source: &Value) {
    match kind {
        "hostPath" => host_path(c, source),
        "nfs" => nfs(c, source),
        "local" => local(c, source),
        "csi" => {
            csi_driver_name(c, "driver", source.text("driver"));
            given(c, source, "volumeHandle");
            let references = [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ];
            for field in references.into_iter().filter(|field| source.has(field)) {
                c.enter(field, |c| {
                    let (name, namespace) =
                        (source.of(field).text("name"), source.of(field).text("namespace"));
                    given(c, source.of(field), "name");
                    c.rules("name", name, names::subdomain(name).into_iter().filter(|_| !name.is_empty()));
                    given(c, source.of(field), "namespace");
                    let broken = names::label(namespace).into_iter().filter(|_| !namespace.is_empty());
                    c.rules("namespace", namespace, broken);
                });
            }
        }
        kind => plain(c, kind, source),
    }
}

fn host_path(c: &mut Check, source: &Value) {
    if source.text("path").is_empty() {
        return c.required("path", "");
    }
    no_backsteps(c, "path", source.text("path"));
    let types =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    c.supported(source, "type", &types);
}

fn nfs(c: &mut Check, source: &Value) {
    given(c, source, "server");
    given(c, source, "path");
    if !source.text("path").starts_with('/') {
        c.invalid("path", source.text("path"), "must be an absolute path");
    }
}

fn local(c: &mut Check, source: &Value) {
    given(c, source, "path");
    no_backsteps(c, "path", source.text("path"));
}

pub(in super::super) fn csi_driver_name(c: &mut Check, field: &str, name: &str) {
    if name.is_empty() {
        return c.required(field, "");
    }
    if name.len() > 63 {
        c.too_long(field, 63);
    }
    c.rules(field, name, names::subdomain(&name.to_lowercase()));
}

fn mode(c: &mut Check, field: &str, object: &Value) {
    if let Some(mode) = object.int(field).filter(|mode| !(0..=0o777).contains(mode)) {
        c.invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn key_to_path(c: &mut Check, item: &Value) {
    given(c, item, "key");
    given(c, item, "path");
    relative_path(c, "path", item.text("path"));
    mode(c, "mode", item);
}

fn downward_file(c: &mut Check, file: &Value) {
    given(c, file, "path");
    relative_path(c, "path", file.text("path"));
    if file.has("fieldRef") {
        c.enter("fieldRef", |c| environment::field_ref(c, file.of("fieldRef"), &environment::FILE_FIELDS));
        if file.has("resourceFieldRef") {
            c.invalid("", "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    } else if file.has("resourceFieldRef") {
        c.enter("resourceFieldRef", |c| environment::resource_ref(c, file.of("resourceFieldRef"), true));
    } else {
        c.required("", "one of fieldRef and resourceFieldRef is required");
    }
    mode(c, "mode", file);
}

fn projected(c: &mut Check, projection: &Value) {
    let mut paths = HashSet::new();
    for (index, source) in projection.items("sources").iter().enumerate() {
        let at = format!("sources[{index}]");
        for kind in ["secret", "configMap"] {
            let part = source.of(kind);
            if part.is_null() {
                continue;
            }
            c.enter(&format!("{at}.{kind}"), |c| {
                given(c, part, "name");
                c.each("items", part.items("items"), key_to_path);
            });
            for path in part.items("items").iter().map(|item| item.text("path")) {
                if !path.is_empty() && !paths.insert(path) {
                    c.invalid("", part.text("name"), "conflicting duplicate paths");
                }
            }
        }
        for file in source.of("downwardAPI").items("items") {
            c.enter(&format!("{at}.downwardAPI"), |c| downward_file(c, file));
            let path = file.text("path");
            if !path.is_empty() && !paths.insert(path) {
                c.invalid("", path, "conflicting duplicate paths");
            }
        }
        let token = source.of("serviceAccountToken");
        if !token.is_null() {
            c.enter(&format!("{at}.serviceAccountToken"), |c| expiration(c, token));
            given(c, token, "path");
            relative_path(c, "path", token.text("path"));
        }
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        if kinds.iter().filter(|kind| source.has(kind)).count() > 1 {
            c.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

fn expiration(c: &mut Check, token: &Value) {
    let Some(seconds) = token.int("expirationSeconds") else { return c.required("expirationSeconds", "") };
    if seconds < 600 {
        c.invalid("expirationSeconds", seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        c.invalid("expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds");
    }
}

fn relative_path(c: &mut Check, field: &str, path: &str) {
    descending_path(c, field, path);
    if path.starts_with("..") && !path.starts_with("../") {
        c.invalid(field, path, "must not start with '..'");
    }
}

/// The texts that a field has in a list.
fn all<'a>(list: &'a [Value], field: &str) -> HashSet<&'a str> {
    list.iter().map(|item| item.text(field)).collect()
}

pub(super) fn mounts(c: &mut Check, container: &Value, pod: &Pod<'_>) {
    let devices = container.items("volumeDevices");
    let (device_names, device_paths) = (all(devices, "name"), all(devices, "devicePath"));
    let mut seen = HashSet::new();
    c.enter("volumeMounts", |c| {
        for (index, mount) in container.items("volumeMounts").iter().enumerate() {
            let (name, path) = (mount.text("name"), mount.text("mountPath"));
            c.index(index, |c| {
                given(c, mount, "name");
                if !pod.volumes.contains_key(name) {
                    c.not_found("name", name, "");
                }
                given(c, mount, "mountPath");
                if !seen.insert(path) {
                    c.invalid("mountPath", path, "must be unique");
                }
                if device_names.contains(name) {
                    c.invalid("name", name, "must not already exist in volumeDevices");
                }
                if device_paths.contains(path) {
                    c.invalid("mountPath", path, "must not already exist as a path in volumeDevices");
                }
            });
            let (sub, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
            descending_path(c, "subPath", sub);
            if !expression.is_empty() && !sub.is_empty() {
                let field = format!("[{index}].subPathExpr");
                c.invalid(&field, expression, "subPathExpr and subPath are mutually exclusive");
            }
            descending_path(c, "subPathExpr", expression);
            propagation(c, mount, container);
        }
    });
}

fn propagation(c: &mut Check, mount: &Value, container: &Value) {
    c.supported(mount, "mountPropagation", &["Bidirectional", "HostToContainer", "None"]);
    let propagation = mount.text("mountPropagation");
    if propagation == "Bidirectional" && !container.of("securityContext").flag("privileged") {
        let rule = "Bidirectional mount propagation is available only to privileged containers";
        c.forbidden("mountPropagation", rule);
    }
    match mount.text("recursiveReadOnly") {
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                c.forbidden("recursiveReadOnly", "may only be specified when readOnly is true");
            }
            if !matches!(propagation, "" | "None") {
                let rule = "may only be specified when mountPropagation is None or not specified";
                c.forbidden("recursiveReadOnly", rule);
            }
        }
        _ => c.supported(mount, "recursiveReadOnly", &["Disabled", "Enabled", "IfPossible"]),
    }
}

pub(super) fn devices(c: &mut Check, container: &Value, pod: &Pod<'_>) {
    let mounts = container.items("volumeMounts");
    let (mount_names, mount_paths) = (all(mounts, "name"), all(mounts, "mountPath"));
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    c.each("volumeDevices", container.items("volumeDevices"), |c, device| {
        let (name, path) = (device.text("name"), device.text("devicePath"));
        given(c, device, "name");
        if names.contains(name) {
            c.invalid("name", name, "must be unique");
        }
        match pod.volumes.get(name) {
            Some(volume) if volume.has("persistentVolumeClaim") || volume.has("ephemeral") => {}
            Some(_) => {
                let rule =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                c.invalid("name", name, rule);
            }
            None => c.not_found("name", name, ""),
        }
        given(c, device, "devicePath");
        if paths.contains(path) {
            c.invalid("devicePath", path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            c.invalid("devicePath", path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
        if mount_names.contains(name) {
            c.invalid("name", name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            c.invalid("devicePath", path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    });
}
