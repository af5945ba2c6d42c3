"""What a program of the corpus did, by its own clock: written as JSON to the file that TRUTH names."""

import contextlib
import json
import os
import sys
import time

CHUNK = b"x" * (1 << 18)


class Truth:
    """Saves and loads as [start, end] in seconds, the number of epochs, and the number of copies."""

    def __init__(self):
        self.saves, self.loads, self.copies, self.epochs = [], [], 0, 0

    @contextlib.contextmanager
    def save(self):
        begin = time.monotonic()
        yield
        self.saves.append([begin, time.monotonic()])

    @contextlib.contextmanager
    def load(self):
        begin = time.monotonic()
        yield
        self.loads.append([begin, time.monotonic()])

    def write(self):
        with open(os.environ["TRUTH"], "w") as file:
            json.dump(vars(self), file)


def write(path, chunks=4, pause=0.0, sync=False):
    """Writes a file of so many chunks, with a pause after each."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb", buffering=0) as file:
        for _ in range(chunks):
            file.write(CHUNK)
            time.sleep(pause)
        if sync:
            os.fsync(file.fileno())


def note(path, text="{}"):
    """Writes a small file."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def train(seconds=0.3):
    time.sleep(seconds)


def main(programs, before=None):
    """Runs the program that the first argument names, or with --prepare what `before` does for it."""
    if sys.argv[1] == "--prepare":
        for prepare in (before or {}).get(sys.argv[2], []):
            prepare()
        return
    truth = Truth()
    programs[sys.argv[1]](truth)
    truth.write()
