//! Creates the informer of a resource by the options of its factory.

use std::sync::Arc;

use kinformer_kube::PackedObject;
use kinformer_shared_informer::{SharedIndexInformerBuilder, Sources};
use kinformer_store::{IndexFunction, NAMESPACE_INDEX};
use kube_client::Client;
use kube_core::discovery::Scope;

use crate::arrival::Arrival;
use crate::changing_scope::{ChangingScope, MakeParts};
use crate::entry::Registered;
use crate::error::FixedScope;
use crate::kind::{resource_name, versioned_name};
use crate::kube_informer::{Changes, KubeInformer};
use crate::make_source::MakeSource;
use crate::options::Options;
use crate::own_informer::{NewInformer, NotBuilt};
use crate::projection::{Decision, Projection};
use crate::selection::{self, Selected, WatchChoice};
use crate::target::Target;

pub(super) fn registered(target: &Target, informer: Arc<KubeInformer>) -> Registered {
    Registered::Kubernetes { informer, resource: target.resource.clone(), scope: target.scope.clone() }
}

/// Creates an informer of Kubernetes objects with the factory's options and the index by namespace.
#[expect(
    clippy::too_many_lines,
    reason = "it makes each part of an informer once, in the order in which they need each other"
)]
pub(super) fn make(client: &Client, options: &Arc<Options>, target: &Target) -> Arc<KubeInformer> {
    let resource = &target.resource;
    let choice = WatchChoice::default();
    let parts = options.parts(resource, &target.scope, &choice);
    let cache = options.decoded_cache(resource);
    let dropped_fields = options.dropped(resource).cloned().collect();
    let projection = options.projection(resource, target.projection);
    let decision = Decision::default();
    let make_source = MakeSource {
        client: client.clone(),
        options: options.clone(),
        resource: resource.clone(),
        cache: cache.clone(),
        projection,
        decision: decision.clone(),
        choice: choice.clone(),
    };
    let whole = |part: &Selected| make_source.whole(part);
    let name = projection.named(versioned_name(resource));
    let display_name = projection.named(resource_name(resource));
    let builder = |sources| {
        let builder = options.kubernetes_builder(sources, resource, &display_name, &name, &cache);
        builder.scope(selection::names(&parts))
    };
    let arrival = Arrival::new(options.informer_name(&name), options.decode(resource), options.error_hook());
    let arrival = Arc::new(arrival);
    let decoding = |builder: SharedIndexInformerBuilder<PackedObject>| {
        let arrival = arrival.clone();
        builder.on_arrival(move |object| arrival.decode(object))
    };
    #[expect(
        clippy::expect_used,
        reason = "the only error is two indexes with one name, and there is one index"
    )]
    let built = |sources| {
        let builder = decoding(builder(sources)).index(NAMESPACE_INDEX, IndexFunction::by_namespace());
        builder.build().expect("one index")
    };
    let own = options.own_informer(resource).map(|own| {
        let new = NewInformer { resource, parts: &parts, source: &whole, builder: &builder };
        let informer = match decoding(own(new)).build() {
            Ok(informer) => informer,
            Err(error) => built(Sources::one(NotBuilt(error))),
        };
        // The only error: it has an index of this name.
        _ = informer.add_indexers([(NAMESPACE_INDEX, IndexFunction::by_namespace())]);
        informer
    });
    let is_own = own.is_some();
    let has_transform = is_own || options.has_transform(resource);
    let informer = own.unwrap_or_else(|| built(make_source.sources(&parts)));
    if projection == Projection::Whole {
        decision.request_whole();
    }
    let make_parts: Result<MakeParts, _> = match target.scope {
        _ if is_own => Err(FixedScope::OwnInformer),
        Scope::Cluster => Err(FixedScope::ClusterScoped),
        Scope::Namespaced => {
            Ok(Box::new(move |scope, before, next| make_source.of_scope(scope, before, next)))
        }
    };
    let changes = Changes { has_transform, dropped_fields };
    let selected = ChangingScope::new(parts, make_parts, options.scope.lock().clone(), choice.clone());
    let informer = Arc::new(KubeInformer::new(
        informer,
        resource_name(resource).into(),
        arrival,
        changes,
        decision,
        selected,
    ));
    let weak = Arc::downgrade(&informer);
    choice.set_replace_parts(move || {
        let informer = weak.upgrade();
        Box::pin(async move {
            match informer {
                Some(informer) => informer.replace_parts().await,
                None => false,
            }
        })
    });
    informer
}
