"""Trains for two epochs and saves after each, with a pause in between."""

import os, sys, time
root = sys.argv[1]
os.makedirs(root + "/data/train")
for index in range(4):
    with open(f"{root}/data/train/{index}.npy", "wb") as file:
        file.write(b"x" * 200_000)
for epoch in range(2):
    os.makedirs(f"{root}/checkpoints/step_{epoch}")
    for index in range(4):
        fd = os.open(f"{root}/data/train/{index}.npy", os.O_RDONLY)
        while os.read(fd, 50_000):
            pass
        os.close(fd)
    time.sleep(0.2)
    with open(f"{root}/checkpoints/step_{epoch}/model.pt", "wb") as file:
        file.write(b"x" * 3_000_000)
        os.fsync(file.fileno())
    time.sleep(0.2)
