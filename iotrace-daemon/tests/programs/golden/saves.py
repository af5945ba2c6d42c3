"""Saves by small writes, or by large ones with a sync; reads what is there a first time, or not at all."""

import os, sys
root, size, saves = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(root + "/data/train")
os.makedirs(root + "/checkpoints")
for index in range(3):
    with open(f"{root}/data/train/{index}.npy", "wb") as file:
        file.write(b"x" * 500_000)
for index in range(3):
    fd = os.open(f"{root}/data/train/{index}.npy", os.O_RDONLY)
    while os.read(fd, size):
        pass
    os.close(fd)
for save in range(saves):
    with open(f"{root}/checkpoints/step_{save}.pt", "wb") as file:
        file.write(b"x" * 1_000_000)
        os.fsync(file.fileno())
