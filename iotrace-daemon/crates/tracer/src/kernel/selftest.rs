//! Known operations, compared with what the programs say of them, before any number is believed.
//!
//! A wrong field offset, a register that lies or a program that does not run shows here and not in a report. A thread
//! of iotrace itself does the operations, on a file in memory and on one of /proc, whose path crosses a mount.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, RawFd},
        unix::{ffi::OsStrExt as _, fs::FileExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
    ptr,
};

use super::{Kernel, KernelError};
use crate::drain::{Batch, Drain};
use iotrace_model::{
    Model,
    counters::{self, Counters},
};

const MEMORY_NAME: &CStr = c"iotrace-selftest";
const FIRST_WRITE: usize = 4096 + 17;
const PAGE: usize = 4096;
const SECOND_WRITE: usize = 5;
const SECOND_OFFSET: u64 = 10_000;
const SHORT_READ: usize = 100;
const MISSING: &str = "/proc/self/iotrace-selftest-missing";

/// What the operations were done to.
struct Truth {
    memory: Identity,
    mounted: Identity,
    mounted_path: PathBuf,
}

struct Identity {
    device: (u32, u32),
    inode: u64,
}

/// Does the operations and compares. Leaves the maps empty and no name remembered.
pub fn run(kernel: &mut Kernel, drain: &mut Drain) -> Result<(), KernelError> {
    let own = std::process::id();
    let mut model = Model::default();
    drain.events(&mut drop);
    drain.counters(&mut drop)?;
    kernel.add_target(own)?;
    // What may be kept of some proves itself, too.
    let recording = kernel.record_itself()?;
    // A thread of its own: one whose system calls are all in scope from the first.
    let truth = std::thread::spawn(operate)
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
    if let Some(recording) = recording {
        kernel.end_recording(recording)?;
    }
    kernel.remove_target(own)?;
    let truth = truth.map_err(|source| KernelError::Io {
        what: "the self-test's own operations (memfd_create, write, read, fsync) failed".into(),
        source,
    })?;
    let mut take = |batch: Batch| batch.apply(&mut model);
    drain.events(&mut take);
    drain.counters(&mut take)?;
    kernel.forget_names()?;
    compare(
        &model,
        own,
        kernel.full_entries().is_some(),
        kernel.without_types().is_some(),
        &truth,
    )
}

/// The known operations.
fn operate() -> io::Result<Truth> {
    // SAFETY: the name is a C string; the descriptor returned is new and owned here.
    let mut memory = unsafe {
        let fd = libc::memfd_create(MEMORY_NAME.as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    memory.write_all(&vec![7; FIRST_WRITE])?;
    memory.write_all_at(&[8; SECOND_WRITE], SECOND_OFFSET)?;
    memory.seek(SeekFrom::Start(0))?;
    memory.read_exact(&mut [0; SHORT_READ])?;
    let mut end = [0; 64];
    // Past the end: a read of nothing.
    memory.read_at(&mut end, 1 << 20)?;
    memory.sync_all()?;
    duplicate_and_map(memory.as_raw_fd())?;
    let memory_id = identity(&memory)?;
    drop(memory);
    // A file that is there; its error is the point.
    drop(File::open(MISSING));
    let mounted_path = Path::new("/proc")
        .join(std::fs::read_link("/proc/self")?)
        .join("stat");
    let mut mounted = File::open(&mounted_path)?;
    mounted.read_exact(&mut [0; 8])?;
    let mounted_id = identity(&mounted)?;
    Ok(Truth {
        memory: memory_id,
        mounted: mounted_id,
        mounted_path,
    })
}

/// Calls whose descriptor is their first and their fifth argument, and one whose second says what it does.
fn duplicate_and_map(fd: RawFd) -> io::Result<()> {
    let check = |result: i32| {
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(result)
        }
    };
    // SAFETY: the descriptor stays open here, its copies are closed once, and the mapping is taken away again unused.
    unsafe {
        check(libc::close(check(libc::dup(fd))?))?;
        check(libc::close(check(libc::fcntl(
            fd,
            libc::F_DUPFD_CLOEXEC,
            0,
        ))?))?;
        let address = libc::mmap(
            ptr::null_mut(),
            PAGE,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            fd,
            0,
        );
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        check(libc::munmap(address, PAGE))?;
    }
    Ok(())
}

fn identity(file: &File) -> io::Result<Identity> {
    let metadata = file.metadata()?;
    let device = metadata.dev();
    Ok(Identity {
        device: (libc::major(device), libc::minor(device)),
        inode: metadata.ino(),
    })
}

/// `by_path`: the operations were over before their files could be looked at.
fn compare(
    model: &Model,
    pid: u32,
    is_full: bool,
    by_path: bool,
    truth: &Truth,
) -> Result<(), KernelError> {
    let memory_path = Path::new("/memfd:iotrace-selftest");
    let find = |identity, path| row(model, pid, identity, by_path.then_some(path));
    let memory = find(&truth.memory, memory_path).ok_or_else(|| failed(
        "operations on a file in memory left no counters, or under another identity",
        "sys_enter/sys_exit, pt_regs, task_struct.files, files_struct.fdt, fdtable.fd, file.f_inode, inode.i_ino, \
         inode.i_sb, super_block.s_dev, inode.i_mode",
    ))?;
    let expected = [
        ("writes", counters::WRITES, 2),
        (
            "bytes written",
            counters::BYTES_WRITTEN,
            (FIRST_WRITE + SECOND_WRITE) as u64,
        ),
        ("reads", counters::READS, 2),
        ("reads at the end", counters::ZERO_READS, 1),
        ("bytes read", counters::BYTES_READ, SHORT_READ as u64),
        ("fsyncs", counters::FSYNCS, 1),
        ("dups", counters::DUPS, 2),
        ("closes", counters::CLOSES, 3),
        ("stats by descriptor", counters::STATS, 1),
        ("mmaps", counters::MMAPS, 1),
    ];
    let offset = is_full.then_some((
        "the highest byte written",
        counters::MAX_BYTE_WRITTEN,
        SECOND_OFFSET + SECOND_WRITE as u64 - 1,
    ));
    let expected = expected.into_iter().chain(offset);
    for (what, index, truth) in expected {
        let found = memory.0.v[index];
        if found != truth {
            return Err(failed(
                &format!("{what}: {truth} by the operations themselves, {found} by the counters"),
                "the arguments or the result of system calls: pt_regs, sys_exit",
            ));
        }
    }
    check_name("a file in memory", &memory.1, memory_path)?;
    let mounted = find(&truth.mounted, &truth.mounted_path).ok_or_else(|| {
        failed(
            "reading a file of /proc left no counters, or under another identity",
            "inode.i_ino, inode.i_sb, super_block.s_dev",
        )
    })?;
    check_name("a file of /proc", &mounted.1, &truth.mounted_path)?;
    check_failure(model)
}

/// Counters and path of a file of process `pid`, by its identity or by its path.
fn row(
    model: &Model,
    pid: u32,
    identity: &Identity,
    path: Option<&Path>,
) -> Option<(Counters, Vec<u8>)> {
    model.rows().iter().find_map(|row| {
        let file = model.file(row.file);
        let same = (file.id.major(), file.id.minor()) == identity.device
            && file.id.inode == identity.inode
            || path.is_some_and(|path| file.path == path.as_os_str().as_bytes());
        let own = model.processes()[row.process as usize].id.pid == pid;
        (same && own).then(|| (row.cell.total(), file.path.to_vec()))
    })
}

fn check_name(what: &str, found: &[u8], expected: &Path) -> Result<(), KernelError> {
    // In a chroot, the namespace's path has the way to the root before the process's own.
    if found.ends_with(expected.as_os_str().as_bytes()) {
        return Ok(());
    }
    let found = String::from_utf8_lossy(found);
    Err(failed(
        &format!("{what} is named {found:?} instead of {expected:?}"),
        "file.f_path, dentry.d_parent, dentry.d_name, dentry.d_inode, mount.mnt, mount.mnt_parent, vfsmount.mnt_root",
    ))
}

fn check_failure(model: &Model) -> Result<(), KernelError> {
    let counted = model.failures().all().any(|(key, _)| {
        key.op as usize == iotrace_common::op::OPEN && key.errno == libc::ENOENT as u32
    });
    if counted {
        return Ok(());
    }
    Err(failed(
        "an open that failed with ENOENT was not counted",
        "the result of system calls: sys_exit",
    ))
}

fn failed(what: &str, suspects: &'static str) -> KernelError {
    KernelError::SelfTest {
        what: what.into(),
        suspects,
    }
}
