//! The OpenAPI document. It is made of [`ROUTES`], which a test compares with the router.

use serde_json::{Map, Value, json};

/// A path of the server.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    summary: &'static str,
    /// Parameters of the query: names and descriptions.
    parameters: &'static [(&'static str, &'static str)],
    /// The content type of the response, and the name of its schema; empty for a text.
    response: (&'static str, &'static str),
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

const CLUSTER: (&str, &str) = ("cluster", "The cluster, if informers of several have the name");
const SCOPE: (&str, &str) = ("scope", "The scope, if informers with several have the name");
const LIMIT: (&str, &str) = ("limit", "The most items, 1 to 1000; 500 by default");
const OFFSET: (&str, &str) = ("offset", "How many items to skip");

const fn get(
    path: &'static str,
    summary: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    response: (&'static str, &'static str),
) -> Route {
    Route { method: "get", path, summary, parameters, response }
}

const fn post(path: &'static str, summary: &'static str, response: (&'static str, &'static str)) -> Route {
    Route { method: "post", path, summary, parameters: &[CLUSTER, SCOPE], response }
}

const OBJECT: &[(&str, &str)] =
    &[("format", "json or yaml; the header Accept: application/yaml has the same effect"), CLUSTER, SCOPE];
const LIST: &[(&str, &str)] = &[
    ("view", "The view of an earlier page; the parameters that select and sort are then ignored"),
    ("index", "Only objects with a value of this index"),
    ("value", "The value of the index"),
    ("namespace", "Only objects of this namespace"),
    ("labelSelector", "Only objects with these labels: app=web,tier in (a, b)"),
    ("filter", "Only objects whose key contains this text, in any case"),
    ("sort", "key, namespace, name, status, created or resourceVersion; - before it reverses the order"),
    LIMIT,
    OFFSET,
    CLUSTER,
    SCOPE,
];
const EVENTS: &[(&str, &str)] = &[
    ("informer", "Only changes of this informer; may be repeated"),
    ("key", "Only changes of this object: namespace/name, or name"),
    ("since", "Resume after the change with this id; so does the header Last-Event-ID"),
    CLUSTER,
    SCOPE,
];

const HEALTH: &[(&str, &str)] = &[
    ("verbose", "Name each check also if all pass"),
    ("exclude", "Leave out the check of this name; may be repeated"),
];

/// All paths, apart from the files of the page.
pub(crate) const ROUTES: &[Route] = &[
    get("/api/v1/informers", "The state of all informers", &[], (JSON, "Informers")),
    get("/api/v1/informers/{informer}", "The state of one informer", &[CLUSTER, SCOPE], (JSON, "Informer")),
    get("/api/v1/informers/{informer}/indexes", "The indexes", &[CLUSTER, SCOPE], (JSON, "Indexes")),
    get(
        "/api/v1/informers/{informer}/indexes/{index}",
        "The values of an index, with the number of objects of each",
        &[("filter", "Only values that contain this text"), LIMIT, OFFSET, CLUSTER, SCOPE],
        (JSON, "IndexValues"),
    ),
    get("/api/v1/informers/{informer}/objects", "A page of a list of objects", LIST, (JSON, "Objects")),
    get(
        "/api/v1/informers/{informer}/objects/{name}",
        "An object without a namespace",
        OBJECT,
        (JSON, "Object"),
    ),
    get(
        "/api/v1/informers/{informer}/objects/{name}/history",
        "The remembered changes of an object",
        &[CLUSTER, SCOPE],
        (JSON, "History"),
    ),
    get(
        "/api/v1/informers/{informer}/objects/{name}/explain",
        "Why an object is there, or is not",
        &[CLUSTER, SCOPE],
        (JSON, "Explanation"),
    ),
    post(
        "/api/v1/informers/{informer}/objects/{name}/ask",
        "Asks the API server for an object once",
        (JSON, "Answer"),
    ),
    get("/api/v1/informers/{informer}/objects/{namespace}/{name}", "An object", OBJECT, (JSON, "Object")),
    get(
        "/api/v1/informers/{informer}/objects/{namespace}/{name}/history",
        "The remembered changes of an object",
        &[CLUSTER, SCOPE],
        (JSON, "History"),
    ),
    get(
        "/api/v1/informers/{informer}/objects/{namespace}/{name}/explain",
        "Why an object is there, or is not",
        &[CLUSTER, SCOPE],
        (JSON, "Explanation"),
    ),
    post(
        "/api/v1/informers/{informer}/objects/{namespace}/{name}/ask",
        "Asks the API server for an object once",
        (JSON, "Answer"),
    ),
    get("/api/v1/controllers", "The controllers of the program, and who leads", &[], (JSON, "Controllers")),
    get("/api/v1/controllers/{controller}", "The state of one controller", &[], (JSON, "Controller")),
    get(
        "/api/v1/controllers/{controller}/reconciliations",
        "The last reconciliations of a key, newest first",
        &[("key", "The key: namespace/name, or name")],
        (JSON, "Reconciliations"),
    ),
    get(
        "/api/v1/ring",
        "The ring that shares objects out among processes, if there is one",
        &[],
        (JSON, "RingAnswer"),
    ),
    get("/api/v1/events", "Server-sent events: state, change, gap", EVENTS, ("text/event-stream", "")),
    get("/metrics", "The metrics, in the OpenMetrics text format", &[], ("application/openmetrics-text", "")),
    get("/healthz", "200 if all checks of the liveness pass, else 503", HEALTH, (TEXT, "")),
    get("/healthz/{check}", "One check of the liveness", &[], (TEXT, "")),
    get(
        "/readyz",
        "200 if all checks of the readiness pass, and all informers have synced, else 503",
        HEALTH,
        (TEXT, ""),
    ),
    get("/readyz/{check}", "One check of the readiness", &[], (TEXT, "")),
    get("/openapi.json", "This document", &[], (JSON, "")),
];

/// Returns the document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(operations) = operations {
            operations.insert(route.method.to_owned(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "kinformer serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "HTTP and JSON over informers. No read but `ask` sends a request to the API server.",
        },
        "paths": paths,
        "security": [{}, {"bearer": []}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(),
        },
    })
}

fn operation(route: &Route) -> Value {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let in_query = route.parameters.iter().map(|(name, description)| {
        json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}})
    });
    let (content_type, schema) = route.response;
    let schema = match schema {
        "" => json!({}),
        name => json!({"$ref": format!("#/components/schemas/{name}")}),
    };
    json!({
        "summary": route.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": {
            "200": {"description": "OK", "content": {content_type: {"schema": schema}}},
            "default": {
                "description": "A failure, with what to do",
                "content": {JSON: {"schema": {"$ref": "#/components/schemas/Status"}}},
            },
        },
    })
}

/// A schema of an object with these fields; a `?` after the type allows null, `[]` is a list.
fn object(fields: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, kind)| ((*name).to_owned(), field(kind))).collect();
    json!({"type": "object", "properties": properties})
}

fn field(kind: &str) -> Value {
    if let Some(kind) = kind.strip_suffix("[]") {
        return json!({"type": "array", "items": field(kind)});
    }
    if let Some(kind) = kind.strip_suffix('?') {
        let inner = field(kind);
        return match inner.get("$ref") {
            Some(_) => json!({"oneOf": [inner, {"type": "null"}]}),
            None => json!({"type": [kind, "null"]}),
        };
    }
    match kind {
        "any" => json!({}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "string" | "integer" | "number" | "boolean" | "object" => json!({"type": kind}),
        name => json!({"$ref": format!("#/components/schemas/{name}")}),
    }
}

fn schemas() -> Value {
    let all = [informer_schemas(), selection_schemas(), controller_schemas(), ring_schemas()];
    let fields = all.into_iter().filter_map(|schemas| match schemas {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(fields.flatten().collect())
}

fn selection_schemas() -> Value {
    json!({
        "Selection": object(&[
            ("scope", "string"), ("namespaces", "string[]"), ("labelSelector", "string?"),
            ("fieldSelector", "string?"), ("shard", "Shard?"),
        ]),
        "Shard": object(&[("field", "string"), ("ranges", "HashRange[]")]),
        "HashRange": object(&[("from", "string"), ("to", "string")]),
    })
}

fn ring_schemas() -> Value {
    json!({
        "RingAnswer": object(&[("time", "time"), ("ring", "Ring?")]),
        "Ring": object(&[
            ("name", "string"), ("identity", "string"), ("slots", "integer"), ("field", "string"),
            ("leaseDuration", "number"), ("processes", "RingProcess[]"), ("owned", "SlotRange[]"),
            ("unowned", "SlotRange[]"), ("moved", "MovedSlots"), ("problem", "string?"), ("error", "string?"),
        ]),
        "RingProcess": object(&[
            ("identity", "string"), ("weight", "integer?"), ("state", "string"), ("renewed", "string?"),
            ("slots", "SlotRange[]"),
        ]),
        "SlotRange": object(&[("first", "integer"), ("last", "integer")]),
        "MovedSlots": object(&[("begun", "integer"), ("released", "integer"), ("stopped", "integer")]),
    })
}

fn controller_schemas() -> Value {
    json!({
        "Controllers": object(&[("time", "time"), ("leadership", "Leadership?"), ("controllers", "Controller[]")]),
        "Leadership": object(&[("holder", "string?"), ("since", "string?"), ("isLeader", "boolean")]),
        "Controller": object(&[
            ("name", "string"), ("resource", "string?"), ("state", "string"), ("error", "string?"),
            ("queue", "ControllerQueue"), ("workers", "integer"), ("running", "Running[]"), ("counts", "Counts"),
            ("failures", "Failure[]"), ("hidden", "boolean"),
        ]),
        "ControllerQueue": object(&[
            ("ready", "integer"), ("delayed", "integer"), ("inFlight", "integer"), ("longestRunning", "number?"),
        ]),
        "Running": object(&[("key", "string"), ("since", "string?")]),
        "Counts": object(&[
            ("succeeded", "integer"), ("requeued", "integer"), ("failed", "integer"), ("permanent", "integer"),
            ("panicked", "integer"), ("timedOut", "integer"),
        ]),
        "Failure": object(&[("key", "string"), ("error", "string"), ("attempt", "integer"), ("time", "string?")]),
        "Reconciliations": object(&[("key", "string"), ("items", "Reconciliation[]")]),
        "Reconciliation": object(&[
            ("id", "string"), ("reasons", "string[]"), ("cause", "Cause?"), ("queued", "number"), ("took", "number?"),
            ("result", "string"), ("error", "string?"), ("time", "string?"),
        ]),
        "Cause": object(&[("event", "string"), ("resource", "string"), ("key", "string?")]),
    })
}

fn informer_schemas() -> Value {
    json!({
        "Status": object(&[("kind", "string"), ("apiVersion", "string"), ("status", "string"), ("reason", "string"), ("message", "string"), ("code", "integer")]),
        "Informers": object(&[("time", "time"), ("startedAt", "time"), ("cluster", "string"), ("eventsKept", "integer"), ("informers", "Informer[]")]),
        "Informer": object(&[
            ("name", "string"), ("resource", "string"), ("group", "string"), ("version", "string"), ("kind", "string"),
            ("cluster", "string"), ("scope", "string"), ("selection", "Selection"), ("namespaced", "boolean"),
            ("phase", "string"), ("synced", "boolean"), ("hidden", "boolean"), ("objects", "integer"), ("resourceVersion", "string"),
            ("bytes", "integer?"), ("sources", "Source[]"), ("counters", "object"), ("queue", "object"),
            ("handlers", "Handler[]"), ("indexes", "string[]"), ("columns", "string[]"), ("lastEventAt", "string?"),
            ("problems", "Problem[]"),
        ]),
        "Source": object(&[
            ("name", "string"), ("state", "string"), ("detail", "string"), ("synced", "boolean"),
            ("lastError", "string?"), ("lastErrorAt", "string?"), ("notServed", "string?"), ("notWatchable", "string?"),
        ]),
        "Handler": object(&[
            ("name", "string"), ("depth", "integer"), ("lag", "number"), ("delivered", "integer"),
            ("panics", "integer"), ("synced", "boolean"), ("stuck", "boolean"), ("removed", "boolean"),
        ]),
        "Problem": object(&[("severity", "string"), ("reason", "string"), ("message", "string")]),
        "Indexes": object(&[("indexes", "IndexSize[]")]),
        "IndexSize": object(&[("name", "string"), ("values", "integer?")]),
        "IndexValues": object(&[("index", "string"), ("total", "integer"), ("offset", "integer"), ("items", "IndexValue[]")]),
        "IndexValue": object(&[("value", "string"), ("objects", "integer")]),
        "Objects": object(&[
            ("view", "string"), ("revision", "integer"), ("resourceVersion", "string"), ("total", "integer"),
            ("offset", "integer"), ("next", "string?"), ("items", "Row[]"),
        ]),
        "Row": object(&[
            ("key", "string"), ("namespace", "string?"), ("name", "string"), ("uid", "string?"),
            ("resourceVersion", "string"), ("created", "string?"), ("status", "string"), ("deleting", "boolean"),
        ]),
        "Object": {"type": "object", "description": "The object as Kubernetes defines it, without hidden fields"},
        "History": object(&[("key", "string"), ("since", "time"), ("complete", "boolean"), ("items", "Change[]")]),
        "Change": object(&[
            ("id", "integer"), ("informer", "string"), ("cluster", "string"), ("scope", "string"), ("type", "string"),
            ("initial", "boolean"), ("key", "string"), ("namespace", "string?"), ("name", "string"), ("uid", "string?"),
            ("oldResourceVersion", "string"), ("resourceVersion", "string?"), ("time", "time"),
            ("finalStateUnknown", "boolean"), ("diff", "DiffEntry[]"), ("diffTruncated", "boolean"),
        ]),
        "DiffEntry": object(&[("path", "string"), ("old", "any"), ("new", "any")]),
        "Explanation": object(&[
            ("key", "string"), ("present", "boolean"), ("reason", "string"), ("message", "string"),
            ("resourceVersion", "string?"), ("time", "string?"), ("canAsk", "boolean"),
        ]),
        "Answer": object(&[
            ("key", "string"), ("found", "boolean"), ("resourceVersion", "string?"), ("message", "string"),
            ("object", "object?"),
        ]),
    })
}
