//! One thing of each kind: what a person writes to add it.

use super::Edit;

pub struct Kind {
    /// As CONTRIBUTING.md has it.
    pub name: &'static str,
    /// The most files that it may take.
    pub most: usize,
    pub(super) edits: &'static [Edit],
}

const TABLE: &str = "iotrace-common/src/counters/table.rs";
const OP: &str = "iotrace-common/src/op.rs";
const GLOBALS: &str = "iotrace-common/src/abi/globals.rs";
const SHOWN: &str = "iotrace-daemon/crates/model/src/counters/shown.rs";
const TABLES: &str = "iotrace-daemon/crates/recording/src/tables/mod.rs";
const SECTIONS: &str = "iotrace-daemon/crates/report/src/sections/mod.rs";
const KEYS: &str = "iotrace-daemon/crates/service/src/config/keys.rs";
const HOOKS: &str = "iotrace-daemon/crates/tracer/src/kernel/hooks.rs";
const LOAD: &str = "iotrace-daemon/crates/tracer/src/kernel/load.rs";
const RECORD: &str = "iotrace-daemon/src/record.rs";
const ACCOUNT: &str = "iotrace-ebpf/src/core/account.rs";

const fn edit(file: &'static str, after: &'static str, text: &'static str) -> Edit {
    Edit { file, after, text }
}

const fn new(file: &'static str, text: &'static str) -> Edit {
    edit(file, "", text)
}

#[rustfmt::skip]
pub const KINDS: &[Kind] = &[
    Kind {
        name: "a counter",
        most: 3,
        edits: &[
            edit(TABLE, "(POSIX_BYTES_WRITTEN).\"; }\n", r#"        large_reads: u64 { LARGE_READS "large_reads" Calls Sum Reads [] "Reads that returned at least 1 MiB."; }
"#),
            edit(TABLE, "op::COUNT.next_multiple_of(2) + 160", " + 8"),
            edit(ACCOUNT, "        (*io).calls[op] += 1;\n", "        (*io).large_reads += u64::from(op == op::READ);\n"),
            edit(SHOWN, "counts again.\" FilesSeen;\n", r#"    "iotrace_large_reads" Calls "Reads of at least 1 MiB." Of(&[Series::of("", LARGE_READS)]);
"#),
            edit(SHOWN, "MAPPED_BYTES_DIRTIED \"Dirtied\" true;\n", "    LARGE_READS \"Large reads\" true;\n"),
            edit(SHOWN, "pub const LINES: &[(usize, &str)] = &[", "\n    (LARGE_READS, \"{} reads returned at least 1 MiB.\"),\n    "),
        ],
    },
    Kind {
        name: "a metric of a counter",
        most: 2,
        edits: &[edit(SHOWN, "counts again.\" FilesSeen;\n", r#"    "iotrace_direct_opens" Calls "Opens with O_DIRECT." Of(&[Series::of("", DIRECT_OPENS)]);
"#)],
    },
    Kind {
        name: "an operation class",
        most: 2,
        edits: &[
            edit(OP, "\"sync: all files, counted to the process.\";\n", r#"    28 GETXATTR "getxattr" METADATA AS_OPENED [LOOKS_UP STORES_RESULT] "getxattr, lgetxattr.";
"#),
            edit(OP, "    51 SYNC SYNC NAME [\"sync\"] \"().\";\n", r#"    52 GETXATTR GETXATTR NAME ["getxattr", "lgetxattr"] "(path, ...).";
"#),
            edit(TABLE, "since they name no file.\";\n", r#"            GETXATTRS "getxattrs" Calls Sum Rest [] "getxattr and lgetxattr calls.";
"#),
        ],
    },
    Kind {
        name: "a column of a recording",
        most: 1,
        edits: &[
            edit("iotrace-daemon/crates/recording/src/tables/missing.rs", "        failed_ns: u64,\n", r#"        /// look-ups of the run so far
        calls_so_far: u64,
"#),
            edit("iotrace-daemon/crates/recording/src/tables/missing.rs", "        failed_ns: count.ns,\n", "        calls_so_far: count.calls,\n"),
        ],
    },
    Kind {
        name: "a table of a recording",
        most: 2,
        edits: &[
            edit(TABLES, "devices transfers library ranges", " quotas"),
            new("iotrace-daemon/crates/recording/src/tables/quotas.rs", r#"//! `quotas.parquet`: how much a user may write.

use super::{Part, Restored};
use crate::columns::{Damage, Derived, row};

row! {
    pub struct Row<'a> in "quotas" {
        /// the host
        host: Derived<&'a str>,
        /// number of the user
        user: u32,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    part.is_last.then_some(Row { host: Derived(&part.run.host), user: 0 }).into_iter()
}

pub fn restore(row: Row<'_>, _: &mut Restored<'_>) -> Result<(), Damage> {
    match row.user {
        0 => Ok(()),
        _ => Err("a quota is of no user".into()),
    }
}
"#),
        ],
    },
    Kind {
        name: "a report section",
        most: 3,
        edits: &[
            edit(SECTIONS, "mod epochs;\n", "mod failing;\n"),
            edit(SECTIONS, "    section(\"failures\", failures::text),\n", "    section(\"failing\", failing::text),\n"),
            edit(SECTIONS, "    map.serialize_entry(\"in_flight\", &in_flight::json(run))?;\n", "    map.serialize_entry(\"failing\", &failing::json(report))?;\n"),
            edit("docs/reference/report-json.md", "| `startup` | how the run began |\n", "| `failing` | number of kinds of failures |\n"),
            new("iotrace-daemon/crates/report/src/sections/failing.rs", r#"//! How many kinds of failures there were.

use std::io;

use crate::{Report, text::table::{Page, Style}};

/// A line; nothing if no operation failed.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    if report.failures.is_empty() {
        return Ok(());
    }
    page.section("Failing")?;
    page.prose(Style::Plain, &format!("{} kinds of failures.", json(report)))
}

/// Their number.
pub fn json(report: &Report<'_>) -> usize {
    report.failures.len()
}
"#),
        ],
    },
    Kind {
        name: "an optional kernel hook",
        most: 5,
        edits: &[
            edit(HOOKS, "    Lines,\n    Cpu,\n", "    Writeback,\n"),
            edit(HOOKS, "nor how much of the I/O overlapped with other work\",\n        ..PLAIN\n    },\n", r#"    OptionalHook {
        id: Id::Writeback,
        name: "writeback",
        title: "writeback",
        when: When::With("--writeback"),
        is_wanted: |options| options.writeback,
        programs: &[("writeback_begins", &["writeback_start"])],
        fields: &[TASK_FLAGS_FIELDS],
        purpose: Purpose::Storage,
        counts: "writeback",
        cost: "the start of a writeback",
        lost: "writeback is not known",
        ..PLAIN
    },
"#),
            edit(LOAD, "    pub cpu: bool,\n", "    /// Whether writeback is seen.\n    pub writeback: bool,\n"),
            edit(LOAD, "            cpu: false,\n", "            writeback: false,\n"),
            edit(RECORD, "    pub latencies: bool,\n", "    /// See writeback.\n    #[arg(long)]\n    pub writeback: bool,\n"),
            edit(RECORD, "        cpu: true,\n", "        writeback: args.writeback,\n"),
            edit(RECORD, "        (\"--block\", args.block),\n", "        (\"--writeback\", args.writeback),\n"),
            edit("iotrace-ebpf/src/features/mod.rs", "pub mod waits;\n", "#[cfg(not(feature = \"compat_510\"))]\npub mod writeback;\n"),
            new("iotrace-ebpf/src/features/writeback.rs", r#"//! Writeback.

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

/// TRACE_EVENT writeback_start: (struct bdi_writeback *wb, struct wb_writeback_work *work)
#[btf_tracepoint(function = "writeback_start")]
pub fn writeback_begins(_: BtfTracePointContext) -> i32 {
    0
}
"#),
        ],
    },
    Kind {
        name: "an option of `record`",
        most: 4,
        edits: &[
            edit(RECORD, "    pub latencies: bool,\n", "    /// Do not count time.\n    #[arg(long)]\n    pub no_time: bool,\n"),
            edit(RECORD, "        cpu: true,\n", "        no_time: args.no_time,\n"),
            edit(RECORD, "        (\"--block\", args.block),\n", "        (\"--no-time\", args.no_time),\n"),
            edit(LOAD, "    pub cpu: bool,\n", "    /// Whether time is not counted.\n    pub no_time: bool,\n"),
            edit(LOAD, "            cpu: false,\n", "            no_time: false,\n"),
            edit(LOAD, "        globals::FOLLOW.set(options.follow),\n", "        globals::NO_TIME.set(options.no_time),\n"),
            edit(GLOBALS, "                FOLLOW: Flag = 1;\n", "                /// Do not count time.\n                NO_TIME: Flag;\n"),
            edit(ACCOUNT, "        (*io).calls[op] += 1;\n", "        if crate::core::config::NO_TIME.is_set() {\n            return;\n        }\n"),
        ],
    },
    Kind {
        name: "a key of the service's configuration",
        most: 2,
        edits: &[
            edit(KEYS, "            flag max_files: usize [value_name = \"N\"];\n", r#"
        /// Maximum number of individually tracked mounts.
        /// Later mounts count as one.
        max_mounts: u32 [AtReload] = 64, in 1..=4096,
            flag max_mounts: u32 [value_name = "N"];
"#),
            edit("iotrace-daemon/src/daemon/reload.rs", "    totals.processes.set_limit(config.metrics.top_processes);\n", "    log::debug!(\"{} mounts\", config.memory.max_mounts);\n"),
        ],
    },
];
