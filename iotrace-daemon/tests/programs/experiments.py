"""Experiments of published studies, each of which measures itself: experiments.py NAME TRUTH ARGUMENT...

TRUTH is written as JSON; times are seconds.
"""

import json
import os
import sys
import threading
import time

MIB = 1 << 20
now = time.monotonic


def read(path):
    file = os.open(path, os.O_RDONLY)
    size = 0
    while data := os.read(file, MIB):
        size += len(data)
    os.close(file)
    return size


def compute(seconds):
    """Uses the CPU for so long, whoever else does."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def prefetch(ahead, *paths):
    """A loader that is so many samples ahead of the training, or none: how long does the training wait,
    other than on the CPU?"""
    waited = 0
    orders, give = os.pipe()
    take, results = os.pipe()
    if int(ahead) and os.fork() == 0:
        os.close(give)
        while order := os.read(orders, 4):
            read(paths[int.from_bytes(order, "little")])
            os.write(results, order)
        os._exit(0)
    given = 0

    def give_until(end):
        nonlocal given
        while int(ahead) and given < min(end, len(paths)):
            os.write(give, given.to_bytes(4, "little"))
            given += 1

    give_until(int(ahead))
    for index, path in enumerate(paths):
        start = now() - time.thread_time()
        if int(ahead):
            os.read(take, 4)
        else:
            read(path)
        waited += now() - time.thread_time() - start
        give_until(index + 1 + int(ahead))
        compute(0.025)
    os.close(give)
    if int(ahead):
        os.close(orders)
        os.wait()
    return {"pid": os.getpid(), "waited": waited}


def write(path, blocks, source=None):
    """Writes a file and syncs it; the bytes are those of another file, if one is given."""
    if source:
        source = os.open(source, os.O_RDONLY)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for _ in range(blocks):
        os.write(file, os.read(source, MIB) if source else bytes(MIB))
    os.fsync(file)
    os.close(file)


def checkpoints(tier, fast, slow):
    """Saves to a slow tier, to a fast one, or to the fast one with a copy to the slow one meanwhile."""
    saves, lags, copy = [], [], None

    def drain(source, target, saved):
        write(target, 12, source)
        lags.append(now() - saved)

    for step in range(4):
        compute(0.6)
        path = os.path.join(slow if tier == "slow" else fast, f"step-{step}.pt")
        start = now()
        write(path, 12)
        saves.append(now() - start)
        if copy:
            copy.join()
        if tier == "copied":
            target = os.path.join(slow, f"step-{step}.pt")
            copy = threading.Thread(target=drain, args=(path, target, now()))
            copy.start()
    if copy:
        copy.join()
    return {"saves": len(saves), "saving": sum(saves), "lag": sum(lags) / len(lags) if lags else None}


if __name__ == "__main__":
    name, truth, *rest = sys.argv[1:]
    told = globals()[name](*rest)
    with open(truth, "w") as file:
        json.dump(told, file)
