//! The table of the kernel hooks that iotrace may have to do without, and what this kernel has of them.
//!
//! Attaching, `iotrace check`, the service's status, the losses and docs/reference/hooks.md are made from it. A new hook is
//! a row here with its [`Id`], an option, its fields in `iotrace_common::abi::globals`, and its programs in `iotrace-ebpf`.

use iotrace_common::abi::{
    Field, Setting,
    globals::{
        BIO_FIELDS, BLOCK_FIELDS, CPU_FIELDS, FAULTS_BY_FETCH, LINE_FIELDS, PAGE_FIELDS,
        STACK_FIELDS, TASK_FLAGS_FIELDS, URING_FIELDS, WAIT_FIELDS,
    },
};

use super::{
    KernelError,
    block::{self, Wanted},
    btf::Types,
    cpu, lines,
    load::{KeepWaits, Options},
    offsets, pages, uring,
    variant::{LEFT_OUT, Variant, WITHOUT_TYPES},
    waits,
};

/// A hook, by its row in [`HOOKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    Fork,
    Exec,
    Exit,
    Uring,
    PageCache,
    Mapped,
    FaultTime,
    Block,
    BlockFiles,
    Waits,
    Lines,
    Cpu,
    Libraries,
}

/// Number of hooks.
const COUNT: usize = Id::Libraries as usize + 1;

/// When a hook is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// Unless this option is given.
    Unless(&'static str),
    /// Only with this option, or by this command.
    With(&'static str),
}

/// How the programs of a hook are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tracepoints,
    /// To a software event of perf, on each CPU.
    MajorFaults,
    /// As an iterator over tasks, which the drain reads.
    Tasks,
    /// By uprobes, as libraries are found.
    Libraries,
    /// As a part of the programs on system calls.
    Calls,
}

impl Kind {
    /// As `iotrace check` shows it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Tracepoints => "BTF raw tracepoints",
            Self::MajorFaults => "perf software event",
            Self::Tasks => "iterator over tasks",
            Self::Libraries => "uprobes",
            Self::Calls => "programs on system calls",
        }
    }
}

/// Who cannot do without a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredBy {
    Nobody,
    /// `record`; the service does without.
    Record,
    /// Whoever gives this option.
    Option(&'static str),
}

/// What the programs of a hook are for: the place in [`iotrace_common::diag::MISSES`] of the runs that the kernel skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Operations,
    Processes,
    Storage,
}

/// A program, and what it is attached to: the first of these names that the kernel has.
type Program = (&'static str, &'static [&'static str]);

/// A row: all that is known of a hook.
pub struct OptionalHook {
    pub id: Id,
    /// Its name in the service's status and metrics.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The first release of the kernel that has it.
    pub since: &'static str,
    pub when: When,
    is_wanted: fn(&Options) -> bool,
    pub kind: Kind,
    pub programs: &'static [Program],
    /// Whether the programs for kernels before 5.15 have it.
    in_compat: bool,
    /// A hook that it depends on.
    needs: Option<Id>,
    fields: &'static [&'static [Field]],
    /// What else the programs must be told, or why the hook is not available.
    find: fn(&Types) -> Result<Vec<Setting>, String>,
    pub purpose: Purpose,
    pub required_by: RequiredBy,
    /// What it counts.
    pub counts: &'static str,
    /// What makes its programs run.
    pub cost: &'static str,
    /// What is lost without it.
    pub lost: &'static str,
}

/// A row to start from.
const PLAIN: OptionalHook = OptionalHook {
    id: Id::Fork,
    name: "",
    title: "",
    since: "5.5",
    when: When::Always,
    is_wanted: |_| true,
    kind: Kind::Tracepoints,
    programs: &[],
    in_compat: false,
    needs: None,
    fields: &[],
    find: |_| Ok(Vec::new()),
    purpose: Purpose::Operations,
    required_by: RequiredBy::Nobody,
    counts: "",
    cost: "",
    lost: "",
};

const PROCESS: OptionalHook = OptionalHook {
    in_compat: true,
    purpose: Purpose::Processes,
    required_by: RequiredBy::Record,
    counts: "processes",
    lost: "processes are known by their I/O alone, and those that end at once have no name",
    ..PLAIN
};

const NO_PAGE_CACHE: &str = "--no-page-cache";

/// The hooks, in the order in which they are attached.
pub const HOOKS: [OptionalHook; COUNT] = [
    OptionalHook {
        id: Id::Fork,
        name: "sched_process_fork",
        title: "sched_process_fork",
        programs: &[("process_fork", &["sched_process_fork"])],
        cost: "a new thread",
        ..PROCESS
    },
    OptionalHook {
        id: Id::Exec,
        name: "sched_process_exec",
        title: "sched_process_exec",
        programs: &[("process_exec", &["sched_process_exec"])],
        cost: "an exec",
        ..PROCESS
    },
    OptionalHook {
        id: Id::Exit,
        name: "sched_process_exit",
        title: "sched_process_exit",
        programs: &[("process_exit", &["sched_process_exit"])],
        cost: "the end of a thread",
        ..PROCESS
    },
    OptionalHook {
        id: Id::Uring,
        name: "io_uring",
        title: "io_uring",
        since: "6.0",
        // The ends first, so that no request is seen whose end is not.
        programs: &[
            ("uring_complete", &["io_uring_complete"]),
            (
                "uring_submit",
                &["io_uring_submit_req", "io_uring_submit_sqe"],
            ),
        ],
        fields: &[URING_FIELDS],
        find: uring::find,
        counts: "io_uring requests",
        cost: "an io_uring request",
        lost: "io_uring requests are not accounted",
        ..PLAIN
    },
    OptionalHook {
        id: Id::PageCache,
        name: "page_cache",
        title: "page cache",
        since: "5.16",
        when: When::Unless(NO_PAGE_CACHE),
        is_wanted: |options| options.page_cache,
        programs: &[("page_added", &["mm_filemap_add_to_page_cache"])],
        fields: &[PAGE_FIELDS, TASK_FLAGS_FIELDS],
        find: pages::find,
        purpose: Purpose::Storage,
        counts: "storage reads (`bytes_fetched`)",
        cost: "a folio added to the page cache",
        lost: "storage reads and page cache hits are not distinguished: bytes_fetched is not counted",
        ..PLAIN
    },
    OptionalHook {
        id: Id::Mapped,
        name: "mmap",
        title: "mapped files",
        since: "6.12",
        when: When::Unless(NO_PAGE_CACHE),
        is_wanted: |options| options.page_cache,
        programs: &[
            ("page_fault", &["mm_filemap_fault"]),
            ("pages_mapped", &["mm_filemap_map_pages"]),
            ("page_dirtied", &["writeback_dirty_folio"]),
        ],
        needs: Some(Id::PageCache),
        purpose: Purpose::Storage,
        counts: "page faults on mapped files",
        cost: "a page fault on a file; a page that becomes dirty",
        lost: "the use of mapped files is not accounted: faults and mapped_bytes are not counted",
        ..PLAIN
    },
    OptionalHook {
        id: Id::FaultTime,
        name: "fault_time",
        title: "time of page faults",
        since: "5.16",
        when: When::Unless(NO_PAGE_CACHE),
        is_wanted: |options| options.page_cache,
        kind: Kind::MajorFaults,
        programs: &[("fault_ended", &["PERF_COUNT_SW_PAGE_FAULTS_MAJ"])],
        needs: Some(Id::PageCache),
        purpose: Purpose::Storage,
        counts: "end of major page faults",
        cost: "a major page fault",
        lost: "the time of page faults is not known: major_fault_seconds is not counted",
        ..PLAIN
    },
    OptionalHook {
        id: Id::Block,
        name: "block",
        title: "block devices",
        since: "5.15",
        when: When::With("--block"),
        is_wanted: |options| options.block != Wanted::Nothing,
        programs: &[
            ("request_issued", &["block_rq_issue"]),
            ("request_completed", &["block_rq_complete"]),
        ],
        fields: &[BLOCK_FIELDS],
        find: block::find,
        purpose: Purpose::Storage,
        counts: "requests to block devices",
        cost: "a request to a block device",
        lost: "requests to block devices are not counted",
        ..PLAIN
    },
    OptionalHook {
        id: Id::BlockFiles,
        name: "block_files",
        title: "files on block devices",
        since: "5.16",
        when: When::With("record --block"),
        is_wanted: |options| options.block == Wanted::Files,
        programs: &[("bio_queued", &["block_bio_queue"])],
        needs: Some(Id::PageCache),
        fields: &[BIO_FIELDS],
        find: block::find_files,
        purpose: Purpose::Storage,
        counts: "bytes by process and file",
        cost: "a bio",
        lost: "bytes moved between block devices and files are not counted",
        ..PLAIN
    },
    OptionalHook {
        id: Id::Waits,
        name: "waits",
        title: "waits",
        when: When::With("record"),
        is_wanted: |options| options.waits != KeepWaits::Never,
        programs: &[
            ("timer_begins", &["hrtimer_expire_entry"]),
            ("timer_ended", &["hrtimer_expire_exit"]),
            ("task_waking", &["sched_waking"]),
            ("task_switched", &["sched_switch"]),
        ],
        fields: &[WAIT_FIELDS, TASK_FLAGS_FIELDS],
        find: waits::find,
        required_by: RequiredBy::Option("--waits"),
        counts: "waits of main threads",
        cost: "a context switch, a wake-up, a timer",
        lost: "waits of threads are not known",
        ..PLAIN
    },
    OptionalHook {
        id: Id::Lines,
        name: "lines",
        title: "lines and functions",
        since: "5.17",
        when: When::With("--lines or --stacks"),
        is_wanted: |options| options.lines.are_some(),
        kind: Kind::Calls,
        fields: &[LINE_FIELDS, STACK_FIELDS],
        find: lines::find,
        required_by: RequiredBy::Option("--lines or --stacks"),
        counts: "opens, and what is done with the files, by line or function",
        cost: "an open, a call longer than 100 us; a call on a file",
        lost: "what opened files is not known",
        ..PLAIN
    },
    OptionalHook {
        id: Id::Cpu,
        name: "cpu",
        title: "CPU time",
        since: "5.8",
        when: When::With("record"),
        is_wanted: |options| options.cpu,
        kind: Kind::Tasks,
        programs: &[("thread_times", &["iter/task"])],
        in_compat: true,
        fields: &[CPU_FIELDS, TASK_FLAGS_FIELDS],
        find: cpu::find,
        counts: "CPU time of threads",
        cost: "a flush, for each thread",
        lost: "CPU time is not counted, nor how much of the I/O overlapped with other work",
        ..PLAIN
    },
    OptionalHook {
        id: Id::Libraries,
        name: "uprobes",
        title: "functions of libraries",
        since: "5.15",
        when: When::With("--uprobe"),
        is_wanted: |options| !options.uprobes.is_empty(),
        kind: Kind::Libraries,
        programs: &[("library_return", &[]), ("library_enter", &[])],
        required_by: RequiredBy::Option("--uprobe"),
        counts: "calls of libraries",
        cost: "a call of a probed function",
        lost: "calls of libraries are not counted",
        ..PLAIN
    },
];

const _: () = {
    let mut row = 0;
    while row < COUNT {
        assert!(HOOKS[row].id as usize == row);
        row += 1;
    }
};

/// What this kernel has of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is not wanted.
    Off,
    /// Why it is not available.
    Missing(String),
    Ready(Found),
}

/// What is known of a hook that is available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What the programs must be told.
    pub settings: Vec<Setting>,
    /// The programs, and what each is attached to here.
    pub programs: Vec<(&'static str, &'static str)>,
}

impl Availability {
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }
}

impl OptionalHook {
    /// The option that requires it, where waits are kept of these threads.
    pub fn option(&self, waits: KeepWaits) -> Option<&'static str> {
        match self.required_by {
            RequiredBy::Option(_) if self.id == Id::Waits && waits != KeepWaits::Always => None,
            RequiredBy::Option(option) => Some(option),
            RequiredBy::Nobody | RequiredBy::Record => None,
        }
    }
}

/// What this kernel has of all hooks.
#[derive(Clone, Debug)]
pub struct Hooks([Availability; COUNT]);

impl Hooks {
    /// Looks for those that are wanted; an error if one is not available that an option requires.
    pub fn find(options: &Options, types: &Types, variant: Variant) -> Result<Self, KernelError> {
        let mut hooks = Self(std::array::from_fn(|_| Availability::Off));
        for hook in &HOOKS {
            if (hook.is_wanted)(options) {
                hooks.0[hook.id as usize] = hooks.state(hook, types, variant);
            }
        }
        // Where files are wanted, devices are not counted without them.
        if options.block == Wanted::Files && !hooks.of(Id::BlockFiles).is_ready() {
            hooks.0[Id::Block as usize] = hooks.of(Id::BlockFiles).clone();
        }
        for hook in &HOOKS {
            // A service does without, and refuses recordings that want lines.
            if hook.id == Id::Lines && options.recordings.is_some() {
                continue;
            }
            if let (Some(what), Availability::Missing(reason)) =
                (hook.option(options.waits), hooks.of(hook.id))
            {
                let reason = reason.clone();
                return Err(KernelError::LeftOut { what, reason });
            }
        }
        Ok(hooks)
    }

    /// Looks for all of them, for `iotrace check`.
    pub fn all(types: &Types) -> Self {
        let mut hooks = Self(std::array::from_fn(|_| Availability::Off));
        for hook in &HOOKS {
            hooks.0[hook.id as usize] = hooks.state(hook, types, Variant::Current);
        }
        hooks
    }

    pub fn of(&self, id: Id) -> &Availability {
        &self.0[id as usize]
    }

    /// What the programs must be told, of all hooks.
    pub fn settings(&self) -> impl Iterator<Item = Setting> {
        let ready = self.0.iter().filter_map(|hook| match hook {
            Availability::Ready(found) => Some(&found.settings),
            _ => None,
        });
        let by_fetch = self.of(Id::PageCache).is_ready() && !self.of(Id::Mapped).is_ready();
        ready
            .flatten()
            .copied()
            .chain([FAULTS_BY_FETCH.set(by_fetch)])
    }

    fn state(&self, hook: &OptionalHook, types: &Types, variant: Variant) -> Availability {
        let found = match variant {
            Variant::NoBtf => Err(WITHOUT_TYPES.into()),
            Variant::Compat510 if !hook.in_compat => Err(LEFT_OUT.into()),
            _ => hook.resolve(types),
        };
        let Some(needed) = hook.needs else {
            return match found {
                Ok(found) => Availability::Ready(found),
                Err(reason) => Availability::Missing(reason),
            };
        };
        let title = HOOKS[needed as usize].title;
        match (self.of(needed), found) {
            (Availability::Off, _) if hook.when == HOOKS[needed as usize].when => Availability::Off,
            (Availability::Off, _) => {
                Availability::Missing(format!("it needs the hook {title}, which is turned off"))
            }
            (Availability::Missing(reason), _) => {
                Availability::Missing(format!("it needs the hook {title}: {reason}"))
            }
            (Availability::Ready(_), Ok(found)) => Availability::Ready(found),
            (Availability::Ready(_), Err(reason)) => Availability::Missing(reason),
        }
    }
}

impl OptionalHook {
    /// Looks for its tracepoints and fields in the kernel's types.
    fn resolve(&self, types: &Types) -> Result<Found, String> {
        let mut found = Found::default();
        for (program, names) in self.programs {
            let is_there =
                |name: &&str| self.kind != Kind::Tracepoints || types.has_tracepoint(name);
            let name = names.iter().copied().find(|name| is_there(name));
            if let (None, Some(newest)) = (name, names.first()) {
                return Err(format!("this kernel has no tracepoint {newest}"));
            }
            found.programs.extend(name.map(|name| (*program, name)));
        }
        for fields in self.fields {
            found.settings.extend(offsets::all_optional(types, fields)?);
        }
        found.settings.extend((self.find)(types)?);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, fs};

    use super::*;

    const DOCUMENT: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/reference/hooks.md"
    );
    const BEGIN: &str =
        "<!-- hooks: from HOOKS in iotrace-daemon/crates/tracer/src/kernel/hooks.rs -->\n";
    const END: &str = "<!-- end -->\n";
    /// Set, the test writes the table into the document.
    const WRITE: &str = "IOTRACE_WRITE_DOCS";

    /// The table as Markdown.
    fn table() -> String {
        let mut text = String::from(
            "| name | attached to | when | since | what it counts | runs at | without it |\n|---|---|---|---|---|---|---|\n",
        );
        for hook in &HOOKS {
            let programs = hook.programs.iter().filter(|(_, names)| !names.is_empty());
            let names: Vec<String> = programs
                .map(|(_, names)| format!("`{}`", names.join("` or `")))
                .collect();
            let when = match hook.when {
                When::Always => "always".to_owned(),
                When::Unless(option) => format!("unless `{option}`"),
                When::With(option) => format!("with `{option}`"),
            };
            let attached = match (hook.kind, names.is_empty()) {
                (Kind::Tracepoints, _) => names.join(", "),
                (kind, true) => kind.text().to_owned(),
                (kind, false) => format!("{} ({})", names.join(", "), kind.text()),
            };
            writeln!(
                text,
                "| `{}` | {attached} | {when} | {} | {} | {} | {} |",
                hook.name, hook.since, hook.counts, hook.cost, hook.lost
            )
            .unwrap();
        }
        text
    }

    #[test]
    fn the_documented_hooks_are_these() {
        let document = fs::read_to_string(DOCUMENT).unwrap();
        let (before, rest) = document.split_once(BEGIN).unwrap();
        let (written, after) = rest.split_once(END).unwrap();
        let table = format!("\n{}\n", table());
        if std::env::var_os(WRITE).is_some() {
            let document = format!("{before}{BEGIN}{table}{END}{after}");
            return fs::write(DOCUMENT, document).unwrap();
        }
        assert!(
            written == table,
            "docs/reference/hooks.md differs: {WRITE}=1 cargo test -p iotrace-tracer the_documented_hooks writes it"
        );
    }

    #[test]
    fn this_kernel_has_all_of_them() {
        let types = super::super::load::read_types(None).unwrap();
        let hooks = Hooks::all(&types);
        for hook in &HOOKS {
            let state = hooks.of(hook.id);
            assert!(state.is_ready(), "{}: {state:?}", hook.name);
        }
    }

    #[test]
    fn what_needs_a_missing_hook_is_missing() {
        let hooks = Hooks::all(&Types::none());
        let Availability::Missing(reason) = hooks.of(Id::FaultTime) else {
            panic!("{:?}", hooks.of(Id::FaultTime));
        };
        assert_eq!(
            reason,
            "it needs the hook page cache: this kernel has no tracepoint mm_filemap_add_to_page_cache"
        );
    }
}
