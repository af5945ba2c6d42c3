//! The service itself: its bounds, its hooks, what it did not account, and what it uses.

use std::fmt;

use iotrace_common::diag;
use prometheus_client::registry::Unit;

use super::out::{Out, label, seconds};
use crate::{
    own::{Resources, Usage},
    shared::{Service, State},
};
use iotrace_tracer::kernel::ProgramRuns;

impl Out<'_> {
    pub fn bounds(&mut self, state: &State) -> fmt::Result {
        let totals = &state.totals;
        let help = "Series of units, without those of the unit other.";
        self.gauge("iotrace_series", None, help, totals.series() as u64)?;
        let help = "The most series of units that there may be.";
        self.gauge("iotrace_series_limit", None, help, totals.limit() as u64)?;
        let help = "Counts that went to the unit other, because there were too many series.";
        self.counter("iotrace_series_folds", None, help, totals.folds())?;
        let help =
            "Directories and processes with series of their own that had to leave for others.";
        let replaced = [
            ("directory", totals.directories.replaced()),
            ("process", totals.processes.replaced()),
        ];
        let rows = replaced.map(|(series, count)| (vec![label("series", series)], count));
        self.counters("iotrace_top_replacements", None, help, rows)?;
        let memory = &state.service.memory;
        let help = "Units that were not looked at for findings, because they have too many files.";
        let name = "iotrace_findings_skipped_looks";
        self.counter(name, None, help, memory.findings_skipped)?;
        let help = "Counts that were of the phase that a path says, because too many waited for what comes after.";
        let name = "iotrace_undecided_crowded_out";
        self.counter(name, None, help, memory.crowded_out)?;
        let help = "Files known one by one.";
        self.gauge("iotrace_known_files", None, help, memory.files)?;
        let help = "Processes known one by one.";
        self.gauge("iotrace_known_processes", None, help, memory.processes)?;
        let help = "Environments of processes that could not be read in time.";
        let name = "iotrace_given_up_reads";
        self.counter(name, None, help, memory.reads_given_up)?;
        let help = "Entries of a table of the service.";
        let rows = memory.tables.iter();
        let rows = rows.map(|(table, entries)| (vec![label("table", *table)], *entries as f64));
        self.gauges("iotrace_table_entries", None, help, rows)?;
        let help = "Files that were forgotten to bound the memory; what was counted stays counted.";
        self.counter(
            "iotrace_forgotten_files",
            None,
            help,
            memory.forgotten_files,
        )
    }

    pub fn service(&mut self, service: &Service) -> fmt::Result {
        let build = vec![
            label("version", service.version),
            label("hook", &service.hook),
            label("detail", &service.detail),
            label("kernel", &service.kernel),
        ];
        self.infos("iotrace_build", "This iotrace, and how it traces.", [build])?;
        let hooks = service.hooks.iter().map(|hook| {
            let required = if hook.required { "true" } else { "false" };
            let labels = vec![label("hook", &hook.name), label("required", required)];
            (labels, f64::from(u8::from(hook.attached)))
        });
        let help = "Whether a kernel hook is attached.";
        self.gauges("iotrace_hook_attached", None, help, hooks)?;
        let is_count = |(reason, _): &(&String, _)| {
            !diag::is_part(reason)
                && *reason != diag::NAMES[diag::LOST_BYTES as usize]
                && *reason != diag::NAMES[diag::UNSURE_NS as usize]
        };
        let reasons = service.unaccounted.iter().filter(is_count);
        let reasons = reasons.map(|(reason, count)| {
            let kind = if diag::is_loss(reason) {
                "lost"
            } else {
                "incomplete"
            };
            (vec![label("reason", reason), label("kind", kind)], *count)
        });
        let help =
            "What was not accounted (kind lost), or not in full (kind incomplete), by reason.";
        self.counters("iotrace_unaccounted", None, help, reasons)?;
        let loss = |index: u32| {
            let loss = service.unaccounted.get(diag::NAMES[index as usize]);
            loss.copied().unwrap_or(0)
        };
        let help = "Bytes of operations that no counter holds.";
        let bytes = loss(diag::LOST_BYTES);
        self.counter("iotrace_lost", Some(&Unit::Bytes), help, bytes)?;
        let help = "How much merged times may be off.";
        let rows = [(vec![], seconds(loss(diag::UNSURE_NS)))];
        self.counters("iotrace_merged_uncertain", Some(&Unit::Seconds), help, rows)?;
        let drain = &service.drain;
        let help = "Drains of the kernel's counters.";
        self.counter("iotrace_drains", None, help, drain.drains)?;
        let help = "Entries taken out of the kernel's counters.";
        self.counter("iotrace_drained_entries", None, help, drain.entries)?;
        let (name, help) = ("iotrace_drain", "Time spent in drains.");
        let rows = [(vec![], drain.seconds)];
        self.counters(name, Some(&Unit::Seconds), help, rows)?;
        let (name, help) = ("iotrace_longest_drain", "The longest drain.");
        let rows = [(vec![], drain.longest_seconds)];
        self.gauges(name, Some(&Unit::Seconds), help, rows)?;
        let help = "Entries that the last drain found.";
        self.gauge("iotrace_map_entries", None, help, drain.map_entries)?;
        let help = "Entries that the kernel's counters have room for between two drains.";
        self.gauge(
            "iotrace_map_entries_limit",
            None,
            help,
            drain.map_entries_limit,
        )?;
        let help = "Kernel memory of the maps.";
        self.gauge("iotrace_map", Some(&Unit::Bytes), help, drain.map_bytes)?;
        self.programs(&service.programs)
    }

    fn programs(&mut self, programs: &[ProgramRuns]) -> fmt::Result {
        if programs.is_empty() {
            return Ok(());
        }
        let labels = |program: &ProgramRuns| vec![label("program", program.name.clone())];
        let help = "Runs of a kernel program since it was loaded.";
        let rows = programs.iter().map(|p| (labels(p), p.runs));
        self.counters("iotrace_program_runs", None, help, rows)?;
        let help = "Time of these runs.";
        let rows = programs.iter().map(|p| (labels(p), p.time.as_secs_f64()));
        self.counters("iotrace_program_run", Some(&Unit::Seconds), help, rows)
    }

    /// By the names that all exporters use for their process, and the front by its own.
    pub fn usage(&mut self, usage: &Usage) -> fmt::Result {
        let own = &usage.own;
        self.resources("process", "the tracing process", own)?;
        let help = "Open file descriptors of the tracing process.";
        self.gauge("process_open_fds", None, help, usage.open_descriptors)?;
        let help = "The most file descriptors that the tracing process may open.";
        self.gauge("process_max_fds", None, help, usage.max_descriptors)?;
        let front = &usage.front;
        self.resources("iotrace_front", "the front process", &front.resources)?;
        let help = "Times that the front process, which serves HTTP and users, was started again.";
        self.counter("iotrace_front_restarts", None, help, front.restarts)
    }

    fn resources(&mut self, prefix: &str, whose: &str, used: &Resources) -> fmt::Result {
        let (name, help) = (
            format!("{prefix}_cpu"),
            format!("CPU time of {whose}, user and system."),
        );
        let rows = [(vec![], used.cpu_seconds)];
        self.counters(&name, Some(&Unit::Seconds), &help, rows)?;
        for (memory, what, bytes) in [
            ("resident", "Resident", used.resident_bytes),
            ("virtual", "Virtual", used.virtual_bytes),
        ] {
            let name = format!("{prefix}_{memory}_memory");
            let help = format!("{what} memory of {whose}.");
            self.gauge(&name, Some(&Unit::Bytes), &help, bytes)?;
        }
        Ok(())
    }
}
