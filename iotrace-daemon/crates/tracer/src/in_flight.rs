//! Calls in flight as reports have them: who has been in which call on which file since when.

use std::{
    cmp::Reverse, collections::HashMap, fs, os::unix::fs::FileExt as _, path::PathBuf, sync::mpsc,
    thread, time::Duration,
};

use iotrace_common::{
    in_flight::Head,
    op::{self, Call, shape, source},
};

use crate::kernel::calls::native_table;
use iotrace_model::host;
use iotrace_model::{
    Model,
    input::ProcessId,
    run::{CallInFlight, Clock, Run},
};

/// Threads that were inside a call when the trace began, which the kernel programs did not see begin: by thread id, what
/// /proc said of each.
#[derive(Debug, Default)]
pub struct Earlier(HashMap<u32, Waiting>);

#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    pid: u32,
    /// Number, arguments and stack pointer of the call.
    call: String,
    /// How often the thread had left its CPU.
    switches: Vec<String>,
}

impl Earlier {
    /// Looks at the threads of a process.
    pub fn look(&mut self, pid: u32) {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let tid = thread.file_name().to_string_lossy().parse();
            if let Some((tid, waiting)) = tid.ok().and_then(|tid| Some((tid, waiting(pid, tid)?))) {
                self.0.insert(tid, waiting);
            }
        }
    }

    /// The calls on files that they are still in: a thread that has not run since is where it was.
    fn calls(&self, model: &Model, run: &Run) -> Vec<CallInFlight> {
        let table = native_table();
        let still = self.0.iter();
        let still =
            still.filter(|(tid, before)| waiting(before.pid, **tid).as_ref() == Some(before));
        still
            .filter_map(|(tid, waiting)| {
                let call = traced(&table, &waiting.call)?;
                let path = path_of_call(waiting.pid, call, &waiting.call)?;
                let (mount_point, fs_type) = mount_of(model, &path);
                Some(CallInFlight {
                    pid: waiting.pid,
                    tid: *tid,
                    operation: op::NAMES.get(usize::from(call.op))?.to_string(),
                    path: Some(String::from_utf8_lossy(&path).into_owned()),
                    mount_point,
                    fs_type,
                    phase: 0,
                    began_before: true,
                    start_unix_ns: run.start_unix_ns,
                    ns: run.duration_ns,
                })
            })
            .collect()
    }
}

/// The traced call in a line of `/proc/PID/task/TID/syscall`.
fn traced<'a>(table: &'a [Call], line: &str) -> Option<&'a Call> {
    let number: usize = line.split(' ').next()?.parse().ok()?;
    table.get(number).filter(|call| call.shape != 0)
}

/// Mount point and filesystem type of a path by its name.
fn mount_of(model: &Model, path: &[u8]) -> (Option<String>, Option<String>) {
    let mounts = model.mounts().iter();
    let mounts = mounts.filter(|mount| is_beneath(path, &mount.mount_point));
    match mounts.max_by_key(|mount| mount.mount_point.len()) {
        Some(mount) => (
            Some(String::from_utf8_lossy(&mount.mount_point).into_owned()),
            Some(mount.fs_type.clone()),
        ),
        None => (None, None),
    }
}

fn waiting(pid: u32, tid: u32) -> Option<Waiting> {
    let thread = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok();
    let call = thread("syscall")?;
    let status = thread("status")?;
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    // A thread that runs is in no call, or about to leave it.
    let is_blocked = call.starts_with(|digit: char| digit.is_ascii_digit());
    is_blocked.then(|| Waiting {
        pid,
        switches: switches.map(str::to_owned).collect(),
        call,
    })
}

fn is_beneath(path: &[u8], directory: &[u8]) -> bool {
    let rest = path.strip_prefix(directory);
    directory == b"/" || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Calls that are younger are ordinary ones, nanoseconds.
const MIN_AGE_NS: u64 = 1_000_000_000;

/// The calls of `heads` that have lasted for at least a second, the longest first.
pub fn describe(heads: &[Head], earlier: &Earlier, model: &Model, run: &Run) -> Vec<CallInFlight> {
    let now = host::monotonic();
    let table = native_table();
    let old = heads.iter().filter(|head| is_old(head, now));
    let mut calls: Vec<CallInFlight> = old
        .filter_map(|head| {
            let (pid, tid) = (head.key.io.tgid, head.key.io.tid);
            // A thread whose end was missed is in no call.
            let call = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
            let path = path_in_model(head, model)
                .or_else(|| path_of_call(pid, traced(&table, &call)?, &call));
            Some(call_of(head, path, model, &run.clock, now))
        })
        .collect();
    calls.extend(earlier.calls(model, run));
    sort(&mut calls, |call| call);
    calls
}

/// The same for the whole machine, by process, without a look at anything that a process can hold up: a file that is not
/// known yet has no path.
pub fn of_all(heads: &[Head], model: &Model, clock: &Clock) -> Vec<(ProcessId, CallInFlight)> {
    let now = host::monotonic();
    let old = heads.iter().filter(|head| is_old(head, now));
    let old = old.filter(|head| is_asleep(head.key.io.tgid, head.key.io.tid));
    let mut calls: Vec<(ProcessId, CallInFlight)> = old
        .map(|head| {
            let process = ProcessId::from(&head.key.io);
            let path = path_in_model(head, model);
            (process, call_of(head, path, model, clock, now))
        })
        .collect();
    sort(&mut calls, |(_, call)| call);
    calls
}

fn is_old(head: &Head, now: u64) -> bool {
    now.saturating_sub(head.entered) >= MIN_AGE_NS
}

fn sort<T>(calls: &mut [T], call: impl Fn(&T) -> &CallInFlight) {
    calls.sort_by_key(|one| (Reverse(call(one).ns), call(one).tid));
}

fn path_in_model(head: &Head, model: &Model) -> Option<Vec<u8>> {
    let file = model.find_file(head.key.io.file);
    let named = file.as_ref().filter(|file| !file.path.is_empty());
    named.map(|file| file.path.to_vec())
}

fn call_of(
    head: &Head,
    path: Option<Vec<u8>>,
    model: &Model,
    clock: &Clock,
    now: u64,
) -> CallInFlight {
    let at = path.as_deref().unwrap_or_default();
    let (mount_point, fs_type) = model.mount_at(head.key.io.file.device, at);
    let (mount_point, fs_type) = match (&path, mount_point) {
        (Some(path), []) => mount_of(model, path),
        _ => (text(&String::from_utf8_lossy(mount_point)), text(fs_type)),
    };
    let op = head.key.op as usize;
    CallInFlight {
        pid: head.key.io.tgid,
        tid: head.key.io.tid,
        operation: op::NAMES.get(op).copied().unwrap_or("unknown").into(),
        path: path.map(|path| String::from_utf8_lossy(&path).into_owned()),
        mount_point,
        fs_type,
        phase: head.key.io.phase_code() as u16,
        began_before: false,
        start_unix_ns: clock.unix_ns(head.entered),
        ns: now.saturating_sub(head.entered),
    }
}

/// Whether a thread is there and does not run. Reading this waits for no lock that a process can hold.
fn is_asleep(pid: u32, tid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    // The name in parentheses may have any character.
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| matches!(state, 'S' | 'D'))
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The file that a thread's call names, which is in `line` of `/proc/PID/task/TID/syscall`.
fn path_of_call(pid: u32, call: &Call, line: &str) -> Option<Vec<u8>> {
    let argument = |at: usize| {
        let word = line.split_whitespace().nth(at + 1)?.strip_prefix("0x")?;
        u64::from_str_radix(word, 16).ok()
    };
    let (directory, path) = match call.shape {
        shape::OPEN | shape::CREAT | shape::STAT_PATH | shape::ACCESS | shape::READLINK => {
            (None, 0)
        }
        shape::OPENAT
        | shape::OPENAT2
        | shape::NEWFSTATAT
        | shape::STATX
        | shape::ACCESSAT
        | shape::READLINKAT => (Some(argument(0)? as i32), 1),
        _ if call.source == source::DESCRIPTOR => {
            let path = link(pid, &format!("fd/{}", argument(0)? as i32))?;
            // A terminal may be waited for as long as its user likes.
            return (path.starts_with(b"/") && !path.starts_with(b"/dev/")).then_some(path);
        }
        _ => return None,
    };
    let path = text_of(pid, argument(path)?)?;
    if path.starts_with(b"/") {
        return Some(path);
    }
    let mut whole = match directory {
        None | Some(libc::AT_FDCWD) => link(pid, "cwd")?,
        Some(fd) => link(pid, &format!("fd/{fd}"))?,
    };
    whole.push(b'/');
    whole.extend_from_slice(&path);
    Some(whole)
}

/// Where a link in a process's directory of /proc leads. Reading it takes no lock that a hung filesystem may hold.
fn link(pid: u32, name: &str) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt as _;
    let path: PathBuf = fs::read_link(format!("/proc/{pid}/{name}")).ok()?;
    Some(path.into_os_string().into_vec())
}

/// How long reading a process's memory may take.
const MEMORY_TIMEOUT: Duration = Duration::from_millis(200);

/// A text in a process's memory that ends with 0. Another thread of the process may hold the lock of its memory while it waits
/// for a hung filesystem: so another thread reads it, and is left behind if it takes long.
fn text_of(pid: u32, address: u64) -> Option<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
        let mut text = vec![0; libc::PATH_MAX as usize];
        let length = memory.read_at(&mut text, address).ok()?;
        let end = text[..length].iter().position(|byte| *byte == 0)?;
        text.truncate(end);
        sender.send(text).ok()
    };
    thread::Builder::new().spawn(read).ok()?;
    let text = receiver.recv_timeout(MEMORY_TIMEOUT).ok()?;
    (!text.is_empty()).then_some(text)
}
