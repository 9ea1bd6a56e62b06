//! Config maps and secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::check::{Check, Fields, Object};
use super::super::names;

pub(super) fn config_map(c: &mut Check, object: &Object, _: Option<&Object>) {
    for (key, _) in object.members("data") {
        let field = format!("data[{key}]");
        c.rules(&field, key, names::data_key(key));
        if object.of("binaryData").has(key) {
            c.invalid(&field, key, "duplicate of key present in binaryData");
        }
    }
    for (key, _) in object.members("binaryData") {
        c.rules(&format!("binaryData[{key}]"), key, names::data_key(key));
    }
}

pub(super) fn secret(c: &mut Check, object: &Object, before: Option<&Object>) {
    if let Some(before) = before {
        c.immutable("type", before.of("type"), object.of("type"));
    }
    let data = object.of("data");
    for (key, _) in object.members("data") {
        c.rules(&format!("data[{key}]"), key, names::data_key(key));
    }
    match object.text("type") {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if object.of("metadata").of("annotations").text(annotation).is_empty() {
                c.required(&format!("metadata.annotations[{annotation}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => json(c, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json(c, data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            c.required("data[username]", "");
            c.required("data[password]", "");
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            c.required("data[ssh-privatekey]", "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.has(key) {
                    c.required(&format!("data[{key}]"), "");
                }
            }
        }
        _ => {}
    }
}

fn json(c: &mut Check, data: &Value, key: &str) {
    let field = format!("data[{key}]");
    let Some(text) = data.of(key).as_str() else { return c.required(&field, "") };
    let bytes = STANDARD.decode(text).unwrap_or_default();
    if serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).is_err() {
        let why = if bytes.is_empty() { "unexpected end of JSON input" } else { "invalid JSON" };
        c.invalid(&field, "<secret contents redacted>", why);
    }
}
