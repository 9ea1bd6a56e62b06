//! What this server does differently from kube-apiserver, one row each.
//!
//! A request is answered as by kube-apiserver, or refused with an error that says what is not simulated. Where only an
//! effect of another component or of an admission plugin is missing, the object is stored, with a `Warning` that says
//! so. That holds for requests that ask for the effect; what a plugin does to every pod is missing without a warning, as
//! in a kube-apiserver without that plugin.

use serde_json::{Map, Value};

use crate::status::Status;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// As by a kube-apiserver that is started differently, or without other components.
    Otherwise,
    /// With an error.
    Refused,
    /// As by kube-apiserver, with a `Warning`, since the effect is missing.
    Warned,
}

/// The requests of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requests {
    All,
    Creates,
    /// Creates, updates, patches and applies.
    Writes,
}

/// When a row applies.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    /// Only for objects that meet this condition; its description.
    #[cfg_attr(not(test), expect(dead_code, reason = "the description is for the documentation"))]
    Is(&'static str, fn(&Map<String, Value>) -> bool),
}

/// One difference.
struct Difference {
    case: Case,
    group: &'static str,
    /// Plural names, with a subresource if the row is about it. Empty if the row is about all resources.
    resources: &'static [&'static str],
    requests: Requests,
    when: When,
    text: &'static str,
}

const fn refused(group: &'static str, resources: &'static [&'static str], text: &'static str) -> Difference {
    Difference { case: Case::Refused, group, resources, requests: Requests::All, when: When::Always, text }
}

const fn warned(
    group: &'static str,
    resources: &'static [&'static str],
    requests: Requests,
    when: When,
    text: &'static str,
) -> Difference {
    Difference { case: Case::Warned, group, resources, requests, when, text }
}

const fn otherwise(resources: &'static [&'static str], text: &'static str) -> Difference {
    let (group, requests) = ("", Requests::All);
    Difference { case: Case::Otherwise, group, resources, requests, when: When::Always, text }
}

use Requests::{Creates, Writes};
use When::{Always, Is};

/// All differences.
#[rustfmt::skip]
const DIFFERENCES: &[Difference] = &[
    refused("", &["pods/attach", "pods/exec", "pods/log", "pods/portforward", "pods/proxy", "nodes/proxy"],
        "there are no kubelets and no containers; use a cluster"),
    refused("", &["services/proxy"],
        "there are no processes behind services; use a cluster"),
    refused("", &["pods/ephemeralcontainers", "pods/resize"],
        "write the pod with the in-process API of the server"),
    refused("", &["bindings"],
        "use the subresource pods/binding"),
    refused("", &["componentstatuses"],
        "there are no other components; use a cluster"),
    refused("certificates.k8s.io", &["certificatesigningrequests/approval"],
        "write the status with the in-process API of the server"),

    refused("admissionregistration.k8s.io", &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
        "admission policies are not evaluated; use kube-apiserver"),
    refused("certificates.k8s.io", &["clustertrustbundles", "podcertificaterequests"],
        "there are no signers and no kubelets; use a cluster"),
    refused("resource.k8s.io", &["devicetaintrules"],
        "there are no devices and no schedulers; use a cluster"),
    refused("storage.k8s.io", &["csinodes/status"],
        "write the object with the in-process API of the server"),
    refused("storagemigration.k8s.io", &["storageversionmigrations"],
        "objects are stored in one version; use kube-apiserver"),

    warned("admissionregistration.k8s.io", &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        Writes, Is("with matchConditions, without the feature `cel`", |object| !cfg!(feature = "cel") && has_conditions(object)),
        "conditions in CEL are not evaluated: the webhook is not called, and its failure policy decides; add the feature `cel`"),
    warned("admissionregistration.k8s.io", &["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        Writes, Is("without the feature `cel`", |_| !cfg!(feature = "cel")),
        "admission policies are stored, and do not act; add the feature `cel`"),
    warned("rbac.authorization.k8s.io", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
        Writes, Always, "every request is allowed, unless the server has `Builder::access`"),
    warned("", &["resourcequotas"],
        Writes, Always, "quotas are neither counted nor enforced; use kube-apiserver"),
    warned("", &["limitranges"],
        Writes, Always, "limits are neither set nor enforced; set them in the pods, or use kube-apiserver"),
    warned("scheduling.k8s.io", &["priorityclasses"],
        Writes, Always, "pods do not get their priority from a class; set spec.priority"),
    warned("flowcontrol.apiserver.k8s.io", &["flowschemas", "prioritylevelconfigurations"],
        Writes, Always, "requests are not queued; inject `Fault::too_many_requests()`, or use kube-apiserver"),
    warned("apiregistration.k8s.io", &["apiservices"],
        Writes, Is("with spec.service", |object| has(object, &["spec", "service"])),
        "requests are not forwarded to other servers; define the resources with a CustomResourceDefinition"),
    warned("certificates.k8s.io", &["certificatesigningrequests"],
        Creates, Always, "spec.username, uid, groups and extra are not set; set them in the request"),
    warned("", &["pods"],
        Creates, Is("with spec.priorityClassName and without spec.priority", needs_priority),
        "the priority of the class is not set; set spec.priority"),
    warned("", &["pods"],
        Creates, Is("with spec.runtimeClassName", |object| has(object, &["spec", "runtimeClassName"])),
        "the overhead and the node selector of the class are not set; set them in the pod"),
    warned("", &["namespaces"],
        Writes, Is("with a label pod-security.kubernetes.io/…", has_pod_security),
        "pods are not checked by Pod Security Admission; use kube-apiserver"),

    otherwise(&["pods"],
        "no service account, token volume and default tolerations are added, as without the admission plugins ServiceAccount and DefaultTolerationSeconds; a projected token is accepted all the same"),
    otherwise(&["cronjobs"],
        "a time zone is looked up in the database of the machine: without one, each name is accepted"),
    otherwise(&["services"],
        "addresses and node ports are derived from the name of the service: the same in each run, and none is refused because another service has it; a given address may be outside the range of the cluster; with `Validation::Off`, none is allocated"),
    otherwise(&[],
        "in the message of a cause, a value that is an object or a list is printed as JSON of the API, and no difference of objects follows"),
    otherwise(&["persistentvolumeclaims", "persistentvolumes", "ingresses", "nodes"],
        "no default class, finalizer and taint is added, as without the admission plugins DefaultStorageClass, DefaultIngressClass, StorageObjectInUseProtection and TaintNodesByCondition"),
    otherwise(&["persistentvolumeclaims"],
        "a claim of any class can be resized, as without the admission plugin PersistentVolumeClaimResize"),
    otherwise(&["serviceaccounts"],
        "a token has the claims of Kubernetes, but only this server can verify its signature; it cannot be bound to a webhook configuration"),
    otherwise(&["serviceaccounts", "clusterroles"],
        "no service account `default` is created in a namespace, and no cluster roles are aggregated, as without kube-controller-manager; `Builder::access` does both"),
    otherwise(&["selfsubjectreviews"],
        "without `Builder::access`, the user is `kinformer`, in the group `system:masters`"),
    otherwise(&["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
        "those that kube-apiserver creates when it starts exist with `Builder::access` only"),
    otherwise(&["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
        "a right that is given or taken away counts at once, as if kube-apiserver had no caches; of several bindings that allow a request, the reason names the first one by name"),
    otherwise(&["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "the services of webhooks are those of `Builder::service`; a webhook needs a `caBundle`, and is called over HTTP/1.1 on a new connection each time, and once, also if it answers with `Retry-After` or a redirect"),
    otherwise(&["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "customresourcedefinitions"],
        "the message has other words, if a webhook answers with JSON of another form, or with a patch that cannot be applied or leaves managers that cannot be parsed"),
    otherwise(&["customresourcedefinitions"],
        "a definition is established in the answer to its creation, where kube-apiserver takes a moment"),
    otherwise(&["customresourcedefinitions"],
        "OpenAPI v3 describes no fields of the metadata of custom resources; the schemas of built-in kinds have no fields"),
    otherwise(&["customresourcedefinitions"],
        "the status that the server writes has no manager, where kube-apiserver records itself"),
    otherwise(&["pods/binding"],
        "webhooks and policies see a binding without `managedFields`"),
    otherwise(&["pods"],
        "the second review of a pod whose deletion marks it first has the version of the first one; if it is denied, the pod is not marked"),
    otherwise(&["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "a change counts at once, as if kube-apiserver had no caches"),
    otherwise(&["customresourcedefinitions"],
        "a conversion webhook is called for requests of clients, for one object at a time; for the in-process API, for the managers of other versions, and for admission webhooks of other versions, objects differ only in `apiVersion`, so that a manager may keep fields that it has lost, and an apply may remove others"),
    otherwise(&["customresourcedefinitions"],
        "a list and a watch of objects that cannot be converted fail at once, as with `--watch-cache=false`, where a watch cache tries for some time, and then is empty; an apply ignores fields that a conversion webhook adds and the schema does not have"),
    otherwise(&["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        "a policy acts at once, not after some time; of several that deny a request, the answer names the first one by name; there is no audit log"),
    otherwise(&["validatingadmissionpolicies"],
        "`status.typeChecking`, `status.observedGeneration` and their warnings are missing"),
    otherwise(&["validatingadmissionpolicies", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "an expression that reads `authorizer` is refused (422); errors of the compiler have other words and no line; variables are evaluated before the expression that reads them"),
    otherwise(&["deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs"],
        "nothing is created for them, as without kube-controller-manager; owners, namespaces and definitions are collected"),
    otherwise(&[],
        "JSON is not indented: `pretty` has no effect"),
    otherwise(&[],
        "`fieldValidation` finds unknown fields, in the order of their names, but no duplicate fields"),
    otherwise(&[],
        "YAML is not among the formats of answers; protobuf is with `Builder::protobuf`; a list as `PartialObjectMetadata` is one"),
    otherwise(&[],
        "the message of an error has other words, if it is about a request that cannot be parsed, or a name that is not a path segment"),
    otherwise(&[],
        "`generateName` is not validated in an update"),
    otherwise(&[],
        "an error names a cause of the metadata of a custom resource once, which kube-apiserver repeats"),
    otherwise(&[],
        "tables have other columns or descriptions of their columns, if their kind has few"),
    otherwise(&[],
        "a path of no group, and a method that no path has, get a `Status` with 404 or 405"),
    otherwise(&[],
        "a watch from a version of the future with `sendInitialEvents` gets 504 at once, not an event after three seconds"),
    otherwise(&[],
        "a write of a status changes no annotations, owners and finalizers, which it does for some kinds"),
    otherwise(&["limitranges"],
        "a limit range without a name is refused"),
    otherwise(&["services"],
        "the status of a service that does not exist cannot be updated (404), whatever the update is"),
    otherwise(&[],
        "`ignoreStoreReadErrorWithClusterBreakingPotential` has no effect"),
    otherwise(&[],
        "a bookmark has metadata and no other fields"),
    otherwise(&["customresourcedefinitions"],
        "rules in CEL: an error of the compiler has other words and no line; `!!`, `--`, more than 120 levels, more than 8 KiB, and rules after the first 256 KiB of a schema are refused"),
    otherwise(&["customresourcedefinitions"],
        "rules in CEL: an evaluation counts its work in units that are similar to those of kube-apiserver, with the same limits"),
    otherwise(&["customresourcedefinitions"],
        "rules in CEL: a time zone is looked up in the database of the machine; errors of the functions of Kubernetes have other words"),
];

fn member<'a>(object: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(name))
}

fn has(object: &Map<String, Value>, path: &[&str]) -> bool {
    member(object, path).is_some_and(|value| !value.is_null() && value != "")
}

fn needs_priority(object: &Map<String, Value>) -> bool {
    has(object, &["spec", "priorityClassName"]) && !has(object, &["spec", "priority"])
}

fn has_conditions(object: &Map<String, Value>) -> bool {
    let hooks = object.get("webhooks").and_then(Value::as_array);
    let conditions = |hook: &Value| hook.get("matchConditions").and_then(Value::as_array).map_or(0, Vec::len);
    hooks.is_some_and(|hooks| hooks.iter().any(|hook| conditions(hook) > 0))
}

fn has_pod_security(object: &Map<String, Value>) -> bool {
    let labels = member(object, &["metadata", "labels"]).and_then(Value::as_object);
    labels.is_some_and(|labels| labels.keys().any(|label| label.starts_with("pod-security.kubernetes.io/")))
}

/// Whether a write creates its object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Creation {
    Yes,
    No,
}

/// Returns the warnings for a write of an object, or for a patch by its fields.
pub(super) fn warnings(
    group: &str,
    plural: &str,
    creation: Creation,
    object: &Map<String, Value>,
) -> impl Iterator<Item = String> {
    let applies = move |row: &&Difference| {
        row.case == Case::Warned
            && row.group == group
            && row.resources.contains(&plural)
            && (row.requests != Creates || creation == Creation::Yes)
            && match row.when {
                Always => true,
                Is(_, holds) => holds(object),
            }
    };
    let subject = format!("{plural} of kinformer-apiserver");
    DIFFERENCES.iter().filter(applies).map(move |row| format!("{subject}: {}", row.text))
}

/// Returns the error for a resource or a subresource of Kubernetes that this server does not have; 404 for any other.
pub(super) fn refusal(group: &str, plural: &str, subresource: Option<&str>) -> Status {
    let name = match subresource {
        Some(subresource) => format!("{plural}/{subresource}"),
        None => plural.to_owned(),
    };
    let rows = DIFFERENCES.iter().filter(|row| row.case == Case::Refused && row.group == group);
    // The subresources of a refused resource are refused as well.
    let is_it = |resource: &&&str| **resource == name || **resource == plural;
    let found =
        rows.filter_map(|row| row.resources.iter().find(is_it).map(|resource| (row, resource))).next();
    match found {
        Some((row, resource)) => {
            let message = format!("kinformer-apiserver does not simulate {resource}: {}", row.text);
            Status::new(501, "NotImplemented", message)
        }
        None => Status::no_such_path(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// The table of the documentation.
    fn markdown() -> String {
        let mut out = String::from("<!-- written by crates/apiserver/src/http/differences.rs -->\n");
        let titles = [
            (Case::Refused, "Refused with 501"),
            (Case::Warned, "Stored, with a `Warning`"),
            (Case::Otherwise, "Answered as by a kube-apiserver without these parts"),
        ];
        for (case, title) in titles {
            out += &format!(
                "\n### {title}\n\n| resources | requests | what is missing, and what to do |\n|---|---|---|\n"
            );
            for row in DIFFERENCES.iter().filter(|row| row.case == case) {
                let named = row.resources.iter().map(|resource| format!("`{resource}`"));
                let names = if row.resources.is_empty() {
                    "all".into()
                } else {
                    named.collect::<Vec<_>>().join(", ")
                };
                let group = if row.group.is_empty() { String::new() } else { format!(" of `{}`", row.group) };
                let requests = match row.requests {
                    Requests::All => "all",
                    Creates => "create",
                    Writes => "create, update, patch, apply",
                };
                let when = match row.when {
                    Always => String::new(),
                    Is(when, _) => format!(" {when}"),
                };
                out += &format!("| {names}{group} | {requests}{when} | {} |\n", row.text);
            }
        }
        out
    }

    // contract: E-17d
    #[test]
    fn the_documentation_has_every_difference() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let table = markdown();
        // a published crate has no docs
        if let Ok(text) = std::fs::read_to_string(docs.join("testing.md")) {
            assert!(text.contains(&table), "docs/testing.md does not contain this text:\n{table}");
        }
    }

    // contract: E-17c
    #[test]
    fn subresources_that_are_not_simulated_are_refused() {
        let status = refusal("", "pods", Some("log"));
        assert_eq!((status.code(), status.reason()), (501, "NotImplemented"));
        assert_eq!(
            status.message(),
            "kinformer-apiserver does not simulate pods/log: there are no kubelets and no containers; use a cluster"
        );
        for (group, plural, subresource) in
            [("", "pods", Some("other")), ("apps", "pods", Some("log")), ("", "pods", None)]
        {
            assert_eq!(refusal(group, plural, subresource), Status::no_such_path());
        }
    }

    // contract: E-17b
    #[test]
    fn only_requests_that_ask_for_an_effect_are_warned() {
        let count = |group: &str, plural: &str, creation, object: Value| {
            warnings(group, plural, creation, object.as_object().unwrap()).count()
        };
        let (yes, no) = (Creation::Yes, Creation::No);
        assert_eq!(
            count("", "pods", yes, json!({"spec": {"priorityClassName": "a", "runtimeClassName": "b"}})),
            2
        );
        assert_eq!(count("", "pods", no, json!({"spec": {"priorityClassName": "a"}})), 0);
        assert_eq!(count("", "pods", yes, json!({"spec": {"priorityClassName": "a", "priority": 3}})), 0);
        assert_eq!(count("", "pods", yes, json!({"spec": {"priorityClassName": ""}})), 0);
        assert_eq!(count("apps", "pods", yes, json!({"spec": {"priorityClassName": "a"}})), 0);
        let namespace = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
        assert_eq!(count("", "namespaces", no, namespace), 1);
        assert_eq!(count("", "namespaces", no, json!({"metadata": {"labels": {"a": "b"}}})), 0);
    }
}
