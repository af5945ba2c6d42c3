"""A training loop and how it takes samples from its loader: polls.py VARIANT TRUTH DIRECTORY.

The directory is on a slow filesystem. TRUTH is written as JSON: seconds in loops that poll, and in the last sleep of each.
"""

import json
import multiprocessing
import os
import sys
import time

MIB = 1 << 20
SLEEP = 0.02
now = time.monotonic


def files(directory):
    return [os.path.join(directory, f"sample-{index:02}.bin") for index in range(24)]


def read(path):
    file = os.open(path, os.O_RDONLY)
    os.read(file, MIB)
    os.close(file)


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def load(paths, send):
    """A loader process: reads, and sends."""
    for path in paths:
        read(path)
        send(path)


def started(*arguments):
    worker = multiprocessing.Process(target=load, args=arguments)
    worker.start()
    return worker


def polling(paths, truth):
    """The fault: looks every so often whether the sample is there."""
    ready = multiprocessing.Value("i", 0)

    def send(_):
        ready.value += 1

    worker = started(paths, send)
    for taken in range(len(paths)):
        sleeps = []
        while ready.value <= taken:
            start = now()
            time.sleep(SLEEP)
            sleeps.append(now() - start)
        # One sleep alone may be for anything.
        if len(sleeps) > 1:
            truth["waits"] += 1
            truth["sleeps"] += len(sleeps)
            truth["polled_seconds"] += sum(sleeps)
            truth["last_seconds"] += sleeps[-1]
        compute(0.002)
    worker.join()


def pausing(paths, truth):
    """No loader: reads by itself, and pauses between steps so that it makes no more than so many a second."""
    for path in paths:
        read(path)
        pause(now() + 0.06)


def pause(end):
    """Waits until then, in short sleeps."""
    while now() < end:
        time.sleep(0.005)


def pausing_with_loader(paths, truth):
    """The same, with a loader that is ahead of it."""
    samples = multiprocessing.Queue(2)
    worker = started(paths, samples.put)
    for _ in paths:
        samples.get()
        pause(now() + 0.12)
    worker.join()


def receiving(paths, step, wait=lambda ours, worker: None):
    """Takes each sample from a pipe, for which it may wait in a way of its own first, then does a step."""
    ours, theirs = multiprocessing.Pipe()
    worker = started(paths, theirs.send)
    for _ in paths:
        wait(ours, worker)
        ours.recv()
        step()
    worker.join()


def blocking(paths, truth):
    """What is advised: a call that returns when the sample is there."""
    receiving(paths, lambda: compute(0.002))


def blocking_with_timeout(paths, truth):
    """The same, in a loop in which it looks whether the loader lives."""

    def wait(ours, worker):
        while not ours.poll(SLEEP):
            assert worker.is_alive()

    receiving(paths, lambda: compute(0.002), wait)


def emulated(paths, truth):
    """Sleeps instead of computing, once a step, as benchmarks of storage do."""
    receiving(paths, lambda: time.sleep(0.03))


def main():
    variant, path, directory = sys.argv[1:]
    truth = {"polled_seconds": 0, "last_seconds": 0, "sleeps": 0, "waits": 0}
    globals()[variant.replace("-", "_")](files(directory), truth)
    with open(path, "w") as file:
        json.dump(truth, file)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
