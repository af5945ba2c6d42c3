//! The totals and the state of the service as OpenMetrics, or as Prometheus's older text format.
//!
//! The only module that names prometheus-client. `docs/reference/metrics.md` describes every metric.
//!
//! ```text
//! out      metrics of one kind, and labels
//! io       what was done on files
//! block    requests to block devices
//! units    who did it, and what beside
//! own      the service itself
//! ```

mod block;
mod io;
pub mod out;
mod own;
mod units;

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};

use super::{front, own::Usage, shared::Shared};
use out::Out;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's own, version 0.0.4.
    Text,
}

impl Format {
    /// Value of the header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes the metrics of a service.
pub struct Exporter {
    registry: Registry,
}

impl Exporter {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self::with_usage(shared, Usage::now)
    }

    /// With what `usage` says of the resources that the service uses.
    pub fn with_usage(shared: Arc<Shared>, usage: fn(&front::State) -> Usage) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Exposition { shared, usage }));
        Self { registry }
    }

    /// Writes all metrics as they are now.
    pub fn encode(&self, format: Format) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(256 << 10);
        text::encode(&mut text, &self.registry)?;
        Ok(match format {
            Format::OpenMetrics => text,
            Format::Text => as_text(&text),
        })
    }
}

/// OpenMetrics as the older format: there the name of a counter or an info has its suffix in every line, there are no
/// units, and an info is a gauge.
fn as_text(open: &str) -> String {
    let mut text = String::with_capacity(open.len() + open.len() / 16);
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let Some(help) = line.strip_prefix("# HELP ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let (name, help) = help.split_once(' ').unwrap_or((help, ""));
        let kind = lines
            .next_if(|line| line.starts_with("# TYPE "))
            .and_then(|line| line.rsplit(' ').next());
        let (suffix, kind) = match kind {
            Some("counter") => ("_total", "counter"),
            Some("info") => ("_info", "gauge"),
            kind => ("", kind.unwrap_or("untyped")),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}"
        );
    }
    text
}

struct Exposition {
    shared: Arc<Shared>,
    usage: fn(&front::State) -> Usage,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exposition")
    }
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = (self.usage)(&self.shared.front);
        let mut out = Out(encoder);
        self.shared.with(|state| {
            out.io(&state.totals)?;
            if let Some(histograms) = &state.histograms {
                out.histograms(histograms)?;
            }
            out.devices(&state.devices)?;
            out.saves(state)?;
            out.units(&state.totals)?;
            out.beside(state)?;
            out.directories(&state.totals)?;
            out.processes(&state.totals)?;
            out.bounds(state)?;
            out.service(&state.service)?;
            out.usage(&usage)
        })
    }
}
