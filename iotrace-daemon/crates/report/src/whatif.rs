//! Predictions as JSON: the same in findings and in `iotrace whatif`.

use iotrace_analysis::whatif::{Part, Prediction, Replayed};
use serde_json::{Map, Value, json};

use super::json::entries::seconds;

/// A prediction and the change, in words, that it is of.
pub fn prediction_json(change: &str, prediction: &Prediction) -> Value {
    let mut object = replayed_json(&prediction.replayed);
    object["change"] = json!(change);
    object["low_seconds"] = json!(seconds(prediction.low));
    object["high_seconds"] = json!(seconds(prediction.high));
    object["is_predictable"] = json!(prediction.is_predictable);
    object
}

/// What a replay took, and what that consisted of.
pub fn replayed_json(replayed: &Replayed) -> Value {
    let parts = replayed.parts.iter();
    let parts = parts.map(|(part, ns)| (part.name().to_owned(), json!(seconds(*ns))));
    json!({
        "seconds": seconds(replayed.ns),
        "limited_by": replayed.bottleneck().map(|(part, _): (Part, u64)| part.name()),
        "parts": parts.collect::<Map<_, _>>(),
        "busy_cpus": replayed.busy_cpus,
    })
}
