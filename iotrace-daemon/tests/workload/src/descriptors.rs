//! Descriptors that take ways of their own: duplicates, inherited ones, ones sent over a socket, ones kept over exec.

use std::{io, mem, os::fd::AsRawFd as _, ptr};

use crate::{
    book::{self, Book, Op, Truth},
    calls::{Calls, path, raw},
};

/// All of them, on one file each.
pub fn run(truth: &mut Truth, dir: &str) {
    duplicated(truth, &format!("{dir}/duplicated"));
    inherited(truth, &format!("{dir}/inherited"));
    sent(truth, &format!("{dir}/sent"));
    kept_over_exec(truth, &format!("{dir}/kept"));
    exec_from_a_thread(truth, &format!("{dir}/exec"));
}

fn create(c: &Calls, name: &str) -> i32 {
    let fd = c.open(1, &path(name), libc::O_CREAT | libc::O_RDWR);
    assert_eq!(c.write(1, fd, &[1; 1000]), Ok(1000));
    c.seek(1, fd, 0, libc::SEEK_SET);
    fd
}

fn duplicated(truth: &mut Truth, name: &str) {
    truth.run("duplicated descriptors", &[name.into()], |book| {
        let c = Calls { book };
        let fd = create(&c, name);
        let copy = c.must(Op::Dup, 1, libc::SYS_dup, &[fd as usize]) as i32;
        // One position for both.
        let mut buffer = [0; 300];
        assert_eq!(c.read(1, fd, &mut buffer), Ok(300));
        assert_eq!(c.read(1, copy, &mut buffer), Ok(300));
        c.close(1, fd);
        assert_eq!(c.read(1, copy, &mut buffer), Ok(300));
        // Over a pipe's end: the number now means the file.
        let [from, to] = c.pipe();
        c.must(
            Op::Dup,
            1,
            libc::SYS_dup3,
            &[copy as usize, from as usize, 0],
        );
        assert_eq!(c.read(1, from, &mut buffer), Ok(100));
        assert_eq!(c.read(1, from, &mut buffer), Ok(0));
        // And back: the number is a pipe's again.
        c.must(
            Op::Dup,
            book::NOWHERE,
            libc::SYS_dup3,
            &[to as usize, from as usize, 0],
        );
        assert_eq!(
            c.call(
                Op::Write,
                book::NOWHERE,
                libc::SYS_write,
                &[from as usize, 8, 0]
            ),
            Ok(0)
        );
        c.close(1, copy);
    });
}

fn inherited(truth: &mut Truth, name: &str) {
    let files = [name.to_owned()];
    let childs = truth.book("child with an inherited descriptor", &files, true);
    truth.run("parent of an inherited descriptor", &files, |book| {
        let c = Calls { book };
        let fd = create(&c, name);
        let pid = book::fork(childs, |book| {
            let c = Calls { book };
            let mut buffer = [0; 100];
            for _ in 0..4 {
                assert_eq!(c.read(1, fd, &mut buffer), Ok(100));
            }
            c.close(1, fd);
        });
        assert_eq!(book::wait(pid), 0);
        // The position is shared with the child.
        assert_eq!(c.read(1, fd, &mut [0; 1000]), Ok(600));
        c.close(1, fd);
    });
}

fn sent(truth: &mut Truth, name: &str) {
    let files = [name.to_owned()];
    let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let receiver = truth.fork("receiver of a descriptor", &files, |book| {
        let c = Calls { book };
        let fd = receive(far.as_raw_fd());
        assert_eq!(c.pread(1, fd, &mut [0; 700], 0), Ok(700));
        assert_eq!(c.write(1, fd, &[2; 50]), Ok(50));
        c.close(1, fd);
    });
    let sender = truth.fork("sender of a descriptor", &files, |book| {
        let c = Calls { book };
        let fd = create(&c, name);
        send(near.as_raw_fd(), fd);
        c.close(1, fd);
    });
    sender.wait();
    receiver.wait();
}

fn kept_over_exec(truth: &mut Truth, name: &str) {
    let files = [name.to_owned()];
    let (book, memory) =
        truth.book_for_exec("a program with a descriptor from the one before", &files);
    let pid = book::fork(book, |book| {
        let c = Calls { book };
        let fd = create(&c, name);
        assert_eq!(c.read(1, fd, &mut [0; 400]), Ok(400));
        execute(memory.as_raw_fd(), fd);
    });
    assert_eq!(book::wait(pid), 0);
}

/// A thread that is not the first of its process executes a program: the process goes on under its own pid.
fn exec_from_a_thread(truth: &mut Truth, name: &str) {
    let files = [name.to_owned()];
    let (book, memory) = truth.book_for_exec("a program executed by a thread", &files);
    let pid = book::fork(book, |book| {
        let c = Calls { book };
        let fd = create(&c, name);
        let memory = memory.as_raw_fd();
        let thread = std::thread::spawn(move || {
            assert_eq!(c.read(1, fd, &mut [0; 111]), Ok(111));
            execute(memory, fd);
        });
        let _ = thread.join();
    });
    assert_eq!(book::wait(pid), 0);
}

/// Executes this program again, as [`after_exec`].
fn execute(memory: i32, fd: i32) {
    let own = path("/proc/self/exe");
    let args = [
        path("workload"),
        path("after-exec"),
        path(memory.to_string()),
        path(fd.to_string()),
    ];
    let mut pointers: Vec<usize> = args.iter().map(|arg| arg.as_ptr() as usize).collect();
    pointers.push(0);
    let environment = [0_usize];
    let error = raw(
        libc::SYS_execve,
        &[
            own.as_ptr() as usize,
            pointers.as_ptr() as usize,
            environment.as_ptr() as usize,
        ],
    );
    panic!("execve: {}", io::Error::from_raw_os_error(-error as i32));
}

/// The executed program: goes on with the descriptor and the book.
pub fn after_exec(memory: i32, fd: i32) {
    let book: &'static Book = book::map_shared(Some(memory));
    let c = Calls { book };
    assert_eq!(c.write(1, fd, &[3; 77]), Ok(77));
    assert_eq!(c.pread(1, fd, &mut [0; 1000], 500), Ok(500));
    c.close(1, fd);
}

/// Ancillary data of one descriptor.
#[repr(C)]
struct Ancillary {
    header: libc::cmsghdr,
    fd: i32,
    pad: i32,
}

fn message(body: &mut libc::iovec, ancillary: &mut Ancillary) -> libc::msghdr {
    // SAFETY: all zero is a valid message header.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = body;
    message.msg_iovlen = 1;
    message.msg_control = ptr::from_mut(ancillary).cast();
    message.msg_controllen = size_of::<Ancillary>();
    message
}

fn ancillary(fd: i32) -> Ancillary {
    Ancillary {
        header: libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + 4,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        },
        fd,
        pad: 0,
    }
}

fn send(socket: i32, fd: i32) {
    let mut byte = 0_u8;
    let mut body = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut ancillary = ancillary(fd);
    let message = message(&mut body, &mut ancillary);
    // SAFETY: the message and what it points to live here.
    let sent = unsafe { libc::sendmsg(socket, &raw const message, 0) };
    assert_eq!(sent, 1, "{}", io::Error::last_os_error());
}

fn receive(socket: i32) -> i32 {
    let mut byte = 0_u8;
    let mut body = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut ancillary = ancillary(-1);
    let mut message = message(&mut body, &mut ancillary);
    // SAFETY: as in `send`.
    let received = unsafe { libc::recvmsg(socket, &raw mut message, 0) };
    assert_eq!(received, 1, "{}", io::Error::last_os_error());
    assert!(ancillary.fd >= 0, "no descriptor came");
    ancillary.fd
}
