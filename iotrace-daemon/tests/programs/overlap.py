#!/usr/bin/env python3
"""Calls that last until the program lets them end: what overlaps is known without a look at a clock.

    overlap.py CASE DIRECTORY

A sendfile from a file into a full pipe lasts until somebody reads the pipe. It waits, so it takes no CPU time.
Prints what happened, as JSON.
"""

import fcntl
import json
import os
import platform
import signal
import sys
import threading
import time

SIZE = 1 << 20
# Its number.
SENDFILE = {"x86_64": "40", "aarch64": "71"}[platform.machine()]


def make(path):
    with open(path, "wb") as file:
        file.write(bytes(SIZE))
    return path


class Stuck:
    """A sendfile of a file into a pipe that is full, and that nobody reads yet."""

    def __init__(self, path):
        self.path = path
        self.out, self.into = os.pipe()
        room = fcntl.fcntl(self.into, fcntl.F_GETPIPE_SZ)
        self.filled = os.write(self.into, bytes(room))
        self.place = None
        self.seconds = None

    def run(self):
        self.place = threading.get_native_id()
        fd = os.open(self.path, os.O_RDONLY)
        begun = time.monotonic()
        os.sendfile(self.into, fd, 0, SIZE)
        self.seconds = time.monotonic() - begun
        os.close(fd)

    def wait(self, thread=None):
        """Until the call is under way: by this thread, or the one that says so."""
        while True:
            thread_id = thread or self.place
            try:
                with open(f"/proc/{thread_id}/syscall") as file:
                    if file.read().split()[0] == SENDFILE:
                        return
            except FileNotFoundError:
                pass
            time.sleep(0.001)

    def end(self):
        os.read(self.out, self.filled)


def fork(run):
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(0)
    return pid


def read(path, times):
    fd = os.open(path, os.O_RDONLY)
    for _ in range(times):
        os.pread(fd, SIZE, 0)
    os.close(fd)


def save(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, bytes(SIZE))
    os.fsync(fd)
    os.close(fd)


def processes(directory):
    """Processes that read at one time, of which one is killed in its call; saves and other files meanwhile."""
    data = make(f"{directory}/a.npy")
    stuck = [Stuck(data) for _ in range(4)]
    pids = [fork(one.run) for one in stuck]
    for one, pid in zip(stuck, pids):
        one.wait(pid)
    threads = [
        threading.Thread(target=read, args=(data, 50)),
        threading.Thread(target=save, args=(f"{directory}/model.ckpt",)),
        threading.Thread(target=read, args=(make(f"{directory}/notes.unknown"), 5)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.kill(pids[0], signal.SIGKILL)
    os.waitpid(pids[0], 0)
    read(data, 5)
    for one, pid in list(zip(stuck, pids))[1:]:
        one.end()
        os.waitpid(pid, 0)
        save(f"{directory}/model-{pid}.ckpt")
    # Nothing else is in a call.
    read(data, 5)
    save(f"{directory}/last.ckpt")
    return {"killed": pids[0], "stuck": pids[1:]}


# Seconds of CPU time.
SPIN = 2


def spin(seconds):
    """Computes until this thread has had so much CPU time."""
    while time.thread_time() < seconds:
        sum(range(1000))


def alone(directory):
    """One thread that reads and computes in turn, its reads from memory, which take CPU time."""
    data = make(f"{directory}/a.npy")
    for _ in range(20):
        read(data, 20)
        spin(time.thread_time() + 0.02)
    return {"cpu": time.process_time()}


def reader(directory):
    """A thread in one long call while another one computes."""
    stuck = Stuck(make(f"{directory}/a.npy"))
    thread = threading.Thread(target=stuck.run)
    thread.start()
    while stuck.place is None:
        time.sleep(0.001)
    stuck.wait()
    spin(time.thread_time() + SPIN)
    stuck.end()
    thread.join()
    return {"spun": SPIN, "reading": stuck.seconds, "cpu": time.process_time()}


def worker(directory):
    """A worker process in one long call while the trainer computes."""
    stuck = Stuck(make(f"{directory}/a.npy"))
    pid = fork(stuck.run)
    stuck.wait(pid)
    spin(time.thread_time() + SPIN)
    stuck.end()
    os.waitpid(pid, 0)
    return {"spun": SPIN, "worker": pid, "cpu": time.process_time()}


def idle(directory):
    """A worker process in one long call, and nobody computes: the trainer did before and does behind it."""
    spin(time.thread_time() + SPIN / 2)
    stuck = Stuck(make(f"{directory}/a.npy"))
    pid = fork(stuck.run)
    stuck.wait(pid)
    time.sleep(SPIN)
    stuck.end()
    os.waitpid(pid, 0)
    spin(time.thread_time() + SPIN / 2)
    return {"worker": pid}


CASES = {
    "processes": processes,
    "alone": alone,
    "reader": reader,
    "worker": worker,
    "idle": idle,
}

if __name__ == "__main__":
    case, directory = sys.argv[1:]
    print(json.dumps(CASES[case](directory)))
