#!/usr/bin/env python3
"""Saves a checkpoint in one of many orders of writes, syncs and renames.

    durable.py VARIANT DIRECTORY
"""

import ctypes
import mmap
import os
import signal
import sys
import zipfile

variant, top = sys.argv[1:3]
TEMPORARY, NAME = os.path.join(top, "model.pt.tmp"), os.path.join(top, "model.pt")
BLOCK = bytes(1 << 20)
libc = ctypes.CDLL(None, use_errno=True)


def write(path, flags=0, sync=lambda fd: None):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags, 0o644)
    os.write(fd, BLOCK)
    os.write(fd, BLOCK)
    sync(fd)
    os.close(fd)


def sync_directory(sync=os.fsync):
    fd = os.open(top, os.O_RDONLY)
    sync(fd)
    os.close(fd)


def ranges(fd):
    # Waits before, writes, and waits after.
    if libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), 7) != 0:
        raise OSError(ctypes.get_errno(), "sync_file_range")


def syncfs(fd):
    if libc.syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), "syncfs")


def rename():
    os.rename(TEMPORARY, NAME)


if variant == "right":
    write(TEMPORARY, sync=os.fsync)
    rename()
    sync_directory()
elif variant == "fdatasync":
    write(TEMPORARY, sync=os.fdatasync)
    rename()
    sync_directory()
elif variant == "no-directory-sync":
    write(TEMPORARY, sync=os.fsync)
    rename()
elif variant == "directory-synced-before":
    write(TEMPORARY, sync=os.fsync)
    sync_directory()
    rename()
elif variant == "no-sync-before-rename":
    write(TEMPORARY)
    rename()
    fd = os.open(NAME, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    sync_directory()
elif variant == "renamed-only":
    write(TEMPORARY)
    rename()
elif variant == "nothing":
    write(NAME)
elif variant == "synced":
    write(NAME, sync=os.fsync)
elif variant == "written-after":
    fd = os.open(NAME, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, BLOCK)
    os.fsync(fd)
    os.write(fd, BLOCK)
    os.close(fd)
elif variant == "o-dsync":
    write(NAME, os.O_DSYNC)
elif variant == "o-sync":
    write(NAME, os.O_SYNC)
elif variant == "ranges":
    write(NAME, sync=ranges)
elif variant == "syncfs":
    write(TEMPORARY)
    sync_directory(syncfs)
    rename()
    sync_directory()
elif variant == "sync":
    write(NAME)
    os.sync()
elif variant == "by-another":
    write(NAME)
    if os.fork() == 0:
        fd = os.open(NAME, os.O_RDONLY)
        os.fsync(fd)
        os._exit(0)
    os.wait()
elif variant == "by-another-descriptor":
    write(NAME)
    fd = os.open(NAME, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
elif variant == "synced-again":
    # A sync of the file after its rename writes its name, too.
    fd = os.open(TEMPORARY, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, BLOCK)
    os.fsync(fd)
    os.close(fd)
    rename()
    fd = os.open(NAME, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
elif variant == "msync":
    write(NAME)
    fd = os.open(NAME, os.O_RDWR)
    with mmap.mmap(fd, 0) as memory:
        memory.flush()
    os.close(fd)
elif variant == "mapped":
    write(NAME)
    fd = os.open(NAME, os.O_RDWR)
    with mmap.mmap(fd, 0) as memory:
        memory[: len(BLOCK)] = bytes([1]) * len(BLOCK)
    os.fsync(fd)
    os.close(fd)
elif variant == "killed":
    # Before it came to sync what it wrote.
    child = os.fork()
    if child == 0:
        write(NAME)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
elif variant == "zip":
    # As torch.save does: a zip file, written in parts and closed.
    with zipfile.ZipFile(NAME, "w") as file:
        file.writestr("archive/data.pkl", bytes(1000))
        file.writestr("archive/data/0", BLOCK)
elif variant == "in-place":
    write(NAME, sync=os.fsync)
    write(NAME, sync=os.fsync)
elif variant == "copied":
    # To a tier that is safe.
    write(NAME)
    copy = os.path.join(top, "safe", "model.pt")
    os.mkdir(os.path.dirname(copy))
    source = os.open(NAME, os.O_RDONLY)
    target = os.open(copy, os.O_WRONLY | os.O_CREAT, 0o644)
    while os.sendfile(target, source, None, 1 << 20):
        pass
    os.fsync(target)
    os.close(target)
    os.close(source)
else:
    sys.exit(f"no variant {variant}")
