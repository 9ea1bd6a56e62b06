//! Lists of requests with the results of the field manager of Kubernetes 1.37, which a Go program has written:
//! `go run ./schemas cases 300 1` in `e2e/control-plane`. Of 300 random cases it writes those that have a new kind of
//! request or result.

use serde_json::{Map, Value};

use super::{
    ApplyError, Conflicts, FieldManager, Filter, Schema, Versions, Writer, schema_of_definition, unpack,
};

const CASES: &str = include_str!("../../tests/data/apply.jsonl");
const API_VERSION: &str = "example.com/v1";
const KIND: &str = "Widget";

pub(super) struct OneVersion(pub(super) Schema);

impl Versions for OneVersion {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn convert(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }
}

/// Replaces the times of the managers, and sorts the managers by name instead of time.
fn without_times(object: &mut Value) {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    let Some(entries) = entries else { return };
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(time) = entry.get_mut("time") {
            *time = "t".into();
        }
    }
    entries.sort_by_key(|entry| {
        ["manager", "operation", "apiVersion"].map(|field| entry[field].as_str().unwrap().to_owned())
    });
}

fn run(case: &Value, types: &OneVersion) {
    let managers = FieldManager {
        versions: types,
        api_version: API_VERSION,
        kind: KIND,
        subresource: "",
        filter: Filter::default(),
    };
    let mut live = Value::Object(Map::new());
    live["apiVersion"] = API_VERSION.into();
    live["kind"] = KIND.into();
    for step in case.as_array().unwrap() {
        let writer = Writer { manager: step["manager"].as_str().unwrap(), now: "2026-01-01T00:00:00Z" };
        let mut object = step["object"].clone();
        let result = if step["apply"] == true {
            let conflicts = if step["force"] == true { Conflicts::Forced } else { Conflicts::Refused };
            managers.apply(live.clone(), &object, writer, conflicts)
        } else {
            managers.record(&live, &mut object, writer);
            Ok(object)
        };
        match (result, step.get("error").and_then(Value::as_str)) {
            (Ok(mut result), None) => {
                live = result.clone();
                unpack(result.as_object_mut().unwrap());
                let mut expected = step["result"].clone();
                without_times(&mut expected);
                without_times(&mut result);
                assert_eq!(result, expected, "{step:#}");
            }
            (Err(error), Some(expected)) => {
                let (ApplyError::Conflicts { message, .. }
                | ApplyError::BadRequest(message)
                | ApplyError::Failed(message)) = error;
                // Go checks fields in random order
                if !expected.contains("errors:") && !message.contains("errors:") {
                    assert_eq!(message, expected, "{step:#}");
                }
            }
            (result, expected) => panic!("{result:?} instead of {expected:?}: {step:#}"),
        }
    }
}

#[test]
fn requests_have_the_results_of_kubernetes() {
    let mut lines = CASES.lines();
    let schema: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let versions = [(API_VERSION.to_owned(), Some(&schema))];
    let types = OneVersion(schema_of_definition(KIND, versions.into_iter()));
    let mut count = 0;
    for line in lines {
        run(&serde_json::from_str(line).unwrap(), &types);
        count += 1;
    }
    assert_eq!(count, 93);
}
