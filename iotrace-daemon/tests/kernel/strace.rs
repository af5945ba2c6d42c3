//! strace's log of a program, call by call, against iotrace's counts of the same run of the same processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::Path,
};

use crate::common::{
    self, Iotrace,
    compare::{self, Counts},
    directory, number, text, tool,
};

/// What a descriptor in strace's log is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Descriptor {
    /// A regular file or a directory, by path.
    File(String),
    /// A pipe, a socket, a device.
    Other,
    /// Nothing: the number alone stands there.
    None,
}

/// One line of strace's log.
#[derive(Debug)]
struct Call<'a> {
    name: &'a str,
    args: Vec<&'a str>,
    result: i64,
    error: Option<&'a str>,
    /// The descriptor that was returned.
    returned: Descriptor,
}

impl<'a> Call<'a> {
    /// Of a line such as `read(3</etc/hosts>, ""..., 4096) = 220`.
    fn parse(line: &'a str) -> Option<Self> {
        let (call, result) = line.rsplit_once(" = ")?;
        let (name, rest) = call.trim_end().split_once('(')?;
        let args = split(rest.strip_suffix(')')?);
        // The end of the process came before the call's.
        if result.starts_with('?') && !result.starts_with("? E") {
            return None;
        }
        let error = result
            .strip_prefix("-1 ")
            .or_else(|| result.strip_prefix("? "))
            .map(|text| text.split(' ').next().unwrap_or_default());
        let word = result.split([' ', '<']).next().unwrap_or_default();
        let number = match word.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok()?,
            None => word.parse().unwrap_or(-1),
        };
        Some(Self {
            name,
            args,
            result: number,
            error,
            returned: descriptor(result),
        })
    }

    fn descriptor(&self, index: usize) -> Descriptor {
        self.args
            .get(index)
            .map_or(Descriptor::None, |arg| descriptor(arg))
    }

    fn has(&self, flag: &str) -> bool {
        self.args
            .iter()
            .any(|arg| arg.split('|').any(|word| word == flag))
    }
}

/// Arguments, split at the commas that stand outside of strings, brackets and descriptors' paths.
fn split(text: &str) -> Vec<&str> {
    let (mut args, mut depth, mut start, mut quoted, mut escaped) =
        (Vec::new(), 0, 0, false, false);
    for (index, char) in text.char_indices() {
        if quoted {
            match char {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match char {
            '"' => quoted = true,
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                args.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    args.push(text[start..].trim());
    args
}

/// Of `3</path>`, `4<pipe:[123]>`, `1</dev/null<char 1:3>>` or `5`.
fn descriptor(text: &str) -> Descriptor {
    let digits = text.trim_start_matches(|char: char| char.is_ascii_digit());
    if digits.len() == text.len() {
        return Descriptor::None;
    }
    let Some(inner) = digits
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'))
    else {
        return Descriptor::None;
    };
    if inner.starts_with('/') && !inner.ends_with('>') {
        Descriptor::File(inner.trim_end_matches(" (deleted)").into())
    } else if inner.starts_with('/') && inner.contains("<deleted>") {
        Descriptor::File(inner.trim_end_matches("<deleted>").into())
    } else {
        Descriptor::Other
    }
}

/// What strace saw, in iotrace's terms.
#[derive(Default)]
struct Seen {
    all: Counts,
    /// By path of the open file.
    files: BTreeMap<String, Counts>,
    /// What the mappings are of, by address, in the log that is read.
    mapped: BTreeMap<String, Descriptor>,
    calls: u64,
}

impl Seen {
    /// Counts a call where iotrace would.
    fn take(&mut self, call: &Call<'_>) {
        let at = |index| call.descriptor(index);
        let (counter, operation, place) = match call.name {
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => ("reads", "read", at(0)),
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => ("writes", "write", at(0)),
            "open" | "openat" | "openat2" | "creat" => {
                let place = if call.error.is_some() {
                    Descriptor::None
                } else {
                    call.returned.clone()
                };
                ("opens", "open", place)
            }
            "close" => ("closes", "close", at(0)),
            "dup" | "dup2" | "dup3" => ("dups", "dup", at(0)),
            "fcntl" if call.has("F_DUPFD") || call.has("F_DUPFD_CLOEXEC") => ("dups", "dup", at(0)),
            "fsync" => ("fsyncs", "fsync", at(0)),
            "fdatasync" => ("fdatasyncs", "fdatasync", at(0)),
            "sync_file_range" => ("sync_file_ranges", "sync_file_range", at(0)),
            "msync" => ("msyncs", "msync", self.mapped_at(call)),
            "lseek" => ("seeks", "seek", at(0)),
            "fstat" => ("stats", "stat", at(0)),
            "newfstatat" | "statx" => {
                let by_descriptor =
                    call.has("AT_EMPTY_PATH") && matches!(call.args[1], "\"\"" | "NULL");
                let place = if by_descriptor {
                    at(0)
                } else {
                    Descriptor::None
                };
                ("stats", "stat", place)
            }
            "stat" | "lstat" => ("stats", "stat", Descriptor::None),
            "access" | "faccessat" | "faccessat2" => ("accesses", "access", Descriptor::None),
            "getdents" | "getdents64" => ("getdents", "getdents", at(0)),
            "ftruncate" => ("truncates", "truncate", at(0)),
            "truncate" => ("truncates", "truncate", Descriptor::None),
            "fallocate" => ("fallocates", "fallocate", at(0)),
            "rename" | "renameat" | "renameat2" => ("renames", "rename", Descriptor::None),
            "link" | "linkat" => ("links", "link", Descriptor::None),
            "symlink" | "symlinkat" => ("symlinks", "symlink", Descriptor::None),
            "unlinkat" if call.has("AT_REMOVEDIR") => ("rmdirs", "rmdir", Descriptor::None),
            "unlink" | "unlinkat" => ("unlinks", "unlink", Descriptor::None),
            "mkdir" | "mkdirat" => ("mkdirs", "mkdir", Descriptor::None),
            "rmdir" => ("rmdirs", "rmdir", Descriptor::None),
            "readlink" | "readlinkat" => ("readlinks", "readlink", Descriptor::None),
            "syncfs" => ("syncfs", "syncfs", at(0)),
            "sync" => ("syncs", "sync", Descriptor::None),
            "close_range" => ("close_ranges", "close_range", Descriptor::None),
            "mmap" if call.has("MAP_ANONYMOUS") => return,
            "mmap" => {
                let address = format!("{:#x}", call.result);
                self.mapped.insert(address, at(4));
                ("mmaps", "mmap", at(4))
            }
            "sendfile" | "copy_file_range" | "splice" => return self.transfer(call),
            _ => return,
        };
        if place == Descriptor::Other {
            return;
        }
        self.add(&place, counter, operation, call);
    }

    /// The file of the mapping that begins at a call's first argument.
    fn mapped_at(&self, call: &Call<'_>) -> Descriptor {
        let found = call.args.first().and_then(|at| self.mapped.get(*at));
        found.cloned().unwrap_or(Descriptor::None)
    }

    fn transfer(&mut self, call: &Call<'_>) {
        let (source, target) = match call.name {
            "sendfile" => (call.descriptor(1), call.descriptor(0)),
            _ => (call.descriptor(0), call.descriptor(2)),
        };
        if call.error.is_some() {
            // Counted at the source; at no file where only the target is one.
            let place = if source == Descriptor::Other {
                Descriptor::None
            } else {
                source.clone()
            };
            if source != Descriptor::Other || matches!(target, Descriptor::File(_)) {
                self.add(&place, "transfer_reads", "transfer_read", call);
            }
            return;
        }
        if matches!(source, Descriptor::File(_)) {
            self.add(&source, "transfer_reads", "transfer_read", call);
        }
        if matches!(target, Descriptor::File(_)) {
            self.add(&target, "transfer_writes", "transfer_write", call);
        }
    }

    fn add(&mut self, place: &Descriptor, counter: &str, operation: &str, call: &Call<'_>) {
        self.calls += 1;
        let mut counts = Counts::default();
        if let Some(error) = call.error {
            counts.add("failures", 1);
            counts.add_error(operation, error, 1);
        } else {
            counts.add(counter, 1);
            let bytes = call.result as u64;
            match counter {
                "reads" => {
                    counts.add("zero_reads", u64::from(bytes == 0));
                    counts.add("bytes_read", bytes);
                }
                "transfer_reads" => counts.add("bytes_read", bytes),
                "writes" | "transfer_writes" => counts.add("bytes_written", bytes),
                _ => {}
            }
        }
        if let Descriptor::File(path) = place {
            self.files.entry(path.clone()).or_default().merge(&counts);
        }
        self.all.merge(&counts);
    }
}

/// Runs a command under both and compares; `least` calls must have been seen.
#[track_caller]
fn same<S: Into<OsString>>(dir: &Path, command: impl IntoIterator<Item = S>, least: u64) -> Counts {
    let logs = dir.join("strace");
    fs::create_dir(&logs).unwrap();
    let mut all: Vec<OsString> = vec![tool("strace").into()];
    // One log per thread; no text, all paths, kinds of descriptors.
    for option in [
        "-ff",
        "-qq",
        "-s",
        "0",
        "-yy",
        "--trace=file,desc,mmap,msync,sync,%stat,%statfs,close_range",
        "-o",
    ] {
        all.push(option.into());
    }
    all.push(logs.join("log").into());
    all.extend(command.into_iter().map(Into::into));
    // The working directory is not the logs'.
    let work = dir.join("work");
    fs::create_dir_all(&work).unwrap();
    let finished = Iotrace::record().current_dir(&work).command(all);
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    let start = finished
        .stdout
        .rfind("{\"format_version\"")
        .expect("a report");
    let report = serde_json::from_str(&finished.stdout[start..]).expect("a report");
    compare::conserved(&report);
    compare::nothing_lost(&report);

    let mut seen = Seen::default();
    let mut traced = BTreeSet::new();
    for log in fs::read_dir(&logs).unwrap() {
        let log = log.unwrap().path();
        traced.insert(
            log.extension()
                .unwrap()
                .to_str()
                .unwrap()
                .parse::<u64>()
                .unwrap(),
        );
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
        seen.mapped.clear();
        text.lines()
            .filter_map(Call::parse)
            .for_each(|call| seen.take(&call));
    }
    assert!(seen.calls >= least, "strace saw {} calls only", seen.calls);

    // All processes but strace itself.
    let mut found = Counts::default();
    for process in compare::list(&report, "processes") {
        if traced.contains(&number(process, "pid")) {
            found.merge(&Counts::of(&process["totals"]));
        }
    }
    let difference = seen.all.difference(&found);
    assert!(
        difference.is_empty(),
        "strace's (done) and iotrace's (reported):\n{difference}"
    );

    // By file, where a path is one file's alone: not of those that were renamed or removed.
    let mut rows: BTreeMap<&str, (Counts, BTreeSet<String>, bool)> = BTreeMap::new();
    for row in compare::list(&report, "files") {
        if traced.contains(&number(row, "pid")) {
            let (counts, inodes, moved) = rows.entry(text(row, "path")).or_default();
            counts.merge(&Counts::of(row));
            inodes.insert(format!("{} {}", row["inode"], row["generation"]));
            *moved |= row["opened_as"].is_string() || row["deleted"] == true;
        }
    }
    let left: BTreeSet<&str> = compare::list(&report, "files")
        .iter()
        .map(|row| text(row, "opened_as"))
        .collect();
    let mut compared = 0;
    for (path, (counts, inodes, moved)) in rows {
        if moved || inodes.len() > 1 || left.contains(path) {
            continue;
        }
        let mut done = seen.files.get(path).cloned().unwrap_or_default();
        // By path, so with no file in strace's log.
        done.add("renames", counts.get("renames"));
        done.add("unlinks", counts.get("unlinks"));
        done.errors_by_operation.clear();
        assert_eq!(
            done.difference(&counts),
            "",
            "{path}: strace's (done), iotrace's (reported)"
        );
        compared += 1;
    }
    assert!(compared > 3, "{compared} files compared");
    found
}

fn sh(script: &str) -> [OsString; 3] {
    ["sh".into(), "-c".into(), script.into()]
}

#[test]
fn dd() {
    let (_keep, dir) = directory();
    tool("dd");
    let script = "dd if=/dev/zero of=a bs=1000 count=333 status=none && dd if=a of=b bs=4k conv=fsync status=none \
                  && dd if=b of=c bs=512 skip=3 seek=5 count=40 conv=fdatasync,notrunc status=none \
                  && dd if=a status=none | dd of=d bs=100 status=none && ! dd if=missing of=e status=none 2>/dev/null";
    same(&dir, sh(script), 1500);
}

#[test]
fn syncs() {
    let (_keep, dir) = directory();
    tool("sync");
    let script = "echo 1 >a && echo 2 >b && sync -f a && sync -f a b && sync -d a && sync a b . && sync && sync \
                  && ! sync -f missing 2>/dev/null";
    let counted = same(&dir, sh(script), 100);
    assert_eq!((counted.get("syncfs"), counted.get("syncs")), (3, 2));
}

#[test]
fn cp() {
    let (_keep, dir) = directory();
    tool("cp");
    let script = "mkdir -p t/u/v && for i in 1 2 3 4 5 6 7 8 9; do head -c 7${i}00 /dev/zero >t/u/v/$i; ln -s $i t/u/$i; done \
                  && cp -r t copy && cp -a t archive && cp --reflink=never t/u/v/3 three && cp -l t/u/v/4 four \
                  && cp -u t/u/v/3 three && mv three 3 && rm -r copy && ! cp missing there 2>/dev/null";
    same(&dir, sh(script), 1000);
}

#[test]
fn tar() {
    let (_keep, dir) = directory();
    tool("tar");
    let script = "mkdir -p t/u && for i in $(seq 60); do echo $i$i$i >t/u/$i; done && tar -cf a.tar t && mkdir out \
                  && tar -C out -xf a.tar && tar -tf a.tar >list && tar -rf a.tar list && tar -df a.tar";
    same(&dir, sh(script), 1000);
}

#[test]
fn git() {
    let (_keep, dir) = directory();
    tool("git");
    let script = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; git init -q -b main r && cd r && for i in $(seq 30); do echo $i >$i; done \
                  && git config user.name a && git config user.email a@b && git add . && git commit -q -m one \
                  && echo more >>7 && git commit -q -a -m two && git mv 8 eight && git commit -q -m three \
                  && git gc -q && git log -p >../log && git checkout -q HEAD~1 && git status >../status";
    same(&dir, sh(script), 3000);
}

#[test]
fn sqlite() {
    let (_keep, dir) = directory();
    tool("sqlite3");
    let script = "sqlite3 db 'create table t(a integer primary key, b text); begin; \
                  with recursive n(i) as (select 1 union all select i+1 from n where i<3000) \
                  insert into t select i, hex(randomblob(50)) from n; commit; \
                  update t set b = 1 where a % 7 = 0; delete from t where a % 3 = 0; vacuum; select count(*) from t' >out \
                  && sqlite3 db 'pragma journal_mode=wal; insert into t(b) values(2); pragma wal_checkpoint' >>out";
    same(&dir, sh(script), 300);
}

#[test]
fn mapped_files_that_are_synced() {
    let (_keep, dir) = directory();
    let python = common::python();
    let script = "import mmap, os\n\
                  for name, times in (('a', 7), ('b', 3)):\n    \
                  fd = os.open(name, os.O_RDWR | os.O_CREAT)\n    os.ftruncate(fd, 1 << 16)\n    \
                  memory = mmap.mmap(fd, 1 << 16)\n    os.close(fd)\n    \
                  for at in range(times):\n        memory[at] = 1\n        memory.flush()\n\
                  mmap.mmap(-1, 4096).flush()";
    same(
        &dir,
        [python.as_os_str(), "-c".as_ref(), script.as_ref()],
        100,
    );
}

#[test]
fn python_with_imports() {
    let (_keep, dir) = directory();
    let python = common::python();
    let program = "import json, email, http.client, ctypes, decimal, unittest, xml.dom.minidom, tempfile, shutil, os\n\
                   try:\n    import no_such_module\nexcept ImportError:\n    pass\n\
                   with open('a', 'w') as f:\n    [f.write('line %d\\n' % i) for i in range(20000)]\n\
                   with open('a') as f:\n    n = sum(len(l) for l in f)\n\
                   shutil.copy('a', 'b')\nos.rename('b', 'c')\nos.truncate('c', 10)\nprint(os.stat('c').st_size)\n\
                   import subprocess\nsubprocess.run(['cat', 'a'], stdout=open('d', 'wb'), check=True)\n";
    same(
        &dir,
        [python.into_os_string(), "-c".into(), program.into()],
        1000,
    );
}

#[test]
fn python_with_threads_and_processes() {
    let (_keep, dir) = directory();
    let python = common::python();
    let program = "import concurrent.futures as c, os\n\
                   def work(i):\n    name = 'f%d' % (i % 5)\n    fd = os.open(name, os.O_CREAT | os.O_RDWR)\n\
                   \x20   os.pwrite(fd, b'x' * (100 + i), i)\n    os.pread(fd, 50, 0)\n    os.fsync(fd)\n    os.close(fd)\n    return i\n\
                   if __name__ == '__main__':\n\
                   \x20   with c.ThreadPoolExecutor(8) as pool: list(pool.map(work, range(100)))\n\
                   \x20   with c.ProcessPoolExecutor(3) as pool: list(pool.map(work, range(30)))\n";
    let file = dir.join("program.py");
    fs::write(&file, program).unwrap();
    same(&dir, [python.into_os_string(), file.into_os_string()], 1000);
}

#[test]
fn lines_of_the_log_are_understood() {
    let line = r#"openat(AT_FDCWD</tmp/a,b>, "x\"(,", O_RDONLY|O_CLOEXEC) = 3</tmp/a,b/x>"#;
    let call = Call::parse(line).unwrap();
    assert_eq!((call.name, call.args.len(), call.result), ("openat", 3, 3));
    assert_eq!(call.returned, Descriptor::File("/tmp/a,b/x".into()));
    let call =
        Call::parse(r#"read(0</dev/null<char 1:3>>, ""..., 10) = -1 EIO (Input/output error)"#)
            .unwrap();
    assert_eq!(
        (call.descriptor(0), call.error),
        (Descriptor::Other, Some("EIO"))
    );
    let call = Call::parse("close(7)                = -1 EBADF (Bad file descriptor)").unwrap();
    assert_eq!(
        (call.descriptor(0), call.error),
        (Descriptor::None, Some("EBADF"))
    );
    let call =
        Call::parse("mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</lib/x>, 0x1000) = 0x7f0000000000")
            .unwrap();
    assert_eq!(call.descriptor(4), Descriptor::File("/lib/x".into()));
    assert!(Call::parse("exit_group(0)           = ?").is_none());
    assert!(Call::parse("+++ exited with 0 +++").is_none());
}
