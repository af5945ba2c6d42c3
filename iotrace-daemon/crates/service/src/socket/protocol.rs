//! What the service and its clients say to each other over the Unix socket: lines of JSON, and bytes behind some of them.
//! `docs/reference/service-socket.md` describes it for other clients.

use std::{collections::BTreeMap, os::fd::AsFd, path::PathBuf};

use iotrace_common::{ABI_VERSION, lines::Python};
use rustix::net::{SendFlags, send};
use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot as Done;
use iotrace_tracer::drain::{Stats, wire::Kind};
use iotrace_tracer::kernel::{Detail, WantedLines, recordings::Kept};

/// Version of what is said. It rises when an older side would misunderstand.
pub const VERSION: u32 = 1;
/// Longest line of a client, its newline included.
pub const MAX_LINE_BYTES: usize = 4096;

/// The first line of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub iotrace: u32,
    #[serde(flatten)]
    pub ask: Ask,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A recording: what comes is as the kernel side counts it, for a client of the same version.
    Record(Record),
    /// What a process has done until now.
    Snapshot(Snapshot),
    /// The end of a job's log.
    EndLog(EndLog),
}

/// Which log is to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndLog {
    /// Number or unit of the job.
    pub job: String,
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of the types of the client's kernel side: [`ABI_VERSION`].
    pub abi: u64,
    pub detail: Detail,
    /// Whether the children of the processes are recorded, too.
    pub follow: bool,
    /// Whether the directories are told in which files were looked for that are not there.
    pub negative_lookups: bool,
    /// Whether the CPU time of the processes is told.
    pub cpu: bool,
    /// Whether it is told how long operations took.
    #[serde(default)]
    pub latencies: bool,
    /// Whether it is told when threads of the processes were off the CPU, and who woke them.
    #[serde(default)]
    pub waits: bool,
    /// Whether each operation is told by itself.
    #[serde(default)]
    pub trace: bool,
    /// Whether it is told what opened each file, of Python programs that the client finds ([`Wish::Python`]).
    #[serde(default)]
    pub lines: bool,
    /// Whether it is told what opened each file, of native programs.
    #[serde(default)]
    pub stacks: bool,
    /// The processes; none: all of the user who asks.
    pub pids: Vec<u32>,
}

impl Record {
    /// Counts for a client of this version that keeps no recording: the least that there is.
    pub fn least(pids: Vec<u32>) -> Self {
        Self {
            negative_lookups: false,
            cpu: false,
            ..Self::new(Detail::Basic, true, pids)
        }
    }

    /// What is kept of the processes beyond the least.
    pub fn kept(&self) -> Kept {
        Kept {
            full: self.detail == Detail::Full,
            negative_lookups: self.negative_lookups,
            cpu: self.cpu,
            latencies: self.latencies,
            waits: self.waits,
            trace: self.trace,
            lines: WantedLines {
                python: self.lines,
                native: self.stacks,
            },
        }
    }

    /// A recording for a client of this version.
    pub fn new(detail: Detail, follow: bool, pids: Vec<u32>) -> Self {
        Self {
            abi: ABI_VERSION,
            detail,
            follow,
            negative_lookups: true,
            cpu: true,
            latencies: false,
            waits: false,
            trace: false,
            lines: false,
            stacks: false,
            pids,
        }
    }
}

/// Of what to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The process; none: the one that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// What a client says while it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Everything that was done until now, then [`Answer::All`].
    All,
    /// As `All`, and the end: [`Answer::End`].
    Stop,
    /// A process of the recording runs this interpreter; [`Answer::Python`].
    Python(Interpreter),
}

/// The interpreter of a process, as the client found it in the process's files and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interpreter {
    pub pid: u32,
    /// When the process began, as /proc has it, nanoseconds since boot.
    pub start: u64,
    /// Without its number, which the service gives.
    pub python: Python,
}

/// Which interpreter the lines of a process are found by from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    pub pid: u32,
    /// [`Python::number`] in what is told of the process. None: the service does not take it.
    pub number: Option<u64>,
    /// The number before, of the same program.
    pub replaces: Option<u64>,
}

/// A line of the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What was asked is refused; nothing follows.
    Error { code: Code, message: String },
    /// What a process has done; nothing follows.
    Snapshot(Done),
    /// The logs have ended and are in these directories; those that were too short have none. Nothing follows.
    LogsEnded { directories: Vec<PathBuf> },
    /// The processes are traced from here on.
    Begun(Begun),
    /// The lines of a process are found by another interpreter, also where another recording asked for it.
    Python(Numbered),
    /// So many bytes of this kind follow.
    Batch { kind: Kind, bytes: u32 },
    /// Everything that was done until it was asked for has come.
    All(Sums),
    /// As `All`, and nothing more follows.
    End {
        #[serde(flatten)]
        sums: Sums,
        /// Why, where the client did not ask for it.
        reason: Option<String>,
    },
}

/// How a recording is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begun {
    /// How system calls are seen.
    pub hook: String,
    /// When, nanoseconds since the Unix epoch.
    pub start_unix_ns: i64,
    /// Whether by the programs of the service, and not by some of its own.
    pub shared: bool,
    /// What the programs sort files by ([`iotrace_phases::dfa::Table::fingerprint`]).
    pub rules: u64,
    /// Whether they see the page cache and mapped files.
    pub page_cache: bool,
}

/// What was not counted, by reason, and what draining has cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    pub losses: BTreeMap<String, u64>,
    pub drains: Stats,
}

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Not a request of this protocol.
    BadRequest,
    /// Of another version.
    Version,
    /// The process or the log is another user's, or the process runs with other rights than its user's.
    Denied,
    /// There is no such process or log (any more).
    Gone,
    /// As many as the configuration allows are there already.
    Busy,
    /// The kernel side could not be started.
    Failed,
}

/// How the message begins of a refusal of waits, where the kernel has none; the recording can be asked for without them.
pub const NO_WAITS: &str = "no recording has waits here";

/// The same of lines.
pub const NO_LINES: &str = "no recording has lines here";

/// A refusal.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    pub message: String,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::Error {
            code: refusal.code,
            message: refusal.message,
        }
    }
}

/// A line, its newline included.
pub fn line<T: Serialize>(value: &T) -> Vec<u8> {
    // It would fail for maps whose keys are no text only.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Sends one line without waiting: an empty socket has room for it.
pub fn say(stream: impl AsFd, answer: &Answer) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if let Err(error) = send(stream, &line(answer), flags) {
        log::debug!("a client of the socket is not answered: {error}");
    }
}

/// Reads the first line of a client.
pub fn request(line: &[u8]) -> Result<Ask, Refusal> {
    #[derive(Deserialize)]
    struct Version {
        iotrace: u32,
    }
    let bad = |error: serde_json::Error| {
        let message = format!("this is no request to iotrace: {error}");
        Refusal::new(Code::BadRequest, message)
    };
    let version: Version = serde_json::from_slice(line).map_err(bad)?;
    if version.iotrace != VERSION {
        return Err(Refusal::new(
            Code::Version,
            format!(
                "the service speaks version {VERSION} of its protocol, you ask in version {}: use the iotrace that is \
                 installed beside the service",
                version.iotrace
            ),
        ));
    }
    let request: Request = serde_json::from_slice(line).map_err(bad)?;
    if let Ask::Record(record) = &request.ask
        && record.abi != ABI_VERSION
    {
        return Err(Refusal::new(
            Code::Version,
            format!(
                "the service counts in version {ABI_VERSION} of its types, this iotrace in version {}: use the iotrace \
                 that is installed beside the service",
                record.abi
            ),
        ));
    }
    Ok(request.ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation shows the request of this version.
    #[test]
    fn the_documented_version_of_the_counters_is_this_one() {
        iotrace_pages::check("docs/reference/service-socket.md", |page| {
            iotrace_pages::between(page, "\"abi\": ", ",", &ABI_VERSION.to_string())
        });
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let ask = Ask::Record(Record::new(Detail::Full, true, vec![7]));
        let line = line(&Request {
            iotrace: VERSION,
            ask: ask.clone(),
        });
        assert!(line.ends_with(b"}\n"));
        assert_eq!(request(&line).unwrap(), ask);
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_fault() {
        let refused = |text: &str| request(text.as_bytes()).unwrap_err();
        for (text, code, word) in [
            ("", Code::BadRequest, "no request"),
            ("GET / HTTP/1.1", Code::BadRequest, "no request"),
            ("{\"iotrace\":2}", Code::Version, "version 2"),
            ("{\"iotrace\":1}", Code::BadRequest, "no request"),
            ("{\"iotrace\":1,\"record\":{}}", Code::BadRequest, "abi"),
            (
                "{\"iotrace\":1,\"record\":{\"abi\":0,\"detail\":\"full\",\"follow\":true,\"negative_lookups\":true,\"cpu\":true,\"pids\":[]}}",
                Code::Version,
                "version 0",
            ),
        ] {
            let refusal = refused(text);
            assert_eq!(refusal.code, code, "{text}");
            assert!(refusal.message.contains(word), "{text}: {refusal}");
        }
    }
}
