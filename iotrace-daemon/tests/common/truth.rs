//! What the counting program says it did, compared with what iotrace says it did.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{compare::Counts, number, text};

/// A process of the counting program, by its role and pid.
pub struct Process<'a> {
    pub role: &'a str,
    pub pid: u64,
    value: &'a Value,
}

/// Whether the errors of calls that a signal cut short stand under the kernel's own names.
const EINTR: &str = "4";

/// All processes of a truth.
pub fn processes(truth: &Value) -> Vec<Process<'_>> {
    let processes = truth["processes"].as_array().expect("processes");
    processes
        .iter()
        .map(|value| Process {
            role: text(value, "role"),
            pid: number(value, "pid"),
            value,
        })
        .collect()
}

impl Process<'_> {
    /// Counts by file.
    pub fn files(&self) -> BTreeMap<String, Counts> {
        let files = self.value["files"].as_object().expect("files");
        files
            .iter()
            .map(|(path, sheet)| (path.clone(), counts(sheet)))
            .filter(|(_, counts)| !counts.is_empty())
            .collect()
    }

    /// Counts of calls by name.
    pub fn by_name(&self) -> Counts {
        counts(&self.value["by_name"])
    }

    /// Whether the program counted every call of this process.
    pub fn is_whole(&self) -> bool {
        self.value["whole"].as_bool().expect("whole")
    }

    /// Calls begun, calls counted.
    pub fn calls(&self) -> (u64, u64) {
        (number(self.value, "begun"), number(self.value, "counted"))
    }
}

/// Set where a comparison must fail, which `cargo xtask vm --self-check` makes sure of.
const WRONG_COUNT: &str = "IOTRACE_TEST_WRONG_COUNT";

/// A sheet of the program in iotrace's terms.
fn counts(sheet: &Value) -> Counts {
    let mut counts = Counts::default();
    if std::env::var_os(WRONG_COUNT).is_some() {
        counts.add("reads", 1);
    }
    for (key, value) in sheet.as_object().expect("a sheet") {
        if let Some(value) = value.as_u64() {
            counts.add(key, value);
        }
    }
    for (operation, errors) in sheet["errors_by_operation"].as_object().expect("errors") {
        for (errno, calls) in errors.as_object().expect("errors") {
            let name = if errno == EINTR {
                "ERESTARTSYS".to_owned()
            } else {
                error_name(errno.parse().expect("a number"))
            };
            counts.add_error(operation, &name, calls.as_u64().expect("a number"));
        }
    }
    counts
}

/// Name of an error number, by a table of the tests' own.
pub fn error_name(errno: i32) -> String {
    let names = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::EBADF, "EBADF"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EEXIST, "EEXIST"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::ESPIPE, "ESPIPE"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::EXDEV, "EXDEV"),
        (libc::ENXIO, "ENXIO"),
        (libc::ECANCELED, "ECANCELED"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    ];
    names
        .iter()
        .find(|(number, _)| *number == errno)
        .unwrap_or_else(|| panic!("error {errno} has no name here"))
        .1
        .to_owned()
}
