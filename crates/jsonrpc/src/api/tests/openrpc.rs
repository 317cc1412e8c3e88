//! Checks results against the execution-apis' OpenRPC document, whose parts are YAML files.

use std::collections::BTreeMap;

use super::*;

/// The methods' result schemas.
pub(super) struct OpenRpc {
    results: BTreeMap<String, jsonschema::Validator>,
}

impl OpenRpc {
    /// Loads all parts, if they are there.
    pub(super) fn load() -> Option<Self> {
        let directory = reference("openrpc")?;
        let mut schemas = serde_json::Map::new();
        let mut methods = Vec::new();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let folder = entry.unwrap().path();
            for file in std::fs::read_dir(&folder).unwrap() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                let value: Value = yaml_serde::from_str(&text).unwrap();
                match value {
                    Value::Object(object) if folder.ends_with("schemas") => schemas.extend(object),
                    Value::Array(list) => methods.extend(list),
                    _ => {}
                }
            }
        }
        let schemas = Value::Object(schemas);
        let results = methods
            .into_iter()
            .map(|method| {
                let mut schema = method["result"]["schema"].clone();
                schema["components"] = json!({ "schemas": schemas });
                let name = method["name"].as_str().unwrap().to_owned();
                let validator =
                    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
                (name, validator)
            })
            .collect();
        Some(Self { results })
    }

    /// The methods of the document.
    pub(super) fn methods(&self) -> impl Iterator<Item = &str> {
        self.results.keys().map(String::as_str)
    }

    /// What is wrong with a result by the document; nothing with results of methods that it does not have.
    pub(super) fn fault(&self, method: &str, result: &Value) -> Option<String> {
        let error = self.results.get(method)?.iter_errors(result).next()?;
        Some(format!("not of the form of {method}: {error} at {}", error.instance_path()))
    }
}

#[test]
fn the_document_refuses_what_is_not_of_its_form() {
    let Some(document) = OpenRpc::load() else { return };
    assert!(document.fault("eth_blockNumber", &json!("0x1")).is_none());
    assert!(document.fault("eth_blockNumber", &json!("0x01")).is_some());
    assert!(document.fault("eth_getBlockByHash", &json!({"hash": 1})).is_some());
    assert!(document.fault("eth_getBlockByHash", &Value::Null).is_none());
}
