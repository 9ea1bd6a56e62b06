//! HTTPS, and credentials.

use crate::common::{config_map, follow, options, stored, truth};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ApiServer;
use kinformer_kube::{KubeListerWatcher, client};
use kinformer_reflector::{ListOptions, ListerWatcher, SourceError, WatchListMode};
use kube_client::Config;

/// A trusted certificate and the right token are accepted; a wrong token and an untrusted certificate are errors.
// contract: I-03
#[tokio::test(flavor = "multi_thread")]
async fn tls_and_token_authentication() {
    let server = ApiServer::builder().tls().token("t0ken").start().await.unwrap();
    server.create(config_map("a", "1")).unwrap();
    let source = KubeListerWatcher::<ConfigMap>::new(client(server.config().unwrap()).unwrap());
    let follower = follow(source, options(WatchListMode::Auto));
    follower.caught_up(&server).await;
    server.create(config_map("b", "1")).unwrap();
    follower.caught_up(&server).await;
    assert_eq!(stored(&follower.store), truth(&server));
    follower.stop().await;

    let mut wrong = server.config().unwrap();
    wrong.auth_info.token = Some("other".to_owned().into());
    let source = KubeListerWatcher::<ConfigMap>::new(client(wrong).unwrap());
    let error = source.list(ListOptions::at_version("")).await.unwrap_err();
    assert!(matches!(&error, SourceError::Status(status) if status.code == 401), "{error:?}");

    let untrusting = Config::new(server.url().parse().unwrap());
    let source = KubeListerWatcher::<ConfigMap>::new(client(untrusting).unwrap());
    let error = source.list(ListOptions::at_version("")).await.unwrap_err();
    assert!(!matches!(error, SourceError::Status(_)), "{error:?}");
    // The message contains the cause once.
    assert_eq!(error.to_string().matches("invalid peer certificate").count(), 1, "{error}");
    server.shutdown().await;
}
