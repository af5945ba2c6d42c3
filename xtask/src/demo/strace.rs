//! Counts the calls in strace's logs, one log per thread, that succeeded on regular files and directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// All threads, a log each; no contents, what each descriptor is, and the calls that [`Log::take`] counts.
pub const OPTIONS: [&str; 7] = [
    "-ff",
    "-qq",
    "-s",
    "0",
    "-yy",
    "--seccomp-bpf",
    "--trace=read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,pwritev2,open,openat,openat2,creat,\
     close,lseek,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,sendfile,copy_file_range",
];

/// What the programs call their data sets, and the directory of their checkpoints.
const TRAINING: [&str; 2] = ["/cifar-10-batches-bin/", "/train.npy"];
const CHECKPOINTS: &str = "/checkpoints/";

/// What strace saw.
#[derive(Default)]
pub struct Log {
    /// Threads that it followed.
    pub threads: BTreeSet<u64>,
    /// By the names of the JSON report.
    pub counts: BTreeMap<&'static str, u64>,
    /// Bytes read from the data set, and written to checkpoints.
    pub training_bytes: u64,
    pub checkpoint_bytes: u64,
}

/// Reads all logs in a directory.
pub fn read(directory: &Path) -> Result<Log> {
    let mut log = Log::default();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let thread = path
            .extension()
            .and_then(|extension| extension.to_str()?.parse().ok());
        log.threads
            .insert(thread.with_context(|| format!("{} is no log of strace's", path.display()))?);
        let text = fs::read(&path)?;
        for line in String::from_utf8_lossy(&text).lines() {
            log.take(line);
        }
    }
    Ok(log)
}

impl Log {
    /// Counts a line such as `read(3</etc/hosts>, ""..., 4096) = 220`.
    fn take(&mut self, line: &str) {
        let Some((call, result)) = line.rsplit_once(" = ") else {
            return;
        };
        let Some((name, arguments)) = call.split_once('(') else {
            return;
        };
        let digits = result.split([' ', '<']).next().unwrap_or_default();
        let Ok(value) = digits.parse::<u64>() else {
            return; // failed, or the process ended in it
        };
        let mut add = |counter, count| *self.counts.entry(counter).or_default() += count;
        match name {
            "open" | "openat" | "openat2" | "creat" if is_file(result) => add("opens", 1),
            "rename" | "renameat" | "renameat2" => add("renames", 1),
            "unlinkat" if arguments.contains("AT_REMOVEDIR") => {}
            "unlink" | "unlinkat" => add("unlinks", 1),
            "sendfile" | "copy_file_range" => self.transfer(name, arguments, value),
            _ if !is_file(arguments) => {}
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => {
                add("reads", 1);
                add("zero_reads", u64::from(value == 0));
                add("bytes_read", value);
                if TRAINING.iter().any(|file| arguments.contains(file)) {
                    self.training_bytes += value;
                }
            }
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => {
                add("writes", 1);
                add("bytes_written", value);
                if arguments.contains(CHECKPOINTS) {
                    self.checkpoint_bytes += value;
                }
            }
            "close" => add("closes", 1),
            "lseek" => add("seeks", 1),
            "fsync" => add("fsyncs", 1),
            "fdatasync" => add("fdatasyncs", 1),
            _ => {}
        }
    }

    /// Bytes from one descriptor to another: sendfile names the target first.
    fn transfer(&mut self, name: &str, arguments: &str, bytes: u64) {
        let split = if name == "sendfile" { 1 } else { 2 };
        let parts: Vec<_> = arguments.split(", ").collect();
        let (first, second) = (
            is_file(parts[0]),
            parts.get(split).is_some_and(|part| is_file(part)),
        );
        let (source, target) = if name == "sendfile" {
            (second, first)
        } else {
            (first, second)
        };
        if source {
            *self.counts.entry("bytes_read").or_default() += bytes;
        }
        if target {
            *self.counts.entry("bytes_written").or_default() += bytes;
        }
    }
}

/// Whether a text begins with the descriptor of a regular file or a directory: `3</path>`, not `4<pipe:[7]>` nor
/// `5</dev/null<char 1:3>>`.
fn is_file(text: &str) -> bool {
    let rest = text.trim_start_matches(|character: char| character.is_ascii_digit());
    let descriptor = rest.split(">,").next().unwrap_or_default();
    rest.starts_with("</") && !descriptor.contains("<char ") && !descriptor.contains("<block ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_succeeded_on_files() {
        let mut log = Log::default();
        let lines = [
            r#"openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a>"#,
            r#"openat(AT_FDCWD</w>, "b", O_RDONLY) = -1 ENOENT (No such file or directory)"#,
            r#"openat(AT_FDCWD</w>, "/dev/null", O_RDONLY) = 4</dev/null<char 1:3>>"#,
            r#"read(3</w/a>, ""..., 4096) = 220"#,
            r#"read(3</w/a>, "", 4096) = 0"#,
            r#"read(4</dev/null<char 1:3>>, "", 4096) = 0"#,
            r#"write(1<pipe:[7]>, ""..., 5) = 5"#,
            r#"write(5</w/c (deleted)>, ""..., 5) = 5"#,
            r#"write(5</w/checkpoints/c>, ""..., 5) = 5"#,
            r#"sendfile(5</w/c>, 3</w/a>, NULL, 9) = 7"#,
            r#"unlink("a") = 0"#,
            r#"unlinkat(AT_FDCWD</w>, "d", AT_REMOVEDIR) = 0"#,
            "exit_group(0) = ?",
            "+++ exited with 0 +++",
        ];
        lines.iter().for_each(|line| log.take(line));
        let expected = [
            ("bytes_read", 227),
            ("bytes_written", 17),
            ("opens", 1),
            ("reads", 2),
            ("unlinks", 1),
            ("writes", 2),
            ("zero_reads", 1),
        ];
        assert_eq!(log.counts, expected.into());
        assert_eq!((log.training_bytes, log.checkpoint_bytes), (0, 5));
    }
}
