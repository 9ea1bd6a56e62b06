//! Kubernetes informers: shared informers with a typed accessor for every built-in kind, listers and label selectors.
//!
//! [`SharedInformerFactory`] gives out one informer for each type; [`accessors`] are its methods for the kinds that
//! Kubernetes has built in, as `factory.core().v1().pods()`. What an informer has stored is read through a
//! [`Lister`], by key, by [`LabelSelector`], in all namespaces or in one.
//!
//! # Trade-offs
//!
//! Which kinds there are depends on the Kubernetes version that the program chooses by a feature of `k8s-openapi`
//! (`v1_33` to `v1_37`); this library chooses none. A kind that only some versions have has an accessor in those.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use kinformer::{LabelSelector, Lister};
//! use kinformer_store::{IndexFunction, Indexer, NAMESPACE_INDEX, Reader};
//!
//! let store = Arc::new(Indexer::builder().index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build()?);
//! let mut pod = Pod::default();
//! pod.metadata.namespace = Some("default".into());
//! pod.metadata.name = Some("web-0".into());
//! pod.metadata.labels = Some([("app".into(), "web".into())].into());
//! store.add(pod)?.into_result()?;
//!
//! let pods = Lister::new(Reader::new(store));
//! let web: LabelSelector = "app in (web, api), !canary".parse()?;
//! assert_eq!(pods.namespace("default").list(&web).len(), 1);
//! assert!(pods.get("default/web-1").is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod accessors;
mod error;
mod factory;
mod generic_informer;
mod lister;
mod selector;

pub use error::Error;
pub use factory::SharedInformerFactory;
pub use generic_informer::GenericInformer;
pub use lister::{Lister, NamespaceLister};
pub use selector::{LabelSelector, SelectorError, SelectorProblem};
