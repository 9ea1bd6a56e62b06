//! The names of definitions, their conditions, and the approval of their groups.

use serde_json::{Value, json};

use super::{DEFINITIONS, causes, definition};
use crate::common::{Client, server};

/// A definition of a group with other names.
fn named(plural: &str, kind: &str, short: &[&str]) -> Value {
    let mut definition = definition(&json!({"type": "object"}));
    definition["metadata"]["name"] = format!("{plural}.example.com").into();
    definition["spec"]["names"] = json!({"plural": plural, "kind": kind, "shortNames": short});
    definition
}

/// Returns the conditions as lines: type, status and reason.
fn conditions(definition: &Value) -> Vec<String> {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let line = |condition: &Value| ["type", "status", "reason"].map(|field| text(condition, field)).join(" ");
    definition["status"]["conditions"].as_array().unwrap().iter().map(line).collect()
}

/// A definition whose names are used by another one is not served, until the other one no longer has them.
// contract: E-23f
#[tokio::test]
async fn names_of_another_definition_are_not_accepted() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(DEFINITIONS, &named("things", "Thing", &["t"])).await.ok();
    let second = client.post(DEFINITIONS, &named("tools", "Tool", &["t", "to"])).await.ok();
    let waiting = ["NamesAccepted False ShortNamesConflict", "Established False NotAccepted"];
    assert_eq!(conditions(&second), waiting);
    assert_eq!(second["status"]["conditions"][0]["message"], "\"t\" is already in use");
    assert_eq!(
        second["status"]["acceptedNames"],
        json!({"plural": "tools", "singular": "tool", "kind": "Tool", "listKind": "ToolList"})
    );
    let tools = "/apis/example.com/v1/namespaces/default/tools";
    client.get(tools).await.status(404, "NotFound");

    let path = format!("{DEFINITIONS}/things.example.com");
    client.patch(&path, "merge-patch", &json!({"spec": {"names": {"shortNames": ["th"]}}})).await.ok();
    let second = client.get(&format!("{DEFINITIONS}/tools.example.com")).await.ok();
    assert_eq!(
        conditions(&second),
        ["NamesAccepted True NoConflicts", "Established True InitialNamesAccepted"]
    );
    assert_eq!(second["status"]["acceptedNames"], second["spec"]["names"]);
    client.get(tools).await.ok();

    // a definition that is served keeps its names
    let taken = json!({"spec": {"names": {"shortNames": ["th"]}}});
    let path = format!("{DEFINITIONS}/tools.example.com");
    let second = client.patch(&path, "merge-patch", &taken).await.ok();
    let kept = ["NamesAccepted False ShortNamesConflict", "Established True InitialNamesAccepted"];
    assert_eq!(conditions(&second), kept);
    assert_eq!(second["status"]["acceptedNames"]["shortNames"], json!(["t", "to"]));
    let discovery = client.get("/apis/example.com/v1").await.ok();
    let short = discovery["resources"].as_array().unwrap().iter().find(|of| of["name"] == "tools").unwrap();
    assert_eq!(short["shortNames"], json!(["t", "to"]));

    client.delete(&format!("{DEFINITIONS}/things.example.com")).await.ok();
    let second = client.get(&path).await.ok();
    assert_eq!(second["status"]["acceptedNames"]["shortNames"], json!(["th"]));
    assert_eq!(conditions(&second)[0], "NamesAccepted True NoConflicts");
}

// contract: E-23g
#[tokio::test]
async fn groups_of_the_community_need_an_approval() {
    let server = server().await;
    let client = Client::new(&server);
    let mut definition = definition(&json!({"type": "object"}));
    definition["metadata"]["name"] = "things.example.k8s.io".into();
    definition["spec"]["group"] = "example.k8s.io".into();
    let refused = client.post(DEFINITIONS, &definition).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        causes(&refused),
        [
            "metadata.annotations[api-approved.kubernetes.io] Required: Required value: protected groups must have \
          approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"
        ]
    );
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com/1"});
    let made = client.post(DEFINITIONS, &definition).await.ok();
    assert_eq!(conditions(&made)[2], "KubernetesAPIApprovalPolicyConformant True ApprovedAnnotation");
}

/// A definition that no longer requests the names of another one keeps its condition: names that it has are not checked.
// contract: E-23f
#[tokio::test]
async fn conflicts_that_are_taken_back_stay_in_the_conditions() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(DEFINITIONS, &named("things", "Thing", &["t"])).await.ok();
    client.post(DEFINITIONS, &named("tools", "Tool", &["to"])).await.ok();
    let path = format!("{DEFINITIONS}/tools.example.com");
    let names = |names: &[&str]| json!({"spec": {"names": {"shortNames": names}}});
    let conflict = ["NamesAccepted False ShortNamesConflict", "Established True InitialNamesAccepted"];
    let changed = client.patch(&path, "merge-patch", &names(&["t"])).await.ok();
    assert_eq!(conditions(&changed), conflict);
    let changed = client.patch(&path, "merge-patch", &names(&["to"])).await.ok();
    assert_eq!(conditions(&changed), conflict);
    assert_eq!(changed["status"]["acceptedNames"], changed["spec"]["names"]);
    let changed = client.patch(&path, "merge-patch", &names(&["other"])).await.ok();
    assert_eq!(conditions(&changed)[0], "NamesAccepted True NoConflicts");
}
