//! What the service is told: built-in defaults < `/etc/iotrace/iotrace.toml` < environment < flags.
//!
//! `keys` declares each key; the shipped file, the reference page and the chart's schema are written from it.

mod file;
mod flags;
mod keys;
#[cfg(test)]
mod reference;
mod values;

use serde::{Deserialize, Serialize};

pub use file::{ConfigError, DEFAULT_PATH};
pub use keys::{Config, Flags, Http, Jobs, Memory, Metrics, Recordings, Trace};
pub use values::{Password, Span};

use crate::attribution::Kind;
use iotrace_tracer::kernel::Detail;

/// A form of a job log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobFormat {
    /// The log itself.
    Recording,
    /// For the tools of Darshan.
    Darshan,
    /// The report as a page.
    Html,
    /// The report as JSON, without its lists of processes and files.
    Json,
}

impl JobFormat {
    /// Those in files of their own, next to the log.
    pub const FILES: [Self; 3] = [Self::Darshan, Self::Html, Self::Json];

    /// The one of [`Self::FILES`] that has this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::FILES.into_iter().find(|format| format.name() == name)
    }

    /// As the configuration has it; also how the name of the file ends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Darshan => "darshan",
            Self::Html => "html",
            Self::Json => "json",
        }
    }
}

/// How much of a process's command line is written to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandLines {
    /// All arguments.
    Full,
    /// The path of the program and no argument.
    Executable,
    /// Neither; the kernel's short name of the process alone.
    None,
}

/// The socket that there is not.
pub const NO_SOCKET: &str = "none";
/// Longest path that the kernel binds a socket to, bytes (`sun_path` of `sockaddr_un`, without the NUL).
const MAX_SOCKET_BYTES: usize = 107;
/// The group that every user is in.
pub const EVERY_GROUP: &str = "*";
/// Where clients look for the socket, unless they are told another place.
pub const DEFAULT_SOCKET: &str = "/run/iotrace/iotrace.sock";

impl Config {
    /// What is wrong with it as a whole: the key, and what to do.
    fn check(&self) -> Result<(), (&'static str, String)> {
        self.check_bounds()?;
        let (http, metrics) = (&self.http, &self.metrics);
        if http.tls_certificate.is_some() != http.tls_key.is_some() {
            let key = if http.tls_key.is_none() {
                "tls_certificate"
            } else {
                "tls_key"
            };
            return Err((
                key,
                "tls_certificate and tls_key go together: set both".into(),
            ));
        }
        let is_known = |name: &String| {
            let kind = name.split(':').next().unwrap_or_default();
            Kind::NAMED.iter().any(|known| known.name() == kind)
        };
        for (key, units) in [("waits", &metrics.waits), ("latencies", &metrics.latencies)] {
            if let Some(unknown) = units.iter().find(|name| !is_known(name)) {
                let kinds = Kind::NAMED.map(Kind::name).join(", ");
                let message = format!(
                    "{key} has kinds of units ({kinds}) or names of units, not {unknown:?}"
                );
                return Err((key, message));
            }
        }
        let directory = self.jobs.directory.as_ref();
        if directory.is_some_and(|directory| !directory.is_absolute()) {
            return Err(("directory", "directory is an absolute path".into()));
        }
        let socket = &self.recordings.socket;
        if socket.as_os_str() != NO_SOCKET {
            if !socket.is_absolute() {
                return Err(("socket", "socket is an absolute path, or \"none\"".into()));
            }
            let length = socket.as_os_str().len();
            if length > MAX_SOCKET_BYTES {
                let message = format!(
                    "socket has {length} bytes: choose a path of at most {MAX_SOCKET_BYTES}"
                );
                return Err(("socket", message));
            }
        }
        let formats = &self.jobs.formats;
        if formats.is_empty() {
            let message = "formats names at least one of recording, darshan, html, json";
            return Err(("formats", message.into()));
        }
        if formats.contains(&JobFormat::Darshan) && self.detail() != Detail::Full {
            let message = "the format darshan needs detail = \"full\"";
            return Err(("formats", message.into()));
        }
        Ok(())
    }

    /// How much is kept of all processes: what the metrics need, or the job logs.
    pub fn detail(&self) -> Detail {
        match self.jobs.directory {
            Some(_) => self.trace.detail.max(self.jobs.detail),
            None => self.trace.detail,
        }
    }

    /// Whether it is kept how long operations took, of all processes: somebody is told of it.
    pub fn keeps_latencies(&self) -> bool {
        let jobs = &self.jobs;
        jobs.directory.is_some() && jobs.latencies || !self.metrics.latencies.is_empty()
    }

    /// Whether it serves HTTPS. A reload applies another certificate, but not HTTPS itself.
    fn has_tls(&self) -> bool {
        self.http.tls_certificate.is_some()
    }

    /// Keys that differ and take effect only at the next start.
    pub fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        let mut changed = self.not_applied(new);
        if self.has_tls() != new.has_tls() {
            changed.push("http.tls_certificate");
        }
        changed
    }

    /// What is in use after a reload of `new`.
    pub fn reloaded(&self, new: Self) -> Self {
        let mut used = new;
        used.keep_fixed(self);
        if self.has_tls() != used.has_tls() {
            used.http
                .tls_certificate
                .clone_from(&self.http.tls_certificate);
            used.http.tls_key.clone_from(&self.http.tls_key);
        }
        used
    }
}

#[cfg(test)]
mod tests;
