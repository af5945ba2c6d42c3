//! What is written from the declarations of the keys: the shipped file, the tables of the reference page, and the part of the
//! Helm chart's schema that has the configuration.

use std::iter;

use clap::{Args as _, Command};
use serde_json::Value;

use super::{Config, Flags, keys::sections};

/// Longest line of the shipped file.
const MAX_LINE_WIDTH: usize = 120;
/// Keys that the chart sets from its own values; sections that it does not offer: no user of a pod's host reaches its socket,
/// and it mounts no directory for logs.
const NOT_IN_CHART: [&str; 5] = [
    "http.listen",
    "http.tls_certificate",
    "http.tls_key",
    "recordings.",
    "jobs.",
];

pub struct Section {
    pub name: &'static str,
    pub doc: &'static str,
    pub keys: Vec<Key>,
}

pub struct Key {
    pub name: &'static str,
    pub doc: &'static str,
    pub is_applied: bool,
    pub bounds: [Option<String>; 2],
    pub flag: Option<&'static str>,
    /// Of a key without a default.
    pub example: Option<&'static str>,
}

impl Key {
    fn text(&self) -> String {
        let bounds = match &self.bounds {
            [Some(least), Some(greatest)] => format!(" From {least} to {greatest}."),
            [Some(least), None] => format!(" At least {least}."),
            [None, Some(greatest)] => format!(" At most {greatest}."),
            [None, None] => String::new(),
        };
        let applied = if self.is_applied {
            " A reload applies it."
        } else {
            ""
        };
        format!("{}{bounds}{applied}", self.doc.trim())
    }

    /// The default as JSON, which is also TOML.
    fn default(&self, section: &Section) -> Value {
        serde_json::to_value(Config::default()).unwrap()[section.name][self.name].clone()
    }

    /// What the chart's schema says of it.
    fn schema(&self, section: &Section) -> String {
        let flags = Flags::augment_args(Command::new(""));
        let mut flags = flags.get_arguments();
        let flag = flags.find(|flag| self.flag == Some(flag.get_id().as_str()));
        let is_time = flag.is_some_and(|flag| flag.get_value_names() == Some(&["TIME".into()]));
        let names = flag.map_or(vec![], |flag| flag.get_possible_values());
        let names: Vec<_> = names
            .iter()
            .map(|value| format!("\"{}\"", value.get_name()))
            .collect();
        let bounds = iter::zip(["minimum", "maximum"], &self.bounds)
            .filter_map(|(name, bound)| Some(format!(", \"{name}\": {}", bound.as_ref()?)));
        let schema = match self.default(section) {
            Value::Bool(_) => "\"type\": \"boolean\"".into(),
            Value::Number(_) => "\"type\": \"integer\"".to_owned() + &bounds.collect::<String>(),
            Value::Array(_) => r#""type": "array", "items": { "type": "string" }"#.into(),
            Value::Object(_) => {
                r#""type": "object", "additionalProperties": { "type": "string", "pattern": "^\\$2[abxy]\\$" }"#
                    .into()
            }
            _ if is_time => r#""type": "string", "pattern": "^[0-9]""#.into(),
            _ if names.is_empty() => "\"type\": \"string\"".into(),
            _ => format!("\"enum\": [{}]", names.join(", ")),
        };
        format!("{{ {schema} }}")
    }
}

/// Text without the targets of its links, and without sentences that only name a page.
fn without_links(text: &str) -> String {
    if let Some((before, rest)) = text.split_once(" See [") {
        let after = rest.split_once(").").map_or("", |(_, after)| after);
        return without_links(&format!("{before}{after}"));
    }
    let link = text.split_once("](").and_then(|(before, rest)| {
        let (before, name) = before.rsplit_once('[')?;
        Some((before, name, rest.split_once(')')?.1))
    });
    match link {
        Some((before, name, after)) => format!("{before}{name}{}", without_links(after)),
        None => text.to_owned(),
    }
}

/// The text as comments.
fn comment(text: &str) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in text.split(' ') {
        if lines[lines.len() - 1].len() + 1 + word.len() > MAX_LINE_WIDTH {
            lines.push("#".to_owned());
        }
        *lines.last_mut().unwrap() += &format!(" {word}");
    }
    lines.join("\n") + "\n"
}

/// The shipped file, with the head that it has.
fn shipped(file: &str) -> String {
    let mut text = file.split_once("\n[").expect("a section").0.to_owned();
    for section in sections() {
        text += &format!("\n[{}]\n", section.name);
        let keys = section.keys.iter().map(|key| {
            let (name, doc) = (key.name, without_links(&key.text()));
            match (key.example, key.default(&section)) {
                (None, default) => format!("{}# {name} = {default}\n", comment(&doc)),
                (Some(example), Value::Object(_)) => {
                    let table = format!("# [{}.{name}]\n#   {example}\n", section.name);
                    comment(&doc) + &table
                }
                (Some(example), _) => {
                    let doc = format!("{doc} For example:");
                    format!("{}# {name} = {example}\n", comment(&doc))
                }
            }
        });
        text += &keys.collect::<Vec<_>>().join("\n");
    }
    text
}

/// The table of all keys.
fn table() -> String {
    let mut text = "| key | flag | default | meaning |\n|---|---|---|---|\n".to_owned();
    for section in sections() {
        text += &format!(
            "| **`[{}]`** | | | {} |\n",
            section.name,
            section.doc.trim()
        );
        for key in &section.keys {
            let flag = key.flag.map_or(String::new(), |flag| {
                format!("`--{}` ", flag.replace('_', "-"))
            });
            let default = match key.default(&section) {
                Value::Null | Value::Object(_) => String::new(),
                value => format!("`{value}` "),
            };
            text += &format!("| `{}` | {flag}| {default}| {} |\n", key.name, key.text());
        }
    }
    text
}

/// The properties of `config` in the chart's schema.
fn schema() -> String {
    let offered = sections().into_iter().filter_map(|section| {
        let keys = section.keys.iter().filter(|key| {
            let path = format!("{}.{}", section.name, key.name);
            !NOT_IN_CHART.iter().any(|other| path.starts_with(other))
        });
        let keys: Vec<_> = keys
            .map(|key| format!("            \"{}\": {}", key.name, key.schema(&section)))
            .collect();
        (!keys.is_empty()).then(|| {
            format!(
                "        \"{}\": {{\n          \"type\": \"object\",\n          \"additionalProperties\": false,\n          \
                 \"properties\": {{\n{}\n          }}\n        }}",
                section.name,
                keys.join(",\n")
            )
        })
    });
    offered.collect::<Vec<_>>().join(",\n")
}

#[test]
fn the_shipped_file_has_the_keys_as_they_are() {
    iotrace_pages::check("deploy/iotrace.toml", shipped);
}

#[test]
fn the_reference_has_the_keys_as_they_are() {
    iotrace_pages::check("docs/reference/configuration.md", |page| {
        iotrace_pages::replace(page, "keys", &table())
    });
}

#[test]
fn the_schema_of_the_chart_has_the_keys_as_they_are() {
    iotrace_pages::check("deploy/helm/iotrace/values.schema.json", |file| {
        let begin = "in a pod.\",\n      \"properties\": {\n";
        iotrace_pages::between(
            file,
            begin,
            "\n      }\n    },\n    \"configExtra\"",
            &schema(),
        )
    });
}
