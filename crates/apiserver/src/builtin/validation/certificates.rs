//! Requests for certificates.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn request(c: &mut Check, object: &Object, _: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        let pem = STANDARD.decode(spec.text("request")).unwrap_or_default();
        if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE REQUEST-----") {
            let why = "PEM block type must be CERTIFICATE REQUEST";
            c.invalid("request", spec.of("request"), why);
        }
        let usages = spec.items("usages");
        if usages.is_empty() {
            c.required("usages", "");
        }
        for (index, usage) in texts(usages).enumerate() {
            if !USAGES.contains(&usage) {
                c.not_supported(&format!("usages[{index}]"), usage, &USAGES);
            }
        }
        let mut seen = HashSet::new();
        for (index, usage) in texts(usages).enumerate() {
            if !seen.insert(usage) {
                c.duplicate(&format!("usages[{index}]"), usage);
            }
        }
        signer(c, spec.text("signerName"));
        if let Some(seconds) = spec.int("expirationSeconds").filter(|seconds| *seconds < 600) {
            let rule = "may not specify a duration less than 600 seconds (10 minutes)";
            c.invalid("expirationSeconds", seconds, rule);
        }
    });
}

fn signer(c: &mut Check, name: &str) {
    if name.is_empty() {
        return c.required("signerName", "");
    }
    if name == "kubernetes.io/legacy-unknown" {
        let rule = "the legacy signerName is not allowed via this API version";
        return c.invalid("signerName", name, rule);
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let rule = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return c.invalid("signerName", name, rule);
    };
    for rule in names::subdomain(domain) {
        c.invalid("signerName", domain, &format!("validating label {domain:?}: {rule}"));
    }
    for rule in names::subdomain(path) {
        c.invalid("signerName", path, &format!("validating label {path:?}: {rule}"));
    }
}
