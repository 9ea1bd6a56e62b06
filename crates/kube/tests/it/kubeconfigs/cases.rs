//! Kubeconfigs with each field absent, null, empty, incomplete or of another type. Data for every program that reads
//! kubeconfigs: this file needs nothing but `serde_json`.

use serde_json::{Map, Value, json};

/// A server, a client of it, and a folder with the files `ca`, `certificate`, `key`, `token` and `plugin`. The file
/// `token` ends with a line break; `plugin` is an exec plugin that issues a token.
pub struct Material {
    /// `https://` with host and port.
    pub server: String,
    /// `http://` with host and port of another server.
    pub plain: String,
    /// In PEM.
    pub ca: String,
    /// In PEM; the certificate of the server itself.
    pub server_certificate: String,
    /// In PEM.
    pub certificate: String,
    /// In PEM.
    pub key: String,
    /// A key of no certificate, in PEM.
    pub other_key: String,
    /// The exec plugin.
    pub exec: Value,
    /// Standard base64.
    pub base64: fn(&[u8]) -> String,
}

/// A kubeconfig, named by its difference from one that works.
pub struct Case {
    pub name: String,
    pub kubeconfig: String,
}

/// A field, a value that works, and the fields beside it.
struct Field {
    name: &'static str,
    value: Value,
    beside: Value,
}

fn field(name: &'static str, value: impl Into<Value>, beside: Value) -> Field {
    Field { name, value: value.into(), beside }
}

/// The forms of a field. `None` leaves it out.
fn forms(value: &Value) -> Vec<(&'static str, Option<Value>)> {
    let mut forms = vec![
        ("valid", Some(value.clone())),
        ("absent", None),
        ("null", Some(Value::Null)),
        ("empty", Some("".into())),
        ("blank", Some(" ".into())),
        ("a number", Some(7.into())),
        ("a list", Some(json!(["x"]))),
        ("a mapping", Some(json!({"x": "y"}))),
    ];
    if let Value::String(text) = value {
        forms.push(("valid with a line break", Some(format!("{text}\n").into())));
        if text.len() > 100 {
            let wrapped = |between: &str| {
                let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
                Some(lines.join(between).into())
            };
            forms.push(("valid in lines", wrapped("\n")));
            forms.push(("valid in CRLF lines", wrapped("\r\n")));
            forms.push(("valid in folded lines", wrapped(" ")));
            forms.push(("not base64", Some("*".into())));
        }
    }
    forms
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The object with other values of some fields.
fn with(value: &Value, other: &Value) -> Value {
    let mut fields = object(value);
    fields.extend(object(other));
    Value::Object(fields)
}

fn without(value: &Value, field: &str) -> Value {
    let mut fields = object(value);
    fields.remove(field);
    Value::Object(fields)
}

fn kubeconfig(cluster: &Value, user: &Value, context: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": context}],
    })
}

pub fn cases(material: &Material) -> Vec<Case> {
    let base64 = |text: &str| (material.base64)(text.as_bytes());
    let (ca, certificate, key) = (base64(&material.ca), base64(&material.certificate), base64(&material.key));
    let cluster = json!({"server": material.server, "certificate-authority-data": ca});
    let user = json!({"token": "literal"});
    let context = json!({"cluster": "c", "user": "u"});
    let exec = json!({"exec": material.exec});
    let mut cases = Vec::new();
    let mut add =
        |name: String, kubeconfig: Value| cases.push(Case { name, kubeconfig: kubeconfig.to_string() });

    // The fields of the cluster.
    let without_ca = json!({"server": material.server});
    for Field { name, value, beside } in [
        field("server", material.server.clone(), without(&cluster, "server")),
        field("certificate-authority-data", ca.clone(), without_ca.clone()),
        field("certificate-authority", "ca", without_ca.clone()),
        field("insecure-skip-tls-verify", true, without_ca.clone()),
        field("tls-server-name", "127.0.0.1", cluster.clone()),
        field("disable-compression", true, cluster.clone()),
        field("proxy-url", "", cluster.clone()),
        field("extensions", json!([]), cluster.clone()),
    ] {
        for (form, value) in forms(&value) {
            let cluster = value.map_or(beside.clone(), |value| with(&beside, &json!({name: value})));
            add(format!("cluster.{name}: {form}"), kubeconfig(&cluster, &user, &context));
        }
    }
    let host = material.plain.trim_start_matches("http://");
    for (form, server) in [
        ("plain HTTP", material.plain.clone()),
        ("a host without a scheme", host.to_owned()),
        ("a host without a scheme, with a slash", format!("{host}/")),
        ("a host without a scheme, with a path", format!("{host}/path")),
        ("with a slash", format!("{}/", material.server)),
        ("with a path", format!("{}/path/", material.server)),
        ("upper case", material.server.to_uppercase()),
        ("another scheme", material.server.replace("https", "ftp")),
        ("only a path", "/path".to_owned()),
        ("a scheme in upper case", material.server.replace("https", "HTTPS")),
        ("white space before it", format!(" {}", material.server)),
        ("a user", material.server.replace("//", "//name:word@")),
        ("a query", format!("{}/?x=y", material.server)),
        ("a fragment", format!("{}/#x", material.server)),
        ("two slashes", format!("{}//path", material.server)),
        ("an escape", format!("{}/a%2Fb", material.server)),
        ("without a host", "https://".to_owned()),
        ("without slashes", material.server.replace("//", "")),
        (
            "without a port number",
            format!("{}:", material.server.rsplit_once(':').map_or("", |(host, _)| host)),
        ),
    ] {
        let cluster = with(&cluster, &json!({"server": server}));
        add(format!("cluster.server: {form}"), kubeconfig(&cluster, &user, &context));
    }
    let (junk, not_a_certificate) =
        ("-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n", base64("x"));
    let block = format!("-----BEGIN CERTIFICATE-----\n{not_a_certificate}\n-----END CERTIFICATE-----\n");
    for (form, pem) in [
        ("the certificate of the server", material.server_certificate.clone()),
        ("with a block that is not base64", [junk, &material.ca].concat()),
        ("with a block that is not a certificate", [&material.ca[..], &block].concat()),
        ("with a private key", [&material.key[..], &material.ca].concat()),
        ("without a certificate", material.key.clone()),
        ("only a block that is not a certificate", block.clone()),
    ] {
        let cluster = with(&cluster, &json!({"certificate-authority-data": base64(&pem)}));
        add(format!("cluster.certificate-authority-data: {form}"), kubeconfig(&cluster, &user, &context));
    }
    for (form, more) in [
        ("data and file", json!({"certificate-authority": "ca"})),
        ("empty data and file", json!({"certificate-authority-data": "", "certificate-authority": "ca"})),
        ("data and empty file", json!({"certificate-authority": ""})),
        ("and insecure", json!({"insecure-skip-tls-verify": true})),
    ] {
        add(
            format!("cluster.certificate-authority: {form}"),
            kubeconfig(&with(&cluster, &more), &user, &context),
        );
    }

    // The fields of the user, alone and beside an exec plugin.
    for Field { name, value, beside } in [
        field("token", "literal", json!({})),
        field("tokenFile", "token", json!({})),
        field("tokenFile", "token", json!({"token": "literal"})),
        field("username", "name", json!({"password": "word"})),
        field("password", "word", json!({"username": "name"})),
        field("client-certificate-data", certificate.clone(), json!({"client-key-data": key})),
        field("client-key-data", key.clone(), json!({"client-certificate-data": certificate})),
        field("client-certificate", "certificate", json!({"client-key": "key"})),
        field("client-key", "key", json!({"client-certificate": "certificate"})),
        field("as", "someone", json!({"token": "literal"})),
        field("as-uid", "id", json!({"token": "literal", "as": "someone"})),
        field("as-uid", "id", json!({"token": "literal"})),
        field("as-groups", json!(["one", "two"]), json!({"token": "literal", "as": "someone"})),
        field("as-groups", json!(["one"]), json!({"token": "literal", "as": ""})),
        field("as-user-extra", json!({"x": ["y"]}), json!({"token": "literal", "as": "someone"})),
        field("auth-provider", Value::Null, json!({"token": "literal"})),
    ] {
        let names: Vec<_> = object(&beside)
            .iter()
            .map(|(name, value)| if value == "" { format!("empty {name}") } else { name.clone() })
            .collect();
        for (form, value) in forms(&value) {
            let user = value.map_or(beside.clone(), |value| with(&beside, &json!({name: value})));
            let name = format!("user.{name} ({}): {form}", names.join(", "));
            add(name.clone(), kubeconfig(&cluster, &user, &context));
            if !name.contains("as-")
                && !name.contains("token)")
                && !matches!(form, "a number" | "a list" | "a mapping")
            {
                add(format!("{name}, with exec"), kubeconfig(&cluster, &with(&user, &exec), &context));
            }
        }
    }
    for (form, user) in [
        (
            "all empty",
            json!({
                "token": "", "tokenFile": "", "username": "", "password": "", "client-certificate": "",
                "client-certificate-data": "", "client-key": "", "client-key-data": "", "as": "", "as-uid": "",
                "as-groups": null, "as-user-extra": null, "auth-provider": null, "exec": null,
            }),
        ),
        (
            "token and certificate",
            json!({
                "token": "literal", "client-certificate-data": certificate, "client-key-data": key,
            }),
        ),
        (
            "empty token and certificate",
            json!({
                "token": "", "client-certificate-data": certificate, "client-key-data": key,
            }),
        ),
        (
            "empty data and files",
            json!({
                "client-certificate-data": "", "client-key-data": "", "client-certificate": "certificate", "client-key": "key",
            }),
        ),
        (
            "data and empty files",
            json!({
                "client-certificate-data": certificate, "client-key-data": key, "client-certificate": "", "client-key": "",
            }),
        ),
        (
            "data and file",
            json!({
                "client-certificate-data": certificate, "client-key-data": key, "client-certificate": "certificate",
            }),
        ),
        (
            "certificate and key in one file's data",
            json!({
                "client-certificate-data": base64(&[&material.key[..], &material.certificate].concat()),
                "client-key-data": base64(&[&material.certificate[..], &material.key].concat()),
            }),
        ),
        (
            "a chain of certificates",
            json!({
                "client-certificate-data": base64(&[&material.certificate[..], &material.ca].concat()),
                "client-key-data": key,
            }),
        ),
        (
            "text before the certificate",
            json!({"client-certificate-data": base64(&format!("x\n{}", material.certificate)), "client-key-data": key}),
        ),
        (
            "data that is no certificate",
            json!({"client-certificate-data": not_a_certificate, "client-key-data": key}),
        ),
        (
            "data that is no key",
            json!({"client-certificate-data": certificate, "client-key-data": not_a_certificate}),
        ),
        ("a token with a space", json!({"token": "two words"})),
        ("a token with a space before it", json!({"token": " literal"})),
        ("a token that is not ASCII", json!({"token": "\u{e4}"})),
        ("a user name that is not ASCII", json!({"username": "\u{e4}", "password": ":"})),
        ("to impersonate a name that is not ASCII", json!({"token": "literal", "as": "\u{e4}"})),
        ("to impersonate with a space before the name", json!({"token": "literal", "as": " someone "})),
        ("to impersonate null groups", json!({"token": "literal", "as": "someone", "as-groups": [null, ""]})),
        (
            "to impersonate no groups",
            json!({"token": "literal", "as": "", "as-groups": [], "as-user-extra": {}}),
        ),
        ("to impersonate a null extra", json!({"token": "literal", "as": "", "as-user-extra": {"x": null}})),
        (
            "to impersonate extras",
            json!({"token": "literal", "as": "someone", "as-user-extra": {
                "Upper": ["a", "b"], "with/slash": ["c"], "with space": ["d"], "100%": ["e"], "\u{e4}": ["f"], "none": [],
                "null": [null],
            }}),
        ),
        (
            "to impersonate an extra without a name",
            json!({"token": "literal", "as": "someone", "as-user-extra": {"": ["x"]}}),
        ),
        ("an auth provider", json!({"auth-provider": {"name": "oidc", "config": {"id-token": "x"}}})),
        ("an unknown auth provider", json!({"auth-provider": {"name": "none"}})),
        ("an auth provider beside a token", json!({"token": "literal", "auth-provider": {"name": "none"}})),
        ("token and password", json!({"token": "literal", "username": "name", "password": "word"})),
        (
            "another key",
            json!({"client-certificate-data": certificate, "client-key-data": base64(&material.other_key)}),
        ),
        ("an unknown field", json!({"token": "literal", "x": {"y": 1}})),
    ] {
        add(format!("user: {form}"), kubeconfig(&cluster, &user, &context));
    }

    // The fields of the exec plugin.
    for (name, value) in [
        ("command", material.exec["command"].clone()),
        ("apiVersion", material.exec["apiVersion"].clone()),
        ("args", material.exec["args"].clone()),
        ("env", json!([{"name": "A", "value": "b"}])),
        ("installHint", json!("install it")),
        ("interactiveMode", json!("Never")),
        ("provideClusterInfo", json!(true)),
    ] {
        for (form, value) in forms(&value) {
            let base = without(&material.exec, name);
            let exec = value.map_or(base.clone(), |value| with(&base, &json!({name: value})));
            add(format!("user.exec.{name}: {form}"), kubeconfig(&cluster, &json!({"exec": exec}), &context));
        }
    }

    for (form, field, value) in [
        ("of null", "args", json!([null, material.exec["args"][0]])),
        ("of numbers", "args", json!([7])),
        ("of null", "env", json!([null])),
        ("without a name", "env", json!([{"value": "x"}])),
        ("with a null value", "env", json!([{"name": "X", "value": null}])),
        ("with a number", "env", json!([{"name": "X", "value": 7}])),
        ("of texts", "env", json!(["X=y"])),
        ("a beta version", "apiVersion", json!("client.authentication.k8s.io/v1beta1")),
        ("an alpha version", "apiVersion", json!("client.authentication.k8s.io/v1alpha1")),
        ("another group", "apiVersion", json!("v1")),
        ("Always", "interactiveMode", json!("Always")),
        ("IfAvailable", "interactiveMode", json!("IfAvailable")),
        ("lower case", "interactiveMode", json!("never")),
        ("a relative path", "command", json!("./sh")),
        ("in PATH", "command", json!("sh")),
    ] {
        let exec = with(&material.exec, &json!({field: value}));
        add(format!("user.exec.{field}: {form}"), kubeconfig(&cluster, &json!({"exec": exec}), &context));
    }
    let issued = |status: Value| {
        json!({"apiVersion": material.exec["apiVersion"], "kind": "ExecCredential", "status": status})
            .to_string()
    };
    let token = issued(json!({"token": "issued"}));
    for (form, output) in [
        ("a token", token.clone()),
        ("without a kind", token.replace("ExecCredential", "")),
        ("of another kind", token.replace("ExecCredential", "Secret")),
        ("without a version", json!({"kind": "ExecCredential", "status": {"token": "issued"}}).to_string()),
        ("of another version", token.replace("/v1", "/v1beta1")),
        ("of another group", token.replace("client.authentication.k8s.io/", "")),
        ("with a second document", format!("{token} {token}")),
        ("with text after it", format!("{token} x")),
        ("with text before it", format!("x {token}")),
        ("with a byte order mark", format!("\u{feff}{token}")),
        (
            "in YAML",
            format!(
                "apiVersion: {}\nkind: ExecCredential\nstatus: {{token: issued}}",
                material.exec["apiVersion"]
            ),
        ),
        ("empty", String::new()),
        ("null", "null".to_owned()),
        ("a list", "[]".to_owned()),
        ("a null status", issued(Value::Null)),
        ("an empty status", issued(json!({}))),
        ("a null token", issued(json!({"token": null}))),
        ("an empty token", issued(json!({"token": ""}))),
        ("a blank token", issued(json!({"token": " "}))),
        ("a numeric token", issued(json!({"token": 7}))),
        ("a token with a space before it", issued(json!({"token": " issued"}))),
        ("a field in upper case", issued(json!({"Token": "issued"}))),
        ("an unknown field", issued(json!({"token": "issued", "x": 1}))),
        ("an empty expiry", issued(json!({"token": "issued", "expirationTimestamp": ""}))),
        ("a null expiry", issued(json!({"token": "issued", "expirationTimestamp": null}))),
        (
            "an expiry in the past",
            issued(json!({"token": "issued", "expirationTimestamp": "2020-01-01T00:00:00Z"})),
        ),
        (
            "an expiry with a zone",
            issued(json!({"token": "issued", "expirationTimestamp": "2099-01-01T00:00:00+02:00"})),
        ),
        ("an expiry that is none", issued(json!({"token": "issued", "expirationTimestamp": "tomorrow"}))),
        ("a numeric expiry", issued(json!({"token": "issued", "expirationTimestamp": 4000000000_u64}))),
        (
            "a certificate without a key",
            issued(json!({"token": "issued", "clientCertificateData": material.certificate})),
        ),
        (
            "a certificate",
            issued(json!({"clientCertificateData": material.certificate, "clientKeyData": material.key})),
        ),
        (
            "a certificate and a token",
            issued(json!({
                "token": "issued", "clientCertificateData": material.certificate, "clientKeyData": material.key,
            })),
        ),
        (
            "a certificate in base64",
            issued(json!({"clientCertificateData": certificate, "clientKeyData": key})),
        ),
        (
            "another key",
            issued(
                json!({"clientCertificateData": material.certificate, "clientKeyData": material.other_key}),
            ),
        ),
    ] {
        let exec = with(&material.exec, &json!({"args": ["-c", format!("cat << 'END'\n{output}\nEND")]}));
        add(format!("output of exec: {form}"), kubeconfig(&cluster, &json!({"exec": exec}), &context));
    }

    // The fields of the context, and the lists.
    for (name, value) in [("cluster", json!("c")), ("user", json!("u")), ("namespace", json!("there"))] {
        for (form, value) in forms(&value) {
            let base = without(&context, name);
            let context = value.map_or(base.clone(), |value| with(&base, &json!({name: value})));
            add(format!("context.{name}: {form}"), kubeconfig(&cluster, &user, &context));
        }
    }
    let whole = kubeconfig(&cluster, &user, &context);
    for (name, value) in [
        ("current-context", json!("c")),
        ("apiVersion", json!("v1")),
        ("kind", json!("Config")),
        ("preferences", json!({})),
        ("extensions", json!([])),
    ] {
        for (form, value) in forms(&value) {
            let base = without(&whole, name);
            add(
                format!("{name}: {form}"),
                value.map_or(base.clone(), |value| with(&base, &json!({name: value}))),
            );
        }
    }

    // Another entry is broken.
    for (list, item) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
        for (form, entry) in [
            ("null", Value::Null),
            ("a text", json!("x")),
            ("without a name", json!({item: {}})),
            ("without a value", json!({"name": "x"})),
            ("a null value", json!({"name": "x", item: null})),
            ("an empty value", json!({"name": "x", item: {}})),
            ("a null name", json!({"name": null, item: {}})),
            ("a numeric name", json!({"name": 7, item: {}})),
            ("a value of another type", json!({"name": "x", item: ["y"]})),
            (
                "a field of another type",
                json!({"name": "x", item: {
                    "server": 7, "token": 7, "namespace": 7, "extensions": [{"name": "x"}],
                }}),
            ),
            ("an extension without a value", json!({"name": "x", item: {"extensions": [{"name": "x"}]}})),
        ] {
            let mut other = whole.clone();
            let before: Vec<Value> = other[list].as_array().cloned().unwrap_or_default();
            other[list] = [vec![entry], before].concat().into();
            add(format!("another of {list}: {form}"), other);
        }
    }
    for (form, exec) in [
        ("interactiveMode empty", json!({"command": "x", "apiVersion": "v1", "interactiveMode": ""})),
        ("provideClusterInfo null", json!({"command": "x", "apiVersion": "v1", "provideClusterInfo": null})),
    ] {
        let mut other = whole.clone();
        other["users"] = json!([{"name": "x", "user": {"exec": exec}}, other["users"][0]]);
        add(format!("another of users: {form}"), other);
    }
    for list in ["clusters", "users", "contexts"] {
        let mut other = whole.clone();
        other[list] = json!([other[list][0], other[list][0]]);
        add(format!("another of {list}: the same name"), other);
    }
    let broken = json!({"name": "x", "user": {"client-certificate-data": "*"}});
    let mut other = whole.clone();
    other["users"] = json!([broken, other["users"][0]]);
    add("another of users: not base64".to_owned(), other);

    // Texts in YAML.
    let text = whole.to_string();
    let mut other_user = whole.clone();
    other_user["users"][0]["user"] = json!({"token": "of-another-document"});
    let mut aliased = whole.clone();
    let user = std::mem::replace(&mut aliased["users"][0]["user"], "alias".into());
    let anchored = aliased.to_string().replacen('{', &format!("{{anchored: &user {user}, "), 1);
    let indented = format!("{whole:#}");
    for (name, kubeconfig) in [
        ("an anchor", anchored.replace("\"alias\"", "*user ")),
        ("a merge key", anchored.replace("\"alias\"", "{<<: *user }")),
        ("two documents", format!("{text}\n---\n{other_user}\n")),
        ("CRLF line ends", indented.replace('\n', "\r\n")),
        ("a byte order mark", format!("\u{feff}{text}")),
        ("a comment", format!("# comment\n---\n{text}\n")),
        (
            "a repeated key",
            text.replacen("\"kind\":\"Config\"", "\"kind\":\"Config\",\"kind\":\"Config\"", 1),
        ),
        ("empty", String::new()),
        ("a list", "[]".to_owned()),
        ("not YAML", "{".to_owned()),
        ("two documents", format!("{text}\n---\n{{}}\n")),
        ("two documents, the first empty", format!("---\n---\n{text}\n")),
        (
            "another document with another token",
            format!("{text}\n---\n{}\n", text.replace("literal", "other")),
        ),
        ("the end of a document", format!("{text}\n...\n")),
        ("a directive", format!("%YAML 1.1\n---\n{text}\n")),
        ("an anchor", text.replacen("\"literal\"", "&a literal, x: *a", 1)),
        ("a key in upper case", text.replacen("\"token\"", "\"Token\"", 1)),
        ("a tab", text.replacen("\"token\":", "\"token\":\t", 1)),
    ] {
        cases.push(Case { name: format!("text: {name}"), kubeconfig });
    }
    for scalar in [
        "plain",
        "'single'",
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "True",
        "FALSE",
        "~",
        "Null",
        "0x10",
        "0o7",
        "017",
        "1_000",
        "1e3",
        "1.5",
        ".inf",
        ".nan",
        "2001-01-01",
        "12:30:45",
        "!!str 7",
        "!!int 7",
        "!!binary bGl0",
        "a#b",
        "a b",
        "+1",
        "0b1",
        "=",
        "<<",
        "1.0.0",
        "0x1g",
    ] {
        let kubeconfig = text.replacen("\"literal\"", &format!("{scalar} "), 1);
        cases.push(Case { name: format!("text: token {scalar}"), kubeconfig });
    }
    let text = kubeconfig(&with(&without_ca, &json!({"insecure-skip-tls-verify": true})), &user, &context)
        .to_string();
    for scalar in ["true", "True", "TRUE", "yes", "on", "y", "\"true\"", "1", "!!bool yes", "no"] {
        let kubeconfig = text.replacen(
            "\"insecure-skip-tls-verify\":true",
            &format!("insecure-skip-tls-verify: {scalar} "),
            1,
        );
        cases.push(Case { name: format!("text: insecure-skip-tls-verify {scalar}"), kubeconfig });
    }
    cases
}
