"""Programs that read training data."""

import mmap
import os
import random
import shutil
import subprocess

from truth import main, read, train

FILES = [f"data/train/sample_{index:03}.jpg" for index in range(40)]
VALIDATION = [path.replace("/train/", "/val/") for path in FILES[:8]]


def prepare(paths, size=1 << 16):
    """Data that another program made before."""
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"d" * size)


def passes(truth, number, files, pause=0.1):
    order = list(files)
    for _ in range(number):
        random.shuffle(order)
        for path in order:
            read(path)
        truth.epochs += 1
        train(pause)


def shuffled(truth):
    passes(truth, 3, FILES)


def checked_before(truth):
    with open("sums", "w") as sums:
        subprocess.run(["cksum", *FILES], stdout=sums, check=True)
    passes(truth, 3, FILES)


def one_file(truth):
    passes(truth, 4, ["data/train.bin"])


def mapped_with_small_index(truth):
    read("data/meta.pkl")
    with open("data/train.bin", "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            for _ in range(3):
                sum(memory[at] for at in range(0, len(memory), 4096))
    truth.epochs = None


def staged(truth):
    for path in FILES:
        local = path.replace("data/", "local/")
        os.makedirs(os.path.dirname(local), exist_ok=True)
        shutil.copyfile(path, local)
        truth.copies += 1
    passes(truth, 3, [path.replace("data/", "local/") for path in FILES])


def staged_by_its_maker(truth):
    images()
    staged(truth)


def staged_by_read_and_write(truth):
    os.makedirs("local")
    with open("data/train.bin", "rb", buffering=0) as source, open("local/train.bin", "wb", buffering=0) as target:
        while part := source.read(1 << 20):
            target.write(part)
    truth.copies += 1
    passes(truth, 3, ["local/train.bin"])


def workers(truth):
    for _ in range(3):
        children = []
        for worker in range(2):
            child = os.fork()
            if child == 0:
                for path in FILES[worker::2]:
                    read(path)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        truth.epochs += 1
        train(0.1)


def with_validation(truth):
    for _ in range(3):
        for path in FILES:
            read(path)
        truth.epochs += 1
        for path in VALIDATION:
            read(path)
        train(0.1)


def with_saves(truth):
    for epoch in range(3):
        for path in FILES:
            read(path)
        truth.epochs += 1
        os.makedirs("out", exist_ok=True)
        with truth.save():
            with open(f"out/epoch_{epoch}.pt", "wb", buffering=0) as file:
                for _ in range(4):
                    file.write(b"w" * (1 << 20))
        train(0.1)


def images():
    prepare(FILES)


def one_large():
    prepare(["data/train.bin"], 8 << 20)


BEFORE = {
    **{name: [images] for name in ("shuffled", "checked_before", "staged", "workers", "with_validation", "with_saves")},
    **{name: [one_large] for name in ("one_file", "staged_by_read_and_write", "mapped_with_small_index")},
}
BEFORE["with_validation"].append(lambda: prepare(VALIDATION))
BEFORE["mapped_with_small_index"].append(lambda: prepare(["data/meta.pkl"], 1000))

if __name__ == "__main__":
    main({name: value for name, value in globals().items() if callable(value)}, BEFORE)
