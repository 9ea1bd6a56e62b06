//! The dashboard of docs/observability.md, for Grafana: `cargo xtask dashboard` writes it, and `tidy` compares it.

use serde_json::{Value, json};

use crate::files;

const DASHBOARD: &str = "docs/observability/dashboard.json";

/// Writes the dashboard.
pub(crate) fn run() -> Result<(), String> {
    files::write(&files::root().join(DASHBOARD), &dashboard())
}

/// Reports a dashboard that is not that of this code.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let difference =
        files::difference(&files::read(DASHBOARD)?, &dashboard(), DASHBOARD, "cargo xtask dashboard");
    Ok(difference.into_iter().collect())
}

/// A graph: its title, the unit of Grafana, and its queries, each with the text of a series. `$s` is the selector of all.
type Graph = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The rows of graphs.
const ROWS: [(&str, &[Graph]); 5] = [
    (
        "Informers",
        &[
            (
                "Objects",
                "short",
                &[("sum by (instance, name) (informer_objects$s)", "{{name}} {{instance}}")],
            ),
            (
                "Not synced, or without a watch",
                "short",
                &[
                    ("1 - informer_synced$s", "{{name}} {{instance}}: not synced"),
                    ("1 - informer_watching$s", "{{name}} {{instance}}: no watch"),
                ],
            ),
            (
                "Failed lists and watches",
                "reqps",
                &[("rate(informer_failures_total$s[$__rate_interval])", "{{name}} {{instance}}")],
            ),
            (
                "Lag of handlers",
                "s",
                &[("informer_handler_lag_seconds$s", "{{name}} {{handler}} {{instance}}")],
            ),
        ],
    ),
    (
        "Controllers",
        &[
            (
                "Reconciliations",
                "reqps",
                &[(
                    "sum by (controller, result) (rate(controller_runtime_reconcile_total$s[$__rate_interval]))",
                    "{{controller}} {{result}}",
                )],
            ),
            (
                "Duration of reconciliations, 99 %",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (controller, le) \
                     (rate(controller_runtime_reconcile_time_seconds_bucket$s[$__rate_interval])))",
                    "{{controller}}",
                )],
            ),
            (
                "Workers",
                "short",
                &[
                    ("controller_runtime_active_workers$s", "{{controller}} {{instance}}"),
                    ("controller_runtime_max_concurrent_reconciles$s", "{{controller}} {{instance}}: all"),
                ],
            ),
            (
                "Objects that fail",
                "short",
                &[("kinformer_workqueue_failing_keys$s", "{{controller}} {{instance}}")],
            ),
        ],
    ),
    (
        "Queues",
        &[
            (
                "Queued objects",
                "short",
                &[("sum by (controller, instance) (workqueue_depth$s)", "{{controller}} {{instance}}")],
            ),
            (
                "Age of the oldest object",
                "s",
                &[("kinformer_workqueue_oldest_key_seconds$s", "{{controller}} {{instance}}")],
            ),
            (
                "Longest reconciliation",
                "s",
                &[("workqueue_longest_running_processor_seconds$s", "{{controller}} {{instance}}")],
            ),
        ],
    ),
    (
        "Leader election and rings",
        &[
            ("Leader", "short", &[("leader_election_master_status$s", "{{name}} {{instance}}")]),
            (
                "Slots",
                "short",
                &[
                    ("kinformer_ring_owned_slots$s", "{{name}} {{instance}}"),
                    ("max by (name) (kinformer_ring_unowned_slots$s)", "{{name}}: no owner"),
                ],
            ),
            (
                "Processes without their share",
                "short",
                &[("kinformer_ring_problem$s", "{{name}} {{instance}}")],
            ),
        ],
    ),
    (
        "Processes",
        &[
            (
                "Requests",
                "reqps",
                &[("sum by (code) (rate(rest_client_requests_total$s[$__rate_interval]))", "{{code}}")],
            ),
            ("Memory", "bytes", &[("process_resident_memory_bytes$s", "{{instance}}")]),
            ("CPU", "short", &[("rate(process_cpu_seconds_total$s[$__rate_interval])", "{{instance}}")]),
        ],
    ),
];

/// The selector of all series.
const SELECTOR: &str = "{namespace=~\"$namespace\",job=~\"$job\"}";
/// The width of Grafana's grid, and the height of a graph.
const WIDTH: usize = 24;
const HEIGHT: usize = 7;

fn dashboard() -> String {
    let mut panels = Vec::new();
    for (row, (title, graphs)) in ROWS.iter().enumerate() {
        let y = row * (HEIGHT + 1);
        let place = json!({"h": 1, "w": WIDTH, "x": 0, "y": y});
        panels.push(json!({"id": panels.len() + 1, "type": "row", "title": title, "gridPos": place}));
        let width = WIDTH / graphs.len();
        for (column, graph) in graphs.iter().enumerate() {
            let place = json!({"h": HEIGHT, "w": width, "x": column * width, "y": y + 1});
            panels.push(panel(panels.len() + 1, graph, &place));
        }
    }
    let dashboard = json!({
        "uid": "kinformer",
        "title": "kinformer",
        "tags": ["kubernetes"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            variable("namespace", "label_values(informer_objects, namespace)"),
            variable("job", "label_values(informer_objects{namespace=~\"$namespace\"}, job)"),
        ]},
    });
    // A line for each panel, so that differences are readable.
    let panels: Vec<String> = panels.iter().map(Value::to_string).collect();
    let settings = dashboard.to_string();
    let open = settings.strip_suffix('}').unwrap_or(&settings);
    format!("{open},\n\"panels\":[\n{}\n]}}\n", panels.join(",\n"))
}

fn panel(id: usize, (title, unit, queries): &Graph, place: &Value) -> Value {
    let targets = queries.iter().zip('A'..).map(|((expression, legend), letter)| {
        json!({"refId": letter, "expr": expression.replace("$s", SELECTOR), "legendFormat": legend})
    });
    json!({
        "id": id,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": targets.collect::<Vec<_>>(),
    })
}

/// A variable with the values of a label, or all of them.
fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "query": query,
        "refresh": 2,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    })
}
