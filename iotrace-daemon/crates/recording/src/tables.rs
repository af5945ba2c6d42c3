//! Rows of the model as rows of the tables, and back.

use iotrace_common::{
    global_merged::{self, Time},
    key::FileId,
    library::{self, Calls, FUNCTIONS, Progress, class},
    op,
};

use super::{batch::Batch, schema};
use iotrace_model::{
    About, FailureCount, FailureKey, File, Model, PhaseSet, Process,
    computing::CpuTime,
    counters::{Counters, TABLE, Unit},
    environ::{RANKS, Rank, Role},
    errno,
    global_merged::Times,
    history::Bounds,
    input::{FileName, Place, ProcessId},
    library::{Key, Range},
    mounts::parse_device,
    phases::Done,
    run::{Clock, Run},
    spans::{self, Span},
};
use iotrace_phases::phase::{Class, Phase};

const BY_NAME: &str = "by_name";
const OVERFLOW: &str = "overflow";
const FILE: &str = "file";
const NO_PHASE: &str = "none";

/// What all rows of one part have in common.
pub struct Part<'a> {
    pub run: &'a Run,
    /// Nanoseconds since the Unix epoch.
    pub interval_start: i64,
    pub interval_end: i64,
    /// Whether no part comes behind it.
    pub is_last: bool,
}

impl Part<'_> {
    /// The interval as the tables have it, to the microsecond.
    pub fn bounds(&self) -> Bounds {
        let truncated = |ns: i64| ns.div_euclid(1_000) * 1_000;
        Bounds {
            start: truncated(self.interval_start),
            end: truncated(self.interval_end),
        }
    }

    pub(super) fn put_interval(&self, batch: &mut Batch) {
        batch.put(self.interval_start.div_euclid(1_000));
        batch.put(self.interval_end.div_euclid(1_000));
    }

    pub(super) fn put_process(&self, batch: &mut Batch, process: ProcessId) {
        batch.put_text(&self.run.host);
        batch.put(process.pid.into());
        batch.put(process.start.into());
    }

    /// A row of `files`; `file` is none for calls by name and overflow.
    pub fn put_counters(
        &self,
        batch: &mut Batch,
        model: &Model,
        process: ProcessId,
        place: Place<u32>,
        counters: &Counters,
    ) {
        self.put_interval(batch);
        self.put_process(batch, process);
        batch.put_text(place_name(place));
        match place {
            Place::File(index) => put_file(batch, model, &model.file(index)),
            Place::PathOnly | Place::Overflow => put_no_file(batch),
        }
        for index in 0..TABLE.len() {
            self.put_counter(batch, counters, index);
        }
        batch.put_pairs(counters.sizes.entries());
        batch.put_pairs(counters.strides.entries());
    }

    fn put_counter(&self, batch: &mut Batch, counters: &Counters, index: usize) {
        let value = counters.v[index];
        if TABLE[index].unit == Unit::Moment {
            batch.put_option((value != 0).then(|| self.run.clock.unix_ns(value)));
        } else {
            batch.put(value as i64);
        }
    }

    /// A row of `spans`.
    pub fn put_span(&self, batch: &mut Batch, model: &Model, span: &Span) {
        self.put_interval(batch);
        self.put_process(batch, model.processes()[span.process as usize].id);
        batch.put(span.number.into());
        let file = model.file(span.file);
        put_text_and_raw(batch, (!file.path.is_empty()).then_some(file.path));
        put_identity(batch, Some(file.id));
        let counters = span.cell.interval();
        for index in spans::COUNTERS {
            self.put_counter(batch, &counters, index);
        }
    }

    /// A row of `processes`.
    pub fn put_about(&self, batch: &mut Batch, process: &Process) {
        let about = &process.about;
        let clock = &self.run.clock;
        self.put_process(batch, process.id);
        batch.put(about.start_boottime as i64);
        let start = clock
            .unix_ns_of_boottime(about.start_boottime)
            .div_euclid(1_000);
        batch.put_option((about.start_boottime != 0).then_some(start));
        batch.put(about.parent.into());
        batch.put_option(about.uid.map(i64::from));
        for text in [&about.comm, &about.exe] {
            batch.put_text(&String::from_utf8_lossy(text));
            batch.put_bytes_option(raw(text));
        }
        batch.put_text(&String::from_utf8_lossy(&about.args.join(&b' ')));
        batch.put_bytes(
            &about
                .args
                .iter()
                .flat_map(|arg| [arg, [0].as_slice()].concat())
                .collect::<Vec<_>>(),
        );
        let rank = about.role.rank;
        batch.put_option(rank.map(|rank| rank.number.into()));
        batch.put_bytes_option(rank.map(|rank| rank.variable.as_bytes()));
        batch.put_bytes_option(about.role.job.as_ref().map(|job| job.as_bytes()));
        batch.put(about.execs.into());
        let end = about.end.map(|end| clock.unix_ns(end));
        batch.put_option(end.map(|end| end.div_euclid(1_000)));
        batch.put_option(end);
        batch.put_option(about.status.map(i64::from));
        batch.put_option(about.exit_code().map(i64::from));
    }

    /// A row of `phases`.
    pub fn put_done(&self, batch: &mut Batch, process: ProcessId, phase: u16, done: &Done) {
        self.put_interval(batch);
        self.put_process(batch, process);
        batch.put_text(phase_name(phase));
        for value in [
            done.operations,
            done.bytes_read,
            done.bytes_written,
            done.ns,
            done.merged_ns,
        ] {
            batch.put(value as i64);
        }
    }

    /// A row of `cpu`.
    pub fn put_cpu(&self, batch: &mut Batch, process: ProcessId, time: &CpuTime, length_ns: u64) {
        self.put_interval(batch);
        self.put_process(batch, process);
        for value in [
            time.cpu_ns,
            time.computing_at_least_ns,
            time.beside_at_most_ns,
            length_ns,
        ] {
            batch.put(value as i64);
        }
    }

    /// A row of `merged`: of one group of phases.
    pub fn put_merged(&self, batch: &mut Batch, group: usize, time: &Time) {
        self.put_interval(batch);
        batch.put_text(&self.run.host);
        batch.put_text(&group_name(group));
        batch.put(time.ns as i64);
        batch.put(time.uncertain_ns as i64);
    }

    /// A row of `missing`.
    pub fn put_missing(
        &self,
        batch: &mut Batch,
        process: ProcessId,
        path: &[u8],
        count: FailureCount,
    ) {
        self.put_interval(batch);
        self.put_process(batch, process);
        put_text_and_raw(batch, (!path.is_empty()).then_some(path));
        batch.put(count.calls as i64);
        batch.put(count.ns as i64);
    }

    /// A row of `library`.
    pub fn put_library(&self, batch: &mut Batch, model: &Model, key: &Key, calls: &Calls) {
        self.put_interval(batch);
        self.put_process(batch, model.processes()[key.process as usize].id);
        let (symbol, function) = key.function();
        batch.put_text(library::NAMES[usize::from(function.library)]);
        batch.put_text(symbol);
        batch.put_text(class::NAMES[usize::from(function.class)]);
        let file = key.file.map(|file| model.file(file));
        let path = file.as_ref().map(|file| file.path);
        put_text_and_raw(batch, path.filter(|path| !path.is_empty()));
        put_identity(batch, file.map(|file| file.id));
        let (name, object) = model.libraries().names(key);
        for text in [&name, &object] {
            put_text_and_raw(batch, (!text.is_empty()).then_some(text));
        }
        for value in [
            calls.calls,
            calls.failures,
            calls.bytes,
            calls.ns,
            calls.slowest_ns,
            calls.slowest_bytes,
            calls.max_byte,
        ] {
            batch.put(value as i64);
        }
        for moment in [calls.first, calls.last] {
            batch.put_option((moment != 0).then(|| self.run.clock.unix_ns(moment)));
        }
        let sizes = calls.sizes.iter().enumerate();
        let sizes: Vec<(u64, u64)> = sizes
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| (bucket as u64, *count))
            .collect();
        batch.put_pairs(&sizes);
    }

    /// A row of `ranges`.
    pub fn put_range(&self, batch: &mut Batch, model: &Model, range: &Range) {
        self.put_process(batch, model.processes()[range.process as usize].id);
        batch.put(range.tid.into());
        batch.put_text(&String::from_utf8_lossy(&range.name));
        batch.put_bytes_option(raw(&range.name));
        batch.put_flag(range.is_mark);
        batch.put(range.depth.into());
        batch.put(self.run.clock.unix_ns(range.start));
        batch.put_option(range.end.map(|end| self.run.clock.unix_ns(end)));
        let Progress {
            operations,
            bytes_read,
            bytes_written,
            ns,
        } = range.done;
        for value in [operations, bytes_read, bytes_written, ns] {
            batch.put(value as i64);
        }
    }

    /// A row of `errors`.
    pub fn put_failure(
        &self,
        batch: &mut Batch,
        model: &Model,
        key: &FailureKey,
        count: FailureCount,
    ) {
        self.put_interval(batch);
        self.put_process(batch, model.processes()[key.process as usize].id);
        batch.put_text(place_name(key.place));
        match key.place {
            Place::File(index) => put_identity(batch, Some(model.file(index).id)),
            Place::PathOnly | Place::Overflow => put_identity(batch, None),
        }
        batch.put_text(op::NAMES.get(key.op as usize).copied().unwrap_or("unknown"));
        batch.put_text(&errno::name(key.errno));
        batch.put(key.errno.into());
        batch.put(count.calls as i64);
        batch.put(count.ns as i64);
    }
}

/// Numbers of phases, 0 included.
pub(super) const PHASES: u16 = Phase::ALL.len() as u16 + 1;

/// A phase by its class where it has one; [`NO_PHASE`] for calls that name no open file.
pub(super) fn phase_name(code: u16) -> &'static str {
    if code == 0 {
        return NO_PHASE;
    }
    let phase = Phase::from_code(code);
    phase.class().map_or(phase.name(), Class::name)
}

/// Undoes [`phase_name`]; none where there is no such phase.
pub(super) fn phase_code(name: &[u8]) -> Option<u16> {
    if name == NO_PHASE.as_bytes() {
        return Some(0);
    }
    let codes = Phase::ALL.iter().map(|phase| phase.code());
    codes
        .into_iter()
        .find(|code| phase_name(*code).as_bytes() == name)
}

/// A group of phases whose merged time is kept: the names of its members.
fn group_name(group: usize) -> String {
    let members = (0..PHASES).filter(|phase| {
        let of = |nth| global_merged::group(u32::from(*phase), nth) as usize;
        (0..global_merged::GROUPS_PER_CALL).any(|nth| of(nth) == group)
    });
    members.map(phase_name).collect::<Vec<_>>().join("+")
}

/// Names of phases, in order, with a plus between them.
fn phase_names(phases: PhaseSet) -> String {
    let names: Vec<_> = phases.codes().map(phase_name).collect();
    names.join("+")
}

fn phase_set(names: &[u8]) -> PhaseSet {
    let codes = names.split(|byte| *byte == b'+').filter_map(phase_code);
    codes.fold(PhaseSet::default(), |set, code| set.with(code.into()))
}

fn place_name(place: Place<u32>) -> &'static str {
    match place {
        Place::File(_) => FILE,
        Place::PathOnly => BY_NAME,
        Place::Overflow => OVERFLOW,
    }
}

fn raw(bytes: &[u8]) -> Option<&[u8]> {
    std::str::from_utf8(bytes).is_err().then_some(bytes)
}

pub(super) fn put_text_and_raw(batch: &mut Batch, bytes: Option<&[u8]>) {
    batch.put_bytes_option(
        bytes
            .map(String::from_utf8_lossy)
            .as_ref()
            .map(|text| text.as_bytes()),
    );
    batch.put_bytes_option(bytes.and_then(raw));
}

fn put_file(batch: &mut Batch, model: &Model, file: &File<'_>) {
    let (mount_point, fs_type) = model.mount_of(file);
    let is_named = !file.path.is_empty();
    let kind: &[u8] = if file.is_directory() {
        b"directory"
    } else {
        b"regular"
    };
    batch.put_bytes_option(is_named.then_some(kind));
    put_text_and_raw(batch, is_named.then_some(file.path));
    put_text_and_raw(batch, file.opened_as);
    batch.put_flag(file.truncated);
    batch.put_flag(file.deleted);
    batch.put_option(is_named.then_some(file.size as i64));
    batch.put_option(is_named.then_some(file.mode.into()));
    put_identity(batch, Some(file.id));
    let mount_point = String::from_utf8_lossy(mount_point);
    batch.put_bytes_option((!mount_point.is_empty()).then_some(mount_point.as_bytes()));
    batch.put_bytes_option((!fs_type.is_empty()).then_some(fs_type.as_bytes()));
    batch.put_option((file.magic != 0).then_some(file.magic as i64));
    batch.put_option((file.block_size != 0).then_some(file.block_size.into()));
    batch.put_text(&phase_names(file.phases));
}

fn put_no_file(batch: &mut Batch) {
    batch.put_bytes_option(None);
    put_text_and_raw(batch, None);
    put_text_and_raw(batch, None);
    batch.put_flag(false);
    batch.put_flag(false);
    batch.put_option(None);
    batch.put_option(None);
    put_identity(batch, None);
    batch.put_bytes_option(None);
    batch.put_bytes_option(None);
    batch.put_option(None);
    batch.put_option(None);
    batch.put_text("");
}

pub(super) fn put_identity(batch: &mut Batch, id: Option<FileId>) {
    let device = id.map(device_name);
    batch.put_bytes_option(device.as_ref().map(|device| device.as_bytes()));
    batch.put_option(id.map(|id| id.inode as i64));
    batch.put_option(id.map(|id| id.generation.into()));
}

/// A device as `major:minor`.
pub(super) fn device_name(id: FileId) -> String {
    format!("{}:{}", id.major(), id.minor())
}

/// Takes a row of `files` into the model, and returns its interval.
pub fn take_counters(
    batch: &mut Batch,
    model: &mut Model,
    clock: &Clock,
) -> Result<Bounds, &'static str> {
    let bounds = take_bounds(batch);
    let process = take_process(batch);
    let place = batch.take_bytes();
    batch.skip();
    let path = take_text_or_raw(batch).unwrap_or_default();
    let opened_as = take_text_or_raw(batch);
    let (truncated, deleted) = (batch.take_flag(), batch.take_flag());
    let size = batch.take_option().unwrap_or(0) as u64;
    let mode = batch.take_option().unwrap_or(0) as u32;
    let id = take_identity(batch);
    batch.skip();
    batch.skip();
    let magic = batch.take_option().unwrap_or(0) as u64;
    let block_size = batch.take_option().unwrap_or(0) as u32;
    let phases = phase_set(&batch.take_bytes());
    let place = place_of(&place, id)?;
    if let Place::File(file) = place {
        let name = FileName {
            file,
            path,
            size,
            mode,
            magic,
            block_size,
            truncated,
            deleted,
        };
        model.restore_file(&name, opened_as.as_deref(), phases);
    }
    model.add(process, place, &take_block(batch, clock)?);
    Ok(bounds)
}

pub(super) fn take_bounds(batch: &mut Batch) -> Bounds {
    let mut moment = || batch.take().saturating_mul(1_000);
    Bounds {
        start: moment(),
        end: moment(),
    }
}

/// No interval has more of anything than this: 64 PiB, or two years in nanoseconds. A value above it is damage, and
/// kept out so that no sum runs over.
const PLAUSIBLE: u64 = 1 << 56;

fn take_block(batch: &mut Batch, clock: &Clock) -> Result<Counters, &'static str> {
    let mut counters = Counters::ZERO;
    for index in 0..TABLE.len() {
        counters.v[index] = take_counter(batch, index, clock)?;
    }
    for (size, count) in batch.take_pairs() {
        counters.sizes.add(size, plausible(count)?);
    }
    for (stride, count) in batch.take_pairs() {
        counters.strides.add(stride, plausible(count)?);
    }
    Ok(counters)
}

fn take_counter(batch: &mut Batch, index: usize, clock: &Clock) -> Result<u64, &'static str> {
    match TABLE[index].unit {
        Unit::Moment => Ok(batch
            .take_option()
            .map_or(0, |unix| clock.monotonic_ns(unix))),
        _ => plausible(batch.take() as u64),
    }
}

/// Takes a row of `spans` into the model.
pub fn take_span(batch: &mut Batch, model: &mut Model, clock: &Clock) -> Result<(), &'static str> {
    batch.skip();
    batch.skip();
    let process = take_process(batch);
    let number = batch.take() as u32;
    batch.skip();
    batch.skip();
    let file = take_identity(batch).ok_or("a span names no file")?;
    let mut counters = Counters::ZERO;
    for index in spans::COUNTERS {
        counters.v[index] = take_counter(batch, index, clock)?;
    }
    model.add_span(process, file, number, &counters);
    Ok(())
}

pub(super) fn plausible(value: u64) -> Result<u64, &'static str> {
    if value < PLAUSIBLE {
        Ok(value)
    } else {
        Err("a counter is too large to be true")
    }
}

/// Takes a row of `processes` into the model.
pub fn take_about(batch: &mut Batch, model: &mut Model, clock: &Clock) -> Result<(), &'static str> {
    let process = take_process(batch);
    let start_boottime = batch.take() as u64;
    batch.skip();
    let parent = batch.take() as u32;
    let uid = batch.take_option().map(|uid| uid as u32);
    let mut required = || {
        let text = batch.take_bytes();
        batch.take_bytes_option().unwrap_or(text)
    };
    let (comm, exe) = (required(), required());
    batch.skip();
    let args = batch.take_bytes();
    let args = args
        .strip_suffix(&[0])
        .map(|args| args.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect());
    let args = args.unwrap_or_default();
    let role = take_role(batch);
    let execs = batch.take() as u32;
    batch.skip();
    let end = batch.take_option().map(|end| clock.monotonic_ns(end));
    let status = batch.take_option().map(|status| status as u32);
    batch.skip();
    model.restore_process(
        process,
        About {
            start_boottime,
            parent,
            uid,
            comm,
            exe,
            args,
            role,
            execs,
            end,
            status,
        },
    );
    Ok(())
}

/// A rank by a variable that this iotrace does not know is none.
fn take_role(batch: &mut Batch) -> Role {
    let number = batch.take_option();
    let variable = batch.take_bytes_option().unwrap_or_default();
    let variable = RANKS.into_iter().find(|known| known.as_bytes() == variable);
    let job = batch.take_bytes_option();
    Role {
        rank: number.zip(variable).map(|(number, variable)| Rank {
            number: number as u32,
            variable,
        }),
        job: job.map(|job| String::from_utf8_lossy(&job).into()),
    }
}

/// Takes a row of `phases` into the model.
pub fn take_done(batch: &mut Batch, model: &mut Model) -> Result<(), &'static str> {
    batch.skip();
    batch.skip();
    let process = take_process(batch);
    let phase = phase_code(&batch.take_bytes());
    let phase = phase.ok_or("it names a phase that this iotrace does not know")?;
    let mut next = || plausible(batch.take() as u64);
    let done = Done {
        operations: next()?,
        bytes_read: next()?,
        bytes_written: next()?,
        ns: next()?,
        merged_ns: next()?,
    };
    model.add_done(process, phase.into(), &done);
    Ok(())
}

/// Takes a row of `cpu` into the model, and returns its interval and the time between the looks.
pub fn take_cpu(batch: &mut Batch, model: &mut Model) -> Result<(Bounds, u64), &'static str> {
    let bounds = take_bounds(batch);
    let process = take_process(batch);
    let mut next = || plausible(batch.take() as u64);
    let time = CpuTime {
        cpu_ns: next()?,
        computing_at_least_ns: next()?,
        beside_at_most_ns: next()?,
    };
    model.add_cpu(process, &time);
    Ok((bounds, next()?))
}

/// Takes a row of `merged` into the model.
pub fn take_merged(batch: &mut Batch, model: &mut Model) -> Result<(), &'static str> {
    batch.skip();
    batch.skip();
    batch.skip();
    let name = batch.take_bytes();
    let group = (0..global_merged::GROUPS).find(|group| group_name(*group).as_bytes() == name);
    let mut times = Times::default();
    times[group.ok_or("it names phases that this iotrace does not know")?] = Time {
        ns: plausible(batch.take() as u64)?,
        uncertain_ns: plausible(batch.take() as u64)?,
    };
    model.global_merged_mut().add(&times);
    Ok(())
}

/// Takes a row of `missing` into the model.
pub fn take_missing(batch: &mut Batch, model: &mut Model) -> Result<(), &'static str> {
    batch.skip();
    batch.skip();
    let process = take_process(batch);
    let path = take_text_or_raw(batch).unwrap_or_default();
    let count = FailureCount {
        calls: plausible(batch.take() as u64)?,
        ns: plausible(batch.take() as u64)?,
    };
    model.add_negative_lookups_at(process, &path, count);
    Ok(())
}

/// Takes a row of `library` into the model.
pub fn take_library(
    batch: &mut Batch,
    model: &mut Model,
    clock: &Clock,
) -> Result<(), &'static str> {
    batch.skip();
    batch.skip();
    let process = take_process(batch);
    let (library, symbol) = (batch.take_bytes(), batch.take_bytes());
    let function = FUNCTIONS.iter().find(|(name, function)| {
        name.as_bytes() == symbol
            && library::NAMES[usize::from(function.library)].as_bytes() == library
    });
    let (_, function) = function.ok_or("it names a function that this iotrace does not know")?;
    batch.skip();
    batch.skip();
    batch.skip();
    let file = take_identity(batch);
    let mut name = || take_text_or_raw(batch).unwrap_or_default();
    let names = (name(), name());
    let mut next = || plausible(batch.take() as u64);
    let mut calls = Calls {
        calls: next()?,
        failures: next()?,
        bytes: next()?,
        ns: next()?,
        slowest_ns: next()?,
        slowest_bytes: next()?,
        max_byte: next()?,
        ..Calls::default()
    };
    let mut moment = || {
        let unix = batch.take_option();
        unix.map_or(0, |unix| clock.monotonic_ns(unix))
    };
    (calls.first, calls.last) = (moment(), moment());
    for (bucket, count) in batch.take_pairs() {
        let size = calls.sizes.get_mut(bucket as usize);
        *size.ok_or("it has a bucket of sizes that there is none of")? = plausible(count)?;
    }
    model.restore_library_calls(process, function.index, file, names, &calls);
    Ok(())
}

/// Takes a row of `ranges` into the model.
pub fn take_range(batch: &mut Batch, model: &mut Model, clock: &Clock) -> Result<(), &'static str> {
    let process = take_process(batch);
    let tid = batch.take() as u32;
    let text = batch.take_bytes();
    let name = batch.take_bytes_option().unwrap_or(text);
    let (is_mark, depth) = (batch.take_flag(), batch.take() as u32);
    let start = clock.monotonic_ns(batch.take());
    let end = batch.take_option().map(|end| clock.monotonic_ns(end));
    let mut next = || plausible(batch.take() as u64);
    let done = Progress {
        operations: next()?,
        bytes_read: next()?,
        bytes_written: next()?,
        ns: next()?,
    };
    model.restore_range(
        process,
        Range {
            process: 0,
            tid,
            name,
            depth,
            start,
            end,
            is_mark,
            done,
        },
    );
    Ok(())
}

/// Takes a row of `errors` into the model.
pub fn take_failure(batch: &mut Batch, model: &mut Model) -> Result<(), &'static str> {
    batch.skip();
    batch.skip();
    let process = take_process(batch);
    let place = batch.take_bytes();
    let id = take_identity(batch);
    let place = place_of(&place, id)?;
    let operation = batch.take_bytes();
    let op = op::NAMES
        .iter()
        .position(|name| name.as_bytes() == operation);
    let op = op.ok_or("it names an operation that this iotrace does not know")? as u32;
    batch.skip();
    let errno = batch.take() as u32;
    let (calls, ns) = (
        plausible(batch.take() as u64)?,
        plausible(batch.take() as u64)?,
    );
    model.add_failures(process, place, op, errno, calls, ns);
    Ok(())
}

pub(super) fn take_process(batch: &mut Batch) -> ProcessId {
    batch.skip();
    ProcessId {
        pid: batch.take() as u32,
        start: batch.take() as u32,
    }
}

pub(super) fn take_text_or_raw(batch: &mut Batch) -> Option<Vec<u8>> {
    let text = batch.take_bytes_option();
    batch.take_bytes_option().or(text)
}

pub(super) fn take_identity(batch: &mut Batch) -> Option<FileId> {
    let (device, inode, generation) = (
        batch.take_bytes_option(),
        batch.take_option(),
        batch.take_option(),
    );
    let device = parse_device(std::str::from_utf8(&device?).ok()?)?;
    Some(FileId {
        device,
        generation: generation? as u32,
        inode: inode? as u64,
    })
}

fn place_of(name: &[u8], id: Option<FileId>) -> Result<Place, &'static str> {
    match (name, id) {
        (b"file", Some(id)) => Ok(Place::File(id)),
        (b"by_name", _) => Ok(Place::PathOnly),
        (b"overflow", _) => Ok(Place::Overflow),
        _ => Err("a row names no place"),
    }
}

/// The tables of a part.
pub struct Tables {
    pub files: schema::Schema,
    pub processes: schema::Schema,
    pub errors: schema::Schema,
    pub phases: schema::Schema,
    pub spans: schema::Schema,
    pub cpu: schema::Schema,
    pub waits: schema::Schema,
    pub merged: schema::Schema,
    pub devices: schema::Schema,
    pub transfers: schema::Schema,
    pub missing: schema::Schema,
    pub library: schema::Schema,
    pub ranges: schema::Schema,
}

impl Tables {
    pub fn new() -> Self {
        Self {
            files: schema::files(),
            processes: schema::processes(),
            errors: schema::errors(),
            phases: schema::phases(),
            spans: schema::spans(),
            cpu: schema::cpu(),
            waits: schema::waits(),
            merged: schema::merged(),
            devices: schema::devices(),
            transfers: schema::transfers(),
            missing: schema::missing(),
            library: schema::library(),
            ranges: schema::ranges(),
        }
    }
}
