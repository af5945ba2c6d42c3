//! Processes that run with more rights than their user's, however they look: neither recordings nor snapshots tell their
//! user of them, as neither ptrace(2) nor /proc does.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, chown},
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::service::{self, OTHER, Process, Service, USER};
use crate::common::{self, number, tool};

/// What the programs with rights read.
const SECRET_BYTES: usize = 1_234_567;
/// What the others read.
const OWN_BYTES: usize = 54_321;
/// What a failure shows around a name that must not be there.
const CONTEXT_BYTES: usize = 200;
const CAPABLE: [&str; 4] = [
    "--inh-caps",
    "+dac_read_search",
    "--ambient-caps",
    "+dac_read_search",
];
const IN_OWN_NAMESPACE: [&str; 3] = ["unshare", "--user", "--map-root-user"];

/// A command of a user's, with these options of setpriv(1).
fn as_user(options: &[&str]) -> Command {
    let mut command = Command::new(tool("setpriv"));
    let user = USER.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(options).stdin(Stdio::null());
    command
}

/// A copy of the test's program that gives who runs it rights: by its mode, or by capabilities of the file.
fn with_rights(service: &Service, name: &str, group: u32, mode: u32, capable: bool) -> PathBuf {
    let program = service.dir().join(name);
    fs::copy(&service.workload, &program).unwrap();
    chown(&program, Some(0), Some(group)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    if capable {
        // CAP_DAC_READ_SEARCH, permitted and effective, as capabilities(7) has them in a file.
        let value: [u32; 5] = [0x0200_0001, 1 << 2, 0, 0, 0];
        let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).collect();
        let path = std::ffi::CString::new(program.as_os_str().as_bytes()).unwrap();
        // SAFETY: strings that end, and a buffer of this length.
        let failed = unsafe {
            libc::setxattr(
                path.as_ptr(),
                c"security.capability".as_ptr(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
            )
        };
        assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    }
    program
}

/// A file that only root's group may read, or everybody. Its name has that of the service's directory, since the user's
/// programs of other tests, which may run at the same time, are told too.
fn file(service: &Service, name: &str, group: u32, mode: u32, bytes: usize) -> PathBuf {
    let directory = service.dir().file_name().unwrap().to_str().unwrap();
    let path = service.dir().join(format!("{name}{directory}"));
    fs::write(&path, vec![b'x'; bytes]).unwrap();
    chown(&path, Some(0), Some(group)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn programs_with_more_rights_than_their_users_are_not_recorded() {
    programs_with_more_rights(service::record);
}

#[test]
fn programs_with_more_rights_than_their_users_are_not_told() {
    programs_with_more_rights(service::share);
}

fn programs_with_more_rights(request: fn(&[u32]) -> String) {
    let service = Service::start(&[]);
    let group = OTHER;
    let of_group = with_rights(&service, "set-gid", group, 0o2755, false);
    let capable = with_rights(&service, "capable", 0, 0o755, true);
    let of_root = with_rights(&service, "set-uid", 0, 0o4755, false);
    let plain = service.workload.clone();
    let secret = |name: &str, group, mode| file(&service, name, group, mode, SECRET_BYTES);
    let open = |name: &str| file(&service, name, 0, 0o644, OWN_BYTES);
    let all: [(&[&str], &Path, PathBuf, bool); 6] = [
        (&[], &plain, open("of-the-user"), true),
        (&IN_OWN_NAMESPACE, &plain, open("of-a-namespace"), true),
        (
            &CAPABLE,
            &plain,
            secret("of-ambient-capabilities", 0, 0o600),
            false,
        ),
        (&[], &of_group, secret("of-a-group", group, 0o640), false),
        (
            &[],
            &capable,
            secret("of-file-capabilities", 0, 0o600),
            false,
        ),
        (&[], &of_root, secret("of-root", 0, 0o600), false),
    ];
    let mut stream = service.connect(USER);
    stream.write_all(request(&[]).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("\"begun\""), "{line}");
    for (options, program, file, _) in &all {
        // The shell is the user's own, so that its arguments and its environment may be told.
        let mut command = as_user(options);
        command.args([
            "sh",
            "-c",
            "read -r file; exec \"$PROGRAM\" rights \"$file\"",
        ]);
        command.env("PROGRAM", program).stdin(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        writeln!(input, "{}", file.display()).unwrap();
        let status = shell.wait();
        assert!(status.unwrap().success(), "{file:?} is not read");
    }
    stream.write_all(b"\"stop\"\n").unwrap();
    let mut told = Vec::new();
    reader.read_to_end(&mut told).unwrap();
    for (_, _, file, is_own) in &all {
        let name = file.file_name().unwrap().as_bytes();
        let place = told.windows(name.len()).position(|bytes| bytes == name);
        let context = place.map(|at| {
            let end = told.len().min(at + CONTEXT_BYTES);
            String::from_utf8_lossy(&told[at.saturating_sub(CONTEXT_BYTES)..end])
        });
        assert_eq!(place.is_some(), *is_own, "{file:?} in {context:?}");
    }
}

#[test]
fn capabilities_in_a_users_own_namespace_are_none_outside() {
    const ASK: &str = "import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(sys.argv[2].encode())
print(client.makefile('rb').readline().decode())";
    let service = Service::start(&[]);
    let capable = Process::new(as_user(&CAPABLE).args(["sleep", "300"]));
    let own = Process::new(as_user(&[]).args(["sleep", "300"]));
    let inside = Process::new(as_user(&IN_OWN_NAMESPACE).args(["sleep", "300"]));
    for process in [&capable, &own, &inside] {
        let comm = format!("/proc/{}/comm", process.pid());
        while fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let ask = |options: &[&str], pids: &[u32]| {
        let mut command = as_user(options);
        command.arg(common::users_python()).args(["-c", ASK]);
        let out = command.arg(&service.socket).arg(service::record(pids));
        let Output { stdout, stderr, .. } = out.output().unwrap();
        String::from_utf8([stdout, stderr].concat()).unwrap()
    };
    let (begun, denied) = ("\"begun\"", "\"denied\"");
    for (options, pid, answer) in [
        // The namespace is its user's.
        (&[][..], inside.pid(), begun),
        (&[], own.pid(), begun),
        (&[], capable.pid(), denied),
        (&CAPABLE, capable.pid(), begun),
        (&IN_OWN_NAMESPACE, capable.pid(), denied),
        // As ptrace(2) has it: in a namespace of its own a process has no rights outside.
        (&IN_OWN_NAMESPACE, own.pid(), denied),
    ] {
        let said = ask(options, &[pid]);
        assert!(said.contains(answer), "{options:?}: {said}");
        std::thread::sleep(Duration::from_secs(2));
    }
}

#[test]
fn snapshots_leave_programs_with_more_rights_out() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let of_root = with_rights(&service, "set-uid", 0, 0o4755, false);
    let cat = service.dir().join("cat");
    fs::copy(tool("cat"), &cat).unwrap();
    fs::set_permissions(&cat, fs::Permissions::from_mode(0o4755)).unwrap();
    let secret = file(&service, "of-root", 0, 0o600, SECRET_BYTES);
    let own = file(&service, "of-the-user", 0, 0o644, OWN_BYTES);
    let script = "\"$CAT\" \"$SECRET\" > /dev/null && \"$ROOT\" rights \"$SECRET\"
        cat \"$OWN\" > /dev/null; touch done; sleep 300";
    let mut command = as_user(&["bash", "-c", script]);
    let variables = [
        ("CAT", &cat),
        ("SECRET", &secret),
        ("ROOT", &of_root),
        ("OWN", &own),
    ];
    let shell = Process::new(command.envs(variables).current_dir(home.path()));
    let started = Instant::now();
    while !home.path().join("done").exists() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = |uid| {
        let out = service
            .command(uid)
            .env("IOTRACE_SOCKET", &service.socket)
            .args([
                "snapshot",
                "--format=json",
                "--pid",
                &shell.pid().to_string(),
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
        let found: Value = serde_json::from_slice(&out.stdout).unwrap();
        number(&found["total"], "bytes_read") as usize
    };
    let (all, users) = (read(0), read(USER));
    assert!(
        all - users >= 2 * SECRET_BYTES,
        "{all} bytes of which {users}"
    );
    assert!((OWN_BYTES..SECRET_BYTES).contains(&users), "{users} bytes");
}
