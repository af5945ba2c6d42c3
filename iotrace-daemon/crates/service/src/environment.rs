//! The environment that a running process was started with, for those that ran before the service.

use std::{fs, io};

use zeroize::Zeroizing;

use iotrace_model::environ::{self, Job};
use iotrace_tracer::kernel::capabilities::SYS_PTRACE;

/// Most that is read; the kernel lets nobody start a program with more than 6 MiB of arguments and environment.
const MAX_BYTES: usize = 6 << 20;

/// The job that the environment of a process names. May take for ever: see `readers`.
pub fn job(pid: u32) -> io::Result<Option<Job>> {
    Ok(environ::job(&of(pid)?))
}

/// The variables of a process, each ended by a zero byte. They hold secrets, so they are overwritten after use.
fn of(pid: u32) -> io::Result<Zeroizing<Vec<u8>>> {
    match fs::read(format!("/proc/{pid}/environ")).map(Zeroizing::new) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            from_memory(pid).map_err(|_| error)
        }
        read => read,
    }
}

/// The same by the process's memory. The file is open to its owner alone, and to those who may read every file
/// (CAP_DAC_READ_SEARCH); the memory that it shows is open to CAP_SYS_PTRACE.
fn from_memory(pid: u32) -> io::Result<Zeroizing<Vec<u8>>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (start, end) = range(&stat).ok_or(io::ErrorKind::InvalidData)?;
    if end <= start {
        // Nobody's who may not ask; a kernel thread's or a dead process's, who has none.
        return match SYS_PTRACE.is_held() {
            Some(true) => Ok(Zeroizing::default()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        };
    }
    read(pid, start, (end - start).min(MAX_BYTES))
}

/// Where the environment begins and ends: fields 50 and 51 of proc_pid_stat(5).
fn range(stat: &str) -> Option<(usize, usize)> {
    // The second field, the name, may have anything in it; the third is the first behind it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(50 - 3);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn read(pid: u32, start: usize, length: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; length]);
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: length,
    };
    let remote = libc::iovec {
        iov_base: start as *mut libc::c_void,
        iov_len: length,
    };
    // SAFETY: the local range is that of `bytes`, which outlives the call; the remote one is another process's, whose
    // memory the kernel reads or refuses.
    let read = unsafe { libc::process_vm_readv(pid as i32, &local, 1, &remote, 1, 0) };
    bytes.truncate(usize::try_from(read).map_err(|_| io::Error::last_os_error())?);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn memory_has_what_the_file_has() {
        let mut child = Command::new("sleep")
            .arg("300")
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("RANK", "3")])
            .spawn()
            .unwrap();
        let pid = child.id();
        // The kernel lets this process go on before it has put the new program's environment in its place.
        let file = loop {
            let file = std::fs::read(format!("/proc/{pid}/environ"));
            if !file.as_ref().is_ok_and(Vec::is_empty) {
                break file;
            }
            std::thread::yield_now();
        };
        let memory = super::from_memory(pid);
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(file.as_ref().unwrap().ends_with(b"RANK=3\0"));
        assert_eq!(*memory.unwrap(), file.unwrap());
    }

    #[test]
    fn a_name_with_spaces_and_brackets_is_no_hindrance() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("1 (a) b (c)) {}", fields.join(" "));
        assert_eq!(super::range(&stat), Some((50, 51)));
    }
}
