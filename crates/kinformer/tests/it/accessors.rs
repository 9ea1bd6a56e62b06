//! Each accessor returns the kind in its name. xtask generates the accessors and tests that every kind has one.

use k8s_openapi::Resource;
use kinformer::{Informer, SharedInformerFactory};

/// A factory that sends no request.
fn factory() -> SharedInformerFactory {
    let config = kube_client::Config::new("http://127.0.0.1:1".parse().unwrap());
    SharedInformerFactory::new(kinformer::client(config).unwrap())
}

fn of<K: Resource>(_: Informer<K>) -> (&'static str, &'static str) {
    (K::API_VERSION, K::URL_PATH_SEGMENT)
}

// contract: F-05a
#[tokio::test]
async fn accessors_have_the_structure_of_client_go() {
    let factory = factory();
    assert_eq!(of(factory.core().v1().pods()), ("v1", "pods"));
    assert_eq!(of(factory.core().v1().endpoints()), ("v1", "endpoints"));
    assert_eq!(of(factory.core().v1().persistent_volume_claims()), ("v1", "persistentvolumeclaims"));
    assert_eq!(of(factory.core().v1().component_statuses()), ("v1", "componentstatuses"));
    assert_eq!(of(factory.core().v1().events()), ("v1", "events"));
    assert_eq!(of(factory.events().v1().events()), ("events.k8s.io/v1", "events"));
    assert_eq!(of(factory.apps().v1().stateful_sets()), ("apps/v1", "statefulsets"));
    let autoscaling = factory.autoscaling();
    assert_eq!(
        of(autoscaling.v1().horizontal_pod_autoscalers()),
        ("autoscaling/v1", "horizontalpodautoscalers")
    );
    assert_eq!(
        of(autoscaling.v2().horizontal_pod_autoscalers()),
        ("autoscaling/v2", "horizontalpodautoscalers")
    );
    assert_eq!(of(factory.batch().v1().cron_jobs()), ("batch/v1", "cronjobs"));
    assert_eq!(of(factory.rbac().v1().cluster_roles()), ("rbac.authorization.k8s.io/v1", "clusterroles"));
    assert_eq!(of(factory.storage().v1().csi_drivers()), ("storage.k8s.io/v1", "csidrivers"));
    assert_eq!(
        of(factory.storage().v1().csi_storage_capacities()),
        ("storage.k8s.io/v1", "csistoragecapacities")
    );
    assert_eq!(of(factory.discovery().v1().endpoint_slices()), ("discovery.k8s.io/v1", "endpointslices"));
    assert_eq!(of(factory.networking().v1().service_cidrs()), ("networking.k8s.io/v1", "servicecidrs"));
    assert_eq!(of(factory.networking().v1().network_policies()), ("networking.k8s.io/v1", "networkpolicies"));
    assert_eq!(
        of(factory.flowcontrol().v1().flow_schemas()),
        ("flowcontrol.apiserver.k8s.io/v1", "flowschemas")
    );
    assert_eq!(
        of(factory.internal().v1alpha1().storage_versions()),
        ("internal.apiserver.k8s.io/v1alpha1", "storageversions")
    );
    assert_eq!(
        of(factory.apiextensions().v1().custom_resource_definitions()),
        ("apiextensions.k8s.io/v1", "customresourcedefinitions")
    );
    assert_eq!(
        of(factory.apiregistration().v1().api_services()),
        ("apiregistration.k8s.io/v1", "apiservices")
    );
}

// contract: F-05a
#[tokio::test]
async fn accessors_depend_on_the_kubernetes_version() {
    let factory = factory();
    k8s_openapi::k8s_if_ge_1_37! {
        assert_eq!(of(factory.lifecycle().v1alpha1().evictions()), ("lifecycle.k8s.io/v1alpha1", "evictions"));
        assert_eq!(of(factory.scheduling().v1beta1().workloads()), ("scheduling.k8s.io/v1beta1", "workloads"));
    }
    k8s_openapi::k8s_if_ge_1_34! {
        assert_eq!(of(factory.resource().v1().resource_claims()), ("resource.k8s.io/v1", "resourceclaims"));
    }
    assert_eq!(
        of(factory.resource().v1beta2().device_classes()),
        ("resource.k8s.io/v1beta2", "deviceclasses")
    );
}
