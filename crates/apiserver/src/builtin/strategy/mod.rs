//! What the storage of a kind sets when an object is created or updated.

mod pods;
mod services;
mod statuses;

use super::check::{Fields, Object, copy, member};

pub(crate) use statuses::{status_updated, status_written};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Whether [`created`] sets fields that have no manager. Those of other kinds are set when an object is converted, before its
/// manager is recorded.
pub(crate) fn sets_unmanaged(api_version: &str, kind: &str) -> bool {
    matches!((api_version, kind), ("v1", "Pod" | "Service" | "PersistentVolumeClaim") | ("batch/v1", "Job"))
}

/// Sets the fields of a new object, which has a name, a UID and its defaults. Those that are given stay.
pub(crate) fn created(api_version: &str, kind: &str, object: &mut Object, now: &str) {
    match (api_version, kind) {
        ("v1", "Pod") => pods::created(object, now),
        ("v1", "Service") => services::created(object),
        ("v1", "PersistentVolume") => {
            member(object, "status").entry("lastPhaseTransitionTime").or_insert_with(|| now.into());
        }
        ("v1", "PersistentVolumeClaim") => sources(None, object),
        ("batch/v1", "Job") => {
            generated_selector(object);
            template_labels(object);
        }
        ("apps/v1", "DaemonSet") => {
            member(member(object, "metadata"), "annotations")
                .entry(TEMPLATE_GENERATION)
                .or_insert_with(|| "1".into());
        }
        _ => {}
    }
}

/// Sets the fields of an object that an update leaves out and that its storage keeps.
pub(crate) fn updated(api_version: &str, kind: &str, before: &Object, object: &mut Object) {
    match (api_version, kind) {
        ("v1", "Pod") => pods::updated(before, object),
        ("v1", "Service") => services::updated(before, object),
        ("v1", "PersistentVolumeClaim") => sources(Some(before), object),
        ("v1", "Namespace") => copy(before, object, "spec"),
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => copy(before, object, "spec"),
        ("apps/v1", "DaemonSet") => template_generation(before, object),
        ("storage.k8s.io/v1", "CSIDriver") => generation(before, object),
        _ => {}
    }
}

/// Counts the changes of the spec.
fn generation(before: &Object, object: &mut Object) {
    if before.of("spec") != object.of("spec") {
        let generation = before.of("metadata").int("generation").unwrap_or(0);
        member(object, "metadata").insert("generation".into(), generation.saturating_add(1).into());
    }
}

fn template_labels(job: &mut Object) {
    let labels = job.of("spec").of("template").of("metadata").of("labels").clone();
    let metadata = member(job, "metadata");
    if metadata.members("labels").next().is_none() && !labels.is_null() {
        metadata.insert("labels".into(), labels);
    }
}

/// Sets the selector of a job, and the labels that it selects.
fn generated_selector(job: &mut Object) {
    if job.of("spec").flag("manualSelector") {
        return;
    }
    let (name, uid) = (job.of("metadata").of("name").clone(), job.of("metadata").of("uid").clone());
    let spec = member(job, "spec");
    let labels = member(member(member(spec, "template"), "metadata"), "labels");
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(label).or_insert_with(|| value.clone());
    }
    let selected = member(member(spec, "selector"), "matchLabels");
    selected.entry("batch.kubernetes.io/controller-uid").or_insert(uid);
}

/// Keeps both sources of a claim equal. A source of another kind is dropped if it is new, as by former versions.
fn sources(before: Option<&Object>, claim: &mut Object) {
    let had_source = before
        .map(|before| before.of("spec"))
        .is_some_and(|spec| spec.has("dataSource") || spec.has("dataSourceRef"));
    let spec = member(claim, "spec");
    let (source, reference) = (spec.of("dataSource").clone(), spec.of("dataSourceRef").clone());
    let is_known = matches!(
        (source.text("kind"), source.text("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    );
    if source.is_null() {
        if !reference.is_null() && reference.text("namespace").is_empty() {
            spec.insert("dataSource".into(), reference);
        }
    } else if reference.is_null() {
        if is_known || had_source {
            spec.insert("dataSourceRef".into(), source);
        } else {
            spec.remove("dataSource");
        }
    }
}

fn template_generation(before: &Object, object: &mut Object) {
    let number = before.of("metadata").of("annotations").text(TEMPLATE_GENERATION).parse().unwrap_or(1_i64);
    let is_changed = before.of("spec").of("template") != object.of("spec").of("template");
    let number = number.saturating_add(i64::from(is_changed));
    member(member(object, "metadata"), "annotations")
        .insert(TEMPLATE_GENERATION.into(), number.to_string().into());
}
