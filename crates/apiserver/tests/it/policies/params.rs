//! The parameters of bindings.

use serde_json::json;

use super::{bind, check, refused};
use crate::common::{Client, server};

/// Config maps with parameters are in another namespace, so that the policy does not concern them.
// contract: E-28d
#[tokio::test]
async fn parameters_are_found_by_name_and_by_selector() {
    let selector = json!({"matchLabels": {"of": "p"}});
    for (param_ref, denial) in [
        (json!({"name": "one", "namespace": "params", "parameterNotFoundAction": "Deny"}), Some("not 1")),
        (
            json!({"selector": selector, "namespace": "params", "parameterNotFoundAction": "Deny"}),
            Some("not 1"),
        ),
        (json!({"name": "none", "namespace": "params", "parameterNotFoundAction": "Allow"}), None),
        (json!({"name": "one", "parameterNotFoundAction": "Allow"}), None),
        (
            json!({"name": "none", "namespace": "params", "parameterNotFoundAction": "Deny"}),
            Some(
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            ),
        ),
    ] {
        let server = server().await;
        let client = Client::new(&server);
        server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "params"}}))
            .unwrap();
        for (name, value) in [("one", "1"), ("two", "2")] {
            let metadata = json!({"name": name, "namespace": "params", "labels": {"of": "p"}});
            let data = json!({"value": value});
            server
                .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
                .unwrap();
        }
        let validation = json!({"expression": "params.data.value != '1'",
            "messageExpression": "'not ' + params.data.value"});
        let fields =
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [validation]});
        bind(&server, &fields, &json!({"paramRef": param_ref}));
        check(&client, denial).await;
    }
}

// contract: E-28d
#[tokio::test]
async fn an_unknown_kind_of_parameters_denies() {
    let server = server().await;
    let client = Client::new(&server);
    let kind = json!({"apiVersion": "example.com/v1", "kind": "Limit"});
    let fields = json!({"paramKind": kind, "validations": [{"expression": "params == null"}]});
    bind(&server, &fields, &json!({}));
    let message = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure \
        policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'";
    assert_eq!(refused(&client, 422, "Invalid").await, message);
}
