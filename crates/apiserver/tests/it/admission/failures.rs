//! Webhooks that cannot be called.

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{ApiServer, TestCluster};
use kube_client::api::{Api, PostParams};
use serde_json::{Value, json};

use super::{CONFIGURATIONS, Reply, WebhookServer, configure};
use crate::common::{Client, config_map, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns the message of a create.
async fn message(client: &Client) -> String {
    let message = client.post(MAPS, &config_map("a", "1")).await.status(500, "InternalError");
    let start =
        "Internal error occurred: failed calling webhook \"all.example.com\": failed to call webhook: Post ";
    message.strip_prefix(start).unwrap_or_else(|| panic!("{message}")).to_owned()
}

fn service(name: &str, port: u16, authority: &str) -> Value {
    json!({"clientConfig": {"caBundle": authority,
        "service": {"namespace": "default", "name": name, "port": port, "path": "/a"}}})
}

// contract: E-27j
#[tokio::test]
async fn services_need_an_address_and_a_certificate() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let address = webhooks.address;
    let server = ApiServer::builder()
        .service("default", "hooks", 8443, address)
        .service("default", "other", 443, address);
    let server = server.start().await.unwrap();
    let client = Client::new(&server);
    let authority = webhooks.authority.as_str();
    for (fields, expected) in [
        (
            service("none", 443, authority),
            "\"https://none.default.svc:443/a?timeout=10s\": service \"none\" not found",
        ),
        (
            service("hooks", 443, authority),
            "\"https://hooks.default.svc:443/a?timeout=10s\": no service port 443 found for service \"hooks\"",
        ),
        (
            service("hooks", 8443, ""),
            "\"https://hooks.default.svc:8443/a?timeout=10s\": tls: failed to verify certificate: x509: certificate signed \
             by unknown authority",
        ),
        (
            service("other", 443, authority),
            "\"https://other.default.svc:443/a?timeout=10s\": tls: failed to verify certificate: x509: certificate is \
             valid for localhost, hooks.default.svc, not other.default.svc",
        ),
    ] {
        configure(&server, "Validating", "all", json!([webhooks.hook("all", &fields)]));
        assert_eq!(message(&client).await, expected);
        server
            .delete("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "all")
            .unwrap();
    }
    configure(
        &server,
        "Validating",
        "all",
        json!([webhooks.hook("all", &service("hooks", 8443, authority))]),
    );
    client.post(MAPS, &config_map("a", "1")).await.ok();
    assert_eq!(webhooks.take_paths(), ["/a?timeout=10s"]);
}

/// As in Go, a certificate that is in the bundle is trusted, also that of an authority.
// contract: E-27j
#[tokio::test]
async fn certificates_are_judged_as_in_go() {
    let server = server().await;
    let client = Client::new(&server);
    let ca = |params: &mut rcgen::CertificateParams| {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    };
    let old = |params: &mut rcgen::CertificateParams| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    };
    let all = ["localhost", "127.0.0.1"];
    let start = async |names: &[&str], change: fn(&mut rcgen::CertificateParams)| {
        WebhookServer::certified(names, change, |_, _| Reply::allowed()).await
    };
    let other = start(&all, ca).await.authority.clone();
    for (webhooks, authority, expected) in [
        (start(&all, ca).await, None, ""),
        (start(&all, ca).await, Some(&other), "signed by unknown authority"),
        (
            start(&["localhost"], ca).await,
            None,
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            start(&["127.0.0.2"], |_| {}).await,
            Some(&other),
            "x509: certificate is valid for 127.0.0.2, not 127.0.0.1",
        ),
        (start(&all, old).await, None, " is after 2020-01-01T00:00:00Z"),
    ] {
        let mut hook = webhooks.hook("all", &json!({}));
        if let Some(authority) = authority {
            hook["clientConfig"]["caBundle"] = authority.as_str().into();
        }
        configure(&server, "Validating", "all", json!([hook]));
        if expected.is_empty() {
            client.post(MAPS, &config_map("b", "1")).await.ok();
        } else {
            let message = message(&client).await;
            assert!(message.ends_with(expected), "{message}");
        }
        server
            .delete("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "all")
            .unwrap();
    }
}

// contract: E-27j
#[tokio::test]
async fn closed_ports_refuse_connections() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let hook = webhooks.hook("all", &json!({}));
    let address = webhooks.address;
    webhooks.task.abort();
    drop(webhooks);
    configure(&server, "Validating", "all", json!([hook]));
    let mut refused = String::new();
    // The listener is closed when its task has ended.
    while !refused.ends_with("connection refused") {
        tokio::task::yield_now().await;
        refused = message(&client).await;
    }
    assert_eq!(
        refused,
        format!("\"https://{address}/all?timeout=10s\": dial tcp {address}: connect: connection refused")
    );
}

/// A webhook that does not answer costs its timeout, on tokio's clock.
// contract: E-27j
#[tokio::test(start_paused = true)]
async fn webhooks_have_timeouts() {
    let webhooks = WebhookServer::start(|_, _| Reply::Never).await;
    for (policy, seconds) in [("Fail", 3), ("Ignore", 7)] {
        let cluster = TestCluster::start().await.unwrap();
        let hook = webhooks.hook("all", &json!({"failurePolicy": policy, "timeoutSeconds": seconds}));
        configure(cluster.server(), "Validating", "all", json!([hook]));
        let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
        let map: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
        let begun = tokio::time::Instant::now();
        let created = maps.create(&PostParams::default(), &map).await;
        assert_eq!(begun.elapsed().as_secs(), seconds);
        match created {
            Ok(_) => assert_eq!(policy, "Ignore"),
            Err(error) => {
                let expected = format!("all?timeout={seconds}s\": context deadline exceeded");
                assert!(error.to_string().contains(&expected), "{error}");
            }
        }
    }
}

/// A condition without a value is an error, and the failure policy decides. One that is false outweighs it.
// contract: E-28a
#[tokio::test]
async fn conditions_decide_whether_a_webhook_is_called() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let bad = json!({"name": "bad", "expression": "object.missing == 1"});
    let on_a =
        json!({"name": "a", "expression": "object.metadata.name == 'a' && request.operation == 'CREATE'"});
    let hook = |policy: &str, conditions: Value| {
        json!([webhooks.hook("all", &json!({"failurePolicy": policy, "matchConditions": conditions}))])
    };
    configure(&server, "Validating", "matches", hook("Fail", json!([on_a])));
    client.post(MAPS, &config_map("a", "1")).await.ok();
    client.post(MAPS, &config_map("b", "1")).await.ok();
    assert_eq!(webhooks.take().len(), 1);
    configure(&server, "Validating", "ignored", hook("Ignore", json!([bad])));
    configure(&server, "Mutating", "false", hook("Fail", json!([bad, on_a])));
    client.post(MAPS, &config_map("c", "1")).await.ok();
    assert_eq!(webhooks.take().len(), 0);
    configure(&server, "Validating", "fails", hook("Fail", json!([bad])));
    let refused = client.post(MAPS, &config_map("d", "1")).await.status(403, "Forbidden");
    assert_eq!(
        refused,
        "configmaps \"d\" is forbidden: expression 'object.missing == 1' resulted in error: no such key: missing"
    );
    assert_eq!(webhooks.take().len(), 0);
}

/// Conditions are compiled when they are written, and again when they change.
// contract: E-28a
#[tokio::test]
async fn conditions_are_checked_when_they_are_written() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations");
    for (condition, expected) in [
        (
            json!({"name": "a", "expression": "1"}),
            "expression: Invalid value: \"1\": must evaluate to bool but got int",
        ),
        (json!({"name": "a", "expression": " "}), "expression: Required value"),
        (json!({"name": "", "expression": "true"}), "name: Required value"),
        (
            json!({"name": "a", "expression": "params == 1"}),
            "expression: Invalid value: \"params == 1\": compilation failed: ERROR: <input>: undeclared reference to \
             'params' (in container '')",
        ),
    ] {
        let hook = webhooks.hook("all", &json!({"matchConditions": [condition]}));
        let object = json!({"metadata": {"name": "c"}, "webhooks": [hook]});
        let message = client.post(&path, &object).await.status(422, "Invalid");
        assert!(message.ends_with(&format!("webhooks[0].matchConditions[0].{expected}")), "{message}");
    }
}

// contract: E-27j
#[tokio::test]
async fn bundles_without_a_certificate_are_not_used() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let url = format!("https://{}/all", webhooks.address);
    let hook = webhooks.hook("all", &json!({"clientConfig": {"url": url, "caBundle": "bm8="}}));
    configure(&server, "Validating", "all", json!([hook]));
    let refused = client.post(MAPS, &config_map("a", "1")).await.status(500, "InternalError");
    assert_eq!(
        refused,
        "Internal error occurred: failed calling webhook \"all.example.com\": could not get REST client: unable to load \
         root certificates: unable to parse bytes as PEM block"
    );
}

/// A request has the time that it gives itself.
// contract: E-27m
#[tokio::test(start_paused = true)]
async fn requests_have_timeouts() {
    let webhooks = WebhookServer::start(|_, _| Reply::Never).await;
    let cluster = TestCluster::start().await.unwrap();
    configure(cluster.server(), "Validating", "all", json!([webhooks.hook("all", &json!({}))]));
    let create = async |timeout: &str| {
        let request = http::Request::post(format!("{MAPS}?timeout={timeout}"));
        let request = request.body(config_map("a", "1").to_string().into_bytes()).unwrap();
        let begun = tokio::time::Instant::now();
        let error = cluster.client().request::<Value>(request).await.unwrap_err();
        let kube_client::Error::Api(status) = error else { panic!("{error}") };
        (status.code, status.message.clone(), begun.elapsed().as_millis())
    };
    let exceeded = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    assert_eq!(create("2500ms").await, (504, exceeded.to_owned(), 2500));
    let invalid = |why: &str| format!("invalid timeout specified in the request URL - time: {why}");
    assert_eq!(create("x").await, (400, invalid("invalid duration \"x\""), 0));
    assert_eq!(create("5").await, (400, invalid("missing unit in duration \"5\""), 0));
    // none, or too long a time: the timeout of the webhook comes first
    for timeout in ["0s", "2m", "-1s"] {
        let (code, message, _) = create(timeout).await;
        assert!(code == 500 && message.contains("all?timeout=10s"), "{code} {message}");
    }
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    maps.list(&kube_client::api::ListParams::default()).await.unwrap();
}

// contract: E-27m
#[tokio::test]
async fn webhooks_get_the_rest_of_the_time() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    configure(&server, "Validating", "all", json!([webhooks.hook("all", &json!({}))]));
    for (timeout, expected) in [("9500ms", "/all?timeout=10s"), ("4s500ms", "/all?timeout=5s")] {
        client.post(&format!("{MAPS}?dryRun=All&timeout={timeout}"), &config_map("a", "1")).await.ok();
        assert_eq!(webhooks.take_paths(), [expected]);
    }
}

/// Addresses of webhooks of admission and of conversions are checked alike.
// contract: E-27l
#[tokio::test]
async fn configurations_are_checked_when_they_are_written() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{CONFIGURATIONS}/mutatingwebhookconfigurations");
    let form = "; desired format: https://host[/path]";
    let service = |path: &str| json!({"service": {"namespace": "a", "name": "b", "path": path}});
    let label = "segment[0]: a lowercase RFC 1123 subdomain must consist of";
    for (config, expected) in [
        (
            json!({"url": "://x"}),
            vec![format!(
                "url: Required value: url must be a valid URL: parse \"://x\": missing protocol scheme{form}"
            )],
        ),
        (
            json!({"url": "http://u@?q#f"}),
            vec![
                format!("url: Invalid value: \"http\": 'https' is the only allowed URL scheme{form}"),
                format!("url: Invalid value: \"\": host must be specified{form}"),
                "url: Invalid value: \"u\": user information is not permitted in the URL".into(),
                "url: Invalid value: \"f\": fragments are not permitted in the URL".into(),
                "url: Invalid value: \"q\": query parameters are not permitted in the URL".into(),
            ],
        ),
        (service("//"), vec!["service.path: Invalid value: \"//\": segment[0] may not be empty".into()]),
        (
            service("x_y"),
            vec![
                "service.path: Invalid value: \"x_y\": must start with a '/'".into(),
                format!("service.path: Invalid value: \"x_y\": {label}"),
            ],
        ),
        (
            json!({"service": {"namespace": "", "name": "b", "port": 0}}),
            vec![
                "service.name: Required value".into(),
                "service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"
                    .into(),
            ],
        ),
    ] {
        let object = json!({"metadata": {"name": "c"}, "webhooks": [webhooks.hook("all", &json!({"clientConfig": config}))]});
        let refused = client.post(&path, &object).await;
        refused.status(422, "Invalid");
        let causes = refused.body["details"]["causes"].as_array().unwrap();
        let found: Vec<String> = causes
            .iter()
            .map(|cause| {
                format!("{}: {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap())
            })
            .collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(&format!("webhooks[0].clientConfig.{expected}")), "{found}");
        }
    }
    let rules = json!([{"operations": ["*"], "apiGroups": ["", "authorization.k8s.io"], "apiVersions": ["*"],
        "resources": ["pods", "subjectaccessreviews"]}]);
    let mut object =
        json!({"metadata": {"name": "c"}, "webhooks": [webhooks.hook("all", &json!({"rules": rules}))]});
    let created = client.post(&path, &object).await;
    let [warning] = super::warnings(&created)[..] else { panic!("one warning") };
    assert_eq!(
        warning,
        "299 - \"webhooks[0].rules[0]: subjectaccessreviews.authorization.k8s.io is excluded from admission webhooks; this \
         rule will have no effect\""
    );
    object["metadata"]["name"] = "c.static.k8s.io".into();
    let refused = client.post(&path, &object).await.status(422, "Invalid");
    assert!(refused.contains("names ending with \".static.k8s.io\" are reserved for static"), "{refused}");
}
