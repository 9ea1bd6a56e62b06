//! Random policies, whose expressions compile.

use fastrand::Rng;
use serde_json::{Value, json};

use super::cases::{Case, object};
use super::requests;

const CHECKS: [&str; 30] = [
    "true",
    "request.operation != 'DELETE'",
    "request.operation in ['UPDATE', 'DELETE']",
    "has(object.data) && object.data.a == '1'",
    "object.data.a == '1'",
    "object == null || !has(object.data) || object.data.all(k, object.data[k].size() < 4)",
    "oldObject == null || object == null || object.metadata.name == oldObject.metadata.name",
    "object.metadata.name.startsWith('c')",
    "object.metadata.name.matches('^[a-c].*$')",
    "object.spec.replicas <= 3",
    "object == null || object.?spec.?replicas.orValue(0) <= 3",
    "request.dryRun",
    "request.resource.resource == 'configmaps'",
    "request.kind.kind in ['ConfigMap', 'Scale', 'Gadget']",
    "request.requestKind.version == 'v1'",
    "request.?subResource.orValue('') != 'status'",
    "namespaceObject == null || namespaceObject.metadata.labels.own == 'yes'",
    "namespaceObject.metadata.name == request.namespace",
    "variables.one == 'x' || variables.two > 2",
    "variables.two + 1 > variables.three",
    "int(object.data.a) > 1",
    "object.metadata.?labels.?own.orValue('') == 'yes'",
    "object.metadata.labels.exists(k, k == 'own')",
    "quantity('1Gi').isGreaterThan(quantity('2Mi'))",
    "object.kind == 'ConfigMap' ? object.data.size() < 2 : true",
    "oldObject != null && oldObject.data.a != object.data.a",
    "object.metadata.generation == 1",
    "[object, oldObject].filter(o, o != null).map(o, o.metadata.name).exists(n, n == 'base')",
    "dyn(object).metadata.namespace.endsWith('2')",
    "object.metadata.creationTimestamp < timestamp('2100-01-01T00:00:00Z')",
];
const OF_PARAMS: [&str; 5] = [
    "params.data.limit == '1'",
    "params == null || params.metadata.name != 'second'",
    "int(params.data.limit) > object.data.size()",
    "has(params.data) && params.data.max in ['own', 'first']",
    "params.kind == 'ConfigMap'",
];
const MESSAGES: [&str; 7] = [
    "'name ' + object.metadata.name",
    "request.operation + ' of ' + request.resource.resource",
    "'two is ' + string(variables.two)",
    "string(object.data.a)",
    "'%s has %d' .format([request.name, size(request.namespace)])",
    "string(request.dryRun)",
    "''",
];
const ONES: [&str; 4] = ["'x'", "object.metadata.name", "request.?name.orValue('none')", "object.data.a"];
const TWOS: [&str; 4] =
    ["3", "object.spec.replicas", "size(variables.one)", "request.operation == 'CREATE' ? 1 : 7"];
const THREES: [&str; 3] = ["variables.two", "1", "variables.two * 2"];

fn pick<T: Clone>(rng: &mut Rng, items: &[T]) -> T {
    items[rng.usize(..items.len())].clone()
}

fn chance(rng: &mut Rng, percent: u8) -> bool {
    rng.u8(..100) < percent
}

/// Returns the case of a seed.
pub(super) fn case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let count = if chance(&mut rng, 25) { 2 } else { 1 };
    let kind = chance(&mut rng, 40).then(|| pick(&mut rng, &requests::param_kinds()));
    let policies = (0..count).map(|_| policy(&mut rng, kind.as_ref())).collect();
    let mut bindings = Vec::new();
    for index in 0..count {
        for _ in 0..=rng.usize(..2) {
            bindings.push((index, binding(&mut rng, kind.as_ref())));
        }
    }
    let mut hooks = Vec::new();
    if chance(&mut rng, 15) {
        let condition = pick(&mut rng, &CHECKS.map(|text| text.replace("variables.", "request.options.")));
        let conditions = json!([{"name": "c", "expression": condition}]);
        let fields = if condition.contains("namespaceObject") {
            json!({})
        } else {
            json!({"matchConditions": conditions})
        };
        hooks.push(("mutatingwebhookconfigurations", pick(&mut rng, &["label", "replicas", "once"]), fields));
    }
    Case { policies, bindings, hooks }
}

fn policy(rng: &mut Rng, kind: Option<&Value>) -> Value {
    let check = |rng: &mut Rng| {
        if kind.is_some() && rng.bool() { pick(rng, &OF_PARAMS) } else { pick(rng, &CHECKS) }
    };
    let validations: Value = (0..rng.usize(1..4))
        .map(|_| {
            let mut validation = json!({"expression": check(rng)});
            if chance(rng, 40) {
                validation["message"] = pick(rng, &["a message", " spaces ", "'quotes'"]).into();
            }
            if chance(rng, 40) {
                validation["messageExpression"] = pick(rng, &MESSAGES).into();
            }
            if chance(rng, 40) {
                validation["reason"] = pick(rng, &["Forbidden", "Invalid", "RequestEntityTooLarge"]).into();
            }
            validation
        })
        .collect();
    let mut policy = object([("validations", validations)]);
    policy["variables"] = json!([{"name": "one", "expression": pick(rng, &ONES)},
        {"name": "two", "expression": pick(rng, &TWOS)}, {"name": "three", "expression": pick(rng, &THREES)}]);
    if let Some(kind) = kind {
        policy["paramKind"] = kind.clone();
    }
    if chance(rng, 40) {
        policy["failurePolicy"] = pick(rng, &["Fail", "Ignore"]).into();
    }
    if chance(rng, 40) {
        policy["matchConditions"] = (0..rng.usize(1..3))
            .map(|index| json!({"name": format!("c{index}"), "expression": check(rng)}))
            .collect();
    }
    if chance(rng, 20) {
        policy["auditAnnotations"] = json!([{"key": "k", "valueExpression": pick(rng, &MESSAGES)}]);
    }
    policy["matchConstraints"] = constraints(rng);
    policy
}

fn constraints(rng: &mut Rng) -> Value {
    let mut constraints = json!({});
    if chance(rng, 50) {
        constraints["resourceRules"] = (0..rng.usize(1..3)).map(|_| rule(rng)).collect();
    }
    if chance(rng, 20) {
        constraints["excludeResourceRules"] = json!([rule(rng)]);
    }
    if chance(rng, 30) {
        constraints["matchPolicy"] = pick(rng, &["Exact", "Equivalent"]).into();
    }
    constraints
}

fn rule(rng: &mut Rng) -> Value {
    let mut rule = json!({
        "operations": pick(rng, &[json!(["*"]), json!(["CREATE"]), json!(["UPDATE", "DELETE"])]),
        "apiGroups": pick(rng, &[json!(["*"]), json!([""]), json!(["apps", "policies.example.com"])]),
        "apiVersions": pick(rng, &[json!(["*"]), json!(["v1"]), json!(["v1beta1"])]),
        "resources": pick(rng, &[json!(["*/*"]), json!(["*"]), json!(["configmaps", "gadgets/*"]), json!(["*/scale", "*/status"]), json!(["pods/*", "gadgets"])]),
        "scope": "Namespaced"});
    if chance(rng, 20) {
        rule["resourceNames"] = pick(rng, &[json!(["base"]), json!(["created", "plain", "bound"])]);
    }
    rule
}

fn binding(rng: &mut Rng, kind: Option<&Value>) -> Value {
    let actions = [
        json!(["Deny"]),
        json!(["Warn"]),
        json!(["Deny", "Audit"]),
        json!(["Audit", "Warn"]),
        json!(["Audit"]),
    ];
    let mut binding = object([("validationActions", pick(rng, &actions))]);
    if chance(rng, 30) {
        let mut resources = constraints(rng);
        if chance(rng, 30) {
            resources["objectSelector"] = json!({"matchLabels": {"own": "yes"}});
        }
        binding["matchResources"] = resources;
    }
    if let Some(kind) = kind.filter(|_| chance(rng, 85)) {
        let mut params = json!({"parameterNotFoundAction": pick(rng, &["Allow", "Deny"])});
        if chance(rng, 60) {
            params["name"] = pick(rng, &["first", "first", "missing"]).into();
        } else {
            // of several parameters, any may be the first that denies
            params["selector"] = json!({"matchLabels": {"param": "none"}});
        }
        if kind["kind"] != "Global" && rng.bool() {
            params["namespace"] = "default".into();
        }
        binding["paramRef"] = params;
    }
    binding
}
