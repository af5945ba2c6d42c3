//! Loads the programs: constants set, maps sized, the object's version checked.

use std::{
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use aya::{
    Ebpf, EbpfError, EbpfLoader, Pod,
    maps::{Map, MapError},
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};
use iotrace_common::{
    ABI_VERSION,
    abi::{
        self, Setting, VERSION_SECTION,
        globals::{self, MAPPING_FIELDS},
        maps,
    },
    limits,
    scope::{Recordings, Scope as CurrentScope},
};
use object::{Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    Kernel, KernelError, block,
    btf::Types,
    calls, cast, cgroup,
    copies::Misses,
    diagnostics::Diagnostics,
    error::{chain, errno_of, hint},
    fdinfo,
    histograms::Counted,
    hooks::{self, Hooks},
    lines::{Pythons, WantedLines},
    maps as loaded, nobtf, offsets,
    preemption::Preemption,
    probe,
    program::attach_points,
    recordings::Slots,
    rules,
    trace::{Filter, Layout, TraceOptions},
    uprobes::{self, Uprobes, Wanted},
    variant::{Programs, Variant},
    waits,
};
use iotrace_phases::{dfa::Table, phase::Phase};

/// Where the kernel shows its own type information.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// How much is kept per file, in increasing order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Calls, bytes, time and failures.
    Basic,
    /// As basic, and all that Darshan's POSIX record holds.
    Full,
}

impl Detail {
    /// As it stands in reports and recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Full => "full",
        }
    }
}

/// Of which threads waits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepWaits {
    #[default]
    Never,
    /// Of those in scope.
    Always,
    /// The same, where this kernel can.
    IfPossible,
    /// Of the processes of recordings that want them, or of those in scope from [`Kernel::keep_all_waits`] on. Until then
    /// the programs are loaded and not attached.
    OnDemand,
}

/// What to load.
#[derive(Clone, Debug)]
pub struct Options {
    pub detail: Detail,
    /// Whether the children of targets become targets.
    pub follow: bool,
    /// Whether the environment of what calls exec is sent.
    pub environment: bool,
    /// Whether the control group of what calls exec is sent.
    pub cgroup: bool,
    /// Whether the directories are counted in which files were looked for that are not there.
    pub negative_lookups: bool,
    /// Whether histograms of durations and sizes are kept.
    pub histograms: bool,
    /// Whether it is kept how long operations took.
    pub latencies: bool,
    /// Whether CPU time is counted.
    pub cpu: bool,
    /// Whether merged time over all processes is kept.
    pub merge_all: bool,
    /// Entries of a generation of the per-file counters; `None`: the built-in number for the detail.
    pub map_entries: Option<u32>,
    /// The kernel's type information, where it is not at [`KERNEL_BTF`].
    pub btf: Option<PathBuf>,
    /// Whether the programs' own diagnostics are compiled in.
    pub program_log: bool,
    /// Whether every operation is kept, and which: of all in scope, or of the processes of `recordings` that want it.
    pub trace: Option<TraceOptions>,
    /// Whether what comes from storage and the use of mapped files are counted.
    pub page_cache: bool,
    /// What is counted of the block layer; files only where the page cache is counted, too.
    pub block: block::Wanted,
    /// Libraries whose functions are seen by uprobes.
    pub uprobes: Vec<Wanted>,
    /// Of which threads waits are kept.
    pub waits: KeepWaits,
    /// Entries of a generation of what detail full adds, where more may be kept of the processes of some recordings:
    /// detail full, look-ups that found nothing, CPU time, latencies, waits, each operation, lines. Of the others only what `detail`,
    /// `negative_lookups` and `latencies` say.
    pub recordings: Option<u32>,
    /// What the lines of Python programs or functions are found of: all in scope, or the processes of `recordings` that want it.
    pub lines: WantedLines,
}

/// A damaged offset, for the test that the self-test finds one, or an option that a test goes without: `GLOBAL=VALUE` in this
/// environment variable.
const OFFSET_OVERRIDE: &str = "IOTRACE_TEST_OFFSET";

/// Global of aya-log in the programs: the most verbose level of their messages, 0: none.
const LOG_LEVEL: &str = "AYA_LOG_LEVEL";

impl Options {
    /// All targets and their children at detail basic with the page cache, and nothing else.
    pub fn least() -> Self {
        Self {
            detail: Detail::Basic,
            follow: true,
            environment: false,
            cgroup: false,
            negative_lookups: false,
            histograms: false,
            latencies: false,
            cpu: false,
            merge_all: false,
            map_entries: None,
            btf: None,
            program_log: false,
            trace: None,
            page_cache: true,
            block: block::Wanted::Nothing,
            uprobes: Vec::new(),
            waits: KeepWaits::Never,
            recordings: None,
            lines: WantedLines::default(),
        }
    }

    fn entries(&self) -> u32 {
        let built_in = match self.detail {
            Detail::Basic => limits::IO_ENTRIES_BASIC,
            Detail::Full => limits::IO_ENTRIES_FULL,
        };
        self.map_entries.unwrap_or(built_in).max(1)
    }

    /// Entries of what detail full adds, where some processes may be kept at it.
    fn full_entries(&self) -> Option<u32> {
        match self.detail {
            Detail::Full => Some(self.entries()),
            Detail::Basic => self.recordings.map(|entries| entries.max(1)),
        }
    }

    /// Entries of latencies, where they may be kept of some processes.
    fn latency_entries(&self) -> Option<u32> {
        let is_kept = self.latencies || self.recordings.is_some();
        is_kept.then_some(limits::LATENCY_ENTRIES)
    }

    /// Sets of the table that finds the counters of a thread and file; the few latencies have room there, too.
    fn sets(&self) -> u32 {
        let entries = self.entries() + self.full_entries().unwrap_or(0);
        entries.div_ceil(2).next_power_of_two()
    }

    /// The scope before there are processes in it.
    fn scope(&self) -> CurrentScope {
        let all = |is_on: bool| if is_on { Recordings::MAX } else { 0 };
        CurrentScope {
            full: all(self.detail == Detail::Full),
            negative_lookups: all(self.negative_lookups),
            cpu: all(self.cpu && self.recordings.is_none()),
            latencies: all(self.latencies),
            waits: all(matches!(
                self.waits,
                KeepWaits::Always | KeepWaits::IfPossible
            )),
            trace: all(self.trace.is_some() && self.recordings.is_none()),
            lines: all(self.lines.python && self.recordings.is_none()),
            stacks: all(self.lines.native && self.recordings.is_none()),
            follow: all(self.recordings.is_none()),
            ..CurrentScope::default()
        }
    }
}

/// Reads the type information of the running kernel, or of `file`.
pub fn read_types(file: Option<&Path>) -> Result<Types, KernelError> {
    let path = file.unwrap_or(Path::new(KERNEL_BTF));
    let data = fs::read(path).map_err(|source| KernelError::NoBtf {
        path: path.into(),
        source,
    })?;
    Types::parse(data).ok_or_else(|| KernelError::BadBtf { path: path.into() })
}

/// As [`read_types`]; none where the kernel shows none and no file is given. Then the programs do without.
pub fn types_if_any(file: Option<&Path>) -> Result<Types, KernelError> {
    match read_types(file) {
        Err(KernelError::NoBtf { source, .. })
            if file.is_none()
                && source.kind() == io::ErrorKind::NotFound
                && cfg!(target_arch = "x86_64") =>
        {
            Ok(Types::none())
        }
        other => other,
    }
}

/// A loader, while a thread makes it: aya reads all of the kernel's type information for each, and does not use it.
pub(crate) struct Making(Option<JoinHandle<EbpfLoader<'static>>>);

impl Making {
    /// Begins. What has no thread is made where it is used.
    pub fn begin() -> Self {
        Self(thread::Builder::new().spawn(EbpfLoader::new).ok())
    }
}

/// Loads the programs with their maps, and the rules that sort files into phases; nothing is attached yet. Without types
/// the detail is [`Detail::Basic`].
pub(crate) fn load(
    loader: Making,
    options: &Options,
    programs: &Programs,
    types: &Types,
    rules: &Table,
) -> Result<Kernel, KernelError> {
    let mut options = options.clone();
    let variant = Variant::of_this_kernel(types);
    let no_btf = variant == Variant::NoBtf;
    if no_btf {
        options.detail = Detail::Basic;
        if options.recordings.take().is_some() {
            options.lines = WantedLines::default();
        }
    }
    let object = variant.object(programs)?;
    let object = &object[..];
    check_abi(object)?;
    if probe::is_confidential() {
        return Err(KernelError::Lockdown);
    }
    if probe::pid_namespace().is_err() {
        return Err(KernelError::PidNamespace);
    }
    let left_out = [
        ("--trace", no_btf && options.trace.is_some()),
        ("--block", no_btf && options.block != block::Wanted::Nothing),
        // What these programs take for files are handles, of no device.
        ("--latencies", no_btf && options.latencies),
    ];
    if let Err(reason) = variant.has_all()
        && let Some((what, _)) = left_out.iter().find(|(_, is_wanted)| *is_wanted)
    {
        return Err(KernelError::LeftOut { what, reason });
    }
    let filter = options.trace.as_ref().map(|trace| &trace.filter);
    if filter.is_some_and(Filter::is_by_path) && !walks_paths(variant) {
        return Err(KernelError::LeftOut {
            what: "--trace-filter by path or phase",
            reason: NO_WALKS.into(),
        });
    }
    let hooks = Hooks::find(&options, types, variant)?;
    if !hooks.of(hooks::Id::Lines).is_ready() {
        options.lines = WantedLines::default();
    }
    let options = &options;
    let waits = waits::State::new(options, hooks.of(hooks::Id::Waits));
    let preemptible = Preemption::of(types).is_possible;
    let layout = options
        .trace
        .as_ref()
        .map(|trace| Layout::of(trace.buffer_bytes, preemptible));
    let loader = loader.0.and_then(|loader| loader.join().ok());
    let mut ebpf = open(
        loader.unwrap_or_default(),
        (variant, object),
        options,
        types,
        &hooks,
        (layout, waits.layout(), preemptible),
    )?;
    if options.program_log {
        start_logger(&mut ebpf);
    }
    let map_bytes = ebpf
        .maps()
        .filter_map(|(_, map)| fdinfo(map_fd(map)?, "memlock"))
        .sum();
    let trace = options.trace.as_ref();
    let traced = trace.and_then(|trace| trace.filter.table());
    let rules = rules::put(&mut ebpf, rules, traced)?;
    let targets = loaded::take(&mut ebpf, maps::TARGETS)?;
    let pythons = Pythons::take(&mut ebpf, options)?;
    let named = loaded::take(&mut ebpf, maps::NAMED)?;
    let scope_map = loaded::take(&mut ebpf, maps::SCOPE)?;
    let diagnostics = Diagnostics::take(&mut ebpf)?;
    let histograms = match options.histograms {
        true => Some(Counted::take(&mut ebpf)?),
        false => None,
    };
    let mut kernel = Kernel {
        ebpf,
        variant,
        _rules: rules,
        targets,
        pythons,
        named,
        scope_map,
        scope: options.scope(),
        recordings: options.recordings.map(|_| Slots::default()),
        diagnostics,
        histograms,
        misses: Misses::new(preemptible),
        btf: options.btf.clone(),
        attach_points: match no_btf {
            true => None,
            false => attach_points(types).ok(),
        },
        hooks,
        uprobes: Uprobes::new(&options.uprobes),
        hook: None,
        detail: options.detail,
        entries: options.entries(),
        full_entries: options.full_entries(),
        latency_entries: options.latency_entries(),
        map_bytes,
        threads: None,
        merge_all: options.merge_all,
        lines: options.lines,
        trace: layout,
        waits,
    };
    kernel.publish_scope()?;
    Ok(kernel)
}

fn open(
    loader: EbpfLoader<'static>,
    (variant, object): (Variant, &[u8]),
    options: &Options,
    types: &Types,
    hooks: &Hooks,
    (layout, waits, preemptible): (Option<Layout>, Option<Layout>, bool),
) -> Result<Ebpf, KernelError> {
    let mut settings = match variant {
        Variant::NoBtf => nobtf::settings()?,
        _ => offsets::resolve(types)?,
    };
    settings.extend(hooks.settings());
    if options.cgroup && variant != Variant::NoBtf {
        settings.extend(cgroup::find(types).unwrap_or_else(|error| {
            log::warn!("the control groups of programs that end at once are not known: {error}");
            Vec::new()
        }));
    }
    let mut object = object.to_vec();
    if variant != Variant::NoBtf {
        settings.extend(cast::apply(&mut object, types));
    }
    let (entries, sets) = (options.entries(), options.sets());
    let has_loop = walks_paths(variant);
    settings.extend([
        globals::FULL.set(options.full_entries().is_some()),
        globals::FOLLOW.set(options.follow),
        globals::ENVIRONMENT.set(options.environment),
        globals::MERGE_ALL.set(options.merge_all),
        globals::SPAN_PHASES.set(span_phases(has_loop)),
        globals::COUNT_HISTOGRAMS.set(options.histograms),
        // Without `bpf_loop` no path can be hashed.
        globals::COUNT_MISSING
            .set(has_loop && (options.negative_lookups || options.recordings.is_some())),
        globals::SELF_TGID.set(std::process::id().into()),
        globals::CELLS_EACH.set(entries.into()),
        globals::SET_MASK.set((sets - 1).into()),
        globals::FULL_CELLS_EACH.set(options.full_entries().unwrap_or(1).into()),
        globals::COUNT_LATENCIES.set(options.latency_entries().is_some()),
        globals::LATENCY_CELLS_EACH.set(options.latency_entries().unwrap_or(1).into()),
        globals::HAS_LOOP.set(has_loop),
        globals::PREEMPTIBLE.set(preemptible),
    ]);
    if variant != Variant::NoBtf {
        settings.extend(mappings(types));
    }
    let filter = options
        .trace
        .as_ref()
        .map(|trace| trace.filter.clone())
        .unwrap_or_default();
    settings.extend(filter.settings());
    settings.extend([
        globals::TRACE.set(layout.is_some()),
        globals::TRACE_RECORDS.set(layout.map_or(1, |rings| rings.records.into())),
        globals::WAIT_RECORDS_EACH.set(waits.map_or(1, |rings| rings.records.into())),
        globals::STACKS.set(options.lines.native),
        globals::UPROBES.set(!options.uprobes.is_empty()),
        globals::MARKS.set(uprobes::marks(&options.uprobes)),
        globals::CPUS.set(aya::util::nr_cpus().map_or(0, |cpus| cpus as u64)),
        globals::WEAKLY_ORDERED.set(!cfg!(target_arch = "x86_64")),
    ]);
    override_for_test(&mut settings);
    let (pids, names) = (filter.pids(), filter.names());
    let (native, compat) = (calls::native_table(), calls::compat_table());
    let actions = nobtf::actions();
    let requests = iotrace_common::uring::table();
    let log_level: u8 = if options.program_log { 5 } else { 0 };
    let mut loader = loader;
    loader
        .allow_unsupported_maps()
        // The programs for kernels without type information have no messages.
        .override_global(LOG_LEVEL, &log_level, variant != Variant::NoBtf);
    set(&mut loader, globals::CALLS, &native);
    set(&mut loader, globals::COMPAT_TRACED, &compat);
    set(&mut loader, globals::ACTIONS, &actions);
    set(&mut loader, globals::URING_REQUESTS, &requests);
    set(&mut loader, globals::TRACE_PIDS, &pids);
    set(&mut loader, globals::TRACE_NAMES, &names);
    for setting in &settings {
        loader.override_global(setting.name, &setting.value, true);
    }
    for (map, entries) in sizes(variant, options, hooks, layout, waits) {
        loader.map_max_entries(map, entries);
    }
    loader.load(&object).map_err(|error| {
        let errno = errno_of(&error);
        let text = chain(&error);
        match errno {
            Some(libc::EPERM) => KernelError::Privilege(text),
            _ => KernelError::Load {
                reason: text,
                hint: map_hint(&error).unwrap_or_else(|| hint(errno)),
            },
        }
    })
}

/// What to do about a map that another option than `--map-entries` sizes.
fn map_hint(error: &EbpfError) -> Option<&'static str> {
    match error {
        EbpfError::MapError(MapError::CreateError { name, io_error }) => {
            let has_no_room = [libc::ENOMEM, libc::E2BIG].map(Some);
            let is_of_trace =
                [maps::TRACE_OPERATIONS.name, maps::TRACE_RINGS.name].contains(&name.as_str());
            (is_of_trace && has_no_room.contains(&io_error.raw_os_error())).then_some(
                "\nno memory for the operation trace: lower `--trace-buffer` or raise the memory cgroup's limit",
            )
        }
        _ => None,
    }
}

/// Entries of the maps that have another number than their table says. Those of what is not kept shrink to one.
fn sizes(
    variant: Variant,
    options: &Options,
    hooks: &Hooks,
    trace: Option<Layout>,
    waits: Option<Layout>,
) -> Vec<(&'static str, u32)> {
    let mut sizes = vec![
        (maps::CELLS.name, 2 * options.entries()),
        (maps::SETS.name, options.sets()),
    ];
    let mut unused = Vec::new();
    match options.full_entries() {
        Some(entries) => sizes.push((maps::CELLS_FULL.name, 2 * entries)),
        None => {
            unused.extend([maps::CELLS_FULL.name, maps::LAST_ENDS.name]);
            unused.extend(names_of(maps::OVERFLOW_FULL));
        }
    }
    if options.latency_entries().is_none() {
        unused.push(maps::CELLS_LATENCY.name);
    }
    if variant == Variant::NoBtf {
        unused.push(maps::NAMED.name);
    }
    if options.uprobes.is_empty() {
        unused.extend([maps::HANDLES.name, maps::MAPPED.name]);
    }
    if !hooks.of(hooks::Id::Block).is_ready() {
        unused.extend([maps::BLOCK_REQUESTS.name, maps::BLOCK_DEPTH.name]);
        unused.extend(names_of(maps::BLOCK_DEVICES));
        unused.extend(names_of(maps::BLOCK_FILES));
    }
    if !options.lines.are_some() {
        unused.extend([maps::STACKS_SENT.name, maps::LINED_FILES.name]);
    }
    if !options.lines.python {
        unused.push(maps::WALKS.name);
    }
    if !options.lines.native {
        unused.push(maps::STACK_TOPS.name);
    }
    if !options.histograms {
        unused.push(maps::HISTOGRAMS.name);
    }
    sizes.extend(unused.into_iter().map(|map| (map, 1)));
    if let Some(layout) = trace {
        sizes.push((maps::TRACE_RINGS.name, layout.rings));
        sizes.push((maps::TRACE_OPERATIONS.name, layout.rings * layout.records));
    }
    if let Some(layout) = waits {
        sizes.push((maps::WAIT_RINGS.name, layout.rings));
        sizes.push((maps::WAIT_RECORDS.name, layout.rings * layout.records));
    }
    let filter = options.trace.as_ref().map(|trace| &trace.filter);
    if filter.is_some_and(|filter| filter.table().is_some()) {
        sizes.push((maps::RULES.name, 2));
    }
    sizes
}

/// Sets a table of the programs.
fn set<'a, T: Pod>(loader: &mut EbpfLoader<'a>, table: abi::Table<T>, value: &'a T) {
    loader.override_global(table.name, value, true);
}

/// Names of both generations of a map.
fn names_of<K, V, const N: usize, const F: usize>(
    pair: abi::Generations<K, V, N, F>,
) -> [&'static str; 2] {
    pair.maps.map(|map| map.name)
}

/// Phases whose spans are kept, as bits by [`Phase::code`]: those of which saves, loads and copies are made. Temporary names
/// of checkpoints match no rule. Where the programs sort no files, those of all.
fn span_phases(sorts: bool) -> u64 {
    const KEPT: [Phase; 3] = [Phase::Checkpoint, Phase::Restore, Phase::UNMATCHED];
    if sorts {
        KEPT.iter().map(|phase| 1 << phase.code()).sum()
    } else {
        1
    }
}

/// Why nothing is chosen by its path where [`walks_paths`] is false.
const NO_WALKS: &str =
    "in this kernel no paths are walked, which takes the helper bpf_loop (Linux 5.17)";

/// Whether the programs walk paths of any depth, and sort files by them.
fn walks_paths(variant: Variant) -> bool {
    variant == Variant::Current && has_loop()
}

/// Whether this kernel has `bpf_loop`; without the privilege to ask, the load itself will say what is wrong.
pub fn has_loop() -> bool {
    is_helper_supported(ProgramType::TracePoint, BpfHelper::BPF_FUNC_loop).unwrap_or(false)
}

/// What finds the file of a mapping (`bpf_find_vma`, Linux 5.17); nothing where this kernel lacks it.
fn mappings(types: &Types) -> Vec<Setting> {
    let helper = BpfHelper::BPF_FUNC_find_vma;
    let supported = is_helper_supported(ProgramType::TracePoint, helper).unwrap_or(false);
    match offsets::all_optional(types, MAPPING_FIELDS) {
        Ok(mut settings) if supported => {
            settings.push(globals::FINDS_MAPPINGS.set(true));
            settings
        }
        _ => Vec::new(),
    }
}

/// Compares the object's version of the shared types with this binary's.
pub fn check_abi(object: &[u8]) -> Result<(), KernelError> {
    if object.is_empty() {
        return Err(KernelError::NoPrograms);
    }
    let found = object::File::parse(object)
        .ok()
        .and_then(|file| {
            file.section_by_name(VERSION_SECTION)?
                .data()
                .ok()?
                .try_into()
                .ok()
        })
        .map(u64::from_ne_bytes)
        .ok_or(KernelError::Missing {
            kind: "section",
            name: VERSION_SECTION,
        })?;
    if found == ABI_VERSION {
        Ok(())
    } else {
        Err(KernelError::Abi {
            found,
            expected: ABI_VERSION,
        })
    }
}

fn override_for_test(settings: &mut [Setting]) {
    let Ok(text) = std::env::var(OFFSET_OVERRIDE) else {
        return;
    };
    let Some((name, value)) = text.split_once('=') else {
        return;
    };
    for setting in settings.iter_mut() {
        if setting.name == name {
            setting.value = value.parse().unwrap_or(setting.value);
        }
    }
}

/// Passes the programs' own messages to this process's log. Without a reader they are dropped, which is no error.
fn start_logger(ebpf: &mut Ebpf) {
    let logger = match aya_log::EbpfLogger::init(ebpf) {
        Ok(logger) => logger,
        Err(error) => return log::warn!("no messages of the kernel programs: {error}"),
    };
    // SAFETY: the logger owns its descriptor and gives the same one as long as it lives.
    match unsafe { AsyncFd::register_with_interest(logger, Interest::READABLE) } {
        Ok(mut logger) => {
            tokio::spawn(async move {
                while let Ok(mut ready) = logger.readable_mut().await {
                    ready.get_inner_mut().flush();
                    ready.clear_ready();
                }
            });
        }
        Err(error) => log::warn!("no messages of the kernel programs: {error}"),
    }
}

/// Descriptor of a map.
fn map_fd(map: &Map) -> Option<i32> {
    let data = match map {
        Map::Array(data)
        | Map::ArrayOfMaps(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data)
        | Map::Unsupported(data) => data,
        _ => return None,
    };
    Some(data.fd().as_fd().as_raw_fd())
}
