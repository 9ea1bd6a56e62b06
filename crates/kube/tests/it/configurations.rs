//! Configurations that kubectl accepts, and errors that name the invalid field.

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_kube::{Error, KubeListerWatcher, Kubeconfig, client};
use kinformer_reflector::{ListOptions, ListerWatcher};
use kinformer_testing::scripted_http::{Request, ScriptedServer};
use kube_client::Config;
use kube_client::config::AuthInfo;
use serde_json::{Value, json};

use crate::common::{PATIENCE, empty_list};

/// The request of a client of this configuration.
async fn request(server: &ScriptedServer, config: Config) -> Request {
    let source = KubeListerWatcher::<ConfigMap>::new(client(config).unwrap());
    tokio::time::timeout(PATIENCE, source.list(ListOptions::at_version(""))).await.unwrap().unwrap();
    server.requests().pop().unwrap()
}

fn invalid_field(config: Config) -> &'static str {
    match client(config) {
        Err(Error::Config { field, problem }) => {
            assert!(!problem.contains("s3cret"), "{problem}");
            field
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the configuration is valid"),
    }
}

fn with(server: &ScriptedServer, user: Value) -> Config {
    let mut config = server.config();
    config.auth_info = serde_json::from_value::<AuthInfo>(user).unwrap();
    config
}

/// A server without a scheme is one of plain HTTP.
// contract: L-31a
#[tokio::test]
async fn server_without_scheme_is_plain_http() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("{host}:{}", server.address().port());
        request(&server, Config::new(url.parse().unwrap())).await;
    }
}

// contract: L-31b
#[tokio::test]
async fn url_that_is_not_of_a_server_is_an_error() {
    for url in ["/", "/api", "ftp://10.0.0.1", "unix://socket", "https://:6443"] {
        assert_eq!(invalid_field(Config::new(url.parse().unwrap())), "server", "{url}");
    }
}

/// White space around the token of a file or a plugin is ignored.
// contract: L-31c
#[cfg(unix)]
#[tokio::test]
async fn token_of_file_or_plugin_is_trimmed() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, " s3cret\r\n").unwrap();
    let exec = |token: &str| json!({"command": "echo", "args": [json!({"status": {"token": token}}).to_string()], "interactiveMode": "Never"});
    // The file is preferred to a token, as in client-go.
    for user in [
        json!({"tokenFile": file}),
        json!({"tokenFile": file, "token": "another"}),
        json!({"exec": exec("s3cret\n")}),
    ] {
        assert_eq!(request(&server, with(&server, user)).await.token(), Some("s3cret"));
    }
    let missing = folder.path().join("missing");
    let user = json!({"tokenFile": missing, "token": "another"});
    assert_eq!(request(&server, with(&server, user)).await.token(), Some("another"));

    std::fs::write(&file, "\n").unwrap();
    for file in [&file, &missing] {
        assert_eq!(invalid_field(with(&server, json!({"tokenFile": file}))), "tokenFile");
    }
    std::fs::write(&file, "s3cret\ns3cret").unwrap();
    assert_eq!(invalid_field(with(&server, json!({"tokenFile": file}))), "tokenFile");
    assert_eq!(
        invalid_field(with(&server, json!({"exec": exec("s3cret\ns3cret")}))),
        "token of the exec plugin"
    );
}

/// A text that cannot be sent is an error, not a panic.
// contract: L-31b
#[tokio::test]
async fn text_that_is_not_a_header_is_an_error() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    assert_eq!(invalid_field(with(&server, json!({"token": "s3cret\n"}))), "token");
    for (field, user) in [
        ("as", json!({"as": "s3cret\n"})),
        ("as-uid", json!({"as": "a", "as-uid": "s3cret\n"})),
        ("as-groups", json!({"as": "a", "as-groups": ["a", "s3cret\n"]})),
        ("as-user-extra", json!({"as": "a", "as-user-extra": {"a": ["s3cret\n"]}})),
    ] {
        assert_eq!(invalid_field(with(&server, user)), field);
    }
    let provider = json!({"name": "oidc", "config": {"id-token": "s3cret\n"}});
    assert_eq!(invalid_field(with(&server, json!({"auth-provider": provider}))), "auth-provider");
}

/// An empty field is an unset one.
// contract: L-31d
#[cfg(unix)]
#[tokio::test]
async fn empty_field_is_unset() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    let exec =
        json!({"command": "echo", "args": [r#"{"status":{"token":"issued"}}"#], "interactiveMode": "Never"});
    for field in [
        "token",
        "tokenFile",
        "username",
        "password",
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "as",
        "as-uid",
    ] {
        let user = json!({"exec": exec, field: ""});
        let mut config = with(&server, user);
        config.tls_server_name = Some(String::new());
        config.default_namespace = String::new();
        assert_eq!(client(config.clone()).unwrap().default_namespace(), "default");
        let request = request(&server, config).await;
        assert_eq!(request.token(), Some("issued"), "{field}");
        assert!(!request.headers.keys().any(|name| name.as_str().starts_with("impersonate")), "{field}");
    }
    // A password without a user is not sent, and a user needs no password.
    let request_of = async |user| request(&server, with(&server, user)).await;
    assert_eq!(request_of(json!({"password": "p"})).await.header("authorization"), None);
    assert_eq!(request_of(json!({"username": "u"})).await.header("authorization"), Some("Basic dTo="));
}

/// Without the name of a user, the rest of an impersonation is an error: a request without it might be granted more.
// contract: L-31e
#[tokio::test]
async fn impersonation_without_user_is_an_error() {
    let server = ScriptedServer::http(|_| empty_list()).await;
    for user in [
        json!({"as-groups": ["g"]}),
        json!({"as": "", "as-uid": "u"}),
        json!({"as": "", "as-user-extra": {"a": ["b"]}}),
    ] {
        assert_eq!(invalid_field(with(&server, user)), "as");
    }
}

/// A given cluster and a given user replace those of every context, and need none.
// contract: L-31k
#[test]
fn given_cluster_and_user_replace_those_of_the_context() {
    let text = "clusters: [{name: a, cluster: {server: 'https://a'}}, {name: b, cluster: {server: 'https://b'}}]\n\
        users: [{name: u, user: {token: one}}, {name: v, user: {token: two}}]\n\
        contexts: [{name: c, context: {cluster: a, user: u, namespace: ns}}]\n";
    let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
    let shown = |kubeconfig: Kubeconfig, context: Option<&str>| {
        let config = kubeconfig.config(context).map_err(|error| error.to_string())?;
        let token = config.auth_info.token.is_some();
        Ok::<_, String>((config.cluster_url.host().map(str::to_owned), config.default_namespace, token))
    };
    let host = |host: &str| Some(host.to_owned());
    assert_eq!(shown(kubeconfig.clone(), Some("c")), Ok((host("a"), "ns".into(), true)));
    let other = kubeconfig.clone().with_cluster("b").with_user("v");
    assert_eq!(shown(other.clone(), Some("c")), Ok((host("b"), "ns".into(), true)));
    assert_eq!(shown(other, None), Ok((host("b"), "default".into(), true)));
    assert_eq!(shown(kubeconfig.clone().with_cluster("b"), None), Ok((host("b"), "default".into(), false)));
    assert!(shown(kubeconfig.clone().with_user("v"), None).unwrap_err().contains("no current context"));
    assert!(
        shown(kubeconfig.clone().with_user("w"), Some("c")).unwrap_err().ends_with("it has no user \"w\"")
    );
    assert!(shown(kubeconfig.with_cluster("d"), None).unwrap_err().ends_with("it has no cluster \"d\""));
}
