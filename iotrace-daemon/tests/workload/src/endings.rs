//! Processes that end badly, calls that are cut short, and processes that share a pid.

use std::{
    sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::{
    book::{self, BY_NAME, Book, NOWHERE, Op, Truth},
    calls::{Calls, path, raw},
};

const WORKERS: usize = 6;

/// Workers that are killed: half of them between two calls, half of them anywhere.
pub fn killed(truth: &mut Truth, dir: &str) {
    let mut children = Vec::new();
    for worker in 0..WORKERS {
        let at_rest = worker % 2 == 0;
        let name = format!("{dir}/worker-{worker}");
        let role = if at_rest {
            "killed at rest"
        } else {
            "killed at work"
        };
        let names = [name.clone()];
        let child = truth.fork(role, &names, |book| {
            let c = Calls { book };
            let fd = c.open(1, &path(name), libc::O_CREAT | libc::O_RDWR);
            let block = vec![0_u8; 3000];
            for round in 0_u64.. {
                c.pwrite(1, fd, &block, round % 1000).expect("pwrite");
                c.pread(1, fd, &mut [0; 500], round % 100).expect("pread");
                if at_rest && round == 400 + 100 * worker as u64 {
                    break;
                }
            }
            book.begun.fetch_add(DONE, Relaxed);
            loop {
                std::hint::spin_loop();
            }
        });
        children.push((child, at_rest, worker));
    }
    for (child, at_rest, worker) in children {
        if at_rest {
            while child.book.begun.load(Relaxed) < DONE {
                std::thread::sleep(Duration::from_millis(1));
            }
            child.book.begun.fetch_sub(DONE, Relaxed);
        } else {
            while child.book.counted.load(Relaxed) < 100 * worker as u64 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(child.pid, libc::SIGKILL) };
        assert_eq!(child.status(), libc::SIGKILL);
    }
}

/// Marks a book whose process has done all it will.
const DONE: u64 = 1 << 32;

/// Opens of a FIFO that nobody else opens, cut short by a signal: EINTR, and made again by the kernel.
pub fn interrupted(truth: &mut Truth, dir: &str) {
    let fifo = path(format!("{dir}/fifo"));
    let args = [
        libc::AT_FDCWD as usize,
        fifo.as_ptr() as usize,
        libc::S_IFIFO as usize | 0o600,
        0,
    ];
    assert_eq!(raw(libc::SYS_mknodat, &args), 0);
    let alarms = &book::map_shared(None).begun;
    ALARMS.store(std::ptr::from_ref(alarms).cast_mut(), Relaxed);
    let child = truth.fork("interrupted", &[], |book| {
        let c = Calls { book };
        on_alarm_do(count_alarm, 0);
        for _ in 0..INTERRUPTIONS {
            assert_eq!(c.try_open(NOWHERE, &fifo, libc::O_RDONLY), Err(libc::EINTR));
        }
        // With SA_RESTART the kernel makes the call again, until the other side comes.
        on_alarm_do(count_alarm, libc::SA_RESTART);
        let fd = c.open(NOWHERE, &fifo, libc::O_RDONLY);
        // The program does not see that it was made twice: the first time counts as an error all the same.
        book.count(Op::Open, BY_NAME, -i64::from(libc::EINTR));
        c.close(NOWHERE, fd);
    });
    for alarm in 1..=INTERRUPTIONS + 1 {
        wait_until_in_open(child.pid, alarm - 1, child.book);
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(child.pid, libc::SIGALRM) };
        while alarms.load(Relaxed) < alarm {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    wait_until_in_open(child.pid, INTERRUPTIONS, child.book);
    drop(
        std::fs::File::options()
            .write(true)
            .open(format!("{dir}/fifo"))
            .expect("the FIFO"),
    );
    child.wait();
}

const INTERRUPTIONS: u64 = 3;

/// Waits until the child has counted `calls` calls and sleeps in its next openat.
fn wait_until_in_open(pid: i32, calls: u64, book: &Book) {
    let in_open = format!("{} ", libc::SYS_openat);
    loop {
        let call =
            std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("/proc/PID/syscall");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("/proc/PID/stat");
        let sleeps = stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" S"));
        if sleeps && call.starts_with(&in_open) && book.counted.load(Relaxed) == calls {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Where handled signals are counted: shared with the parent.
static ALARMS: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn count_alarm(_: i32) {
    // SAFETY: set before any signal comes, and never unmapped.
    unsafe { (*ALARMS.load(Relaxed)).fetch_add(1, Relaxed) };
}

fn on_alarm_do(handler: extern "C" fn(i32), flags: i32) {
    // SAFETY: the action is set whole before it is used; the handler only adds to an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
    }
}

/// Two processes with the same pid, one after the other.
pub fn same_pid(truth: &mut Truth, dir: &str) {
    let mut pid = 0;
    for life in 1..=3_usize {
        let name = format!("{dir}/life-{life}");
        let book = truth.book(&format!("life {life}"), std::slice::from_ref(&name), true);
        let work = |book: &'static Book| {
            let c = Calls { book };
            let fd = c.open(1, &path(name.as_str()), libc::O_CREAT | libc::O_WRONLY);
            for _ in 0..10 * life {
                assert_eq!(c.write(1, fd, &vec![0; life]), Ok(life));
            }
            c.close(1, fd);
        };
        pid = if life == 1 {
            book::fork(book, work)
        } else {
            fork_as(pid, book, work)
        };
        assert_eq!(book::wait(pid), 0);
        // So that the lives differ in when they began.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Forks a child with a chosen pid: clone3 with set_tid.
fn fork_as(pid: i32, book: &'static Book, work: impl FnOnce(&'static Book)) -> i32 {
    let set_tid = [pid];
    // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size
    let args: [u64; 10] = [
        0,
        0,
        0,
        0,
        libc::SIGCHLD as u64,
        0,
        0,
        0,
        set_tid.as_ptr() as u64,
        1,
    ];
    for _ in 0..100 {
        match raw(
            libc::SYS_clone3,
            &[args.as_ptr() as usize, size_of_val(&args)],
        ) {
            0 => book::in_child(book, work),
            child if child > 0 => {
                assert_eq!(child, i64::from(pid));
                return pid;
            }
            // Somebody else has the pid for the moment.
            error if error == -i64::from(libc::EEXIST) => {
                std::thread::sleep(Duration::from_millis(10))
            }
            error => panic!(
                "clone3 with a chosen pid: {} (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE is needed)",
                std::io::Error::from_raw_os_error(-error as i32)
            ),
        }
    }
    panic!("pid {pid} stays taken");
}

/// Calls by the 32-bit interface among 64-bit ones.
#[cfg(target_arch = "x86_64")]
pub fn compat(truth: &mut Truth, dir: &str) {
    let name = format!("{dir}/file");
    let names = [name.clone()];
    truth.run("32-bit calls", &names, |book| {
        let c = Calls { book };
        let name = path(name);
        let fd = c.open(1, &name, libc::O_CREAT | libc::O_RDWR);
        assert_eq!(c.write(1, fd, &[0; 64]), Ok(64));
        // Numbers of that interface: 3 read, 4 write, 19 lseek, 5 open, 6 close, 20 getpid. In the 64-bit one 3 is
        // close, 4 stat, 5 fstat, 6 lstat, 19 readv, 20 writev.
        let low = low_memory();
        // SAFETY: the low page is mapped and large enough.
        unsafe { std::ptr::copy_nonoverlapping(c"/dev/null".as_ptr(), low.cast(), 10) };
        let low = low as u32;
        assert_eq!(int_80(4, [fd as u32, low, 10]), 10);
        assert_eq!(int_80(19, [fd as u32, 0, 0]), 0);
        assert_eq!(int_80(3, [fd as u32, low + 100, 20]), 20);
        let null = int_80(5, [low, 0, 0]);
        assert!(null > 2);
        assert_eq!(int_80(6, [null as u32, 0, 0]), 0);
        assert_eq!(int_80(6, [999, 0, 0]), -libc::EBADF);
        // Not a call of files: nobody's loss.
        assert!(int_80(20, [0; 3]) > 0);
        assert_eq!(c.read(1, fd, &mut [0; 10]), Ok(10));
        c.close(1, fd);
    });
    truth.more.insert("compat_calls".into(), 6.into());
}

/// A page below 4 GiB, whose address a 32-bit call can take.
#[cfg(target_arch = "x86_64")]
fn low_memory() -> *mut u8 {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
    );
    // SAFETY: a new anonymous mapping.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page.cast()
}

/// A system call by the 32-bit interface.
#[cfg(target_arch = "x86_64")]
fn int_80(nr: u32, args: [u32; 3]) -> i32 {
    let result: i32;
    // SAFETY: rbx, which the compiler keeps for itself, is put back; the kernel keeps all but eax and r8 to r11.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {first:r}",
            "int 0x80",
            "xchg rbx, {first:r}",
            first = inout(reg) u64::from(args[0]) => _,
            inlateout("eax") nr as i32 => result,
            in("ecx") args[1],
            in("edx") args[2],
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
        );
    }
    result
}
