//! One view as a JSON object.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use super::entries::put_text;
use crate::{FORMAT_VERSION, Report, view::View};

/// Writes the view as one JSON object and a newline.
pub fn view_json(report: &Report<'_>, view: &View, mut out: impl Write) -> io::Result<()> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let row = |row: &crate::view::ViewRow| {
        let flow = &row.flow;
        let mut object = Map::new();
        match row.process {
            Some(index) => {
                let process = &report.model.processes()[index as usize];
                object.insert("pid".into(), process.id.pid.into());
                put_text(&mut object, "name", &process.about.comm);
                if let Some(host) = report.host_of(process.node) {
                    object.insert("host".into(), host.into());
                }
            }
            None => {
                put_text(&mut object, "name", &row.name);
                object.insert("processes".into(), row.processes.into());
            }
        }
        object.insert("files".into(), row.files.into());
        object.insert("operations".into(), flow.io.operations.into());
        object.insert("bytes_read".into(), flow.io.bytes_read.into());
        object.insert("bytes_written".into(), flow.io.bytes_written.into());
        object.insert("bytes_fetched".into(), flow.bytes_fetched.into());
        object.insert("mapped_bytes".into(), flow.mapped_bytes.into());
        object.insert("seconds".into(), seconds(flow.io.ns).into());
        object.insert("read_seconds".into(), seconds(flow.read_ns).into());
        object.insert("write_seconds".into(), seconds(flow.write_ns).into());
        object.insert("meta_seconds".into(), seconds(flow.meta_ns).into());
        object.insert("sync_seconds".into(), seconds(flow.sync_ns).into());
        if let Some(merged) = &row.merged {
            object.insert("merged_seconds".into(), seconds(merged.at_most).into());
            object.insert("merged_exact".into(), merged.is_exact().into());
        }
        Json::Object(object)
    };
    let (rows, rest) = view.rest;
    let mut object = json!({
        "format_version": FORMAT_VERSION,
        "by": view.choice.by.name(),
        "phase": view.choice.phase,
        "rows": view.rows.iter().map(row).collect::<Vec<_>>(),
        "rest": {
            "rows": rows,
            "operations": rest.io.operations,
            "bytes_read": rest.io.bytes_read,
            "bytes_written": rest.io.bytes_written,
            "seconds": seconds(rest.io.ns),
        },
    });
    if let Some(selection) = &report.selection {
        object["selection"] = selection.json();
    }
    serde_json::to_writer(&mut out, &object)?;
    out.write_all(b"\n")
}
