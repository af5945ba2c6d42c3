"""Jobs of deep learning in miniature, with the standard library alone: what `cargo xtask bench programs` measures.

    python3 jobs.py make images|volumes|checkpoints DIRECTORY COUNT
    python3 jobs.py run images|volumes|checkpoints DIRECTORY COUNT

`make` writes COUNT samples to the directory; `run` does the job with them, COUNT epochs or saves, and prints for how many
seconds it ran by its own clock.

images       many small files, each read and decoded by one of several worker processes, as a loader of ImageNet does
volumes      few large samples, read by threads ahead of the steps, as DLIO's U-Net3D does
checkpoints  steps between which a large checkpoint is written, synced and renamed; the last one is loaded at the end
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import random
import sys
import time
import zlib

# An image of 224 x 224 points: about 110 KB in its file.
PIXELS = 224 * 224 * 3
NOISE = 105_000
BATCH = 32
WORKERS = 2
# A volume, and the pieces that it is read in.
VOLUME = 32 << 20
PIECE = 256 << 10
THREADS = 4
# A checkpoint, and the pieces that it is written in.
CHECKPOINT = 64 << 20
WRITE = 1 << 20
# Seconds of a step on the accelerator, which the program only waits for.
STEP = {"images": 0.01, "volumes": 0.05, "checkpoints": 0.2}
NORMALIZED = bytes((value * 3) & 255 for value in range(256))


def make(job, directory, count):
    """Write the samples; a job that only saves needs none."""
    directory.mkdir(parents=True, exist_ok=True)
    noise = random.Random(7)
    for number in range(count):
        if job == "images":
            label = directory / f"n{number % 10:08}"
            label.mkdir(exist_ok=True)
            pixels = noise.randbytes(NOISE) + bytes(PIXELS - NOISE)
            (label / f"{number:08}.JPEG").write_bytes(zlib.compress(pixels, 1))
        elif job == "volumes":
            (directory / f"case_{number:05}.npz").write_bytes(noise.randbytes(VOLUME))


def decode(path):
    """Read and decode an image, and normalize its points."""
    with open(path, "rb") as file:
        pixels = zlib.decompress(file.read())
    return pixels.translate(NORMALIZED)


def batch_of(paths):
    """What a worker hands over of a batch."""
    return b"".join(decode(path)[:1024] for path in paths)


def images(directory, epochs):
    paths = sorted(str(path) for path in directory.glob("*/*.JPEG"))
    order = random.Random(1)
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        for _ in range(epochs):
            order.shuffle(paths)
            batches = [paths[at : at + BATCH] for at in range(0, len(paths), BATCH)]
            for batch in pool.imap(batch_of, batches):
                zlib.crc32(batch)
                time.sleep(STEP["images"])


def volume(path):
    """Read a volume in pieces."""
    total = bytearray(VOLUME)
    view = memoryview(total)
    with open(path, "rb", buffering=0) as file:
        at = 0
        while read := file.readinto(view[at : at + PIECE]):
            at += read
    return zlib.crc32(total)


def volumes(directory, epochs):
    paths = sorted(directory.glob("*.npz"))
    order = random.Random(1)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for _ in range(epochs):
            order.shuffle(paths)
            for _ in pool.map(volume, paths):
                time.sleep(STEP["volumes"])


def save(directory, step, state):
    """Write a checkpoint as frameworks do: complete or not there."""
    name = directory / f"checkpoint-{step}.pt"
    unfinished = name.with_suffix(".tmp")
    with open(unfinished, "wb", buffering=0) as file:
        for at in range(0, len(state), WRITE):
            file.write(state[at : at + WRITE])
        os.fsync(file.fileno())
    unfinished.rename(name)
    return name


def checkpoints(directory, saves):
    state = memoryview(random.Random(7).randbytes(CHECKPOINT))
    saved = []
    for step in range(saves):
        time.sleep(STEP["checkpoints"])
        zlib.crc32(state)
        saved.append(save(directory, step, state))
        if len(saved) > 2:
            saved.pop(0).unlink()
    for name in saved:
        if name == saved[-1] and name.read_bytes() != state:
            sys.exit("the last checkpoint has something else")
        name.unlink()


def main():
    _, what, job, directory, count = sys.argv
    directory = pathlib.Path(directory)
    if what == "make":
        return make(job, directory, int(count))
    began = time.monotonic()
    {"images": images, "volumes": volumes, "checkpoints": checkpoints}[job](directory, int(count))
    print(time.monotonic() - began, flush=True)


if __name__ == "__main__":
    main()
