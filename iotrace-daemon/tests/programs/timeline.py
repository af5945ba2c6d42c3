#!/usr/bin/env python3
"""Reads and saves at known times.

    timeline.py RUN DIRECTORY

Prints when it did which, as JSON: by phase, from when to when, seconds since the Unix epoch.
"""

import json
import os
import sys
import time

BLOCK = bytes(1 << 16)
# A pause from which on nothing was done, seconds: this process waited for its CPU.
PAUSE = 0.025
run, directory = sys.argv[1:]
done = {"training": [], "checkpoint": []}


def path(name):
    return os.path.join(directory, name)


def made(name, blocks=64):
    with open(path(name), "wb", buffering=0) as file:
        for _ in range(blocks):
            file.write(BLOCK)
    return path(name)


def during(phase, seconds, step):
    """Repeats a step for so long, and takes down when."""
    begun = ended = time.time()
    until = begun + seconds
    while ended < until:
        step()
        ended = time.time()
        time.sleep(0.005)
        if time.time() > ended + PAUSE:
            done[phase].append((begun, ended))
            begun = ended = time.time()
    done[phase].append((begun, ended))


def read(fd):
    return lambda: os.pread(fd, len(BLOCK), 0)


def save(fd):
    def step():
        os.pwrite(fd, BLOCK, 0)

    return step


def bursts():
    """One file that stays open is read in three bursts."""
    fd = os.open(shard, os.O_RDONLY)
    for _ in range(3):
        time.sleep(1)
        during("training", 0.2, read(fd))
    time.sleep(1)


def many_first():
    """The same, but first many small files are read that are no data."""
    for number in range(3000):
        with open(path(f"module_{number}.py"), "w+b", buffering=0) as file:
            file.read(1)
    bursts()


def saves():
    """One file that stays open is saved to twice."""
    fd = os.open(path("model.pt"), os.O_WRONLY | os.O_CREAT)
    for _ in range(2):
        time.sleep(1.2)
        during("checkpoint", 0.3, save(fd))
    time.sleep(1)


def reads_stop():
    """Steady reads, then none, then reads again."""
    fd = os.open(shard, os.O_RDONLY)
    during("training", 1.2, read(fd))
    time.sleep(1.5)
    during("training", 0.6, read(fd))


def in_turn():
    """Reads stand still during saves; the writes of another process."""
    data = os.open(shard, os.O_RDONLY)
    during("training", 0.8, read(data))
    if (child := os.fork()) == 0:
        saved = os.open(path("model.pt"), os.O_WRONLY | os.O_CREAT)
        during("checkpoint", 0.9, save(saved))
        print(json.dumps(done["checkpoint"]), file=open(path("of-child.log"), "w"))
        os._exit(0)
    os.waitpid(child, 0)
    done["checkpoint"] = json.load(open(path("of-child.log")))
    during("training", 0.8, read(data))


def many_files():
    """Every file is read once, in two bursts."""
    names = iter(shards)

    def step():
        with open(next(names), "rb", buffering=0) as file:
            file.read()

    for _ in range(2):
        time.sleep(1.1)
        during("training", 0.3, step)
    time.sleep(1)


if run == "make":
    made("train.tfrecord")
    for number in range(200):
        made(f"part-{number:05}.tfrecord", 1)
else:
    shard = path("train.tfrecord")
    shards = [path(f"part-{number:05}.tfrecord") for number in range(200)]
    {"bursts": bursts, "many_first": many_first, "saves": saves, "reads_stop": reads_stop, "in_turn": in_turn, "many_files": many_files}[run]()
print(json.dumps(done))
