#!/usr/bin/env python3
"""Load tensors into PyTorch from files that are mapped, cold: a safetensors file, and an array of NumPy's.

    python3 load_tensors.py --data DIR --make && python3 load_tensors.py --data DIR --output DIR

At the end it prints one line of JSON with what it did: of each file the bytes that lay in memory before and after, by
mincore(2), which a tracer must agree with.
"""

import argparse
import ctypes
import json
import mmap
import os
import pathlib

import numpy
import safetensors.torch
import torch

LAYERS = 16
SHAPE = (1024, 512)
FILES = ("model.safetensors", "train.npy")


def layer(number):
    """A tensor whose sum is known."""
    return torch.full(SHAPE, float(number))


def make(data):
    """Write the files."""
    data.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({f"layer.{n}": layer(n) for n in range(LAYERS)}, data / FILES[0])
    numpy.save(data / FILES[1], torch.stack([layer(n) for n in range(LAYERS)]).numpy())


def drop(path):
    """Take a file out of memory."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_memory(path):
    """Bytes of a file's pages that are in memory."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        with mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE) as mapped:
            start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
            pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
            if ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(start), ctypes.c_size_t(size), pages) != 0:
                raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


def load_tensors(path):
    """The sum of all tensors of a safetensors file."""
    return sum(float(tensor.sum()) for tensor in safetensors.torch.load_file(path).values())


def load_array(path):
    """The sum of an array that is mapped."""
    return float(torch.from_numpy(numpy.load(path, mmap_mode="c")).sum())


def main():
    """Load each file once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True, help="directory of the files")
    parser.add_argument("--output", type=pathlib.Path, help="not used: nothing is written")
    parser.add_argument("--make", action="store_true", help="only make the files")
    options = parser.parse_args()
    if options.make:
        make(options.data)
        return
    expected = sum(range(LAYERS)) * SHAPE[0] * SHAPE[1]
    files = {}
    for name, load in zip(FILES, (load_tensors, load_array)):
        path = options.data / name
        drop(path)
        before = in_memory(path)
        if load(path) != expected:
            raise SystemExit(f"{path} has other tensors than were saved")
        files[name] = {"before": before, "after": in_memory(path), "size": path.stat().st_size}
    framework = f"PyTorch {torch.__version__}, safetensors {safetensors.__version__}"
    print(json.dumps({"framework": framework, "files": files}), flush=True)


if __name__ == "__main__":
    main()
