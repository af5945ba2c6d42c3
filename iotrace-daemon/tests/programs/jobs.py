#!/usr/bin/env python3
"""Jobs with one fault in their I/O each, or without it: what findings are tested with.

    jobs.py JOB [--option VALUE]...

Every call on a data file is a bare system call, so that a job does what it says. Workers are forked,
as a DataLoader's are; ranks run this program anew, as a launcher's do.
"""

import argparse
import os
import random
import subprocess
import sys
import threading
import time
from functools import partial

MIB = 1 << 20


def read_all(path, block=MIB):
    """Read a file from its beginning to its end; the last read returns nothing."""
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, block):
        pass
    os.close(fd)


def read_part(path, size, block=MIB):
    """Read so many bytes of a file."""
    fd = os.open(path, os.O_RDONLY)
    for offset in range(0, size, block):
        os.pread(fd, min(block, size - offset), offset)
    os.close(fd)


def save(path, size, block=MIB, sync=True):
    """Write a file of so many bytes, and sync it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for offset in range(0, size, block):
        os.write(fd, bytes(min(block, size - offset)))
    if sync:
        os.fsync(fd)
    os.close(fd)


def at_once(calls):
    """Run calls in threads of their own."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fork_workers(calls):
    """Run calls in forked processes, which all live until the last has ended.

    Each is given a function to call in its midst: it returns when all have called it, so that they
    work at one time however the processors are shared.
    """
    ended, end = os.pipe()
    met, meet = os.pipe()
    go, let_go = os.pipe()
    children = []
    for call in calls:
        child = os.fork()
        if child == 0:
            os.close(end)
            os.close(let_go)

            def wait_for_all():
                os.write(meet, b"x")
                os.read(go, 1)

            call(wait_for_all)
            time.sleep(0.2)
            os.read(ended, 1)
            os._exit(0)
        children.append(child)
    for _ in calls:
        os.read(met, 1)
    os.close(let_go)
    time.sleep(0.3)
    os.close(end)
    for child in children:
        os.waitpid(child, 0)


def records(args):
    """Read a file record by record, and the rest of it in blocks."""
    fd = os.open(args.path, os.O_RDONLY)
    for index in range(args.records):
        os.read(fd, 84 + index % 3)
    for _ in range(args.blocks):
        os.read(fd, 64 << 10)
    os.close(fd)


def log(args):
    """Write a log line by line, and some blocks."""
    fd = os.open(args.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for _ in range(args.records):
        os.write(fd, b"step 17 loss 0.314\n")
    for _ in range(args.blocks):
        os.write(fd, bytes(64 << 10))
    os.close(fd)


def journal(args):
    """Write records, each with so many MiB, and sync after every so many; then do something else."""
    fd = os.open(args.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for index in range(args.records):
        os.write(fd, bytes(args.blocks * MIB or 100))
        if (index + 1) % args.every == 0:
            os.fsync(fd)
    os.close(fd)
    time.sleep(0.5)


def tree(args):
    """Read every file of a tree once, in the order of their names or in none."""
    paths = sorted(
        os.path.join(top, name) for top, _, names in os.walk(args.path) for name in names
    )
    if args.shuffle:
        random.Random(17).shuffle(paths)
    for path in paths:
        read_all(path)


def samples(args):
    """Read samples of one file, which is opened for so many of them at a time."""
    fd = -1
    for index in range(args.records):
        if index % args.every == 0:
            if fd >= 0:
                os.close(fd)
            fd = os.open(args.path, os.O_RDONLY)
        os.pread(fd, 16 << 10, (index * 7919 % 1024) << 14)
    os.close(fd)


def saves(args):
    """Save so many checkpoints, one behind the other."""
    for step in range(args.records):
        save(os.path.join(args.path, f"step_{step}.ckpt"), args.blocks * MIB)


def ranks(args):
    """Start so many ranks: each reads its own share of the data, and writes its own of the checkpoint."""
    ranks = []
    for rank, (read, write) in enumerate(zip(args.shares, args.writes)):
        command = [sys.executable, __file__, "rank", "--path", args.path]
        command += ["--shares", str(read), "--writes", str(write), "--records", str(rank)]
        ranks.append(subprocess.Popen(command))
    for rank in ranks:
        rank.wait()


def rank(args):
    """One rank."""
    path = os.path.join(args.path, f"shard-{args.records}.tfrecord")
    read_part(path, args.shares[0] * MIB)
    if args.writes[0]:
        checkpoint = f"__{args.records}_0.distcp"
        save(os.path.join(args.path, checkpoint), args.writes[0] * MIB)


def workers(args):
    """Workers, each of which reads its own share of the data."""

    def worker(index, share, wait_for_all):
        if not share:
            wait_for_all()
            return
        fd = os.open(os.path.join(args.path, f"shard-{index}.tfrecord"), os.O_RDONLY)
        for offset in range(0, share * MIB, MIB):
            os.pread(fd, MIB, offset)
            if offset == 0:
                wait_for_all()
        os.close(fd)

    calls = [partial(worker, i, s) for i, s in enumerate(args.shares)]
    fork_workers(calls)


def steps(args):
    """Train and save in turn; with --beside training goes on while it saves."""
    data = os.path.join(args.path, "train.tfrecord")
    stop = threading.Event()

    def train():
        while not stop.is_set():
            read_part(data, MIB, 64 << 10)
            time.sleep(0.01)

    if args.beside:
        thread = threading.Thread(target=train)
        thread.start()
    for step in range(args.records):
        if not args.beside:
            for _ in range(10):
                read_part(data, MIB, 64 << 10)
                time.sleep(0.01)
        save(os.path.join(args.path, f"step_{step}.ckpt"), args.blocks * MIB)
    if args.beside:
        stop.set()
        thread.join()
    else:
        read_part(data, MIB, 64 << 10)


def loader(args):
    """Two loader workers read files ahead, four each, while this process trains and saves; with --beside it trains on while it saves.

    Writes to `waited`, beside the directory of the files, the seconds that it waited for saves.
    """
    paths = [os.path.join(args.path, name) for name in args.names]
    workers = []
    for _ in range(2):
        (orders, order), (samples, sample) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(order)
            while index := os.read(orders, 4):
                read_all(paths[int.from_bytes(index, "little")])
                os.write(sample, index)
            os._exit(0)
        workers.append((order, samples))
    per_save = len(paths) // args.records

    def give(index):
        if index < len(paths):
            os.write(workers[index % 2][0], index.to_bytes(4, "little"))

    for index in range(8):
        give(index)
    saving, spent = None, 0.0
    for index in range(len(paths)):
        os.read(workers[index % 2][1], 4)
        give(index + 8)
        time.sleep(0.01)
        if index % per_save == per_save // 2:
            target = os.path.join(args.other, f"step_{index}.ckpt")
            began = time.monotonic()
            if saving:
                saving.join()
            saving = threading.Thread(target=save, args=(target, args.blocks * MIB))
            saving.start()
            if not args.beside:
                saving.join()
            spent += time.monotonic() - began
    saving.join()
    for order, _ in workers:
        os.close(order)
    for _ in workers:
        os.wait()
    with open(os.path.join(os.path.dirname(args.path), "waited"), "w") as file:
        file.write(str(spent))


def epochs(args):
    """Read every file of a directory in each epoch, all files at one time, and write a file elsewhere."""
    paths = [os.path.join(args.path, name) for name in args.names]
    for _ in range(args.records):
        at_once([lambda path=path: read_all(path) for path in paths])
    if args.other:
        save(args.other, args.blocks * MIB, sync=False)
    if args.read:
        read_all(args.read)


def main():
    """Run the job that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=[name for name in globals() if name in JOBS])
    parser.add_argument("--path", required=True)
    parser.add_argument("--records", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--shares", type=int, nargs="*", default=[])
    parser.add_argument("--writes", type=int, nargs="*", default=[])
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--other")
    parser.add_argument("--read")
    args = parser.parse_args()
    globals()[args.job](args)


JOBS = "records log journal tree samples saves ranks rank workers steps loader epochs".split()

if __name__ == "__main__":
    main()
