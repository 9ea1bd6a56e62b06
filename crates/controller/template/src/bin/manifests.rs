//! Prints manifests for `kubectl apply -f -`.

use {{crate_name}}::manifests::{definitions, deployment, monitoring, namespace, roles};
use serde_json::Value;

const USAGE: &str = "usage: manifests crd | roles | deployment IMAGE | monitoring | all IMAGE";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let objects: Vec<Value> = match arguments[..] {
        ["crd"] => definitions(),
        ["roles"] => [vec![namespace()], roles()].concat(),
        ["deployment", image] => vec![deployment(image)],
        ["monitoring"] => monitoring(),
        ["all", image] => [definitions(), vec![namespace()], roles(), vec![deployment(image)]].concat(),
        _ => return Err(USAGE.into()),
    };
    // JSON is YAML, too.
    for object in objects {
        println!("---\n{}", serde_json::to_string_pretty(&object)?);
    }
    Ok(())
}
