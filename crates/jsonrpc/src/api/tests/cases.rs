//! Runs the `.io` files: `>>` request, `<<` expected answer.

use super::*;

/// Cases whose answers differ from the reference for a reason.
const EXPECTED_FAILURES: &[(&str, &str)] = &[];

struct Case {
    name: String,
    spec_only: bool,
    exchanges: Vec<(Value, Value)>,
}

fn cases(directory: &std::path::Path) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut methods: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    methods.sort();
    for method in methods.into_iter().filter(|path| path.is_dir()) {
        let mut files: Vec<_> =
            std::fs::read_dir(&method).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let mut exchanges = Vec::new();
            let mut request = None;
            for line in text.lines() {
                if let Some(json) = line.strip_prefix(">> ") {
                    request = Some(serde_json::from_str::<Value>(json).unwrap());
                } else if let Some(json) = line.strip_prefix("<< ") {
                    exchanges.push((request.take().unwrap(), serde_json::from_str(json).unwrap()));
                }
            }
            cases.push(Case {
                name: file.strip_prefix(directory).unwrap().display().to_string(),
                spec_only: text.lines().any(|line| line.starts_with("// speconly:")),
                exchanges,
            });
        }
    }
    cases
}

/// Numbers are the same however they are written: 0 and 0.0.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

/// The first place where two values differ.
fn difference(path: &str, found: &Value, wanted: &Value) -> Option<String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let keys: std::collections::BTreeSet<_> = found.keys().chain(wanted.keys()).collect();
            keys.into_iter().find_map(|key| {
                let none = json!("(absent)");
                difference(
                    &format!("{path}.{key}"),
                    found.get(key).unwrap_or(&none),
                    wanted.get(key).unwrap_or(&none),
                )
            })
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => found
            .iter()
            .zip(wanted)
            .enumerate()
            .find_map(|(index, (found, wanted))| difference(&format!("{path}[{index}]"), found, wanted)),
        _ if same(found, wanted) => None,
        _ => {
            let cut = |value: &Value| value.to_string().chars().take(300).collect::<String>();
            Some(format!("{path}: {} instead of {}", cut(found), cut(wanted)))
        }
    }
}

#[test]
fn answers_are_those_of_the_execution_apis() {
    let Some(directory) = reference("rpc-compat") else { return };
    let schema = openrpc::OpenRpc::load();
    let mut failures = Vec::new();
    let mut checked = 0;
    for case in cases(&directory) {
        // Each case finds the chain as it was: some send transactions.
        let client = Client::reference().unwrap();
        for (request, wanted) in &case.exchanges {
            checked += 1;
            let method = request["method"].as_str().unwrap();
            let params = request.get("params").cloned().unwrap_or(Value::Null);
            let difference = match client.call(method, &params) {
                Ok(result) => {
                    // Where the expected answer is not of the document's form, the two contradict each other.
                    let applies =
                        |schema: &&openrpc::OpenRpc| schema.fault(method, &wanted["result"]).is_none();
                    let schema =
                        schema.as_ref().filter(applies).and_then(|schema| schema.fault(method, &result));
                    schema.or_else(|| match wanted.get("result") {
                        // Only the form counts.
                        Some(_) if case.spec_only => None,
                        Some(wanted) => difference("result", &result, wanted),
                        None => Some(format!("{result} instead of {}", wanted["error"])),
                    })
                }
                Err(error) => {
                    let data =
                        error.data.as_deref().map_or(Value::Null, |data| serde_json::from_str(data).unwrap());
                    let found = json!({"code": error.code, "message": error.message, "data": data});
                    let mut error = wanted["error"].clone();
                    if error.is_object() && error.get("data").is_none() {
                        error["data"] = Value::Null;
                    }
                    if case.spec_only {
                        difference("error.code", &found["code"], &error["code"])
                    } else {
                        difference("error", &found, &error)
                    }
                }
            };
            if let Some(difference) = difference {
                failures.push((case.name.clone(), difference));
            }
        }
    }
    let unexpected: Vec<String> = failures
        .iter()
        .filter(|(name, _)| !EXPECTED_FAILURES.iter().any(|(expected, _)| expected == name))
        .map(|(name, difference)| format!("{name}: {difference}"))
        .collect();
    assert!(unexpected.is_empty(), "{} of {checked} fail:\n{}", unexpected.len(), unexpected.join("\n"));
    for (name, reason) in EXPECTED_FAILURES {
        assert!(failures.iter().any(|(failed, _)| failed == name), "{name} passes by now ({reason})");
    }
    assert!(checked > 0);
}
