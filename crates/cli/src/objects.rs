//! Output of `kinformer get`: objects and indexes of one snapshot.

use jiff::Timestamp;
use kinformer::{PackedObject, PackedRef, Snapshot};
use serde_json::json;

use crate::args::Format;
use crate::display_fields::DisplayFields;
use crate::exit::Error;
use crate::table::Table;
use crate::text::Text;

/// Formats the objects of one resource, one per line. JSON output copies their encoded bytes, so they must have been
/// fetched as JSON.
pub(crate) fn render(objects: &[PackedRef<'_, DisplayFields>], format: Format, now: Timestamp) -> Text {
    let mut text = Text::default();
    if format == Format::Json {
        objects.iter().for_each(|object| text.json_text(&String::from_utf8_lossy(&object.encoded())));
        return text;
    }
    let rows: Vec<[String; 7]> = objects
        .iter()
        .map(|object| {
            let key = object.key();
            let fields = object.decode().ok();
            let fields = fields.as_deref();
            let text =
                |value: Option<&str>| value.filter(|value| !value.is_empty()).unwrap_or("-").to_owned();
            [
                text(key.namespace()),
                text(Some(key.name())),
                text(fields.and_then(DisplayFields::phase)),
                text(fields.and_then(DisplayFields::node)),
                text(fields.and_then(DisplayFields::created).map(|created| age(created, now)).as_deref()),
                text(Some(&object.resource_version().to_string())),
                labels(object),
            ]
        })
        .collect();
    let any = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell != "-"));
    let wide = format == Format::Wide;
    let columns = [
        (any(0), "NAMESPACE"),
        (true, "NAME"),
        (any(2), "PHASE"),
        (any(3), "NODE"),
        (true, "AGE"),
        (wide, "VERSION"),
        (wide, "LABELS"),
    ];
    let visible = |cells: [String; 7]| {
        columns
            .iter()
            .zip(cells)
            .filter(|((visible, _), _)| *visible)
            .map(|(_, cell)| cell)
            .collect::<Vec<_>>()
    };
    let mut table = Table::new(visible(columns.map(|(_, title)| title.to_owned())));
    rows.into_iter().for_each(|row| table.row(visible(row)));
    table.lines().iter().for_each(|line| text.push(line));
    text
}

/// Formats every index, with the number of objects for each of its values, the most frequent first.
///
/// # Errors
/// Practically none: the index names come from the snapshot.
pub(crate) fn render_indexes(snapshot: &Snapshot<DisplayFields>, format: Format) -> Result<Text, Error> {
    let mut text = Text::default();
    let mut rows = Vec::new();
    for index in snapshot.index_names() {
        let mut values = Vec::new();
        for value in snapshot.index_values(&index).map_err(index_error)? {
            values.push((snapshot.index_len(&index, &value).map_err(index_error)?, value));
        }
        values.sort_by(|(count, value), (other, than)| other.cmp(count).then_with(|| value.cmp(than)));
        rows.extend(values.into_iter().map(|(count, value)| (index.clone(), value, count)));
    }
    if format == Format::Json {
        for (index, value, count) in rows {
            text.json(&json!({"index": index.as_ref(), "value": value.as_ref(), "objects": count}));
        }
        return Ok(text);
    }
    let mut table = Table::new(["INDEX", "VALUE", "OBJECTS"]);
    for (index, value, count) in rows {
        table.row([index.as_ref(), value.as_ref(), &count.to_string()]);
    }
    table.lines().iter().for_each(|line| text.push(line));
    Ok(text)
}

/// Converts the error of an unknown index, which is a mistake on the command line.
pub(crate) fn index_error(error: kinformer::Error) -> Error {
    Error::Usage(match error {
        kinformer::Error::Index { source, .. } => source.to_string(),
        other => other.to_string(),
    })
}

fn labels(object: &PackedObject) -> String {
    let labels: Vec<String> = object.labels().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { "-".into() } else { labels.join(",") }
}

/// Formats an age as kubectl does: two units at most, one where the first is large.
fn age(created: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(created.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: i64, unit: &str, second: i64, than: &str| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{than}"),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use kinformer::{Packed, SharedInformerFactory};
    use kinformer_apiserver::ApiServer;
    use kube_core::discovery::{ApiResource, Scope};
    use serde_json::Value;

    use super::*;
    use crate::display_fields::tests::packed;
    use crate::indexes;

    fn pod_json(name: &str, node: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "resourceVersion": "7", "labels": {"app": "web"},
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}]},
            "spec": {"nodeName": node}, "status": {"phase": "Running"},
        })
    }

    fn pod(name: &str, node: &str) -> Packed<DisplayFields> {
        packed(&pod_json(name, node))
    }

    fn now() -> Timestamp {
        "2026-01-01T01:40:00Z".parse().expect("a time")
    }

    #[test]
    fn only_columns_with_values_are_printed() {
        let (one, two) = (pod("a", "n1"), pod("bcd", "n2"));
        assert_eq!(
            render(&[one.as_ref(), two.as_ref()], Format::Text, now()).as_str(),
            "NAMESPACE  NAME  PHASE    NODE  AGE\nshop       a     Running  n1    100m\n\
             shop       bcd   Running  n2    100m\n"
        );
        let node = packed(&json!({"metadata": {"name": "n1"}}));
        assert_eq!(render(&[node.as_ref()], Format::Text, now()).as_str(), "NAME  AGE\nn1    -\n");
        assert!(render(&[one.as_ref()], Format::Wide, now()).as_str().contains("app=web"));
    }

    #[test]
    fn json_has_all_fields() {
        let one = pod("a", "n1");
        let line = render(&[one.as_ref()], Format::Json, now());
        let line = line.as_str();
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(object["spec"]["nodeName"], "n1");
        assert_eq!(line.lines().count(), 1);
    }

    #[tokio::test]
    async fn indexes_are_counted() {
        let server = ApiServer::builder().start().await.expect("starts");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        server.create(namespace).expect("good");
        for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n2")] {
            let mut pod = pod_json(name, node);
            pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
            server.create(pod).expect("good");
        }
        let client = kinformer::client(server.config().expect("a URL")).expect("a client");
        let factory = SharedInformerFactory::new(client);
        let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        let pods = factory.dynamic(pods, Scope::Namespaced).cast();
        indexes::add_to(&pods).expect("the names differ");
        factory.start().expect("a runtime");
        pods.wait_for_sync().await.expect("served");
        let snapshot = pods.snapshot().expect("started");
        let mut names = snapshot.index_names();
        names.sort();
        let mut known = indexes::NAMES;
        known.sort_unstable();
        assert!(names.iter().map(AsRef::as_ref).eq(known), "{names:?}");
        let text = render_indexes(&snapshot, Format::Text).expect("known");
        let text = text.as_str();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        for row in [
            ["namespace", "shop", "3"],
            ["label", "app=web", "3"],
            ["node", "n2", "2"],
            ["node", "n1", "1"],
            ["owner", "ReplicaSet/web", "3"],
        ] {
            assert!(rows.iter().any(|found| *found == row), "{row:?} in {text}");
        }
        let json = render_indexes(&snapshot, Format::Json).expect("known");
        let json = json.as_str();
        let lines: Vec<serde_json::Value> =
            json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert!(lines.contains(&json!({"index": "node", "value": "n2", "objects": 2})), "{json}");
        factory.shutdown().await.expect("in time");
        server.shutdown().await;
    }

    #[test]
    fn ages_are_formatted_as_by_kubectl() {
        let ages = [
            (0, "0s"),
            (119, "119s"),
            (150, "2m30s"),
            (600, "10m"),
            (10_800, "3h"),
            (172_800, "2d"),
            (864_000, "10d"),
        ];
        for (seconds, shown) in ages {
            let created = Timestamp::from_second(now().as_second() - seconds).expect("in range");
            assert_eq!(age(created, now()), shown);
        }
    }
}
