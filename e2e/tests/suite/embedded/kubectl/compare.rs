//! The differences between the output for two servers.

use serde_json::Value;

use super::Seen;

/// Fields that differ in every run.
const OWN: &[&str] = &[
    "uid",
    "resourceVersion",
    "managedFields",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "continue",
    "kubectl.kubernetes.io/restartedAt",
    // jobs
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    // services
    "clusterIP",
    "clusterIPs",
];

/// Fields that kube-apiserver sets by admission plug-ins and controllers, which the embedded server does not have.
pub(in super::super) const DEFAULTS: &[&str] = &[
    // the service account of pods
    "volumeMounts",
    "serviceAccount",
    "serviceAccountName",
    "tolerations",
    "volumes",
    // nodes: the embedded cluster has no node controller
    "taints",
    // discovery
    "storageVersionHash",
];

/// Members that may differ.
pub(in super::super) struct Ignored<'a> {
    /// Those whose values may differ, if both have them.
    pub(in super::super) own: &'a [&'a str],
    /// Those that only kube-apiserver may have.
    pub(in super::super) defaults: &'a [&'a str],
}

pub(in super::super) fn differences(real: &Seen, ours: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    if real.code != ours.code {
        found.push(format!("exit code {:?}, ours {:?}", real.code, ours.code));
    }
    match (serde_json::from_str(&real.output), serde_json::from_str(&ours.output)) {
        (Ok(real), Ok(ours)) => json(&mut found, "", &real, &ours, &Ignored { own: OWN, defaults: DEFAULTS }),
        _ => text(&mut found, "output", &real.output, &ours.output),
    }
    text(&mut found, "errors", &real.errors, &without_warnings(&ours.errors));
    found
}

/// Returns the lines other than warnings of the embedded server about effects that it does not simulate.
fn without_warnings(errors: &str) -> String {
    let is_ours = |line: &&str| line.starts_with("Warning: ") && line.contains(" of kinformer-apiserver: ");
    errors.lines().filter(|line| !is_ours(line)).map(|line| format!("{line}\n")).collect()
}

pub(in super::super) fn json(
    found: &mut Vec<String>,
    path: &str,
    real: &Value,
    ours: &Value,
    ignored: &Ignored<'_>,
) {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            for (name, value) in real {
                let path = format!("{path}.{name}");
                match ours.get(name) {
                    Some(_) if ignored.own.contains(&name.as_str()) => {}
                    Some(other) => json(found, &path, value, other, ignored),
                    None if ignored.defaults.contains(&name.as_str()) => {}
                    None => found.push(format!("{path}: {value}, ours has none")),
                }
            }
            for (name, value) in ours.iter().filter(|(name, _)| !real.contains_key(*name)) {
                found.push(format!("{path}.{name}: none, ours {value}"));
            }
        }
        (Value::Array(real), Value::Array(ours)) if path.ends_with("taints") => {
            // Our taints must be present.
            let missing = ours.iter().filter(|taint| !real.contains(taint));
            found.extend(missing.map(|taint| format!("{path}: ours has {taint}")));
        }
        (Value::Array(real), Value::Array(ours)) if path.ends_with("verbs") => {
            // The order of verbs has no meaning.
            let only = |these: &[Value], those: &[Value]| these.iter().any(|verb| !those.contains(verb));
            if only(real, ours) || only(ours, real) {
                found.push(format!("{path}: {real:?}, ours {ours:?}"));
            }
        }
        (Value::Array(real), Value::Array(ours)) if real.len() == ours.len() => {
            for (place, (real, ours)) in real.iter().zip(ours).enumerate() {
                json(found, &format!("{path}[{place}]"), real, ours, ignored);
            }
        }
        _ if real == ours => {}
        _ => found.push(format!("{path}: {real}, ours {ours}")),
    }
}

fn text(found: &mut Vec<String>, what: &str, real: &str, ours: &str) {
    let (real, ours) = (plain(real), plain(ours));
    if real == ours {
        return;
    }
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).take(12).cloned().collect()
    };
    found.extend(only(&real, &ours).into_iter().map(|line| format!("{what}, not ours: {line}")));
    found.extend(only(&ours, &real).into_iter().map(|line| format!("{what}, only ours: {line}")));
    if found.is_empty() {
        found.push(format!("{what}: the same lines in another order: {real:?}, ours {ours:?}"));
    }
}

/// Returns the lines without the parts that differ in every run.
fn plain(text: &str) -> Vec<String> {
    text.lines().map(plain_line).collect()
}

pub(super) fn plain_line(line: &str) -> String {
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn word(word: &str) -> &str {
    let is_age = |word: &str| {
        word.ends_with('s')
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || matches!(c, 'm' | 's'))
    };
    let is_time = |word: &str| word.len() == 20 && word.ends_with('Z') && word.contains('T');
    let is_clock = |word: &str| word.len() == 8 && word.bytes().filter(|byte| *byte == b':').count() == 2;
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if bare.contains("127.0.0.1:") {
        return "(address)";
    }
    if is_age(word) {
        return "(age)";
    }
    if is_time(bare) || is_clock(word) {
        return "(time)";
    }
    if bare.len() == 36 && bare.bytes().filter(|byte| *byte == b'-').count() == 4 {
        return "(uid)";
    }
    if bare.starts_with("gen-") || bare.starts_with("configmap/gen-") {
        return "(generated)";
    }
    word
}
