//! Metrics of one kind each, with their labels.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use prometheus_client::{
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelValue,
        LabelValueEncoder, MetricEncoder, NoLabelSet,
    },
    metrics::MetricType,
    registry::Unit,
};

use crate::{
    attribution,
    totals::{MountId, NO_MOUNT, Totals},
};
use iotrace_phases::phase::Phase;

/// A label's value: a user may have written it.
pub struct Text<'a>(pub Cow<'a, str>);

impl EncodeLabelValue for Text<'_> {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => encoder.write_str("\\\\")?,
                '"' => encoder.write_str("\\\"")?,
                '\n' => encoder.write_str("\\n")?,
                c => encoder.write_char(c)?,
            }
        }
        Ok(())
    }
}

pub type Label<'a> = (&'static str, Text<'a>);

pub fn label<'a>(name: &'static str, value: impl Into<Cow<'a, str>>) -> Label<'a> {
    (name, Text(value.into()))
}

/// Whose counts these are.
pub fn unit_labels(unit: Option<&attribution::Unit>) -> Vec<Label<'_>> {
    let name = unit.map_or("other", |unit| &unit.name);
    let claimed = unit.and_then(attribution::Unit::claimed_by);
    let claimed = claimed.map(|claimed| label("claimed", claimed));
    [label("unit", name)].into_iter().chain(claimed).collect()
}

/// Where the files are; nothing where no file is named.
pub fn mount_labels(totals: &Totals, mount: MountId) -> Vec<Label<'_>> {
    if mount == NO_MOUNT {
        return Vec::new();
    }
    let mount = totals.mount(mount);
    vec![
        label("mountpoint", &mount.mountpoint),
        label("fstype", &mount.fstype),
    ]
}

/// Nanoseconds as seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A phase as the label has it: a class of `other` is a phase of its own.
pub fn phase_name(phase: Phase) -> &'static str {
    phase.class().map_or(phase.name(), |class| class.name())
}

/// Where metrics are written.
pub struct Out<'a>(pub DescriptorEncoder<'a>);

impl Out<'_> {
    pub fn counters<'l, N: EncodeCounterValue>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        rows: impl IntoIterator<Item = (Vec<Label<'l>>, N)>,
    ) -> fmt::Result {
        let descriptor = (name, unit, help, MetricType::Counter);
        self.families(descriptor, rows, |mut family, value| {
            family.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    pub fn gauges<'l, N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        rows: impl IntoIterator<Item = (Vec<Label<'l>>, N)>,
    ) -> fmt::Result {
        let descriptor = (name, unit, help, MetricType::Gauge);
        self.families(descriptor, rows, |mut family, value| {
            family.encode_gauge(&value)
        })
    }

    /// A metric with a value for each set of labels.
    fn families<'l, N>(
        &mut self,
        (name, unit, help, kind): (&str, Option<&Unit>, &str, MetricType),
        rows: impl IntoIterator<Item = (Vec<Label<'l>>, N)>,
        encode: impl Fn(MetricEncoder<'_>, N) -> fmt::Result,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in rows {
            encode(metric.encode_family(&labels.as_slice())?, value)?;
        }
        Ok(())
    }

    pub fn infos<'l>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = Vec<Label<'l>>>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Info)?;
        for labels in rows {
            metric.encode_info(&labels.as_slice())?;
        }
        Ok(())
    }

    pub fn counter(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        value: u64,
    ) -> fmt::Result {
        self.counters(name, unit, help, [(vec![], value)])
    }

    pub fn gauge(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        value: u64,
    ) -> fmt::Result {
        self.gauges(name, unit, help, [(vec![], value as f64)])
    }
}
