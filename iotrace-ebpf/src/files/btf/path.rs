//! Names: of a file at first sight, by a walk over its dentries from the leaf to the root of the mount namespace,
//! and of renames and unlinks, by the directory that the path starts from and the path as the program gave it.
//!
//! Writes `SCRATCH` and `NAMED`; sends `FILE`, `EXE`, `RENAME_FROM`, `RENAME_TO` and `UNLINK` events.
//!
//! Kernel records: `struct file.f_path` is {mnt, dentry}; `struct dentry` has d_parent, d_name.hash_len and
//! d_name.name side by side; `struct mount` has mnt_parent and mnt_mountpoint side by side. The daemon checks all
//! three against BTF before it loads these programs.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated;
use iotrace_common::{
    diag,
    event::{self, Header, Name, name_flags},
    key::FileId,
    limits::{EVENT_RING_BYTES, NAME_BYTES, PATH_BYTES, PATH_COMPONENTS},
    op::shape,
    phases::Named,
};

use crate::{
    core::{
        config::{
            DENTRY_HASHED, DENTRY_INODE, DENTRY_PARENT, FILE_INODE, FILE_MODE, FILE_PATH, FS_PWD,
            FS_ROOT, HAS_LOOP, INODE_INO, INODE_MODE, INODE_SB, INODE_SIZE, MOUNT_PARENT,
            MOUNT_VFSMOUNT, SB_BLOCK_SIZE, SB_MAGIC, TASK_FS, TYPE_FILE, VFSMOUNT_ROOT,
        },
        diagnose,
        maps::{EVENTS, NAMED, RENAMES, SCRATCH, Scratch, scratch},
        memory::{Address, field, now, pid_tgid, probe},
        thread::Thread,
    },
    platform::{
        add, current,
        identity::{id_of, of_descriptor},
        phase::{self, peek, poke, stamp},
        repeat,
        running::start_of,
    },
};

const BPF_RB_NO_WAKEUP: u64 = 1;
const BPF_RB_FORCE_WAKEUP: u64 = 2;
const BPF_RB_AVAIL_DATA: u64 = 0;
/// Unread bytes in the ring buffer from which on a name wakes the daemon; it looks by itself ten times a second.
const WAKE_FROM: u64 = EVENT_RING_BYTES as u64 / 8;
pub const AT_FDCWD: i32 = -100;
const RENAME_EXCHANGE: u64 = 2;
/// Where an event's flags stand beside its kind.
const FLAGS_SHIFT: u32 = 16;
const KIND_MASK: u32 = (1 << FLAGS_SHIFT) - 1;
/// Number of the bit in the mode of an open file that says that the open made the file.
const FMODE_CREATED: u32 = 20;
pub const MODE_DIRECTORY: u32 = 0x4000;
/// Steps of a walk where the kernel has no `bpf_loop`.
const BOUNDED_STEPS: u32 = 64;
/// In place of an event's kind: nothing is sent.
const SORT_ONLY: u32 = 0;

/// What became of a name.
const DROPPED: u32 = 0;
const SENT: u32 = 1;
const SENT_DELETED: u32 = 2;
/// It was sent before.
const KNOWN: u32 = 3;
/// The file is another one by now.
const GONE: u32 = 4;

/// `struct path`: {mnt, dentry}.
pub type Path = [u64; 2];

/// What the thread's file, at `file` as an open file, was sorted as, and [`phase::SENT`] if its name was sent. Sends
/// the name if it was not sent before, and sorts the file if it has not been since the last rename.
#[inline(always)]
pub fn meet(thread: &mut Thread, file: u64, copy: u32) -> u64 {
    let FileId {
        device,
        generation,
        inode,
    } = thread.key.io.file;
    // An argument has to be a number.
    let file = thread.forgotten(file);
    let place = u64::from(device) << 32 | u64::from(generation);
    iotrace_meet(file, 0, inode, place, copy)
}

/// Meets a file: the open file at `of` or, where `dentry` is not 0, the one that has this name on the mount at `of`.
///
/// Global, with numbers for arguments: so the verifier looks at it once and not at each of its calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_meet(of: u64, dentry: u64, inode: u64, place: u64, copy: u32) -> u64 {
    let id = &FileId {
        device: (place >> 32) as u32,
        generation: place as u32,
        inode,
    };
    let now = stamp();
    let mut kind = event::FILE;
    // SAFETY: the value is not kept.
    if let Some(known) = unsafe { NAMED.get(id) } {
        if known.stamp == now | 1 {
            return u64::from(known.sorted) | phase::SENT;
        }
        if known.stamp & 1 != 0 {
            kind = SORT_ONLY;
        }
    }
    let (own, path): (u64, Path) = if dentry == 0 {
        let mode: u32 = field(of, &TYPE_FILE, &FILE_MODE);
        // By arithmetic: the verifier looks once at what follows.
        kind |= (!mode >> FMODE_CREATED & 1) * (name_flags::EXISTED << FLAGS_SHIFT);
        let file = of as Address;
        (probe(file, &FILE_INODE), probe(file, &FILE_PATH))
    } else {
        let own = probe(dentry as Address, &DENTRY_INODE);
        (own, [of, dentry])
    };
    let became = send_name(kind, own, path, id, copy);
    remember(became, id, now, copy)
}

/// Keeps what became of a name, and what its file was sorted as.
#[inline(always)]
fn remember(became: u32, id: &FileId, now: u32, copy: u32) -> u64 {
    if became == GONE {
        diagnose::count(diag::NAMES_DROPPED);
        return 0;
    }
    let (sorted, became) = match SCRATCH.get_ptr_mut(copy) {
        Some(scratch) => {
            // SAFETY: this CPU's and this program's own scratch.
            let scratch = unsafe { &mut *scratch };
            // In memory, so that the verifier looks at the walk once and not for each value.
            poke(&raw mut scratch.became, became);
            let sorted = phase::of_name(scratch, copy);
            (sorted, peek(&raw const scratch.became))
        }
        None => (0, DROPPED),
    };
    let mut stamp = now;
    match became {
        SENT | KNOWN => stamp |= 1,
        // It may get a name yet (linkat of an O_TMPFILE): look again.
        SENT_DELETED => {}
        _ => diagnose::count(diag::NAMES_DROPPED),
    }
    // An LRU map takes every insert.
    let _ = NAMED.insert(id, Named { sorted, stamp }, 0);
    u64::from(sorted) | u64::from(stamp & 1) << 32
}

/// Sends the path of the executable at `file` of the running process.
#[inline(never)]
pub fn name_executable(file: u64) {
    let file = file as Address;
    let inode = probe(file, &FILE_INODE);
    let path = probe(file, &FILE_PATH);
    let became = send_name(event::EXE, inode, path, &id_of(inode), scratch::EXEC);
    if matches!(became, DROPPED | GONE) {
        diagnose::count(diag::EVENTS_DROPPED);
    }
}

/// Sends a path to the inode at `inode` as an event of `kind`, whose upper half has flags; what became of it.
#[inline(always)]
fn send_name(kind: u32, inode: u64, path: Path, id: &FileId, copy: u32) -> u32 {
    let Some(scratch) = SCRATCH.get_ptr_mut(copy) else {
        return DROPPED;
    };
    // SAFETY: this CPU's and this program's own scratch.
    let scratch = unsafe { &mut *scratch };
    let inode = inode as Address;
    let superblock = probe::<u64>(inode, &INODE_SB) as Address;
    scratch.name = Name {
        header: header(kind & KIND_MASK),
        file: *id,
        size: probe(inode, &INODE_SIZE),
        magic: probe(superblock, &SB_MAGIC),
        mode: u32::from(probe::<u16>(inode, &INODE_MODE)),
        flags: kind >> FLAGS_SHIFT,
        components: 0,
        block_size: probe::<u64>(superblock, &SB_BLOCK_SIZE) as u32,
    };
    let dentry = path[1] as Address;
    let unhashed = probe::<u64>(dentry, &DENTRY_HASHED) == 0;
    if unhashed && probe::<u64>(dentry, &DENTRY_PARENT) != path[1] {
        scratch.name.flags |= name_flags::DELETED;
    }
    walk(scratch, path, copy);
    // Closed and used again meanwhile: then the name would be another file's.
    let named = probe::<u64>(dentry, &DENTRY_INODE) as Address;
    if probe::<u64>(named, &INODE_INO) != id.inode {
        return GONE;
    }
    // From memory, so that the verifier looks at the walk once for all kinds.
    if peek(&raw const scratch.name.header.kind) == SORT_ONLY {
        return KNOWN;
    }
    match (send(scratch), scratch.name.flags & name_flags::DELETED) {
        (0, _) => DROPPED,
        (_, 0) => SENT,
        _ => SENT_DELETED,
    }
}

#[inline(always)]
pub fn header(kind: u32) -> Header {
    let (tgid, tid) = pid_tgid();
    Header {
        kind,
        payload: 0,
        time: now(),
        tgid,
        tid,
        start: start_of(current()),
    }
}

/// Writes the components of `path` into the scratch, leaf first.
#[inline(always)]
pub fn walk(scratch: &mut Scratch, path: Path, copy: u32) {
    scratch.vfsmount = path[0];
    scratch.dentry = path[1];
    scratch.mount_root = probe(path[0] as Address, &VFSMOUNT_ROOT);
    scratch.length = 0;
    scratch.done = 0;
    if HAS_LOOP.is_set() {
        let mut context = copy;
        // SAFETY: the callback has the signature that the helper calls, and its context lives on this stack.
        unsafe { repeat(PATH_COMPONENTS, step_callback, (&raw mut context).cast()) };
    } else {
        for _ in 0..BOUNDED_STEPS {
            if step(scratch) {
                break;
            }
        }
    }
    // The callback has written the same scratch by a pointer of its own, which the compiler cannot know.
    // SAFETY: fields of this scratch.
    let (done, length) = unsafe {
        (
            ptr::read_volatile(&raw const scratch.done),
            ptr::read_volatile(&raw const scratch.length),
        )
    };
    if done == 0 {
        scratch.name.flags |= name_flags::TRUNCATED;
    }
    scratch.name.components = length as u32;
    scratch.length = length;
}

unsafe extern "C" fn step_callback(_index: u32, copy: *mut c_void) -> i64 {
    // SAFETY: the context is the copy's number on the caller's stack.
    let copy = unsafe { *copy.cast::<u32>() };
    match SCRATCH.get_ptr_mut(copy) {
        // SAFETY: this CPU's and this program's own scratch, which the caller does not use during the loop.
        Some(scratch) => i64::from(step(unsafe { &mut *scratch })),
        None => 1,
    }
}

/// One step from the leaf to the root; true at the end. What a step leaves for the next one stays in memory, of which the
/// verifier knows no ranges ([`phase::Walk`]).
#[inline(always)]
fn step(scratch: &mut Scratch) -> bool {
    let dentry = peek(&raw const scratch.dentry);
    if dentry == peek(&raw const scratch.mount_root) {
        return cross_mount(scratch);
    }
    // d_parent, d_name.hash_len (the length is the high half), d_name.name
    let [parent, hash_len, name]: [u64; 3] = probe(dentry as Address, &DENTRY_PARENT);
    let so_far = peek(&raw const scratch.length);
    if parent == dentry {
        // A root outside any mount: a memfd or the like, whose only name this is.
        poke(&raw mut scratch.done, 1);
        if so_far != 0 {
            return true;
        }
    }
    if so_far >= PATH_BYTES as u64 {
        return true;
    }
    let position = so_far & (PATH_BYTES as u64 - 1);
    let length = (hash_len >> 32) & NAME_BYTES as u64;
    // SAFETY: the position is below PATH_BYTES and the name at most 255 bytes; the buffer has room for both.
    unsafe {
        let target = scratch.bytes.as_mut_ptr().add(position as usize);
        *target = length as u8;
        generated::bpf_probe_read_kernel(target.add(1).cast(), length as u32, name as Address);
    }
    poke(&raw mut scratch.length, position + 1 + length);
    poke(&raw mut scratch.dentry, parent);
    peek(&raw const scratch.done) != 0
}

/// From the root of a mount to where it is mounted; true where it is mounted nowhere (the namespace's root).
#[inline(always)]
fn cross_mount(scratch: &mut Scratch) -> bool {
    let mount = peek(&raw const scratch.vfsmount) - MOUNT_VFSMOUNT.load();
    let [parent, mountpoint]: [u64; 2] = probe(mount as Address, &MOUNT_PARENT);
    if parent == mount || parent == 0 {
        poke(&raw mut scratch.done, 1);
        return true;
    }
    let vfsmount = parent + MOUNT_VFSMOUNT.load();
    let mount_root = probe(vfsmount as Address, &VFSMOUNT_ROOT);
    poke(&raw mut scratch.dentry, mountpoint);
    poke(&raw mut scratch.vfsmount, vfsmount);
    poke(&raw mut scratch.mount_root, mount_root);
    false
}

/// Sends the scratch; 1 if it was sent.
#[inline(always)]
pub fn send(scratch: &mut Scratch) -> u32 {
    let mut length = scratch.length;
    if length > MAX_PAYLOAD {
        length = MAX_PAYLOAD;
    }
    scratch.name.header.payload = length as u32;
    let ring: *mut c_void = ptr::from_ref(&EVENTS).cast_mut().cast();
    // SAFETY: the ring is a ring buffer; the scratch begins with the name, the bytes follow it, and the length stays
    // inside them.
    let failed = unsafe {
        let unread = generated::bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
        let wake = if unread > WAKE_FROM {
            BPF_RB_FORCE_WAKEUP
        } else {
            BPF_RB_NO_WAKEUP
        };
        generated::bpf_ringbuf_output(
            ring,
            ptr::from_mut(scratch).cast(),
            size_of::<Name>() as u64 + length,
            wake,
        )
    };
    u32::from(failed == 0)
}

/// Components, and the program's own string behind them.
const MAX_PAYLOAD: u64 = (PATH_BYTES + NAME_BYTES + 1 + PATH_BYTES) as u64;

/// A hard link was made: a file without a name may have one now.
#[inline(always)]
pub fn linked() {
    if let Some(renames) = RENAMES.get_ptr_mut(0) {
        // SAFETY: an aligned word of a map value.
        unsafe { add(renames, 1) };
    }
}

/// Sends both names of the thread's rename, which succeeded, and lets every file be sorted anew.
#[inline(always)]
pub fn renamed(thread: &Thread) {
    linked();
    let [first, second, third, fourth, options] = thread.args;
    let (from, to) = if thread.shape == shape::RENAME {
        ([AT_FDCWD as u64, first], [AT_FDCWD as u64, second])
    } else {
        ([first, second], [third, fourth])
    };
    let exchanged = thread.shape == shape::RENAMEAT2 && options & RENAME_EXCHANGE != 0;
    let flags = if exchanged { name_flags::EXCHANGED } else { 0 };
    if iotrace_send_given(event::RENAME_FROM, from[0], from[1], thread.copy) != 0 {
        let kind = event::RENAME_TO | flags << FLAGS_SHIFT;
        iotrace_send_given(kind, to[0], to[1], thread.copy);
    }
}

/// Sends the name of the thread's unlink, which succeeded.
#[inline(always)]
pub fn unlinked(thread: &Thread) {
    let [first, second, ..] = thread.args;
    let (directory, path) = if thread.shape == shape::UNLINKAT {
        (first, second)
    } else {
        (AT_FDCWD as u64, first)
    };
    iotrace_send_given(event::UNLINK, directory, path, thread.copy);
}

/// Sends a path as the program gave it, with the directory that it starts from; 1 if it was sent. `kind` has the
/// event's flags in its upper half.
///
/// Global, as `iotrace_meet` is.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_send_given(kind: u32, directory: u64, path: u64, copy: u32) -> u32 {
    let Some(scratch) = SCRATCH.get_ptr_mut(copy) else {
        return 0;
    };
    // SAFETY: this CPU's and this program's own scratch.
    let scratch = unsafe { &mut *scratch };
    scratch.name = Name {
        header: header(kind & KIND_MASK),
        mode: MODE_DIRECTORY,
        flags: kind >> FLAGS_SHIFT,
        ..Name::NONE
    };
    let is_absolute = crate::core::memory::probe_user::<u8>(path) == Some(b'/');
    let start = start_of_path(current(), directory, is_absolute);
    walk(scratch, start, copy);
    let position = scratch.length;
    if position > (PATH_BYTES + NAME_BYTES) as u64 {
        return 0;
    }
    // SAFETY: the position leaves room for PATH_BYTES.
    let length = unsafe {
        let target = scratch.bytes.as_mut_ptr().add(position as usize);
        generated::bpf_probe_read_user_str(target.cast(), PATH_BYTES as u32, path as *const c_void)
    };
    if length <= 0 {
        diagnose::count(diag::UNREADABLE);
        return 0;
    }
    scratch.length = position + length as u64;
    let sent = send(scratch);
    if sent == 0 {
        diagnose::count(diag::EVENTS_DROPPED);
    }
    sent
}

/// The directory that a path given by the program starts from.
#[inline(always)]
pub fn start_of_path(task: Address, directory: u64, is_absolute: bool) -> Path {
    let fs: u64 = probe(task, &TASK_FS);
    if is_absolute {
        probe(fs as Address, &FS_ROOT)
    } else if directory as i32 == AT_FDCWD {
        probe(fs as Address, &FS_PWD)
    } else {
        probe(of_descriptor(task, directory as u32) as Address, &FILE_PATH)
    }
}
