//! Changes of objects, one after another. The comparison with kube-apiserver has the same ones.

use serde_json::{Value, json};

/// An object, and what happens to it.
pub(crate) struct Transition {
    pub(crate) what: String,
    /// The path of the objects of its kind.
    pub(crate) path: String,
    pub(crate) object: Value,
    pub(crate) steps: Vec<Step>,
}

/// A merge patch of an object or of its status.
pub(crate) struct Step {
    /// Empty or `/status`.
    pub(crate) part: &'static str,
    pub(crate) patch: Value,
    /// A part of the message, if it is refused.
    pub(crate) refused: Option<&'static str>,
}

fn ok(patch: Value) -> Step {
    Step { part: "", patch, refused: None }
}

fn status(status: Value) -> Step {
    Step { part: "/status", patch: json!({"status": status}), refused: None }
}

fn refused(step: Step, why: &'static str) -> Step {
    Step { refused: Some(why), ..step }
}

pub(crate) fn transitions(namespace: &str) -> Vec<Transition> {
    let mut all = services();
    all.extend([balanced_service(), job(), claim(), claim_of_source(), deployment(), gated_pod(), slice()]);
    all.extend([volume(), shown_namespace()]);
    for transition in &mut all {
        transition.path = transition.path.replace("{namespace}", namespace);
    }
    all
}

fn transition(what: &str, path: &str, object: Value, steps: Vec<Step>) -> Transition {
    Transition { what: what.to_owned(), path: path.to_owned(), object, steps }
}

const SERVICES: &str = "/api/v1/namespaces/{namespace}/services";

fn service(spec: &Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sample"},
        "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

/// Each type of service and policy becomes each other one, and then the first one again.
fn services() -> Vec<Transition> {
    let specs = [
        json!({"type": "ClusterIP"}),
        json!({"type": "ClusterIP", "externalIPs": ["203.0.113.7"]}),
        json!({"type": "NodePort"}),
        json!({"type": "NodePort", "externalTrafficPolicy": "Local"}),
        json!({"type": "LoadBalancer"}),
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "loadBalancerClass": "a.example.com/b"}),
        json!({"type": "ExternalName", "externalName": "a.example.com"}),
    ];
    let mut all = Vec::new();
    for (from, to) in specs.iter().flat_map(|from| specs.iter().map(move |to| (from, to))) {
        let has_class = |spec: &Value| !spec["loadBalancerClass"].is_null();
        let balanced = |spec: &Value| spec["type"] == "LoadBalancer";
        let step = |from: &Value, to: &Value| {
            let step = ok(json!({"spec": to}));
            let is_fixed = balanced(from) && balanced(to) && !has_class(from) && has_class(to);
            if is_fixed { refused(step, "spec.loadBalancerClass: Invalid value") } else { step }
        };
        let mut steps = vec![step(from, to)];
        if steps[0].refused.is_none() {
            // the fields of the other type stay in the patch
            steps.push(ok(json!({"spec": {"type": from["type"], "externalName": from["externalName"]}})));
        }
        all.push(transition(&format!("service {from} to {to}"), SERVICES, service(from), steps));
    }
    all
}

fn balanced_service() -> Transition {
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let policy = |policy: &str| json!({"spec": {"externalTrafficPolicy": policy}});
    let ingress = |ingress: Value| status(json!({"loadBalancer": {"ingress": [ingress]}}));
    let steps = vec![
        refused(
            ok(json!({"spec": {"healthCheckNodePort": 30001}})),
            "healthCheckNodePort: Forbidden: field is immutable",
        ),
        ok(json!({"spec": {"healthCheckNodePort": null}})),
        ok(policy("Cluster")),
        ok(policy("Local")),
        refused(
            ok(json!({"spec": {"ports": [{"name": "a", "port": 80, "nodePort": 80}]}})),
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        refused(ingress(json!({"ip": "x"})), "status.loadBalancer.ingress[0].ip: Invalid value"),
        refused(ingress(json!({"hostname": "10.1.2.3"})), "must be a DNS name, not an IP address"),
        ingress(json!({"ip": "203.0.113.9"})),
        ok(json!({"spec": {"type": "NodePort"}})),
        refused(ingress(json!({"ip": "203.0.113.9"})), "may only be used when `spec.type` is 'LoadBalancer'"),
    ];
    transition("balanced service", SERVICES, service(&local), steps)
}

fn job() -> Transition {
    let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sample"}, "spec": {"suspend": true,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}}}});
    let template = |spec: Value| ok(json!({"spec": {"template": {"spec": spec}}}));
    let selected = |disk: &str| template(json!({"nodeSelector": {"disk": disk}}));
    let resources =
        json!({"containers": [{"name": "a", "image": "a:1", "resources": {"requests": {"cpu": "1"}}}]});
    let condition = |kind: &str, value: &str| json!({"type": kind, "status": value});
    let conditions = |conditions: Value| status(json!({"conditions": conditions}));
    let near = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]}});
    let node = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}});
    let steps = vec![
        selected("ssd"),
        template(json!({"affinity": node})),
        refused(template(json!({"affinity": near})), "field is immutable"),
        ok(json!({"spec": {"suspend": false}})),
        status(json!({"startTime": "2026-01-02T03:04:05Z", "active": 1, "ready": 1})),
        refused(selected("hdd"), "field is immutable"),
        refused(
            status(json!({"startTime": "2026-01-02T03:04:06Z"})),
            "immutable for unsuspended job once set",
        ),
        refused(status(json!({"ready": 2})), "cannot set more ready pods than active"),
        ok(json!({"spec": {"suspend": true}})),
        refused(selected("hdd"), "field is immutable"),
        status(
            json!({"active": 0, "ready": 0, "startTime": null, "conditions": [condition("Suspended", "True")]}),
        ),
        selected("hdd"),
        template(resources),
        refused(
            conditions(json!([condition("Complete", "True")])),
            "without the SuccessCriteriaMet=true condition",
        ),
        refused(conditions(json!([condition("Failed", "True")])), "without the FailureTarget=true condition"),
        ok(json!({"spec": {"suspend": false}})),
        status(json!({"startTime": "2026-01-02T03:05:05Z", "failed": 1,
            "conditions": [condition("Suspended", "False"), condition("FailureTarget", "True")]})),
        refused(status(json!({"failed": 0})), "cannot decrease the failed counter"),
        conditions(json!([condition("FailureTarget", "True"), condition("Failed", "True")])),
        refused(conditions(json!([])), "cannot disable the terminal Failed=True condition"),
    ];
    transition("job", "/apis/batch/v1/namespaces/{namespace}/jobs", object, steps)
}

const CLAIMS: &str = "/api/v1/namespaces/{namespace}/persistentvolumeclaims";

fn claim_with(spec: &Value) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "sample"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "a", "resources": {"requests": {"storage": "1Gi"}}}});
    for (field, value) in spec.as_object().unwrap() {
        claim["spec"][field] = value.clone();
    }
    claim
}

fn claim() -> Transition {
    let size = |size: &str| ok(json!({"spec": {"resources": {"requests": {"storage": size}}}}));
    let steps = vec![
        refused(size("2Gi"), "spec is immutable after creation except"),
        ok(json!({"spec": {"volumeName": "a"}})),
        status(json!({"phase": "Bound", "capacity": {"storage": "1Gi"}})),
        size("3Gi"),
        size("2Gi"),
        refused(size("1Gi"), "field can not be less than status.capacity"),
        refused(ok(json!({"spec": {"volumeName": "b"}})), "spec is immutable after creation except"),
    ];
    transition("claim", CLAIMS, claim_with(&json!({})), steps)
}

fn claim_of_source() -> Transition {
    let source = json!({"kind": "Disk", "name": "a", "apiGroup": "example.com"});
    let labels = ok(json!({"metadata": {"labels": {"a": "b"}}}));
    transition("claim with another source", CLAIMS, claim_with(&json!({"dataSource": source})), vec![labels])
}

fn deployment() -> Transition {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "sample"}, "spec": {
        "replicas": 0, "paused": true, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}}});
    let strategy = |strategy: Value| ok(json!({"spec": {"strategy": strategy}}));
    let steps = vec![
        refused(
            strategy(json!({"type": "Recreate"})),
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        strategy(json!({"type": "Recreate", "rollingUpdate": null})),
        strategy(json!({"type": "RollingUpdate"})),
        refused(
            ok(json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}})),
            "spec.template.metadata.labels",
        ),
        status(json!({"replicas": 1})),
        refused(status(json!({"readyReplicas": 2})), "cannot be greater than status.replicas"),
    ];
    transition("deployment", "/apis/apps/v1/namespaces/{namespace}/deployments", object, steps)
}

fn gated_pod() -> Transition {
    let term = json!({"topologyKey": "zone", "matchLabelKeys": ["app"], "mismatchLabelKeys": ["tier", "none"],
        "labelSelector": {"matchLabels": {"a": "b"}}});
    let object = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "sample", "labels": {"app": "web", "tier": "front"}}, "spec": {
        "serviceAccountName": "default", "automountServiceAccountToken": false, "schedulingGates": [{"name": "a.example.com/b"}],
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["app"]}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "resources": {"requests": {"cpu": "2"}},
        "containers": [{"name": "a", "image": "a:1", "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}},
            {"name": "b", "image": "b:1", "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}}]}});
    let selector = |selector: Value| ok(json!({"spec": {"nodeSelector": selector}}));
    let terms = |expressions: Value| {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        ok(
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}}),
        )
    };
    let exists = |key: &str| json!({"key": key, "operator": "Exists"});
    let steps = vec![
        selector(json!({"disk": "ssd"})),
        selector(json!({"zone": "a"})),
        refused(selector(json!({"disk": "hdd"})), "only additions to spec.nodeSelector are allowed"),
        terms(json!([exists("a")])),
        terms(json!([exists("a"), exists("b")])),
        refused(terms(json!([exists("b")])), "only additions are allowed (no mutations or deletions)"),
        refused(
            ok(json!({"spec": {"affinity": {"nodeAffinity": null}}})),
            "no additions/deletions to non-empty",
        ),
        refused(
            ok(json!({"spec": {"affinity": {"podAffinity": null}}})),
            "pod updates may not change fields other than",
        ),
        ok(json!({"spec": {"schedulingGates": null}})),
        refused(selector(json!({"rack": "a"})), "pod updates may not change fields other than"),
        refused(
            ok(json!({"spec": {"schedulingGates": [{"name": "a.example.com/b"}]}})),
            "only deletion is allowed",
        ),
    ];
    transition("gated pod", "/api/v1/namespaces/{namespace}/pods", object, steps)
}

fn slice() -> Transition {
    let object = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "sample"},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]});
    let steps = vec![
        ok(json!({"metadata": {"labels": {"a": "b"}}})),
        ok(json!({"metadata": {"annotations": {"a": "b"}}})),
    ];
    transition("slice", "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", object, steps)
}

fn volume() -> Transition {
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "sample"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "a",
        "csi": {"driver": "a.example.com", "volumeHandle": "v"}}});
    let secret = |name: &str| {
        ok(json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": name, "namespace": "default"}}}}))
    };
    let fixed = "spec.persistentvolumesource is immutable after creation";
    let steps = vec![
        secret("a"),
        refused(secret("b"), fixed),
        refused(ok(json!({"spec": {"csi": {"volumeHandle": "w"}}})), fixed),
        status(json!({"phase": "Available"})),
    ];
    transition("volume", "/api/v1/persistentvolumes", object, steps)
}

fn shown_namespace() -> Transition {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sample"}});
    let steps =
        vec![ok(json!({"metadata": {"labels": null}})), ok(json!({"metadata": {"labels": {"a": "b"}}}))];
    transition("namespace", "/api/v1/namespaces", object, steps)
}
