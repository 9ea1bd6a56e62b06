//! A valid object of each kind is stored, and a broken one is refused.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::samples::samples;
use super::transitions::transitions;
use crate::common::{Client, server};

/// An equal update does not change the object, whether it has the defaults or not.
// contract: E-24a, E-24c
#[tokio::test]
async fn equal_updates_keep_the_version() {
    let server = server().await;
    let client = Client::new(&server);
    for sample in samples("default") {
        let stored = client.post(&sample.path, &sample.object).await.ok();
        let path = format!("{}/sample", sample.path);
        assert_eq!(client.put(&path, &stored).await.ok(), stored, "{path}");
        // the selector of a job must be in its updates
        if sample.object["kind"] != "Job" {
            let mut again = sample.object;
            again["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            assert_eq!(client.put(&path, &again).await.ok(), stored, "{path}");
        }
    }
}

/// A kind, a field and its value, and the field of the cause.
fn broken() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    vec![
        ("Pod", "/spec/restartPolicy", json!("No"), "spec.restartPolicy"),
        ("PodTemplate", "/template/spec/containers/0/name", json!("A_"), "template.spec.containers[0].name"),
        ("ReplicationController", "/spec/replicas", json!(-1), "spec.replicas"),
        ("Deployment", "/spec/replicas", json!(-1), "spec.replicas"),
        ("ReplicaSet", "/spec/replicas", json!(-1), "spec.replicas"),
        ("StatefulSet", "/spec/replicas", json!(-1), "spec.replicas"),
        ("DaemonSet", "/spec/minReadySeconds", json!(-1), "spec.minReadySeconds"),
        ("ControllerRevision", "/revision", json!(-1), "revision"),
        ("Job", "/spec/parallelism", json!(-1), "spec.parallelism"),
        ("CronJob", "/spec/schedule", json!("@every 5"), "spec.schedule"),
        ("ConfigMap", "/data", json!({"a b": "c"}), "data[a b]"),
        ("Secret", "/data", json!({}), "data[tls.crt]"),
        ("Service", "/spec/ports/0/port", json!(0), "spec.ports[0].port"),
        ("Endpoints", "/subsets/0/ports/0/port", json!(0), "subsets[0].ports[0].port"),
        ("PersistentVolumeClaim", "/spec/accessModes", json!([]), "spec.accessModes"),
        ("ResourceQuota", "/spec/scopes", json!(["No"]), "spec.scopes"),
        ("LimitRange", "/spec/limits/0/min/storage", json!("20Gi"), "spec.limits[0].min[storage]"),
        ("Event", "/involvedObject/namespace", json!("other"), "involvedObject.namespace"),
        (
            "Ingress",
            "/spec/rules/0/http/paths/0/pathType",
            json!("No"),
            "spec.rules[0].http.paths[0].pathType",
        ),
        ("NetworkPolicy", "/spec/policyTypes", json!(["No"]), "spec.policyTypes[0]"),
        ("EndpointSlice", "/addressType", json!("No"), "addressType"),
        ("Role", "/rules/0/verbs", json!([]), "rules[0].verbs"),
        ("RoleBinding", "/roleRef/kind", json!("No"), "roleRef.kind"),
        ("HorizontalPodAutoscaler", "/spec/maxReplicas", json!(0), "spec.maxReplicas"),
        ("PodDisruptionBudget", "/spec/minAvailable", json!(-1), "spec.minAvailable"),
        ("Lease", "/spec/leaseDurationSeconds", json!(0), "spec.leaseDurationSeconds"),
        ("Namespace", "/spec/finalizers", json!(["no"]), "spec.finalizers"),
        ("Node", "/spec/taints/0/effect", json!("No"), "metadata.taints[0].effect"),
        ("PersistentVolume", "/spec/csi/volumeHandle", json!(""), "spec.csi.volumeHandle"),
        ("IngressClass", "/spec/controller", json!("no"), "spec.controller"),
        ("ClusterRole", "/rules", json!([{}]), "rules[0].verbs"),
        ("ClusterRoleBinding", "/roleRef/name", json!(""), "roleRef.name"),
        ("StorageClass", "/reclaimPolicy", json!("No"), "reclaimPolicy"),
        ("VolumeAttachment", "/spec/nodeName", json!("A_"), "spec.nodeName"),
        ("CSIDriver", "/spec/fsGroupPolicy", json!("No"), "spec.fsGroupPolicy"),
        ("CSINode", "/spec/drivers/0/nodeID", json!(""), "spec.drivers[0].nodeID"),
        ("PriorityClass", "/preemptionPolicy", json!("No"), "preemptionPolicy"),
        ("RuntimeClass", "/handler", json!("A_"), "handler"),
        (
            "ValidatingWebhookConfiguration",
            "/webhooks/0/timeoutSeconds",
            json!(0),
            "webhooks[0].timeoutSeconds",
        ),
        (
            "MutatingWebhookConfiguration",
            "/webhooks/0/timeoutSeconds",
            json!(0),
            "webhooks[0].timeoutSeconds",
        ),
        ("CertificateSigningRequest", "/spec/usages", json!([]), "spec.usages"),
    ]
}

// contract: E-24c
#[tokio::test]
async fn a_broken_object_of_each_kind_is_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let mut samples = samples("default");
    for (kind, pointer, value, field) in broken() {
        let position = samples.iter().position(|sample| sample.object["kind"] == kind).unwrap();
        let mut sample = samples.remove(position);
        *sample.object.pointer_mut(pointer).unwrap() = value;
        let answer = client.post(&sample.path, &sample.object).await;
        answer.status(422, "Invalid");
        let causes = answer.body["details"]["causes"].as_array().unwrap();
        let fields: BTreeSet<&str> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
        assert!(fields.contains(field), "{kind}: {fields:?}");
    }
    // its only rules are those of the metadata
    assert_eq!(samples.iter().map(|sample| &sample.object["kind"]).collect::<Vec<_>>(), ["ServiceAccount"]);
}

/// Each step is accepted or refused as expected, and an equal update after it changes nothing.
// contract: E-24a, E-24d
#[tokio::test]
async fn transitions_are_as_in_kubernetes() {
    let server = server().await;
    let client = Client::new(&server);
    for transition in transitions("default") {
        let what = &transition.what;
        client.post(&transition.path, &transition.object).await.ok();
        let path = format!("{}/sample", transition.path);
        for (index, step) in transition.steps.iter().enumerate() {
            let answer = client.patch(&format!("{path}{}", step.part), "merge-patch", &step.patch).await;
            match step.refused {
                Some(why) => {
                    let message = answer.status(422, "Invalid");
                    assert!(message.contains(why), "{what}, step {index}: {message}");
                }
                None => assert!(answer.code.is_success(), "{what}, step {index}: {}", answer.body),
            }
            let stored = client.get(&path).await.ok();
            assert_eq!(client.put(&path, &stored).await.ok(), stored, "{what}, step {index}");
        }
        server
            .delete(
                transition.object["apiVersion"].as_str().unwrap(),
                transition.object["kind"].as_str().unwrap(),
                if transition.path.contains("/namespaces/") { "default" } else { "" },
                "sample",
            )
            .unwrap();
    }
}
