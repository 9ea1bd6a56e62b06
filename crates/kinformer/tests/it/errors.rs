//! Errors as a program prints them.

use std::error::Error;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{
    ClientError, HandlerError, Informer, InformerError, LabelSelector, Lister, ObjectKey, Packed,
    PackedObject, Registration, SharedInformerFactory, StoreError, kube_client,
};
use kinformer_store::Indexer;
use kinformer_testing::scripted_http::{Answer, in_process_client};

/// What Rust prints of an error that `main` returns.
fn printed(error: impl Into<Box<dyn Error>>) -> String {
    format!("Error: {:?}", error.into())
}

// contract: F-21
#[test]
fn main_prints_the_message() {
    let pods = Lister::<Pod>::new(Indexer::new().reader()).resource_name("pods");
    assert_eq!(printed(pods.get("a/b").unwrap_err()), "Error: pods \"a/b\" not found");
    let key = "a/b/c".parse::<ObjectKey>().unwrap_err();
    assert_eq!(printed(pods.get("a/b/c").unwrap_err()), printed(key.clone()));
    assert_eq!(printed(key.clone()), format!("Error: {key}"));
    let selector = "a in".parse::<LabelSelector>().unwrap_err();
    assert_eq!(printed(selector.clone()), format!("Error: {selector}"));
    let unencodable = Packed::from_value(7).unwrap_err();
    assert_eq!(printed(unencodable), format!("Error: {}", Packed::from_value(7).unwrap_err()));
}

/// The causes are printed too, each once.
// contract: F-21
#[test]
fn main_prints_the_causes() {
    let source = Box::new(kube_client::Error::TlsRequired);
    let kind = ("v1".to_owned(), "Pod".to_owned());
    let error = ClientError::Discovery { api_version: kind.0, kind: kind.1, source };
    let text = printed(error);
    assert_eq!(text.matches(&kube_client::Error::TlsRequired.to_string()).count(), 1, "{text}");
}

/// One error type for the methods of an informer, of its snapshots and of its handlers.
// contract: F-23a, F-23b
#[tokio::test]
async fn methods_of_an_informer_return_one_error() {
    async fn used(pods: &Informer<Pod>) -> Result<(), kinformer::Error> {
        pods.index_by_field("node", &["spec", "nodeName"])?;
        let handler: Registration = pods.for_each(|_| {})?;
        pods.lister().get("a/b").map(drop).or_else(|_| pods.snapshot()?.by_index("node", "a").map(drop))?;
        handler.synced().until(tokio::time::Instant::now()).await?;
        Ok(())
    }
    // Handlers wait for a list that never arrives.
    let (client, _requests) = in_process_client(|_| Answer::never());
    let factory = SharedInformerFactory::new(client);
    let pods = factory.informer::<Pod>();
    factory.start().unwrap();
    assert!(matches!(
        used(&pods).await.unwrap_err(),
        kinformer::Error::Informer(InformerError::Handler(HandlerError::DeadlineExceeded { .. }))
    ));
    let again = used(&pods).await.unwrap_err();
    assert!(matches!(again, kinformer::Error::Informer(InformerError::Indexers { .. })), "{again}");
    let unknown = pods.snapshot().unwrap().index_len("app", "a").unwrap_err();
    assert!(
        matches!(&unknown, kinformer::Error::Index { resource, source }
            if &**resource == "pods" && matches!(**source, StoreError::UnknownIndex { .. })),
        "{unknown}"
    );
    let text = unknown.to_string();
    assert_eq!(
        text,
        factory.informer::<Pod>().snapshot().unwrap().index_values("app").unwrap_err().to_string()
    );
    // The reader of a custom informer has the error of the store.
    let unknown = Indexer::<PackedObject>::new().reader().by_index("app", "a").unwrap_err();
    assert!(matches!(unknown.into(), kinformer::Error::Informer(InformerError::Store(_))));
    factory.shutdown().await.unwrap();
}
