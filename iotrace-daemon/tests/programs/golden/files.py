"""Files of several phases, with names that no format likes, used by two processes."""

import os, sys
root = os.fsencode(sys.argv[1])
data = root + b"/data/train"
for path in (data, root + b"/checkpoints"):
    os.makedirs(path)
def write(path, sizes):
    with open(path, "wb", buffering=0) as file:
        for size in sizes:
            file.write(b"x" * size)
        os.fsync(file.fileno())
def read(path, size):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, size):
        pass
    os.close(fd)
names = [b"plain.npy", b"a,\"b\"\n c.npy", b"\xff\xfe.npy", b"=1+1.npy", "\u00e4\u20ac.npy".encode()]
for index, name in enumerate(names):
    write(data + b"/" + name, [4096] * 3 + [1000 * (index + 1)])
write(root + b"/checkpoints/step_100.pt", [1 << 20] * 3)
if os.fork() == 0:
    for name in names:
        read(data + b"/" + name, 1000)
    read(root + b"/checkpoints/step_100.pt", 300000)
    os._exit(0)
os.wait()
# Only written.
write(root + b"/checkpoints/step_200.pt", [1 << 20, 5])
