//! The HTTP endpoint under clients that ask for much, read nothing, or say nothing.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::fd::AsRawFd as _,
    time::{Duration, Instant},
};

use crate::common::daemon::{self, Daemon};

/// How long an answer may take while others misbehave; the machine may be busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// When what misbehaves is let go, with some room.
const LET_GO_TIMEOUT: Duration = Duration::from_secs(25);

/// Requests of one client that reads no answer: more than the sockets hold.
const PIPELINED: usize = 1_000;

/// The status of `path`, which must come in time.
#[track_caller]
fn status(daemon: &Daemon, path: &str) -> u16 {
    let begun = Instant::now();
    let status = daemon.get(path).status;
    assert!(
        begun.elapsed() < ANSWER_TIMEOUT,
        "{path}: {:?}",
        begun.elapsed()
    );
    status
}

fn connections(daemon: &Daemon, number: usize, request: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(daemon.address).expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        // Little is taken off the service before it has to wait.
        let bytes: libc::c_int = 4096;
        // SAFETY: an open socket, and a value of the size that is told.
        let failed = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUF,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as libc::socklen_t,
            )
        };
        assert_eq!(failed, 0);
        let _ = stream.write(request);
        stream
    };
    (0..number).map(connect).collect()
}

#[test]
fn silent_clients_shut_nobody_out() {
    let daemon = Daemon::start(&mut daemon::command());
    let _silent = connections(&daemon, 200, b"");
    let _slow = connections(
        &daemon,
        200,
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    );
    assert_eq!(status(&daemon, "/healthz"), 200);
    assert_eq!(status(&daemon, "/metrics"), 200);
}

#[test]
fn clients_that_do_not_read_are_let_go() {
    let daemon = Daemon::start(&mut daemon::command());
    let pipelined = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(PIPELINED);
    let deaf = connections(&daemon, 64, &pipelined);
    let begun = Instant::now();
    // Health is told whatever the others do; metrics are, or it is said that there is no place, and then there is one.
    loop {
        assert_eq!(status(&daemon, "/healthz"), 200);
        match status(&daemon, "/metrics") {
            200 => break,
            503 => assert!(begun.elapsed() < LET_GO_TIMEOUT, "they are still held"),
            other => panic!("{other}"),
        }
    }
    // Those that never read are closed by now, or soon.
    let is_closed = |mut stream: &TcpStream| {
        stream.set_nonblocking(false).expect("a socket");
        stream
            .set_read_timeout(Some(LET_GO_TIMEOUT))
            .expect("a socket");
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        // Not all of what was asked for: the service gave up.
        all.windows(12)
            .filter(|part| part.starts_with(b"HTTP/1.1 200"))
            .count()
            <= 200
    };
    std::thread::sleep(Duration::from_secs(12));
    assert!(is_closed(&deaf[0]));
    assert_eq!(status(&daemon, "/metrics"), 200);
}

#[test]
fn kept_connections_do_not_shut_others_out() {
    let daemon = Daemon::start(&mut daemon::command());
    let _kept = connections(&daemon, 300, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(status(&daemon, "/metrics"), 200);
    assert_eq!(status(&daemon, "/healthz"), 200);
}

#[test]
fn metrics_are_compressed_for_who_asks() {
    let daemon = Daemon::start(&mut daemon::command());
    let ask = |coding: &str| {
        let mut stream = TcpStream::connect(daemon.address).expect("a connection");
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let at = answer
            .windows(4)
            .position(|part| part == b"\r\n\r\n")
            .expect("a head");
        let head = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
        (head, answer[at + 4..].to_vec())
    };
    let (head, body) = ask("deflate, gzip;q=0.5");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert_eq!(body[..2], [0x1f, 0x8b], "gzip's mark");
    let (plain_head, plain) = ask("gzip;q=0");
    assert!(!plain_head.contains("content-encoding"), "{plain_head}");
    assert!(plain.starts_with(b"# "), "text");
    assert!(
        body.len() < plain.len() / 2,
        "{} of {}",
        body.len(),
        plain.len()
    );
}
