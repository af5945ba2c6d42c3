"""Programs whose main thread waits, and that measure themselves what for: programs.py PROGRAM TRUTH DIRECTORY.

The directory is on a filesystem of which each read of a MiB takes a while. TRUTH is written as JSON: seconds by kind of wait, and
of the main thread `running` (its CPU time) and `whole`.
"""

import hashlib
import json
import mmap
import multiprocessing
import os
import queue
import socket
import sys
import threading
import time

MIB = 1 << 20
now = time.monotonic
SPIN = 0.012


def files(directory):
    return [os.path.join(directory, f"sample-{index:02}.bin") for index in range(24)]


def read(path):
    file = os.open(path, os.O_RDONLY)
    data = os.read(file, MIB)
    os.close(file)
    return data


def compute(seconds, step=lambda: None):
    """Uses the CPU for so long, whoever else does."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        step()


def unlocked():
    """A step while which others may run Python: what waits for the interpreter's lock wakes up by a timer."""
    hashlib.sha256(bytes(MIB // 16))


class Log:
    """What a loader did and when: [kind, start, end]."""

    def __init__(self):
        self.rows = []

    def add(self, kind, work):
        start = now()
        result = work()
        self.rows.append([kind, start, now()])
        return result

    def read(self, path):
        """Reads a file: storage, then the loader's own copying, for as long as it used the CPU."""
        start, used = now(), time.thread_time()
        read(path)
        end = now()
        copying = end - (time.thread_time() - used)
        self.rows += [["storage", start, copying], ["loader_cpu", copying, end]]

    def within(self, waits):
        """Seconds by kind within these waits."""
        sums = {}
        for kind, start, end in self.rows:
            for begin, until in waits:
                both = min(end, until) - max(start, begin)
                sums[kind] = sums.get(kind, 0) + max(both, 0)
        return sums


def own_reads(directory):
    """No loader: the thread reads itself."""
    log = Log()
    for path in files(directory):
        log.add("storage", lambda: read(path))
        compute(SPIN)
    return {"storage": sum(end - start for _, start, end in log.rows)}


def load(paths, send, close):
    """A loader: reads and decodes each file, then sends; at the end what it did."""
    log = Log()
    for path in paths:
        log.read(path)
        log.add("loader_cpu", lambda: compute(SPIN))
        send(b"x" * 100)
    close(log.rows)


def consume(count, receive):
    """Takes samples, and computes; when it waited."""
    waits = []
    for _ in range(count):
        start = now()
        receive()
        waits.append((start, now()))
        compute(0.003)
    return waits


def receive(connection):
    """One sample, from a socket."""
    left = 100
    while left:
        left -= len(connection.recv(left))


def without(waits, sleeps):
    """The parts of waits that are outside all sleeps, each of which is within a wait."""
    for start, end in waits:
        for begin, until in sleeps:
            if start <= begin and until <= end:
                yield start, begin
                start = until
        yield start, end


def by_pipe(
    directory, receive=lambda ours, worker: ours.recv_bytes(), sleeps=()
):
    """One worker process and a pipe."""
    paths = files(directory)
    ours, theirs = multiprocessing.Pipe()
    log = Log()
    worker = multiprocessing.Process(
        target=load, args=(paths, theirs.send_bytes, theirs.send)
    )
    worker.start()
    waits = consume(len(paths), lambda: receive(ours, worker))
    log.rows = ours.recv()
    worker.join()
    return log.within(list(without(waits, sleeps)))


def by_pipe_with_timeouts(directory):
    """The same, waiting for a part of the time at once, as PyTorch's DataLoader waits for 5 s. A timeout is 0.6 of the last
    wait: a sample rarely comes at the end of one, when nobody wakes the main thread. Such a wait is sleep, from its start on."""
    sleeps = []
    timeout = 0.018

    def receive(ours, worker):
        nonlocal timeout
        first = start = now()
        has_slept = False
        while not has_slept and not ours.poll(timeout):
            assert worker.is_alive()
            start = now()
            has_slept = ours.poll(0)
        # The sample came after the timeout: the clock has woken the thread, and nothing after that.
        if has_slept or now() - start >= timeout:
            sleeps.append((first, now()))
        timeout = max(0.6 * (now() - first), 0.005)
        ours.recv_bytes()

    told = by_pipe(directory, receive, sleeps)
    return {**told, "sleep": sum(end - start for start, end in sleeps)}


def epochs(directory):
    """Three passes, each by a worker of its own: storage is slow in the first one, later ones find all in memory."""
    told = [by_pipe(directory) for _ in range(3)]
    kinds = ("storage", "loader_cpu")
    return {kind: sum(epoch[kind] for epoch in told) for kind in kinds} | {"epochs": told}


def rank(directory, done):
    # Else its worker is started as it was itself.
    multiprocessing.set_start_method("fork", force=True)
    done.put(measured(by_pipe, directory))


def by_spawned_rank(directory):
    """A rank as torch.multiprocessing.spawn starts it, and its worker: the main thread waits for the rank alone."""
    spawn = multiprocessing.get_context("spawn")
    done = spawn.SimpleQueue()
    process = spawn.Process(target=rank, args=(directory, done))
    process.start()
    told = done.get()
    process.join()
    return told


def by_forked_rank(directory):
    """A rank that the program forks, and its worker: the main thread waits for the rank's end."""
    done = multiprocessing.SimpleQueue()
    process = multiprocessing.Process(target=rank, args=(directory, done))
    process.start()
    process.join()
    return done.get()


def saving_rank(directory, number, done):
    told = measured(own_reads, directory)
    if number == 0:
        with open(os.path.join(directory, "last.ckpt"), "wb") as file:
            file.write(bytes(1 << 20))
    done.put((number, told))


def by_saving_ranks(directory):
    """Two ranks as torch.multiprocessing.spawn starts them, without workers: the first one saves."""
    spawn = multiprocessing.get_context("spawn")
    done = spawn.SimpleQueue()
    ranks = [
        spawn.Process(target=saving_rank, args=(directory, number, done)) for number in range(2)
    ]
    for process in ranks:
        process.start()
    told = dict(done.get() for _ in ranks)
    for process in ranks:
        process.join()
    return told[0]


def by_socket(directory):
    """One worker process and a pair of Unix sockets, as tensors in shared memory are sent."""
    paths = files(directory)
    ours, theirs = socket.socketpair()
    log = Log()
    done = multiprocessing.SimpleQueue()
    worker = multiprocessing.Process(target=load, args=(paths, theirs.sendall, done.put))
    worker.start()
    waits = consume(len(paths), lambda: receive(ours))
    log.rows = done.get()
    worker.join()
    return log.within(waits)


def by_tcp(directory):
    """Another rank on this host, over the loopback interface."""
    paths = files(directory)
    listener = socket.create_server(("127.0.0.1", 0))
    log = Log()
    done = multiprocessing.SimpleQueue()

    def other():
        there = socket.create_connection(listener.getsockname())
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        load(paths, there.sendall, done.put)

    worker = multiprocessing.Process(target=other)
    worker.start()
    ours, _ = listener.accept()
    waits = consume(len(paths), lambda: receive(ours))
    log.rows = done.get()
    worker.join()
    return log.within(waits)


def by_thread(directory):
    """A thread of the same process and a queue."""
    paths = files(directory)
    samples, done = queue.Queue(2), queue.Queue()
    worker = threading.Thread(target=load, args=(paths, samples.put, done.put))
    worker.start()
    waits = []
    for _ in paths:
        start = now()
        samples.get()
        waits.append((start, now()))
        time.sleep(0.001)
    log = Log()
    log.rows = done.get()
    worker.join()
    return {"storage": log.within(waits)["storage"], "sleep": 0.001 * len(paths)}


def compute_threads(directory):
    """A thread that computes for the main thread, as backward passes do: it loads nothing, and the main thread reads itself.
    At first it compiles: it reads a file of no known kind that it wrote."""
    log = Log()
    tasks, done = queue.Queue(), queue.Queue()
    compiled = os.path.join(os.path.dirname(directory), "compiled-1")

    def work():
        with open(compiled, "wb") as file:
            file.write(bytes(MIB))
        read(compiled)
        while tasks.get():
            log.add("compute_threads", lambda: compute(0.02))
            done.put(True)

    worker = threading.Thread(target=work)
    worker.start()
    for path in files(directory):
        log.add("storage", lambda: read(path))
        tasks.put(True)
        done.get()
    tasks.put(False)
    worker.join()
    sums = {"loader_cpu": 0, "storage": 0, "compute_threads": 0}
    for kind, start, end in log.rows:
        sums[kind] += end - start
    return sums


def by_tiers(directory):
    """A thread that reads shards and one that decodes the samples in them: both are the loader."""
    paths = files(directory)
    shards = paths[::4]
    raw, samples = queue.Queue(2), queue.Queue(2)
    log = Log()

    def read_all():
        for path in shards:
            data = read(path)
            for _ in range(len(paths) // len(shards)):
                raw.put(data)

    def decode():
        for _ in paths:
            log.add("storage", raw.get)
            log.add("loader_cpu", lambda: compute(0.03, unlocked))
            samples.put(True)

    threads = [threading.Thread(target=target) for target in (read_all, decode)]
    for thread in threads:
        thread.start()
    waits = consume(len(paths), samples.get)
    for thread in threads:
        thread.join()
    return log.within(waits) | {"compute_threads": 0}


def by_chain(directory):
    """A worker that waits for a worker: what the first one waits for is storage all the same."""
    paths = files(directory)
    middle, end = multiprocessing.Pipe()
    ours, theirs = multiprocessing.Pipe()
    log = Log()

    def pass_on():
        for _ in paths:
            theirs.send_bytes(middle.recv_bytes())
        theirs.send(middle.recv())

    first = multiprocessing.Process(target=load, args=(paths, end.send_bytes, end.send))
    second = multiprocessing.Process(target=pass_on)
    first.start()
    second.start()
    waits = consume(len(paths), ours.recv_bytes)
    log.rows = ours.recv()
    first.join()
    second.join()
    return log.within(waits)


def hidden(directory):
    """A worker that is always ahead: it reads most of the time, and nobody waits for it."""
    paths = files(directory) * 2
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(
        target=load, args=(paths, theirs.send_bytes, lambda rows: None)
    )
    worker.start()
    time.sleep(0.2)
    for _ in paths:
        ours.recv_bytes()
        compute(0.06)
    worker.join()
    return {"storage": 0, "loader_cpu": 0, "sleep": 0.2}


def decoding(directory):
    """A worker that computes far longer than it reads."""
    paths = files(directory)
    ours, theirs = multiprocessing.Pipe()
    log = Log()

    def decode():
        own = Log()
        read(paths[0])
        for _ in paths:
            own.add("loader_cpu", lambda: compute(0.04))
            theirs.send_bytes(b"x")
        theirs.send(own.rows)

    worker = multiprocessing.Process(target=decode)
    worker.start()
    waits = consume(len(paths), ours.recv_bytes)
    log.rows = ours.recv()
    worker.join()
    return log.within(waits)


def workers_anew(directory, workers=3, rounds=1):
    """Workers, one after the other, that compute before they read, as those that import the program do."""
    for _ in range(workers):
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            compute(1.5 / workers)
            for path in files(directory)[:8] * rounds:
                read(path)
                os.write(theirs, b"s")
            os._exit(0)
        os.close(theirs)
        while os.read(ours, 1):
            pass
        os.close(ours)
        os.waitpid(child, 0)
    return {}


def one_worker(directory):
    """The same by one worker, which computes as much."""
    return workers_anew(directory, 1, 3)


def polling(directory):
    """Looks every so often whether a sample is there."""
    flag = multiprocessing.Value("i", 0)

    def other():
        for path in files(directory)[:8]:
            read(path)
        flag.value = 1

    worker = multiprocessing.Process(target=other)
    worker.start()
    slept = 0
    while not flag.value:
        start = now()
        time.sleep(0.005)
        slept += now() - start
    worker.join()
    return {"sleep": slept, "storage": 0}


def timeouts(directory):
    """A wait with a timeout that passes."""
    ours, theirs = multiprocessing.Pipe()
    start = now()
    for _ in range(30):
        assert not ours.poll(0.01)
    return {"sleep": now() - start, "network": 0}


def crowded(directory):
    """Two processes on one CPU."""
    os.sched_setaffinity(0, {0})
    worker = multiprocessing.Process(target=compute, args=(60.0,))
    worker.start()
    start = now()
    compute(0.6)
    delayed = now() - start - 0.6
    worker.kill()
    worker.join()
    return {"run_queue": delayed}


def mapped(directory):
    """A mapped file whose pages come from storage."""
    log = Log()
    for path in files(directory):
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            log.add("page_fault", lambda: sum(data[:: 1 << 16]))
            data.close()
    return {"page_fault": sum(end - start for _, start, end in log.rows)}


def measured(program, directory):
    """What a program says, with the time of its main thread; that of a rank where one is started."""
    start = now()
    before = time.thread_time()
    told = program(directory)
    times = {"pid": os.getpid(), "running": time.thread_time() - before, "whole": now() - start}
    return times | told


def main():
    name, truth, directory = sys.argv[1:]
    told = measured(globals()[name], directory)
    with open(truth, "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
