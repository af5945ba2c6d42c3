#!/usr/bin/env python3
"""Jobs that leave out samples, or train on those they validate on, and jobs that look like them.

    samples.py VARIANT DIRECTORY

Below the directory are train/a, train/b, val, shards and clips. Each file is opened once for each read of it.
"""

import os
import random
import sys
import threading
import time

variant, top = sys.argv[1:3]
EPOCHS = 3
HEAD = 4096
SECONDS_A_FILE = 0.005


def files(*names):
    """All files below these directories, by name."""
    found = []
    for name in names:
        for directory, _, inside in os.walk(os.path.join(top, name)):
            found += [os.path.join(directory, one) for one in inside]
    return sorted(found)


def read(path, at_most=1 << 30):
    """Read a file from its beginning, and compute a little."""
    fd = os.open(path, os.O_RDONLY)
    left = at_most
    while left > 0 and (data := os.read(fd, min(left, 1 << 16))):
        left -= len(data)
    os.close(fd)
    time.sleep(SECONDS_A_FILE)


def read_all(paths):
    for path in paths:
        read(path)


def shuffled(paths, epoch):
    return random.Random(epoch).sample(paths, len(paths))


def in_workers(paths, workers):
    """Read files in forked workers, as a DataLoader does."""
    for worker in range(workers):
        if os.fork() == 0:
            read_all(paths[worker::workers])
            os._exit(0)
    for _ in range(workers):
        os.wait()


def damaged(paths, every):
    """Epochs over files some of which a decoder cannot read: the error is caught."""
    for epoch in range(EPOCHS):
        for path in shuffled(paths, epoch):
            read(path, HEAD if paths.index(path) % every == 7 else 1 << 30)


def damaged_once(paths):
    for epoch in range(EPOCHS):
        for path in shuffled(paths, epoch):
            read(path, HEAD if epoch == 0 and paths.index(path) % 20 == 7 else 1 << 30)


def kept(paths, few):
    """A few files are in memory after the first epoch, or forgotten: nobody can tell."""
    for epoch in range(EPOCHS):
        read_all(path for path in shuffled(paths, epoch) if epoch == 0 or path not in few)


def cut_off(paths):
    for epoch in range(EPOCHS):
        read_all(shuffled(paths, epoch))
    read_all(shuffled(paths, EPOCHS)[:30])


def streamed(paths):
    """Shards at random, each left where its epoch ends."""
    for epoch in range(EPOCHS):
        order = random.Random(epoch).choices(paths, k=len(paths))
        read_all(order[:-1])
        read(order[-1], HEAD)


def validated(train, val, epochs=EPOCHS):
    """Epochs over what `train` says, and a pass over `val` after each."""
    for epoch in range(epochs):
        read_all(train(epoch))
        read_all(val)


def by_workers(train, val):
    for epoch in range(EPOCHS):
        in_workers(shuffled(train, epoch), 2)
        in_workers(val, 1)


def read_ahead(train, val):
    """A thread reads the first files of the next epoch while the model is validated."""
    read_all(shuffled(train, 0)[:20])
    for epoch in range(EPOCHS):
        read_all(shuffled(train, epoch)[20:])
        ahead = threading.Thread(target=read_all, args=(shuffled(train, epoch + 1)[:20],))
        ahead.start()
        read_all(shuffled(val, 100 + epoch))
        ahead.join()


def checked_often(train, val):
    """A few validation files after every few training files, and all after an epoch."""
    for epoch in range(EPOCHS):
        order = shuffled(train, epoch)
        for turn in range(0, len(order), 10):
            read_all(order[turn : turn + 10])
            read_all(shuffled(val, turn)[:8])
        read_all(val)


def evaluated_meanwhile(train, val):
    if os.fork() == 0:
        for _ in range(EPOCHS):
            read_all(val)
        os._exit(0)
    for epoch in range(EPOCHS):
        read_all(shuffled(train, epoch))
    os.wait()


train, val, shards, clips = files("train"), files("val"), files("shards"), files("clips")
every = range(EPOCHS)
few = train[::8]
VARIANTS = {
    "damaged": lambda: damaged(train, 20),
    "damaged-shard": lambda: damaged(shards, 16),
    "damaged-once": lambda: damaged_once(train),
    "right": lambda: [read_all(shuffled(train, epoch)) for epoch in every],
    "drop-last": lambda: [read_all(shuffled(train, epoch)[:-5]) for epoch in every],
    "with-replacement": lambda: [read_all(random.choices(train, k=len(train))) for _ in every],
    "kept-in-memory": lambda: kept(train, few),
    "held-out": lambda: ([read_all(shuffled(train[10:], epoch)) for epoch in every], read_all(train[:10])),
    "scanned-and-held-out": lambda: (
        [read(path, HEAD) for path in train],
        [read_all(shuffled(train[10:], epoch)) for epoch in every],
    ),
    "cut-off": lambda: cut_off(train),
    "streamed": lambda: streamed(shards),
    "clips": lambda: [[read(path, 40_000) for path in shuffled(clips, epoch)] for epoch in every],
    "heads": lambda: [[read(path, HEAD) for path in shuffled(train, epoch)] for epoch in every],
    "leaked": lambda: validated(lambda epoch: shuffled(train + val, epoch), val),
    "leaked-to-workers": lambda: by_workers(train + val, val),
    "leaked-few": lambda: validated(lambda epoch: shuffled(train + val[:8], epoch), val),
    "leaked-once": lambda: validated(lambda epoch: shuffled(train + val * (epoch == 1), epoch), val),
    "trained-on-all": lambda: [read_all(shuffled(train + val, epoch)) for epoch in every],
    "validated": lambda: validated(lambda epoch: shuffled(train, epoch), val),
    "validated-by-workers": lambda: by_workers(train, val),
    "tried-on-training-files": lambda: validated(lambda epoch: shuffled(train, epoch), train[:40]),
    "read-ahead": lambda: read_ahead(train, val),
    "checked-often": lambda: checked_often(train, val),
    "evaluated-meanwhile": lambda: evaluated_meanwhile(train, val),
    "trained-and-validated-apart": lambda: validated(lambda epoch: train + val, val),
}
VARIANTS[variant]()
