//! A valid object of each kind. The comparison with kube-apiserver has the same ones.

use serde_json::{Value, json};

/// A kind, the path of its objects, and a valid object.
pub(crate) struct Sample {
    pub(crate) path: String,
    pub(crate) object: Value,
}

fn sample(
    api_version: &str,
    kind: &str,
    plural: &str,
    namespace: &str,
    name: &str,
    content: Value,
) -> Sample {
    let root = if api_version == "v1" { "/api" } else { "/apis" };
    let scope = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    for (field, value) in content.as_object().unwrap() {
        object[field] = value.clone();
    }
    Sample { path: format!("{root}/{api_version}{scope}/{plural}"), object }
}

/// A pod to which no admission plugin adds a field.
fn pod() -> Value {
    json!({
        "serviceAccountName": "default", "automountServiceAccountToken": false, "nodeSelector": {"disk": "ssd"},
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "activeDeadlineSeconds": 60, "hostname": "web",
        "subdomain": "pods", "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.10"], "searches": ["a.example.com"], "options": [{"name": "ndots", "value": "2"}]},
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": true, "fsGroup": 2000, "supplementalGroups": [3000],
            "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a.example.com"]}],
        "readinessGates": [{"conditionType": "example.com/ready"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5,
                "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}}]},
        },
        "volumes": [
            {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "a", "path": "a.txt"}]}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "host", "hostPath": {"path": "/var/log", "type": "Directory"}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "settings"}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
        ],
        "initContainers": [{"name": "init", "image": "init:1", "command": ["true"]}],
        "containers": [{
            "name": "web", "image": "web:1", "command": ["web"], "args": ["-v"],
            "ports": [{"name": "http", "containerPort": 80, "hostPort": 8080}],
            "env": [
                {"name": "A", "value": "a"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b"}}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ],
            "envFrom": [{"prefix": "X_", "secretRef": {"name": "keys"}}],
            "resources": {"limits": {"cpu": "1000m", "memory": "128Mi"}, "requests": {"cpu": 0.5}},
            "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "a"}],
            "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 3},
            "readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2},
            "startupProbe": {"exec": {"command": ["true"]}},
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        }],
    })
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]}})
}

fn claim() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "1Gi"}}, "selector": {"matchLabels": {"a": "b"}}})
}

fn hook() -> Value {
    json!({"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/hook"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": ["never.example.com"], "apiVersions": ["v1"], "resources": ["nothings"]}]})
}

/// The request of a certificate, which tests of kube-apiserver use.
const REQUEST: &str = include_str!("request.txt");

pub(crate) fn samples(namespace: &str) -> Vec<Sample> {
    let mut samples = workloads(namespace);
    samples.extend(others(namespace));
    samples.extend(cluster_scoped());
    samples
}

fn workloads(namespace: &str) -> Vec<Sample> {
    let selector = json!({"matchLabels": {"app": "web"}});
    let apps = |kind: &str, plural: &str, spec: Value| {
        sample("apps/v1", kind, plural, namespace, "sample", json!({"spec": spec}))
    };
    let job = json!({"parallelism": 2, "completions": 2, "backoffLimit": 3, "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 10, "completionMode": "Indexed", "suspend": true,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]},
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "job", "image": "job:1"}]}}});
    let mut cron = job.clone();
    cron.as_object_mut().unwrap().remove("ttlSecondsAfterFinished");
    vec![
        sample("v1", "Pod", "pods", namespace, "sample", json!({"spec": pod()})),
        sample("v1", "PodTemplate", "podtemplates", namespace, "sample", json!({"template": template()})),
        sample(
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            namespace,
            "sample",
            json!({"spec":
            {"replicas": 0, "minReadySeconds": 1, "selector": {"app": "web"}, "template": template()}}),
        ),
        apps(
            "Deployment",
            "deployments",
            json!({"replicas": 0, "selector": selector, "template": template(),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}},
            "minReadySeconds": 1, "revisionHistoryLimit": 2, "progressDeadlineSeconds": 10, "paused": true}),
        ),
        apps(
            "ReplicaSet",
            "replicasets",
            json!({"replicas": 0, "minReadySeconds": 1, "selector": selector, "template": template()}),
        ),
        apps(
            "StatefulSet",
            "statefulsets",
            json!({"replicas": 0, "serviceName": "web", "selector": selector, "template": template(),
            "podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim()}], "minReadySeconds": 1,
            "revisionHistoryLimit": 2}),
        ),
        apps(
            "DaemonSet",
            "daemonsets",
            json!({"selector": selector, "template": template(), "minReadySeconds": 1,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}, "revisionHistoryLimit": 2}),
        ),
        sample(
            "apps/v1",
            "ControllerRevision",
            "controllerrevisions",
            namespace,
            "sample",
            json!({"revision": 1, "data": {"a": "b"}}),
        ),
        sample("batch/v1", "Job", "jobs", namespace, "sample", json!({"spec": job})),
        sample(
            "batch/v1",
            "CronJob",
            "cronjobs",
            namespace,
            "sample",
            json!({"spec": {"schedule": "*/5 * * * *",
            "timeZone": "Europe/Berlin", "startingDeadlineSeconds": 5, "concurrencyPolicy": "Forbid", "suspend": true,
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": cron}}}),
        ),
    ]
}

fn others(namespace: &str) -> Vec<Sample> {
    let of = |api_version: &str, kind: &str, plural: &str, content: Value| {
        sample(api_version, kind, plural, namespace, "sample", content)
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        of("v1", "ConfigMap", "configmaps", json!({"data": {"a": "b"}, "binaryData": {"c": "eA=="}})),
        of(
            "v1",
            "Secret",
            "secrets",
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}}),
        ),
        of(
            "v1",
            "Service",
            "services",
            json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.77", "selector": {"app": "web"},
            "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local", "publishNotReadyAddresses": true,
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "nodePort": 30077, "appProtocol": "http"},
                {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30078}]}}),
        ),
        of(
            "v1",
            "Endpoints",
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.1.2.3", "hostname": "a", "nodeName": "n"}],
            "ports": [{"name": "http", "port": 80}]}]}),
        ),
        of(
            "v1",
            "ServiceAccount",
            "serviceaccounts",
            json!({"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}],
            "automountServiceAccountToken": false}),
        ),
        of("v1", "PersistentVolumeClaim", "persistentvolumeclaims", json!({"spec": claim()})),
        of(
            "v1",
            "ResourceQuota",
            "resourcequotas",
            json!({"spec": {"hard": {"pods": "10", "requests.cpu": "1500m"}, "scopes": ["NotTerminating"]}}),
        ),
        of(
            "v1",
            "LimitRange",
            "limitranges",
            json!({"spec": {"limits": [
            {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}, "min": {"storage": "1Gi"}}]}}),
        ),
        of(
            "v1",
            "Event",
            "events",
            json!({"involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace}, "reason": "R",
            "message": "m", "type": "Normal", "count": 1}),
        ),
        of(
            "networking.k8s.io/v1",
            "Ingress",
            "ingresses",
            json!({"spec": {"ingressClassName": "web",
            "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}, "tls": [{"hosts": ["a.example.com"], "secretName": "keys"}],
            "rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "web", "port": {"name": "http"}}}}]}}]}}),
        ),
        of(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "networkpolicies",
            json!({"spec": {"podSelector": {"matchLabels": {"app": "web"}},
            "policyTypes": ["Ingress", "Egress"], "ingress": [{"ports": [{"port": 80, "endPort": 90}], "from": [{"podSelector": {}}]}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}}),
        ),
        of(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "endpointslices",
            json!({"addressType": "IPv4", "ports": [{"name": "http", "port": 80}],
            "endpoints": [{"addresses": ["10.1.2.3"], "hostname": "a", "nodeName": "n", "conditions": {"ready": true}}]}),
        ),
        of(
            rbac,
            "Role",
            "roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]}),
        ),
        of(
            rbac,
            "RoleBinding",
            "rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sample"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace},
                {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]}),
        ),
        of(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            json!({"spec": {"minReplicas": 1, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]}}}}),
        ),
        of(
            "policy/v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": "50%",
            "selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
        ),
        of(
            "coordination.k8s.io/v1",
            "Lease",
            "leases",
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15,
            "leaseTransitions": 1, "acquireTime": "2026-01-02T03:04:05.000006Z"}}),
        ),
    ]
}

fn cluster_scoped() -> Vec<Sample> {
    let of = |api_version: &str, kind: &str, plural: &str, content: Value| {
        sample(api_version, kind, plural, "", "sample", content)
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let hooks = "admissionregistration.k8s.io/v1";
    vec![
        of("v1", "Namespace", "namespaces", json!({"spec": {"finalizers": ["kubernetes"]}})),
        of(
            "v1",
            "Node",
            "nodes",
            json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a://b", "unschedulable": true,
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}),
        ),
        of(
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast", "volumeMode": "Block",
            "csi": {"driver": "a.example.com", "volumeHandle": "v"}}}),
        ),
        of(
            "networking.k8s.io/v1",
            "IngressClass",
            "ingressclasses",
            json!({"spec": {"controller": "example.com/a",
            "parameters": {"apiGroup": "example.com", "kind": "K", "name": "n", "scope": "Cluster"}}}),
        ),
        of(
            rbac,
            "ClusterRole",
            "clusterroles",
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"never": "matches"}}]},
            "rules": []}),
        ),
        of(
            rbac,
            "ClusterRoleBinding",
            "clusterrolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}]}),
        ),
        of(
            "storage.k8s.io/v1",
            "StorageClass",
            "storageclasses",
            json!({"provisioner": "a.example.com/b", "parameters": {"a": "b"},
            "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]}),
        ),
        of(
            "storage.k8s.io/v1",
            "VolumeAttachment",
            "volumeattachments",
            json!({"spec": {"attacher": "a.example.com", "nodeName": "n",
            "source": {"persistentVolumeName": "v"}}}),
        ),
        of(
            "storage.k8s.io/v1",
            "CSIDriver",
            "csidrivers",
            json!({"spec": {"attachRequired": true, "fsGroupPolicy": "File",
            "volumeLifecycleModes": ["Persistent"], "tokenRequests": [{"audience": "a", "expirationSeconds": 3600}]}}),
        ),
        of(
            "storage.k8s.io/v1",
            "CSINode",
            "csinodes",
            json!({"spec": {"drivers": [{"name": "a.example.com", "nodeID": "n",
            "topologyKeys": ["zone"], "allocatable": {"count": 3}}]}}),
        ),
        of(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "priorityclasses",
            json!({"value": 1000, "description": "d", "preemptionPolicy": "Never"}),
        ),
        of(
            "node.k8s.io/v1",
            "RuntimeClass",
            "runtimeclasses",
            json!({"handler": "runc", "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {"nodeSelector": {"a": "b"}}}),
        ),
        of(
            hooks,
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            json!({"webhooks": [hook()]}),
        ),
        of(
            hooks,
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            json!({"webhooks": [hook()]}),
        ),
        of(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            json!({"spec": {
            "request": REQUEST.trim(), "signerName": "example.com/signer", "usages": ["client auth"], "expirationSeconds": 3600}}),
        ),
    ]
}
