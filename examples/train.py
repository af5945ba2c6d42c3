#!/usr/bin/env python3
"""A training run in miniature: the I/O of deep learning, without the learning.

It does what a training script does to a filesystem, with the standard library alone:

* imports a good number of modules;
* makes a synthetic data set of equal shards, unless the directory has one already;
* per epoch forks worker processes, which between them read every sample once: half of a worker's
  shards sample by sample in shuffled order (positional reads), the other half front to back;
* after each epoch saves a checkpoint as frameworks do: written under a temporary name, fsynced,
  renamed into place, and the directory fsynced.

At the end it prints one line of JSON with what it did itself, which a tracer must agree with. Every
call that is counted is a bare system call (`os.open`, `os.pread`, ...), never a buffered file; what
is done to the directory is counted apart, because it is not a regular file.

    python3 train.py --epochs 3 --workers 2 --data /tmp/shards
"""

import argparse
import collections
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import sys
import tempfile
import time

READ_SIZE = 1 << 20
WRITE_SIZE = 1 << 20
CATEGORIES = ("dataset", "training", "checkpoint", "directory")
COUNTERS = (
    "opens",
    "closes",
    "reads",
    "zero_reads",
    "writes",
    "fsyncs",
    "renames",
    "bytes_read",
    "bytes_written",
)


class Tally:
    """What this process did to files, by category, counted where it is done.

    A failed call raises and ends the run, so every count is of calls that succeeded.
    """

    def __init__(self):
        self.counts = {name: collections.Counter() for name in CATEGORIES}

    def merge(self, counts):
        """Add what another process counted."""
        for category, counter in counts.items():
            self.counts[category].update(counter)

    def report(self):
        """All counters of all categories, those that are zero too, and their sums."""
        rows = {name: {key: self.counts[name][key] for key in COUNTERS} for name in CATEGORIES}
        total = {key: sum(row[key] for row in rows.values()) for key in COUNTERS}
        return {"categories": rows, "total": total}

    @contextlib.contextmanager
    def open(self, category, path, flags):
        """Open a file, and close it at the end of the block; gives the descriptor."""
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        self.counts[category]["opens"] += 1
        try:
            yield descriptor
        finally:
            os.close(descriptor)
            self.counts[category]["closes"] += 1

    def read(self, category, descriptor, size):
        """Read from where the descriptor stands."""
        return self._count_read(category, os.read(descriptor, size))

    def pread(self, category, descriptor, size, offset):
        """Read from a position."""
        return self._count_read(category, os.pread(descriptor, size, offset))

    def _count_read(self, category, data):
        counter = self.counts[category]
        counter["reads"] += 1
        counter["bytes_read"] += len(data)
        if not data:
            counter["zero_reads"] += 1
        return data

    def write(self, category, descriptor, data):
        """Write all of the data, in as many calls as it takes."""
        rest = memoryview(data)
        while rest:
            written = os.write(descriptor, rest)
            self.counts[category]["writes"] += 1
            self.counts[category]["bytes_written"] += written
            rest = rest[written:]

    def fsync(self, category, descriptor):
        """Wait until the file, or the directory, is on the device."""
        os.fsync(descriptor)
        self.counts[category]["fsyncs"] += 1

    def rename(self, category, source, target):
        """Rename a file, over the target if there is one."""
        os.rename(source, target)
        self.counts[category]["renames"] += 1


def shard_path(data, index):
    """Where a shard of the data set lies."""
    return data / f"shard-{index:05d}.bin"


def make_dataset(options, tally):
    """Write the shards that are not there, or are not of the size that is asked for."""
    size = options.samples * options.sample_bytes
    generator = random.Random(0)
    for index in range(options.shards):
        path = shard_path(options.data, index)
        if path.exists() and path.stat().st_size == size:
            continue
        with tally.open("dataset", path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as shard:
            for _ in range(options.samples):
                tally.write("dataset", shard, generator.randbytes(options.sample_bytes))


def read_shuffled(options, tally, path, generator):
    """Read every sample of a shard at its position, in random order."""
    order = list(range(options.samples))
    generator.shuffle(order)
    digest = hashlib.sha256()
    with tally.open("training", path, os.O_RDONLY) as shard:
        for index in order:
            offset = index * options.sample_bytes
            sample = tally.pread("training", shard, options.sample_bytes, offset)
            if len(sample) != options.sample_bytes:
                sys.exit(f"{path}: sample {index} is short; remove the data set to make it anew")
            digest.update(sample)
    return digest


def read_sequential(tally, path):
    """Read a shard front to back, to the read of zero bytes that says that it ends."""
    digest = hashlib.sha256()
    with tally.open("training", path, os.O_RDONLY) as shard:
        while block := tally.read("training", shard, READ_SIZE):
            digest.update(block)
    return digest


def worker(options, epoch, rank, results):
    """One data loader: reads its share of the shards, and sends what it did."""
    tally = Tally()
    generator = random.Random(f"{epoch}/{rank}")
    shards = list(range(rank, options.shards, options.workers))
    generator.shuffle(shards)
    for position, index in enumerate(shards):
        path = shard_path(options.data, index)
        if position % 2 == 0:
            read_shuffled(options, tally, path, generator)
        else:
            read_sequential(tally, path)
    results.put(tally.counts)


def train_epoch(options, epoch, tally):
    """Fork the workers, collect what they did, and see that none failed."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    workers = [
        context.Process(target=worker, args=(options, epoch, rank, results))
        for rank in range(options.workers)
    ]
    for process in workers:
        process.start()
    for process in workers:
        process.join()
        if process.exitcode != 0:
            sys.exit(f"worker {process.pid} of epoch {epoch} ended with {process.exitcode}")
    for _ in workers:
        tally.merge(results.get())


def save_checkpoint(options, epoch, tally):
    """Save the model so that a crash leaves the old checkpoint or the new, never half of one."""
    final = options.data / f"model-epoch-{epoch:03d}.pt"
    temporary = final.with_suffix(".pt.tmp")
    weights = random.Random(epoch).randbytes(options.checkpoint_bytes)
    with tally.open("checkpoint", temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        for start in range(0, len(weights), WRITE_SIZE):
            tally.write("checkpoint", file, weights[start : start + WRITE_SIZE])
        tally.fsync("checkpoint", file)
    tally.rename("checkpoint", temporary, final)
    with tally.open("directory", options.data, os.O_RDONLY | os.O_DIRECTORY) as directory:
        tally.fsync("directory", directory)


def train(options):
    """The whole run; gives what it did, ready for JSON."""
    tally = Tally()
    started = time.monotonic()
    make_dataset(options, tally)
    for epoch in range(options.epochs):
        train_epoch(options, epoch, tally)
        save_checkpoint(options, epoch, tally)
    return {
        "data": str(options.data),
        "pid": os.getpid(),
        "epochs": options.epochs,
        "checkpoints": options.epochs,
        "workers": options.workers * options.epochs,
        "seconds": round(time.monotonic() - started, 3),
        **tally.report(),
    }


def positive(text):
    """A whole number above zero, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return number


def parse_arguments():
    """The options; argparse refuses what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        help="directory of the data set and the checkpoints, made if it is not there"
        " (default: a temporary one, removed at the end)",
    )
    parser.add_argument("--epochs", type=positive, default=4)
    parser.add_argument("--workers", type=positive, default=2, help="processes per epoch")
    parser.add_argument("--shards", type=positive, default=16)
    parser.add_argument("--samples", type=positive, default=256, help="samples per shard")
    parser.add_argument("--sample-bytes", type=positive, default=32 << 10)
    parser.add_argument("--checkpoint-bytes", type=positive, default=32 << 20)
    parser.add_argument(
        "--count-file", type=pathlib.Path, help="file for the line of JSON, printed in any case"
    )
    return parser.parse_args()


def main():
    """Run, and say what was done."""
    options = parse_arguments()
    with contextlib.ExitStack() as stack:
        if options.data is None:
            temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="train-"))
            options.data = pathlib.Path(temporary)
        options.data.mkdir(parents=True, exist_ok=True)
        line = json.dumps(train(options))
    print(line)
    if options.count_file is not None:
        options.count_file.write_text(line + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"train.py: {error}")
