//! Directories and mounts as labels have them.

use crate::totals::Mount;
use iotrace_model::mounts;

/// The directory of a file, as a label has it: of at most so many characters.
pub fn directory_of(path: &[u8], is_directory: bool) -> String {
    const MAX_CHARACTERS: usize = 512;
    let end = path.iter().rposition(|byte| *byte == b'/');
    let path = match end {
        _ if is_directory => path,
        Some(0) => &path[..1],
        Some(end) => &path[..end],
        None if path.is_empty() => b"unknown",
        // A name of a filesystem without directories.
        None => path,
    };
    String::from_utf8_lossy(path)
        .chars()
        .take(MAX_CHARACTERS)
        .collect()
}

/// A mount as labels have it. Those that come and go with every container or that hold no data are one each.
pub fn mount(mount_point: &[u8], fs_type: &str) -> Mount {
    const PSEUDO: [&str; 14] = [
        "proc",
        "sysfs",
        "cgroup",
        "cgroup2",
        "debugfs",
        "tracefs",
        "securityfs",
        "bpf",
        "devpts",
        "nsfs",
        "anon_inodefs",
        "mqueue",
        "configfs",
        "efivarfs",
    ];
    let text = String::from_utf8_lossy(mount_point);
    let mountpoint = if PSEUDO.contains(&fs_type) {
        "pseudo".into()
    } else if fs_type == "overlay" && mount_point != b"/" {
        "container".into()
    } else if mount_point.is_empty() {
        "unknown".into()
    } else if is_of_one_container(&text) {
        "container volume".into()
    } else {
        text.into_owned()
    };
    let fstype = match mounts::family(fs_type) {
        "" => "unknown",
        family => family,
    };
    Mount {
        mountpoint,
        fstype: fstype.into(),
    }
}

/// Whether a mount is of one pod or container, and goes with it.
fn is_of_one_container(mount_point: &str) -> bool {
    const DIRECTORIES: [&str; 5] = [
        "/var/lib/kubelet/pods/",
        "/run/containerd/",
        "/var/lib/docker/",
        "/var/lib/containers/",
        "/run/netns/",
    ];
    DIRECTORIES
        .iter()
        .any(|directory| mount_point.starts_with(directory))
}
