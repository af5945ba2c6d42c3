#!/usr/bin/env python3
"""Train a small network on images of CIFAR-10's shape with PyTorch: shuffled samples read one by one by
DataLoader workers, a checkpoint per epoch, and the last one loaded again at the end.

    python3 train_pytorch.py --data DIR --make && python3 train_pytorch.py --data DIR --output DIR

At the end it prints one line of JSON with what it did, which a tracer must agree with.
"""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import cifar10


class Images(Dataset):
    """Images in files of fixed-size records; each worker opens the files for itself, at its first sample."""

    def __init__(self, files, reads):
        self.files = files
        self.reads = reads
        self.descriptors = None

    def __len__(self):
        return len(self.files) * cifar10.IMAGES

    def __getitem__(self, index):
        if self.descriptors is None:
            self.descriptors = [os.open(file, os.O_RDONLY) for file in self.files]
        file, record = divmod(index, cifar10.IMAGES)
        data = os.pread(self.descriptors[file], cifar10.RECORD, record * cifar10.RECORD)
        with self.reads.get_lock():
            self.reads.value += 1
        image = torch.frombuffer(bytearray(data[1:]), dtype=torch.uint8)
        return image.view(3, 32, 32).float() / 255, data[0]


def model():
    """A network that is small enough for two processors to train it in seconds."""
    return nn.Sequential(
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(3 * 8 * 8, 256),
        nn.ReLU(),
        nn.Linear(256, cifar10.CLASSES),
    )


def train(options):
    """All epochs; gives what was done."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    reads = torch.multiprocessing.get_context("fork").Value("q", 0)
    data = Images(cifar10.batch_files(options.data), reads)
    loader = DataLoader(data, batch_size=options.batch, shuffle=True, num_workers=options.workers)
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    started = time.monotonic()
    saved = []
    with open(options.output / "logs" / "train.log", "w", encoding="utf-8") as log:
        for epoch in range(1, options.epochs + 1):
            total = 0.0
            for images, labels in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(network(images), labels)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(labels)
            log.write(f"epoch {epoch} loss {total / len(data):.4f}\n")
            log.flush()
            path = options.output / "checkpoints" / f"epoch-{epoch:03d}.pt"
            torch.save({"epoch": epoch, "model": network.state_dict(), "optimizer": optimizer.state_dict()}, path)
            saved.append(path)
    network.load_state_dict(torch.load(saved[-1])["model"])
    return {
        "framework": f"PyTorch {torch.__version__}",
        "seconds": round(time.monotonic() - started, 3),
        "epochs": options.epochs,
        "loaders": options.epochs * options.workers,
        "training_files": len(data.files),
        "training_reads": reads.value,
        "training_bytes": reads.value * cifar10.RECORD,
        "checkpoints": len(saved),
        "checkpoint_files": len(saved),
        "checkpoint_bytes": sum(path.stat().st_size for path in saved),
        "restores": 1,
    }


if __name__ == "__main__":
    cifar10.tell(**train(cifar10.arguments(__doc__.splitlines()[0])))
