//! A filesystem that is as slow as a test wants it: a FUSE server within the test, which is not traced itself.
//!
//! One flat directory; files are read as zeros, and what is written is counted and forgotten. Reads, writes and syncs
//! take as long as [`Speed`] says, side by side, whatever the machine does otherwise.
//!
//! The messages are those of `linux/fuse.h`, protocol 7.31.

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Requests that are served at one time.
const THREADS: usize = 16;
const MOST: u32 = 1 << 20;
const ROOT: u64 = 1;
const HEADER: usize = 40;

mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const BATCH_FORGET: u32 = 42;
}

/// How long calls take.
#[derive(Clone, Copy, Default)]
pub struct Speed {
    /// For each MiB.
    pub read: Duration,
    pub write: Duration,
    pub fsync: Duration,
    /// Whether what was read stays in the page cache.
    pub is_cached: bool,
}

/// A file of the filesystem.
struct Node {
    name: Vec<u8>,
    size: u64,
    speed: Speed,
}

/// The mounted filesystem; gone at the end.
pub struct Slow {
    at: PathBuf,
    hangs: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Slow {
    /// Mounts it at the new directory `at`, with files of a name, a size and a speed; new ones have `speed`.
    pub fn mount(at: &Path, files: &[(&str, u64, Speed)], speed: Speed) -> Self {
        std::fs::create_dir(at).expect("a new directory");
        let device = File::options()
            .read(true)
            .write(true)
            // One request wakes all threads that poll, and one of them gets it.
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/fuse")
            .expect("/dev/fuse: these tests need a kernel with FUSE");
        let text = |text: &[u8]| CString::new(text).expect("no NUL");
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={MOST}",
            device.as_raw_fd()
        );
        let (place, options) = (text(at.as_os_str().as_bytes()), text(options.as_bytes()));
        // SAFETY: strings that end with NUL.
        let failed = unsafe {
            libc::mount(
                c"slow".as_ptr(),
                place.as_ptr(),
                c"fuse".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(failed, 0, "mount: {}", io::Error::last_os_error());
        let nodes = files.iter().map(|(name, size, speed)| Node {
            name: name.as_bytes().to_vec(),
            size: *size,
            speed: *speed,
        });
        let server = Arc::new(Server {
            device,
            nodes: Mutex::new(nodes.collect()),
            speed,
            hangs: Arc::default(),
            is_over: Arc::default(),
        });
        let slow = Self {
            at: at.into(),
            hangs: Arc::clone(&server.hangs),
            is_over: Arc::clone(&server.is_over),
        };
        for _ in 0..THREADS {
            let server = Arc::clone(&server);
            std::thread::spawn(move || server.serve());
        }
        slow
    }

    /// Mounts it with 24 samples of 1 MiB, `sample-00.bin` and so on.
    pub fn of_samples(at: &Path, speed: Speed) -> Self {
        let names: Vec<String> = (0..24)
            .map(|index| format!("sample-{index:02}.bin"))
            .collect();
        let files: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), 1 << 20, speed))
            .collect();
        Self::mount(at, &files, speed)
    }

    /// Answers nothing from here on, until it is dropped.
    pub fn hang(&self) {
        self.hangs.store(true, Relaxed);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let place = CString::new(self.at.as_os_str().as_bytes()).expect("no NUL");
        self.is_over.store(true, Relaxed);
        // The server's threads end when the device says so.
        // SAFETY: a string that ends with NUL.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
    }
}

struct Server {
    device: File,
    nodes: Mutex<Vec<Node>>,
    speed: Speed,
    hangs: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

/// A request, without its header.
struct Request<'a> {
    node: u64,
    body: &'a [u8],
}

impl Request<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.body[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.body[at..at + 8].try_into().expect("eight bytes"))
    }

    /// The name that stands at `at`.
    fn name(&self, at: usize) -> &[u8] {
        let name = self.body[at..].split(|byte| *byte == 0);
        name.into_iter().next().unwrap_or_default()
    }
}

impl Server {
    fn serve(&self) {
        let mut buffer = vec![0; MOST as usize + 4096];
        while let Some(length) = self.next(&mut buffer) {
            let message = &buffer[..length];
            let opcode = u32::from_ne_bytes(message[4..8].try_into().expect("four bytes"));
            let unique = &message[8..16];
            let request = Request {
                node: u64::from_ne_bytes(message[16..24].try_into().expect("eight bytes")),
                body: &message[HEADER..],
            };
            if [opcode::FORGET, opcode::BATCH_FORGET, opcode::INTERRUPT].contains(&opcode) {
                continue;
            }
            let (error, body) = match self.answer(opcode, &request) {
                Ok(body) => (0, body),
                Err(errno) => (-errno, Vec::new()),
            };
            let mut reply = Vec::with_capacity(16 + body.len());
            reply.extend((16 + body.len() as u32).to_ne_bytes());
            reply.extend(error.to_ne_bytes());
            reply.extend(unique);
            reply.extend(body);
            // Fails where the one who asked is gone.
            let _ = (&self.device).write(&reply);
        }
    }

    /// Reads the next request; `None` at the end. While the filesystem hangs, requests stay in the kernel: nobody could kill
    /// the one who waits for the answer to a request that was read.
    fn next(&self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            if self.hangs.load(Relaxed) {
                if self.is_over.load(Relaxed) {
                    // The device is closed with the last thread, which ends all requests.
                    return None;
                }
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            if !self.has_request() {
                continue;
            }
            match (&self.device).read(buffer) {
                Ok(length) => return Some(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The device fails when the filesystem is unmounted.
                Err(_) => return None,
            }
        }
    }

    /// Waits for a request, for a while; not if the filesystem hangs meanwhile.
    fn has_request(&self) -> bool {
        const LOOK_MS: i32 = 100;
        let mut device = libc::pollfd {
            fd: self.device.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, alive for the call.
        let ready = unsafe { libc::poll(&raw mut device, 1, LOOK_MS) };
        ready > 0 && !self.hangs.load(Relaxed)
    }

    fn answer(&self, opcode: u32, request: &Request<'_>) -> Result<Vec<u8>, i32> {
        match opcode {
            opcode::INIT => Ok(init()),
            opcode::LOOKUP => {
                let nodes = self.nodes.lock().expect("nodes");
                let found = nodes.iter().position(|node| node.name == request.name(0));
                let index = found.ok_or(libc::ENOENT)?;
                Ok(entry(index, nodes[index].size))
            }
            opcode::GETATTR => self.attributes(request.node),
            opcode::SETATTR => {
                const SIZE: u32 = 1 << 3;
                if request.u32(0) & SIZE != 0 {
                    self.node(request.node, |node| node.size = request.u64(16))?;
                }
                self.attributes(request.node)
            }
            opcode::OPEN => self.node(request.node, |node| open(node.speed)),
            opcode::CREATE => {
                let mut nodes = self.nodes.lock().expect("nodes");
                nodes.push(Node {
                    name: request.name(16).to_vec(),
                    size: 0,
                    speed: self.speed,
                });
                Ok([entry(nodes.len() - 1, 0), open(self.speed)].concat())
            }
            opcode::READ => {
                let (size, speed) = self.node(request.node, |node| (node.size, node.speed))?;
                let left = size.saturating_sub(request.u64(8));
                let length = left.min(request.u32(16).into());
                wait(speed.read, length);
                Ok(vec![0; length as usize])
            }
            opcode::WRITE => {
                let length = request.u32(16);
                let end = request.u64(8) + u64::from(length);
                let speed = self.node(request.node, |node| {
                    node.size = node.size.max(end);
                    node.speed
                })?;
                wait(speed.write, length.into());
                Ok([length.to_ne_bytes(), [0; 4]].concat())
            }
            opcode::FSYNC => {
                let speed = self.node(request.node, |node| node.speed)?;
                std::thread::sleep(speed.fsync);
                Ok(Vec::new())
            }
            // Nothing is free: no place to put a data set.
            opcode::STATFS => {
                Ok([[0; 40].as_slice(), &words(&[4096, 255, 4096]), &[0; 28]].concat())
            }
            opcode::OPENDIR => Ok(vec![0; 16]),
            opcode::RELEASE | opcode::RELEASEDIR | opcode::FLUSH | opcode::FSYNCDIR => {
                Ok(Vec::new())
            }
            _ => Err(libc::ENOSYS),
        }
    }

    fn node<T>(&self, id: u64, use_it: impl FnOnce(&mut Node) -> T) -> Result<T, i32> {
        let mut nodes = self.nodes.lock().expect("nodes");
        let index = id.checked_sub(ROOT + 1).ok_or(libc::EISDIR)?;
        let node = nodes.get_mut(index as usize).ok_or(libc::ESTALE)?;
        Ok(use_it(node))
    }

    fn attributes(&self, id: u64) -> Result<Vec<u8>, i32> {
        let size = match id {
            ROOT => 0,
            _ => self.node(id, |node| node.size)?,
        };
        Ok([vec![0; 16], attributes(id, size)].concat())
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn long(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn wait(of_mib: Duration, bytes: u64) {
    std::thread::sleep(of_mib.mul_f64(bytes as f64 / (1 << 20) as f64));
}

/// `struct fuse_init_out`.
fn init() -> Vec<u8> {
    const ASYNC_READ: u32 = 1;
    const BIG_WRITES: u32 = 1 << 5;
    const MAX_PAGES: u32 = 1 << 22;
    let mut out = words(&[7, 31, MOST, ASYNC_READ | BIG_WRITES | MAX_PAGES]);
    out.extend(words(&[0, MOST, 1, MOST / 4096]));
    out.resize(64, 0);
    out
}

/// `struct fuse_entry_out`, which nobody may remember: sizes change.
fn entry(index: usize, size: u64) -> Vec<u8> {
    let id = ROOT + 1 + index as u64;
    [long(&[id, 0, 0, 0, 0]), attributes(id, size)].concat()
}

/// `struct fuse_attr`.
fn attributes(id: u64, size: u64) -> Vec<u8> {
    let mode = match id {
        ROOT => libc::S_IFDIR | 0o755,
        _ => libc::S_IFREG | 0o644,
    };
    let times = [0; 3];
    let numbers = words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]);
    [long(&[id, size, size.div_ceil(512)]), long(&times), numbers].concat()
}

/// `struct fuse_open_out`.
fn open(speed: Speed) -> Vec<u8> {
    const DIRECT_IO: u32 = 1;
    const KEEP_CACHE: u32 = 2;
    let flags = if speed.is_cached {
        KEEP_CACHE
    } else {
        DIRECT_IO
    };
    words(&[0, 0, flags, 0])
}
