//! Errors as a program prints them.

use std::error::Error;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{ClientError, LabelSelector, Lister, ObjectKey, Packed, kube_client};
use kinformer_store::Indexer;

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
