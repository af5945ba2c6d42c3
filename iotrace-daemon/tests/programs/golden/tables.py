"""Reads, writes, renames and fails, in two processes."""

import os, sys, time
root = sys.argv[1]
os.makedirs(root + "/data/train")
os.makedirs(root + "/checkpoints")
for index in range(6):
    with open(f"{root}/data/train/{index}.npy", "wb") as file:
        file.write(b"x" * (100_000 * (index + 1)))
if os.fork() == 0:
    for index in range(6):
        fd = os.open(f"{root}/data/train/{index}.npy", os.O_RDONLY)
        while os.read(fd, 4096):
            pass
        os.close(fd)
        time.sleep(0.03)
    os._exit(0)
os.wait()
with open(root + "/checkpoints/a.tmp", "wb") as file:
    file.write(b"x" * 3_000_000)
    os.fsync(file.fileno())
os.rename(root + "/checkpoints/a.tmp", root + "/checkpoints/a.pt")
for _ in range(3):
    try:
        os.open(root + "/nothing", os.O_RDONLY)
    except FileNotFoundError:
        pass
