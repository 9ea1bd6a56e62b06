//! The policies of the cases.

use serde_json::{Map, Value, json};

use super::super::admission::hooks::Hooks;
use super::{BINDINGS, POLICIES, requests};

/// The policies, bindings and webhooks of one case.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// The members of a spec; those that are missing are made up.
    pub(super) policies: Vec<Value>,
    /// The members of a spec, and the index of the policy.
    pub(super) bindings: Vec<(usize, Value)>,
    /// The resource, the behaviour and other members of webhooks.
    pub(super) hooks: Vec<(&'static str, &'static str, Value)>,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for policy in &self.policies {
            write!(f, "{policy} ")?;
        }
        for (policy, binding) in &self.bindings {
            write!(f, "{policy}: {binding} ")?;
        }
        for (kind, behaviour, fields) in &self.hooks {
            write!(f, "{kind} {behaviour} {fields} ")?;
        }
        Ok(())
    }
}

/// Rules for all resources with namespaces, and for namespaces.
fn all_rules() -> Value {
    json!([
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "scope": "Namespaced"},
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"]}])
}

fn with(mut base: Value, fields: &Value) -> Value {
    for (field, value) in fields.as_object().unwrap() {
        base[field] = value.clone();
    }
    base
}

impl Case {
    /// Returns the policies and the bindings, each with the path of its resource.
    pub(super) fn objects(&self, number: usize) -> Vec<(String, Value)> {
        let policies = self.policies.iter().enumerate().map(|(index, fields)| {
            let selector = json!({"matchLabels": {"case": number.to_string()}});
            let given = fields.get("matchConstraints").cloned().unwrap_or_else(|| json!({}));
            // no other case is concerned
            let is_own = given.get("objectSelector").is_some_and(|selector| selector == "own");
            let limits = if is_own { json!({}) } else { json!({"namespaceSelector": selector}) };
            let rules = with(json!({"resourceRules": all_rules()}), &limits);
            let mut constraints = with(rules, &given);
            if is_own {
                constraints["objectSelector"] = selector;
            }
            let spec = with(json!({"validations": [{"expression": "false"}]}), fields);
            let spec = with(spec, &json!({"matchConstraints": constraints}));
            (POLICIES.to_owned(), json!({"metadata": {"name": format!("p{number}-{index}")}, "spec": spec}))
        });
        let bindings = self.bindings.iter().enumerate().map(|(index, (policy, fields))| {
            let policy = format!("p{number}-{policy}");
            let spec = with(json!({"policyName": policy, "validationActions": ["Deny"]}), fields);
            (BINDINGS.to_owned(), json!({"metadata": {"name": format!("b{number}-{index}")}, "spec": spec}))
        });
        policies.chain(bindings).collect()
    }

    /// Returns the webhooks of a resource for a server.
    pub(super) fn hooks(&self, number: usize, kind: &str, server: &str, hooks: &Hooks) -> Vec<Value> {
        let own = self.hooks.iter().filter(|(of, ..)| *of == kind).enumerate();
        own.map(|(index, (_, behaviour, fields))| {
            let phase = if kind.starts_with("mutating") { "mutating" } else { "validating" };
            let url = format!("{}/{server}/{phase}/{behaviour}/{number}-{index}", hooks.server.url);
            let hook = json!({
                "name": format!("{behaviour}-{number}-{index}.example.com"), "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": hooks.server.bundle},
                "namespaceSelector": {"matchLabels": {"case": number.to_string()}}, "rules": all_rules(),
            });
            with(hook, fields)
        })
        .collect()
    }
}

/// A policy with a binding.
fn one(policy: Value) -> Case {
    Case { policies: vec![policy], bindings: vec![(0, json!({}))], hooks: Vec::new() }
}

/// A policy with bindings.
fn bound(policy: Value, bindings: &[Value]) -> Case {
    let bindings = bindings.iter().map(|binding| (0, binding.clone())).collect();
    Case { policies: vec![policy], bindings, hooks: Vec::new() }
}

fn checks(expressions: &[&str]) -> Value {
    expressions.iter().map(|expression| json!({"expression": expression})).collect()
}

pub(super) fn all() -> Vec<Case> {
    let mut all = validations();
    all.extend(constraints());
    all.extend(params());
    all.extend(several());
    all.extend(conditions());
    all
}

fn validations() -> Vec<Case> {
    let mut all = Vec::new();
    for reason in ["Forbidden", "Invalid", "RequestEntityTooLarge"] {
        all.push(one(json!({"validations": [{"expression": "request.operation == 'DELETE'", "reason": reason, "message": " given "}]})));
        all.push(one(
            json!({"validations": [{"expression": "request.operation == 'CREATE'", "reason": reason}]}),
        ));
    }
    for message in [
        "'name ' + object.metadata.name",
        "'op ' + request.operation",
        "'  '",
        "'a\\nb'",
        "string(1/0)",
        "string(object.metadata.missing)",
        "'kind ' + request.kind.kind + ' of ' + request.resource.resource",
        "'a\\tb'",
    ] {
        let validation =
            json!({"expression": "!has(object.metadata)", "messageExpression": message, "message": "plain"});
        all.push(one(json!({"validations": [validation], "failurePolicy": "Ignore"})));
        let validation = json!({"expression": "false", "messageExpression": message});
        all.push(one(json!({"validations": [validation]})));
    }
    for failing in [
        "object.spec.replicas < 4",
        "object.data.a == '1'",
        "oldObject.data.a == object.data.a",
        "1 / 0 == 1",
        "int(object.data.a) > 0",
        "object.metadata.labels.own == 'yes'",
        "object.metadata.name.size() > 4 && object.data.size() < 2",
        "[1][2] == 1",
        "variables.broken",
        "string(object.data.a) == '1'",
        "object.data['b'].matches('^l')",
    ] {
        for policy in ["Fail", "Ignore"] {
            all.push(one(json!({"failurePolicy": policy, "validations": checks(&[failing]),
                "variables": [{"name": "broken", "expression": "object.data.none == 'x'"}]})));
        }
    }
    all.push(one(json!({"variables": [
        {"name": "name", "expression": "object == null ? oldObject.metadata.name : object.metadata.name"},
        {"name": "size", "expression": "variables.name.size()"},
        {"name": "parts", "expression": "[variables.size, 1]"},
        {"name": "unused", "expression": "1 / 0"}],
        "validations": [{"expression": "variables.parts[0] < 5", "messageExpression": "string(variables.parts[0]) + ' is too long'"}]})));
    all.push(one(json!({"validations": checks(&["request.dryRun", "request.name != 'base'", "request.namespace.size() > 0"])})));
    all.push(one(json!({"validations": checks(&["namespaceObject.metadata.labels.own == 'yes'"])})));
    all.push(one(json!({"validations": checks(&["namespaceObject == null", "namespaceObject.status.phase == 'Active'"])})));
    all.push(one(json!({"validations": checks(&["request.subResource == ''"])})));
    all.push(one(json!({"validations": checks(&["request.requestSubResource == request.subResource && request.requestKind == request.kind"])})));
    all.push(one(json!({"validations": checks(&["request.options.kind != 'CreateOptions'"])})));
    all.push(one(json!({"validations": checks(&["!has(request.options.fieldManager) || request.options.fieldManager != 'a'"])})));
    all.push(one(json!({"validations": checks(&["object == null || object.kind in ['ConfigMap', 'Pod', 'Scale', 'Gadget']"])})));
    all.push(one(json!({"validations": checks(&["object == null || !has(object.spec) || object.?spec.?replicas.orValue(1) < 5"])})));
    all.push(one(json!({"validations": checks(&["object == null || object.?metadata.?managedFields.optMap(f, f.size()).orValue(0) == 1"])})));
    all.push(one(json!({"validations": [], "auditAnnotations": [{"key": "k", "valueExpression": "'a ' + object.metadata.name"},
        {"key": "n", "valueExpression": "null"}, {"key": "other", "valueExpression": "string(object.data.a)"}]})));
    all.push(one(json!({"failurePolicy": "Ignore", "validations": [], "auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.a)"}]})));
    // budgets
    let long = "[1,2,3,4,5,6,7,8,9,10]";
    let nested = |depth: usize, end: &str| {
        (0..depth).fold(end.to_owned(), |inner, level| format!("{long}.all(x{level}, {inner})"))
    };
    for policy in ["Fail", "Ignore"] {
        all.push(one(
            json!({"failurePolicy": policy, "validations": checks(&["false", &nested(8, "x0 > 0")])}),
        ));
        all.push(one(json!({"failurePolicy": policy, "validations": [{"expression": "false", "messageExpression": format!("{} ? 'a' : 'b'", nested(8, "x0 > 0"))}]})));
    }
    all
}

fn constraints() -> Vec<Case> {
    let rule = |groups: &[&str], versions: &[&str], resources: &[&str], operations: &[&str]| json!({"operations": operations, "apiGroups": groups, "apiVersions": versions, "resources": resources});
    let own = || json!({"matchLabels": {"own": "yes"}});
    let mut all = Vec::new();
    let mut case = |constraints: Value| all.push(one(json!({"matchConstraints": constraints})));
    for rules in [
        json!([rule(&[""], &["v1"], &["configmaps"], &["CREATE"])]),
        json!([rule(&[""], &["v1"], &["configmaps"], &["UPDATE", "DELETE"])]),
        json!([rule(&["apps"], &["v1"], &["*/status", "*/scale"], &["*"])]),
        json!([rule(&["*"], &["*"], &["pods/*"], &["*"])]),
        json!([rule(&["*"], &["*"], &["pods", "pods/exec"], &["CONNECT", "DELETE"])]),
        json!([rule(&["policies.example.com"], &["v1"], &["gadgets"], &["*"])]),
        json!([rule(
            &["policies.example.com"],
            &["v1beta1"],
            &["gadgets", "gadgets/status", "gadgets/scale"],
            &["*"]
        )]),
        json!([rule(&[""], &["v1"], &["namespaces"], &["*"])]),
        json!([with(
            rule(&["*"], &["*"], &["configmaps"], &["*"]),
            &json!({"resourceNames": ["base", "created"]})
        )]),
        json!([with(
            rule(&["*"], &["*"], &["*"], &["*"]),
            &json!({"resourceNames": ["bound", "base"], "scope": "Namespaced"})
        )]),
    ] {
        for policy in ["Equivalent", "Exact"] {
            case(json!({"resourceRules": rules, "matchPolicy": policy}));
        }
    }
    for exclude in [
        rule(&[""], &["v1"], &["configmaps"], &["CREATE"]),
        rule(&["policies.example.com"], &["v1beta1"], &["gadgets/*"], &["*"]),
        with(rule(&["*"], &["*"], &["*/*"], &["*"]), &json!({"resourceNames": ["base"]})),
        with(rule(&["*"], &["*"], &["*"], &["UPDATE"]), &json!({"scope": "Namespaced"})),
    ] {
        for policy in ["Equivalent", "Exact"] {
            case(json!({"excludeResourceRules": [exclude], "matchPolicy": policy}));
        }
    }
    case(
        json!({"objectSelector": own(), "resourceRules": [with(rule(&[""], &["v1"], &["configmaps"], &["*"]), &json!({"scope": "Namespaced"}))]}),
    );
    for selector in [
        json!({"matchExpressions": [{"key": "own", "operator": "NotIn", "values": ["yes"]}]}),
        json!({"matchExpressions": [{"key": "own", "operator": "Exists"}, {"key": "x", "operator": "DoesNotExist"}]}),
    ] {
        all.push(bound(json!({}), &[json!({"matchResources": {"objectSelector": selector}})]));
        all.push(bound(json!({}), &[json!({"matchResources": {"namespaceSelector": selector}})]));
    }
    all.push(one(json!({"matchConstraints": {"objectSelector": "own", "resourceRules": [
        rule(&["rbac.authorization.k8s.io"], &["v1"], &["clusterroles"], &["CREATE"])]},
        "validations": checks(&["namespaceObject != null"])})));
    for resources in [
        json!({"resourceRules": [rule(&[""], &["v1"], &["configmaps"], &["UPDATE"])]}),
        json!({"resourceRules": [rule(&["policies.example.com"], &["v1beta1"], &["gadgets"], &["*"])]}),
        json!({"resourceRules": [rule(&["policies.example.com"], &["v1beta1"], &["gadgets"], &["*"])], "matchPolicy": "Exact"}),
        json!({"excludeResourceRules": [rule(&["*"], &["*"], &["*"], &["CREATE"])]}),
        json!({"excludeResourceRules": [rule(&["apps"], &["*"], &["*/*"], &["*"])], "objectSelector": {}}),
        json!({}),
    ] {
        all.push(bound(json!({}), &[json!({"matchResources": resources})]));
    }
    // the version of the object
    all.push(one(json!({"matchConstraints": {"resourceRules": [rule(&["policies.example.com"], &["v1beta1"], &["gadgets", "gadgets/status"], &["*"])]},
        "validations": [{"expression": "false", "messageExpression":
            "request.kind.version + ' ' + request.requestKind.version + ' ' + request.resource.version + ' ' + (object == null ? oldObject : object).apiVersion"}]})));
    all.push(one(json!({"matchConstraints": {"resourceRules": [rule(&["policies.example.com"], &["v1beta1"], &["gadgets", "gadgets/status"], &["*"])]},
        "matchConditions": [{"name": "version", "expression": "request.resource.version == 'v1' || request.kind.version == 'v1beta1'"}]})));
    all
}

fn params() -> Vec<Case> {
    let mut all = Vec::new();
    let checks = json!([{"expression": "params.data.max == 'first' || params.data.limit == '1'", "messageExpression":
        "'params ' + params.metadata.name + ' ' + params.kind + ' ' + params.apiVersion + ' ' + params.data.max"}]);
    let is_null = json!([{"expression": "params == null"}]);
    for kind in requests::param_kinds() {
        let is_global = kind["kind"] == "Global";
        let policy = |validations: &Value| json!({"paramKind": kind, "validations": validations});
        for (name, namespace) in [
            ("first", Value::Null),
            ("first", json!("default")),
            ("second", json!("default")),
            ("missing", json!("default")),
            ("missing", Value::Null),
        ] {
            if is_global && !namespace.is_null() && name != "first" {
                continue;
            }
            for action in ["Allow", "Deny"] {
                let params = json!({"name": name, "namespace": namespace, "parameterNotFoundAction": action});
                all.push(bound(policy(&checks), &[json!({"paramRef": params})]));
            }
        }
        for selector in
            [json!({"matchLabels": {"param": "yes"}}), json!({"matchLabels": {"param": "no"}}), json!({})]
        {
            for namespace in [Value::Null, json!("default")] {
                if is_global && !namespace.is_null() {
                    continue;
                }
                let params =
                    json!({"selector": selector, "namespace": namespace, "parameterNotFoundAction": "Deny"});
                all.push(bound(policy(&checks), &[json!({"paramRef": params})]));
            }
        }
        all.push(bound(policy(&checks), &[json!({})]));
        all.push(bound(policy(&is_null), &[json!({})]));
        let params = json!({"name": "first", "parameterNotFoundAction": "Deny"});
        let mut ignoring = policy(&checks);
        ignoring["failurePolicy"] = "Ignore".into();
        all.push(bound(
            ignoring,
            &[json!({"paramRef": {"name": "missing", "parameterNotFoundAction": "Deny"}})],
        ));
        let mut of_cluster = policy(&checks);
        of_cluster["matchConstraints"] = json!({"objectSelector": "own", "resourceRules": [{"operations": ["*"],
            "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"], "resources": ["clusterroles"]}]});
        all.push(bound(of_cluster, &[json!({"paramRef": params})]));
        let mut conditional = policy(&is_null);
        conditional["matchConditions"] = json!([{"name": "params", "expression": "params.data.max == 'own' || params.data.max == 'first'"}]);
        all.push(bound(conditional, &[json!({"paramRef": params})]));
    }
    let unknown = json!({"apiVersion": "unknown.example.com/v1", "kind": "None"});
    for policy in ["Fail", "Ignore"] {
        let policy = json!({"paramKind": unknown, "validations": checks, "failurePolicy": policy});
        all.push(bound(policy, &[json!({"paramRef": {"name": "a", "parameterNotFoundAction": "Deny"}})]));
    }
    // parameters without a kind
    all.push(bound(
        json!({"validations": [{"expression": "request.operation == 'DELETE'"}]}),
        &[json!({"paramRef": {"name": "missing", "parameterNotFoundAction": "Deny"}})],
    ));
    all
}

fn several() -> Vec<Case> {
    let mut all = Vec::new();
    let failing = json!({"validations": [{"expression": "request.operation != 'CREATE'", "message": "first"},
        {"expression": "object.data.a == '1'", "message": "second", "reason": "Forbidden"}]});
    for actions in [
        json!(["Deny"]),
        json!(["Warn"]),
        json!(["Audit"]),
        json!(["Deny", "Audit"]),
        json!(["Warn", "Audit"]),
    ] {
        all.push(bound(failing.clone(), &[json!({"validationActions": actions})]));
    }
    all.push(bound(
        failing.clone(),
        &[json!({"validationActions": ["Warn"]}), json!({"validationActions": ["Deny"]})],
    ));
    all.push(bound(
        failing.clone(),
        &[json!({"validationActions": ["Warn", "Audit"]}), json!({"validationActions": ["Warn"]})],
    ));
    let other = json!({"validations": [{"expression": "false", "message": "other", "reason": "Forbidden"}]});
    let bindings = |actions: [&str; 2]| {
        vec![(0, json!({"validationActions": [actions[0]]})), (1, json!({"validationActions": [actions[1]]}))]
    };
    for actions in [["Deny", "Deny"], ["Warn", "Deny"], ["Warn", "Warn"], ["Audit", "Warn"]] {
        let policies = vec![failing.clone(), other.clone()];
        all.push(Case { policies, bindings: bindings(actions), hooks: Vec::new() });
    }
    // one policy without a binding
    all.push(Case { policies: vec![other, failing], bindings: vec![(1, json!({}))], hooks: Vec::new() });
    all
}

fn conditions() -> Vec<Case> {
    let mut all = Vec::new();
    let condition = |expressions: &[&str]| -> Value {
        expressions
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"name": format!("c{index}"), "expression": text}))
            .collect()
    };
    let lists: [&[&str]; 9] = [
        &["true"],
        &["request.operation == 'CREATE'", "object.metadata.name != 'plain'"],
        &["object.data.a == '1'"],
        &["object.data.a == '1'", "request.operation != 'UPDATE'"],
        &["object.data.a == '1'", "1 / 0 == 1", "object.data.a == '1'"],
        &["oldObject == null || request.name == 'base'"],
        &["request.resource.resource in ['configmaps', 'gadgets'] && request.subResource == ''"],
        &["namespaceObject == null"],
        &["object.spec.replicas > 2", "false"],
    ];
    for list in lists {
        for policy in ["Fail", "Ignore"] {
            all.push(one(json!({"matchConditions": condition(list), "failurePolicy": policy})));
            if list[0] == "namespaceObject == null" {
                continue;
            }
            for (kind, behaviour) in
                [("mutatingwebhookconfigurations", "label"), ("validatingwebhookconfigurations", "deny")]
            {
                let fields = json!({"matchConditions": condition(list), "failurePolicy": policy});
                all.push(Case { hooks: vec![(kind, behaviour, fields)], ..Case::default() });
            }
        }
    }
    // policies see what mutating webhooks have changed, before validating ones are called
    let added = json!({"validations": [{"expression": "object.?metadata.?labels.?added.orValue('') != 'label'", "message": "changed"}]});
    for (kind, behaviour) in [
        ("mutatingwebhookconfigurations", "label"),
        ("mutatingwebhookconfigurations", "replicas"),
        ("mutatingwebhookconfigurations", "warn"),
        ("validatingwebhookconfigurations", "warn"),
        ("validatingwebhookconfigurations", "deny"),
        ("mutatingwebhookconfigurations", "deny"),
    ] {
        for actions in [json!(["Deny"]), json!(["Warn"])] {
            let bindings = vec![(0, json!({"validationActions": actions}))];
            all.push(Case {
                policies: vec![added.clone()],
                bindings,
                hooks: vec![(kind, behaviour, json!({}))],
            });
        }
    }
    all
}

/// Returns a value with these members.
pub(super) fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
