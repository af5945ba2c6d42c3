"""A data set of CIFAR-10's shape, made up: for the training programs beside this file.

The files are those of the data set's binary version: `data_batch_1.bin` to `data_batch_5.bin`, each of
10,000 records of a label byte and 3,072 bytes of image (32 x 32 pixels, three colours).
"""

import argparse
import json
import pathlib
import random
import sys

BATCHES = 5
IMAGES = 10_000
IMAGE = 32 * 32 * 3
RECORD = 1 + IMAGE
CLASSES = 10


def batch_files(data):
    """The files of the data set below `data`."""
    return [data / "cifar-10-batches-bin" / f"data_batch_{n}.bin" for n in range(1, BATCHES + 1)]


def make(data):
    """Write the files that are not there, or are not whole."""
    for seed, path in enumerate(batch_files(data)):
        if path.exists() and path.stat().st_size == IMAGES * RECORD:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        generator = random.Random(seed)
        with open(path, "wb") as file:
            for _ in range(IMAGES):
                label = generator.randrange(CLASSES)
                # Of one colour each, by its class, and noise: something to learn.
                noise = generator.randbytes(IMAGE)
                file.write(bytes([label]) + bytes(level // 4 + label * 16 for level in noise))


def arguments(description):
    """Options of a training program; with `--make` it has made the data set and ends."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="directory of the data set")
    parser.add_argument("--output", type=pathlib.Path, help="directory of the checkpoints and the log")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes or threads that load data")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--make", action="store_true", help="only make the data set")
    options = parser.parse_args()
    if options.make:
        make(options.data)
        sys.exit(0)
    if options.output is None:
        parser.error("--output is wanted, unless --make is given")
    missing = [path for path in batch_files(options.data) if not path.is_file()]
    if missing:
        parser.error(f"{missing[0]} is missing: run with --make first")
    (options.output / "checkpoints").mkdir(parents=True, exist_ok=True)
    (options.output / "logs").mkdir(exist_ok=True)
    return options


def tell(**facts):
    """Print what was done, as one line of JSON."""
    print(json.dumps(facts), flush=True)
