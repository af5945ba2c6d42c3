#!/usr/bin/env python3
"""Ranks that read samples as a sampler tells them to, or wrongly.

    ranks.py VARIANT DIRECTORY

Starts two ranks, each a program with RANK and WORLD_SIZE as a launcher's, and says nothing. The sampler is
PyTorch's DistributedSampler: one permutation for all ranks by seed and epoch, of which each takes every second one.
"""

import mmap
import os
import random
import subprocess
import sys
import time

variant, top = sys.argv[1:3]
if "RANK" not in os.environ:
    ranks = []
    for rank in "01":
        env = dict(os.environ, RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2")
        command = [sys.executable, "-S", *sys.argv]
        ranks.append(subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        if variant == "one-behind-the-other":
            ranks[-1].communicate(b"x")
    if variant != "one-behind-the-other":
        # They begin together, as they do when they have found each other.
        for rank in ranks:
            rank.stdout.read(1)
        for rank in ranks:
            rank.stdin.write(b"x")
            rank.stdin.close()
    sys.exit(max(rank.wait() for rank in ranks))

rank = int(os.environ["RANK"])
EPOCHS = 1 if variant in ("start-up", "one-behind-the-other") else 3


def files(*names):
    """All files below these directories, by name."""
    found = []
    for name in names:
        for directory, _, inside in os.walk(os.path.join(top, name)):
            found += [os.path.join(directory, one) for one in inside]
    return sorted(path for path in found if not path.endswith(".bin"))


def read(path):
    """Read a sample, as a decoder does: its head twice."""
    with open(path, "rb", 0) as file:
        file.read(64)
    with open(path, "rb", 0) as file:
        while file.read(1 << 16):
            pass
    time.sleep(0.0005)


def sampler(paths, epoch, of=rank, ranks=2):
    """What a rank is to read in an epoch."""
    order = list(paths)
    random.Random(7 + epoch).shuffle(order)
    return order[of::ranks]


def read_all(paths):
    if variant != "right-with-workers":
        for path in paths:
            read(path)
        return
    for worker in range(2):
        if os.fork() == 0:
            for path in paths[worker::2]:
                read(path)
            os._exit(0)
    os.wait()
    os.wait()


train = files("train")
os.write(1, b"x")
os.read(0, 1)
for epoch in range(EPOCHS):
    if variant in ("right", "right-with-workers", "validation", "holdout"):
        order = sampler(train, epoch)
    elif variant == "no-set-epoch":
        order = sampler(train, 0)
    elif variant in ("no-sampler", "start-up", "one-behind-the-other"):
        order = random.Random(100 * rank + epoch).sample(train, len(train))
    elif variant == "no-sampler-same-seed":
        order = sampler(train, epoch, 0, 1)
    elif variant == "wrong-rank":
        order = sampler(train, epoch, 0)
    elif variant == "subset":
        order = sampler(train[:100], epoch)
    elif variant == "drop-last":
        order = sampler(train, epoch)[:-5]
    elif variant == "in-order":
        order = train[rank::2]
    elif variant == "shards":
        order = sampler(files("shards"), epoch)
    elif variant == "no-split-of-shards":
        order = sampler(files("shards"), epoch, 0, 1)
    elif variant == "tokens":
        with open(os.path.join(top, "train/tokens.bin"), "rb") as file:
            tokens = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            for _ in range(200):
                place = random.randrange(0, len(tokens) - 4096)
                sum(tokens[place : place + 4096])
        continue
    else:
        sys.exit(f"no variant {variant}")
    read_all(order)
    if variant == "validation":
        read_all(files("val"))
    if variant == "holdout":
        read_all(files("holdout"))
if variant == "start-up":
    # It trains on what it keeps in memory.
    time.sleep(3)
